//! Timers and services of systemd.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Job, Sandbox};

/// The folder of the system's units.
pub const SYSTEM: &str = "/etc/systemd/system";

/// What a service that only reads, and writes to a repository, can do without.
const SANDBOX: &str = "\
ProtectSystem=strict
ProtectHome=read-only
NoNewPrivileges=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
UMask=0077
";

/// The name of a job's timer.
pub fn timer(name: &str) -> String {
    format!("tabane-{name}.timer")
}

/// The name of a job's service.
pub fn service(name: &str) -> String {
    format!("tabane-{name}.service")
}

/// The files of a job, by name.
pub fn files(job: &Job, is_user: bool) -> Vec<(String, String)> {
    let mut lines = String::new();
    for words in job.command_lines() {
        let words: Vec<String> = words.iter().map(|word| quote(word)).collect();
        lines += &format!("ExecStart={}\n", words.join(" "));
    }
    for file in &job.environment_files {
        lines += &format!("EnvironmentFile={}\n", path(file));
    }
    if !is_user {
        lines += "CacheDirectory=tabane\nEnvironment=TABANE_CACHE_DIR=%C/tabane\n";
        lines += "StateDirectory=tabane\nEnvironment=TABANE_STATE_DIR=%S/tabane\n";
    }
    // A user's manager may not restrict what the user may do.
    if let (Sandbox::Writable(directories), false) = (&job.sandbox, is_user) {
        lines += "\n# It may read everything, and write nothing else.\n";
        for directory in directories {
            lines += &format!("ReadWritePaths=-{}\n", path(directory));
        }
        lines += "CapabilityBoundingSet=CAP_DAC_READ_SEARCH\n";
        lines += SANDBOX;
    }
    let name = &job.name;
    let spread = if job.at.is_spread() {
        "# Not all machines at the same minute.\nRandomizedDelaySec=1h\n"
    } else {
        ""
    };
    let service_text = format!(
        "[Unit]\nDescription=Tabane: {name}\nWants=network-online.target\n\
         After=network-online.target\n\n[Service]\nType=oneshot\n# 3: done, but something could \
         not be read.\nSuccessExitStatus=3\nNice=10\nIOSchedulingClass=idle\n{lines}"
    );
    let timer_text = format!(
        "[Unit]\nDescription=Tabane: {name}\n\n[Timer]\nOnCalendar={}\n{spread}# Also after a \
         time when the machine was off.\nPersistent=yes\n\n[Install]\nWantedBy=timers.target\n",
        job.at.calendar()
    );
    vec![(service(name), service_text), (timer(name), timer_text)]
}

/// A word of a command line.
fn quote(word: &str) -> String {
    let escaped = word.replace('%', "%%").replace('$', "$$");
    let plain = |c: char| c.is_ascii_alphanumeric() || "%$_-+=./:@,".contains(c);
    if !word.is_empty() && escaped.chars().all(plain) {
        return escaped;
    }
    format!("\"{}\"", escaped.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A path of a setting.
fn path(path: &Path) -> String {
    let text = path.display().to_string();
    text.replace('\\', "\\\\")
        .replace(' ', "\\x20")
        .replace('%', "%%")
}

/// Name, time and commands of the timer `file` with this text.
pub fn read(directory: &Path, file: &str, text: &str) -> Option<(String, String, Vec<String>)> {
    let name = file.strip_prefix("tabane-")?.strip_suffix(".timer")?;
    let setting = |text: &str, key: &str| -> Vec<String> {
        let values = text.lines().filter_map(|line| line.strip_prefix(key));
        values.map(str::to_owned).collect()
    };
    let service_path: PathBuf = directory.join(service(name));
    let commands = fs::read_to_string(service_path).unwrap_or_default();
    let when = setting(text, "OnCalendar=").pop()?;
    Some((name.to_owned(), when, setting(&commands, "ExecStart=")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_systemd() {
        for (word, quoted) in [
            ("--sample", "--sample"),
            ("8%", "8%%"),
            ("$HOME", "$$HOME"),
            ("with space", "\"with space\""),
            ("a\"b\\", "\"a\\\"b\\\\\""),
            ("", "\"\""),
            ("ü", "\"ü\""),
        ] {
            assert_eq!(quote(word), quoted);
        }
        assert_eq!(path(Path::new("/a b%")), "/a\\x20b%%");
    }
}
