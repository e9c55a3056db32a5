//! Places in memory, at which each client waits, before each operation that the model has, until
//! the test allows it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, SystemTime};

use tabane_models::groups::set::{TARGETS, Targets};
use tabane_models::removal::world::bits;
use tabane_storage::sync::lock;
use tabane_storage::{
    Id, Listed, Name, ObjectKind, Result, Storage, StorageError, StorageErrorKind,
};
use tabane_striped::container::generation_of;
use tabane_testing::memory::part_of;

/// Places of the program for each target of the model: of a group of two of these one may be
/// missing, as of four places two.
const PLACES_OF_TARGET: usize = 2;

/// All places.
pub const PLACES: usize = TARGETS * PLACES_OF_TARGET;

/// Places, as bits.
pub type Places = u16;

/// All places.
pub const EVERYWHERE: Places = (1 << PLACES) - 1;

/// How long something that would let a client go on can take, on a busy machine: it may be that
/// hundreds of threads begin.
const PATIENCE_MAX: Duration = Duration::from_secs(60);

/// Second half of the ID of a note.
const OF_HEAL: [u8; 16] = *b"a heal at work !";

/// The places of these targets of the model.
pub fn places(targets: Targets) -> Places {
    let each = (1 << PLACES_OF_TARGET) - 1;
    let of_one = bits(targets).map(|target| each << (target * PLACES_OF_TARGET));
    of_one.fold(0, |all, places| all | places)
}

/// What a client changes at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The object's part, or a copy of it.
    Part,
    /// The object's mark.
    Mark,
    /// A note.
    Note,
    /// A description of the set.
    Description,
    /// Something that the model does not have.
    Other,
}

/// An operation that a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Put(What),
    Delete(What),
    List(ObjectKind),
    FindPart,
    ReadPart,
}

/// Operations that a client is allowed: this one, at each of these places, so many times.
pub type Permit = (Operation, Places, usize);

/// What a client should do next.
#[derive(Clone, Copy, Debug)]
pub enum Next {
    /// It waits for this at just these places.
    Waits(Places, Operation),
    /// It waits for this at one of these places, or several.
    WaitsAt(Places, Operation),
    Ends,
}

/// What a test and the clients share.
pub struct Stage {
    /// The object.
    name: Name,
    state: Mutex<State>,
    /// A client has come to wait, has gone on, or has ended.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    places: [Kept; PLACES],
    /// Places that do not answer.
    away: Places,
    clients: Vec<Client>,
    /// By client and place.
    waiting: BTreeMap<(usize, usize), Waiting>,
}

/// What a place keeps.
type Kept = BTreeMap<Name, Vec<u8>>;

#[derive(Default)]
struct Client {
    /// Whether it waits before operations.
    has_begun: bool,
    has_ended: bool,
    is_dead: bool,
    /// What else it waits for.
    gates: BTreeSet<Operation>,
    permits: BTreeMap<(Operation, usize), usize>,
    /// Places that have failed it, and so stay out of use.
    out: Places,
    /// Objects that it sees in lists and that are not there: their name and length, at each of
    /// these places.
    phantoms: Vec<(Name, u64, Places)>,
    notes: BTreeSet<Id>,
}

struct Waiting {
    operation: Operation,
    is_allowed: bool,
    /// It is allowed, or its client is dead.
    is_over: Arc<Condvar>,
}

/// What the places of a target hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    /// The generation of each part; 0 for a copy.
    pub parts: Vec<u8>,
    pub is_marked: bool,
    pub notes: BTreeSet<Id>,
    /// Epochs of the descriptions of each place.
    pub epochs: Vec<Vec<u64>>,
}

fn unreachable() -> StorageError {
    StorageError::new(StorageErrorKind::Unreachable, "it does not answer")
}

/// The epoch of an encoded description.
fn epoch(description: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(description);
    let (_, rest) = text.split_once("\"epoch\":").expect("it has an epoch");
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("it is a number")
}

impl Stage {
    /// Empty places, and the name of the object that clients work on.
    pub fn new(name: Name) -> Self {
        Self {
            name,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// A client more, which waits for nothing yet. Returns its number.
    pub fn add(&self) -> usize {
        let mut state = lock(&self.state);
        state.clients.push(Client::default());
        state.clients.len() - 1
    }

    /// A place as this client sees it.
    pub fn seat(self: &Arc<Self>, client: usize, place: usize) -> Seat {
        let stage = Arc::clone(self);
        Seat {
            stage,
            client,
            place,
        }
    }

    /// From now on a client waits before each operation that changes something of the model or
    /// asks for it.
    pub fn begin(&self, client: usize) {
        lock(&self.state).clients[client].has_begun = true;
    }

    /// Says whether a client waits for this, too.
    pub fn gate(&self, client: usize, operation: Operation, is_gated: bool) {
        let gates = &mut lock(&self.state).clients[client].gates;
        if is_gated {
            gates.insert(operation);
        } else {
            gates.remove(&operation);
        }
    }

    /// Lets a client see these objects in lists, and no other ones that are not there.
    pub fn show(&self, client: usize, phantoms: Vec<(Name, u64, Places)>) {
        lock(&self.state).clients[client].phantoms = phantoms;
    }

    /// Says that a client takes no more steps.
    pub fn end(&self, client: usize) {
        lock(&self.state).clients[client].has_ended = true;
        self.changed.notify_all();
    }

    /// Says that it begins to take steps again.
    pub fn begin_again(&self, client: usize) {
        lock(&self.state).clients[client].has_ended = false;
    }

    /// Lets all operations of a client fail from now on.
    pub fn kill(&self, client: usize) {
        let mut state = lock(&self.state);
        state.clients[client].is_dead = true;
        let waiting = state.waiting.range((client, 0)..(client, PLACES));
        waiting.for_each(|(_, one)| one.is_over.notify_all());
    }

    /// The notes that a client has put.
    pub fn notes(&self, client: usize) -> BTreeSet<Id> {
        lock(&self.state).clients[client].notes.clone()
    }

    /// Says whether the places of these targets answer.
    pub fn connect(&self, targets: Targets, is_connected: bool) {
        let mut state = lock(&self.state);
        if is_connected {
            state.away &= !places(targets);
        } else {
            state.away |= places(targets);
        }
    }

    /// What the places of a target hold.
    pub fn holds(&self, target: usize) -> Holds {
        let state = lock(&self.state);
        let mut holds = Holds::default();
        for place in bits(places(1 << target)) {
            let kept = &state.places[place];
            holds.epochs.push(Vec::new());
            for (name, bytes) in kept {
                match self.what(*name) {
                    What::Part => holds.parts.push(generation_of(bytes.len() as u64)),
                    What::Mark => holds.is_marked = true,
                    What::Note => drop(holds.notes.insert(name.id)),
                    What::Description => {
                        let epochs = holds.epochs.last_mut().expect("there is one");
                        epochs.push(epoch(bytes));
                    }
                    What::Other => {}
                }
            }
            holds
                .epochs
                .last_mut()
                .expect("there is one")
                .sort_unstable();
        }
        holds
    }

    /// Allows a client this, and nothing that it was allowed before.
    pub fn allow(&self, client: usize, permits: &[Permit]) {
        let mut state = lock(&self.state);
        let of_client = &mut state.clients[client].permits;
        of_client.clear();
        for &(operation, places, count) in permits {
            for place in bits(places) {
                let left = of_client.entry((operation, place)).or_default();
                *left = count.saturating_add(*left);
            }
        }
        let State {
            clients, waiting, ..
        } = &mut *state;
        for ((_, place), one) in waiting.range_mut((client, 0)..(client, PLACES)) {
            if clients[client].is_permitted(one.operation, *place) {
                one.is_allowed = true;
                one.is_over.notify_all();
            }
        }
    }

    /// Waits until a client has done what it is allowed, and does next what it should if these
    /// places have failed it. Otherwise an account of what it does instead.
    pub fn wait(
        &self,
        client: usize,
        wanted: impl Fn(Places) -> Next,
    ) -> std::result::Result<Next, String> {
        let mut state = lock(&self.state);
        loop {
            let (has_ended, is_dead, wanted) = {
                let client = &state.clients[client];
                (client.has_ended, client.is_dead, wanted(client.out))
            };
            let requests = state.requests(client);
            let at: Places = requests.keys().fold(0, |all, place| all | 1 << place);
            let are_all = |wanted| requests.values().all(|operation| *operation == wanted);
            let is_other = match wanted {
                Next::Ends if has_ended => return Ok(wanted),
                Next::Ends => !is_dead && !requests.is_empty(),
                Next::Waits(places, operation) | Next::WaitsAt(places, operation) => {
                    let are_fit = are_all(operation) && at & !places == 0 && !has_ended;
                    let is_all = match wanted {
                        Next::Waits(..) => at == places,
                        _ => at != 0,
                    };
                    if are_fit && is_all && !state.is_going_on(client) {
                        return Ok(wanted);
                    }
                    !are_fit
                }
            };
            let account = || {
                let does = if has_ended {
                    "has ended".to_owned()
                } else {
                    format!("waits for {requests:?}")
                };
                format!("it {does}, and should: {wanted:?}")
            };
            if is_other {
                return Err(account());
            }
            let (guard, timeout) = self
                .changed
                .wait_timeout(state, PATIENCE_MAX)
                .expect("nobody panics under this lock");
            state = guard;
            if timeout.timed_out() && state.requests(client) == requests {
                return Err(account());
            }
        }
    }

    fn what(&self, name: Name) -> What {
        match name.kind {
            _ if name == self.name => What::Part,
            ObjectKind::Deleted if name.id.0[16..] == OF_HEAL => What::Note,
            ObjectKind::Deleted => What::Mark,
            ObjectKind::Set => What::Description,
            _ => What::Other,
        }
    }
}

impl Client {
    /// Takes a permit, if there is one.
    fn is_permitted(&mut self, operation: Operation, place: usize) -> bool {
        let left = self.permits.get_mut(&(operation, place));
        left.filter(|left| **left > 0)
            .map(|left| *left -= 1)
            .is_some()
    }

    /// Whether it waits before this operation, unless it is allowed.
    fn has_to_wait(&self, operation: Operation) -> bool {
        use ObjectKind::{Config, Deleted, Set};
        let is_of_model = match operation {
            Operation::Put(what) | Operation::Delete(what) => what != What::Other,
            Operation::List(kind) => matches!(kind, Config | Deleted | Set),
            Operation::FindPart => true,
            Operation::ReadPart => false,
        };
        self.has_begun && (is_of_model || self.gates.contains(&operation))
    }
}

impl State {
    /// What a client waits for at which places.
    fn requests(&self, client: usize) -> BTreeMap<usize, Operation> {
        let of_client = self.waiting.range((client, 0)..(client, PLACES));
        let waits = of_client.filter(|(_, one)| !one.is_allowed);
        waits
            .map(|((_, place), one)| (*place, one.operation))
            .collect()
    }

    /// Whether a client has yet to do what it is allowed.
    fn is_going_on(&self, client: usize) -> bool {
        let mut of_client = self.waiting.range((client, 0)..(client, PLACES));
        of_client.any(|(_, one)| one.is_allowed)
    }

    /// Whether this is one more copy for a target of the model that has one.
    fn is_second_copy(&self, operation: Operation, name: Name, place: usize) -> bool {
        let twin = &self.places[place ^ 1];
        let copy = twin
            .get(&name)
            .filter(|it| generation_of(it.len() as u64) == 0);
        operation == Operation::Put(What::Part) && copy.is_some()
    }
}

/// A place as one client sees it.
pub struct Seat {
    stage: Arc<Stage>,
    client: usize,
    place: usize,
}

impl Seat {
    /// Does something when its turn has come, or at once without an `operation`.
    fn act<T>(
        &self,
        operation: Option<(Operation, Name)>,
        act: impl FnOnce(&mut Kept, &mut Client) -> Result<T>,
    ) -> Result<T> {
        let (stage, key) = (&self.stage, (self.client, self.place));
        let mut state = lock(&stage.state);
        if let Some((operation, name)) = operation
            && state.clients[self.client].has_to_wait(operation)
            && !state.is_second_copy(operation, name, self.place)
            && !state.clients[self.client].is_permitted(operation, self.place)
        {
            let is_over = Arc::new(Condvar::new());
            let waiting = Waiting {
                operation,
                is_allowed: false,
                is_over: Arc::clone(&is_over),
            };
            state.waiting.insert(key, waiting);
            stage.changed.notify_all();
            while !state.clients[self.client].is_dead && !state.waiting[&key].is_allowed {
                state = is_over.wait(state).expect("nobody panics here");
            }
            state.waiting.remove(&key);
            stage.changed.notify_all();
        }
        let State {
            places,
            away,
            clients,
            ..
        } = &mut *state;
        let client = &mut clients[self.client];
        if client.is_dead {
            return Err(unreachable());
        }
        if *away >> self.place & 1 == 1 {
            // Who looks for a part takes its place for one that may have it.
            let is_look = operation.is_some_and(|(one, _)| one == Operation::FindPart);
            client.out |= Places::from(!is_look) << self.place;
            return Err(unreachable());
        }
        act(&mut places[self.place], client)
    }

    fn what(&self, name: Name) -> What {
        self.stage.what(name)
    }
}

impl Storage for Seat {
    fn location(&self) -> String {
        format!("place {}", self.place)
    }

    fn create(&self) -> Result<()> {
        Ok(())
    }

    fn put(&self, name: Name, parts: &[&[u8]]) -> Result<()> {
        let what = self.what(name);
        self.act(Some((Operation::Put(what), name)), |kept, client| {
            if kept.contains_key(&name) {
                return Err(StorageErrorKind::AlreadyExists.into());
            }
            kept.insert(name, parts.concat());
            if what == What::Note {
                client.notes.insert(name.id);
            }
            Ok(())
        })
    }

    fn get(&self, name: Name, range: Option<Range<u64>>) -> Result<Vec<u8>> {
        let is_part = self.what(name) == What::Part;
        let operation = is_part.then_some((Operation::ReadPart, name));
        self.act(operation, |kept, _| {
            let bytes = kept.get(&name).ok_or(StorageErrorKind::NotFound)?;
            part_of(bytes, range)
        })
    }

    fn list(&self, kind: ObjectKind) -> Result<Vec<Listed>> {
        let listed = |name: &Name, len: u64| Listed {
            id: name.id,
            len,
            modified: SystemTime::UNIX_EPOCH,
        };
        let operation = (Operation::List(kind), Name::CONFIG);
        self.act(Some(operation), |kept, client| {
            let of_kind = kept.iter().filter(|(name, _)| name.kind == kind);
            let there = of_kind.map(|(name, bytes)| listed(name, bytes.len() as u64));
            let phantoms = client.phantoms.iter();
            let phantoms = phantoms
                .filter(|(name, _, places)| name.kind == kind && places >> self.place & 1 == 1);
            let phantoms = phantoms.map(|(name, len, _)| listed(name, *len));
            Ok(there.chain(phantoms).collect())
        })
    }

    fn stat(&self, name: Name) -> Result<u64> {
        let is_part = self.what(name) == What::Part;
        let operation = is_part.then_some((Operation::FindPart, name));
        self.act(operation, |kept, _| {
            let bytes = kept.get(&name).ok_or(StorageErrorKind::NotFound)?;
            Ok(bytes.len() as u64)
        })
    }

    fn delete(&self, name: Name) -> Result<()> {
        let operation = Operation::Delete(self.what(name));
        self.act(Some((operation, name)), |kept, _| {
            let removed = kept.remove(&name);
            removed.map(drop).ok_or(StorageErrorKind::NotFound.into())
        })
    }
}
