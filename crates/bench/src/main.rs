//! `tabane-bench` measures Tabane beside its peers, builds and compares test trees, and lets
//! clusters fail.

#![deny(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tabane_testing::{compare_trees, faults, member, tree};

mod changes;
mod chunk;
mod chunk_size;
mod cp;
mod daily;
mod fabric;
mod far;
mod floor;
mod guard;
mod index;
mod lanes;
mod levels;
mod mac;
mod parity;
mod served;
mod store;
mod striped;
mod sum;
mod web;
mod write_only;

/// Benchmarks of Tabane beside its peers, test trees, a comparison of trees, and faults in
/// clusters.
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
    /// Time the code over several targets on one core, beside the bound that memory sets; or check
    /// it
    Parity(parity::Args),
    /// Time every hash and MAC on one core, beside Crypto++ and xxHash in C
    Mac(mac::Args),
    /// Time frames between rings over TCP or libfabric, point to point and through a relay, beside
    /// iperf3 or libfabric alone
    Fabric(fabric::Args),
    /// Cut data into blocks: what is found twice, and the speed, beside the fastcdc crate
    Chunk(chunk::Args),
    /// Compare lengths of blocks: sizes of repository and index, speed
    ChunkSize(chunk_size::Args),
    /// Measure memory, lookups and opening with millions of blocks
    Index(index::Args),
    /// Time backup, restore and check of Tabane and its installed peers
    Store(store::Args),
    /// Time backup, restore and check through the storage server and SFTP beside a directory
    Served(served::Args),
    /// Time backups with a write-only key beside backups with a full one
    WriteOnly(write_only::Args),
    /// Time backups, restores, checks and prunes over a line to an S3 server that is far away,
    /// beside installed peers
    Far(far::Args),
    /// Do with a tree what any backup program has to do, and nothing else
    #[command(hide = true)]
    Floor(floor::Args),
    /// Time first backups at levels of compression: speed against size, beside the installed peers
    Levels(levels::Args),
    /// Time a backup to several directories beside one to a single directory, and the heal of a
    /// lost one
    Striped(striped::Args),
    /// Time checksums of many files beside coreutils and OpenSSL
    Sum(sum::Args),
    /// Time imports of restic's snapshots, backups to three repositories, and drills
    Daily(daily::Args),
    /// Time checked copies beside cp, and rsync with a pass over checksums
    Cp(cp::Args),
    /// Time the page of a repository of many snapshots and entries
    Web(web::Args),
    /// Measure the ratios that the documentation claims, and fail where one has fallen
    Guard(guard::Args),
    /// Build a reproducible test tree
    Tree(tree::Args),
    /// Compare two trees byte for byte and attribute for attribute
    CompareTrees(compare_trees::Args),
    /// Kill and stop members of a cluster at random moments, and check what must hold
    Faults(faults::Args),
    /// A member of such a cluster
    #[command(subcommand, hide = true)]
    Member(member::Role),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Lanes(args) => lanes::run(&args),
        Command::Parity(args) => parity::run(&args),
        Command::Mac(args) => mac::run(&args),
        Command::Fabric(args) => fabric::run(&args),
        Command::Chunk(args) => chunk::run(&args),
        Command::ChunkSize(args) => chunk_size::run(&args),
        Command::Index(args) => index::run(&args),
        Command::Store(args) => store::run(&args),
        Command::Served(args) => served::run(&args),
        Command::WriteOnly(args) => write_only::run(&args),
        Command::Far(args) => far::run(&args),
        Command::Floor(args) => floor::run(&args),
        Command::Levels(args) => levels::run(&args),
        Command::Striped(args) => striped::run(&args),
        Command::Sum(args) => sum::run(&args),
        Command::Daily(args) => daily::run(&args),
        Command::Cp(args) => cp::run(&args),
        Command::Web(args) => web::run(&args),
        Command::Guard(args) => guard::run(&args),
        Command::Tree(args) => tree::run(&args),
        Command::CompareTrees(args) => compare_trees::run(&args),
        Command::Faults(args) => faults::run(&args),
        Command::Member(role) => role.run().map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        eprintln!("tabane-bench: {error:#}");
        ExitCode::from(2)
    })
}
