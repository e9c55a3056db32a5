//! `tabane dump`

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
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
    archive: Archive,
    #[command(flatten)]
    selection: Selection,
}

#[derive(Clone, Copy, ValueEnum)]
enum Archive {
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
            let (archived, what, cannot) = match self.archive {
                Archive::Tar => {
                    let output = &mut output;
                    let archived =
                        dump::archive(&mut browser, &snapshot, &path, &entry, output)?;
                    (archived, "socket", "an archive cannot hold them")
                }
                Archive::Zip => {
                    let archived = dump::archive_zip(&mut browser, &path, &entry, &mut output)?;
                    (archived, "entry", "zip holds neither devices nor pipes nor sockets")
                }
            };
            if archived.left_out > 0 && !global.quiet {
                let count = format::count(archived.left_out, what);
                warn(format!("{count} left out: {cannot}"));
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
