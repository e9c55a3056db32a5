//! `tabane cache`

use std::time::{Duration, SystemTime};

use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};
use tabane_index::Cached;

use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::output::{Output, Table, print_json};

/// Show what is kept on this machine of repositories, or remove what is old
#[derive(Args)]
#[command(after_help = "\
Where the blocks of a repository are is kept in a directory of the user, sealed with the \
repository's key, so that only what is new has to be read. It can be removed at any time, and is \
made anew when it is needed. It is in --cache-dir or TABANE_CACHE_DIR, else in the directory \
tabane of $XDG_CACHE_HOME or ~/.cache; --no-cache does without.

No repository and no password are needed. With --json, prints one array of objects.

Examples:
  tabane cache
  tabane cache --cleanup
  tabane cache --cleanup --max-age 0")]
pub struct Cache {
    /// Remove what is of repositories that were not used for long
    #[arg(long)]
    cleanup: bool,
    /// How many days are long
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    max_age: u32,
}

impl Cache {
    /// Runs `tabane cache`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let root = global.cache_root().ok_or_else(|| {
            Failure::Usage("no cache directory: give --cache-dir, or set HOME".to_owned())
        })?;
        let all = Cached::list(&root)?;
        if self.cleanup {
            for cached in all.iter().filter(|cached| self.is_old(cached)) {
                cached.remove()?;
            }
        }
        if global.json {
            let objects = all.iter().map(|cached| {
                let used = Timestamp::try_from(cached.used).unwrap_or_default();
                json!({
                    "repository_id": cached.repository.to_string(),
                    "path": cached.path.display().to_string(),
                    "used": used.to_string(),
                    "size_bytes": cached.bytes,
                    "old": self.is_old(cached),
                    "removed": self.cleanup && self.is_old(cached),
                })
            });
            print_json(&Value::Array(objects.collect()))?;
            return Ok(Exit::Success);
        }
        let mut output = Output::new();
        let mut table = Table::new(&["Repository", "Last used", "Size>", ""]);
        for cached in &all {
            let used = Timestamp::try_from(cached.used).unwrap_or_default();
            table.row(vec![
                cached.repository.short(),
                format::local_time(used),
                format::bytes(cached.bytes),
                match (self.is_old(cached), self.cleanup) {
                    (false, _) => String::new(),
                    (true, false) => "old".to_owned(),
                    (true, true) => "removed".to_owned(),
                },
            ]);
        }
        table.print(&mut output)?;
        if !global.quiet {
            let bytes = all.iter().map(|cached| cached.bytes).sum();
            output.line(format!(
                "{} with {} in {}",
                format::count(all.len() as u64, "repository"),
                format::bytes(bytes),
                format::path(&root),
            ))?;
        }
        output.finish()?;
        Ok(Exit::Success)
    }

    fn is_old(&self, cached: &Cached) -> bool {
        let max_age = Duration::from_secs(u64::from(self.max_age) * 24 * 60 * 60);
        let age = SystemTime::now().duration_since(cached.used);
        age.unwrap_or_default() >= max_age
    }
}
