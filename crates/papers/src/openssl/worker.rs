//! A process that has one message after the other hashed or encrypted.

use std::io::{Read, Write};
use std::path::PathBuf;

use anyhow::{Result, ensure};

use super::libcrypto::Libcrypto;
use super::{JOBS, paper};

/// Do so many messages, when a byte comes from standard input. Which provider does them is up to
/// `OPENSSL_CONF`.
#[derive(clap::Args)]
pub struct Args {
    algorithm: String,
    len: usize,
    count: usize,
    /// In jobs
    #[arg(long)]
    jobs: bool,
    /// By the paper's design, which serves here
    #[arg(long)]
    paper: Option<PathBuf>,
}

/// Hashes or encrypts `count` messages, after the other workers are ready, too.
pub fn run(args: &Args) -> Result<()> {
    let message = vec![0x5a; args.len];
    if let Some(socket) = &args.paper {
        let mut client = paper::Client::connect(socket, &args.algorithm, args.len)?;
        wait()?;
        for _ in 0..args.count {
            client.run(&message)?;
        }
        return Ok(());
    }
    let libcrypto = Libcrypto::load()?;
    let functions = libcrypto.functions()?;
    let works =
        (0..if args.jobs { JOBS } else { 1 }).map(|_| libcrypto.work(&args.algorithm, args.len));
    let mut works = works.collect::<Result<Vec<_>>>()?;
    for work in &mut works {
        ensure!(work.run(&functions, &message), "OpenSSL fails");
    }
    wait()?;
    if args.jobs {
        return libcrypto.run_in_jobs(&mut works, &message, args.count);
    }
    for _ in 0..args.count {
        ensure!(works[0].run(&functions, &message), "OpenSSL fails");
    }
    Ok(())
}

/// Says that it is ready, and waits for all others.
fn wait() -> Result<()> {
    let mut output = std::io::stdout();
    output.write_all(b"r")?;
    output.flush()?;
    std::io::stdin().read_exact(&mut [0])?;
    Ok(())
}
