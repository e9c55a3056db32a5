//! The files as WebDAV.

use tabane_testing::http::{Answer, request};

use super::pages::two_snapshots;
use super::served::Served;

/// Asks with the token as password, as programs do.
fn ask(
    served: &Served,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let login = base64(format!("anybody:{}", served.token()).as_bytes());
    let login = format!("Basic {login}");
    let headers: Vec<_> = headers
        .iter()
        .copied()
        .chain([("Authorization", &login[..])])
        .collect();
    request(served.address, method, target, &headers, body.as_bytes())
}

fn base64(bytes: &[u8]) -> String {
    use base64::prelude::{BASE64_STANDARD, Engine};
    BASE64_STANDARD.encode(bytes)
}

#[test]
fn programs_find_and_read_files() {
    let bed = two_snapshots();
    let served = Served::start(&bed, &[]);
    let list = |target: &str| ask(&served, "PROPFIND", target, &[("Depth", "1")], "");
    let top = list("/dav");
    assert_eq!(top.status, 207, "{}", top.text());
    assert!(
        top.text().contains("<D:href>/dav/repository/</D:href>"),
        "{}",
        top.text()
    );
    let views = list("/dav/repository/");
    for view in ["ids", "snapshots", "hosts", "tags"] {
        assert!(
            views.text().contains(&format!("/dav/repository/{view}/")),
            "{}",
            views.text()
        );
    }
    let docs = format!(
        "/dav/repository/snapshots/latest{}/docs",
        bed.source().display()
    );
    let listed = list(&docs).text();
    assert!(
        listed.contains("plan.md</D:href>") && listed.contains("<D:collection/>"),
        "{listed}"
    );
    let file = format!("{docs}/plan.md");
    let own = ask(&served, "PROPFIND", &file, &[("Depth", "0")], WANTED).text();
    assert!(
        own.contains("<D:getcontentlength>14</D:getcontentlength>"),
        "{own}"
    );
    assert!(
        own.contains("<quota xmlns=\"urn:x\"/>") && own.contains("404 Not Found"),
        "{own}"
    );
    let read = ask(&served, "GET", &file, &[], "");
    assert_eq!(read.text(), "one\nTWO\nthree\n");
    assert!(read.header("last-modified").ends_with(" GMT"));
    let options = ask(&served, "OPTIONS", "/dav/", &[], "");
    assert_eq!((options.status, options.header("dav")), (200, "1"));
}

const WANTED: &str = "<?xml version=\"1.0\"?><a:propfind xmlns:a=\"DAV:\" xmlns:x=\"urn:x\">\
                      <a:prop><a:getcontentlength/><x:quota/></a:prop></a:propfind>";

#[test]
fn nothing_can_be_written_and_nobody_reads_without_the_token() {
    let bed = two_snapshots();
    let served = Served::start(&bed, &[]);
    for method in [
        "PUT",
        "DELETE",
        "MKCOL",
        "MOVE",
        "COPY",
        "LOCK",
        "PROPPATCH",
        "POST",
    ] {
        let answer = ask(&served, method, "/dav/repository/ids/x", &[], "x");
        assert_eq!(answer.status, 405, "{method}");
        assert!(answer.header("allow").contains("PROPFIND"));
    }
    let deep = ask(&served, "PROPFIND", "/dav/", &[("Depth", "infinity")], "");
    assert_eq!(deep.status, 403);
    assert_eq!(
        ask(&served, "PROPFIND", "/dav/", &[("Depth", "0")], "<x").status,
        400
    );
    assert_eq!(ask(&served, "GET", "/dav/repository/", &[], "").status, 400);
    assert_eq!(
        ask(&served, "PROPFIND", "/dav/none/", &[("Depth", "0")], "").status,
        404
    );
    let none = request(served.address, "PROPFIND", "/dav/", &[("Depth", "0")], b"");
    assert_eq!(none.status, 401);
    assert!(none.header("www-authenticate").starts_with("Basic"));
    for login in ["Basic", "Basic !!", "Basic YTpi", "Bearer x"] {
        let headers = [("Depth", "0"), ("Authorization", login)];
        assert_eq!(
            request(served.address, "PROPFIND", "/dav/", &headers, b"").status,
            401,
            "{login}"
        );
    }
}
