//! Entries of the table of algorithms.

use crate::algorithm::Algorithm;
use crate::backend::Backend;
use crate::compress::{CompressOne, LaneKernel};
use crate::digest::Digest;
use crate::hasher::{End, Update};
use crate::peak::{self, Operations};
use crate::plan::Plan;
use crate::vector::State;

/// Properties of an algorithm at run time.
pub(crate) struct Entry {
    pub(crate) algorithm: Algorithm,
    pub(crate) name: &'static str,
    pub(crate) digest_len: usize,
    pub(crate) block_len: usize,
    pub(crate) count: fn(peak::Logic) -> Operations,
    pub(crate) lane_kernels: fn(Backend) -> Vec<LaneKernel>,
    pub(crate) hash_many: fn(&Plan, &[&[u8]], &mut [Digest]),
    pub(crate) big_endian: bool,
    pub(crate) initial: fn() -> State,
    pub(crate) one: fn(Backend) -> CompressOne,
    pub(crate) digest: fn(&State) -> Digest,
    pub(crate) update_many: fn(&Plan, &mut [Update<'_, '_>]),
    pub(crate) finish_many: fn(&Plan, &[End<'_, '_>], &mut [Digest]),
}
