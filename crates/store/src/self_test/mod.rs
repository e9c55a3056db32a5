//! Whether this machine computes rightly: what to run when memory or a processor is suspected.
//!
//! Everything that bytes go through on their way into a repository and out of it does something of which the result is
//! known, from the standards or from implementations that have nothing in common with ours.

mod encoding;
mod kernels;
mod round_trip;

pub use encoding::encoding;
pub use kernels::kernels;
pub use round_trip::round_trip;

use aws_lc_rs::digest;

use tabane_storage::Id;

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What was checked.
    pub what: String,
    /// What was wrong.
    pub result: Result<(), String>,
}

impl Outcome {
    fn of(what: impl Into<String>, check: impl FnOnce() -> Result<(), String>) -> Self {
        Self {
            what: what.into(),
            result: check(),
        }
    }
}

/// Bytes that do not repeat at any short distance, the same each time (xorshift64).
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// The SHA-256 of parts one behind the other, by AWS-LC.
fn sha256_of_aws_lc(parts: &[&[u8]]) -> Id {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(part);
    }
    let digest = context.finish();
    Id(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
}

/// An error unless two values are the same.
fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{what} gives {found:?}, not {expected:?}")),
    }
}

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
