//! The mounted file systems.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::Result;

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where it is mounted.
    pub point: PathBuf,
    /// Which directory of the file system is there.
    pub root: PathBuf,
    /// The type, as `ext4`.
    pub kind: String,
    /// The device, or the dataset of ZFS.
    pub source: OsString,
    /// Whether a source is on it, and not only below it.
    pub is_read: bool,
}

/// The mounts that lead to `sources` or are below them, sorted by path.
///
/// # Errors
/// When the list cannot be read.
pub fn of(sources: &[PathBuf]) -> Result<Vec<Mount>> {
    let path = "/proc/self/mountinfo";
    let text = fs::read(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    Ok(select(parse(&text), sources))
}

fn select(mounts: Vec<Mount>, sources: &[PathBuf]) -> Vec<Mount> {
    let mut visible: Vec<Mount> = Vec::new();
    for mount in mounts {
        // It covers what was mounted there before.
        visible.retain(|before| !before.point.starts_with(&mount.point));
        visible.push(mount);
    }
    visible.sort_by(|one, other| one.point.cmp(&other.point));
    let points: Vec<PathBuf> = visible.iter().map(|mount| mount.point.clone()).collect();
    visible.retain_mut(|mount| {
        let innermost = |source: &PathBuf| {
            let mut above = points.iter().filter(|point| source.starts_with(point));
            above.next_back() == Some(&mount.point)
        };
        let is_below = |source: &PathBuf| mount.point.starts_with(source);
        mount.is_read = sources
            .iter()
            .any(|source| is_below(source) || innermost(source));
        mount.is_read
            || sources
                .iter()
                .any(|source| source.starts_with(&mount.point))
    });
    visible
}

/// Reads lines as `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`.
fn parse(text: &[u8]) -> Vec<Mount> {
    let lines = text.split(|&byte| byte == b'\n');
    let parse = |line: &[u8]| {
        let mut fields = line.split(|&byte| byte == b' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let mut behind = fields.skip_while(|field| *field != b"-").skip(1);
        let (kind, source) = (behind.next()?, behind.next()?);
        Some(Mount {
            point: unescape(point).into(),
            root: unescape(root).into(),
            kind: unescape(kind).into_string().ok()?,
            source: unescape(source),
            is_read: false,
        })
    };
    lines.filter_map(parse).collect()
}

/// Undoes the kernel's escapes: `\040` is a space.
fn unescape(text: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, behind)) = rest.split_first() {
        let number = behind
            .get(..3)
            .filter(|_| first == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(number.unwrap_or(first));
        rest = if number.is_some() {
            &behind[3..]
        } else {
            behind
        };
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"\
27 1 252:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 27 0:23 / /proc rw - proc proc rw
40 27 0:39 /@home /home rw,relatime - btrfs /dev/sdb rw,subvol=/@home
41 40 0:40 / /home/a\\040b rw - tmpfs none rw
42 27 0:41 / /home rw - zfs tank/home rw
43 42 0:42 / /home/ada/nas ro master:5 propagate_from:2 - nfs4 nas:/x ro
";

    #[test]
    fn mounts_are_those_that_can_be_seen() {
        let points = |sources: &[&str]| -> Vec<(String, String, bool)> {
            let sources: Vec<PathBuf> = sources.iter().map(Into::into).collect();
            let mounts = select(parse(TEXT), &sources).into_iter();
            mounts
                .map(|mount| {
                    let point = mount.point.display().to_string();
                    (point, mount.kind, mount.is_read)
                })
                .collect()
        };
        let is = |point: &str, kind: &str, is_read| (point.to_owned(), kind.to_owned(), is_read);
        assert_eq!(
            points(&["/home/ada"]),
            [
                is("/", "ext4", false),
                is("/home", "zfs", true),
                is("/home/ada/nas", "nfs4", true),
            ]
        );
        assert_eq!(points(&["/etc"]), [is("/", "ext4", true)]);
        assert_eq!(points(&["/"]).len(), 4);
        let parsed = parse(TEXT);
        assert_eq!(parsed[2].root, PathBuf::from("/@home"));
        assert_eq!(parsed[3].point, PathBuf::from("/home/a b"));
    }
}
