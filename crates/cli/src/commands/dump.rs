//! `tabane dump`

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use tabane_archive::Archive;
use tabane_store::browse::Browser;
use tabane_store::client::{Presence, Purpose};
use tabane_store::dump::{self, DumpError};

use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::output::{Output, warn};
use crate::select::{Place, PlaceParser, Selection};

/// Write a file, or a directory as an archive, to standard output
#[derive(Args)]
#[command(after_help = "\
Examples:
  tabane dump -r /mnt/backup latest /home/ada/notes.txt | less
  tabane dump -r /mnt/backup latest /home/ada | tar -x -C /tmp
  tabane dump -r /mnt/backup --archive zip latest /home/ada > ada.zip
  tabane dump -r /mnt/backup latest shop.sql | psql shop")]
pub struct Dump {
    /// Which snapshot (an ID, its beginning, or latest), and where in it
    #[arg(value_name = "SNAPSHOT[:PATH]", value_parser = PlaceParser)]
    place: Place,
    /// What of it
    #[arg(value_name = "PATH")]
    what: PathBuf,
    /// Form of the archive that a directory is written as
    #[arg(short, long, value_name = "FORMAT", default_value = "tar")]
    archive: Form,
    #[command(flatten)]
    selection: Selection,
}

#[derive(Clone, Copy, ValueEnum)]
enum Form {
    /// POSIX.1-2001 (PAX): with owners, ACLs, extended attributes, hard links and holes
    Tar,
    /// For systems without tar: with modes and symbolic links, uncompressed
    Zip,
}

impl Dump {
    /// Runs `tabane dump`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let repository = global.open()?;
        let (id, snapshot) = self.place.find(&repository, &self.selection)?;
        // Keeps a prune from deleting packs meanwhile, if this repository is writable.
        let _presence = Presence::announce(&repository, Purpose::Restore);
        let mut browser = Browser::new(&repository)?;
        let path = self.place.join(&self.what);
        let entry = browser.find(id, &snapshot, &path)?;
        let mut output = Output::new();
        if entry.directory().is_some() {
            let (mut archive, what, cannot) = match self.archive {
                Form::Tar => {
                    let archive = Archive::tar(Arc::new(snapshot), &path, entry);
                    (archive, "socket", "an archive cannot hold them")
                }
                Form::Zip => {
                    let archive = Archive::zip(&path, entry);
                    (archive, "entry", "zip holds neither devices nor pipes nor sockets")
                }
            };
            while let Some(bytes) = archive.next(&mut browser)? {
                output.write_all(&bytes)?;
            }
            let left_out = archive.archived().left_out;
            if left_out > 0 && !global.quiet {
                warn(format!("{} left out: {cannot}", format::count(left_out, what)));
            }
        } else {
            dump::file(&mut browser, &entry, &mut output)?;
        }
        output.flush()?;
        Ok(Exit::Success)
    }
}

impl From<DumpError> for Failure {
    fn from(error: DumpError) -> Self {
        match error {
            DumpError::Repository(error) => Self::Store(error),
            DumpError::Output(error) => Self::Output(error),
        }
    }
}
