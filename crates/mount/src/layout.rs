//! Under which names snapshots are found: restic's, so that scripts go on to work.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use tabane_store::Id;
use tabane_store::snapshot::Snapshot;

/// The link to the last snapshot of a directory.
const LATEST: &str = "latest";

/// A directory above the snapshots.
pub type Directory = BTreeMap<String, LayoutEntry>;

/// Entries of such a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayoutEntry {
    /// A directory of this kind.
    Directory(Directory),
    /// The root of a snapshot.
    Snapshot(Id),
    /// A link to another entry of the same directory.
    Link(String),
}

/// The root, for these snapshots, oldest first. Times are those of `zone`.
pub fn layout<'a>(
    snapshots: impl IntoIterator<Item = (Id, &'a Snapshot)>,
    zone: &TimeZone,
) -> Directory {
    let [mut ids, mut times, mut hosts, mut tags] = [const { Directory::new() }; 4];
    for (id, snapshot) in snapshots {
        let short = if ids.contains_key(&id.short()) {
            id.to_string()
        } else {
            id.short()
        };
        ids.insert(short, LayoutEntry::Snapshot(id));
        let time = time_name(snapshot, zone);
        insert(&mut times, &time, id);
        insert(below(&mut hosts, &snapshot.hostname), &time, id);
        let mut names: Vec<String> = snapshot.tags.iter().map(|tag| file_name(tag)).collect();
        names.sort();
        names.dedup();
        for tag in names {
            insert(below(&mut tags, &tag), &time, id);
        }
    }
    let named = [
        ("ids", ids),
        ("snapshots", times),
        ("hosts", hosts),
        ("tags", tags),
    ];
    let named = named.map(|(name, directory)| (name.to_owned(), LayoutEntry::Directory(directory)));
    named.into()
}

/// As `2026-01-02T15:04:05+01:00`.
fn time_name(snapshot: &Snapshot, zone: &TimeZone) -> String {
    let time = snapshot.time.to_zoned(zone.clone());
    let format = if time.offset().is_zero() {
        "%Y-%m-%dT%H:%M:%SZ"
    } else {
        "%Y-%m-%dT%H:%M:%S%:z"
    };
    time.strftime(format).to_string()
}

/// Inserts the latest snapshot so far; its name gets a number if another one is of the same second.
fn insert(directory: &mut Directory, time: &str, id: Id) {
    let mut names =
        std::iter::once(time.to_owned()).chain((1_u32..).map(|number| format!("{time}-{number}")));
    let name = names
        .find(|name| !directory.contains_key(name))
        .expect("there are endlessly many");
    directory.insert(LATEST.to_owned(), LayoutEntry::Link(name.clone()));
    directory.insert(name, LayoutEntry::Snapshot(id));
}

/// The directory for a host or tag.
fn below<'a>(directory: &'a mut Directory, name: &str) -> &'a mut Directory {
    let entry = directory
        .entry(file_name(name))
        .or_insert_with(|| LayoutEntry::Directory(Directory::new()));
    match entry {
        LayoutEntry::Directory(directory) => directory,
        _ => unreachable!("there are directories only"),
    }
}

/// A host or tag as a valid file name. Names that become equal share a directory.
fn file_name(text: &str) -> String {
    const NAME_LEN_MAX: usize = 255;
    let mut name = match text {
        "" | "." => "_".to_owned(),
        ".." => "__".to_owned(),
        _ => text.replace(['/', '\0'], "_"),
    };
    name.truncate(name.floor_char_boundary(NAME_LEN_MAX));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(time: &str, hostname: &str, tags: &[&str]) -> Snapshot {
        Snapshot {
            time: time.parse().expect("a time"),
            hostname: hostname.to_owned(),
            username: String::new(),
            paths: Vec::new(),
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            parent: None,
            original: None,
            root: Vec::new(),
            owners: None,
            program_version: String::new(),
            summary: Default::default(),
        }
    }

    /// Every path, with its entry.
    fn paths(directory: &Directory, above: &str, out: &mut Vec<String>) {
        for (name, entry) in directory {
            match entry {
                LayoutEntry::Directory(below) => paths(below, &format!("{above}{name}/"), out),
                LayoutEntry::Snapshot(id) => out.push(format!("{above}{name} {}", id.0[31])),
                LayoutEntry::Link(target) => out.push(format!("{above}{name} -> {target}")),
            }
        }
    }

    #[test]
    fn names_are_those_of_restic_and_never_collide() {
        let id = |first: u8, last: u8| {
            let mut id = Id::default();
            (id.0[0], id.0[31]) = (first, last);
            id
        };
        let snapshots = [
            (
                id(1, 1),
                snapshot("2026-01-02T03:04:05Z", "a/b", &["x", "x", ".."]),
            ),
            (id(1, 2), snapshot("2026-01-02T03:04:05.5Z", "", &[])),
            (id(2, 3), snapshot("2026-07-02T03:04:05Z", "a_b", &["x"])),
        ];
        let list = |zone| {
            let mut found = Vec::new();
            let snapshots = snapshots.iter().map(|(id, snapshot)| (*id, snapshot));
            paths(&layout(snapshots, &zone), "", &mut found);
            found
        };
        let full = format!("ids/{} 2", id(1, 2));
        assert_eq!(
            list(TimeZone::UTC),
            [
                "hosts/_/2026-01-02T03:04:05Z 2",
                "hosts/_/latest -> 2026-01-02T03:04:05Z",
                "hosts/a_b/2026-01-02T03:04:05Z 1",
                "hosts/a_b/2026-07-02T03:04:05Z 3",
                "hosts/a_b/latest -> 2026-07-02T03:04:05Z",
                "ids/01000000 1",
                &full,
                "ids/02000000 3",
                "snapshots/2026-01-02T03:04:05Z 1",
                "snapshots/2026-01-02T03:04:05Z-1 2",
                "snapshots/2026-07-02T03:04:05Z 3",
                "snapshots/latest -> 2026-07-02T03:04:05Z",
                "tags/__/2026-01-02T03:04:05Z 1",
                "tags/__/latest -> 2026-01-02T03:04:05Z",
                "tags/x/2026-01-02T03:04:05Z 1",
                "tags/x/2026-07-02T03:04:05Z 3",
                "tags/x/latest -> 2026-07-02T03:04:05Z",
            ]
        );
        let west = TimeZone::fixed(jiff::tz::offset(-3));
        assert!(list(west).contains(&"snapshots/2026-01-02T00:04:05-03:00 1".to_owned()));
        assert_eq!(file_name(&"\u{e4}".repeat(200)).len(), 254);
    }
}
