//! Hashes of messages that come in parts.

use std::sync::Arc;

use tabane_lanes::{HmacKey, hmac_outer_many};

use crate::digest::Digest;
use crate::gpu;
use crate::serial::{Serial, from_lanes};

/// Hashes one message that comes in parts; the digest does not depend on where the parts end.
///
/// [`update_many`] takes the next parts of many messages at once.
pub struct Hasher(pub(crate) State);

pub(crate) enum State {
    Lanes(tabane_lanes::Hasher),
    /// The inner hash.
    Hmac(tabane_lanes::Hasher, Arc<HmacKey>),
    Serial(Box<dyn Serial>),
}

impl Hasher {
    /// Appends to the message.
    pub fn update(&mut self, part: &[u8]) {
        match &mut self.0 {
            State::Lanes(hasher) | State::Hmac(hasher, _) => hasher.update(part),
            State::Serial(hasher) => hasher.update(part),
        }
    }

    /// The digest of the message so far.
    pub fn finish(&self) -> Digest {
        finish_many(&[self])[0]
    }

    /// Another hasher of the message so far, which goes on by itself; `None` for MurmurHash3, whose
    /// crate cannot copy its state.
    pub fn try_clone(&self) -> Option<Self> {
        let state = match &self.0 {
            State::Lanes(hasher) => State::Lanes(hasher.clone()),
            State::Hmac(hasher, key) => State::Hmac(hasher.clone(), Arc::clone(key)),
            State::Serial(hasher) => State::Serial(hasher.try_clone()?),
        };
        Some(Self(state))
    }

    /// The hasher of the lanes, and for HMAC the key that finishes it.
    fn in_lanes(&self) -> Option<(&tabane_lanes::Hasher, Option<&HmacKey>)> {
        match &self.0 {
            State::Lanes(hasher) => Some((hasher, None)),
            State::Hmac(hasher, key) => Some((hasher, Some(key))),
            State::Serial(_) => None,
        }
    }
}

impl std::fmt::Debug for Hasher {
    /// Omits state and key, which may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hasher").finish_non_exhaustive()
    }
}

/// Appends a part to each of many messages at once, one message a lane.
///
/// The messages may be of different algorithms; those of one algorithm share the lanes, HMAC's with
/// those of its hash.
pub fn update_many(parts: &mut [(&mut Hasher, &[u8])]) {
    let mut in_lanes = Vec::with_capacity(parts.len());
    let mut keyed = false;
    for (hasher, part) in parts {
        keyed |= matches!(hasher.0, State::Hmac(..));
        match &mut hasher.0 {
            State::Lanes(hasher) | State::Hmac(hasher, _) => in_lanes.push((hasher, *part)),
            State::Serial(hasher) => hasher.update(part),
        }
    }
    if keyed {
        // A state of HMAC is as good as its key: it stays here.
        tabane_lanes::update_many(&mut in_lanes);
    } else {
        gpu::update_many(&mut in_lanes);
    }
}

/// The digests of the messages so far, in their order, one message a lane.
pub fn finish_many(hashers: &[&Hasher]) -> Vec<Digest> {
    let (in_lanes, keys): (Vec<_>, Vec<_>) = hashers
        .iter()
        .filter_map(|hasher| hasher.in_lanes())
        .unzip();
    let digests = tabane_lanes::finish_many(&in_lanes);
    let inner: Vec<_> = keys
        .iter()
        .zip(&digests)
        .filter_map(|(key, digest)| Some(((*key)?, *digest)))
        .collect();
    let tags = hmac_outer_many(&inner);
    let (mut digests, mut tags) = (digests.iter(), tags.iter());
    let mut finish = |hasher: &&Hasher| match &hasher.0 {
        State::Lanes(_) => digests.next().map(from_lanes),
        State::Hmac(..) => digests.next().and(tags.next()).map(from_lanes),
        State::Serial(hasher) => Some(hasher.finish()),
    };
    hashers
        .iter()
        .map(|hasher| finish(hasher).expect("one for each"))
        .collect()
}
