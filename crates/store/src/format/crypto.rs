//! Keys, and how an object is sealed.
//!
//! Every object begins with a header of 40 bytes: `TABANE`, one byte for its kind, one for the
//! format, and a random salt of 32. Its key is HKDF-SHA-256 (RFC 5869) of the master key with that
//! salt, its parts are sealed with AES-256-GCM (NIST SP 800-38D) under the nonces 0, 1, 2, …: a key
//! is used for one object only, so no nonce repeats.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use tabane_index::{PageKey, PageKeys};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::error::{Error, Result};
use tabane_storage::{ObjectKind, random};

/// The latest format of repositories that this program knows: that of their config.
pub const FORMAT: u8 = 2;

/// The format of every other object.
pub const OBJECT_FORMAT: u8 = 1;

/// Length of an object's header in bytes.
pub const HEADER_LEN: usize = 40;

/// What sealing adds to a part, in bytes.
pub const TAG_LEN: usize = 16;

/// Length of an object's salt in bytes.
pub const SALT_LEN: usize = 32;

const MAGIC: &[u8; 6] = b"TABANE";
const KEY_LEN: usize = 32;

/// Where a header has the format.
const FORMAT_AT: usize = 7;

/// A random salt that makes an object's key its own.
pub type ObjectSalt = [u8; SALT_LEN];

/// The repository's secret, from which all others are derived.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct MasterKey([u8; KEY_LEN]);

/// The key of one object.
pub struct ObjectKey(LessSafeKey);

impl MasterKey {
    /// A new random key.
    pub fn random() -> Self {
        Self(random())
    }

    /// The key of the object of this kind with this salt.
    pub fn object_key(&self, kind: ObjectKind, salt: &ObjectSalt) -> ObjectKey {
        let mut key = [0; KEY_LEN];
        derive(&self.0, salt, &prefix(kind, OBJECT_FORMAT), &mut key);
        let object_key = ObjectKey::new(&key);
        key.zeroize();
        object_key
    }

    /// The key of the object with this header, whatever its format.
    fn key_of(&self, header: &[u8; HEADER_LEN]) -> ObjectKey {
        let mut key = [0; KEY_LEN];
        derive(&self.0, &header[8..], &header[..8], &mut key);
        let object_key = ObjectKey::new(&key);
        key.zeroize();
        object_key
    }

    /// Seals a whole object that has one part.
    pub fn seal_object(&self, kind: ObjectKind, payload: &[u8]) -> Vec<u8> {
        self.seal_with(&header(kind, &random()), payload)
    }

    /// Seals the config of a repository of this format.
    pub fn seal_config(&self, format: u8, payload: &[u8]) -> Vec<u8> {
        let mut header = header(ObjectKind::Config, &random());
        header[FORMAT_AT] = format;
        self.seal_with(&header, payload)
    }

    fn seal_with(&self, header: &[u8; HEADER_LEN], payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_LEN + payload.len() + TAG_LEN);
        bytes.extend_from_slice(header);
        bytes.extend_from_slice(payload);
        self.key_of(header).seal(0, &mut bytes, HEADER_LEN);
        bytes
    }

    /// Opens a whole object that has one part; `what` names it in errors.
    ///
    /// # Errors
    /// [`Error::Damaged`] for bytes that this key did not seal, [`Error::NewerFormat`].
    pub fn open_object(&self, kind: ObjectKind, mut bytes: Vec<u8>, what: &str) -> Result<Vec<u8>> {
        parse_header(kind, &bytes, what)?;
        let header = *bytes.first_chunk().expect("it was parsed");
        let payload = self
            .key_of(&header)
            .open(0, &mut bytes[HEADER_LEN..])
            .ok_or_else(|| Error::damaged(what, "its contents fail authentication"))?;
        Ok(payload.to_vec())
    }

    /// The secret by which a storage can prove what it stored.
    pub(crate) fn storage_secret(&self) -> Zeroizing<[u8; KEY_LEN]> {
        let mut secret = Zeroizing::new([0; KEY_LEN]);
        derive(&self.0, &[], b"tabane/2 cell tags", &mut *secret);
        secret
    }

    /// Wraps this key with the key that a password gave; `wrapping` must never wrap twice.
    pub(crate) fn wrap(&self, wrapping: &ObjectKey) -> Vec<u8> {
        let mut bytes = self.0.to_vec();
        wrapping.seal(0, &mut bytes, 0);
        bytes
    }

    /// Undoes [`MasterKey::wrap`]; nothing if the password was another.
    pub(crate) fn unwrap(wrapping: &ObjectKey, mut wrapped: Vec<u8>) -> Option<Self> {
        let key = Self(wrapping.open(0, &mut wrapped)?.try_into().ok()?);
        wrapped.zeroize();
        Some(key)
    }
}

/// The keys of files in a local cache.
impl PageKeys for MasterKey {
    fn page_key(&self, salt: &ObjectSalt) -> Box<dyn PageKey> {
        let mut key = [0; KEY_LEN];
        derive(&self.0, salt, b"tabane/1 cache", &mut key);
        let page_key = ObjectKey::new(&key);
        key.zeroize();
        Box::new(page_key)
    }
}

impl PageKey for ObjectKey {
    fn seal(&self, number: u64, page: &mut Vec<u8>) {
        ObjectKey::seal(self, number, page, 0);
    }

    fn open(&self, number: u64, page: &mut [u8]) -> bool {
        ObjectKey::open(self, number, page).is_some()
    }
}

impl ObjectKey {
    /// A key from 32 secret bytes.
    pub(crate) fn new(key: &[u8; KEY_LEN]) -> Self {
        let key = UnboundKey::new(&AES_256_GCM, key).expect("the length is right");
        Self(LessSafeKey::new(key))
    }

    /// Encrypts `buffer[start..]` in place as part `number` of the object, and appends its tag.
    pub fn seal(&self, number: u64, buffer: &mut Vec<u8>, start: usize) {
        let tag = self
            .0
            .seal_in_place_separate_tag(nonce(number), Aad::empty(), &mut buffer[start..])
            .expect("a part is far below the cipher's limit of 64 GiB");
        buffer.extend_from_slice(tag.as_ref());
    }

    /// Decrypts part `number` of the object, its tag at the end, into `plain`; false if it is not
    /// authentic, or of another length.
    pub fn open_into(&self, number: u64, sealed: &[u8], plain: &mut [u8]) -> bool {
        let Some((ciphertext, tag)) = sealed.split_last_chunk::<TAG_LEN>() else {
            return false;
        };
        let (nonce, aad) = (nonce(number), Aad::empty());
        ciphertext.len() == plain.len()
            && self
                .0
                .open_separate_gather(nonce, aad, ciphertext, tag, plain)
                .is_ok()
    }

    /// Decrypts part `number` of the object in place, its tag at the end; nothing if it is not
    /// authentic.
    pub fn open<'a>(&self, number: u64, sealed: &'a mut [u8]) -> Option<&'a [u8]> {
        let plain = self.0.open_in_place(nonce(number), Aad::empty(), sealed);
        plain.ok().map(|plain| &*plain)
    }
}

/// The format that an object's header names; 0 where there is no header.
pub fn format_of(bytes: &[u8]) -> u8 {
    let has_header = bytes.starts_with(MAGIC);
    bytes
        .get(FORMAT_AT)
        .filter(|_| has_header)
        .copied()
        .unwrap_or(0)
}

/// The header of an object.
pub fn header(kind: ObjectKind, salt: &ObjectSalt) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..8].copy_from_slice(&prefix(kind, OBJECT_FORMAT));
    header[8..].copy_from_slice(salt);
    header
}

/// Reads an object's header and returns its salt; `what` names the object in errors.
///
/// # Errors
/// [`Error::Damaged`] when it is not the header of an object of this kind, [`Error::NewerFormat`].
pub fn parse_header(kind: ObjectKind, bytes: &[u8], what: &str) -> Result<ObjectSalt> {
    let Some(header) = bytes.first_chunk::<HEADER_LEN>() else {
        return Err(Error::damaged(what, "it is shorter than a header"));
    };
    let expected = prefix(kind, OBJECT_FORMAT);
    let known = match kind {
        ObjectKind::Config => FORMAT,
        _ => OBJECT_FORMAT,
    };
    if tabane_striped::is_container(header) {
        return Err(Error::OfStripedSet(what.to_owned()));
    }
    if header[..7] != expected[..7] {
        return Err(Error::damaged(what, "it is not an object of this kind"));
    }
    if header[FORMAT_AT] > known {
        return Err(Error::NewerFormat {
            found: header[FORMAT_AT],
            known,
        });
    }
    if header[FORMAT_AT] == 0 {
        return Err(Error::damaged(what, "it has a format that never was"));
    }
    Ok(*header[8..].first_chunk().expect("the header has a salt"))
}

/// HKDF-SHA-256: fills `out` (at most 8160 bytes).
pub fn derive(secret: &[u8], salt: &[u8], info: &[u8], out: &mut [u8]) {
    struct Len(usize);
    impl aws_lc_rs::hkdf::KeyType for Len {
        fn len(&self) -> usize {
            self.0
        }
    }
    Salt::new(HKDF_SHA256, salt)
        .extract(secret)
        .expand(&[info], Len(out.len()))
        .and_then(|key| key.fill(out))
        .expect("the length is within HKDF's limit");
}

/// Magic, kind and format; it also binds a derived key to them.
fn prefix(kind: ObjectKind, format: u8) -> [u8; 8] {
    let letter = match kind {
        ObjectKind::Config => b'C',
        ObjectKind::Key => b'K',
        ObjectKind::Snapshot => b'S',
        ObjectKind::Index => b'I',
        ObjectKind::Pack => b'P',
        ObjectKind::Pending => b'N',
        ObjectKind::Removal => b'R',
        ObjectKind::Client => b'A',
        ObjectKind::Target => b'T',
        ObjectKind::Set => b'G',
        ObjectKind::Deleted => b'D',
        ObjectKind::Copy => b'Y',
    };
    let mut prefix = [0; 8];
    prefix[..6].copy_from_slice(MAGIC);
    prefix[6] = letter;
    prefix[FORMAT_AT] = format;
    prefix
}

fn nonce(number: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[NONCE_LEN - 8..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_opens_with_its_key_and_kind_alone() {
        let master = MasterKey::random();
        let sealed = master.seal_object(ObjectKind::Index, b"payload");
        let open = |master: &MasterKey, kind, bytes| master.open_object(kind, bytes, "it");
        assert_eq!(
            open(&master, ObjectKind::Index, sealed.clone()).unwrap(),
            b"payload"
        );
        assert!(open(&master, ObjectKind::Snapshot, sealed.clone()).is_err());
        assert!(open(&MasterKey::random(), ObjectKind::Index, sealed.clone()).is_err());
        for at in 0..sealed.len() {
            let mut flipped = sealed.clone();
            flipped[at] ^= 1;
            assert!(
                open(&master, ObjectKind::Index, flipped).is_err(),
                "byte {at}"
            );
            assert!(open(&master, ObjectKind::Index, sealed[..at].to_vec()).is_err());
        }
    }

    #[test]
    fn hkdf_matches_rfc_5869_case_1() {
        let mut out = [0; 42];
        let salt: Vec<u8> = (0..=0x0c).collect();
        let info: Vec<u8> = (0xf0..=0xf9).collect();
        derive(&[0x0b; 22], &salt, &info, &mut out);
        assert_eq!(
            hex::encode(out),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
        );
    }
}
