//! Paths of Python, which may have any bytes.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// The path that a str, bytes or `os.PathLike` means, as `os.fsencode` does.
pub fn path(object: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    if let Some(path) = string(object)? {
        return Ok(path);
    }
    // Most are of pathlib. What has no such method is an error of `os.fsencode`.
    let py = object.py();
    if let Some(method) = object.getattr_opt(intern!(py, "__fspath__"))?
        && let Some(path) = string(&method.call0()?)?
    {
        return Ok(path);
    }
    let encoded = py.import("os")?.call_method1("fsencode", (object,))?;
    let bytes = encoded.cast_into::<PyBytes>()?.as_bytes().to_vec();
    Ok(OsString::from_vec(bytes).into())
}

/// The path that a str or bytes means; `None` for anything else.
fn string(object: &Bound<'_, PyAny>) -> PyResult<Option<PathBuf>> {
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Some(text.extract::<OsString>()?.into()));
    }
    let bytes = object.cast::<PyBytes>().ok();
    Ok(bytes.map(|bytes| OsString::from_vec(bytes.as_bytes().to_vec()).into()))
}

/// The paths that an iterable has.
pub fn paths(objects: &Bound<'_, PyAny>) -> PyResult<Vec<PathBuf>> {
    if is_one_path(objects)? {
        return Err(PyTypeError::new_err(
            "paths is a single path: give a list of paths",
        ));
    }
    objects.try_iter()?.map(|object| path(&object?)).collect()
}

/// The paths of an iterable, or a single path.
pub fn one_or_more(objects: &Bound<'_, PyAny>) -> PyResult<Vec<PathBuf>> {
    if is_one_path(objects)? {
        return Ok(vec![path(objects)?]);
    }
    paths(objects)
}

fn is_one_path(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(object.is_instance_of::<PyString>()
        || object.is_instance_of::<PyBytes>()
        || object.hasattr("__fspath__")?)
}
