//! `tabane serve`

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;
use tabane_server::clients::Client;
use tabane_server::settings::{self, Proof};
use tabane_server::{Role, Server, ServerOptions, StdioOptions, serve_stdio};

use crate::args::Global;
use crate::exit::{Exit, Result};
use crate::format;
use crate::output::{Output, print_json};
use crate::process;

/// Serve repositories to other machines, with roles and quotas
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
#[command(after_help = "\
Over HTTPS, clients use --repo tabane+https://HOST:PORT/NAME, where NAME is a folder of --dir. A \
client may do what its role says: read; append, which also adds backups and deletes nothing; \
admin. `tabane serve setup` makes certificates, `tabane serve add` lists a client; a change counts \
at once. contrib/systemd/tabane-serve.service runs it as a service.

Over SSH, clients use --repo ssh://USER@HOST/PATH, which runs `tabane serve --stdio` there. A line \
of authorized_keys restricts a key, whatever its client asks for:
  restrict,command=\"tabane serve --stdio --restrict-to /srv/laptop --append-only\" ssh-ed25519 …

Examples:
  tabane serve setup /etc/tabane-serve --host nas.local
  tabane serve add /etc/tabane-serve laptop --role append --quota 500G
  tabane serve --settings /etc/tabane-serve --dir /srv/backups")]
pub struct Serve {
    #[command(subcommand)]
    action: Option<Action>,
    /// The folder with certificates and clients, from tabane serve setup
    #[arg(long, value_name = "DIR", required_unless_present = "stdio")]
    settings: Option<PathBuf>,
    /// The directory of the repositories
    #[arg(long, value_name = "DIR", required_unless_present = "stdio")]
    dir: Option<PathBuf>,
    /// Host and port to listen on
    #[arg(long, value_name = "HOST:PORT", default_value = "0.0.0.0:7450")]
    listen: String,
    /// Answer HTTP here: /metrics for Prometheus, and /health
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
    /// Read all objects of each repository this often, and compare them with their names; 0s for
    /// never
    #[arg(long, value_name = "DURATION", default_value = "30d")]
    #[arg(value_parser = format::parse_duration)]
    scrub_every: Duration,
    /// Serve the one client that has started this by ssh
    #[arg(long, conflicts_with_all = ["settings", "dir", "listen", "metrics", "scrub_every"])]
    stdio: bool,
    #[command(flatten)]
    key: Key,
}

/// What a key of SSH is restricted to.
#[derive(Args)]
struct Key {
    /// With --stdio: only repositories in this folder or below; may be repeated
    #[arg(long, value_name = "DIR", requires = "stdio")]
    restrict_to: Vec<PathBuf>,
    /// With --stdio: add backups, delete nothing
    #[arg(long, requires = "stdio")]
    append_only: bool,
    /// With --stdio: only read
    #[arg(long, requires = "stdio", conflicts_with = "append_only")]
    read_only: bool,
    /// With --stdio: refuse what would bring a repository above so many bytes, as in 500G
    #[arg(long, value_name = "SIZE", requires = "stdio", value_parser = format::parse_bytes)]
    quota: Option<u64>,
}

#[derive(Subcommand)]
enum Action {
    /// Make the settings of a new server
    #[command(after_help = "\
Makes an authority, whose key signs certificates, and a certificate of the server, valid for ten \
years. authority.pem is what clients need to know the server (--cacert). A certificate of \
another authority can take the place of server.pem and server-key.pem at any time.

Example:
  tabane serve setup /etc/tabane-serve --host nas.local --host 192.168.1.5")]
    Setup {
        /// The folder to make
        settings: PathBuf,
        /// A name or an address by which clients reach the server; may be repeated
        #[arg(long, required = true)]
        host: Vec<String>,
    },
    /// List a new client
    #[command(after_help = "\
Prints a token, which is stored nowhere: the file has its hash. The client keeps it in a file that \
TABANE_SERVER_TOKEN_FILE names. With --certificate it gets a certificate instead, in a file that \
TABANE_SERVER_CERTIFICATE names. To take a client's rights away, remove its entry from \
clients.toml.

Examples:
  tabane serve add /etc/tabane-serve laptop --role append --quota 500G
  tabane serve add /etc/tabane-serve keeper --role admin --repository laptop --repository desktop")]
    Add {
        /// The folder of the settings
        settings: PathBuf,
        /// The client's name: small letters, digits and hyphens
        name: String,
        /// What it may do: read, append or admin
        #[arg(long)]
        role: Role,
        /// A repository for it; may be repeated [default: one with the client's name]
        #[arg(long, value_name = "NAME")]
        repository: Vec<String>,
        /// Refuse what would bring a repository above so many bytes, as in 500G
        #[arg(long, value_name = "SIZE", value_parser = format::parse_bytes)]
        quota: Option<u64>,
        /// Make a certificate instead of a token
        #[arg(long)]
        certificate: bool,
    },
}

impl Serve {
    /// Runs `tabane serve`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        match self.action {
            Some(Action::Setup { settings, host }) => setup(global, &settings, &host),
            Some(Action::Add {
                settings,
                name,
                role,
                repository,
                quota,
                certificate,
            }) => {
                let repositories = if repository.is_empty() {
                    vec![name.clone()]
                } else {
                    repository
                };
                let client = Client {
                    name,
                    role,
                    repositories,
                    quota,
                    token_hash: None,
                    certificate_hash: None,
                };
                add(global, &settings, client, certificate)
            }
            None if self.stdio => {
                let key = self.key;
                let role = match (key.append_only, key.read_only) {
                    (true, _) => Role::Append,
                    (_, true) => Role::Read,
                    _ => Role::Admin,
                };
                serve_stdio(&StdioOptions {
                    restrict_to: key.restrict_to,
                    role,
                    quota: key.quota,
                })?;
                Ok(Exit::Success)
            }
            None => self.listen(global),
        }
    }

    fn listen(self, global: &Global) -> Result<Exit> {
        let (Some(directory), Some(settings)) = (self.dir, self.settings) else {
            unreachable!("clap requires both");
        };
        let options = ServerOptions {
            directory,
            settings,
            listen: self.listen,
            metrics: self.metrics,
            scrub_interval: Some(self.scrub_every).filter(|every| !every.is_zero()),
            log: Arc::new(|line| eprintln!("tabane: {line}")),
        };
        let (stop, stopped) = mpsc::channel();
        process::on_signal(move || drop(stop));
        let server = Server::start(options)?;
        let metrics = server.metrics_address().map(|address| address.to_string());
        if global.json {
            print_json(&json!({
                "message_type": "serving",
                "address": server.address().to_string(),
                "metrics": metrics,
            }))?;
        } else if !global.quiet {
            let mut output = Output::new();
            output.line(format!("the server listens on {}", server.address()))?;
            output.finish()?;
        }
        // Nothing is ever sent: a signal closes the channel.
        let _: std::result::Result<(), _> = stopped.recv();
        server.stop();
        Ok(Exit::Success)
    }
}

fn setup(global: &Global, folder: &Path, hosts: &[String]) -> Result<Exit> {
    settings::create(folder, hosts)?;
    if global.json {
        let folder = folder.display().to_string();
        print_json(&json!({ "message_type": "setup", "settings": folder }))?;
    } else if !global.quiet {
        let mut output = Output::new();
        let folder = format::path(folder);
        output.line(format!(
            "made the settings of a server in {folder}; next: tabane serve add {folder} NAME \
             --role append"
        ))?;
        output.finish()?;
    }
    Ok(Exit::Success)
}

fn add(global: &Global, folder: &Path, client: Client, certificate: bool) -> Result<Exit> {
    let (name, role, repositories) =
        (client.name.clone(), client.role, client.repositories.clone());
    let proof = settings::add(folder, client, certificate)?;
    if global.json {
        let (token, file) = match &proof {
            Proof::Token(token) => (Some(token.clone()), None),
            Proof::Certificate(path) => (None, Some(path.display().to_string())),
        };
        print_json(&json!({
            "message_type": "client",
            "name": name,
            "role": role.name(),
            "repositories": repositories,
            "token": token,
            "certificate": file,
        }))?;
        return Ok(Exit::Success);
    }
    let mut output = Output::new();
    if !global.quiet {
        output.line(format!(
            "{name} has the role {role} for {}; its {}:",
            repositories.join(", "),
            match proof {
                Proof::Token(_) => "token, which is stored nowhere",
                Proof::Certificate(_) => "certificate with its key",
            }
        ))?;
    }
    match proof {
        Proof::Token(token) => output.line(token)?,
        Proof::Certificate(path) => output.line(format::path(&path))?,
    }
    output.finish()?;
    Ok(Exit::Success)
}
