//! `tabane scrub`

use clap::Args;
use tabane_striped::HealOptions;

use super::heal;
use crate::args::Global;
use crate::exit::{Exit, Result};

/// Read all of a striped repository, and heal what is damaged
#[derive(Args)]
#[command(after_help = "\
Reads every byte of every target and compares it with its checksum, and each object with the hash \
that it is named by. What is missing, damaged or forged is rebuilt from the other targets. It \
needs no password; with one, it makes and compares the tags of parts, too. `tabane check \
--read-data` compares with what was backed up.

The exit code is 1 if something could not be healed, or a target is missing.

Examples:
  tabane scrub -r striped:set.toml
  tabane scrub -r striped:set.toml --limit 20000    # at most 20 MB a second")]
pub struct Scrub {
    /// Read at most this many KiB a second
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

impl Scrub {
    /// Runs `tabane scrub`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let options = HealOptions::default()
            .read_data(true)
            .limit_kib_per_s(self.limit);
        heal::heal(global, options)
    }
}
