//! Which secret opens and seals which object: the master key, or a write-only key.
//!
//! | format | sealed with | opens with |
//! |---|---|---|
//! | 1 | master key | master key |
//! | 2 | index secret, signed by the authority | master key, write-only keys |
//! | 3 | a secret shared with the recipient, and the writer's own secret | master key |
//! | 4 | the writer's own secret | master key, this write-only key |
//!
//! All private halves and all secrets of writers come from the master key, so nothing but that is
//! kept.

use std::sync::OnceLock;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use tabane_index::{BlockKind, PackKind, PageKey, PageKeys};
use tabane_storage::{ObjectKind, random};
use zeroize::Zeroizing;

use crate::config::Config;
use crate::crypto::{
    HEADER_LEN, MasterKey, OBJECT_FORMAT, ObjectKey, ObjectSalt, RECIPIENT_FORMAT, SIGNED_FORMAT,
    Secret, WRITER_FORMAT, derive, format_of, header, parse_header, salt_of,
};
use crate::error::{Error, Result};
use crate::key::Unwrapped;
use crate::recipient::{ENCAPSULATION_LEN, RecipientKey, object_key_secret};
use crate::writer_key::{WRITER_ID_LEN, WriterId, WriterKey};

/// Length of a signature of Ed25519 in bytes.
const SIGNATURE_LEN: usize = 64;

/// What a signature covers before the header and the payload.
const SIGNED: &[u8] = b"tabane/2 signed";

/// What opens and seals the objects of a repository.
pub enum Keyring {
    /// The master key: opens everything.
    Master(Box<Master>),
    /// A write-only key.
    Writer(Box<WriterKey>),
}

/// The master key, and what follows from it.
pub struct Master {
    key: MasterKey,
    /// Whether index objects, removals and records of removed snapshots are sealed for writers too,
    /// and signed.
    signs: bool,
    derived: OnceLock<Derived>,
}

struct Derived {
    index: Secret,
    authority: Ed25519KeyPair,
    recipient: RecipientKey,
}

/// The payload of an object.
#[derive(Debug, PartialEq, Eq)]
pub struct Unsealed {
    /// What was sealed.
    pub payload: Vec<u8>,
    /// The write-only key that sealed it; nothing for the master key.
    pub writer: Option<WriterId>,
}

/// What was read, or nothing if nobody with a full key has made it.
pub fn if_genuine<T: Default>(read: Result<T>) -> Result<T> {
    match read {
        Err(Error::Foreign(_) | Error::WriteOnly(_)) => Ok(T::default()),
        read => read,
    }
}

/// What a new pack begins with, and its key.
pub struct PackStart {
    /// Its first bytes.
    pub head: Vec<u8>,
    /// What makes its key another than those of other objects.
    pub salt: ObjectSalt,
    /// Whose key it has.
    pub kind: PackKind,
    /// What seals its segments.
    pub key: ObjectKey,
}

impl Master {
    fn derived(&self) -> &Derived {
        self.derived.get_or_init(|| {
            let mut index = Secret([0; 32]);
            self.key.derive(b"tabane/2 index", &mut index.0);
            let mut seed = Zeroizing::new([0; 32]);
            self.key.derive(b"tabane/2 authority", &mut *seed);
            let authority = Ed25519KeyPair::from_seed_unchecked(&*seed);
            Derived {
                index,
                authority: authority.expect("any 32 bytes are a seed"),
                recipient: RecipientKey::new(&self.key),
            }
        })
    }

    /// The own secret of a writer.
    fn own_secret(&self, writer: &WriterId) -> Secret {
        let mut own = Secret([0; 32]);
        self.key
            .derive_salted(&writer.0, b"tabane/2 writer", &mut own.0);
        own
    }

    /// A new write-only key of the repository with this config.
    pub fn new_writer(&self, config: &Config) -> WriterKey {
        self.writer_of(WriterId(random()), config)
    }

    /// The write-only key of this name, of the repository with this config.
    pub fn writer_of(&self, id: WriterId, config: &Config) -> WriterKey {
        let derived = self.derived();
        WriterKey {
            id,
            repository: config.id,
            hash: config.hash,
            chunking: config.chunking,
            chunker_secret: config.chunker_secret,
            recipient: derived.recipient.public(),
            authority: authority_of(&derived.authority),
            storage: self.key.storage_secret(),
            index: derived.index.clone(),
            own: self.own_secret(&id),
        }
    }
}

fn authority_of(pair: &Ed25519KeyPair) -> [u8; 32] {
    let public = pair.public_key().as_ref();
    public.try_into().expect("Ed25519 has keys of 32 bytes")
}

impl Keyring {
    /// The keyring of what a password opened; `signs` for a repository with write-only keys.
    pub fn new(secret: Unwrapped, signs: bool) -> Self {
        match secret {
            Unwrapped::Master(key) => Self::Master(Box::new(Master {
                key,
                signs,
                derived: OnceLock::new(),
            })),
            Unwrapped::Writer(writer) => Self::Writer(writer),
        }
    }

    /// What a password is to wrap.
    pub fn secret(&self) -> Unwrapped {
        match self {
            Self::Master(master) => Unwrapped::Master(master.key.clone()),
            Self::Writer(writer) => Unwrapped::Writer(writer.clone()),
        }
    }

    /// The master key.
    ///
    /// # Errors
    /// [`Error::WriteOnly`], saying that `what` needs it.
    pub fn need_master(&self, what: &str) -> Result<&MasterKey> {
        self.as_master(what).map(|master| &master.key)
    }

    /// As [`Keyring::need_master`], with what follows from the master key.
    pub fn as_master(&self, what: &str) -> Result<&Master> {
        match self {
            Self::Master(master) => Ok(master),
            Self::Writer(_) => Err(Error::WriteOnly(what.to_owned())),
        }
    }

    /// The write-only key, if this is one.
    pub fn writer(&self) -> Option<&WriterKey> {
        match self {
            Self::Master(_) => None,
            Self::Writer(writer) => Some(writer),
        }
    }

    /// Seals a whole object that has one part.
    ///
    /// # Errors
    /// [`Error::WriteOnly`] for a kind that writers do not write.
    pub fn seal(&self, kind: ObjectKind, payload: &[u8]) -> Result<Vec<u8>> {
        match (self, kind) {
            (
                Self::Master(master),
                ObjectKind::Index | ObjectKind::Removal | ObjectKind::Forgotten,
            ) if master.signs => Ok(master.seal_signed(kind, payload)),
            (Self::Master(master), _) => Ok(master.key.seal_object(kind, payload)),
            (Self::Writer(writer), ObjectKind::Snapshot | ObjectKind::Pending) => {
                let (head, key) = writer.encapsulate(kind);
                Ok(key.seal_whole(&[&head], &[payload]))
            }
            (Self::Writer(writer), ObjectKind::Unverified | ObjectKind::Client) => {
                let header = header(kind, WRITER_FORMAT, &writer.salt());
                let key = ObjectKey::derived(&writer.own.0, &header);
                Ok(key.seal_whole(&[&header], &[payload]))
            }
            (Self::Writer(_), _) => Err(Error::WriteOnly(format!("writing {}", kind.name()))),
        }
    }

    /// Opens a whole object that has one part; `what` names it in errors.
    ///
    /// # Errors
    /// [`Error::Damaged`] for bytes that none of these keys sealed, [`Error::WriteOnly`] for those
    /// that only other keys open, [`Error::NewerFormat`].
    pub fn open(&self, kind: ObjectKind, mut bytes: Vec<u8>, what: &str) -> Result<Unsealed> {
        let header = parse_header(kind, &bytes, what)?;
        if kind == ObjectKind::Config {
            let payload = self.need_master(what)?.open_object(kind, bytes, what)?;
            return Ok(Unsealed {
                payload,
                writer: None,
            });
        }
        match format_of(&header) {
            SIGNED_FORMAT => {
                let (index, authority) = match self {
                    Self::Master(master) => {
                        let derived = master.derived();
                        (&derived.index, authority_of(&derived.authority))
                    }
                    Self::Writer(writer) => (&writer.index, writer.authority),
                };
                let key = ObjectKey::derived(&index.0, &header);
                let payload = key.open_whole(&mut bytes, HEADER_LEN, what)?;
                Ok(Unsealed {
                    payload: verified(payload, &header, &authority, what)?,
                    writer: None,
                })
            }
            WRITER_FORMAT => {
                let writer = writer_of(&header);
                let own = match self {
                    Self::Master(master) => master.own_secret(&writer),
                    Self::Writer(own) if own.id == writer => own.own.clone(),
                    Self::Writer(_) => return Err(Error::WriteOnly(what.to_owned())),
                };
                let key = ObjectKey::derived(&own.0, &header);
                Ok(Unsealed {
                    payload: key.open_whole(&mut bytes, HEADER_LEN, what)?,
                    writer: Some(writer),
                })
            }
            RECIPIENT_FORMAT => {
                let key = self.as_master(what)?.decapsulate(&header, &bytes, what)?;
                let payload = key.open_whole(&mut bytes, HEADER_LEN + ENCAPSULATION_LEN, what)?;
                Ok(Unsealed {
                    payload,
                    writer: Some(writer_of(&header)),
                })
            }
            _ => Ok(Unsealed {
                payload: self.need_master(what)?.open_object(kind, bytes, what)?,
                writer: None,
            }),
        }
    }

    /// Begins a pack of these blocks.
    pub fn begin_pack(&self, blocks: BlockKind) -> PackStart {
        match self {
            Self::Master(master) => {
                let salt = random();
                PackStart {
                    head: header(ObjectKind::Pack, OBJECT_FORMAT, &salt).to_vec(),
                    salt,
                    kind: PackKind::new(blocks, false),
                    key: master.key.object_key(ObjectKind::Pack, &salt),
                }
            }
            Self::Writer(writer) => {
                let (head, key) = writer.encapsulate(ObjectKind::Pack);
                let header = head.first_chunk().expect("it begins with a header");
                PackStart {
                    salt: salt_of(header),
                    head,
                    kind: PackKind::new(blocks, true),
                    key,
                }
            }
        }
    }

    /// The key of a pack that begins with these bytes, those of [`PackKind::head_len`] at least.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::WriteOnly`].
    pub fn pack_key(&self, head: &[u8], what: &str) -> Result<ObjectKey> {
        let header = pack_header(head, what)?;
        let master = self.as_master(what)?;
        match format_of(&header) {
            RECIPIENT_FORMAT => master.decapsulate(&header, head, what),
            _ => Ok(master.key.object_key(ObjectKind::Pack, &salt_of(&header))),
        }
    }

    /// Whether this header is of an object that this write-only key sealed for itself.
    pub fn is_own(&self, header: &[u8]) -> bool {
        let own = self.writer().map(|writer| writer.id);
        parse_header(ObjectKind::Unverified, header, "it")
            .is_ok_and(|header| own == Some(writer_of(&header)))
    }

    /// A secret for files on this machine, told from others by salt and `info`.
    pub fn derive_local(&self, salt: &[u8], info: &[u8], out: &mut [u8]) {
        match self {
            Self::Master(master) => master.key.derive_salted(salt, info, out),
            Self::Writer(writer) => derive(&writer.own.0, salt, info, out),
        }
    }
}

impl Master {
    fn seal_signed(&self, kind: ObjectKind, payload: &[u8]) -> Vec<u8> {
        let derived = self.derived();
        let header = header(kind, SIGNED_FORMAT, &random());
        let signature = derived.authority.sign(&[SIGNED, &header, payload].concat());
        let key = ObjectKey::derived(&derived.index.0, &header);
        key.seal_whole(&[&header], &[payload, signature.as_ref()])
    }

    /// The key of an object that a writer sealed to the recipient.
    fn decapsulate(
        &self,
        header: &[u8; HEADER_LEN],
        bytes: &[u8],
        what: &str,
    ) -> Result<ObjectKey> {
        let encapsulation = bytes
            .get(HEADER_LEN..)
            .and_then(|behind| behind.first_chunk::<ENCAPSULATION_LEN>())
            .ok_or_else(|| Error::damaged(what, "it is too short"))?;
        let recipient = &self.derived().recipient;
        let shared = recipient
            .decapsulate(encapsulation)
            .ok_or_else(|| Error::damaged(what, "its key cannot be derived"))?;
        let own = self.own_secret(&writer_of(header));
        Ok(recipient_object_key(
            header,
            encapsulation,
            &recipient.public_x25519(),
            &*object_key_secret(&shared, &own.0),
        ))
    }
}

impl WriterKey {
    /// A salt that says whose object it is.
    fn salt(&self) -> ObjectSalt {
        let mut salt: ObjectSalt = random();
        salt[..WRITER_ID_LEN].copy_from_slice(&self.id.0);
        salt
    }

    /// What an object begins with that is sealed to the recipient, and its key.
    fn encapsulate(&self, kind: ObjectKind) -> (Vec<u8>, ObjectKey) {
        let header = header(kind, RECIPIENT_FORMAT, &self.salt());
        let encapsulated = self.recipient.encapsulate();
        let (encapsulation, shared) = encapsulated.expect("it was tried when the key was read");
        let key = recipient_object_key(
            &header,
            &encapsulation,
            &self.recipient.x25519,
            &*object_key_secret(&shared, &self.own.0),
        );
        ([&header[..], &encapsulation[..]].concat(), key)
    }
}

/// The key of an object that is sealed to the recipient.
fn recipient_object_key(
    header: &[u8; HEADER_LEN],
    encapsulation: &[u8; ENCAPSULATION_LEN],
    recipient: &[u8; 32],
    secret: &[u8],
) -> ObjectKey {
    let info = [&header[..8], encapsulation, recipient].concat();
    ObjectKey::derived_for(secret, header, &info)
}

/// Reads the header of a pack. The config tells what formats there are, so one that is unknown was
/// put there by somebody without a key.
///
/// # Errors
/// [`Error::Damaged`].
pub fn pack_header(head: &[u8], what: &str) -> Result<[u8; HEADER_LEN]> {
    parse_header(ObjectKind::Pack, head, what).map_err(|error| match error {
        Error::NewerFormat { .. } | Error::OfStripedSet(_) => Error::damaged(what, error),
        error => error,
    })
}

/// The writer that a header names.
fn writer_of(header: &[u8; HEADER_LEN]) -> WriterId {
    let salt = salt_of(header);
    WriterId(*salt.first_chunk().expect("a salt is longer"))
}

/// A payload without its signature, which is verified.
fn verified(
    mut payload: Vec<u8>,
    header: &[u8; HEADER_LEN],
    authority: &[u8; 32],
    what: &str,
) -> Result<Vec<u8>> {
    let unsigned = || Error::Foreign(what.to_owned());
    let len = payload
        .len()
        .checked_sub(SIGNATURE_LEN)
        .ok_or_else(unsigned)?;
    let signature = payload.split_off(len);
    UnparsedPublicKey::new(&ED25519, authority)
        .verify(&[SIGNED, header, &payload].concat(), &signature)
        .map_err(|_| unsigned())?;
    Ok(payload)
}

/// The keys of files in a local cache.
impl PageKeys for Keyring {
    fn page_key(&self, salt: &ObjectSalt) -> Box<dyn PageKey> {
        let mut key = Zeroizing::new([0; 32]);
        self.derive_local(salt, b"tabane/1 cache", &mut *key);
        Box::new(ObjectKey::new(&key))
    }
}
