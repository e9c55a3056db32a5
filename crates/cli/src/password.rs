//! Sources of passwords: never the command line, which everyone on the machine can read.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::{Command, Stdio};

use tabane_store::key::{KdfCost, Password};
use zeroize::Zeroizing;

use crate::args::Global;
use crate::exit::{Failure, Result};
use crate::process::remember_terminal;

/// Attempts to type a password.
pub const ATTEMPTS: u32 = 3;

/// No password is longer, in bytes: a file that is was named by mistake.
const LEN_MAX: u64 = 64 << 10;

/// The password of a repository that exists; says whether a person typed it.
pub fn existing(global: &Global) -> Result<(Password, bool)> {
    match given(global)? {
        Some(password) => Ok((password, false)),
        None if global.repository.is_source => {
            let asked = ask("password of the source: ").map_err(|_| {
                Failure::Other(
                    "no password of the source given, and no terminal to ask at: set \
                     TABANE_FROM_PASSWORD or TABANE_FROM_PASSWORD_FILE, or use \
                     --from-password-file or --from-password-command"
                        .to_owned(),
                )
            });
            Ok((asked?, true))
        }
        None => Ok((ask("password: ")?, true)),
    }
}

/// The password for a new repository, typed twice if it is typed; `what` it is for is said then.
pub fn new(global: &Global, what: &str) -> Result<Password> {
    match given(global)? {
        Some(password) => Ok(password),
        None => ask_twice(what),
    }
}

/// What each try of a new key's password costs. Tests start thousands of commands: in a build with
/// debug assertions, a variable asks for as little as possible.
pub fn cost() -> KdfCost {
    if cfg!(debug_assertions) && std::env::var_os("TABANE_WEAK_KEYS").is_some() {
        KdfCost::WEAKEST
    } else {
        KdfCost::default()
    }
}

/// The password for a new key: from a file, or typed twice.
pub fn of_new_key(file: Option<&Path>) -> Result<Password> {
    match file {
        Some(file) => from_file(file),
        None => ask_twice("new key"),
    }
}

/// Whether options or the environment give the password, so that nobody is asked for it.
pub fn is_given(global: &Global) -> bool {
    let repository = &global.repository;
    let names = ["", "_FILE", "_COMMAND"].map(|suffix| format!("{}{suffix}", prefix(global)));
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    repository.password_file.is_some()
        || repository.password_command.is_some()
        || names.iter().any(is_set)
}

/// The name of the environment variable of the password, and the beginning of further ones.
fn prefix(global: &Global) -> &'static str {
    if global.repository.is_source {
        "TABANE_FROM_PASSWORD"
    } else {
        "TABANE_PASSWORD"
    }
}

/// The password that options or the environment give, the options first.
pub fn given(global: &Global) -> Result<Option<Password>> {
    if let Some(file) = &global.repository.password_file {
        return from_file(file).map(Some);
    }
    if let Some(command) = &global.repository.password_command {
        return from_command(command).map(Some);
    }
    let prefix = prefix(global);
    let variable = |suffix| {
        let value = std::env::var_os(format!("{prefix}{suffix}"));
        value.filter(|value| !value.is_empty())
    };
    if let Some(password) = variable("") {
        return Ok(Some(Zeroizing::new(password.into_vec())));
    }
    if let Some(file) = variable("_FILE") {
        return from_file(Path::new(&file)).map(Some);
    }
    if let Some(command) = variable("_COMMAND") {
        return from_command(&command).map(Some);
    }
    Ok(None)
}

/// The password in a file.
pub fn from_file(path: &Path) -> Result<Password> {
    let cannot = |error: io::Error| {
        Failure::Other(format!(
            "cannot read the password file {}: {error}",
            path.display()
        ))
    };
    let file = std::fs::File::open(path).map_err(cannot)?;
    let password = read(file).map_err(cannot)?;
    if password.is_empty() {
        Err(Failure::Other(format!(
            "the password file {} is empty",
            path.display()
        )))
    } else {
        Ok(password)
    }
}

fn from_command(command: &OsStr) -> Result<Password> {
    let cannot =
        |why: String| Failure::Other(format!("the password command {} {why}", command.display()));
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(command)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| cannot(format!("cannot be run: {error}")))?;
    let stdout = child.stdout.take().expect("it was piped");
    let password = read(stdout).map_err(|error| cannot(format!("cannot be read: {error}")))?;
    let status = child
        .wait()
        .map_err(|error| cannot(format!("cannot be run: {error}")))?;
    if !status.success() {
        return Err(cannot(format!("failed ({status})")));
    }
    if password.is_empty() {
        Err(cannot("printed nothing".to_owned()))
    } else {
        Ok(password)
    }
}

/// Reads all there is, less one newline at the end.
fn read(reader: impl Read) -> io::Result<Password> {
    // Never grows, so that no copy stays behind unwiped.
    let mut password = Zeroizing::new(Vec::with_capacity(LEN_MAX as usize + 1));
    reader.take(LEN_MAX + 1).read_to_end(&mut password)?;
    if password.len() as u64 > LEN_MAX {
        return Err(io::Error::other("it is too long for a password"));
    }
    if password.last() == Some(&b'\n') {
        password.pop();
        if password.last() == Some(&b'\r') {
            password.pop();
        }
    }
    Ok(password)
}

fn ask(prompt: &str) -> Result<Password> {
    remember_terminal();
    let password = rpassword::prompt_password(prompt).map_err(|_| {
        Failure::Other(
            "no password given, and no terminal to ask at: set TABANE_PASSWORD or \
             TABANE_PASSWORD_FILE, or use --password-file or --password-command (for a further \
             key, --new-password-file)"
                .to_owned(),
        )
    })?;
    Ok(Zeroizing::new(password.into_bytes()))
}

fn ask_twice(what: &str) -> Result<Password> {
    for _ in 0..ATTEMPTS {
        let password = ask(&format!("password for the {what}: "))?;
        if password.is_empty() {
            eprintln!("tabane: the password is empty: choose one");
        } else if ask("the same again: ")? == password {
            return Ok(password);
        } else {
            eprintln!("tabane: the two passwords differ: try again");
        }
    }
    Err(Failure::Other("no password was chosen".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_newline_is_stripped() {
        for (given, password) in [
            ("secret", "secret"),
            ("secret\n", "secret"),
            ("secret\r\n", "secret"),
            ("secret\n\n", "secret\n"),
            (" s \n", " s "),
            ("\n", ""),
        ] {
            assert_eq!(
                **read(given.as_bytes()).expect("readable"),
                *password.as_bytes()
            );
        }
        assert!(read(io::repeat(b'x')).is_err());
    }
}
