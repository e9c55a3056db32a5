//! The configuration file: repositories and profiles with names.
//!
//! A profile sets options of commands, under the names that they have on the command line. So
//! clap's definition of names and values is the only one: the settings of a profile become defaults
//! of the arguments.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, Id};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::exit::{Failure, Result};
use crate::format;
use crate::variables;

/// A `[repositories.NAME]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repository {
    /// The value of `--repo`.
    pub url: String,
    /// The file with its password.
    pub password_file: Option<PathBuf>,
    /// The command that prints its password.
    pub password_command: Option<OsString>,
}

/// `definition`, with what the profile that `args` name says as defaults.
///
/// An option that is given on the command line goes before the profile, and so does one that
/// excludes it. Precedence: command line, profile, environment.
///
/// # Errors
/// [`Failure::Usage`] for a file that cannot be read or has mistakes, with the line.
pub fn apply_profile(definition: Command, args: &[OsString]) -> Result<Command> {
    // Missing arguments may be in the profile; wrong ones are found when the arguments are parsed
    // strictly.
    let lenient = definition.clone().ignore_errors(true);
    let Ok(given) = lenient.try_get_matches_from(args) else {
        // Help was asked for.
        return Ok(definition);
    };
    let mut settings = Vec::new();
    if let Some(name) = given.get_one::<String>("profile") {
        let file = File::load(given.get_one::<PathBuf>("config"), &definition)?;
        let Some(found) = file.profiles.get(name) else {
            return Err(file.unknown("profile", name, file.profiles.keys()));
        };
        settings.clone_from(found);
    } else if given.value_source("config").is_some() {
        // A file that is named explicitly is checked in any case.
        File::load(given.get_one::<PathBuf>("config"), &definition)?;
    }
    Ok(set_defaults(definition, &given, &settings))
}

/// The repository of this name in the file `config`, or in the one at the usual place.
///
/// # Errors
/// As [`apply_profile`].
pub fn repository(config: Option<&PathBuf>, name: &str) -> Result<Repository> {
    let definition = crate::definition();
    let mut file = File::load(config, &definition)?;
    match file.repositories.remove(name) {
        Some(repository) => Ok(repository),
        None => Err(file.unknown("repository", name, file.repositories.keys())),
    }
}

/// A profile with something to back up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The profile.
    pub profile: String,
    /// The repository, as `--repo` has it.
    pub repo: String,
    /// What is backed up.
    pub paths: Vec<String>,
}

/// All repositories of the file `config`, or of the one at the usual place, by their names, and all
/// profiles that back something up.
///
/// # Errors
/// As [`apply_profile`].
pub fn everything(config: Option<&PathBuf>) -> Result<(BTreeMap<String, Repository>, Vec<Backup>)> {
    let definition = crate::definition();
    let file = File::load(config, &definition)?;
    let backup = |(profile, settings): (&String, &Vec<Setting>)| {
        let values = |path: &[&str], option: &str| {
            let mut settings = settings.iter();
            let found = settings.find(|setting| setting.path == path && setting.option == option);
            found.map(|setting| setting.values.clone())
        };
        Some(Backup {
            profile: profile.clone(),
            repo: values(&[], "repo")?.pop()?,
            paths: values(&["backup"], "paths")?,
        })
    };
    let mut backups: Vec<Backup> = file.profiles.iter().filter_map(backup).collect();
    backups.sort_by(|a, b| a.profile.cmp(&b.profile));
    Ok((file.repositories.into_iter().collect(), backups))
}

/// Whether there is a configuration file at the usual place, or `config` names one.
pub fn is_there(config: Option<&PathBuf>) -> bool {
    config.is_some() || default_path().is_ok_and(|path| path.exists())
}

/// A value for an option of a command.
#[derive(Clone)]
struct Setting {
    /// The subcommands that lead to it; none for an option of all commands.
    path: Vec<String>,
    option: Id,
    values: Vec<String>,
}

/// A configuration file.
struct File<'d> {
    path: PathBuf,
    text: String,
    definition: &'d Command,
    repositories: HashMap<String, Repository>,
    profiles: HashMap<String, Vec<Setting>>,
}

type Key<'t> = Spanned<Cow<'t, str>>;
type Value<'t> = Spanned<DeValue<'t>>;

impl<'d> File<'d> {
    fn load(path: Option<&PathBuf>, definition: &'d Command) -> Result<Self> {
        let path = match path {
            Some(path) => path.clone(),
            None => default_path()?,
        };
        let text = std::fs::read_to_string(&path).map_err(|error| {
            let path = format::path(&path);
            Failure::Usage(format!(
                "cannot read the configuration file {path}: {error}"
            ))
        })?;
        let mut file = Self {
            path,
            text: String::new(),
            definition,
            repositories: HashMap::new(),
            profiles: HashMap::new(),
        };
        file.text.clone_from(&text);
        file.read(&text)?;
        Ok(file)
    }

    fn read(&mut self, text: &str) -> Result<()> {
        let table = DeTable::parse(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            self.wrong(start, error.message())
        })?;
        for (section, value) in table.get_ref() {
            let section_name = section.get_ref().as_ref();
            if !["repositories", "profiles"].contains(&section_name) {
                let known = ["repositories", "profiles"].map(str::to_owned);
                let known = suggest(section_name, known);
                let what = format!("{section_name} means nothing here{known}");
                return Err(self.wrong(section.span().start, &what));
            }
            for (name, value) in self.table(section, value)? {
                let table = self.table(name, value)?;
                if section_name == "repositories" {
                    let repository = self.read_repository(name, table)?;
                    self.repositories
                        .insert(name.get_ref().to_string(), repository);
                } else {
                    let mut settings = Vec::new();
                    self.read_command(&[], table, &mut settings)?;
                    self.profiles.insert(name.get_ref().to_string(), settings);
                }
            }
        }
        Ok(())
    }

    /// An error with the line of the mistake.
    fn wrong(&self, at: usize, what: &str) -> Failure {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let path = format::path(&self.path);
        Failure::Usage(format!("{path}, line {line}: {}", format::printable(what)))
    }

    fn unknown<'n>(
        &self,
        what: &str,
        name: &str,
        known: impl Iterator<Item = &'n String>,
    ) -> Failure {
        let path = self.path.display();
        let suggestion = suggest(name, known.cloned());
        Failure::Usage(format::printable(&format!(
            "no {what} is called {name} in {path}{suggestion}"
        )))
    }

    fn table<'v, 't>(&self, key: &Key<'_>, value: &'v Value<'t>) -> Result<&'v DeTable<'t>> {
        value.get_ref().as_table().ok_or_else(|| {
            let what = format!("{} is no table of keys and values", key.get_ref());
            self.wrong(key.span().start, &what)
        })
    }

    fn read_repository(&self, name: &Key<'_>, table: &DeTable<'_>) -> Result<Repository> {
        let mut repository = Repository::default();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "url" => repository.url = self.text(key, value)?,
                "password-file" => repository.password_file = Some(self.text(key, value)?.into()),
                "password-command" => {
                    repository.password_command = Some(self.text(key, value)?.into());
                }
                other => {
                    let known = ["url", "password-file", "password-command"].map(str::to_owned);
                    let known = suggest(other, known);
                    let what = format!("a repository has no {other}{known}");
                    return Err(self.wrong(key.span().start, &what));
                }
            }
        }
        let wrong = |what: &str| {
            let what = format!("the repository {} has {what}", name.get_ref());
            Err(self.wrong(name.span().start, &what))
        };
        if repository.url.is_empty() {
            return wrong("no url");
        }
        if repository.password_file.is_some() && repository.password_command.is_some() {
            return wrong("both a password-file and a password-command: choose one");
        }
        Ok(repository)
    }

    /// Reads what a table sets for the command at this path: its options, and tables for its
    /// subcommands.
    fn read_command(
        &self,
        path: &[String],
        table: &DeTable<'_>,
        settings: &mut Vec<Setting>,
    ) -> Result<()> {
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            match (self.command(path).find_subcommand(name), value.get_ref()) {
                (Some(_), DeValue::Table(table)) => {
                    let path = [path, &[name.to_owned()]].concat();
                    self.read_command(&path, table, settings)?;
                }
                _ => {
                    let setting = self.read_setting(path, key, value, settings)?;
                    settings.push(setting);
                }
            }
        }
        Ok(())
    }

    fn command(&self, path: &[String]) -> &'d Command {
        path.iter().fold(self.definition, |command, name| {
            command.find_subcommand(name).unwrap_or(command)
        })
    }

    fn read_setting(
        &self,
        path: &[String],
        key: &Key<'_>,
        value: &Value<'_>,
        others: &[Setting],
    ) -> Result<Setting> {
        let name = key.get_ref().as_ref();
        let command = self.command(path);
        // The options that choose file and profile cannot be in the file.
        let settable = |arg: &&Arg| {
            !arg.is_hide_set() && !["config", "profile"].contains(&arg.get_id().as_str())
        };
        let args = || command.get_arguments().filter(settable);
        let Some(arg) = args().find(|arg| name_of(arg) == name) else {
            let commands = command.get_subcommands();
            let known = args()
                .map(|arg| name_of(arg).into_owned())
                .chain(commands.map(|command| command.get_name().to_owned()));
            let of = match path {
                [] => "no option of all commands, and no command".to_owned(),
                path => format!("no option of `tabane {}`", path.join(" ")),
            };
            let what = format!("{name} is {of}{}", suggest(name, known));
            return Err(self.wrong(key.span().start, &what));
        };
        let setting = Setting {
            path: path.to_vec(),
            option: arg.get_id().clone(),
            values: self.values(arg, key, value)?,
        };
        self.validate(&setting)
            .map_err(|why| self.wrong(value.span().start, &format!("{name}: {why}")))?;
        let excluded = |other: &&Setting| {
            let other = args().find(|arg| *arg.get_id() == other.option);
            other.is_some_and(|other| exclude_each_other(command, arg, other))
        };
        let mut others = others.iter().filter(|other| other.path == path);
        if let Some(other) = others.find(excluded) {
            let other = other.option.as_str().replace('_', "-");
            let what = format!("{name} and {other} exclude each other");
            return Err(self.wrong(key.span().start, &what));
        }
        Ok(setting)
    }

    /// The values of an option; empty for a flag set to false.
    fn values(&self, arg: &Arg, key: &Key<'_>, value: &Value<'_>) -> Result<Vec<String>> {
        let wrong = |what: &str| {
            let what = format!("{} {what}", key.get_ref());
            Err(self.wrong(value.span().start, &what))
        };
        match (arg.get_action(), value.get_ref()) {
            (ArgAction::SetTrue, DeValue::Boolean(true)) => Ok(vec!["true".to_owned()]),
            (ArgAction::SetTrue, DeValue::Boolean(false)) => Ok(Vec::new()),
            (ArgAction::SetTrue, _) => wrong("is true or false"),
            (ArgAction::Append, DeValue::Array(list)) => {
                list.iter().map(|value| self.text(key, value)).collect()
            }
            (_, DeValue::Array(_)) => wrong("takes one value, not a list"),
            _ => Ok(vec![self.text(key, value)?]),
        }
    }

    /// Text or a number. `~/` at its beginning is the home directory, as it would be in a shell.
    fn text(&self, key: &Key<'_>, value: &Value<'_>) -> Result<String> {
        match value.get_ref() {
            DeValue::String(text) => match (text.strip_prefix("~/"), std::env::var("HOME")) {
                (Some(rest), Ok(home)) => Ok(format!("{home}/{rest}")),
                _ => Ok(text.to_string()),
            },
            DeValue::Integer(number) => Ok(number.to_string()),
            DeValue::Float(number) => Ok(number.to_string()),
            _ => {
                let what = format!("{} takes text or a number", key.get_ref());
                Err(self.wrong(value.span().start, &what))
            }
        }
    }

    /// Whether the option would take these values on the command line; if not, why.
    fn validate(&self, setting: &Setting) -> std::result::Result<(), String> {
        let without_env = variables::remove(self.definition.clone());
        let definition = set_default(without_env, setting);
        let name = self.definition.get_name().to_owned();
        let args = std::iter::once(name).chain(setting.path.iter().cloned());
        match definition.try_get_matches_from(args) {
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::ValueValidation | ErrorKind::InvalidValue
                ) =>
            {
                let text = error.render().to_string();
                let first = text.split("\n\n").next().unwrap_or_default();
                let first = first.strip_prefix("error: ").unwrap_or(first);
                Err(first.split_whitespace().collect::<Vec<_>>().join(" "))
            }
            // Other errors concern arguments that are missing here.
            _ => Ok(()),
        }
    }
}

/// `$XDG_CONFIG_HOME/tabane/config.toml`, or the same below `~/.config`.
fn default_path() -> Result<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from);
    // The XDG specification has it that a folder which is not absolute does not count.
    let config = folder("XDG_CONFIG_HOME").filter(|folder| folder.is_absolute());
    let config = config.or_else(|| Some(folder("HOME")?.join(".config")));
    match config {
        Some(config) => Ok(config.join("tabane/config.toml")),
        None => Err(Failure::Usage(
            "HOME is not set, so nothing says where the configuration file is: use --config FILE"
                .to_owned(),
        )),
    }
}

/// An option's name in the file: as on the command line, without `--`.
fn name_of(arg: &Arg) -> Cow<'_, str> {
    match arg.get_long() {
        Some(long) => long.into(),
        None => arg.get_id().as_str().replace('_', "-").into(),
    }
}

fn exclude_each_other(command: &Command, one: &Arg, other: &Arg) -> bool {
    let excludes = |one, other: &Arg| {
        let excluded = command.get_arg_conflicts_with(one);
        excluded.iter().any(|arg| arg.get_id() == other.get_id())
    };
    excludes(one, other) || excludes(other, one)
}

/// ` (did you mean x?)`, if one of the names is close to `name`.
fn suggest(name: &str, known: impl IntoIterator<Item = String>) -> String {
    let near = |known: String| (strsim::normalized_damerau_levenshtein(name, &known), known);
    let near = known
        .into_iter()
        .map(near)
        .filter(|(nearness, _)| *nearness > 0.6);
    match near.max_by(|(a, _), (b, _)| a.total_cmp(b)) {
        Some((_, known)) => format!(" (did you mean {known}?)"),
        None => String::new(),
    }
}

/// Makes settings the defaults of their options. Settings that conflict with the command line are
/// left out, and so are such variables of the environment.
fn set_defaults(mut definition: Command, given: &ArgMatches, settings: &[Setting]) -> Command {
    let excluded = excluded(&definition, given);
    let is_excluded = |setting: &&Setting| {
        let mut excluded = excluded.iter();
        excluded.any(|(path, option)| *path == setting.path && *option == setting.option)
    };
    let set = settings.iter().filter(|setting| !setting.values.is_empty());
    for setting in set.filter(|setting| !is_excluded(setting)) {
        definition = set_default(definition, setting);
    }
    for (path, option) in &excluded {
        definition = mut_option(definition, path, option.as_str(), |arg| arg.env(None));
    }
    definition
}

/// Options that conflict with ones on the command line, each with the path of its subcommand.
fn excluded(definition: &Command, given: &ArgMatches) -> Vec<(Vec<String>, Id)> {
    let (mut command, mut given, mut path) = (definition, given, Vec::new());
    let mut excluded = Vec::new();
    loop {
        let is_given = |arg: &Arg| {
            let id = arg.get_id().as_str();
            // Arguments that clap itself adds are not in the matches.
            given.try_contains_id(id).is_ok()
                && given.value_source(id) == Some(ValueSource::CommandLine)
        };
        let (present, absent): (Vec<&Arg>, Vec<&Arg>) =
            command.get_arguments().partition(|arg| is_given(arg));
        let absent = absent.into_iter().filter(|arg| {
            let mut present = present.iter();
            present.any(|present| exclude_each_other(command, arg, present))
        });
        excluded.extend(absent.map(|arg| (path.clone(), arg.get_id().clone())));
        let Some((name, below)) = given.subcommand() else {
            return excluded;
        };
        let Some(next) = command.find_subcommand(name) else {
            return excluded;
        };
        path.push(name.to_owned());
        (command, given) = (next, below);
    }
}

/// Before a default, the environment would count.
fn set_default(definition: Command, setting: &Setting) -> Command {
    mut_option(definition, &setting.path, setting.option.as_str(), |arg| {
        arg.env(None)
            .required(false)
            .default_values(setting.values.iter().cloned())
    })
}

fn mut_option(
    command: Command,
    path: &[String],
    option: &str,
    change: impl FnOnce(Arg) -> Arg,
) -> Command {
    match path {
        [] => command.mut_arg(option, change),
        [name, path @ ..] => {
            command.mut_subcommand(name, |command| mut_option(command, path, option, change))
        }
    }
}
