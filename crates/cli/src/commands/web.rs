//! `tabane web`

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tabane_store::Password;
use tabane_striped::cluster;
use tabane_web::{Backup, Options, Place, Secret, Server, Set, Tls};

use crate::advice;
use crate::args::Global;
use crate::config;
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::output::{Output, print_json, warn};
use crate::password;
use crate::process;

/// A storage that does not answer is not waited for longer: a person sits in front of the page.
const PATIENCE_MAX: Duration = Duration::from_secs(15);

/// Time for which the file that leads the browser to the page stays.
const LEADING_FILE_TIME: Duration = Duration::from_secs(30);

/// Show repositories in a browser
#[derive(Args)]
#[command(after_help = "\
The page browses, searches and compares snapshots, shows and downloads files, and tries rules of \
retention. It shows the repository of --repo; without one, all of the configuration file. The \
files are there as WebDAV, too, below /dav/, for programs: any name, and the token as password.

Whoever has the printed address can read everything in the repositories. It has a random token, \
and is for this machine alone. Other machines are let in with --listen, a certificate, and a \
password or certificates of clients.

The page changes nothing, unless --allow-restore names a folder into which it may restore, or \
--allow-jobs lets it start backups by profile, checks, prunes, forgets, heals and scrubs. A job is \
a command like any other, and its line is shown. Their logs are kept below --state-dir, by itself \
in ~/.local/state/tabane/web. A restore follows no link in the folder.

Examples:
  tabane web -r /mnt/backup
  tabane web --allow-jobs --allow-restore ~/restored
  tabane web --listen 0.0.0.0:8443 --tls-cert cert.pem --tls-key key.pem --web-password-file \
page-password")]
pub struct Web {
    /// Where to listen; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8420")]
    listen: SocketAddr,
    /// The server's certificates, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of the first of them, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Let only clients in that have a certificate of one of these authorities, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    client_ca: Option<PathBuf>,
    /// Ask for the password in this file, instead of a token
    #[arg(long, value_name = "FILE")]
    web_password_file: Option<PathBuf>,
    /// Answer under this name too, as the address bar of the browser has it (repeatable)
    #[arg(long, value_name = "NAME[:PORT]")]
    host: Vec<String>,
    /// Let the page start jobs
    #[arg(long)]
    allow_jobs: bool,
    /// Let the page restore into this folder and below (repeatable)
    #[arg(long, value_name = "DIR")]
    allow_restore: Vec<PathBuf>,
    /// Call a backup overdue when its latest snapshot is older than this, whatever its rhythm
    #[arg(long, value_name = "DURATION", value_parser = format::parse_duration)]
    expect_every: Option<Duration>,
    /// Do not open a browser
    #[arg(long)]
    no_browser: bool,
}

impl Web {
    /// Runs `tabane web`.
    pub fn run(mut self, global: &Global) -> Result<Exit> {
        let tls = self.tls()?;
        let (secret, token) = self.secret(tls.is_some())?;
        for folder in &mut self.allow_restore {
            let real = folder.canonicalize();
            *folder = real.map_err(|error| {
                let shown = format::path(folder);
                Failure::Other(format!("cannot restore into {shown}: {error}"))
            })?;
        }
        let scheme = if tls.is_some() { "https" } else { "http" };
        let server = Server::bind(Options {
            address: self.listen,
            tls,
            secret,
            hosts: self.host.clone(),
            places: self.places(global)?,
            program: std::env::current_exe()?,
            history: global.state_root().map(|root| root.join("web")),
            allow_jobs: self.allow_jobs,
            allow_restore: self.allow_restore.clone(),
            explain: advice::explain,
            report: |text| warn(text),
        })
        .map_err(|error| Failure::Other(format!("cannot listen at {}: {error}", self.listen)))?;
        let mut address = format!("{scheme}://{}/", server.address());
        if let Some(token) = token {
            address += &format!("?token={token}");
        }
        if global.json {
            print_json(&json!({"message_type": "serving", "address": address}))?;
        } else {
            let mut output = Output::new();
            output.line(format!("the page is at {address}"))?;
            output.line("Ctrl-C ends it")?;
            output.finish()?;
        }
        if !self.no_browser && !global.json && is_desktop() {
            open_browser(&address);
        }
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        process::on_signal(move || drop(stop));
        server.serve(stopped);
        Ok(Exit::Success)
    }

    /// Certificate and key, where others than this machine are to be let in.
    fn tls(&self) -> Result<Option<Tls>> {
        if let (Some(certificates), Some(key)) = (&self.tls_cert, &self.tls_key) {
            let tls = Tls::from_files(certificates, key, self.client_ca.as_deref());
            return tls
                .map(Some)
                .map_err(|error| Failure::Other(format!("cannot use {error}")));
        }
        if self.listen.ip().is_loopback() {
            return Ok(None);
        }
        Err(Failure::Usage(format!(
            "{} can be reached from other machines: that takes --tls-cert and --tls-key, and \
             --web-password-file or --client-ca",
            self.listen
        )))
    }

    /// What lets a person in, and the token if it is one.
    fn secret(&self, is_tls: bool) -> Result<(Secret, Option<String>)> {
        if let Some(file) = &self.web_password_file {
            let password = password::from_file(file)?;
            return Ok((Secret::password(&password), None));
        }
        if self.client_ca.is_some() {
            return Ok((Secret::Certificate, None));
        }
        if is_tls && !self.listen.ip().is_loopback() {
            let text = "other machines are let in with a password or certificates of clients: use \
                        --web-password-file or --client-ca";
            return Err(Failure::Usage(text.to_owned()));
        }
        let (secret, token) = Secret::token();
        Ok((secret, Some(token)))
    }

    /// What is shown: the repository that was given, or all of the configuration file.
    fn places(&self, global: &Global) -> Result<Vec<Place>> {
        let given = global.repository.repo.clone();
        let is_given = given.as_ref().is_some_and(|repo| !repo.is_empty());
        let has_file = config::is_there(global.config.as_ref());
        let (repositories, backups) = if has_file {
            config::everything(global.config.as_ref())?
        } else {
            Default::default()
        };
        if let (true, Some(repo)) = (is_given, given) {
            return Ok(vec![self.place(global, repo, None, &backups)?]);
        }
        if repositories.is_empty() {
            let text = "no repository given: use --repo PLACE, set TABANE_REPOSITORY, or name \
                        repositories in the configuration file";
            return Err(Failure::Usage(text.to_owned()));
        }
        let place = |(name, repository): (&String, &config::Repository)| {
            let repo = format!("@{name}").into();
            self.place(global, repo, Some(&repository.url), &backups)
        };
        repositories.iter().map(place).collect()
    }

    /// The repository that `--repo` would name so; `url` is what its name stands for.
    fn place(
        &self,
        global: &Global,
        repo: OsString,
        url: Option<&str>,
        backups: &[config::Backup],
    ) -> Result<Place> {
        let mut global = global.clone();
        global.repository.repo = Some(repo.clone());
        let network = &mut global.repository.network;
        network.retry_for = network.retry_for.min(PATIENCE_MAX);
        let text = repo.to_string_lossy().into_owned();
        let name = text.strip_prefix('@').unwrap_or("repository").to_owned();
        let typed = self.typed_password(&global, url.is_none())?;
        let global = Arc::new(global);
        let password = {
            let global = Arc::clone(&global);
            move || match &typed {
                Some(password) => Ok(password.clone()),
                None => global
                    .given_password()
                    .and_then(|given| given.ok_or_else(|| Failure::Other(no_password(&global))))
                    .map_err(|failure| failure.to_string()),
            }
        };
        let password: Arc<dyn Fn() -> std::result::Result<Password, String> + Send + Sync> =
            Arc::new(password);
        let is_of = |backup: &&config::Backup| {
            backup.repo == text || url.is_some_and(|url| backup.repo == url)
        };
        let (is_set, nodes) = global.is_set()?;
        Ok(Place {
            name,
            url: url.map_or(text.clone(), str::to_owned),
            open: {
                let (global, password) = (Arc::clone(&global), Arc::clone(&password));
                Box::new(move || {
                    let opened = global.open_with_password(&password()?);
                    opened.map_err(|failure| failure.to_string())
                })
            },
            password: Box::new(move || password()),
            arguments: vec!["-r".into(), repo],
            configuration: match &global.config {
                Some(file) => vec!["--config".into(), file.into()],
                None => Vec::new(),
            },
            backups: backups
                .iter()
                .filter(is_of)
                .map(|backup| Backup {
                    profile: backup.profile.clone(),
                    paths: backup.paths.clone(),
                })
                .collect(),
            set: is_set.then(|| set(&global, nodes)),
            expect_every: self.expect_every,
        })
    }

    /// The password of a repository, if a person types it, which only makes sense for one.
    fn typed_password(&self, global: &Global, may_ask: bool) -> Result<Option<Password>> {
        if !may_ask || global.given_password()?.is_some() {
            return Ok(None);
        }
        let (password, _) = password::existing(global)?;
        // A wrong one is found out here, and not on the page.
        global.open_with_password(&password)?;
        Ok(Some(password))
    }
}

/// What tells of the targets of a repository; `nodes` is the file of its cluster, if it is one.
fn set(global: &Arc<Global>, nodes: Option<PathBuf>) -> Set {
    let global = Arc::clone(global);
    Set {
        open: Box::new(move || {
            // A view shows targets as they are, without retrying.
            let mut global = (*global).clone();
            global.repository.network.retry_for = Duration::ZERO;
            global.set().map_err(|failure| failure.to_string())
        }),
        nodes: nodes.map(|file| -> tabane_web::OpenNodes {
            Box::new(move || {
                cluster::nodes(&file).map_err(|error| advice::explain_storage(&error))
            })
        }),
    }
}

fn no_password(global: &Global) -> String {
    let repo = global.repository.repo.as_ref();
    let repo = repo.map(|repo| repo.to_string_lossy()).unwrap_or_default();
    format!(
        "no password of {repo} is given: put password-file or password-command into the \
         configuration file, or set TABANE_PASSWORD_FILE"
    )
}

/// Whether a person sits in front of a desktop here.
fn is_desktop() -> bool {
    let display = ["WAYLAND_DISPLAY", "DISPLAY"].iter().filter_map(std::env::var_os);
    io::stdout().is_terminal() && display.into_iter().any(|display| !display.is_empty())
}

/// Opens the browser at `address`, by way of a file that only its owner can read: everybody on
/// the machine can read the arguments of programs.
fn open_browser(address: &str) {
    let folder = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, Into::into);
    let file = folder.join(format!("tabane-web-{}.html", std::process::id()));
    let page = format!(
        "<!doctype html><meta charset=utf-8><title>Tabane</title><meta http-equiv=refresh \
         content=\"0; url={address}\"><a href=\"{address}\">Tabane</a>\n"
    );
    let opened = write_private(&file, &page).and_then(|()| {
        Command::new("xdg-open")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    });
    // Without it, the address is on the terminal.
    std::thread::spawn(move || {
        if let Ok(mut child) = opened {
            std::thread::sleep(LEADING_FILE_TIME);
            let _ = child.wait();
        }
        let _ = fs::remove_file(file);
    });
}

fn write_private(file: &Path, text: &str) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(file)?;
    file.write_all(text.as_bytes())
}
