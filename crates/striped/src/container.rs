//! A shard, the object that one target stores: a header, and the cells of one role, each sector
//! with its checksum, and in the tagged form with a keyed tag.

use std::ops::Range;
use std::sync::LazyLock;

use tabane_engine::{Algorithm, Hasher};
use tabane_parity::Layout;

use tabane_storage::Id;
use tabane_storage::OBJECT_LEN_MAX;

use crate::tags::{TAG_LEN, Tag};

/// Bytes with one checksum: the smallest read, and the most that a flipped bit destroys.
pub const SECTOR_LEN: u64 = 64 << 10;

/// Bytes of the header of a plain shard.
pub const HEADER_LEN: u64 = 64;

/// Bytes of the longest header: that of a tagged shard.
pub const HEADER_LEN_MAX: u64 = 112;

/// Objects up to this length are stored whole, as replicas: these take fewer requests than a
/// stripe, and hardly more bytes.
pub const REPLICA_MAX: u64 = 64 << 10;

/// Roles of a stripe at most.
pub const ROLES_MAX: usize = 32;

/// The highest number of a generation: stored as a remainder modulo 16 of a listed length.
pub const GENERATION_MAX: u8 = 15;

const CHECKSUM_LEN: u64 = 16;

/// Lengths of cells are multiples of this.
const UNIT: u64 = 16;

/// What every shard begins with, where other objects have the letter of their kind.
const MAGIC: &[u8; 7] = b"TABANE#";

/// Whether these bytes begin a shard, and so belong to a target of a striped repository.
pub fn is_container(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// The form of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// Format 1: sectors with checksums. Replicas have this form, and stripes of older programs.
    Plain,
    /// Format 2: sectors with tags and checksums, and a header with a [`Seal`].
    Tagged,
}

impl Form {
    /// Bytes of the header.
    pub fn header_len(self) -> u64 {
        match self {
            Self::Plain => HEADER_LEN,
            Self::Tagged => HEADER_LEN_MAX,
        }
    }

    /// Bytes of the tag of a sector.
    pub fn tag_len(self) -> u64 {
        match self {
            Self::Plain => 0,
            Self::Tagged => TAG_LEN as u64,
        }
    }

    /// Bytes behind a sector: its tag and its checksum.
    fn tail_len(self) -> u64 {
        self.tag_len() + CHECKSUM_LEN
    }
}

/// What the header of a tagged shard says of the whole stripe besides its geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seal {
    /// For each role, the place of its target among those of the generation; zeros behind.
    pub places: [u8; ROLES_MAX],
    /// The keyed tag of geometry and places.
    pub tag: Tag,
}

/// How a stored object is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Its geometry.
    pub geometry: Geometry,
    /// The seal of a stripe that has tagged shards.
    pub seal: Option<Seal>,
}

impl Shape {
    /// The form of its shards. Some of a tagged stripe may still be plain.
    pub fn form(&self) -> Form {
        match self.seal {
            None => Form::Plain,
            Some(_) => Form::Tagged,
        }
    }

    /// The shape of its plain shards.
    #[must_use]
    pub fn plain(&self) -> Self {
        Self {
            seal: None,
            ..*self
        }
    }

    /// Bytes of a shard.
    pub fn container_len(&self) -> u64 {
        self.geometry.container_len(self.form())
    }
}

/// The header of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// How the object is laid out.
    pub shape: Shape,
    /// The role of the shard.
    pub role: usize,
}

impl Header {
    /// The header's bytes.
    pub fn to_bytes(&self, object: Id) -> Vec<u8> {
        let Self { shape, role } = self;
        let (geometry, form) = (&shape.geometry, shape.form());
        let mut header = vec![0; form.header_len() as usize];
        header[..7].copy_from_slice(MAGIC);
        header[7] = match form {
            Form::Plain => 1,
            Form::Tagged => 2,
        };
        header[8..16].copy_from_slice(&geometry.object_len.to_le_bytes());
        header[16..19].copy_from_slice(&[geometry.generation, geometry.roles, *role as u8]);
        if let Some(Seal { places, tag }) = &shape.seal {
            header[48..80].copy_from_slice(places);
            header[80..96].copy_from_slice(tag);
        }
        let (before, checksum) = header.split_at_mut((form.header_len() - CHECKSUM_LEN) as usize);
        checksum.copy_from_slice(&xxh128(&[&object.0, before]));
        header
    }

    /// Parses the header at the beginning of a shard; `None` if it is damaged or another object's.
    pub fn parse(object: Id, bytes: &[u8]) -> Option<Self> {
        let form = match bytes.strip_prefix(MAGIC)?.first()? {
            1 => Form::Plain,
            2 => Form::Tagged,
            _ => return None,
        };
        let header = bytes.get(..form.header_len() as usize)?;
        let (before, checksum) = header.split_last_chunk::<{ CHECKSUM_LEN as usize }>()?;
        if xxh128(&[&object.0, before]) != *checksum {
            return None;
        }
        let object_len = u64::from_le_bytes(*header[8..].first_chunk()?);
        let [generation, roles, role] = *header[16..].first_chunk()?;
        let is_known = match (generation, form) {
            (0, Form::Plain) => roles == 1,
            (1..=GENERATION_MAX, _) => (3..=ROLES_MAX).contains(&roles.into()),
            _ => false,
        };
        let seal = match form {
            Form::Plain => None,
            Form::Tagged => Some(Seal {
                places: *header[48..].first_chunk()?,
                tag: *header[80..].first_chunk()?,
            }),
        };
        let are_places = |seal: &Seal| {
            let (used, rest) = seal.places.split_at(usize::from(roles).min(ROLES_MAX));
            let mut sorted = used.to_vec();
            sorted.sort_unstable();
            sorted.into_iter().eq(0..roles) && rest.iter().all(|&place| place == 0)
        };
        let is_sound = is_known
            && role < roles
            && object_len <= OBJECT_LEN_MAX
            && seal.as_ref().is_none_or(are_places);
        let geometry = Geometry {
            object_len,
            generation,
            roles,
        };
        is_sound.then_some(Self {
            shape: Shape { geometry, seal },
            role: role.into(),
        })
    }
}

/// The layout of an object on targets: a stripe or replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Bytes of the object.
    pub object_len: u64,
    /// Generation of the stripe, from 1; 0 for a replica.
    pub generation: u8,
    /// Roles of the stripe; 1 for a replica.
    pub roles: u8,
}

impl Geometry {
    /// A whole copy.
    pub fn replica(object_len: u64) -> Self {
        Self {
            object_len,
            generation: 0,
            roles: 1,
        }
    }

    /// A stripe over the targets of a generation.
    pub fn stripe(object_len: u64, generation: u8, roles: usize) -> Self {
        Self {
            object_len,
            generation,
            roles: roles as u8,
        }
    }

    /// Whether the object is stored as whole copies.
    pub fn is_replica(&self) -> bool {
        self.generation == 0
    }

    /// The layout of the stripe's code.
    pub fn layout(&self) -> Layout {
        Layout::new(self.roles.into()).expect("a stripe has at least three roles")
    }

    /// Cells of each role, and cells that hold data.
    fn counts(&self) -> (u64, u64) {
        if self.is_replica() {
            (1, 1)
        } else {
            counts(self.roles)
        }
    }

    /// Bytes of a cell; the object may end before the end of its last data cells.
    pub fn cell_len(&self) -> u64 {
        let (_, data) = self.counts();
        self.object_len.div_ceil(data).next_multiple_of(UNIT)
    }

    /// Sectors of a cell.
    pub fn sectors(&self) -> u64 {
        self.cell_len().div_ceil(SECTOR_LEN)
    }

    /// Bytes of the sector of this number.
    pub fn sector(&self, sector: u64) -> Range<u64> {
        let start = sector * SECTOR_LEN;
        start..(start + SECTOR_LEN).min(self.cell_len())
    }

    /// The byte range in a shard of some sectors of the cell in this row.
    pub fn stored(&self, form: Form, row: usize, sectors: &Range<u64>) -> Range<u64> {
        let row_len = self.cell_len() + self.sectors() * form.tail_len();
        let at = |sector: u64| {
            let before = (sector * SECTOR_LEN).min(self.cell_len()) + sector * form.tail_len();
            form.header_len() + row as u64 * row_len + before
        };
        at(sectors.start)..at(sectors.end)
    }

    /// Bytes of a shard. Modulo 16 they are the generation. Divided by 16 they are odd if a stripe
    /// is tagged, and even if it is not: a stripe has an even number of rows.
    pub fn container_len(&self, form: Form) -> u64 {
        let (rows, _) = self.counts();
        let row_len = self.cell_len() + self.sectors() * form.tail_len();
        form.header_len() + rows * row_len + u64::from(self.generation)
    }

    /// The length that listings give for such an object: that of all its data cells.
    pub fn listed_len(&self) -> u64 {
        self.counts().1 * self.cell_len()
    }
}

/// The generation of a shard of this length; 0 for a replica.
pub fn generation_of(container_len: u64) -> u8 {
    (container_len % UNIT) as u8
}

/// The form of a shard of this length.
pub fn form_of(container_len: u64) -> Form {
    if generation_of(container_len) != 0 && container_len / UNIT % 2 == 1 {
        Form::Tagged
    } else {
        Form::Plain
    }
}

/// [`Geometry::listed_len`] of the object with a shard of this length, a stripe over `roles` roles
/// or a replica; `None` if no shard has this length.
pub fn listed_len(container_len: u64, roles: usize) -> Option<u64> {
    if container_len > 2 * OBJECT_LEN_MAX {
        return None;
    }
    let (generation, form) = (generation_of(container_len), form_of(container_len));
    let (rows, data) = match generation {
        0 => (1, 1),
        _ => counts(roles as u8),
    };
    let cells = container_len
        .checked_sub(form.header_len() + u64::from(generation))?
        .checked_div(rows)?;
    let sectors = cells.div_ceil(SECTOR_LEN + form.tail_len());
    let cell_len = cells.checked_sub(sectors * form.tail_len())?;
    let row_len = cell_len + cell_len.div_ceil(SECTOR_LEN) * form.tail_len();
    let is_one = form.header_len() + rows * row_len + u64::from(generation) == container_len;
    (is_one && cell_len % UNIT == 0).then_some(data * cell_len)
}

/// The length of the plain shard with the same cells as a shard of this length, of a stripe over
/// `roles` roles; `None` if no shard has this length.
pub fn plain_len(container_len: u64, roles: usize) -> Option<u64> {
    let generation = generation_of(container_len);
    let object_len = listed_len(container_len, roles)?;
    let geometry = Geometry::stripe(object_len, generation, roles);
    Some(geometry.container_len(Form::Plain))
}

/// Cells of each role, and data cells, of a stripe over `roles` roles.
fn counts(roles: u8) -> (u64, u64) {
    static COUNTS: LazyLock<Vec<(u64, u64)>> = LazyLock::new(|| {
        let layouts = (3..=ROLES_MAX).map(|roles| Layout::new(roles).expect("they are enough"));
        let counts = layouts.map(|layout| (layout.rows() as u64, layout.data_cells().len() as u64));
        counts.collect()
    });
    COUNTS[usize::from(roles) - 3]
}

/// What makes the tag of a sector: from its row, its number and its bytes.
pub type MakeTag<'t> = dyn Fn(usize, u64, &[u8]) -> Tag + 't;

/// The shard of a role: its header, its cells in sectors with tags and checksums, and padding whose
/// length encodes the generation.
pub struct Container<'a> {
    header: Vec<u8>,
    /// Each sector with its tag, which is empty in a plain shard, and its checksum.
    sectors: Vec<(&'a [u8], Tag, [u8; CHECKSUM_LEN as usize])>,
    tag_len: usize,
    padding: [u8; GENERATION_MAX as usize],
    padding_len: usize,
}

impl<'a> Container<'a> {
    /// Makes a shard, and computes its checksums. A tagged one gets its tags from `make_tag`.
    pub fn new(
        header: &Header,
        object: Id,
        cells: impl IntoIterator<Item = &'a [u8]>,
        make_tag: &MakeTag,
    ) -> Self {
        let tag_len = header.shape.form().tag_len() as usize;
        let mut sectors = Vec::new();
        for (row, cell) in cells.into_iter().enumerate() {
            for (number, sector) in (0..).zip(cell.chunks(SECTOR_LEN as usize)) {
                let tag = match tag_len {
                    0 => [0; TAG_LEN],
                    _ => make_tag(row, number, sector),
                };
                let payload = [sector, &tag[..tag_len]];
                let sum = checksum(object, header.role, row, number, &payload);
                sectors.push((sector, tag, sum));
            }
        }
        Self {
            header: header.to_bytes(object),
            sectors,
            tag_len,
            padding: [0; GENERATION_MAX as usize],
            padding_len: header.shape.geometry.generation.into(),
        }
    }

    /// Makes a whole copy of an object, whose bytes are padded to the length of its only cell.
    pub fn replica(object: Id, object_len: u64, cell: &'a [u8]) -> Self {
        let shape = Shape {
            geometry: Geometry::replica(object_len),
            seal: None,
        };
        Self::new(&Header { shape, role: 0 }, object, [cell], &|_, _, _| {
            [0; TAG_LEN]
        })
    }

    /// The shard's bytes, in pieces.
    pub fn parts(&self) -> Vec<&[u8]> {
        let mut parts = vec![&self.header[..]];
        for (sector, tag, checksum) in &self.sectors {
            parts.extend([*sector, &tag[..self.tag_len], checksum]);
        }
        parts.push(&self.padding[..self.padding_len]);
        parts
    }
}

/// The bytes of a sector, and of its tag if it has one, if the checksum behind them is right.
pub fn open_sector(
    object: Id,
    role: usize,
    row: usize,
    number: u64,
    stored: &[u8],
) -> Option<&[u8]> {
    let (payload, found) = stored.split_last_chunk::<{ CHECKSUM_LEN as usize }>()?;
    (checksum(object, role, row, number, &[payload]) == *found).then_some(payload)
}

/// XXH3 of the place of a sector, so that a misplaced sector is wrong, too, and of the sector with
/// its tag.
pub fn checksum(
    object: Id,
    role: usize,
    row: usize,
    number: u64,
    payload: &[&[u8]],
) -> [u8; CHECKSUM_LEN as usize] {
    let mut place = [0; 48];
    place[..32].copy_from_slice(&object.0);
    place[32..36].copy_from_slice(&(role as u32).to_le_bytes());
    place[36..40].copy_from_slice(&(row as u32).to_le_bytes());
    place[40..].copy_from_slice(&number.to_le_bytes());
    let mut hasher = Hasher::new(Algorithm::Xxh128);
    hasher.update(&place);
    payload.iter().for_each(|part| hasher.update(part));
    digest(&hasher)
}

fn xxh128(parts: &[&[u8]]) -> [u8; CHECKSUM_LEN as usize] {
    let mut hasher = Hasher::new(Algorithm::Xxh128);
    parts.iter().for_each(|part| hasher.update(part));
    digest(&hasher)
}

fn digest(hasher: &Hasher) -> [u8; CHECKSUM_LEN as usize] {
    let digest = hasher.finish();
    *digest.as_ref().first_chunk().expect("it has 128 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths of objects around every edge, over all numbers of roles.
    fn geometries() -> impl Iterator<Item = Geometry> {
        let lens = [0, 1, 16, 17, 65_535, 65_536, 65_537, 1_000_000, 50_000_001];
        let replicas = lens.into_iter().map(Geometry::replica);
        let stripes = (3..=ROLES_MAX).flat_map(move |roles| {
            let generation = 1 + (roles as u8) % GENERATION_MAX;
            let edge = counts(roles as u8).1 * SECTOR_LEN;
            let lens = lens.into_iter().chain([edge - 1, edge, edge + 1]);
            lens.map(move |len| Geometry::stripe(len, generation, roles))
        });
        replicas.chain(stripes)
    }

    fn forms(geometry: &Geometry) -> &'static [Form] {
        if geometry.is_replica() {
            &[Form::Plain]
        } else {
            &[Form::Plain, Form::Tagged]
        }
    }

    #[test]
    fn the_length_of_a_container_says_what_it_is() {
        for geometry in geometries() {
            for &form in forms(&geometry) {
                let len = geometry.container_len(form);
                assert_eq!(generation_of(len), geometry.generation, "{geometry:?}");
                assert_eq!(form_of(len), form, "{geometry:?}");
                let listed = listed_len(len, geometry.roles.into());
                assert_eq!(listed, Some(geometry.listed_len()), "{geometry:?}");
                if !geometry.is_replica() {
                    let plain = plain_len(len, geometry.roles.into());
                    assert_eq!(plain, Some(geometry.container_len(Form::Plain)));
                }
            }
            assert!(geometry.listed_len() >= geometry.object_len);
        }
        // Arbitrary lengths in a listing yield a length or `None`, never a panic.
        for len in (0..5000).chain([u64::MAX, u64::MAX - 15, 1 << 62]) {
            let _ = listed_len(len, 5);
        }
    }

    #[test]
    fn a_header_is_read_back_and_no_other_is() {
        let (object, other) = (Id([3; 32]), Id([4; 32]));
        for geometry in geometries() {
            for form in forms(&geometry) {
                let mut places = [0; ROLES_MAX];
                (0..geometry.roles).for_each(|role| places[usize::from(role)] = role);
                places[..usize::from(geometry.roles)].rotate_left(1);
                let seal = Seal {
                    places,
                    tag: [8; TAG_LEN],
                };
                let seal = (*form == Form::Tagged).then_some(seal);
                let header = Header {
                    shape: Shape { geometry, seal },
                    role: usize::from(geometry.roles) - 1,
                };
                let bytes = header.to_bytes(object);
                assert_eq!(Header::parse(object, &bytes), Some(header));
                assert_eq!(Header::parse(other, &bytes), None);
                for at in 0..bytes.len() {
                    let mut flipped = bytes.clone();
                    flipped[at] ^= 0x10;
                    assert_eq!(Header::parse(object, &flipped), None, "byte {at}");
                    assert_eq!(Header::parse(object, &bytes[..at]), None);
                }
            }
        }
    }

    #[test]
    fn places_are_a_permutation() {
        let object = Id([3; 32]);
        let parse = |places: [u8; ROLES_MAX]| {
            let seal = Seal {
                places,
                tag: [0; TAG_LEN],
            };
            let shape = Shape {
                geometry: Geometry::stripe(100_000, 1, 3),
                seal: Some(seal),
            };
            let header = Header { shape, role: 0 };
            Header::parse(object, &header.to_bytes(object)).is_some()
        };
        let mut places = [0; ROLES_MAX];
        places[..3].copy_from_slice(&[2, 0, 1]);
        assert!(parse(places));
        for (at, place) in [(0, 0), (2, 3), (3, 1), (31, 1)] {
            let mut wrong = places;
            wrong[at] = place;
            assert!(!parse(wrong), "{at}");
        }
    }

    #[test]
    fn a_sector_is_sound_only_in_its_place() {
        let (object, bytes) = (Id([5; 32]), [7; 1000]);
        let mut stored = bytes.to_vec();
        stored.extend(checksum(object, 2, 3, 4, &[&bytes[..10], &bytes[10..]]));
        let open = |object, role, row, number, stored: &[u8]| {
            open_sector(object, role, row, number, stored).map(<[u8]>::to_vec)
        };
        assert_eq!(open(object, 2, 3, 4, &stored).as_deref(), Some(&bytes[..]));
        for (role, row, number) in [(1, 3, 4), (2, 2, 4), (2, 3, 5)] {
            assert_eq!(open(object, role, row, number, &stored), None);
        }
        assert_eq!(open(Id([6; 32]), 2, 3, 4, &stored), None);
        for at in 0..stored.len() {
            let mut flipped = stored.clone();
            flipped[at] ^= 1;
            assert_eq!(open(object, 2, 3, 4, &flipped), None, "byte {at}");
            assert_eq!(open(object, 2, 3, 4, &stored[..at]), None);
        }
    }
}
