//! Values on a page.

use std::path::Path;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Unit};
use maud::{Markup, html};

/// A name as it can be shown: what has no look, or turns the direction of writing, is written out,
/// and its own direction ends with it.
pub fn name(name: &[u8]) -> Markup {
    html! { bdi { (tabane_text::escape(name)) } }
}

/// A path as text.
pub fn path_text(path: &Path) -> String {
    tabane_text::path(path)
}

/// A sentence of the library as one of a page: it begins with a capital and ends with a full stop.
pub fn sentence(text: &str) -> String {
    let word = text.split(' ').next().unwrap_or_default();
    let mut letters = text.chars();
    let first = match letters.next() {
        // A path stays as it is.
        Some(letter) if word.chars().all(char::is_alphabetic) => letter.to_uppercase().to_string(),
        letter => letter.into_iter().collect(),
    };
    let end = if text.ends_with(['.', '!', '?', ':']) {
        ""
    } else {
        "."
    };
    format!("{first}{}{end}", letters.as_str())
}

/// The sum of lengths, as far as a number goes: snapshots of other clients may claim any.
pub fn sum(lens: impl IntoIterator<Item = u64>) -> u64 {
    lens.into_iter().fold(0, u64::saturating_add)
}

/// A number of bytes, the exact one in its title.
pub fn bytes(count: u64) -> Markup {
    let exact = format!("{} bytes", tabane_text::grouped(count));
    html! { span title=(exact) { (tabane_text::bytes_rounded(count)) } }
}

/// A moment, to the minute in the local time zone.
pub fn time(time: Timestamp) -> Markup {
    let zoned = time.to_zoned(TimeZone::system());
    let (short, exact) = ("%Y-%m-%d %H:%M", "%A, %-d %B %Y, %H:%M:%S %Z");
    html! {
        time datetime=(time) title=(zoned.strftime(exact)) { (zoned.strftime(short)) }
    }
}

/// How long ago a moment was, in the largest unit: `3 hours ago`.
pub fn ago(time: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(time).as_secs();
    let units = [
        (365 * 86_400, "year"),
        (30 * 86_400, "month"),
        (86_400, "day"),
        (3600, "hour"),
        (60, "minute"),
    ];
    let unit = units.iter().find(|(len, _)| seconds.abs() >= *len);
    match unit {
        None => "just now".to_owned(),
        Some((len, word)) => {
            let text = tabane_text::count(seconds.unsigned_abs() / *len as u64, word);
            if seconds < 0 {
                format!("in {text}")
            } else {
                format!("{text} ago")
            }
        }
    }
}

/// How often something comes: `every 24 hours`, `every 7 days`.
pub fn every(time: Duration) -> String {
    let hours = (time.as_secs() + 1800) / 3600;
    match hours {
        0 => format!(
            "every {}",
            tabane_text::count(time.as_secs().div_ceil(60), "minute")
        ),
        1..72 => format!("every {}", tabane_text::count(hours, "hour")),
        _ => format!("every {}", tabane_text::count((hours + 12) / 24, "day")),
    }
}

/// A span of seconds: `12 s`, `3:07`, `1:02:03`.
pub fn clock(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{}:{:02}", seconds / 60, seconds % 60),
        seconds => format!(
            "{}:{:02}:{:02}",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60
        ),
    }
}

/// The seconds from one moment to another.
pub fn seconds_between(start: Timestamp, end: Timestamp) -> i64 {
    let rounded = end.duration_since(start).round(Unit::Second);
    rounded.map_or(0, |duration| duration.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_text() {
        let markup = name("<b>\u{202e}x\x1b&\"\u{7}".as_bytes()).into_string();
        assert_eq!(
            markup,
            "<bdi>&lt;b&gt;\\u{202e}x\\x1b&amp;&quot;\\x07</bdi>"
        );
        assert_eq!(name(b"\xff").into_string(), "<bdi>\\xff</bdi>");
    }

    #[test]
    fn spans_have_one_unit() {
        let now: Timestamp = "2026-03-04T12:00:00Z".parse().expect("a time");
        for (time, text) in [
            ("2026-03-04T11:59:30Z", "just now"),
            ("2026-03-04T11:58:30Z", "1 minute ago"),
            ("2026-03-02T12:00:00Z", "2 days ago"),
            ("2024-03-02T12:00:00Z", "2 years ago"),
            ("2026-03-04T15:00:00Z", "in 3 hours"),
        ] {
            assert_eq!(ago(time.parse().expect("a time"), now), text);
        }
        assert_eq!(
            [clock(7), clock(187), clock(3723)],
            ["7 s", "3:07", "1:02:03"]
        );
    }
}
