//! Rebuilds missing and damaged parts of one object.

use std::collections::BTreeSet;

use tabane_parity::{recover_plan, repair_plan};

use crate::container::{Container, Geometry};
use crate::heal::Healing;
use crate::list::Holding;
use crate::open::refusal;
use crate::read::{StripeReader, open_replica};
use crate::sender::Placed;
use crate::striped::StripedStorage;
use tabane_storage::buffer::Buffer;
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
        let has = |number: &usize| (holding.holders | holding.wrong) >> number & 1 == 1;
        let holders = self.targets.up().into_iter().filter(has);
        let (mut good, mut damaged) = (None, Vec::new());
        for number in holders {
            // One intact copy is enough, unless all data is to be read.
            if good.is_some() && !healing.options.read_data && holding.wrong >> number & 1 == 0 {
                continue;
            }
            let Some(target) = self.targets.storage(number) else {
                continue;
            };
            match target.get(name, None) {
                Ok(bytes) => {
                    healing.read(bytes.len() as u64);
                    let parsed = Geometry::parse(name.id, &bytes);
                    let object = parsed
                        .filter(|(geometry, _)| geometry.is_replica())
                        .and_then(|(geometry, _)| open_replica(name.id, &geometry, &bytes));
                    match object {
                        Some(object) => good = Some(object),
                        None => damaged.push(number),
                    }
                }
                Err(error) if error.kind() == StorageErrorKind::NotFound => {}
                Err(error) => drop(self.failed_to_read(number, &error)),
            }
        }
        healing.count(|report| report.damaged_parts += damaged.len() as u64);
        let Some(object) = good else {
            return Err(StorageError::new(
                StorageErrorKind::Damaged,
                "no intact copy of it can be read",
            ));
        };
        let geometry = Geometry::replica(object.len() as u64);
        let cell = Buffer::padded(&object, geometry.cell_len() as usize);
        let container = Container::new(&geometry, name.id, 0, [cell.as_ref()]);
        let mut done = true;
        for &number in lacking.iter().filter(|number| !damaged.contains(number)) {
            done &= healing.put(number, name, &container.parts());
        }
        for &number in &damaged {
            done &= healing.replace(number, name, &container.parts());
        }
        Ok(done && !(lacking.is_empty() && damaged.is_empty()))
    }

    /// Writes missing and damaged parts of a stripe anew; returns true if there were any and all
    /// writes succeeded.
    pub(super) fn heal_stripe(
        &self,
        healing: &Healing,
        name: Name,
        holding: &Holding,
        lacking: &[usize],
    ) -> Result<bool> {
        let geometry = self.geometry(name)?;
        if geometry.generation != holding.generation() {
            return Err(StorageError::new(
                StorageErrorKind::Damaged,
                "no part of it has the length that its headers say",
            ));
        }
        let by_role = self.targets_by_role(name.id, geometry.generation);
        let by_role = by_role.expect("the generation is known");
        let all = 0..geometry.sectors();
        let reader = StripeReader::new(self, name, geometry, all.clone());
        let mut reader = reader.expect("the generation is known");
        let mut absent = BTreeSet::new();
        for (role, &number) in by_role.iter().enumerate() {
            if holding.holders >> number & 1 == 0 {
                reader.give_up_role(role);
                absent.insert(role);
            }
        }
        let lost: Vec<usize> = reader.absent().iter().copied().collect();
        let quick = !healing.options.read_data && holding.wrong == 0;
        if quick && self.rebuild_among_nodes(healing, name, geometry, &by_role, &absent) {
            return Ok(true);
        }
        let rebuilt = quick
            && repair_plan(reader.layout(), &lost).is_ok_and(|plan| {
                let reads = plan.reads();
                let wants: Vec<_> = reads.iter().map(|&cell| (cell, all.clone())).collect();
                reader.read(&wants);
                let is_good = reader.all_good(&reads);
                if is_good {
                    reader.compute(&plan, &all);
                }
                is_good
            });
        if !rebuilt {
            // Parts may be damaged: all are read before one is replaced.
            reader.read_containers();
            let wanted = reader.absent() | reader.damaged();
            let cells = wanted
                .iter()
                .flat_map(|&role| reader.layout().cells_of_role(role));
            let wants: Vec<_> = cells.map(|cell| (cell, all.clone())).collect();
            let obtained = reader.obtain(&wants);
            healing.count(|report| report.damaged_parts += reader.damaged().len() as u64);
            if obtained.is_err() {
                healing.read(reader.bytes_read());
            }
            obtained?;
            if let Some(suspect) = reader.contradiction() {
                healing.count(|report| report.contradicting_objects += 1);
                healing.read(reader.bytes_read());
                let who = match suspect {
                    Some(role) => {
                        let url = &self.targets.all()[by_role[role]].url;
                        format!("that on {url} is wrong, unless two other parts are")
                    }
                    None => "which parts are wrong is unknown".to_owned(),
                };
                let text = format!(
                    "its parts contradict each other although their checksums are right: {who}. \
                     Nothing was replaced, since only a client with the password can be sure"
                );
                return Err(StorageError::new(StorageErrorKind::Damaged, text));
            }
        }
        healing.read(reader.bytes_read());

        let parts_of = |role: usize| {
            let cells = reader.layout().cells_of_role(role);
            let cells = cells.map(|cell| reader.cells()[cell].as_ref());
            Container::new(&geometry, name.id, role, cells)
        };
        let is_wrong = |role: &usize| holding.wrong >> by_role[*role] & 1 == 1;
        let mut done = true;
        let mut missing: BTreeSet<usize> = absent;
        let to_put: Vec<usize> = (0..by_role.len())
            .filter(|role| lacking.contains(&by_role[*role]) && !is_wrong(role))
            .collect();
        for role in &to_put {
            let is_put = healing.put(by_role[*role], name, &parts_of(*role).parts());
            done &= is_put;
            if is_put {
                missing.remove(role);
            }
        }
        let damaged = reader.damaged().iter().copied();
        let wrong = (0..by_role.len()).filter(is_wrong);
        let mut to_replace: BTreeSet<usize> = damaged.chain(wrong).collect();
        to_replace.retain(|role| self.targets.is_up(by_role[*role]));
        let had_work = !(to_put.is_empty() && to_replace.is_empty());
        while let Some(role) = to_replace.pop_first() {
            if !reader.survives_without(role, &missing, &to_replace) {
                return Err(refusal(format!(
                    "its damaged part on {} is needed until missing targets are back, and was not \
                     replaced",
                    self.targets.all()[by_role[role]].url
                )));
            }
            missing.insert(role);
            if healing.replace(by_role[role], name, &parts_of(role).parts()) {
                missing.remove(&role);
            } else {
                done = false;
            }
        }
        Ok(done && had_work)
    }

    /// Lets the nodes of a cluster rebuild missing parts of a stripe without sending a byte here;
    /// returns whether all parts exist now.
    fn rebuild_among_nodes(
        &self,
        healing: &Healing,
        name: Name,
        geometry: Geometry,
        by_role: &[usize],
        absent: &BTreeSet<usize>,
    ) -> bool {
        let generation = self.generation(geometry.generation);
        let placed = Placed {
            name,
            geometry,
            generation: generation.expect("the generation is known"),
            by_role,
        };
        let mut missing = absent.clone();
        let layout = geometry.layout();
        while let Some(&role) = missing.first() {
            let lost: Vec<usize> = missing.iter().copied().collect();
            let Ok(plan) = repair_plan(&layout, &lost) else {
                return false;
            };
            if !healing.relay(&placed, role, &missing) {
                return false;
            }
            // Bytes that the nodes read.
            healing.read(plan.reads().len() as u64 * geometry.cell_len());
            missing.remove(&role);
        }
        true
    }
}

impl StripeReader<'_> {
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
