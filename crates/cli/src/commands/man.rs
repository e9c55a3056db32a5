//! `tabane man`

use std::path::PathBuf;

use clap::Args;
use tabane_store::Error;

use crate::args::Global;
use crate::exit::{Exit, Result};
use crate::format;
use crate::output::Output;

/// Write manual pages, one for each command
#[derive(Args)]
#[command(after_help = "\
Examples:
  tabane man --dir ~/.local/share/man/man1
  man tabane-backup")]
pub struct Man {
    /// Directory for the pages; made if it is not there
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

impl Man {
    /// Writes the pages.
    pub fn run(self, global: &Global) -> Result<Exit> {
        // Files are called after display names, some of which are made for `--version`.
        let definition = crate::definition().mut_subcommands(|command| {
            let name = format!("tabane-{}", command.get_name());
            command.display_name(name)
        });
        let write = std::fs::create_dir_all(&self.dir)
            .and_then(|()| clap_mangen::generate_to(definition, &self.dir));
        write.map_err(Error::path("write manual pages to", &self.dir))?;
        if !global.quiet && !global.json {
            let mut output = Output::new();
            output.line(format!("wrote manual pages to {}", format::path(&self.dir)))?;
            output.finish()?;
        }
        Ok(Exit::Success)
    }
}
