//! Timers that start commands: files for systemd and for cron.

mod cron;
mod systemd;
mod when;
mod words;

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::format;

pub use when::When;
pub use words::split;

/// The result of a step; what went wrong is a sentence.
type Result<T> = std::result::Result<T, String>;

/// The beginning of every file that is written, by which it is found again.
const MARK: &str = "# Written by `tabane schedule install`, which writes it anew each time.";

/// Commands that are started at set times.
pub struct Job {
    pub name: String,
    pub at: When,
    pub program: PathBuf,
    /// Options of all commands: the configuration file, the profile, the repository.
    pub options: Vec<String>,
    /// Each with its own options.
    pub commands: Vec<Vec<String>>,
    pub environment_files: Vec<PathBuf>,
    pub sandbox: Sandbox,
}

/// What a job may do.
pub enum Sandbox {
    /// All that its user may.
    None,
    /// Write only to these directories, and to its cache.
    Writable(Vec<PathBuf>),
}

/// Programs that start jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Keeper {
    /// The service manager of most systems.
    Systemd,
    /// The older one.
    Cron,
}

/// Where files go, and who is told.
pub struct Place {
    keeper: Keeper,
    directory: PathBuf,
    /// Whether the user's own manager is told, and not the system's.
    is_user: bool,
    /// Whether anybody is told.
    is_started: bool,
}

/// A job that was installed.
pub struct Installed {
    pub name: String,
    /// When it is started, as its keeper writes it.
    pub when: String,
    pub commands: Vec<String>,
    /// The file that says so.
    pub file: PathBuf,
    place: Place,
}

impl Job {
    /// The words of each command.
    fn command_lines(&self) -> impl Iterator<Item = Vec<String>> + '_ {
        let program = self.program.display().to_string();
        self.commands.iter().map(move |command| {
            let words = std::iter::once(program.clone());
            words
                .chain(self.options.iter().cloned())
                .chain(command.iter().cloned())
                .collect()
        })
    }
}

/// What a job does, for people.
pub fn lines_of(job: &Job) -> Vec<String> {
    let mut lines = vec![format!("{} starts {}:", job.name, job.at)];
    lines.extend(job.command_lines().map(|words| {
        let line = shlex::try_join(words.iter().map(String::as_str));
        format!("    {}", line.unwrap_or_else(|_| words.join(" ")))
    }));
    lines
}

impl Keeper {
    /// Name, time and commands of the job whose `file` has this text.
    fn read(
        self,
        directory: &Path,
        file: &str,
        text: &str,
    ) -> Option<(String, String, Vec<String>)> {
        match self {
            Self::Systemd => systemd::read(directory, file, text),
            Self::Cron => cron::read(file, text),
        }
    }
}

impl Place {
    /// The place for this keeper and user, or those that fit this system.
    ///
    /// # Errors
    /// When there is none.
    pub fn choose(keeper: Option<Keeper>, user: bool, into: Option<PathBuf>) -> Result<Self> {
        let keeper = keeper.unwrap_or(if Path::new("/run/systemd/system").exists() {
            Keeper::Systemd
        } else {
            Keeper::Cron
        });
        let is_user = user || !rustix::process::geteuid().is_root();
        if let Some(directory) = into {
            return Ok(Self {
                keeper,
                directory,
                is_user,
                is_started: false,
            });
        }
        let directory = match (keeper, is_user) {
            (Keeper::Systemd, true) => user_units().ok_or("HOME is not set")?,
            (Keeper::Systemd, false) => systemd::SYSTEM.into(),
            (Keeper::Cron, false) => cron::SYSTEM.into(),
            (Keeper::Cron, true) => {
                return Err(format!(
                    "only root can write {}: add a line with `crontab -e`; --into DIR shows which",
                    cron::SYSTEM
                ));
            }
        };
        Ok(Self {
            keeper,
            directory,
            is_user,
            is_started: true,
        })
    }

    /// Writes the files of a job and has it started from now on; returns the files.
    ///
    /// # Errors
    /// When files cannot be written or the keeper refuses.
    pub fn install(&self, job: &Job) -> Result<(Vec<PathBuf>, Vec<String>)> {
        let replaced = self.commands_of(&job.name);
        let files = match self.keeper {
            Keeper::Systemd => systemd::files(job, self.is_user),
            Keeper::Cron => vec![cron::file(job)],
        };
        let mut written = Vec::new();
        for (name, text) in files {
            let path = self.directory.join(name);
            if fs::read_to_string(&path).is_ok_and(|text| !text.starts_with(MARK)) {
                return Err(format!(
                    "{} was written by somebody else: choose another --name",
                    format::path(&path)
                ));
            }
            write(&path, &text)
                .map_err(|error| format!("cannot write {}: {error}", format::path(&path)))?;
            written.push(path);
        }
        if self.is_started && self.keeper == Keeper::Systemd {
            self.systemctl(&["daemon-reload"])?;
            self.systemctl(&["enable", "--now", &systemd::timer(&job.name)])?;
        }
        Ok((written, replaced))
    }

    /// The commands of the job of this name that is installed here.
    pub fn commands_of(&self, name: &str) -> Vec<String> {
        let file = match self.keeper {
            Keeper::Systemd => systemd::timer(name),
            Keeper::Cron => format!("tabane-{name}"),
        };
        let text = fs::read_to_string(self.directory.join(&file)).unwrap_or_default();
        let read = self.keeper.read(&self.directory, &file, &text);
        read.map(|(_, _, commands)| commands).unwrap_or_default()
    }

    fn systemctl(&self, args: &[&str]) -> Result<()> {
        let user = self.is_user.then_some("--user");
        let ran = Command::new("systemctl").args(user).args(args).output();
        let why = match ran {
            Ok(ran) if ran.status.success() => return Ok(()),
            Ok(ran) => String::from_utf8_lossy(&ran.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        Err(format!("systemctl {} failed: {why}", args.join(" ")))
    }
}

/// Writes a file with a line at its beginning by which it is found again.
fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(above) = path.parent() {
        fs::create_dir_all(above)?;
    }
    let mut options = fs::File::options();
    let options = options.write(true).create(true).truncate(true).mode(0o644);
    write!(options.open(path)?, "{MARK}\n\n{text}")
}

/// The folder of a user's units.
fn user_units() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from);
    let config = folder("XDG_CONFIG_HOME").filter(|folder| folder.is_absolute());
    let config = config.or_else(|| Some(folder("HOME")?.join(".config")))?;
    Some(config.join("systemd/user"))
}

/// What was installed, sorted by name.
pub fn installed() -> Vec<Installed> {
    let system = [
        (Keeper::Systemd, systemd::SYSTEM),
        (Keeper::Cron, cron::SYSTEM),
    ];
    let system = system.map(|(keeper, directory)| (keeper, PathBuf::from(directory), false));
    let user = user_units().map(|directory| (Keeper::Systemd, directory, true));
    let mut found = Vec::new();
    for (keeper, directory, is_user) in system.into_iter().chain(user) {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let file = entry.path();
            let text = fs::read_to_string(&file).unwrap_or_default();
            let name = entry.file_name().into_string().unwrap_or_default();
            if !text.starts_with(MARK) {
                continue;
            }
            if let Some((name, when, commands)) = keeper.read(&directory, &name, &text) {
                found.push(Installed {
                    name,
                    when,
                    commands,
                    file,
                    place: Place {
                        keeper,
                        directory: directory.clone(),
                        is_user,
                        is_started: true,
                    },
                });
            }
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

impl Installed {
    /// Stops it, and removes its files.
    ///
    /// # Errors
    /// When the keeper refuses or files cannot be removed.
    pub fn remove(&self) -> Result<()> {
        let is_systemd = self.place.keeper == Keeper::Systemd;
        let mut files = vec![self.file.clone()];
        if is_systemd {
            self.place
                .systemctl(&["disable", "--now", &systemd::timer(&self.name)])?;
            files.push(self.place.directory.join(systemd::service(&self.name)));
        }
        for file in files {
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(format!("cannot remove {}: {error}", format::path(&file)));
                }
                _ => {}
            }
        }
        if is_systemd {
            self.place.systemctl(&["daemon-reload"])
        } else {
            Ok(())
        }
    }
}
