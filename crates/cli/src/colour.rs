//! Colours on terminals, unless they are switched off.

use std::io::{self, IsTerminal};
use std::sync::OnceLock;

/// Meanings of colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// An error, or what goes.
    Red,
    /// New or kept entries.
    Green,
    /// A warning, or what changed.
    Yellow,
}

impl Colour {
    fn code(self) -> u8 {
        match self {
            Self::Red => 31,
            Self::Green => 32,
            Self::Yellow => 33,
        }
    }

    /// The text in this colour, if standard output shows colours.
    pub fn on_stdout(self, text: &str) -> String {
        static SHOWS: OnceLock<bool> = OnceLock::new();
        self.paint(text, *SHOWS.get_or_init(|| io::stdout().is_terminal()))
    }

    /// The text in this colour, if standard error shows colours.
    pub fn on_stderr(self, text: &str) -> String {
        static SHOWS: OnceLock<bool> = OnceLock::new();
        self.paint(text, *SHOWS.get_or_init(|| io::stderr().is_terminal()))
    }

    fn paint(self, text: &str, is_terminal: bool) -> String {
        if is_terminal && !text.is_empty() && are_wanted() {
            format!("\x1b[{}m{text}\x1b[0m", self.code())
        } else {
            text.to_owned()
        }
    }
}

/// Whether the environment lets terminals have colours: `NO_COLOR` is not set, and the terminal is
/// not `dumb`.
fn are_wanted() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !is_set("NO_COLOR") && !is_dumb()
}

/// Whether the terminal can do nothing but print.
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}
