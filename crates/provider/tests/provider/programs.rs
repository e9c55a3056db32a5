//! Programs that know nothing of the provider.

use std::path::Path;
use std::process::Command;

use crate::libcrypto::modules;

/// The `openssl` command, if there is one of OpenSSL 3. Says so if not.
fn openssl() -> Option<Command> {
    let version = Command::new("openssl").arg("version").output();
    match version {
        Ok(output) if output.stdout.starts_with(b"OpenSSL 3.") => Some(Command::new("openssl")),
        _ => {
            println!("NOT CHECKED: the provider in the openssl command, for OpenSSL 3 is missing");
            None
        }
    }
}

/// What the command prints. Its last arguments choose the provider.
fn output(mut command: Command, args: &[&str], provider: &[&str]) -> String {
    let output = command.args(args).args(provider).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Options that leave the command nothing but our provider.
fn only_ours(modules: &Path) -> [&str; 6] {
    let path = modules.to_str().unwrap();
    [
        "-provider-path",
        path,
        "-provider",
        "tabane",
        "-propquery",
        "provider=tabane",
    ]
}

#[test]
fn openssl_dgst() {
    let Some(_) = openssl() else { return };
    let file = std::env::current_exe().unwrap();
    let file = file.to_str().unwrap();
    let ours = only_ours(modules());
    let ours = [&ours[..], &[file]].concat();
    let theirs = ["-provider", "default", file];
    let expected = output(openssl().unwrap(), &["dgst", "-sha256"], &theirs);
    assert_eq!(
        output(openssl().unwrap(), &["dgst", "-sha256"], &ours),
        expected
    );
}
