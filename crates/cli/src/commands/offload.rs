//! `tabane offload`

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::mpsc;

use clap::{Args, Subcommand};
use serde_json::json;
use tabane_offload::{Ask, Server, ServerOptions, Status, status};

use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::output::{Output, print_json};
use crate::process;

/// Hash and encrypt for many processes that use OpenSSL, side by side
#[derive(Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Programs with Tabane's provider (see tabane openssl) find the service by themselves. It helps \
where more processes than there are cores hash or encrypt long messages, and is left alone \
otherwise. contrib/systemd/tabane-offload.service runs it as a service.

Examples:
  tabane offload serve
  tabane offload status")]
pub struct Offload {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Serve, until a signal ends it
    Serve(Serve),
    /// Show who is served, and what is done
    Status(Place),
}

#[derive(Args)]
#[command(after_help = "\
Whoever may write to the socket can use the service, and the service sees what they hash and \
encrypt, and their keys: --mode says who that is. Programs look for it at \
/run/tabane/offload.sock, then in $XDG_RUNTIME_DIR/tabane, or where TABANE_OFFLOAD says. SIGTERM \
and SIGINT end it, and programs go on without it.

Examples:
  tabane offload serve
  tabane offload serve --socket /run/tabane/offload.sock --mode 660")]
struct Serve {
    #[command(flatten)]
    place: Place,
    /// The rights of the socket, in octal digits
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = mode)]
    mode: u32,
    /// Clients at a time; others go on without it
    #[arg(long, value_name = "NUMBER", default_value_t = 1024)]
    clients: usize,
}

#[derive(Args)]
struct Place {
    /// The socket of the service [default: /run/tabane/offload.sock for root, offload.sock in
    /// $XDG_RUNTIME_DIR/tabane for others]
    #[arg(long, value_name = "FILE", env = "TABANE_OFFLOAD")]
    socket: Option<PathBuf>,
}

fn mode(text: &str) -> std::result::Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("three octal digits, as 660".to_owned()),
    }
}

impl Place {
    fn socket(self) -> Result<PathBuf> {
        if let Some(socket) = self.socket {
            return Ok(socket);
        }
        if rustix::process::geteuid().is_root() {
            return Ok("/run/tabane/offload.sock".into());
        }
        let user = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let user = user.map(|dir| dir.join("tabane/offload.sock"));
        user.ok_or_else(|| {
            Failure::Other("XDG_RUNTIME_DIR is not set: say with --socket where".to_owned())
        })
    }
}

impl Offload {
    /// Serves until a signal comes, or prints what a service does.
    pub fn run(self, global: &Global) -> Result<Exit> {
        match self.action {
            Action::Serve(serve) => serve.run(global),
            Action::Status(place) => place.run(global),
        }
    }
}

/// Bytes of a socket's name at most: `sun_path` of `unix(7)` has 108, the last of them 0.
const SOCKET_NAME_BYTES_MAX: usize = 107;

impl Serve {
    fn run(self, global: &Global) -> Result<Exit> {
        let socket = self.place.socket()?;
        let len = socket.as_os_str().len();
        if len > SOCKET_NAME_BYTES_MAX {
            return Err(Failure::Other(format!(
                "{}: the name of a socket has {SOCKET_NAME_BYTES_MAX} bytes at most, and this one \
                 has {len}: name a shorter one with --socket",
                format::path(&socket)
            )));
        }
        let failed = |error: std::io::Error| {
            let reason = match error.kind() {
                ErrorKind::AddrInUse => "somebody serves there".to_owned(),
                _ => format::reason(&error),
            };
            Failure::Other(format!("{}: {reason}", format::path(&socket)))
        };
        if let Some(dir) = socket.parent() {
            std::fs::create_dir_all(dir).map_err(failed)?;
        }
        let (stop, stopped) = mpsc::channel();
        process::on_signal(move || drop(stop));
        let options = ServerOptions {
            socket: socket.clone(),
            mode: self.mode,
            clients_max: self.clients,
            ask: Ask::Sooner,
        };
        global.open_card()?;
        let server = Server::start(options).map_err(failed)?;
        if global.json {
            print_json(&json!({
                "message_type": "serving",
                "socket": socket.to_string_lossy(),
            }))?;
        } else if !global.quiet {
            let mut output = Output::new();
            output.line(format!("serves at {}", format::path(&socket)))?;
            output.finish()?;
        }
        // Nothing is ever sent: a signal closes the channel.
        let _: std::result::Result<(), _> = stopped.recv();
        server.stop();
        Ok(Exit::Success)
    }
}

impl Place {
    fn run(self, global: &Global) -> Result<Exit> {
        let socket = self.socket()?;
        let status = status(&socket).map_err(|error| {
            let reason = match error.kind() {
                ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                    "no service runs there: tabane offload serve starts one".to_owned()
                }
                ErrorKind::WouldBlock => "the service does not answer: is it stopped?".to_owned(),
                ErrorKind::ConnectionReset => {
                    "the service has no room for another connection now: ask again in a second"
                        .to_owned()
                }
                _ => format::reason(&error),
            };
            Failure::Other(format!("{}: {reason}", format::path(&socket)))
        })?;
        if global.json {
            print_json(&json!({
                "seconds": status.seconds,
                "active": status.active,
                "depth": status.depth,
                "fill": status.fill(),
                "latency_us": { "p50": status.latency_us(0.5), "p99": status.latency_us(0.99) },
                "from_bytes": status.from_bytes.iter().cloned().collect::<BTreeMap<_, _>>(),
                "units": status.units,
                "cards": status.cards,
                "clients": status.clients,
                "clients_max": status.clients_max,
            }))?;
            return Ok(Exit::Success);
        }
        print(&status)?;
        Ok(Exit::Success)
    }
}

fn print(status: &Status) -> Result<()> {
    let mut output = Output::new();
    output.line(format!(
        "clients    {} of {} at most, of which {} have something to do; {} messages wait",
        status.clients.len(),
        status.clients_max,
        status.active,
        status.depth
    ))?;
    if status.clients.len() >= status.clients_max {
        output.line(
            "full       other programs go on without the service: allow more with offload serve \
             --clients and ulimit -n",
        )?;
    }
    output.line(match (status.latency_us(0.5), status.latency_us(0.99)) {
        (Some(half), Some(most)) => format!(
            "bundles    {:.1} messages each; half of the messages took {half} us at most, 99% \
             {most} us",
            status.fill()
        ),
        _ => "bundles    none yet".to_owned(),
    })?;
    for (name, from) in &status.from_bytes {
        let from = from.map_or("not worth asking for now".to_owned(), |from| {
            format!("asked for from {from} bytes on")
        });
        output.line(format!("{name:<10} {from}"))?;
    }
    let total: u64 = status.units.iter().map(|unit| unit.bytes).sum();
    for unit in &status.units {
        output.line(format!(
            "core {:<5} {:.0}% of the work, {:.0}% of its time: {} in {} messages in {} bundles",
            unit.core,
            100.0 * unit.bytes as f64 / total.max(1) as f64,
            100.0 * unit.busy_seconds / status.seconds,
            format::bytes(unit.bytes),
            unit.messages,
            unit.bundles
        ))?;
    }
    for card in &status.cards {
        output.line(format!(
            "card {}: {:.0}% of the work, {:.0}% of its time: {} in {} bundles",
            card.name,
            100.0 * card.bytes as f64 / total.max(1) as f64,
            100.0 * card.busy_seconds / status.seconds,
            format::bytes(card.bytes),
            card.bundles
        ))?;
    }
    for client in &status.clients {
        let active = if client.active { "" } else { ", quiet" };
        let refused = match client.refused {
            0 => String::new(),
            refused => format!(", {refused} refused"),
        };
        output.line(format!(
            "process {} of user {}: {} in {} messages{refused}{active}",
            client.pid,
            client.uid,
            format::bytes(client.bytes),
            client.messages
        ))?;
    }
    output.finish()?;
    Ok(())
}
