//! What the processor does.

use std::hint::black_box;
use std::time::Instant;

use anyhow::Result;
use tabane_bench::cpus::on_each;
use tabane_bench::peers::openssl::{Instructions, OpenSsl};
use tabane_gpu::Mode;
use tabane_lanes::aes::{self, Key};
use tabane_store::Id;
use tabane_store::chunker::{Chunker, Chunking};

use super::Subject;

/// Messages in a call: as many as fill the widest lanes several times over.
const BATCH_MESSAGES: usize = 256;

/// Data of a core, in bytes: more than its caches.
const SHARE_LEN: usize = 32 << 20;

/// Bytes a second of wall time of `work`, which does so many, again and again for so long.
pub fn timed(bytes: usize, seconds: f64, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    let mut done = 0;
    loop {
        work()?;
        done += bytes;
        let elapsed = start.elapsed().as_secs_f64();
        if elapsed >= seconds {
            return Ok(done as f64 / elapsed);
        }
    }
}

fn in_lanes(algorithm: tabane_gpu::Algorithm) -> tabane_lanes::Algorithm {
    match algorithm {
        tabane_gpu::Algorithm::Md5 => tabane_lanes::Algorithm::Md5,
        tabane_gpu::Algorithm::Sha1 => tabane_lanes::Algorithm::Sha1,
        tabane_gpu::Algorithm::Sha256 => tabane_lanes::Algorithm::Sha256,
    }
}

/// The digests of all messages, one after the other.
pub fn digests(algorithm: tabane_gpu::Algorithm, messages: &[&[u8]]) -> Vec<u8> {
    let digests = tabane_lanes::hash_many(in_lanes(algorithm), messages);
    digests
        .iter()
        .flat_map(|digest| digest.as_bytes().to_vec())
        .collect()
}

/// What the first counter block 0 or no chaining makes of whole blocks.
pub fn ciphertext(key: &[u8; 16], mode: Mode, data: &[u8]) -> Vec<u8> {
    let key = Key::new(key).expect("16 bytes");
    let mut data = data.to_vec();
    encrypt(&key, mode, &mut data);
    data
}

/// The chunker of a repository with blocks of the default length.
pub fn chunker() -> Chunker {
    Chunker::new(Chunking::default(), &Id([7; 32])).expect("valid lengths")
}

fn encrypt(key: &Key, mode: Mode, data: &mut [u8]) {
    match mode {
        Mode::Ctr => aes::ctr(key, &mut [0; 16], data),
        _ => aes::ecb_encrypt(key, data),
    }
    .expect("whole blocks");
}

/// Bytes a second of the lanes on these processors together, each with messages of its own.
pub fn lanes(
    cpus: &[usize],
    subject: Subject,
    len: usize,
    data: &[u8],
    seconds: f64,
) -> Result<f64> {
    let share = (data.len() / cpus.len()).min(SHARE_LEN).max(len);
    let rates = on_each(cpus, |number| {
        let start = (number * share) % (data.len() - share + 1);
        let mine = &data[start..start + share];
        match subject {
            Subject::Hash(algorithm) => {
                let messages: Vec<&[u8]> = mine.chunks_exact(len).collect();
                timed(len * messages.len(), seconds, || {
                    for batch in messages.chunks(BATCH_MESSAGES) {
                        black_box(tabane_lanes::hash_many(in_lanes(algorithm), batch));
                    }
                    Ok(())
                })
            }
            Subject::Cuts => {
                let chunker = chunker();
                timed(mine.len(), seconds, || {
                    black_box(chunker.blocks(mine, true).count());
                    Ok(())
                })
            }
            Subject::Aes(mode) => {
                let key = Key::new(&[7; 16]).expect("16 bytes");
                let mut mine = mine.to_vec();
                timed(mine.len() / len * len, seconds, || {
                    for message in mine.chunks_exact_mut(len) {
                        encrypt(&key, mode, message);
                    }
                    Ok(())
                })
            }
        }
    })?;
    Ok(rates.iter().sum())
}

/// Bytes a second of OpenSSL on these processors together, a process on each.
pub fn openssl(openssl: &OpenSsl, cpus: &[usize], what: [&str; 2], len: usize) -> Result<f64> {
    let rates = on_each(cpus, |_| openssl.rate(&what, len, Instructions::All))?;
    Ok(rates.iter().sum())
}
