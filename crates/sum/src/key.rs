//! Files with keys.

use std::fmt;
use std::io::{self, Read};

use tabane_engine::{Algorithm, Function, Key, KeyError, KeyRule};
use zeroize::Zeroizing;

/// The bytes of a file with a key, wiped when it is dropped.
///
/// For an algorithm whose keys have a certain length, they are the key itself, or the key in
/// hexadecimal with or without a newline. For an algorithm with keys of any length, all bytes are
/// the key.
pub struct KeyFile(Zeroizing<Vec<u8>>);

impl KeyFile {
    /// Bytes of a key file at most; a longer file was named by mistake.
    pub const LEN_MAX: u64 = 64 << 10;

    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be read, or is longer than [`KeyFile::LEN_MAX`].
    pub fn read(reader: impl Read) -> io::Result<Self> {
        // Never grows, so that no copy stays behind unwiped.
        let mut bytes = Zeroizing::new(Vec::with_capacity(Self::LEN_MAX as usize + 1));
        reader.take(Self::LEN_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > Self::LEN_MAX {
            Err(io::Error::other("it is too long for a key"))
        } else {
            Ok(Self(bytes))
        }
    }

    /// The algorithm with this key.
    ///
    /// # Errors
    /// The algorithm takes no key, or none of this length.
    pub fn function(&self, algorithm: Algorithm) -> Result<Function, KeyError> {
        let key = match algorithm.key_rule() {
            KeyRule::Exactly(len) => from_hex(&self.0, len),
            _ => None,
        };
        let key = key.unwrap_or_else(|| self.0.clone());
        Function::new(algorithm, Some(&Key::new(key)))
    }
}

impl fmt::Debug for KeyFile {
    /// Omits the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyFile").finish_non_exhaustive()
    }
}

/// The bytes of a text that is `len` of them in hexadecimal.
fn from_hex(text: &[u8], len: usize) -> Option<Zeroizing<Vec<u8>>> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    if text.len() != 2 * len {
        return None;
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(len));
    for pair in text.chunks_exact(2) {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push((digit(pair[0])? << 4 | digit(pair[1])?) as u8);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(algorithm: Algorithm, file: &[u8]) -> Result<String, KeyError> {
        let function = KeyFile::read(file).expect("short").function(algorithm)?;
        Ok(function.digest(b"abc").to_string())
    }

    #[test]
    fn keys_of_a_certain_length_may_be_hexadecimal() {
        let raw = digest(Algorithm::SipHash24, b"0123456789abcdef");
        for text in [
            "30313233343536373839616263646566",
            "30313233343536373839616263646566\n",
            "30313233343536373839616263646566\r\n",
            "30313233343536373839616263646566".to_uppercase().as_str(),
        ] {
            assert_eq!(digest(Algorithm::SipHash24, text.as_bytes()), raw);
        }
        for bad in [
            "0123456789abcdef\n",
            "3031",
            "",
            "3031323334353637383961626364656g",
        ] {
            let error = KeyError::WrongLength(Algorithm::SipHash24, bad.len());
            assert_eq!(digest(Algorithm::SipHash24, bad.as_bytes()), Err(error));
        }
        // 32 bytes are a key, even where all are digits.
        let digits = b"0123456789abcdef0123456789abcdef";
        assert!(digest(Algorithm::Blake3Keyed, digits).is_ok());
    }

    #[test]
    fn others_are_bytes() {
        let lines = [&b"00ff"[..], b"00ff\n", b"00FF", b"\x00\xff"];
        let digests = lines.map(|file| digest(Algorithm::HmacMd5, file).expect("a key"));
        for (number, digest) in digests.iter().enumerate() {
            assert!(!digests[..number].contains(digest));
        }
        assert!(digest(Algorithm::HmacMd5, b"").is_err());
        assert!(KeyFile::read(io::repeat(b'x')).is_err());
    }
}
