//! `tabane cat`

use std::io::Write;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tabane_storage::{Name, ObjectKind};
use tabane_store::{Algorithm, Error, Id, Repository, key};

use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::output::{Output, warn};

/// Print an object of the repository
#[derive(Args)]
#[command(after_help = "\
Packs are printed as they are stored, blocks as they were backed up, everything else as JSON. \
Secrets stay in: of the configuration the one that the cut points depend on, of keys the master \
key, which is there wrapped by the password.

Examples:
  tabane cat -r /mnt/backup config
  tabane cat -r /mnt/backup snapshot latest
  tabane cat -r /mnt/backup index 1a2b3c4d | jq '.packs[].id'
  tabane cat -r /mnt/backup block 0d1e2f3a > block")]
pub struct Cat {
    /// What kind of object
    #[arg(value_name = "KIND")]
    kind: Kind,
    /// Which one (an ID or its beginning); `config` is only one
    #[arg(value_name = "ID")]
    #[arg(required_if_eq_any = [
        ("kind", "key"), ("kind", "snapshot"), ("kind", "index"), ("kind", "pack"),
        ("kind", "block"),
    ])]
    id: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    Config,
    Key,
    Snapshot,
    Index,
    Pack,
    #[value(alias = "blob")]
    Block,
}

impl Cat {
    /// Runs `tabane cat`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        if matches!(self.kind, Kind::Config) && self.id.is_some() {
            return Err(Failure::Usage(
                "there is only one configuration: leave the ID out".to_owned(),
            ));
        }
        let repository = global.open()?;
        let id = self.id.unwrap_or_default();
        let mut output = Output::new();
        let mut exit = Exit::Success;
        match self.kind {
            Kind::Config => {
                let mut config = serde_json::to_value(repository.config()).expect(PLAIN);
                if let Some(object) = config.as_object_mut() {
                    object.shift_remove("chunker_secret");
                }
                print(&mut output, &config)?;
            }
            Kind::Key => {
                let id = key::find(repository.storage(), &id)?;
                let key = key::load(repository.storage(), id)?;
                print(&mut output, &serde_json::to_value(&key.file).expect(PLAIN))?;
            }
            Kind::Snapshot => {
                let (_, snapshot) = repository.find_snapshot(&id, &Default::default())?;
                print(&mut output, &serde_json::to_value(&snapshot).expect(PLAIN))?;
            }
            Kind::Index => {
                let id = find(&repository, ObjectKind::Index, &id)?;
                print(&mut output, &index_json(&repository, id)?)?;
            }
            Kind::Pack => {
                let id = find(&repository, ObjectKind::Pack, &id)?;
                let name = Name::new(ObjectKind::Pack, id);
                let bytes = repository.storage().get(name, None);
                let bytes = bytes.map_err(Error::storage("read", name))?;
                // A damaged object is printed too: the user may want to examine it.
                if Id::from(Algorithm::Blake3.digest(&bytes)) != id {
                    warn(format!(
                        "{name} is damaged: its bytes do not match its name"
                    ));
                    exit = Exit::Failure;
                }
                output.write_all(&bytes)?;
            }
            Kind::Block => {
                let bytes = block(&repository, &id)?;
                output.write_all(&bytes)?;
            }
        }
        output.finish()?;
        Ok(exit)
    }
}

/// Why making JSON cannot fail.
const PLAIN: &str = "it is plain data";

fn print(output: &mut Output, value: &Value) -> Result<()> {
    let text = serde_json::to_string_pretty(value).expect(PLAIN);
    output.line(text)
}

/// The only object of a kind whose ID begins so.
fn find(repository: &Repository, kind: ObjectKind, prefix: &str) -> Result<Id> {
    let listed = repository.list(kind)?;
    let ids = listed.into_iter().map(|(id, _)| id);
    only(ids, kind.name(), prefix)
}

fn only(ids: impl Iterator<Item = Id>, what: &str, prefix: &str) -> Result<Id> {
    let mut matching = ids.filter(|id| !prefix.is_empty() && id.has_prefix(prefix));
    match (matching.next(), matching.count()) {
        (Some(id), 0) => Ok(id),
        (None, _) => Err(Failure::Other(format!(
            "nothing in {what} has an ID that begins with {prefix:?}: `tabane list {what}` lists \
             them"
        ))),
        (Some(_), others) => Err(Failure::Other(format!(
            "{prefix:?} could mean {} in {what}: give more digits of the ID",
            others + 1
        ))),
    }
}

/// The contents of an index object.
fn index_json(repository: &Repository, id: Id) -> Result<Value> {
    let packs = repository.read_index_segment(id)?;
    let packs = packs.into_iter().map(|(pack, contents)| {
        let segments = contents.segments.iter().map(|segment| {
            let blocks = segment.blocks.iter();
            let blocks = blocks.map(|(id, len)| json!({"id": id.to_string(), "length": len}));
            json!({
                "codec": segment.codec,
                "stored_length": segment.stored_len,
                "blocks": blocks.collect::<Vec<_>>(),
            })
        });
        json!({
            "id": pack.to_string(),
            "kind": contents.kind,
            "segments": segments.collect::<Vec<_>>(),
        })
    });
    Ok(json!({"packs": packs.collect::<Vec<_>>()}))
}

/// The bytes of the only block whose ID begins so.
fn block(repository: &std::sync::Arc<Repository>, prefix: &str) -> Result<Vec<u8>> {
    let index = repository.load_index()?;
    let id = match prefix.parse::<Id>() {
        Ok(id) => id,
        Err(_) => {
            let ids = index.blocks().map(|block| block.map(|(id, _)| id));
            let ids = ids.collect::<tabane_index::Result<Vec<_>>>()?;
            only(ids.into_iter(), "blocks", prefix)?
        }
    };
    let mut bytes = Vec::new();
    let mut reader = tabane_store::parts::reader::BlockReader::new(repository);
    reader.append_block(&index, id, &mut bytes)?;
    let digest = repository.config().hash.digest(&bytes);
    if repository.is_block(&id, &digest) {
        Ok(bytes)
    } else {
        Err(Error::damaged(format!("block {id}"), "its bytes do not match its digest").into())
    }
}
