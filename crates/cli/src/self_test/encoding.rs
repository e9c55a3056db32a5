//! Self-tests of cutting, naming, compressing and sealing.

use super::outcome::{Outcome, noise, same, sha256_of_aws_lc};
use tabane_format::chunker::{Chunker, Chunking};
use tabane_format::compress::{Compression, Compressor};
use tabane_format::config::BLOCK_HASHES;
use tabane_format::crypto::{MasterKey, ObjectKey, TAG_LEN};
use tabane_format::key::Unwrapped;
use tabane_format::keyring::Keyring;
use tabane_format::pack::{BlockKind, PackWriter, SegmentReader, read_contents};
use tabane_storage::Id;

/// Checks AES-256-GCM, SHA-256, Zstandard, packs and the chunker.
pub fn encoding() -> Vec<Outcome> {
    vec![
        Outcome::of("AES-256-GCM", gcm),
        Outcome::of("SHA-256 of two libraries", sha256),
        Outcome::of("packs: compressed, sealed, read again", packs),
        Outcome::of("cut points", cut_points),
    ]
}

/// Test cases 13 and 14 of McGrew and Viega's specification of GCM: key, nonce and text are zeros.
fn gcm() -> Result<(), String> {
    let key = ObjectKey::new(&[0; 32]);
    for (len, expected) in [
        (0, "530f8afbc74536b9a963b4f1c4cb738b"),
        (
            16,
            "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919",
        ),
    ] {
        let mut sealed = vec![0; len];
        key.seal(0, &mut sealed, 0);
        same("sealing", hex::encode(&sealed).as_str(), expected)?;
        let plain = key.open(0, &mut sealed).map(<[u8]>::to_vec);
        same("opening", plain, Some(vec![0; len]))?;
    }
    let plain = noise(300_000);
    let mut sealed = plain.clone();
    key.seal(1, &mut sealed, 0);
    for at in [0, 150_001, plain.len() + TAG_LEN - 1] {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        same("a changed bit", key.open(1, &mut changed).is_some(), false)?;
    }
    let opened = key
        .open(1, &mut sealed)
        .is_some_and(|opened| opened == plain);
    same("opening what was sealed", opened, true)
}

/// Compares our SHA-256 with AWS-LC's.
fn sha256() -> Result<(), String> {
    let noise = noise(100_000);
    let messages: Vec<&[u8]> = (0..100).map(|at| &noise[at..at * 1000 + at]).collect();
    let digests = tabane_engine::Algorithm::Sha256.digest_many(&messages);
    for (message, digest) in messages.iter().zip(digests) {
        same("a digest", Id::from(digest), sha256_of_aws_lc(&[message]))?;
    }
    Ok(())
}

fn packs() -> Result<(), String> {
    let master = MasterKey::random();
    let text = b"all work and no play makes a dull backup\n".repeat(10_000);
    let segments = [noise(200_000), text];
    let keys = Keyring::new(Unwrapped::Master(master.clone()), false);
    let mut writer = PackWriter::new(&keys, BlockKind::Data, Vec::new());
    let mut compressor = Compressor::new(Compression::AUTO);
    for raw in &segments {
        let (codec, encoded) = compressor.encode(raw);
        writer.push(codec, encoded, vec![(Id::default(), raw.len() as u32)]);
    }
    let (bytes, contents) = writer.finish();
    let read = read_contents(&keys, &bytes, "a pack").map_err(|error| error.to_string())?;
    same("the footer", &read, &contents)?;
    let key = master.object_key(tabane_storage::ObjectKind::Pack, &contents.salt);
    let mut at = tabane_format::crypto::HEADER_LEN;
    let mut reader = SegmentReader::default();
    for (number, (segment, raw)) in contents.segments.iter().zip(&segments).enumerate() {
        let end = at + segment.stored_len as usize;
        let sealed = &bytes[at..end];
        let what = || "a pack".to_owned();
        let opened = reader.open(&key, number, segment.codec, raw.len(), sealed, what);
        let opened = opened.map_err(|error| error.to_string())?;
        same("a segment", opened == *raw, true)?;
        at = end;
    }
    Ok(())
}

/// Blocks are within their limits, and an insertion changes those around it only.
fn cut_points() -> Result<(), String> {
    let secret = Id::from(BLOCK_HASHES[0].digest(b"self-test"));
    let chunking = Chunking::content(4096);
    let chunker = Chunker::new(chunking, &secret).map_err(|error| error.to_string())?;
    let data = noise(1 << 20);
    let lens: Vec<usize> = chunker.blocks(&data, true).collect();
    same("the sum of all blocks", lens.iter().sum(), data.len())?;
    let whole = &lens[..lens.len() - 1];
    let within = whole.iter().all(|len| (1024..=32_768).contains(len));
    same("every block within its limits", within, true)?;

    let mut inserted = data.clone();
    inserted.splice(500_000..500_000, *b"inserted");
    let ends = |data: &[u8]| -> Vec<usize> {
        let mut end = 0;
        let ends = chunker.blocks(data, true).map(|len| {
            end += len;
            data.len() - end
        });
        ends.collect()
    };
    // Counted from the end, cut points behind the insertion are where they were.
    let (before, behind) = (ends(&data), ends(&inserted));
    let found = before.iter().filter(|end| **end < 400_000);
    let again = found.clone().filter(|end| behind.contains(end)).count();
    same("cut points behind an insertion", again, found.count())
}
