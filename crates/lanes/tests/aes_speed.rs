//! Speed of AES: `cargo test --release -p tabane-lanes --test aes_speed -- --ignored
//! --nocapture`.
//!
//! `tabane-bench lanes` compares with other libraries; this test serves changes to a
//! kernel. The environment variable `ONLY` selects lines by a part of their text.

use std::hint::black_box;
use std::time::Instant;

use tabane_lanes::aes::{
    BLOCK, Backend, CbcJob, Ctr, Key, cbc_decrypt, cbc_encrypt_many, ecb_decrypt, ecb_encrypt,
};

/// Seconds of the fastest of many calls: the others were disturbed.
fn fastest(mut f: impl FnMut()) -> f64 {
    let mut time = |calls: u32| {
        let start = Instant::now();
        (0..calls).for_each(|_| f());
        start.elapsed().as_secs_f64() / f64::from(calls)
    };
    // Reading the clock takes time, too.
    let calls = (20e-6 / time(1).min(time(1))).ceil() as u32;
    let samples = (0.2 / (time(calls) * f64::from(calls))).ceil() as u32 + 2;
    (0..samples).map(|_| time(calls)).fold(f64::MAX, f64::min)
}

/// Clock cycles a second, by additions that each wait for the one before.
fn clock() -> f64 {
    const ADDITIONS: u64 = 1 << 20;
    let seconds = fastest(|| {
        let mut x = 1_u64;
        for _ in 0..ADDITIONS / 8 {
            for _ in 0..8 {
                x += 1;
                // SAFETY: no instruction; the compiler has to have the sum in a register.
                unsafe {
                    core::arch::asm!("/* {0} */", inout(reg) x, options(pure, nomem, nostack))
                };
            }
        }
        black_box(x);
    });
    ADDITIONS as f64 / seconds
}

/// Times a call, and prints how fast it went.
fn measure(what: &str, bytes: usize, f: impl FnMut()) {
    if !what.contains(&std::env::var("ONLY").unwrap_or_default()) {
        return;
    }
    let seconds = fastest(f);
    println!(
        "{what:56} {:7.2} GB/s {:6.2} bytes a cycle",
        bytes as f64 / seconds / 1e9,
        bytes as f64 / seconds / clock()
    );
}

/// CBC encryption of `count` messages of `len` bytes, `stride` bytes apart.
fn measure_many(keys: &[Key], count: usize, len: usize, stride: usize) {
    let what = format!(
        "{:?} CBC {count} x {len}, stride {stride}, {} keys",
        keys[0],
        keys.len()
    );
    let mut ivs = vec![[0; BLOCK]; count];
    let mut memory = vec![0; count * stride + 64];
    let data = aligned(&mut memory);
    let messages = data
        .chunks_mut(stride)
        .zip(&mut ivs)
        .zip(keys.iter().cycle());
    let mut jobs: Vec<CbcJob> = messages
        .map(|((data, iv), key)| CbcJob {
            key,
            iv,
            data: &mut data[..len],
        })
        .collect();
    measure(&what, count * len, || cbc_encrypt_many(&mut jobs).unwrap());
}

/// From the first byte that starts a cache line.
fn aligned(memory: &mut [u8]) -> &mut [u8] {
    let start = memory.as_ptr().align_offset(64);
    &mut memory[start..]
}

#[test]
#[ignore = "measures"]
fn speed() {
    for backend in Backend::available() {
        for bits in [128, 256] {
            let keys: Vec<Key> = (0..64)
                .map(|i| Key::new_on(backend, &vec![i; bits / 8]).unwrap())
                .collect();
            for count in [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 48, 64] {
                measure_many(&keys[..1], count, 16 << 10, (16 << 10) + 64);
            }
            for len in [16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10] {
                measure_many(&keys[..1], 48, len, len);
                measure_many(&keys[..1], 96, len, len);
                measure_many(&keys[..1], 96, len, len + 64);
                measure_many(&keys, 96, len, len + 64);
            }
            measure_many(&keys[..1], 48, 1 << 20, 1 << 20);
            measure_many(&keys[..1], 4096, 64 << 10, 64 << 10);
            let key = &keys[0];
            for len in [16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10] {
                let mut memory = vec![0; len + 64];
                let data = &mut aligned(&mut memory)[..len];
                measure(&format!("{key:?} ECB {len}"), len, || {
                    ecb_encrypt(key, &mut *data).unwrap()
                });
                measure(&format!("{key:?} ECB {len} back"), len, || {
                    ecb_decrypt(key, &mut *data).unwrap()
                });
                measure(&format!("{key:?} CBC {len} back"), len, || {
                    cbc_decrypt(key, &mut [0; BLOCK], &mut *data).unwrap()
                });
                measure(&format!("{key:?} CTR {len}"), len, || {
                    Ctr::new(key, &[0; BLOCK]).apply(&mut *data)
                });
            }
        }
    }
}
