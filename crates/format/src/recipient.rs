//! What a write-only key seals to: key pairs of X25519 (RFC 7748) and ML-KEM-768 (FIPS 203), whose
//! private halves come from the master key. Both must be broken to open what was sealed.

use aws_lc_rs::agreement::{self, PrivateKey, UnparsedPublicKey, X25519};
use aws_lc_rs::kem::{EncapsulationKey, ML_KEM_768};
use ml_kem::kem::{Decapsulate, KeyExport};
use ml_kem::{Ciphertext, DecapsulationKey768, MlKem768};
use zeroize::{Zeroize, Zeroizing};

use crate::crypto::MasterKey;

/// Length of a public key of X25519 in bytes.
pub const X25519_LEN: usize = 32;

/// Length of a public key of ML-KEM-768 in bytes.
pub const ML_KEM_LEN: usize = 1184;

/// Length of a seed of ML-KEM in bytes.
const ML_KEM_SEED_LEN: usize = 64;

/// Length of an encapsulated secret in bytes: a public key of X25519 and a ciphertext of
/// ML-KEM-768.
pub const ENCAPSULATION_LEN: usize = tabane_index::ENCAPSULATION_LEN;

/// A shared secret: that of ML-KEM-768, then that of X25519.
pub type SharedSecret = Zeroizing<[u8; 64]>;

/// The public halves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipient {
    /// Of X25519.
    pub x25519: [u8; X25519_LEN],
    /// Of ML-KEM-768.
    pub ml_kem: Box<[u8; ML_KEM_LEN]>,
}

/// The private halves, and the public one of X25519.
pub struct RecipientKey {
    x25519: PrivateKey,
    ml_kem: DecapsulationKey768,
    x25519_public: [u8; X25519_LEN],
}

impl RecipientKey {
    /// The keys of a repository.
    pub fn new(master: &MasterKey) -> Self {
        let mut secret = Zeroizing::new([0; 32]);
        master.derive(b"tabane/2 recipient x25519", &mut *secret);
        let x25519 = PrivateKey::from_private_key(&X25519, &*secret).expect("any bytes are a key");
        let x25519_public = public_bytes(&x25519);
        let mut seed = [0; ML_KEM_SEED_LEN];
        master.derive(b"tabane/2 recipient ml-kem-768", &mut seed);
        let ml_kem = DecapsulationKey768::from_seed(seed.into());
        seed.zeroize();
        Self {
            x25519,
            ml_kem,
            x25519_public,
        }
    }

    /// The public halves.
    pub fn public(&self) -> Recipient {
        let ml_kem = self.ml_kem.encapsulation_key().to_bytes();
        Recipient {
            x25519: self.x25519_public,
            ml_kem: Box::new(ml_kem.into()),
        }
    }

    /// The public half of X25519.
    pub fn public_x25519(&self) -> [u8; X25519_LEN] {
        self.x25519_public
    }

    /// The secret that [`Recipient::encapsulate`] made; nothing if the bytes are no encapsulation.
    /// Other bytes give another secret.
    pub fn decapsulate(&self, encapsulation: &[u8; ENCAPSULATION_LEN]) -> Option<SharedSecret> {
        let (public, ciphertext) = encapsulation.split_at(X25519_LEN);
        let ciphertext = Ciphertext::<MlKem768>::try_from(ciphertext).ok()?;
        let mut ml_kem = self.ml_kem.decapsulate(&ciphertext);
        let x25519 = agree(&self.x25519, public);
        let secret = x25519.map(|x25519| join(&ml_kem, &x25519));
        ml_kem.zeroize();
        secret
    }
}

impl Recipient {
    /// Makes a secret that only the private halves, and the caller, know; nothing if the public
    /// halves are no keys.
    pub fn encapsulate(&self) -> Option<(Box<[u8; ENCAPSULATION_LEN]>, SharedSecret)> {
        let own = PrivateKey::generate(&X25519).expect("the system has random bytes");
        let x25519 = agree(&own, &self.x25519)?;
        let key = EncapsulationKey::new(&ML_KEM_768, &*self.ml_kem).ok()?;
        let (ciphertext, ml_kem) = key.encapsulate().ok()?;
        let mut encapsulation = Box::new([0; ENCAPSULATION_LEN]);
        encapsulation[..X25519_LEN].copy_from_slice(&public_bytes(&own));
        encapsulation[X25519_LEN..].copy_from_slice(ciphertext.as_ref());
        Some((encapsulation, join(ml_kem.as_ref(), &x25519)))
    }
}

/// HKDF's input for the key of an object: the shared secret, then the writer's own one.
pub fn object_key_secret(shared: &SharedSecret, own: &[u8; 32]) -> Zeroizing<[u8; 96]> {
    let mut secret = Zeroizing::new([0; 96]);
    secret[..64].copy_from_slice(&**shared);
    secret[64..].copy_from_slice(own);
    secret
}

fn public_bytes(key: &PrivateKey) -> [u8; X25519_LEN] {
    let public = key.compute_public_key().expect("a key has a public half");
    public
        .as_ref()
        .try_into()
        .expect("X25519 has keys of 32 bytes")
}

/// Nothing if the public key is of small order, so that the secret would be known to everybody.
fn agree(private: &PrivateKey, public: &[u8]) -> Option<Zeroizing<[u8; 32]>> {
    let public = UnparsedPublicKey::new(&X25519, public);
    agreement::agree(private, public, (), |secret| {
        secret.try_into().map(Zeroizing::new).map_err(drop)
    })
    .ok()
}

fn join(ml_kem: &[u8], x25519: &[u8; 32]) -> SharedSecret {
    let mut secret = Zeroizing::new([0; 64]);
    secret[..32].copy_from_slice(ml_kem);
    secret[32..].copy_from_slice(x25519);
    secret
}
