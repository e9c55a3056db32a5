//! Chooses packs to copy out and remove: pure arithmetic.

use std::str::FromStr;

use tabane_format::Error;
use tabane_format::pack::{BlockKind, PACK_LEN};
use tabane_storage::Id;

/// The most unused bytes in packs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MaxUnused {
    /// A share of the remaining packs, 0 to 1.
    Share(f64),
    /// A number of bytes.
    Bytes(u64),
    /// Any amount: no pack is rewritten, and only packs without a needed block are removed.
    Unlimited,
}

impl Default for MaxUnused {
    fn default() -> Self {
        Self::Share(0.05)
    }
}

impl MaxUnused {
    /// The limit in bytes when `used` bytes are used.
    fn limit(self, used: u64) -> u64 {
        match self {
            Self::Share(share) if share >= 1.0 => u64::MAX,
            Self::Share(share) => (used as f64 * share / (1.0 - share)) as u64,
            Self::Bytes(bytes) => bytes,
            Self::Unlimited => u64::MAX,
        }
    }
}

impl FromStr for MaxUnused {
    type Err = Error;

    /// `unlimited`, a share as `5%`, or a number of bytes.
    fn from_str(text: &str) -> Result<Self, Error> {
        let share = text
            .strip_suffix('%')
            .map(|percent| percent.parse::<f64>().map(|percent| percent / 100.0));
        match (text, share) {
            ("unlimited", _) => Ok(Self::Unlimited),
            (_, Some(Ok(share))) if (0.0..=1.0).contains(&share) => Ok(Self::Share(share)),
            (_, None) if text.parse::<u64>().is_ok() => {
                Ok(Self::Bytes(text.parse().unwrap_or_default()))
            }
            _ => Err(Error::Invalid(format!(
                "cannot understand {text:?}: write unlimited, a share as 5%, or a size as 500M"
            ))),
        }
    }
}

/// A pack with needed blocks that may be copied out.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// ID of the pack.
    pub pack: Id,
    /// Kind of its blocks.
    pub kind: BlockKind,
    /// Bytes of the pack.
    pub len: u64,
    /// The share of the pack that snapshots need, above 0, up to 1.
    pub used: f64,
    /// The pack's age in seconds.
    pub age_s: f64,
}

impl Candidate {
    /// The pack's bytes that no snapshot needs.
    pub fn unused_bytes(&self) -> u64 {
        (self.len as f64 * (1.0 - self.used)) as u64
    }

    /// Benefit over cost of copying the pack out (Rosenblum and Ousterhout, "The Design and
    /// Implementation of a Log-Structured File System", 1992): freed space, weighted by the pack's
    /// age, over reading the whole pack and writing its used blocks.
    fn benefit(&self) -> f64 {
        (1.0 - self.used) * (self.age_s + 3600.0) / (1.0 + self.used)
    }

    /// Whether the pack is so small that several should become one.
    fn is_small(&self) -> bool {
        self.len < PACK_LEN as u64 / 8
    }
}

/// The most small packs of one kind before they are combined.
const SMALL_PACKS_MAX: usize = 32;

/// What limits the choice.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// How much may be left unused.
    pub max_unused: MaxUnused,
    /// Bytes of the packs that are copied out, at most.
    pub max_copied: u64,
    /// Packs of fewer bytes are combined, if a kind has several.
    pub combined_below: u64,
    /// Only packs with directories are copied out.
    pub only_trees: bool,
}

/// Chooses packs to copy out, beside `used` used bytes.
pub fn choose(mut candidates: Vec<Candidate>, used: u64, limits: Limits) -> Vec<Id> {
    let Limits {
        max_unused,
        max_copied,
        combined_below,
        only_trees,
    } = limits;
    candidates.retain(|pack| pack.kind == BlockKind::Tree || !only_trees);
    let mut unused: u64 = candidates.iter().map(Candidate::unused_bytes).sum();
    let (limit, mut budget) = (max_unused.limit(used), max_copied);
    let mut chosen = Vec::new();
    let small_are_many = |kind| {
        let small = candidates
            .iter()
            .filter(|pack| pack.kind == kind && pack.is_small());
        small.count() >= SMALL_PACKS_MAX
    };
    let combined = |kind| {
        let mut short = candidates
            .iter()
            .filter(|pack| pack.kind == kind && pack.len < combined_below);
        short.nth(1).is_some()
    };
    let kinds = [BlockKind::Data, BlockKind::Tree];
    let merge = kinds.map(|kind| (kind, small_are_many(kind)));
    let combine = kinds.map(|kind| (kind, combined(kind)));
    candidates.sort_by(|a, b| {
        b.benefit()
            .total_cmp(&a.benefit())
            .then(a.pack.cmp(&b.pack))
    });
    for pack in candidates {
        let is_one_of_many = pack.is_small() && merge.contains(&(pack.kind, true));
        let is_short = pack.len < combined_below && combine.contains(&(pack.kind, true));
        let wanted = is_one_of_many || is_short || (unused > limit && pack.unused_bytes() > 0);
        if wanted && pack.len <= budget {
            budget -= pack.len;
            unused -= pack.unused_bytes();
            chosen.push(pack.pack);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(number: u8, used: f64, age_s: f64) -> Candidate {
        Candidate {
            pack: Id([number; 32]),
            kind: BlockKind::Data,
            len: 16_000_000,
            used,
            age_s,
        }
    }

    #[test]
    fn the_emptiest_and_oldest_go_first_until_enough_is_free() {
        let packs = vec![
            pack(0, 1.0, 1e6),
            pack(1, 0.9, 1e6),
            pack(2, 0.5, 1e6),
            pack(3, 0.5, 1e3),
            pack(4, 0.1, 1e6),
        ];
        let choose = |max_unused, max_copied| {
            let limits = Limits {
                max_unused,
                max_copied,
                ..Limits::default()
            };
            let chosen = choose(packs.clone(), 48_000_000, limits);
            chosen.iter().map(|id| id.0[0]).collect::<Vec<u8>>()
        };
        assert_eq!(choose(MaxUnused::Unlimited, u64::MAX), [0_u8; 0]);
        assert_eq!(choose(MaxUnused::Bytes(0), u64::MAX), [4, 2, 1, 3]);
        assert_eq!(choose(MaxUnused::Share(0.0), 40_000_000), [4, 2]);
        // 32 MB are unused, and 48 of 48 + 12 used is four fifths.
        assert_eq!(choose(MaxUnused::Share(0.2), u64::MAX), [4, 2]);
        assert_eq!(choose(MaxUnused::Share(1.0), u64::MAX), [0_u8; 0]);
        // Also where nothing is used.
        assert_eq!(MaxUnused::Share(1.0).limit(0), u64::MAX);
    }

    #[test]
    fn benefit_is_freed_space_by_age_over_cost() {
        assert_eq!(pack(0, 0.5, 0.0).benefit(), 1200.0);
        assert_eq!(pack(0, 0.25, 1400.0).benefit(), 3000.0);
        assert_eq!(pack(0, 0.25, 0.0).unused_bytes(), 12_000_000);
    }

    #[test]
    fn many_small_packs_are_made_one() {
        let small = |number: u8| Candidate {
            len: 100_000,
            ..pack(number, 1.0, 1e6)
        };
        let few: Vec<_> = (0..31).map(small).collect();
        let many: Vec<_> = (0..32).map(small).collect();
        let limits = Limits {
            max_unused: MaxUnused::Unlimited,
            max_copied: u64::MAX,
            ..Limits::default()
        };
        assert_eq!(choose(few.clone(), 1, limits).len(), 0);
        assert_eq!(choose(many.clone(), 1, limits).len(), 32);
        // The kinds are counted apart.
        let mut of_two_kinds = many;
        of_two_kinds[0].kind = BlockKind::Tree;
        assert_eq!(choose(of_two_kinds, 1, limits).len(), 0);
        // On request, two are enough; one is left as it is.
        let combined = |len, combined_below, only_trees| {
            let limits = Limits {
                combined_below,
                only_trees,
                ..limits
            };
            choose(few[..len].to_vec(), 1, limits).len()
        };
        assert_eq!(combined(2, 100_001, false), 2);
        assert_eq!(combined(2, 100_000, false), 0);
        assert_eq!(combined(1, 100_001, false), 0);
        assert_eq!(combined(2, 100_001, true), 0);
    }

    #[test]
    fn packs_that_nothing_asks_for_stay() {
        let of_len = |number: u8, used, len| Candidate {
            len,
            ..pack(number, used, 1e6)
        };
        let chosen = |packs: &[Candidate], limits| {
            let chosen = choose(packs.to_vec(), 1, limits);
            chosen.iter().map(|id| id.0[0]).collect::<Vec<u8>>()
        };
        let limits = Limits {
            max_unused: MaxUnused::Unlimited,
            max_copied: u64::MAX,
            ..Limits::default()
        };
        // An eighth of a pack is not small, and a large one stays beside many small ones.
        let eighth = PACK_LEN as u64 / 8;
        let of_eighths = |len| (0..32).map(move |number| of_len(number, 1.0, len));
        let just: Vec<_> = of_eighths(eighth).collect();
        assert_eq!(chosen(&just, limits), [0_u8; 0]);
        let mut small: Vec<_> = of_eighths(eighth - 1).collect();
        small.push(of_len(99, 1.0, 16_000_000));
        assert_eq!(chosen(&small, limits), (0..32).collect::<Vec<u8>>());
        // The same of short ones.
        let limits = Limits {
            combined_below: 1000,
            ..limits
        };
        let short = [(0, 999), (1, 999), (2, 1000)].map(|(number, len)| of_len(number, 1.0, len));
        assert_eq!(chosen(&short, limits), [0, 1]);
        // A short pack stays beside a longer one, and beside one of another kind.
        assert_eq!(chosen(&short[1..], limits), [0_u8; 0]);
        let mut of_two_kinds = [short[0], short[1]];
        of_two_kinds[0].kind = BlockKind::Tree;
        assert_eq!(chosen(&of_two_kinds, limits), [0_u8; 0]);
        // As much as may be unused is left, and what is used is not copied for nothing.
        let packs = [(0, 0.5, 1000), (1, 0.5, 1000), (2, 1.0, 10)];
        let packs = packs.map(|(number, used, len)| of_len(number, used, len));
        for (unused, copied, expected) in [
            (1000, u64::MAX, &[][..]),
            (999, u64::MAX, &[0]),
            (500, u64::MAX, &[0]),
            (499, u64::MAX, &[0, 1]),
            (0, 1000, &[0]),
            (0, 999, &[]),
            (0, 1010, &[0]),
        ] {
            let limits = Limits {
                max_unused: MaxUnused::Bytes(unused),
                max_copied: copied,
                ..Limits::default()
            };
            assert_eq!(chosen(&packs, limits), expected, "{unused} {copied}");
        }
    }

    #[test]
    fn limits_are_written_as_people_do() {
        for (text, limit) in [
            ("5%", MaxUnused::Share(0.05)),
            ("0%", MaxUnused::Share(0.0)),
            ("unlimited", MaxUnused::Unlimited),
            ("1000", MaxUnused::Bytes(1000)),
        ] {
            assert_eq!(text.parse::<MaxUnused>().unwrap(), limit, "{text}");
        }
        for text in ["", "%", "-1%", "101%", "some", "-5"] {
            assert!(text.parse::<MaxUnused>().is_err(), "{text}");
        }
    }
}
