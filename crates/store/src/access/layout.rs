//! Under which names snapshots are found: restic's, so that scripts go on to work.

use std::collections::BTreeMap;

use jiff::Zoned;
use jiff::civil::date;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

use tabane_format::snapshot::Snapshot;
use tabane_storage::Id;

/// The link to the last snapshot of a directory.
const LATEST: &str = "latest";

/// The usual paths of snapshots.
const PATHS: [&str; 4] = ["ids/%i", "snapshots/%T", "hosts/%h/%T", "tags/%t/%T"];

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

/// How the paths of snapshots are made.
#[derive(Clone, Debug)]
pub struct Templates {
    /// Each as names and fields between slashes.
    paths: Vec<Vec<Vec<Part>>>,
    /// How times are written, as for `strftime`; nothing for RFC 3339.
    time: Option<String>,
}

/// A part of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// `%i`, `%I`, `%h`, `%u`, `%t` or `%T`.
    Field(char),
}

impl Default for Templates {
    fn default() -> Self {
        Self::new(&PATHS, None).expect("the usual paths can be used")
    }
}

impl Templates {
    /// Reads paths such as `hosts/%h/%T`, in which `%i` stands for a short ID, `%I` for an ID, `%h`
    /// for the host, `%u` for the user, `%t` for each tag and `%T` for the time, and a format of
    /// times as for `strftime`. Without paths, the usual ones.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn new<T: AsRef<str>>(paths: &[T], time: Option<&str>) -> Result<Self, String> {
        if let Some(format) = time {
            let written = |time: &Zoned| {
                strtime::format(format, time)
                    .map_err(|error| format!("{format:?} is no format of times: {error}"))
            };
            // Two times of which no part is the same.
            let times = [
                date(2001, 2, 3).at(4, 5, 6, 7),
                date(2012, 11, 9).at(20, 18, 17, 800),
            ];
            let times = times.map(|time| time.to_zoned(TimeZone::UTC));
            let [Ok(one), Ok(other)] = times else {
                unreachable!("UTC has every time");
            };
            if written(&one)? == written(&other)? {
                return Err(format!(
                    "{format:?} writes all times alike: use %Y, %m, %d, %H, %M and %S, as strftime \
                     has them"
                ));
            }
        }
        let read = |path: &str| {
            let names = path.split('/').filter(|name| !name.is_empty());
            let names: Result<Vec<_>, String> = names.map(|name| read_name(path, name)).collect();
            match names {
                Ok(names) if names.is_empty() => Err(format!("{path:?} is no path")),
                names => names,
            }
        };
        let paths: Result<Vec<_>, String> = match paths {
            [] => PATHS.iter().map(|path| read(path)).collect(),
            paths => paths.iter().map(|path| read(path.as_ref())).collect(),
        };
        Ok(Self {
            paths: paths?,
            time: time.map(str::to_owned),
        })
    }

    /// The time of a snapshot; by default as `2026-01-02T15:04:05+01:00`.
    fn time(&self, snapshot: &Snapshot, zone: &TimeZone) -> String {
        let time = snapshot.time.to_zoned(zone.clone());
        let format = match &self.time {
            Some(format) => format,
            None if time.offset().is_zero() => "%Y-%m-%dT%H:%M:%SZ",
            None => "%Y-%m-%dT%H:%M:%S%:z",
        };
        time.strftime(format).to_string()
    }
}

/// Reads a name of a template.
fn read_name(path: &str, name: &str) -> Result<Vec<Part>, String> {
    if [".", ".."].contains(&name) {
        return Err(format!(
            "{path:?} has the name {name:?}, which means another directory"
        ));
    }
    let mut parts = Vec::new();
    let mut rest = name;
    while let Some(at) = rest.find('%') {
        parts.push(Part::Text(rest[..at].to_owned()));
        let field = rest[at + 1..].chars().next();
        match field {
            Some(field) if "iIhutT".contains(field) => parts.push(Part::Field(field)),
            _ => {
                return Err(format!(
                    "{path:?} has a % with something else behind it than i, I, h, u, t or T"
                ));
            }
        }
        rest = &rest[at + 2..];
    }
    parts.push(Part::Text(rest.to_owned()));
    parts.retain(|part| *part != Part::Text(String::new()));
    Ok(parts)
}

/// The root, for these snapshots, oldest first. Times are those of `zone`.
pub fn layout<'a>(
    snapshots: impl IntoIterator<Item = (Id, &'a Snapshot)>,
    templates: &Templates,
    zone: &TimeZone,
) -> Directory {
    let mut root = Directory::new();
    for path in &templates.paths {
        // What every snapshot has in front is there without a snapshot, too.
        let mut directory = &mut root;
        for name in &path[..path.len() - 1] {
            match &name[..] {
                [Part::Text(text)] => directory = below(directory, text),
                _ => break,
            }
        }
    }
    for (id, snapshot) in snapshots {
        let time = templates.time(snapshot, zone);
        for path in &templates.paths {
            let has_tag = path.iter().flatten().any(|part| *part == Part::Field('t'));
            let mut tags: Vec<&str> = if has_tag {
                snapshot.tags.iter().map(String::as_str).collect()
            } else {
                vec![""]
            };
            tags.sort();
            tags.dedup_by(|one, other| file_name(one) == file_name(other));
            for tag in tags {
                insert(&mut root, path, id, snapshot, tag, &time);
            }
        }
    }
    root
}

/// Inserts a snapshot at a path.
fn insert(
    root: &mut Directory,
    path: &[Vec<Part>],
    id: Id,
    snapshot: &Snapshot,
    tag: &str,
    time: &str,
) {
    let expand = |name: &Vec<Part>| -> String {
        let parts = name.iter().map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Field('i') => id.short(),
            Part::Field('I') => id.to_string(),
            Part::Field('h') => file_name(&snapshot.hostname),
            Part::Field('u') => file_name(&snapshot.username),
            Part::Field('t') => file_name(tag),
            // Its slashes make directories.
            Part::Field(_) => time.to_owned(),
        });
        parts.collect()
    };
    let expanded: Vec<String> = path.iter().map(expand).collect();
    let expanded = expanded.join("/");
    let mut names: Vec<&str> = expanded
        .split('/')
        .filter(|name| !name.is_empty())
        .collect();
    let Some(last) = names.pop() else {
        return;
    };
    let directory = names
        .into_iter()
        .fold(root, |directory, name| below(directory, name));
    let last_parts = path.last().expect("a path has a name");
    if last_parts[..] == [Part::Field('i')] && directory.contains_key(last) {
        directory.insert(id.to_string(), LayoutEntry::Snapshot(id));
        return;
    }
    let name = free(last, |name| !directory.contains_key(name));
    if last_parts.contains(&Part::Field('T')) {
        directory.insert(LATEST.to_owned(), LayoutEntry::Link(name.clone()));
    }
    directory.insert(name, LayoutEntry::Snapshot(id));
}

/// A name, with a number if it is not `usable` without.
fn free(name: &str, usable: impl Fn(&str) -> bool) -> String {
    let name = file_name(name);
    let numbered = (1_u32..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.clone()).chain(numbered);
    names
        .find(|name| usable(name))
        .expect("there are endlessly many")
}

/// The directory of this name.
fn below<'a>(directory: &'a mut Directory, name: &str) -> &'a mut Directory {
    let is_directory = |name: &str| {
        let entry = directory.get(name);
        entry.is_none_or(|entry| matches!(entry, LayoutEntry::Directory(_)))
    };
    let name = free(name, is_directory);
    let entry = directory
        .entry(name)
        .or_insert_with(|| LayoutEntry::Directory(Directory::new()));
    match entry {
        LayoutEntry::Directory(directory) => directory,
        _ => unreachable!("it is one"),
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
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            ..Snapshot::default()
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
            let templates = Templates::default();
            paths(&layout(snapshots, &templates, &zone), "", &mut found);
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
        let templates = ["%h", "%h/%u/%T", "all/%I", "%t/x-%i"];
        let templates = Templates::new(&templates, Some("%Y/%j")).expect("usable");
        let mut found = Vec::new();
        let listed = snapshots.iter().map(|(id, snapshot)| (*id, snapshot));
        paths(&layout(listed, &templates, &TimeZone::UTC), "", &mut found);
        let all = |number: usize| format!("all/{} {}", snapshots[number].0, number + 1);
        assert_eq!(
            found,
            [
                "_ 2",
                "_-1/_/2026/002 2",
                "_-1/_/2026/latest -> 002",
                "__/x-01000000 1",
                "a_b 1",
                "a_b-1/_/2026/002 1",
                "a_b-1/_/2026/183 3",
                "a_b-1/_/2026/latest -> 183",
                "a_b-2 3",
                &all(0),
                &all(1),
                &all(2),
                "x/x-01000000 1",
                "x/x-02000000 3",
            ]
        );
        for (path, time) in [
            ("", None),
            ("a/../b", None),
            ("%x", None),
            ("a%", None),
            ("a", Some("%Q%!")),
        ] {
            assert!(Templates::new(&[path], time).is_err(), "{path} {time:?}");
        }
        let west = TimeZone::fixed(jiff::tz::offset(-3));
        assert!(list(west).contains(&"snapshots/2026-01-02T00:04:05-03:00 1".to_owned()));
        assert_eq!(file_name(&"\u{e4}".repeat(200)).len(), 254);
    }
}
