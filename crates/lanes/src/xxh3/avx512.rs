//! The accumulators in one register.

use core::arch::x86_64::*;

use super::{BLOCK_STRIPES, OF_LAST, PRIME32, SECRET, STRIPE_BYTES};

/// Distance of prefetching in bytes.
const AHEAD_BYTES: usize = 512;

/// Goes on with whole blocks, behind which the message goes on.
#[target_feature(enable = "avx512f")]
pub(super) fn absorb(sums: &mut [u64; 8], blocks: &[[[u8; STRIPE_BYTES]; BLOCK_STRIPES]]) {
    // Keeps all keys in registers, since most of them straddle two lines of the cache.
    let keys: [__m512i; BLOCK_STRIPES] = core::array::from_fn(|number| key(8 * number));
    let last_key = key(SECRET.len() - STRIPE_BYTES);
    let prime = _mm512_set1_epi64(PRIME32[0] as i64);
    let mut state = load_sums(sums);
    macro_rules! add_stripes {
        ($block:ident: $($number:literal)*) => { $(
            _mm_prefetch::<_MM_HINT_T0>($block[$number].as_ptr().wrapping_add(AHEAD_BYTES).cast());
            state = add_stripe(state, &$block[$number], keys[$number]);
        )* };
    }
    for block in blocks {
        add_stripes!(block: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        state = _mm512_xor_si512(state, _mm512_srli_epi64::<47>(state));
        state = _mm512_xor_si512(state, last_key);
        let low = _mm512_mul_epu32(state, prime);
        let high = _mm512_mul_epu32(_mm512_srli_epi64::<32>(state), prime);
        state = _mm512_add_epi64(low, _mm512_slli_epi64::<32>(high));
    }
    store_sums(sums, state);
}

/// Ends with fewer stripes than a block, and the last 64 bytes of the message.
#[target_feature(enable = "avx512f")]
pub(super) fn finish(
    sums: &mut [u64; 8],
    stripes: &[[u8; STRIPE_BYTES]],
    last: &[u8; STRIPE_BYTES],
) {
    let mut state = load_sums(sums);
    for (number, stripe) in stripes.iter().enumerate() {
        state = add_stripe(state, stripe, key(8 * number));
    }
    store_sums(sums, add_stripe(state, last, key(OF_LAST)));
}

/// Eight words of the secret from this offset.
#[inline]
#[target_feature(enable = "avx512f")]
fn key(place: usize) -> __m512i {
    load(SECRET[place..].first_chunk().expect("a stripe of it"))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add_stripe(state: __m512i, stripe: &[u8; STRIPE_BYTES], key: __m512i) -> __m512i {
    let data = load(stripe);
    let keyed = _mm512_xor_si512(data, key);
    let product = _mm512_mul_epu32(keyed, _mm512_srli_epi64::<32>(keyed));
    let swapped = _mm512_shuffle_epi32::<0b01_00_11_10>(data);
    // Without this, the compiler would add both terms to the state in turn, which lengthens the
    // chain of dependencies.
    let sum = pin(_mm512_add_epi64(product, swapped));
    _mm512_add_epi64(state, sum)
}

/// Hides from the compiler where a value comes from.
#[inline]
#[target_feature(enable = "avx512f")]
fn pin(mut value: __m512i) -> __m512i {
    // SAFETY: it does nothing.
    unsafe {
        core::arch::asm!("/* {0} \
        */", inout(zmm_reg) value, options(pure, nomem, nostack, preserves_flags));
    }
    value
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(bytes: &[u8; STRIPE_BYTES]) -> __m512i {
    // SAFETY: 64 bytes, at any address.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_sums(sums: &[u64; 8]) -> __m512i {
    // SAFETY: 64 bytes, at any address.
    unsafe { _mm512_loadu_si512(sums.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store_sums(sums: &mut [u64; 8], state: __m512i) {
    // SAFETY: 64 bytes, at any address.
    unsafe { _mm512_storeu_si512(sums.as_mut_ptr().cast(), state) };
}
