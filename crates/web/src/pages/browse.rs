//! A directory or a file of a snapshot.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use axum::response::Response;
use maud::{Markup, html};
use tabane_store::Id;
use tabane_store::entry::{Entry, Kind};
use tabane_store::snapshot::Snapshot;

use crate::answer::{self, Failure};
use crate::asked::{Asked, Found, address};
use crate::content::preview::{Preview, preview};
use crate::encoding::{self, Fields, query};
use crate::look::frame::place_address;
use crate::look::{self, Tab, icons};

/// Entries on one page.
const ROWS_MAX: usize = 1000;

/// What stands in a directory, or in a file.
enum Inside {
    Entries(Vec<Entry>),
    Preview(Preview),
    Nothing,
}

/// Shows it.
pub async fn get(asked: Asked) -> Result<Response, Failure> {
    let name = asked.name().to_owned();
    let target = asked.target()?;
    let path = target.path.clone();
    let look_up = move |opened: &crate::places::Opened| {
        let found = target.find(opened)?;
        let inside = match &found.entry.kind {
            Kind::Directory { content } => Inside::Entries(opened.directory(content)?),
            Kind::File { content, .. } => Inside::Preview(preview(opened.cache()?, content)?),
            _ => Inside::Nothing,
        };
        Ok((found, inside))
    };
    let (found, inside) = asked.shown.ask(look_up).await?;
    let body = html! {
        (look::crumbs(
            &path,
            |step| address(&name, found.id, "files", step),
            |last| html! { h1 { bdi { (last) } } },
        ))
        (of_snapshot(&name, &found, &path))
        @match inside {
            Inside::Entries(entries) => (directory(&name, &found, &path, entries, &asked.fields)),
            Inside::Preview(preview) => (file(&name, &found, &path, &preview)),
            Inside::Nothing => (facts(&found.entry, &found.snapshot)),
        }
    };
    let title = look::path_text(&path);
    Ok(answer::of_repository(&name, Tab::Snapshots, &title, body))
}

/// Which snapshot this is, the ones beside it, and what can be done with the path.
fn of_snapshot(place: &str, found: &Found, path: &Path) -> Markup {
    let snapshots = found.listed.snapshots();
    let is_alike = |other: &&(Id, std::sync::Arc<Snapshot>)| {
        other.1.hostname == found.snapshot.hostname && other.1.paths == found.snapshot.paths
    };
    let before = snapshots[..found.place].iter().rev().find(is_alike);
    let behind = snapshots[found.place + 1..].iter().find(is_alike);
    let path_field = path.as_os_str().as_bytes();
    html! {
        div class="row wide" {
            span class="soft" {
                "As " bdi { (tabane_text::printable(&found.snapshot.hostname)) } " had it at "
                (look::time(found.snapshot.time))
                @if let Some(description) = &found.snapshot.description {
                    " · " bdi { (tabane_text::printable(description)) }
                }
            }
            span class="row" {
                @if let Some((id, at)) = before {
                    a href=(address(place, *id, "files", path)) rel="prev"
                        title=(tabane_text::local_time(at.time)) { "Before" }
                }
                @if let Some((id, at)) = behind {
                    a href=(address(place, *id, "files", path)) rel="next"
                        title=(tabane_text::local_time(at.time)) { "After" }
                }
                @if let Some((id, _)) = before {
                    a href={ (place_address(place)) "/compare" (query([
                        ("a", id.to_string().as_bytes()),
                        ("b", found.id.to_string().as_bytes()),
                        ("path", path_field),
                    ])) } { "What changed" }
                }
                a href={ (place_address(place)) "/restore" (query([
                    ("snapshot", found.id.to_string().as_bytes()),
                    ("path", path_field),
                ])) } { "Restore" }
            }
        }
    }
}

/// Columns by which a directory can be sorted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Name,
    Size,
    Time,
}

/// How a directory is shown, as the address says.
struct View {
    column: Column,
    down: bool,
    part: String,
    skip: usize,
}

impl View {
    fn of(fields: &Fields) -> Self {
        let column = match &fields.text("sort")[..] {
            "size" => Column::Size,
            "time" => Column::Time,
            _ => Column::Name,
        };
        Self {
            column,
            down: fields.has("down"),
            part: fields.text("part"),
            skip: fields.number("skip").unwrap_or(0),
        }
    }

    fn address(&self, base: &str, column: Column, down: bool, skip: usize) -> String {
        let skip = skip.to_string();
        let mut fields: Vec<(&str, &[u8])> = Vec::new();
        if !self.part.is_empty() {
            fields.push(("part", self.part.as_bytes()));
        }
        match column {
            Column::Name => {}
            Column::Size => fields.push(("sort", b"size")),
            Column::Time => fields.push(("sort", b"time")),
        }
        if down {
            fields.push(("down", b""));
        }
        if skip != "0" {
            fields.push(("skip", skip.as_bytes()));
        }
        base.to_owned() + &query(fields)
    }

    /// Leaves what is wanted, in order.
    fn arrange(&self, entries: &mut Vec<Entry>) {
        if !self.part.is_empty() {
            let part = self.part.to_lowercase();
            entries.retain(|entry| {
                let name = String::from_utf8_lossy(&entry.name).to_lowercase();
                name.contains(&part)
            });
        }
        let is_file = |entry: &Entry| entry.directory().is_none();
        entries.sort_by(|a, b| {
            let order = match self.column {
                Column::Name => Ordering::Equal,
                Column::Size => a.size().cmp(&b.size()),
                Column::Time => a.mtime.cmp(&b.mtime),
            };
            let order = order.then_with(|| match (self.column, self.down) {
                (Column::Name, _) => a.name.cmp(&b.name),
                // Equal ones are in the order of names, whichever way the column goes.
                (_, true) => b.name.cmp(&a.name),
                (_, false) => a.name.cmp(&b.name),
            });
            let order = if self.down { order.reverse() } else { order };
            // Directories first, where that is not what is sorted by.
            match self.column {
                Column::Name => is_file(a).cmp(&is_file(b)).then(order),
                _ => order,
            }
        });
    }
}

fn directory(
    place: &str,
    found: &Found,
    path: &Path,
    mut entries: Vec<Entry>,
    fields: &Fields,
) -> Markup {
    let view = View::of(fields);
    let all = entries.len();
    let bytes = look::sum(entries.iter().map(Entry::size));
    let directories = entries
        .iter()
        .filter(|entry| entry.directory().is_some())
        .count();
    view.arrange(&mut entries);
    let base = address(place, found.id, "files", path);
    let end = view.skip.saturating_add(ROWS_MAX).min(entries.len());
    let shown = entries.get(view.skip..end).unwrap_or_default();
    let heading = |column: Column, text: &str, class: &str| {
        let is_by = view.column == column;
        let down = if is_by {
            !view.down
        } else {
            column != Column::Name
        };
        let sorted = match (is_by, view.down) {
            (false, _) => None,
            (true, false) => Some("ascending"),
            (true, true) => Some("descending"),
        };
        html! {
            th scope="col" class=(class) aria-sort=[sorted] {
                a href=(view.address(&base, column, down, 0)) { (text) }
            }
        }
    };
    html! {
        div class="row wide" {
            span class="soft" {
                @if directories > 0 { (tabane_text::count(directories as u64, "directory")) ", " }
                (tabane_text::count((all - directories) as u64, "file")) ", " (look::bytes(bytes))
            }
            @if all > 20 || !view.part.is_empty() {
                form method="get" action=(base) class="row" role="search" {
                    label { span class="away" { "Part of a name" }
                        input type="search" name="part" value=(view.part)
                            placeholder="Part of a name";
                    }
                    button { "Filter" }
                }
            }
            span class="row end" {
                a class="button" href=(address(place, found.id, "tar", path)) download {
                    (icons::drawing(icons::DOWN, "Download")) "tar"
                }
                a class="button" href=(address(place, found.id, "zip", path)) download {
                    (icons::drawing(icons::DOWN, "Download")) "zip"
                }
            }
        }
        @if entries.is_empty() {
            p class="lead" {
                @if all == 0 { "The directory is empty." } @else { "No name has this in it." }
            }
        } @else {
            div class="scroll" {
                table {
                    caption class="away" { "What is in " (look::path_text(path)) }
                    thead { tr {
                        (heading(Column::Name, "Name", ""))
                        (heading(Column::Size, "Size", "number"))
                        (heading(Column::Time, "Changed", "tight"))
                        th scope="col" class="tight wide-only" { "Mode" }
                        th scope="col" class="tight wide-only" { "Owner" }
                        th scope="col" class="tight" { span class="away" { "Download" } }
                    } }
                    tbody { @for entry in shown { (row(place, found, path, entry)) } }
                }
                @if entries.len() > ROWS_MAX {
                    div class="end-of-table row" {
                        span class="soft" {
                            (tabane_text::grouped((view.skip as u64).saturating_add(1))) "–"
                            (tabane_text::grouped(end as u64)) " of "
                            (tabane_text::grouped(entries.len() as u64))
                        }
                        @if view.skip > 0 {
                            @let skip = view.skip.saturating_sub(ROWS_MAX);
                            a rel="prev" href=(view.address(&base, view.column, view.down, skip)) {
                                "Previous"
                            }
                        }
                        @if end < entries.len() {
                            a rel="next" href=(view.address(&base, view.column, view.down, end)) {
                                "Next"
                            }
                        }
                    }
                }
            }
        }
    }
}

fn row(place: &str, found: &Found, path: &Path, entry: &Entry) -> Markup {
    let below = path.join(OsStr::from_bytes(&entry.name));
    let class = match entry.kind {
        Kind::Directory { .. } => "entry directory",
        _ => "entry",
    };
    html! {
        tr {
            td class="names" {
                a class=(class) href=(address(place, found.id, "files", &below)) {
                    (icons::of(entry)) (look::name(&entry.name))
                }
                @if let Kind::Symlink { target } = &entry.kind {
                    span class="soft" { " → " (look::name(target)) }
                }
            }
            td class="number" {
                @if let Kind::File { size, .. } = entry.kind { (look::bytes(size)) }
            }
            td class="tight" { (changed(entry)) }
            td class="tight code wide-only" { (tabane_text::mode(entry)) }
            td class="tight wide-only" { (owner(entry, &found.snapshot)) }
            td class="tight" {
                @if let Kind::File { .. } = entry.kind {
                    a href=(address(place, found.id, "raw", &below)) download
                        title="Download" {
                        (icons::drawing(icons::DOWN, "Download"))
                    }
                }
            }
        }
    }
}

/// When an entry was changed.
fn changed(entry: &Entry) -> Markup {
    match tabane_text::timestamp(entry.mtime) {
        Some(time) => look::time(time),
        None => html! { (tabane_text::file_time(entry.mtime)) },
    }
}

/// Owner and group, by name where the snapshot has names.
fn owner(entry: &Entry, snapshot: &Snapshot) -> Markup {
    let user = snapshot.user(entry.uid).map(tabane_text::printable);
    let group = snapshot.group(entry.gid).map(tabane_text::printable);
    html! {
        @match user { Some(user) => bdi { (user) }, None => (entry.uid) }
        ":"
        @match group { Some(group) => bdi { (group) }, None => (entry.gid) }
    }
}

/// What is kept of an entry besides its bytes.
fn facts(entry: &Entry, snapshot: &Snapshot) -> Markup {
    html! {
        dl class="facts sheet" {
            dt { "Kind" } dd { (tabane_store::browse::kind_name(&entry.kind)) }
            @match &entry.kind {
                Kind::File { size, .. } => {
                    dt { "Size" } dd { (tabane_text::grouped(*size)) " bytes" }
                }
                Kind::Symlink { target } => {
                    dt { "Leads to" } dd { (look::name(target)) }
                }
                Kind::CharDevice { major, minor } | Kind::BlockDevice { major, minor } => {
                    dt { "Device" } dd { (major) ", " (minor) }
                }
                _ => {}
            }
            dt { "Changed" } dd { (changed(entry)) }
            dt { "Mode" } dd class="code" { (tabane_text::mode(entry)) }
            dt { "Owner" } dd { (owner(entry, snapshot)) }
            @if entry.hard_link.is_some() { dt { "Names" } dd { "several (hard links)" } }
            @if !entry.flags.is_empty() { dt { "Flags" } dd { (entry.flags) } }
            @if !entry.xattrs.is_empty() {
                dt { "Attributes" }
                dd { @for xattr in &entry.xattrs { div { (look::name(&xattr.name)) } } }
            }
        }
    }
}

fn file(place: &str, found: &Found, path: &Path, preview: &Preview) -> Markup {
    let raw = address(place, found.id, "raw", path);
    let versions = format!("{}/versions{}", place_address(place), encoding::path(path));
    html! {
        div class="row" {
            a class="button main" href=(raw) download { "Download" }
            a class="button" href=(versions) { "All versions" }
        }
        (facts(&found.entry, &found.snapshot))
        @match preview {
            Preview::Empty => p class="soft" { "The file is empty." },
            Preview::Picture => {
                figure class="content" {
                    img src=(address(place, found.id, "show", path)) alt=(look::path_text(path));
                }
            }
            Preview::Text(text, more) => {
                div class="content" tabindex="0" role="region" aria-label="The text" {
                    pre { (text) }
                }
                @if *more { p class="soft small" { "Only the beginning is shown." } }
            }
            Preview::Bytes(lines, more) => {
                div class="content" tabindex="0" role="region" aria-label="The bytes" {
                    pre { (lines) }
                }
                @if *more { p class="soft small" { "Only the first bytes are shown." } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, size: Option<u64>, s: i64) -> Entry {
        let mut entry = tabane_store::browse::root(&Snapshot::default());
        entry.name = name.as_bytes().to_vec();
        entry.mtime.s = s;
        if let Some(size) = size {
            entry.kind = Kind::File {
                size,
                content: Vec::new(),
            };
        }
        entry
    }

    #[test]
    fn directories_are_sorted_and_filtered_as_wanted() {
        let arranged = |address: &str| {
            let mut entries = vec![
                entry("b", Some(5), 1),
                entry("A", None, 4),
                entry("c", Some(5), 2),
                entry("a", Some(9), 3),
            ];
            View::of(&Fields::parse(address)).arrange(&mut entries);
            let names = entries.iter().map(|entry| char::from(entry.name[0]));
            names.collect::<String>()
        };
        assert_eq!(arranged(""), "Aabc");
        assert_eq!(arranged("down="), "Acba");
        assert_eq!(arranged("sort=size"), "Abca");
        assert_eq!(arranged("sort=size&down="), "abcA");
        assert_eq!(arranged("sort=time&down="), "Aacb");
        assert_eq!(arranged("part=a"), "Aa");
    }
}
