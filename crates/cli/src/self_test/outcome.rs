//! What a check found, and what checks share.

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
    pub(super) fn of(what: impl Into<String>, check: impl FnOnce() -> Result<(), String>) -> Self {
        Self {
            what: what.into(),
            result: check(),
        }
    }
}

/// Bytes that do not repeat at any short distance, the same each time (xorshift64).
pub(super) fn noise(len: usize) -> Vec<u8> {
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
pub(super) fn sha256_of_aws_lc(parts: &[&[u8]]) -> Id {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(part);
    }
    let digest = context.finish();
    Id(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
}

/// An error unless two values are the same.
pub(super) fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    found: T,
    expected: T,
) -> Result<(), String> {
    if found == expected {
        Ok(())
    } else {
        Err(format!("{what} gives {found:?}, not {expected:?}"))
    }
}
