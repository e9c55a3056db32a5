//! What all requests share.

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::State;

use crate::access::Access;
use crate::answer::Failure;
use crate::jobs::{Jobs, Kind};
use crate::places::Shown;

/// State of the server.
pub struct App {
    /// Who may see it.
    pub access: Access,
    /// What it shows.
    pub places: Vec<Arc<Shown>>,
    /// What runs and has run.
    pub jobs: Jobs,
    /// Whether jobs may be started.
    pub allow_jobs: bool,
    /// Folders into which may be restored.
    pub allow_restore: Vec<PathBuf>,
    /// Hears what the keeper of the server should know, and nobody else.
    pub report: fn(&str),
}

/// A handler's way to [`App`].
pub type AppState = State<Arc<App>>;

impl App {
    /// The place of this name.
    ///
    /// # Errors
    /// 404.
    pub fn place(&self, name: &str) -> Result<&Arc<Shown>, Failure> {
        let mut places = self.places.iter();
        let found = places.find(|shown| shown.place.name == name);
        found.ok_or_else(|| Failure::not_found("no repository of this name is shown here"))
    }

    /// Whether such jobs may be started.
    ///
    /// # Errors
    /// 403.
    pub fn may_start(&self, kind: Kind) -> Result<(), Failure> {
        let (is_allowed, option) = match kind {
            Kind::Restore => (!self.allow_restore.is_empty(), "--allow-restore DIR"),
            _ => (self.allow_jobs, "--allow-jobs"),
        };
        if is_allowed {
            return Ok(());
        }
        let text = format!("this page may not do that: the server was started without {option}");
        Err(Failure::forbidden(text))
    }
}
