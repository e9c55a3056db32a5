//! The options that all commands take, and how they lead to a repository.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::{
    FalseyValueParser, PossibleValuesParser, TypedValueParser, UnknownArgumentValueParser,
};
use clap::{Arg, ArgAction, Args, Command};
use tabane_engine::gpu;
use tabane_index::Cache;
use tabane_storage::{
    Lock, LockMode, Name, ObjectKind, RemoteOptions, Storage, StorageError, StorageErrorKind,
    TlsOptions,
};
use tabane_store::{Error, ImportedKey, InitOptions, Location, Memory, Password, Repository};
use tabane_striped::cluster::{self, Plan};
use tabane_striped::{StripedStorage, set_file};

use crate::advice;
use crate::config;
use crate::exit::{Failure, Result};
use crate::format;
use crate::output::warn;
use crate::password;

/// Options that may stand before or behind the name of the command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    #[command(flatten)]
    pub repository: RepositoryArgs,
    /// Take options from this profile of the configuration file
    #[arg(
        short = 'P',
        long,
        global = true,
        value_name = "NAME",
        env = "TABANE_PROFILE"
    )]
    #[arg(hide_env_values = true, hide_short_help = true)]
    pub profile: Option<String>,
    /// The configuration file [default: ~/.config/tabane/config.toml]
    #[arg(long, global = true, value_name = "FILE", env = "TABANE_CONFIG")]
    #[arg(hide_env_values = true, hide_short_help = true)]
    pub config: Option<PathBuf>,
    /// Print JSON, one object a line
    #[arg(long, global = true, env = "TABANE_JSON", hide_env_values = true)]
    #[arg(value_parser = FalseyValueParser::new())]
    pub json: bool,
    /// Print nothing but errors and what was asked for
    #[arg(
        short,
        long,
        global = true,
        env = "TABANE_QUIET",
        hide_env_values = true
    )]
    #[arg(conflicts_with = "verbose", value_parser = FalseyValueParser::new())]
    pub quiet: bool,
    /// Print more; -vv even more
    #[arg(
        short,
        long,
        global = true,
        env = "TABANE_VERBOSE",
        hide_env_values = true
    )]
    #[arg(action = ArgAction::Count)]
    pub verbose: u8,
}

/// Which repository, and how it is used. Commands that open none do not have these options: see
/// [`without_repository`].
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub struct RepositoryArgs {
    /// The repository: a directory, a URL, or @NAME
    ///
    /// URLs are such as s3://BUCKET/PREFIX; striped:FILE and cluster:FILE name a set of places, and
    /// @NAME a repository of the configuration file.
    #[arg(
        short,
        long,
        global = true,
        value_name = "PLACE|@NAME",
        env = "TABANE_REPOSITORY"
    )]
    #[arg(hide_env_values = true)]
    pub repo: Option<OsString>,
    /// Read the password from this file [env: TABANE_PASSWORD_FILE]
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        conflicts_with = "password_command"
    )]
    pub password_file: Option<PathBuf>,
    /// Read the password from what this command prints [env: TABANE_PASSWORD_COMMAND]
    #[arg(long, global = true, value_name = "COMMAND", hide_short_help = true)]
    pub password_command: Option<OsString>,
    /// Keep what is known of repositories in this directory [default: tabane in $XDG_CACHE_HOME or
    /// ~/.cache]
    #[arg(long, global = true, value_name = "DIR", env = "TABANE_CACHE_DIR")]
    #[arg(hide_env_values = true, hide_short_help = true)]
    pub cache_dir: Option<PathBuf>,
    /// Remember in this directory what was seen of repositories, to notice an older one or lost
    /// snapshots [default: tabane in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, global = true, value_name = "DIR", env = "TABANE_STATE_DIR")]
    #[arg(hide_env_values = true, hide_short_help = true)]
    pub state_dir: Option<PathBuf>,
    /// Neither use nor keep what is known of repositories
    #[arg(long, global = true, env = "TABANE_NO_CACHE", hide_env_values = true)]
    #[arg(value_parser = FalseyValueParser::new(), hide_short_help = true)]
    pub no_cache: bool,
    /// What a graphics card hashes: bundles that it would finish before a core (auto), nothing
    /// (off), all that it can (only)
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        env = "TABANE_GPU",
        default_value = "off"
    )]
    #[arg(value_parser = PossibleValuesParser::new(gpu::Mode::NAMES)
        .try_map(|name| name.parse::<gpu::Mode>()))]
    #[arg(hide_env_values = true, hide_short_help = true)]
    pub gpu: gpu::Mode,
    #[command(flatten)]
    pub network: Network,
    /// Whether this is the repository that something is copied from, whose password is in variables
    /// of its own.
    #[arg(skip)]
    pub is_source: bool,
}

/// `command`, which opens no repository, without the options of repositories, except `used`.
///
/// clap hands global options down to every command that has none of this name. So the command gets
/// hidden ones, which report an unknown option.
pub fn without_repository(command: Command, used: &[&str]) -> Command {
    let name = command.get_name().to_owned();
    let refuse = |arg: Arg| {
        let arg = match arg.get_action() {
            ArgAction::SetTrue => arg.num_args(0).default_missing_value(""),
            _ => arg,
        };
        let why = format!("`tabane {name}` opens no repository");
        arg.action(ArgAction::Set)
            .hide(true)
            .env(None)
            .default_value(None)
            .value_parser(UnknownArgumentValueParser::suggest(why))
    };
    let all = RepositoryArgs::augment_args(Command::new("repository"));
    let unused = all
        .get_arguments()
        .filter(|arg| !used.contains(&arg.get_id().as_str()));
    unused.fold(command, |command, arg| {
        let id = arg.get_id();
        // Commands where -r means something else have a --repo of their own.
        let has_own = command.get_arguments().any(|own| own.get_id() == id);
        if has_own {
            command.mut_arg(id.clone(), refuse)
        } else {
            command.arg(refuse(arg.clone()))
        }
    })
}

/// Options for the repository that something is copied from.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The source")]
pub struct FromRepository {
    /// Where the source is: a directory, a URL such as s3://BUCKET/PREFIX, or @NAME for one of the
    /// configuration file
    #[arg(long, value_name = "PLACE|@NAME", env = "TABANE_FROM_REPOSITORY")]
    #[arg(hide_env_values = true)]
    pub from_repo: Option<OsString>,
    #[command(flatten)]
    pub password: SourcePassword,
}

/// The password of the repository that something is copied from.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The source")]
pub struct SourcePassword {
    /// Read the password of the source from this file [env: TABANE_FROM_PASSWORD_FILE]
    #[arg(long, value_name = "FILE", conflicts_with = "from_password_command")]
    pub from_password_file: Option<PathBuf>,
    /// Read the password of the source from what this command prints [env:
    /// TABANE_FROM_PASSWORD_COMMAND]
    #[arg(long, value_name = "COMMAND", hide_short_help = true)]
    pub from_password_command: Option<OsString>,
}

impl Global {
    /// Opens the graphics card if it is all that is to hash.
    pub fn open_card(&self) -> Result<()> {
        if self.repository.gpu == gpu::Mode::Only {
            gpu::open().map_err(|error| {
                Failure::Other(format!(
                    "--gpu=only: {error}: mend that, or leave the work to the processor with \
                     --gpu=auto"
                ))
            })?;
        }
        Ok(())
    }
}

impl FromRepository {
    /// `global`, but with the source for its repository.
    pub fn of(&self, global: &Global) -> Result<Global> {
        if self.from_repo.is_none() {
            return Err(Failure::Usage(
                "no source given: use --from-repo PLACE, or set TABANE_FROM_REPOSITORY".to_owned(),
            ));
        }
        let mut source = global.clone();
        source.repository.repo.clone_from(&self.from_repo);
        Ok(self.password.of(&source))
    }
}

impl SourcePassword {
    /// `global`, but with the password of the source.
    pub fn of(&self, global: &Global) -> Global {
        let mut source = global.clone();
        let repository = &mut source.repository;
        repository
            .password_file
            .clone_from(&self.from_password_file);
        repository
            .password_command
            .clone_from(&self.from_password_command);
        repository.is_source = true;
        source
    }
}

/// Reads the mode of a lock.
fn parse_lock_mode(text: &str) -> std::result::Result<LockMode, String> {
    let modes = [LockMode::Governance, LockMode::Compliance];
    let found = modes
        .into_iter()
        .find(|mode| mode.name().eq_ignore_ascii_case(text));
    found.ok_or_else(|| "write governance or compliance".to_owned())
}

/// Reads what knows how to read itself.
pub fn parse<T: FromStr<Err = Error>>(text: &str) -> std::result::Result<T, String> {
    text.parse().map_err(|error: Error| error.to_string())
}

/// Requests at a time; `None` for a number that follows the latency.
#[derive(Clone, Copy, Debug)]
pub struct Connections(Option<usize>);

fn parse_connections(text: &str) -> std::result::Result<Connections, String> {
    match text.parse() {
        _ if text == "auto" => Ok(Connections(None)),
        Ok(number @ 1..=256) => Ok(Connections(Some(number))),
        _ => Err("it is neither a number from 1 to 256 nor auto".to_owned()),
    }
}

/// Options of repositories behind a network.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub struct Network {
    /// Requests to a server at a time: 1 to 256, or auto, which takes more for a server that is
    /// farther away
    #[arg(long, global = true, hide_short_help = true, value_name = "N")]
    #[arg(default_value = "auto", value_parser = parse_connections)]
    pub connections: Connections,
    /// Send to a server or a cluster at most this many KiB a second
    #[arg(long, global = true, hide_short_help = true, value_name = "KIB")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub limit_upload: Option<u64>,
    /// Receive from a server or a cluster at most this many KiB a second
    #[arg(long, global = true, hide_short_help = true, value_name = "KIB")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub limit_download: Option<u64>,
    /// Try again for this long when a server, or more than two nodes of a cluster, do not
    /// answer
    #[arg(long, global = true, hide_short_help = true, value_name = "DURATION")]
    #[arg(default_value = "5m", value_parser = format::parse_duration)]
    pub retry_for: Duration,
    /// Trust the authorities whose certificates are in this file (PEM), beside the system's
    /// (repeatable)
    ///
    /// A server's own certificate does as well, if it is not one of an authority
    /// (`basicConstraints=CA:FALSE`).
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    pub cacert: Vec<PathBuf>,
    /// Be known to the server by the certificate and key in this file (PEM)
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    pub tls_client_cert: Option<PathBuf>,
    /// Do not check the certificate of an object store: whoever is in between can read and change
    /// requests
    #[arg(long, global = true, hide_short_help = true)]
    pub insecure_tls: bool,
    /// Store packs with contents of files in this storage class of the object store
    ///
    /// Directories, index and snapshots stay in the default class, so that only restores, checks of
    /// data and prunes that copy read from this one. If it is an archive, `tabane warm-up` first.
    #[arg(long, global = true, hide_short_help = true, value_name = "CLASS")]
    pub storage_class: Option<String>,
    /// Lock new objects in S3 for this long, so that nobody can remove them, and extend the locks
    /// of what snapshots need: 30d
    #[arg(long, global = true, hide_short_help = true, value_name = "DURATION")]
    #[arg(value_parser = format::parse_lock_period)]
    pub lock_for: Option<Duration>,
    /// Whether users with a special right can end a lock (governance), or nobody (compliance)
    #[arg(long, global = true, hide_short_help = true, value_name = "MODE")]
    #[arg(default_value = "governance", value_parser = parse_lock_mode)]
    pub lock_mode: LockMode,
    /// How data go to the nodes of a cluster: auto, direct, chain, shared or coded
    #[arg(long, global = true, hide_short_help = true, value_name = "PLAN")]
    #[arg(default_value = "auto")]
    pub plan: Plan,
}

/// What a timer needs to know of a repository.
pub struct Scheduled {
    /// Options for all commands.
    pub options: Vec<String>,
    /// The directory of the repository, if it is in one.
    pub directory: Option<PathBuf>,
}

/// What to do about a missing repository.
#[derive(Clone, Copy)]
enum Absent {
    Fail,
    Create,
}

impl Global {
    /// These options, with the name of a repository replaced by what the configuration file says of
    /// it.
    fn resolve_name(&self) -> Result<Self> {
        let name = self
            .repository
            .repo
            .as_ref()
            .and_then(|repo| repo.to_str()?.strip_prefix('@'));
        let Some(name) = name else {
            return Ok(self.clone());
        };
        let named = config::repository(self.config.as_ref(), name)?;
        let mut resolved = self.clone();
        let repository = &mut resolved.repository;
        repository.repo = Some(named.url.into());
        if repository.password_file.is_none() && repository.password_command.is_none() {
            repository.password_file = named.password_file;
            repository.password_command = named.password_command;
        }
        Ok(resolved)
    }

    /// These options for another repository, which has the password of this one unless the
    /// configuration file says its own.
    pub fn with_repository(&self, place: &OsStr) -> Result<Self> {
        let mut other = self.clone();
        other.repository.repo = Some(place.to_owned());
        other.repository.password_file = None;
        other.repository.password_command = None;
        let mut other = other.resolve_name()?;
        let repository = &mut other.repository;
        if repository.password_file.is_none() && repository.password_command.is_none() {
            let this = self.resolve_name()?.repository;
            repository.password_file = this.password_file;
            repository.password_command = this.password_command;
        }
        Ok(other)
    }

    /// The place that `--repo` names.
    fn location(&self) -> Result<Location> {
        let given = match &self.repository.repo {
            Some(given) if !given.is_empty() => given,
            _ => {
                let text = "no repository given: use --repo PLACE, or set TABANE_REPOSITORY";
                return Err(Failure::Usage(text.to_owned()));
            }
        };
        Location::parse(given).map_err(Failure::Usage)
    }

    /// The directory that `--repo` names, if it is one.
    pub fn local_directory(&self) -> Result<Option<PathBuf>> {
        Ok(match self.resolve_name()?.location()? {
            Location::Single(tabane_storage::Location::Directory(directory)) => Some(directory),
            _ => None,
        })
    }

    /// What a command that is started by a timer must be told to work on the same repository.
    ///
    /// # Errors
    /// Without a repository, or without a password that nobody has to type.
    pub fn for_schedule(&self) -> Result<Scheduled> {
        let absolute = |path: &Path| {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            path.into_os_string()
        };
        let resolved = self.resolve_name()?;
        let repository = &self.repository;
        let mut options: Vec<OsString> = Vec::new();
        let mut add = |name: &str, value: OsString| options.extend([name.into(), value]);
        if let Some(config) = &self.config {
            add("--config", absolute(config));
        }
        if let Some(profile) = &self.profile {
            add("--profile", profile.into());
        }
        let directory = resolved.local_directory()?;
        match (&repository.repo, &directory) {
            (Some(place), Some(directory)) if !place.as_bytes().starts_with(b"@") => {
                add("--repo", absolute(directory));
            }
            (Some(place), _) => add("--repo", place.clone()),
            (None, _) => {}
        }
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let file = repository.password_file.clone();
        let command = repository.password_command.clone();
        let has_own = file.is_some() || command.is_some();
        let by_name = &resolved.repository;
        let is_named = by_name.password_file.is_some() || by_name.password_command.is_some();
        let file = file.or_else(|| {
            if has_own || is_named {
                None
            } else {
                variable("TABANE_PASSWORD_FILE").map(PathBuf::from)
            }
        });
        let command = command.or_else(|| {
            if has_own || is_named || file.is_some() {
                None
            } else {
                variable("TABANE_PASSWORD_COMMAND")
            }
        });
        if file.is_none() && command.is_none() && !is_named {
            let text = "a timer cannot type a password: give --password-file FILE, or set one in \
                        the configuration file";
            return Err(Failure::Usage(text.to_owned()));
        }
        if let Some(file) = file {
            add("--password-file", absolute(&file));
        }
        if let Some(command) = command {
            add("--password-command", command);
        }
        let texts = options.into_iter().map(OsString::into_string);
        let texts: std::result::Result<_, _> = texts.collect();
        Ok(Scheduled {
            options: texts.map_err(|bad| {
                Failure::Usage(format!(
                    "{} is not UTF-8, as a timer needs it",
                    bad.display()
                ))
            })?,
            directory: directory.map(|directory| absolute(&directory).into()),
        })
    }

    /// The set of targets that `--repo` names.
    pub fn set(&self) -> Result<StripedStorage> {
        let this = self.resolve_name()?;
        match this.location()? {
            Location::Cluster(file) => {
                cluster::open_file(&file, &this.remote_options(), this.repository.network.plan)
                    .map_err(|error| set_failure("cluster", &file, error))
            }
            _ => Ok(this.striped()?.1),
        }
    }

    /// The set of targets that `--repo` names, and its repository's secret if a password is given
    /// without asking for it. With the secret, a set that older programs made may have tags from
    /// then on.
    pub fn set_with_secret(&self) -> Result<Arc<StripedStorage>> {
        let this = self.resolve_name()?;
        let Some(password) = password::given(&this)? else {
            return Ok(Arc::new(this.set()?));
        };
        let (storage, _) = this.set_and_repository(&password)?;
        if storage.allow_tags()? {
            Ok(this.set_and_repository(&password)?.0)
        } else {
            Ok(storage)
        }
    }

    /// The set of targets that `--repo` names, and its repository, which this password opens.
    pub fn set_and_repository(
        &self,
        password: &Password,
    ) -> Result<(Arc<StripedStorage>, Repository)> {
        let this = self.resolve_name()?;
        let storage = Arc::new(this.set()?);
        let of_set = Arc::clone(&storage) as _;
        let repository = Repository::open_with_memory(of_set, password, this.memory())?;
        Ok((storage, repository))
    }

    /// The file that describes the cluster that `--repo` names.
    pub fn cluster(&self) -> Result<PathBuf> {
        match self.resolve_name()?.location()? {
            Location::Cluster(file) => Ok(file),
            _ => {
                let text = "this is for clusters: name one, --repo cluster:FILE";
                Err(Failure::Usage(text.to_owned()))
            }
        }
    }

    /// The set of targets that `--repo` names, and the file that lists them.
    pub fn striped(&self) -> Result<(PathBuf, StripedStorage)> {
        let this = self.resolve_name()?;
        let Location::Striped(file) = this.location()? else {
            let text = "this is for striped repositories: name one, --repo striped:FILE";
            return Err(Failure::Usage(text.to_owned()));
        };
        let opened = set_file::open_file(&file, &this.remote_options());
        let storage = opened.map_err(|error| set_failure("striped", &file, error))?;
        Ok((file, storage))
    }

    /// Options of storages.
    pub fn remote_options(&self) -> RemoteOptions {
        let network = &self.repository.network;
        RemoteOptions::default()
            .connections(network.connections.0)
            .upload_kib_per_s(network.limit_upload)
            .download_kib_per_s(network.limit_download)
            .patience(network.retry_for)
            .tls(TlsOptions {
                authorities: network.cacert.clone(),
                identity: network.tls_client_cert.clone(),
                is_insecure: network.insecure_tls,
            })
            .storage_class(network.storage_class.clone())
            .lock(network.lock_for.map(|period| Lock {
                period,
                mode: network.lock_mode,
            }))
            .notice(Arc::new(|event| warn(advice::explain_event(event))))
    }

    /// The storage that `--repo` names.
    fn storage(&self) -> Result<Arc<dyn Storage>> {
        let location = self.location()?;
        let opened = location.open(&self.remote_options(), self.repository.network.plan);
        opened.map_err(|error| match &location {
            Location::Striped(file) => set_failure("striped", file, error),
            Location::Cluster(file) => set_failure("cluster", file, error),
            _ => Failure::Usage(format!("cannot use this repository: {error}")),
        })
    }

    /// Makes a set of targets of these places, and the file that `--repo` names lists them from
    /// then on.
    pub fn form_set(&self, targets: &[String], fixed_roles: bool) -> Result<()> {
        let this = self.resolve_name()?;
        let Location::Striped(file) = this.location()? else {
            let text = "--target makes a striped repository: name the file that is to list its \
            targets, --repo striped:FILE";
            return Err(Failure::Usage(text.to_owned()));
        };
        let here = PathBuf::from(".");
        let urls = targets.iter().map(|url| set_file::absolute(url, &here));
        let urls: Vec<String> = urls
            .collect::<std::result::Result<_, _>>()
            .map_err(Failure::Usage)?;
        let is_new = match set_file::read(&file) {
            Ok(listed) if listed == urls => false,
            Err(error) if error.kind() == StorageErrorKind::NotFound => true,
            Err(error) => return Err(error.into()),
            Ok(_) => {
                let text = format!(
                    "{} exists and lists other targets: choose another file",
                    file.display()
                );
                return Err(Failure::Other(text));
            }
        };
        let options = this.remote_options();
        let places = set_file::places(&urls, &options);
        places.and_then(|places| StripedStorage::form(places, fixed_roles))?;
        if is_new {
            set_file::write(&file, &urls, false).map_err(|source| Error::Storage {
                action: "write",
                what: file.display().to_string(),
                source,
            })?;
        }
        Ok(())
    }

    /// Directory of the caches of repositories; `None` if neither an option nor the environment
    /// names one.
    pub fn cache_root(&self) -> Option<PathBuf> {
        match &self.repository.cache_dir {
            Some(root) if !root.as_os_str().is_empty() => Some(root.clone()),
            _ => Cache::default_root(),
        }
    }

    /// What this machine has seen of repositories; `None` if neither an option nor the environment
    /// names a place for it.
    fn memory(&self) -> Option<Memory> {
        self.state_root().map(Memory::new)
    }

    /// Directory of what this machine remembers; `None` if neither an option nor the environment
    /// names one.
    pub fn state_root(&self) -> Option<PathBuf> {
        match &self.repository.state_dir {
            Some(root) if !root.as_os_str().is_empty() => Some(root.clone()),
            _ => Memory::default_root(),
        }
    }

    /// The repository with a cache, unless there should be none.
    fn cached(&self, repository: Repository) -> Repository {
        match self.cache_root().filter(|_| !self.repository.no_cache) {
            Some(root) => {
                let told = |text: &str| {
                    warn(format!(
                        "{text} (choose another with --cache-dir, or --no-cache)"
                    ));
                };
                repository.with_cache(Cache::new(root, told))
            }
            None => repository,
        }
    }

    /// Opens the repository, asking for its password if need be.
    pub fn open(&self) -> Result<Arc<Repository>> {
        Ok(self.open_with(Absent::Fail)?.0)
    }

    /// Opens the repository, or makes it; says whether it is new.
    pub fn open_or_init(&self) -> Result<(Arc<Repository>, bool)> {
        self.open_with(Absent::Create)
    }

    /// Makes a repository, asking for its password if need be.
    pub fn init(&self, options: InitOptions) -> Result<Arc<Repository>> {
        let this = self.resolve_name()?;
        this.prepare_set()?;
        let storage = this.storage()?;
        // Checked before a password is asked for.
        if exists(&*storage)? {
            return Err(Error::RepositoryExists(storage.location()).into());
        }
        options.chunking.validate()?;
        let password = password::new(&this, "new repository")?;
        let options = options.kdf_cost(password::cost());
        let mut repository = Repository::init(storage, &password, options)?;
        if let Some(memory) = this.memory() {
            repository = repository.with_memory(memory);
        }
        Ok(Arc::new(self.cached(repository)))
    }

    /// Brings back a key and the config from a text, with the key's password.
    pub fn import_key(&self, text: &str) -> Result<ImportedKey> {
        let this = self.resolve_name()?;
        let storage = this.storage()?;
        let (password, _) = password::existing(&this)?;
        Ok(Repository::import_key(storage, text, &password)?)
    }

    /// Prepares a new repository over several places: makes the nodes of a cluster one set, if they
    /// are none yet; requires the targets of a striped one to be named.
    fn prepare_set(&self) -> Result<()> {
        match self.location()? {
            Location::Striped(file) if !file.exists() => {
                let file = file.display();
                Err(Failure::Usage(format!(
                    "there is no {file}, which is to list the targets: name three or more, `tabane \
                     init --repo striped:{file} --target URL --target URL --target URL`"
                )))
            }
            Location::Cluster(file) if self.storage().is_err() => Ok(cluster::form(&file)?),
            _ => Ok(()),
        }
    }

    /// Opens the repository with this password, and asks nobody.
    pub fn open_with_password(&self, password: &Password) -> Result<Repository> {
        let this = self.resolve_name()?;
        let storage = this.storage()?;
        if !exists(&*storage)? {
            return Err(Repository::absence(&*storage).into());
        }
        let opened = Repository::open_with_memory(storage, password, this.memory());
        Ok(self.cached(opened?))
    }

    /// The password of the repository that options, the configuration file or the environment
    /// give; nothing if a person has to be asked.
    pub fn given_password(&self) -> Result<Option<Password>> {
        password::given(&self.resolve_name()?)
    }

    /// Whether the repository is over several targets; the file that describes its cluster, if
    /// these are nodes.
    pub fn is_set(&self) -> Result<(bool, Option<PathBuf>)> {
        Ok(match self.resolve_name()?.location()? {
            Location::Cluster(file) => (true, Some(file)),
            Location::Striped(_) => (true, None),
            Location::Single(_) => (false, None),
        })
    }

    fn open_with(&self, absent: Absent) -> Result<(Arc<Repository>, bool)> {
        let this = self.resolve_name()?;
        if let Absent::Create = absent {
            this.prepare_set()?;
        }
        let storage = this.storage()?;
        // Looked at before a password is asked for; else the opening tells, and takes a round trip
        // less.
        let opening_tells =
            storage.is_far() && matches!(absent, Absent::Fail) && password::is_given(&this);
        if !opening_tells && !exists(&*storage)? {
            return match absent {
                Absent::Fail => Err(Repository::absence(&*storage).into()),
                Absent::Create => match self.init(InitOptions::default()) {
                    // Another client has just made the repository.
                    Err(Failure::Store(Error::RepositoryExists(_))) => self.open_with(Absent::Fail),
                    made => Ok((made?, true)),
                },
            };
        }
        let mut attempts = 1;
        loop {
            let (password, typed) = password::existing(&this)?;
            let memory = this.memory();
            match Repository::open_with_memory(Arc::clone(&storage), &password, memory) {
                Err(error @ Error::WrongPassword { .. })
                    if typed && attempts < password::ATTEMPTS =>
                {
                    eprintln!("tabane: {error}: try again");
                    attempts += 1;
                }
                Err(error @ Error::WrongPassword { .. }) if password.contains(&b'\n') => {
                    warn("the password that was given has more than one line, all of which count");
                    return Err(error.into());
                }
                result => {
                    let repository = self.cached(result?);
                    for fault in repository.damaged() {
                        warn(format!(
                            "{fault}: its copy was used; `tabane repair config` mends it"
                        ));
                    }
                    return Ok((Arc::new(repository), false));
                }
            }
        }
    }
}

/// Why the set that a file lists cannot be opened.
fn set_failure(kind: &str, file: &Path, error: StorageError) -> Failure {
    match error.kind() {
        StorageErrorKind::NotFound => {
            Error::NoRepository(format!("{kind}:{}", file.display())).into()
        }
        _ => Failure::Storage("cannot use this repository: ", error),
    }
}

/// Whether there is a repository.
fn exists(storage: &dyn Storage) -> Result<bool> {
    match storage.stat(Name::CONFIG) {
        Ok(_) => Ok(true),
        Err(error) => match error.kind() {
            // Without its config, a repository opens with the copy.
            StorageErrorKind::NotFound => {
                let copies = storage.list(ObjectKind::Copy);
                Ok(copies.is_ok_and(|copies| !copies.is_empty()))
            }
            StorageErrorKind::NotADirectory => Ok(false),
            _ => Err(Error::storage("read", Name::CONFIG)(error).into()),
        },
    }
}
