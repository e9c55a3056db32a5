//! Exit codes, and the errors that lead to them.

use std::fmt;
use std::io;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tabane_storage::StorageError;
use tabane_store::Error;

use crate::advice;

/// Exit codes of commands; restic's numbers where restic has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Success = 0,
    /// The command failed, or `check` found damage.
    Failure = 1,
    /// Invalid arguments or a mistake in the configuration file.
    Usage = 2,
    /// The backup or import was made, but some of the source could not be read; or `forget` could
    /// not read or remove some snapshots.
    Incomplete = 3,
    /// `cluster status` found that less can be lost than should be, and at least one node.
    Degraded = 4,
    /// `cluster status` found that nothing more can be lost.
    AtRisk = 5,
    /// The repository is older than what this machine has seen, or lacks snapshots that nobody has
    /// removed; the backup was made, or `check` found nothing else.
    RolledBack = 6,
    /// There is no repository at the place given, or no longer.
    NoRepository = 10,
    /// Another client prunes or repairs the repository.
    Busy = 11,
    /// The password opens no key.
    WrongPassword = 12,
    /// A signal ended the program.
    Interrupted = 130,
}

/// The end of `-h`.
pub const HELP: &str = "`tabane help COMMAND` tells more about a command; `tabane --help` lists \
exit codes and variables.";

/// The end of `--help`.
pub const LONG_HELP: &str = "\
Environment (an option of the same meaning goes before a variable, and so does a profile):
  TABANE_REPOSITORY        --repo
  TABANE_PASSWORD          the password itself
  TABANE_PASSWORD_FILE     --password-file
  TABANE_PASSWORD_COMMAND  --password-command
  TABANE_FROM_…            --from-repo (TABANE_FROM_REPOSITORY) and the password of the source, in \
the same three ways
  TABANE_CACHE_DIR         --cache-dir
  TABANE_NO_CACHE          --no-cache, if it is 1
  TABANE_STATE_DIR         --state-dir
  TABANE_CONFIG            --config
  TABANE_PROFILE           --profile
  TABANE_JSON              --json, if it is 1
  TABANE_QUIET             --quiet, if it is 1
  TABANE_VERBOSE           --verbose, 1 or 2
  TABANE_HOST              --host of backup
  TABANE_COMPRESSION       --compression of backup
  TABANE_READ_CONCURRENCY  --read-concurrency of backup
  TABANE_COMMAND_OPTION    any other option of a command: TABANE_BACKUP_EXCLUDE_CACHES=1
  TABANE_OPTION            any other option of all commands: TABANE_RETRY_FOR=1h
  TABANE_METRICS_FILE      --metrics-file of the commands that have it
  TABANE_PING              --ping of the same commands
  TABANE_WEBHOOK           --webhook of the same commands
  XDG_CONFIG_HOME          where the configuration file tabane/config.toml is, instead of ~/.config
  TABANE_SIMD              forces an instruction set: portable; sse41, avx2, avx512 or shani on
                           x86-64; neon, armce or armsha512 on aarch64
  NO_COLOR                 no colours if it is set

Exit codes:
    0  done
    1  an error; `check` or `sum --check` found damage; `restore` could not write everything, or \
found nothing
    2  wrong usage, or a mistake in the configuration file
    3  the backup or import was made, but some of the source could not be read; `forget` could not \
 read or remove some snapshots
    4  `cluster status`: degraded, and any one node can still be lost
    5  `cluster status`: at risk, nothing more can be lost
    6  the repository is older than what this machine has seen of it, or lacks snapshots that \
nobody removed: the backup was made all the same, and `check` found nothing else
   10  there is no repository at that place, or no longer
   11  another client prunes or repairs the repository
   12  wrong password
  130  interrupted

Examples:
  tabane init --repo /mnt/backup
  tabane backup --repo /mnt/backup ~/Documents ~/Pictures
  tabane snapshots --repo /mnt/backup
  tabane restore --repo /mnt/backup latest --target /tmp/restored";

/// The result of everything in this program.
pub type Result<T> = std::result::Result<T, Failure>;

/// How to go on with a command that a signal ended, if the same command would not do.
static WAY_ON: OnceLock<&str> = OnceLock::new();

/// From now on, this is how to go on after a signal.
pub fn go_on_by(way: &'static str) {
    let _ = WAY_ON.set(way);
}

/// Whether failures are told in JSON.
static IN_JSON: AtomicBool = AtomicBool::new(false);

/// From now on, failures are told in JSON, or in plain words.
pub fn tell_in_json(json: bool) {
    IN_JSON.store(json, Ordering::Relaxed);
}

/// The line of JSON that says why a command has failed; `None` if it is to be told in plain words.
pub fn in_json(code: Exit, message: &str) -> Option<String> {
    let told = json!({
        "message_type": "exit_error",
        "code": code as u8,
        "message": message,
    });
    IN_JSON.load(Ordering::Relaxed).then(|| told.to_string())
}

/// The line that says that a signal ended a command.
pub fn interruption() -> String {
    let way = WAY_ON
        .get()
        .unwrap_or(&"nothing is damaged; run the same command again");
    let message = format!("interrupted: {way}");
    in_json(Exit::Interrupted, &message).unwrap_or_else(|| format!("tabane: {message}"))
}

/// The failure of a command.
#[derive(Debug)]
pub enum Failure {
    /// An error of the repository or the file system.
    Store(Error),
    /// An error of an import.
    Import(tabane_import::Error),
    /// An error of a storage, with the failed action if that is worth saying.
    Storage(&'static str, StorageError),
    /// Invalid arguments.
    Usage(String),
    /// Standard output cannot be written.
    Output(io::Error),
    /// Anything else, in one sentence.
    Other(String),
}

impl Failure {
    /// The code for it.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Store(Error::NoRepository(_) | Error::RepositoryGone(_)) => Exit::NoRepository,
            Self::Store(Error::PruneRunning(_)) => Exit::Busy,
            Self::Store(Error::WrongPassword { .. }) => Exit::WrongPassword,
            Self::Import(tabane_import::Error::NoRepository { .. }) => Exit::NoRepository,
            Self::Import(tabane_import::Error::WrongPassword { .. }) => Exit::WrongPassword,
            Self::Store(Error::Cancelled) => Exit::Interrupted,
            Self::Usage(_) | Self::Store(Error::Pattern(_)) => Exit::Usage,
            _ => Exit::Failure,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(Error::Cancelled) => f.write_str(&interruption()),
            Self::Store(error) => f.write_str(&advice::explain(error)),
            Self::Import(error) => f.write_str(&advice::explain_import(error)),
            Self::Storage(before, error) => {
                write!(f, "{before}{}", advice::explain_storage(error))
            }
            Self::Output(error) => write!(f, "cannot write to standard output: {error}"),
            Self::Usage(text) | Self::Other(text) => f.write_str(text),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<tabane_import::Error> for Failure {
    fn from(error: tabane_import::Error) -> Self {
        match error {
            tabane_import::Error::Store(error) => Self::Store(error),
            error => Self::Import(error),
        }
    }
}

impl From<tabane_index::Error> for Failure {
    fn from(error: tabane_index::Error) -> Self {
        Self::Store(error.into())
    }
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        Self::Storage("", error)
    }
}

/// All other input and output is reported by the store, with paths.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
