//! The least number of cycles that counts of operations take on measured ports.

use super::class::Class;

/// A measured rate is taken for that of one set of ports where it is this near to another.
const SAME_RATE_SLACK: f64 = 0.04;

/// What was measured of registers of one width: operations a cycle, cycles of latency.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ports {
    /// By class: operations a cycle of this class alone.
    pub alone: [Option<f64>; Class::ALL.len()],
    /// By class: cycles from an operation to the next that needs its result.
    pub latency: [Option<f64>; Class::ALL.len()],
    /// Operations a cycle, both together, where there are as many of one class as of the other.
    pub pairs: Vec<(Class, Class, f64)>,
    /// Operations a cycle with as many of each class that computes.
    pub together: Option<f64>,
}

/// How many operations of each class a piece of work has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Operations([f64; Class::ALL.len()]);

impl Operations {
    /// These numbers of operations of these classes, and none of other classes.
    pub fn new(counts: &[(Class, u32)]) -> Operations {
        let mut operations = Operations::default();
        for &(class, count) in counts {
            operations.0[class as usize] += f64::from(count);
        }
        operations
    }

    /// How many of the class.
    pub fn of(&self, class: Class) -> f64 {
        self.0[class as usize]
    }

    /// How many that compute: without loads and stores.
    pub fn computing(&self) -> f64 {
        let computing = Class::ALL.iter().filter(|class| class.computes());
        computing.map(|&class| self.of(class)).sum()
    }
}

/// A number of cycles that work cannot be done in less than.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// How many.
    pub cycles: f64,
    /// What needs them, for people.
    pub by: String,
}

impl Ports {
    /// The most operations a cycle that compute, in any mix that was measured.
    pub fn total(&self) -> f64 {
        let alone = Class::ALL
            .iter()
            .filter(|class| class.computes())
            .filter_map(|&class| self.alone[class as usize]);
        let pairs = self
            .pairs
            .iter()
            .filter(|(a, b, _)| a.computes() && b.computes())
            .map(|&(.., rate)| rate);
        alone.chain(pairs).chain(self.together).fold(0.0, f64::max)
    }

    /// The number of ports of two classes together, if they share ports: if the pair was slower
    /// than the slower of the two alone would make it. Processors choose ports imperfectly, so a
    /// fraction counts as a port.
    pub fn shared(&self, a: Class, b: Class) -> Option<f64> {
        let alone = |class: Class| self.alone[class as usize];
        let &(.., rate) = self
            .pairs
            .iter()
            .find(|&&(c, d, _)| (c, d) == (a, b) || (d, c) == (a, b))?;
        let apart = 2.0 * alone(a)?.min(alone(b)?);
        let ports = (rate * (1.0 - SAME_RATE_SLACK)).ceil();
        (ports < apart * (1.0 - SAME_RATE_SLACK)).then_some(ports)
    }

    /// The classes with the same ports as this one, including itself.
    fn group(&self, class: Class) -> Vec<Class> {
        let alone = |class: Class| self.alone[class as usize];
        let same = |x: f64, y: f64| (x / y - 1.0).abs() < SAME_RATE_SLACK;
        let with = |&other: &Class| {
            other == class
                || self.shared(class, other).is_some_and(|rate| {
                    [alone(class), alone(other)]
                        .iter()
                        .all(|alone| alone.is_some_and(|alone| same(rate, alone)))
                })
        };
        Class::ALL.into_iter().filter(with).collect()
    }

    /// The least cycles for the operations, however they are ordered: as many as the ports need for
    /// all of them, or for those of one class, of two that share ports, or of several that have the
    /// same ports. `None` where there are operations of a class that was not measured.
    pub fn bound(&self, operations: &Operations) -> Option<Bound> {
        let mut bounds = vec![Bound {
            cycles: operations.computing() / self.total(),
            by: format!("{:.1} operations a cycle", self.total()),
        }];
        for class in Class::ALL {
            if operations.of(class) == 0.0 {
                continue;
            }
            let rate = self.alone[class as usize]?;
            let group = self.group(class);
            let names: Vec<_> = group
                .iter()
                .filter(|&&class| operations.of(class) > 0.0)
                .map(|class| class.name())
                .collect();
            bounds.push(Bound {
                cycles: group.iter().map(|&class| operations.of(class)).sum::<f64>() / rate,
                by: format!("{rate:.1} a cycle of {}", names.join(", ")),
            });
            for other in Class::ALL {
                if let Some(rate) = self.shared(class, other)
                    && operations.of(other) > 0.0
                {
                    bounds.push(Bound {
                        cycles: (operations.of(class) + operations.of(other)) / rate,
                        by: format!("{rate:.1} a cycle of {}, {}", class.name(), other.name()),
                    });
                }
            }
        }
        // Of equal ones the first: the plainest reason.
        bounds.into_iter().reduce(|most, next| {
            if next.cycles > most.cycles {
                next
            } else {
                most
            }
        })
    }

    /// The cycles of a chain of operations, each of which waits for the one before.
    pub fn latency(&self, chain: &Operations) -> Option<f64> {
        let cycles = |&class: &Class| match chain.of(class) {
            0.0 => Some(0.0),
            count => Some(count * self.latency[class as usize]?),
        };
        Class::ALL.iter().map(cycles).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two ports as of Intel at 512 bits: additions and logic on both, rotations and shifts on the
    /// one, shuffles on the other.
    fn two_ports() -> Ports {
        let places = [
            (Class::Add, 0b11),
            (Class::Logic, 0b11),
            (Class::Rotate, 0b01),
            (Class::Shift, 0b01),
            (Class::Unpack, 0b10),
            (Class::ByteShuffle, 0b10),
            (Class::CrossShuffle, 0b10),
        ];
        let mut ports = Ports::default();
        for (i, &(class, on)) in places.iter().enumerate() {
            ports.alone[class as usize] = Some(f64::from(u8::count_ones(on)));
            ports.latency[class as usize] = Some(1.0);
            for &(other, other_on) in &places[..i] {
                let alone = on.count_ones().min(other_on.count_ones());
                let rate = (2 * alone).min((on | other_on).count_ones());
                ports.pairs.push((class, other, f64::from(rate)));
            }
        }
        ports
    }

    fn cycles(counts: &[(Class, u32)]) -> f64 {
        two_ports().bound(&Operations::new(counts)).unwrap().cycles
    }

    #[test]
    fn the_busiest_ports_are_the_bound() {
        assert_eq!(two_ports().total(), 2.0);
        assert_eq!(cycles(&[(Class::Add, 10)]), 5.0);
        assert_eq!(cycles(&[(Class::Add, 10), (Class::Rotate, 2)]), 6.0);
        assert_eq!(cycles(&[(Class::Add, 2), (Class::Rotate, 10)]), 10.0);
        // One port each, at the same time.
        assert_eq!(cycles(&[(Class::Unpack, 6), (Class::Rotate, 5)]), 6.0);
        // One port for all three.
        let three = [
            (Class::Unpack, 3),
            (Class::ByteShuffle, 3),
            (Class::CrossShuffle, 3),
        ];
        assert_eq!(cycles(&three), 9.0);
        let bound = two_ports().bound(&Operations::new(&three)).unwrap();
        assert_eq!(
            bound.by,
            "1.0 a cycle of unpack, byte shuffle, cross shuffle"
        );
    }

    #[test]
    fn pairs_that_overlap_are_a_bound_of_their_own() {
        // Two classes of two ports each, which share one: three ports together.
        let mut ports = Ports::default();
        for class in [Class::Aes, Class::CrossShuffle] {
            ports.alone[class as usize] = Some(2.0);
        }
        ports.pairs.push((Class::Aes, Class::CrossShuffle, 2.7));
        ports.together = Some(4.0);
        let bound = |aes, shuffles| {
            let counts = [(Class::Aes, aes), (Class::CrossShuffle, shuffles)];
            ports.bound(&Operations::new(&counts)).unwrap().cycles
        };
        assert_eq!(bound(10, 2), 5.0);
        assert_eq!(bound(3, 12), 6.0);
        assert_eq!(bound(9, 9), 6.0);
    }

    #[test]
    fn what_was_not_measured_has_no_bound() {
        assert_eq!(
            two_ports().bound(&Operations::new(&[(Class::Aes, 1)])),
            None
        );
        assert_eq!(
            two_ports().latency(&Operations::new(&[(Class::Aes, 1)])),
            None
        );
    }

    #[test]
    fn latencies_add_up() {
        let chain = Operations::new(&[(Class::Add, 80), (Class::Rotate, 80)]);
        assert_eq!(two_ports().latency(&chain), Some(160.0));
    }
}
