//! Two nodes for data and one for their parity, as figure 10 of the paper has them.
//!
//! Nothing is stored, and roles stay where they are: what is seen is what frames take on their way
//! through rings.

use std::net::TcpListener;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::json;
use tabane_bench::drawing::{self, Across, Lines};
use tabane_lanes::xor_of;
use tabane_testing::member::{done, ready};
use tabane_testing::network::Network;
use tabane_testing::progress;

use super::worker::{FRAME_TIMEOUT, receiver, sender};
use super::{Args, sum};

/// Bytes of a ring: little compared with what is sent, for who sends does not wait until the last
/// frame has arrived everywhere.
const RING_LEN: usize = 1 << 20;

/// Lengths of frames, in bytes: those of the paper, and what clusters use.
const FRAME_LENS: [usize; 4] = [4 << 10, 8 << 10, 16 << 10, 64 << 10];

const PLANS: [&str; 3] = ["none", "direct", "relay"];

/// Measures, with the client's link as the bound: data alone, data and parity from the client, and
/// data that nodes relay.
pub fn measure(args: &Args) -> Result<()> {
    let mut lines: Lines<&str> = PLANS.map(|plan| (plan, Vec::new())).into();
    for frame in FRAME_LENS {
        let rates = rates(args, frame)?;
        for ((_, points), rate) in lines.iter_mut().zip(rates) {
            points.push((frame as f64, rate));
        }
    }
    let Some(dir) = &args.plots else {
        return Ok(());
    };
    let (x, y) = (Across::Lengths("bytes of a frame"), "Mbit/s of data");
    drawing::lines(&dir.join("parity-triple.svg"), x, y, 0.4, &lines)
}

/// Mbit/s of data by each plan, in frames of this length.
fn rates(args: &Args, frame: usize) -> Result<[f64; 3]> {
    let mut rates = [0.0; 3];
    let frame_text = frame.to_string();
    for (at, plan) in PLANS.into_iter().enumerate() {
        progress::show(&format!("2+1, frames of {frame} B: {plan}"));
        let network = Network::new(4, Some(args.rate))?;
        let address = |node: usize| format!("{}:7440", network.address(node));
        // Number, how many send to it, and to whom it sends. The parity's node first: others
        // connect to it.
        let nodes = match plan {
            "relay" => [
                (2, "1", None),
                (1, "2", Some(address(2))),
                (0, "1", Some(address(1))),
            ],
            _ => [0, 1, 2].map(|node| (node, "1", None)),
        };
        let mut members = Vec::new();
        for (node, incoming, next) in &nodes {
            let listen = address(*node);
            let mut words = vec!["triple-node", &frame_text, &listen, incoming];
            words.extend(next.as_deref());
            let mut member = network.member(*node, &words)?;
            member.line()?;
            members.push(member);
        }
        let seconds = args.seconds.to_string();
        let sinks = [address(0), address(1), address(2)];
        let mut words = vec!["triple-source", &frame_text, &seconds];
        let count = if plan == "direct" { 3 } else { 2 };
        words.extend(sinks[..count].iter().map(String::as_str));
        let rate = sum(vec![network.member(3, &words)?], || Ok(()))?.mbit_per_s;
        rates[at] = rate;
        let of_none = rate / rates[0];
        if args.json {
            println!(
                "{}",
                json!({"bench": "parity_triple", "plan": plan, "frame_bytes": frame,
                    "link_mbit_per_s": args.rate, "goodput_mbit_per_s": rate,
                    "of_no_redundancy": of_none})
            );
        } else {
            println!("2+1 {frame:>6} B {plan:>8}: {rate:7.1} Mbit/s, {of_none:.3} of no redundancy")
        }
    }
    Ok(rates)
}

/// Takes frames of this length from so many peers, adds up those of the same number, and sends the
/// sums to `next`, if there is one.
pub fn node(frame: usize, listen: &str, incoming: usize, next: Option<&str>) -> Result<()> {
    let listener = TcpListener::bind(listen).context("cannot listen")?;
    let mut next = match next {
        Some(next) => Some(sender(next, RING_LEN)?),
        None => None,
    };
    thread::spawn(move || -> Result<()> {
        let mut tails = Vec::new();
        for stream in listener.incoming().take(incoming) {
            tails.push(receiver(stream?, RING_LEN)?);
        }
        let mut buffer = vec![0; frame];
        for number in 0.. {
            let frames = tails.iter().map(|tail| tail.frame(number, FRAME_TIMEOUT));
            let frames: Vec<&[u8]> = frames.collect::<std::io::Result<_>>()?;
            if let Some(next) = &mut next {
                match frames[..] {
                    [one] => next.send(&[one])?,
                    _ => {
                        xor_of(&mut buffer, &frames);
                        next.send(&[&buffer])?;
                    }
                }
            }
            for tail in &mut tails {
                tail.release(number + 1)?;
            }
        }
        Ok(())
    });
    ready()
}

/// Sends frames of this length, different data to the first two, and their parity to a third, if
/// there is one. Tells how many bytes of data it sent.
pub fn source(frame: usize, seconds: f64, sinks: &[String]) -> Result<()> {
    let senders = sinks.iter().map(|sink| sender(sink, RING_LEN));
    let mut senders = senders.collect::<Result<Vec<_>>>()?;
    ready()?;
    let (first, second, mut parity) = (vec![7; frame], vec![9; frame], vec![0; frame]);
    let (begun, mut sent) = (Instant::now(), 0);
    while begun.elapsed().as_secs_f64() < seconds {
        if senders.len() > 2 {
            xor_of(&mut parity, &[&first, &second]);
        }
        for (sender, frame) in senders.iter_mut().zip([&first, &second, &parity]) {
            sender.send(&[frame])?;
        }
        sent += 2 * frame as u64;
    }
    done(sent, begun)
}
