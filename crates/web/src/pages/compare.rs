//! Two snapshots side by side, directory by directory, and the differences of a file.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::response::Response;
use maud::{Markup, html};
use similar::{ChangeTag, TextDiff};
use tabane_store::diff::{ChangeKind, DiffSummary, Pair, compare, diff, differ_below, pairs};
use tabane_store::entry::{Entry, Kind};
use tabane_store::file_reader::FileReader;
use tabane_store::history::PathHistory;
use tabane_store::lister::Listed;
use tabane_store::snapshot::Snapshot;
use tabane_store::{Error, Id};

use crate::answer::{self, Failure};
use crate::asked::{Asked, address, find_snapshot};
use crate::content::preview::shown;
use crate::encoding::query;
use crate::look::frame::place_address;
use crate::look::{self, Tab, icons};
use crate::pages::versions::change_word;
use crate::places::Opened;

/// Time for counting all differences below a directory.
const COUNT_TIME_MAX: Duration = Duration::from_secs(2);

/// Rows of one directory.
const ROWS_MAX: usize = 1000;

/// Bytes of a file whose lines are compared.
const TEXT_LEN_MAX: u64 = 1 << 20;

/// Time for comparing lines; what is left counts as changed.
const LINES_TIME_MAX: Duration = Duration::from_secs(1);

/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 3;

/// Lines of differences that are shown.
const LINES_MAX: usize = 4000;

type Side = (Id, Arc<Snapshot>);

/// What stands at the path on the two sides.
enum Outcome {
    /// Neither side has it.
    Nothing,
    /// Directories: their differing entries, and the sums of all below, if they were counted in
    /// time.
    Directories(Vec<Pair>, Option<DiffSummary>),
    /// Files, or a file on one side.
    Files {
        pair: Box<Pair>,
        /// The text of each side, if it is one.
        texts: Option<(String, String)>,
    },
}

/// Shows the choice, and the comparison if two snapshots are chosen.
pub async fn get(asked: Asked) -> Result<Response, Failure> {
    let name = asked.name().to_owned();
    let (a, b) = (asked.fields.text("a"), asked.fields.text("b"));
    let path = asked.fields.path("path");
    let compared = path.clone();
    let look_up = move |opened: &Opened| {
        let listed = opened.snapshots()?;
        if a.is_empty() || b.is_empty() {
            return Ok((listed, None));
        }
        let sides = [&a, &b].map(|name| {
            find_snapshot(&listed, name).map(|place| listed.snapshots()[place].clone())
        });
        let [one, other] = sides;
        let (one, other) = (one?, other?);
        let outcome = look(opened, &one, &other, &compared)?;
        Ok((listed, Some((one, other, outcome))))
    };
    let (listed, compared) = asked.shown.ask(look_up).await?;
    let body = html! {
        h1 { "Compare" }
        (choice(&name, &listed, compared.as_ref().map(|(a, b, _)| (a.0, b.0)), &path))
        @if let Some((one, other, outcome)) = &compared {
            (look::crumbs(
                &path,
                |step| compare_address(&name, one.0, other.0, step),
                |last| html! { h2 { bdi { (last) } } },
            ))
            @match outcome {
                Outcome::Nothing => p class="lead" { "Neither of them has this path." },
                Outcome::Directories(pairs, summary) => {
                    (directories(&name, one, other, &path, pairs, summary.as_ref()))
                }
                Outcome::Files { pair, texts } => {
                    (files(&name, one, other, &path, pair, texts.as_ref()))
                }
            }
        }
    };
    Ok(answer::of_repository(&name, Tab::Compare, "Compare", body))
}

fn look(opened: &Opened, one: &Side, other: &Side, path: &Path) -> Result<Outcome, Failure> {
    let mut reader = Arc::clone(opened.cache()?);
    let mut history = PathHistory::new(Arc::clone(&reader), path);
    let (old, new) = (history.find(&one.1)?, history.find(&other.1)?);
    let is_directory = |entry: &Option<Entry>| {
        entry
            .as_ref()
            .is_some_and(|entry| entry.directory().is_some())
    };
    if old.is_none() && new.is_none() {
        return Ok(Outcome::Nothing);
    }
    if is_directory(&old) || is_directory(&new) {
        let mut differing = pairs(&mut reader, old.as_ref(), new.as_ref())?;
        differing.retain(|(old, new)| {
            compare(old.as_ref(), new.as_ref()).is_some()
                || differ_below(old.as_ref(), new.as_ref())
        });
        let summary = match (&old, &new) {
            (Some(old), Some(new)) => count(&mut reader, old, new),
            _ => None,
        };
        return Ok(Outcome::Directories(differing, summary));
    }
    let text = |entry: &Option<Entry>| -> Result<Option<String>, Error> {
        let Some(Kind::File { size, content }) = entry.as_ref().map(|entry| &entry.kind) else {
            return Ok(None);
        };
        if *size > TEXT_LEN_MAX {
            return Ok(None);
        }
        let bytes = FileReader::new(opened.cache()?, content.clone()).read_at(0, *size as usize)?;
        Ok(String::from_utf8(bytes)
            .ok()
            .filter(|text| !text.contains('\0')))
    };
    let is_changed = compare(old.as_ref(), new.as_ref()) == Some(ChangeKind::Content);
    let texts = if is_changed {
        text(&old)?.zip(text(&new)?)
    } else {
        None
    };
    Ok(Outcome::Files {
        pair: Box::new((old, new)),
        texts,
    })
}

/// Counts all differences below two directories; nothing if that takes too long.
fn count(
    reader: &mut impl tabane_store::browse::TreeReader,
    old: &Entry,
    new: &Entry,
) -> Option<DiffSummary> {
    let start = Instant::now();
    let counted = diff(reader, old, new, |_| {
        if start.elapsed() > COUNT_TIME_MAX {
            Err(Error::Cancelled)
        } else {
            Ok(())
        }
    });
    counted.ok()
}

/// The choice of two snapshots.
fn choice(place: &str, listed: &Listed, chosen: Option<(Id, Id)>, path: &Path) -> Markup {
    let snapshots = listed.snapshots();
    let last = snapshots
        .len()
        .checked_sub(1)
        .map(|place| snapshots[place].0);
    let before = snapshots
        .len()
        .checked_sub(2)
        .map(|place| snapshots[place].0);
    let (a, b) = match chosen {
        Some((a, b)) => (Some(a), Some(b)),
        None => (before, last),
    };
    let select = |name: &str, text: &str, chosen: Option<Id>| {
        html! {
            label class="above grow" { span { (text) }
                select name=(name) {
                    @for (id, snapshot) in snapshots.iter().rev() {
                        option value=(id) selected[Some(*id) == chosen] {
                            (tabane_text::local_time(snapshot.time)) " · "
                            (tabane_text::printable(&snapshot.hostname)) " · "
                            (tabane_text::printable(&snapshot.paths.join(" ")))
                        }
                    }
                }
            }
        }
    };
    html! {
        form class="sheet fields" method="get" action={ (place_address(place)) "/compare" } {
            (select("a", "From", a))
            (select("b", "To", b))
            label class="above" { span { "Path" }
                input type="text" name="path" value=(look::path_text(path)) spellcheck="false";
            }
            button class="main" { "Compare" }
        }
    }
}

/// The address of the comparison of a path.
fn compare_address(place: &str, a: Id, b: Id, path: &Path) -> String {
    place_address(place)
        + "/compare"
        + &query([
            ("a", a.to_string().as_bytes()),
            ("b", b.to_string().as_bytes()),
            ("path", path.as_os_str().as_bytes()),
        ])
}

fn directories(
    place: &str,
    one: &Side,
    other: &Side,
    path: &Path,
    pairs: &[Pair],
    summary: Option<&DiffSummary>,
) -> Markup {
    let count = |number: u64, word: &str| tabane_text::count(number, word);
    html! {
        @match summary {
            Some(sums) => p class="soft" {
                (count(sums.files_added, "file")) " added, "
                (tabane_text::grouped(sums.files_removed)) " removed, "
                (tabane_text::grouped(sums.files_changed)) " changed, "
                (tabane_text::grouped(sums.metadata_changed)) " with other attributes; "
                (look::bytes(sums.added_bytes)) " new, " (look::bytes(sums.removed_bytes)) " gone."
            },
            None => p class="soft" { "There is much below: it was not counted." },
        }
        @if pairs.is_empty() {
            p class="lead" { "Nothing differs here." }
        } @else {
            div class="scroll" { table {
                caption class="away" { "What differs in " (look::path_text(path)) }
                thead { tr {
                    th scope="col" { "Name" }
                    th scope="col" { "Difference" }
                    th scope="col" class="number" { "Size before" }
                    th scope="col" class="number" { "Size after" }
                } }
                tbody {
                    @for pair in pairs.iter().take(ROWS_MAX) {
                        (row(place, one, other, path, pair))
                    }
                }
            }
            @if pairs.len() > ROWS_MAX {
                div class="end-of-table soft" {
                    (count((pairs.len() - ROWS_MAX) as u64, "name")) " more."
                }
            } }
        }
    }
}

fn row(place: &str, one: &Side, other: &Side, path: &Path, (old, new): &Pair) -> Markup {
    let Some(entry) = new.as_ref().or(old.as_ref()) else {
        return html! {};
    };
    let below = path.join(std::ffi::OsStr::from_bytes(&entry.name));
    let kind = compare(old.as_ref(), new.as_ref());
    let has_below = differ_below(old.as_ref(), new.as_ref());
    let (class, word) = match kind {
        Some(ChangeKind::Added) => ("badge good", "added"),
        Some(ChangeKind::Removed) => ("badge bad", "removed"),
        Some(ChangeKind::Metadata) if has_below => ("badge warn", "changed below"),
        Some(ChangeKind::Metadata) => ("badge", change_word(ChangeKind::Metadata)),
        Some(kind) => ("badge warn", change_word(kind)),
        None => ("badge warn", "changed below"),
    };
    let size = |entry: &Option<Entry>| match entry.as_ref().map(|entry| &entry.kind) {
        Some(Kind::File { size, .. }) => look::bytes(*size),
        _ => html! {},
    };
    let entry_class = match entry.kind {
        Kind::Directory { .. } => "entry directory",
        _ => "entry",
    };
    html! {
        tr {
            td class="names" {
                a class=(entry_class) href=(compare_address(place, one.0, other.0, &below)) {
                    (icons::of(entry)) (look::name(&entry.name))
                }
            }
            td class="tight" { span class=(class) { (word) } }
            td class="number" { (size(old)) }
            td class="number" { (size(new)) }
        }
    }
}

fn files(
    place: &str,
    one: &Side,
    other: &Side,
    path: &Path,
    (old, new): &Pair,
    texts: Option<&(String, String)>,
) -> Markup {
    let kind = compare(old.as_ref(), new.as_ref());
    let side = |text: &str, side: &Side, entry: &Option<Entry>| {
        html! {
            div class="sheet" {
                h3 { (text) ": " (look::time(side.1.time)) }
                @match entry {
                    None => p class="soft" { "It is not there." },
                    Some(entry) => {
                        p {
                            @if let Kind::File { size, .. } = entry.kind {
                                (tabane_text::grouped(size)) " bytes, "
                            }
                            "changed " (tabane_text::file_time(entry.mtime)) ", "
                            span class="code" { (tabane_text::mode(entry)) } ", "
                            (entry.uid) ":" (entry.gid)
                        }
                        p class="row" {
                            a href=(address(place, side.0, "files", path)) { "Show" }
                            @if let Kind::File { .. } = entry.kind {
                                a href=(address(place, side.0, "raw", path)) download { "Download" }
                            }
                        }
                    }
                }
            }
        }
    };
    html! {
        div class="grid" { (side("From", one, old)) (side("To", other, new)) }
        @match (kind, texts) {
            (None, _) => p class="lead" { "Both are the same." },
            (Some(ChangeKind::Content), Some((old, new))) => (lines(old, new)),
            (Some(ChangeKind::Content), None) => p class="soft" {
                "The contents differ. Lines are compared of texts of at most 1 MiB."
            },
            (Some(kind), _) => p class="lead" { (look::sentence(change_word(kind))) },
        }
    }
}

/// The lines that differ, with some around them.
fn lines(old: &str, new: &str) -> Markup {
    let compared = TextDiff::configure()
        .timeout(LINES_TIME_MAX)
        .diff_lines(old, new);
    let groups = compared.grouped_ops(CONTEXT_LINES);
    let mut left = LINES_MAX;
    html! {
        div class="content" tabindex="0" role="region" aria-label="Lines that differ" {
            table class="lines" {
                @for (number, group) in groups.iter().enumerate() {
                    @if number > 0 { tbody class="gap" { tr { td colspan="3" { "⋯" } } } }
                    tbody {
                        @for change in group.iter().flat_map(|op| compared.iter_changes(op)) {
                            @if left > 0 {
                                @let () = left -= 1;
                                (line(change.tag(), change.old_index(), change.new_index(),
                                    change.value()))
                            }
                        }
                    }
                }
            }
        }
        @if left == 0 { p class="soft small" { "More lines differ than are shown." } }
    }
}

fn line(tag: ChangeTag, old: Option<usize>, new: Option<usize>, text: &str) -> Markup {
    let (class, sign, word) = match tag {
        ChangeTag::Equal => ("", " ", ""),
        ChangeTag::Delete => ("old", "−", "removed"),
        ChangeTag::Insert => ("new", "+", "added"),
    };
    let number = |at: Option<usize>| at.map(|at| (at + 1).to_string()).unwrap_or_default();
    html! {
        tr class=(class) {
            td class="line-number" { (number(old)) }
            td class="line-number" { (number(new)) }
            td {
                pre {
                    @if !word.is_empty() { span class="away" { (word) ": " } }
                    span aria-hidden="true" { (sign) " " } (shown(text.trim_end_matches('\n')))
                }
            }
        }
    }
}
