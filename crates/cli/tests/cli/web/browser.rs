//! The page in a real browser: every page and action, on a directory, a striped repository and a
//! cluster; with scripts and without, in light and dark, wide and narrow, by keyboard, under an
//! accessibility checker. Pictures go into the temporary folder of the build, `web`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tabane_testing::browser::Browser;
use tabane_testing::not_checked;

use super::pages::{home_and_away, two_snapshots};
use super::redundancy::{over_five_directories, over_five_nodes};
use super::served::Served;
use crate::bed::{Bed, run, varied};
use crate::striped;

const PAGE: &str = "/repository/repository";

/// A browser at a server, and what must hold on every page.
struct Visit {
    browser: Browser,
    origin: String,
    /// The accessibility checker, if it is installed.
    axe: Option<String>,
    pictures: PathBuf,
}

/// Where `make test-tools` puts axe-core, beside the temporary folder of tests.
fn axe() -> Option<String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?;
    fs::read_to_string(target.join("tools/node_modules/axe-core/axe.min.js")).ok()
}

impl Visit {
    /// Opens the page; nothing without a browser.
    fn begin(served: &Served, what: &str) -> Option<Self> {
        let Some(browser) = Browser::start() else {
            not_checked(what, "Chromium is not installed (Debian package chromium)");
            return None;
        };
        let axe = axe();
        if axe.is_none() {
            not_checked(
                "accessibility of the page",
                "axe-core is not installed (make test-tools)",
            );
        }
        let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("web");
        fs::create_dir_all(&pictures).expect("made");
        let mut visit = Self {
            browser,
            origin: format!("http://{}", served.address),
            axe,
            pictures,
        };
        visit.browser.open(&served.with_token);
        visit.browser.wait(
            "location.search === '' && document.readyState === 'complete' && \
                 !!document.querySelector('.tabs, .offers')",
        );
        Some(visit)
    }

    #[track_caller]
    fn open(&mut self, target: &str) {
        let address = format!("{}{target}", self.origin);
        self.browser.open(&address);
    }

    #[track_caller]
    fn says(&mut self, what: &str) {
        let text = self.browser.text("body");
        assert!(text.contains(what), "no {what:?} in {text}");
    }

    /// What must hold of the page that is open: nothing was asked of another server, nothing
    /// broke, nothing sticks out on a telephone, nothing serious for who cannot see it.
    #[track_caller]
    fn look(&mut self, name: &str) {
        for (dark, width) in [(false, 1280), (true, 390)] {
            self.browser.dark(dark);
            self.browser.size(width, 860);
            let wide = self.browser.eval("document.documentElement.scrollWidth");
            assert!(
                wide.as_u64() <= Some(width.into()),
                "{name}: {wide} px wide of {width}"
            );
            let cut = self.browser.eval(
                "[...document.querySelectorAll('.scroll')]\
                 .filter(one => one.scrollWidth > one.clientWidth).map(one => one.innerText)",
            );
            assert_eq!(
                cut,
                Value::Array(Vec::new()),
                "{name}: cut off at {width} px"
            );
            self.is_accessible(name);
            let file = self.pictures.join(format!("{name}-{width}.png"));
            self.browser.draw(&file, true);
        }
        self.browser.dark(false);
        self.browser.size(1280, 860);
        let complaints = self.browser.complaints();
        assert!(complaints.is_empty(), "{name}: {complaints:?}");
        for address in self.browser.requested() {
            let is_own = address.starts_with(&self.origin) || address.starts_with("about:");
            assert!(is_own, "{name}: {address}");
        }
    }

    #[track_caller]
    fn is_accessible(&mut self, name: &str) {
        let Some(axe) = &self.axe else {
            return;
        };
        let script = format!(
            "{axe}; axe.run(document, {{resultTypes: ['violations']}}).then(found => \
             found.violations\
             .filter(one => ['serious', 'critical'].includes(one.impact))\
             .map(one => one.id + ': ' + one.nodes.map(node => node.html).join(' | ')))"
        );
        let found = self.browser.eval(&script);
        assert_eq!(found.as_array().map(Vec::len), Some(0), "{name}: {found:#}");
    }
}

#[test]
fn a_repository_in_a_directory() {
    let bed = two_snapshots();
    let picture = bed.source().join("docs/picture.png");
    fs::write(&picture, PICTURE).expect("written");
    bed.backup(&["--time", "2026-03-03 10:00:00"]).succeeds();
    let allowed = bed.path("allowed");
    fs::create_dir(&allowed).expect("made");
    let allowed = allowed.display().to_string();
    let served = Served::start(&bed, &["--allow-jobs", "--allow-restore", &allowed]);
    let Some(mut visit) = Visit::begin(&served, "the page in a browser") else {
        return;
    };
    visit.says("Snapshots");
    visit.look("snapshots");
    // From the calendar to a day, to a snapshot, to a file.
    visit.browser.follow(".month a[href*='day=2026-03-02']");
    visit.says("Monday, 2 March 2026");
    visit.browser.follow("#table tbody th a");
    for name in bed.source().join("docs").iter().skip(1) {
        let name = name.to_str().expect("text");
        let link = format!(".entry[href$='/{name}']");
        visit.browser.follow(&link);
    }
    visit.says("plan.md");
    visit.look("directory");
    visit.browser.follow("th a[href*='sort=size']");
    assert_eq!(
        visit
            .browser
            .eval("document.querySelector('[aria-sort]').ariaSort"),
        "descending"
    );
    visit.browser.follow(".entry[href*='/plan.md']");
    visit.says("TWO");
    visit.look("file");
    visit.browser.follow("a.button[href*='/versions/']");
    visit.look("versions");
    visit.browser.follow("main a[href*='/compare?']");
    visit
        .browser
        .wait("!!document.querySelector('.lines .old') && !!document.querySelector('.lines .new')");
    visit.look("differences");
    visit.browser.follow(".crumbs li:nth-last-child(2) a");
    visit.says("added.txt");
    visit.look("compare");
    visit.open(&served.of("files", &picture));
    visit
        .browser
        .wait("document.querySelector('.content img').naturalWidth === 2");
    search(&mut visit);
    retention(&mut visit);
    job(&mut visit);
    restore(&mut visit, &bed);
    visit.open(&format!("{PAGE}/redundancy"));
    visit.says("at one place");
    keyboard(&mut visit);
    without_scripts(&mut visit, &served, &bed);
}

/// A picture of 2 by 1.
const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x02\0\0\0\x01\x08\0\0\0\0\xd1I V\
\0\0\0\x0bIDATx\x9ccp8\0\0\x01C\x01\x01\x05\x11w|\0\0\0\0IEND\xaeB`\x82";

/// Hits come while one types.
fn search(visit: &mut Visit) {
    visit.open(&format!("{PAGE}/search"));
    visit.browser.fill("[name=q]", "copy");
    visit
        .browser
        .wait("document.querySelectorAll('#hits tr').length === 1");
    visit.says("copy.bin");
    visit.says("gone since");
    visit.browser.fill("[name=q]", "*.md");
    visit
        .browser
        .wait("document.querySelector('#hits')?.innerText.includes('plan.md')");
    visit
        .browser
        .wait("document.querySelector('#search-status').innerText.includes('snapshots.')");
    assert_eq!(
        visit.browser.eval("location.search.includes('q=*.md')"),
        true
    );
    visit.look("search");
    visit.browser.fill("[name=q]", "[");
    visit
        .browser
        .wait("document.querySelector('#search-status').innerText.includes('cannot be used')");
}

fn retention(visit: &mut Visit) {
    visit.open(&format!("{PAGE}/retention"));
    visit.look("retention");
    for field in ["keep-daily", "keep-weekly", "keep-monthly", "keep-yearly"] {
        visit.browser.fill(&format!("[name={field}]"), "0");
    }
    visit.browser.fill("[name=keep-last]", "1");
    visit.browser.follow("form button.main");
    visit.says("would be removed");
    visit.says("--keep-last 1");
    assert_eq!(
        visit
            .browser
            .eval("document.querySelectorAll('td .badge.warn').length"),
        2
    );
}

/// A job is followed to its end without a load.
fn job(visit: &mut Visit) {
    visit.open(&format!("{PAGE}/jobs"));
    visit.look("jobs");
    visit
        .browser
        .follow("form:has([value='check-data']) button");
    visit
        .browser
        .wait("!!document.querySelector('#job-head .badge.good')");
    visit.says("check --read-data");
    visit.look("job");
}

fn restore(visit: &mut Visit, bed: &Bed) {
    let docs = bed.source().join("docs");
    visit.open(&format!("{PAGE}/latest/files{}", docs.display()));
    visit.browser.follow("a[href*='/restore']");
    visit.look("restore");
    visit.browser.fill("[name=folder]", "back");
    visit.browser.follow("form button.main");
    visit
        .browser
        .wait("!!document.querySelector('form[action$=\"/next\"]')");
    visit.says("created");
    visit.look("dry-run");
    assert!(!bed.path("allowed/back").exists());
    visit.browser.follow("form[action$='/next'] button");
    visit
        .browser
        .wait("!!document.querySelector('#job-head .badge.good')");
    let back = fs::read_to_string(bed.path("allowed/back/plan.md"));
    assert_eq!(back.expect("it is back"), "one\nTWO\nthree\n");
}

/// The first key leads past the bar, and the focus is seen.
fn keyboard(visit: &mut Visit) {
    visit.open(PAGE);
    visit.browser.press("Tab");
    assert_eq!(
        visit.browser.eval("document.activeElement.className"),
        "skip"
    );
    visit.browser.press("Enter");
    visit.browser.wait("location.hash === '#main'");
    visit.browser.press("Tab");
    let shown = visit
        .browser
        .eval("getComputedStyle(document.activeElement).outlineStyle");
    assert_eq!(shown, "solid");
    assert_eq!(
        visit
            .browser
            .eval("document.querySelector('main').contains(document.activeElement)"),
        true
    );
}

/// Without scripts there is the same to read, and forms work.
fn without_scripts(visit: &mut Visit, served: &Served, bed: &Bed) {
    visit.browser.scripts(false);
    for (target, says) in [
        (format!("{PAGE}?tag=first"), "2026-03-01"),
        (served.of("files", &bed.source().join("docs")), "plan.md"),
        (format!("{PAGE}/search?q=plan"), "1 path in 3 snapshots."),
        (format!("{PAGE}/compare"), "Compare"),
        (
            format!("{PAGE}/retention?keep-last=1&group-by="),
            "be removed",
        ),
        (format!("{PAGE}/jobs"), "History"),
    ] {
        visit.open(&target);
        visit.says(says);
    }
    visit.browser.scripts(true);
}

#[test]
fn several_repositories_and_the_way_in() {
    let bed = two_snapshots();
    let served = home_and_away(&bed);
    let Some(mut visit) = Visit::begin(&served, "several repositories in a browser") else {
        return;
    };
    visit.says("no answer");
    visit.look("repositories");
    visit.open("/login");
    visit.says("Log in");
    visit.look("login");
    visit.open("/repository/away");
    visit.says("tabane init");
}

#[test]
fn a_striped_repository_of_which_two_targets_are_lost() {
    let bed = Bed::new();
    let (urls, set) = over_five_directories(&bed);
    let served = Served::start(&bed, &["--allow-jobs", "-r", &set]);
    let Some(mut visit) = Visit::begin(&served, "a striped repository in a browser") else {
        return;
    };
    let redundancy = format!("{PAGE}/redundancy");
    visit.open(&redundancy);
    visit.says("any two targets can be lost now");
    assert_eq!(
        visit
            .browser
            .eval("document.querySelectorAll('.ring .spare').length"),
        10
    );
    visit.look("redundancy");
    striped::lose(&bed.path("b"));
    striped::lose(&bed.path("d"));
    visit.open(&redundancy);
    visit.says("At risk");
    assert_eq!(
        visit
            .browser
            .eval("document.querySelectorAll('.ring .bad').length"),
        2
    );
    assert_eq!(
        visit
            .browser
            .eval("document.querySelectorAll('.stripe .lost').length"),
        8
    );
    visit.look("redundancy-lost");
    // It can be read all the same.
    visit.open(&served.of("files", &bed.source()));
    visit.says("more");
    visit.browser.follow(".entry[href$='/more']");
    visit.says("3,145,728 bytes");
    // One comes back empty, as a new disk does, and is healed from here.
    let args = [
        "targets",
        "replace",
        &urls[1],
        &bed.path("f").display().to_string(),
    ]
    .map(OsString::from);
    let replaced = striped::tabane(&bed, args);
    assert_eq!(replaced.code, Some(0), "{}", replaced.stderr);
    visit.open(&redundancy);
    visit.says("behind");
    visit.browser.follow("form:has([value='heal']) button");
    visit
        .browser
        .wait("!!document.querySelector('#job-head .badge:not(.warn)')");
    visit.open(&redundancy);
    visit.says("any one target can be lost now");
}

#[test]
fn a_cluster_of_five_of_which_one_is_stopped() {
    let bed = Bed::new();
    let (mut daemons, place) = over_five_nodes(&bed);
    let source = bed.source().display().to_string();
    let served = Served::start(&bed, &["-r", &place]);
    let Some(mut visit) = Visit::begin(&served, "a cluster in a browser") else {
        return;
    };
    daemons.remove(2).stop();
    let redundancy = format!("{PAGE}/redundancy");
    visit.open(&redundancy);
    visit.says("any one target can be lost now");
    visit
        .browser
        .wait("document.querySelectorAll('#traffic tbody tr').length === 5");
    visit
        .browser
        .wait("document.querySelectorAll('#traffic .badge.bad').length === 1");
    // What a backup sends is seen while it goes.
    fs::write(bed.source().join("again"), varied(5 << 20)).expect("a file");
    let backup = std::thread::spawn({
        let mut command = bed.command(["backup", &source]);
        command.env("TABANE_REPOSITORY", &place);
        move || run(&mut command)
    });
    visit
        .browser
        .wait("/[1-9][0-9.]* [KM]iB.s/.test(document.querySelector('#traffic').innerText)");
    assert_eq!(backup.join().expect("it ends").code, Some(0));
    visit.look("cluster");
}
