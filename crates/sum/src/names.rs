//! Lists of file names, each ended by NUL.

use std::ffi::OsString;
use std::io::{self, BufRead};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Reads a list as `find -print0` writes it. A name at the very end needs no NUL.
pub struct Names<R> {
    reader: R,
    number: u64,
    failed: bool,
}

/// Errors of a list of names.
#[derive(Debug)]
pub enum NamesError {
    /// The list cannot be read.
    Read(io::Error),
    /// The name of this number, counted from 1, is empty.
    Empty(u64),
}

impl<R: BufRead> Names<R> {
    /// The names that `reader` has.
    pub fn new(reader: R) -> Self {
        Self {
            reader,
            number: 0,
            failed: false,
        }
    }
}

impl<R: BufRead> Iterator for Names<R> {
    type Item = Result<PathBuf, NamesError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let mut name = Vec::new();
        self.number += 1;
        match self.reader.read_until(0, &mut name) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) => {
                self.failed = true;
                return Some(Err(NamesError::Read(error)));
            }
        }
        if name.last() == Some(&0) {
            name.pop();
        }
        Some(if name.is_empty() {
            Err(NamesError::Empty(self.number))
        } else {
            Ok(PathBuf::from(OsString::from_vec(name)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read() {
        let names: Vec<_> = Names::new(&b"a\0b c\n\0\0d"[..]).collect();
        assert!(matches!(&names[0], Ok(name) if name.as_os_str() == "a"));
        assert!(matches!(&names[1], Ok(name) if name.as_os_str() == "b c\n"));
        assert!(matches!(names[2], Err(NamesError::Empty(3))));
        assert!(matches!(&names[3], Ok(name) if name.as_os_str() == "d"));
        assert_eq!(names.len(), 4);
    }
}
