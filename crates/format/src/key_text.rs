//! A key and the config as a text that can be printed, typed and photographed.
//!
//! ```text
//! bytes:  1 (version) · length of the config (2) · the config · the key · first 8 of BLAKE3 of all
//! line:   number ":" 24 bytes as hexadecimal digits "-" first 2 of BLAKE3 of number (2) and bytes
//! ```
//!
//! Numbers are little-endian, lines are numbered from 1. A slash may stand between two lines in the
//! place of a newline: so lines are made of the characters that a QR code holds most densely.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use tabane_storage::object_id;

const VERSION: u8 = 1;

/// Bytes that a line has, but for the last one.
const LINE_LEN: usize = 24;

const CHECK_LEN: usize = 8;
const LINE_CHECK_LEN: usize = 2;

/// A config and a key, each as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyText {
    /// The object `config`.
    pub config: Vec<u8>,
    /// One object of `keys/`.
    pub key: Vec<u8>,
}

impl KeyText {
    /// The lines of the text, in groups of four digits.
    pub fn lines(&self) -> Vec<String> {
        let len = u16::try_from(self.config.len()).expect("a config is some hundred bytes");
        let mut bytes = vec![VERSION];
        bytes.extend(len.to_le_bytes());
        bytes.extend(&self.config);
        bytes.extend(&self.key);
        let check = object_id(&[&bytes]);
        bytes.extend(&check.0[..CHECK_LEN]);
        let lines = (1..).zip(bytes.chunks(LINE_LEN));
        let text = lines.map(|(number, bytes)| {
            let groups: Vec<String> = bytes.chunks(2).map(hex::encode).collect();
            let check = hex::encode(line_check(number, bytes));
            format!("{number:02}: {} - {check}", groups.join(" "))
        });
        text.collect()
    }

    /// Reads the lines of a text, in any order, whatever stands between them. Ends of lines may be
    /// those of any system, digits may be small or capital, blanks are where they want.
    ///
    /// # Errors
    /// [`Error::KeyText`], which names the line that is wrong or missing.
    pub fn parse(text: &str) -> Result<Self> {
        let mut lines = BTreeMap::new();
        for line in text.split(['\n', '\r', '/']) {
            let line: String = line.chars().filter(|c| !c.is_whitespace()).collect();
            // Anything else is said to people.
            let Some((number, rest)) = line.split_once(':') else {
                continue;
            };
            if number.is_empty() || number.chars().any(|c| !c.is_ascii_digit()) {
                continue;
            }
            let wrong = || {
                Error::KeyText(format!(
                    "line {number} has a mistake: its end does not match"
                ))
            };
            let number_of_line: u16 = number.parse().map_err(|_| wrong())?;
            let (digits, check) = rest.split_once('-').ok_or_else(wrong)?;
            let bytes = hex::decode(digits).map_err(|_| wrong())?;
            let check = hex::decode(check).map_err(|_| wrong())?;
            if check != line_check(number_of_line, &bytes) {
                return Err(wrong());
            }
            lines.insert(number_of_line, bytes);
        }
        let mut bytes = Vec::new();
        for (number, (found, line)) in (1..).zip(&lines) {
            if *found != number {
                return Err(Error::KeyText(format!("line {number} is missing")));
            }
            bytes.extend(line);
        }
        Self::from_bytes(&bytes, lines.len())
    }

    fn from_bytes(bytes: &[u8], lines: usize) -> Result<Self> {
        let wrong = |what: &str| Error::KeyText(what.to_owned());
        match bytes.first() {
            None => return Err(wrong("it has no numbered lines")),
            Some(&VERSION) => {}
            Some(_) => return Err(wrong("a newer program wrote it: install a newer tabane")),
        }
        let whole = bytes.split_last_chunk::<CHECK_LEN>();
        let whole = whole.filter(|(bytes, check)| object_id(&[bytes]).0.starts_with(*check));
        let Some((bytes, _)) = whole else {
            let text = format!("the lines behind line {lines} are missing");
            return Err(Error::KeyText(text));
        };
        let parts = bytes[1..]
            .split_first_chunk::<2>()
            .and_then(|(len, rest)| rest.split_at_checked(u16::from_le_bytes(*len).into()));
        let (config, key) = parts.ok_or_else(|| wrong("it is shorter than it says"))?;
        Ok(Self {
            config: config.to_vec(),
            key: key.to_vec(),
        })
    }
}

fn line_check(number: u16, bytes: &[u8]) -> [u8; LINE_CHECK_LEN] {
    let id = object_id(&[&number.to_le_bytes(), bytes]);
    *id.0.first_chunk().expect("an ID is longer")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> KeyText {
        KeyText {
            config: (0..300_u16).map(|number| number as u8).collect(),
            key: b"{ \"a key\": 1 }".repeat(30),
        }
    }

    fn complaint(text: &str) -> String {
        KeyText::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_text_comes_back_however_it_is_typed() {
        let text = sample();
        let lines = text.lines();
        // A page of 60 lines, and what is said above.
        assert!(lines.len() < 40 && lines.iter().all(|line| line.len() <= 72));
        let mut turned = lines.clone();
        turned.reverse();
        let variants = [
            lines.join("\n"),
            lines.join("\r\n"),
            lines.join("\r"),
            lines.join("/").replace(' ', ""),
            lines.join("\n").to_uppercase(),
            format!("Tabane key: keep it\n\n{}\n\n", turned.join("\n\n\t ")),
        ];
        for variant in variants {
            assert_eq!(KeyText::parse(&variant).unwrap(), text, "{variant}");
        }
    }

    #[test]
    fn mistakes_are_named_by_line() {
        let lines = sample().lines();
        for (number, line) in lines.iter().enumerate() {
            let mut missing = lines.clone();
            missing.remove(number);
            let said = complaint(&missing.join("\n"));
            let expected = if number + 1 == lines.len() {
                format!("behind line {number} are missing")
            } else {
                format!("line {} is missing", number + 1)
            };
            assert!(said.contains(&expected), "{said}");
            // Each digit behind the number.
            for at in line.find(':').unwrap()..line.len() {
                let old = line.as_bytes()[at];
                let new = match old {
                    b'0'..=b'8' | b'a'..=b'e' => old + 1,
                    b'9' | b'f' => b'0',
                    _ => continue,
                };
                let mut typed = lines.clone();
                typed[number].replace_range(at..=at, char::from(new).encode_utf8(&mut [0; 4]));
                let said = complaint(&typed.join("\n"));
                assert!(
                    said.contains(&format!("line {:02} has", number + 1)),
                    "{said}"
                );
            }
        }
        // Two lines that have changed places are noticed, for their numbers count.
        let mut turned = lines.clone();
        turned[0] = lines[1].replacen("02:", "01:", 1);
        turned[1] = lines[0].replacen("01:", "02:", 1);
        assert!(complaint(&turned.join("\n")).contains("line 01 has"));
        assert!(complaint("").contains("no numbered lines"));
        assert!(complaint("{\"format\": 1}").contains("no numbered lines"));
    }
}
