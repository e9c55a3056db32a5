//! Advice on problems. The crates below report what failed and why; only this file knows which
//! command or option helps.

use tabane_mount::MountError;
use tabane_storage::{Event, EventKind, StorageError, StorageErrorKind};
use tabane_store::Error;
use tabane_striped::Survey;

/// Advice for an error of the repository, if any.
pub fn of(error: &Error) -> Option<String> {
    let advice = match error {
        Error::NoRepository(place) => {
            return Some(format!(
                "check the path, or create one with `tabane init --repo {place}`"
            ));
        }
        Error::ConfigMissing(_) | Error::NoKeys => {
            "`tabane key import` brings it back from a text of `tabane key export`"
        }
        Error::AmbiguousKey(_) | Error::NoKey(_) => "`tabane key list` lists them",
        Error::Foreign(_) => {
            "find out who can write to the repository; `tabane repair index` removes it, `tabane \
             forget ID` if it is a snapshot"
        }
        Error::WriteOnly(_) => "`tabane key list` shows which keys read everything",
        Error::NoWriteOnlyKeys(_) => {
            "`tabane migrate` brings it to the latest format; `tabane copy` copies its snapshots \
             into a new one"
        }
        Error::Storage { source, .. } => return of_kind(source.kind()).map(str::to_owned),
        Error::Path { source, .. } => match source.kind().into() {
            // The disk of a target or of a cache, and not that of the repository.
            StorageErrorKind::Full => {
                "free some space there, or choose another place, and run the command again: what \
                 is there already is not written twice"
            }
            kind => return of_kind(kind).map(str::to_owned),
        },
        Error::OfStripedSet(_) => "name the set instead, `--repo striped:FILE`",
        Error::Damaged { what, .. } if what == "config" => {
            "the repository cannot be opened without it: bring it back from a copy, or with \
             `tabane key import` from a text of `tabane key export`"
        }
        Error::Damaged { what, .. } if what.starts_with("keys/") => {
            "bring it back from a copy, or open the repository with the password of another key; \
             without a sound key nothing can be decrypted"
        }
        Error::Damaged { what, .. } if what.starts_with("index/") => {
            "`tabane repair index` makes the index anew from the packs; in a copy that cannot be \
             written to, do without this file: move it away"
        }
        Error::Damaged { .. } => "run `tabane check --read-data` to see what is affected",
        Error::OlderFormat { .. } => "run `tabane migrate` on it first",
        Error::MissingBlock(_) => "run `tabane check` to see what is affected",
        Error::RemovedMeanwhile => {
            "run the command again (`tabane prune` with a `--grace` longer than backups take \
             avoids this)"
        }
        Error::ObjectGone(_) => {
            "run the command again: it now looks for what is gone, and stores again what it still \
             finds; then see `tabane check`"
        }
        Error::PruneRunning(_) => {
            "wait until it is done (if it died, `tabane unlock` on its machine removes what it \
             left, `tabane unlock --all` on any)"
        }
        Error::CannotPrune(_) => "run `tabane check`, then `tabane repair`",
        Error::SnapshotLost(_) => {
            "bring back what is missing, if a target is; find out who can write to the repository; \
             `tabane forget --lost` gives up what is lost"
        }
        Error::Cache { .. } => "run the command again, or with `--no-cache`",
        Error::CacheDamaged => "`tabane cache` says where it is: remove it",
        Error::NoSnapshot(_) | Error::AmbiguousSnapshot { .. } => "`tabane snapshots` lists them",
        Error::PacksUnindexed => "run `tabane repair index` first",
        Error::LatestUnclear(_) => {
            "name one by its ID (`tabane snapshots` lists them); `tabane forget ID` removes one \
             that is damaged"
        }
        Error::NoSuchPath { snapshot, .. } => {
            return Some(format!("`tabane ls {snapshot}` lists what is"));
        }
        Error::OtherCuts(_) => {
            "make one that cuts as --repo does, with `tabane init --copy-chunker-params`, and \
             `tabane copy` old snapshots into it"
        }
        Error::OtherHash { from, .. } => {
            return Some(format!(
                "copy into a repository made with `tabane init --hash {from}`, or restore and back \
                 up again"
            ));
        }
        _ => return None,
    };
    Some(advice.to_owned())
}

/// Advice for an error of a storage, if any.
pub fn of_kind(kind: StorageErrorKind) -> Option<&'static str> {
    Some(match kind {
        StorageErrorKind::Full => {
            "free some space or raise the quota, and run the command again: nothing already stored \
             is lost"
        }
        StorageErrorKind::Denied => "check the permissions, or run as another user",
        StorageErrorKind::ReadOnly => "mount it writable, or choose another place",
        StorageErrorKind::Retryable => {
            "nothing already stored is lost: check the network and the server, and run the command \
             again"
        }
        StorageErrorKind::NoTargets => {
            "bring them back; if `tabane init` was interrupted, run it again with the same targets"
        }
        StorageErrorKind::TooFewTargets => "bring back what is missing, and run the command again",
        StorageErrorKind::TooManyTargets => "make a new set, and `tabane copy` into it",
        StorageErrorKind::AlreadyReplaced => {
            "if this command ran before, the target is replaced: run `tabane heal` to fill it"
        }
        StorageErrorKind::NoSuchTarget => "`tabane targets` lists them",
        StorageErrorKind::TargetNeeded => "run `tabane heal` first",
        StorageErrorKind::Minority => {
            "bring back what is missing; if it is lost for good, and no client reaches it any \
             more, give `--others-are-lost` as well"
        }
        StorageErrorKind::Cold => {
            "`tabane warm-up` asks for all that a restore needs, which the service brings back in \
             minutes to two days, and waits for it"
        }
        StorageErrorKind::Overtaken => {
            "see `tabane targets`, then run the same command again if it is still wanted"
        }
        _ => return None,
    })
}

/// Advice for an error of mounting, if any.
pub fn of_mount(error: &MountError) -> Option<String> {
    match error {
        MountError::Repository(error) => of(error),
        MountError::NoDevice(device) => Some(format!(
            "load the kernel's module (`modprobe fuse`); a container must be given the device \
             (`--device {device} --cap-add SYS_ADMIN`); `tabane restore` and `tabane dump` need \
             none of it"
        )),
        MountError::NotForOthers(_) => Some("or leave `--allow-other` out".to_owned()),
        MountError::Unusable(_) => None,
    }
}

/// The text of an error of the repository, with advice.
pub fn explain(error: &Error) -> String {
    with(error.to_string(), of(error).as_deref())
}

/// The text of an error of mounting, with advice.
pub fn explain_mount(error: &MountError) -> String {
    with(error.to_string(), of_mount(error).as_deref())
}

/// The text of an error of an import, with advice.
pub fn explain_import(error: &tabane_import::Error) -> String {
    use tabane_import::Error as ImportError;
    let advice = match error {
        ImportError::Storage { source, .. } => of_kind(source.kind()),
        ImportError::NoRepository { .. } => Some("check the path"),
        ImportError::WrongPassword { .. } => Some(
            "the password of the source comes from --from-password-file, --from-password-command \
             or TABANE_FROM_PASSWORD",
        ),
        ImportError::UnknownVersion { .. } => {
            Some("restore with the program that made it, and back up again")
        }
        ImportError::Damaged { .. } => Some("repair the source with the program that made it"),
        _ => None,
    };
    with(error.to_string(), advice)
}

/// The text of a storage's error, with advice.
pub fn explain_storage(error: &StorageError) -> String {
    with(error.to_string(), of_kind(error.kind()))
}

/// The text of a storage's event, with advice.
pub fn explain_event(event: &Event) -> String {
    let advice = match event.kind {
        EventKind::TargetsMissing { are_nodes } => Some(format!(
            "run `tabane heal` when they are back, or replace them with `{}`",
            replace_command(are_nodes)
        )),
        EventKind::TargetFails => {
            Some("`tabane heal` brings it up to date when it is back".to_owned())
        }
        EventKind::TargetRefuses => Some(
            "free some space there or let it be written to, then `tabane heal` brings it up to \
             date"
                .to_owned(),
        ),
        EventKind::CertificateEnds => Some("`tabane cluster renew` makes a new one".to_owned()),
        EventKind::TargetLies => Some(
            "find the cause, replace what is at fault, and run `tabane scrub`, which puts the \
             right bytes there"
                .to_owned(),
        ),
        EventKind::TargetReplaced { is_node: true } => {
            Some("`tabane cluster remove` forgets it, if nobody uses it elsewhere".to_owned())
        }
        EventKind::TargetReplaced { is_node: false } => {
            Some("take it out of the set file".to_owned())
        }
        _ => None,
    };
    with(event.text.clone(), advice.as_deref())
}

/// The command that replaces a target; `are_nodes` says whether targets are nodes of a cluster.
pub fn replace_command(are_nodes: bool) -> &'static str {
    if are_nodes {
        "tabane cluster replace"
    } else {
        "tabane targets replace"
    }
}

/// A sentence that says which targets could be lost now.
pub fn statement(survey: &Survey) -> String {
    let statement = survey.statement();
    match survey.unnamed_pairs() {
        0 => statement,
        _ => format!("{statement} (`tabane targets --json` lists them)"),
    }
}

fn with(mut text: String, advice: Option<&str>) -> String {
    if let Some(advice) = advice {
        text.push_str("; ");
        text.push_str(advice);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use tabane_storage::Id;

    use super::*;

    /// Every error that has ever told what to do still does, and the others' sentences say it
    /// themselves.
    #[test]
    fn each_error_that_a_command_or_an_option_helps_with_says_so() {
        let text = || "X".to_owned();
        let not_found = || Error::NoSnapshot(text());
        let storage = |kind: StorageErrorKind| Error::Storage {
            action: "read",
            what: text(),
            source: kind.into(),
        };
        let path = |kind: io::ErrorKind| Error::Path {
            action: "read",
            path: text(),
            source: kind.into(),
        };
        let advised = [
            (Error::NoRepository(text()), "`tabane init --repo X`"),
            (Error::AmbiguousKey(text()), "`tabane key list`"),
            (Error::OfStripedSet(text()), "`--repo striped:FILE`"),
            (Error::damaged("X", "Y"), "`tabane check --read-data`"),
            (Error::damaged("config", "Y"), "from a copy"),
            (Error::damaged("keys/ab", "Y"), "another key"),
            (Error::MissingBlock(Id([0; 32])), "`tabane check`"),
            (Error::RemovedMeanwhile, "`--grace`"),
            (
                Error::ObjectGone(Box::new(not_found())),
                "run the command again",
            ),
            (Error::PruneRunning(text()), "`tabane unlock`"),
            (path(io::ErrorKind::StorageFull), "choose another place"),
            (Error::CannotPrune(text()), "`tabane repair`"),
            (Error::SnapshotLost(text()), "`tabane forget --lost`"),
            (
                Error::Cache {
                    path: text(),
                    source: io::ErrorKind::Other.into(),
                },
                "`--no-cache`",
            ),
            (Error::CacheDamaged, "`tabane cache`"),
            (Error::ConfigMissing(text()), "`tabane key import`"),
            (Error::NoKeys, "`tabane key import`"),
            (Error::WriteOnly(text()), "`tabane key list`"),
            (Error::Foreign(text()), "who can write"),
            (Error::NoWriteOnlyKeys("X"), "`tabane migrate`"),
            (not_found(), "`tabane snapshots`"),
            (Error::PacksUnindexed, "`tabane repair index`"),
            (
                Error::LatestUnclear(Box::new(not_found())),
                "`tabane forget ID`",
            ),
            (
                Error::AmbiguousSnapshot {
                    prefix: text(),
                    count: 2,
                },
                "`tabane snapshots`",
            ),
            (Error::NoKey(text()), "`tabane key list`"),
            (
                Error::NoSuchPath {
                    path: text(),
                    snapshot: text(),
                },
                "`tabane ls X`",
            ),
            (Error::OtherCuts(text()), "--copy-chunker-params"),
            (
                Error::OtherHash {
                    from: "blake3".to_owned(),
                    to: text(),
                },
                "`tabane init --hash blake3`",
            ),
            (storage(StorageErrorKind::Full), "free some space"),
            (storage(StorageErrorKind::Denied), "check the permissions"),
            (storage(StorageErrorKind::ReadOnly), "mount it writable"),
            (storage(StorageErrorKind::Retryable), "check the network"),
            (path(io::ErrorKind::StorageFull), "free some space"),
            (path(io::ErrorKind::QuotaExceeded), "free some space"),
            (
                path(io::ErrorKind::PermissionDenied),
                "check the permissions",
            ),
            (path(io::ErrorKind::ReadOnlyFilesystem), "mount it writable"),
        ];
        for (error, says) in advised {
            let plain = error.to_string();
            assert!(!plain.contains("tabane "), "{plain}");
            let explained = explain(&error);
            assert!(explained.starts_with(&format!("{plain}; ")), "{explained}");
            assert!(explained.contains(says), "{explained}");
        }
        let own = [
            Error::RepositoryGone(text()),
            Error::RepositoryExists(text()),
            Error::NotEmpty(text()),
            Error::NewerFormat { found: 2, known: 1 },
            Error::WrongPassword {
                keys: 1,
                location: text(),
                damaged: None,
            },
            Error::KeyInUse(Id([0; 32])),
            Error::PasswordInUse(Id([0; 32])),
            Error::NotReadBack { why: text() },
            Error::KeyText(text()),
            Error::MigratedMeanwhile,
            Error::UnknownFeature(text()),
            Error::PruneOvertaken,
            Error::WrongKind(text()),
            Error::Invalid(text()),
            Error::Interrupted("X"),
        ];
        for error in own {
            assert_eq!(explain(&error), error.to_string());
        }
    }

    #[test]
    fn each_kind_of_a_storages_error_is_advised_upon_or_deliberately_not() {
        use StorageErrorKind::*;
        for kind in StorageErrorKind::ALL {
            let is_advised = of_kind(kind).is_some();
            let has_nothing = matches!(
                kind,
                NotFound
                    | AlreadyExists
                    | PastEnd
                    | NotEmpty
                    | SessionOver
                    | Permanent
                    // Its text names the variables that hold the credentials.
                    | Unauthorized
                    | Unreachable
                    | Unsupported
                    | Damaged
                    | NotADirectory
                    | Malformed
                    | Invalid
            );
            assert_ne!(is_advised, has_nothing, "{kind:?}");
        }
    }

    #[test]
    fn what_a_storage_tells_comes_with_what_to_do() {
        for (kind, says) in [
            (
                EventKind::TargetsMissing { are_nodes: false },
                "`tabane targets replace`",
            ),
            (
                EventKind::TargetsMissing { are_nodes: true },
                "`tabane cluster replace`",
            ),
            (EventKind::TargetFails, "`tabane heal`"),
            (EventKind::TargetRefuses, "free some space"),
            (EventKind::TargetLies, "`tabane scrub`"),
            (
                EventKind::TargetReplaced { is_node: true },
                "`tabane cluster remove`",
            ),
            (EventKind::TargetReplaced { is_node: false }, "set file"),
        ] {
            let text = "X".to_owned();
            let explained = explain_event(&Event { kind, text });
            assert!(explained.starts_with("X; "), "{explained}");
            assert!(explained.contains(says), "{explained}");
        }
        assert_eq!(explain_event(&Event::note("X")), "X");
    }
}
