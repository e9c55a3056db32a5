//! With SHA-1 a match is confirmed byte for byte: collisions are known, and cost nobody a file.

use std::fs;

use crate::common::tree::{random_bytes, write};
use crate::common::{Place, assert_clean, back_up, back_up_with, backup_options};
use tabane_store::Algorithm;
use tabane_store::backup::Parent;

/// The first 320 bytes of the two files of Stevens, Bursztein, Karpman, Albertini and Markov, "The
/// first collision for full SHA-1" (CRYPTO 2017, <https://shattered.io>): what both begin with…
const PREFIX: &str = "\
    255044462d312e330a25e2e3cfd30a0a0a312030206f626a0a3c3c2f57696474682032203020522f4865696768742033\
    203020522f547970652034203020522f537562747970652035203020522f46696c7465722036203020522f436f6c6f72\
    53706163652037203020522f4c656e6774682038203020522f42697473506572436f6d706f6e656e7420383e3e0a7374\
    7265616d0affd8fffe00245348412d3120697320646561642121212121852fec092339759c39b1a1c63c4c97e1fffe01";

/// …and how each goes on.
const COLLIDING: [&str; 2] = [
    "7f46dc93a6b67e013b029aaa1db2560b45ca67d688c7f84b8c4c791fe02b3df614f86db1690901c56b45c1530afedfb7\
     6038e972722fe7ad728f0e4904e046c230570fe9d41398abe12ef5bc942be33542a4802d98b5d70f2a332ec37fac3514\
     e74ddc0f2cc1a874cd0c78305a21566461309789606bd0bf3f98cda8044629a1",
    "7346dc9166b67e118f029ab621b2560ff9ca67cca8c7f85ba84c79030c2b3de218f86db3a90901d5df45c14f26fedfb3\
     dc38e96ac22fe7bd728f0e45bce046d23c570feb141398bb552ef5a0a82be331fea48037b8b5d71f0e332edf93ac3500\
     eb4ddc0decc1a864790c782c76215660dd309791d06bd0af3f98cda4bc4629b1",
];

const DIGEST: &str = "f92d74e3874587aaf443d1db961d4e26dde13e9c";

fn colliding() -> [Vec<u8>; 2] {
    COLLIDING.map(|rest| hex::decode(format!("{PREFIX}{rest}")).unwrap())
}

#[test]
fn the_blocks_collide() {
    let [first, second] = colliding();
    assert_ne!(first, second);
    for block in [&first, &second] {
        let independent =
            aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, block);
        assert_eq!(hex::encode(independent), DIGEST);
        let ours = Algorithm::Sha1.digest(block);
        assert_eq!(ours.to_string(), DIGEST);
    }
}

#[test]
fn blocks_that_collide_in_one_run() {
    let place = Place::hashing(Algorithm::Sha1);
    let [first, second] = colliding();
    for number in 0..5 {
        write(place.source.join(format!("first {number}")), &first);
        write(place.source.join(format!("second {number}")), &second);
    }
    place.round_trip();
    assert_clean(&place.repository);
}

#[test]
fn blocks_that_collide_in_later_runs() {
    let place = Place::hashing(Algorithm::Sha1);
    let [first, second] = colliding();
    write(place.source.join("first"), &first);
    place.round_trip();
    write(place.source.join("second"), &second);
    let made = place.round_trip();
    // The file, and the directories above it.
    assert!(made.snapshot.summary.added_bytes >= 320);
    fs::remove_file(place.source.join("first")).unwrap();
    write(place.source.join("second again"), &second);
    write(place.source.join("first again"), &first);
    place.round_trip();
    assert!(again(&place).added_bytes < 10_000);
    assert_clean(&place.repository);
}

#[test]
fn with_sha256_they_are_just_blocks() {
    let place = Place::new();
    let [first, second] = colliding();
    write(place.source.join("first"), &first);
    write(place.source.join("second"), &second);
    place.round_trip();
    assert_clean(&place.repository);
}

#[test]
fn duplicates_in_one_run_and_in_the_next() {
    let place = Place::hashing(Algorithm::Sha1);
    let bytes = random_bytes(1, 5 << 20);
    write(place.source.join("a"), &bytes);
    write(place.source.join("b"), &bytes);
    for number in 0..50 {
        write(place.source.join(format!("small {number}")), &bytes[..5000]);
    }
    let made = place.round_trip();
    let summary = &made.snapshot.summary;
    assert!(summary.added_bytes < (5 << 20) + 60_000, "{summary:?}");
    assert!(summary.blocks_duplicate > 0);
    let summary = again(&place);
    assert!(summary.added_bytes < 10_000);
    assert!(summary.read_bytes > 10 << 20);
    assert_clean(&place.repository);
}

/// Backs up with every file read once more. Only the directories above the source may have changed:
/// others use them.
fn again(place: &Place) -> tabane_store::snapshot::Summary {
    let options = backup_options().parent(Parent::None);
    back_up(&place.repository, &[&place.source]);
    back_up_with(&place.repository, &[&place.source], options)
        .snapshot
        .summary
}
