//! A repository on a real S3 server, and servers that say no.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::bed::{Bed, Ran, restored, run, varied};
use tabane_testing::gateway::{ACCESS_KEY, BUCKET, Gateway, SECRET_KEY};
use tabane_testing::line::{Line, Properties, Trouble};

fn command<A: AsRef<OsStr>>(bed: &Bed, url: &str, args: impl IntoIterator<Item = A>) -> Command {
    let mut command = bed.command(args);
    Gateway::credentials(&mut command)
        .env("TABANE_REPOSITORY", url)
        .env("TABANE_CACHE_DIR", bed.path("cache"))
        .env("TABANE_STATE_DIR", bed.path("state"));
    command
}

fn tabane<A: AsRef<OsStr>>(bed: &Bed, url: &str, args: impl IntoIterator<Item = A>) -> Ran {
    run(&mut command(bed, url, args))
}

/// Restores the latest snapshot, and compares the file with what it was.
fn comes_back(bed: &Bed, url: &str, file: &Path) {
    let target = bed.path("target");
    let _ = fs::remove_dir_all(&target);
    let text = target.display().to_string();
    tabane(bed, url, ["restore", "latest", "--target", &text]).succeeds();
    let back = fs::read(restored(&target, file)).expect("it was restored");
    assert!(back == fs::read(file).expect("it is there"));
}

#[test]
fn everyday_work_on_a_real_server() {
    let Some(gateway) = Gateway::start("the command with a repository on a real S3 server") else {
        return;
    };
    let bed = Bed::new();
    let url = gateway.url(BUCKET, "my/repository");
    let source = bed.source().display().to_string();
    tabane(&bed, &url, ["snapshots"]).fails(10, &format!("there is no repository at {url}"));
    tabane(&bed, &url, ["init"]).succeeds();
    tabane(&bed, &url, ["init"]).fails(1, "there is already a repository at");
    // With a repository below it the bucket is not empty.
    tabane(&bed, &gateway.url(BUCKET, ""), ["init"]).fails(1, "is not empty");
    tabane(&bed, &url, ["backup", &source]).succeeds();
    // Other tests change the directories above meanwhile, which are stored then.
    let finds_every_block = || {
        let again = tabane(&bed, &url, ["backup", "--json", "--force", &source]).succeeds();
        again.last_json()["blocks_new"] == 0
    };
    assert!((0..20).any(|_| finds_every_block()));
    tabane(&bed, &url, ["check", "--read-data"]).succeeds();
    comes_back(&bed, &url, &bed.source().join("docs/deep/data.bin"));
    assert!(gateway.bucket().join("my/repository/config").exists());
}

/// The server dies again and again while a backup writes to it: the backup takes its time and
/// nothing is lost.
#[test]
fn a_server_that_is_killed_and_restarted_during_a_backup() {
    let Some(mut gateway) = Gateway::start("a real S3 server that dies during a backup") else {
        return;
    };
    let bed = Bed::new();
    let url = gateway.url(BUCKET, "");
    tabane(&bed, &url, ["init"]).succeeds();
    let file = bed.source().join("large");
    fs::write(&file, varied(60 << 20)).expect("a file");
    let source = bed.source().display().to_string();
    // Slow enough that there is time for it, and so that a pack is through before the next outage.
    let slow = ["--limit-upload", "40000", "--connections", "1"];
    let arguments = ["backup", "--quiet", &source].into_iter().chain(slow);
    let backup = command(&bed, &url, arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start a backup");
    let done = AtomicBool::new(false);
    let (ran, outages) = thread::scope(|scope| {
        let killer = scope.spawn(|| {
            let mut outages = 0;
            // A slow machine gets its packs through in the end.
            while outages < 5 && !done.load(Ordering::SeqCst) {
                gateway.kill();
                thread::sleep(Duration::from_millis(50));
                gateway.restart();
                outages += 1;
                thread::sleep(Duration::from_millis(550));
            }
            outages
        });
        let ran = Ran::from(backup.wait_with_output().expect("wait for the backup"));
        done.store(true, Ordering::SeqCst);
        (ran, killer.join().expect("no panic"))
    });
    ran.succeeds();
    assert!(outages >= 3, "the backup was too quick: {outages} outages");
    tabane(&bed, &url, ["check", "--read-data"]).succeeds();
    comes_back(&bed, &url, &file);
}

#[test]
fn a_server_that_does_not_know_us() {
    let Some(gateway) = Gateway::start("wrong credentials for a real S3 server") else {
        return;
    };
    let bed = Bed::new();
    let url = gateway.url(BUCKET, "");
    let with =
        |name: &str, value: &str, args: &[&str]| run(command(&bed, &url, args).env(name, value));
    for args in [["snapshots"], ["init"]] {
        with("AWS_SECRET_ACCESS_KEY", "wrong", &args)
            .fails(1, "the secret key is wrong: check AWS_");
        with("AWS_ACCESS_KEY_ID", "nobody", &args).fails(1, "does not know this access key");
        tabane(&bed, &gateway.url("nowhere", "x"), args).fails(1, "the bucket does not exist");
    }
    run(command(&bed, &url, ["snapshots"]).env_remove("AWS_SECRET_ACCESS_KEY"))
        .fails(2, "AWS_SECRET_ACCESS_KEY");
}

#[test]
fn keys_from_the_files_of_amazons_tools() {
    let Some(gateway) = Gateway::start("keys from ~/.aws on a real S3 server") else {
        return;
    };
    let bed = Bed::new();
    let url = gateway.url(BUCKET, "");
    let folder = bed.path("home/.aws");
    fs::create_dir_all(&folder).expect("a folder");
    let keys =
        format!("[work]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n");
    fs::write(folder.join("credentials"), keys).expect("a file");
    let with_profile = |name: &str| {
        let mut command = command(&bed, &url, ["init"]);
        command
            .env_remove("AWS_ACCESS_KEY_ID")
            .env_remove("AWS_SECRET_ACCESS_KEY")
            .env("HOME", bed.path("home"))
            .env("AWS_PROFILE", name);
        run(&mut command)
    };
    with_profile("play").fails(2, "profile \"play\" has no keys");
    with_profile("work").succeeds();
}

#[test]
fn a_bucket_that_is_removed_under_a_backup() {
    let Some(mut gateway) = Gateway::start("a bucket that is removed during a backup") else {
        return;
    };
    let bed = Bed::new();
    let url = gateway.url(BUCKET, "");
    tabane(&bed, &url, ["init"]).succeeds();
    fs::write(bed.source().join("large"), varied(40 << 20)).expect("a file");
    let source = bed.source().display().to_string();
    let backup = command(
        &bed,
        &url,
        ["backup", "--quiet", "--limit-upload", "20000", &source],
    )
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .expect("start a backup");
    thread::sleep(Duration::from_millis(700));
    // Not under its feet: it would make the folders again that its uploads need.
    gateway.kill();
    let away = gateway.bucket().with_file_name("away");
    fs::rename(gateway.bucket(), away).expect("renamed");
    gateway.restart();
    let ran = Ran::from(backup.wait_with_output().expect("wait for the backup"));
    ran.fails(1, "the bucket does not exist");
}

#[test]
fn limits_are_kept() {
    let Some(gateway) = Gateway::start("limits of bandwidth on a real S3 server") else {
        return;
    };
    let bed = Bed::new();
    let url = gateway.url(BUCKET, "");
    tabane(&bed, &url, ["init"]).succeeds();
    let file = bed.source().join("large");
    fs::write(&file, varied(3 << 20)).expect("a file");
    let source = bed.source().display().to_string();
    let start = Instant::now();
    tabane(&bed, &url, ["backup", "--limit-upload", "3000", &source]).succeeds();
    assert!(
        start.elapsed() > Duration::from_millis(800),
        "{:?}",
        start.elapsed()
    );
    let start = Instant::now();
    tabane(
        &bed,
        &url,
        ["check", "--read-data", "--limit-download", "3000"],
    )
    .succeeds();
    assert!(
        start.elapsed() > Duration::from_millis(800),
        "{:?}",
        start.elapsed()
    );
}

/// A server that gives the same answer to every request.
struct Parrot {
    port: u16,
    requests: Arc<AtomicU64>,
}

impl Parrot {
    fn new(answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let requests = Arc::<AtomicU64>::default();
        let counter = Arc::clone(&requests);
        // Ends with the process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counter = Arc::clone(&counter);
                thread::spawn(move || reply(stream, answer, &counter));
            }
        });
        Self { port, requests }
    }

    fn url(&self, scheme: &str) -> String {
        format!("{scheme}://127.0.0.1:{}/bucket/prefix", self.port)
    }
}

/// Reads the head of a request, answers, and hangs up.
fn reply(mut stream: TcpStream, answer: &str, requests: &AtomicU64) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    // A handshake of TLS gets its answer at once, in clear.
    while !head.ends_with(b"\r\n\r\n") && !head.starts_with(&[0x16]) {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    requests.fetch_add(1, Ordering::SeqCst);
    let (status, body) = answer.split_once('|').unwrap_or((answer, ""));
    let (status, headers) = status.split_once('+').unwrap_or((status, "X-Nothing: 1"));
    let body = if head.starts_with(b"HEAD") { "" } else { body };
    let head = format!(
        "HTTP/1.1 {status}\r\nDate: Sun, 01 Jan 2023 00:00:00 GMT\r\n{headers}\r\nContent-Length: \
         {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(format!("{head}{body}").as_bytes());
}

#[test]
fn refusals_say_what_to_do() {
    let bed = Bed::new();
    for (answer, says) in [
        (
            "403 Forbidden|<Error><Code>RequestTimeTooSkewed</Code><Message>Too \
             skewed.</Message></Error>",
            "the server's says Sun, 01 Jan 2023 00:00:00 GMT: set the clock",
        ),
        (
            "403 Forbidden|<Error><Code>QuotaExceeded</Code><Message>Full.</Message></Error>",
            "free some space or raise the quota",
        ),
        ("507 Insufficient Storage", "free some space"),
        (
            "400 Bad Request|<Error><Code>ExpiredToken</Code></Error>",
            "the credentials have expired",
        ),
        (
            "301 Moved Permanently+x-amz-bucket-region: eu-west-1",
            "set AWS_REGION=eu-west-1",
        ),
        (
            "403 Forbidden",
            "the server answers 403: check AWS_ACCESS_KEY_ID",
        ),
        ("418 Teapot|<html>", "the server answers 418"),
    ] {
        let parrot = Parrot::new(answer);
        tabane(&bed, &parrot.url("s3+http"), ["snapshots"]).fails(1, says);
        // An opening asks at once for the config, the copies of it, and four lists.
        assert!(
            parrot.requests.load(Ordering::SeqCst) <= 6,
            "{answer}: nothing to try again"
        );
    }
}

#[test]
fn an_outage_is_waited_for_and_then_told() {
    let bed = Bed::new();
    let busy = Parrot::new("503 Busy|<Error><Code>SlowDown</Code></Error>");
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let nobody = free.local_addr().expect("its address").port();
    drop(free);
    for (url, says) in [
        (busy.url("s3+http"), "the server answers 503"),
        (
            format!("s3+http://127.0.0.1:{nobody}/b/p"),
            "connection refused",
        ),
        (
            "s3+https://no-such-host.invalid/b/p".to_owned(),
            "failed to lookup address",
        ),
    ] {
        let start = Instant::now();
        let ran = tabane(&bed, &url, ["snapshots", "--retry-for", "1s"]);
        ran.fails(1, says);
        let took = start.elapsed();
        assert!(
            took >= Duration::from_secs(1) && took < Duration::from_secs(20),
            "{took:?}"
        );
    }
    assert!(busy.requests.load(Ordering::SeqCst) > 3);
}

#[test]
fn a_server_without_tls_is_no_https() {
    let bed = Bed::new();
    let plain = Parrot::new("400 Bad Request");
    tabane(&bed, &plain.url("s3+https"), ["snapshots"]).fails(1, "does not speak TLS");
}

#[test]
fn a_certificate_is_checked() {
    let bed = Bed::new();
    let (certificate, key) = (bed.path("certificate"), bed.path("key"));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
        ])
        .args([
            "-subj",
            "/CN=test",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
        ])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args([
            OsStr::new("-keyout"),
            key.as_os_str(),
            OsStr::new("-out"),
            certificate.as_os_str(),
        ])
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        eprintln!("NOT CHECKED: certificates of servers: openssl cannot make one");
        return;
    }
    let Some(gateway) = Gateway::start_with_tls("TLS with a real S3 server", &certificate, &key)
    else {
        return;
    };
    let url = gateway.url(BUCKET, "p");
    tabane(&bed, &url, ["init"]).fails(1, "in TABANE_CACERT");
    let trusting =
        |args: &[&str]| run(command(&bed, &url, args).env("SSL_CERT_FILE", &certificate));
    trusting(&["init"]).succeeds();
    trusting(&["backup", &bed.source().display().to_string()]).succeeds();
    trusting(&["check", "--read-data"]).succeeds();
}

#[test]
fn places_that_are_none() {
    let bed = Bed::new();
    for (place, says) in [
        ("ftp://host/path", "s3://BUCKET/PREFIX"),
        ("s3:bucket/path", "s3://BUCKET/PREFIX"),
        ("s3+https://me:hunter2@host/bucket", "set AWS_ACCESS_KEY_ID"),
        ("az://container/p", "AZURE_STORAGE_ACCOUNT_NAME"),
    ] {
        let mut command = command(&bed, place, ["snapshots"]);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("AZURE_") {
                command.env_remove(name);
            }
        }
        let ran = run(&mut command).fails(2, says);
        assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
    }
    bed.run(["snapshots", "--connections", "0"])
        .fails(2, "--connections");
    bed.run(["snapshots", "--retry-for", "soon"])
        .fails(2, "90s, 5m, 36h or 2d");
}

/// A repository on a real server, over a line that is in trouble.
fn over_a_line(what: &str) -> Option<(Bed, Gateway, Line, String)> {
    let gateway = Gateway::start(what)?;
    let line = Line::to(gateway.port(), Properties::default());
    let url = format!("s3+http://127.0.0.1:{}/{BUCKET}/r", line.port());
    let bed = Bed::new();
    tabane(&bed, &url, ["init"]).succeeds();
    Some((bed, gateway, line, url))
}

/// Backs up files of some MB, checks them and restores one.
fn works(bed: &Bed, url: &str) {
    let file = bed.source().join("large");
    fs::write(&file, varied(20 << 20)).expect("a file");
    let source = bed.source().display().to_string();
    tabane(bed, url, ["backup", &source]).succeeds();
    tabane(bed, url, ["check", "--read-data"]).succeeds();
    comes_back(bed, url, &file);
}

#[test]
fn connections_that_break_off() {
    let what = "a line to a server that cuts every third connection";
    let Some((bed, _gateway, line, url)) = over_a_line(what) else {
        return;
    };
    line.set_trouble(Trouble::Cuts { one_of: 3 });
    works(&bed, &url);
    assert!(line.take_traffic().connections >= 3);
}

#[test]
fn a_server_that_is_overloaded_for_a_while() {
    let what = "a server that answers 503 for a while";
    let Some((bed, _gateway, line, url)) = over_a_line(what) else {
        return;
    };
    thread::scope(|scope| {
        let source = bed.source().display().to_string();
        tabane(&bed, &url, ["backup", &source]).succeeds();
        line.set_trouble(Trouble::Unavailable);
        scope.spawn(|| {
            thread::sleep(Duration::from_secs(2));
            line.set_trouble(Trouble::None);
        });
        works(&bed, &url);
    });
    // For good, it is told.
    line.set_trouble(Trouble::Unavailable);
    let patience = ["snapshots", "--retry-for", "3s"];
    // A slow machine may try for longer than 3 s.
    tabane(&bed, &url, patience).fails(1, "the server answers 503, for ");
}

#[test]
fn a_server_that_sends_a_byte_a_second_is_given_up() {
    let what = "a server that sends one byte a second";
    let Some((bed, _gateway, line, url)) = over_a_line(what) else {
        return;
    };
    line.set_trouble(Trouble::Trickle);
    let start = Instant::now();
    let patience = ["snapshots", "--retry-for", "3s"];
    tabane(&bed, &url, patience).fails(1, "does not answer");
    // Not as long as the answer would take: some 500 bytes.
    assert!(start.elapsed() < Duration::from_secs(120));
}

/// Requests wait at the server until other connections close; a client that keeps those open must
/// not wait for itself. `cargo test -p tabane --test cli two_connections -- --ignored`
#[test]
#[ignore = "waits for a minute"]
fn a_server_of_two_connections() {
    let what = "a server that serves two connections at a time";
    let Some((bed, _gateway, line, url)) = over_a_line(what) else {
        return;
    };
    line.set_trouble(Trouble::FewConnections(2));
    works(&bed, &url);
}

#[test]
fn a_name_that_cannot_be_looked_up_for_a_while() {
    let what = "a host name that cannot be looked up for a while";
    let Some((bed, gateway, _line, _)) = over_a_line(what) else {
        return;
    };
    let hosts = bed.path("hosts");
    fs::write(&hosts, "127.0.0.1 localhost\n").expect("a file");
    let url = format!("s3+http://storage.test:{}/{BUCKET}/r", gateway.port());
    let looking_up = |args: &[&str]| {
        let named = command(&bed, &url, args);
        let mut command = Command::new("unshare");
        command.args([
            "--mount",
            "sh",
            "-c",
            "mount --bind \"$0\" /etc/hosts && exec \"$@\"",
        ]);
        command
            .arg(&hosts)
            .arg(named.get_program())
            .args(named.get_args());
        for (name, value) in named.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    };
    let may = Command::new("unshare").args(["--mount", "true"]).status();
    if !may.is_ok_and(|status| status.success()) {
        tabane_testing::not_checked(what, "this takes root, and unshare");
        return;
    }
    run(&mut looking_up(&["snapshots", "--retry-for", "2s"])).fails(1, "lookup");
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_secs(2));
            fs::write(&hosts, "127.0.0.1 localhost storage.test\n").expect("a file");
        });
        run(&mut looking_up(&["snapshots"])).succeeds();
    });
}

/// The objects that were put, each with its storage class.
type Classes = Arc<Mutex<Vec<(String, String)>>>;

/// A proxy in front of the server, for which packs in a class are cold: they cannot be read until
/// the file `warm` is there. Notes the class with which each object was put.
fn archive(gateway: &Gateway, bed: &Bed) -> (String, Classes) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let url = gateway.url(BUCKET, "cold");
    let upstream = url.split('/').nth(2).expect("a host").to_owned();
    let own = format!("127.0.0.1:{port}");
    let (warm, classes) = (
        bed.path("warm"),
        Arc::<Mutex<Vec<(String, String)>>>::default(),
    );
    let noted = Arc::clone(&classes);
    let given = upstream.clone();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (upstream, warm, noted) = (given.clone(), warm.clone(), Arc::clone(&noted));
            thread::spawn(move || {
                let mut client = client.expect("a client");
                // One request a connection.
                let (mut bytes, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
                let (head, len) = loop {
                    let count = client.read(&mut buffer).unwrap_or(0);
                    if count == 0 {
                        return;
                    }
                    bytes.extend_from_slice(&buffer[..count]);
                    let text = String::from_utf8_lossy(&bytes);
                    let Some((head, _)) = text.split_once("\r\n\r\n") else {
                        continue;
                    };
                    let len = head.lines().find_map(|line| {
                        let (name, value) = line.split_once(": ")?;
                        let is_len = name.eq_ignore_ascii_case("content-length");
                        is_len.then(|| value.parse::<usize>().expect("a number"))
                    });
                    break (head.to_owned(), head.len() + 4 + len.unwrap_or(0));
                };
                while bytes.len() < len {
                    let count = client.read(&mut buffer).unwrap_or(0);
                    bytes.extend_from_slice(&buffer[..count]);
                }
                let mut words = head.split(' ');
                let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
                let class = head.lines().find_map(|line| {
                    let (name, value) = line.split_once(": ")?;
                    name.eq_ignore_ascii_case("x-amz-storage-class")
                        .then_some(value)
                });
                if let Some(class) = class.filter(|_| method == "PUT") {
                    let path = path.to_owned();
                    noted
                        .lock()
                        .expect("no panic")
                        .push((path, class.to_owned()));
                }
                let is_cold = || {
                    let noted = noted.lock().expect("no panic");
                    noted.iter().any(|(put, _)| put == path) && !warm.exists()
                };
                if method == "GET" && is_cold() {
                    let body =
                        "<Error><Code>InvalidObjectState</Code><Message>cold</Message></Error>";
                    let answer = format!(
                        "HTTP/1.1 403 Forbidden\r\ncontent-length: {}\r\nconnection: \
                         close\r\n\r\n{body}",
                        body.len()
                    );
                    let _ = client.write_all(answer.as_bytes());
                    return;
                }
                let mut server = TcpStream::connect(&upstream).expect("the server");
                let line = head.find("\r\n").expect("a line") + 2;
                let _ = server.write_all(&bytes[..line]);
                let _ = server.write_all(b"connection: close\r\n");
                let _ = server.write_all(&bytes[line..]);
                let _ = std::io::copy(&mut server, &mut client);
            });
        }
    });
    (url.replace(&upstream, &own), classes)
}

#[test]
fn packs_in_an_archive_are_brought_back_before_a_restore() {
    let Some(gateway) = Gateway::start("packs in an archive") else {
        return;
    };
    let bed = Bed::new();
    let (url, classes) = archive(&gateway, &bed);
    let class = ["--storage-class", "GLACIER"];
    let cold = |args: &[&str]| tabane(&bed, &url, [args, &class].concat());
    cold(&["init"]).succeeds();
    let source = bed.source().display().to_string();
    cold(&["backup", &source]).succeeds();
    let put = classes.lock().expect("no panic").clone();
    assert_eq!(put.len(), 1, "{put:?}");
    assert!(
        put[0].0.contains("/packs/") && put[0].1 == "GLACIER",
        "{put:?}"
    );
    // All but reading contents works.
    fs::write(bed.source().join("docs/notes.txt"), "second version").expect("written");
    cold(&["backup", &source]).succeeds();
    cold(&["check"]).succeeds();
    cold(&["ls", "latest"]).succeeds();
    let target = bed.path("target").display().to_string();
    let restore = ["restore", "latest", "-t", &target];
    let ran = tabane(&bed, &url, restore);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("it is in an archive"), "{}", ran.stderr);
    let told = tabane(&bed, &url, ["warm-up", "latest", "--json"]);
    assert_eq!(told.code, Some(1));
    assert_eq!(told.last_json()["cold_packs"], 2);
    let below = format!("latest:{source}/docs/notes.txt");
    let told = tabane(&bed, &url, ["warm-up", &below, "--json"]);
    assert_eq!(told.last_json()["packs"], 1);
    let warm = bed.path("warm").display().to_string();
    let command = format!("echo $TABANE_PACK >> {warm}");
    let warmed = tabane(
        &bed,
        &url,
        ["warm-up", "latest", "--wait", "9s", "--command", &command],
    );
    let warmed = warmed.succeeds();
    assert!(
        warmed.stdout.contains("all of them can be read"),
        "{}",
        warmed.stdout
    );
    let asked = fs::read_to_string(&warm).expect("asked");
    assert!(
        asked.lines().all(|line| line.starts_with("packs/")),
        "{asked}"
    );
    assert_eq!(asked.lines().count(), 2);
    let _ = fs::remove_dir_all(&target);
    tabane(&bed, &url, restore).succeeds();
    let _ = fs::remove_file(&warm);
    let failing = ["warm-up", "latest", "--command", "false"];
    tabane(&bed, &url, failing).fails(1, "no further pack is asked for");
}

/// A server whose certificate nobody has signed is trusted by name, or not at all.
#[test]
fn certificates_of_an_own_authority_are_trusted_by_their_file() {
    let bed = Bed::new();
    let (certificate, key) = (bed.path("certificate.pem"), bed.path("key.pem"));
    let made = Command::new("openssl")
        .args([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
        ])
        .args([
            "-subj",
            "/CN=127.0.0.1",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
        ])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-out")
        .arg(&certificate)
        .arg("-keyout")
        .arg(&key)
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        tabane_testing::not_checked("own authorities", "openssl is not installed");
        return;
    }
    let Some(gateway) = Gateway::start_with_tls("own authorities", &certificate, &key) else {
        return;
    };
    let url = gateway.url(BUCKET, "tls");
    let certificate = certificate.display().to_string();
    let refused = tabane(&bed, &url, ["init", "--retry-for", "1s"]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    tabane(&bed, &url, ["init", "--cacert", &certificate]).succeeds();
    tabane(&bed, &url, ["snapshots", "--insecure-tls"]).succeeds();
    let key = key.display().to_string();
    tabane(&bed, &url, ["snapshots", "--cacert", &key]).fails(2, "holds no certificate");
    tabane(&bed, &url, ["snapshots", "--tls-client-cert", &certificate])
        .fails(2, "does not hold a certificate and its key");
    // This server asks for none, and takes any.
    let both = bed.path("both.pem");
    let read = |path: &str| fs::read_to_string(path).expect("read");
    fs::write(&both, read(&certificate) + &read(&key)).expect("written");
    let both = both.display().to_string();
    tabane(
        &bed,
        &url,
        [
            "snapshots",
            "--cacert",
            &certificate,
            "--tls-client-cert",
            &both,
        ],
    )
    .succeeds();
}
