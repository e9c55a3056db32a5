//! What packs are said to hold, as a plain list, and the answers that an index has to give.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use tabane_index::{BlockLocation, Codec, Index, IndexSegment, PackContents, PackKind};
use tabane_storage::Id;

/// What is said of one pack.
#[derive(Clone)]
pub struct Said {
    pub pack: Id,
    pub contents: PackContents,
    pub is_verified: bool,
    /// Whether its blocks do not count.
    pub is_excluded: bool,
}

/// What is said of all packs.
#[derive(Clone, Default)]
pub struct Model {
    pub said: Vec<Said>,
    pub condemned: HashSet<Id>,
}

/// A place of a block, with all that an index says of it. The first fields say how much it can be
/// relied upon: of two, the greater one is found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    is_verified: bool,
    stays: bool,
    pack: Pack,
    /// Number of the segment in the pack.
    segment: u32,
    /// Number of segments behind it in the pack.
    behind: u32,
    segment_offset: u32,
    stored_len: u32,
    raw_len: u32,
    is_compressed: bool,
    offset: u32,
    len: u32,
}

impl Place {
    fn trust(&self) -> (bool, bool) {
        (self.is_verified, self.stays)
    }
}

/// ID, salt, kind and length of a pack.
type Pack = (Id, [u8; 32], u8, u64);

impl Model {
    /// What index objects say.
    pub fn of<'a>(objects: impl IntoIterator<Item = &'a IndexSegment>) -> Self {
        let mut model = Self::default();
        for packs in objects {
            model.say(packs, true);
        }
        model
    }

    /// Adds what is said of packs, verified or not.
    pub fn say(&mut self, packs: &[(Id, PackContents)], is_verified: bool) {
        self.said.extend(packs.iter().map(|(pack, contents)| Said {
            pack: *pack,
            contents: contents.clone(),
            is_verified,
            is_excluded: false,
        }));
    }

    /// Lets the blocks of these packs not count.
    pub fn exclude(&mut self, is_excluded: impl Fn(&Id) -> bool) {
        for said in &mut self.said {
            said.is_excluded |= is_excluded(&said.pack);
        }
    }

    fn places(&self) -> BTreeMap<Id, BTreeSet<Place>> {
        let mut places: BTreeMap<Id, BTreeSet<Place>> = BTreeMap::new();
        for said in self.said.iter().filter(|said| !said.is_excluded) {
            let mut segment_offset = head_len(said.contents.kind);
            let segments = said.contents.segments.len() as u32;
            for (number, segment) in (0..).zip(&said.contents.segments) {
                let mut offset = 0;
                for &(block, len) in &segment.blocks {
                    let place = Place {
                        is_verified: said.is_verified,
                        stays: !self.condemned.contains(&said.pack),
                        pack: said.entry(),
                        segment: number,
                        behind: segments - number - 1,
                        segment_offset,
                        stored_len: segment.stored_len,
                        raw_len: segment.blocks.iter().map(|(_, len)| len).sum(),
                        is_compressed: segment.codec == Codec::Zstd,
                        offset,
                        len,
                    };
                    places.entry(block).or_default().insert(place);
                    offset += len;
                }
                segment_offset += segment.stored_len;
            }
        }
        places
    }

    /// Number of places that count, of a pack that is said to hold the same several times only
    /// those of one time.
    pub fn len_in_run(&self) -> u64 {
        let mut seen = Vec::new();
        let mut len = 0;
        for said in &self.said {
            if !seen.contains(&(said.pack, &said.contents)) {
                seen.push((said.pack, &said.contents));
                let segments = said.contents.segments.iter();
                let blocks: usize = segments.map(|segment| segment.blocks.len()).sum();
                len += u64::from(!said.is_excluded) * blocks as u64;
            }
        }
        len
    }

    /// Number of different blocks that count.
    pub fn len_in_memory(&self) -> u64 {
        self.places().len() as u64
    }

    /// Compares all answers of an index with those it has to give, also for `more` blocks.
    pub fn check(&self, index: &Index, more: impl IntoIterator<Item = Id>) {
        let expected = self.places();
        for block in expected.keys().copied().chain(more) {
            let places = index.places(&block).unwrap();
            let found: Vec<Place> = places.iter().map(|place| resolve(index, *place)).collect();
            let wanted = expected.get(&block).cloned().unwrap_or_default();
            assert_eq!(found.iter().cloned().collect::<BTreeSet<_>>(), wanted);
            // Of the best places, the first is found.
            let best = found.iter().map(Place::trust).max();
            let is_best = |at: &usize| Some(found[*at].trust()) == best;
            let first = (0..found.len()).find(is_best);
            let first = first.map(|at| places[at]);
            assert_eq!(index.find(&block).unwrap(), first);
            assert_eq!(index.keeps(&block).unwrap(), best == Some((true, true)));
            for len in wanted.iter().map(|place| place.len).chain([0, 77_777]) {
                let of_len = || places.iter().find(|place| place.len == len).copied();
                let preferred = first.filter(|place| place.len == len).or_else(of_len);
                let found = index.find_of_len(&block, len).unwrap();
                assert_eq!(found, preferred.or(first));
            }
        }
        let mut seen = BTreeSet::new();
        for block in index.blocks() {
            let (block, place) = block.unwrap();
            assert!(seen.insert(block), "a block comes twice");
            assert!(index.places(&block).unwrap().contains(&place));
        }
        assert!(seen.iter().eq(expected.keys()), "{seen:?}");
        assert_eq!(index.is_empty(), seen.is_empty());
        let packs = index.packs().map(|pack| entry(&pack.unwrap()));
        let named = self.said.iter().map(Said::entry);
        assert_eq!(
            packs.collect::<BTreeSet<_>>(),
            named.collect::<BTreeSet<_>>()
        );
    }
}

impl Said {
    fn entry(&self) -> Pack {
        let contents = &self.contents;
        let kind = contents.kind as u8;
        (self.pack, contents.salt, kind, contents.object_len())
    }
}

fn head_len(kind: PackKind) -> u32 {
    match kind {
        PackKind::Data | PackKind::Tree => 40,
        PackKind::WriterData | PackKind::WriterTree => 40 + 32 + 1088,
    }
}

fn entry(pack: &tabane_index::PackEntry) -> Pack {
    (pack.id, pack.salt, pack.kind as u8, pack.len)
}

/// All that an index says of a place.
fn resolve(index: &Index, place: BlockLocation) -> Place {
    let segment = index.segment(place.segment).unwrap();
    let pack = index.pack(segment.pack).unwrap();
    assert_eq!(index.pack_of(place).unwrap(), pack);
    let stays = !index.is_condemned(place).unwrap();
    assert_eq!(stays, !index.condemns(&pack.id));
    let mut behind = 0;
    let mut last = place.segment;
    while let Some(next) = index.following(last).unwrap() {
        behind += 1;
        assert_eq!(next, last + 1);
        let next_segment = index.segment(next).unwrap();
        assert_eq!(next_segment.pack, segment.pack);
        assert_eq!(next_segment.number, segment.number + behind);
        last = next;
    }
    Place {
        is_verified: index.is_verified(place.segment).unwrap(),
        stays,
        pack: entry(&pack),
        segment: segment.number,
        behind,
        segment_offset: segment.offset,
        stored_len: segment.stored_len,
        raw_len: segment.raw_len,
        is_compressed: segment.codec == Codec::Zstd,
        offset: place.offset,
        len: place.len,
    }
}
