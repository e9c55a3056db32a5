//! A graphics card as one more unit of hashing, which takes the bundles that it would finish first.
//!
//! The other units are the cores: each hashes its own bundles in its lanes, so they have no queue.
//! A card's queue are the bundles that it has taken. A bundle at which the card fails is hashed on
//! the core that asked, and a card that failed is not asked again.

mod cost;

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use tabane_gpu::{Card, Options};
use tabane_lanes::Hasher;

use crate::digest::Digest;
use crate::serial;
use cost::Cost;

pub use tabane_gpu::{Error, Properties};

/// Uses of a graphics card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The card hashes bundles that it would finish before the core. It is looked for once there is
    /// much to hash.
    Auto,
    /// No card is looked for or used.
    Off,
    /// The card hashes all bundles that it can take, so that cores stay free.
    Only,
}

/// The mode of this process, as an index of [`MODES`]; off unless a program sets another.
static MODE: AtomicU8 = AtomicU8::new(1);
const MODES: [(Mode, &str); 3] = [
    (Mode::Auto, "auto"),
    (Mode::Off, "off"),
    (Mode::Only, "only"),
];

/// The card of this process, or the error of opening it.
static UNIT: OnceLock<Result<Unit, Error>> = OnceLock::new();

/// Bytes that are hashed before a card is looked for. Opening a card and giving it back took 0.2 to
/// 0.4 seconds (H200), so that this costs two cores about a fiftieth of their time at most.
const BYTES_BEFORE_LOOK: u64 = 64 << 30;

/// A card gets a bundle if it takes at most this share of a core's time: estimates err, and the bus
/// and the memory are shared.
const CARD_TIME_SHARE_MAX: f64 = 0.8;

impl Mode {
    /// The names that [`Mode::from_str`] takes.
    pub const NAMES: [&str; 3] = [MODES[0].1, MODES[1].1, MODES[2].1];

    /// The mode of this process.
    pub fn current() -> Self {
        MODES[usize::from(MODE.load(Ordering::Relaxed))].0
    }

    /// Sets the mode of this process.
    pub fn set(self) {
        let number = MODES.iter().position(|(mode, _)| *mode == self);
        MODE.store(number.expect("all are there") as u8, Ordering::Relaxed);
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = MODES.iter().find(|(_, known)| *known == name);
        found.map_or_else(
            || Err(format!("{name:?} is none of auto, off, only")),
            |(mode, _)| Ok(*mode),
        )
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(
            MODES
                .iter()
                .find(|(mode, _)| mode == self)
                .expect("all are there")
                .1,
        )
    }
}

/// Opens the card of this process and measures it, unless that was done before.
///
/// # Errors
/// When no card is found, or the card cannot be used.
pub fn open() -> Result<&'static Unit, Error> {
    UNIT.get_or_init(|| Unit::open(Path::new("libcuda.so.1")))
        .as_ref()
        .map_err(Error::clone)
}

/// The card of this process, if it has been opened.
pub fn opened() -> Option<&'static Unit> {
    UNIT.get()?.as_ref().ok()
}

/// The error for which the card of this process was given up after its start, if any.
pub fn failure() -> Option<Error> {
    opened()?.card.failure()
}

/// A card with its measured costs.
pub struct Unit {
    card: Card,
    costs: Mutex<[Costs; 3]>,
    /// Estimated seconds for the bundles that the card has now.
    queued_s: Mutex<f64>,
    done: Mutex<Done>,
}

/// Counts of a card's work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Done {
    /// Bundles that the card hashed without failing.
    pub bundles: u64,
    /// Bytes in these bundles.
    pub bytes: u64,
    /// Seconds that the card spent on these bundles.
    pub seconds: f64,
}

/// Costs of one algorithm.
#[derive(Clone, Copy)]
struct Costs {
    card: Cost,
    core: Cost,
}

/// An algorithm of both.
const ALGORITHMS: [(tabane_gpu::Algorithm, tabane_lanes::Algorithm); 3] = [
    (tabane_gpu::Algorithm::Md5, tabane_lanes::Algorithm::Md5),
    (tabane_gpu::Algorithm::Sha1, tabane_lanes::Algorithm::Sha1),
    (
        tabane_gpu::Algorithm::Sha256,
        tabane_lanes::Algorithm::Sha256,
    ),
];

/// Messages to measure with, when it is many.
const MEASURED_MESSAGES: usize = 1024;

/// Bytes of each of them: a usual length.
const MEASURED_MESSAGE_LEN: usize = 4 << 10;

/// Bytes of the message with which single messages are measured.
const MEASURED_SINGLE_LEN: usize = 64 << 10;

impl Unit {
    fn open(driver: &Path) -> Result<Self, Error> {
        let card = Card::open_with(driver, &Options::default())?;
        let mut costs = Vec::new();
        for (on_card, in_lanes) in ALGORITHMS {
            let by_card = Cost::measure(|messages| card.hash_many(on_card, messages).map(drop))?;
            costs.push(Costs {
                card: by_card,
                core: Cost::of_core(in_lanes),
            });
        }
        Ok(Self {
            card,
            costs: Mutex::new(
                costs
                    .try_into()
                    .unwrap_or_else(|_| unreachable!("one for each")),
            ),
            queued_s: Mutex::new(0.0),
            done: Mutex::default(),
        })
    }

    /// Properties of the card.
    pub fn properties(&self) -> &Properties {
        self.card.properties()
    }

    /// Counts of the card's work so far.
    pub fn done(&self) -> Done {
        *self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The speed of its bus from and to the machine's memory, in bytes a second.
    ///
    /// # Errors
    /// The card fails.
    pub fn bus_bytes_per_s(&self) -> Result<(f64, f64), Error> {
        self.card.bus_bytes_per_s()
    }

    /// For each algorithm that it has: the name, and bytes a second of many messages in the
    /// machine's memory.
    pub fn rates(&self) -> Vec<(&'static str, f64)> {
        let costs = self.costs();
        let costs = costs.iter().map(|costs| costs.card.bytes_per_s());
        ALGORITHMS
            .iter()
            .map(|(algorithm, _)| algorithm.name())
            .zip(costs)
            .collect()
    }

    fn costs(&self) -> MutexGuard<'_, [Costs; 3]> {
        self.costs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queued_s(&self) -> MutexGuard<'_, f64> {
        self.queued_s.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a bundle on the card or on this core, whichever should finish first, and corrects the
    /// estimate of that one. If the card fails, the core runs the bundle.
    fn choose<T>(
        &self,
        mode: Mode,
        algorithm: usize,
        (bytes, longest): (usize, usize),
        by_card: impl FnOnce(&Card) -> Result<T, Error>,
        by_core: impl FnOnce() -> T,
    ) -> T {
        let costs = self.costs()[algorithm];
        let card_s = costs.card.estimate(bytes, longest);
        let core_s = costs.core.estimate(bytes, longest);
        let wanted = {
            let mut queued_s = self.queued_s();
            let wanted = mode == Mode::Only || card_is_sooner(*queued_s, card_s, core_s);
            if wanted {
                *queued_s += card_s;
            }
            wanted
        };
        if wanted {
            let start = Instant::now();
            let done = by_card(&self.card);
            let before_s = {
                let mut queued_s = self.queued_s();
                *queued_s = (*queued_s - card_s).max(0.0);
                *queued_s
            };
            if let Ok(done) = done {
                // Bundles that ran at the same time took their share of the elapsed time.
                let share = card_s / (card_s + before_s);
                let took_s = share * start.elapsed().as_secs_f64();
                self.costs()[algorithm].card.correct(card_s, took_s);
                let mut all = self.done.lock().unwrap_or_else(PoisonError::into_inner);
                all.bundles += 1;
                all.bytes += bytes as u64;
                all.seconds += took_s;
                drop(all);
                return done;
            }
        }
        let start = Instant::now();
        let done = by_core();
        let took_s = start.elapsed().as_secs_f64();
        self.costs()[algorithm].core.correct(core_s, took_s);
        done
    }
}

impl Cost {
    fn of_core(algorithm: tabane_lanes::Algorithm) -> Self {
        let measured = Self::measure(|messages| {
            tabane_lanes::hash_many(algorithm, messages);
            Ok(())
        });
        measured.expect("cores do not fail")
    }

    /// Measures a unit, each time the better of two.
    fn measure(hash: impl Fn(&[&[u8]]) -> Result<(), Error>) -> Result<Self, Error> {
        let bytes = vec![0x5a; MEASURED_MESSAGES * MEASURED_MESSAGE_LEN];
        let seconds = |messages: &[&[u8]]| -> Result<f64, Error> {
            let mut best = f64::INFINITY;
            for _ in 0..2 {
                let start = Instant::now();
                hash(messages)?;
                best = best.min(start.elapsed().as_secs_f64());
            }
            Ok(best)
        };
        let nothing = seconds(&[b"abc"])?;
        let many: Vec<&[u8]> = bytes.chunks(MEASURED_MESSAGE_LEN).collect();
        let many = (bytes.len(), seconds(&many)?);
        let one = (
            MEASURED_SINGLE_LEN,
            seconds(&[&bytes[..MEASURED_SINGLE_LEN]])?,
        );
        Ok(Self::measured(nothing, many, one))
    }
}

/// Whether a card that has `queued_s` seconds of work before it should be done with a bundle before
/// the core.
///
/// A core that other programs want takes longer for its bundles and is estimated so from then on:
/// so it keeps fewer.
fn card_is_sooner(queued_s: f64, card_s: f64, core_s: f64) -> bool {
    queued_s + card_s < CARD_TIME_SHARE_MAX * core_s
}

/// For each algorithm that cards have too: the name, and bytes a second of many messages by one
/// core, measured now.
pub fn core_rates() -> Vec<(&'static str, f64)> {
    let rate = |(on_card, in_lanes): &(tabane_gpu::Algorithm, _)| {
        (on_card.name(), Cost::of_core(*in_lanes).bytes_per_s())
    };
    ALGORITHMS.iter().map(rate).collect()
}

/// The card, if it is to be asked now.
fn unit(mode: Mode, bytes: usize) -> Option<&'static Unit> {
    static HASHED: AtomicU64 = AtomicU64::new(0);
    static LOOKING: AtomicBool = AtomicBool::new(false);
    let found = match mode {
        Mode::Off => return None,
        Mode::Only => open().ok(),
        Mode::Auto => {
            let hashed = HASHED.fetch_add(bytes as u64, Ordering::Relaxed);
            if hashed >= BYTES_BEFORE_LOOK && !LOOKING.swap(true, Ordering::Relaxed) {
                // In the background, since hashing does not wait for a card. Without a thread no
                // card is found.
                let _ = std::thread::Builder::new()
                    .name("card".to_owned())
                    .spawn(|| open().is_ok());
            }
            opened()
        }
    };
    found.filter(|unit| unit.card.failure().is_none())
}

/// Which of [`ALGORITHMS`] this is.
fn number(algorithm: tabane_lanes::Algorithm) -> Option<usize> {
    ALGORITHMS.iter().position(|(_, lanes)| *lanes == algorithm)
}

/// Bytes of all messages, and of the longest.
fn size<'a>(messages: impl Iterator<Item = &'a [u8]>) -> (usize, usize) {
    messages.fold((0, 0), |(sum, longest), message| {
        (sum + message.len(), longest.max(message.len()))
    })
}

/// Whether the card can take a bundle of `count` messages of at most `longest` bytes. A core hashes
/// any other bundle as a whole. A single message is one chain, at which no card comes near a core.
fn for_cards(unit: &Unit, count: usize, longest: usize) -> bool {
    count > 1 && longest <= unit.card.message_max()
}

/// Index of the shortest message that is not empty. A core hashes that message of each bundle too,
/// which shows at little cost when a card begins to compute wrongly.
fn shortest<'a>(messages: impl Iterator<Item = &'a [u8]>) -> usize {
    let lens = messages.map(<[u8]>::len).enumerate();
    lens.filter(|(_, len)| *len > 0)
        .min_by_key(|(_, len)| *len)
        .map_or(0, |(number, _)| number)
}

/// Hashes messages on this core or on a card, whichever should finish first.
pub(crate) fn hash_many(algorithm: tabane_lanes::Algorithm, messages: &[&[u8]]) -> Vec<Digest> {
    let by_core = || {
        let digests = tabane_lanes::hash_many(algorithm, messages);
        digests.iter().map(serial::from_lanes).collect()
    };
    let mode = Mode::current();
    let number = number(algorithm).filter(|_| mode != Mode::Off);
    let Some(number) = number else {
        return by_core();
    };
    let size = size(messages.iter().copied());
    let Some(unit) = unit(mode, size.0) else {
        return by_core();
    };
    if !for_cards(unit, messages.len(), size.1) {
        return by_core();
    }
    let by_card = |card: &Card| {
        let on_card = ALGORITHMS[number].0;
        let digests = card.hash_many(on_card, messages)?;
        let digests = digests.chunks_exact(on_card.digest_len());
        let digests: Vec<Digest> = digests.map(serial::digest).collect();
        let shortest = shortest(messages.iter().copied());
        let right = tabane_lanes::hash_one(algorithm, messages[shortest]);
        if digests[shortest] == serial::from_lanes(&right) {
            Ok(digests)
        } else {
            Err(card.distrust(on_card))
        }
    };
    unit.choose(mode, number, size, by_card, by_core)
}

/// Appends a part to each message on this core or on a card, whichever should finish first.
pub fn update_many(parts: &mut [(&mut Hasher, &[u8])]) {
    let mode = Mode::current();
    if mode == Mode::Off {
        return tabane_lanes::update_many(parts);
    }
    let size = size(parts.iter().map(|(_, part)| *part));
    let first = parts.first().map(|(hasher, _)| hasher.algorithm());
    let number = first.and_then(number);
    let one_algorithm = parts
        .iter()
        .all(|(hasher, _)| Some(hasher.algorithm()) == first);
    let fits = |unit: &&Unit| one_algorithm && for_cards(unit, parts.len(), size.1);
    let unit = unit(mode, size.0).filter(fits);
    let (Some(unit), Some(number)) = (unit, number) else {
        return tabane_lanes::update_many(parts);
    };
    let parts = Mutex::new(parts);
    let lock = || parts.lock().unwrap_or_else(PoisonError::into_inner);
    let by_card = |card: &Card| advance(card, ALGORITHMS[number].0, &mut lock());
    let by_core = || tabane_lanes::update_many(&mut lock());
    unit.choose(mode, number, size, by_card, by_core);
}

/// Lets a card hash the whole blocks of all parts, and hashes the rest here. A failure leaves the
/// hashers unchanged.
fn advance<'a>(
    card: &Card,
    algorithm: tabane_gpu::Algorithm,
    parts: &mut [(&mut Hasher, &'a [u8])],
) -> Result<(), Error> {
    const BLOCK_LEN: usize = 64;
    /// A hasher at the end of a block, its state, whole blocks, and the bytes behind them.
    struct Cut<'a> {
        hasher: Hasher,
        state: [u32; 8],
        blocks: &'a [u8],
        rest: &'a [u8],
    }
    let cut = |(hasher, part): &(&mut Hasher, &'a [u8])| {
        let mut hasher = (*hasher).clone();
        let missing = (BLOCK_LEN - hasher.filled()) % BLOCK_LEN;
        let (head, part) = part.split_at(missing.min(part.len()));
        hasher.update(head);
        let (blocks, rest) = part.split_at(part.len() / BLOCK_LEN * BLOCK_LEN);
        let state = hasher.state().expect("words of 32 bits");
        Cut {
            hasher,
            state,
            blocks,
            rest,
        }
    };
    let mut cuts: Vec<Cut> = parts.iter().map(cut).collect();
    let words = algorithm.words();
    let mut on_card: Vec<(&mut [u32], &[u8])> = cuts
        .iter_mut()
        .map(|cut| (&mut cut.state[..words], cut.blocks))
        .collect();
    card.advance_many(algorithm, &mut on_card)?;
    let shortest = shortest(cuts.iter().map(|cut| cut.blocks));
    let mut right = cuts[shortest].hasher.clone();
    right.update(cuts[shortest].blocks);
    let right = right.state().expect("words of 32 bits");
    if right[..words] != cuts[shortest].state[..words] {
        return Err(card.distrust(algorithm));
    }
    for ((hasher, _), mut cut) in parts.iter_mut().zip(cuts) {
        if !cut.blocks.is_empty() {
            cut.hasher.go_on(cut.state, cut.blocks.len() as u64);
        }
        cut.hasher.update(cut.rest);
        **hasher = cut.hasher;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty microseconds and 10 GB/s, beside a core with 2 GB/s.
    fn costs() -> (Cost, Cost) {
        let linear = |fixed_s: f64, per_byte_s: f64| {
            let after = |bytes: usize| (bytes, fixed_s + per_byte_s * bytes as f64);
            Cost::measured(fixed_s, after(1 << 20), after(1 << 16))
        };
        (linear(20e-6, 1e-10), linear(0.0, 5e-10))
    }

    #[test]
    fn a_card_gets_what_it_finishes_first() {
        let (card, mut core) = costs();
        let is_the_cards = |core: &Cost, queued_s, bytes| {
            card_is_sooner(queued_s, card.estimate(bytes, 64), core.estimate(bytes, 64))
        };
        assert!(!is_the_cards(&core, 0.0, 32 << 10));
        assert!(is_the_cards(&core, 0.0, 4 << 20));
        // Others have asked it for more than the core needs.
        assert!(!is_the_cards(&core, 3e-3, 4 << 20));
        // Somebody else wants the core, so that it takes four times as long.
        for _ in 0..100 {
            let estimated = core.estimate(32 << 10, 64);
            core.correct(estimated, 4.0 * 5e-10 * 32768.0);
        }
        assert!(is_the_cards(&core, 0.0, 32 << 10));
        assert!(is_the_cards(&core, 3e-3, 4 << 20));
    }
}
