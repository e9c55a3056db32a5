//! How fast one core goes through memory, whatever it does there: what work on data beyond the
//! caches cannot exceed.

use std::hint::black_box;

use crate::measure::median;
use crate::timing::Rate;

/// Bytes a second of CPU time, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Read only.
    pub read_bytes_per_s: f64,
    /// Read and written again in place.
    pub change_bytes_per_s: f64,
}

impl Memory {
    /// Goes through `data`, which is larger than the caches, a few times.
    pub fn measure(data: &mut [u8]) -> Memory {
        let len = data.len();
        let middle = |mut work: Box<dyn FnMut() + '_>| {
            let rates = (0..3).map(|_| Rate::of(len, 0.0, &mut work).bytes_per_s);
            median(rates).unwrap_or_default()
        };
        let read_bytes_per_s = middle(Box::new(|| {
            let (words, _) = data.as_chunks();
            let words = words.iter().map(|&bytes| u64::from_ne_bytes(bytes));
            black_box(words.fold(0, u64::wrapping_add));
        }));
        let change_bytes_per_s = middle(Box::new(|| {
            data.iter_mut().for_each(|byte| *byte = !*byte);
            black_box(&mut *data);
        }));
        Memory {
            read_bytes_per_s,
            change_bytes_per_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_through_all() {
        let mut data = vec![1; 1 << 20];
        let memory = Memory::measure(&mut data);
        assert!(memory.read_bytes_per_s > 1e8 && memory.change_bytes_per_s > 1e8);
        // Three times, each once more before the clock runs.
        assert!(data.iter().all(|&byte| byte == 1));
    }
}
