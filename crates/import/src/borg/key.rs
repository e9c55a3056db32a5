//! Borg's cryptography: AES-256-CTR with HMAC-SHA256 or BLAKE2b, and PBKDF2 for passphrases.

use base64::prelude::{BASE64_STANDARD, Engine};
use blake2::digest::consts::U32;
use blake2::{Blake2b, Digest};
use sha2::Sha256;
use tabane_lanes::aes::{self, Ctr};
use tabane_lanes::{HmacKey, hmac_many};
use tabane_storage::Id;
use tabane_store::Algorithm;
use zeroize::Zeroizing;

use super::msgpack::Value;
use crate::error::Sound;

/// Rounds of PBKDF2 at most: borg takes 100,000.
const ROUNDS_MAX: u32 = 10_000_000;

/// Bytes of a tag.
const TAG_LEN: usize = 32;
/// Bytes of the count at which the cipher begins.
const COUNT_LEN: usize = 8;

/// How chunks are protected.
pub enum Key {
    /// Not at all.
    Plain,
    /// They are, with these keys.
    Keyed(Box<Keys>),
}

/// Keys of a repository.
pub struct Keys {
    /// Nothing where chunks are only authenticated.
    cipher: Option<aes::Key>,
    tag: Zeroizing<Vec<u8>>,
    name: Zeroizing<Vec<u8>>,
    is_blake2: bool,
}

/// How the first byte of a chunk says that it is protected.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Plain,
    Keyed { is_blake2: bool, is_encrypted: bool },
}

impl Mode {
    /// The mode of a chunk that begins with this byte.
    pub fn of(code: u8) -> Option<Self> {
        let keyed = |is_blake2, is_encrypted| Self::Keyed {
            is_blake2,
            is_encrypted,
        };
        Some(match code {
            0x02 => Self::Plain,
            // With a passphrase alone, with a key file, with a key in the repository.
            0x00 | 0x01 | 0x03 => keyed(false, true),
            0x04 | 0x05 => keyed(true, true),
            0x06 => keyed(true, false),
            0x07 => keyed(false, false),
            _ => return None,
        })
    }
}

impl Key {
    /// Opens a key in the form of a key file or of the repository's `config`; nothing if the
    /// passphrase is wrong.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn open(text: &str, passphrase: &[u8], mode: Mode) -> Sound<Option<Self>> {
        let Mode::Keyed {
            is_blake2,
            is_encrypted,
        } = mode
        else {
            return Ok(Some(Self::Plain));
        };
        let text: String = text.split_whitespace().collect();
        let bytes = BASE64_STANDARD
            .decode(text)
            .map_err(|error| error.to_string())?;
        let wrapped = Value::only(&bytes)?;
        let field = |name: &str| {
            let missing = || format!("it lacks {name}");
            wrapped.bytes(name).ok_or_else(missing)
        };
        if field("algorithm")? != b"sha256" {
            return Err("its key derivation is not known".to_owned());
        }
        let rounds = wrapped
            .int("iterations")
            .and_then(|count| u32::try_from(count).ok());
        let rounds = rounds.filter(|count| (1..=ROUNDS_MAX).contains(count));
        let rounds = rounds.ok_or("its cost of PBKDF2 cannot be used")?;
        let mut derived = Zeroizing::new([0; 32]);
        pbkdf2::pbkdf2_hmac::<Sha256>(passphrase, field("salt")?, rounds, &mut *derived);
        let cipher = aes::Key::new(&*derived).map_err(|error| error.to_string())?;
        let mut data = Zeroizing::new(field("data")?.to_vec());
        Ctr::new(&cipher, &[0; 16]).apply(&mut data[..]);
        if !is_tag(&hmac(&*derived, &data), field("hash")?) {
            return Ok(None);
        }
        let keys = Value::only(&data)?;
        let key = |name: &str| {
            let bytes = keys.bytes(name).map(|bytes| Zeroizing::new(bytes.to_vec()));
            bytes.ok_or_else(|| format!("it lacks {name}"))
        };
        let cipher = if is_encrypted {
            Some(aes::Key::new(&key("enc_key")?).map_err(|error| error.to_string())?)
        } else {
            None
        };
        Ok(Some(Self::Keyed(Box::new(Keys {
            cipher,
            tag: key("enc_hmac_key")?,
            name: key("id_key")?,
            is_blake2,
        }))))
    }

    /// Opens a chunk where it lies: what is within is still compressed.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn open_chunk<'m>(&self, sealed: &'m mut [u8]) -> Sound<&'m [u8]> {
        const WRONG: &str = "it is not as it was written";
        let (code, rest) = sealed.split_first_mut().ok_or(WRONG)?;
        let mode = Mode::of(*code).ok_or("it is protected in a way that is not known")?;
        let keys = match (self, mode) {
            (Self::Plain, Mode::Plain) => return Ok(rest),
            (Self::Keyed(keys), Mode::Keyed { .. }) => keys,
            // Whoever writes to the place could leave chunks unprotected.
            _ => return Err("it is protected in another way than the repository".to_owned()),
        };
        let Some(cipher) = &keys.cipher else {
            return Ok(rest);
        };
        let (tag, rest) = rest.split_at_mut_checked(TAG_LEN).ok_or(WRONG)?;
        if !is_tag(&keys.tag_of(rest), tag) {
            return Err(WRONG.to_owned());
        }
        let (count, message) = rest.split_at_mut_checked(COUNT_LEN).ok_or(WRONG)?;
        let mut first = [0; 16];
        first[COUNT_LEN..].copy_from_slice(count);
        Ctr::new(cipher, &first).apply(&mut *message);
        Ok(message)
    }

    /// The IDs of chunks with these bytes.
    pub fn ids(&self, chunks: &[&[u8]]) -> Vec<Id> {
        match self {
            Self::Plain => {
                let digests = Algorithm::Sha256.digest_many(chunks).into_iter();
                digests.map(Id::from).collect()
            }
            Self::Keyed(keys) if keys.is_blake2 => chunks
                .iter()
                .map(|chunk| Id(blake2(&keys.name, chunk)))
                .collect(),
            Self::Keyed(keys) => {
                let key = HmacKey::new(tabane_lanes::Algorithm::Sha256, &keys.name);
                let messages: Vec<_> = chunks.iter().map(|chunk| (&key, *chunk)).collect();
                hmac_many(&messages)
                    .iter()
                    .map(|tag| Id(bytes_of(tag)))
                    .collect()
            }
        }
    }
}

impl Keys {
    fn tag_of(&self, bytes: &[u8]) -> [u8; TAG_LEN] {
        if self.is_blake2 {
            blake2(&self.tag, bytes)
        } else {
            hmac(&self.tag, bytes)
        }
    }
}

/// BLAKE2b-256 with the key in front of the message.
fn blake2(key: &[u8], bytes: &[u8]) -> [u8; 32] {
    let mut hasher = Blake2b::<U32>::new();
    hasher.update(key);
    hasher.update(bytes);
    hasher.finalize().into()
}

fn hmac(key: &[u8], bytes: &[u8]) -> [u8; 32] {
    let key = HmacKey::new(tabane_lanes::Algorithm::Sha256, key);
    bytes_of(&hmac_many(&[(&key, bytes)])[0])
}

fn bytes_of(digest: &tabane_lanes::Digest) -> [u8; 32] {
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

fn is_tag(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
    one.len() == other.len() && differences == 0
}
