//! Commands that do what the page does.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use maud::{Markup, html};

use crate::places::Place;

/// A command line of `tabane`.
#[derive(Clone, Debug)]
pub struct Command {
    words: Vec<OsString>,
}

impl Command {
    /// A command on the repository of a place.
    pub fn new(place: &Place, name: &str) -> Self {
        let mut words = place.configuration.clone();
        words.extend(place.arguments.iter().cloned());
        words.push(name.into());
        Self { words }
    }

    /// A command with the options of a profile of the configuration file.
    pub fn of_profile(place: &Place, profile: &str, name: &str) -> Self {
        let mut words = place.configuration.clone();
        words.extend(["--profile", profile, name].map(OsString::from));
        Self { words }
    }

    /// With further words.
    pub fn words<W: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        let words = words.into_iter();
        self.words
            .extend(words.map(|word| word.as_ref().to_owned()));
        self
    }

    /// The words behind the name of the program.
    pub fn arguments(&self) -> &[OsString] {
        &self.words
    }

    /// The line as one types it into a shell.
    pub fn text(&self) -> String {
        self.words.iter().fold("tabane".to_owned(), |text, word| {
            text + " " + &tabane_text::quote::quote(word.as_bytes())
        })
    }

    /// The line as a page shows it.
    pub fn shown(&self) -> Markup {
        html! { pre class="command" tabindex="0" { code { (self.text()) } } }
    }
}
