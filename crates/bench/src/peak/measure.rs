//! Timing the micro-kernels.

use std::time::Instant;

use super::bound::Ports;
use super::kernels::{ADDITIONS, Kernel, Memory, Mix, count_cycles, kernels};
use super::model::Model;
use super::width::Width;
use crate::measure::median;

/// Measures the ports of this processor, in a tenth of a second. There is always a model.
pub fn measure() -> Option<Model> {
    /// Operations in one timing of a loop.
    const OPERATIONS: u64 = 200_000;
    const TIMINGS: usize = 15;

    let mut memory = Memory::new();
    let mut rate = |kernel: &Kernel| {
        let rounds = OPERATIONS / kernel.operations;
        kernel.run(rounds / 8, &mut memory);
        let rates = (0..TIMINGS).map(|_| {
            let start = Instant::now();
            kernel.run(rounds, &mut memory);
            let seconds = start.elapsed().as_secs_f64();
            (rounds * kernel.operations) as f64 / (seconds * clock_once(OPERATIONS / 4))
        });
        whole(median(rates).expect("there are timings"))
    };
    let mut widths = Vec::new();
    for width in Width::ALL {
        let mut ports = Ports::default();
        for kernel in kernels(width) {
            let rate = rate(&kernel);
            match kernel.mix {
                Mix::Alone(class) => ports.alone[class as usize] = Some(rate),
                Mix::Chain(class) => ports.latency[class as usize] = Some(whole(1.0 / rate)),
                Mix::Pair(a, b) => ports.pairs.push((a, b, rate)),
                Mix::Together => ports.together = Some(rate),
            }
        }
        if ports != Ports::default() {
            widths.push((width, ports));
        }
    }
    Some(Model { widths })
}

/// Ports and latencies are whole numbers: what is as near to one as the measurement is exact is
/// meant to be it.
fn whole(rate: f64) -> f64 {
    if (rate / rate.round() - 1.0).abs() < 0.04 {
        rate.round()
    } else {
        rate
    }
}

/// Cycles a second of this core now: the median of a few timings, a tenth of a millisecond in all.
pub fn clock_hz() -> Option<f64> {
    median((0..5).map(|_| clock_once(80_000)))
}

fn clock_once(cycles: u64) -> f64 {
    let start = Instant::now();
    count_cycles(cycles / ADDITIONS);
    (cycles / ADDITIONS * ADDITIONS) as f64 / start.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::super::class::Class;
    use super::*;

    #[test]
    fn measures_this_processor() {
        let clock = clock_hz().unwrap();
        assert!((5e8..1e10).contains(&clock), "{clock}");
        let model = measure().unwrap();
        let ports = model
            .ports(Width::W128)
            .expect("every x86-64 processor has SSE2");
        for class in [Class::Add, Class::Logic, Class::Shift, Class::Unpack] {
            let rate = ports.alone[class as usize].unwrap();
            assert!((0.3..10.0).contains(&rate), "{class:?} {rate}");
            let latency = ports.latency[class as usize].unwrap();
            assert!((0.5..10.0).contains(&latency), "{class:?} {latency}");
        }
        assert_eq!(ports.alone[Class::Rotate as usize], None);
        // A chain cannot be faster than what does not wait.
        assert!(ports.total() * ports.latency[Class::Add as usize].unwrap() > 0.9);
    }

    #[test]
    fn whole_numbers() {
        assert_eq!([3.9, 2.05, 1.6, 0.5].map(whole), [4.0, 2.0, 1.6, 0.5]);
    }
}
