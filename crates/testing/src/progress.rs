//! How far a benchmark has come, on a terminal.

use std::io::{IsTerminal, stderr};

/// Shows `text` in place of what was shown before.
pub fn show(text: &str) {
    if stderr().is_terminal() {
        eprint!("\r\x1b[K{text}");
    }
}
