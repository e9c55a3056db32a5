//! A writer of packs: puts them, then an index object that names them, unless they are condemned
//! or gone (`access/writer.rs` of the store).

use super::steps::Step;
use super::world::{Blocks, DATA_BLOCKS, Packs, Place, Removals, World};
use super::{Rule, Rules};

/// Where a writer stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum At {
    /// It does not write.
    #[default]
    Rest,
    PutData,
    PutTree,
    ListRemovals,
    ReadRemovals,
    FindData,
    FindTree,
    PutIndex,
    PutRest,
    DeleteIndex,
    /// It has nothing to take back.
    Removed,
}

/// What became of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It has more to do.
    Writing,
    /// All is durable and indexed.
    Done,
    /// Packs were condemned or removed before they counted.
    Removed,
}

/// A writer of a pack of data and one of trees, or of one of the two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Writer {
    at: At,
    /// The blocks that it writes.
    blocks: Blocks,
    /// The removals that were there when its index was loaded.
    known: Removals,
    /// Whether the index object is there.
    indexed: bool,
    /// Packs of its own that are condemned by the removals that it has read.
    condemned: Packs,
    /// Packs of its own that are gone.
    gone: Packs,
}

impl Writer {
    /// A writer of these blocks, of which there is at least one.
    pub fn new(blocks: Blocks, known: Removals) -> Self {
        let has_data = blocks & DATA_BLOCKS != 0;
        Self {
            at: if has_data { At::PutData } else { At::PutTree },
            blocks,
            known,
            ..Self::default()
        }
    }

    /// The step that is next.
    pub fn step(&self) -> Step {
        match self.at {
            At::PutData | At::PutTree => Step::WriterPutPack,
            At::ListRemovals | At::Rest => Step::WriterListRemovals,
            At::ReadRemovals => Step::WriterReadRemovals,
            At::FindData | At::FindTree => Step::WriterFindPack,
            At::PutIndex => Step::WriterPutIndex,
            At::PutRest => Step::WriterPutRest,
            At::DeleteIndex | At::Removed => Step::WriterDeleteIndex,
        }
    }

    /// Takes it.
    pub fn advance(&mut self, world: &mut World, place: Place, rules: Rules) -> Written {
        let (data, tree) = (1 << place.data, 1 << (place.data + 1));
        let has_data = self.blocks & DATA_BLOCKS != 0;
        let has_tree = self.blocks & !DATA_BLOCKS != 0;
        let own = if has_data { data } else { 0 } | if has_tree { tree } else { 0 };
        self.at = match self.at {
            At::Rest | At::Removed => unreachable!("a writer at rest takes no step"),
            At::PutData => {
                world.put_pack(place.data, self.blocks & DATA_BLOCKS);
                if has_tree {
                    At::PutTree
                } else {
                    At::ListRemovals
                }
            }
            At::PutTree => {
                world.put_pack(place.data + 1, self.blocks & !DATA_BLOCKS);
                At::ListRemovals
            }
            At::ListRemovals if world.removals == self.known => {
                if self.indexed {
                    return self.end(Written::Done);
                }
                At::PutIndex
            }
            At::ListRemovals => At::ReadRemovals,
            At::ReadRemovals => {
                self.condemned = world.condemned_by(world.removals) & own;
                if has_data { At::FindData } else { At::FindTree }
            }
            At::FindData => {
                self.find(world, data);
                if has_tree {
                    At::FindTree
                } else {
                    self.judge(own, rules)
                }
            }
            At::FindTree => {
                self.find(world, tree);
                self.judge(own, rules)
            }
            At::PutIndex => {
                world.put_object(place, false, own);
                self.indexed = true;
                At::ListRemovals
            }
            At::PutRest => {
                world.put_object(place, true, own & !self.gone);
                At::DeleteIndex
            }
            At::DeleteIndex => {
                world.delete_objects(1 << place.object);
                return self.end(Written::Removed);
            }
        };
        match self.at {
            At::Removed => self.end(Written::Removed),
            At::Rest => self.end(Written::Done),
            _ => Written::Writing,
        }
    }

    fn find(&mut self, world: &World, pack: Packs) {
        if world.packs & pack == 0 {
            self.gone |= pack;
        }
    }

    /// What is next when all packs were looked for.
    fn judge(&mut self, own: Packs, rules: Rules) -> At {
        let removed = self.gone | self.condemned;
        if removed == 0 {
            return if self.indexed { At::Rest } else { At::PutIndex };
        }
        if !rules.hold(Rule::OnlyGoneIsTakenBack) {
            self.gone = removed;
        }
        match self.gone {
            _ if !self.indexed => At::Removed,
            0 => At::Removed,
            gone if gone != own => At::PutRest,
            _ => At::DeleteIndex,
        }
    }

    fn end(&mut self, written: Written) -> Written {
        *self = Self::default();
        written
    }
}
