//! The commands: one file each, and one line each in the table below.

use clap::Subcommand;

use crate::args::Global;
use crate::exit::{Exit, Result};

/// Makes a module, a variant and a way to run it of each line.
macro_rules! commands {
    ($($module:ident $variant:ident)*) => {
        $(mod $module;)*

        /// What to do.
        #[derive(Subcommand)]
        pub enum Command {
            $(#[allow(missing_docs)] $variant($module::$variant),)*
        }

        impl Command {
            /// Does it.
            pub fn run(self, global: &Global) -> Result<Exit> {
                match self {
                    $(Self::$variant(command) => command.run(global),)*
                }
            }
        }
    };
}

commands! {
    init Init
    backup Backup
    snapshots Snapshots
    ls Ls
    restore Restore
    dump Dump
    diff Diff
    check Check
    stats Stats
    forget Forget
    prune Prune
    unlock Unlock
    repair Repair
    key Key
    sum Sum
    cp Cp
    parity Parity
    version Version
    completions Completions
    man Man
}
