//! `tabane warm-up`

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use tabane_store::browse::Browser;
use tabane_store::{Id, IncludeOptions, Repository};

use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::output::{Output, print_json};
use crate::select::{Place, PlaceParser, Selection};

/// Time between two looks at packs that are on their way.
const LOOK_INTERVAL_MAX: Duration = Duration::from_secs(60);

/// Bring what a restore needs back from cold storage
#[derive(Args)]
#[command(after_help = "\
For repositories whose packs are in an archive (--storage-class GLACIER and the like), where an \
object can be read only some hours after it was asked for. Finds the packs that a restore of the \
snapshot, or of a path of it, reads; asks for those that are cold with --command, one after the \
other; and waits for at most --wait until all can be read. Without --command it says how much \
there is to ask for.

The command runs with sh, once for each cold pack, with TABANE_PACK in its environment: the path \
of the pack below the place of the repository.

How long it takes is up to the service and to what is asked for. Amazon S3: expedited 1 to 5 \
minutes, standard 3 to 5 hours (12 in Deep Archive), bulk 5 to 12 hours (48). Azure: up to 15 \
hours, high priority within one for small objects.

The exit code is 1 if packs are still cold in the end.

Examples:
  tabane warm-up -r s3://bucket/laptop latest:/home/ada/photos
  tabane warm-up -r s3://bucket/laptop latest --wait 14h --command 'aws s3api restore-object \
--bucket bucket --key laptop/$TABANE_PACK --restore-request Days=7'")]
pub struct WarmUp {
    /// Which snapshot (an ID, its beginning, or latest), and which path of it
    #[arg(value_name = "SNAPSHOT[:PATH]", value_parser = PlaceParser)]
    place: Place,
    /// Only what matches, as with `restore` (repeatable)
    #[arg(short, long, value_name = "PATTERN")]
    include: Vec<String>,
    /// Leave out what matches (repeatable)
    #[arg(short, long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Run this for each cold pack
    #[arg(long, value_name = "COMMAND")]
    command: Option<String>,
    /// Wait for so long until all can be read
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    #[arg(value_parser = format::parse_duration)]
    wait: Duration,
    #[command(flatten)]
    selection: Selection,
}

impl WarmUp {
    /// Runs `tabane warm-up`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let repository = global.open()?;
        let (id, snapshot) = self.place.find(&repository, &self.selection)?;
        let mut browser = Browser::new(&repository)?;
        let entry = browser.find(id, &snapshot, &self.place.path)?;
        let includes = IncludeOptions::default()
            .include(self.include)
            .exclude(self.exclude);
        let needed = repository.packs_of(&mut browser, &self.place.path, &entry, &includes)?;
        let cold = repository.cold_packs(&needed.packs)?;
        let asked = match &self.command {
            Some(command) => {
                for (pack, _) in &cold {
                    ask(&repository, command, *pack)?;
                }
                cold.len()
            }
            None => 0,
        };
        let left = wait(&repository, cold.clone(), self.wait)?;
        let bytes = |packs: &[(Id, u64)]| packs.iter().map(|(_, len)| len).sum::<u64>();
        if global.json {
            print_json(&json!({
                "message_type": "summary",
                "packs": needed.packs.len(),
                "bytes": bytes(&needed.packs),
                "cold_packs": cold.len(),
                "cold_bytes": bytes(&cold),
                "asked_packs": asked,
                "left_packs": left.len(),
                "left_bytes": bytes(&left),
            }))?;
        } else if !global.quiet {
            let mut output = Output::new();
            let count = |packs: &[(Id, u64)]| {
                let bytes = format::bytes(bytes(packs));
                format!("{} of {bytes}", format::count(packs.len() as u64, "pack"))
            };
            output.line(format!("{} needed", count(&needed.packs)))?;
            output.line(format!("{} cold, {} asked for", count(&cold), asked))?;
            output.line(match left.len() {
                0 => "all of them can be read".to_owned(),
                _ => format!("{} cannot be read yet", count(&left)),
            })?;
            output.finish()?;
        }
        Ok(if left.is_empty() { Exit::Success } else { Exit::Failure })
    }
}

/// Asks for a pack.
fn ask(repository: &Repository, command: &str, pack: Id) -> Result<()> {
    let path = repository.path_of_pack(pack);
    let ran = Command::new("sh")
        .args(["-c", command])
        .env("TABANE_PACK", &path)
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status();
    let why = match ran {
        Ok(status) if status.success() => return Ok(()),
        Ok(status) => format!("failed ({status})"),
        Err(error) => format!("cannot be run: {error}"),
    };
    Err(Failure::Other(format!("the command for {path} {why}: no further pack is asked for")))
}

/// Waits until packs can be read; returns those that cannot after `limit`.
fn wait(
    repository: &Repository,
    mut cold: Vec<(Id, u64)>,
    limit: Duration,
) -> Result<Vec<(Id, u64)>> {
    let start = Instant::now();
    // A tenth of a short time, a minute of a long one.
    let interval = (limit / 10).min(LOOK_INTERVAL_MAX);
    while !cold.is_empty() && start.elapsed() < limit {
        std::thread::sleep(interval);
        cold = repository.cold_packs(&cold)?;
    }
    Ok(cold)
}
