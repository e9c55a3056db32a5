//! `tabane-bench fabric`: frames between rings, as figure 9 of the paper, beside programs that only
//! send.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::str::FromStr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tabane_bench::drawing::{self, Across, Lines};
#[cfg(feature = "libfabric")]
use tabane_bench::peers::rma_bw::RmaBw;
use tabane_fabric::{Endpoint, Receiver, Ring, Sender, Tail, Tcp};
#[cfg(feature = "libfabric")]
use tabane_fabric::{Fabric, FabricListener};

/// Bytes of a ring for frames of this length: room for several, but small, since bytes in a
/// processor's cache are copied faster. Sessions of clusters have rings of such lengths.
fn ring_len(frame: usize) -> usize {
    (16 * frame).clamp(1 << 20, 16 << 20)
}

const FRAME_TIMEOUT: Duration = Duration::from_secs(20);

/// Time frames from ring to ring on this machine: one way, through a relay, and there and back.
///
/// Bytes are received into the ring and sent from it; nothing is copied but by the kernel. In turns
/// with it a peer sends pieces of the same length: over TCP iperf3, if it is installed; over
/// libfabric a program that does nothing else, as fi_rma_bw, into as much memory. Figures are the
/// best of the rounds.
#[derive(clap::Args)]
pub struct Args {
    /// What moves the bytes: `tcp`, or `libfabric:` and the provider, as in `libfabric:tcp`
    #[arg(long, default_value = "tcp")]
    backend: Backend,
    /// Lengths of frames, in bytes
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',',
        default_values_t = [1, 64, 1024, 4096, 16384, 65536, 262_144, 1_048_576, 4_194_304])]
    lens: Vec<usize>,
    /// How long to time each, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 500)]
    time: u64,
    /// How many times
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Draw rates by lengths as an SVG file in this folder
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Print one flat JSON object a line instead of a table
    #[arg(long)]
    json: bool,
}

/// What moves the bytes.
#[derive(Clone)]
enum Backend {
    Tcp,
    #[cfg(feature = "libfabric")]
    Libfabric(String),
}

impl FromStr for Backend {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "tcp" => Ok(Self::Tcp),
            #[cfg(feature = "libfabric")]
            Some(("libfabric", provider)) => Ok(Self::Libfabric(provider.to_owned())),
            #[cfg(not(feature = "libfabric"))]
            Some(("libfabric", _)) => {
                Err("this program was built without the feature libfabric".to_owned())
            }
            _ => Err("it is tcp, or libfabric:PROVIDER".to_owned()),
        }
    }
}

/// What is measured beside it.
enum Peer {
    Iperf3,
    #[cfg(feature = "libfabric")]
    RmaBw(RmaBw, String),
}

impl Peer {
    fn of(backend: &Backend) -> Result<Self> {
        match backend {
            Backend::Tcp => Ok(Self::Iperf3),
            #[cfg(feature = "libfabric")]
            Backend::Libfabric(provider) => Ok(Self::RmaBw(RmaBw::new()?, provider.clone())),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Iperf3 => "iperf3",
            #[cfg(feature = "libfabric")]
            Self::RmaBw(..) => "rma_bw",
        }
    }

    /// Bytes a second; nothing if it is not installed.
    fn rate(&self, len: usize, time: Duration) -> Result<Option<f64>> {
        match self {
            Self::Iperf3 => Ok(iperf3(len, time)),
            #[cfg(feature = "libfabric")]
            Self::RmaBw(program, provider) => {
                program.rate(provider, len, ring_len(len), time).map(Some)
            }
        }
    }
}

/// Measures.
pub fn run(args: &Args) -> Result<ExitCode> {
    let time = Duration::from_millis(args.time);
    let backend = &args.backend;
    let beside = Peer::of(backend)?;
    let backend_name = match backend {
        Backend::Tcp => "tcp".to_owned(),
        #[cfg(feature = "libfabric")]
        Backend::Libfabric(provider) => format!("libfabric:{provider}"),
    };
    let name = beside.name();
    let mut lines: Lines<&str> = [name, "point to point", "through a relay"]
        .map(|name| (name, Vec::new()))
        .into();
    for &len in &args.lens {
        let (mut direct, mut relayed, mut peer) = (0.0_f64, 0.0_f64, None::<f64>);
        let mut half = f64::INFINITY;
        for _ in 0..args.rounds {
            direct = direct.max(stream(backend, len, time, 0)?);
            if let Some(rate) = beside.rate(len, time)? {
                peer = Some(peer.unwrap_or(0.0).max(rate));
            }
            relayed = relayed.max(stream(backend, len, time, 1)?);
            half = half.min(ping(backend, len, time)?);
        }
        let of_peer = peer.map(|peer| direct / peer);
        let rates = [peer, Some(direct), Some(relayed)];
        for ((_, points), rate) in lines.iter_mut().zip(rates) {
            points.extend(rate.map(|rate| (len as f64, rate / 1e9)));
        }
        if args.json {
            let line = json!({
                "bench": "fabric", "backend": backend_name, "frame_bytes": len,
                "direct_gb_per_s": direct / 1e9, "relay_gb_per_s": relayed / 1e9,
                "relay_of_direct": relayed / direct, "half_round_trip_us": half * 1e6,
                format!("{name}_gb_per_s"): peer.map(|peer| peer / 1e9),
                format!("direct_of_{name}"): of_peer,
            });
            println!("{line}");
        } else {
            let beside = match (peer, of_peer) {
                (Some(peer), Some(of)) => format!("{name} {:.3} GB/s, {of:.2} of it", peer / 1e9),
                _ => format!("NOT CHECKED: {name} is not installed"),
            };
            println!(
                "{len:>8} B: {:.3} GB/s, relayed {:.3} ({:.2}), half a round trip {:.1} us; \
                {beside}",
                direct / 1e9,
                relayed / 1e9,
                relayed / direct,
                half * 1e6
            );
        }
    }
    if let Some(dir) = &args.plots {
        let name = format!("fabric-{}.svg", backend_name.replace(':', "-"));
        let x = Across::Lengths("bytes of a frame");
        drawing::lines(&dir.join(name), x, "GB/s", 0.1, &lines)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A connection whose second end has the ring.
fn connected(backend: &Backend, ring: Arc<Ring>) -> Result<(Arc<dyn Endpoint>, Arc<dyn Endpoint>)> {
    match backend {
        Backend::Tcp => {
            let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen")?;
            let client = TcpStream::connect(listener.local_addr()?)?;
            let server = Tcp::new(listener.accept()?.0, Some(ring))?;
            Ok((Arc::new(Tcp::new(client, None)?), Arc::new(server)))
        }
        #[cfg(feature = "libfabric")]
        Backend::Libfabric(provider) => {
            let listener = FabricListener::bind(provider, "127.0.0.1", 0)?;
            let port = listener.port();
            let accepting =
                thread::spawn(move || listener.next()?.accept(ring, Some(FRAME_TIMEOUT)));
            let client =
                Fabric::connect(provider, "127.0.0.1", port, &[0; 32], Some(FRAME_TIMEOUT))?;
            let server = accepting.join().ok().context("nobody accepts")??;
            Ok((Arc::new(client), Arc::new(server)))
        }
    }
}

/// A sender into the ring of another, and its one consumer.
fn link(backend: &Backend, frame: usize) -> Result<(Sender, Tail)> {
    let ring_len = ring_len(frame);
    let ring = Arc::new(Ring::new(ring_len, 1));
    let (client, server) = connected(backend, Arc::clone(&ring))?;
    let receiver = Receiver::new(ring, server);
    let tail = receiver.tails().pop().context("it has one")?;
    thread::spawn(move || receiver.run());
    Ok((Sender::new(client, ring_len), tail))
}

/// Bytes a second from a sender to the last of several rings.
fn stream(backend: &Backend, len: usize, time: Duration, relays: usize) -> Result<f64> {
    let (mut first, mut tail) = link(backend, len)?;
    for _ in 0..relays {
        let (mut next, last) = link(backend, len)?;
        let mut from = std::mem::replace(&mut tail, last);
        thread::spawn(move || -> io::Result<()> {
            for number in 0.. {
                next.send(&[from.frame(number, FRAME_TIMEOUT)?])?;
                from.release(number + 1)?;
            }
            Ok(())
        });
    }
    let consumer = thread::spawn(move || -> u64 {
        let mut frames = 0;
        while tail.frame(frames, FRAME_TIMEOUT).is_ok() && tail.release(frames + 1).is_ok() {
            frames += 1;
        }
        frames
    });
    let frame = vec![7; len];
    let begun = Instant::now();
    while begun.elapsed() < time {
        first.send(&[&frame])?;
    }
    drop(first);
    let frames = consumer.join().ok().context("a consumer failed")?;
    Ok((frames * len as u64) as f64 / begun.elapsed().as_secs_f64())
}

/// Half of the time that a frame takes there and back, in seconds.
fn ping(backend: &Backend, len: usize, time: Duration) -> Result<f64> {
    let ((mut there, mut far), (mut back, mut near)) = (link(backend, len)?, link(backend, len)?);
    thread::spawn(move || -> io::Result<()> {
        for number in 0.. {
            back.send(&[far.frame(number, FRAME_TIMEOUT)?])?;
            far.release(number + 1)?;
        }
        Ok(())
    });
    let frame = vec![7; len];
    let begun = Instant::now();
    let mut trips = 0;
    while begun.elapsed() < time {
        there.send(&[&frame])?;
        near.frame(trips, FRAME_TIMEOUT)?;
        near.release(trips + 1)?;
        trips += 1;
    }
    Ok(begun.elapsed().as_secs_f64() / trips as f64 / 2.0)
}

/// Bytes a second that iperf3 moves, in pieces of this length; nothing if it is not installed.
fn iperf3(len: usize, time: Duration) -> Option<f64> {
    let port = TcpListener::bind("127.0.0.1:0")
        .ok()?
        .local_addr()
        .ok()?
        .port()
        .to_string();
    let mut server = Command::new("iperf3")
        .args(["-s", "-1", "-p", &port])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let seconds = time.as_secs_f64().ceil().to_string();
    let len = len.clamp(1, 1 << 20).to_string();
    let mut rate = None;
    // The server takes a moment to listen.
    for _ in 0..20 {
        thread::sleep(Duration::from_millis(50));
        let output = Command::new("iperf3")
            .args([
                "-c",
                "127.0.0.1",
                "-p",
                &port,
                "-J",
                "-N",
                "-t",
                &seconds,
                "-l",
                &len,
            ])
            .output()
            .ok()?;
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        rate = report["end"]["sum_received"]["bits_per_second"].as_f64();
        if rate.is_some() {
            break;
        }
    }
    let _ = server.kill();
    let _ = server.wait();
    Some(rate? / 8.0)
}
