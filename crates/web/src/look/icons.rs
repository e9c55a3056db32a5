//! Small drawings beside names.

use maud::{Markup, html};
use tabane_store::entry::{Entry, Kind};

/// The drawing for a kind of file, with its word for those who do not see it.
pub fn of(entry: &Entry) -> Markup {
    let (word, path) = match entry.kind {
        Kind::Directory { .. } => ("directory", "M1.5 3.5h4.2l1.5 2h7.3v7.5h-13z"),
        Kind::File { .. } => ("file", "M3.5 1.5h6l3 3v10h-9zM9.5 1.5v3h3"),
        Kind::Symlink { .. } => ("link", "M3 13c0-5 3-7 9-7M9 2.5l3.5 3.5L9 9.5"),
        Kind::CharDevice { .. } | Kind::BlockDevice { .. } => (
            "device",
            "M2.5 4.5h11v7h-11zM5 4.5v-2M11 4.5v-2M5 13.5v-2M11 13.5v-2",
        ),
        Kind::Fifo => ("pipe", "M1.5 6h13M1.5 10h13M4 8h8"),
        Kind::Socket => (
            "socket",
            "M8 2.5v4M5 2.5v4M11 2.5v4M3.5 6.5h9c0 4-2 5-4.5 5s-4.5-1-4.5-5zM8 11.5v3",
        ),
    };
    drawing(path, word)
}

/// A drawing of 16 by 16, and what it says.
pub fn drawing(path: &str, word: &str) -> Markup {
    html! {
        svg viewBox="0 0 16 16" width="16" height="16" fill="none" stroke="currentColor"
            stroke-width="1.4" stroke-linejoin="round" stroke-linecap="round" role="img" {
            title { (word) }
            path d=(path) {}
        }
    }
}

/// Takes something away to keep: an arrow down.
pub const DOWN: &str = "M8 2v8M4.5 7L8 10.5 11.5 7M2.5 13.5h11";
