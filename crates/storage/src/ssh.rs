//! Places behind SSH, reached by the system's `ssh`: its configuration, agent and known hosts hold.

use std::fmt;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use crate::error::{StorageError, StorageErrorKind};
use crate::sync::lock;

/// Options of every connection. What forwards something, or needs a terminal, is off.
const OPTIONS: [&str; 7] = [
    "-T",
    "-oForwardAgent=no",
    "-oForwardX11=no",
    "-oClearAllForwardings=yes",
    "-oPermitLocalCommand=no",
    "-oServerAliveInterval=15",
    "-oServerAliveCountMax=8",
];

/// Seconds to connect and to agree on keys, without those in which a person types a passphrase.
const CONNECT_TIMEOUT_S: &str = "-oConnectTimeout=15";

/// Bytes kept of what `ssh` prints on its standard error.
const SAID_LEN_MAX: usize = 4 << 10;

/// Time for `ssh` to end after its output has.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Exit code of a shell that does not find a command.
const NOT_FOUND_CODE: i32 = 127;

/// Exit code of `ssh` for its own failures; others are those of what it started.
const FAILED_CODE: i32 = 255;

/// What to do when the server lets nobody in.
const LOGIN: &str = "log in there with ssh first, until it asks for nothing";

/// Phrases of `ssh` for what another try does not change, and what to do.
const PERMANENT: [(&str, StorageErrorKind, &str); 7] = [
    ("Permission denied", StorageErrorKind::Unauthorized, LOGIN),
    (
        "Too many authentication failures",
        StorageErrorKind::Unauthorized,
        "name the right key in ssh's configuration",
    ),
    (
        "Host key verification failed",
        StorageErrorKind::Unauthorized,
        LOGIN,
    ),
    (
        "subsystem request failed",
        StorageErrorKind::Unsupported,
        "the server must offer what is asked for",
    ),
    (
        "Bad configuration option",
        StorageErrorKind::Permanent,
        "mend ssh's configuration",
    ),
    (
        "terminating, 1 bad configuration",
        StorageErrorKind::Permanent,
        "mend ssh's configuration",
    ),
    (
        "Bad owner or permissions",
        StorageErrorKind::Permanent,
        "mend them",
    ),
];

/// A folder on a machine with an SSH server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshPlace {
    /// `sftp` or `ssh`.
    scheme: &'static str,
    user: Option<String>,
    /// Name or address; an IPv6 address without brackets.
    host: String,
    port: Option<u16>,
    /// Without a slash at the end; relative to the home directory if it does not begin with one.
    path: String,
}

impl SshPlace {
    /// Parses `rest`, the part behind `scheme://` of the URL `text`.
    ///
    /// # Errors
    /// A sentence about the mistake.
    pub fn parse(text: &str, scheme: &'static str, rest: &str) -> Result<Self, String> {
        let form = format!(
            "write {scheme}://USER@HOST:PORT/PATH, where USER@ and :PORT may be left out; \
             /~/PATH begins in the home directory"
        );
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, address) = match authority.rsplit_once('@') {
            Some((user, address)) => (Some(user), address),
            None => (None, authority),
        };
        if user.is_some_and(|user| user.contains(':')) {
            // The URL is not shown: it contains a password.
            return Err(
                "a URL is no place for a password, since every user of this machine can see it: \
                 use a key, which ssh-agent holds"
                    .to_owned(),
            );
        }
        let (host, port) = match address.strip_prefix('[').map(|rest| rest.split_once(']')) {
            Some(Some((host, port))) => (host, port.strip_prefix(':').or(Some(port))),
            Some(None) => (address, None),
            None => match address.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (address, None),
            },
        };
        let port = match port.filter(|port| !port.is_empty()) {
            Some(digits) => match digits.parse() {
                Ok(port) if port > 0 => Some(port),
                _ => return Err(format!("{text:?} has no port in {digits:?}: {form}")),
            },
            None => None,
        };
        // ssh takes what begins so for an option.
        let is_name = |name: &str| {
            !name.is_empty()
                && !name.starts_with('-')
                && !name
                    .contains(|c: char| c.is_whitespace() || c.is_control() || "[]\"'".contains(c))
        };
        if !is_name(host) || user.is_some_and(|user| !is_name(user)) {
            return Err(format!(
                "{text:?} names no user or host as ssh has them: {form}"
            ));
        }
        if let Some(bad) = path
            .chars()
            .find(|c| "?#%\\".contains(*c) || c.is_control())
        {
            return Err(format!(
                "{text:?} has {bad:?} in it, which no path of such a URL may have: there are no \
                 escapes and no parameters"
            ));
        }
        let path = path.strip_suffix('/').unwrap_or(path);
        let (root, below) = match path.strip_prefix("~/") {
            Some(below) => ("", below),
            None => ("/", path),
        };
        if below
            .split('/')
            .any(|part| ["", ".", "..", "~"].contains(&part))
        {
            return Err(format!(
                "{text:?} names no folder, or has a part that is empty, ., .. or ~: {form}"
            ));
        }
        Ok(Self {
            scheme,
            user: user.map(str::to_owned),
            host: host.to_owned(),
            port,
            path: format!("{root}{below}"),
        })
    }

    /// The path on the server; without a slash at its front it begins in the home directory.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Starts `ssh`.
    ///
    /// # Errors
    /// When there is no such program.
    pub fn connect(&self, service: &Service) -> Result<Tunnel, StorageError> {
        let mut command = Command::new("ssh");
        command.args(OPTIONS).arg(CONNECT_TIMEOUT_S);
        if let Some(user) = &self.user {
            command.arg("-l").arg(user);
        }
        if let Some(port) = self.port {
            command.arg("-p").arg(port.to_string());
        }
        match service {
            Service::Subsystem(name) => command.arg("-s").arg("--").arg(&self.host).arg(name),
            Service::Command(line) => command.arg("--").arg(&self.host).arg(line),
        };
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| {
            let text = match error.kind() {
                io::ErrorKind::NotFound => "there is no program ssh in the path".to_owned(),
                _ => format!("cannot start ssh: {error}"),
            };
            StorageError::new(StorageErrorKind::Permanent, text)
        })?;
        let said = Arc::<Mutex<Vec<u8>>>::default();
        let pipe = child.stderr.take().expect("it is piped");
        tokio::spawn(keep(pipe, Arc::clone(&said)));
        Ok(Tunnel {
            input: child.stdin.take().expect("it is piped"),
            output: child.stdout.take().expect("it is piped"),
            ssh: Ssh { child, said },
        })
    }
}

impl fmt::Display for SshPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme)?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        if self.host.contains(':') {
            write!(f, "[{}]", self.host)?
        } else {
            f.write_str(&self.host)?
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        if self.path.starts_with('/') {
            f.write_str(&self.path)
        } else {
            write!(f, "/~/{}", self.path)
        }
    }
}

/// What `ssh` asks the server for.
pub enum Service {
    /// A subsystem, such as `sftp`.
    Subsystem(&'static str),
    /// A command line for the user's shell there.
    Command(&'static str),
}

/// A running `ssh`.
pub struct Tunnel {
    /// To the server.
    pub input: ChildStdin,
    /// From the server.
    pub output: ChildStdout,
    /// The process.
    pub ssh: Ssh,
}

/// The process of a tunnel; killed when dropped.
pub struct Ssh {
    child: Child,
    said: Arc<Mutex<Vec<u8>>>,
}

impl Ssh {
    /// Why the tunnel has ended, after its output has.
    pub async fn reason(&mut self) -> StorageError {
        let status = tokio::time::timeout(END_TIMEOUT, self.child.wait()).await;
        // What it printed last may be on its way to the task that keeps it.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let said = lock(&self.said).clone();
        explain(
            status.ok().and_then(io::Result::ok),
            &String::from_utf8_lossy(&said),
        )
    }
}

/// Keeps the end of what `ssh` prints.
async fn keep(mut pipe: ChildStderr, said: Arc<Mutex<Vec<u8>>>) {
    let mut piece = [0; 1024];
    while let Ok(len @ 1..) = pipe.read(&mut piece).await {
        let mut said = lock(&said);
        said.extend_from_slice(&piece[..len]);
        let too_many = said.len().saturating_sub(SAID_LEN_MAX);
        said.drain(..too_many);
    }
}

/// Explains why `ssh` ended with this status, having printed `said`.
fn explain(status: Option<ExitStatus>, said: &str) -> StorageError {
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let permanent = PERMANENT.iter().find_map(|(phrase, kind, advice)| {
        let line = said.lines().rfind(|line| line.contains(phrase))?;
        Some((line.trim().trim_end_matches('.'), kind, advice))
    });
    if let Some((line, kind, advice)) = permanent {
        return StorageError::new(*kind, format!("ssh says: {line}; {advice}"));
    }
    let last = lines.next_back();
    match (status.and_then(|status| status.code()), last) {
        (Some(NOT_FOUND_CODE), line) => {
            let line = line.unwrap_or("command not found");
            let text = format!("the server cannot start what is asked for: {line}");
            return StorageError::new(StorageErrorKind::Unsupported, text);
        }
        (Some(1..FAILED_CODE), Some(line)) => {
            let text = format!("the server says: {line}");
            return StorageError::new(StorageErrorKind::Permanent, text);
        }
        _ => {}
    }
    let text = match last {
        Some(line) => format!("ssh says: {line}"),
        None => "the connection of ssh has ended".to_owned(),
    };
    StorageError::new(StorageErrorKind::Retryable, text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn parse(text: &'static str) -> Result<SshPlace, String> {
        let (_, rest) = text.split_once("://").unwrap();
        SshPlace::parse(text, "sftp", rest)
    }

    #[test]
    fn urls() {
        for (url, user, host, port, path) in [
            ("sftp://nas/b", None, "nas", None, "/b"),
            (
                "sftp://ada@nas:2222/volume 1/b/",
                Some("ada"),
                "nas",
                Some(2222),
                "/volume 1/b",
            ),
            ("sftp://a@b@nas/x/y", Some("a@b"), "nas", None, "/x/y"),
            ("sftp://nas/~/backup", None, "nas", None, "backup"),
            (
                "sftp://ada@[fe80::1]:22/b",
                Some("ada"),
                "fe80::1",
                Some(22),
                "/b",
            ),
        ] {
            let place = parse(url).unwrap();
            assert_eq!(place.user.as_deref(), user);
            assert_eq!((place.host.as_str(), place.port), (host, port));
            assert_eq!(place.path(), path);
            assert_eq!(place.to_string(), url.trim_end_matches('/'));
        }
    }

    #[test]
    fn what_is_no_place_says_why() {
        for (url, says) in [
            ("sftp://nas", "names no folder"),
            ("sftp://nas/", "names no folder"),
            ("sftp://nas/~", "names no folder"),
            ("sftp:///b", "names no user or host"),
            ("sftp://@nas/b", "names no user or host"),
            ("sftp://-oProxyCommand=x/b", "names no user or host"),
            ("sftp://-x@nas/b", "names no user or host"),
            ("sftp://nas/a//b", "empty"),
            ("sftp://nas/a/../b", ".."),
            ("sftp://nas:ssh/b", "has no port in \"ssh\""),
            ("sftp://nas:0/b", "has no port in \"0\""),
            ("sftp://nas/a%20b", "'%'"),
            ("sftp://nas/a\nb", "'\\n'"),
        ] {
            let error = parse(url).unwrap_err();
            assert!(error.contains(says), "{url}: {error}");
        }
        let error = parse("sftp://ada:hunter2@nas/b").unwrap_err();
        assert!(
            error.contains("use a key") && !error.contains("hunter2"),
            "{error}"
        );
    }

    #[test]
    fn the_end_of_ssh_is_explained() {
        let ended = |code: i32| Some(ExitStatus::from_raw(code << 8));
        for (status, said, kind, says) in [
            (
                ended(255),
                "ssh: connect to host nas port 22: Connection refused\n",
                StorageErrorKind::Retryable,
                "Connection refused",
            ),
            (
                ended(255),
                "Warning: Permanently added x.\nada@nas: Permission denied (publickey).\r\n",
                StorageErrorKind::Unauthorized,
                "ssh says: ada@nas: Permission denied (publickey); log in",
            ),
            (
                ended(255),
                "No ED25519 host key is known.\nHost key verification failed.\n",
                StorageErrorKind::Unauthorized,
                "Host key verification failed; log in",
            ),
            (
                ended(127),
                "bash: line 1: tabane: command not found\n",
                StorageErrorKind::Unsupported,
                "cannot start what is asked for: bash: line 1: tabane",
            ),
            (
                ended(1),
                "tabane: cannot use /srv/x: No such file or directory\n",
                StorageErrorKind::Permanent,
                "the server says: tabane: cannot use /srv/x",
            ),
            (ended(1), "", StorageErrorKind::Retryable, "has ended"),
            (None, "", StorageErrorKind::Retryable, "has ended"),
        ] {
            let error = explain(status, said);
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
