//! A real SSH server on this machine: OpenSSH.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use crate::gateway::{free_port, wait_for};

/// A server that lets the user of the test in with a key of its own; stopped when dropped.
pub struct Sshd {
    directory: TempDir,
    port: u16,
    server: Option<Child>,
}

impl Sshd {
    /// Starts a server, or says loudly that there is none.
    pub fn start(what: &str) -> Option<Self> {
        let missing = [DAEMON, SFTP_SERVER, "/usr/bin/ssh", "/usr/bin/ssh-keygen"]
            .into_iter()
            .find(|program| !Path::new(program).exists());
        if let Some(program) = missing {
            crate::not_checked(what, format!("{program} is missing (make test-tools)"));
            return None;
        }
        if crate::is_root() {
            // The service makes it at its start.
            let _ = fs::create_dir("/run/sshd");
        }
        let mut sshd = Self {
            directory: tempfile::tempdir().expect("a directory for the server"),
            port: free_port(),
            server: None,
        };
        sshd.configure();
        sshd.restart();
        Some(sshd)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Keys, the server's configuration, and an `ssh` that knows both.
    fn configure(&self) {
        for key in ["host", "user"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(self.path(key))
                .status();
            assert!(made.expect("ssh-keygen").success());
        }
        let at = |name: &str| self.path(name).display().to_string();
        self.authorize("");
        // A shell that believes to be inside another one does not run the user's .bashrc, which on
        // some machines takes longer than a test.
        let settings = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile \
             none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin \
             yes\nMaxStartups 100\nSetEnv SHLVL=1\nSubsystem sftp {SFTP_SERVER}\n",
            at("host"),
            at("authorized"),
            port = self.port,
        );
        fs::write(self.path("sshd_config"), settings).expect("a file");
        let public = fs::read_to_string(self.path("host.pub")).expect("the host's key");
        let known = format!("[127.0.0.1]:{} {public}", self.port);
        fs::write(self.path("known"), known).expect("a file");
        fs::create_dir(self.path("bin")).expect("a folder");
        let script = format!(
            "#!/bin/sh\nexec /usr/bin/ssh -F none -oIdentityFile={} -oIdentitiesOnly=yes \
             -oUserKnownHostsFile={} -oBatchMode=yes \"$@\"\n",
            at("user"),
            at("known"),
        );
        let program = self.path("bin/ssh");
        fs::write(&program, script).expect("a program");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("made executable");
    }

    /// Lets the user in with these options of `authorized_keys`, such as a forced command.
    pub fn authorize(&self, options: &str) {
        let public = fs::read_to_string(self.path("user.pub")).expect("the user's key");
        let line = match options {
            "" => public,
            options => format!("{options} {public}"),
        };
        fs::write(self.path("authorized"), line).expect("a file");
    }

    /// Starts the server again.
    pub fn restart(&mut self) {
        self.kill();
        let server = Command::new(DAEMON)
            .args(["-D", "-e", "-f"])
            .arg(self.path("sshd_config"))
            // So that its connections can be killed with it.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("start sshd");
        self.server = Some(server);
        wait_for(self.port);
    }

    /// Kills the server and all its connections, whatever they are doing.
    pub fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            let group = i32::try_from(server.id()).ok().and_then(Pid::from_raw);
            let _ = kill_process_group(group.expect("a process"), Signal::KILL);
            server.wait().expect("wait for sshd");
        }
    }

    /// URL of a folder on this machine.
    pub fn url(&self, scheme: &str, path: &Path) -> String {
        let path = path.display();
        format!("{scheme}://127.0.0.1:{}{path}", self.port)
    }

    /// `PATH` with an `ssh` that reaches the server.
    pub fn search_path(&self) -> OsString {
        let mut folders = vec![self.path("bin")];
        let path = std::env::var_os("PATH").unwrap_or_default();
        folders.extend(std::env::split_paths(&path));
        std::env::join_paths(folders).expect("folders without colons")
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.kill();
    }
}

const DAEMON: &str = "/usr/sbin/sshd";
const SFTP_SERVER: &str = "/usr/lib/openssh/sftp-server";
