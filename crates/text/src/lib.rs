#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod quote;

use std::fmt::Write;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, SpanRelativeTo, Timestamp};
use tabane_files::{Entry, Kind, Time};

/// A number of bytes, in binary units: `1.234 GiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.9995 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.3} {}", UNITS[unit])
}

/// A number of bytes in three digits: `1.23 GiB`, `499 KiB`.
pub fn bytes_rounded(count: u64) -> String {
    if count < 1024 {
        return format!("{count} B");
    }
    let exact = bytes(count);
    let (value, unit) = exact.split_once(' ').unwrap_or((&exact, ""));
    let value: f64 = value.parse().unwrap_or_default();
    let digits = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

/// Behind an amount, the speed at which it was worked on: ` (512 MB/s)`; nothing where there was
/// too little work to tell.
pub fn rate(count: u64, time: Duration) -> String {
    const BYTES_MIN: u64 = 1_000_000;
    const TIME_MIN: Duration = Duration::from_millis(50);
    if count < BYTES_MIN || time < TIME_MIN {
        return String::new();
    }
    format!(" ({})", speed(count, time))
}

/// A speed in decimal megabytes a second: `512 MB/s`.
pub fn speed(count: u64, time: Duration) -> String {
    let megabytes = megabytes_per_second(count, time);
    let digits = if megabytes < 10.0 { 1 } else { 0 };
    format!("{megabytes:.digits$} MB/s")
}

/// A speed in decimal megabytes a second.
pub fn megabytes_per_second(count: u64, time: Duration) -> f64 {
    count as f64 / 1e6 / time.as_secs_f64().max(1e-9)
}

/// A duration: `0.42 s`, `12.3 s`, `3:07`, `1:02:03`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{:.2} s", time.as_secs_f64()),
        10..60 => format!("{:.1} s", time.as_secs_f64()),
        60..3600 => format!("{}:{:02}", seconds / 60, seconds % 60),
        _ => format!(
            "{}:{:02}:{:02}",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60
        ),
    }
}

/// A number with its word: `1 file`, `1,234 files`.
pub fn count(number: u64, word: &str) -> String {
    let (stem, plural) = match word.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => (stem, "ies"),
        _ => (word, "s"),
    };
    match number {
        1 => format!("1 {word}"),
        _ => format!("{} {stem}{plural}", grouped(number)),
    }
}

/// A number in groups of three digits: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A time in the local time zone: `2026-01-02 15:04:05`.
pub fn local_time(time: Timestamp) -> String {
    time.to_zoned(TimeZone::system())
        .strftime("%Y-%m-%d %H:%M:%S")
        .to_string()
}

/// The time of a file, which may be further away than [`Timestamp`] reaches.
pub fn timestamp(time: Time) -> Option<Timestamp> {
    Timestamp::new(time.s, i32::try_from(time.ns).ok()?).ok()
}

/// The time of a file in the local time zone.
pub fn file_time(time: Time) -> String {
    match timestamp(time) {
        Some(time) => local_time(time),
        None => format!("@{}", time.s),
    }
}

/// Reads a time: `now`, RFC 3339, or `2026-01-02 15:04:05` (with or without a time of day) in the
/// local time zone.
pub fn parse_time(text: &str) -> Result<Timestamp, String> {
    if text == "now" {
        return Ok(Timestamp::now());
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    let local = text.parse::<DateTime>().map_err(|_| {
        "write it as 2026-01-02 15:04:05 (local time), or as 2026-01-02T15:04:05Z".to_owned()
    })?;
    let zoned = local.to_zoned(TimeZone::system());
    zoned
        .map(|time| time.timestamp())
        .map_err(|error| error.to_string())
}

/// Reads a duration: `90s`, `5m`, `1h30m`, `2d`, where a day has 24 hours.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let span: Result<Span, _> = text.parse();
    span.and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()))
        .ok()
        .and_then(|duration| Duration::try_from(duration).ok())
        .ok_or_else(|| format!("{text:?} is no duration: write it as 90s, 5m, 36h or 2d"))
}

/// Reads a number of bytes; units are binary: `100`, `64K`, `1.5MiB`, `2G`.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let unusable =
        || format!("{text:?} is no size: write it as 100, 64K, 1.5M or 2GiB (units of 1024)");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text[digits.len()..].to_ascii_lowercase();
    let shift = match unit
        .strip_suffix("ib")
        .or(unit.strip_suffix('b'))
        .unwrap_or(&unit)
    {
        "" if !unit.starts_with('i') => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        "p" => 50,
        _ => return Err(unusable()),
    };
    if let Ok(whole) = digits.parse::<u64>() {
        return whole.checked_mul(1 << shift).ok_or_else(unusable);
    }
    let value = digits.parse::<f64>().map_err(|_| unusable())? * (1_u64 << shift) as f64;
    if value >= 0.0 && value < u64::MAX as f64 {
        Ok(value as u64)
    } else {
        Err(unusable())
    }
}

/// Why something failed, as the C library says it.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match error.raw_os_error() {
        Some(code) => text
            .trim_end_matches(&format!(" (os error {code})"))
            .to_owned(),
        None => text,
    }
}

/// Text without control characters, which could change what a terminal shows.
pub fn printable(text: &str) -> String {
    escape(text.as_bytes())
}

/// A path without control characters.
pub fn path(path: &Path) -> String {
    escape(path.as_os_str().as_bytes())
}

/// Bytes as text: control characters and bytes that are not UTF-8 are written as `\x1b`, `\n`.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                _ if is_unsafe(character) => {
                    let _ = match u32::from(character) {
                        code @ ..0x80 => write!(text, "\\x{code:02x}"),
                        code => write!(text, "\\u{{{code:x}}}"),
                    };
                }
                _ => text.push(character),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Control characters, and those that turn the direction of writing.
pub fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' |
            '\u{2066}'..='\u{2069}')
}

/// Kind and permissions as `ls -l` shows them: `-rwxr-x---`.
pub fn mode<C>(entry: &Entry<C>) -> String {
    let kind = match entry.kind {
        Kind::File { .. } => '-',
        Kind::Directory { .. } => 'd',
        Kind::Symlink { .. } => 'l',
        Kind::CharDevice { .. } => 'c',
        Kind::BlockDevice { .. } => 'b',
        Kind::Fifo => 'p',
        Kind::Socket => 's',
    };
    let mut text = String::from(kind);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = entry.mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & 1 != 0, entry.mode & special != 0) {
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_use_the_largest_unit_that_fits() {
        for (count, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.000 KiB"),
            (1024 * 1024 - 1, "1023.999 KiB"),
            ((1 << 30) - 1, "1.000 GiB"),
            (1 << 30, "1.000 GiB"),
            (u64::MAX, "16.000 EiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }

    #[test]
    fn rounded_bytes_have_three_digits() {
        for (count, text) in [
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (10 * 1024 - 1, "10.0 KiB"),
            (511_000, "499 KiB"),
            (1023 * 1024, "1023 KiB"),
            (5 << 30, "5.00 GiB"),
        ] {
            assert_eq!(bytes_rounded(count), text);
        }
    }

    #[test]
    fn sizes_are_read_in_binary_units() {
        for (text, value) in [
            ("0", 0),
            ("12", 12),
            ("12b", 12),
            ("64K", 64 << 10),
            ("64KiB", 64 << 10),
            ("64kb", 64 << 10),
            ("1.5M", 3 << 19),
            ("2g", 2 << 30),
            ("1TiB", 1 << 40),
        ] {
            assert_eq!(parse_bytes(text), Ok(value), "{text}");
        }
        for text in [
            "",
            "K",
            "1ib",
            "1x",
            "-1",
            "-1K",
            "1e",
            "nan",
            "inf",
            "99999999P",
        ] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_read() {
        for (text, seconds) in [
            ("90s", 90),
            ("5m", 300),
            ("1h30m", 5400),
            ("2d", 172_800),
            ("0s", 0),
        ] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_secs(seconds)),
                "{text}"
            );
        }
        for text in ["", "5", "-5m", "1x", "1mo"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_are_grouped_and_words_take_their_plural() {
        assert_eq!(count(1, "file"), "1 file");
        assert_eq!(count(0, "directory"), "0 directories");
        assert_eq!(count(1_234_567, "key"), "1,234,567 keys");
        assert_eq!(grouped(123), "123");
        assert_eq!(grouped(1_000), "1,000");
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        assert_eq!(escape(b"a\x1b[31mb\n"), "a\\x1b[31mb\\n");
        assert_eq!(
            escape("b\u{fc}cher \u{202e}x".as_bytes()),
            "b\u{fc}cher \\u{202e}x"
        );
        assert_eq!(escape(b"\xff\xfe!"), "\\xff\\xfe!");
    }

    #[test]
    fn times_are_read() {
        assert_eq!(
            parse_time("1970-01-01T00:00:01Z").map(Timestamp::as_second),
            Ok(1)
        );
        assert!(parse_time("2026-01-02 15:04:05").is_ok());
        assert!(parse_time("2026-01-02").is_ok());
        assert!(parse_time("yesterday").is_err());
    }

    #[test]
    fn too_little_work_has_no_rate() {
        assert_eq!(rate(999_999, Duration::from_secs(1)), "");
        assert_eq!(rate(1 << 40, Duration::from_millis(1)), "");
        assert_eq!(rate(20_000_000, Duration::from_secs(2)), " (10 MB/s)");
    }
}
