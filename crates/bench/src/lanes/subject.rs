//! What `tabane-bench lanes` times: hashes, HMACs and modes of AES, by name.

use std::fmt;
use std::str::FromStr;

use tabane_bench::peak::Model;
use tabane_bench::peak::work::{self, AesMode, Peak};
use tabane_lanes::{Algorithm, Backend, aes};

/// Something to compute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Subject {
    /// Digests.
    Hash(Algorithm),
    /// Tags, under one key.
    Hmac(Algorithm),
    /// Ciphertexts or plaintexts in place, under one key of so many bits.
    Aes(AesMode, usize),
}

/// A backend of either kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Instructions {
    /// Of hashes.
    Hash(Backend),
    /// Of AES.
    Aes(aes::Backend),
}

impl Subject {
    /// What is timed unless something else is asked for.
    pub const USUAL: [Subject; 14] = [
        Subject::Hash(Algorithm::Md5),
        Subject::Hash(Algorithm::Sha1),
        Subject::Hash(Algorithm::Sha256),
        Subject::Hash(Algorithm::Sha512),
        Subject::Hmac(Algorithm::Md5),
        Subject::Hmac(Algorithm::Sha1),
        Subject::Hmac(Algorithm::Sha256),
        Subject::Hmac(Algorithm::Sha512),
        Subject::Aes(AesMode::CbcEncrypt, 128),
        Subject::Aes(AesMode::CbcEncrypt, 192),
        Subject::Aes(AesMode::CbcEncrypt, 256),
        Subject::Aes(AesMode::CbcDecrypt, 128),
        Subject::Aes(AesMode::Ctr, 128),
        Subject::Aes(AesMode::Ecb, 128),
    ];

    /// Numbers of messages at once that are worth a line; one for modes in which one message fills
    /// the registers.
    pub fn counts(self) -> &'static [usize] {
        match self {
            Subject::Hash(_) => &[1, 2, 3, 4, 5, 6, 8, 16, 32, 64],
            Subject::Hmac(_) => &[1, 16, 64],
            Subject::Aes(AesMode::CbcEncrypt, _) => &[1, 2, 4, 8, 16, 32, 48, 64],
            Subject::Aes(..) => &[1],
        }
    }

    /// Numbers of messages that are worth a line with one backend.
    pub fn counts_of_backend(self) -> &'static [usize] {
        match self {
            Subject::Hash(_) => &[16, 32, 64],
            Subject::Hmac(_) => &[],
            Subject::Aes(AesMode::CbcEncrypt, _) => &[48],
            Subject::Aes(..) => &[1],
        }
    }

    /// The backends that can be forced here.
    pub fn backends(self) -> Vec<Instructions> {
        match self {
            Subject::Hash(algorithm) => Backend::available()
                .filter(|backend| backend.supports(algorithm))
                .map(Instructions::Hash)
                .collect(),
            Subject::Hmac(_) => Vec::new(),
            Subject::Aes(..) => aes::Backend::available().map(Instructions::Aes).collect(),
        }
    }

    /// Whether messages of mixed lengths, and threads, are timed.
    pub fn in_lanes(self) -> bool {
        matches!(
            self,
            Subject::Hash(_) | Subject::Aes(AesMode::CbcEncrypt, _)
        )
    }

    /// What `openssl speed` calls it.
    pub fn openssl_arguments(self) -> Vec<String> {
        let words = match self {
            Subject::Hash(algorithm) => ["-evp".to_owned(), algorithm.name().to_owned()].to_vec(),
            Subject::Hmac(algorithm) => ["-hmac".to_owned(), algorithm.name().to_owned()].to_vec(),
            Subject::Aes(mode, bits) => {
                let mode = match mode {
                    AesMode::CbcEncrypt | AesMode::CbcDecrypt => "cbc",
                    AesMode::Ctr => "ctr",
                    AesMode::Ecb => "ecb",
                };
                ["-evp".to_owned(), format!("aes-{bits}-{mode}")].to_vec()
            }
        };
        let decrypt = self == Subject::Aes(AesMode::CbcDecrypt, 128);
        words
            .into_iter()
            .chain(decrypt.then(|| "-decrypt".to_owned()))
            .collect()
    }

    /// What the program for libipsec-mb calls it, if it has it. MD5 it has only as HMAC, which
    /// takes no longer for long messages.
    pub fn ipsec_mb_name(self) -> Option<String> {
        match self {
            Subject::Hash(Algorithm::Md5) => Some("hmac-md5".to_owned()),
            Subject::Hash(Algorithm::Sha224 | Algorithm::Sha384) => None,
            Subject::Hmac(Algorithm::Sha224 | Algorithm::Sha384) => None,
            Subject::Aes(AesMode::CbcEncrypt, _) | Subject::Aes(_, 128) => Some(self.to_string()),
            Subject::Aes(..) => None,
            _ => Some(self.to_string()),
        }
    }

    /// The bounds of Tabane's kernels on this processor. Long messages take as long with HMAC as
    /// without.
    pub fn peaks(self, model: &Model) -> Vec<(Instructions, Peak)> {
        match self {
            Subject::Hash(algorithm) | Subject::Hmac(algorithm) => Backend::available()
                .flat_map(|backend| {
                    let works = work::hash(algorithm, backend).into_iter();
                    works.filter_map(move |work| {
                        Some((Instructions::Hash(backend), work.peak(model)?))
                    })
                })
                .collect(),
            Subject::Aes(mode, bits) => aes::Backend::available()
                .filter_map(|backend| {
                    let work = work::aes(mode, bits, backend)?;
                    Some((Instructions::Aes(backend), work.peak(model)?))
                })
                .collect(),
        }
    }
}

impl Instructions {
    /// The name of the backend.
    pub fn name(self) -> &'static str {
        match self {
            Instructions::Hash(backend) => backend.name(),
            Instructions::Aes(backend) => backend.name(),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Hash(algorithm) => write!(f, "{algorithm}"),
            Subject::Hmac(algorithm) => write!(f, "hmac-{algorithm}"),
            Subject::Aes(mode, bits) => {
                let mode = match mode {
                    AesMode::CbcEncrypt => "cbc-encrypt",
                    AesMode::CbcDecrypt => "cbc-decrypt",
                    AesMode::Ctr => "ctr",
                    AesMode::Ecb => "ecb",
                };
                write!(f, "aes-{bits}-{mode}")
            }
        }
    }
}

impl FromStr for Subject {
    type Err = String;

    fn from_str(name: &str) -> Result<Subject, String> {
        let others = [Algorithm::Sha224, Algorithm::Sha384].map(Subject::Hash);
        let mut known = Subject::USUAL.into_iter().chain(others);
        known
            .find(|subject| subject.to_string() == name)
            .ok_or_else(|| {
                let names: Vec<_> = Subject::USUAL.iter().map(Subject::to_string).collect();
                format!("known are {}", names.join(", "))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for subject in Subject::USUAL {
            assert_eq!(subject.to_string().parse(), Ok(subject));
        }
        let decrypt: Subject = "aes-128-cbc-decrypt".parse().unwrap();
        assert_eq!(
            decrypt.openssl_arguments(),
            ["-evp", "aes-128-cbc", "-decrypt"]
        );
        assert_eq!(decrypt.ipsec_mb_name().unwrap(), "aes-128-cbc-decrypt");
        let md5: Subject = "md5".parse().unwrap();
        assert_eq!(md5.openssl_arguments(), ["-evp", "md5"]);
        assert_eq!(md5.ipsec_mb_name().unwrap(), "hmac-md5");
        assert!("crc32".parse::<Subject>().is_err());
    }
}
