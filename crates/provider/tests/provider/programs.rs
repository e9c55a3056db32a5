//! Programs that know nothing of the provider.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tabane_testing::openssl::libcrypto::configuration;

/// Whether there is an `openssl` command of OpenSSL 3. Says so if not.
fn openssl_is_here() -> bool {
    let version = Command::new("openssl").arg("version").output();
    let here = version.is_ok_and(|output| output.stdout.starts_with(b"OpenSSL 3."));
    if !here {
        println!("NOT CHECKED: the provider in the openssl command, for OpenSSL 3 is missing");
    }
    here
}

/// A folder with a configuration, a certificate and its key.
struct Bed {
    folder: tempfile::TempDir,
}

impl Bed {
    fn new() -> Self {
        let bed = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let report = bed.path("report");
        let text = configuration(&format!("hashes = yes\nreport = {}", report.display()));
        std::fs::write(bed.path("conf"), text).unwrap();
        bed
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command in the folder, with our provider.
    fn ours(&self, program: &str, args: &[&str]) -> Command {
        let mut command = self.theirs(program, args);
        command.env("OPENSSL_CONF", self.path("conf"));
        command
    }

    /// A command in the folder, without it.
    fn theirs(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.folder.path());
        command
    }

    fn forget(&self) {
        let _ = std::fs::remove_file(self.path("report"));
    }

    /// What programs have used of the provider, which makes the file with the first line.
    fn used(&self) -> String {
        std::fs::read_to_string(self.path("report")).unwrap_or_default()
    }

    fn make_certificate(&self) {
        let args = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key -out \
        cert -subj /CN=localhost";
        let args: Vec<_> = args.split(' ').collect();
        succeeds(self.ours("openssl", &args));
    }
}

fn succeeds(mut command: Command) -> Vec<u8> {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    output.stdout
}

/// Whether the provider offers ciphers on this processor: the portable backend offers none.
fn ciphers_are_offered() -> bool {
    tabane_lanes::aes::Backend::fastest() > tabane_lanes::aes::Backend::Portable
}

#[test]
fn openssl_dgst() {
    if !openssl_is_here() {
        return;
    }
    let bed = Bed::new();
    let file = std::env::current_exe().unwrap();
    for hash in ["-md5", "-sha1", "-sha224", "-sha256", "-sha384", "-sha512"] {
        let args = ["dgst", hash, file.to_str().unwrap()];
        let expected = succeeds(bed.theirs("openssl", &args));
        assert_eq!(succeeds(bed.ours("openssl", &args)), expected);
    }
}

#[test]
fn openssl_enc() {
    if !openssl_is_here() {
        return;
    }
    let bed = Bed::new();
    let plain: Vec<u8> = (0..100_001_u32)
        .map(|i| (i.wrapping_mul(i) >> 7) as u8)
        .collect();
    std::fs::write(bed.path("plain"), &plain).unwrap();
    for cipher in ["aes-128-cbc", "aes-256-cbc", "aes-192-ctr", "aes-256-ecb"] {
        let cipher_option = format!("-{cipher}");
        let args = |more: &[&'static str]| {
            let pass = [
                "enc",
                &cipher_option,
                "-pbkdf2",
                "-iter",
                "1",
                "-pass",
                "pass:word",
            ];
            let all = pass.iter().map(|arg| arg.to_string());
            all.chain(more.iter().map(|arg| arg.to_string()))
                .collect::<Vec<_>>()
        };
        bed.forget();
        let run = |command: fn(&Bed, &str, &[&str]) -> Command, more: &[&'static str]| {
            let args = args(more);
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            succeeds(command(&bed, "openssl", &args));
        };
        run(Bed::ours, &["-in", "plain", "-out", "sealed"]);
        run(Bed::theirs, &["-d", "-in", "sealed", "-out", "opened"]);
        assert!(
            std::fs::read(bed.path("opened")).unwrap() == plain,
            "{cipher} ours, theirs"
        );
        run(Bed::theirs, &["-in", "plain", "-out", "sealed"]);
        run(Bed::ours, &["-d", "-in", "sealed", "-out", "opened"]);
        assert!(
            std::fs::read(bed.path("opened")).unwrap() == plain,
            "{cipher} theirs, ours"
        );
        if ciphers_are_offered() {
            let used = bed.used().to_lowercase();
            assert!(used.contains(cipher), "{cipher} was not ours: {used:?}");
        }
    }
}

/// Ends the program when the test ends.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // So that it ends the processes that it has started, which it cannot when it is killed.
        // SAFETY: a child that has not been waited for.
        unsafe { libc::kill(self.0.id() as libc::pid_t, libc::SIGTERM) };
        let _ = self.0.wait();
    }
}

/// The `openssl` command serves, and another one asks: each with our provider and without.
#[test]
fn openssl_s_server_and_s_client() {
    if !openssl_is_here() {
        return;
    }
    let bed = Bed::new();
    bed.make_certificate();
    // The MAC before the cipher (which stitched ciphers of the default provider do not take away),
    // after it, and AEAD.
    let connections = [
        (
            "-tls1_2",
            "-cipher",
            "ECDHE-ECDSA-AES256-SHA384",
            "-no_etm",
            "AES-256-CBC",
        ),
        (
            "-tls1_2",
            "-cipher",
            "ECDHE-ECDSA-AES128-SHA",
            "-no_ticket",
            "AES-128-CBC",
        ),
        (
            "-tls1_2",
            "-cipher",
            "ECDHE-ECDSA-AES128-GCM-SHA256",
            "-no_ticket",
            "AES-128-GCM",
        ),
        (
            "-tls1_3",
            "-ciphersuites",
            "TLS_AES_256_GCM_SHA384",
            "-no_ticket",
            "AES-256-GCM",
        ),
    ];
    for (version, option, ciphers, more, cipher) in connections {
        for (server_is_ours, client_is_ours) in [(true, true), (true, false), (false, true)] {
            let what = format!(
                "{ciphers} {more}, server ours: {server_is_ours}, client: {client_is_ours}"
            );
            bed.forget();
            let command = |ours, args: &[&str]| {
                if ours {
                    bed.ours("openssl", args)
                } else {
                    bed.theirs("openssl", args)
                }
            };
            // Somebody else may take the port in between; then the server ends, and the next one is
            // tried.
            let (server, address) = (0..5)
                .find_map(|_| {
                    let free = TcpListener::bind("127.0.0.1:0").unwrap();
                    let address = free.local_addr().unwrap().to_string();
                    drop(free);
                    let args = [
                        "s_server", "-accept", &address, "-cert", "cert", "-key", "key", "-www",
                        version, more,
                    ];
                    let child = command(server_is_ours, &args)
                        .stdin(Stdio::null())
                        .stdout(Stdio::null())
                        .stderr(Stdio::null())
                        .spawn()
                        .unwrap();
                    let mut server = Server(child);
                    let start = Instant::now();
                    while server.0.try_wait().unwrap().is_none() {
                        assert!(
                            start.elapsed() < Duration::from_secs(20),
                            "{what}: no server"
                        );
                        if TcpStream::connect(&address).is_ok() {
                            return Some((server, address));
                        }
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    None
                })
                .expect("a server");
            let args = [
                "s_client", "-connect", &address, version, option, ciphers, "-quiet", more,
            ];
            let mut client = command(client_is_ours, &args)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut input = client.stdin.take().unwrap();
            input.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
            let output = client.wait_with_output().unwrap();
            drop(input);
            let page = String::from_utf8_lossy(&output.stdout);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(
                page.contains("200 ok") && page.contains(ciphers),
                "{what}: {page}{errors}"
            );
            drop(server);
            if ciphers_are_offered() {
                let used = bed.used();
                assert!(
                    used.contains(cipher),
                    "{what}: {cipher} was not ours: {used:?}"
                );
            }
        }
    }
}

/// A program that forks when its contexts are made, with every kind of connection.
#[test]
fn python_ssl_prefork() {
    let python = Command::new("python3")
        .args(["-c", "import ssl, hashlib"])
        .status();
    if !python.is_ok_and(|status| status.success()) || !openssl_is_here() {
        return println!("NOT CHECKED: the provider in Python, for python3 with ssl is missing");
    }
    let bed = Bed::new();
    bed.make_certificate();
    bed.forget();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/provider/prefork.py");
    let args = [
        script.to_str().unwrap(),
        "cert",
        "key",
        "TLSv1_2",
        "ECDHE-ECDSA-AES256-SHA384",
        "TLSv1_2",
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "TLSv1_3",
        "",
        "TLSv1_3",
        "",
    ];
    let output = succeeds(bed.ours("python3", &args));
    let output = String::from_utf8(output).unwrap();
    assert_eq!(output.lines().count(), 4, "{output}");
    if ciphers_are_offered() {
        let used = bed.used();
        for cipher in ["AES-256-CBC", "AES-128-GCM", "AES-256-GCM"] {
            assert!(used.contains(cipher), "{cipher} was not ours: {used:?}");
        }
    }
}

/// Asks of each hash that Python knows.
#[test]
fn python_hashlib() {
    let script = "import hashlib\nfor name in ['md5', 'sha1', 'sha224', 'sha256', 'sha384', \
                  'sha512']:\n    a = hashlib.new(name, b'a' * 1000)\n    b = a.copy()\n    \
                  b.update(b'b' * 1000)\n    print(name, a.hexdigest(), b.hexdigest())";
    let bed = Bed::new();
    let args = ["-c", script];
    let expected = match bed.theirs("python3", &args).output() {
        Ok(output) if output.status.success() => output.stdout,
        _ => return println!("NOT CHECKED: the provider in Python, for python3 is missing"),
    };
    assert_eq!(succeeds(bed.ours("python3", &args)), expected);
}

/// A web server with several processes and a client with many connections at a time, both with our
/// provider: downloads with each kind of cipher, over connections that stay and over new ones.
///
/// `TABANE_PROVIDER_REQUESTS` is how many of each.
#[test]
fn curl_and_nginx() {
    let is_here = |name, option| {
        let output = Command::new(name).arg(option).output();
        output.is_ok_and(|output| output.status.success())
    };
    if !is_here("nginx", "-v") || !is_here("curl", "-V") || !openssl_is_here() {
        return println!("NOT CHECKED: the provider in curl and nginx, for one of them is missing");
    }
    let requests = match std::env::var("TABANE_PROVIDER_REQUESTS") {
        Ok(number) => number.parse().expect("a number"),
        Err(_) => 60,
    };
    let bed = Bed::new();
    bed.make_certificate();
    bed.forget();
    let page: Vec<u8> = (0..40_000_u32).map(|i| ((i * i) >> 5) as u8).collect();
    std::fs::write(bed.path("page"), &page).unwrap();
    let folder = bed.folder.path().display();
    // Somebody else may take the port in between; then the server ends, and the next one is tried.
    let (_server, port) = (0..5)
        .find_map(|_| {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            let configuration = format!(
                "daemon off; worker_processes 2; pid {folder}/pid; error_log {folder}/errors;\n\
                 events {{ worker_connections 200; }}\n\
                 http {{ access_log off; client_body_temp_path {folder}; proxy_temp_path \
                 {folder};\n\
                 fastcgi_temp_path {folder}; uwsgi_temp_path {folder}; scgi_temp_path {folder};\n\
                 server {{ listen 127.0.0.1:{port} ssl; ssl_protocols TLSv1.2 TLSv1.3; ssl_ciphers \
                 ALL;\n\
                 ssl_certificate {folder}/cert; ssl_certificate_key {folder}/key; root {folder}; \
                 }} }}\n"
            );
            std::fs::write(bed.path("nginx"), configuration).unwrap();
            let file = bed.path("nginx");
            // SAFETY: it needs nothing.
            let root = unsafe { libc::geteuid() } == 0;
            let user = if root { "user root;" } else { "" };
            let args = ["-p", ".", "-c", file.to_str().unwrap(), "-g", user];
            let child = bed
                .ours("nginx", &args)
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let mut server = Server(child);
            let start = Instant::now();
            while server.0.try_wait().unwrap().is_none() {
                assert!(start.elapsed() < Duration::from_secs(20), "no server");
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return Some((server, port));
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            None
        })
        .expect("a server");
    let ciphers = [
        ("ECDHE-ECDSA-AES256-SHA384", "1.2", "AES-256-CBC"),
        ("ECDHE-ECDSA-AES128-GCM-SHA256", "1.2", "AES-128-GCM"),
        ("TLS_AES_256_GCM_SHA384", "1.3", "AES-256-GCM"),
    ];
    for (name, version, cipher) in ciphers {
        for stay in [true, false] {
            bed.forget();
            let url = format!("https://127.0.0.1:{port}/page?[1-{requests}]");
            let option = if version == "1.2" {
                "--ciphers"
            } else {
                "--tls13-ciphers"
            };
            let mut args = vec![
                "-q",
                "-s",
                "-S",
                "--fail",
                "--insecure",
                "--parallel",
                "--parallel-max",
                "8",
                option,
                name,
                "--tls-max",
                version,
                "-w",
                "%{http_code} %{size_download}\n",
                "-o",
                "/dev/null",
                &url,
            ];
            if !stay {
                args.extend(["-H", "Connection: close"]);
            }
            let output = String::from_utf8(succeeds(bed.ours("curl", &args))).unwrap();
            let right = output.lines().filter(|&line| line == "200 40000").count();
            assert_eq!(right, requests, "{name}, stay: {stay}: {output}");
            if ciphers_are_offered() {
                let used = bed.used();
                assert!(
                    used.contains(cipher),
                    "{name}: {cipher} was not ours: {used:?}"
                );
            }
        }
        let got = succeeds(bed.ours(
            "curl",
            &[
                "-q",
                "-s",
                "--insecure",
                &format!("https://127.0.0.1:{port}/page"),
            ],
        ));
        assert!(got == page, "{name}");
    }
}
