//! Values as people write and read them, and how a terminal shows them.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

pub use tabane_text::*;

/// Reads for how long objects are locked: a minute to ten years, since a mistake cannot be undone.
pub fn parse_lock_period(text: &str) -> Result<Duration, String> {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    let period = parse_duration(text)?;
    if (Duration::from_secs(60)..=3650 * DAY).contains(&period) {
        Ok(period)
    } else {
        Err("locks are for a minute to ten years, as 30d".to_owned())
    }
}

/// A path for a terminal: without control characters and, where the locale has no UTF-8, without
/// any but ASCII.
pub fn path_on_terminal(path: &Path) -> String {
    on_terminal(path.as_os_str().as_bytes())
}

/// Bytes for a terminal, as [`path_on_terminal`].
pub fn on_terminal(bytes: &[u8]) -> String {
    let text = escape(bytes);
    if is_utf8_locale() {
        return text;
    }
    let shown = |c: char| {
        if c.is_ascii() {
            c.to_string()
        } else {
            c.escape_unicode().to_string()
        }
    };
    text.chars().map(shown).collect()
}

/// The last `columns` characters of a text, with an ellipsis if it has more.
pub fn end_of(text: &str, columns: usize) -> String {
    let len = text.chars().count();
    if len <= columns {
        return text.to_owned();
    }
    let ellipsis = if is_utf8_locale() { "\u{2026}" } else { "..." };
    let kept = columns.saturating_sub(ellipsis.chars().count());
    let end: String = text.chars().skip(len - kept).collect();
    format!("{ellipsis}{end}")
}

/// Whether the environment says that terminals and files have UTF-8.
pub fn is_utf8_locale() -> bool {
    let variables = ["LC_ALL", "LC_CTYPE", "LANG"];
    let values = variables.iter().filter_map(std::env::var_os);
    let mut values = values.filter(|value| !value.is_empty());
    values.next().is_some_and(|value| {
        let value = value.to_string_lossy().to_lowercase();
        value.contains("utf-8") || value.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_text_stays() {
        assert_eq!(end_of("abc", 3), "abc");
        assert!(["\u{2026}ef", "..."].contains(&end_of("abcdef", 3).as_str()));
    }
}
