//! Data that another program has computed on a graphics card are cut into blocks, and the blocks
//! hashed, without leaving it: an integrity step, or the first half of a deduplicating backup.
//!
//! `cargo run --release -p tabane-papers --example on_card`; without a card it says so.

use std::time::Instant;

use anyhow::{Result, ensure};
use tabane_gpu::{Algorithm, Card, Gear, Options};
use tabane_store::Id;
use tabane_store::chunker::{Chunker, Chunking};

fn main() -> Result<()> {
    let card = match Card::open(&Options::default()) {
        Ok(card) => card,
        Err(error) => {
            println!("{error}");
            return Ok(());
        }
    };
    // In a program of yours, `Card::borrow` takes what lies there already.
    let bytes = tabane_bench::data::noise(256 << 20);
    let mut data = card.allocate(bytes.len())?;
    data.write(&bytes)?;

    // A repository's chunker; the card gets its table.
    let chunker = Chunker::new(Chunking::default(), &Id([7; 32]))?;
    let (table, [strict, lax]) = chunker.hash();
    let mut gear = Gear::new(&card, table)?;

    let start = Instant::now();
    let marks = gear.marks(&data, strict, lax)?;
    let lens = chunker.blocks_by(data.len(), |range, strict| marks.first_below(range, strict));
    let cut = start.elapsed();

    let mut end = 0;
    let ranges: Vec<_> = lens
        .iter()
        .map(|&len| {
            end += len as u64;
            end - len as u64..end
        })
        .collect();
    let blocks = card.messages(&ranges)?;
    let mut on_card = card.allocate(blocks.len() * Algorithm::Sha256.digest_len())?;
    let start = Instant::now();
    card.hash_on_card(Algorithm::Sha256, &data, &blocks, &mut on_card)?;
    let hashed = start.elapsed();
    let mut digests = vec![0; on_card.len()];
    on_card.read(&mut digests)?;

    println!(
        "{}: {} MiB cut into {} blocks in {:.2} ms, hashed in {:.2} ms",
        card.properties().name,
        bytes.len() >> 20,
        lens.len(),
        1e3 * cut.as_secs_f64(),
        1e3 * hashed.as_secs_f64(),
    );

    // What the processor says.
    ensure!(lens == chunker.blocks(&bytes, true).collect::<Vec<usize>>());
    let messages: Vec<&[u8]> = ranges
        .iter()
        .map(|range| &bytes[range.start as usize..range.end as usize])
        .collect();
    let expected = tabane_lanes::hash_many(tabane_lanes::Algorithm::Sha256, &messages);
    let expected: Vec<u8> = expected
        .iter()
        .flat_map(|digest| digest.as_bytes().to_vec())
        .collect();
    ensure!(digests == expected);
    println!("the processor finds the same blocks and digests");
    Ok(())
}
