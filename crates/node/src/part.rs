//! What a node does of one stripe: sends sums of what has arrived to others, and stores its cells.

use std::io;
use std::time::Duration;

use tabane_fabric::{Sender, Tail};
use tabane_lanes::xor_of;
use tabane_parity::schedule::{Arrived, Kind, Part};
use tabane_store::storage::cluster::STALL;
use tabane_store::storage::cluster::wire::{FrameHeader, Stripe, invalid};
use tabane_store::storage::striped::container::{Geometry, ROLES_MAX, checksum};
use tabane_store::storage::{Draft, Name, OBJECT_LEN_MAX};

/// Others give up on a node that stalls before those do that wait for them.
const PATIENCE: Duration = STALL;

/// What a node does of one stripe.
pub struct Work {
    /// Names it within its session.
    number: u64,
    /// The object.
    pub name: Name,
    geometry: Geometry,
    role: usize,
    part: Part,
    /// The member that has each role, and the client's place behind them.
    members: Vec<usize>,
    /// How many frames came from each member, and from the client, for the stripes before.
    bases: Vec<u64>,
}

impl Work {
    /// The work of member `me` for a stripe. `bases` are moved to where the next stripe begins.
    ///
    /// # Errors
    /// When what the client asks makes no sense.
    pub fn new(stripe: &Stripe, me: usize, bases: &mut [u64]) -> io::Result<Self> {
        let roles = stripe.by_role.len();
        let members: Vec<usize> = stripe.by_role.iter().map(|&member| member.into()).collect();
        let mut sorted = members.clone();
        sorted.sort_unstable();
        let is_sound = (3..=ROLES_MAX).contains(&roles)
            && sorted.into_iter().eq(0..bases.len() - 1)
            && (1..=15).contains(&stripe.generation)
            && stripe.object_len <= OBJECT_LEN_MAX;
        let kind: Option<Kind> = stripe.schedule.parse().ok();
        let (true, Some(kind)) = (is_sound, kind) else {
            return Err(invalid("a stripe that makes no sense"));
        };
        let geometry = Geometry::stripe(stripe.object_len, stripe.generation, roles);
        let layout = geometry.layout();
        let Some(schedule) = kind.schedule(&layout) else {
            return Err(invalid("there is no such schedule for so many nodes"));
        };
        let role = members.iter().position(|&member| member == me);
        let role = role.ok_or_else(|| invalid("a stripe of which this node has no part"))?;
        let part = schedule.part(&layout, role, stripe.lag.into());
        let mut members = members;
        members.push(roles);
        let before = bases.to_vec();
        for (&member, lags) in members.iter().zip(&part.receives) {
            bases[member] += geometry.sectors() * lags.len() as u64;
        }
        Ok(Self {
            number: stripe.number,
            name: stripe.name,
            geometry,
            role,
            part,
            members,
            bases: before,
        })
    }

    /// Bytes of what is stored.
    pub fn stored_len(&self) -> u64 {
        self.geometry.container_len()
    }

    /// Sends what this node has to send, as it becomes possible. Returns how many bytes that was.
    ///
    /// # Errors
    /// When another member fails, or what it sends was changed on its way.
    pub fn relay(
        &self,
        tails: &mut [Option<Tail>],
        peers: &mut [Option<Sender>],
    ) -> io::Result<u64> {
        let mut buffer = Vec::new();
        let mut relayed = 0;
        let (sectors, longest) = (self.geometry.sectors(), self.part.longest_lag as u64);
        for step in 0..sectors + longest {
            let mut counts = vec![0; self.members.len()];
            for sent in &self.part.sends {
                let index = counts[sent.to];
                counts[sent.to] += 1;
                let sector = match step.checked_sub(sent.lag as u64) {
                    Some(sector) if sector < sectors => sector,
                    _ => continue,
                };
                let payload = self.sum(tails, sector, &sent.of, &mut buffer)?;
                let header = FrameHeader {
                    stripe: self.number,
                    sector: sector as u32,
                    index,
                };
                let peer = peers[self.members[sent.to]].as_mut();
                let peer = peer
                    .ok_or_else(|| invalid("a stripe is sent to a member that was not joined"))?;
                peer.send(&[&header.to_bytes(payload), payload])?;
                relayed += payload.len() as u64;
            }
            if let Some(done) = step.checked_sub(longest) {
                self.release(tails, done)?;
            }
        }
        Ok(relayed)
    }

    /// Stores the cells of this node's role. What cannot be written does not keep others from getting what they need, so
    /// it is returned at the end.
    ///
    /// # Errors
    /// As [`Work::relay`].
    pub fn store(
        &self,
        tails: &mut [Option<Tail>],
        draft: io::Result<Draft>,
    ) -> io::Result<io::Result<Draft>> {
        let mut buffer = Vec::new();
        let object = self.name.id;
        let mut draft = draft.and_then(|draft| {
            let header = self.geometry.header(object, self.role);
            draft.write_at(0, [&header, &[]])?;
            // Its length tells the generation.
            let padding = vec![0; self.geometry.generation.into()];
            let end = self.geometry.container_len() - padding.len() as u64;
            draft.write_at(end, [&padding, &[]])?;
            Ok(draft)
        });
        for sector in 0..self.geometry.sectors() {
            for (row, of) in self.part.stores.iter().enumerate() {
                let payload = self.sum(tails, sector, of, &mut buffer)?;
                let sum = checksum(object, self.role, row, sector, payload);
                let at = self.geometry.stored(row, &(sector..sector + 1)).start;
                draft = draft.and_then(|draft| {
                    draft.write_at(at, [payload, &sum])?;
                    Ok(draft)
                });
            }
            self.release(tails, sector)?;
        }
        Ok(draft)
    }

    /// The sum of what has arrived: where it lies if it is one frame, else in the buffer.
    fn sum<'a>(
        &self,
        tails: &'a [Option<Tail>],
        sector: u64,
        of: &[Arrived],
        buffer: &'a mut Vec<u8>,
    ) -> io::Result<&'a [u8]> {
        let range = self.geometry.sector(sector);
        let len = (range.end - range.start) as usize;
        let arrived = of.iter().map(|from| {
            let member = self.members[from.from];
            let tail = tails[member].as_ref();
            let tail =
                tail.ok_or_else(|| invalid("a stripe needs a member that has not joined"))?;
            let before = self.part.number(*from, sector, self.geometry.sectors());
            let number = self.bases[member] + before;
            let header = FrameHeader {
                stripe: self.number,
                sector: sector as u32,
                index: from.index as u32,
            };
            header.open(tail.frame(number, PATIENCE)?, len)
        });
        let arrived = arrived.collect::<io::Result<Vec<&[u8]>>>()?;
        match arrived[..] {
            [one] => Ok(one),
            _ => {
                buffer.resize(len, 0);
                xor_of(&mut buffer[..len], &arrived);
                Ok(&buffer[..len])
            }
        }
    }

    /// Gives back what arrived for a sector and those before; what this consumer has no use for has to arrive as well.
    fn release(&self, tails: &mut [Option<Tail>], sector: u64) -> io::Result<()> {
        let sectors = self.geometry.sectors();
        for (from, &member) in self.members.iter().enumerate() {
            let step = match sector + 1 == sectors {
                true => sectors + self.part.longest_lag as u64,
                false => self.part.step_of(from, sector + 1),
            };
            let arrived = self.part.arrived_before(from, step, sectors);
            if let (Some(tail), 1..) = (&mut tails[member], arrived) {
                let end = self.bases[member] + arrived;
                tail.frame(end - 1, PATIENCE)?;
                tail.release(end)?;
            }
        }
        Ok(())
    }
}
