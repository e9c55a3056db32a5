//! The command lines of Tabane and its peers.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The password of every repository made here.
pub const PASSWORD: &str = "tabane-bench";

/// vykar's configuration, in the cache.
const VYKAR_CONFIGURATION: &str = "vykar.yaml";

/// A backup program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Tabane itself.
    Tabane,
    /// restic, with `--compression auto`.
    Restic,
    /// borg 1.x, `repokey-blake2`, with its default compression lz4.
    Borg,
    /// rustic with its defaults (zstd).
    Rustic,
    /// kopia with `--compression zstd-fastest`.
    Kopia,
    /// vykar with its defaults.
    Vykar,
    /// No backup program, but what each of them has to do at least: `tabane-bench floor`, and
    /// `cp -a` for a restore.
    Floor,
}

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum)]
pub enum Scenario {
    /// The first backup into an empty repository
    First,
    /// A second backup of the unchanged tree
    Unchanged,
    /// A backup after every file got a new modification time
    Rescan,
    /// A backup after one file in a hundred got a line in its middle, and very large ones a hundred
    /// lines
    Changes,
    /// A restore of everything into an empty directory
    Restore,
    /// A check that reads and verifies all data
    Check,
    /// A first backup of the tree after about half of it was stored, not timed, as another snapshot
    Half,
}

impl Scenario {
    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Scenario::First => "first",
            Scenario::Unchanged => "unchanged",
            Scenario::Rescan => "rescan",
            Scenario::Changes => "changes",
            Scenario::Restore => "restore",
            Scenario::Check => "check",
            Scenario::Half => "half",
        }
    }

    /// How many times restic's wall time must exceed ours.
    pub fn bar(self) -> f64 {
        match self {
            Scenario::First | Scenario::Half | Scenario::Rescan | Scenario::Restore => 4.0,
            Scenario::Check => 3.5,
            Scenario::Unchanged | Scenario::Changes => 3.0,
        }
    }
}

/// A program found on this machine.
#[derive(Clone, Debug)]
pub struct Tool {
    /// Which one.
    pub kind: Kind,
    /// Its executable.
    pub program: PathBuf,
    /// What it says of its version.
    pub version: String,
}

/// Where one tool keeps its things while it is measured.
#[derive(Clone, Debug)]
pub struct Places {
    /// The tree to back up.
    pub tree: PathBuf,
    /// The repository.
    pub repository: PathBuf,
    /// Cache, home and configuration.
    pub cache: PathBuf,
    /// The empty directory to restore into.
    pub target: PathBuf,
}

impl Kind {
    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Tabane => "tabane",
            Kind::Restic => "restic",
            Kind::Borg => "borg",
            Kind::Rustic => "rustic",
            Kind::Kopia => "kopia",
            Kind::Vykar => "vykar",
            Kind::Floor => "floor",
        }
    }

    /// The peer of this name.
    pub fn peer(name: &str) -> Result<Kind> {
        match name {
            "restic" => Ok(Kind::Restic),
            "borg" => Ok(Kind::Borg),
            "rustic" => Ok(Kind::Rustic),
            "kopia" => Ok(Kind::Kopia),
            "vykar" => Ok(Kind::Vykar),
            _ => {
                bail!("no peer is called {name:?}; known are restic, borg, rustic, kopia and vykar")
            }
        }
    }

    /// How it is set up, for the report.
    pub fn settings(self) -> &'static str {
        match self {
            Kind::Tabane => "defaults",
            Kind::Restic => "--compression auto, repository version 2",
            Kind::Borg => "repokey-blake2, lz4 (its default)",
            Kind::Rustic => "defaults (zstd)",
            Kind::Kopia => "--compression zstd-fastest",
            Kind::Vykar => "zstd, level 3",
            Kind::Floor => {
                "stat, read, compress with zstd -1 and write, decompress and hash; cp -a"
            }
        }
    }

    /// Exit codes that mean "done": borg's 1 is a warning, 3 of restic, rustic and Tabane says
    /// that some files could not be read.
    pub fn accepted(self) -> &'static [i32] {
        match self {
            Kind::Borg => &[0, 1],
            Kind::Tabane | Kind::Restic | Kind::Rustic | Kind::Vykar => &[0, 3],
            Kind::Kopia | Kind::Floor => &[0],
        }
    }
}

impl Tool {
    /// The tool at `program`, if it runs there and tells its version.
    pub fn at(kind: Kind, program: PathBuf) -> Result<Tool> {
        let argument = match kind {
            Kind::Restic => "version",
            _ => "--version",
        };
        let output = Command::new(&program)
            .arg(argument)
            .output()
            .with_context(|| format!("cannot run {}", program.display()))?;
        if !output.status.success() {
            bail!(
                "`{} {argument}` failed ({})",
                program.display(),
                output.status
            );
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let mut words = text.lines().next().unwrap_or_default().split_whitespace();
        let version = words
            .find(|word| word.starts_with(|first: char| first.is_ascii_digit()))
            .unwrap_or("?")
            .to_owned();
        Ok(Tool {
            kind,
            program,
            version,
        })
    }

    /// The floor, which is in the running program.
    ///
    /// # Errors
    /// When that cannot be found.
    pub fn floor() -> Result<Tool> {
        Ok(Tool {
            kind: Kind::Floor,
            program: std::env::current_exe().context("cannot find this program")?,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }

    /// The commands that make an empty repository.
    ///
    /// # Errors
    /// When a configuration cannot be written.
    pub fn init(&self, places: &Places) -> Result<Vec<Command>> {
        let mut command = self.command(places);
        let mut more = Vec::new();
        match self.kind {
            Kind::Tabane => command.arg("init").arg("--repo").arg(&places.repository),
            Kind::Restic => command.arg("init").arg("--quiet"),
            Kind::Borg => command
                .args(["init", "--encryption", "repokey-blake2"])
                .arg(&places.repository),
            Kind::Rustic => command.arg("init"),
            Kind::Kopia => {
                let mut policy = self.command(places);
                policy.args(["policy", "set", "--global", "--compression=zstd-fastest"]);
                more.push(policy);
                command.args(["repository", "create", "filesystem", "--path"]);
                command.arg(&places.repository)
            }
            Kind::Floor => {
                command = Command::new("mkdir");
                command.arg(&places.repository)
            }
            Kind::Vykar => {
                let configuration = serde_json::json!({
                    "sources": [places.tree],
                    "repositories": [{"label": "bench", "url": places.repository}],
                    "compression": {"algorithm": "zstd", "zstd_level": 3},
                });
                // JSON is YAML.
                let file = places.cache.join(VYKAR_CONFIGURATION);
                fs::write(&file, configuration.to_string())
                    .with_context(|| format!("cannot write {}", file.display()))?;
                command.args(["init", "-R", "bench"])
            }
        };
        more.insert(0, command);
        Ok(more)
    }

    /// The command that stores some of the tree, before the scenario `half`.
    pub fn seed(&self, paths: &[PathBuf], places: &Places) -> Command {
        let first = self.scenario(Scenario::First, Scenario::First, places);
        let mut command = Command::new(&self.program);
        for (name, value) in first.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let arguments = first.get_args();
        let is_tree = |argument: &OsStr| argument == places.tree;
        command.args(arguments.filter(|argument| !is_tree(argument)));
        command.args(paths);
        command
    }

    /// The command of one scenario; a restore is of the backup that `latest` made.
    pub fn scenario(&self, scenario: Scenario, latest: Scenario, places: &Places) -> Command {
        let mut command = self.command(places);
        let Places {
            tree,
            repository,
            target,
            ..
        } = places;
        let backup = matches!(
            scenario,
            Scenario::First
                | Scenario::Unchanged
                | Scenario::Rescan
                | Scenario::Changes
                | Scenario::Half
        );
        match self.kind {
            Kind::Tabane if backup => {
                command.arg("backup").arg("--repo").arg(repository);
                command.arg(tree)
            }
            Kind::Tabane if scenario == Scenario::Restore => {
                command.args(["restore", "latest", "--repo"]);
                command.arg(repository).arg("--target").arg(target)
            }
            Kind::Tabane => command
                .args(["check", "--read-data", "--repo"])
                .arg(repository),
            Kind::Restic if backup => command.args(["backup", "--compression", "auto"]).arg(tree),
            Kind::Restic if scenario == Scenario::Restore => {
                command.args(["restore", "latest", "--target"]).arg(target)
            }
            Kind::Restic => command.args(["check", "--read-data"]),
            Kind::Borg if backup => command
                .arg("create")
                .arg(archive(repository, scenario))
                .arg(tree),
            Kind::Borg if scenario == Scenario::Restore => {
                command.current_dir(target).arg("extract");
                command.arg(archive(repository, latest))
            }
            Kind::Borg => command.args(["check", "--verify-data"]).arg(repository),
            Kind::Rustic if backup => command.arg("backup").arg(tree),
            Kind::Rustic if scenario == Scenario::Restore => {
                command.args(["restore", "latest"]).arg(target)
            }
            Kind::Rustic => command.args(["check", "--read-data"]),
            Kind::Kopia if backup => command.args(["snapshot", "create"]).arg(tree),
            Kind::Kopia if scenario == Scenario::Restore => command
                .args(["snapshot", "restore"])
                .arg(tree)
                .arg(target)
                .args(["--snapshot-time", "latest"]),
            Kind::Kopia => command.args(["snapshot", "verify", "--verify-files-percent=100"]),
            Kind::Vykar if backup => command
                .args(["backup", "-R", "bench", "-l", "bench"])
                .arg(tree),
            Kind::Vykar if scenario == Scenario::Restore => command
                .args(["restore", "-R", "bench", "latest"])
                .arg(target),
            Kind::Vykar => command.args(["check", "-R", "bench", "--verify-data"]),
            Kind::Floor => return self.floor_of(scenario, places),
        };
        command
    }

    /// What has to be done in a scenario at least.
    fn floor_of(&self, scenario: Scenario, places: &Places) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("floor");
        let packed = places.repository.join("packed");
        match scenario {
            Scenario::First | Scenario::Half => command.arg("pack").arg(&places.tree).arg(packed),
            Scenario::Unchanged | Scenario::Changes => command.arg("stat").arg(&places.tree),
            Scenario::Rescan => command.arg("read").arg(&places.tree),
            Scenario::Check => command.arg("verify").arg(packed),
            Scenario::Restore => {
                command = Command::new("cp");
                command.arg("-a").arg(&places.tree).arg(&places.target)
            }
        };
        command
    }

    /// The commands that make a repository and a first backup with other compression: a level of
    /// Tabane or rustic, one of the names that restic and borg have.
    pub fn first_compressed(&self, setting: &str, places: &Places) -> [Command; 2] {
        let init = self
            .init(places)
            .expect("no configuration is written")
            .remove(0);
        let mut commands = [
            init,
            self.scenario(Scenario::First, Scenario::First, places),
        ];
        match self.kind {
            // It is a setting of the repository.
            Kind::Rustic => commands[0].arg(format!("--set-compression={setting}")),
            // The last one counts.
            _ => commands[1].arg(format!("--compression={setting}")),
        };
        commands
    }

    /// Where in the target the restored tree lies.
    pub fn restored(&self, places: &Places) -> PathBuf {
        let relative = places.tree.strip_prefix("/").unwrap_or(&places.tree);
        let name = relative.file_name().unwrap_or_default();
        // At its whole path, under its name, or, as of vykar and kopia, in the target itself.
        let mut candidates = [relative, Path::new(name)]
            .map(|path| places.target.join(path))
            .into_iter();
        candidates
            .find(|path| path.exists())
            .unwrap_or_else(|| places.target.clone())
    }

    /// The program as a user without settings runs it.
    pub fn command(&self, places: &Places) -> Command {
        let mut command = Command::new(&self.program);
        let prefix = format!("{}_", self.kind.name().to_uppercase());
        // Tabane's own switches, TABANE_SIMD say, may be what is to be measured.
        if self.kind != Kind::Tabane {
            for (name, _) in std::env::vars_os() {
                if name.to_string_lossy().starts_with(&prefix) {
                    command.env_remove(name);
                }
            }
        }
        match self.kind {
            Kind::Tabane => command
                .env_remove("TABANE_REPOSITORY")
                .env_remove("TABANE_REPO")
                .env_remove("TABANE_PASSWORD_FILE")
                .env_remove("TABANE_PASSWORD_COMMAND")
                .env("TABANE_PASSWORD", PASSWORD)
                .env("TABANE_CACHE_DIR", &places.cache)
                .env("TABANE_STATE_DIR", &places.cache),
            Kind::Restic => command
                .env("RESTIC_PASSWORD", PASSWORD)
                .env("RESTIC_REPOSITORY", &places.repository)
                .env("RESTIC_CACHE_DIR", &places.cache),
            Kind::Borg => command
                .env("BORG_PASSPHRASE", PASSWORD)
                .env("BORG_BASE_DIR", &places.cache),
            Kind::Rustic => command
                .env("RUSTIC_PASSWORD", PASSWORD)
                .env("RUSTIC_REPOSITORY", &places.repository)
                .env("RUSTIC_CACHE_DIR", &places.cache)
                .env("RUSTIC_NO_PROGRESS", "true")
                .env("XDG_CONFIG_HOME", &places.cache),
            Kind::Kopia => command
                .env("KOPIA_PASSWORD", PASSWORD)
                .env("KOPIA_CHECK_FOR_UPDATES", "false")
                .env("KOPIA_CONFIG_PATH", places.cache.join("kopia.config"))
                .env("KOPIA_CACHE_DIRECTORY", places.cache.join("cache"))
                .env("KOPIA_LOG_DIR", places.cache.join("log")),
            Kind::Vykar => command
                .arg("--config")
                .arg(places.cache.join(VYKAR_CONFIGURATION))
                .env("VYKAR_PASSPHRASE", PASSWORD)
                .env("XDG_CACHE_HOME", &places.cache)
                .env("XDG_CONFIG_HOME", &places.cache),
            Kind::Floor => &mut command,
        };
        command
    }
}

/// borg's name of the archive that a scenario made.
fn archive(repository: &Path, scenario: Scenario) -> OsString {
    let mut location = repository.as_os_str().to_owned();
    location.push("::");
    location.push(scenario.name());
    location
}

/// Looks a program up the way a shell does.
pub fn find_in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|file| is_executable(file))
}

/// Whether `file` is a regular file that may be executed.
pub(crate) fn is_executable(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// The first line of what a program says of its version.
pub fn version(program: &str) -> Option<String> {
    let argument = if program == "openssl" {
        "version"
    } else {
        "--version"
    };
    let output = Command::new(find_in_path(program)?)
        .arg(argument)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.lines().next()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &Command) -> Vec<String> {
        command
            .get_args()
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn command_lines() {
        let places = Places {
            tree: "/t".into(),
            repository: "/r".into(),
            cache: "/c".into(),
            target: "/o".into(),
        };
        let tool = |kind| Tool {
            kind,
            program: "x".into(),
            version: String::new(),
        };
        let line = |kind, scenario| {
            words(&tool(kind).scenario(scenario, Scenario::Rescan, &places)).join(" ")
        };
        assert_eq!(line(Kind::Tabane, Scenario::Rescan), "backup --repo /r /t");
        assert_eq!(
            line(Kind::Tabane, Scenario::Restore),
            "restore latest --repo /r --target /o"
        );
        assert_eq!(
            line(Kind::Tabane, Scenario::Check),
            "check --read-data --repo /r"
        );
        assert_eq!(
            line(Kind::Restic, Scenario::First),
            "backup --compression auto /t"
        );
        assert_eq!(
            line(Kind::Borg, Scenario::Unchanged),
            "create /r::unchanged /t"
        );
        assert_eq!(line(Kind::Borg, Scenario::Restore), "extract /r::rescan");
        assert_eq!(line(Kind::Borg, Scenario::Check), "check --verify-data /r");
        assert_eq!(line(Kind::Rustic, Scenario::Restore), "restore latest /o");
    }

    #[test]
    fn unknown_peers_are_refused() {
        assert!(Kind::peer("tar").is_err());
        assert_eq!(Kind::peer("borg").unwrap(), Kind::Borg);
    }
}
