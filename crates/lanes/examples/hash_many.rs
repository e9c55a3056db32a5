//! Hashes many messages side by side, and one that comes in pieces.

use tabane_lanes::{Algorithm, Hasher, hash_many};

fn main() {
    let messages: Vec<String> = (0..100).map(|number| format!("message {number}")).collect();
    let bytes: Vec<&[u8]> = messages.iter().map(|text| text.as_bytes()).collect();
    let digests = hash_many(Algorithm::Sha256, &bytes);
    for (message, digest) in messages.iter().zip(&digests).take(3) {
        println!("{digest}  {message}");
    }
    let mut hasher = Hasher::new(Algorithm::Sha256);
    hasher.update(b"message ");
    hasher.update(b"7");
    assert_eq!(hasher.finish(), digests[7]);
}
