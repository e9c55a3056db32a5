//! Repositories on the storage server: over HTTPS, and over SSH.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tabane_storage::{
    LocalStorage, Location, Name, ObjectKind, RemoteOptions, Storage, TlsOptions, object_id,
};
use tabane_testing::gateway::{free_port, wait_for};
use tabane_testing::process;
use tabane_testing::sshd::Sshd;
use tabane_testing::storage_suite::{self, Suite};

use crate::bed::{Bed, Ran, bare_command, outlives, restored, run, varied};

/// A server with its settings; killed when dropped.
struct Daemon {
    folder: PathBuf,
    port: u16,
    more: Vec<String>,
    process: Option<Child>,
    log: Arc<Mutex<String>>,
}

impl Daemon {
    fn new(bed: &Bed) -> Self {
        Self::with(bed, &[])
    }

    /// With more options.
    fn with(bed: &Bed, more: &[&str]) -> Self {
        let daemon = Self {
            folder: bed.path("server"),
            port: free_port(),
            more: more.iter().map(|option| (*option).to_owned()).collect(),
            process: None,
            log: Arc::default(),
        };
        fs::create_dir_all(daemon.directory()).expect("a folder");
        let settings = daemon.settings();
        let settings = settings.to_str().expect("UTF-8");
        let setup = ["serve", "setup", settings, "--host", "127.0.0.1"];
        run(&mut bare_command(setup)).succeeds();
        daemon
    }

    fn settings(&self) -> PathBuf {
        self.folder.join("settings")
    }

    /// The directory of the repositories.
    fn directory(&self) -> PathBuf {
        self.folder.join("repositories")
    }

    /// Lists a client; returns what it shows.
    fn add(&self, name: &str, more: &[&str]) -> String {
        let settings = self.settings();
        let mut args = vec![
            "serve",
            "add",
            settings.to_str().expect("UTF-8"),
            name,
            "-q",
        ];
        args.extend(more);
        let ran = run(&mut bare_command(args)).succeeds();
        ran.stdout.trim().to_owned()
    }

    fn start(&mut self) {
        let listen = format!("127.0.0.1:{}", self.port);
        let mut process = bare_command(["serve", "--settings"]);
        process
            .arg(self.settings())
            .arg("--dir")
            .arg(self.directory());
        process.args(["--listen", &listen]).args(&self.more);
        let mut process = process
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let stderr = BufReader::new(process.stderr.take().expect("piped"));
        let log = Arc::clone(&self.log);
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let mut log = log.lock().expect("no panic");
                log.push_str(&line);
                log.push('\n');
            }
        });
        self.process = Some(process);
        wait_for(self.port);
    }

    /// Kills it, whatever it is doing.
    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("killed");
            process.wait().expect("ended");
        }
    }

    fn restart(&mut self) {
        self.kill();
        self.start();
    }

    /// Waits for a line of the log.
    fn says(&self, what: &str) {
        let start = Instant::now();
        while !self.log.lock().expect("no panic").contains(what) {
            let log = self.log.lock().expect("no panic").clone();
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "no {what:?}: {log}"
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn url(&self, repository: &str) -> String {
        format!("tabane+https://127.0.0.1:{}/{repository}", self.port)
    }

    /// Gives a command what it needs to use a repository of the server.
    fn environment<'a>(
        &self,
        command: &'a mut Command,
        repository: &str,
        token: &str,
    ) -> &'a mut Command {
        command
            .env("TABANE_REPOSITORY", self.url(repository))
            .env("TABANE_TEST_URL", self.url(repository))
            .env("TABANE_SERVER_TOKEN", token)
            .env("TABANE_CACERT", self.settings().join("authority.pem"))
    }

    fn tabane<A: AsRef<OsStr>>(
        &self,
        bed: &Bed,
        token: &str,
        args: impl IntoIterator<Item = A>,
    ) -> Ran {
        run(self.environment(&mut bed.command(args), "laptop", token))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

/// `authorized_keys` options that force a server on a folder.
fn forced(root: &Path, more: &str) -> String {
    let program = env!("CARGO_BIN_EXE_tabane");
    let root = root.display();
    format!("restrict,command=\"{program} serve --stdio --restrict-to {root} {more}\"")
}

/// Runs the suite of storages in a child, whose server dies four times in the middle.
fn suite(mut child: Command, asks: &Path, restart: &mut dyn FnMut()) {
    child.env("TABANE_TEST_ASKS", asks);
    let mut child = child.spawn().expect("a child");
    let mut deaths = 0;
    let status = loop {
        if let Some(status) = child.try_wait().expect("it runs") {
            break status;
        }
        if asks.exists() {
            restart();
            deaths += 1;
            fs::remove_file(asks).expect("it is there");
        }
        thread::sleep(Duration::from_millis(5));
    };
    assert!(status.success());
    assert_eq!(deaths, 4);
}

/// Lets a child write much while its server dies all the time; returns how often.
fn much(mut child: Command, restart: &mut dyn FnMut()) -> u32 {
    let mut child = child.spawn().expect("a child");
    let mut deaths = 0;
    loop {
        // Longer each time, so that a client on a slow machine gets through at last.
        thread::sleep(Duration::from_millis(400) * (deaths + 2) / 2);
        if let Some(status) = child.try_wait().expect("it runs") {
            assert!(status.success());
            return deaths;
        }
        restart();
        deaths += 1;
    }
}

fn open_test_url() -> Arc<dyn Storage> {
    let url = std::env::var_os("TABANE_TEST_URL").expect("a URL");
    let authorities = std::env::var_os("TABANE_CACERT").map(PathBuf::from);
    let location = Location::parse(&url, "").expect("a location");
    let mut tls = TlsOptions::default();
    tls.authorities.extend(authorities);
    let options = RemoteOptions::default().tls(tls);
    let storage = location.open(&options).expect("a storage");
    assert_eq!(OsStr::new(&storage.location()), url);
    storage
}

#[test]
fn child_that_runs_the_suite() {
    if process::task().is_none() {
        return;
    }
    // The test takes this file away when it has killed and restarted the server.
    let asks = PathBuf::from(std::env::var_os("TABANE_TEST_ASKS").expect("a file"));
    let now_and_then = || {
        fs::write(&asks, "").expect("a file");
        while asks.exists() {
            thread::sleep(Duration::from_millis(5));
        }
    };
    let suite = Suite {
        count: 300,
        now_and_then: &now_and_then,
        ..Suite::default()
    };
    suite.run(&*open_test_url());
}

#[test]
fn child_that_writes_much() {
    if process::task().is_some() {
        storage_suite::write_much(&*open_test_url());
    }
}

#[test]
fn the_suite_of_storages_over_https() {
    let bed = Bed::new();
    let mut daemon = Daemon::new(&bed);
    let token = daemon.add(
        "keeper",
        &["--role", "admin", "--repository", "a", "--repository", "b"],
    );
    daemon.start();
    let mut child = process::child(child_that_runs_the_suite, &[]);
    daemon.environment(&mut child, "a", &token);
    suite(child, &bed.path("asks"), &mut || daemon.restart());
    let mut child = process::child(child_that_writes_much, &[]);
    daemon.environment(&mut child, "b", &token);
    let deaths = much(child, &mut || daemon.restart());
    eprintln!("{deaths} deaths of the server over HTTPS");
    storage_suite::check_much(&LocalStorage::new(daemon.directory().join("b")));
}

#[test]
fn the_suite_of_storages_over_ssh() {
    let Some(mut sshd) = Sshd::start("the suite of storages on a server over SSH") else {
        return;
    };
    let bed = Bed::new();
    let root = bed.path("").canonicalize().expect("a folder");
    sshd.authorize(&forced(&root, ""));
    let over = |sshd: &Sshd, folder: &str, mut child: Command| {
        child.env("PATH", sshd.search_path());
        child.env("TABANE_TEST_URL", sshd.url("ssh", &root.join(folder)));
        child
    };
    let running = over(&sshd, "a", process::child(child_that_runs_the_suite, &[]));
    suite(running, &bed.path("asks"), &mut || sshd.restart());
    let writing = over(&sshd, "b", process::child(child_that_writes_much, &[]));
    let deaths = much(writing, &mut || sshd.restart());
    eprintln!("{deaths} deaths of the server over SSH");
    storage_suite::check_much(&LocalStorage::new(root.join("b")));
}

/// Restores the latest snapshot, and compares a file with what it was.
fn comes_back(bed: &Bed, restore: impl Fn(&[&str]) -> Ran, file: &Path) {
    let target = bed.path("target");
    let _ = fs::remove_dir_all(&target);
    let text = target.display().to_string();
    restore(&["restore", "latest", "--target", &text]).succeeds();
    let back = fs::read(restored(&target, file)).expect("it was restored");
    assert!(back == fs::read(file).expect("it is there"));
}

#[test]
fn roles_over_https() {
    let bed = Bed::new();
    let mut daemon = Daemon::new(&bed);
    let laptop = daemon.add("laptop", &["--role", "append"]);
    daemon.start();
    let with_laptop = |args: &[&str]| daemon.tabane(&bed, &laptop, args);
    let source = bed.source().display().to_string();
    with_laptop(&["snapshots"]).fails(10, "there is no repository at tabane+https://");
    with_laptop(&["init"]).succeeds();
    with_laptop(&["init"]).fails(1, "there is already a repository");
    with_laptop(&["backup", &source]).succeeds();
    fs::write(bed.source().join("more"), varied(2 << 20)).expect("a file");
    with_laptop(&["backup", &source]).succeeds();
    // Nothing of a client that has ended is left, though it may not delete.
    for folder in ["clients", "pending"] {
        let left = fs::read_dir(daemon.directory().join("laptop").join(folder)).expect("a folder");
        assert_eq!(left.count(), 0, "{folder}");
    }
    with_laptop(&["check", "--read-data"]).succeeds();
    comes_back(&bed, with_laptop, &bed.source().join("more"));
    // The record of a client that has died.
    let record = Name::new(ObjectKind::Client, object_id(&[b"a record"]));
    let stored = LocalStorage::new(daemon.directory().join("laptop"));
    stored.put(record, &[b"a record"]).expect("written");
    for (args, says) in [
        (
            &["forget", "latest"][..],
            "has the role append, and writing forgotten/",
        ),
        (&["tag", "--add", "x"], "takes the role admin"),
        (&["unlock", "--all"], "takes the role admin"),
    ] {
        let ran = with_laptop(args);
        assert!(ran.stderr.contains(says), "{args:?}: {}", ran.stderr);
        assert_ne!(ran.code, Some(0), "{args:?}");
    }
    stored.delete(record).expect("it is there");
    // There is nothing to prune but leftovers of broken writes.
    let ran = with_laptop(&["prune"]);
    assert!(
        ran.stderr.contains("takes the role admin"),
        "{}",
        ran.stderr
    );
    daemon.says("refused: the client laptop has the role append, and writing forgotten/");
    with_laptop(&["--repo", &daemon.url("other"), "snapshots"])
        .fails(1, "the client laptop has no repository \"other\" here");

    // A change of the file counts at once.
    let reader = daemon.add("reader", &["--role", "read", "--repository", "laptop"]);
    let keeper = daemon.add("keeper", &["--role", "admin", "--repository", "laptop"]);
    thread::sleep(Duration::from_millis(1100));
    let with_reader = |args: &[&str]| daemon.tabane(&bed, &reader, args);
    comes_back(&bed, with_reader, &bed.source().join("more"));
    with_reader(&["check"]).succeeds();
    with_reader(&["backup", &source]).fails(1, "has the role read, and writing packs/");
    let with_keeper = |args: &[&str]| daemon.tabane(&bed, &keeper, args);
    with_keeper(&["forget", "--keep-last", "1", "--prune", "--grace", "0s"]).succeeds();
    with_keeper(&["check", "--read-data"]).succeeds();
    comes_back(&bed, with_keeper, &bed.source().join("more"));

    // Whoever is taken out of the file is nobody.
    let path = daemon.settings().join("clients.toml");
    let text = fs::read_to_string(&path).expect("the file");
    let without = text.replace("\"reader\"", "\"former\"");
    let end = without
        .find("\n[[client]]\nname = \"former\"")
        .expect("an entry");
    fs::write(&path, &without[..end]).expect("written");
    thread::sleep(Duration::from_millis(1100));
    with_reader(&["snapshots"]).fails(1, "knows no client with this token");
    with_laptop(&["snapshots"]).succeeds();
    // A mistake in the file leaves the former clients.
    fs::write(&path, "[[client").expect("written");
    thread::sleep(Duration::from_millis(1100));
    with_laptop(&["snapshots"]).succeeds();
    daemon.says("the former settings stay in use");
    let log = daemon.log.lock().expect("no panic").clone();
    for token in [laptop, reader, keeper] {
        assert!(!log.contains(&token[..8]), "{log}");
    }
}

#[test]
fn certificates_of_clients() {
    let bed = Bed::new();
    let mut daemon = Daemon::new(&bed);
    let certificate = daemon.add("laptop", &["--role", "append", "--certificate"]);
    daemon.start();
    let with = |certificate: &str, args: &[&str]| {
        let mut command = bed.command(args);
        daemon.environment(&mut command, "laptop", "");
        command.env_remove("TABANE_SERVER_TOKEN");
        run(command.env("TABANE_SERVER_CERTIFICATE", certificate))
    };
    with(&certificate, &["init"]).succeeds();
    let source = bed.source().display().to_string();
    with(&certificate, &["backup", &source]).succeeds();
    with(&certificate, &["forget", "latest"]).fails(1, "takes the role admin");
    // One of another authority, with the same name.
    let other = bed.path("other");
    let text = other.display().to_string();
    run(&mut bare_command(["serve", "setup", &text, "--host", "x"])).succeeds();
    let add = [
        "serve",
        "add",
        &text,
        "laptop",
        "--role",
        "admin",
        "--certificate",
    ];
    run(&mut bare_command(add)).succeeds();
    let foreign = other.join("laptop.pem").display().to_string();
    with(&foreign, &["snapshots"]).fails(1, "does not accept this client's certificate");
    daemon.says("the client's certificate is not accepted");
    // Files that are none.
    let key_only = daemon
        .settings()
        .join("server-key.pem")
        .display()
        .to_string();
    with(&key_only, &["snapshots"]).fails(2, "certificate cannot be used");
    with("/nowhere.pem", &["snapshots"]).fails(2, "cannot read /nowhere.pem");
    // Nothing to show.
    let mut command = bed.command(["snapshots"]);
    daemon.environment(&mut command, "laptop", "");
    run(command.env_remove("TABANE_SERVER_TOKEN")).fails(1, "asks for a token or a certificate");
    // A server that is not the right one.
    let mut command = bed.command(["snapshots"]);
    daemon.environment(&mut command, "laptop", "x");
    run(command.env("TABANE_CACERT", other.join("authority.pem")))
        .fails(1, "the server's certificate is not accepted");
}

/// The server dies again and again while a backup writes to it.
#[test]
fn a_storage_server_that_is_killed_during_a_backup() {
    let bed = Bed::new();
    let mut daemon = Daemon::new(&bed);
    let token = daemon.add("laptop", &["--role", "append"]);
    daemon.start();
    daemon.tabane(&bed, &token, ["init"]).succeeds();
    let file = bed.source().join("large");
    fs::write(&file, varied(60 << 20)).expect("a file");
    let source = bed.source().display().to_string();
    // Slow enough that there is time for it.
    let slow = ["--limit-upload", "40000", "--connections", "1"];
    let mut backup = bed.command(["backup", "--quiet", &source].into_iter().chain(slow));
    let backup = daemon.environment(&mut backup, "laptop", &token);
    outlives(backup, || daemon.restart());
    daemon
        .tabane(&bed, &token, ["check", "--read-data"])
        .succeeds();
    comes_back(&bed, |args| daemon.tabane(&bed, &token, args), &file);
}

#[test]
fn a_quota_that_is_reached_in_the_middle_of_a_backup() {
    let bed = Bed::new();
    let mut daemon = Daemon::new(&bed);
    let token = daemon.add("laptop", &["--role", "append", "--quota", "40M"]);
    daemon.start();
    let with_laptop = |args: &[&str]| daemon.tabane(&bed, &token, args);
    with_laptop(&["init"]).succeeds();
    let source = bed.source().display().to_string();
    with_laptop(&["backup", &source]).succeeds();
    fs::write(bed.source().join("large"), varied(80 << 20)).expect("a file");
    with_laptop(&["backup", &source]).fails(
        1,
        "the quota of 41943040 bytes is used up: the repository has",
    );
    // Nothing is lost, and nothing above the quota was stored: what was is in no index yet.
    let checked = with_laptop(&["check", "--read-data"]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    let stored = files_len(&daemon.directory().join("laptop"));
    assert!((20 << 20..=40 << 20).contains(&stored), "{stored}");
    let path = daemon.settings().join("clients.toml");
    let text = fs::read_to_string(&path).expect("the file");
    fs::write(
        &path,
        text.replace(&(40 << 20).to_string(), &(400 << 20).to_string()),
    )
    .expect("written");
    thread::sleep(Duration::from_millis(1100));
    with_laptop(&["backup", &source]).succeeds();
    let checked = with_laptop(&["check", "--read-data"]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    comes_back(&bed, with_laptop, &bed.source().join("large"));
}

/// Bytes of all files below a folder.
fn files_len(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).expect("a folder");
    let lens = entries.map(|entry| {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files_len(&path)
        } else {
            path.metadata().expect("a file").len()
        }
    });
    lens.sum()
}

#[test]
fn keys_of_ssh_that_are_restricted() {
    let Some(sshd) = Sshd::start("restricted keys of SSH") else {
        return;
    };
    let bed = Bed::new();
    let root = bed.path("").canonicalize().expect("a folder").join("mine");
    fs::create_dir(&root).expect("a folder");
    let tabane = |folder: &Path, args: &[&str]| {
        let mut command = bed.command(args);
        command.env("PATH", sshd.search_path());
        run(command.env("TABANE_REPOSITORY", sshd.url("ssh", folder)))
    };
    let repository = root.join("laptop");
    let source = bed.source().display().to_string();
    sshd.authorize(&forced(&root, "--append-only"));
    tabane(&repository, &["init"]).succeeds();
    tabane(&repository, &["backup", &source]).succeeds();
    tabane(&repository, &["backup", &source]).succeeds();
    tabane(&repository, &["check", "--read-data"]).succeeds();
    let with_key = |args: &[&str]| tabane(&repository, args);
    comes_back(&bed, with_key, &bed.source().join("docs/deep/data.bin"));
    let refused = tabane(&repository, &["forget", "latest"]);
    refused.fails(1, "the role append, and writing forgotten/");
    for elsewhere in [
        bed.repository(),
        "/etc".into(),
        root.with_file_name("mine-too"),
    ] {
        tabane(&elsewhere, &["init"]).fails(1, "this key gives no access to");
    }
    assert!(!bed.repository().exists());
    sshd.authorize(&forced(&root, "--read-only"));
    comes_back(&bed, with_key, &bed.source().join("docs/deep/data.bin"));
    tabane(&repository, &["backup", &source]).fails(1, "the role read, and writing");
    sshd.authorize(&forced(&root, "--quota 1K"));
    fs::write(bed.source().join("new"), varied(100_000)).expect("a file");
    tabane(&repository, &["backup", &source]).fails(1, " bytes is used up");
    sshd.authorize(&forced(&root, ""));
    tabane(
        &repository,
        &["forget", "--keep-last", "1", "--prune", "--grace", "0s"],
    )
    .succeeds();
    tabane(&repository, &["check", "--read-data"]).succeeds();
    // Another command, none, and a folder that is not there.
    sshd.authorize("restrict,command=\"echo this is no server\"");
    tabane(&repository, &["snapshots"]).fails(1, "is no storage server of Tabane");
    sshd.authorize("restrict,command=\"/nowhere/tabane serve --stdio\"");
    tabane(&repository, &["snapshots"]).fails(1, "cannot start what is asked for");
    sshd.authorize("restrict,command=\"echo hello\"");
    tabane(&repository, &["snapshots"]).fails(1, "is no storage server of Tabane");
    sshd.authorize(&forced(Path::new("/nowhere"), ""));
    tabane(&repository, &["snapshots"]).fails(1, "the server says: tabane: cannot use /nowhere");
}

/// What is under way when the server is told to stop is done, and acknowledged.
#[test]
fn a_server_stops_when_uploads_are_done() {
    let bed = Bed::new();
    let mut daemon = Daemon::new(&bed);
    let token = daemon.add("laptop", &["--role", "append"]);
    daemon.start();
    daemon.tabane(&bed, &token, ["init"]).succeeds();
    fs::write(bed.source().join("large"), varied(20 << 20)).expect("a file");
    let source = bed.source().display().to_string();
    let mut backup = bed.command(["backup", "-q", &source, "--limit-upload", "10000"]);
    let backup = daemon
        .environment(&mut backup, "laptop", &token)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start a backup");
    thread::sleep(Duration::from_millis(900));
    let mut process = daemon.process.take().expect("it runs");
    let pid = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a process"), Signal::TERM).expect("told");
    let status = process.wait().expect("it ends");
    assert_eq!(status.code(), Some(0));
    daemon.start();
    Ran::from(backup.wait_with_output().expect("wait for the backup")).succeeds();
    daemon
        .tabane(&bed, &token, ["check", "--read-data"])
        .succeeds();
}

#[test]
fn a_scrub_finds_a_damaged_object_and_says_so() {
    let bed = Bed::new();
    let metrics = format!("127.0.0.1:{}", free_port());
    let mut daemon = Daemon::with(&bed, &["--metrics", &metrics, "--scrub-every", "7d"]);
    let token = daemon.add("laptop", &["--role", "append", "--quota", "1G"]);
    daemon.start();
    daemon.tabane(&bed, &token, ["init"]).succeeds();
    let source = bed.source().display().to_string();
    daemon.tabane(&bed, &token, ["backup", &source]).succeeds();
    daemon.kill();
    let get = |path: &str| {
        let mut stream = std::net::TcpStream::connect(&metrics).expect("metrics");
        std::io::Write::write_all(
            &mut stream,
            format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes(),
        )
        .expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    };
    daemon.start();
    daemon.says("laptop: scrubbed, damaged objects: 0");
    assert!(get("/health").contains(" 200 OK"));
    daemon.kill();
    // It is not due again.
    fs::remove_file(daemon.directory().join(".scrubbed.json")).expect("its state");
    let snapshots = daemon.directory().join("laptop/snapshots");
    let snapshot = fs::read_dir(snapshots).expect("a folder").next();
    let snapshot = snapshot.expect("a snapshot").expect("an entry").path();
    let mut bytes = fs::read(&snapshot).expect("its bytes");
    bytes[50] ^= 1;
    fs::write(&snapshot, bytes).expect("written");
    daemon.start();
    daemon.says("laptop: scrubbed, damaged objects: 1");
    let name = snapshot.file_name().expect("a name").to_string_lossy();
    daemon.says(&format!("snapshots/{name} is damaged"));
    assert!(get("/health").contains(" 503 "));
    let text = get("/metrics");
    assert!(
        text.contains("\ntabane_serve_damaged_objects 1\n"),
        "{text}"
    );
    // A restart does not forget it.
    daemon.restart();
    while !get("/health").contains("damaged objects: 1") {
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn settings_that_cannot_be_used() {
    let bed = Bed::new();
    let daemon = Daemon::new(&bed);
    let settings = daemon.settings().display().to_string();
    let directory = daemon.directory().display().to_string();
    let serve = |args: &[&str]| run(&mut bare_command([&["serve"], args].concat()));
    serve(&["setup", &settings, "--host", "x"]).fails(1, "has certificates already");
    serve(&["add", &settings, "No Name", "--role", "read"]).fails(1, "is no name for a client");
    serve(&[
        "add",
        &settings,
        "x",
        "--role",
        "read",
        "--repository",
        "../x",
    ])
    .fails(1, "is no name for a repository");
    let other = daemon
        .settings()
        .with_file_name("other")
        .display()
        .to_string();
    serve(&["setup", &other, "--host", "a b"]).fails(1, "neither a host name nor an address");
    serve(&["add", &settings, "x", "--role", "root"]).fails(2, "there is no role \"root\"");
    serve(&["add", &settings, "x", "--role", "read"]).succeeds();
    serve(&["add", &settings, "x", "--role", "read"]).fails(1, "there is a client x already");
    serve(&["--settings", &settings, "--dir", "/nowhere"]).fails(1, "/nowhere is no directory");
    serve(&["--settings", "/nowhere", "--dir", &directory]).fails(1, "cannot read /nowhere/");
    serve(&["--settings", &settings]).fails(2, "--dir");
    serve(&["--stdio", "--dir", "x"]).fails(2, "cannot be used with");
    serve(&["--append-only"]).fails(2, "--stdio");
    serve(&["--stdio"]).fails(1, "a client starts this by ssh");
}
