//! Programs that know nothing of the provider, beside an offload service.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use tabane_offload::{Ask, Server, ServerOptions, status};

use tabane_testing::openssl::libcrypto::configuration;
use tabane_testing::sandbox::forbid;

/// A service that is always asked, and a configuration that names it.
fn service(dir: &tempfile::TempDir) -> Server {
    let socket = dir.path().join("offload.sock");
    let settings = format!("offload = {}", socket.display());
    std::fs::write(dir.path().join("conf"), configuration(&settings)).unwrap();
    let options = ServerOptions {
        socket,
        mode: 0o600,
        clients_max: 16,
        ask: Ask::Always,
    };
    Server::start(options).unwrap()
}

/// Bytes and processes that the service has seen.
fn served(dir: &tempfile::TempDir) -> u64 {
    let status = status(&dir.path().join("offload.sock")).unwrap();
    assert!(status.clients.iter().all(|client| client.refused == 0));
    status.units.iter().map(|unit| unit.bytes).sum()
}

#[test]
fn processes_that_fork_are_served() {
    let python = Command::new("python3")
        .args(["-c", "import _hashlib"])
        .output();
    if !python.is_ok_and(|output| output.status.success()) {
        println!("NOT CHECKED: hashlib beside an offload service, for Python is missing");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let service = service(&dir);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/provider/offload.py");
    let output = Command::new("python3")
        .arg(script)
        .env("OPENSSL_CONF", dir.path().join("conf"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    // Each of five processes has 60 messages or more and may hash the first ones itself.
    let least = 5 * 30 * 200_000;
    assert!(served(&dir) > least, "{} of {least} bytes", served(&dir));
    service.stop();
}

#[test]
fn openssl_encrypts_with_a_service() {
    let openssl = Command::new("openssl").arg("version").output();
    if !openssl.is_ok_and(|output| output.stdout.starts_with(b"OpenSSL 3.")) {
        println!("NOT CHECKED: openssl beside an offload service, for OpenSSL 3 is missing");
        return;
    }
    if tabane_lanes::aes::Backend::fastest() == tabane_lanes::aes::Backend::Portable {
        println!("NOT CHECKED: AES beside an offload service, which this processor is too old for");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let service = service(&dir);
    let plain: Vec<u8> = (0..8_000_001_u32)
        .map(|i| (i.wrapping_mul(i) >> 7) as u8)
        .collect();
    std::fs::write(dir.path().join("plain"), plain).unwrap();
    let key = "00112233445566778899aabbccddeeff";
    let encrypt = |conf: &str, to: &str, forbidden: &'static [libc::c_long]| {
        let mut command = Command::new("openssl");
        // SAFETY: but for a little memory it makes system calls only.
        unsafe {
            command.pre_exec(|| {
                forbid(forbidden);
                Ok(())
            })
        };
        command
            .args([
                "enc",
                "-aes-128-cbc",
                "-K",
                key,
                "-iv",
                key,
                "-in",
                "plain",
                "-out",
                to,
            ])
            .env("OPENSSL_CONF", conf)
            .current_dir(dir.path())
            .stderr(Stdio::inherit())
            .status()
            .unwrap()
    };
    assert!(encrypt("/dev/null", "expected", &[]).success());
    assert!(encrypt("conf", "ours", &[]).success());
    let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    assert!(read("ours") == read("expected"));
    assert!(served(&dir) > 1_000_000, "{} bytes", served(&dir));

    // With the service there, but in a sandbox that lacks what it takes.
    let lacks = &[libc::SYS_futex, libc::SYS_memfd_create];
    assert!(encrypt("conf", "sandboxed", lacks).success());
    assert!(read("sandboxed") == read("expected"));
    let before = served(&dir);
    assert!(encrypt("conf", "sandboxed", &[libc::SYS_socket]).success());
    assert!(read("sandboxed") == read("expected"));
    assert_eq!(served(&dir), before);
    service.stop();
}
