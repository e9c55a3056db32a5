//! Power is cut while commands write: what they had told is there, and the rest does no harm.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use tabane_testing::mount::can_mount;
use tabane_testing::random::Random;

use crate::bed::{Bed, Ran, bare_command, restored, run};
use crate::cluster::Daemon;
use crate::losing_disk::{Kept, LosingDisk};

/// How many cuts each test tries: of a folder, of five, of a cluster. Another number with
/// TABANE_TEST_CUTS.
const CUTS: [u64; 3] = [30, 15, 5];

/// The first seed of the cuts; another one with TABANE_TEST_FIRST.
const FIRST: u64 = 0;

/// A machine with one disk: repositories, cache and what the client remembers are on it.
struct Machine {
    bed: Bed,
    repository: String,
}

impl Machine {
    fn disk(&self) -> PathBuf {
        self.bed.path("disk")
    }

    fn tabane<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Ran {
        let mut command = self.bed.command(args);
        command
            .env("TABANE_REPOSITORY", &self.repository)
            .env("TABANE_CACHE_DIR", self.disk().join("cache"))
            .env("TABANE_STATE_DIR", self.disk().join("state"));
        run(&mut command)
    }

    fn backup(&self, version: usize) -> Ran {
        let source = self.bed.source().display().to_string();
        self.tabane(["backup", &source, "--tag", &format!("v{version}")])
    }

    /// There is no damage. What nobody needs may be left, and what nobody was told of incomplete.
    #[track_caller]
    fn checks(&self) {
        let checked = self.tabane(["check", "--read-data"]);
        assert_eq!(
            checked.code,
            Some(0),
            "{}{}",
            checked.stdout,
            checked.stderr
        );
    }

    /// What the client has seen of the repository is there, by which it notices an older one.
    #[track_caller]
    fn remembers(&self) {
        let files = fs::read_dir(self.disk().join("state")).expect("the folder is there");
        let seen: Vec<_> = files
            .map(|file| file.expect("it can be listed"))
            .filter(|file| file.file_name().to_string_lossy().starts_with("seen-"))
            .collect();
        assert_eq!(seen.len(), 1, "what was seen is lost");
        assert_ne!(seen[0].metadata().expect("it is there").len(), 0);
        let said = self.tabane(["snapshots"]).succeeds().stderr;
        assert_eq!(said, "", "it is damaged");
    }

    /// The version comes back.
    #[track_caller]
    fn restores(&self, version: usize) {
        let target = self.bed.path("restored");
        let text = target.display().to_string();
        let tag = format!("v{version}");
        self.tabane(["restore", "latest", "--tag", &tag, "--target", &text])
            .succeeds();
        let found = fs::read(restored(&target, &changing(&self.bed))).expect("it was restored");
        assert!(found == content(version), "another version came back");
        fs::remove_dir_all(&target).expect("it was restored");
    }
}

/// A file that each version has other bytes in.
fn changing(bed: &Bed) -> PathBuf {
    bed.source().join("docs/changing.bin")
}

fn content(version: usize) -> Vec<u8> {
    Random::new(version as u64).noise(200_000 + version)
}

/// What was done, and how many changes the disk had seen when it was told.
#[derive(Debug)]
struct History {
    initialized: usize,
    backed_up: Vec<usize>,
    key_added: usize,
    /// The first version is forgotten.
    forgotten: usize,
    /// The second version is forgotten, and the repository pruned.
    pruned: usize,
}

/// Backups of a life.
const VERSIONS: usize = 3;

const SECOND_PASSWORD: &str = "another password";

/// All that a repository goes through: the last version alone is left in the end.
fn live(machine: &Machine, disk: &LosingDisk, init: &[String]) -> History {
    let told = |ran: Ran| {
        ran.succeeds();
        disk.changes()
    };
    let initialized = told(machine.tabane(init));
    let mut backed_up = Vec::new();
    for version in 0..VERSIONS {
        fs::write(changing(&machine.bed), content(version)).expect("a file");
        backed_up.push(told(machine.backup(version)));
    }
    let password = machine.bed.path("second");
    fs::write(&password, SECOND_PASSWORD).expect("a file");
    let password = password.display().to_string();
    let key_added = told(machine.tabane(["key", "add", "--new-password-file", &password]));
    let forgotten = told(machine.tabane(["forget", "--keep-last", "2"]));
    let pruned = told(machine.tabane(["forget", "--keep-last", "1", "--prune"]));
    History {
        initialized,
        backed_up,
        key_added,
        forgotten,
        pruned,
    }
}

/// Looks at the disk as it may be after a cut.
fn holds(machine: &Machine, history: &History, cut: usize, init: &[String], goes_on: bool) {
    if history.backed_up[0] <= cut {
        machine.remembers();
    }
    if cut < history.initialized {
        let again = machine.tabane(init);
        if again.code != Some(0) {
            // It was made, and nobody was told.
            assert!(again.stderr.contains("already"), "{}", again.stderr);
        }
    }
    let last_backup = history.backed_up[VERSIONS - 1];
    if cut < history.initialized || (last_backup..history.key_added).contains(&cut) {
        // A new key may have no copy yet.
        machine.tabane(["repair", "config"]).succeeds();
    }
    machine.checks();
    let forgets = [history.key_added, history.forgotten, usize::MAX];
    for (version, (told, forgets)) in history.backed_up.iter().zip(forgets).enumerate() {
        if (*told..forgets).contains(&cut) {
            machine.restores(version);
        }
    }
    if history.key_added <= cut {
        let password = machine.bed.path("second").display().to_string();
        machine
            .tabane(["snapshots", "--password-file", &password])
            .succeeds();
    }
    let gone = [history.forgotten, history.pruned];
    let gone = gone.iter().filter(|told| **told <= cut).count();
    if gone > 0 {
        let list = machine
            .tabane(["snapshots", "--json"])
            .succeeds()
            .last_json();
        let count = list.as_array().map_or(0, Vec::len);
        assert!(
            count <= VERSIONS - gone,
            "what was forgotten is back: {list}"
        );
    }
    if goes_on {
        let version = VERSIONS;
        fs::write(changing(&machine.bed), content(version)).expect("a file");
        machine.backup(version).succeeds();
        machine.tabane(["prune", "--max-unused", "0"]).succeeds();
        machine.checks();
        machine.restores(version);
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// Goes through the life of a repository and cuts power at moments that chance chooses, and at the
/// moments when success was just told. `place` and `init` are given the path of the disk, `nodes`
/// starts those that have their data there.
fn survives_cuts(
    place: impl Fn(&str) -> String,
    init: impl Fn(&str) -> Vec<String>,
    nodes: impl Fn(&Bed) -> Vec<Daemon>,
    cuts: u64,
) {
    if !can_mount("power cuts") {
        return;
    }
    let bed = Bed::new();
    let path = bed.path("disk");
    fs::create_dir(&path).expect("a folder");
    let text = path.display().to_string();
    let (repository, init) = (place(&text), init(&text));
    let machine = Machine { bed, repository };
    let disk = LosingDisk::mount(&path);
    let running = nodes(&machine.bed);
    let history = live(&machine, &disk, &init);
    drop(running);
    let changes = disk.changes();
    let recording = disk.unmount();
    fs::remove_dir(&path).expect("it is empty");

    let told = [
        history.initialized,
        history.key_added,
        history.forgotten,
        history.pruned,
    ];
    let told = told.iter().chain(&history.backed_up);
    let mut moments: Vec<_> = told.map(|cut| (*cut, Kept::Nothing)).collect();
    let first = number("TABANE_TEST_FIRST", FIRST);
    for seed in first..first + number("TABANE_TEST_CUTS", cuts) {
        let mut random = Random::new(seed);
        let cut = random.below(changes as u64 + 1) as usize;
        let kept = if random.one_in(3) {
            Kept::Nothing
        } else {
            Kept::Some(seed)
        };
        moments.push((cut, kept));
    }
    for (number, (cut, kept)) in moments.into_iter().enumerate() {
        // Seen when it fails.
        println!("after {cut} of {changes} changes, {kept:?} of what was not synced: {history:?}");
        recording.after_cut(cut, kept, &path);
        let running = nodes(&machine.bed);
        holds(&machine, &history, cut, &init, number % 4 == 0);
        drop(running);
        fs::remove_dir_all(&path).expect("it is there");
    }
}

#[test]
fn nothing_that_was_told_is_lost_with_power() {
    survives_cuts(
        |disk| format!("{disk}/new/folders/repository"),
        |_| vec!["init".to_owned()],
        |_| Vec::new(),
        CUTS[0],
    );
}

/// Kills a backup when it syncs this folder of the repository, lets others go on, and cuts power.
fn survives_a_killed_client(folder: &str, others: impl Fn(&Machine)) {
    if !can_mount("power cuts") {
        return;
    }
    let bed = Bed::new();
    let path = bed.path("disk");
    fs::create_dir(&path).expect("a folder");
    let disk = LosingDisk::mount(&path);
    let repository = path.join("repository").display().to_string();
    let machine = Machine { bed, repository };
    machine.tabane(["init"]).succeeds();
    fs::write(changing(&machine.bed), content(0)).expect("a file");
    disk.kill_at_sync(&Path::new("repository").join(folder));
    assert_eq!(machine.backup(0).code, None, "it was killed");
    others(&machine);
    let changes = disk.changes();
    let recording = disk.unmount();
    fs::remove_dir(&path).expect("it is empty");
    recording.after_cut(changes, Kept::Nothing, &path);
    machine.restores(0);
    machine.checks();
}

/// Others rely on what a client has put that was killed before it had synced it.
#[test]
fn what_a_killed_client_has_put_lasts_once_others_rely_on_it() {
    survives_a_killed_client("index", |machine| {
        machine.backup(0).succeeds();
    });
}

#[test]
fn a_snapshot_of_a_killed_client_lasts_once_somebody_has_seen_it() {
    survives_a_killed_client("snapshots", |machine| {
        let list = machine.tabane(["snapshots"]).succeeds().stdout;
        assert!(list.contains("v0"), "{list}");
    });
}

/// Five folders of one disk: power cuts all at once.
#[test]
fn nothing_that_was_told_is_lost_with_power_of_several_targets() {
    survives_cuts(
        |disk| format!("striped:{disk}/set.toml"),
        |disk| {
            let targets = (0..5)
                .flat_map(|number| ["--target".to_owned(), format!("{disk}/targets/{number}")]);
            ["init".to_owned()].into_iter().chain(targets).collect()
        },
        |_| Vec::new(),
        CUTS[1],
    );
}

/// Five nodes on one machine: all of them lose power at once.
#[test]
fn nothing_that_was_told_is_lost_with_power_of_a_cluster() {
    const NODES: [&str; 5] = ["a", "b", "c", "d", "e"];
    survives_cuts(
        |disk| format!("cluster:{}", disk.replace("/disk", "/cluster.json")),
        |_| vec!["init".to_owned()],
        |bed| {
            let file = bed.path("cluster.json").display().to_string();
            if !bed.path("cluster.json").exists() {
                let nodes = NODES.map(|name| format!("{name}=127.0.0.1:0"));
                let nodes = nodes.iter().flat_map(|node| ["--node", node]);
                let create = ["cluster", "create", &file].into_iter().chain(nodes);
                run(&mut bare_command(create)).succeeds();
            }
            let node = |name| Daemon::start_on(bed, name, &bed.path("disk").join(name));
            NODES.map(node).into()
        },
        CUTS[2],
    );
}
