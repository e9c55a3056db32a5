//! `tabane openssl`.

use std::path::PathBuf;

use crate::bed::{Bed, bare_command, run};

/// The provider and an `openssl` command of OpenSSL 3, if both are here. Says so if not.
fn provider() -> Option<PathBuf> {
    let program = std::env::current_exe().unwrap();
    let provider = program.with_file_name("libtabane_provider.so");
    let version = std::process::Command::new("openssl")
        .arg("version")
        .output();
    let openssl = version.is_ok_and(|output| output.stdout.starts_with(b"OpenSSL 3."));
    if !provider.exists() || !openssl {
        println!(
            "NOT CHECKED: tabane openssl, for the provider (cargo build -p tabane-provider) or \
             OpenSSL 3 is missing"
        );
        return None;
    }
    Some(provider)
}

#[test]
fn installs_configures_and_checks() {
    if provider().is_none() {
        return;
    }
    let bed = Bed::new();
    let dir = bed.path("modules").display().to_string();
    let module = format!("{dir}/tabane.so");
    run(&mut bare_command(["openssl", "install", "--dir", &dir]))
        .succeeds()
        .says(&module);
    run(&mut bare_command(["openssl", "conf", "--module", &module]))
        .succeeds()
        .says(&format!("module = {module}\nactivate = 1"))
        .says("default_properties = ?provider=tabane")
        .says("nodejs_conf = openssl_init");
    if tabane_lanes::aes::Backend::fastest() > tabane_lanes::aes::Backend::Portable {
        let check = ["openssl", "check", "--module", &module];
        run(&mut bare_command(check))
            .succeeds()
            .says("openssl used AES-128-CTR of Tabane");
        run(&mut bare_command(check.into_iter().chain(["--json"])))
            .succeeds()
            .says("\"algorithms\":[\"AES-128-CTR\"]");
    }
    let nothing = ["openssl", "check", "--module", &module, "--", "true"];
    run(&mut bare_command(nothing)).fails(1, "true used nothing of");
}

#[test]
fn a_file_that_is_no_provider_is_an_error() {
    for action in ["conf", "check"] {
        let wrong = ["openssl", action, "--module", "/etc/passwd"];
        run(&mut bare_command(wrong)).fails(1, "/etc/passwd: this is no OpenSSL provider");
    }
}

#[test]
fn a_provider_that_is_missing_is_an_error() {
    let missing = ["openssl", "conf", "--module", "/nowhere/tabane.so"];
    run(&mut bare_command(missing)).fails(1, "/nowhere/tabane.so");
}
