//! Commands and web addresses that hear of a run.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bed::{Bed, run};

fn log(bed: &Bed) -> String {
    fs::read_to_string(bed.path("log")).unwrap_or_default()
}

/// A hook that writes a line.
fn note(bed: &Bed, what: &str) -> String {
    let log = bed.path("log").display().to_string();
    format!("echo {what} $TABANE_HOOK_COMMAND $TABANE_HOOK_EXIT_CODE >> {log}; echo {what}")
}

/// Takes so many requests, and returns what they were.
fn server(requests: usize, status: &'static str) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/uuid", listener.local_addr().expect("an address"));
    let thread = std::thread::spawn(move || {
        let take = |_| {
            let (mut stream, _) = listener.accept().expect("a client");
            let (mut text, mut buffer) = (String::new(), [0; 4096]);
            let is_whole = |text: &str| {
                let (head, body) = text.split_once("\r\n\r\n")?;
                let len = head.lines().find_map(|line| {
                    let (name, value) = line.split_once(": ")?;
                    let is_length = name.eq_ignore_ascii_case("content-length");
                    is_length.then(|| value.parse::<usize>().expect("a number"))
                });
                (body.len() >= len.unwrap_or(0)).then_some(())
            };
            while is_whole(&text).is_none() {
                let count = stream.read(&mut buffer).expect("readable");
                assert!(count > 0, "{text}");
                text += std::str::from_utf8(&buffer[..count]).expect("text");
            }
            let answer =
                format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).expect("writable");
            text
        };
        (0..requests).map(take).collect()
    });
    (url, thread)
}

#[test]
fn hooks_run_around_a_command() {
    let bed = Bed::with_repository();
    let notes = ["before", "after", "failed", "finally"].map(|what| note(&bed, what));
    let [before, after, failed, finally] = &notes;
    let hooks = [
        ["--run-before", before],
        ["--run-after", after],
        ["--run-failed", failed],
        ["--run-finally", finally],
    ];
    let ran = bed.backup(&hooks.concat());
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (Some(0), "before\nafter\nfinally\n")
    );
    assert_eq!(
        log(&bed),
        "before backup\nafter backup 0\nfinally backup 0\n"
    );

    fs::remove_file(bed.path("log")).expect("removed");
    let args = ["backup", "/no/such/path"].into_iter();
    let ran = bed.run(args.chain(hooks.concat()));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert_eq!(
        log(&bed),
        "before backup\nfailed backup 1\nfinally backup 1\n"
    );
}

#[test]
fn a_hook_that_fails_or_hangs_is_told() {
    let bed = Bed::with_repository();
    let failed = note(&bed, "failed");
    let ran = bed.backup(&["--run-before", "exit 3", "--run-failed", &failed]);
    assert_eq!(ran.code, Some(1));
    let why = "the hook --run-before \"exit 3\" failed (exit status: 3), so nothing was done";
    assert!(ran.stderr.contains(why), "{}", ran.stderr);
    assert_eq!(log(&bed), "failed backup 1\n");
    let hangs = [
        "--run-before",
        "sleep 1000 & wait",
        "--hook-timeout",
        "300ms",
    ];
    bed.backup(&hangs).fails(1, "was killed after");
    assert_eq!(
        bed.run(["snapshots", "--json"]).succeeds().last_json(),
        Value::Array(vec![])
    );

    // The backup succeeded, but the hook after it failed.
    bed.backup(&["--run-after", "exit 4"])
        .fails(1, "--run-after");
    let ran = bed.backup(&["--run-finally", "exit 5"]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.stderr.contains("--run-finally"), "{}", ran.stderr);
    let listed = bed.run(["snapshots", "--json"]).succeeds().last_json();
    assert_eq!(listed.as_array().map(Vec::len), Some(2));
}

#[test]
fn hooks_hear_that_metrics_cannot_be_written() {
    let bed = Bed::with_repository();
    let (after, failed) = (note(&bed, "after"), note(&bed, "failed"));
    let hooks = ["--run-after", &after, "--run-failed", &failed];
    let file = ["--metrics-file", "/nowhere/at/all"];
    let ran = bed.backup(&[&hooks[..], &file].concat());
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("cannot write metrics"),
        "{}",
        ran.stderr
    );
    assert_eq!(log(&bed), "failed backup 1\n");
    // A hook behind the run fails it, and the metrics say so, and when a run last succeeded.
    let file = bed.path("metrics").display().to_string();
    bed.backup(&["--metrics-file", &file]).succeeds();
    let gauge = |name: &str| {
        let text = fs::read_to_string(&file).expect("written");
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("tabane_backup_{name}")));
        let value = line.expect("a gauge").rsplit(' ').next();
        value.expect("a value").to_owned()
    };
    let time = gauge("last_success_time_seconds");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    bed.backup(&["--metrics-file", &file, "--run-after", "exit 4"])
        .fails(1, "--run-after");
    assert_eq!(gauge("exit_code"), "1");
    assert_eq!(gauge("last_success_time_seconds"), time);
    bed.backup(&["--hook-timeout", "0s"])
        .fails(2, "it takes some time");
}

#[test]
fn a_signal_does_not_silence_hooks() {
    let bed = Bed::with_repository();
    let source = bed.source().display().to_string();
    let metrics = bed.path("tabane.prom").display().to_string();
    let (failed, finally) = (note(&bed, "failed"), note(&bed, "finally"));
    let begun = bed.path("begun");
    let before = format!("touch {}; sleep 300", begun.display());
    let mut command = bed.command(["backup", &source]);
    command.args(["--run-before", &before, "--run-failed", &failed]);
    command.args(["--run-finally", &finally, "--metrics-file", &metrics]);
    let mut running = command.stderr(Stdio::piped()).spawn().expect("started");
    while !begun.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let start = Instant::now();
    let pid = rustix::process::Pid::from_child(&running);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("sent");
    assert_eq!(running.wait().expect("ended").code(), Some(130));
    assert!(start.elapsed() < Duration::from_secs(60));
    assert!(log(&bed).contains("failed") && log(&bed).contains("finally"));
    let metrics = fs::read_to_string(&metrics).expect("written");
    assert!(
        metrics.contains("exit_code") && metrics.contains("} 130"),
        "{metrics}"
    );
}

#[test]
fn a_signal_ends_hooks_behind_a_run() {
    let bed = Bed::with_repository();
    let source = bed.source().display().to_string();
    let finally = note(&bed, "finally");
    for option in ["--run-after", "--run-failed"] {
        let _ = fs::remove_file(bed.path("log"));
        let begun = bed.path(&format!("begun{option}"));
        let hook = format!("touch {}; sleep 300", begun.display());
        let mut command = bed.command(["backup", &source]);
        command.args([option, &hook, "--run-finally", &finally]);
        if option == "--run-failed" {
            command.args(["--run-before", "false"]);
        }
        let mut running = command.stderr(Stdio::piped()).spawn().expect("started");
        while !begun.exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let pid = rustix::process::Pid::from_child(&running);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("sent");
        assert_eq!(running.wait().expect("ended").code(), Some(130), "{option}");
        assert!(log(&bed).contains("finally"), "{option}");
    }
}

#[test]
fn profiles_have_hooks() {
    let bed = Bed::with_repository();
    let config = bed.path("config.toml");
    let before = note(&bed, "before");
    let text = format!("[profiles.home.backup]\nrun-before = [{before:?}]\n");
    fs::write(&config, text).expect("written");
    let config = config.display().to_string();
    let ran = bed.backup(&["--config", &config, "--profile", "home"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), "before\n"));
}

#[test]
fn monitors_and_webhooks_hear_of_a_run() {
    let bed = Bed::with_repository();
    let (url, thread) = server(2, "200 OK");
    bed.backup(&["--ping", &url]).succeeds();
    let requests = thread.join().expect("served");
    assert!(
        requests[0].starts_with("POST /uuid/start "),
        "{}",
        requests[0]
    );
    assert!(requests[1].starts_with("POST /uuid/0 "), "{}", requests[1]);

    // What is asked for stays behind the path; nothing is told of a dry run.
    let (url, thread) = server(2, "200 OK");
    let asked = format!("{url}?rid=1");
    bed.backup(&["-n", "--ping", &asked]).succeeds();
    bed.backup(&["--ping", &asked]).succeeds();
    let requests = thread.join().expect("served");
    assert!(
        requests[0].starts_with("POST /uuid/start?rid=1 "),
        "{}",
        requests[0]
    );

    let (url, thread) = server(1, "200 OK");
    let ran = bed.run(["check", "--webhook", &url, "0000"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let request = thread.join().expect("served").remove(0);
    let (_, body) = request.split_once("\r\n\r\n").expect("a body");
    let body: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(
        (&body["command"], &body["exit_code"]),
        (&"check".into(), &1.into())
    );
    assert!(
        body["error"]
            .as_str()
            .is_some_and(|error| error.contains("0000")),
        "{body}"
    );
}

#[test]
fn what_could_not_be_read_is_told() {
    let bed = Bed::with_repository();
    let source = bed.source().display().to_string();
    let log = bed.path("log").display().to_string();
    let failed = format!("echo \"$TABANE_HOOK_ERROR\" >> {log}");
    let check = ["check", "--expect-every", "1h", "--run-failed", &failed];
    assert_eq!(bed.run(check).code, Some(1));
    let told = fs::read_to_string(&log).expect("written");
    assert_eq!(told, "there is no snapshot, and one was expected\n");
    fs::remove_file(&log).expect("removed");

    let sentence = "1 entry could not be read";
    let (url, thread) = server(3, "200 OK");
    let args = ["backup", &source, "/no/such", "--run-failed", &failed];
    let ran = bed.run(args.iter().chain(&["--ping", &url, "--webhook", &url]));
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert_eq!(
        fs::read_to_string(&log).expect("written"),
        format!("{sentence}\n")
    );
    let requests = thread.join().expect("served");
    assert!(
        requests[1].ends_with(&format!("\r\n\r\n{sentence}")),
        "{}",
        requests[1]
    );
    assert!(
        requests[2].contains(&format!("\"error\":\"{sentence}\"")),
        "{}",
        requests[2]
    );
}

#[test]
fn an_address_that_is_none_is_refused_first_of_all() {
    let bed = Bed::new();
    let none = "is none of the web";
    for option in ["--webhook", "--ping"] {
        for address in [
            "notasecret",
            "example.org/x",
            "ftp://example.org",
            "https://",
        ] {
            let ran = bed.backup(&[option, address]).fails(2, none);
            assert!(ran.stderr.contains(option), "{}", ran.stderr);
            assert!(!ran.stderr.contains("notasecret"), "{}", ran.stderr);
        }
    }
    let mut command = bed.command(["backup", "x"]);
    run(command.env("TABANE_PING", "notasecret")).fails(2, none);
    let config = bed.path("config.toml");
    fs::write(&config, "[profiles.home.backup]\nping = \"notasecret\"\n").expect("written");
    let config = config.display().to_string();
    let ran = bed
        .backup(&["--config", &config, "--profile", "home"])
        .fails(2, none);
    assert!(
        ran.stderr.contains("config.toml, line 2: ping: "),
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains("notasecret"), "{}", ran.stderr);
}

#[test]
fn a_monitor_that_is_down_fails_nothing() {
    let bed = Bed::with_repository();
    let (url, thread) = server(2, "500 Oh no");
    let ran = bed.backup(&["--ping", &url]);
    thread.join().expect("served");
    assert_eq!(ran.code, Some(0));
    assert!(ran.stderr.contains("--ping was not told") && ran.stderr.contains("500"));
    // Nobody listens at that port any more, and the address is nobody's business.
    let ran = run(bed
        .command(["backup".as_ref(), bed.source().as_os_str()])
        .env("TABANE_PING", &url)
        .env("TABANE_WEBHOOK", &url));
    assert_eq!(ran.code, Some(0));
    assert_eq!(
        ran.stderr.matches("was not told").count(),
        3,
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains("uuid"), "{}", ran.stderr);
    // Somebody listens and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/uuid", listener.local_addr().expect("an address"));
    let start = Instant::now();
    let ran = bed.backup(&["--webhook", &url]);
    assert_eq!(ran.code, Some(0));
    assert!(
        ran.stderr.contains("--webhook was not told"),
        "{}",
        ran.stderr
    );
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
}
