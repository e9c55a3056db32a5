//! Names of the current user and machine.

use nix::unistd::{Uid, User};

/// The user and host that snapshots and keys are marked with.
#[derive(Clone, Debug)]
pub struct Host {
    /// Name of the machine.
    pub hostname: String,
    /// Name of the user: from the environment, else from the password database; the number if
    /// neither has one.
    pub username: String,
}

/// Asks the system.
pub fn describe() -> Host {
    let uname = rustix::system::uname();
    let hostname = uname.nodename().to_string_lossy().into_owned();
    Host {
        hostname,
        username: username(|name| std::env::var(name).ok()),
    }
}

/// The name of the user that this process runs as; `variable` reads the environment.
fn username(variable: impl Fn(&str) -> Option<String>) -> String {
    let named = |name: &&str| variable(name).filter(|user| !user.is_empty());
    let user = Uid::current();
    let listed = || User::from_uid(user).ok().flatten().map(|found| found.name);
    ["USER", "LOGNAME"]
        .iter()
        .find_map(named)
        .or_else(listed)
        .unwrap_or_else(|| user.to_string())
}

#[cfg(test)]
mod tests {
    use super::username;

    #[test]
    fn the_environment_names_the_user_before_the_password_database() {
        let of = |set: &'static [(&str, &str)]| {
            username(move |name| {
                let found = set.iter().find(|(key, _)| *key == name)?;
                Some(found.1.to_owned())
            })
        };
        assert_eq!(of(&[("USER", "ada"), ("LOGNAME", "bob")]), "ada");
        assert_eq!(of(&[("USER", ""), ("LOGNAME", "bob")]), "bob");
        let uid = rustix::process::getuid().as_raw().to_string();
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let line = passwd
            .lines()
            .find(|line| line.split(':').nth(2) == Some(&uid));
        match line.and_then(|line| line.split(':').next()) {
            Some(name) => assert_eq!(of(&[("USER", "")]), name),
            None => println!("NOT CHECKED: user {uid} is not in /etc/passwd"),
        }
    }
}
