//! Looks for names in all snapshots.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::response::Response;
use maud::{Markup, html};
use tabane_storage::sync::lock;
use tabane_store::browse::TreeReader;
use tabane_store::entry::{Entry, Kind, Piece};
use tabane_store::find::{Finder, Found, Pattern, Query, Unreadable};
use tabane_store::lister::Listed;
use tabane_store::segment_cache::SegmentCache;
use tabane_store::snapshot::Snapshot;
use tabane_store::{Error, Id};

use crate::answer::{self, Failure};
use crate::asked::{Asked, address};
use crate::encoding::Fields;
use crate::events::{self, Sender};
use crate::look::frame::place_address;
use crate::look::{self, Tab, icons};
use crate::pages::versions::versions_address;
use crate::places::Opened;

/// Hits that are shown.
const HITS_MAX: usize = 300;

/// Time for hits on a page without scripts.
const PAGE_TIME_MAX: Duration = Duration::from_secs(3);

/// Pause between two reports of how far the search is.
const REPORT_PAUSE: Duration = Duration::from_millis(200);

/// What is looked for, as the address says.
#[derive(Clone)]
struct Wanted {
    text: String,
    kind: String,
    host: String,
}

impl Wanted {
    fn of(fields: &Fields) -> Self {
        Self {
            text: fields.text("q"),
            kind: fields.text("kind"),
            host: fields.text("host"),
        }
    }

    /// A plain word is looked for in names; with a slash or a wildcard in it, it is a pattern.
    fn query(&self) -> Result<Query, Error> {
        let is_pattern = self.text.contains(['*', '?', '[', '{', '/', '\\']);
        let text = if is_pattern {
            self.text.clone()
        } else {
            format!("*{}*", self.text)
        };
        let kinds = match &self.kind[..] {
            "file" => vec!["file"],
            "dir" => vec!["dir"],
            _ => Vec::new(),
        };
        Ok(Query {
            patterns: vec![Pattern::new(&text, true)?],
            kinds,
            ..Query::default()
        })
    }
}

/// A path that was found.
struct Hit {
    path: PathBuf,
    entry: Entry,
    /// The latest snapshot that has it.
    id: Id,
    snapshot: Arc<Snapshot>,
    /// Whether the latest snapshot of the same source lacks it.
    is_gone: bool,
}

/// Hears of a search, from two threads. Breaks to end it.
trait Hears: Send {
    fn hit(&mut self, hit: Hit) -> ControlFlow<()>;
    /// `done` snapshots of `all` are searched.
    fn progress(&mut self, done: usize, all: usize) -> ControlFlow<()>;
    fn problem(&mut self, text: String) -> ControlFlow<()>;
    /// Whether nobody listens any more.
    fn is_gone(&self) -> bool {
        false
    }
}

/// What the two threads of a search share.
struct Shared<'a, H> {
    hears: Mutex<&'a mut H>,
    /// Paths that were told, each with its host.
    told: Mutex<HashSet<(String, PathBuf)>>,
    problems: Mutex<HashSet<String>>,
    done: AtomicUsize,
    all: usize,
    is_over: AtomicBool,
}

/// Searches all snapshots. What the latest snapshot of each source has is found on one thread; what
/// was in earlier ones, and is gone, on another, which reads only directories that differ. So
/// either shows soon.
fn search<H: Hears>(opened: &Opened, wanted: &Wanted, hears: &mut H) -> Result<(), Failure> {
    let listed = opened.snapshots()?;
    let mut sources = BTreeMap::<(&str, &[String]), Vec<&(Id, Arc<Snapshot>)>>::new();
    for snapshot in listed.snapshots().iter().rev() {
        if wanted.host.is_empty() || snapshot.1.hostname == wanted.host {
            let source = (&snapshot.1.hostname[..], &snapshot.1.paths[..]);
            sources.entry(source).or_default().push(snapshot);
        }
    }
    let shared = Shared {
        hears: Mutex::new(hears),
        told: Mutex::default(),
        problems: Mutex::default(),
        done: AtomicUsize::new(0),
        all: sources.values().map(Vec::len).sum(),
        is_over: AtomicBool::new(false),
    };
    let finder = || -> Result<_, Failure> {
        let reader = Reader {
            cache: Arc::clone(opened.cache()?),
            shared: &shared,
        };
        Ok(Finder::new(reader, wanted.query()?))
    };
    let (mut latest, mut gone) = (finder()?, finder()?);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for snapshots in sources.values() {
                for snapshot in &snapshots[1..] {
                    let is_over = shared.one(snapshot, true, |found| {
                        gone.search_gone(&snapshot.1, &snapshots[0].1, found)
                    });
                    if is_over {
                        return;
                    }
                }
            }
        });
        for snapshots in sources.values() {
            let snapshot = snapshots[0];
            if shared.one(snapshot, false, |found| latest.search(&snapshot.1, found)) {
                return;
            }
        }
    });
    Ok(())
}

/// Reads directories until the search is over.
struct Reader<'a, H> {
    cache: Arc<SegmentCache>,
    shared: &'a Shared<'a, H>,
}

impl<H: Hears> TreeReader for Reader<'_, H> {
    fn directory(&mut self, content: &[Piece]) -> Result<Vec<Entry>, Error> {
        if self.shared.is_over.load(Ordering::Relaxed) || lock(&self.shared.hears).is_gone() {
            return Err(Error::Cancelled);
        }
        self.cache.directory(content)
    }

    fn append_block(&mut self, block: Id, len: u32, out: &mut Vec<u8>) -> Result<(), Error> {
        self.cache.append_block(block, len, out)
    }
}

impl<H: Hears> Shared<'_, H> {
    /// Searches one snapshot with `search`; whether the whole search is over.
    fn one(
        &self,
        (id, snapshot): &(Id, Arc<Snapshot>),
        is_gone: bool,
        search: impl FnOnce(Found<'_>) -> Vec<Unreadable>,
    ) -> bool {
        let unreadable = search(&mut |path, entry| {
            if self.is_over.load(Ordering::Relaxed) {
                return ControlFlow::Break(());
            }
            let key = (snapshot.hostname.clone(), path.to_owned());
            if !lock(&self.told).insert(key) {
                return ControlFlow::Continue(());
            }
            self.tell(|hears| {
                hears.hit(Hit {
                    path: path.to_owned(),
                    entry: entry.clone(),
                    id: *id,
                    snapshot: Arc::clone(snapshot),
                    is_gone,
                })
            })
        });
        for directory in unreadable {
            let text = format!("{}: {}", look::path_text(&directory.path), directory.error);
            if lock(&self.problems).insert(text.clone()) {
                let _ = self.tell(|hears| hears.problem(text));
            }
        }
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let _ = self.tell(|hears| hears.progress(done, self.all));
        self.is_over.load(Ordering::Relaxed)
    }

    fn tell(&self, tell: impl FnOnce(&mut H) -> ControlFlow<()>) -> ControlFlow<()> {
        let flow = tell(&mut lock(&self.hears));
        if flow.is_break() {
            self.is_over.store(true, Ordering::Relaxed);
        }
        flow
    }
}

/// Collects what a page can show.
struct Collected {
    start: Instant,
    hits: Vec<Hit>,
    searched: (usize, usize),
    problems: Vec<String>,
    is_cut: bool,
}

impl Hears for Collected {
    fn hit(&mut self, hit: Hit) -> ControlFlow<()> {
        self.hits.push(hit);
        self.is_cut |= self.hits.len() == HITS_MAX;
        self.in_time()
    }

    fn progress(&mut self, done: usize, all: usize) -> ControlFlow<()> {
        self.searched = (done, all);
        self.in_time()
    }

    fn problem(&mut self, text: String) -> ControlFlow<()> {
        self.problems.push(text);
        ControlFlow::Continue(())
    }
}

impl Collected {
    fn in_time(&mut self) -> ControlFlow<()> {
        let (done, all) = self.searched;
        if self.start.elapsed() < PAGE_TIME_MAX && !self.is_cut || all > 0 && done == all {
            return ControlFlow::Continue(());
        }
        self.is_cut = true;
        ControlFlow::Break(())
    }
}

/// Shows the form, and what was found in time.
pub async fn get(asked: Asked) -> Result<Response, Failure> {
    let name = asked.name().to_owned();
    let wanted = Wanted::of(&asked.fields);
    let looked_for = wanted.clone();
    let look_up = move |opened: &Opened| {
        let mut collected = Collected {
            start: Instant::now(),
            hits: Vec::new(),
            searched: (0, 0),
            problems: Vec::new(),
            is_cut: false,
        };
        if !looked_for.text.is_empty() {
            search(opened, &looked_for, &mut collected)?;
        }
        Ok((opened.snapshots()?, collected))
    };
    let (listed, collected) = asked.shown.ask(look_up).await?;
    let status = match (&wanted.text[..], collected.is_cut) {
        ("", _) => html! {},
        (_, true) => html! { "Not everything was searched in time, or there is too much: ask more "
        "precisely." },
        (_, false) => status(collected.hits.len(), collected.searched, true),
    };
    let body = html! {
        h1 { "Search" }
        (form(&name, &listed, &wanted))
        p id="search-status" class="soft" role="status" { (status) }
        div id="search-problems" {
            @for problem in &collected.problems { p class="note bad" { (look::sentence(problem)) } }
        }
        div class="scroll" id="search-hits" hidden[collected.hits.is_empty()] { table {
            caption class="away" { "What was found" }
            thead { tr {
                th scope="col" { "Path" }
                th scope="col" class="number" { "Size" }
                th scope="col" class="tight wide-only" { "Changed" }
                th scope="col" class="tight" { "Latest snapshot with it" }
            } }
            tbody id="hits" { @for hit in &collected.hits { (row(&name, hit)) } }
        } }
    };
    Ok(answer::of_repository(&name, Tab::Search, "Search", body))
}

fn form(place: &str, listed: &Listed, wanted: &Wanted) -> Markup {
    let hosts = listed.snapshots().iter().map(|(_, at)| &at.hostname);
    let hosts: std::collections::BTreeSet<&String> = hosts.collect();
    let base = place_address(place);
    let kinds = [
        ("", "Files and directories"),
        ("file", "Files"),
        ("dir", "Directories"),
    ];
    html! {
        form class="fields" method="get" action={ (base) "/search" } role="search"
            data-search={ (base) "/search/hits" } {
            label class="above grow" { span { "Name, part of one, or a pattern" }
                input type="search" name="q" value=(wanted.text) autofocus spellcheck="false"
                    placeholder="letter, *.jpg, Documents/*.odt";
            }
            label class="above" { span { "What" }
                select name="kind" {
                    @for (value, text) in kinds {
                        option value=(value) selected[value == wanted.kind] { (text) }
                    }
                }
            }
            @if hosts.len() > 1 {
                label class="above" { span { "Host" }
                    select name="host" {
                        option value="" { "All hosts" }
                        @for host in &hosts {
                            option value=(host) selected[**host == wanted.host] {
                                (tabane_text::printable(host))
                            }
                        }
                    }
                }
            }
            button class="main" { "Search" }
        }
    }
}

fn status(hits: usize, (done, all): (usize, usize), is_over: bool) -> Markup {
    let found = tabane_text::count(hits as u64, "path");
    let snapshots = tabane_text::count(all as u64, "snapshot");
    html! {
        @if hits == HITS_MAX {
            "The first " (hits) " paths: ask more precisely to see others."
        } @else if is_over {
            (found) " in " (snapshots) "."
        } @else {
            (found) " so far, " (done) " of " (snapshots) " searched …"
        }
    }
}

fn row(place: &str, hit: &Hit) -> Markup {
    let class = match hit.entry.kind {
        Kind::Directory { .. } => "entry directory",
        _ => "entry",
    };
    html! {
        tr {
            td class="names" {
                a class=(class) href=(address(place, hit.id, "files", &hit.path)) {
                    (icons::of(&hit.entry)) bdi { (look::path_text(&hit.path)) }
                }
            }
            td class="number" {
                @if let Kind::File { size, .. } = hit.entry.kind { (look::bytes(size)) }
            }
            td class="tight wide-only" { (tabane_text::file_time(hit.entry.mtime)) }
            td class="tight" {
                (look::time(hit.snapshot.time)) " "
                span class="soft" { bdi { (tabane_text::printable(&hit.snapshot.hostname)) } } " "
                @if hit.is_gone { span class="badge" { "gone since" } " " }
                a href=(versions_address(place, &hit.path)) { "Versions" }
            }
        }
    }
}

/// Sends hits while they are found.
struct Sent {
    sender: Sender,
    place: String,
    hits: usize,
    /// When the last report was sent.
    reported: Instant,
}

impl Hears for Sent {
    fn hit(&mut self, hit: Hit) -> ControlFlow<()> {
        self.hits += 1;
        match self.sender.add("hits", row(&self.place, &hit)) {
            Ok(()) if self.hits < HITS_MAX => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    }

    fn progress(&mut self, done: usize, all: usize) -> ControlFlow<()> {
        if done == all || self.reported.elapsed() >= REPORT_PAUSE {
            self.reported = Instant::now();
            let status = status(self.hits, (done, all), done == all);
            if self.sender.put("search-status", status).is_err() {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    fn problem(&mut self, text: String) -> ControlFlow<()> {
        let note = html! { p class="note bad" { (look::sentence(&text)) } };
        match self.sender.add("search-problems", note) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    fn is_gone(&self) -> bool {
        self.sender.is_gone()
    }
}

/// Sends hits as events.
pub async fn hits(asked: Asked) -> Response {
    let (sender, answer) = events::stream();
    let wanted = Wanted::of(&asked.fields);
    let place = asked.name().to_owned();
    asked.shown.start(move |opened| {
        let mut sent = Sent {
            sender,
            place,
            hits: 0,
            reported: Instant::now(),
        };
        let searched = opened.and_then(|opened| search(&opened, &wanted, &mut sent));
        let last = match searched {
            Err(failure) => html! { (look::sentence(failure.text())) },
            Ok(()) if sent.hits == HITS_MAX => status(sent.hits, (0, 0), true),
            Ok(()) => return,
        };
        let _ = sent.sender.put("search-status", last);
    });
    answer
}
