//! What the model of clusters does, the program can do, step by step: ways through the model are
//! replayed by a client that puts and deletes an object, and by two heals, on four nodes in memory.
//! Each waits before each operation that the model has, until it is its turn. An operation that the
//! model does not expect, one that does not come, a result that differs, or a node that holds
//! something else fails the test.

mod stage;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread::JoinHandle;

use tabane_models::cluster::{
    ALL, Action, Client, Cluster, HEALS, Heal, NODES, Nodes, Stage as HealStage, State, Way,
    are_too_few,
};
use tabane_storage::{
    Name, ObjectKind, Result as Stored, Storage, StorageError, StorageErrorKind, object_id,
};
use tabane_striped::{HealOptions, Place, StripedStorage};
use tabane_testing::files::random_bytes;

use stage::{Mode, Next, Operation, Stage, What};
use walk::{Order, Taken, Walk, kind, open, settled, walk};

/// Ways in a usual run.
const SEEDS: u64 = 200;

/// Bytes of the object, which make it a stripe.
const OBJECT_LEN: usize = 70_000;

/// The model's bits of nodes, as numbers.
fn each(nodes: Nodes) -> impl Iterator<Item = usize> {
    (0..NODES).filter(move |node| nodes & 1 << node != 0)
}

/// A client and heals of the program, somewhere on a way of the model.
struct Play {
    stage: Arc<Stage>,
    model: Cluster,
    object: Object,
    /// What puts or deletes the object.
    client: Option<Actor>,
    heals: [Option<Actor>; HEALS],
}

/// What is put.
struct Object {
    name: Name,
    bytes: Arc<Vec<u8>>,
}

impl Object {
    /// The object of this way.
    fn new(seed: u64) -> Self {
        let bytes = random_bytes(seed, OBJECT_LEN);
        let name = Name::new(ObjectKind::Snapshot, object_id(&[&bytes]));
        Self {
            name,
            bytes: Arc::new(bytes),
        }
    }

    /// The order in which its nodes are asked, one after the other.
    fn order(&self) -> Order {
        let first = self.name.id.0.first_chunk().expect("an ID has 32 bytes");
        Order {
            first: (u64::from_le_bytes(*first) % NODES as u64) as usize,
        }
    }
}

/// A client that is at work, and its number.
struct Actor {
    number: usize,
    running: JoinHandle<Stored<()>>,
}

impl Play {
    /// A set of four nodes, and a client that is about to put the object.
    fn new(model: &Cluster, object: Object) -> Self {
        let mut play = Self {
            stage: Arc::default(),
            model: model.clone(),
            object,
            client: None,
            heals: [None, None],
        };
        StripedStorage::form(play.places().1, false).expect("a set");
        let (name, bytes) = (play.object.name, Arc::clone(&play.object.bytes));
        let put = play.start(Mode::Works, move |set| set.put(name, &[&bytes]));
        play.client = Some(put.expect("all nodes are there"));
        play
    }

    /// The nodes as a new client sees them, and its number.
    fn places(&self) -> (usize, Vec<Place>) {
        let client = self.stage.add();
        let places = (0..NODES).map(|node| Place {
            // One that fails stays out of use for the client, other than `node://`.
            url: format!("target-{node}"),
            storage: Arc::new(self.stage.seat(client, node)),
        });
        (client, places.collect())
    }

    /// The set as a new client opens it, and its number.
    fn open(&self) -> Stored<(usize, StripedStorage)> {
        let (client, places) = self.places();
        let set = StripedStorage::open("set".to_owned(), places, Arc::new(|_| {}))?;
        Ok((client, set))
    }

    /// Lets a client do something in a thread, after it has opened the set.
    fn start(
        &self,
        mode: Mode,
        act: impl FnOnce(StripedStorage) -> Stored<()> + Send + 'static,
    ) -> Stored<Actor> {
        let (number, set) = self.open()?;
        self.stage.begin(number, mode);
        let stage = Arc::clone(&self.stage);
        let running = std::thread::spawn(move || {
            let result = act(set);
            stage.end(number);
            result
        });
        Ok(Actor { number, running })
    }

    /// Takes a step of the model, from `before` to what is behind it.
    fn take(&mut self, before: &State, taken: &Taken) -> Result<(), String> {
        let stage = Arc::clone(&self.stage);
        let client = || self.client.as_ref().map_or(usize::MAX, |one| one.number);
        let number = |heal: usize| {
            self.heals[heal]
                .as_ref()
                .map_or(usize::MAX, |one| one.number)
        };
        let lists_marks = Operation::List(ObjectKind::Deleted);
        match taken.action {
            Action::Send(node) => stage.send(client(), node),
            Action::Hear(node) => stage.answer(client(), node),
            Action::GiveUp(node) => stage.fail(client(), node),
            Action::Mark(node) | Action::Delete(node) => stage.grant(client(), node),
            Action::BeginDelete => {
                let name = self.object.name;
                match self.start(Mode::Works, move |set| set.delete(name)) {
                    Ok(actor) => self.client = Some(actor),
                    Err(error) if error.kind() == StorageErrorKind::TooFewTargets => {}
                    Err(error) => return Err(format!("it cannot open the set: {error}")),
                }
            }
            Action::LookForHeals => stage.grant_all(client(), Operation::List(ObjectKind::Set)),
            Action::LookForPart(node) => {
                stage.grant(client(), node);
                if before.durable & 1 << node != 0 {
                    // It asks all before it decides.
                    stage.grant_all(client(), Operation::FindPart);
                }
            }
            Action::EndLook if before.handled != ALL => {
                stage.grant_all(client(), Operation::FindPart);
            }
            Action::Note(heal) => {
                let actor = self.start(Mode::BeginsToHeal, |set| {
                    set.heal(HealOptions::default(), &()).map(drop)
                });
                let actor = actor.map_err(|error| format!("it cannot open the set: {error}"))?;
                self.heals[heal] = Some(actor);
            }
            Action::ListMarks(heal) => {
                stage.grant_all(number(heal), lists_marks);
                let seen = ALL & !taken.state.heals[heal].given_up;
                if before.marked != 0 && seen == ALL {
                    // It lists notes for themselves.
                    let again = each(ALL).map(|node| (node, lists_marks));
                    stage.wait(number(heal), &Next::Waits(again.collect()))?;
                    stage.grant_all(number(heal), lists_marks);
                }
            }
            Action::ApplyMark(heal, node) | Action::Unmark(heal, node) => {
                stage.grant(number(heal), node);
            }
            Action::Write(heal, node) => stage.grant(number(heal), node),
            Action::Pass(heal, node) => stage.fail(number(heal), node),
            Action::LookAgain(heal) | Action::ListMarksOfObjects(heal) => {
                stage.grant_all(number(heal), lists_marks);
            }
            Action::ListObjects(heal) => {
                stage.grant_all(number(heal), Operation::List(ObjectKind::Config));
            }
            Action::TakeBack(heal) => {
                stage.grant_all(number(heal), Operation::Delete(What::Note));
            }
            Action::Kill(heal) => stage.kill(number(heal)),
            Action::Commit(node) => stage.commit(node),
            Action::Crash(node) => stage.crash(node),
            Action::Restart(node) => stage.restart(node),
            Action::LoseDisk(node) => stage.lose_disk(node),
            Action::Disconnect(node) => stage.connect(node, false),
            Action::Connect(node) => stage.connect(node, true),
            Action::EndPut
            | Action::EndMarks
            | Action::EndDelete
            | Action::EndLook
            | Action::Leave(_) => {}
            Action::Return(_) | Action::UseAgain(..) => {
                return Err("no way has this step".to_owned());
            }
        }
        self.settle_client(&taken.state)?;
        self.settle_heals(before, taken)?;
        self.compare(&taken.state)
    }
    /// Waits until the client goes on no further without its next turn.
    fn settle_client(&mut self, state: &State) -> Result<(), String> {
        let state = settled(&self.model, state);
        let Some(actor) = &self.client else {
            return Ok(());
        };
        let next = self.next_of_client(&state);
        let settled = self.stage.wait(actor.number, &next);
        settled.map_err(|why| format!("the client: {why}"))?;
        if let Next::Waits(_) = next {
            return Ok(());
        }
        let actor = self.client.take().expect("it is there");
        let result = actor.running.join().expect("no panic");
        let kind = result.as_ref().err().map(StorageError::kind);
        let is_short = kind == Some(StorageErrorKind::TooFewTargets);
        let fits = match state.client {
            // In the end it asks whether the set was changed, which the model does not have.
            Client::Stored | Client::Deleted if is_short => are_too_few(ALL & !state.there()),
            Client::Stored => matches!(kind, None | Some(StorageErrorKind::AlreadyExists)),
            Client::Deleted => matches!(kind, None | Some(StorageErrorKind::NotFound)),
            _ => is_short,
        };
        if fits {
            Ok(())
        } else {
            Err(format!("{:?}, and it ended with {result:?}", state.client))
        }
    }

    /// Waits until the heals go on no further without their next turns.
    fn settle_heals(&mut self, before: &State, taken: &Taken) -> Result<(), String> {
        for (number, heal) in self.heals.iter_mut().enumerate() {
            let Some(actor) = heal else { continue };
            let mut model = taken.state.heals[number];
            if taken.leaves && taken.action == Action::ListMarksOfObjects(number) {
                model.todo = 0;
            }
            let next = next_of_heal(&model, self.object.order());
            let settled = self.stage.wait(actor.number, &next);
            settled.map_err(|why| format!("heal {number}: {why}"))?;
            if model.stage != HealStage::Idle {
                continue;
            }
            let actor = heal.take().expect("it is there");
            let result = actor.running.join().expect("no panic");
            let is_short = are_too_few(before.heals[number].given_up);
            if taken.action == Action::TakeBack(number) && result.is_err() != is_short {
                return Err(format!("heal {number} ended with {result:?}"));
            }
        }
        Ok(())
    }

    /// What the client should do next, once it has gone on as far as it can.
    fn next_of_client(&self, state: &State) -> Next {
        let open = open(state);
        let at = |nodes: Nodes, operation: Operation| {
            Next::Waits(each(nodes).map(|node| (node, operation)).collect())
        };
        match state.client {
            Client::Putting => at(open, Operation::Put(What::Part)),
            Client::Marking { .. } => {
                let first = self.object.order().first_of(open);
                at(
                    first.map_or(0, |node| 1 << node),
                    Operation::Put(What::Mark),
                )
            }
            Client::Deleting => at(open, Operation::Delete(What::Part)),
            Client::Looking => at(open, Operation::List(ObjectKind::Set)),
            Client::Checking => at(open, Operation::FindPart),
            Client::Stored | Client::Deleted | Client::Refused => Next::Ends,
        }
    }

    /// Compares what nodes hold with the model's state.
    fn compare(&self, state: &State) -> Result<(), String> {
        let mut holds = self.stage.holds();
        let there = (holds.durable, holds.written, holds.marked);
        let wanted = (state.durable, state.written, state.marked);
        if there != wanted {
            return Err(format!(
                "nodes with parts, parts that are not durable, marks: {there:?}, and not {wanted:?}"
            ));
        }
        for (number, heal) in self.heals.iter().enumerate() {
            let note = heal.as_ref().and_then(|heal| self.stage.note(heal.number));
            let noted = note.and_then(|note| holds.notes.remove(&note));
            let wanted = state.heals[number].noted;
            if noted.unwrap_or(0) != wanted {
                return Err(format!(
                    "the note of heal {number} is on {noted:?}, and not on {wanted}"
                ));
            }
        }
        let left = holds.notes.values().fold(0, |all, nodes| all | nodes);
        if left != state.left {
            return Err(format!(
                "notes are left on {left}, and not on {}",
                state.left
            ));
        }
        Ok(())
    }

    /// Whether a new client lists the object. It can read what it lists.
    fn is_listed(&self) -> Stored<bool> {
        let (_, set) = self.open()?;
        let is_listed = !set.list(ObjectKind::Snapshot)?.is_empty();
        if is_listed && set.get(self.object.name, None)? != *self.object.bytes {
            return Err(StorageErrorKind::Damaged.into());
        }
        Ok(is_listed)
    }

    /// Ends all that is going on. What was put is there; what was deleted is not, neither on the
    /// nodes that answer, nor on all.
    fn end(self, state: &State) -> Result<(), String> {
        let check = |is_expected: bool| {
            let is_listed = self.is_listed().map_err(|error| format!("{error}"))?;
            let keeps_promise = match state.client {
                Client::Deleted => !is_listed,
                Client::Stored => is_listed || state.there() != ALL,
                _ => true,
            };
            if is_listed == is_expected && (keeps_promise || self.model.faults > FAULTS_PROMISED) {
                Ok(())
            } else {
                let client = state.client;
                Err(format!(
                    "{client:?}, expected {is_expected}, and it is {is_listed}"
                ))
            }
        };
        let mut checked = Ok(());
        if !are_too_few(ALL & !state.there()) {
            checked = check(state.is_found() && !state.is_marked());
        }
        let actors = self.client.iter().chain(self.heals.iter().flatten());
        actors.for_each(|actor| self.stage.kill(actor.number));
        for node in 0..NODES {
            self.stage.restart(node);
            self.stage.connect(node, true);
        }
        let is_whole = !are_too_few(ALL & !state.durable);
        let checked = checked.and_then(|()| check(is_whole && state.marked == 0));
        let heals = self.heals.into_iter().flatten();
        for actor in self.client.into_iter().chain(heals) {
            let _ = actor.running.join().expect("no panic");
        }
        checked
    }
}

/// What a heal should do next.
fn next_of_heal(heal: &Heal, order: Order) -> Next {
    let used = ALL & !heal.given_up;
    let (nodes, operation) = match heal.stage {
        HealStage::Idle => return Next::Ends,
        HealStage::Noted | HealStage::Applied | HealStage::Listed => {
            (used, Operation::List(ObjectKind::Deleted))
        }
        HealStage::Applying => (heal.open(), Operation::Delete(What::Part)),
        HealStage::Unmarking => (heal.open(), Operation::Delete(What::Mark)),
        HealStage::Ready => (used, Operation::List(ObjectKind::Config)),
        HealStage::Writing => match order.first_of(heal.open()) {
            Some(first) => (1 << first, Operation::Put(What::Part)),
            None => (used, Operation::Delete(What::Note)),
        },
    };
    if nodes == 0 {
        return Next::Ends;
    }
    Next::Waits(each(nodes).map(|node| (node, operation)).collect())
}

/// Replays the way of this seed; returns it, and where it could not go on and why.
fn replay(model: &Cluster, seed: u64) -> (Walk, Result<(), (usize, String)>) {
    let object = Object::new(seed);
    let row = ROWS[seed as usize % ROWS.len()];
    let walk = walk(model, seed, row, object.order());
    let mut play = Play::new(model, object);
    let mut state = &walk.first;
    let mut result = play.settle_client(state).map_err(|why| (0, why));
    for (at, taken) in walk.taken.iter().enumerate() {
        if result.is_ok() {
            result = play.take(state, taken).map_err(|why| (at, why));
            state = &taken.state;
        }
    }
    let ended = play.end(state).map_err(|why| (walk.taken.len(), why));
    let result = result.and(ended);
    (walk, result)
}

/// Faults up to which the model's invariants hold.
const FAULTS_PROMISED: u8 = 2;

/// Faults and heals of ways.
const SIZES: [(u8, usize); 4] = [(2, 1), (1, 2), (3, 1), (0, 2)];

/// Steps that one takes before the next one does, about.
const ROWS: [u64; 3] = [1, 3, 8];

/// Steps that no way has: a target that has failed stays out of use for its client.
const LEFT_OUT: [&str; 2] = ["Return", "UseAgain"];

/// Each way, of so many as `SEEDS` says, from that of `FIRST` on.
#[test]
fn the_program_can_do_what_the_model_does() {
    let number = |name: &str, usual: u64| {
        std::env::var(name).map_or(usual, |value| value.parse().expect("a number"))
    };
    let (first, seeds) = (number("FIRST", 0), number("SEEDS", SEEDS));
    let mut steps: BTreeMap<String, usize> = BTreeMap::new();
    let mut offered = BTreeSet::new();
    for seed in first..first + seeds {
        let (faults, heals) = SIZES[seed as usize % SIZES.len()];
        let way = Way::Ours;
        let (walk, result) = replay(&Cluster { way, faults, heals }, seed);
        if let Err((at, why)) = result {
            for (number, taken) in walk.taken.iter().enumerate().take(at + 1) {
                println!("{number} {:?}", taken.action);
            }
            panic!("seed {seed}, step {at} of {}: {why}", walk.taken.len());
        }
        for taken in &walk.taken {
            *steps.entry(kind(taken.action)).or_default() += 1;
        }
        offered.extend(walk.offered);
    }
    let total: usize = steps.values().sum();
    println!("{seeds} ways of {total} steps: {steps:#?}");
    if (first, seeds) == (0, SEEDS) {
        let left_out: Vec<String> = offered
            .into_iter()
            .filter(|kind| !steps.contains_key(kind))
            .collect();
        assert_eq!(left_out, LEFT_OUT);
    }
}

/// Ways through a model that does something else, but for nodes that answer early: these are not
/// the program's.
#[test]
fn the_program_does_nothing_else() {
    let others = [
        (Way::LeavesOutThree, 8, 0),
        (Way::MarksNothing, 2, 1),
        (Way::LooksForNoHeals, 0, 1),
        (Way::LooksForNoParts, 0, 1),
        (Way::LooksBeforeDeleting, 0, 1),
        (Way::NotesLate, 0, 1),
        (Way::AppliesBesideHeals, 0, 2),
        (Way::LooksOnce, 0, 2),
    ];
    std::thread::scope(|scope| {
        for (way, faults, heals) in others {
            scope.spawn(move || {
                let model = Cluster { way, faults, heals };
                let found = (0..SEEDS).find_map(|seed| replay(&model, seed).1.err());
                let (at, why) = found.unwrap_or_else(|| panic!("{way:?}: all ways are replayed"));
                println!("{way:?}: at step {at} {why}");
            });
        }
    });
}
