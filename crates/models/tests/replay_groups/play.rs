//! Clients of the program, somewhere on a way of the model.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tabane_models::groups::set::{COPY, FIRST, SECOND, TARGETS, Targets};
use tabane_models::groups::{Action, Change, Groups, Kind, Life, State, Who};
use tabane_models::removal::world::bits;
use tabane_storage::{Id, Name, ObjectKind, Result as Stored, Storage, StorageError, object_id};
use tabane_striped::container::{Form, Geometry};
use tabane_striped::{HAS_CHANGED, HealOptions, Place, RebalanceOptions, StripedStorage};
use tabane_testing::files::random_bytes;

use crate::stage::{EVERYWHERE, Next, Operation, PLACES, Permit, Places, Stage, What, places};
use crate::walk::{Chance, Taken, knows, step};

/// Bytes of a small object, and of a large one, which makes it a stripe.
const SMALL_LEN: usize = 1000;
const LARGE_LEN: usize = 70_000;

/// Bytes of what makes a group seem full.
const BALLAST_LEN: u64 = 10 * LARGE_LEN as u64;

/// Places of a group of two targets.
const GROUP_PLACES: usize = 4;

/// Numbers of places of groups divide this.
const TURNS_MULTIPLE: u64 = 12;

/// The secret of tags.
const SECRET: [u8; 32] = [5; 32];

/// What is put.
pub struct Object {
    name: Name,
    bytes: Arc<Vec<u8>>,
}

impl Object {
    /// The object of this way; its copies begin with the first place of a group.
    pub fn new(kind: Kind, seed: u64) -> Self {
        let (kind, len) = match kind {
            Kind::Small => (ObjectKind::Snapshot, SMALL_LEN),
            Kind::Large => (ObjectKind::Index, LARGE_LEN),
            Kind::Pack => (ObjectKind::Pack, LARGE_LEN),
        };
        let mut bytes = random_bytes(seed, len);
        loop {
            let id = object_id(&[&bytes]);
            let first = id.0.first_chunk().expect("an ID has 32 bytes");
            if u64::from_le_bytes(*first).is_multiple_of(TURNS_MULTIPLE) {
                return Self {
                    name: Name::new(kind, id),
                    bytes: Arc::new(bytes),
                };
            }
            bytes[0] = bytes[0].wrapping_add(1);
        }
    }

    /// What its name decides.
    pub fn chance(&self) -> Chance {
        let second = self.name.id.0[8..]
            .first_chunk()
            .expect("an ID has 32 bytes");
        Chance(u64::from_le_bytes(*second))
    }
}

/// A client that has opened the set.
struct Actor {
    number: usize,
    set: Arc<StripedStorage>,
    /// What it does; of a list, whether it has the object.
    running: Option<JoinHandle<Stored<bool>>>,
}

/// Clients of the program, somewhere on a way of the model.
pub struct Play {
    stage: Arc<Stage>,
    model: Groups,
    object: Object,
    actors: Vec<(Who, Actor)>,
}

fn url(place: usize) -> String {
    // One that fails stays out of use for the client, other than `node://`.
    format!("target-{place}")
}

impl Play {
    /// A new set, with the object if nobody is to put it.
    pub fn new(model: &Groups, object: Object) -> Self {
        let play = Self {
            stage: Arc::new(Stage::new(object.name)),
            model: model.clone(),
            object,
            actors: Vec::new(),
        };
        let (_, all) = play.places();
        let of = |targets: Targets| -> Vec<Place> {
            bits(places(targets))
                .map(|place| all[place].clone())
                .collect()
        };
        let mut groups = vec![of(FIRST)];
        if model.begins_with_two {
            groups.push(of(SECOND));
        }
        StripedStorage::form_groups(groups, false).expect("a set");
        if !model.writes {
            // As it is when a target is away just then.
            let is_away = if model.is_astray { 1 } else { 0 };
            let (_, set) = play.open().expect("all targets are there");
            play.stage.connect(is_away, false);
            let put = set.put(play.object.name, &[&play.object.bytes]);
            play.stage.connect(is_away, true);
            put.expect("enough targets are there");
        }
        play
    }

    /// The places as a new client sees them, and its number.
    fn places(&self) -> (usize, Vec<Place>) {
        let client = self.stage.add();
        let places = (0..PLACES).map(|place| Place {
            url: url(place),
            storage: Arc::new(self.stage.seat(client, place)),
        });
        (client, places.collect())
    }

    /// The set as a new client opens it, and its number.
    fn open(&self) -> Stored<(usize, Arc<StripedStorage>)> {
        let (client, places) = self.places();
        let set = StripedStorage::open("set".to_owned(), places, Arc::new(|_| {}))?;
        set.learn_secret(&SECRET);
        Ok((client, Arc::new(set)))
    }

    fn actor(&mut self, who: Who) -> Option<&mut Actor> {
        let mut actors = self.actors.iter_mut();
        actors
            .find(|(other, _)| *other == who)
            .map(|(_, actor)| actor)
    }

    /// The number of a client that has opened the set.
    fn number(&mut self, who: Who) -> Result<usize, String> {
        let actor = self.actor(who);
        actor
            .map(|actor| actor.number)
            .ok_or_else(|| "it has not opened the set".to_owned())
    }

    /// Lets a client do something in a thread, from now on step by step.
    fn start(
        &mut self,
        who: Who,
        act: impl FnOnce(&StripedStorage) -> Stored<bool> + Send + 'static,
    ) -> Result<(), String> {
        let stage = Arc::clone(&self.stage);
        let number = self.number(who)?;
        stage.begin(number);
        let actor = self.actor(who).expect("it has opened the set");
        let set = Arc::clone(&actor.set);
        actor.running = Some(std::thread::spawn(move || {
            let result = act(&set);
            stage.end(number);
            result
        }));
        Ok(())
    }

    /// Takes a step of the model, from `before` to what is behind it.
    pub fn take(&mut self, before: &State, taken: &Taken) -> Result<(), String> {
        match taken.action {
            Action::Step(who, choice) => {
                let settled = self.take_step(before, taken, who, choice);
                settled.map_err(|why| format!("{who:?}, {}: {why}", step(before, who)))?;
            }
            Action::Kill(who) => self.kill(who),
            // Records and who waits for them are the store's.
            Action::TakeForDead => {}
            Action::Leave(target) => self.stage.connect(1 << target, false),
            Action::Return(target) => self.stage.connect(1 << target, true),
        }
        self.compare(&taken.state)
    }

    fn kill(&mut self, who: Who) {
        let place = self.actors.iter().position(|(other, _)| *other == who);
        let Some(place) = place else { return };
        let (_, actor) = self.actors.swap_remove(place);
        self.stage.kill(actor.number);
        if let Some(running) = actor.running {
            let _ = running.join().expect("no panic");
        }
    }

    fn take_step(
        &mut self,
        before: &State,
        taken: &Taken,
        who: Who,
        choice: u8,
    ) -> Result<(), String> {
        let name = step(before, who);
        if name == "open" {
            let (number, set) = self.open().map_err(|error| error.to_string())?;
            self.actors.retain(|(other, _)| *other != who);
            let running = None;
            self.actors.push((
                who,
                Actor {
                    number,
                    set,
                    running,
                },
            ));
            return Ok(());
        }
        let client = self.number(who)?;
        if self.begins(before, &taken.state, who)? && !self.is_refused(&taken.state, who) {
            self.stage.wait(client, |out| self.next(before, who, out))?;
        }
        if let (Who::Mover(_), "list-for-moves") = (who, &*name) {
            self.stage.gate(client, Operation::ReadPart, choice != 0);
            self.stage.show(client, self.ballast(before, who, choice));
        }
        if name == "read" {
            self.stage.gate(client, Operation::ReadPart, false);
        }
        self.stage
            .allow(client, &self.permits(before, &taken.state, who, choice));
        self.settle(before, taken, who)?;
        self.stage.show(client, Vec::new());
        if knows(&taken.state, who).is_none() {
            self.actors.retain(|(other, _)| *other != who);
        }
        Ok(())
    }

    /// Whether the program ends at once, since a target is missing.
    fn is_refused(&self, state: &State, who: Who) -> bool {
        matches!(who, Who::Mover(mover) if state.movers[mover].is_done_unnoted())
    }

    /// Lets a client begin what this step is the first of; returns whether it is.
    fn begins(&mut self, before: &State, after: &State, who: Who) -> Result<bool, String> {
        let (name, bytes) = (self.object.name, Arc::clone(&self.object.bytes));
        match (who, &*step(before, who)) {
            (Who::Writer, "check-groups") => self.start(who, move |set| {
                set.check_current()?;
                set.put(name, &[&bytes])?;
                if name.kind != ObjectKind::Snapshot {
                    // As it is asked behind the snapshot that needs the object.
                    set.check_current()?;
                }
                Ok(true)
            })?,
            (Who::Lister, "list-objects") if !before.lister.is_listing() => {
                let client = self.number(who)?;
                self.stage.begin_again(client);
                self.stage.gate(client, Operation::List(name.kind), true);
                self.start(who, move |set| {
                    let listed = set.list(name.kind)?;
                    Ok(listed.iter().any(|listed| listed.id == name.id))
                })?;
            }
            (Who::Deleter, "begin") => self.start(who, move |set| {
                set.delete(name)?;
                Ok(true)
            })?,
            (Who::Mover(_), "note") => self.start(who, |set| {
                let options = RebalanceOptions::default().listing_time(Duration::ZERO);
                set.rebalance(options, &())?;
                Ok(true)
            })?,
            (Who::Heal, "note") => self.start(who, |set| {
                set.heal(HealOptions::default(), &())?;
                Ok(true)
            })?,
            (Who::Admin(admin), "plan") => {
                let change = self.model.changes[admin][usize::from(before.admins[admin].change)];
                let is_made = after.admins[admin].change != before.admins[admin].change;
                if is_made {
                    // It has nothing to do, or waits, which is the store's business.
                    return Ok(false);
                }
                self.change(who, change)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Lets a client begin to change the set.
    fn change(&mut self, who: Who, change: Change) -> Result<(), String> {
        let client = self.number(who)?;
        let urls = |targets: Targets| -> Vec<String> { bits(places(targets)).map(url).collect() };
        let new = |targets: Targets| -> Vec<Place> {
            let places = bits(places(targets)).map(|place| Place {
                url: url(place),
                storage: Arc::new(self.stage.seat(client, place)),
            });
            places.collect()
        };
        match change {
            Change::AddGroup(targets) => {
                let new = new(targets);
                self.start(who, move |set| set.add_group(&new).map(|()| true))
            }
            Change::Retire(targets) => {
                let urls = urls(targets);
                self.start(who, move |set| {
                    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
                    set.retire(&urls)
                })
            }
            Change::Forget(targets) => {
                let urls = urls(targets);
                self.start(who, move |set| {
                    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
                    set.forget_retired(&urls).map(|()| true)
                })
            }
            Change::Wait | Change::Add(_) | Change::Replace(..) => {
                Err(format!("no way has {change:?}"))
            }
        }
    }

    /// What makes other groups seem fuller than the one to which an object is to go.
    fn ballast(&self, state: &State, who: Who, to: u8) -> Vec<(Name, u64, Places)> {
        let own = knows(state, who).map(|own| state.known(own));
        let Some(own) = own.filter(|_| to != 0 && self.model.kind == Kind::Pack) else {
            return Vec::new();
        };
        let others = own.groups().iter().filter(|group| **group != to);
        let ballast = others.map(|&group| {
            let name = Name::new(ObjectKind::Index, Id([group; 32]));
            let stripe = Geometry::stripe(BALLAST_LEN, group, GROUP_PLACES);
            let at = places(own.generation(group));
            (name, stripe.container_len(Form::Tagged), at)
        });
        ballast.collect()
    }

    /// What a client may do in a step.
    fn permits(&self, before: &State, after: &State, who: Who, choice: u8) -> Vec<Permit> {
        use Operation::{Delete, FindPart, List, Put, ReadPart};
        let all = |operation| (operation, EVERYWHERE, 1);
        let descriptions = all(List(ObjectKind::Set));
        let marks = all(List(ObjectKind::Deleted));
        let holdings = [all(List(ObjectKind::Config)), marks];
        let pair = |todo: Targets, left: Targets| places(todo & !left);
        match (who, &*step(before, who)) {
            (_, "check-groups" | "check-again" | "look-for-later" | "look-for-targets")
            | (_, "check-mark") => vec![descriptions],
            (Who::Writer, "put") => {
                let own = knows(before, who).map(|own| state_groups(before, own, choice));
                let at = match self.model.kind {
                    Kind::Small => EVERYWHERE,
                    _ => places(own.unwrap_or_default()),
                };
                vec![(Put(What::Part), at, 1)]
            }
            (Who::Lister, "list-objects") => {
                let todo = if before.lister.is_listing() {
                    before.lister.todo
                } else {
                    before
                        .known(before.lister.knows().unwrap_or_default())
                        .targets
                };
                let kind = self.object.name.kind;
                vec![(List(kind), pair(todo, after.lister.todo), 1)]
            }
            (Who::Lister | Who::Heal, "list-marks") | (_, "look-for-notes") => vec![marks],
            (Who::Deleter, "mark") => vec![all(Put(What::Mark))],
            (Who::Deleter, "delete") => {
                let at = pair(before.deleter.todo, after.deleter.todo);
                vec![(Delete(What::Part), at, 1)]
            }
            (_, "look-for-parts" | "check-copy") => vec![all(FindPart)],
            (Who::Mover(_) | Who::Heal, "note") => vec![all(Put(What::Note))],
            (_, "list-for-moves" | "list-objects" | "look-for-what-is-left") => holdings.to_vec(),
            (_, "read") => vec![(ReadPart, EVERYWHERE, usize::MAX)],
            (Who::Mover(mover), "put-copy") => {
                let own = knows(before, who);
                let own = own.map(|own| state_groups(before, own, before.movers[mover].to));
                vec![(Put(What::Part), places(own.unwrap_or_default()), 1)]
            }
            (Who::Mover(_), "look-again") => {
                let mut permits = vec![all(FindPart), descriptions];
                if self.model.lists && self.model.movers > 1 {
                    permits.push(all(Delete(What::Part)));
                }
                permits
            }
            (_, "delete-old") => vec![all(Delete(What::Part))],
            (_, "take-back") => vec![all(Delete(What::Note))],
            (_, "describe") => vec![
                (List(ObjectKind::Set), EVERYWHERE, 2),
                all(Put(What::Description)),
                (Delete(What::Description), EVERYWHERE, usize::MAX),
            ],
            (_, "apply-marks") => vec![marks, descriptions, all(Delete(What::Part))],
            (_, "unmark") => vec![marks, all(Delete(What::Mark))],
            (_, "put-missing") => vec![all(Put(What::Part))],
            // Of what is forgotten it asks for marks; what is retired it surveys.
            (Who::Admin(_), "plan") => match self.change_of(before, who) {
                // It takes them from each target, though others have the same.
                Some(Change::Forget(_)) => vec![marks, (Put(What::Mark), EVERYWHERE, usize::MAX)],
                _ => holdings.to_vec(),
            },
            (_, "announce: look for others before" | "announce: look for others after") => {
                vec![descriptions]
            }
            (Who::Admin(admin), "announce: put") => {
                let at = pair(before.admins[admin].todo, after.admins[admin].todo);
                vec![(Put(What::Description), at, 1)]
            }
            (_, "announce: withdraw") => vec![all(Delete(What::Description))],
            _ => Vec::new(),
        }
    }

    /// The change that a client makes.
    fn change_of(&self, state: &State, who: Who) -> Option<Change> {
        let Who::Admin(admin) = who else { return None };
        let change = usize::from(state.admins[admin].change);
        self.model.changes[admin].get(change).copied()
    }

    /// What a client should do next, once it is in this state and these places have failed it.
    fn next(&self, state: &State, who: Who, out: Places) -> Next {
        use Operation::{Delete, FindPart, List, Put, ReadPart};
        let Some(number) = knows(state, who) else {
            return Next::Ends;
        };
        let own = state.known(number);
        let all = places(own.targets);
        let used = all & !out;
        let at_all = |operation| Next::Waits(used, operation);
        let at = |targets: Targets, operation| Next::Waits(places(targets) & used, operation);
        let notes = at_all(Delete(What::Note));
        match (who, &*step(state, who)) {
            (_, "check-groups" | "check-again" | "look-for-later" | "look-for-targets")
            | (_, "check-mark" | "describe") => at_all(List(ObjectKind::Set)),
            (Who::Writer, "put") => Next::WaitsAt(used, Put(What::Part)),
            (Who::Lister, "list-objects") if !state.lister.is_listing() => {
                at_all(List(self.object.name.kind))
            }
            (Who::Lister, "list-objects") => at(state.lister.todo, List(self.object.name.kind)),
            (Who::Lister, "list-marks") if !self.model.is_marked() => at_all(List(ObjectKind::Set)),
            (_, "list-marks" | "look-for-notes" | "unmark") => at_all(List(ObjectKind::Deleted)),
            (Who::Deleter, "begin") if self.model.is_marked() && used != all => {
                Next::WaitsAt(used, Put(What::Mark))
            }
            (Who::Deleter, "begin") => at_all(Delete(What::Part)),
            (_, "mark") => Next::WaitsAt(used, Put(What::Mark)),
            (Who::Deleter, "delete") => at(state.deleter.todo, Delete(What::Part)),
            (_, "look-for-parts") => at_all(FindPart),
            (_, "note") => at_all(Put(What::Note)),
            (_, "list-for-moves" | "list-objects") => at_all(List(ObjectKind::Config)),
            (_, "read") => Next::WaitsAt(used, ReadPart),
            (Who::Mover(mover), "put-copy") => {
                at(own.generation(state.movers[mover].to), Put(What::Part))
            }
            (Who::Mover(mover), "check-copy" | "look-again") => {
                at(own.generation(state.movers[mover].to), FindPart)
            }
            (Who::Mover(mover), "delete-old") => match state.movers[mover].from {
                0 => notes,
                from => at(from, Delete(What::Part)),
            },
            (Who::Mover(mover), "take-back") if state.movers[mover].is_done_unnoted() => Next::Ends,
            (_, "take-back") => notes,
            // With a target missing it applies none.
            (_, "apply-marks") if used != all => at_all(List(ObjectKind::Config)),
            (_, "apply-marks") => at_all(List(ObjectKind::Deleted)),
            (_, "put-missing") => Next::WaitsAt(places(state.heal.todo) & used, Put(What::Part)),
            (Who::Admin(_), "plan") => match self.change_of(state, who) {
                Some(Change::Forget(_)) => at_all(List(ObjectKind::Deleted)),
                Some(Change::Retire(_)) => at_all(List(ObjectKind::Config)),
                _ => Next::WaitsAt(used, List(ObjectKind::Set)),
            },
            (_, "look-for-what-is-left") => at_all(List(ObjectKind::Config)),
            (_, "announce: look for others before") => Next::WaitsAt(used, List(ObjectKind::Set)),
            (Who::Admin(admin), "announce: put") => {
                let todo = places(state.admins[admin].todo);
                Next::WaitsAt(todo, Put(What::Description))
            }
            (_, "announce: look for others after") => {
                Next::WaitsAt(EVERYWHERE, List(ObjectKind::Set))
            }
            (_, "announce: withdraw") => Next::WaitsAt(EVERYWHERE, Delete(What::Description)),
            _ => Next::Ends,
        }
    }

    fn is_running(&self, who: Who) -> bool {
        let mut actors = self.actors.iter();
        actors.any(|(other, actor)| *other == who && actor.running.is_some())
    }

    /// Waits until a client goes on no further without its next turn.
    fn settle(&mut self, before: &State, taken: &Taken, who: Who) -> Result<(), String> {
        if !self.is_running(who) {
            return Ok(());
        }
        let client = self.number(who)?;
        let has_listed = who == Who::Lister && !taken.state.lister.is_listing();
        let next = self.stage.wait(client, |out| {
            if has_listed {
                Next::Ends
            } else {
                self.next(&taken.state, who, out)
            }
        })?;
        if !matches!(next, Next::Ends) {
            return Ok(());
        }
        let running = self.actor(who).and_then(|actor| actor.running.take());
        let running = running.expect("it is at work");
        let result = running.join().expect("no panic");
        let has_changed = |error: &StorageError| error.to_string().contains(HAS_CHANGED);
        let fits = match (who, &result) {
            (Who::Writer, Ok(_)) => taken.state.life == Life::Stored,
            (Who::Writer, Err(error)) => taken.state.life == before.life && has_changed(error),
            (Who::Lister, Ok(is_found)) => {
                let wanted = self.model.listed(before);
                wanted == Some(*is_found) || taken.knows_old_mark && wanted.is_some()
            }
            (Who::Lister, Err(error)) => {
                // Of an object in two groups it goes by either.
                let seen: BTreeSet<u8> = before.lister.seen.into_iter().collect();
                let are_two = seen.iter().filter(|part| **part != 0).count() > 1;
                has_changed(error) && (self.model.listed(before).is_none() || are_two)
            }
            (Who::Deleter, result) => result.is_ok() == (taken.state.life == Life::Deleted),
            (Who::Admin(admin), result) => {
                let is_made = taken.state.admins[admin].change > before.admins[admin].change;
                result.is_ok() == is_made
            }
            (Who::Mover(_) | Who::Heal, _) => true,
        };
        if fits {
            Ok(())
        } else {
            Err(format!("it ended with {result:?}"))
        }
    }

    /// Compares what targets hold with the model's state.
    fn compare(&self, state: &State) -> Result<(), String> {
        let notes = |who: Who| -> BTreeSet<Id> {
            let of = self.actors.iter().filter(|(other, _)| *other == who);
            of.flat_map(|(_, actor)| self.stage.notes(actor.number))
                .collect()
        };
        let movers =
            (0..self.model.movers).map(|mover| (Who::Mover(mover), state.movers[mover].noted));
        let noted: Vec<_> = movers
            .chain([(Who::Heal, state.heal.noted)])
            .map(|(who, noted)| (who, notes(who), noted))
            .collect();
        for target in 0..TARGETS {
            let holds = self.stage.holds(target);
            let differs = |what: &str, wanted: String| {
                Err(format!(
                    "target {target} holds {holds:?}, and should of {what}: {wanted}"
                ))
            };
            let part = state.parts[target];
            let is_right = match part {
                0 => holds.parts.is_empty(),
                COPY => !holds.parts.is_empty() && holds.parts.iter().all(|it| *it == 0),
                part => holds.parts == [part; 2],
            };
            if !is_right {
                return differs("parts", format!("{part}"));
            }
            let is = |targets: Targets| targets >> target & 1 == 1;
            if holds.is_marked != is(state.marked) {
                return differs("marks", format!("{}", is(state.marked)));
            }
            let mut rest = holds.notes.clone();
            for (who, notes, noted) in &noted {
                let count = rest.len();
                rest.retain(|note| !notes.contains(note));
                if (rest.len() < count) != is(*noted) {
                    return differs("notes", format!("{who:?} {}", is(*noted)));
                }
            }
            if rest.is_empty() == is(state.left) {
                return differs("notes that are left", format!("{}", is(state.left)));
            }
            let epochs = bits(state.on[target]).map(|it| u64::from(state.descriptions[it].epoch));
            let mut epochs: Vec<u64> = epochs.collect();
            epochs.sort_unstable();
            if holds.epochs.iter().any(|it| *it != epochs) {
                return differs("descriptions", format!("{epochs:?}"));
            }
        }
        Ok(())
    }

    /// Ends all that is going on. Who opens the set then finds the object if he should.
    pub fn end(mut self, state: &State) -> Result<(), String> {
        while let Some((who, _)) = self.actors.first() {
            self.kill(*who);
        }
        let kind = self.object.name.kind;
        let found = self.open().and_then(|(_, set)| {
            let listed = set.list(kind)?;
            let is_found = listed.iter().any(|listed| listed.id == self.object.name.id);
            let is_right = !is_found || set.get(self.object.name, None)? == *self.object.bytes;
            Ok((is_found, is_right))
        });
        let wanted = self.model.is_found(state);
        let fits = match &found {
            Ok((is_found, is_right)) => wanted == Some(*is_found) && *is_right,
            Err(_) => wanted.is_none(),
        };
        if fits {
            Ok(())
        } else {
            Err(format!(
                "a new client finds {found:?}, and should: {wanted:?}"
            ))
        }
    }
}

/// The targets of a generation of a description.
fn state_groups(state: &State, description: u8, generation: u8) -> Targets {
    state.known(description).generation(generation)
}
