//! Records of TLS up to 1.2 in CBC: padding, and a MAC before it, neither of which is authenticated
//! (RFC 5246, 6.2.3.2).
//!
//! The time of a record must not depend on whether its padding is right, or else an attacker who
//! sends records learns the plaintext (Vaudenay 2002; Lucky Thirteen, 2013). So nothing here
//! branches or reads memory by what was decrypted: choices are masks, and a wrong padding gives a
//! MAC that is random, and wrong when it is compared.

use core::hint::black_box;

use tabane_lanes::aes::BLOCK;

use crate::error::Reason;
use crate::guard::erase;

/// Bytes of a MAC at most.
const MAC_BYTES_MAX: usize = 64;
/// Bytes of padding at most, with the byte that says how many there are.
const PADDING_BYTES_MAX: usize = 256;

const SSL3: u64 = 0x0300;
const TLS1: u64 = 0x0301;
const TLS1_1: u64 = 0x0302;
const TLS1_2: u64 = 0x0303;
const DTLS1: u64 = 0xfeff;
const DTLS1_2: u64 = 0xfefd;
/// An early DTLS of Cisco.
const DTLS1_BAD: u64 = 0x0100;

/// The parameters of a connection's records, and the MAC of the last opened record.
#[derive(Clone)]
pub(super) struct TlsRecords {
    /// 0: no records.
    version: u64,
    mac_len: usize,
    mac: [u8; MAC_BYTES_MAX],
    /// In the place of the MAC of a record with wrong padding.
    random: [u8; MAC_BYTES_MAX],
}

impl Default for TlsRecords {
    fn default() -> Self {
        Self {
            version: 0,
            mac_len: 0,
            mac: [0; MAC_BYTES_MAX],
            random: [0; MAC_BYTES_MAX],
        }
    }
}

impl Drop for TlsRecords {
    fn drop(&mut self) {
        erase(&mut self.mac[..self.mac_len]);
    }
}

impl TlsRecords {
    /// Whether updates are records.
    pub(super) fn on(&self) -> bool {
        self.version != 0
    }

    pub(super) fn set_version(&mut self, version: u64) {
        self.version = version;
    }

    /// 0 if the MAC is not within: encrypt-then-MAC (RFC 7366).
    pub(super) fn set_mac_len(&mut self, len: u64) -> Result<(), Reason> {
        let len = usize::try_from(len)
            .ok()
            .filter(|&len| len <= MAC_BYTES_MAX);
        self.mac_len = len.ok_or(Reason::FailedToGetParameter)?;
        getrandom::fill(&mut self.random).map_err(|_| Reason::Fault)
    }

    /// The MAC of the last record.
    pub(super) fn mac(&self) -> &[u8] {
        &self.mac[..self.mac_len]
    }

    /// Appends padding to a record of `len` bytes: the least. Returns the new length.
    pub(super) fn pad(&self, place: &mut [u8], len: usize) -> Result<usize, Reason> {
        let missing = BLOCK - len % BLOCK;
        let padding = place.get_mut(len..len + missing);
        let padding = padding.ok_or(Reason::CipherOperationFailed)?;
        let count = (missing - 1) as u8;
        padding.fill(if self.version == SSL3 { 0 } else { count });
        padding[missing - 1] = count;
        Ok(len + missing)
    }

    /// Takes padding, MAC and explicit IV off a decrypted record. Returns the length of what is
    /// left, which begins behind the IV where there is one. The MAC is kept: if the padding is
    /// wrong, a random one.
    ///
    /// # Errors
    ///
    /// When the record is visibly too short; without a MAC, also when the padding is wrong.
    pub(super) fn open(&mut self, record: &[u8]) -> Result<usize, Reason> {
        let failed = Reason::CipherOperationFailed;
        let record = match self.version {
            SSL3 | TLS1 => record,
            TLS1_1 | TLS1_2 | DTLS1 | DTLS1_2 | DTLS1_BAD => record.get(BLOCK..).ok_or(failed)?,
            _ => return Err(failed),
        };
        let overhead = 1 + self.mac_len;
        if record.len() < overhead {
            return Err(failed);
        }
        let padding = usize::from(record[record.len() - 1]);
        let mut good = at_least(record.len(), overhead + padding);
        if self.version == SSL3 {
            // Any bytes, but not more than needed.
            good &= at_least(BLOCK, padding + 1);
        } else {
            // As many as there may be are looked at, however many there are.
            for (i, &byte) in record.iter().rev().take(PADDING_BYTES_MAX).enumerate() {
                let within = at_least(padding, i);
                good &= !within | equal(usize::from(byte), padding);
            }
        }
        let end = record.len() - (good & (padding + 1));
        if self.mac_len == 0 {
            // Authenticated before it was decrypted: nothing to hide.
            return if good == 0 { Err(failed) } else { Ok(end) };
        }
        let start = end - self.mac_len;
        self.copy_mac(record, start, good);
        Ok(start)
    }

    /// Copies the MAC, which begins at `start`, a secret. Every byte of the record where it may be
    /// is looked at, for every byte of the MAC.
    fn copy_mac(&mut self, record: &[u8], start: usize, good: usize) {
        // The record's length is no secret.
        let first = record
            .len()
            .saturating_sub(self.mac_len + PADDING_BYTES_MAX);
        let window = &record[first..];
        let mac = &mut self.mac[..self.mac_len];
        mac.fill(0);
        for (i, byte) in mac.iter_mut().enumerate() {
            let offset = start - first + i;
            for (at, &candidate) in window.iter().enumerate() {
                *byte |= candidate & equal(at, offset) as u8;
            }
        }
        for (byte, random) in mac.iter_mut().zip(self.random) {
            *byte = (*byte & good as u8) | (random & !good as u8);
        }
    }
}

/// All bits if `a >= b`, else none. Both are less than 2⁶³.
fn at_least(a: usize, b: usize) -> usize {
    // Hidden from the compiler, which might see a condition in it and branch.
    black_box((a.wrapping_sub(b) >> (usize::BITS - 1)).wrapping_sub(1))
}

/// All bits if `a == b`, else none.
fn equal(a: usize, b: usize) -> usize {
    let difference = a ^ b;
    let zero = !(difference | difference.wrapping_neg()) >> (usize::BITS - 1);
    black_box(zero.wrapping_neg())
}
