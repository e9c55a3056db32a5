//! `migrate`, and what format 2 adds: names of owners, file flags, copies of config and keys.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustix::fs::IFlags;
use tabane_storage::LocalStorage;
use tabane_store::key::KdfCost;
use tabane_store::{InitOptions, Repository};
use tabane_testing::not_checked;

use crate::bed::{Bed, PASSWORD, restored, run};

fn older(bed: &Bed) {
    let storage = Arc::new(LocalStorage::new(bed.repository()));
    let options = InitOptions::default().format(1).kdf_cost(KdfCost::WEAKEST);
    Repository::init(storage, &PASSWORD.as_bytes().to_vec().into(), options).unwrap();
}

fn flags_of(path: &Path) -> IFlags {
    rustix::fs::ioctl_getflags(File::open(path).unwrap()).unwrap()
}

/// Makes a file that `dump` leaves out, which needs no rights; false where there are no flags.
fn set_nodump(path: &Path) -> bool {
    let file = File::open(path).unwrap();
    let set = rustix::fs::ioctl_getflags(&file)
        .and_then(|flags| rustix::fs::ioctl_setflags(&file, flags | IFlags::NODUMP));
    if let Err(error) = &set {
        not_checked("file flags", error);
    }
    set.is_ok()
}

#[test]
fn a_repository_is_migrated_in_place() {
    let bed = Bed::new();
    older(&bed);
    bed.backup(&[]).succeeds();
    let old = bed.run(["ls", "--json", "latest"]).succeeds();
    assert!(!old.stdout.contains("\"user\":"), "{}", old.stdout);
    bed.run(["migrate"])
        .succeeds()
        .says("migrated the repository from format 1 to format 2");
    bed.run(["migrate"]).succeeds().says("nothing to do");
    let again = bed.run(["migrate", "--json"]).succeeds().last_json();
    assert_eq!(
        (again["message_type"].as_str(), again["migrated"].as_bool()),
        (Some("migrated"), Some(false))
    );
    assert_eq!(
        fs::read_dir(bed.repository().join("copies"))
            .unwrap()
            .count(),
        2
    );
    bed.backup(&[]).succeeds();
    bed.run(["check", "--read-data"]).succeeds();
    let new = bed.run(["ls", "--json", "latest"]).succeeds();
    assert!(new.stdout.contains("\"user\":"), "{}", new.stdout);
}

#[test]
fn a_check_says_when_one_password_opens_the_repository() {
    let bed = Bed::with_repository();
    let says = "only one password opens the repository";
    bed.run(["check"]).succeeds().says(says);
    let file = bed.path("second");
    fs::write(&file, "second").unwrap();
    bed.run(["key", "add", "--new-password-file", file.to_str().unwrap()])
        .succeeds();
    let ran = bed.run(["check"]).succeeds();
    assert!(!ran.stdout.contains(says), "{}", ran.stdout);
}

#[test]
fn lists_and_archives_have_names() {
    let bed = Bed::with_repository();
    let name = |flag: &str| {
        let ran = Command::new("id").arg(flag).output().unwrap();
        String::from_utf8(ran.stdout).unwrap().trim().to_owned()
    };
    let (user, group) = (name("-un"), name("-gn"));
    bed.backup(&[]).succeeds();
    bed.run(["ls", "-l", "latest"])
        .succeeds()
        .says(&format!(" {user:<8} {group:<8} "));
    bed.run(["find", "-l", "notes.txt"])
        .succeeds()
        .says(&format!(" {user:<8} {group:<8} "));
    let source = bed.source();
    let archive = bed.run(["dump".as_ref(), "latest".as_ref(), source.as_os_str()]);
    let archive = archive.succeeds().bytes;
    // The names of user and group stand at 265 and 297 of a header.
    let has_names = |header: &[u8]| {
        header[257..].starts_with(b"ustar")
            && header[265..].starts_with(user.as_bytes())
            && header[297..].starts_with(group.as_bytes())
    };
    assert!(archive.chunks_exact(512).any(has_names));
}

#[test]
fn flags_come_back_and_are_listed() {
    let bed = Bed::with_repository();
    if !set_nodump(&bed.source().join("empty")) {
        return;
    }
    bed.backup(&[]).succeeds();
    bed.run(["ls", "--json", "latest"])
        .succeeds()
        .says("\"flags\":\"nodump\"");
    let target = bed.path("target");
    bed.run(["restore", "latest", "--target", target.to_str().unwrap()])
        .succeeds();
    let there = restored(&target, &bed.source());
    assert!(flags_of(&there.join("empty")).contains(IFlags::NODUMP));
    assert!(!flags_of(&there.join("docs/notes.txt")).contains(IFlags::NODUMP));
}

#[test]
fn what_leads_to_another_path_has_no_flags() {
    let bed = Bed::with_repository();
    if !set_nodump(&bed.source()) {
        return;
    }
    bed.backup(&["--as-path", "/above/below"]).succeeds();
    let listed = bed.run(["ls", "--json", "latest"]).succeeds().json();
    let flags = |path: &str| {
        let entry = listed.iter().find(|entry| entry["path"] == path).unwrap();
        entry["flags"].as_str().map(str::to_owned)
    };
    assert_eq!(flags("/above"), None);
    assert_eq!(flags("/above/below").as_deref(), Some("nodump"));
}

/// A repository of format 1 has no flags, so they are no change.
#[test]
fn flags_are_no_change_in_format_1() {
    let bed = Bed::new();
    older(&bed);
    if !set_nodump(&bed.source().join("empty")) {
        return;
    }
    bed.backup(&[]).succeeds();
    bed.backup(&["--skip-if-unchanged"]).succeeds();
    let snapshots = bed.run(["snapshots", "--json"]).succeeds().last_json();
    assert_eq!(snapshots.as_array().unwrap().len(), 1, "{snapshots}");
}

/// Restores where somebody else has the number of the owner, and the owner has another.
#[test]
fn owners_are_found_by_name_unless_numbers_are_asked_for() {
    let bed = Bed::with_repository();
    let owned = bed.source().join("empty");
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let line = users.lines().find(|line| line.starts_with("nobody:"));
    let Some(number) = line.and_then(|line| line.split(':').nth(2)?.parse::<u32>().ok()) else {
        return not_checked("owners by name", "nobody is not in /etc/passwd");
    };
    if chown(&owned, Some(number), None).is_err() {
        return not_checked("owners by name", "not root");
    }
    bed.backup(&[]).succeeds();
    let others = bed.path("passwd");
    let changed = users.replace(&format!("nobody:x:{number}:"), "nobody:x:4711:");
    fs::write(&others, changed).unwrap();
    for (options, uid) in [("", 4711), ("--numeric-ids", number)] {
        let target = bed.path(&format!("target{options}"));
        // In a mount namespace of its own, as on another machine.
        let script = format!(
            "mount --bind '{}' /etc/passwd && exec '{}' restore latest --target '{}' {options}",
            others.display(),
            env!("CARGO_BIN_EXE_tabane"),
            target.display()
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script]);
        for (name, value) in bed.command(["snapshots"]).get_envs() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        let there = Command::new("unshare").args(["--mount", "true"]).status();
        if !there.is_ok_and(|status| status.success()) {
            return not_checked("owners by name", "no mount namespaces here");
        }
        run(&mut command).succeeds();
        let there = restored(&target, &bed.source()).join("empty");
        assert_eq!(fs::metadata(there).unwrap().uid(), uid, "{options}");
    }
}

#[test]
fn a_lost_config_or_key_is_brought_back() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    bed.run(["repair", "config"])
        .succeeds()
        .says("are as they should be");
    let keys = bed.repository().join("keys");
    let key = fs::read_dir(keys).unwrap().next().unwrap().unwrap().path();
    for lost in [bed.repository().join("config"), key] {
        let bytes = fs::read(&lost).unwrap();
        for damaged in [None, Some(bytes.len() / 2)] {
            match damaged {
                None => fs::remove_file(&lost).unwrap(),
                Some(at) => {
                    let mut bytes = bytes.clone();
                    bytes[at] ^= 1;
                    fs::write(&lost, bytes).unwrap();
                }
            }
            let ran = bed.run(["snapshots"]);
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
            assert!(
                ran.stderr.contains("`tabane repair config`"),
                "{}",
                ran.stderr
            );
            assert_eq!(bed.run(["check"]).code, Some(1));
            assert_eq!(bed.run(["repair", "config"]).code, Some(0));
            assert_eq!(fs::read(&lost).unwrap(), bytes);
            let ran = bed.run(["check"]).succeeds();
            assert!(!ran.stderr.contains("repair config"), "{}", ran.stderr);
        }
    }
}
