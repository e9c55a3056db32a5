//! `tabane completions`

use std::io::Write;

use clap::Args;
use clap_complete::Shell;

use crate::args::Global;
use crate::exit::{Exit, Result};
use crate::output::Output;

/// Print completions for a shell
#[derive(Args)]
#[command(after_help = "\
Examples:
  tabane completions bash > ~/.local/share/bash-completion/completions/tabane
  tabane completions zsh > ~/.zfunc/_tabane
  tabane completions fish > ~/.config/fish/completions/tabane.fish")]
pub struct Completions {
    /// Which shell
    shell: Shell,
}

impl Completions {
    /// Runs `tabane completions`.
    pub fn run(self, _: &Global) -> Result<Exit> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut crate::definition(), "tabane", &mut script);
        let mut output = Output::new();
        output.write_all(&script)?;
        output.finish()?;
        Ok(Exit::Success)
    }
}
