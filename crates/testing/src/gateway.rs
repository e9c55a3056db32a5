//! A real S3 server on this machine, over a directory: versitygw.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The name of the only user.
pub const ACCESS_KEY: &str = "tabane-test";
/// Their secret.
pub const SECRET_KEY: &str = "not much of a secret";
/// The bucket.
pub const BUCKET: &str = "bucket";
/// The bucket of a server with object lock.
pub const LOCKED: &str = "locked";

const ENABLES_LOCK: &str = "x-amz-bucket-object-lock-enabled: true";

/// A server with one bucket; stopped when dropped.
pub struct Gateway {
    program: PathBuf,
    directory: TempDir,
    port: u16,
    /// Certificate and key.
    tls: Option<[PathBuf; 2]>,
    /// Whether it has other users, and keeps versions.
    keeps: bool,
    server: Option<Child>,
}

impl Gateway {
    /// Starts a server, or says loudly that there is none.
    pub fn start(what: &str) -> Option<Self> {
        Self::start_as(what, None, false)
    }

    /// Starts a server that can have other users, and keep versions of objects.
    pub fn start_with_users(what: &str) -> Option<Self> {
        Self::start_as(what, None, true)
    }

    /// Starts a server that speaks TLS.
    pub fn start_with_tls(what: &str, certificate: &Path, key: &Path) -> Option<Self> {
        Self::start_as(what, Some([certificate.to_owned(), key.to_owned()]), false)
    }

    /// Starts a server with a second bucket, [`LOCKED`], in which objects can be locked.
    pub fn start_with_lock(what: &str) -> Option<Self> {
        if program("curl").is_none() {
            crate::not_checked(what, "curl is not installed");
            return None;
        }
        let gateway = Self::start_as(what, None, true)?;
        let (made, why) = gateway.request("PUT", &format!("/{LOCKED}"), &[ENABLES_LOCK], "");
        assert_eq!(made, 200, "{why}");
        Some(gateway)
    }

    /// Makes a request that is signed as the only user's; returns its status and the answer's body.
    pub fn request(&self, method: &str, path: &str, headers: &[&str], body: &str) -> (u16, String) {
        let headers = headers.iter().flat_map(|header| ["--header", *header]);
        let output = Command::new("curl")
            .args(["--silent", "--request", method, "--data-binary", body])
            .args(["--aws-sigv4", "aws:amz:us-east-1:s3"])
            .args(["--user", &format!("{ACCESS_KEY}:{SECRET_KEY}")])
            .args(["--header", "x-amz-content-sha256: UNSIGNED-PAYLOAD"])
            .args(["--header", "Content-Type:"])
            .args(headers)
            .args(["--write-out", "\n%{http_code}"])
            .arg(format!("http://127.0.0.1:{}{path}", self.port))
            .output()
            .expect("curl runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (answer, status) = text.rsplit_once('\n').unwrap_or_default();
        (status.parse().unwrap_or_default(), answer.to_owned())
    }

    fn start_as(what: &str, tls: Option<[PathBuf; 2]>, keeps: bool) -> Option<Self> {
        let Some(program) = program("versitygw") else {
            crate::not_checked(
                what,
                "versitygw is not installed (make test-tools installs it if there is go)",
            );
            return None;
        };
        let directory = tempfile::tempdir().expect("a directory for the server");
        for folder in ["data", "users", "versions"] {
            fs::create_dir(directory.path().join(folder)).expect("a folder");
        }
        fs::create_dir(directory.path().join("data").join(BUCKET)).expect("a bucket");
        let port = free_port();
        let mut gateway = Self {
            program,
            directory,
            port,
            tls,
            keeps,
            server: None,
        };
        gateway.restart();
        Some(gateway)
    }

    /// Starts the server again, in the same place.
    pub fn restart(&mut self) {
        self.kill();
        let mut command = Command::new(&self.program);
        if let Some([certificate, key]) = &self.tls {
            command.arg("--cert").arg(certificate).arg("--key").arg(key);
        }
        command
            .args([
                "--quiet",
                "--keep-alive",
                "--port",
                &format!("127.0.0.1:{}", self.port),
            ])
            .args(["--access", ACCESS_KEY, "--secret", SECRET_KEY]);
        let folder = |name: &str| self.directory.path().join(name);
        if self.keeps {
            command.arg("--iam-dir").arg(folder("users"));
        }
        command.arg("posix");
        if self.keeps {
            command.arg("--versioning-dir").arg(folder("versions"));
        }
        let server = command
            .arg(folder("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("start versitygw");
        self.server = Some(server);
        wait_for(self.port);
    }

    /// Kills the server, whatever it is doing.
    pub fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().expect("kill versitygw");
            server.wait().expect("wait for versitygw");
        }
    }

    /// The port at which the server listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// URL of something in a bucket.
    pub fn url(&self, bucket: &str, prefix: &str) -> String {
        let scheme = match self.tls {
            Some(_) => "s3+https",
            None => "s3+http",
        };
        format!("{scheme}://127.0.0.1:{}/{bucket}/{prefix}", self.port)
    }

    /// The bucket as a directory.
    pub fn bucket(&self) -> PathBuf {
        self.directory.path().join("data").join(BUCKET)
    }

    /// Scheme, host and port.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Makes another user, who may do nothing yet.
    pub fn add_user(&self, name: &str, secret: &str) {
        let made = Command::new(&self.program)
            .args(["admin", "--access", ACCESS_KEY, "--secret", SECRET_KEY])
            .args([
                "--endpoint-url",
                &self.endpoint(),
                "create-user",
                "--role",
                "user",
            ])
            .args(["--access", name, "--secret", secret])
            .output()
            .expect("start versitygw");
        assert!(made.status.success(), "{made:?}");
    }

    /// Gives a command what it needs to use the server.
    pub fn credentials(command: &mut Command) -> &mut Command {
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("AWS_") {
                command.env_remove(name);
            }
        }
        command
            .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that nobody listens on.
pub fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    free.local_addr().expect("its address").port()
}

/// Waits until a server listens.
pub fn wait_for(port: u16) {
    let start = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "the server does not listen"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A program in the path, or where `make test-tools` puts it.
pub fn program(name: &str) -> Option<PathBuf> {
    // Beside what cargo builds: above the test program, at whatever depth.
    let test = std::env::current_exe().unwrap_or_default();
    let tools = test.ancestors().map(|folder| folder.join("tools"));
    let tools = tools.flat_map(|tools| [tools.join("python/bin"), tools]);
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(tools)
        .map(|folder| folder.join(name))
        .find(|program| program.exists())
}
