//! A directory as the program ncdu reads it: <https://dev.yorhel.nl/ncdu/jsonfmt>.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use jiff::Timestamp;
use serde_json::{Value, json};
use tabane_store::browse::{Browser, PathEntry, Walk};
use tabane_store::entry::{Entry, Kind, Piece};

use crate::exit::Result;
use crate::output::Output;

/// Writes the directory `entry`, whose path is `path`, with all that is in it.
///
/// # Errors
/// When a directory cannot be read, or nothing can be written.
pub fn write(
    browser: &mut Browser,
    path: &Path,
    entry: &Entry,
    time: Timestamp,
    output: &mut Output,
) -> Result<()> {
    let program = json!({
        "progname": "tabane",
        "progver": env!("CARGO_PKG_VERSION"),
        "timestamp": time.as_second(),
    });
    let name = path.as_os_str().as_bytes();
    write!(output, "[1,2,{program},[{}", describe(name, entry))?;
    // Number of unclosed lists; each holds a directory and its entries.
    let base = path.components().count();
    let mut open = 1;
    let mut walk = Walk::below(path, entry);
    while let Some(PathEntry { path, entry }) = walk.next(browser)? {
        let depth = path.components().count() - base;
        while open > depth {
            write!(output, "]")?;
            open -= 1;
        }
        let is_directory = entry.directory().is_some();
        let start = if is_directory { "[" } else { "" };
        write!(output, ",\n{start}{}", describe(&entry.name, &entry))?;
        open += usize::from(is_directory);
    }
    for _ in 0..open {
        write!(output, "]")?;
    }
    output.line("]")
}

fn describe(name: &[u8], entry: &Entry) -> Value {
    let data = |piece: &Piece| piece.block().map_or(0, |_| piece.len());
    let (apparent, allocated) = match &entry.kind {
        Kind::File { size, content } => (*size, content.iter().map(data).sum::<u64>()),
        _ => (0, 0),
    };
    let mut object = json!({
        "name": String::from_utf8_lossy(name),
        "asize": apparent,
        "dsize": allocated,
        "ino": entry.inode,
        "uid": entry.uid,
        "gid": entry.gid,
        "mode": entry.mode,
        "mtime": entry.mtime.s,
    });
    match &entry.kind {
        Kind::File { .. } if entry.hard_link.is_some() => object["hlnkc"] = true.into(),
        Kind::File { .. } | Kind::Directory { .. } => {}
        _ => object["notreg"] = true.into(),
    }
    object
}
