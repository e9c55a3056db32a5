//! The page over TLS, for people who have a certificate and for people who have none.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use tabane_testing::not_checked;

use super::pages::two_snapshots;
use super::served::Served;

const PAGE: &str = "repository/repository";

const LINE_TIMEOUT: Duration = Duration::from_secs(20);

type Authority = CertifiedIssuer<'static, KeyPair>;

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// An authority, whose certificate is in `file`.
fn authority(file: &Path) -> Authority {
    let mut params = params("authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let authority = CertifiedIssuer::self_signed(params, key).expect("a certificate");
    fs::write(file, authority.pem()).expect("written");
    authority
}

/// Writes a certificate for `name` until the year `until`, and its key, into `file`.
fn issue(authority: &Authority, name: &str, until: i32, file: &Path) {
    let mut params = params(name);
    params.not_after = date_time_ymd(until, 1, 1);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, authority).expect("signed");
    fs::write(file, certificate.pem() + &key.serialize_pem()).expect("written");
}

/// The line that says `why`: the client may have its answer before the line is written.
fn wait_for_line(log: &Path, why: &str) -> String {
    let until = Instant::now() + LINE_TIMEOUT;
    loop {
        let text = fs::read_to_string(log).expect("there");
        if let Some(line) = text.lines().find(|line| line.contains(why)) {
            return line.to_owned();
        }
        assert!(Instant::now() < until, "{why}: {text}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Who has a certificate of the authority is let in without a password; others are refused, and
/// the terminal says who and why.
#[test]
fn certificates_of_the_authority_let_in() {
    let bed = two_snapshots();
    let [ours_file, server, good, expired, foreign, log] =
        ["ca", "server", "good", "expired", "foreign", "log"].map(|name| bed.path(name));
    let ours = authority(&ours_file);
    issue(&ours, "127.0.0.1", 4000, &server);
    issue(&ours, "ada", 4000, &good);
    issue(&ours, "ada", 2020, &expired);
    issue(&authority(&bed.path("other-ca")), "ada", 4000, &foreign);
    let [ours, server, good, expired, foreign] =
        [ours_file, server, good, expired, foreign].map(|file| file.display().to_string());
    let tls = [
        "--tls-cert",
        &server,
        "--tls-key",
        &server,
        "--client-ca",
        &ours,
    ];
    let served = Served::start_with(&bed, &tls, |command| {
        command.stderr(fs::File::create(&log).expect("made"));
    });
    assert!(
        !served.with_token.contains("token"),
        "{}",
        served.with_token
    );
    let ask = |certificate: &[&str]| {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--max-time", "20", "--cacert", &ours])
            .args(certificate);
        curl.arg(format!("{}{PAGE}", served.with_token)).output()
    };
    let Ok(shown) = ask(&["--cert", &good]) else {
        not_checked("certificates of browsers", "curl is not installed");
        return;
    };
    let page = String::from_utf8_lossy(&shown.stdout);
    assert!(page.contains("2026-03-02"), "{page}{shown:?}");
    for (certificate, why) in [
        (None, "it has no certificate"),
        (Some(&expired), "its certificate has expired"),
        (Some(&foreign), "not of an authority that is accepted here"),
    ] {
        let certificate: Vec<&str> = certificate.map_or(Vec::new(), |file| vec!["--cert", file]);
        let refused = ask(&certificate).expect("curl is there");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(
            refused.stdout.is_empty() && said.contains("alert"),
            "{why}: {said}"
        );
        let line = wait_for_line(&log, why);
        assert!(
            line.contains("a client at 127.0.0.1 was refused: "),
            "{line}"
        );
    }
}
