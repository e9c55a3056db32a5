//! What pages say, without a browser.

use std::fs;
use std::process::{Command, Stdio};

use tabane_testing::http;

use super::served::Served;
use crate::bed::{Bed, PASSWORD, varied};

/// A bed with two snapshots, between which a text was changed, a file added and another removed.
pub fn two_snapshots() -> Bed {
    let bed = Bed::with_repository();
    let source = bed.source();
    fs::write(source.join("docs/plan.md"), "one\ntwo\nthree\n").expect("a file");
    bed.backup(&["--tag", "first", "--time", "2026-03-01 10:00:00"])
        .succeeds();
    fs::write(source.join("docs/plan.md"), "one\nTWO\nthree\n").expect("a file");
    fs::write(source.join("docs/added.txt"), "new").expect("a file");
    fs::remove_file(source.join("docs/deep/copy.bin")).expect("removed");
    bed.backup(&["--time", "2026-03-02 10:00:00"]).succeeds();
    bed
}

/// Every page, with what it must say.
#[test]
fn every_page_shows_what_is_in_the_repository() {
    let bed = two_snapshots();
    let served = Served::start(&bed, &[]);
    let source = bed.source();
    let docs = source.join("docs");
    let base = "/repository/repository";
    for (target, says) in [
        (
            base.to_owned(),
            &["2026-03-01", "2026-03-02", "first", "March 2026"][..],
        ),
        (format!("{base}?tag=first"), &["2026-03-01 10:00"]),
        (format!("{base}?day=2026-03-02"), &["Monday, 2 March 2026"]),
        (
            served.of("files", &docs),
            &["plan.md", "added.txt", "deep", "download"],
        ),
        (
            served.of("files", &docs.join("plan.md")),
            &["TWO", "All versions"],
        ),
        (
            served.of("files", &docs.join("deep/data.bin")),
            &["00000000", "300,000 bytes"],
        ),
        (
            served.of("files", &source.join("pointer")),
            &["Leads to", "docs/notes.txt"],
        ),
        (
            format!("{base}/versions{}", docs.join("plan.md").display()),
            &["Differences", "the first"],
        ),
        (
            format!("{base}/search?q=PLAN"),
            &["plan.md", "1 path in 2 snapshots"],
        ),
        (format!("{base}/search?q=copy.bin"), &["gone since"]),
        (
            format!("{base}/retention?keep-last=1&group-by=host"),
            &["be removed", "last snapshot"],
        ),
        (
            format!("{base}/retention?keep-last=many&group-by="),
            &["no number of snapshots"],
        ),
        (
            format!("{base}/jobs"),
            &["--allow-jobs", "check --read-data"],
        ),
        (format!("{base}/redundancy"), &["at one place"]),
        (
            format!("{base}/restore?snapshot=latest&path={}", docs.display()),
            &["--allow-restore"],
        ),
    ] {
        let text = served.page(&target);
        for says in says {
            assert!(text.contains(says), "{target}: no {says:?} in {text}");
        }
        assert!(!text.contains(PASSWORD), "{target}");
    }
    let one = served.page(&format!("{base}?tag=first"));
    assert!(!one.contains("2026-03-02 10:00"));
}

#[test]
fn two_snapshots_are_compared_down_to_the_line() {
    let bed = two_snapshots();
    let served = Served::start(&bed, &[]);
    let ids: Vec<String> = bed.run(["snapshots", "--json"]).json()[0]
        .as_array()
        .expect("a list")
        .iter()
        .map(|snapshot| snapshot["id"].as_str().expect("an ID").to_owned())
        .collect();
    let compare = |path: &str| {
        let (a, b) = (&ids[0], &ids[1]);
        served.page(&format!(
            "/repository/repository/compare?a={a}&b={b}&path={path}"
        ))
    };
    let docs = bed.source().join("docs").display().to_string();
    let text = compare(&docs);
    for says in [
        "1 file added",
        "1 removed",
        "1 changed",
        "added.txt",
        "changed below",
    ] {
        assert!(text.contains(says), "no {says} in {text}");
    }
    let lines = compare(&format!("{docs}/plan.md"));
    assert!(
        lines.contains(">two<") && lines.contains(">TWO<"),
        "{lines}"
    );
    assert!(compare("/nowhere").contains("Neither of them"));
    assert!(compare(&format!("{docs}/notes.txt")).contains("Both are the same"));
}

/// Downloads have the bytes, whole and in parts, and archives unpack to the tree.
#[test]
fn downloads_are_what_was_backed_up() {
    let bed = two_snapshots();
    let served = Served::start(&bed, &[]);
    let source = bed.source();
    let file = served.of("raw", &source.join("docs/deep/data.bin"));
    let whole = served.get(&file);
    assert!(whole.body == varied(300_000));
    assert_eq!(whole.header("content-type"), "application/octet-stream");
    assert!(
        whole
            .header("content-disposition")
            .starts_with("attachment; filename=\"data.bin\"")
    );
    assert!(whole.header("content-security-policy").contains("sandbox"));
    let ask = |range: &str| {
        let headers = [("Cookie", &served.cookie[..]), ("Range", range)];
        http::request(served.address, "GET", &file, &headers, b"")
    };
    let part = ask("bytes=299990-");
    assert_eq!((part.status, part.body.len()), (206, 10));
    assert!(part.body == varied(300_000)[299_990..]);
    assert_eq!(part.header("content-range"), "bytes 299990-299999/300000");
    assert_eq!(ask("bytes=300000-").status, 416);
    let head = http::request(
        served.address,
        "HEAD",
        &file,
        &[("Cookie", &served.cookie)],
        b"",
    );
    assert_eq!(
        (head.header("content-length"), head.body.len()),
        ("300000", 0)
    );

    for (form, program) in [
        ("tar", &["tar", "-xf", "-"][..]),
        ("zip", &["python3", "-c", UNZIP]),
    ] {
        let archive = served.get(&served.of(form, &source.join("docs")));
        assert_eq!(archive.status, 200);
        let target = bed.path(form);
        fs::create_dir(&target).expect("made");
        let file = bed.path(&format!("archive.{form}"));
        fs::write(&file, &archive.body).expect("written");
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).current_dir(&target);
        let unpacked = command
            .stdin(fs::File::open(&file).expect("there"))
            .stdout(Stdio::null());
        if unpacked.status().is_ok_and(|status| status.success()) {
            let docs = crate::bed::restored(&target, &source.join("docs"));
            assert!(fs::read(docs.join("deep/data.bin")).expect("there") == varied(300_000));
            assert_eq!(
                fs::read_to_string(docs.join("plan.md")).expect("there"),
                "one\nTWO\nthree\n"
            );
        } else {
            tabane_testing::not_checked(form, format!("{program:?} does not unpack it"));
        }
    }
}

/// Unpacks a zip archive of standard input, and checks its sums.
const UNZIP: &str = "
import io, sys, zipfile
archive = zipfile.ZipFile(io.BytesIO(sys.stdin.buffer.read()))
assert archive.testzip() is None
archive.extractall()
";

/// Serves two repositories of a configuration file, of which one is away.
pub fn home_and_away(bed: &Bed) -> Served {
    let file = bed.path("config.toml");
    let password = bed.path("password");
    fs::write(&password, PASSWORD).expect("written");
    let (url, away) = (bed.repository(), bed.path("away"));
    let text = format!(
        "[repositories.home]\nurl = {url:?}\npassword-file = {password:?}\n\
         [repositories.away]\nurl = {away:?}\npassword-file = {password:?}\n\
         [profiles.daily]\nrepo = \"@home\"\n[profiles.daily.backup]\npaths = [{url:?}]\n"
    );
    fs::write(&file, text).expect("written");
    let config = file.display().to_string();
    Served::start_with(bed, &["--config", &config], |command| {
        command.env_remove("TABANE_REPOSITORY");
    })
}

#[test]
fn all_repositories_of_the_configuration_file_are_shown() {
    let bed = two_snapshots();
    let served = home_and_away(&bed);
    let text = served.page("/");
    for says in ["home", "away", "no answer", "There is no repository at"] {
        assert!(text.contains(says), "no {says} in {text}");
    }
    let jobs = served.page("/repository/home/jobs");
    assert!(jobs.contains("--profile daily backup"), "{jobs}");
    let away = served.get("/repository/away");
    assert_eq!(away.status, 503);
    assert!(away.text().contains("tabane init"), "{}", away.text());
    assert_eq!(served.get("/repository/none").status, 404);
}

/// A repository that is gone, or has another password, is said to be so on each page, and comes
/// back by itself.
#[test]
fn a_repository_that_goes_away_is_missed_and_comes_back() {
    let bed = two_snapshots();
    let served = Served::start(&bed, &[]);
    served.page("/repository/repository");
    let aside = bed.path("aside");
    fs::rename(bed.repository(), &aside).expect("moved");
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let answer = served.get("/repository/repository");
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(served.get(&served.of("files", &bed.source())).status >= 500);
    fs::rename(&aside, bed.repository()).expect("moved");
    served.page("/repository/repository");
    let locked = Served::start_with(&bed, &[], |command| {
        command.env("TABANE_PASSWORD", "another one");
    });
    for target in ["/repository/repository", "/repository/repository/jobs"] {
        let answer = locked.get(target);
        let text = answer.text();
        assert!(
            text.contains("rong password") && !text.contains("another one"),
            "{text}"
        );
    }
}

/// A snapshot that is forgotten and pruned while somebody looks at it.
#[test]
fn what_was_pruned_meanwhile_is_said_to_be_gone() {
    let bed = two_snapshots();
    let served = Served::start(&bed, &[]);
    let page = served.page("/repository/repository?tag=first");
    let id = page.split("/repository/repository/").find_map(|rest| {
        let id = rest.split('/').next()?;
        (id.len() == 64).then(|| id.to_owned())
    });
    let id = id.expect("a link to the snapshot");
    let gone = format!(
        "/repository/repository/{id}/raw{}",
        bed.source().join("docs/deep/copy.bin").display()
    );
    assert_eq!(served.get(&gone).status, 200);
    bed.run(["forget", &id, "--prune", "--grace", "0s", "--quiet"])
        .succeeds();
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let answer = served.get(&gone);
    assert_eq!(answer.status, 404, "{}", answer.text());
    assert!(
        answer.text().contains("tabane snapshots"),
        "{}",
        answer.text()
    );
}

#[test]
fn the_server_ends_well_and_refuses_what_is_unsafe() {
    let bed = two_snapshots();
    let served = Served::start(&bed, &[]);
    assert_eq!(served.stop(), Some(0));
    bed.run(["web", "--listen", "0.0.0.0:0"])
        .fails(2, "--tls-cert");
    let served = Served::start(&bed, &[]);
    let listen = served.address.to_string();
    bed.run(["web", "--listen", &listen])
        .fails(1, "cannot listen");
    bed.run(["web", "--allow-restore", "/nowhere/at/all"])
        .fails(1, "cannot restore into");
}
