//! Who is running this, and where.

/// The user and host that snapshots and keys are marked with.
#[derive(Clone, Debug)]
pub struct Host {
    /// Name of the machine.
    pub hostname: String,
    /// Name of the user, from the environment; the number if it has none.
    pub username: String,
}

/// Asks the system.
pub fn describe() -> Host {
    let uname = rustix::system::uname();
    let hostname = uname.nodename().to_string_lossy().into_owned();
    let username = ["USER", "LOGNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|user| !user.is_empty()))
        .unwrap_or_else(|| rustix::process::getuid().as_raw().to_string());
    Host { hostname, username }
}
