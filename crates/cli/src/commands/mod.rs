//! The commands: each has a file, and a line in the table below.

use clap::Subcommand;

use crate::args::Global;
use crate::exit::{Exit, Result};

/// Makes a module, a variant and a way to run it of each line.
macro_rules! commands {
    ($($(#[$condition:meta])? $module:ident $variant:ident)*) => {
        $($(#[$condition])? mod $module;)*

        /// What to do.
        #[derive(Subcommand)]
        pub enum Command {
            $($(#[$condition])? #[allow(missing_docs)] $variant($module::$variant),)*
        }

        impl Command {
            /// Runs the command that was given.
            pub fn run(self, global: &Global) -> Result<Exit> {
                match self {
                    $($(#[$condition])? Self::$variant(command) => command.run(global),)*
                }
            }
        }
    };
}

mod cluster_bench;
mod cluster_clients;
mod cluster_drain;

/// The commands that open no repository, with what they use of its options all the same.
pub const WITHOUT_REPOSITORY: [(&str, &[&str]); 13] = [
    ("schedule", &["repo", "password_file", "password_command"]),
    ("node", &[]),
    ("serve", &[]),
    ("cache", &["cache_dir"]),
    ("sum", &["gpu"]),
    ("cp", &["gpu"]),
    ("openssl", &[]),
    ("offload", &["gpu"]),
    ("devices", &[]),
    ("self-test", &["gpu"]),
    ("version", &[]),
    ("completions", &[]),
    ("man", &[]),
];

commands! {
    init Init
    backup Backup
    snapshots Snapshots
    ls Ls
    restore Restore
    warm_up WarmUp
    dump Dump
    #[cfg(feature = "mount")] mount Mount
    web Web
    find Find
    diff Diff
    check Check
    drill Drill
    stats Stats
    cat Cat
    list List
    forget Forget
    prune Prune
    unlock Unlock
    repair Repair
    heal Heal
    scrub Scrub
    targets Targets
    cluster Cluster
    node Node
    serve Serve
    tag Tag
    rewrite Rewrite
    merge Merge
    recover Recover
    copy Copy
    import Import
    cache Cache
    key Key
    migrate Migrate
    schedule Schedule
    sum Sum
    cp Cp
    openssl Openssl
    offload Offload
    devices Devices
    self_test SelfTest
    version Version
    completions Completions
    man Man
}
