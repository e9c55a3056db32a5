//! Digests of many messages in one call.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};
use tabane_engine::{Algorithm, Function, Hasher, Key, finish_many, update_many};
use tabane_lanes::{HmacKey, hmac_many as hmac_in_lanes};

use crate::buffer::View;
use crate::interrupt::in_steps;

/// Bytes that are hashed between two looks at the clock: a few milliseconds.
pub const STEP_BYTES: usize = 4 << 20;

/// Long messages that are hashed side by side: as many as MD5 has lanes.
const LONG_MESSAGES: usize = 64;

/// The algorithm of this name.
pub fn algorithm(name: &str) -> PyResult<Algorithm> {
    name.parse()
        .or_else(|_| name.to_ascii_lowercase().parse())
        .map_err(|unknown: tabane_engine::UnknownAlgorithm| {
            PyValueError::new_err(match unknown.similar() {
                Some(similar) => format!(
                    "unknown hash {name:?}: did you mean {similar:?}?",
                    similar = similar.name()
                ),
                None => unknown.to_string(),
            })
        })
}

/// An algorithm with its key, if it takes one.
pub fn function(name: &str, key: Option<&Bound<'_, PyAny>>) -> PyResult<Function> {
    let key = match key {
        Some(key) => Some(Key::new(
            View::read(key, || "the key".to_owned())?.bytes().to_vec(),
        )),
        None => None,
    };
    Function::new(algorithm(name)?, key.as_ref())
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The digest of each of many messages, in their order.
///
/// `buffers` is an iterable of objects with the buffer protocol. The digests are a list of bytes;
/// with `out`, a writable buffer of n × digest size bytes such as
/// `numpy.empty((n, 32), numpy.uint8)`, they are written there, one after the other, and `out` is
/// returned.
#[pyfunction]
#[pyo3(signature = (algorithm, buffers, *, key=None, out=None))]
pub fn hash_many<'py>(
    algorithm: &str,
    buffers: &Bound<'py, PyAny>,
    key: Option<&Bound<'py, PyAny>>,
    out: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = buffers.py();
    let function = function(algorithm, key)?;
    let views = views(buffers)?;
    let messages: Vec<&[u8]> = views.iter().map(View::bytes).collect();
    let out = Out::new(out, messages.len(), function.algorithm().digest_len())?;
    let digests = digests(py, &function, &messages)?;
    out.fill(py, digests.iter().map(AsRef::as_ref))
}

/// The HMAC of each of many messages under one key, in their order, as `hmac.digest`.
///
/// `algorithm` is md5, sha1, sha224, sha256, sha384 or sha512. `out` is as in `hash_many`.
#[pyfunction]
#[pyo3(signature = (algorithm, key, buffers, *, out=None))]
pub fn hmac_many<'py>(
    algorithm: &str,
    key: &Bound<'py, PyAny>,
    buffers: &Bound<'py, PyAny>,
    out: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = buffers.py();
    let hash = tabane_lanes::Algorithm::ALL
        .iter()
        .copied()
        .find(|hash| hash.name() == algorithm)
        .ok_or_else(|| {
            PyValueError::new_err(format!(
                "HMAC with {algorithm:?} is not known: choose one of md5, sha1, sha224, sha256, \
                 sha384, sha512"
            ))
        })?;
    let key = HmacKey::new(hash, View::read(key, || "the key".to_owned())?.bytes());
    let views = views(buffers)?;
    let messages: Vec<&[u8]> = views.iter().map(View::bytes).collect();
    let out = Out::new(out, messages.len(), hash.digest_len())?;
    let mut tags = Vec::with_capacity(messages.len());
    let mut rest = &messages[..];
    let mut long: Option<(tabane_lanes::Hasher, &[u8])> = None;
    in_steps(py, || {
        match &mut long {
            Some((hasher, message)) => {
                let (piece, behind) = message.split_at(message.len().min(STEP_BYTES));
                hasher.update(piece);
                *message = behind;
                if behind.is_empty() {
                    tags.push(key.finish(hasher));
                    long = None;
                }
            }
            None => {
                let (some, behind) = rest.split_at(short_messages(rest));
                let keyed: Vec<_> = some.iter().map(|&message| (&key, message)).collect();
                tags.extend(hmac_in_lanes(&keyed));
                rest = behind;
                if some.is_empty()
                    && let Some((message, behind)) = rest.split_first()
                {
                    long = Some((key.begin(), message));
                    rest = behind;
                }
            }
        }
        rest.is_empty() && long.is_none()
    })?;
    out.fill(py, tags.iter().map(|tag| tag.as_bytes()))
}

/// How many of the first messages make one step together.
fn short_messages(messages: &[&[u8]]) -> usize {
    let mut bytes = 0;
    let fits = |message: &&&[u8]| {
        bytes += message.len();
        bytes <= STEP_BYTES
    };
    messages.iter().take_while(fits).count()
}

/// The digests of messages, for as long as Python does not interrupt.
fn digests(
    py: Python<'_>,
    function: &Function,
    messages: &[&[u8]],
) -> PyResult<Vec<tabane_engine::Digest>> {
    let mut digests = Vec::with_capacity(messages.len());
    let mut rest = messages;
    let mut long: Vec<(Hasher, &[u8])> = Vec::new();
    let whole = function.algorithm().needs_whole_message();
    in_steps(py, || {
        if long.is_empty() {
            let count = short_messages(rest);
            if count == rest.len() || count >= LONG_MESSAGES || whole {
                let (some, behind) = rest.split_at(count.max(1).min(rest.len()));
                digests.extend(function.digest_many(some));
                rest = behind;
            } else {
                let (some, behind) = rest.split_at(rest.len().min(LONG_MESSAGES));
                long.extend(some.iter().map(|&message| (function.hasher(), message)));
                rest = behind;
            }
        } else {
            let unfinished = long
                .iter()
                .filter(|(_, message)| !message.is_empty())
                .count();
            let piece_len = STEP_BYTES / unfinished.max(1);
            let mut parts: Vec<(&mut Hasher, &[u8])> = Vec::with_capacity(unfinished);
            for (hasher, message) in &mut long {
                let (piece, behind) = message.split_at(message.len().min(piece_len));
                *message = behind;
                if !piece.is_empty() {
                    parts.push((hasher, piece));
                }
            }
            update_many(&mut parts);
            if long.iter().all(|(_, message)| message.is_empty()) {
                let hashers: Vec<&Hasher> = long.iter().map(|(hasher, _)| hasher).collect();
                digests.extend(finish_many(&hashers));
                long.clear();
            }
        }
        rest.is_empty() && long.is_empty()
    })?;
    Ok(digests)
}

/// Views of everything that an iterable has.
fn views<'py>(buffers: &Bound<'py, PyAny>) -> PyResult<Vec<View<'py>>> {
    if buffers.is_instance_of::<PyBytes>() || buffers.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(
            "buffers is one message: give a list of messages",
        ));
    }
    let mut views = Vec::with_capacity(buffers.len().unwrap_or(0));
    for (number, object) in buffers.try_iter()?.enumerate() {
        views.push(View::read(&object?, || format!("buffers[{number}]"))?);
    }
    Ok(views)
}

/// Where digests go.
enum Out<'py> {
    List,
    Buffer(Bound<'py, PyAny>, View<'py>),
}

impl<'py> Out<'py> {
    /// A list, or the buffer, if it has room for just so many digests of so many bytes.
    fn new(out: Option<Bound<'py, PyAny>>, count: usize, size: usize) -> PyResult<Self> {
        let Some(out) = out else {
            return Ok(Self::List);
        };
        let view = View::write(&out, || "out".to_owned())?;
        let (len, needed) = (view.bytes().len(), count * size);
        if len != needed {
            return Err(PyValueError::new_err(format!(
                "out has {len} bytes, and {count} digests of {size} bytes are {needed}"
            )));
        }
        Ok(Self::Buffer(out, view))
    }

    fn fill<'a>(
        self,
        py: Python<'py>,
        digests: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::List => {
                let list = PyList::new(py, digests.map(|digest| PyBytes::new(py, digest)))?;
                Ok(list.into_any())
            }
            Self::Buffer(out, mut view) => {
                let mut room = view.bytes_mut();
                for digest in digests {
                    let (place, behind) = room.split_at_mut(digest.len());
                    place.copy_from_slice(digest);
                    room = behind;
                }
                drop(view);
                Ok(out)
            }
        }
    }
}
