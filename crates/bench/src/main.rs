//! `tabane-bench` measures Tabane beside its peers and builds and compares test trees.
//!
//! Each subcommand lives in a file of its own:
//!
//! - `store` times whole backup programs as subprocesses, alternating between them;
//! - `tree` builds reproducible test trees full of unusual files;
//! - `compare-trees` compares two trees byte for byte and attribute for attribute.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod compare_trees;
mod disk;
mod measure;
mod store;
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
    /// Time backup, restore and check of Tabane and its installed peers
    Store(store::Args),
    /// Build a reproducible test tree
    Tree(tree::Args),
    /// Compare two trees byte for byte and attribute for attribute
    CompareTrees(compare_trees::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Store(args) => store::run(&args),
        Command::Tree(args) => tree::run(&args),
        Command::CompareTrees(args) => compare_trees::run(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("tabane-bench: {error:#}");
        ExitCode::from(2)
    })
}
