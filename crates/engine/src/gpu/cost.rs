//! Estimates the time of a unit for a bundle.

/// A linear model of one unit and one algorithm, measured at start and corrected by every bundle
/// since.
///
/// A unit works on many messages at once and on each one no faster than a chain of steps allows: so
/// a bundle takes as long as all of its bytes or as its longest message, whichever is more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Seconds that every bundle takes.
    fixed_s: f64,
    /// Seconds a byte of many messages.
    per_byte_s: f64,
    /// Seconds a byte of one message.
    chain_s: f64,
    /// Recent times of bundles over their estimates.
    correction: f64,
}

/// Weight of one bundle in the correction.
const CORRECTION_WEIGHT: f64 = 0.125;

/// Bound on the effect of one outlier, as when the machine sleeps.
const OUTLIER_RATIO_MAX: f64 = 8.0;

impl Cost {
    /// The cost from three measurements in seconds: of a tiny message, and of this many bytes in
    /// many messages and in one.
    pub(crate) fn measured(nothing_s: f64, many: (usize, f64), one: (usize, f64)) -> Self {
        let per_byte_s = |(bytes, seconds): (usize, f64)| {
            (seconds - nothing_s).max(seconds / 16.0) / bytes as f64
        };
        Self {
            fixed_s: nothing_s,
            per_byte_s: per_byte_s(many),
            chain_s: per_byte_s(one),
            correction: 1.0,
        }
    }

    /// Seconds that a bundle should take.
    pub(crate) fn estimate(&self, bytes: usize, longest: usize) -> f64 {
        let work_s = (bytes as f64 * self.per_byte_s).max(longest as f64 * self.chain_s);
        self.correction * (self.fixed_s + work_s)
    }

    /// A bundle took so long.
    pub(crate) fn correct(&mut self, estimated_s: f64, took_s: f64) {
        let ratio = (took_s / estimated_s).clamp(1.0 / OUTLIER_RATIO_MAX, OUTLIER_RATIO_MAX);
        self.correction *= 1.0 + CORRECTION_WEIGHT * (ratio - 1.0);
    }

    /// Bytes a second of many messages.
    pub(crate) fn bytes_per_s(&self) -> f64 {
        1.0 / (self.per_byte_s * self.correction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty microseconds and 10 GB/s; one message 0.1 GB/s.
    fn card() -> Cost {
        Cost::measured(
            20e-6,
            (1 << 20, 20e-6 + 1e-10 * 1048576.0),
            (1 << 10, 20e-6 + 1e-8 * 1024.0),
        )
    }

    #[test]
    fn what_was_measured_is_estimated() {
        assert!((card().estimate(1 << 20, 1 << 10) / 124.8576e-6 - 1.0).abs() < 1e-9);
        // One long message is a chain.
        assert!((card().estimate(1 << 20, 1 << 20) / 0.01050576 - 1.0).abs() < 1e-9);
        assert!((card().bytes_per_s() / 1e10 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn estimates_follow_what_bundles_take() {
        let mut cost = card();
        for _ in 0..100 {
            let estimated = cost.estimate(1 << 20, 1 << 10);
            cost.correct(estimated, 3.0 * 124.8576e-6);
        }
        assert!((cost.estimate(1 << 20, 1 << 10) / (3.0 * 124.8576e-6) - 1.0).abs() < 0.01);
        // A pause of a minute is forgotten.
        let estimated = cost.estimate(1 << 20, 1 << 10);
        cost.correct(estimated, 60.0);
        assert!(cost.estimate(1 << 20, 1 << 10) < 2.0 * estimated);
    }
}
