//! `tabane sum --list`: the algorithms, the use of each, and its measured speed on this machine.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::json;
use tabane_sum::{Algorithm, Function, KeyFile, KeyRule, Withstands};

use crate::exit::Result;
use crate::output::{Output, Table};

/// Bytes of each message that is hashed to measure: a usual length.
const MESSAGE_LEN: usize = 64 << 10;

/// Messages that are hashed to measure: as many as fill the widest lanes.
const MESSAGES: usize = 64;

/// Messages begin so far from each other, in bytes, and overlap, so that all are in the cache.
const MESSAGE_STEP: usize = 7 << 10;

/// Time for which each algorithm is measured; all together take a fraction of a second.
const ALGORITHM_TIME_MIN: Duration = Duration::from_millis(10);

const ADVICE: &str = "\
Speeds are those of one core on many files at once, in its cache. MD5, SHA and HMAC are several \
times slower on one file.
Against accidents take xxh128; against people sha256 or blake3; against people who can change the \
sums too vmac-128.";

/// Measures all algorithms on one core, and prints them.
pub fn print(as_json: bool) -> Result<()> {
    let bytes: Vec<u8> = (0..MESSAGE_STEP * (MESSAGES - 1) + MESSAGE_LEN)
        .map(|i| (i ^ i >> 8) as u8)
        .collect();
    let messages: Vec<&[u8]> = (0..MESSAGES)
        .map(|number| &bytes[MESSAGE_STEP * number..][..MESSAGE_LEN])
        .collect();
    let mut output = Output::new();
    let mut table = Table::new(&["algorithm", "bytes>", "key", "GB/s>", "withstands"]);
    for algorithm in Algorithm::all() {
        let bytes_per_s = measure(&any_key(algorithm), &messages);
        if as_json {
            output.json(&json!({
                "message_type": "algorithm",
                "name": algorithm.name(),
                "digest_bytes": algorithm.digest_len(),
                "takes_key": algorithm.key_rule() != KeyRule::None,
                "key_bytes": match algorithm.key_rule() {
                    KeyRule::Exactly(len) => Some(len),
                    KeyRule::None | KeyRule::AnyLength => None,
                },
                "withstands": match algorithm.withstands() {
                    Withstands::Accidents => "accidents",
                    Withstands::Substitution => "substitution",
                    Withstands::Collisions => "collisions",
                    Withstands::Forgery => "forgery",
                },
                "bytes_per_s": bytes_per_s.round(),
            }))?;
        } else {
            table.row(vec![
                algorithm.name().to_owned(),
                algorithm.digest_len().to_string(),
                match algorithm.key_rule() {
                    KeyRule::None => "none".to_owned(),
                    KeyRule::Exactly(len) => format!("{len} bytes"),
                    KeyRule::AnyLength => "any".to_owned(),
                },
                format!("{:.1}", bytes_per_s / 1e9),
                match algorithm.withstands() {
                    Withstands::Accidents => "accidents",
                    Withstands::Substitution => "replacement; not deliberate collisions",
                    Withstands::Collisions => "deliberate collisions, while the sum itself is safe",
                    Withstands::Forgery => "forgery without the key, even after seeing other sums",
                }
                .to_owned(),
            ]);
        }
    }
    if !as_json {
        table.print(&mut output)?;
        output.line("")?;
        output.line(ADVICE)?;
    }
    output.finish()
}

/// The algorithm with some key if it takes one.
fn any_key(algorithm: Algorithm) -> Function {
    let key = match algorithm.key_rule() {
        KeyRule::None => return Function::keyless(algorithm),
        KeyRule::Exactly(len) => vec![1; len],
        KeyRule::AnyLength => vec![1],
    };
    KeyFile::read(&key[..])
        .ok()
        .and_then(|key| key.function(algorithm).ok())
        .expect("a key of the right length")
}

/// Bytes in a second, of the best round.
fn measure(function: &Function, messages: &[&[u8]]) -> f64 {
    let begin = Instant::now();
    let mut best = Duration::MAX;
    while begin.elapsed() < ALGORITHM_TIME_MIN || best == Duration::MAX {
        let round = Instant::now();
        black_box(function.digest_many(black_box(messages)));
        best = best.min(round.elapsed());
    }
    (MESSAGE_LEN * messages.len()) as f64 / best.as_secs_f64()
}
