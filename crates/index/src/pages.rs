//! Files of sealed pages, which hold runs of records of equal length.
//!
//! ```text
//! salt, zeros · page 1 · page 2 · … · page n · footer
//! ```
//! Each part has [`PAGE_LEN`] bytes. Pages are sealed with AES-256-GCM under a key that comes from
//! the master key and the salt, each as the part of its number and the footer as part 0: so what
//! was changed, cut off or put elsewhere, and what belongs to another repository, does not open.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::marker::PhantomData;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::contents::TAG_LEN;
use tabane_storage::random;
use tabane_storage::sync::lock;

/// Bytes of a page in its file. One is read for a lookup: a longer one takes longer to copy and to
/// open.
pub const PAGE_LEN: usize = 512;

/// Bytes of a page that hold records, and the longest footer.
pub const PAYLOAD_LEN: usize = PAGE_LEN - TAG_LEN;

/// Pages that are read at once from front to end.
const READ_AHEAD: u64 = 128;

/// Pages that are kept, chosen by their number.
const KEPT_PAGES: usize = 1024;

/// Bytes of the salt of a file.
const SALT_LEN: usize = 32;

/// Where the keys of files come from.
pub trait PageKeys: Sync {
    /// The key of the file with this salt.
    fn page_key(&self, salt: &[u8; SALT_LEN]) -> Box<dyn PageKey>;
}

/// Seals the pages of one file.
pub trait PageKey: Send + Sync {
    /// Encrypts a page under its number, and appends its tag of [`TAG_LEN`] bytes.
    fn seal(&self, number: u64, page: &mut Vec<u8>);

    /// Decrypts a page in place, its tag at the end; false if it is not authentic.
    fn open(&self, number: u64, page: &mut [u8]) -> bool;
}

/// Something of a fixed length.
pub trait Record: Copy {
    /// Its length in bytes, at most [`PAYLOAD_LEN`].
    const LEN: usize;

    /// Fills [`Record::LEN`] bytes.
    fn encode(&self, out: &mut [u8]);

    /// Undoes [`Record::encode`].
    fn decode(bytes: &[u8]) -> Self;
}

/// Where the records of one sort are in a file.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Section {
    first_page: u32,
    /// Number of records.
    pub count: u32,
}

impl Section {
    fn place<T: Record>(&self, number: u32) -> (u32, usize) {
        let per_page = (PAYLOAD_LEN / T::LEN) as u32;
        let at = (number % per_page) as usize * T::LEN;
        (self.first_page + number / per_page, at)
    }
}

/// Writes a file from front to end.
pub struct PageWriter {
    file: BufWriter<File>,
    key: Box<dyn PageKey>,
    page: Vec<u8>,
    /// Number of that page.
    next: u32,
    /// The section that is being written.
    section: Section,
}

impl PageWriter {
    /// Begins a file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(file: File, keys: &dyn PageKeys) -> io::Result<Self> {
        let salt = random();
        let mut head = [0; PAGE_LEN];
        head[..SALT_LEN].copy_from_slice(&salt);
        let mut file = BufWriter::with_capacity(256 << 10, file);
        file.write_all(&head)?;
        Ok(Self {
            file,
            key: keys.page_key(&salt),
            page: Vec::with_capacity(PAGE_LEN),
            next: 1,
            section: Section {
                first_page: 1,
                count: 0,
            },
        })
    }

    /// Appends a record to the current section; a section has records of one type only.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn push<T: Record>(&mut self, record: &T) -> io::Result<()> {
        let start = self.page.len();
        self.page.resize(start + T::LEN, 0);
        record.encode(&mut self.page[start..]);
        self.section.count = self.section.count.checked_add(1).ok_or_else(too_many)?;
        if self.page.len() + T::LEN > PAYLOAD_LEN {
            self.end_page()
        } else {
            Ok(())
        }
    }

    /// Ends a section, which the next one follows.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn end_section(&mut self) -> io::Result<Section> {
        if !self.page.is_empty() {
            self.end_page()?;
        }
        let next = Section {
            first_page: self.next,
            count: 0,
        };
        Ok(std::mem::replace(&mut self.section, next))
    }

    fn end_page(&mut self) -> io::Result<()> {
        self.write_page(u64::from(self.next))?;
        self.next = self.next.checked_add(1).ok_or_else(too_many)?;
        Ok(())
    }

    fn write_page(&mut self, number: u64) -> io::Result<()> {
        self.page.resize(PAYLOAD_LEN, 0);
        self.key.seal(number, &mut self.page);
        self.file.write_all(&self.page)?;
        self.page.clear();
        Ok(())
    }

    /// Ends the file with at most [`PAYLOAD_LEN`] bytes.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self, footer: &[u8]) -> io::Result<()> {
        self.page.extend_from_slice(footer);
        self.write_page(0)?;
        self.file.flush()
    }
}

fn too_many() -> io::Error {
    io::Error::other("there are too many records for one file")
}

/// The error for damaged bytes.
fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is damaged")
}

/// Reads a file.
pub struct PageFile {
    file: File,
    key: Box<dyn PageKey>,
    kept: Vec<Mutex<Kept>>,
}

/// A page that is kept; 0 for none.
#[derive(Default)]
struct Kept {
    number: u32,
    bytes: Vec<u8>,
}

impl PageFile {
    /// Opens a file; also returns its footer, with zeros behind it.
    ///
    /// # Errors
    /// When it cannot be read, is not whole or not of this repository.
    pub fn open(file: File, keys: &dyn PageKeys) -> io::Result<(Self, Vec<u8>)> {
        let len = file.metadata()?.len();
        let last = (len / PAGE_LEN as u64).checked_sub(1);
        let last = last.filter(|last| *last > 0 && len.is_multiple_of(PAGE_LEN as u64));
        let mut head = [0; PAGE_LEN];
        file.read_exact_at(&mut head, 0)?;
        let (salt, zeros) = head.split_first_chunk().expect("a page has a salt");
        if zeros.iter().any(|&byte| byte != 0) {
            return Err(damaged());
        }
        let pages = Self {
            file,
            key: keys.page_key(salt),
            kept: (0..KEPT_PAGES).map(|_| Mutex::default()).collect(),
        };
        let mut footer = vec![0; PAGE_LEN];
        let start = last.ok_or_else(damaged)? * PAGE_LEN as u64;
        pages.file.read_exact_at(&mut footer, start)?;
        pages.unseal(0, &mut footer)?;
        footer.truncate(PAYLOAD_LEN);
        Ok((pages, footer))
    }

    /// Reads a record, and keeps its page.
    ///
    /// # Errors
    /// When it cannot be read or is damaged.
    pub fn record<T: Record>(&self, section: &Section, number: u32) -> io::Result<T> {
        let (page, at) = section.place::<T>(number);
        let mut kept = lock(&self.kept[page as usize % KEPT_PAGES]);
        if kept.number != page {
            kept.number = 0;
            kept.bytes.resize(PAGE_LEN, 0);
            self.file
                .read_exact_at(&mut kept.bytes, u64::from(page) * PAGE_LEN as u64)?;
            self.unseal(u64::from(page), &mut kept.bytes)?;
            kept.number = page;
        }
        Ok(T::decode(&kept.bytes[at..at + T::LEN]))
    }

    /// Reads records one after the other.
    pub fn records<T: Record>(&self, section: &Section, range: Range<u32>) -> Records<'_, T> {
        Records {
            pages: self,
            section: *section,
            next: range.start,
            end: range.end,
            buffer: Vec::new(),
            buffered: 0,
            record: PhantomData,
        }
    }

    fn unseal(&self, number: u64, page: &mut [u8]) -> io::Result<()> {
        self.key
            .open(number, page)
            .then_some(())
            .ok_or_else(damaged)
    }
}

/// Reads the records of a section in order.
pub struct Records<'a, T> {
    pages: &'a PageFile,
    section: Section,
    next: u32,
    end: u32,
    /// Pages that were read ahead.
    buffer: Vec<u8>,
    /// Number of the first of these pages.
    buffered: u32,
    record: PhantomData<T>,
}

impl<T: Record> Records<'_, T> {
    /// Goes to a record.
    pub fn seek(&mut self, number: u32) {
        self.next = number;
    }

    /// Opens a page, and those behind it that will be wanted.
    fn fill(&mut self, page: u32) -> io::Result<()> {
        let (last, _) = self.section.place::<T>(self.end - 1);
        let count = u64::from(last - page + 1).min(READ_AHEAD);
        self.buffer.resize(count as usize * PAGE_LEN, 0);
        self.buffered = page;
        self.pages
            .file
            .read_exact_at(&mut self.buffer, u64::from(page) * PAGE_LEN as u64)?;
        for (number, bytes) in (u64::from(page)..).zip(self.buffer.chunks_exact_mut(PAGE_LEN)) {
            self.pages.unseal(number, bytes)?;
        }
        Ok(())
    }
}

impl<T: Record> Iterator for Records<'_, T> {
    type Item = io::Result<T>;

    fn next(&mut self) -> Option<io::Result<T>> {
        if self.next >= self.end {
            return None;
        }
        let (page, at) = self.section.place::<T>(self.next);
        let buffered = (self.buffer.len() / PAGE_LEN) as u32;
        if !(self.buffered..self.buffered + buffered).contains(&page)
            && let Err(error) = self.fill(page)
        {
            self.buffer.clear();
            self.next = self.end;
            return Some(Err(error));
        }
        self.next += 1;
        let start = (page - self.buffered) as usize * PAGE_LEN + at;
        Some(Ok(T::decode(&self.buffer[start..start + T::LEN])))
    }
}
