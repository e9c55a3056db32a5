//! What a card does, and whether it is right.

use anyhow::{Result, ensure};
use tabane_gpu::{Aes, Algorithm, Card, Design, DeviceBuffer, Gear, Message, Mode, Options};
use tabane_store::chunker::Chunker;

use super::{Subject, Unit, here};

/// The most messages: with more, building their table would take most of the time.
const MESSAGES_MAX: usize = 1 << 22;

/// ECB and CTR from the machine's memory go in pieces of this length, which does not change the
/// result of ECB.
const PIECE_LEN: usize = 1 << 20;

/// Byte that fills buffers before results are written to them.
const POISON: u8 = 0xa5;

const KEY: [u8; 16] = [7; 16];

/// An open card.
pub struct Bench {
    card: Card,
    /// Bytes a second of its bus to it and from it.
    pub bus: (f64, f64),
}

impl Bench {
    pub fn open() -> Result<Self, tabane_gpu::Error> {
        let card = Card::open(&Options::default())?;
        let bus = card.bus_bytes_per_s()?;
        Ok(Self { card, bus })
    }

    pub fn properties(&self) -> &tabane_gpu::Properties {
        self.card.properties()
    }

    /// Bytes a second at most of data on the card: what its memory gives, or its integer lanes
    /// take, of which a multiprocessor has 64.
    pub fn bound(&self, subject: Subject) -> f64 {
        let card = self.properties();
        let lanes = 64.0 * f64::from(card.multiprocessors) * card.clock_hz as f64;
        let memory = card.memory_bytes_per_s as f64;
        // AES writes as much as it reads.
        let passes = if matches!(subject, Subject::Aes(_)) {
            2.0
        } else {
            1.0
        };
        (lanes / subject.instructions_a_byte()).min(memory / passes)
    }

    /// Bytes a second of messages of `len` bytes of `data`; `None` of what there is not.
    pub fn rate(
        &self,
        unit: Unit,
        subject: Subject,
        len: usize,
        data: &[u8],
        seconds: f64,
    ) -> Result<Option<f64>> {
        let rate = match (subject, unit) {
            (Subject::Hash(_) | Subject::Cuts, Unit::CardResidentBits) => return Ok(None),
            (Subject::Hash(algorithm), Unit::CardResident) => {
                self.hash_resident(algorithm, len, data, seconds)
            }
            (Subject::Hash(algorithm), _) => self.hash_from_host(algorithm, len, data, seconds),
            (Subject::Cuts, _) => self.cuts(&data[..len], unit == Unit::CardFromHost, seconds),
            (Subject::Aes(mode), Unit::CardResident) => {
                self.aes_resident(Design::Tables, mode, &data[..len], seconds)
            }
            (Subject::Aes(mode), Unit::CardResidentBits) => {
                self.aes_resident(Design::Bits, mode, &data[..len], seconds)
            }
            (Subject::Aes(mode), _) => self.aes_from_host(mode, &data[..len], seconds),
        };
        rate.map(Some)
    }

    fn hash_resident(
        &self,
        algorithm: Algorithm,
        len: usize,
        data: &[u8],
        seconds: f64,
    ) -> Result<f64> {
        let messages: Vec<&[u8]> = data.chunks_exact(len).take(MESSAGES_MAX).collect();
        let bytes = len * messages.len();
        let mut on_card = self.card.allocate(bytes)?;
        on_card.write(&data[..bytes])?;
        let ranges: Vec<_> = (0..messages.len() as u64)
            .map(|i| i * len as u64..(i + 1) * len as u64)
            .collect();
        let table = self.card.messages(&ranges)?;
        let mut digests = self
            .card
            .allocate(messages.len() * algorithm.digest_len())?;
        digests.fill(POISON)?;
        self.card
            .hash_on_card(algorithm, &on_card, &table, &mut digests)?;
        let mut found = vec![0; digests.len()];
        digests.read(&mut found)?;
        ensure!(
            found == here::digests(algorithm, &messages),
            "the card's digests are wrong"
        );
        here::timed(bytes, seconds, || {
            Ok(self
                .card
                .hash_on_card(algorithm, &on_card, &table, &mut digests)?)
        })
    }

    fn hash_from_host(
        &self,
        algorithm: Algorithm,
        len: usize,
        data: &[u8],
        seconds: f64,
    ) -> Result<f64> {
        let messages: Vec<&[u8]> = data.chunks_exact(len).take(MESSAGES_MAX).collect();
        let found = self.card.hash_many(algorithm, &messages)?;
        ensure!(
            found == here::digests(algorithm, &messages),
            "the card's digests are wrong"
        );
        here::timed(len * messages.len(), seconds, || {
            self.card.hash_many(algorithm, &messages)?;
            Ok(())
        })
    }

    /// Finds on the card where to cut, with or without bringing the data there.
    fn cuts(&self, data: &[u8], bring: bool, seconds: f64) -> Result<f64> {
        let chunker = here::chunker();
        let mut gear = Gear::new(&self.card, chunker.hash().0)?;
        let mut on_card = self.card.allocate(data.len())?;
        on_card.write(data)?;
        let found = cut_on_card(&chunker, &mut gear, &on_card)?;
        ensure!(
            found == chunker.blocks(data, true).collect::<Vec<usize>>(),
            "the card's cuts are wrong"
        );
        here::timed(data.len(), seconds, || {
            if bring {
                on_card.write(data)?;
            }
            cut_on_card(&chunker, &mut gear, &on_card)?;
            Ok(())
        })
    }

    fn aes_resident(&self, design: Design, mode: Mode, data: &[u8], seconds: f64) -> Result<f64> {
        let key = Aes::new(&self.card, &KEY)?;
        let (mut from, mut to) = (
            self.card.allocate(data.len())?,
            self.card.allocate(data.len())?,
        );
        from.write(data)?;
        to.fill(POISON)?;
        let message = Message {
            start: 0,
            len: data.len(),
            vector: [0; 16],
        };
        let items = key.items(mode, &[message])?;
        key.crypt_on_card(design, &items, &from, &mut to)?;
        let mut found = vec![0; data.len()];
        to.read(&mut found)?;
        ensure!(
            found == here::ciphertext(&KEY, mode, data),
            "the card's ciphertext is wrong"
        );
        here::timed(data.len(), seconds, || {
            Ok(key.crypt_on_card(design, &items, &from, &mut to)?)
        })
    }

    fn aes_from_host(&self, mode: Mode, data: &[u8], seconds: f64) -> Result<f64> {
        let key = Aes::new(&self.card, &KEY)?;
        let mut bytes = data.to_vec();
        let crypt = |bytes: &mut [u8]| -> Result<()> {
            let blocks = (PIECE_LEN / 16) as u128;
            let vector = |number: usize| (number as u128 * blocks).to_be_bytes();
            let pieces = bytes.chunks_mut(PIECE_LEN).enumerate();
            let mut pieces: Vec<_> = pieces
                .map(|(number, piece)| (vector(number), piece))
                .collect();
            Ok(key.crypt_many(mode, &mut pieces)?)
        };
        crypt(&mut bytes)?;
        ensure!(
            bytes == here::ciphertext(&KEY, mode, data),
            "the card's ciphertext is wrong"
        );
        here::timed(data.len(), seconds, || crypt(&mut bytes))
    }
}

/// The lengths of the blocks of data that are on the card.
fn cut_on_card(chunker: &Chunker, gear: &mut Gear, data: &DeviceBuffer) -> Result<Vec<usize>> {
    let [strict, lax] = chunker.hash().1;
    let marks = gear.marks(data, strict, lax)?;
    Ok(chunker.blocks_by(data.len(), |positions, strict| {
        marks.first_below(positions, strict)
    }))
}
