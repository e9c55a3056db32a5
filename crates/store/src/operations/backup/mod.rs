//! Backup: walk → read → cut → hash in bundles → look up → compress → encrypt → pack → write.
//!
//! One thread walks. What it finds it hands to pinned workers: small files by the hundred, so that
//! their blocks are hashed side by side; a big file by itself, whose blocks are handed on in
//! bundles so that all cores get some. A directory is stored by whoever completes its last entry.

mod cold;
mod directory;
mod gate;
mod options;
mod producer;
mod read;
mod run;
mod scan;
mod walk;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use tabane_engine::Pool;
use tabane_patterns::Excludes;

use crate::access::buffers::Buffers;
use crate::access::client::{Presence, Purpose};
use crate::access::deep_stack::with_deep_stack;
use crate::access::removal;
use crate::access::repository::Repository;
use crate::access::snapshots::{self, Origin};
use crate::access::writer::{Writer, flush};
use crate::error::{Error, Result};
use crate::format::pack::BlockKind;
use crate::format::snapshot::{Snapshot, Summary};
use crate::operations::commit::{commit, commit_beside};
use tabane_storage::sync::both;
use tabane_storage::{Id, Name, ObjectKind};

use cold::Cold;
use directory::Assembler;
use gate::Gate;
use producer::Producer;
use run::{Counters, Run};
use scan::Scan;
use walk::{Sources, Targets, Walker};

pub use options::{BackupOptions, Parent, Source};
pub use walk::resolve;

/// What a backup made.
#[derive(Clone, Debug)]
pub struct Backup {
    /// ID of the snapshot; nothing if none was stored: after a dry run, or if it would have been
    /// equal to its parent (see [`BackupOptions::skip_if_unchanged`]).
    pub id: Option<Id>,
    /// Whether every source, and everything in it, is as in the parent snapshot. The directories
    /// above the sources do not count.
    pub unchanged: bool,
    /// The snapshot.
    pub snapshot: Snapshot,
}

impl Repository {
    /// Stores `source` as a new snapshot: paths, as in `&["/home/ada"]`, or a [`Source`].
    ///
    /// Entries that cannot be read are reported, counted in [`Summary::errors`] and left out; that
    /// is no error.
    ///
    /// # Errors
    /// Unusable options, a source path that does not exist, or when the repository fails. Nothing
    /// that was in the repository is lost then, and what is indexed already is not read again by
    /// the next backup.
    pub fn backup(&self, options: BackupOptions, source: impl Into<Source>) -> Result<Backup> {
        make(self, &source.into(), options).map_err(|error| {
            let vanished = error.is_not_found()
                || matches!(error, Error::RemovedMeanwhile | Error::ObjectGone(_));
            match vanished.then(|| self.verify_presence()) {
                Some(Err(gone @ Error::RepositoryGone(_))) => gone,
                _ => error,
            }
        })
    }
}

/// Says when the repository is within what it is to hold: it grows with every backup.
fn point_out_itself(repository: &Repository, paths: &[PathBuf], excludes: &Excludes) {
    // What is no directory of this machine is not below a path of it either.
    let Ok(location) = Path::new(&repository.storage().location()).canonicalize() else {
        return;
    };
    let is_below = |path: &&PathBuf| {
        path.canonicalize()
            .is_ok_and(|path| location.starts_with(path))
    };
    let Some(path) = paths.iter().find(is_below) else {
        return;
    };
    if !location
        .ancestors()
        .any(|folder| excludes.is_excluded(folder, true))
    {
        repository.progress().note(&format!(
            "the repository itself is below {}, and is stored too: exclude {} to leave it out",
            path.display(),
            location.display()
        ));
    }
}

/// The changes since the parent snapshot; nothing if everything must be looked at, which a note
/// explains.
fn changed_since(
    repository: &Repository,
    parent: Option<&(Id, Snapshot)>,
    paths: &[String],
    changed: &[PathBuf],
) -> Result<Option<Targets>> {
    let why = match parent {
        None => "there is no snapshot to compare with",
        Some((_, parent)) if parent.paths != paths => "the snapshot before is of other paths",
        Some((_, parent)) if parent.summary.errors > 0 => {
            "the snapshot before lacks what could not be read"
        }
        // Its client may not have looked yet whether all of it is there.
        Some((_, parent)) if repository.announced_snapshots()?.contains(parent) => {
            "the snapshot before is not complete yet"
        }
        Some(_) => return Ok(Some(Targets::new(changed))),
    };
    repository.progress().note(&format!(
        "{why}: the list of changes is not used, and everything is looked at"
    ));
    Ok(None)
}

fn make(repository: &Repository, source: &Source, options: BackupOptions) -> Result<Backup> {
    let start = Timestamp::now();
    let time = options.time.unwrap_or(start);
    let Sources { paths, missing } = walk::sources(source)?;
    // Those that are missing today are found again by the same names.
    let mut named: Vec<_> = paths
        .iter()
        .chain(missing.iter().map(|(path, _)| path))
        .collect();
    let as_path = match &options.as_path {
        Some(as_path) => {
            let as_path = walk::absolute_name(as_path)?;
            if named.len() > 1 || !paths[0].is_dir() {
                return Err(Error::Invalid(
                    "only a single directory can be stored under another path".to_owned(),
                ));
            }
            Some(as_path)
        }
        None => None,
    };
    if let Some(as_path) = &as_path {
        named = vec![as_path];
    }
    named.sort();
    named.dedup();
    let path_texts: Vec<String> = named
        .into_iter()
        .map(|path| snapshots::path_text(path))
        .collect();
    let excludes = Excludes::new(&options.excludes)?;
    if matches!(source, Source::Paths(_)) {
        point_out_itself(repository, &paths, &excludes);
    }
    let is_far = repository.is_far();
    let find_parent = || match options.parent {
        Parent::None => Ok(None),
        Parent::Snapshot(id) => Ok(Some((id, repository.load_snapshot(id)?))),
        Parent::Latest(by) => {
            let new = Origin {
                hostname: &options.hostname,
                paths: &path_texts,
                tags: &options.tags,
            };
            repository.find_parent_snapshot(&new, by, time)
        }
    };
    // From now on a prune leaves alone what this backup finds.
    let announce = || {
        if options.dry_run {
            Ok(None)
        } else {
            Presence::announce(repository, Purpose::Backup).map(Some)
        }
    };
    // To list all packs takes the longer the more there are: it is done for whoever reads
    // everything anyway.
    let load = || {
        if options.parent == Parent::None || !repository.has_cache() {
            repository.load_index_and_lost()
        } else {
            Ok((repository.load_index()?, Vec::new()))
        }
    };
    let (parent, begun) = both(is_far, find_parent, || both(is_far, announce, load));
    let (presence, loaded) = (begun.0?, begun.1);
    let (parent, mut loaded) = (parent?, loaded?);
    // A prune that has begun before the announcement may not leave alone what was looked up before.
    while is_far && presence.is_some() && removal::names(repository)? != *loaded.0.removals() {
        loaded = load()?;
    }
    let (index, lost) = loaded;
    let removals = index.removals().clone();
    for pack in lost {
        let name = Name::new(ObjectKind::Pack, pack).path();
        let what = "is missing or cut short: what it held is stored again where it is still there";
        repository.progress().warning(Path::new(&name), what);
    }
    let is_tree = matches!(source, Source::Paths(_));
    let changed = match &options.changed {
        Some(changed) if is_tree => {
            changed_since(repository, parent.as_ref(), &path_texts, changed)?
        }
        _ => None,
    };
    let writer = Writer::new(repository, index, options.dry_run);
    if changed.is_some() {
        writer.record_used();
    }
    let encoder = |kind| {
        let encoder = writer.encoder(kind, options.compression);
        if options.verify {
            encoder
        } else {
            encoder.without_verification()
        }
    };
    let pool = Pool::for_all_processors(|| encoder(BlockKind::Data));
    let with_flags = repository.format() > 1;
    let assembler = Assembler::new(encoder(BlockKind::Tree), with_flags, options.root.is_some());
    let run = Arc::new(Run {
        repository: repository.clone(),
        writer,
        reading: Gate::new(options.readers),
        contents: Cold::default(),
        options,
        time,
        assembler,
        excludes,
        counters: Counters::default(),
        buffers: Buffers::default(),
    });
    let expected = &run.counters.expected_bytes;
    if let Some((_, parent)) = parent.as_ref().filter(|_| changed.is_none()) {
        expected.store(parent.summary.total_bytes, Ordering::Relaxed);
    }
    // With other names, excludes would not be understood.
    let can_count = is_tree && as_path.is_none() && changed.is_none();
    let counted = can_count && repository.progress().wants_total();
    let scan = counted.then(|| Scan::start(&run, &paths));
    for (path, error) in &missing {
        run.error(path, error);
    }
    let walker = Walker::new(
        &run,
        pool.submitter().clone(),
        parent.as_ref().map(|(_, snapshot)| snapshot),
    );
    let mut producer = None;
    let walked = match (source, &as_path) {
        (Source::Paths(_), None) => with_deep_stack(|| walker.walk(&paths, changed.as_ref())),
        (Source::Paths(_), Some(as_path)) => {
            with_deep_stack(|| walker.walk_as(&paths[0], as_path, changed.as_ref()))
        }
        (Source::Stdin(_), _) => walker.stream(&paths[0], Box::new(std::io::stdin())),
        (Source::Command { command, .. }, _) => {
            Producer::start(command).and_then(|(running, output)| {
                producer = Some(running);
                walker.stream(&paths[0], Box::new(output))
            })
        }
    };
    let flushed = flush(pool.finish());
    drop(scan);
    let produced = match producer {
        // One that is not read to its end is ended.
        Some(producer) if walked.is_ok() && flushed.is_ok() => producer.finish(),
        _ => Ok(()),
    };
    let run = Arc::into_inner(run).expect("all threads have ended");
    let is_changed = run.assembler.is_changed() || !missing.is_empty();
    let root = run.assembler.finish();
    let used = run.writer.take_used();
    let written = run.writer.finish()?;
    let (root, owners) = walked
        .and(flushed)
        .and(produced)
        .and(root)
        .map_err(|error| {
            if !error.is_not_found() {
                return error;
            }
            // What the index knew of is gone, and perhaps there is somebody who removes.
            match removal::names(repository) {
                Ok(names) if names != removals => Error::RemovedMeanwhile,
                _ => {
                    repository.forget_cached();
                    Error::ObjectGone(Box::new(error))
                }
            }
        })?;

    let counters = run.counters;
    let snapshot = Snapshot {
        time: run.time,
        hostname: run.options.hostname,
        username: run.options.username,
        paths: path_texts,
        tags: run.options.tags,
        description: run.options.description,
        retention: run.options.retention,
        parent: parent.as_ref().map(|(id, _)| *id),
        original: None,
        root,
        owners: (repository.format() > 1).then(|| owners.names()),
        program_version: concat!("tabane ", env!("CARGO_PKG_VERSION")).to_owned(),
        summary: Summary {
            start,
            end: Timestamp::now(),
            files_new: counters.files_new.into_inner(),
            files_changed: counters.files_changed.into_inner(),
            files_unmodified: counters.files_unmodified.into_inner(),
            directories: counters.directories.into_inner(),
            others: counters.others.into_inner(),
            errors: counters.errors.into_inner(),
            total_bytes: counters.total_bytes.into_inner(),
            read_bytes: counters.read_bytes.into_inner(),
            added_bytes: written.added_bytes,
            duplicate_bytes: written.duplicate_bytes,
            stored_bytes: written.stored_bytes,
            blocks_new: written.blocks_new,
            blocks_duplicate: written.blocks_duplicate,
        },
    };
    let is_same = |parent: &Snapshot| parent.paths == snapshot.paths && !is_changed;
    let has_parent = parent.as_ref().is_some_and(|(_, parent)| is_same(parent));
    let unchanged = has_parent && is_tree;
    repository.nearby().tidy();
    let id = if run.options.dry_run || unchanged && run.options.skip_if_unchanged {
        None
    } else {
        // Nobody has looked whether blocks of unseen directories are there, but the parent
        // snapshot keeps them.
        let committed = match parent.filter(|_| changed.is_some()) {
            Some((old, _)) => commit_beside(repository, old, &used, &snapshot, &removals),
            None => commit(repository, &snapshot, &removals, presence),
        };
        Some(committed?)
    };
    Ok(Backup {
        id,
        unchanged,
        snapshot,
    })
}
