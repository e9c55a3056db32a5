//! `tabane cp` copies file flags.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use rustix::fs::IFlags;
use tabane_testing::not_checked;

fn flags_of(path: &Path) -> rustix::io::Result<IFlags> {
    rustix::fs::ioctl_getflags(File::open(path).unwrap())
}

fn change(path: &Path, change: impl Fn(IFlags) -> IFlags) -> rustix::io::Result<()> {
    let file = File::open(path).unwrap();
    rustix::fs::ioctl_setflags(&file, change(rustix::fs::ioctl_getflags(&file)?))
}

#[test]
fn flags_are_copied() {
    let bed = tempfile::tempdir().unwrap();
    let source = bed.path().join("source");
    fs::create_dir_all(source.join("dir")).unwrap();
    for name in ["plain", "nodump", "immutable", "dir/inner"] {
        fs::write(source.join(name), name).unwrap();
    }
    let mut wanted = vec![("plain", IFlags::empty()), ("nodump", IFlags::NODUMP)];
    if rustix::process::getuid().is_root() {
        // What is in it first.
        wanted.extend([
            ("immutable", IFlags::IMMUTABLE | IFlags::NODUMP),
            ("dir/inner", IFlags::APPEND),
            ("dir", IFlags::IMMUTABLE),
        ]);
    } else {
        not_checked("immutable files", "not root");
    }
    for (name, flags) in &wanted {
        if let Err(error) = change(&source.join(name), |present| present | *flags) {
            return not_checked("file flags of copies", error);
        }
    }
    let kept = IFlags::IMMUTABLE | IFlags::APPEND | IFlags::NODUMP;
    let mut ran = Vec::new();
    // The second time everything is there, and immutable.
    for _ in 0..2 {
        let output = Command::new(env!("CARGO_BIN_EXE_tabane"))
            .current_dir(bed.path())
            .args(["cp", "-T", "source", "copy"])
            .output()
            .unwrap();
        let found = wanted.iter().map(|(name, _)| {
            let flags = flags_of(&bed.path().join("copy").join(name));
            flags.unwrap_or(IFlags::empty()) & kept
        });
        ran.push((output, found.collect::<Vec<_>>()));
    }
    // So that all can be removed.
    for top in ["source", "copy"] {
        for (name, _) in wanted.iter().rev() {
            let _ = change(&bed.path().join(top).join(name), |present| present - kept);
        }
    }
    for (output, found) in ran {
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
        let expected: Vec<IFlags> = wanted.iter().map(|(_, flags)| *flags).collect();
        assert_eq!(found, expected, "{text}");
    }
}
