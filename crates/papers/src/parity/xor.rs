//! The speed at which one core adds up two buffers, as a relaying node does: figure 4 of the paper.

use std::hint::black_box;

use anyhow::Result;
use serde_json::json;
use tabane_bench::data::noise;
use tabane_bench::drawing::{self, Across, Lines};
use tabane_bench::measure::median;
use tabane_bench::timing::Rate;
use tabane_lanes::xor_of;
use tabane_testing::progress;

use super::Args;

/// Bytes of a buffer.
const BUFFER_LENS: [usize; 8] = [
    1 << 10,
    4 << 10,
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
    16 << 20,
];

const ROUNDS: usize = 5;

/// CPU seconds of each timing.
const TIMING_S: f64 = 0.05;

/// Measures, in turns with copies of as many bytes.
pub fn measure(args: &Args) -> Result<()> {
    let mut lines: Lines<&str> = vec![("copies", Vec::new()), ("sums of two", Vec::new())];
    for len in BUFFER_LENS {
        progress::show(&format!("sums of two buffers of {len} B"));
        let (first, second, mut into) = (noise(len), noise(len), vec![0; len]);
        // To look at the clock takes as long as a short sum.
        let times = (BUFFER_LENS[BUFFER_LENS.len() - 1] / len).min(1024);
        let mut rates = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            let copy = Rate::of(2 * len * times, TIMING_S, || {
                for _ in 0..times {
                    // Two, as much as a sum reads.
                    into.copy_from_slice(black_box(&first));
                    black_box(&mut into).copy_from_slice(&second);
                }
            });
            let sum = Rate::of(2 * len * times, TIMING_S, || {
                for _ in 0..times {
                    xor_of(black_box(&mut into), &[&first, &second]);
                }
            });
            rates[0].push(copy.bytes_per_s / 1e9);
            rates[1].push(sum.bytes_per_s / 1e9);
        }
        let [copy, sum] = rates.map(|rates| median(rates).unwrap_or(0.0));
        for ((_, points), rate) in lines.iter_mut().zip([copy, sum]) {
            points.push((len as f64, rate));
        }
        if args.json {
            println!(
                "{}",
                json!({"bench": "parity_xor", "buffer_bytes": len, "sum_gb_per_s": sum,
                    "copy_gb_per_s": copy})
            );
        } else {
            println!("{len:>9} B: sums {sum:6.1} GB/s of what is read, copies {copy:6.1} GB/s")
        }
    }
    let Some(dir) = &args.plots else {
        return Ok(());
    };
    let x = Across::Lengths("bytes of a buffer");
    drawing::lines(
        &dir.join("parity-xor.svg"),
        x,
        "GB/s that are read, one core",
        0.2,
        &lines,
    )
}
