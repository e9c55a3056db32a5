//! Restic's cryptography: AES-256-CTR with Poly1305-AES, and scrypt for passwords.

use base64::prelude::{BASE64_STANDARD, Engine};
use poly1305::Poly1305;
use poly1305::universal_hash::KeyInit;
use serde::Deserialize;
use tabane_lanes::aes::{self, Ctr};
use zeroize::Zeroizing;

/// Bytes of a nonce, and of a tag.
const BLOCK_LEN: usize = 16;

/// Bytes by which a sealed message is longer: its nonce and its tag.
pub const OVERHEAD_LEN: usize = 2 * BLOCK_LEN;

/// Largest scrypt memory that is accepted, in bytes: restic uses 32 MiB.
const SCRYPT_MEMORY_MAX: u64 = 1 << 30;

/// A key that opens messages.
pub struct Key {
    encrypt: aes::Key,
    /// The key that encrypts nonces for the tag.
    mac: aes::Key,
    /// The point at which Poly1305 evaluates.
    point: Zeroizing<[u8; BLOCK_LEN]>,
}

impl Key {
    fn new(encrypt: &[u8], mac: &[u8], point: &[u8]) -> Option<Self> {
        // The lengths of AES-256, AES-128 and of a point.
        if (encrypt.len(), mac.len()) != (32, 16) {
            return None;
        }
        Some(Self {
            encrypt: aes::Key::new(encrypt).ok()?,
            mac: aes::Key::new(mac).ok()?,
            point: Zeroizing::new(point.try_into().ok()?),
        })
    }

    /// Opens a message where it lies: nonce, ciphertext, tag. Nothing if it is not authentic.
    pub fn open<'m>(&self, sealed: &'m mut [u8]) -> Option<&'m mut [u8]> {
        let (nonce, rest) = sealed.split_first_chunk_mut::<BLOCK_LEN>()?;
        let (message, tag) = rest.split_last_chunk_mut::<BLOCK_LEN>()?;
        let mut one_time = Zeroizing::new([0; 2 * BLOCK_LEN]);
        let (point, pad) = one_time.split_at_mut(BLOCK_LEN);
        point.copy_from_slice(&*self.point);
        pad.copy_from_slice(nonce);
        aes::ecb_encrypt(&self.mac, &mut *pad).ok()?;
        let expected = Poly1305::new((&*one_time).into()).compute_unpadded(message);
        if expected.as_slice() != tag {
            return None;
        }
        Ctr::new(&self.encrypt, nonce).apply(&mut *message);
        Some(message)
    }
}

/// A file in `keys/`.
#[derive(Deserialize)]
struct KeyFile {
    kdf: String,
    #[serde(rename = "N")]
    n: u64,
    r: u32,
    p: u32,
    salt: String,
    data: String,
}

/// The keys within such a file.
#[derive(Deserialize)]
struct Master<'m> {
    #[serde(borrow)]
    mac: MasterMac<'m>,
    encrypt: &'m str,
}

#[derive(Deserialize)]
struct MasterMac<'m> {
    k: &'m str,
    r: &'m str,
}

/// Opens a key file; nothing if the password is wrong.
///
/// # Errors
/// What is wrong with the file.
pub fn open_key_file(file: &[u8], password: &[u8]) -> Result<Option<Key>, String> {
    let file: KeyFile = serde_json::from_slice(file).map_err(|error| error.to_string())?;
    if file.kdf != "scrypt" {
        return Err(format!("its key derivation {:?} is not known", file.kdf));
    }
    let decode = |text: &str| {
        let bytes = BASE64_STANDARD.decode(text).map(Zeroizing::new);
        bytes.map_err(|error| error.to_string())
    };
    let memory = file.n.saturating_mul(128).saturating_mul(file.r.into());
    if !file.n.is_power_of_two() || memory > SCRYPT_MEMORY_MAX {
        return Err("its cost of scrypt cannot be used".to_owned());
    }
    let cost = scrypt::Params::new(file.n.ilog2() as u8, file.r, file.p)
        .map_err(|_| "its cost of scrypt cannot be used".to_owned())?;
    let mut derived = Zeroizing::new([0; 64]);
    scrypt::scrypt(password, &decode(&file.salt)?, &cost, &mut *derived)
        .map_err(|error| error.to_string())?;
    let key = Key::new(&derived[..32], &derived[32..48], &derived[48..])
        .ok_or("its key cannot be used")?;
    let mut data = decode(&file.data)?;
    let Some(master) = key.open(&mut data) else {
        return Ok(None);
    };
    let master: Master<'_> = serde_json::from_slice(master).map_err(|error| error.to_string())?;
    let (encrypt, k, r) = (
        decode(master.encrypt)?,
        decode(master.mac.k)?,
        decode(master.mac.r)?,
    );
    let master = Key::new(&encrypt, &k, &r);
    master
        .map(Some)
        .ok_or("its keys have wrong lengths".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vector of Poly1305-AES in Bernstein's paper, with an empty message of AES-CTR around:
    /// nonce, message, tag.
    #[test]
    fn tags_are_poly1305_aes() {
        let hex = |text: &str| -> Vec<u8> {
            let digits = text.as_bytes().chunks(2);
            let byte = |pair: &[u8]| {
                let pair = std::str::from_utf8(pair).expect("ASCII");
                u8::from_str_radix(pair, 16).expect("digits")
            };
            digits.map(byte).collect()
        };
        let k = hex("ec074c835580741701425b623235add6");
        let r = hex("851fc40c3467ac0be05cc20404f3f700");
        let nonce = hex("fb447350c4e868c52ac3275cf9d4327e");
        let message = hex("f3f6");
        let tag = hex("f4c633c3044fc145f84f335cb81953de");
        let key = Key::new(&[0; 32], &k, &r).expect("a key");
        let mut sealed = [nonce, message, tag].concat();
        for at in 0..sealed.len() {
            sealed[at] ^= 1;
            assert!(key.open(&mut sealed.clone()).is_none(), "byte {at}");
            sealed[at] ^= 1;
        }
        assert_eq!(key.open(&mut sealed).expect("authentic").len(), 2);
        for len in 0..OVERHEAD_LEN {
            assert!(key.open(&mut vec![0; len]).is_none());
        }
    }

    #[test]
    fn key_files_that_would_take_all_memory_are_refused() {
        let file = |n: u64| {
            format!(r#"{{"kdf":"scrypt","N":{n},"r":8,"p":1,"salt":"AAAA","data":"AAAA"}}"#)
        };
        for n in [0, 3, 1 << 40, u64::MAX] {
            assert!(open_key_file(file(n).as_bytes(), b"x").is_err(), "{n}");
        }
        assert!(open_key_file(file(16).as_bytes(), b"x").is_ok_and(|key| key.is_none()));
    }
}
