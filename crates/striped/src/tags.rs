//! Keyed tags of cells, linear over GF(2): whoever adds cells adds their tags, without the key.
//!
//! The tag of a sector is its polynomial hash and a mask of its place ([`LinearMac`]), under a key
//! of the object. Hashes of a sum of sectors are sums of hashes; the mask of a parity cell is the
//! sum of those of the data cells that it is made of. So the tag of a parity cell arises as the
//! cell does.

use std::sync::LazyLock;

use tabane_lanes::aes::LinearMac;
use tabane_lanes::{Algorithm, HmacKey, hmac_many};
use tabane_parity::Layout;
use tabane_storage::Id;

use crate::container::{Geometry, ROLES_MAX, Seal};

/// Bytes of a tag.
pub const TAG_LEN: usize = 16;

/// The tag of a sector of a cell.
pub type Tag = [u8; TAG_LEN];

/// The secret from which the tags of all objects follow.
pub struct TagKey(HmacKey);

impl TagKey {
    /// The secret of a repository.
    pub fn new(secret: &[u8; 32]) -> Self {
        Self(HmacKey::new(Algorithm::Sha256, secret))
    }

    /// What makes and checks the tags of an object that is striped over so many roles.
    pub fn of(&self, object: Id, roles: u8) -> ObjectTags {
        let key = hmac_many(&[(&self.0, &object.0)])[0];
        let key = key.as_bytes().first_chunk();
        ObjectTags {
            mac: LinearMac::new(key.expect("SHA-256 has 32 bytes")),
            terms: terms(roles),
        }
    }

    /// The seal of the headers of a stripe that has its roles at these places. It is not linear, so
    /// that an object may be sealed with other places, too.
    pub fn seal(&self, object: Id, geometry: &Geometry, places: [u8; ROLES_MAX]) -> Seal {
        let message = [
            &object.0[..],
            &geometry.object_len.to_le_bytes(),
            &[geometry.generation, geometry.roles],
            &places,
        ];
        let tag = hmac_many(&[(&self.0, &message.concat())])[0];
        let tag = *tag.as_bytes().first_chunk().expect("SHA-256 has 32 bytes");
        Seal { places, tag }
    }
}

/// Makes and checks the tags of one object.
pub struct ObjectTags {
    mac: LinearMac,
    /// The data cells whose sum each cell is.
    terms: &'static [Vec<usize>],
}

impl ObjectTags {
    /// The tag of a sector of a cell.
    pub fn tag(&self, cell: usize, sector: u64, bytes: &[u8]) -> Tag {
        // Places are not 0: cells are counted from 1.
        let place = |term: usize| (term as u128 + 1) << 64 | u128::from(sector);
        let masks = self.terms[cell].iter();
        let mask = masks.fold(0, |sum, &term| sum ^ self.mac.mask(place(term)));
        (self.mac.hash(&[bytes]) ^ mask).to_be_bytes()
    }
}

fn terms(roles: u8) -> &'static [Vec<usize>] {
    static TERMS: LazyLock<Vec<Vec<Vec<usize>>>> = LazyLock::new(|| {
        let layouts = (3..=ROLES_MAX).map(|roles| Layout::new(roles).expect("they are enough"));
        layouts.map(|layout| layout.terms()).collect()
    });
    &TERMS[usize::from(roles) - 3]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::container::SECTOR_LEN;
    use tabane_parity::encode;

    fn cells(layout: &Layout, len: usize) -> Vec<Vec<u8>> {
        let byte = |at: usize| (at.wrapping_mul(0x9e37_79b9) >> 9) as u8;
        let mut cells: Vec<Vec<u8>> = (0..layout.cells())
            .map(|cell| (0..len).map(|at| byte(at + cell * len)).collect())
            .collect();
        encode(layout, &mut cells).unwrap();
        cells
    }

    /// The tags of all sectors of a cell, one behind the other.
    fn of_cell(tags: &ObjectTags, cell: usize, bytes: &[u8]) -> Vec<u8> {
        let sectors = (0..).zip(bytes.chunks(SECTOR_LEN as usize));
        sectors
            .flat_map(|(sector, bytes)| tags.tag(cell, sector, bytes))
            .collect()
    }

    #[test]
    fn tags_add_up_as_cells_do() {
        let len = SECTOR_LEN as usize + 48;
        for roles in [3, 4, 5, 8, 9] {
            let layout = Layout::new(roles.into()).unwrap();
            let tags = TagKey::new(&[7; 32]).of(Id([1; 32]), roles);
            let cells = cells(&layout, len);
            let mut all: Vec<Vec<u8>> = vec![vec![0; 2 * TAG_LEN]; layout.cells()];
            for &cell in layout.data_cells() {
                all[cell] = of_cell(&tags, cell, &cells[cell]);
            }
            encode(&layout, &mut all).unwrap();
            for (cell, sum) in all.iter().enumerate() {
                assert_eq!(*sum, of_cell(&tags, cell, &cells[cell]), "{roles} {cell}");
            }
        }
    }

    #[test]
    fn a_tag_is_that_of_one_place_one_object_and_one_key() {
        let bytes = [9; 64];
        let tags = |key: u8, object: u8| TagKey::new(&[key; 32]).of(Id([object; 32]), 5);
        let mut seen = HashSet::new();
        for (key, object) in [(1, 1), (1, 2), (2, 1)] {
            let (tags, key) = (tags(key, object), TagKey::new(&[key; 32]));
            for cell in 0..20 {
                for sector in 0..3 {
                    assert!(seen.insert(tags.tag(cell, sector, &bytes)));
                }
            }
            let seal = |object_len, generation, place| {
                let geometry = Geometry::stripe(object_len, generation, 5);
                let mut places = [0; ROLES_MAX];
                places[4] = place;
                key.seal(Id([object; 32]), &geometry, places).tag
            };
            for (object_len, generation, place) in [
                (100_000, 1, 4),
                (100_000, 1, 3),
                (100_001, 1, 4),
                (100_000, 2, 4),
            ] {
                assert!(seen.insert(seal(object_len, generation, place)));
            }
        }
        assert_eq!(tags(1, 1).tag(3, 1, &bytes), tags(1, 1).tag(3, 1, &bytes));
    }
}
