//! The commands of docs/how-to/database.md, with the databases that they are for.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tabane_testing::files::script;
use tabane_testing::mount::Mount;
use tabane_testing::{is_root, not_checked};

use crate::bed::{Bed, Ran, restored, run};

/// The commands below this heading, up to the next one.
fn commands(heading: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/database.md");
    let text = fs::read_to_string(page).expect("the page is there");
    let (_, section) = text.split_once(heading).expect("the heading is there");
    let mut found = String::new();
    let mut is_command = false;
    for line in section
        .lines()
        .skip(1)
        .take_while(|line| !line.starts_with('#'))
    {
        match line.trim_start() {
            "```sh" => is_command = true,
            "```" => is_command = false,
            line if is_command => found += &format!("{line}\n"),
            _ => {}
        }
    }
    assert!(found.contains("tabane "), "{heading}: {found}");
    found
}

/// A folder that the user of a server can reach and, if root runs this, owns.
struct Home {
    folder: tempfile::TempDir,
    user: Option<&'static str>,
}

impl Home {
    fn new(user: &'static str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder.path(), mode).expect("changed");
        let user = is_root().then_some(user);
        let home = Self { folder, user };
        home.give(home.folder.path());
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn give(&self, path: &Path) {
        if let Some(user) = self.user {
            let status = Command::new("chown").arg(user).arg(path).status();
            let made = "the package of the server has made its user";
            assert!(status.expect("it can be started").success(), "{made}");
        }
    }

    /// A command that the user runs.
    fn command(&self, program: &Path) -> Command {
        match self.user {
            Some(user) => {
                let mut command = Command::new("runuser");
                command.args(["-u", user, "--"]).arg(program);
                command
            }
            None => Command::new(program),
        }
    }
}

/// PostgreSQL with this folder of data, until it is dropped.
struct Postgres<'a> {
    programs: PathBuf,
    home: &'a Home,
    data: PathBuf,
}

impl<'a> Postgres<'a> {
    /// Where its programs are.
    fn programs() -> Option<PathBuf> {
        let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
        let mut versions: Vec<PathBuf> = versions.flatten().map(|entry| entry.path()).collect();
        versions.sort();
        Some(versions.pop()?.join("bin"))
    }

    fn create(home: &'a Home, data: PathBuf) -> Option<Self> {
        let Some(programs) = Self::programs() else {
            not_checked("databases", "PostgreSQL is not installed");
            return None;
        };
        let initdb = home
            .command(&programs.join("initdb"))
            .args(["-A", "trust", "-U", "postgres", "--no-sync", "-D"])
            .arg(&data)
            .current_dir(home.folder.path())
            .output()
            .expect("it can be started");
        assert!(
            initdb.status.success(),
            "{}",
            String::from_utf8_lossy(&initdb.stderr)
        );
        Some(Self::start(home, programs, data))
    }

    fn start(home: &'a Home, programs: PathBuf, data: PathBuf) -> Self {
        let options = format!("-c listen_addresses= -k {}", home.folder.path().display());
        let status = home
            .command(&programs.join("pg_ctl"))
            .args(["-w", "-o", &options, "-l"])
            .arg(home.path("log"))
            .arg("-D")
            .arg(&data)
            .arg("start")
            .current_dir(home.folder.path())
            .stdout(Stdio::null())
            .status()
            .expect("it can be started");
        let log = fs::read_to_string(home.path("log")).unwrap_or_default();
        assert!(status.success(), "{log}");
        Self {
            programs,
            home,
            data,
        }
    }

    /// Runs commands that find its programs and itself.
    fn shell(&self, bed: &Bed, text: &str) -> Ran {
        let text = format!("PATH={}:$PATH\n{text}", self.programs.display());
        let folder = self.home.folder.path();
        let mut command = bed.shell(&text);
        run(command
            .current_dir(folder)
            .env("PGHOST", folder)
            .env("PGUSER", "postgres"))
    }
}

impl Drop for Postgres<'_> {
    fn drop(&mut self) {
        let _ = self
            .home
            .command(&self.programs.join("pg_ctl"))
            .args(["-m", "immediate", "-D"])
            .arg(&self.data)
            .arg("stop")
            .current_dir(self.home.folder.path())
            .stdout(Stdio::null())
            .status();
    }
}

const TABLE: &str = "CREATE TABLE goods (name VARCHAR(40), price INT); \
                     INSERT INTO goods VALUES ('lamp', 12), ('chair', 40);";

#[test]
#[ignore = "make test-databases: it starts a server"]
fn postgresql() {
    let bed = Bed::with_repository();
    let home = Home::new("postgres");
    let Some(server) = Postgres::create(&home, home.path("data")) else {
        return;
    };
    let made = format!("createdb shop; createuser ada; psql -q shop -c \"{TABLE}\"");
    server.shell(&bed, &made).succeeds();
    let ran = server.shell(&bed, &commands("### PostgreSQL"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let mut complaints = ran.stderr.lines();
    let known = complaints.all(|line| line.ends_with("already exists"));
    assert!(known, "{}", ran.stderr);
    let read = "psql -At shop_again -c 'SELECT sum(price), count(*) FROM goods'";
    server.shell(&bed, read).succeeds().says("52|2");
    let roles = bed
        .run(["dump", "latest", "--tag", "roles", "roles.sql"])
        .succeeds();
    assert!(roles.stdout.contains("CREATE ROLE ada"), "{}", roles.stdout);
    // A dump that fails makes no snapshot.
    let failed = commands("### PostgreSQL").replace("pg_dump shop", "pg_dump shops");
    let ran = server.shell(&bed, &failed);
    assert!(
        ran.stderr.contains("the command pg_dump failed"),
        "{}",
        ran.stderr
    );
    let listed = bed.run(["snapshots", "--json"]).succeeds().last_json();
    assert_eq!(listed.as_array().map(Vec::len), Some(2));
}

#[test]
#[ignore = "make test-databases: it starts a server"]
fn the_files_of_postgresql_in_a_snapshot_of_btrfs() {
    let bed = Bed::with_repository();
    let home = Home::new("postgres");
    let on_btrfs = home.path("on btrfs");
    fs::create_dir(&on_btrfs).expect("made");
    let Some(_mount) = Mount::image(&on_btrfs, &home.path("image"), "btrfs", 600) else {
        return;
    };
    home.give(&on_btrfs);
    let data = on_btrfs.join("data");
    let Some(server) = Postgres::create(&home, data.clone()) else {
        return;
    };
    server
        .shell(&bed, "createdb bank; pgbench -q -i bank 2>&1")
        .succeeds();
    let writing = "pgbench -n -c 4 -T 20 bank > writers 2>&1 &\n sleep 2\n";
    let command = commands("## The files").replace("/var/lib/postgresql", "'on btrfs/data'");
    let ran = server
        .shell(&bed, &format!("{writing}{command}kill $!\n"))
        .succeeds();
    assert_eq!(ran.stderr, "");
    drop(server);

    let target = home.path("target");
    bed.run([
        "restore",
        "latest",
        "-q",
        "-t",
        target.to_str().expect("UTF-8"),
    ])
    .succeeds();
    let data = restored(&target, &data);
    let mut above = data.parent();
    while let Some(folder) = above.filter(|folder| folder.starts_with(&target)) {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("changed");
        above = folder.parent();
    }
    let programs = Postgres::programs().expect("it is installed");
    let server = Postgres::start(&home, programs, data);
    // Each transaction changes three balances by as much.
    let sums = "psql -At bank -c 'SELECT (SELECT sum(abalance) FROM pgbench_accounts), \
                (SELECT sum(tbalance) FROM pgbench_tellers), \
                (SELECT sum(bbalance) FROM pgbench_branches), \
                (SELECT sum(delta) FROM pgbench_history)'";
    let ran = server.shell(&bed, sums).succeeds();
    let sums: Vec<i64> = ran
        .stdout
        .trim()
        .split('|')
        .map(|sum| sum.parse().expect("a number, as transactions were made"))
        .collect();
    assert!(sums.iter().all(|&sum| sum == sums[0]), "{sums:?}");
}

/// MariaDB, until it is dropped.
struct MariaDb {
    child: Child,
}

impl MariaDb {
    fn start(home: &Home) -> Option<Self> {
        let server = Path::new("/usr/sbin/mariadbd");
        if !server.exists() {
            not_checked("databases", "MariaDB is not installed");
            return None;
        }
        let data = format!("--datadir={}", home.path("data").display());
        let made = home
            .command(Path::new("mariadb-install-db"))
            .args(["--no-defaults", "--skip-test-db", &data])
            .arg("--auth-root-authentication-method=normal")
            .current_dir(home.folder.path())
            .output()
            .expect("it can be started");
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        let socket = home.path("socket");
        let child = home
            .command(server)
            .args(["--no-defaults", "--skip-networking", &data])
            .arg(format!("--socket={}", socket.display()))
            .arg(format!("--pid-file={}", home.path("pid").display()))
            .stdout(Stdio::null())
            .stderr(fs::File::create(home.path("log")).expect("made"))
            .current_dir(home.folder.path())
            .spawn()
            .expect("it can be started");
        let start = Instant::now();
        while !socket.exists() {
            let log = fs::read_to_string(home.path("log")).unwrap_or_default();
            assert!(start.elapsed() < Duration::from_secs(60), "{log}");
            std::thread::sleep(Duration::from_millis(100));
        }
        Some(Self { child })
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        // runuser passes a request to end on.
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "make test-databases: it starts a server"]
fn mariadb() {
    let bed = Bed::with_repository();
    let home = Home::new("mysql");
    let Some(_server) = MariaDb::start(&home) else {
        return;
    };
    // After the system's settings, which name the socket of the system's server.
    let client = format!("[client]\nsocket = {}\n", home.path("socket").display());
    fs::write(home.path(".my.cnf"), client).expect("written");
    let run = |text: &str| run(bed.shell(text).env("HOME", home.folder.path()));
    run(&format!(
        "mariadb -e 'CREATE DATABASE shop'; mariadb shop -e \"{TABLE}\""
    ))
    .succeeds();
    run(&commands("### MariaDB and MySQL")).succeeds();
    let read = "mariadb -N shop_again -e 'SELECT sum(price), count(*) FROM goods'";
    run(read).succeeds().says("52\t2");
}

#[test]
fn sqlite() {
    let bed = Bed::with_repository();
    if Command::new("sqlite3").arg("-version").output().is_err() {
        not_checked("databases", "sqlite3 is not installed");
        return;
    }
    let run = |text: &str| run(bed.shell(text).current_dir(bed.source()));
    run(&format!("sqlite3 shop.db \"{TABLE}\"")).succeeds();
    run(&commands("### SQLite")).succeeds();
    run("sqlite3 again.db 'SELECT sum(price), count(*) FROM goods'")
        .succeeds()
        .says("52|2");
}

#[test]
fn containers() {
    let bed = Bed::with_repository();
    // Stands in for Docker: says what it was told, and runs a command without a container.
    let programs = bed.path("programs");
    fs::create_dir(&programs).expect("made");
    script(
        &programs.join("docker"),
        "#!/bin/sh\necho \"$@\" >> \"$LOG\"\nif [ \"$1\" = exec ]; then echo \"dump of $6\"; fi\n",
    );
    let volume = bed.path("volumes/shop-db");
    fs::create_dir_all(&volume).expect("made");
    fs::write(volume.join("file"), "contents").expect("written");
    let volumes = bed.path("volumes").display().to_string();
    let text = commands("## Containers").replace("/var/lib/docker/volumes", &volumes);
    // Of the three ways, the one with a snapshot of the file system has tests of its own.
    let text: Vec<&str> = text
        .lines()
        .filter(|line| !line.contains("--use-fs-snapshot"))
        .collect();
    let (text, restore) = (text.join("\n"), "tabane restore");
    let (back_up, restore_command) = text.split_once(restore).expect("both are there");
    let log = bed.path("log");
    let run = |text: &str| {
        let text = format!("PATH={}:$PATH\n{text}", programs.display());
        run(bed.shell(&text).env("LOG", &log))
    };
    run(back_up).succeeds();
    assert_eq!(
        fs::read_to_string(&log).expect("it was called"),
        "exec shop-db pg_dump -U postgres shop\nstop shop-db\nstart shop-db\n"
    );
    let dump = bed
        .run(["dump", "latest", "--tag", "shop", "shop.sql"])
        .succeeds();
    assert_eq!(dump.stdout, "dump of shop\n");
    fs::write(volume.join("file"), "changed").expect("written");
    fs::write(volume.join("new"), "made since").expect("written");
    run(&format!("{restore}{restore_command}")).succeeds();
    assert_eq!(
        fs::read_to_string(volume.join("file")).expect("there"),
        "contents"
    );
    assert!(!volume.join("new").exists());
}
