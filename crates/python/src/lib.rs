//! The native half of the Python package `tabane`; `python/tabane` is the other half.
#![cfg(feature = "extension")]

mod buffer;
mod entry;
mod error;
mod file;
mod files;
mod hash;
mod interrupt;
mod many;
mod path;
mod process;
mod repository;
mod snapshot;

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use tabane_engine::{Algorithm, KeyRule};

/// The native half of the package tabane.
#[pymodule(gil_used = false)]
mod _tabane {
    use super::*;

    #[pymodule_export]
    use super::entry::Entry;
    #[pymodule_export]
    use super::file::SnapshotFile;
    #[pymodule_export]
    use super::files::{etag, hash_files};
    #[pymodule_export]
    use super::hash::{Hash, new};
    #[pymodule_export]
    use super::many::{hash_many, hmac_many};
    #[pymodule_export]
    use super::repository::{CheckReport, Progress, Repository, RestoreReport};
    #[pymodule_export]
    use super::snapshot::Snapshot;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // Python 3.12 and later refuse by themselves. What PyO3 keeps in statics belongs to the
        // main interpreter, whose ID is 0.
        // SAFETY: this thread is attached to an interpreter, since it has `module`.
        if unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) } != 0 {
            return Err(PyImportError::new_err(
                "tabane cannot be imported in subinterpreters: import it in the main one",
            ));
        }
        // Later it would be a panic.
        tabane_lanes::Backend::forced()
            .map_err(|error| PyImportError::new_err(error.to_string()))?;
        let names = |keyed: bool| -> Vec<&str> {
            Algorithm::all()
                .filter(|algorithm| (algorithm.key_rule() != KeyRule::None) == keyed)
                .map(Algorithm::name)
                .collect()
        };
        module.add("keyless_algorithms", names(false))?;
        module.add("keyed_algorithms", names(true))?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
