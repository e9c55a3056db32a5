//! Keys on a card, and encryption with them.

use std::sync::Arc;

use super::expand::{BLOCK, expand, round_keys_len};
use super::kernels::{DECRYPT, ENCRYPT, INVERSE, Kernels};
use crate::card::Card;
use crate::driver::Handle;
use crate::error::Error;
use crate::kernel::Kernel;
use crate::known_answers;
use crate::memory::DeviceBuffer;

/// Bytes of an item of work: `Item` of `aes.cu`.
const ITEM_LEN: usize = 32;

/// Bytes of an item: longer messages are cut, so that all threads have work.
const ITEM_MAX: usize = 16 << 10;

/// Messages are shorter than this, in bytes, so that places in them fit into 32 bits.
const MESSAGE_MAX: usize = 1 << 31;

/// Blocks of threads that a multiprocessor has at a time, by the shared memory that they take; more
/// only fill tables again.
const BLOCKS_PER_MULTIPROCESSOR: u32 = 5;

/// A mode and its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Each block for itself.
    EcbEncrypt,
    /// The inverse of ECB encryption.
    EcbDecrypt,
    /// Exclusive or with encrypted counters; the vector is the first counter block. Of any length,
    /// and its own inverse.
    Ctr,
    /// Each block is a link of a chain, so only messages are independent.
    CbcEncrypt,
    /// The inverse of CBC encryption, for which blocks are independent.
    CbcDecrypt,
}

/// Implementations of ECB and CTR. The faster one depends on the card: measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// By tables, of which each bank of shared memory has a copy.
    Tables,
    /// 32 blocks in a thread, bit by bit. Modes without such code use tables.
    Bits,
}

/// A key on a card; wiped there when it is dropped.
pub struct Aes<'c> {
    card: &'c Card,
    kernels: &'c Kernels,
    /// Round keys to encrypt, and behind them those to decrypt.
    keys: DeviceBuffer,
    rounds: u32,
}

/// A message in the memory of a card: where it begins, a multiple of 16 bytes, its length, and its
/// vector.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Bytes from the beginning of the buffer.
    pub start: u64,
    /// Length in bytes.
    pub len: usize,
    /// The first counter block of CTR, the initialization vector of CBC.
    pub vector: [u8; BLOCK],
}

/// Work for a card: items, and how many threads share one.
pub struct Items {
    items: DeviceBuffer,
    count: u32,
    lanes: u32,
    mode: Mode,
    end: u64,
}

impl<'c> Aes<'c> {
    /// A key of 16 or 32 bytes. The first key also loads the kernels, and tests them with known
    /// answers.
    ///
    /// # Errors
    /// The key has another length, or the card fails.
    pub fn new(card: &'c Card, key: &[u8]) -> Result<Self, Error> {
        if card.aes.get().is_none() {
            Self::unchecked(card, &[0; 16])?;
            known_answers::ciphers(card).inspect_err(|error| card.core.give_up(error))?;
        }
        Self::unchecked(card, key)
    }

    pub(crate) fn unchecked(card: &'c Card, key: &[u8]) -> Result<Self, Error> {
        let kernels = card.aes.get_or_init(|| Kernels::load(&card.core)).as_ref();
        let round_keys = expand(key)?;
        let mut keys = card.allocate(round_keys.len())?;
        keys.write(&round_keys)?;
        Ok(Self {
            card,
            kernels: kernels.map_err(Error::clone)?,
            keys,
            rounds: key.len() as u32 / 4 + 6,
        })
    }

    /// Encrypts or decrypts messages in the machine's memory, each with its vector, in their place.
    ///
    /// # Errors
    /// When a message is no multiple of 16 bytes (except with CTR) or too long for a slot of
    /// staging memory, or the card fails; some messages may be encrypted then.
    pub fn crypt_many(
        &self,
        mode: Mode,
        messages: &mut [([u8; BLOCK], &mut [u8])],
    ) -> Result<(), Error> {
        self.crypt_many_by(Design::Tables, mode, messages)
    }

    /// [`Aes::crypt_many`] by the design of choice.
    ///
    /// # Errors
    /// As [`Aes::crypt_many`].
    pub fn crypt_many_by(
        &self,
        design: Design,
        mode: Mode,
        messages: &mut [([u8; BLOCK], &mut [u8])],
    ) -> Result<(), Error> {
        // The results lie behind what they are made of.
        let room = self.card.ring.slot_len() / 2;
        let mut rest = messages;
        let mut batches = Vec::new();
        while !rest.is_empty() {
            let (mut fits, mut end) = (0, 0);
            for (_, data) in &*rest {
                let next = end + data.len().next_multiple_of(BLOCK);
                if next + ITEM_LEN * (fits + 1 + next / ITEM_MAX) > room {
                    break;
                }
                (fits, end) = (fits + 1, next);
            }
            if fits == 0 {
                return Err(Error::TooLong(rest[0].1.len()));
            }
            let (batch, later) = rest.split_at_mut(fits);
            batches.push(batch);
            rest = later;
        }
        let ring = &self.card.ring;
        ring.run_all(batches, |batch| self.crypt_batch(design, mode, batch))
    }

    fn crypt_batch(
        &self,
        design: Design,
        mode: Mode,
        batch: &mut [([u8; BLOCK], &mut [u8])],
    ) -> Result<(), Error> {
        let mut list = Vec::with_capacity(batch.len());
        let mut end = 0;
        for (vector, data) in &*batch {
            list.push(Message {
                start: end as u64,
                len: data.len(),
                vector: *vector,
            });
            end += data.len().next_multiple_of(BLOCK);
        }
        let (items, lanes) = items(mode, &list)?;
        let results = (end + items.len()).next_multiple_of(BLOCK);
        self.card.ring.with_slot(|slot| {
            let bytes = slot.host.bytes();
            for (message, (_, data)) in list.iter().zip(&*batch) {
                bytes[message.start as usize..][..data.len()].copy_from_slice(data);
            }
            bytes[end..][..items.len()].copy_from_slice(&items);
            slot.run(
                &self.card.core,
                end + items.len(),
                results..results + end,
                |stream, base| {
                    let count = (items.len() / ITEM_LEN) as u32;
                    // SAFETY: items and data lie where the slot has them, as far apart as `results`
                    // says.
                    unsafe {
                        self.launch(
                            design,
                            mode,
                            stream,
                            base + end as u64,
                            count,
                            lanes,
                            base,
                            base + results as u64,
                        )
                    }
                },
            )?;
            let bytes = &slot.host.bytes()[results..];
            for (message, (_, data)) in list.iter().zip(batch) {
                data.copy_from_slice(&bytes[message.start as usize..][..message.len]);
            }
            Ok(())
        })
    }

    /// Makes the list of work for messages that lie on the card.
    ///
    /// # Errors
    /// One begins or ends at no multiple of 16 bytes (CTR may end anywhere) or has 2³¹ bytes or
    /// more, or the card fails.
    pub fn items(&self, mode: Mode, messages: &[Message]) -> Result<Items, Error> {
        let (bytes, lanes) = items(mode, messages)?;
        let mut items = self.card.allocate(bytes.len())?;
        items.write(&bytes)?;
        let end = |message: &Message| message.start.saturating_add(message.len as u64);
        Ok(Items {
            items,
            count: (bytes.len() / ITEM_LEN) as u32,
            lanes,
            mode,
            end: messages.iter().map(end).max().unwrap_or(0),
        })
    }

    /// Encrypts or decrypts messages that lie in `from` on the card to the same places of `to`.
    /// Nothing is copied.
    ///
    /// # Errors
    /// The messages do not lie in both, or the card fails.
    pub fn crypt_on_card(
        &self,
        design: Design,
        items: &Items,
        from: &DeviceBuffer,
        to: &mut DeviceBuffer,
    ) -> Result<(), Error> {
        if items.end > from.len().min(to.len()) as u64 {
            return Err(Error::Misuse("a message ends behind its buffer"));
        }
        let cores = [from, &items.items, to].map(DeviceBuffer::core);
        if cores.iter().any(|core| !Arc::ptr_eq(core, &self.card.core)) {
            return Err(Error::Misuse("a buffer is of another card"));
        }
        let (list, from, to) = (items.items.address(), from.address(), to.address());
        self.card.core.on_stream(|_, stream| {
            // SAFETY: all items lie in both buffers, as checked; `on_stream` waits.
            unsafe {
                self.launch(
                    design,
                    items.mode,
                    stream,
                    list,
                    items.count,
                    items.lanes,
                    from,
                    to,
                )
            }
        })
    }

    /// Starts the kernel of a mode.
    ///
    /// # Safety
    /// The card has `count` items at `items`, which lie in the memory at `from` and `to`, and all
    /// of it stays until the stream is done.
    #[allow(clippy::too_many_arguments)]
    unsafe fn launch(
        &self,
        design: Design,
        mode: Mode,
        stream: Handle,
        items: u64,
        count: u32,
        lanes: u32,
        from: u64,
        to: u64,
    ) -> Result<(), Error> {
        if count == 0 {
            return Ok(());
        }
        let core = &self.card.core;
        let (tables, rounds) = (self.kernels.tables.address(), self.rounds);
        let encrypt = self.keys.address();
        let decrypt = encrypt + round_keys_len(rounds) as u64;
        let at_a_time = BLOCKS_PER_MULTIPROCESSOR * self.card.properties().multiprocessors.max(1);
        let blocks = |kernel: Kernel| {
            let threads = u64::from(count) * u64::from(lanes);
            threads
                .div_ceil(kernel.threads.into())
                .min(at_a_time.into()) as u32
        };
        let kernels = self.kernels;
        let by_bits = match (design, mode) {
            (Design::Bits, Mode::EcbEncrypt) => Some(kernels.ecb_encrypt_bits),
            (Design::Bits, Mode::Ctr) => Some(kernels.ctr_bits),
            _ => None,
        };
        // SAFETY: the arguments of each kernel; tables and keys are ours, the rest is the caller's
        // promise.
        unsafe {
            if let Some(kernel) = by_bits {
                return kernel.launch(
                    core,
                    stream,
                    blocks(kernel),
                    [&encrypt, &rounds, &items, &count, &lanes, &from, &to],
                );
            }
            let (kernel, columns, inverse, keys) = match mode {
                Mode::EcbEncrypt => (kernels.ecb_encrypt, tables + ENCRYPT, 0, encrypt),
                Mode::Ctr => (kernels.ctr, tables + ENCRYPT, 0, encrypt),
                Mode::EcbDecrypt => (
                    kernels.ecb_decrypt,
                    tables + DECRYPT,
                    tables + INVERSE,
                    decrypt,
                ),
                Mode::CbcDecrypt => (
                    kernels.cbc_decrypt,
                    tables + DECRYPT,
                    tables + INVERSE,
                    decrypt,
                ),
                Mode::CbcEncrypt => {
                    let kernel = kernels.cbc_encrypt;
                    let (columns, blocks) = (tables + ENCRYPT, count.div_ceil(kernel.threads));
                    return kernel.launch(
                        core,
                        stream,
                        blocks,
                        [&columns, &encrypt, &rounds, &items, &count, &from, &to],
                    );
                }
            };
            kernel.launch(
                core,
                stream,
                blocks(kernel),
                [
                    &columns, &inverse, &keys, &rounds, &items, &count, &lanes, &from, &to,
                ],
            )
        }
    }
}

impl Drop for Aes<'_> {
    fn drop(&mut self) {
        // A card that was given up takes no calls; its memory goes with the process.
        let _ = self.keys.fill(0);
    }
}

/// The items of messages, as the kernels read them, and how many threads share one.
fn items(mode: Mode, messages: &[Message]) -> Result<(Vec<u8>, u32), Error> {
    let mut bytes = Vec::with_capacity(ITEM_LEN * messages.len());
    let mut add = |start: u64, len: usize, continues: bool, vector: [u8; BLOCK]| {
        bytes.extend(start.to_le_bytes());
        bytes.extend((len as u32).to_le_bytes());
        bytes.extend(u32::from(continues).to_le_bytes());
        bytes.extend(vector);
    };
    let mut sorted: Vec<&Message> = messages.iter().collect();
    if mode == Mode::CbcEncrypt {
        // Threads that run in step should have as much to do.
        sorted.sort_by_key(|message| std::cmp::Reverse(message.len));
    }
    let mut longest = 0;
    for message in sorted {
        if message.len >= MESSAGE_MAX {
            return Err(Error::TooLong(message.len));
        }
        if message.start % BLOCK as u64 != 0 || mode != Mode::Ctr && message.len % BLOCK != 0 {
            return Err(Error::Misuse("a message begins or ends within a block"));
        }
        longest = longest.max(message.len);
        if mode == Mode::CbcEncrypt {
            add(message.start, message.len, false, message.vector);
            continue;
        }
        for at in (0..message.len).step_by(ITEM_MAX) {
            let counter = u128::from_be_bytes(message.vector).wrapping_add((at / BLOCK) as u128);
            let vector = match mode {
                Mode::Ctr => counter.to_be_bytes(),
                _ => message.vector,
            };
            add(
                message.start + at as u64,
                ITEM_MAX.min(message.len - at),
                at > 0,
                vector,
            );
        }
    }
    // Neighbours take neighbouring blocks, as long as there is a block for each.
    let lanes = match mode {
        Mode::CbcEncrypt => 1,
        _ => longest.div_ceil(BLOCK).clamp(1, 32).next_power_of_two() as u32,
    };
    Ok((bytes, lanes))
}
