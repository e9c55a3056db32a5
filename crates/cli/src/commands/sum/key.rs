//! The key of `tabane sum`: from a file, never from the command line, which everyone on the machine
//! can read.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tabane_sum::{Algorithm, Function, KeyError, KeyFile, KeyRule};

use crate::exit::{Failure, Result};
use crate::format::reason;
use crate::output::warn;
use tabane_text::quote::quote;

/// The algorithm with the key of the file that was named.
pub fn function(algorithm: Algorithm, key: Option<&KeyFile>) -> Result<Function> {
    let function = match key {
        Some(key) => key.function(algorithm),
        None => Function::new(algorithm, None),
    };
    function.map_err(|error| match error {
        KeyError::WrongLength(..) => Failure::Other(explain(error)),
        KeyError::Missing(_) | KeyError::Unwanted(_) => Failure::Usage(explain(error)),
    })
}

/// Reads a file with a key. Warns if others can do that too.
pub fn read(path: &Path) -> Result<KeyFile> {
    let name = quote(path.as_os_str().as_bytes());
    let cannot = |error| {
        Failure::Other(format!(
            "cannot read the key file {name}: {}",
            reason(&error)
        ))
    };
    let file = File::open(path).map_err(cannot)?;
    let metadata = file.metadata().map_err(cannot)?;
    let mode = metadata.mode() & 0o777;
    if metadata.is_file() && mode & 0o044 != 0 {
        warn(format!(
            "others can read the key file {name}, whose mode is {mode:04o}: chmod 600 is better"
        ));
    }
    KeyFile::read(file).map_err(cannot)
}

/// The error of a key, with advice.
pub fn explain(error: KeyError) -> String {
    match error {
        KeyError::Missing(_) => format!("{error}: name a file that has it with --key-file"),
        KeyError::Unwanted(_) => format!("{error}: leave --key-file out"),
        KeyError::WrongLength(algorithm, len) => {
            let digits = match algorithm.key_rule() {
                KeyRule::Exactly(wanted) => format!(" (or {} hexadecimal digits)", 2 * wanted),
                _ => String::new(),
            };
            let rule = algorithm.key_rule();
            format!("{algorithm} takes {rule}{digits}: the key file has {len}")
        }
    }
}
