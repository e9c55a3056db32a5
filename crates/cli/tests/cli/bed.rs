//! A directory for a test, with a source tree and a repository in it.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

pub const PASSWORD: &str = "correct horse battery staple";

pub struct Bed {
    directory: TempDir,
}

/// What a run of the program gave.
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub bytes: Vec<u8>,
}

impl Bed {
    /// With a source tree, without a repository.
    pub fn new() -> Self {
        let bed = Self {
            directory: tempfile::tempdir().expect("a directory for the test"),
        };
        let source = bed.source();
        fs::create_dir_all(source.join("docs/deep")).expect("directories");
        fs::write(source.join("docs/notes.txt"), "first version\n").expect("a file");
        fs::write(source.join("docs/deep/data.bin"), varied(300_000)).expect("a file");
        fs::write(source.join("docs/deep/copy.bin"), varied(300_000)).expect("a file");
        fs::write(source.join("empty"), "").expect("a file");
        fs::hard_link(source.join("docs/notes.txt"), source.join("linked")).expect("a link");
        symlink("docs/notes.txt", source.join("pointer")).expect("a link");
        bed
    }

    /// With a source tree and an empty repository.
    pub fn with_repository() -> Self {
        let bed = Self::new();
        bed.run(["init"]).succeeds();
        bed
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn source(&self) -> PathBuf {
        self.path("source")
    }

    pub fn repository(&self) -> PathBuf {
        self.path("repository")
    }

    /// A command with repository and password, and nothing else of the environment that matters.
    pub fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = bare_command(args);
        self.set_environment(&mut command);
        command
    }

    /// Commands of a shell that finds the program, as [`Bed::command`].
    pub fn shell(&self, text: &str) -> Command {
        let mut command = without_settings("sh");
        let programs = Path::new(env!("CARGO_BIN_EXE_tabane")).parent();
        let mut path = programs.expect("a folder").as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").expect("there is one"));
        command.args(["-euc", text]).env("PATH", path);
        self.set_environment(&mut command);
        command
    }

    fn set_environment(&self, command: &mut Command) {
        command
            .env("TABANE_REPOSITORY", self.repository())
            .env("TABANE_CACHE_DIR", self.path("cache"))
            .env("TABANE_STATE_DIR", self.path("state"))
            .env("TABANE_PASSWORD", PASSWORD);
    }

    pub fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Ran {
        run(&mut self.command(args))
    }

    /// Runs with a standard input, which can be read only once.
    pub fn run_with_input<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
        input: &str,
    ) -> Ran {
        let mut command = self.command(args);
        let command = command.stdin(Stdio::piped());
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program can be started");
        let mut pipe = child.stdin.take().expect("piped");
        pipe.write_all(input.as_bytes()).expect("read");
        drop(pipe);
        child.wait_with_output().expect("it ends").into()
    }

    /// Backs the source tree up, with these arguments more.
    pub fn backup(&self, args: &[&str]) -> Ran {
        let source = self.source();
        let args = args.iter().map(OsStr::new);
        self.run(
            [OsStr::new("backup"), source.as_os_str()]
                .into_iter()
                .chain(args),
        )
    }
}

pub fn bare_command<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = without_settings(env!("CARGO_BIN_EXE_tabane"));
    command.args(args);
    command
}

/// A command without settings of whoever runs the tests.
fn without_settings(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let forces_kernels = name == "TABANE_SIMD";
        if name.to_string_lossy().starts_with("TABANE_") && !forces_kernels {
            command.env_remove(name);
        }
    }
    command.env("TABANE_WEAK_KEYS", "1");
    // Keeps the user's own cache out of the tests.
    command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command.env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command
}

/// Ends well although its server has some outages meanwhile.
pub fn outlives(backup: &mut Command, mut outage: impl FnMut()) {
    let backup = backup.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut backup = backup.spawn().expect("start a backup");
    let mut outages = 0;
    while outages < 5 && backup.try_wait().expect("it runs").is_none() {
        thread::sleep(Duration::from_millis(550));
        outage();
        outages += 1;
    }
    Ran::from(backup.wait_with_output().expect("wait for the backup")).succeeds();
    assert!(outages >= 3, "the backup was too quick: {outages} outages");
}

pub fn run(command: &mut Command) -> Ran {
    command.output().expect("the program can be started").into()
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            bytes: output.stdout,
        }
    }
}

impl Ran {
    #[track_caller]
    pub fn succeeds(self) -> Self {
        assert_eq!(self.code, Some(0), "{}{}", self.stdout, self.stderr);
        assert_eq!(self.complaints(), "");
        self
    }

    /// Ended with this code, one sentence, and this in it.
    #[track_caller]
    pub fn fails(self, code: i32, what: &str) -> Self {
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
        assert!(self.stderr.starts_with("tabane: "), "{}", self.stderr);
        assert!(self.complaints().contains(what), "{}", self.stderr);
        for bad in ["panicked", "backtrace", "RUST_BACKTRACE", "Os {", "Error {"] {
            assert!(!self.stderr.contains(bad), "{}", self.stderr);
        }
        if code != 2 {
            assert_eq!(self.complaints().lines().count(), 1, "{}", self.stderr);
        }
        self
    }

    /// Standard error without the lines that a machine prints which is so slow that a short outage
    /// is a long one.
    fn complaints(&self) -> String {
        let is_of_outage = |line: &str| {
            let line = line.trim_end();
            line.contains("; trying again for up to ")
                || line.ends_with("the storage answers again")
        };
        let lines = self.stderr.split_inclusive('\n');
        lines.filter(|line| !is_of_outage(line)).collect()
    }

    #[track_caller]
    pub fn says(self, what: &str) -> Self {
        assert!(
            self.stdout.contains(what),
            "{what:?} is not in: {}",
            self.stdout
        );
        self
    }

    /// The lines of standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> Vec<Value> {
        let parse = |line: &str| serde_json::from_str(line).expect(line);
        self.stdout.lines().map(parse).collect()
    }

    /// The last line as JSON.
    #[track_caller]
    pub fn last_json(&self) -> Value {
        self.json().pop().expect("a line")
    }
}

/// Bytes that repeat nowhere, the same each time.
pub fn varied(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// How a path of the source comes back below a target.
pub fn restored(target: &Path, path: &Path) -> PathBuf {
    target.join(path.strip_prefix("/").expect("absolute"))
}
