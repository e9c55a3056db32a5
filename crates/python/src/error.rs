//! Rust's errors as Python's exceptions, which `python/tabane/errors.py` defines.

use pyo3::prelude::*;
use tabane_store::Error;

/// Which exception an error is.
fn class(error: &Error) -> &'static str {
    match error {
        Error::NoRepository(_) | Error::RepositoryGone(_) => "NoRepositoryError",
        Error::RepositoryExists(_) | Error::NotEmpty(_) => "RepositoryExistsError",
        Error::WrongPassword { .. } => "WrongPasswordError",
        Error::NoSnapshot(_) | Error::AmbiguousSnapshot { .. } | Error::LatestUnclear(_) => {
            "NoSnapshotError"
        }
        Error::NoSuchPath { .. } => "NoSuchPathError",
        Error::Damaged { .. }
        | Error::MissingBlock(_)
        | Error::NotReadBack { .. }
        | Error::ObjectGone(_)
        | Error::CacheDamaged => "DamagedError",
        Error::Storage { .. } => "StorageError",
        Error::Path { .. } | Error::Cache { .. } => "PathError",
        Error::Invalid(_) | Error::Pattern(_) | Error::WrongKind(_) | Error::OtherHash { .. } => {
            "InvalidError"
        }
        _ => "Error",
    }
}

/// The name of the error's variant.
fn kind(error: &Error) -> String {
    let text = format!("{error:?}");
    let end = text.find(|c: char| !c.is_ascii_alphanumeric());
    text[..end.unwrap_or(text.len())].to_owned()
}

/// The exception that says what `error` says.
pub fn exception(error: &Error) -> PyErr {
    raise(class(error), error.to_string(), |exception| {
        exception.setattr("kind", kind(error))?;
        match error {
            Error::Storage { source, .. } => {
                exception.setattr("storage_kind", format!("{:?}", source.kind()))
            }
            Error::Path { source, .. } | Error::Cache { source, .. } => {
                exception.setattr("errno", source.raw_os_error())
            }
            _ => Ok(()),
        }
    })
}

/// The exception for something that a caller gave and that cannot be used.
pub fn invalid(text: impl Into<String>) -> PyErr {
    exception(&Error::Invalid(text.into()))
}

/// Makes an exception, and lets `fill` add to it.
fn raise(class: &str, text: String, fill: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<()>) -> PyErr {
    let made = Python::attach(|py| -> PyResult<PyErr> {
        let class = py.import("tabane.errors")?.getattr(class)?;
        let exception = class.call1((text,))?;
        fill(&exception)?;
        Ok(PyErr::from_value(exception))
    });
    made.unwrap_or_else(|error| error)
}
