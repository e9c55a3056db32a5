//! `tabane-bench` measures Tabane beside its peers and builds and compares test trees.
//!
//! Each subcommand lives in a file of its own:
//!
//! - `lanes` times the kernels for many messages, beside the bound of the processor's ports and beside peers;
//! - `p0` measures SHA-1 as the paper did that Tabane comes from: its tables and figures;
//! - `p1` measures processes that use OpenSSL, as the paper on OpenSSL and Cell/B.E. did;
//! - `p4` measures hashes and AES on a graphics card beside the processor, as another paper did;
//! - `parity` times encoding and repair beside the bound that memory sets, and checks the code;
//! - `mac` times every hash and MAC of the engine's table, beside Crypto++ and xxHash in C;
//! - `regimes` times the stages of a backup by the share of known data, with plots;
//! - `chunk` cuts data into blocks, beside the fastcdc crate and fixed lengths;
//! - `chunk-size` compares lengths of blocks;
//! - `index` measures what it costs to know many blocks;
//! - `store` times whole backup programs as subprocesses, alternating between them;
//! - `striped` times backups to several directories beside one, and the heal of a lost one;
//! - `sum` times checksums of many files as subprocesses;
//! - `cp` times copies of files and trees as subprocesses;
//! - `tree` builds reproducible test trees full of unusual files;
//! - `compare-trees` compares two trees byte for byte and attribute for attribute.

#![deny(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod changes;
mod chunk;
mod chunk_size;
mod compare_trees;
mod cp;
mod cpus;
mod data;
mod disk;
mod drawing;
mod fabric;
mod faults;
mod index;
mod lanes;
mod levels;
mod mac;
mod measure;
mod memory;
mod p0;
mod p1;
mod p3;
mod p4;
mod parity;
mod peak;
mod peers;
mod progress;
mod regimes;
mod rounds;
mod store;
mod striped;
mod sum;
mod timing;
mod tools;
mod tree;

/// Benchmarks of Tabane, test trees, and a comparison of trees.
#[derive(Parser)]
#[command(name = "tabane-bench", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What to do.
#[derive(Subcommand)]
enum Command {
    /// Time hashes of many messages on one core, beside the processor's bound and peers
    Lanes(lanes::Args),
    /// Measure SHA-1 as the paper did that Tabane comes from
    P0(p0::Args),
    /// Measure 1 to 8 processes that use OpenSSL, with the provider and its service and without
    P1(p1::Args),
    #[command(hide = true)]
    P1Worker(p1::worker::Args),
    /// Time frames between rings over TCP or libfabric, point to point and through a relay, beside iperf3 or libfabric alone
    Fabric(fabric::Args),
    /// Measure writes to a cluster over links of a given rate, by each plan
    P3(p3::Args),
    /// Kill and stop members of a cluster at random moments, and check what must hold
    Faults(faults::Args),
    #[command(hide = true)]
    P3Worker(p3::worker::Args),
    /// Time hashes and AES on a graphics card beside all cores, by the length of the messages
    P4(p4::Args),
    /// Time the code over several targets on one core, beside the bound that memory sets; or check it
    Parity(parity::Args),
    /// Time every hash and MAC on one core, beside Crypto++ and xxHash in C
    Mac(mac::Args),
    /// Time the stages of a backup on one core, by the share of the data that is known
    Regimes(regimes::Args),
    /// Cut data into blocks: what is found twice, and the speed, beside the fastcdc crate
    Chunk(chunk::Args),
    /// Compare lengths of blocks: sizes of repository and index, speed
    ChunkSize(chunk_size::Args),
    /// Measure memory, lookups and opening with millions of blocks
    Index(index::Args),
    /// Time backup, restore and check of Tabane and its installed peers
    Store(store::Args),
    /// Time first backups at levels of compression: speed against size, beside the installed peers
    Levels(levels::Args),
    /// Time a backup to several directories beside one to a single directory, and the heal of a lost one
    Striped(striped::Args),
    /// Time checksums of many files beside coreutils and OpenSSL
    Sum(sum::Args),
    /// Time checked copies beside cp, and rsync with a pass over checksums
    Cp(cp::Args),
    /// Build a reproducible test tree
    Tree(tree::Args),
    /// Compare two trees byte for byte and attribute for attribute
    CompareTrees(compare_trees::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Lanes(args) => lanes::run(&args),
        Command::P0(args) => p0::run(&args),
        Command::P1(args) => p1::run(&args),
        Command::P1Worker(args) => p1::worker::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Fabric(args) => fabric::run(&args),
        Command::P3(args) => p3::run(&args),
        Command::Faults(args) => faults::run(&args),
        Command::P3Worker(args) => p3::worker::run(&args).map(|()| ExitCode::SUCCESS),
        Command::P4(args) => p4::run(&args),
        Command::Parity(args) => parity::run(&args),
        Command::Mac(args) => mac::run(&args),
        Command::Regimes(args) => regimes::run(&args),
        Command::Chunk(args) => chunk::run(&args),
        Command::ChunkSize(args) => chunk_size::run(&args),
        Command::Index(args) => index::run(&args),
        Command::Store(args) => store::run(&args),
        Command::Levels(args) => levels::run(&args),
        Command::Striped(args) => striped::run(&args),
        Command::Sum(args) => sum::run(&args),
        Command::Cp(args) => cp::run(&args),
        Command::Tree(args) => tree::run(&args),
        Command::CompareTrees(args) => compare_trees::run(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("tabane-bench: {error:#}");
        ExitCode::from(2)
    })
}
