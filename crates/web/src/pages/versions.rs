//! All versions of one path.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::response::Response;
use maud::{Markup, html};
use tabane_store::Id;
use tabane_store::diff::{ChangeKind, compare, differ_below};
use tabane_store::entry::{Entry, Kind};
use tabane_store::history::PathHistory;
use tabane_store::snapshot::Snapshot;

use crate::answer::{self, Failure};
use crate::asked::{Asked, address};
use crate::encoding::{self, query};
use crate::look::frame::place_address;
use crate::look::{self, Tab};
use crate::places::Opened;

/// Time for looking; older snapshots are left to the next page.
const LOOK_TIME_MAX: Duration = Duration::from_secs(3);

/// Versions on one page.
const VERSIONS_MAX: usize = 200;

/// A state of the path, in snapshots that follow each other.
struct Version {
    /// Nothing where the path was not there.
    entry: Option<Entry>,
    /// The first and the last snapshot with it, and how many there are from one to the other.
    first: (Id, Arc<Snapshot>),
    last: (Id, Arc<Snapshot>),
    count: u64,
}

/// What was found, latest first.
#[derive(Default)]
struct Versions {
    versions: Vec<Version>,
    hosts: BTreeSet<String>,
    host: String,
    /// Where to go on, if there is more.
    rest: Option<usize>,
    problems: Vec<String>,
}

/// Shows them.
pub async fn get(asked: Asked) -> Result<Response, Failure> {
    let name = asked.name().to_owned();
    let path = asked.path_after(1)?;
    let (wanted, skip) = (asked.fields.text("host"), asked.fields.number("skip"));
    let looked_up = path.clone();
    let look_up = move |opened: &Opened| find(opened, &looked_up, wanted, skip.unwrap_or(0));
    let found = asked.shown.ask(look_up).await?;
    let body = html! {
        div class="head" {
            h1 { "Versions of " bdi { (look::path_text(&path)) } }
            @if found.hosts.len() > 1 {
                form class="row end" method="get" {
                    label { span class="away" { "Host" }
                        select name="host" data-submit {
                            @for host in &found.hosts {
                                option value=(host) selected[*host == found.host] {
                                    (tabane_text::printable(host))
                                }
                            }
                        }
                    }
                    button data-submits { "Show" }
                }
            }
        }
        @for problem in &found.problems { p class="note bad" { (look::sentence(problem)) } }
        @if found.versions.iter().all(|version| version.entry.is_none()) {
            p class="lead" { "No snapshot of this host that was looked at has it." }
        } @else {
            (table(&name, &path, &found))
        }
        @if let Some(rest) = found.rest {
            @let (host, skip) = (found.host.as_bytes(), rest.to_string());
            p { a rel="next" href=(query([("host", host), ("skip", skip.as_bytes())])) {
                "Earlier versions"
            } }
        }
    };
    let title = format!("Versions of {}", look::path_text(&path));
    Ok(answer::of_repository(&name, Tab::Snapshots, &title, body))
}

fn find(opened: &Opened, path: &Path, wanted: String, skip: usize) -> Result<Versions, Failure> {
    let listed = opened.snapshots()?;
    let snapshots = listed.snapshots();
    let hosts = snapshots
        .iter()
        .map(|(_, at)| at.hostname.clone())
        .collect();
    let mut found = Versions {
        hosts,
        host: wanted,
        ..Versions::default()
    };
    let mut history = PathHistory::new(Arc::clone(opened.cache()?), path);
    if found.host.is_empty() {
        // The host of the latest snapshot that has the path.
        let mut latest = snapshots.iter().rev().take(50);
        let has = latest.find(|(_, at)| history.find(at).is_ok_and(|entry| entry.is_some()));
        let of = has.or(snapshots.last());
        found.host = of.map(|(_, at)| at.hostname.clone()).unwrap_or_default();
    }
    let start = Instant::now();
    let of_host = snapshots
        .iter()
        .rev()
        .filter(|(_, at)| at.hostname == found.host);
    for (number, snapshot) in of_host.enumerate().skip(skip) {
        if start.elapsed() > LOOK_TIME_MAX || found.versions.len() > VERSIONS_MAX {
            found.rest = Some(number);
            break;
        }
        let entry = match history.find(&snapshot.1) {
            Ok(entry) => entry,
            Err(error) => {
                found.problems.push(error.to_string());
                continue;
            }
        };
        match found.versions.last_mut() {
            Some(version) if is_same(version.entry.as_ref(), entry.as_ref()) => {
                version.first = snapshot.clone();
                version.count += 1;
            }
            _ => found.versions.push(Version {
                entry,
                first: snapshot.clone(),
                last: snapshot.clone(),
                count: 1,
            }),
        }
    }
    found.problems.dedup();
    Ok(found)
}

fn is_same(one: Option<&Entry>, other: Option<&Entry>) -> bool {
    compare(one, other).is_none() && !differ_below(one, other)
}

fn table(place: &str, path: &Path, found: &Versions) -> Markup {
    let versions = &found.versions;
    html! {
        div class="scroll" { table {
            caption class="away" { "Versions, the latest first" }
            thead { tr {
                th scope="col" { "In the snapshots of" }
                th scope="col" class="number" { "Size" }
                th scope="col" class="tight wide-only" { "Changed" }
                th scope="col" { "Beside the version before" }
                th scope="col" { span class="away" { "Download" } }
            } }
            tbody {
                @for (number, version) in versions.iter().enumerate() {
                    @let before = versions.get(number + 1);
                    (row(place, path, version, before, found.rest.is_some()))
                }
            }
        } }
    }
}

fn row(
    place: &str,
    path: &Path,
    version: &Version,
    before: Option<&Version>,
    is_more: bool,
) -> Markup {
    let (first, last) = (&version.first, &version.last);
    let earlier = html! {
        @if version.count > 1 {
            span class="soft" {
                " and " (tabane_text::grouped(version.count - 1)) " before, from "
                (look::time(first.1.time)) " on"
            }
        }
    };
    let Some(entry) = &version.entry else {
        return html! {
            tr { td { (look::time(last.1.time)) (earlier) } td {} td class="wide-only" {}
                td { span class="badge" { "not there" } } td {} }
        };
    };
    let old = before.and_then(|before| before.entry.as_ref());
    let word = match compare(old, Some(entry)) {
        Some(ChangeKind::Added) if before.is_none() && is_more => "",
        Some(ChangeKind::Added) if before.is_none() => "the first",
        Some(kind) => change_word(kind),
        None => "other contents",
    };
    let compared = before
        .filter(|before| before.entry.is_some())
        .map(|before| {
            place_address(place)
                + "/compare"
                + &query([
                    ("a", before.last.0.to_string().as_bytes()),
                    ("b", first.0.to_string().as_bytes()),
                    ("path", path.as_os_str().as_bytes()),
                ])
        });
    html! {
        tr {
            td {
                a href=(address(place, last.0, "files", path)) { (look::time(last.1.time)) }
                (earlier)
            }
            td class="number" {
                @if let Kind::File { size, .. } = entry.kind { (look::bytes(size)) }
            }
            td class="tight wide-only" { (tabane_text::file_time(entry.mtime)) }
            td {
                (word)
                @if let Some(compared) = compared { " " a href=(compared) { "Differences" } }
            }
            td class="tight" {
                @if let Kind::File { .. } = entry.kind {
                    a href=(address(place, last.0, "raw", path)) download { "Download" }
                }
            }
        }
    }
}

/// A word for a kind of difference.
pub fn change_word(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Added => "added",
        ChangeKind::Removed => "removed",
        ChangeKind::Type => "another kind",
        ChangeKind::Content => "changed",
        ChangeKind::Metadata => "attributes only",
    }
}

/// The address of the versions of a path.
pub fn versions_address(place: &str, path: &Path) -> String {
    format!("{}/versions{}", place_address(place), encoding::path(path))
}
