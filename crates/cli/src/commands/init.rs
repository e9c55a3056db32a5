//! `tabane init`

use clap::Args;
use serde_json::json;
use tabane_store::chunker::Chunking;
use tabane_store::{Algorithm, InitOptions, Repository, parse_block_hash};

use crate::args::{FromRepository, Global};
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::output::print_json;

/// Create a repository
#[derive(Args)]
#[command(after_help = "\
The choices are for the repository's whole life.

SHA-1 has known collisions: someone who can choose files that you back up could make two with the \
same digest. With --hash sha1 a match is therefore confirmed byte for byte before a block counts \
as known, which reads every duplicate back. Take sha256 or blake3 unless you compare with other \
systems.

With several --target, every object is spread over these places, so that any two of them can be \
lost: see docs/reference/striped.md. FILE of --repo striped:FILE then lists them, and is all that \
other machines need to know.

With --copy-chunker-params, who can open one of the two repositories knows where the other cuts \
files, too: see docs/explanation/threat-model.md.

Examples:
  tabane init --repo /mnt/backup
  tabane init --repo /mnt/backup --hash blake3
  tabane init --repo /mnt/images --chunk-size fixed:64KiB    # disk images, changed in place
  tabane init --repo striped:set.toml --target /mnt/a --target /mnt/b --target s3://bucket/c
  tabane init --repo /mnt/offsite --from-repo /mnt/backup --copy-chunker-params")]
pub struct Init {
    /// Hash that names blocks: sha256, blake3, or sha1 (which has known collisions, see below)
    #[arg(long, value_name = "NAME", default_value_t = Algorithm::Sha256)]
    #[arg(value_parser = parse_block_hash)]
    hash: Algorithm,
    /// Average length of blocks cut by content, a power of two; or fixed:SIZE for blocks of one
    /// length
    #[arg(long, value_name = "SIZE|fixed:SIZE", value_parser = parse_chunking)]
    chunk_size: Option<Chunking>,
    /// Hash and cut as --from-repo does, so that `tabane copy` and backups share blocks
    #[arg(long, conflicts_with_all = ["hash", "chunk_size"])]
    copy_chunker_params: bool,
    /// Spread the repository over this place and the others given so, at least 3: a directory or a
    /// URL
    #[arg(long, value_name = "URL")]
    target: Vec<String>,
    /// Give every target the same role in all stripes, instead of taking turns
    #[arg(long, requires = "target", hide_short_help = true)]
    fixed_roles: bool,
    #[command(flatten)]
    from: FromRepository,
}

fn parse_chunking(text: &str) -> std::result::Result<Chunking, String> {
    let len = |text| {
        let len = u32::try_from(format::parse_bytes(text)?);
        len.map_err(|_| "that is too long for a block".to_owned())
    };
    let chunking = match text.strip_prefix("fixed:") {
        Some(text) => Chunking::Fixed { len: len(text)? },
        None => {
            let avg = len(text)?;
            if avg.checked_mul(8).is_none() {
                return Err("that is too long for a block".to_owned());
            }
            Chunking::content(avg)
        }
    };
    chunking.validate().map_err(|error| error.to_string())?;
    Ok(chunking)
}

impl Init {
    /// Runs `tabane init`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let mut options = InitOptions::default().hash(self.hash);
        if let Some(chunking) = self.chunk_size {
            options.chunking = chunking;
        }
        if self.copy_chunker_params {
            let from = self.from.of(global)?.open()?;
            options.hash = from.config().hash;
            options.chunking = from.config().chunking;
            options.chunker_secret = Some(from.config().chunker_secret);
        }
        // The variable may be there for other commands.
        let is_from_named = self.from.from_repo.is_some()
            && std::env::var_os("TABANE_FROM_REPOSITORY").is_none();
        if is_from_named && !self.copy_chunker_params {
            return Err(Failure::Usage(
                "--from-repo has no effect without --copy-chunker-params: add it, so that both \
                 repositories cut files alike, or leave --from-repo out"
                    .to_owned(),
            ));
        }
        if !self.target.is_empty() {
            global.form_set(&self.target, self.fixed_roles)?;
        }
        let repository = global.init(options)?;
        report(global, &repository)?;
        Ok(Exit::Success)
    }
}

/// Reports the new repository.
pub fn report(global: &Global, repository: &Repository) -> Result<()> {
    let config = repository.config();
    let location = repository.storage().location();
    if global.json {
        return print_json(&json!({
            "message_type": "initialized",
            "id": config.id.to_string(),
            "repository": location,
            "hash": config.hash.name(),
            "chunking": serde_json::to_value(config.chunking).unwrap_or_default(),
        }));
    }
    if !global.quiet {
        let mut output = crate::output::Output::new();
        output.line(format!(
            "created repository {} at {}",
            config.id.short(),
            format::printable(&location)
        ))?;
        output.line(
            "Remember the password: without it, nothing in the repository can ever be read again.",
        )?;
        output.finish()?;
    }
    Ok(())
}
