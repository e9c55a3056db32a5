//! The checksum of one stream of bytes, from its beginning to its end.

use std::io::{self, Read};

use tabane_engine::{Algorithm, Hasher};

use crate::etag::{Assembly, Upload};
use crate::method::Method;
use crate::sum::Sum;

/// Bytes that are read at a time: more than a pipe holds, little enough for the cache.
const BUFFER_LEN: usize = 128 << 10;

/// An algorithm that needs all of a message at once gets no more than this, in bytes.
const WHOLE_LEN_MAX: u64 = 256 << 20;

/// Reads all bytes and returns their checksum. `on_bytes` is told how many were read each time.
///
/// # Errors
/// When reading fails, or there are more bytes than may be kept for an algorithm that
/// [needs all of them](Algorithm::needs_whole_message).
pub fn sum_reader(
    mut reader: impl Read,
    method: &Method,
    mut on_bytes: impl FnMut(u64),
) -> io::Result<Sum> {
    let mut state = State::new(method);
    let mut room = max_len(method);
    let mut buffer = vec![0; BUFFER_LEN];
    loop {
        let len = match reader.read(&mut buffer) {
            Ok(0) => return Ok(state.finish()),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        room = room.checked_sub(len as u64).ok_or_else(too_long)?;
        match &mut state {
            State::Digest(hasher) => hasher.update(&buffer[..len]),
            State::Etag(parts) => parts.update(&buffer[..len]),
        }
        on_bytes(len as u64);
    }
}

/// The most bytes that a method takes.
fn max_len(method: &Method) -> u64 {
    match method {
        Method::Digest(function) if function.algorithm().needs_whole_message() => WHOLE_LEN_MAX,
        _ => u64::MAX,
    }
}

fn too_long() -> io::Error {
    let limit = WHOLE_LEN_MAX >> 20;
    let text = format!(
        "longer than {limit} MiB, which this algorithm would have to keep in memory as a whole"
    );
    io::Error::new(io::ErrorKind::FileTooLarge, text)
}

enum State {
    Digest(Box<Hasher>),
    Etag(Box<Parts>),
}

struct Parts {
    upload: Upload,
    assembly: Assembly,
    part: Hasher,
    /// Bytes that `part` still takes.
    room: u64,
    /// Hash for the ETag of a file too short for an upload in parts.
    whole: Option<Hasher>,
    len: u64,
}

impl State {
    fn new(method: &Method) -> Self {
        match method {
            Method::Digest(function) => Self::Digest(Box::new(function.hasher())),
            &Method::Etag(upload) => Self::Etag(Box::new(Parts {
                upload,
                assembly: Assembly::new(),
                part: Hasher::new(Algorithm::Md5),
                room: upload.part_len.get(),
                whole: (upload.whole_below > 0).then(|| Hasher::new(Algorithm::Md5)),
                len: 0,
            })),
        }
    }

    fn finish(self) -> Sum {
        let digest = match self {
            Self::Digest(hasher) => hasher.finish(),
            Self::Etag(parts) => match parts.whole {
                Some(whole) => whole.finish(),
                None => return parts.finish(),
            },
        };
        Sum {
            digest,
            parts: None,
        }
    }
}

impl Parts {
    fn update(&mut self, mut bytes: &[u8]) {
        self.len += bytes.len() as u64;
        if self.len >= self.upload.whole_below {
            self.whole = None;
        }
        if let Some(whole) = &mut self.whole {
            whole.update(bytes);
        }
        while !bytes.is_empty() {
            // Ends a full part only when more bytes follow, since the last part may be full.
            if self.room == 0 {
                self.end_part();
            }
            let fits = usize::try_from(self.room).unwrap_or(usize::MAX);
            let (head, tail) = bytes.split_at(fits.min(bytes.len()));
            self.part.update(head);
            self.room -= head.len() as u64;
            bytes = tail;
        }
    }

    fn end_part(&mut self) {
        self.assembly.add(self.assembly.parts(), self.part.finish());
        self.part = Hasher::new(Algorithm::Md5);
        self.room = self.upload.part_len.get();
    }

    fn finish(mut self) -> Sum {
        self.end_part();
        self.assembly.sum()
    }
}
