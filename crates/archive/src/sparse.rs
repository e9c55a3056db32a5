//! Files with holes, as GNU tar's format for sparse files 1.0 has them.
//!
//! A member begins with a map: the number of regions, then offset and length of each, as decimal
//! numbers with line breaks, padded with zeros to whole blocks. The bytes of the regions follow.

use tabane_store::entry::Piece;

/// Length in bytes of a block of an archive.
const BLOCK_LEN: u64 = 512;

/// The regions of a file with data.
#[derive(Debug, PartialEq, Eq)]
pub struct SparseMap {
    /// Offset and length of each region, in bytes.
    regions: Vec<(u64, u64)>,
    /// The content without the holes between regions.
    content: Vec<Piece>,
}

impl SparseMap {
    /// The map of a file; `None` if an archive could leave out no hole of it.
    ///
    /// Programs read regions in whole blocks, so only whole blocks of a hole are left out.
    pub fn of(pieces: &[Piece]) -> Option<Self> {
        let is_hole = |piece: &Piece| matches!(piece, Piece::Hole { .. });
        if !pieces.iter().any(is_hole) {
            return None;
        }
        let size: u64 = pieces.iter().map(Piece::len).sum();
        let mut map = Self {
            regions: Vec::new(),
            content: Vec::new(),
        };
        let (mut position, mut has_hole) = (0, false);
        for run in pieces.chunk_by(|a, b| is_hole(a) == is_hole(b)) {
            let len: u64 = run.iter().map(Piece::len).sum();
            let end = position + len;
            if is_hole(&run[0]) {
                let from = position.next_multiple_of(BLOCK_LEN).min(end);
                let to = if end == size {
                    end
                } else {
                    (end - end % BLOCK_LEN).max(from)
                };
                map.zeros(position, from - position);
                map.zeros(to, end - to);
                has_hole |= to > from;
            } else {
                map.extend(position, len);
                map.content.extend_from_slice(run);
            }
            position = end;
        }
        // As GNU tar ends a map of a file that ends in a hole.
        if map.regions.last().is_none_or(|(at, len)| at + len < size) {
            map.regions.push((size, 0));
        }
        has_hole.then_some(map)
    }

    fn zeros(&mut self, at: u64, len: u64) {
        if len > 0 {
            self.extend(at, len);
            self.content.push(Piece::Hole { len });
        }
    }

    fn extend(&mut self, at: u64, len: u64) {
        match self.regions.last_mut() {
            Some((start, before)) if *start + *before == at => *before += len,
            _ => self.regions.push((at, len)),
        }
    }

    /// The content without the holes.
    pub fn content(&self) -> &[Piece] {
        &self.content
    }

    /// The map as stored, in whole blocks.
    pub fn text(&self) -> Vec<u8> {
        let mut text = format!("{}\n", self.regions.len());
        for (at, len) in &self.regions {
            text += &format!("{at}\n{len}\n");
        }
        let mut text = text.into_bytes();
        text.resize(text.len().next_multiple_of(BLOCK_LEN as usize), 0);
        text
    }

    /// Length in bytes of the map and the content.
    pub fn stored_len(&self) -> u64 {
        self.text().len() as u64 + self.regions.iter().map(|(_, len)| len).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(len: u32) -> Piece {
        let id = Default::default();
        Piece::Block { id, len }
    }

    fn hole(len: u64) -> Piece {
        Piece::Hole { len }
    }

    #[test]
    fn maps_are_those_of_gnu_tar() {
        let map = SparseMap::of(&[hole(4096), block(100), block(412), hole(1 << 40)]);
        let map = map.expect("it has holes");
        assert_eq!(map.regions, [(4096, 512), (4608 + (1 << 40), 0)]);
        assert_eq!(map.content, [block(100), block(412)]);
        let text = map.text();
        assert!(text.starts_with(b"2\n4096\n512\n1099511632384\n0\n\0"));
        assert_eq!((text.len(), map.stored_len()), (512, 1024));
        // A single hole.
        let map = SparseMap::of(&[hole(5)]).expect("it has holes");
        assert_eq!((map.regions, map.content), (vec![(5, 0)], vec![]));
    }

    #[test]
    fn files_without_whole_empty_blocks_have_no_map() {
        assert_eq!(SparseMap::of(&[]), None);
        assert_eq!(SparseMap::of(&[block(7)]), None);
        assert_eq!(SparseMap::of(&[block(7), hole(1000), block(7)]), None);
    }

    proptest! {
        /// Regions begin and end with whole blocks, and contain all data.
        #[test]
        fn regions_hold_the_data(lens in prop::collection::vec((any::<bool>(), 1..3000_u32),
            0..9)) {
            let pieces: Vec<Piece> = lens
                .iter()
                .map(|&(is_hole, len)| if is_hole { hole(len.into()) } else { block(len) })
                .collect();
            let size: u64 = pieces.iter().map(Piece::len).sum();
            if let Some(map) = SparseMap::of(&pieces) {
                let stored: u64 = map.content.iter().map(Piece::len).sum();
                let of_regions: u64 = map.regions.iter().map(|(_, len)| len).sum();
                prop_assert_eq!(stored, of_regions);
                let mut free = 0;
                for &(at, len) in &map.regions {
                    prop_assert!(at >= free && (at % BLOCK_LEN == 0 || at == size));
                    prop_assert!(len % BLOCK_LEN == 0 || at + len == size);
                    free = at + len;
                }
                prop_assert_eq!(free, size);
                let blocks = |pieces: &[Piece]| -> Vec<Piece> {
                    let blocks = pieces.iter().filter(|piece| piece.block().is_some());
                    blocks.copied().collect()
                };
                prop_assert_eq!(blocks(&map.content), blocks(&pieces));
                let mut at = 0;
                for piece in &pieces {
                    let end = at + piece.len();
                    let is_in = |&(start, len): &(u64, u64)| start <= at && end <= start + len;
                    prop_assert!(piece.block().is_none() || map.regions.iter().any(is_in));
                    at = end;
                }
            }
        }
    }
}
