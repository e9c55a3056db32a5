//! The accesses of the offload service, one after the other, are steps of its model.

use std::collections::HashMap;

use shuttle::sync::Arc;
use stateright::Model;
use tabane_models::offload::{self, Access, Action, CLIENTS, HONEST, Offload, Place, Way, Word};

use crate::in_orders_with_changes;
use crate::layout::state;
use crate::offload_orders::{CHANGES, MESSAGES, Service, UNITS, address, with_a_hostile_client};
use crate::unit::Served;
use crate::words::{self, What};

/// Whoever takes a step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Unit(usize),
    Client,
    OtherClient,
}

impl Who {
    /// By the number of the thread.
    fn of(thread: usize) -> Self {
        const CLIENT: usize = UNITS + 1;
        const OTHER_CLIENT: usize = UNITS + 2;
        match thread {
            1..=UNITS => Self::Unit(thread - 1),
            CLIENT => Self::Client,
            OTHER_CLIENT => Self::OtherClient,
            _ => panic!("thread {thread} is none of the model"),
        }
    }

    fn takes(self, action: Action) -> bool {
        match action {
            Action::Unit(unit, _) => self == Self::Unit(unit),
            Action::Client(_) => self == Self::Client,
            Action::Say(_) | Action::Move(_) => self == Self::OtherClient,
        }
    }
}

/// The model beside an order.
struct Follower {
    model: Offload,
    /// States in which the model may be after the accesses so far. A choice that none of them shows
    /// is still open.
    states: Vec<offload::State>,
    places: HashMap<What, Place>,
}

impl Follower {
    fn new(service: &Service, clients: [&Arc<Served>; CLIENTS]) -> Self {
        let model = Offload {
            way: Way::Ours,
            messages: MESSAGES as u8,
        };
        let mut places = HashMap::new();
        for (client, served) in clients.into_iter().enumerate() {
            let slot = &served.ring.get().slots[0];
            let word = address(&slot.state);
            places.insert(What::Number(word), Place::Word(client));
            places.insert(What::Sleepers(word), Place::Sleepers(client));
            places.insert(What::Number(address(&slot.unit)), Place::Asks(client));
            let taken = What::Number(address(&served.taken[0]));
            places.insert(taken, Place::Taken(client));
        }
        for unit in 0..UNITS {
            let asleep = address(&service.shared.board.get().asleep[unit].0);
            places.insert(What::Number(asleep), Place::Asleep(unit));
            places.insert(What::Call(1 + unit), Place::Woken(unit));
        }
        Self {
            states: model.init_states(),
            model,
            places,
        }
    }

    fn see(&mut self, thread: usize, what: What, before: u32, after: u32) {
        let Some(&place) = self.places.get(&what) else {
            return;
        };
        let who = Who::of(thread);
        if let (Who::OtherClient, Place::Word(client) | Place::Asks(client)) = (who, place) {
            assert_ne!(client, HONEST, "a ring of another");
            return;
        }
        let [before, after] = [before, after].map(|value| abstracted(place, value));
        let access = Access {
            place,
            before,
            after,
        };
        let (mut actions, mut next) = (Vec::new(), Vec::new());
        for state in &self.states {
            self.model.actions(state, &mut actions);
            for action in actions.drain(..).filter(|&action| who.takes(action)) {
                if self.model.access(state, action) == Some(access)
                    && let Some(state) = self.model.next_state(state, action)
                    && !next.contains(&state)
                {
                    next.push(state);
                }
            }
        }
        assert!(
            !next.is_empty(),
            "{who:?}: {access:?} is no step of the model after {:?}",
            self.states
        );
        self.states = next;
    }
}

/// A value as the model has it.
fn abstracted(place: Place, value: u32) -> u32 {
    match place {
        Place::Word(_) => match value {
            state::READY => Word::Ready,
            state::ASLEEP => Word::Asleep,
            state::DONE => Word::Done,
            _ => Word::Other,
        }
        .into(),
        Place::Asks(_) => value % UNITS as u32,
        _ => value,
    }
}

/// What the service and the clients do is, in each order, a way through the model: each access that
/// the model has, in a state to which the earlier ones lead.
#[test]
fn each_access_is_a_step_of_the_model() {
    in_orders_with_changes(CHANGES, || {
        with_a_hostile_client(1, |service, clients| {
            let mut follower = Follower::new(service, clients);
            words::watch(move |thread, what, before, after| {
                follower.see(thread, what, before, after);
            });
        });
    });
}
