//! `tabane list`

use std::collections::HashSet;

use clap::{Args, ValueEnum};
use serde_json::json;
use tabane_storage::ObjectKind;
use tabane_store::parts::pack::BlockKind;

use crate::args::Global;
use crate::exit::{Exit, Result};
use crate::output::Output;

/// List the objects of the repository
#[derive(Args)]
#[command(after_help = "\
Prints an ID a line; for blocks, whether they belong to files (data) or directories (tree) before \
it. With --json, an object a line, with lengths.

Examples:
  tabane list -r /mnt/backup packs | wc -l
  tabane list -r /mnt/backup blocks | grep ^tree")]
pub struct List {
    /// What to list
    #[arg(value_name = "KIND")]
    kind: Kind,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    Snapshots,
    Index,
    Packs,
    Keys,
    #[value(alias = "locks")]
    Clients,
    #[value(alias = "blobs")]
    Blocks,
}

impl List {
    /// Runs `tabane list`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let repository = global.open()?;
        let mut output = Output::new();
        let kind = match self.kind {
            Kind::Snapshots => ObjectKind::Snapshot,
            Kind::Index => ObjectKind::Index,
            Kind::Packs => ObjectKind::Pack,
            Kind::Keys => ObjectKind::Key,
            Kind::Clients => ObjectKind::Client,
            Kind::Blocks => {
                let mut seen = HashSet::new();
                for (id, _) in repository.list(ObjectKind::Index)? {
                    for (pack, contents) in repository.read_index_segment(id)? {
                        let kind = match contents.kind.blocks() {
                            BlockKind::Data => "data",
                            BlockKind::Tree => "tree",
                        };
                        let blocks = contents.segments.iter().flat_map(|segment| &segment.blocks);
                        for (id, len) in blocks {
                            if !seen.insert(*id) {
                                continue;
                            }
                            if global.json {
                                output.json(&json!({
                                    "id": id.to_string(),
                                    "kind": kind,
                                    "length": len,
                                    "pack": pack.to_string(),
                                }))?
                            } else {
                                output.line(format!("{kind} {id}"))?
                            }
                        }
                    }
                }
                output.finish()?;
                return Ok(Exit::Success);
            }
        };
        for (id, len) in repository.list(kind)? {
            if global.json {
                output.json(&json!({"id": id.to_string(), "length": len}))?
            } else {
                output.line(id.to_string())?
            }
        }
        output.finish()?;
        Ok(Exit::Success)
    }
}
