//! Which kernel runs, by processor, algorithm and number of messages.

use std::sync::OnceLock;

use crate::algorithm::Algorithm;
use crate::backend::{Backend, BackendError, VARIABLE};
use crate::compress::{CompressOne, LaneKernel};
use crate::entry::Entry;
use crate::vector::State;

/// Numbers of messages for which the choice is worked out exactly; beyond, the kernel with the best
/// rate runs.
const COUNTED_MESSAGES: usize = 128;

/// Costs of one block *in each lane*, in tenths of a nanosecond; only the ratios within a column
/// matter.
///
/// The first column is for processors with four full-width AVX-512 pipes of two cycles' latency,
/// measured on Zen 5. The second is for AMD's before it, of one cycle's latency and with 256 bits
/// at a time, measured on Zen 4. The third is for all others: worked out for Sapphire Rapids from
/// its published and observed rates (SHA-NI at 0.55 bytes a cycle however many streams there are,
/// two 512-bit or three 256-bit operations a cycle) and from the number of operations in a block,
/// at 2.9 GHz.
///
/// Those of MD5 in several registers of AVX2, and in plain ones, are measured on a Zen 4 whose
/// hypervisor hides AVX-512, relative to one register; in the other columns they are worked out
/// from latencies and ports.
///
/// The break-even points between kernels follow from these numbers alone: see [`Plan::new`]. The
/// test `measure_costs` below prints them for the processor that it runs on.
#[cfg(not(target_arch = "aarch64"))]
#[rustfmt::skip]
const COSTS: &[(Algorithm, Backend, usize, [u32; COLUMNS])] = &[
    (Algorithm::Md5,    Backend::Portable,  1, [ 745,  780,  960]),
    (Algorithm::Md5,    Backend::Portable,  2, [ 770,  855, 1050]),
    (Algorithm::Md5,    Backend::Portable,  3, [ 910, 1060, 1300]),
    (Algorithm::Md5,    Backend::Sse41,     4, [1910,  965, 2300]),
    (Algorithm::Md5,    Backend::Avx2,      8, [1930, 1020, 2300]),
    (Algorithm::Md5,    Backend::Avx2,     16, [1950, 1310, 2350]),
    (Algorithm::Md5,    Backend::Avx2,     24, [2000, 1675, 2900]),
    (Algorithm::Md5,    Backend::Avx512,    4, [1470,  925,  890]),
    (Algorithm::Md5,    Backend::Avx512,    8, [1470, 1020,  890]),
    (Algorithm::Md5,    Backend::Avx512,   16, [1470, 1230,  900]),
    (Algorithm::Md5,    Backend::Avx512,   32, [1505, 1735, 1640]),
    (Algorithm::Md5,    Backend::Avx512,   48, [1590, 2380, 2500]),
    (Algorithm::Md5,    Backend::Avx512,   64, [1800, 2965, 3400]),
    (Algorithm::Sha1,   Backend::Portable,  1, [ 630,  785, 1000]),
    (Algorithm::Sha1,   Backend::Sse41,     4, [1420, 1165, 2200]),
    (Algorithm::Sha1,   Backend::Avx2,      8, [1390, 1195, 2200]),
    (Algorithm::Sha1,   Backend::Avx512,    8, [ 855,  750, 1050]),
    (Algorithm::Sha1,   Backend::Avx512,   16, [ 865, 1405, 1580]),
    (Algorithm::Sha1,   Backend::ShaNi,     1, [ 325,  330,  410]),
    (Algorithm::Sha1,   Backend::ShaNi,     2, [ 365,  370,  800]),
    (Algorithm::Sha1,   Backend::ShaNi,     3, [ 425,  485, 1210]),
    (Algorithm::Sha1,   Backend::ShaNi,     4, [ 500,  545, 1620]),
    (Algorithm::Sha256, Backend::Portable,  1, [1400, 1800, 1700]),
    (Algorithm::Sha256, Backend::Sse41,     4, [2970, 2720, 5000]),
    (Algorithm::Sha256, Backend::Avx2,      8, [2770, 2640, 4600]),
    (Algorithm::Sha256, Backend::Avx512,    8, [1640, 1400, 2100]),
    (Algorithm::Sha256, Backend::Avx512,   16, [1820, 2695, 3050]),
    (Algorithm::Sha256, Backend::ShaNi,     1, [ 340,  355,  470]),
    (Algorithm::Sha256, Backend::ShaNi,     2, [ 448,  420,  880]),
    (Algorithm::Sha256, Backend::ShaNi,     3, [ 590,  610, 1320]),
    (Algorithm::Sha256, Backend::ShaNi,     4, [ 745,  670, 1760]),
    (Algorithm::Sha512, Backend::Portable,  1, [1720, 2285, 2300]),
    (Algorithm::Sha512, Backend::Sse41,     2, [3560, 3335, 6200]),
    (Algorithm::Sha512, Backend::Avx2,      1, [1340, 1720, 1750]),
    (Algorithm::Sha512, Backend::Avx512,    1, [1240, 1760, 1650]),
    (Algorithm::Sha512, Backend::Avx2,      4, [3380, 3265, 5900]),
    (Algorithm::Sha512, Backend::Avx512,    4, [2370, 1740, 2700]),
    (Algorithm::Sha512, Backend::Avx512,    8, [2130, 3285, 3900]),
    (Algorithm::Sha512, Backend::Avx512,   16, [3370, 6845, 8200]),
];

/// As above, in cycles of one column for all processors: worked out by llvm-mca 19, from the
/// release's assembly, for Neoverse N1, which is a Cortex-A76. Neoverse V1 and V2 run twice as many
/// vector instructions in a cycle; there too, the instructions of a hash are the fastest way to it,
/// and MD5 wants all the registers that it can get.
#[cfg(target_arch = "aarch64")]
#[rustfmt::skip]
const COSTS: &[(Algorithm, Backend, usize, [u32; COLUMNS])] = &[
    (Algorithm::Md5,    Backend::Portable,   1, [ 290]),
    (Algorithm::Md5,    Backend::Neon,       4, [ 816]),
    (Algorithm::Md5,    Backend::Neon,       8, [ 822]),
    (Algorithm::Md5,    Backend::Neon,      12, [ 958]),
    (Algorithm::Md5,    Backend::Neon,      16, [1262]),
    (Algorithm::Sha1,   Backend::Portable,   1, [ 325]),
    (Algorithm::Sha1,   Backend::Neon,       4, [ 650]),
    (Algorithm::Sha1,   Backend::ArmCe,      1, [ 103]),
    (Algorithm::Sha1,   Backend::ArmCe,      2, [ 145]),
    (Algorithm::Sha1,   Backend::ArmCe,      3, [ 218]),
    (Algorithm::Sha256, Backend::Portable,   1, [ 602]),
    (Algorithm::Sha256, Backend::Neon,       4, [1560]),
    (Algorithm::Sha256, Backend::ArmCe,      1, [  98]),
    (Algorithm::Sha256, Backend::ArmCe,      2, [ 115]),
    (Algorithm::Sha256, Backend::ArmCe,      3, [ 172]),
    (Algorithm::Sha512, Backend::Portable,   1, [ 766]),
    (Algorithm::Sha512, Backend::Neon,       2, [1927]),
    (Algorithm::Sha512, Backend::ArmSha512,  1, [ 252]),
    (Algorithm::Sha512, Backend::ArmSha512,  2, [ 461]),
];

/// Processors that [`COSTS`] tells apart.
const COLUMNS: usize = if cfg!(target_arch = "aarch64") { 1 } else { 3 };

/// The column of [`COSTS`] for this processor.
fn column() -> usize {
    // Miri knows no assembly.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::__cpuid;
        let maker = __cpuid(0);
        let amd = (maker.ebx, maker.edx, maker.ecx) == (0x6874_7541, 0x6974_6e65, 0x444d_4163);
        let version = __cpuid(1).eax;
        // Families from 0Fh on are the sum of two fields: 17h is Zen and Zen 2, 19h Zen 3 and Zen
        // 4, 1Ah Zen 5.
        match (version >> 8 & 0xf) + (version >> 20 & 0xff) {
            0x1a.. if amd => return 0,
            0x17.. if amd => return 1,
            _ => {}
        }
    }
    COLUMNS - 1
}

/// The cost of a kernel; for an unmeasured one, a guess that prefers wide kernels.
fn cost(algorithm: Algorithm, kernel: &LaneKernel, column: usize) -> u32 {
    // These differ from their fuller forms in the first state and the length of the digest only.
    let algorithm = match algorithm {
        Algorithm::Sha224 => Algorithm::Sha256,
        Algorithm::Sha384 => Algorithm::Sha512,
        other => other,
    };
    let measured = COSTS
        .iter()
        .find(|&&(a, b, lanes, _)| (a, b, lanes) == (algorithm, kernel.backend, kernel.lanes));
    measured.map_or(1000 + kernel.lanes as u32, |&(.., costs)| costs[column])
}

/// The kernels that may run, and which one does so for how many messages.
pub(crate) struct Plan {
    pub(crate) entry: &'static Entry,
    /// The function for a single message.
    pub(crate) one: CompressOne,
    /// The state before the first block.
    pub(crate) initial: State,
    kernels: Vec<LaneKernel>,
    choice: [u8; COUNTED_MESSAGES + 1],
}

impl Plan {
    /// The plan of the backend that `TABANE_SIMD` forces, with portable kernels for algorithms that
    /// it lacks; else the fastest plan.
    ///
    /// # Panics
    ///
    /// If the environment variable is wrong: see [`Backend::forced`].
    pub(crate) fn chosen(algorithm: Algorithm) -> &'static Plan {
        match Backend::forced() {
            Ok(None) => Self::automatic(algorithm),
            Ok(Some(backend)) if backend.supports(algorithm) => Self::of(backend, algorithm),
            Ok(Some(_)) => Self::of(Backend::Portable, algorithm),
            Err(error) => panic!("{VARIABLE}: {error}"),
        }
    }

    /// The kernels of one backend only, whatever `TABANE_SIMD` says.
    ///
    /// # Errors
    ///
    /// The processor lacks the backend, or the backend has no kernel for the algorithm.
    pub(crate) fn only(
        backend: Backend,
        algorithm: Algorithm,
    ) -> Result<&'static Plan, BackendError> {
        if !backend.is_available() {
            return Err(BackendError::Unavailable(backend));
        }
        if !backend.supports(algorithm) {
            return Err(BackendError::Unsupported(backend, algorithm));
        }
        Ok(Self::of(backend, algorithm))
    }

    /// The fastest that this processor offers.
    fn automatic(algorithm: Algorithm) -> &'static Plan {
        static PLANS: [OnceLock<Plan>; Algorithm::ALL.len()] =
            [const { OnceLock::new() }; Algorithm::ALL.len()];
        PLANS[algorithm as usize].get_or_init(|| {
            let kernels = Backend::available()
                .flat_map(algorithm.entry().lane_kernels)
                .collect();
            let column = column();
            Plan::new(algorithm, kernels, |kernel| cost(algorithm, kernel, column))
        })
    }

    /// The kernels of `backend`, which must be available and support the algorithm.
    fn of(backend: Backend, algorithm: Algorithm) -> &'static Plan {
        static PLANS: [[OnceLock<Plan>; Algorithm::ALL.len()]; Backend::ALL.len()] =
            [const { [const { OnceLock::new() }; Algorithm::ALL.len()] }; Backend::ALL.len()];
        assert!(backend.is_available());
        PLANS[backend as usize][algorithm as usize].get_or_init(|| {
            let column = column();
            let kernels = (algorithm.entry().lane_kernels)(backend);
            Plan::new(algorithm, kernels, |kernel| cost(algorithm, kernel, column))
        })
    }

    /// Finds, for each number of messages of equal length, the sequence of kernels with the least
    /// sum of costs (six messages may be best as four and two), and keeps its first kernel: the
    /// scheduler asks again whenever the number of messages left changes.
    fn new(
        algorithm: Algorithm,
        kernels: Vec<LaneKernel>,
        cost: impl Fn(&LaneKernel) -> u32,
    ) -> Plan {
        assert!(!kernels.is_empty());
        let costs: Vec<u64> = kernels
            .iter()
            .map(|kernel| u64::from(cost(kernel)))
            .collect();
        let mut least = [0; COUNTED_MESSAGES + 1];
        let mut choice = [0; COUNTED_MESSAGES + 1];
        for messages in 1..=COUNTED_MESSAGES {
            let sum = |i: usize| costs[i] + least[messages - messages.min(kernels[i].lanes)];
            // Among equal sums the widest kernel first, so that lanes stay full as long as messages
            // remain.
            let best = (0..kernels.len())
                .min_by_key(|&i| (sum(i), usize::MAX - kernels[i].lanes))
                .expect("there are kernels");
            least[messages] = sum(best);
            choice[messages] = best as u8;
        }
        let rate = |&i: &usize| costs[i] * 1_000_000 / kernels[i].lanes as u64;
        choice[COUNTED_MESSAGES] = (0..kernels.len())
            .min_by_key(rate)
            .expect("there are kernels") as u8;
        let single = kernels.iter().filter(|kernel| kernel.lanes == 1);
        let single = single.min_by_key(|kernel| cost(kernel));
        let entry = algorithm.entry();
        Plan {
            entry,
            one: (entry.one)(single.map_or(Backend::Portable, |kernel| kernel.backend)),
            initial: (entry.initial)(),
            kernels,
            choice,
        }
    }

    /// The most lanes that a kernel has.
    pub(crate) fn widest(&self) -> usize {
        self.kernels
            .iter()
            .map(|kernel| kernel.lanes)
            .fold(1, usize::max)
    }

    /// The kernel to run when `messages` are left.
    #[inline]
    pub(crate) fn kernel(&self, messages: usize) -> &LaneKernel {
        &self.kernels[usize::from(self.choice[messages.min(COUNTED_MESSAGES)])]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector::{LANES_MAX, LaneSet};

    /// Which kernels the costs choose, for each processor: few messages go to SHA-NI, many to the
    /// widest.
    #[test]
    fn choices() {
        let kernels = |algorithm: Algorithm| -> Vec<LaneKernel> {
            Backend::ALL
                .iter()
                .copied()
                .flat_map(algorithm.entry().lane_kernels)
                .collect()
        };
        for &algorithm in Algorithm::ALL {
            for column in 0..COLUMNS {
                let plan = Plan::new(algorithm, kernels(algorithm), |kernel| {
                    cost(algorithm, kernel, column)
                });
                let chosen: Vec<_> = (1..=COUNTED_MESSAGES)
                    .map(|n| (plan.kernel(n).backend, plan.kernel(n).lanes))
                    .collect();
                println!("{algorithm} {column}: {chosen:?}");
                if cfg!(target_arch = "x86_64") {
                    if Backend::ShaNi.supports(algorithm) {
                        assert_eq!(chosen[0], (Backend::ShaNi, 1));
                    }
                    // On Zen 4 four messages of SHA-256 with SHA-NI are as fast as vectors of them.
                    assert!(chosen[COUNTED_MESSAGES - 1].1 >= 4);
                    // What is left is never fewer than the lanes by so much that one at a time were
                    // better.
                    for (n, &(backend, lanes)) in chosen.iter().enumerate() {
                        let sparse = n < lanes / 8 && Backend::ShaNi.supports(algorithm);
                        assert!(!sparse, "{backend}: {lanes} lanes for {}", n + 1);
                    }
                }
                if cfg!(target_arch = "aarch64") {
                    let instructions = [Backend::ArmCe, Backend::ArmSha512]
                        .into_iter()
                        .find(|backend| backend.supports(algorithm));
                    if let Some(instructions) = instructions {
                        assert!(chosen.iter().all(|&(backend, _)| backend == instructions));
                    } else {
                        assert_eq!(chosen[0], (Backend::Portable, 1));
                        assert_eq!(chosen[15], (Backend::Neon, 16));
                    }
                }
            }
        }
    }

    /// Prints [`COSTS`] for this processor:
    /// `cargo test --release -p tabane-lanes --lib -- --ignored --nocapture measure_costs`.
    #[test]
    #[ignore = "a measurement"]
    fn measure_costs() {
        const BLOCKS: usize = 64;
        for &algorithm in Algorithm::ALL {
            let block = algorithm.entry().block_len;
            // A block more, so that lanes do not meet in one set of the cache.
            let stride = block * BLOCKS + 64;
            let data = vec![0x5a_u8; LANES_MAX * stride];
            for kernel in Backend::available().flat_map(algorithm.entry().lane_kernels) {
                let mut set = LaneSet::new();
                for (lane, pointer) in set.data.iter_mut().enumerate() {
                    *pointer = data[lane * stride..].as_ptr();
                }
                let mut best = f64::MAX;
                for _ in 0..200 {
                    let start = std::time::Instant::now();
                    for _ in 0..5 {
                        // SAFETY: the backend is available; every pointer has BLOCKS blocks.
                        unsafe { (kernel.compress)(&mut set, BLOCKS) };
                    }
                    best = best.min(start.elapsed().as_secs_f64() / (5 * BLOCKS) as f64);
                }
                let rate = 1e-9 * (block * kernel.lanes) as f64 / best;
                println!(
                    "    (Algorithm::{algorithm:?}, Backend::{:?}, {:2}, {:5}), // {rate:.2} GB/s, \
                     {:.1} a lane",
                    kernel.backend,
                    kernel.lanes,
                    (best * 1e10) as u64,
                    best * 1e10 / kernel.lanes as f64
                );
            }
        }
    }
}
