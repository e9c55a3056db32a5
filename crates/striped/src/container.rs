//! A shard, the object that one target stores: a header, and the cells of one role, each sector
//! with its checksum.

use std::ops::Range;
use std::sync::LazyLock;

use tabane_engine::{Algorithm, Hasher};
use tabane_parity::Layout;

use tabane_storage::Id;
use tabane_storage::OBJECT_LEN_MAX;

/// Bytes with one checksum: the smallest read, and the most that a flipped bit destroys.
pub const SECTOR_LEN: u64 = 64 << 10;

/// Bytes of the header.
pub const HEADER_LEN: u64 = 64;

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

/// Where the letter of a kind is in the header of an object.
const MAGIC: &[u8; 8] = b"TABANE#\x01";

/// Whether these bytes begin a shard, and so belong to a target of a striped repository.
pub fn is_container(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC[..7])
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
    pub fn stored(&self, row: usize, sectors: &Range<u64>) -> Range<u64> {
        let row_len = self.cell_len() + self.sectors() * CHECKSUM_LEN;
        let at = |sector: u64| {
            let before = (sector * SECTOR_LEN).min(self.cell_len()) + sector * CHECKSUM_LEN;
            HEADER_LEN + row as u64 * row_len + before
        };
        at(sectors.start)..at(sectors.end)
    }

    /// Bytes of a shard. Modulo 16 they are the generation.
    pub fn container_len(&self) -> u64 {
        let (rows, _) = self.counts();
        let row_len = self.cell_len() + self.sectors() * CHECKSUM_LEN;
        HEADER_LEN + rows * row_len + u64::from(self.generation)
    }

    /// The length that listings give for such an object: that of all its data cells.
    pub fn listed_len(&self) -> u64 {
        self.counts().1 * self.cell_len()
    }

    /// The header of the shard of a role.
    pub fn header(&self, object: Id, role: usize) -> [u8; HEADER_LEN as usize] {
        let mut header = [0; HEADER_LEN as usize];
        header[..8].copy_from_slice(MAGIC);
        header[8..16].copy_from_slice(&self.object_len.to_le_bytes());
        header[16] = self.generation;
        header[17] = self.roles;
        header[18] = role as u8;
        let (before, checksum) = header.split_at_mut((HEADER_LEN - CHECKSUM_LEN) as usize);
        checksum.copy_from_slice(&header_checksum(object, before));
        header
    }

    /// Parses a header and its role; `None` if it is damaged or another object's.
    pub fn parse(object: Id, bytes: &[u8]) -> Option<(Self, usize)> {
        let header: &[u8; HEADER_LEN as usize] = bytes.first_chunk()?;
        let (before, checksum) = header.split_at((HEADER_LEN - CHECKSUM_LEN) as usize);
        if !header.starts_with(MAGIC) || header_checksum(object, before) != checksum {
            return None;
        }
        let object_len = u64::from_le_bytes(*header[8..].first_chunk()?);
        let [generation, roles, role] = *header[16..].first_chunk()?;
        let known = match generation {
            0 => roles == 1,
            1..=GENERATION_MAX => (3..=ROLES_MAX).contains(&roles.into()),
            _ => false,
        };
        let sound = known && role < roles && object_len <= OBJECT_LEN_MAX;
        let geometry = Self {
            object_len,
            generation,
            roles,
        };
        sound.then_some((geometry, role.into()))
    }
}

/// The generation of a shard of this length; 0 for a replica.
pub fn generation_of(container_len: u64) -> u8 {
    (container_len % UNIT) as u8
}

/// [`Geometry::listed_len`] of the object with a shard of this length, a stripe over `roles` roles
/// or a replica; `None` if no shard has this length.
pub fn listed_len(container_len: u64, roles: usize) -> Option<u64> {
    if container_len > 2 * OBJECT_LEN_MAX {
        return None;
    }
    let generation = generation_of(container_len);
    let (rows, data) = match generation {
        0 => (1, 1),
        _ => counts(roles as u8),
    };
    let cells = container_len
        .checked_sub(HEADER_LEN + u64::from(generation))?
        .checked_div(rows)?;
    let sectors = cells.div_ceil(SECTOR_LEN + CHECKSUM_LEN);
    let cell_len = cells.checked_sub(sectors * CHECKSUM_LEN)?;
    let row_len = cell_len + cell_len.div_ceil(SECTOR_LEN) * CHECKSUM_LEN;
    let is_one = HEADER_LEN + rows * row_len + u64::from(generation) == container_len;
    is_one.then_some(data * cell_len)
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

/// The shard of a role: its header, its cells in sectors with a checksum each, and padding whose
/// length encodes the generation.
pub struct Container<'a> {
    header: [u8; HEADER_LEN as usize],
    sectors: Vec<(&'a [u8], [u8; CHECKSUM_LEN as usize])>,
    padding: [u8; GENERATION_MAX as usize],
    padding_len: usize,
}

impl<'a> Container<'a> {
    /// Makes a shard and computes its checksums.
    pub fn new(
        geometry: &Geometry,
        object: Id,
        role: usize,
        cells: impl IntoIterator<Item = &'a [u8]>,
    ) -> Self {
        let mut sectors = Vec::new();
        for (row, cell) in cells.into_iter().enumerate() {
            for (number, sector) in (0..).zip(cell.chunks(SECTOR_LEN as usize)) {
                sectors.push((sector, checksum(object, role, row, number, sector)));
            }
        }
        Self {
            header: geometry.header(object, role),
            sectors,
            padding: [0; GENERATION_MAX as usize],
            padding_len: geometry.generation.into(),
        }
    }

    /// The shard's bytes, in pieces.
    pub fn parts(&self) -> Vec<&[u8]> {
        let sectors = self.sectors.iter();
        let sectors = sectors.flat_map(|(bytes, checksum)| [*bytes, checksum]);
        let header: &[u8] = &self.header;
        let padding = &self.padding[..self.padding_len];
        [header]
            .into_iter()
            .chain(sectors)
            .chain([padding])
            .collect()
    }
}

/// The bytes of a sector, if the checksum behind them is right.
pub fn open_sector(
    object: Id,
    role: usize,
    row: usize,
    number: u64,
    stored: &[u8],
) -> Option<&[u8]> {
    let (bytes, found) = stored.split_last_chunk::<{ CHECKSUM_LEN as usize }>()?;
    (checksum(object, role, row, number, bytes) == *found).then_some(bytes)
}

/// XXH3 of a sector and its place, so that a misplaced sector is wrong, too.
pub fn checksum(object: Id, role: usize, row: usize, number: u64, sector: &[u8]) -> [u8; 16] {
    let mut place = [0; 48];
    place[..32].copy_from_slice(&object.0);
    place[32..36].copy_from_slice(&(role as u32).to_le_bytes());
    place[36..40].copy_from_slice(&(row as u32).to_le_bytes());
    place[40..].copy_from_slice(&number.to_le_bytes());
    xxh128(&[&place, sector])
}

fn header_checksum(object: Id, header: &[u8]) -> [u8; 16] {
    xxh128(&[&object.0, header])
}

pub(crate) fn xxh128(parts: &[&[u8]]) -> [u8; 16] {
    let mut hasher = Hasher::new(Algorithm::Xxh128);
    parts.iter().for_each(|part| hasher.update(part));
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

    #[test]
    fn the_length_of_a_container_says_what_it_is() {
        for geometry in geometries() {
            let len = geometry.container_len();
            assert_eq!(generation_of(len), geometry.generation, "{geometry:?}");
            let listed = listed_len(len, geometry.roles.into());
            assert_eq!(listed, Some(geometry.listed_len()), "{geometry:?}");
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
            let role = usize::from(geometry.roles) - 1;
            let header = geometry.header(object, role);
            assert_eq!(Geometry::parse(object, &header), Some((geometry, role)));
            assert_eq!(Geometry::parse(other, &header), None);
            for at in 0..header.len() {
                let mut flipped = header;
                flipped[at] ^= 0x10;
                assert_eq!(Geometry::parse(object, &flipped), None, "byte {at}");
                assert_eq!(Geometry::parse(object, &header[..at]), None);
            }
        }
    }

    #[test]
    fn a_sector_is_sound_only_in_its_place() {
        let (object, bytes) = (Id([5; 32]), [7; 1000]);
        let mut stored = bytes.to_vec();
        stored.extend(checksum(object, 2, 3, 4, &bytes));
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
