//! Snapshots, as Python sees them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use jiff::Timestamp;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tabane_store::Id;

/// A snapshot.
#[pyclass(frozen, module = "tabane")]
pub struct Snapshot {
    /// `None` after a dry run.
    pub id: Option<Id>,
    pub snapshot: tabane_store::snapshot::Snapshot,
    /// Entries that a backup could not store, with the reasons.
    pub warnings: Vec<(PathBuf, String)>,
}

#[pymethods]
impl Snapshot {
    /// Its name, 64 hexadecimal digits; None after a dry run.
    #[getter]
    fn id(&self) -> Option<String> {
        self.id.map(|id| id.to_string())
    }

    /// The beginning of its name.
    #[getter]
    fn short_id(&self) -> Option<String> {
        self.id.map(|id| id.short())
    }

    /// When the backup began.
    #[getter]
    fn time(&self) -> Timestamp {
        self.snapshot.time
    }

    /// The machine.
    #[getter]
    fn hostname(&self) -> &str {
        &self.snapshot.hostname
    }

    /// The user.
    #[getter]
    fn username(&self) -> &str {
        &self.snapshot.username
    }

    /// The paths that were asked for.
    #[getter]
    fn paths(&self) -> Vec<String> {
        self.snapshot.paths.clone()
    }

    /// Free words to find it by.
    #[getter]
    fn tags(&self) -> Vec<String> {
        self.snapshot.tags.clone()
    }

    /// The snapshot that unchanged files were taken from.
    #[getter]
    fn parent(&self) -> Option<String> {
        self.snapshot.parent.map(|id| id.to_string())
    }

    /// Counts of the backup: files, bytes that were read, added and stored.
    #[getter]
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let summary = &self.snapshot.summary;
        let counts = PyDict::new(py);
        for (name, value) in [
            ("files_new", summary.files_new),
            ("files_changed", summary.files_changed),
            ("files_unmodified", summary.files_unmodified),
            ("directories", summary.directories),
            ("others", summary.others),
            ("errors", summary.errors),
            ("total_bytes", summary.total_bytes),
            ("read_bytes", summary.read_bytes),
            ("added_bytes", summary.added_bytes),
            ("duplicate_bytes", summary.duplicate_bytes),
            ("stored_bytes", summary.stored_bytes),
            ("blocks_new", summary.blocks_new),
            ("blocks_duplicate", summary.blocks_duplicate),
        ] {
            counts.set_item(name, value)?;
        }
        counts.set_item("start", summary.start)?;
        counts.set_item("end", summary.end)?;
        Ok(counts)
    }

    /// Pairs of a path and what a backup could not store of it; empty for snapshots that were
    /// listed.
    #[getter]
    fn warnings(&self) -> Vec<(std::ffi::OsString, String)> {
        let pair = |(path, text): &(PathBuf, String)| (path.clone().into(), text.clone());
        self.warnings.iter().map(pair).collect()
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.id == other.id && self.snapshot == other.snapshot
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.id.map(|id| id.0).hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        let id = self.id.map_or("dry run".to_owned(), |id| id.short());
        let Snapshot { snapshot, .. } = self;
        format!(
            "<Snapshot {id} of {} at {}>",
            snapshot.hostname, snapshot.time
        )
    }
}
