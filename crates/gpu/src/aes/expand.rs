//! Expands keys on the processor.

use zeroize::Zeroizing;

use super::tables::{TABLES, multiply};
use crate::error::Error;

/// Bytes of a block, and of a round key.
pub(super) const BLOCK: usize = 16;

/// Round keys of one direction, in bytes.
pub(super) fn round_keys_len(rounds: u32) -> usize {
    BLOCK * (rounds as usize + 1)
}

/// Round keys to encrypt, and those of the equivalent inverse cipher.
///
/// Looks tables up by bytes of the key, on the processor: only once a key, which tells little to an
/// attacker who can time caches.
pub(super) fn expand(key: &[u8]) -> Result<Zeroizing<Vec<u8>>, Error> {
    if key.len() != 16 && key.len() != 32 {
        return Err(Error::Misuse("a key has 16 or 32 bytes"));
    }
    let (words, rounds) = (key.len() / 4, key.len() / 4 + 6);
    let mut encrypt = Zeroizing::new(Vec::with_capacity(4 * (rounds + 1)));
    encrypt.extend(
        key.as_chunks()
            .0
            .iter()
            .map(|bytes| u32::from_le_bytes(*bytes)),
    );
    let mut constant = 1;
    for i in words..4 * (rounds + 1) {
        let mut word = encrypt[i - 1];
        if i % words == 0 {
            word = TABLES.substitute_word(word.rotate_right(8)) ^ u32::from(constant);
            constant = multiply(constant, 2);
        } else if words == 8 && i % 8 == 4 {
            word = TABLES.substitute_word(word);
        }
        let before = encrypt[i - words];
        encrypt.push(before ^ word);
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(2 * round_keys_len(rounds as u32)));
    bytes.extend(encrypt.iter().flat_map(|word| word.to_le_bytes()));
    for round in (0..=rounds).rev() {
        for &word in &encrypt[4 * round..][..4] {
            let inner = round > 0 && round < rounds;
            let word = if inner { TABLES.unmix(word) } else { word };
            bytes.extend(word.to_le_bytes());
        }
    }
    Ok(bytes)
}
