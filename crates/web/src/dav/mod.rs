//! The files of all snapshots as read-only WebDAV (RFC 4918, class 1).
//!
//! ```text
//! /dav/<repository>/ids/<short ID>   snapshots/<time>   hosts/<host>/<time>   tags/<tag>/<time>
//! ```
//! These are the names of a mount, with `latest` beside times. What is no file and no directory,
//! as a symbolic link, WebDAV has no form for: it is left out.

mod answer;
mod request;

pub use request::Wanted as PropertiesWanted;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::tz::TimeZone;
use percent_encoding::percent_decode_str;
use tabane_store::entry::{Entry, Kind};
use tabane_store::file_reader::FileReader;
use tabane_store::layout::{LayoutEntry, Templates, layout};
use tabane_store::{Error, Id};

use crate::answer::Failure;
use crate::app::{App, AppState};
use crate::content::{download, stream};
use crate::encoding::parse_path;
use crate::form;
use crate::places::{Opened, Shown};

use answer::{Item, tail};
use request::Wanted;

/// Items of one piece of an answer.
const ITEMS_AT_ONCE: usize = 500;

const ALLOWED: &str = "OPTIONS, GET, HEAD, PROPFIND";

/// What an address means.
enum Meant {
    /// A directory above the snapshots, with its entries.
    Above(Vec<Item>),
    /// A directory in a snapshot, with its entries.
    Directory(Vec<Entry>),
    /// A file.
    File(Box<Entry>, Arc<FileReader>),
}

/// Answers a request for something below `/dav`.
pub async fn answer(State(app): AppState, request: Request) -> Response {
    let answered = match request.method().as_str() {
        "OPTIONS" => Ok(options()),
        "PROPFIND" => properties(&app, request).await,
        "GET" | "HEAD" => file(&app, request.uri().path(), request.headers()).await,
        _ => {
            let refused = (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, ALLOWED)]);
            return refused.into_response();
        }
    };
    // Programs show a line of text at best.
    answered.unwrap_or_else(|failure: Failure| {
        let text = format!("{}\n", tabane_text::printable(failure.text()));
        (failure.status(), text).into_response()
    })
}

fn options() -> Response {
    let dav = header::HeaderName::from_static("dav");
    let author = header::HeaderName::from_static("ms-author-via");
    [(dav, "1"), (header::ALLOW, ALLOWED), (author, "DAV")].into_response()
}

/// The repository that the address names, and the path below it; no repository for `/dav` itself.
fn place_of<'a>(app: &'a App, address: &str) -> Result<Option<(&'a Arc<Shown>, PathBuf)>, Failure> {
    let rest = address.strip_prefix("/dav").unwrap_or_default();
    let rest = rest.trim_start_matches('/');
    let (name, path) = rest.split_once('/').unwrap_or((rest, ""));
    if name.is_empty() {
        return Ok(None);
    }
    let name = percent_decode_str(name).decode_utf8_lossy();
    let path = parse_path(path);
    let path = path.ok_or_else(|| Failure::not_found("no directory can have such a name"))?;
    Ok(Some((app.place(&name)?, path)))
}

/// Looks up what a path below a repository means.
fn look_up(opened: &Opened, path: &Path) -> Result<Meant, Failure> {
    let listed = opened.snapshots()?;
    let snapshots = listed.snapshots().iter().map(|(id, at)| (*id, &**at));
    let mut directory = layout(snapshots, &Templates::default(), &TimeZone::system());
    let mut names = path.strip_prefix("/").unwrap_or(path).iter();
    let nothing = || Failure::not_found("there is nothing of this name");
    while let Some(name) = names.next() {
        let name = name.to_str().ok_or_else(nothing)?;
        let mut entry = directory.remove(name).ok_or_else(nothing)?;
        if let LayoutEntry::Link(target) = &entry {
            entry = directory.remove(target).ok_or_else(nothing)?;
        }
        match entry {
            LayoutEntry::Directory(below) => directory = below,
            LayoutEntry::Snapshot(id) => {
                return in_snapshot(opened, id, names.as_path());
            }
            LayoutEntry::Link(_) => return Err(nothing()),
        }
    }
    Ok(Meant::Above(
        directory.into_keys().map(Item::above).collect(),
    ))
}

fn in_snapshot(opened: &Opened, id: Id, path: &Path) -> Result<Meant, Failure> {
    let listed = opened.snapshots()?;
    let (_, snapshot) = listed
        .get(&id)
        .ok_or_else(|| Error::NoSnapshot(id.to_string()))?;
    let entry = opened.find(id, snapshot, path)?;
    match &entry.kind {
        Kind::Directory { content } => Ok(Meant::Directory(opened.directory(content)?)),
        Kind::File { content, .. } => {
            let reader = Arc::new(FileReader::new(opened.cache()?, content.clone()));
            Ok(Meant::File(Box::new(entry), reader))
        }
        _ => Err(Failure::not_found(
            "WebDAV has no form for this kind of file",
        )),
    }
}

/// Sends the bytes of a file.
async fn file(app: &App, address: &str, headers: &HeaderMap) -> Result<Response, Failure> {
    let directory = || {
        let text = "this is a directory: open it with a program for WebDAV";
        Failure::wrong(text)
    };
    let (shown, path) = place_of(app, address)?.ok_or_else(directory)?;
    let meant = shown.ask(move |opened| look_up(opened, &path)).await?;
    let Meant::File(entry, reader) = meant else {
        return Err(directory());
    };
    let tag = download::tag_of(&entry);
    let mut answer = download::send(reader, &tag, None, headers, app.report);
    if let Some(time) = answer::http_time(entry.mtime).and_then(|time| time.parse().ok()) {
        answer.headers_mut().insert(header::LAST_MODIFIED, time);
    }
    Ok(answer)
}

/// Sends properties of an address and, of a directory, of what is in it.
async fn properties(app: &App, request: Request) -> Result<Response, Failure> {
    let address = request.uri().path().to_owned();
    let depth = request
        .headers()
        .get("depth")
        .map(|depth| depth.as_bytes().to_vec());
    let with_entries = match depth.as_deref() {
        Some(b"0") => false,
        Some(b"1") => true,
        _ => return Ok(answer::too_deep()),
    };
    let wanted = Wanted::parse(&form::read_bytes(request.into_body()).await?);
    let wanted = wanted.ok_or_else(|| Failure::wrong("the body is no propfind"))?;
    let base = address.trim_end_matches('/').to_owned();
    let (own, below): (Item, Vec<Item>) = match place_of(app, &address)? {
        None => {
            let names = app.places.iter().map(|shown| shown.place.name.clone());
            (Item::above(String::new()), names.map(Item::above).collect())
        }
        Some((shown, path)) => {
            let meant = shown.ask(move |opened| look_up(opened, &path)).await?;
            match meant {
                Meant::Above(items) => (Item::above(String::new()), items),
                Meant::Directory(entries) => {
                    let items = entries.iter().filter_map(Item::of).collect();
                    (Item::above(String::new()), items)
                }
                Meant::File(entry, _) => match Item::of(&entry) {
                    Some(item) => (item.nameless(), Vec::new()),
                    None => return Err(Failure::not_found("there is nothing of this name")),
                },
            }
        }
    };
    let below = if with_entries { below } else { Vec::new() };
    let mut items = std::iter::once(own).chain(below);
    let (mut begun, mut ended) = (false, false);
    let body = stream::body(None, app.report, move || {
        if ended {
            return Ok(None);
        }
        let mut text = String::new();
        if !std::mem::replace(&mut begun, true) {
            text += answer::HEAD;
        }
        let mut count = 0;
        for item in items.by_ref().take(ITEMS_AT_ONCE) {
            item.write(&base, &wanted, &mut text);
            count += 1;
        }
        if count < ITEMS_AT_ONCE {
            ended = true;
            text += tail();
        }
        Ok(Some(text.into_bytes()))
    });
    Ok(answer::multi_status(body))
}

/// What asks a program for name and password.
pub fn unauthorized() -> Response {
    let ask = [(
        header::WWW_AUTHENTICATE,
        "Basic realm=\"tabane\", charset=\"UTF-8\"",
    )];
    (StatusCode::UNAUTHORIZED, ask, Body::empty()).into_response()
}
