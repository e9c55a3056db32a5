//! Names that try to be more than names.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use tabane_storage::{LocalStorage, Name, ObjectKind};
use tabane_store::entry::{Kind, Piece, Time};
use tabane_store::{Password, Repository, Timestamp};
use tabane_testing::crafted::{Crafter, directory, entry, file};

use super::served::Served;
use crate::bed::{Bed, PASSWORD};

const PAGE: &str = "/repository/repository";

/// Names as a hostile user of a machine could give to files.
fn names() -> Vec<Vec<u8>> {
    [
        &b"<script>alert(1)"[..],
        b"\"><img src=x onerror=alert(1)>",
        b"'; alert(1); '",
        b"<td><tr><table>",
        b"&lt;b&gt;",
        b"line\nbreak\r\nSet-Cookie: x=y",
        b"\x1b]0;title\x07",
        b"\xff\xfe\xc0\x80",
        "\u{202e}gnp.exe".as_bytes(),
        "\u{2066}\u{2067}isolates".as_bytes(),
        "zero\u{200b}width".as_bytes(),
        b"a%2fb%00c",
        b"?q=1#fragment",
        b"C:\\windows\\..\\..\\x",
        b"--help",
        b" leading and trailing ",
        b"{{7*7}}${7*7}",
    ]
    .iter()
    .map(|name| name.to_vec())
    .chain([vec![b'x'; 255]])
    .collect()
}

#[test]
fn names_on_a_page_are_text() {
    let bed = Bed::with_repository();
    let folder = bed.source().join("<b>bold<b>");
    fs::create_dir_all(&folder).expect("made");
    for name in names() {
        fs::write(folder.join(OsStr::from_bytes(&name)), b"inside").expect("written");
    }
    let tag = ["--tag", "<i>tag</i>"];
    let host = ["--host", "\"><script>host</script>"];
    let description = ["--description", "<i>\u{202e}words</i>"];
    bed.backup(&[tag, host, description].concat()).succeeds();
    let served = Served::start(&bed, &[]);
    let plain = served.page(&served.of("files", &bed.source()));
    let listing = served.page(&format!(
        "{}/%3Cb%3Ebold%3Cb%3E",
        served.of("files", &bed.source())
    ));
    for text in [
        &plain,
        &listing,
        &served.page(PAGE),
        &served.page(&format!("{PAGE}/search?q=*")),
    ] {
        for bad in [
            "<script>alert",
            "<img",
            "<b>",
            "<i>",
            "\u{202e}",
            "\x1b",
            "<script>host",
        ] {
            assert!(!text.contains(bad), "{bad:?} in {text}");
        }
    }
    assert!(listing.contains("&lt;script&gt;alert(1)"));
    assert!(listing.contains("\\u{202e}gnp.exe") && listing.contains("\\xff\\xfe"));
    // Each is found again by the link that the page has, and comes back as it is.
    let links: Vec<&str> = listing
        .split("href=\"")
        .filter_map(|rest| rest.split('"').next())
        .filter(|link| link.contains("/raw/"))
        .collect();
    assert_eq!(links.len(), names().len());
    for link in links {
        let answer = served.get(link);
        assert_eq!(
            (answer.status, &answer.body[..]),
            (200, &b"inside"[..]),
            "{link}"
        );
        assert!(answer.header("x").is_empty() && answer.header("set-cookie").is_empty());
        assert!(
            answer
                .header("content-disposition")
                .starts_with("attachment")
        );
    }
    for archive in ["tar", "zip"] {
        let target = format!("{}/%3Cb%3Ebold%3Cb%3E", served.of(archive, &bed.source()));
        let answer = served.get(&target);
        assert_eq!(answer.status, 200);
        let has = |bytes: &[u8]| answer.body.windows(bytes.len()).any(|part| part == bytes);
        assert!(has(b"<script>alert(1)"));
        assert!(archive == "tar" || !has(b"\\..\\"));
    }
}

/// What a client with a bug, or of an attacker, could have written: the page shows it, or says what
/// is wrong, and goes on.
#[test]
fn crafted_entries_change_nothing_but_text() {
    let bed = Bed::with_repository();
    let password: Password = PASSWORD.as_bytes().to_vec().into();
    let storage = LocalStorage::new(bed.repository());
    let repository = Repository::open(std::sync::Arc::new(storage), &password).expect("opened");
    let mut crafter = Crafter::new(&repository);
    let time = |s| Time { s, ns: 999_999_999 };
    let content = crafter.file(b"bytes");
    let mut far = file(b"far", content.clone());
    far.mtime = time(i64::MAX);
    let mut early = file(b"early", content.clone());
    early.mtime = time(i64::MIN);
    let hole = vec![Piece::Hole { len: u64::MAX - 1 }];
    let huge = Kind::File {
        size: u64::MAX - 1,
        content: hole,
    };
    let missing = Piece::Block {
        id: Default::default(),
        len: 5,
    };
    let loops = crafter.directory(&[file(b"leaf", content)]);
    let nested = (0..2000).fold(loops, |content, _| {
        crafter.directory(&[directory(b"d", content)])
    });
    let broken = crafter.raw_directory(b"no directory at all");
    let mut entries = vec![
        far,
        early,
        entry(b"huge", u32::MAX, huge),
        file(b"missing", vec![missing]),
        directory(b"missing-directory", vec![missing]),
        directory(b"nested", nested),
        directory(b"broken", broken),
        entry(
            b"link",
            0o777,
            Kind::Symlink {
                target: b"javascript:alert(1)".to_vec(),
            },
        ),
        entry(
            b"device",
            0o600,
            Kind::CharDevice {
                major: u32::MAX,
                minor: 7,
            },
        ),
        entry(b"pipe", 0o600, Kind::Fifo),
    ];
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let root = crafter.directory(&entries);
    let other = crafter.directory(&[entry(b"only", 0, Kind::Socket)]);
    crafter.flush();
    let now = Timestamp::now();
    crafter.snapshot(Timestamp::MAX, "future", other.clone());
    crafter.snapshot(Timestamp::MIN, "past", other);
    crafter.snapshot(now, "now", root);
    let garbage = Name::new(ObjectKind::Snapshot, Default::default());
    repository
        .storage()
        .put(garbage, &[b"garbage"])
        .expect("put");
    let served = Served::start(&bed, &[]);
    let text = served.page(PAGE);
    assert!(text.contains("note bad"), "{text}");
    let id = bed.run(["snapshots", "--json", "--host", "now"]);
    let id = id.json()[0][0]["id"].as_str().expect("an ID").to_owned();
    let at = |what: &str, path: &str| format!("{PAGE}/{id}/{what}{path}");
    let listing = served.page(&at("files", ""));
    assert!(
        listing.contains("16.0 EiB") && !listing.contains("href=\"javascript"),
        "{listing}"
    );
    for (target, status) in [
        (at("files", "/huge"), 200),
        (at("files", "/far"), 200),
        (at("files", "/link"), 200),
        (at("files", "/device"), 200),
        (at("files", "/missing"), 503),
        (at("files", "/missing-directory"), 503),
        (at("files", "/broken"), 503),
        (at("raw", "/pipe"), 400),
        (at("show", "/far"), 404),
        (at("files", &format!("/nested{}", "/d".repeat(1500))), 200),
        (format!("{PAGE}/search?q=leaf"), 200),
        (format!("{PAGE}/retention"), 200),
        (format!("{PAGE}/versions/far"), 200),
        (format!("{PAGE}/versions/broken/x"), 200),
        (format!("{PAGE}/compare?a={id}&b=latest&path=/"), 200),
        (at("files", "?sort=size&down="), 200),
        (at("files", "?skip=99999999999999999999"), 200),
        (
            format!("{PAGE}?skip=18446744073709551615&day=9999-99-99&until=-009999-01-01"),
            200,
        ),
    ] {
        let answer = served.get(&target);
        assert_eq!(answer.status, status, "{target}: {}", answer.text());
    }
    // The download ends when the browser does, whatever the length says.
    let head = tabane_testing::http::request(
        served.address,
        "HEAD",
        &at("raw", "/huge"),
        &[("Cookie", &served.cookie)],
        b"",
    );
    assert_eq!(head.header("content-length"), (u64::MAX - 1).to_string());
    served.page(PAGE);
}
