//! Runs a program of GNU coreutils and `tabane sum` beside each other, and compares what they say.
//!
//! # The differences, all of them
//!
//! - **The name**: messages begin with `tabane: ` instead of `md5sum: `.
//! - **A hint** is given when no line of a check file is properly formatted: of which algorithms
//!   the first one seems to be.
//! - **`--version`** names this program, `sum (tabane)`.
//! - **No hint**: `Try 'md5sum --help' for more information.` is left out, here as with all other
//!   commands.
//! - **Wrong usage** ends with exit code 2, as with all other commands, instead of 1.
//! - **Directions**: characters that turn the direction of writing are escaped in messages, since a
//!   terminal obeys them.
//! - **A bug of gnulib** is not repeated: after the bytes `\xff'` its quotes in messages don't fit
//!   together.
//! - **Lines of check files longer than 1 MiB** are improperly formatted; coreutils takes memory
//!   without bound for them.
//! - **Order**: pipes and terminals are read while other files are hashed. What is printed keeps
//!   its order.
//! - **A length that shrinks or grows**: coreutils sees some state of such a file, and so do we,
//!   but not the same one.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

/// The version whose behaviour is compared, to the letter.
const VERSION: &str = "9.1";

/// Whether the programs to compare with are there. Says so if they are not.
pub fn coreutils() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let output = Command::new("md5sum").arg("--version").output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let first = text
            .unwrap_or_default()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned();
        let found = first.contains("GNU coreutils") && first.ends_with(VERSION);
        if !found {
            println!("NOT CHECKED: tabane sum beside GNU coreutils {VERSION}; here is {first:?}");
        }
        found
    })
}

/// What a program gave; each character of the texts is a byte.
#[derive(Debug, PartialEq, Eq)]
pub struct Said {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// A directory to run programs in.
pub struct Bed {
    pub directory: TempDir,
    as_nobody: bool,
}

impl Bed {
    pub fn new() -> Self {
        Self {
            directory: tempfile::tempdir().expect("a directory"),
            as_nobody: false,
        }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// From now on programs run as somebody who may not read everything.
    pub fn become_nobody(&mut self) {
        self.as_nobody = true;
        // Others may not be let to where it was built. Another process copies it: what this one
        // has open to write, its other threads could pass on to what they start, and it cannot be
        // run.
        let mut copy = Command::new("cp");
        copy.arg(env!("CARGO_BIN_EXE_tabane")).arg(self.path());
        assert!(copy.status().expect("started").success());
        fs::set_permissions(self.path(), fs::Permissions::from_mode(0o755)).expect("changed");
    }

    pub fn write(&self, name: impl AsRef<OsStr>, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name.as_ref());
        fs::write(&path, bytes).expect("written");
        path
    }

    /// Writes a file that nobody else may read.
    pub fn secret(&self, name: impl AsRef<OsStr>, bytes: impl AsRef<[u8]>) {
        let path = self.write(name, bytes);
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("changed");
    }

    /// Runs `tabane sum` with these arguments.
    pub fn tabane<A: AsRef<OsStr>>(&self, args: &[A], stdin: &[u8]) -> Said {
        let built = Path::new(env!("CARGO_BIN_EXE_tabane"));
        let copied = self.path().join("tabane");
        let mut command = Command::new(if self.as_nobody { &copied } else { built });
        command.arg("sum").args(args);
        self.run(command, stdin)
    }

    /// Runs any program.
    pub fn run(&self, mut command: Command, stdin: &[u8]) -> Said {
        command
            .current_dir(self.path())
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if self.as_nobody {
            command.uid(65534).gid(65534);
        }
        let mut child = command.spawn().expect("started");
        let mut pipe = child.stdin.take().expect("piped");
        let stdin = stdin.to_vec();
        // Writing fails when the child closes its end unread.
        let writer = std::thread::spawn(move || drop(pipe.write_all(&stdin)));
        let output = child.wait_with_output().expect("it ends");
        writer.join().expect("it does not panic");
        // One character a byte, so that nothing is lost.
        let text = |bytes: &[u8]| bytes.iter().map(|&byte| char::from(byte)).collect();
        Said {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    /// Compares the output of both programs with these arguments.
    #[track_caller]
    pub fn same<A: AsRef<OsStr>>(&self, algorithm: &str, args: &[A], stdin: &[u8]) -> Said {
        let mut theirs = Command::new(format!("{algorithm}sum"));
        theirs.args(args);
        let mut theirs = self.run(theirs, stdin);
        if theirs.stderr.lines().any(|line| line.starts_with("Try '")) {
            assert_eq!(theirs.code, Some(1));
            theirs.code = Some(2);
        }
        theirs.stderr = theirs
            .stderr
            .lines()
            .filter(|line| !line.starts_with("Try '"))
            .map(|line| line.replacen(&format!("{algorithm}sum: "), "tabane: ", 1) + "\n")
            .collect();
        let mut ours: Vec<OsString> = vec!["-a".into(), algorithm.into()];
        ours.extend(args.iter().map(|arg| arg.as_ref().to_owned()));
        let mut ours = self.tabane(&ours, stdin);
        ours.stderr = ours
            .stderr
            .lines()
            .filter(|line| !line.contains("its lines look like those of"))
            .map(|line| line.to_owned() + "\n")
            .collect();
        let args: Vec<&OsStr> = args.iter().map(AsRef::as_ref).collect();
        assert_eq!(ours, theirs, "{algorithm}sum {args:?}: ours is left");
        ours
    }
}
