//! Searches for `coded` schedules with few transfers, for n = p or n = p + 1 with p prime, up to 8
//! targets.
//!
//! ```sh
//! cargo run --release -p tabane-parity --example search_coded -- TARGETS ORBITS SECONDS [SEED]
//! ```
//!
//! Node u is role u − 1 (0 stands for role p − 1, where there is one), row v is row v − 1, both
//! modulo p. To multiply all of them by a number gives the same code again, so only transfers to
//! and from node 1 are searched for, and each stands for an orbit of p − 1. All but the last two
//! orbits between nodes are drawn; for these linear algebra says whether they can give node 1 the
//! parity of its row and of a diagonal. That diagonal then goes to the diagonal role, which is one
//! orbit more.
//!
//! Prints each schedule that it finds, in the form of `src/schedule/coded.rs`.

use std::time::{Duration, Instant};

/// A sum of data cells, each a bit.
type Sum = u64;

/// What a node holds: independent sums, each with a highest bit of its own.
#[derive(Clone, Default)]
struct Held {
    /// What arrived, as it arrived.
    arrived: Vec<Sum>,
    reduced: Vec<Sum>,
}

impl Held {
    fn reduce(&self, mut sum: Sum) -> Sum {
        for &other in &self.reduced {
            sum = sum.min(sum ^ other);
        }
        sum
    }

    /// Returns whether it is something new.
    fn add(&mut self, sum: Sum) -> bool {
        let rest = self.reduce(sum);
        if rest == 0 {
            return false;
        }
        self.arrived.push(sum);
        self.reduced.push(rest);
        self.reduced.sort_unstable_by(|a, b| b.cmp(a));
        true
    }

    fn has(&self, sum: Sum) -> bool {
        self.reduce(sum) == 0
    }
}

/// One transfer of an orbit, as the one to or from node 1.
#[derive(Clone, Copy)]
enum Transfer {
    /// From this node to node 1.
    ToOne(usize, Sum),
    /// From node 1 to node 0.
    ToZero(Sum),
}

struct Code {
    prime: usize,
    has_zero: bool,
    cells: Vec<(usize, usize)>,
    /// For each factor, where each bit goes.
    scaled: Vec<Vec<usize>>,
}

impl Code {
    fn new(targets: usize) -> Option<Self> {
        let is_prime = |number: usize| (2..number).all(|divisor| !number.is_multiple_of(divisor));
        let prime = [targets, targets - 1].into_iter().find(|&p| is_prime(p))?;
        let has_zero = prime < targets;
        let cells: Vec<_> = (usize::from(!has_zero)..prime)
            .flat_map(|u| (1..prime).map(move |v| (u, v)))
            .filter(|(u, v)| (u + v) % prime != 0)
            .collect();
        let place = |cell: (usize, usize)| cells.iter().position(|other| *other == cell);
        let scaled = (0..prime).map(|by| {
            let bits = cells.iter();
            let bits = bits.filter_map(|(u, v)| place((u * by % prime, v * by % prime)));
            bits.collect()
        });
        let scaled = scaled.collect();
        Some(Self {
            prime,
            has_zero,
            cells,
            scaled,
        })
    }

    fn sum(&self, of: impl Fn(usize, usize) -> bool) -> Sum {
        let bits = self.cells.iter().enumerate();
        bits.filter(|(_, (u, v))| of(*u, *v))
            .fold(0, |sum, (bit, _)| sum | 1 << bit)
    }

    fn scale(&self, sum: Sum, by: usize) -> Sum {
        let bits = (0..self.cells.len()).filter(|bit| sum >> bit & 1 == 1);
        bits.fold(0, |scaled, bit| scaled | 1 << self.scaled[by][bit])
    }

    /// What another node than 1 and 0 holds, when node 1 holds this.
    fn held_by(&self, node: usize, one: &Held) -> Vec<Sum> {
        let scaled = one.arrived.iter().map(|&sum| self.scale(sum, node));
        scaled.collect()
    }

    fn row(&self) -> Sum {
        self.sum(|_, v| v == self.prime - 1)
    }

    fn diagonal(&self, diagonal: usize) -> Sum {
        self.sum(|u, v| (u + v) % self.prime == diagonal)
    }

    /// A transfer that makes node 1 know `wanted`.
    fn transfer_for(&self, one: &Held, zero: &Held, wanted: Sum) -> Option<Transfer> {
        (2..self.prime)
            .chain(self.has_zero.then_some(0))
            .find_map(|from| {
                let theirs = match from {
                    0 => zero.arrived.clone(),
                    _ => self.held_by(from, one),
                };
                let mut both = one.clone();
                for &sum in &theirs {
                    both.add(sum);
                }
                if !both.has(wanted) {
                    return None;
                }
                // What of it is theirs: leave out each that is not needed.
                let mut needed = theirs;
                for index in (0..needed.len()).rev() {
                    let mut without = one.clone();
                    for (other, &sum) in needed.iter().enumerate() {
                        if other != index {
                            without.add(sum);
                        }
                    }
                    if without.has(wanted) {
                        needed.remove(index);
                    }
                }
                Some(Transfer::ToOne(
                    from,
                    needed.into_iter().fold(0, |sum, part| sum ^ part),
                ))
            })
    }

    fn apply(&self, transfer: Transfer, one: &mut Held, zero: &mut Held) -> bool {
        match transfer {
            Transfer::ToOne(_, sum) => one.add(sum),
            Transfer::ToZero(sum) => {
                (1..self.prime).fold(false, |new, by| zero.add(self.scale(sum, by)) | new)
            }
        }
    }

    /// As `src/schedule/coded.rs` has it: from, to, cells.
    fn print(&self, transfers: &[Transfer], diagonal: usize) {
        let cells = |sum: Sum| {
            let bits = self.cells.iter().enumerate();
            let cells = bits.filter(|(bit, _)| sum >> bit & 1 == 1);
            let cells: Vec<_> = cells.map(|(_, cell)| format!("{cell:?}")).collect();
            format!("&[{}]", cells.join(", "))
        };
        println!("// {} transfers", (transfers.len() + 1) * (self.prime - 1));
        for transfer in transfers {
            match *transfer {
                Transfer::ToOne(0, sum) => println!("(0, To::Node(1), {}),", cells(sum)),
                Transfer::ToOne(from, sum) => {
                    let inverse = (1..self.prime).find(|by| by * from % self.prime == 1);
                    let inverse = inverse.expect("a number below a prime has an inverse");
                    println!(
                        "(1, To::Node({inverse}), {}),",
                        cells(self.scale(sum, inverse))
                    );
                }
                Transfer::ToZero(sum) => println!("(1, To::Node(0), {}),", cells(sum)),
            }
        }
        println!("(1, To::Diagonal, {}),\n", cells(self.diagonal(diagonal)));
    }
}

/// Xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }

    /// The sum of one to three of these.
    fn sum_of(&mut self, held: &[Sum]) -> Sum {
        let count = [1, 1, 2, 2, 2, 3][self.below(6)];
        (0..count).fold(0, |sum, _| sum ^ held[self.below(held.len())])
    }
}

fn main() {
    let numbers: Vec<usize> = std::env::args()
        .skip(1)
        .map(|number| number.parse().expect("numbers"))
        .collect();
    let [targets, orbits, seconds, ref seed @ ..] = numbers[..] else {
        panic!("TARGETS ORBITS SECONDS [SEED]");
    };
    assert!((5..=8).contains(&targets) && orbits >= 3, "5 to 8 targets");
    let code = Code::new(targets).expect("n or n − 1 is prime");
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ seed.first().map_or(1, |&seed| seed as u64));
    let (row, diagonals): (Sum, Vec<Sum>) = (
        code.row(),
        (0..code.prime)
            .map(|diagonal| code.diagonal(diagonal))
            .collect(),
    );
    let (mut start_one, mut start_zero) = (Held::default(), Held::default());
    for (bit, (u, _)) in code.cells.iter().enumerate() {
        match u {
            0 => drop(start_zero.add(1 << bit)),
            1 => drop(start_one.add(1 << bit)),
            _ => {}
        }
    }
    let (start, limit) = (Instant::now(), Duration::from_secs(seconds as u64));
    let (mut tried, mut found) = (0_u64, 0);
    while start.elapsed() < limit {
        tried += 1;
        let (mut one, mut zero) = (start_one.clone(), start_zero.clone());
        let mut transfers = Vec::new();
        while transfers.len() + 3 < orbits {
            let nodes = code.prime - 2 + 2 * usize::from(code.has_zero);
            let transfer = match random.below(nodes) + 2 {
                from if from < code.prime => {
                    let theirs = code.held_by(from, &one);
                    Transfer::ToOne(from, random.sum_of(&theirs))
                }
                from if from == code.prime => Transfer::ToOne(0, random.sum_of(&zero.arrived)),
                _ => Transfer::ToZero(random.sum_of(&one.arrived)),
            };
            if code.apply(transfer, &mut one, &mut zero) {
                transfers.push(transfer);
            }
        }
        // The row first, then a diagonal; or the other way round.
        let solved = (1..code.prime).find_map(|diagonal| {
            [[row, diagonals[diagonal]], [diagonals[diagonal], row]]
                .into_iter()
                .find_map(|wanted| {
                    let mut one = one.clone();
                    let mut last = Vec::new();
                    for wanted in wanted {
                        if !one.has(wanted) {
                            last.push(code.transfer_for(&one, &zero, wanted)?);
                            one.add(wanted);
                        }
                    }
                    Some((diagonal, last))
                })
        });
        if let Some((diagonal, last)) = solved {
            transfers.extend(last);
            code.print(&transfers, diagonal);
            found += 1;
            if found == 5 {
                break;
            }
        }
    }
    eprintln!("{tried} tried, {found} found");
}
