//! Nodes send sums of what they keep and of what they have received: hardly more transfers than
//! there have to be.
//!
//! These schedules are made backwards. Turn every transfer around, copy where something was added
//! up, and add up where something was used several times. What carried the terms of each parity to
//! the role that keeps it now carries each parity to the roles of its terms, in as many transfers:
//! at first a role has the parities that it keeps, and in the end the role of each data block knows
//! the sum of the parities that the block is a term of. Such a sum has a bit for each parity
//! instead of one for each data block.
//!
//! A role that lacks something may take whatever another one knows and is a sum of what it has to
//! know. Each such transfer brings it one step nearer, so no choice can be wrong: the roles take
//! what there is until there is nothing left to take. Only what a role receives without having to
//! know it costs more. Each diagonal has to leave the diagonal role once at least; [`FACTORS`] says
//! to which roles.
//!
//! Nodes and clients make the schedule each for itself, and know it by its name. So what comes out
//! here may not change; a test has its digest. The proofs are in `docs/explanation/parity.md`.

use super::builder::Builder;
use super::transfer::{Node, Schedule};
use crate::Layout;

/// A sum of parities, a bit each: rows, then diagonals.
type Sum = u64;

/// Some of what a role has, a bit each.
type Items = u64;

/// For each number of roles, from [`ROLES_MIN`] on, the factors by which diagonals are assigned to
/// roles, as [`by_factors`] has them. Up to eight roles there is one: the fewest transfers that
/// there can be, or one more for eight roles. For more roles too many transfers would wait for one
/// another; there are two or three then. `examples/search_coded.rs` finds them.
const FACTORS: [&[usize]; 29] = [
    &[2],
    &[3],
    &[2],
    &[4],
    &[4],
    &[2, 7],
    &[2, 6],
    &[7, 9],
    &[8, 9],
    &[9, 12],
    &[9, 12],
    &[6, 14],
    &[12, 16],
    &[4, 16],
    &[12, 16],
    &[2, 3],
    &[2, 3],
    &[2, 12],
    &[2, 12],
    &[17, 22],
    &[17, 22],
    &[2, 6, 23],
    &[2, 16, 24],
    &[15, 19, 25],
    &[13, 25, 28],
    &[13, 28],
    &[13, 28],
    &[3, 30],
    &[3, 30],
];

/// The largest prime for which a sum has bits enough.
const PRIME_MAX: usize = 31;

/// The fewest roles for which there is a schedule.
const ROLES_MIN: usize = 4;

/// The schedule for a layout, if its number of roles is not too small or too large.
pub(super) fn schedule(layout: &Layout) -> Option<Schedule> {
    let number = layout.roles().checked_sub(ROLES_MIN)?;
    by_factors(layout, FACTORS.get(number)?)
}

/// The schedule that these factors give for a layout: role u, counted from 1, adds up diagonals
/// f · u modulo p for each factor f, counted so that row v of role u is on diagonal u + v, with v
/// from 1. Factors are from 1 to p − 1, none twice. None if p is more than 31.
///
/// [`Kind::Coded`](super::Kind::Coded) has the best factors; this is for the search for them.
pub fn by_factors(layout: &Layout, factors: &[usize]) -> Option<Schedule> {
    if layout.prime() > PRIME_MAX {
        return None;
    }
    let mut backwards = Backwards::new(layout);
    backwards.assign_diagonals(factors);
    loop {
        while backwards.take_what_there_is() {}
        if !backwards.assign_one_more() {
            return Some(backwards.turn_around());
        }
    }
}

/// Sums that are independent, each with the items that it is made of.
#[derive(Clone, Default)]
struct Basis(Vec<(Sum, Items)>);

impl Basis {
    /// Subtracts what is in the basis: the rest, and the items that are subtracted from those
    /// given. Each sum of the basis lacks the highest bits of those before it.
    fn reduce(&self, mut sum: Sum, mut items: Items) -> (Sum, Items) {
        for &(other, of) in &self.0 {
            if sum >> other.ilog2() & 1 == 1 {
                sum ^= other;
                items ^= of;
            }
        }
        (sum, items)
    }

    /// Adds a sum; if it was known already, gives the items that add up to nothing.
    fn add(&mut self, sum: Sum, items: Items) -> Option<Items> {
        let (rest, items) = self.reduce(sum, items);
        if rest == 0 {
            return Some(items);
        }
        self.0.push((rest, items));
        None
    }

    fn knows(&self, sum: Sum) -> bool {
        self.reduce(sum, 0).0 == 0
    }
}

/// What a role has, backwards.
#[derive(Default)]
struct Role {
    /// Its parities, then what it has received.
    items: Vec<Sum>,
    known: Basis,
    /// All that it will know.
    wanted: Basis,
}

impl Role {
    fn receive(&mut self, sum: Sum) {
        self.known.add(sum, 1 << self.items.len());
        self.items.push(sum);
    }

    /// How much it has to receive yet.
    fn lacks(&self) -> usize {
        self.wanted.0.len() - self.known.0.len()
    }
}

/// What one role could send to another one.
#[derive(Clone, Default)]
struct Pair {
    /// The first so many items of the sender have been looked at.
    seen: usize,
    /// What is left of them without what the receiver wants.
    unwanted: Basis,
    /// What the receiver wants and did not know when it was last looked at.
    useful: Vec<(Sum, Items)>,
}

/// A transfer that is turned around.
struct Turned {
    from: usize,
    to: usize,
    /// The sender's items whose sum it is.
    of: Items,
    /// Its number among the receiver's items.
    item: usize,
}

/// A schedule in the making, backwards.
struct Backwards<'a> {
    layout: &'a Layout,
    roles: Vec<Role>,
    /// By sender and receiver.
    pairs: Vec<Vec<Pair>>,
    transfers: Vec<Turned>,
    /// How much each role sends, and keeps of the data: what it will receive.
    loads: Vec<usize>,
}

impl<'a> Backwards<'a> {
    fn new(layout: &'a Layout) -> Self {
        let count = layout.roles();
        let mut backwards = Self {
            layout,
            roles: (0..count).map(|_| Role::default()).collect(),
            pairs: vec![vec![Pair::default(); count]; count],
            transfers: Vec::new(),
            loads: vec![0; count],
        };
        for row in 0..layout.rows() {
            backwards.keep(layout.role_of(layout.row_parity(row)), 1 << row);
        }
        for diagonal in layout.diagonals() {
            backwards.keep(layout.diagonal_role(), backwards.diagonal(diagonal));
        }
        for &cell in layout.data_cells() {
            let (role, sum) = (layout.role_of(cell), backwards.parities_of(cell));
            backwards.roles[role].wanted.add(sum, 0);
            backwards.loads[role] += 1;
        }
        backwards
    }

    /// A role begins with a parity.
    fn keep(&mut self, role: usize, parity: Sum) {
        self.roles[role].wanted.add(parity, 0);
        self.roles[role].receive(parity);
    }

    fn diagonal(&self, diagonal: usize) -> Sum {
        let cell = self.layout.diagonal_parity(diagonal);
        1 << (self.layout.rows() + self.layout.row_of(cell))
    }

    /// The parities that a data cell is a term of. It is in that of its row, and so in the diagonal
    /// of this parity too.
    fn parities_of(&self, cell: usize) -> Sum {
        let row = self.layout.row_of(cell);
        let parity = self.layout.row_parity(row);
        let diagonals = [cell, parity].map(|cell| self.layout.diagonal_of(cell));
        let diagonals = diagonals.into_iter().flatten();
        diagonals.fold(1 << row, |sum, diagonal| sum ^ self.diagonal(diagonal))
    }

    /// Sends each diagonal to the roles that add it up.
    fn assign_diagonals(&mut self, factors: &[usize]) {
        let (layout, prime) = (self.layout, self.layout.prime());
        let mut counts = vec![0; layout.diagonal_role()];
        let mut holders: Vec<(Sum, Vec<usize>)> = Vec::new();
        for diagonal in layout.diagonals() {
            let of_factor = |factor: &usize| {
                let is_its = |role: &usize| factor * (role + 1) % prime == (diagonal + 2) % prime;
                (0..counts.len()).find(is_its)
            };
            let roles: Vec<usize> = factors.iter().filter_map(of_factor).collect();
            for &role in &roles {
                counts[role] += 1;
            }
            holders.push((self.diagonal(diagonal), roles));
        }
        for (diagonal, roles) in &mut holders {
            if roles.is_empty() {
                let fewest = (0..counts.len()).min_by_key(|&role| counts[role]);
                let fewest = fewest.expect("there are row roles");
                counts[fewest] += 1;
                roles.push(fewest);
            }
            self.roles[roles[0]].wanted.add(*diagonal, 0);
            self.send(layout.diagonal_role(), roles[0], *diagonal);
        }
        for (diagonal, roles) in holders {
            for &role in &roles[1..] {
                self.roles[role].wanted.add(diagonal, 0);
                self.send(roles[0], role, diagonal);
            }
        }
    }

    /// When there is nothing to take, sends one more diagonal to the role that lacks most. Says
    /// whether any lacks something.
    fn assign_one_more(&mut self) -> bool {
        let layout = self.layout;
        let lacks = |role: &usize| self.roles[*role].lacks();
        let most = (0..layout.diagonal_role()).rev().max_by_key(lacks);
        let most = most.expect("there are row roles");
        if lacks(&most) == 0 {
            return false;
        }
        let diagonals = layout.diagonals().map(|diagonal| self.diagonal(diagonal));
        let mut others = diagonals.filter(|&sum| !self.roles[most].wanted.knows(sum));
        let diagonal = others.next();
        let diagonal = diagonal.expect("a role that knows all diagonals can take all rows");
        let knows = |role: &usize| self.roles[*role].known.knows(diagonal);
        let from = (0..layout.diagonal_role()).find(knows);
        let from = from.expect("each diagonal was assigned to a role");
        self.roles[most].wanted.add(diagonal, 0);
        for pairs in &mut self.pairs {
            pairs[most] = Pair::default();
        }
        self.send(from, most, diagonal);
        true
    }

    /// Sends a sum that the sender knows.
    fn send(&mut self, from: usize, to: usize, sum: Sum) {
        let (_, of) = self.roles[from].known.reduce(sum, 0);
        let item = self.roles[to].items.len();
        self.loads[from] += 1;
        self.transfers.push(Turned { from, to, of, item });
        self.roles[to].receive(sum);
    }

    /// Each role takes what it wants and others know by now, of those who send least. Says whether
    /// there was anything to take.
    fn take_what_there_is(&mut self) -> bool {
        self.look();
        let before = self.transfers.len();
        loop {
            let in_this_turn = self.transfers.len();
            for to in 0..self.layout.diagonal_role() {
                if let Some((from, sum)) = self.lightest(to) {
                    self.send(from, to, sum);
                }
            }
            if self.transfers.len() == in_this_turn {
                return in_this_turn > before;
            }
        }
    }

    /// Finds out what each role could send to each other one by now.
    fn look(&mut self) {
        for (from, pairs) in self.pairs.iter_mut().enumerate() {
            for (to, pair) in pairs.iter_mut().enumerate() {
                let receiver = &self.roles[to];
                if from == to || receiver.lacks() == 0 {
                    continue;
                }
                let items = &self.roles[from].items;
                for (number, &item) in items.iter().enumerate().skip(pair.seen) {
                    let (unwanted, _) = receiver.wanted.reduce(item, 0);
                    if let Some(of) = pair.unwanted.add(unwanted, 1 << number) {
                        let sum = ones(of).fold(0, |sum, number| sum ^ items[number]);
                        pair.useful.push((sum, of));
                    }
                }
                pair.seen = items.len();
            }
        }
    }

    /// Who sends what to a role next: of those who receive least in the end, and of sums with the
    /// fewest terms, the first one.
    fn lightest(&mut self, to: usize) -> Option<(usize, Sum)> {
        let receiver = &self.roles[to];
        if receiver.lacks() == 0 {
            return None;
        }
        let mut lightest: Option<((usize, u32), usize, Sum)> = None;
        for (from, pairs) in self.pairs.iter_mut().enumerate() {
            let useful = &mut pairs[to].useful;
            useful.retain(|&(sum, _)| !receiver.known.knows(sum));
            for &(sum, of) in useful.iter() {
                let weight = (self.loads[from], of.count_ones());
                if lightest.is_none_or(|(least, ..)| weight < least) {
                    lightest = Some((weight, from, sum));
                }
            }
        }
        lightest.map(|(_, from, sum)| (from, sum))
    }

    /// The schedule, when every role knows all that it has to.
    fn turn_around(self) -> Schedule {
        let layout = self.layout;
        let mut builder = Builder::with_data(layout);
        // For each item of each role, what arrives there and adds up to what it is turned into.
        let of_role = |role: &Role| vec![Vec::new(); role.items.len()];
        let mut terms: Vec<Vec<Vec<usize>>> = self.roles.iter().map(of_role).collect();
        for &cell in layout.data_cells() {
            let role = layout.role_of(cell);
            let (_, of) = self.roles[role].known.reduce(self.parities_of(cell), 0);
            for item in ones(of) {
                terms[role][item].push(builder.stored(cell)[0]);
            }
        }
        for turned in self.transfers.iter().rev() {
            let of = std::mem::take(&mut terms[turned.to][turned.item]);
            if of.is_empty() {
                continue;
            }
            let arrived = builder.send(Node::Role(turned.to), turned.from, of);
            for item in ones(turned.of) {
                terms[turned.from][item].push(arrived);
            }
        }
        let rows = (0..layout.rows()).map(|row| layout.row_parity(row));
        let diagonals = layout.diagonals().map(|it| layout.diagonal_parity(it));
        let mut begun = vec![0; layout.roles()];
        for parity in rows.chain(diagonals) {
            let role = layout.role_of(parity);
            builder.schedule.stores[parity] = std::mem::take(&mut terms[role][begun[role]]);
            begun[role] += 1;
        }
        builder.schedule
    }
}

/// The numbers of items.
fn ones(items: Items) -> impl Iterator<Item = usize> {
    (0..Items::BITS as usize).filter(move |number| items >> number & 1 == 1)
}
