//! A node's work on one stripe: sends sums of received cells to other nodes, and stores its own
//! cells.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::counters::Counters;
use tabane_fabric::{Sender, Tail};
use tabane_lanes::xor_of;
use tabane_parity::Layout;
use tabane_parity::schedule::{Arrived, Kind, Node, Part, Schedule, Sectors, rebuild};
use tabane_storage::{
    Draft, LocalStorage, Name, OBJECT_LEN_MAX, Result, Storage, StorageError, StorageErrorKind,
};
use tabane_striped::cluster::STALL_TIMEOUT;
use tabane_striped::cluster::wire::{FrameHeader, FrameKey, Source, Stripe, malformed};
use tabane_striped::container::{Geometry, Header, ROLES_MAX, Seal, Shape, checksum, open_sector};

/// Others give up on a node that stalls before those do that wait for them.
const FRAME_TIMEOUT: Duration = STALL_TIMEOUT;

/// While clients write, a part that yields takes so many times longer, and a step no longer than
/// this.
const YIELD_TIMES: u32 = 4;
const YIELD_MAX: Duration = Duration::from_millis(250);

/// Sectors of a node's own cells with their tags, by sector and row.
type Kept = BTreeMap<(u64, usize), Vec<u8>>;

/// What arrives from one member, for one consumer.
pub struct Incoming {
    /// The frames.
    pub tail: Tail,
    /// Opens them.
    pub key: Arc<FrameKey>,
}

/// What is sent to one member.
pub struct Outgoing {
    /// Sends frames.
    pub sender: Sender,
    /// Seals them.
    pub key: FrameKey,
}

/// A node's work on one stripe.
pub struct Work {
    /// Names it within its session.
    number: u64,
    /// The object.
    pub name: Name,
    geometry: Geometry,
    /// The header of what this node keeps of it.
    header: Header,
    role: usize,
    sectors: Sectors,
    part: Part,
    /// When a role is rebuilt, the rows of the cells that stand for what a client sends: this node
    /// reads them.
    read: Vec<usize>,
    /// Whether it goes slowly while clients write.
    yields: bool,
    /// The member that has each role, and the client's place behind them.
    members: Vec<usize>,
    /// Number of frames from each member, and from the client, of all earlier stripes.
    bases: Vec<u64>,
}

impl Work {
    /// The work of member `me` for a stripe. `bases` are moved to where the next stripe begins.
    ///
    /// # Errors
    /// When the client's request is malformed.
    pub fn new(stripe: &Stripe, me: usize, bases: &mut [u64]) -> Result<Self> {
        let roles = stripe.by_role.len();
        let members: Vec<usize> = stripe.by_role.iter().map(|&member| member.into()).collect();
        let mut sorted = members.clone();
        sorted.sort_unstable();
        let is_sound = (3..=ROLES_MAX).contains(&roles)
            && sorted.into_iter().eq(0..bases.len() - 1)
            && (1..=15).contains(&stripe.generation)
            && stripe.object_len <= OBJECT_LEN_MAX;
        if !is_sound {
            return Err(malformed("the stripe is malformed"));
        }
        let geometry = Geometry::stripe(stripe.object_len, stripe.generation, roles);
        let layout = geometry.layout();
        let no_schedule = || malformed("there is no such schedule for so many nodes");
        let (schedules, sectors) = match &stripe.source {
            Source::Client {
                schedules,
                by_sector,
            } => {
                let names = &schedules[..schedules.len().min(Kind::ALL.len())];
                let schedules = schedules_of(names, &layout);
                let numbers: Vec<usize> = by_sector.iter().map(|&number| number.into()).collect();
                let is_sound = !schedules.is_empty()
                    && numbers.len() as u64 == geometry.sectors()
                    && numbers.iter().all(|&number| number < schedules.len());
                if !is_sound {
                    return Err(no_schedule());
                }
                let sectors = Sectors::mixed(&numbers, schedules.len());
                (schedules, sectors)
            }
            Source::Nodes { role, others, .. } => {
                let others: Vec<usize> = others.iter().map(|&role| role.into()).collect();
                let schedule = rebuild(&layout, (*role).into(), &others);
                let schedule = schedule.map_err(|_| no_schedule())?;
                (vec![schedule], Sectors::alike(geometry.sectors()))
            }
        };
        let role = members.iter().position(|&member| member == me);
        let role = role.ok_or_else(|| malformed("a stripe of which this node has no part"))?;
        let seal = stripe.seal.map(|tag| {
            let mut places = [0; ROLES_MAX];
            places[..roles].copy_from_slice(&stripe.by_role);
            Seal { places, tag }
        });
        let shape = Shape { geometry, seal };
        let mut part = Part::new(&schedules, &layout, role, stripe.lag.into());
        let mut read = Vec::new();
        if let Source::Nodes { .. } = stripe.source {
            // The client sends no cells.
            part.receives[roles].clear();
            let own = schedules[0].transfers.iter();
            let own = own.filter(|own| own.from == Node::Client && own.to == role);
            read.extend(own.map(|own| layout.row_of(own.of[0])));
        }
        let mut members = members;
        members.push(roles);
        let before = bases.to_vec();
        for (from, &member) in members.iter().enumerate() {
            bases[member] += part.arrivals(from, &sectors);
        }
        Ok(Self {
            number: stripe.number,
            name: stripe.name,
            geometry,
            header: Header { shape, role },
            role,
            sectors,
            part,
            read,
            yields: matches!(stripe.source, Source::Nodes { yields: true, .. }),
            members,
            bases: before,
        })
    }

    /// Whether this node stores cells of the stripe.
    pub fn is_stored(&self) -> bool {
        self.part.stores.iter().flatten().any(|of| !of.is_empty())
    }

    /// Bytes of the shard that this node stores.
    pub fn stored_len(&self) -> u64 {
        self.header.shape.container_len()
    }

    /// Sends this node's transfers of a stripe, received and stored cells, as soon as their inputs
    /// are there, and counts the bytes.
    ///
    /// # Errors
    /// When another member fails or a frame is damaged; when this node's stored shard is damaged.
    pub fn relay(
        &self,
        tails: &mut [Option<Incoming>],
        peers: &mut [Option<Outgoing>],
        storage: &LocalStorage,
        counters: &Counters,
    ) -> Result<()> {
        if !self.read.is_empty() {
            self.check_header(storage)?;
        }
        let mut kept = Kept::new();
        let mut buffer = Vec::new();
        for step in 0..self.part.steps(&self.sectors) {
            let begun = Instant::now();
            let mut counts = vec![0; self.members.len()];
            for sent in &self.part.sends {
                let index = counts[sent.to];
                counts[sent.to] += 1;
                let Some(sector) = step.checked_sub(sent.lag as u64) else {
                    continue;
                };
                if self.sectors.schedule(sector) != Some(sent.schedule) {
                    continue;
                }
                self.read_kept(storage, sector, &sent.of, &mut kept)?;
                let payload = self.sum(tails, &kept, sector, &sent.of, &mut buffer)?;
                let header = FrameHeader {
                    stripe: self.number,
                    sector: sector as u32,
                    index,
                };
                let peer = peers[self.members[sent.to]].as_mut();
                let peer = peer
                    .ok_or_else(|| malformed("a stripe is sent to a member that was not joined"))?;
                let sealed = peer.key.seal(header, &[payload]);
                let sent = peer.sender.send(&[&sealed, payload]);
                sent.map_err(of_peer)?;
                counters.relayed_bytes.add(payload.len() as u64);
            }
            if let Some(done) = step.checked_sub(self.part.longest_lag as u64) {
                self.release(tails, done)?;
                kept.retain(|&(sector, _), _| sector > done);
            }
            if self.yields && counters.do_clients_write() {
                thread::sleep((begun.elapsed() * YIELD_TIMES).min(YIELD_MAX));
            }
        }
        Ok(())
    }

    /// Takes what arrives without storing anything of it.
    ///
    /// # Errors
    /// As [`Work::relay`].
    pub fn pass(&self, tails: &mut [Option<Incoming>]) -> Result<()> {
        (0..self.sectors.count()).try_for_each(|sector| self.release(tails, sector))
    }

    /// Stores the cells of this node's role. A failed write is returned only at the end, so that
    /// other nodes get their cells.
    ///
    /// # Errors
    /// As [`Work::relay`].
    pub fn store(
        &self,
        tails: &mut [Option<Incoming>],
        draft: Result<Draft>,
    ) -> Result<Result<Draft>> {
        let (mut buffer, kept) = (Vec::new(), Kept::new());
        let (object, form) = (self.name.id, self.header.shape.form());
        let mut draft = draft.and_then(|draft| {
            draft.write_at(0, [&self.header.to_bytes(object), &[]])?;
            // The padding's length encodes the generation.
            let padding = vec![0; self.geometry.generation.into()];
            let end = self.stored_len() - padding.len() as u64;
            draft.write_at(end, [&padding, &[]])?;
            Ok(draft)
        });
        for sector in 0..self.sectors.count() {
            let schedule = self.sectors.schedule(sector).expect("it has this sector");
            for (row, of) in self.part.stores[schedule].iter().enumerate() {
                let payload = self.sum(tails, &kept, sector, of, &mut buffer)?;
                let sum = checksum(object, self.role, row, sector, &[payload]);
                let at = self.geometry.stored(form, row, &(sector..sector + 1)).start;
                draft = draft.and_then(|draft| {
                    draft.write_at(at, [payload, &sum])?;
                    Ok(draft)
                });
            }
            self.release(tails, sector)?;
        }
        Ok(draft)
    }

    /// Checks that the stored shard is this node's part of the stripe.
    fn check_header(&self, storage: &LocalStorage) -> Result<()> {
        let len = self.header.shape.form().header_len();
        let header = storage.get(self.name, Some(0..len))?;
        if Header::parse(self.name.id, &header) == Some(self.header) {
            Ok(())
        } else {
            Err(damaged(self.name))
        }
    }

    /// Reads the stored cells of a sector that are needed.
    fn read_kept(
        &self,
        storage: &LocalStorage,
        sector: u64,
        of: &[Arrived],
        kept: &mut Kept,
    ) -> Result<()> {
        let rows = of.iter().filter_map(|from| self.kept_row(*from));
        for row in rows {
            if kept.contains_key(&(sector, row)) {
                continue;
            }
            let form = self.header.shape.form();
            let stored = self.geometry.stored(form, row, &(sector..sector + 1));
            let mut bytes = storage.get(self.name, Some(stored))?;
            let sound = open_sector(self.name.id, self.role, row, sector, &bytes);
            let len = sound.ok_or_else(|| damaged(self.name))?.len();
            bytes.truncate(len);
            kept.insert((sector, row), bytes);
        }
        Ok(())
    }

    /// The row of what stands for a transfer from the client when a role is rebuilt.
    fn kept_row(&self, from: Arrived) -> Option<usize> {
        let is_from_client = from.from == self.members.len() - 1;
        self.read
            .get(from.index)
            .copied()
            .filter(|_| is_from_client)
    }

    /// The sum of what has arrived or is kept: where it lies if it is one piece, else in the
    /// buffer.
    fn sum<'a>(
        &self,
        tails: &'a [Option<Incoming>],
        kept: &'a Kept,
        sector: u64,
        of: &[Arrived],
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8]> {
        let range = self.geometry.sector(sector);
        let len = (range.end - range.start + self.header.shape.form().tag_len()) as usize;
        let arrived = of.iter().map(|from| {
            if let Some(row) = self.kept_row(*from) {
                return Ok(&kept[&(sector, row)][..]);
            }
            let member = self.members[from.from];
            let incoming = tails[member].as_ref();
            let Incoming { tail, key } =
                incoming.ok_or_else(|| malformed("a stripe needs a member that has not joined"))?;
            let before = self.part.number(*from, sector, &self.sectors);
            let number = self.bases[member] + before;
            let header = FrameHeader {
                stripe: self.number,
                sector: sector as u32,
                index: from.index as u32,
            };
            let frame = tail.frame(number, FRAME_TIMEOUT).map_err(of_peer)?;
            key.open(header, frame, len).map_err(of_peer)
        });
        let arrived = arrived.collect::<Result<Vec<&[u8]>>>()?;
        match arrived[..] {
            [one] => Ok(one),
            _ => {
                buffer.resize(len, 0);
                xor_of(&mut buffer[..len], &arrived);
                Ok(&buffer[..len])
            }
        }
    }

    /// Gives back what arrived for a sector and those before; what this consumer has no use for has
    /// to arrive as well.
    fn release(&self, tails: &mut [Option<Incoming>], sector: u64) -> Result<()> {
        for (from, &member) in self.members.iter().enumerate() {
            let spent = self.part.spent(from, sector, &self.sectors);
            if let (Some(Incoming { tail, .. }), false) = (&mut tails[member], spent.is_empty()) {
                let end = self.bases[member] + spent.end;
                tail.frame(end - 1, FRAME_TIMEOUT).map_err(of_peer)?;
                tail.release(end).map_err(of_peer)?;
            }
        }
        Ok(())
    }
}

/// The schedules of these names, up to the first that there is not for so many nodes.
fn schedules_of(names: &[String], layout: &Layout) -> Vec<Schedule> {
    let schedule = |name: &String| name.parse::<Kind>().ok()?.schedule(layout);
    names.iter().map_while(schedule).collect()
}

fn damaged(name: Name) -> StorageError {
    let text = format!("what is kept of {name} is damaged");
    StorageError::new(StorageErrorKind::Damaged, text).about(name)
}

/// Converts an error of a data connection: a peer that is gone ends the session.
fn of_peer(error: io::Error) -> StorageError {
    let kind = match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::NotConnected => StorageErrorKind::SessionOver,
        _ => StorageErrorKind::Permanent,
    };
    StorageError::new(kind, error.to_string())
}

#[cfg(test)]
mod tests {
    use tabane_storage::{Id, ObjectKind};

    use super::*;

    /// A stripe of two sectors, over three nodes that keep two data cells.
    fn stripe(schedules: &[&str], by_sector: &[u8]) -> Stripe {
        Stripe {
            number: 0,
            name: Name::new(ObjectKind::Pack, Id([7; 32])),
            object_len: 2 * (100 << 10),
            generation: 1,
            seal: None,
            by_role: vec![0, 1, 2],
            source: Source::Client {
                schedules: schedules.iter().map(|&name| name.to_owned()).collect(),
                by_sector: by_sector.to_vec(),
            },
            lag: 1,
        }
    }

    #[test]
    fn a_stripe_whose_sectors_have_no_schedules_is_refused() {
        let work = |schedules: &[&str], by_sector: &[u8]| {
            let mut bases = [0; 4];
            let work = Work::new(&stripe(schedules, by_sector), 0, &mut bases);
            assert_eq!(work.is_ok(), bases != [0; 4], "{schedules:?} {by_sector:?}");
            work.map_err(|error| error.to_string()).err()
        };
        for by_sector in [[0, 1], [1, 0], [1, 1]] {
            assert_eq!(work(&["chain", "direct"], &by_sector), None);
        }
        let text = "there is no such schedule for so many nodes";
        let all: Vec<&str> = Kind::ALL.map(Kind::name).to_vec();
        let repeated = [&["direct"], &all[..]].concat();
        let cases: [(&[&str], &[u8]); 8] = [
            (&[], &[]),
            (&[], &[0, 0]),
            (&["direct"], &[]),
            (&["direct"], &[0]),
            (&["direct"], &[0, 0, 0]),
            (&["chain", "direct"], &[0, 2]),
            // There is no such schedule for three nodes, or none at all.
            (&["coded"], &[0, 0]),
            (&["chain", "spiral"], &[0, 1]),
        ];
        for (schedules, by_sector) in cases.into_iter().chain([(&repeated[..], &[0, 4][..])]) {
            let error = work(schedules, by_sector).expect("it is refused");
            assert!(error.contains(text), "{error}");
        }
    }
}
