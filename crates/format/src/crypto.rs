//! Keys, and how an object is sealed.
//!
//! Every object begins with a header of 40 bytes: `TABANE`, one byte for its kind, one for the
//! format, and a salt of 32. Its key is HKDF-SHA-256 (RFC 5869) of a secret with that salt, its
//! parts are sealed with AES-256-GCM (NIST SP 800-38D) under the nonces 0, 1, 2, …: a key is used
//! for one object only, so no nonce repeats. Which secret that is, the format says: the master key
//! for [`OBJECT_FORMAT`], another for those of [`crate::keyring`].

use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use tabane_index::PageKey;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::error::{Error, Result};
use tabane_storage::{ObjectKind, random};

/// The latest format of repositories that this program knows: that of their config.
pub const FORMAT: u8 = 2;

/// The format of other objects that the master key seals.
pub const OBJECT_FORMAT: u8 = 1;

/// The format of objects that write-only keys open too, with a signature.
pub const SIGNED_FORMAT: u8 = 2;

/// The format of what write-only keys seal to the recipient.
pub const RECIPIENT_FORMAT: u8 = 3;

/// The format of what a write-only key seals for itself.
pub const WRITER_FORMAT: u8 = 4;

/// Length of an object's header in bytes.
pub const HEADER_LEN: usize = 40;

/// What sealing adds to a part, in bytes.
pub const TAG_LEN: usize = 16;

/// Length of an object's salt in bytes.
pub const SALT_LEN: usize = 32;

/// The first bytes of every object.
pub const MAGIC: &[u8; 6] = b"TABANE";
const KEY_LEN: usize = 32;

/// Where a header has the format.
const FORMAT_AT: usize = 7;

/// Where a header has the salt. What is before it binds the object's key to kind and format.
const SALT_AT: usize = 8;

/// A random salt that makes an object's key its own.
pub type ObjectSalt = [u8; SALT_LEN];

/// The repository's secret, from which all others are derived.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct MasterKey([u8; KEY_LEN]);

/// A secret of 32 bytes.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Secret(pub [u8; 32]);

/// The key of one object.
#[derive(Clone)]
pub struct ObjectKey(Arc<LessSafeKey>);

impl MasterKey {
    /// A new random key.
    pub fn random() -> Self {
        Self(random())
    }

    /// A secret that follows from this key and is told from others by `info`.
    pub fn derive(&self, info: &[u8], out: &mut [u8]) {
        derive(&self.0, &[], info, out);
    }

    /// As [`MasterKey::derive`], with a salt.
    pub fn derive_salted(&self, salt: &[u8], info: &[u8], out: &mut [u8]) {
        derive(&self.0, salt, info, out);
    }

    /// The key of the object of this kind with this salt.
    pub fn object_key(&self, kind: ObjectKind, salt: &ObjectSalt) -> ObjectKey {
        self.key_of(&header(kind, OBJECT_FORMAT, salt))
    }

    /// The key of the object with this header, whatever its format.
    fn key_of(&self, header: &[u8; HEADER_LEN]) -> ObjectKey {
        ObjectKey::derived(&self.0, header)
    }

    /// Seals a whole object that has one part.
    pub fn seal_object(&self, kind: ObjectKind, payload: &[u8]) -> Vec<u8> {
        let header = header(kind, OBJECT_FORMAT, &random());
        self.key_of(&header).seal_whole(&[&header], &[payload])
    }

    /// Seals the config of a repository of this format.
    pub fn seal_config(&self, format: u8, payload: &[u8]) -> Vec<u8> {
        let header = header(ObjectKind::Config, format, &random());
        self.key_of(&header).seal_whole(&[&header], &[payload])
    }

    /// Opens a whole object that has one part; `what` names it in errors.
    ///
    /// # Errors
    /// [`Error::Damaged`] for bytes that this key did not seal, [`Error::NewerFormat`].
    pub fn open_object(&self, kind: ObjectKind, mut bytes: Vec<u8>, what: &str) -> Result<Vec<u8>> {
        let header = parse_header(kind, &bytes, what)?;
        let key = self.key_of(&header);
        key.open_whole(&mut bytes, HEADER_LEN, what)
    }

    /// The secret by which a storage can prove what it stored.
    pub fn storage_secret(&self) -> Secret {
        let mut secret = Secret([0; 32]);
        self.derive(b"tabane/2 cell tags", &mut secret.0);
        secret
    }

    /// Wraps this key with the key that a password gave; `wrapping` must never wrap twice.
    pub fn wrap(&self, wrapping: &ObjectKey) -> Vec<u8> {
        let mut bytes = self.0.to_vec();
        wrapping.seal(0, &mut bytes, 0);
        bytes
    }

    /// Undoes [`MasterKey::wrap`], once that is opened; nothing for another number of bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
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
    pub fn new(key: &[u8; KEY_LEN]) -> Self {
        let key = UnboundKey::new(&AES_256_GCM, key).expect("the length is right");
        Self(Arc::new(LessSafeKey::new(key)))
    }

    /// The key of the object with this header: HKDF of a secret, salted by the header's salt, for
    /// the rest of the header.
    pub fn derived(secret: &[u8], header: &[u8; HEADER_LEN]) -> Self {
        Self::derived_for(secret, header, &header[..SALT_AT])
    }

    /// As [`ObjectKey::derived`], for other bytes than the rest of the header.
    pub fn derived_for(secret: &[u8], header: &[u8; HEADER_LEN], info: &[u8]) -> Self {
        let mut key = [0; KEY_LEN];
        derive(secret, &header[SALT_AT..], info, &mut key);
        let object_key = Self::new(&key);
        key.zeroize();
        object_key
    }

    /// A whole object of one part: `head`, and the sealed payload.
    pub fn seal_whole(&self, head: &[&[u8]], payload: &[&[u8]]) -> Vec<u8> {
        let mut bytes = head.concat();
        let start = bytes.len();
        let len: usize = payload.iter().map(|part| part.len()).sum();
        bytes.reserve_exact(len + TAG_LEN);
        payload
            .iter()
            .for_each(|part| bytes.extend_from_slice(part));
        self.seal(0, &mut bytes, start);
        bytes
    }

    /// Undoes [`ObjectKey::seal_whole`], for a head of this length.
    pub fn open_whole(&self, bytes: &mut [u8], head: usize, what: &str) -> Result<Vec<u8>> {
        let payload = bytes
            .get_mut(head..)
            .and_then(|sealed| self.open(0, sealed));
        payload
            .map(<[u8]>::to_vec)
            .ok_or_else(|| Error::damaged(what, "its contents fail authentication"))
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
pub fn header(kind: ObjectKind, format: u8, salt: &ObjectSalt) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..6].copy_from_slice(MAGIC);
    header[6] = letter(kind);
    header[FORMAT_AT] = format;
    header[SALT_AT..].copy_from_slice(salt);
    header
}

/// The salt in a header.
pub fn salt_of(header: &[u8; HEADER_LEN]) -> ObjectSalt {
    *header.last_chunk().expect("the header ends with a salt")
}

/// Whether objects of this kind have this format.
fn has_format(kind: ObjectKind, format: u8) -> bool {
    match kind {
        ObjectKind::Config => (1..=FORMAT).contains(&format),
        ObjectKind::Pack | ObjectKind::Snapshot | ObjectKind::Pending => {
            [OBJECT_FORMAT, RECIPIENT_FORMAT].contains(&format)
        }
        ObjectKind::Index | ObjectKind::Removal | ObjectKind::Forgotten => {
            [OBJECT_FORMAT, SIGNED_FORMAT].contains(&format)
        }
        ObjectKind::Client => [OBJECT_FORMAT, WRITER_FORMAT].contains(&format),
        ObjectKind::Unverified => format == WRITER_FORMAT,
        // They have no header.
        ObjectKind::Key
        | ObjectKind::Copy
        | ObjectKind::Target
        | ObjectKind::Set
        | ObjectKind::Deleted => format == OBJECT_FORMAT,
    }
}

/// Reads an object's header; `what` names the object in errors.
///
/// # Errors
/// [`Error::Damaged`] when it is not the header of an object of this kind, [`Error::NewerFormat`].
pub fn parse_header(kind: ObjectKind, bytes: &[u8], what: &str) -> Result<[u8; HEADER_LEN]> {
    let Some(header) = bytes.first_chunk::<HEADER_LEN>() else {
        return Err(Error::damaged(what, "it is shorter than a header"));
    };
    let known = match kind {
        ObjectKind::Config => FORMAT,
        _ => WRITER_FORMAT,
    };
    if tabane_striped::is_container(header) {
        return Err(Error::OfStripedSet(what.to_owned()));
    }
    if header[..6] != MAGIC[..] || header[6] != letter(kind) {
        return Err(Error::damaged(what, "it is not an object of this kind"));
    }
    let format = header[FORMAT_AT];
    if format > known {
        return Err(Error::NewerFormat {
            found: format,
            known,
        });
    }
    if !has_format(kind, format) {
        return Err(Error::damaged(
            what,
            "it has a format that its kind never had",
        ));
    }
    Ok(*header)
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

/// The letter of a kind in headers.
fn letter(kind: ObjectKind) -> u8 {
    match kind {
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
        ObjectKind::Unverified => b'U',
        ObjectKind::Forgotten => b'F',
    }
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

    /// The values come from HKDF as Python's `hmac` and `hashlib` compute it.
    #[test]
    fn secrets_follow_from_the_key() {
        let key = MasterKey([7; KEY_LEN]);
        assert_eq!(
            hex::encode(key.storage_secret().0),
            "b4b10eebb650faab913ebe908c2e66ca9ecb360c4b1377c6da87b6b46db982d7"
        );
        let mut own = [0; 32];
        key.derive_salted(&[9; 32], b"tabane/2 writer", &mut own);
        assert_eq!(
            hex::encode(own),
            "b2aa04ef659e9255f7937894f47dd90c492c11ecf2a7cbb2481a198a77bcf4cb"
        );
        let other = MasterKey([8; KEY_LEN]);
        assert_ne!(key.storage_secret().0, other.storage_secret().0);
    }

    #[test]
    fn every_kind_has_its_formats() {
        let formats = |kind| -> Vec<u8> {
            let all = 0..=u8::MAX;
            all.filter(|&format| has_format(kind, format)).collect()
        };
        for kind in ObjectKind::ALL {
            let expected: &[u8] = match kind {
                ObjectKind::Config => &[1, 2],
                ObjectKind::Pack | ObjectKind::Snapshot | ObjectKind::Pending => &[1, 3],
                ObjectKind::Index | ObjectKind::Removal | ObjectKind::Forgotten => &[1, 2],
                ObjectKind::Client => &[1, 4],
                ObjectKind::Unverified => &[4],
                _ => &[1],
            };
            assert_eq!(formats(kind), expected, "{kind:?}");
        }
    }
}
