//! What the address of a request says of a repository, as in `/repository/NAME/ID/files/PATH`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use percent_encoding::percent_decode_str;
use tabane_store::entry::Entry;
use tabane_store::lister::Listed;
use tabane_store::snapshot::Snapshot;
use tabane_store::{Error, Id};

use crate::access::Session;
use crate::answer::Failure;
use crate::app::App;
use crate::encoding::{self, Fields, parse_path};
use crate::look::frame::place_address;
use crate::places::{Opened, Shown};

/// A request to a repository.
pub struct Asked {
    /// The repository.
    pub shown: Arc<Shown>,
    /// The rest of the address, still encoded: `ID/files/PATH`.
    rest: String,
    /// What stands behind the question mark.
    pub fields: Fields,
    /// Whose request it is.
    pub session: Session,
}

impl FromRequestParts<Arc<App>> for Asked {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        let session = parts.extensions.get::<Session>().cloned();
        let mut names = parts.uri.path().splitn(4, '/').skip(2);
        let name = names.next().unwrap_or_default();
        let name = percent_decode_str(name).decode_utf8_lossy();
        Ok(Self {
            shown: Arc::clone(app.place(&name)?),
            rest: names.next().unwrap_or_default().to_owned(),
            fields: Fields::parse(parts.uri.query().unwrap_or_default()),
            session: session.ok_or_else(|| Failure::forbidden("log in first"))?,
        })
    }
}

impl Asked {
    /// The name of the repository.
    pub fn name(&self) -> &str {
        &self.shown.place.name
    }

    /// A part of the address behind the name of the repository; empty if there is none.
    pub fn part(&self, number: usize) -> &str {
        self.rest.split('/').nth(number).unwrap_or_default()
    }

    /// The snapshot and the path that the address names.
    ///
    /// # Errors
    /// 404 if no path can be meant.
    pub fn target(&self) -> Result<Target, Failure> {
        Ok(Target {
            snapshot: self.part(0).to_owned(),
            path: self.path_after(2)?,
        })
    }

    /// The path that stands behind so many parts of the address.
    ///
    /// # Errors
    /// 404 if no path can be meant.
    pub fn path_after(&self, parts: usize) -> Result<PathBuf, Failure> {
        let path = self.rest.splitn(parts + 1, '/').nth(parts);
        parse_path(path.unwrap_or_default())
            .ok_or_else(|| Failure::not_found("no directory can have such a name"))
    }
}

/// A snapshot and a path in it.
#[derive(Clone, Debug)]
pub struct Target {
    /// An ID, its beginning, or `latest`.
    pub snapshot: String,
    /// From `/` on.
    pub path: PathBuf,
}

/// What a target is.
pub struct Found {
    /// All snapshots.
    pub listed: Arc<Listed>,
    /// The place of the snapshot among them.
    pub place: usize,
    /// The snapshot's ID.
    pub id: Id,
    /// The snapshot.
    pub snapshot: Arc<Snapshot>,
    /// The entry at the path.
    pub entry: Entry,
}

impl Target {
    /// Looks the target up.
    ///
    /// # Errors
    /// When there is none, or the repository cannot be read.
    pub fn find(&self, opened: &Opened) -> Result<Found, Failure> {
        let listed = opened.snapshots()?;
        let place = find_snapshot(&listed, &self.snapshot)?;
        let (id, snapshot) = listed.snapshots()[place].clone();
        let entry = opened.find(id, &snapshot, &self.path)?;
        Ok(Found {
            listed,
            place,
            id,
            snapshot,
            entry,
        })
    }
}

/// The place of the snapshot that `name` means: an ID, its beginning, or `latest`.
///
/// # Errors
/// [`Error::NoSnapshot`], [`Error::AmbiguousSnapshot`].
pub fn find_snapshot(listed: &Listed, name: &str) -> Result<usize, Failure> {
    let snapshots = listed.snapshots();
    let none = || Failure::from(Error::NoSnapshot(name.to_owned()));
    if name == "latest" {
        return snapshots.len().checked_sub(1).ok_or_else(none);
    }
    let mut meant = (0..snapshots.len()).filter(|&place| snapshots[place].0.has_prefix(name));
    match (meant.next(), meant.count()) {
        (Some(place), 0) if !name.is_empty() => Ok(place),
        (Some(_), others) if !name.is_empty() => Err(Failure::from(Error::AmbiguousSnapshot {
            prefix: name.to_owned(),
            count: others + 1,
        })),
        _ => Err(none()),
    }
}

/// The address of a path in a snapshot; `what` is `files`, `raw` or the like.
pub fn address(place: &str, id: Id, what: &str, path: &Path) -> String {
    let path = encoding::path(path);
    format!("{}/{id}/{what}{path}", place_address(place))
}
