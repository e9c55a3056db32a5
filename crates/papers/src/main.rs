//! `tabane-papers` reproduces the tables and figures of the five papers that Tabane builds on.

#![deny(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod gpu;
mod openssl;
mod parity;
mod regimes;
mod sha1;

/// The tables and figures of the papers that Tabane builds on, measured on this machine.
#[derive(Parser)]
#[command(name = "tabane-papers", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What to do.
#[derive(Subcommand)]
enum Command {
    /// Measure SHA-1 as the paper did that Tabane comes from
    Sha1(sha1::Args),
    /// Time the stages of a backup on one core, by the share of the data that is known
    Regimes(regimes::Args),
    /// Measure 1 to 8 processes that use OpenSSL, with the provider and its service and without
    Openssl(openssl::Args),
    /// A process that uses OpenSSL
    #[command(hide = true)]
    OpensslWorker(openssl::worker::Args),
    /// Measure writes to a cluster over links of a given rate, by each plan
    Parity(parity::Args),
    /// A member of such a network
    #[command(subcommand, hide = true)]
    Member(parity::worker::Role),
    /// Time hashes and AES on a graphics card beside all cores, by the length of the messages
    Gpu(gpu::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Sha1(args) => sha1::run(&args),
        Command::Regimes(args) => regimes::run(&args),
        Command::Openssl(args) => openssl::run(&args),
        Command::OpensslWorker(args) => openssl::worker::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Parity(args) => parity::run(&args),
        Command::Member(role) => role.run().map(|()| ExitCode::SUCCESS),
        Command::Gpu(args) => gpu::run(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("tabane-papers: {error:#}");
        ExitCode::from(2)
    })
}
