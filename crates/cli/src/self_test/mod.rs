//! Whether this machine computes rightly: what to run when memory or a processor is suspected.
//!
//! Everything that bytes go through on their way into a repository and out of it does something of
//! which the result is known, from the standards or from implementations that have nothing in
//! common with ours.

mod encoding;
mod kernels;
mod outcome;
mod round_trip;

pub use encoding::encoding;
pub use kernels::kernels;
pub use outcome::Outcome;
pub use round_trip::round_trip;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_passes() {
        let directory = tempfile::tempdir().expect("a directory");
        let outcomes = kernels().into_iter().chain(encoding());
        for outcome in outcomes.chain([round_trip(directory.path())]) {
            assert_eq!(outcome.result, Ok(()), "{}", outcome.what);
        }
        assert_eq!(
            std::fs::read_dir(directory.path())
                .expect("readable")
                .count(),
            0
        );
    }
}
