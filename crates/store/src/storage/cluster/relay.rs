//! Decides how each stripe goes to the nodes, and goes around them when that fails.

use std::io;
use std::str::FromStr;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use tabane_parity::schedule::Kind;

use super::node::NodeStorage;
use super::session::Session;
use super::wire::{Reason, Reply, Request, Stripe};
use crate::storage::Name;
use crate::storage::striped::container::Geometry;
use crate::storage::striped::put::{data_cells, encode_cells};
use crate::storage::striped::targets::Targets;
use crate::sync::lock;

/// For how long nothing is sent by way of other nodes after that has failed.
const PAUSE: Duration = Duration::from_secs(60);

/// How stripes are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plan {
    /// Each as it is best at the moment.
    #[default]
    Auto,
    /// All by this schedule.
    Always(Kind),
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "auto" => Ok(Self::Auto),
            _ => match name.parse() {
                Ok(kind) => Ok(Self::Always(kind)),
                Err(_) => Err("there are auto, direct, chain, shared and coded".to_owned()),
            },
        }
    }
}

/// Sends stripes through a session with all nodes.
pub struct Relay {
    plan: Plan,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    session: Option<Session>,
    mixer: Mixer,
    /// When it may be tried again.
    paused_until: Option<Instant>,
}

/// What became of a stripe at each of its targets.
pub type Puts = Vec<(usize, io::Result<()>)>;

impl Relay {
    /// By this plan; nothing is sent yet.
    pub fn new(plan: Plan) -> Self {
        Self {
            plan,
            state: Mutex::default(),
        }
    }

    /// Puts the stripe of an object on the targets of a generation, of which `by_role` has that of each role. Nothing is returned
    /// where it has to be put on each target by itself, since one is not there, is no node, or fails; what there is of it then is
    /// right, and durable.
    pub(in crate::storage) fn put(
        &self,
        targets: &Targets,
        generation: &[usize],
        by_role: &[usize],
        (name, object): (Name, &[u8]),
        geometry: &Geometry,
    ) -> io::Result<Option<Puts>> {
        let nodes = generation
            .iter()
            .map(|&number| targets.storage(number)?.as_node());
        let Some(nodes) = nodes.collect::<Option<Vec<&NodeStorage>>>() else {
            return Ok(None);
        };
        let fail = |why: &str| {
            let mut state = lock(&self.state);
            state.session = None;
            if state.paused_until.replace(Instant::now() + PAUSE).is_none() {
                targets.tell(&format!(
                    "nodes cannot make parities among themselves ({why}): sending them everything for a while"
                ));
            }
            Ok(None)
        };
        let member_of = |target: &usize| {
            let member = generation.iter().position(|number| number == target);
            member.expect("the targets of a stripe are those of its generation")
        };
        let members: Vec<usize> = by_role.iter().map(member_of).collect();

        let mut state = lock(&self.state);
        if state
            .paused_until
            .is_some_and(|until| Instant::now() < until)
        {
            return Ok(None);
        }
        if state.session.is_none() {
            match Session::open(&nodes) {
                Ok(session) => state.session = Some(session),
                Err(error) => {
                    drop(state);
                    return fail(&error.to_string());
                }
            }
        }
        let layout = geometry.layout();
        let kind = match self.plan {
            Plan::Always(kind) => kind,
            Plan::Auto => state.mixer.choose(),
        };
        // Not for every number of nodes is there one that was searched for.
        let kinds = [kind, Kind::Shared].into_iter();
        let mut possible = kinds.filter_map(|kind| Some((kind, kind.schedule(&layout)?)));
        let (kind, schedule) = possible.next().expect("there is always a shared one");
        let cells = match kind {
            Kind::Direct => encode_cells(object, geometry)?,
            _ => data_cells(object, geometry),
        };
        let opened = state.session.as_mut().expect("it is open");
        let (id, number) = (opened.id(), opened.next_number());
        let request = Request::Stripe(
            id,
            Stripe {
                number,
                name,
                object_len: geometry.object_len,
                generation: geometry.generation,
                by_role: members.iter().map(|&member| member as u8).collect(),
                schedule: kind.name().to_owned(),
            },
        );
        let (sent, answers) = thread::scope(|scope| {
            let asking: Vec<_> = nodes
                .iter()
                .map(|node| scope.spawn(|| node.ask(&request, &[])))
                .collect();
            let mut state = state;
            let session = state.session.as_mut().expect("it is open");
            let sent = session.send(number, geometry, &schedule, &members, &cells);
            match &sent {
                Ok(waited) => state.mixer.learn(kind, *waited),
                // The nodes notice, and answer.
                Err(_) => state.session = None,
            }
            // The next stripe goes out while the nodes make this one durable.
            drop(state);
            let answers = asking.into_iter().map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            (sent, answers.collect::<Vec<_>>())
        });
        let mut puts = Vec::new();
        for (&target, answer) in generation.iter().zip(answers) {
            let put = match answer {
                Ok(Reply::Done) => Ok(()),
                // What has nothing to do with its storage, sending it everything may mend.
                Ok(Reply::Failed(Reason::NotConnected | Reason::Other, text)) => {
                    return fail(&text);
                }
                Ok(Reply::Failed(reason, text)) => Err(reason.to_error(&text)),
                Ok(_) => return fail("a node answers something else"),
                Err(error) => return fail(&error.to_string()),
            };
            puts.push((target, put));
        }
        match sent {
            Ok(_) => Ok(Some(puts)),
            Err(error) => fail(&error.to_string()),
        }
    }
}

/// Which stripes to relay, without knowing who else writes.
///
/// Relaying spares the client's link and spends those of nodes. As long as nodes keep up, what a client waits for is its own
/// link, and relaying is right. When nodes do not, their rings fill, and it waits for credit: then fewer stripes are relayed, until
/// it does not. The share goes up by steps and down by a factor, so that several clients come to equal shares.
struct Mixer {
    /// Of stripes that are relayed.
    share: f64,
    /// Relayed stripes that are due.
    due: f64,
    /// Of the time of the last relayed stripes, what was waiting for nodes.
    waited: f64,
}

impl Default for Mixer {
    fn default() -> Self {
        Self {
            share: 1.0,
            due: 0.0,
            waited: 0.0,
        }
    }
}

impl Mixer {
    /// Waiting for nodes for less of the time than this is no sign of anything: they open files, and sync them.
    const WAITED: f64 = 0.25;
    /// Over how many relayed stripes it is averaged.
    const STRIPES: f64 = 4.0;
    const STEP: f64 = 0.05;
    const FACTOR: f64 = 0.85;

    fn choose(&mut self) -> Kind {
        self.due += self.share;
        match self.due >= 1.0 {
            true => {
                self.due -= 1.0;
                Kind::Coded
            }
            false => Kind::Direct,
        }
    }

    /// Takes in that, of the time that a stripe took, so much was waiting for nodes.
    fn learn(&mut self, kind: Kind, waited: f64) {
        if kind != Kind::Direct {
            self.waited += (waited - self.waited) / Self::STRIPES;
        }
        match self.waited > Self::WAITED {
            // Some are always relayed, or nobody would notice that nodes keep up again.
            true if kind != Kind::Direct => {
                self.share = (self.share * Self::FACTOR).max(Self::STEP)
            }
            true => {}
            false => self.share = (self.share + Self::STEP).min(1.0),
        }
    }
}
