//! `tabane-bench web`: how long the page of a large repository takes, and how much memory.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tabane_bench::arguments::{Places, Program, Report};
use tabane_bench::measure::median;
use tabane_store::entry::Entry;
use tabane_store::key::{KdfCost, Password};
use tabane_store::{InitOptions, LocalStorage, Repository, Timestamp};
use tabane_testing::browser::Browser;
use tabane_testing::crafted::{Crafter, directory, file};
use tabane_testing::http::{self, Answer};
use tabane_testing::random::Random;
use tabane_testing::{disk, progress};

/// What each may take.
const FIRST_PAGE_BAR: Duration = Duration::from_secs(1);
const DIRECTORY_BAR: Duration = Duration::from_millis(500);
const SEARCH_BAR: Duration = Duration::from_secs(1);
const MEMORY_BAR: u64 = 300 << 20;
/// The least share of `tabane dump`'s speed.
const DOWNLOAD_BAR: f64 = 0.8;

const PASSWORD: &str = "tabane-bench";

/// Files of a directory.
const FILES: usize = 100;

/// Entries of the directory that is large.
const LARGE: usize = 10_000;

/// Time the page of a large repository: first page, a directory, search, a download, memory.
///
/// The repository is written through the library: directories of 100 small files each, one of
/// 10,000, a large file, and a snapshot for each change of one directory. Times are those of
/// whole answers; in Chromium, where it is installed, those of the loaded page. The download takes
/// turns with `tabane dump`, whose output is read as the download's is.
#[derive(clap::Args)]
pub struct Args {
    /// Entries of the latest snapshot
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    entries: usize,
    /// Snapshots
    #[arg(long, value_name = "N", default_value_t = 1000)]
    snapshots: usize,
    /// Length of the large file
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    file_mib: usize,
    /// How many times to time each
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    #[command(flatten)]
    places: Places,
    #[command(flatten)]
    program: Program,
    #[command(flatten)]
    report: Report,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<ExitCode> {
    let tabane = args.program.find()?;
    let mut met = true;
    for place in &args.places.directories() {
        let work = disk::work_in(place)?;
        let start = Instant::now();
        let built = build(&work.path().join("repository"), args)?;
        progress::show("");
        eprintln!(
            "built {} entries and {} snapshots in {:.0} s",
            built,
            args.snapshots,
            start.elapsed().as_secs_f64()
        );
        met &= measure(&tabane, work.path(), args)?;
    }
    Ok(args.report.exit_code(met))
}

/// Writes the repository; returns the number of entries of its latest snapshot.
fn build(place: &Path, args: &Args) -> Result<usize> {
    let storage = Arc::new(LocalStorage::new(place.to_owned()));
    let password: Password = PASSWORD.as_bytes().to_vec().into();
    let options = InitOptions::default().kdf_cost(KdfCost::WEAKEST);
    let repository = Repository::init(storage, &password, options)?;
    let mut crafter = Crafter::new(&repository);
    let film = file(
        b"film",
        crafter.file(&Random::new(1).noise(args.file_mib << 20)),
    );
    let mut count = 1;
    let mut files = |crafter: &mut Crafter<'_>, many: usize, name: &str| -> Vec<Entry> {
        let made = (0..many).map(|number| {
            count += 1;
            let content = crafter.file(format!("{name} {count} {number}").as_bytes());
            file(format!("{name}-{number:05}.txt").as_bytes(), content)
        });
        made.collect()
    };
    let large = files(&mut crafter, LARGE, "page");
    let large = directory(b"large", crafter.directory(&large));
    // Three levels: as many directories above as below.
    let leaves = (args.entries / (FILES + 1)).max(1);
    let width = (leaves as f64).cbrt().ceil() as usize;
    let (mut top, mut left) = (vec![film, large], leaves);
    let mut last: Vec<Entry> = Vec::new();
    for one in 0..width {
        let mut middle = Vec::new();
        for two in 0..width {
            let mut below = Vec::new();
            for three in 0..width.min(left) {
                let entries = files(&mut crafter, FILES, "report");
                let name = format!("folder-{three:04}");
                below.push(directory(name.as_bytes(), crafter.directory(&entries)));
                left -= 1;
            }
            if below.is_empty() {
                break;
            }
            last.clone_from(&below);
            let name = format!("department-{two:04}");
            middle.push(directory(name.as_bytes(), crafter.directory(&below)));
        }
        if middle.is_empty() {
            break;
        }
        progress::show(&format!("{} of {leaves} directories", leaves - left));
        let name = format!("year-{one:04}");
        top.push(directory(name.as_bytes(), crafter.directory(&middle)));
        // An index object a year: no backup writes one of millions of blocks.
        crafter.flush();
    }
    top.sort_by(|a, b| a.name.cmp(&b.name));
    // Each snapshot has one other directory than the one before it.
    let now = Timestamp::now().as_second();
    let mut roots = Vec::new();
    for number in 0..args.snapshots {
        let entries = files(&mut crafter, FILES, &format!("daily-{number:04}"));
        let changed = directory(b"changing", crafter.directory(&entries));
        let place = top.partition_point(|entry| entry.name < changed.name);
        let mut root = top.clone();
        root.insert(place, changed);
        roots.push(crafter.directory(&root));
    }
    crafter.flush();
    for (number, root) in roots.into_iter().enumerate() {
        let back = (args.snapshots - number) as i64 * 86_400;
        let time = Timestamp::from_second(now - back)?;
        crafter.snapshot(time, "laptop", root);
    }
    Ok(count)
}

/// A server of the page.
struct Served {
    child: Child,
    address: SocketAddr,
    with_token: String,
    cookie: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(tabane: &Path, work: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(tabane);
    command
        .args(words)
        .env("TABANE_REPOSITORY", work.join("repository"))
        .env("TABANE_PASSWORD", PASSWORD)
        .env("TABANE_CACHE_DIR", work.join("cache"))
        .env("XDG_CONFIG_HOME", work.join("no-configuration"))
        .env("XDG_STATE_HOME", work.join("state"));
    command
}

impl Served {
    fn start(tabane: &Path, work: &Path) -> Result<Self> {
        let mut command = command(tabane, work, &["web", "--json", "--listen", "127.0.0.1:0"]);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no pipe")?).read_line(&mut line)?;
        let serving: Value = serde_json::from_str(&line)?;
        let with_token = serving["address"]
            .as_str()
            .context("no address")?
            .to_owned();
        let (_, rest) = with_token.split_once("://").context("no scheme")?;
        let (address, target) = rest.split_once('/').context("no path")?;
        let address = address.parse()?;
        let entered = http::request(address, "GET", &format!("/{target}"), &[], b"");
        let cookie = entered
            .header("set-cookie")
            .split(';')
            .next()
            .unwrap_or_default();
        Ok(Self {
            child,
            address,
            cookie: cookie.to_owned(),
            with_token: with_token.clone(),
        })
    }

    fn get(&self, target: &str) -> Result<(Duration, Answer)> {
        let start = Instant::now();
        let answer = http::request(
            self.address,
            "GET",
            target,
            &[("Cookie", &self.cookie)],
            b"",
        );
        let took = start.elapsed();
        ensure!(
            answer.status == 200,
            "{target}: {}: {}",
            answer.status,
            answer.text()
        );
        Ok((took, answer))
    }

    /// Sends a request and reads its answer as it comes, until `is_enough` of what has come.
    fn stream(&self, target: &str, mut is_enough: impl FnMut(&[u8]) -> bool) -> Result<Duration> {
        let start = Instant::now();
        let mut stream = TcpStream::connect(self.address)?;
        write!(
            stream,
            "GET {target} HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\nConnection: close\r\n\r\n",
            self.address, self.cookie
        )?;
        let mut piece = vec![0; 1 << 20];
        loop {
            match stream.read(&mut piece)? {
                0 => return Ok(start.elapsed()),
                len if is_enough(&piece[..len]) => return Ok(start.elapsed()),
                _ => {}
            }
        }
    }

    /// The most memory that it has had, in bytes.
    fn peak(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib: u64 = line
            .and_then(|line| line.trim().split(' ').next()?.parse().ok())
            .unwrap_or(0);
        Ok(kib << 10)
    }
}

/// The middle of several times.
fn middle(rounds: u32, mut time: impl FnMut() -> Result<Duration>) -> Result<Duration> {
    let times: Result<Vec<f64>> = (0..rounds).map(|_| Ok(time()?.as_secs_f64())).collect();
    Ok(Duration::from_secs_f64(
        median(times?).context("no rounds")?,
    ))
}

fn measure(tabane: &Path, work: &Path, args: &Args) -> Result<bool> {
    const PAGE: &str = "/repository/repository";
    let mut rows: Vec<(&str, Duration, Duration)> = Vec::new();
    let large = format!("{PAGE}/latest/files/large");
    // Without a cache, the index is read whole, once; the first page does not wait for it.
    let cold = Served::start(tabane, work)?;
    let (took, _) = cold.get(PAGE)?;
    rows.push((
        "first page, first time on this machine",
        took,
        FIRST_PAGE_BAR,
    ));
    let (took, _) = cold.get(&large)?;
    rows.push((
        "a directory right after it, index and all",
        took,
        Duration::MAX,
    ));
    let cold_peak = cold.peak()?;
    drop(cold);
    let served = Served::start(tabane, work)?;
    let (took, _) = served.get(PAGE)?;
    rows.push(("first page after the start", took, FIRST_PAGE_BAR));
    let again = middle(args.rounds, || Ok(served.get(PAGE)?.0))?;
    rows.push(("first page again", again, FIRST_PAGE_BAR));
    let (took, _) = served.get(&large)?;
    rows.push(("a directory of 10,000, first time", took, DIRECTORY_BAR));
    let took = middle(args.rounds, || Ok(served.get(&large)?.0))?;
    rows.push(("a directory of 10,000", took, DIRECTORY_BAR));
    for (what, word) in [
        ("first hit of a frequent word", "report"),
        ("first hit of a word in old snapshots", "daily-0001"),
        ("first hit at the end of the tree", "report-00099"),
    ] {
        let target = format!("{PAGE}/search/hits?q={word}");
        let took = middle(args.rounds.min(3), || {
            let mut text = Vec::new();
            served.stream(&target, |piece| {
                text.extend_from_slice(piece);
                text.windows(9).any(|part| part == b"add hits\n")
            })
        })?;
        rows.push((what, took, SEARCH_BAR));
    }
    let whole = served.stream(
        &format!("{PAGE}/search/hits?q=nothing-is-called-so"),
        |_| false,
    )?;
    rows.push(("a search to its end without a hit", whole, Duration::MAX));
    if let Some(mut browser) = Browser::start() {
        browser.open(&served.with_token);
        browser.wait("location.search === ''");
        let address = format!("http://{}", served.address);
        let took = middle(
            args.rounds,
            || Ok(browser.open(&format!("{address}{PAGE}"))),
        )?;
        rows.push(("first page, in Chromium", took, FIRST_PAGE_BAR));
        let took = middle(args.rounds, || {
            Ok(browser.open(&format!("{address}{large}")))
        })?;
        rows.push(("a directory of 10,000, in Chromium", took, DIRECTORY_BAR));
    } else {
        eprintln!("NOT CHECKED: times in Chromium, which is not installed");
    }
    let peak = served.peak()?;
    let (mut dumps, mut unread, mut downloads) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        let start = Instant::now();
        let mut dump = command(tabane, work, &["dump", "latest", "/film"]);
        ensure!(
            dump.stdout(Stdio::null()).status()?.success(),
            "the dump failed"
        );
        unread.push(start.elapsed().as_secs_f64());
        let start = Instant::now();
        let mut child = dump.stdout(Stdio::piped()).spawn()?;
        let mut pipe = child.stdout.take().context("no pipe")?;
        let mut piece = vec![0; 1 << 20];
        while pipe.read(&mut piece)? > 0 {}
        ensure!(child.wait()?.success(), "the dump failed");
        dumps.push(start.elapsed().as_secs_f64());
        let mut len = 0;
        let took = served.stream(&format!("{PAGE}/latest/raw/film"), |piece| {
            len += piece.len();
            false
        })?;
        ensure!(len > args.file_mib << 20, "the download was cut off");
        downloads.push(took.as_secs_f64());
    }
    let dump = median(dumps).context("no rounds")?;
    let download = median(downloads).context("no rounds")?;
    for (what, seconds) in [
        ("dump of the large file to /dev/null", median(unread)),
        ("dump of the large file, read through a pipe", Some(dump)),
        ("download of the large file", Some(download)),
    ] {
        let seconds = seconds.context("no rounds")?;
        rows.push((what, Duration::from_secs_f64(seconds), Duration::MAX));
    }
    let after = served.peak()?;
    Ok(tell(
        args,
        &rows,
        [cold_peak, peak.max(after)],
        dump / download,
    ))
}

/// Tells the results; whether all bars are met.
fn tell(args: &Args, rows: &[(&str, Duration, Duration)], peaks: [u64; 2], share: f64) -> bool {
    let mut met = true;
    let mut line = |what: &str, value: String, bar: String, is_met: bool| {
        met &= is_met;
        if args.report.json {
            println!(
                "{}",
                json!({"what": what, "value": value, "bar": bar, "met": is_met})
            );
        } else {
            let missed = if is_met { "" } else { "  MISSED" };
            println!("{what:44} {value:>10} {bar:>10}{missed}");
        }
    };
    for (what, took, bar) in rows {
        let shown = match *bar {
            Duration::MAX => String::new(),
            bar => format!("{:.1} s", bar.as_secs_f64()),
        };
        line(
            what,
            format!("{:.3} s", took.as_secs_f64()),
            shown,
            took <= bar,
        );
    }
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let whats = ["peak memory, first time on this machine", "peak memory"];
    for (what, peak) in whats.into_iter().zip(peaks) {
        line(what, mib(peak), mib(MEMORY_BAR), peak <= MEMORY_BAR);
    }
    let (value, bar) = (format!("{share:.2}"), format!("{DOWNLOAD_BAR:.2}"));
    line(
        "download beside tabane dump, speed",
        value,
        bar,
        share >= DOWNLOAD_BAR,
    );
    met
}
