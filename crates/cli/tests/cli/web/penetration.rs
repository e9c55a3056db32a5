//! What an attacker would try: the list, as tests.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tabane_testing::http::{self, request};

use super::pages::two_snapshots;
use super::served::Served;

const PAGE: &str = "/repository/repository";

/// Nothing is shown to who has no session, but the login and the files of the page.
#[test]
fn nothing_is_shown_without_the_token() {
    let bed = two_snapshots();
    let served = Served::start(&bed, &["--allow-jobs"]);
    let ask = |target: &str, headers: &[(&str, &str)]| {
        request(served.address, "GET", target, headers, b"")
    };
    for target in [
        "/",
        PAGE,
        "/repository/repository/search/hits?q=a",
        "/nowhere",
        "/?token=",
        "/?x",
    ] {
        let answer = ask(target, &[]);
        assert!(
            matches!(answer.status, 303 | 403),
            "{target}: {}",
            answer.status
        );
        assert!(!answer.text().contains("plan.md"), "{target}");
    }
    assert_eq!(ask("/login", &[]).status, 200);
    let style = served.page("/login");
    let style = style
        .split("href=\"/assets/")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    assert_eq!(
        ask(&format!("/assets/{}", style.expect("a style")), &[]).status,
        200
    );
    // Sessions that nobody has.
    let name = served.cookie.split('=').next().expect("a name");
    for value in [
        "",
        "00",
        &"0".repeat(64),
        &"z".repeat(64),
        &"0".repeat(10_000),
    ] {
        let cookie = format!("{name}={value}");
        assert_eq!(ask(PAGE, &[("Cookie", &cookie)]).status, 303, "{value}");
    }
    let wrong = ask(&format!("/?token={}x", served.token()), &[]);
    assert_eq!((wrong.status, wrong.header("set-cookie")), (403, ""));
}

/// The cookie is for this server's pages alone, and no script sees it.
#[test]
fn the_session_is_kept_to_itself() {
    let bed = two_snapshots();
    let served = Served::start(&bed, &[]);
    let target = format!("/?token={}", served.token());
    let entered = request(served.address, "GET", &target, &[], b"");
    let cookie = entered.header("set-cookie");
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
        "{cookie}"
    );
    assert!(
        cookie.contains(&served.address.port().to_string()),
        "{cookie}"
    );
    // The token is nowhere but in the address that was printed.
    assert!(!entered.text().contains(served.token()));
    assert!(!served.page(PAGE).contains(served.token()));
    // After logging out the cookie is worth nothing.
    assert_eq!(served.send("/logout", "").status, 303);
    assert_eq!(served.get(PAGE).status, 303);
}

/// DNS rebinding: a page elsewhere, whose name leads here, is not answered.
#[test]
fn other_names_for_this_server_are_refused() {
    let bed = two_snapshots();
    let served = Served::start(&bed, &["--host", "backup.example:8443"]);
    let port = served.address.port();
    let ask = |host: &str| {
        let headers = [("Host", host), ("Cookie", &served.cookie)];
        request(served.address, "GET", PAGE, &headers, b"").status
    };
    for own in [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        "backup.example:8443".to_owned(),
    ] {
        assert_eq!(ask(&own), 200, "{own}");
    }
    for other in [
        format!("evil.example:{port}"),
        format!("127.0.0.1.evil.example:{port}"),
        "127.0.0.1".to_owned(),
        "localhost:1".to_owned(),
        "backup.example".to_owned(),
        format!("user@127.0.0.1:{port}"),
    ] {
        assert!(matches!(ask(&other), 400 | 421), "{other}");
    }
    // Two names, and none at all.
    let own = served.address.to_string();
    let headers = [
        ("Host", &own[..]),
        ("Host", "evil.example"),
        ("Cookie", &served.cookie),
    ];
    assert!(request(served.address, "GET", PAGE, &headers, b"").status >= 400);
    let mut stream = TcpStream::connect(served.address).expect("it listens");
    stream
        .write_all(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
        .expect("it reads");
    assert!(http::answer(stream).status >= 400);
}

/// CSRF: forms count only from a page of this server and of the same session.
#[test]
fn forms_of_others_do_nothing() {
    let bed = two_snapshots();
    let served = Served::start(&bed, &["--allow-jobs"]);
    let jobs = format!("{PAGE}/jobs");
    let own = format!("http://{}", served.address);
    let token = served.page(&jobs);
    let token = token
        .split("name=\"form-token\" value=\"")
        .nth(1)
        .expect("a token");
    let token = token.split('"').next().expect("quoted");
    let body = format!("form-token={token}&offer=check");
    for headers in [
        &[][..],
        &[("Origin", "http://evil.example")],
        &[("Origin", "null")],
        &[("Origin", &own[..]), ("Sec-Fetch-Site", "cross-site")],
        &[("Origin", &own[..]), ("Sec-Fetch-Site", "same-site")],
        &[("Sec-Fetch-Site", "none")],
    ] {
        let headers: Vec<_> = headers
            .iter()
            .copied()
            .chain([("Cookie", &served.cookie[..])])
            .collect();
        let answer = request(served.address, "POST", &jobs, &headers, body.as_bytes());
        assert_eq!(answer.status, 403, "{headers:?}");
    }
    // From here, but with the token of another session, or none.
    let other = Served::start(&bed, &["--allow-jobs"]);
    let stolen = other.page(&jobs);
    let stolen = stolen
        .split("name=\"form-token\" value=\"")
        .nth(1)
        .expect("a token");
    let stolen = stolen.split('"').next().expect("quoted");
    for body in [
        "offer=check".to_owned(),
        format!("form-token={stolen}&offer=check"),
    ] {
        assert_eq!(served.send(&jobs, &body).status, 403);
    }
    assert!(served.page(&jobs).contains("has started nothing"));
    // Nothing is started by an address alone.
    assert_eq!(served.get(&format!("{PAGE}/jobs/1/cancel")).status, 405);
    assert_eq!(served.send(&jobs, &body).status, 303);
}

/// Path traversal: names lead nowhere but into the snapshot.
#[test]
fn no_path_leads_out() {
    let bed = two_snapshots();
    let served = Served::start(&bed, &[]);
    let base = "/repository/repository/latest";
    for path in [
        "../../../../etc/passwd",
        "%2e%2e/%2e%2e/etc/passwd",
        "..%2f..%2fetc%2fpasswd",
        "%2fetc%2fpasswd",
        "etc/passwd%00.txt",
        "./etc/passwd",
        "....//etc/passwd",
        "\\..\\..\\etc\\passwd",
    ] {
        for what in ["raw", "files", "tar", "zip", "show"] {
            let answer = served.get(&format!("{base}/{what}/{path}"));
            assert!(
                matches!(answer.status, 404 | 400),
                "{what} {path}: {}",
                answer.status
            );
            assert!(!answer.text().contains("root:"), "{path}");
        }
    }
    for target in [
        "/assets/x/../../Cargo.toml",
        "/assets/x/%2e%2e%2fCargo.toml",
        "/assets/x/style.css%00",
        "/repository/../../etc",
        "/dav/../etc/passwd",
        "/dav/repository/%2e%2e/x",
    ] {
        assert!(served.get(target).status >= 300, "{target}");
    }
}

/// Every answer has the headers that keep a browser from running or leaking anything, and no page
/// has styles or scripts in it.
#[test]
fn every_answer_is_hardened() {
    let bed = two_snapshots();
    let served = Served::start(&bed, &["--allow-jobs", "--allow-restore", "/tmp"]);
    let docs = bed.source().join("docs");
    let id = "latest";
    for target in [
        "/login".to_owned(),
        PAGE.to_owned(),
        format!("{PAGE}/nowhere"),
        format!("{PAGE}/search?q=%3Cscript%3Ealert(1)%3C/script%3E"),
        format!("{PAGE}/compare"),
        format!("{PAGE}/retention"),
        format!("{PAGE}/jobs"),
        format!("{PAGE}/redundancy"),
        format!("{PAGE}/restore?snapshot={id}&path={}", docs.display()),
        served.of("files", &docs),
        served.of("files", &docs.join("plan.md")),
        served.of("raw", &docs.join("plan.md")),
        "/nowhere".to_owned(),
    ] {
        let answer = served.get(&target);
        let policy = answer.header("content-security-policy");
        assert!(
            policy.contains("default-src 'none'") && !policy.contains("unsafe"),
            "{target}"
        );
        assert!(policy.contains("frame-ancestors 'none'"), "{target}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "same-origin"),
            ("cache-control", "no-store"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), value, "{target}");
        }
        if answer.header("content-type").starts_with("text/html") {
            let text = answer.text();
            for bad in [
                " style=",
                " onclick=",
                " onload=",
                "<script>",
                "javascript:",
                "<style",
            ] {
                assert!(!text.contains(bad), "{target}: {bad}");
            }
        }
    }
}

/// Header injection: what comes from an address stands in no header.
#[test]
fn no_line_breaks_get_into_headers() {
    let bed = two_snapshots();
    let served = Served::start(&bed, &["--allow-jobs"]);
    for target in [
        "/repository/x%0d%0aSet-Cookie:%20a=b",
        "/repository/repository/latest%0d%0aX:%20y/files",
        "/repository/repository/jobs/1%0d%0aX:%20y",
        "/dav/x%0d%0aX:%20y",
    ] {
        let answer = served.get(target);
        assert!(answer.header("x").is_empty() && answer.header("set-cookie").is_empty());
        assert!(answer.status >= 400, "{target}");
    }
    // Two requests in one, with lengths that contradict each other.
    let mut stream = TcpStream::connect(served.address).expect("it listens");
    let smuggled = format!(
        "POST /login HTTP/1.1\r\nHost: {}\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\
         Connection: close\r\n\r\n0\r\n\r\nGET {PAGE} HTTP/1.1\r\nCookie: {}\r\n\r\n",
        served.address, served.cookie
    );
    stream.write_all(smuggled.as_bytes()).expect("it reads");
    let mut text = String::new();
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a socket");
    let _ = stream.read_to_string(&mut text);
    assert!(!text.contains("Snapshots"), "{text}");
}

/// A thousand connections that say nothing do not keep a page from who asks for it, and long heads
/// and forms are refused.
#[test]
fn many_and_long_requests_hold_nobody_up() {
    let bed = two_snapshots();
    let served = Served::start(&bed, &["--allow-jobs"]);
    let idle: Vec<TcpStream> = (0..1000)
        .map(|number| {
            let mut stream = TcpStream::connect(served.address).expect("it listens");
            // Half of them begin a request and never end it.
            if number % 2 == 0 {
                stream
                    .write_all(b"GET / HTTP/1.1\r\nHost: ")
                    .expect("it reads");
            }
            stream
        })
        .collect();
    served.page(PAGE);
    drop(idle);
    let long = "x".repeat(1 << 20);
    let mut stream = TcpStream::connect(served.address).expect("it listens");
    let _ = stream.write_all(format!("GET /{long} HTTP/1.1\r\n").as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(
        !answer.starts_with(b"HTTP/1.1 200"),
        "{:?}",
        String::from_utf8_lossy(&answer)
    );
    let body = format!("form-token=x&offer={long}");
    assert!(matches!(
        served.send(&format!("{PAGE}/jobs"), &body).status,
        400 | 403
    ));
    served.page(PAGE);
}

/// With a certificate and a password, others may connect; without the password they see nothing.
#[test]
fn a_password_keeps_others_out() {
    let bed = two_snapshots();
    let file = bed.path("page-password");
    std::fs::write(&file, "open sesame\n").expect("written");
    let args = ["--web-password-file", &file.display().to_string()];
    let served = Served::start_with(&bed, &args, |_| {});
    assert!(
        !served.with_token.contains("token"),
        "{}",
        served.with_token
    );
    assert_eq!(served.get(PAGE).status, 303);
    assert_eq!(served.send("/login", "secret=wrong").status, 403);
    let entered = served.send("/login", "secret=open+sesame");
    let cookie = entered
        .header("set-cookie")
        .split(';')
        .next()
        .expect("a cookie");
    let answer = request(served.address, "GET", PAGE, &[("Cookie", cookie)], b"");
    assert_eq!(answer.status, 200);
}
