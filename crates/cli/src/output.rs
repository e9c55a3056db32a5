//! Standard output: buffered text or JSON lines.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use std::os::unix::ffi::OsStrExt;

use serde_json::{Map, Value, json};
use tabane_store::Id;
use tabane_store::browse::kind_name;
use tabane_store::entry::{Entry, Kind};
use tabane_store::snapshot::{Retention, Snapshot};

use crate::colour::Colour;
use crate::exit::Result;
use crate::format;
use crate::streams::Stdout;

/// A JSON object in the making.
pub type Object = Map<String, Value>;

/// Standard output, buffered; call [`Output::finish`] in the end.
pub struct Output {
    stdout: BufWriter<Stdout>,
    terminal: bool,
}

impl Output {
    /// Takes standard output for this thread.
    pub fn new() -> Self {
        Self {
            terminal: io::stdout().is_terminal(),
            stdout: BufWriter::with_capacity(64 << 10, Stdout::lock()),
        }
    }

    /// Columns of the terminal; `None` if stdout is no terminal.
    pub fn columns(&self) -> Option<usize> {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
        let size = size.filter(|size| self.terminal && size.ws_col > 0);
        size.map(|size| usize::from(size.ws_col))
    }

    /// Writes a line.
    pub fn line(&mut self, text: impl AsRef<str>) -> Result<()> {
        writeln!(self.stdout, "{}", text.as_ref())?;
        Ok(())
    }

    /// Writes a JSON object as a line.
    pub fn json(&mut self, value: &Value) -> Result<()> {
        writeln!(self.stdout, "{value}")?;
        Ok(())
    }

    /// Writes text without a line break.
    pub fn text(&mut self, text: &str) -> Result<()> {
        self.stdout.write_all(text.as_bytes())?;
        Ok(())
    }

    /// Writes a path: its very bytes, but nothing that a terminal would obey.
    pub fn path(&mut self, path: &Path) -> Result<()> {
        self.name(path.as_os_str().as_bytes())
    }

    /// Writes the bytes of a name, as [`Output::path`].
    pub fn name(&mut self, name: &[u8]) -> Result<()> {
        if self.terminal {
            self.stdout
                .write_all(format::on_terminal(name).as_bytes())?
        } else {
            self.stdout.write_all(name)?
        }
        Ok(())
    }

    /// Writes an entry of a snapshot as `ls -l` does, or `ls -lh`.
    pub fn long_entry(
        &mut self,
        path: &Path,
        entry: &Entry,
        snapshot: &Snapshot,
        human_readable: bool,
    ) -> Result<()> {
        let size = match entry.kind {
            Kind::CharDevice { major, minor } | Kind::BlockDevice { major, minor } => {
                format!("{major}, {minor}")
            }
            _ if human_readable => format::bytes(entry.size()),
            _ => entry.size().to_string(),
        };
        let text = format!(
            "{} {:<8} {:<8} {size:>12} {} ",
            format::mode(entry),
            owner(snapshot.user(entry.uid), entry.uid),
            owner(snapshot.group(entry.gid), entry.gid),
            format::file_time(entry.mtime),
        );
        self.name(text.as_bytes())?;
        self.path(path)?;
        if let Kind::Symlink { target } = &entry.kind {
            self.name(b" -> ")?;
            self.name(target)?;
        }
        self.line("")
    }

    /// Flushes the buffer.
    pub fn finish(mut self) -> Result<()> {
        self.stdout.flush()?;
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stdout.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }
}

/// Prints one JSON object.
pub fn print_json(value: &Value) -> Result<()> {
    let mut output = Output::new();
    output.json(value)?;
    output.finish()
}

/// Prints a warning.
pub fn warn(text: impl AsRef<str>) {
    let name = Colour::Yellow.on_stderr("tabane:");
    let _ = writeln!(io::stderr(), "{name} {}", format::printable(text.as_ref()));
}

/// A table with headings, whose columns are as wide as their contents.
pub struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<bool>,
}

impl Table {
    /// An empty table; a heading that ends in `>` has its column flush right.
    pub fn new(headings: &[&str]) -> Self {
        let heading = |text: &&str| text.trim_end_matches('>').to_owned();
        Self {
            rows: vec![headings.iter().map(heading).collect()],
            right: headings.iter().map(|text| text.ends_with('>')).collect(),
        }
    }

    /// Adds a row. Cells may have several lines.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Prints the table.
    pub fn print(&self, output: &mut Output) -> Result<()> {
        let widths: Vec<usize> = (0..self.right.len())
            .map(|column| {
                let lines = self.rows.iter().flat_map(|row| row[column].lines());
                lines.map(|line| line.chars().count()).max().unwrap_or(0)
            })
            .collect();
        // On a terminal, the last column gives way: its end tells more than its beginning.
        let (widths, rows) = self.fitting(widths, output.columns());
        for (number, row) in rows.iter().enumerate() {
            let height = row
                .iter()
                .map(|cell| cell.lines().count())
                .max()
                .unwrap_or(0);
            for line in 0..height {
                let mut text = String::new();
                for (column, cell) in row.iter().enumerate() {
                    let cell = cell.lines().nth(line).unwrap_or("");
                    let fill = widths[column] - cell.chars().count();
                    let (before, behind) = if self.right[column] {
                        (fill, 0)
                    } else {
                        (0, fill)
                    };
                    text.extend([&" ".repeat(before), cell, &" ".repeat(behind), "  "]);
                }
                output.line(text.trim_end())?;
            }
            if number == 0 {
                let width = widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
                output.line("-".repeat(width))?;
            }
        }
        Ok(())
    }
}

impl Table {
    /// Widths and rows, with the last column cut where lines would be longer than `columns`.
    fn fitting(
        &self,
        mut widths: Vec<usize>,
        columns: Option<usize>,
    ) -> (Vec<usize>, Vec<Vec<String>>) {
        const WIDTH_MIN: usize = 12;
        let mut rows = self.rows.clone();
        let all = widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
        let Some((last, over)) = widths
            .last_mut()
            .zip(columns.map(|most| all.saturating_sub(most)))
        else {
            return (widths, rows);
        };
        let room = last.saturating_sub(over).max(WIDTH_MIN.min(*last));
        if room < *last {
            *last = room;
            for cell in rows.iter_mut().filter_map(|row| row.last_mut()) {
                let lines = cell.lines().map(|line| format::end_of(line, room));
                *cell = lines.collect::<Vec<_>>().join("\n");
            }
        }
        (widths, rows)
    }
}

/// Adds a path to an object: as text, and if that loses something also its bytes in hexadecimal.
pub fn put_path(object: &mut Object, key: &str, bytes: &[u8]) {
    object.insert(key.to_owned(), String::from_utf8_lossy(bytes).into());
    if std::str::from_utf8(bytes).is_err() {
        let hex = bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>();
        object.insert(format!("{key}_bytes_hex"), hex.into());
    }
}

/// A snapshot as an object.
pub fn snapshot_json(id: Id, snapshot: &Snapshot) -> Object {
    let summary = &snapshot.summary;
    let object = json!({
        "id": id.to_string(),
        "short_id": id.short(),
        "time": snapshot.time.to_string(),
        "hostname": snapshot.hostname,
        "username": snapshot.username,
        "paths": snapshot.paths,
        "tags": snapshot.tags,
        "description": snapshot.description,
        "delete": snapshot.retention.map(|retention| match retention {
            Retention::Never => "never".to_owned(),
            Retention::Until(time) => time.to_string(),
        }),
        "parent": snapshot.parent.map(|id| id.to_string()),
        "original": snapshot.original.map(|id| id.to_string()),
        "writer": snapshot.writer.map(|writer| writer.to_string()),
        "program_version": snapshot.program_version,
        "end_time": summary.end.to_string(),
        "files_new": summary.files_new,
        "files_changed": summary.files_changed,
        "files_unmodified": summary.files_unmodified,
        "directories": summary.directories,
        "others": summary.others,
        "errors": summary.errors,
        "total_bytes": summary.total_bytes,
        "read_bytes": summary.read_bytes,
        "added_bytes": summary.added_bytes,
        "stored_bytes": summary.stored_bytes,
        "blocks_new": summary.blocks_new,
        "duplicate_bytes": summary.duplicate_bytes,
        "blocks_duplicate": summary.blocks_duplicate,
    });
    into_object(object)
}

/// An entry of a snapshot as an object.
pub fn entry_json(path: &Path, entry: &Entry, snapshot: &Snapshot) -> Object {
    let mut object = Object::new();
    let time = |time| match format::timestamp(time) {
        Some(time) => Value::from(time.to_string()),
        None => Value::Null,
    };
    put_path(&mut object, "path", path.as_os_str().as_bytes());
    put_path(&mut object, "name", &entry.name);
    object.insert("type".to_owned(), kind_name(&entry.kind).into());
    object.insert("uid".to_owned(), entry.uid.into());
    object.insert("gid".to_owned(), entry.gid.into());
    for (key, name) in [
        ("user", snapshot.user(entry.uid)),
        ("group", snapshot.group(entry.gid)),
    ] {
        if let Some(name) = name {
            object.insert(key.to_owned(), name.into());
        }
    }
    if !entry.flags.is_empty() {
        object.insert("flags".to_owned(), entry.flags.to_string().into());
    }
    object.insert("mode".to_owned(), format!("{:04o}", entry.mode).into());
    object.insert("permissions".to_owned(), format::mode(entry).into());
    object.insert("mtime".to_owned(), time(entry.mtime));
    object.insert("ctime".to_owned(), time(entry.ctime));
    if let Some(atime) = entry.atime {
        object.insert("atime".to_owned(), time(atime));
    }
    object.insert("inode".to_owned(), entry.inode.into());
    match &entry.kind {
        Kind::File { size, .. } => {
            object.insert("size_bytes".to_owned(), (*size).into());
        }
        Kind::Symlink { target } => put_path(&mut object, "link_target", target),
        Kind::CharDevice { major, minor } | Kind::BlockDevice { major, minor } => {
            object.insert("device_major".to_owned(), (*major).into());
            object.insert("device_minor".to_owned(), (*minor).into());
        }
        Kind::Directory { .. } | Kind::Fifo | Kind::Socket => {}
    }
    object
}

/// The name of an owner or group, the number where there is none.
fn owner(name: Option<&str>, number: u32) -> String {
    name.map_or_else(|| number.to_string(), format::printable)
}

/// The object that `json!({…})` made.
pub fn into_object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}
