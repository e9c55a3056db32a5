//! The set file: the URLs of a set's targets and nothing else, so that a person can write it by
//! hand on a new machine. Everything else is on the targets.
//!
//! ```toml
//! [[target]]
//! url = "/mnt/a/backup"
//!
//! [[target]]
//! url = "s3://bucket/backup"
//! ```

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use tabane_storage::{Location, RemoteOptions, StorageError, StorageErrorKind, write_whole};

use crate::open::refusal;
use crate::place::Place;
use crate::striped::StripedStorage;
use crate::unusable::Unusable;

/// Opens the set that a file lists.
///
/// # Errors
/// [`StorageErrorKind::NotFound`] when there is no such file; as [`StripedStorage::open`].
pub fn open_file(path: &Path, options: &RemoteOptions) -> tabane_storage::Result<StripedStorage> {
    let urls = read(path)?;
    let shown = format!("striped:{}", path.display());
    let place = |url: &String| {
        let storage = location(url)?.open(options);
        // A target at an unusable URL counts as missing, like one that does not answer.
        let storage = storage.unwrap_or_else(|error| Arc::new(Unusable::new(url.clone(), &error)));
        let url = url.clone();
        Ok(Place { url, storage })
    };
    let places: tabane_storage::Result<Vec<Place>> = urls.iter().map(place).collect();
    StripedStorage::open(shown, places?, options.notice.clone())
}

/// Places for these URLs; no request is sent yet.
///
/// # Errors
/// When a URL cannot be used.
pub fn places(urls: &[String], options: &RemoteOptions) -> tabane_storage::Result<Vec<Place>> {
    let place = |url: &String| {
        let storage = location(url)?.open(options)?;
        let url = url.clone();
        Ok(Place { url, storage })
    };
    urls.iter().map(place).collect()
}

fn location(url: &str) -> tabane_storage::Result<Location> {
    Location::parse(url.as_ref(), "").map_err(refusal)
}

/// Reads the URLs of a set file; relative directories are relative to the file's.
///
/// # Errors
/// [`StorageErrorKind::NotFound`]; when the file has a mistake.
pub fn read(path: &Path) -> tabane_storage::Result<Vec<String>> {
    let text = fs::read_to_string(path)?;
    let wrong = |why: String| {
        let text = format!("the set file {} cannot be used: {why}", path.display());
        StorageError::new(StorageErrorKind::Invalid, text)
    };
    let urls = parse(&text).map_err(wrong)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let urls = urls.into_iter().map(|url| absolute(&url, folder));
    urls.collect::<Result<_, _>>().map_err(wrong)
}

/// The URLs in the text of a set file.
///
/// # Errors
/// A sentence about the first mistake.
pub fn parse(text: &str) -> Result<Vec<String>, String> {
    let table = DeTable::parse(text).map_err(|error| error.message().to_owned())?;
    let mut urls = Vec::new();
    for (key, value) in table.get_ref() {
        let (key, DeValue::Array(targets)) = (key.get_ref(), value.get_ref()) else {
            return Err("it may have nothing but [[target]] tables in it".to_owned());
        };
        if key != "target" {
            return Err(format!("{key} means nothing here, only [[target]] does"));
        }
        for target in targets.iter() {
            let DeValue::Table(target) = target.get_ref() else {
                return Err("a target is written [[target]], and url = \"…\" below".to_owned());
            };
            match target.iter().next() {
                Some((key, url)) if target.len() == 1 && key.get_ref() == "url" => {
                    let DeValue::String(url) = url.get_ref() else {
                        return Err("the URL of a target is a string".to_owned());
                    };
                    urls.push(url.to_string());
                }
                _ => return Err("a target has a url, and nothing else".to_owned()),
            }
        }
    }
    Ok(urls)
}

/// Normalises a URL for comparison and storage: paths of directories become absolute.
///
/// # Errors
/// When no target can be at this URL.
pub fn absolute(url: &str, folder: &Path) -> Result<String, String> {
    if url.starts_with("striped:") || url.starts_with("cluster:") {
        return Err(format!("{url:?} is itself a set of targets"));
    }
    match Location::parse(OsStr::new(url), "")? {
        Location::Directory(path) => {
            let path = std::path::absolute(folder.join(path)).map_err(|error| error.to_string())?;
            let text = path.to_str();
            let text = text.ok_or_else(|| format!("{url:?} has a path that is not UTF-8"))?;
            Ok(match text.trim_end_matches('/') {
                "" => "/".to_owned(),
                text => text.to_owned(),
            })
        }
        server => Ok(server.to_string()),
    }
}

/// The text of a set file that lists these URLs.
pub fn text(urls: &[String]) -> String {
    let mut text = String::from("# The targets of a striped repository of Tabane, in any order.\n");
    for url in urls {
        let _ = write!(text, "\n[[target]]\nurl = {}\n", quoted(url));
    }
    text
}

/// Writes the set file. Without `replace`, a file with other content must not exist.
///
/// # Errors
/// [`StorageErrorKind::AlreadyExists`]; when it cannot be written.
pub fn write(path: &Path, urls: &[String], replace: bool) -> tabane_storage::Result<()> {
    write_whole(path, text(urls).as_bytes(), 0o666, replace)
}

/// Quotes text as a basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
