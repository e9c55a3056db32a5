//! Rebuilds missing and damaged parts of one object.

use std::collections::BTreeSet;

use tabane_parity::{recover_plan, repair_plan};

use crate::container::{Container, Form, Header, Shape};
use crate::heal::Healing;
use crate::list::Holding;
use crate::open::refusal;
use crate::put::padded;
use crate::read::{StripeReader, open_replica};
use crate::sender::Placed;
use crate::striped::StripedStorage;
use tabane_storage::{Name, Result, StorageError, StorageErrorKind};

impl StripedStorage {
    /// Writes missing and damaged copies anew; returns true if there were any and all writes
    /// succeeded.
    pub(super) fn heal_replicas(
        &self,
        healing: &Healing,
        name: Name,
        holding: &Holding,
        lacking: &[usize],
    ) -> Result<bool> {
        let there = holding.holders.or(&holding.wrong);
        let has = |number: &usize| there.contains(*number);
        let holders = self.targets.up().into_iter().filter(has);
        let (mut copies, mut damaged) = (Vec::new(), Vec::new());
        for number in holders {
            // One intact copy is enough, unless all data is to be read.
            let reads_all = healing.reads_all_of(name) || holding.wrong.contains(number);
            if !copies.is_empty() && !reads_all {
                continue;
            }
            let Some(target) = self.targets.storage(number) else {
                continue;
            };
            match target.get(name, None) {
                Ok(bytes) => {
                    healing.read(bytes.len() as u64);
                    let header = Header::parse(name.id, &bytes);
                    let object = header
                        .map(|header| header.shape.geometry)
                        .filter(|geometry| geometry.is_replica())
                        .and_then(|geometry| open_replica(name.id, &geometry, &bytes));
                    match object {
                        Some(object) => copies.push((number, object)),
                        None => damaged.push(number),
                    }
                }
                Err(error) if error.kind() == StorageErrorKind::NotFound => {}
                Err(error) => drop(self.failed_to_read(number, &error)),
            }
        }
        let object = most_frequent(&copies).cloned();
        let Some(object) = object else {
            healing.count(|report| report.damaged_parts += damaged.len() as u64);
            let text = match copies[..] {
                [] => "no intact copy of it can be read",
                _ => "copies of it differ, and as many say one thing as another",
            };
            return Err(StorageError::new(StorageErrorKind::Damaged, text));
        };
        // Copies of the config alone can differ: its name says nothing of its bytes.
        for (number, _) in copies.iter().filter(|(_, copy)| *copy != object) {
            self.tell_of_liar(*number, name);
            damaged.push(*number);
            healing.count(|report| report.forged_parts += 1);
        }
        healing.count(|report| report.damaged_parts += damaged.len() as u64);
        let cell = padded(&object);
        let container = Container::replica(name.id, object.len() as u64, cell.as_ref());
        let mut done = true;
        for &number in lacking.iter().filter(|number| !damaged.contains(number)) {
            done &= healing.put(number, name, &container.parts());
        }
        for &number in &damaged {
            done &= healing.replace(number, name, &container.parts());
        }
        Ok(done && !(lacking.is_empty() && damaged.is_empty()))
    }

    /// Writes missing, damaged and forged parts of a stripe anew, and those that lack tags; returns
    /// true if there were any and all writes succeeded.
    pub(super) fn heal_stripe(
        &self,
        healing: &Healing,
        name: Name,
        holding: &Holding,
        lacking: &[usize],
    ) -> Result<bool> {
        let shape = self.shape_of(name, holding)?;
        let gives_tags = healing.gives_tags && holding.lacks_tags();
        if !healing.reads_all_of(name) && holding.wrong.is_empty() && !gives_tags {
            let mut reader = self.reader(name, shape, holding)?;
            let absent = self.absent(&reader, holding);
            if self.rebuild_among_nodes(healing, name, shape, reader.by_role(), &absent) {
                return Ok(true);
            }
            if reader.rebuild_quickly() {
                healing.read(reader.bytes_read());
                // Cells without tags prove nothing, so nothing that is made of them gets a tag.
                let shape = if reader.are_all_tagged() {
                    shape
                } else {
                    shape.plain()
                };
                let (done, _) = self.put_lacking(healing, &reader, shape, lacking, absent)?;
                return Ok(done && !lacking.is_empty());
            }
        }
        // Parts may be damaged: all are read before one is replaced.
        let mut reader = self.reader(name, shape, holding)?;
        let headers = reader.read_containers();
        let most = self.shape_of_most(name, shape, &headers);
        if most != shape {
            reader = self.reader(name, most, holding)?;
            reader.read_containers();
        }
        let obtained = reader.obtain_all();
        let proved = obtained.map(|()| reader.prove());
        healing.read(reader.bytes_read());
        healing.count(|report| {
            report.damaged_parts += reader.damaged().len() as u64;
            report.forged_parts += reader.forged().len() as u64;
        });
        for &role in reader.forged() {
            self.tell_of_liar(reader.by_role()[role], name);
        }
        if !proved? {
            healing.count(|report| report.contradicting_objects += 1);
            let text = "its bytes are not what its name says, whichever two parts are left out: \
                        too many parts are wrong although their checksums are right";
            return Err(StorageError::new(StorageErrorKind::Damaged, text));
        }
        let sealed = self.sealed(name, &reader);
        if sealed.seal.is_some() && reader.has_odd_tags() && !self.knows_secret() {
            healing.count(|report| report.contradicting_objects += 1);
            let text = "the tags of its parts contradict each other; which are wrong only a heal \
                        that is given a password can tell";
            return Err(StorageError::new(StorageErrorKind::Damaged, text));
        }
        let absent = self.absent(&reader, holding);
        let is_wrong = |role: &usize| holding.wrong.contains(reader.by_role()[*role]);
        let lacking: Vec<usize> = lacking
            .iter()
            .copied()
            .filter(|number| !holding.wrong.contains(*number))
            .collect();
        let (mut done, mut missing) =
            self.put_lacking(healing, &reader, sealed, &lacking, absent)?;
        let roles = 0..reader.by_role().len();
        let lacks_tags = |role: &usize| {
            let is_there = holding.holders.contains(reader.by_role()[*role]);
            is_there && gives_tags && reader.form(*role) == Form::Plain
        };
        let is_up = |role: &usize| self.targets.is_up(reader.by_role()[*role]);
        let damaged = reader.damaged().iter().copied();
        let damaged = damaged.chain(roles.clone().filter(is_wrong)).filter(is_up);
        let mut damaged: BTreeSet<usize> = damaged.collect();
        // Parts that only lack tags are needed until the damaged ones have been replaced.
        let untagged = roles.filter(lacks_tags).filter(is_up);
        let untagged = untagged.filter(|role| !damaged.contains(role));
        let to_replace: Vec<usize> = damaged.iter().copied().chain(untagged).collect();
        let had_work = !(lacking.is_empty() && to_replace.is_empty());
        for role in to_replace {
            let number = reader.by_role()[role];
            damaged.remove(&role);
            if !reader.survives_without(role, &missing, &damaged) {
                return Err(refusal(format!(
                    "its damaged part on {} is needed until missing targets are back, and was not \
                     replaced",
                    self.targets.all()[number].url
                )));
            }
            missing.insert(role);
            let container = reader.container(sealed, role);
            if healing.replace(number, name, &container.parts()) {
                missing.remove(&role);
            } else {
                done = false;
            }
        }
        self.shape_is(name.id, sealed);
        Ok(done && had_work)
    }

    /// A reader of a stripe whose parts these targets have.
    fn reader(&self, name: Name, shape: Shape, holding: &Holding) -> Result<StripeReader<'_>> {
        if shape.geometry.container_len(Form::Plain) != holding.container_len {
            return Err(StorageError::new(
                StorageErrorKind::Damaged,
                "no part of it has the length that its headers say",
            ));
        }
        let all = 0..shape.geometry.sectors();
        let reader = StripeReader::new(self, name, shape, all);
        let mut reader = reader.expect("the generation is known");
        for role in self.absent(&reader, holding) {
            reader.give_up_role(role);
        }
        Ok(reader)
    }

    /// The roles whose targets have no part of the right length.
    fn absent(&self, reader: &StripeReader, holding: &Holding) -> BTreeSet<usize> {
        let targets = (0..).zip(reader.by_role());
        let absent = targets.filter(|&(_, &number)| !holding.holders.contains(number));
        absent.map(|(role, _)| role).collect()
    }

    /// The shape in which most headers agree; `current` if no other has more. A header that has no
    /// seal agrees with one that has the same roles at the same places.
    fn shape_of_most(&self, name: Name, current: Shape, headers: &[Header]) -> Shape {
        let is_sound = |header: &&Header| self.is_sealed(name.id, &header.shape);
        let places = |shape: &Shape| self.targets_by_role(name.id, shape);
        let agree = |a: &Shape, b: &Shape| a.geometry == b.geometry && places(a) == places(b);
        let votes = |shape: &Shape| {
            let headers = headers.iter().filter(is_sound);
            headers.filter(|other| agree(shape, &other.shape)).count()
        };
        let with_seal = |shape: &Shape| {
            let headers = headers.iter().filter(is_sound);
            let of_shape = headers.filter(|header| header.shape == *shape);
            (
                votes(shape),
                shape.seal.is_some(),
                of_shape.count(),
                *shape == current,
            )
        };
        let known = headers.iter().filter(is_sound).map(|header| header.shape);
        let known = known.filter(|shape| places(shape).is_some());
        known
            .chain([current])
            .max_by_key(with_seal)
            .unwrap_or(current)
    }

    /// The shape with which parts of a stripe are written: tagged, if tags can be made or are all
    /// there.
    fn sealed(&self, name: Name, reader: &StripeReader) -> Shape {
        let shape = reader.shape();
        match self.tag_key.get() {
            Some(key) if self.is_tagged() => {
                let usual = || self.usual_places(name.id, reader.by_role().len());
                let places = shape.seal.map_or_else(usual, |seal| seal.places);
                let seal = Some(key.seal(name.id, &shape.geometry, places));
                Shape { seal, ..shape }
            }
            _ if reader.are_all_tagged() => shape,
            _ => shape.plain(),
        }
    }

    /// Puts the parts that these targets lack. Returns whether all are there now, and the roles
    /// that are still missing of the `absent` ones.
    fn put_lacking(
        &self,
        healing: &Healing,
        reader: &StripeReader,
        shape: Shape,
        lacking: &[usize],
        absent: BTreeSet<usize>,
    ) -> Result<(bool, BTreeSet<usize>)> {
        let (mut done, mut missing) = (true, absent);
        for (role, &number) in reader.by_role().iter().enumerate() {
            if !lacking.contains(&number) {
                continue;
            }
            let container = reader.container(shape, role);
            if healing.put(number, reader.name(), &container.parts()) {
                missing.remove(&role);
            } else {
                done = false;
            }
        }
        Ok((done, missing))
    }

    /// Lets the nodes of a cluster rebuild missing parts of a stripe without sending a byte here;
    /// returns whether all parts exist now.
    fn rebuild_among_nodes(
        &self,
        healing: &Healing,
        name: Name,
        shape: Shape,
        by_role: &[usize],
        absent: &BTreeSet<usize>,
    ) -> bool {
        let generation = self.generation(shape.geometry.generation);
        let placed = Placed {
            name,
            shape,
            generation: generation.expect("the generation is known"),
            by_role,
        };
        let mut missing = absent.clone();
        let layout = shape.geometry.layout();
        while let Some(&role) = missing.first() {
            let lost: Vec<usize> = missing.iter().copied().collect();
            let Ok(plan) = repair_plan(&layout, &lost) else {
                return false;
            };
            if !healing.relay(&placed, role, &missing) {
                return false;
            }
            // Bytes that the nodes read.
            healing.read(plan.reads().len() as u64 * shape.geometry.cell_len());
            missing.remove(&role);
        }
        true
    }
}

impl StripeReader<'_> {
    /// Computes the absent roles with the fewest reads; returns whether all these succeeded.
    fn rebuild_quickly(&mut self) -> bool {
        let lost: Vec<usize> = self.absent().iter().copied().collect();
        let Ok(plan) = repair_plan(self.layout(), &lost) else {
            return false;
        };
        let (reads, all) = (plan.reads(), self.window());
        let wants: Vec<_> = reads.iter().map(|&cell| (cell, all.clone())).collect();
        self.read(&wants);
        let is_good = self.all_good(&reads);
        if is_good {
            self.compute(&plan, &all);
        }
        is_good
    }

    /// The shard of a role, of a stripe of which its cells are known.
    fn container(&self, shape: Shape, role: usize) -> Container<'_> {
        let cells = self.layout().cells_of_role(role);
        let cells = cells.map(|cell| self.cells()[cell].as_ref());
        let object = self.name().id;
        Container::new(
            &Header { shape, role },
            object,
            cells,
            &|row, sector, bytes| {
                let cell = self.layout().cell(role, row);
                match self.object_tags() {
                    Some(tags) => tags.tag(cell, sector, bytes),
                    None => self.tag(cell, sector),
                }
            },
        )
    }

    /// Whether the object stays readable without `role` and the `missing` roles, with the `damaged`
    /// ones as they are.
    fn survives_without(
        &self,
        role: usize,
        missing: &BTreeSet<usize>,
        damaged: &BTreeSet<usize>,
    ) -> bool {
        let layout = self.layout();
        let gone = missing.iter().copied().chain([role]);
        let gone: BTreeSet<usize> = gone.flat_map(|role| layout.cells_of_role(role)).collect();
        let mut patterns: BTreeSet<BTreeSet<usize>> = BTreeSet::from([gone.clone()]);
        for bad in self.damage(damaged).into_values() {
            patterns.insert(&gone | &bad);
        }
        let wanted = BTreeSet::new();
        patterns
            .iter()
            .all(|bad| recover_plan(layout, bad, &wanted).is_ok())
    }
}

/// The copy that most targets have, if no other is as frequent.
fn most_frequent(copies: &[(usize, Vec<u8>)]) -> Option<&Vec<u8>> {
    let votes = |copy: &Vec<u8>| copies.iter().filter(|(_, other)| other == copy).count();
    let (_, best) = copies.iter().max_by_key(|(_, copy)| votes(copy))?;
    let rivals = copies.iter().filter(|(_, copy)| copy != best);
    let is_alone = rivals.map(|(_, copy)| votes(copy)).max() < Some(votes(best));
    is_alone.then_some(best)
}
