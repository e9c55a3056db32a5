//! Roles: what a client of a storage server or of a cluster may do.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a client may do; each role includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Lists and reads: restores, mounts and checks.
    Read,
    /// Also adds what a backup writes.
    Append,
    /// Everything.
    Admin,
}

impl Role {
    /// All roles, the least first.
    pub const ALL: [Self; 3] = [Self::Read, Self::Append, Self::Admin];

    /// The role's name: `"read"`, `"append"` or `"admin"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Append => "append",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut roles = Self::ALL.into_iter();
        roles
            .find(|role| role.name() == text)
            .ok_or_else(|| format!("there is no role {text:?}: use read, append or admin"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_read_as_they_are_written() {
        for role in Role::ALL {
            assert_eq!(role.to_string().parse(), Ok(role));
        }
        assert!("root".parse::<Role>().is_err());
    }
}
