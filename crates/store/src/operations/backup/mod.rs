//! Backup: walk → read → cut → hash in bundles → look up → compress → encrypt → pack → write.
//!
//! One thread walks. What it finds it hands to pinned workers: small files by the hundred, so that
//! their blocks are hashed side by side; a big file by itself, whose blocks are handed on in
//! bundles so that all cores get some. A directory is stored by whoever completes its last entry.

mod cold;
mod directory;
mod gate;
mod known_files;
mod options;
mod parent;
mod pieces;
mod producer;
mod read;
mod run;
mod scan;
mod walk;

use std::collections::{BTreeSet, HashSet};
use std::mem::take;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use tabane_engine::Pool;
use tabane_patterns::Excludes;

use crate::access::buffers::Buffers;
use crate::access::client::{Presence, Purpose};
use crate::access::deep_stack::with_deep_stack;
use crate::access::index_objects::Trust;
use crate::access::memory::{Recalled, Rollback};
use crate::access::removal;
use crate::access::repository::Repository;
use crate::access::snapshots::{self, Origin};
use crate::access::writer::{self, Writer, Written, flush};
use crate::operations::commit::{commit, commit_beside};
use crate::operations::copy::as_copied;
use crate::operations::locks;
use tabane_format::pack::BlockKind;
use tabane_format::snapshot::{Snapshot, Summary};
use tabane_format::{Error, Result};
use tabane_index::Index;
use tabane_storage::sync::both;
use tabane_storage::{Id, Name, ObjectKind};

use cold::Cold;
use directory::Assembler;
use gate::Gate;
use known_files::{About, KnownFiles, KnownFilesWriter};
use parent::ParentFiles;
use producer::Producer;
use run::{Counters, Run};
use scan::Scan;
use walk::{Sources, Targets, Walker};

pub use options::{BackupOptions, Parent, Source};
pub use walk::resolve;

/// Attempts of a backup with a write-only key while others prune.
const ATTEMPTS_MAX: usize = 3;

/// What a backup made.
#[derive(Clone, Debug)]
pub struct Backup {
    /// ID of the snapshot; nothing if none was stored: after a dry run, or if it would have been
    /// equal to its parent (see [`BackupOptions::skip_if_unchanged`]).
    pub id: Option<Id>,
    /// How the repository differs from what this machine has seen before.
    pub rollback: Rollback,
    /// Whether every source, and everything in it, is as in the parent snapshot. The directories
    /// above the sources do not count.
    pub unchanged: bool,
    /// How each of [`BackupOptions::also_to`] got the snapshot.
    pub also: Vec<Also>,
    /// The snapshot.
    pub snapshot: Snapshot,
}

/// How a further repository got the snapshot of a backup.
#[derive(Clone, Debug)]
pub struct Also {
    /// Where the repository is.
    pub location: String,
    /// ID of its snapshot, a copy of the first repository's; nothing if that has none.
    pub id: std::result::Result<Option<Id>, Arc<Error>>,
    /// How the repository differs from what this machine has seen before.
    pub rollback: Rollback,
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
        let source = source.into();
        let mut made = make(self, &source, options.clone());
        // A write-only key cannot copy what a prune removes meanwhile, but can read its files
        // again.
        if self.is_write_only() && matches!(source, Source::Paths(_)) {
            for _ in 0..ATTEMPTS_MAX - 1 {
                if !matches!(made, Err(Error::RemovedMeanwhile)) {
                    break;
                }
                made = make(self, &source, options.clone());
            }
        }
        made.map_err(|error| {
            let vanished = error.is_not_found()
                || matches!(error, Error::RemovedMeanwhile | Error::ObjectGone(_));
            match vanished.then(|| self.verify_presence()) {
                Some(Err(gone @ Error::RepositoryGone(_))) => gone,
                _ => error,
            }
        })
    }
}

/// Whether an error is of a pack that a removal names.
fn is_of_condemned(repository: &Repository, error: &Error) -> bool {
    let Error::Storage { what, .. } = error else {
        return false;
    };
    let is_it = |pack: &Id| Name::new(ObjectKind::Pack, *pack).to_string() == *what;
    let removals = repository.read_removals();
    removals.is_ok_and(|removals| removals.condemned().iter().any(is_it))
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
    parent: &ParentFiles,
    paths: &[String],
    changed: &[PathBuf],
) -> Result<Option<Targets>> {
    let why = match parent {
        ParentFiles::None => "there is no snapshot to compare with",
        ParentFiles::Known(_) => "a write-only key cannot read the snapshot before",
        ParentFiles::Snapshot(_, parent) if parent.writer.is_some() => {
            "a write-only key made the snapshot before"
        }
        ParentFiles::Snapshot(_, parent) if parent.paths != paths => {
            "the snapshot before is of other paths"
        }
        ParentFiles::Snapshot(_, parent) if parent.summary.errors > 0 => {
            "the snapshot before lacks what could not be read"
        }
        // Its client may not have looked yet whether all of it is there.
        ParentFiles::Snapshot(_, parent) if repository.announced_snapshots()?.contains(parent) => {
            "the snapshot before is not complete yet"
        }
        ParentFiles::Snapshot(..) if repository.storage().lock().is_some() => {
            "the locks of all that the snapshot needs are to be extended"
        }
        ParentFiles::Snapshot(..) => return Ok(Some(Targets::new(changed))),
    };
    repository.progress().note(&format!(
        "{why}: the list of changes is not used, and everything is looked at"
    ));
    Ok(None)
}

/// Checks that the snapshot can go to all the repositories.
fn check_also_to(repository: &Repository, options: &BackupOptions) -> Result<()> {
    let others = &options.also_to;
    if others.is_empty() {
        return Ok(());
    }
    if others.len() >= writer::REPOSITORIES_MAX {
        let text = format!(
            "a backup goes to at most {} repositories",
            writer::REPOSITORIES_MAX
        );
        return Err(Error::Invalid(text));
    }
    if options.skip_if_unchanged || options.changed.is_some() {
        let text = "only what goes to a single repository can be skipped, or be made from a list \
                    of changes: others may lack more";
        return Err(Error::Invalid(text.to_owned()));
    }
    let mut ids = HashSet::from([repository.config().id]);
    for other in others {
        let (here, there) = (repository.config(), other.config());
        let location = other.storage().location();
        if !ids.insert(there.id) {
            let text = format!("the repository at {location} is named twice");
            return Err(Error::Invalid(text));
        }
        repository.check_copy_to(other).map_err(|why| match why {
            // It says which one.
            older @ Error::OlderFormat { .. } => older,
            why => Error::Invalid(format!(
                "the repository at {location} cannot get the same snapshot: {why}"
            )),
        })?;
        if other.format() != repository.format() {
            return Err(Error::OlderFormat {
                location: repository.storage().location(),
                format: repository.format(),
                needed: other.format(),
            });
        }
        if (here.chunking, here.chunker_secret) != (there.chunking, there.chunker_secret) {
            return Err(Error::OtherCuts(location));
        }
    }
    Ok(())
}

/// The parent of a backup of these paths.
fn find_parent(
    repository: &Repository,
    options: &BackupOptions,
    paths: &[String],
    time: Timestamp,
) -> Result<ParentFiles> {
    let snapshot = |(id, snapshot)| ParentFiles::Snapshot(id, Box::new(snapshot));
    Ok(match options.parent {
        Parent::None => ParentFiles::None,
        Parent::Snapshot(id) => snapshot((id, repository.load_snapshot(id)?)),
        Parent::Latest(_) if repository.is_write_only() => {
            match KnownFiles::open(repository, &options.hostname, paths) {
                Some(known) => ParentFiles::Known(Box::new(known)),
                None => ParentFiles::None,
            }
        }
        Parent::Latest(by) => {
            let new = Origin {
                hostname: &options.hostname,
                paths,
                tags: &options.tags,
            };
            let parent = repository.find_parent_snapshot(&new, by, time)?;
            parent.map_or(ParentFiles::None, snapshot)
        }
    })
}

/// What a backup knows of a repository when it begins.
struct Begun {
    /// From now on a prune leaves alone what this backup finds. `None` for a dry run.
    presence: Option<Presence>,
    recalled: Option<Recalled>,
    index: Index,
    /// Those of the index.
    removals: BTreeSet<Id>,
}

fn begin(repository: &Repository, options: &BackupOptions) -> Result<Begun> {
    let is_far = repository.is_far();
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
            repository.load_index_and_lost(Trust::Verified)
        } else {
            let index = repository.load_index_of(Trust::Verified)?;
            Ok((index, Vec::new()))
        }
    };
    let prepare = || {
        let (presence, loaded) = both(is_far, announce, load);
        let (presence, mut loaded) = (presence?, loaded?);
        // A prune that has begun before the announcement may not leave alone what was looked up
        // before.
        while is_far && presence.is_some() && removal::names(repository)? != *loaded.0.removals() {
            loaded = load()?;
        }
        Ok::<_, Error>((presence, loaded))
    };
    let (recalled, prepared) = both(is_far, || repository.recall(), prepare);
    let (recalled, (presence, loaded)) = (recalled?, prepared?);
    let (index, lost) = loaded;
    for pack in lost {
        let name = Name::new(ObjectKind::Pack, pack).path();
        let what = "is missing or cut short: what it held is stored again where it is still there";
        repository.progress().warning(Path::new(&name), what);
    }
    Ok(Begun {
        presence,
        recalled,
        removals: index.removals().clone(),
        index,
    })
}

impl Begun {
    fn rollback(&self) -> Rollback {
        let recalled = self.recalled.as_ref();
        recalled.map_or_else(Rollback::default, |recalled| recalled.rollback.clone())
    }

    /// Writes a snapshot, if one is to be, whose blocks are stored, those of `used_packs` among
    /// them; returns its ID. With `beside`, that snapshot keeps all blocks but the listed ones.
    fn commit(
        self,
        repository: &Repository,
        snapshot: Option<&Snapshot>,
        beside: Option<(Id, &HashSet<Id>)>,
        used_packs: HashSet<Id>,
    ) -> Result<Option<Id>> {
        let committed = snapshot.map(|snapshot| match beside {
            Some((old, own)) => commit_beside(repository, old, own, snapshot, &self.removals),
            None => commit(repository, snapshot, &self.removals, self.presence),
        });
        let id = committed.transpose()?;
        locks::extend(repository, used_packs)?;
        if let Some(recalled) = self.recalled {
            recalled.remember(repository, id);
        }
        Ok(id)
    }
}

/// Sets the counts of what was written to a repository.
fn count(summary: &mut Summary, written: Written) {
    summary.added_bytes = written.added_bytes;
    summary.duplicate_bytes = written.duplicate_bytes;
    summary.stored_bytes = written.stored_bytes;
    summary.blocks_new = written.blocks_new;
    summary.blocks_duplicate = written.blocks_duplicate;
}

/// Remembers a snapshot for the next backup with the same write-only key.
fn remember(repository: &Repository, known_files: KnownFilesWriter, id: Id, made: &Snapshot) {
    let about = About {
        snapshot: id,
        start: made.summary.start,
        total_bytes: made.summary.total_bytes,
        root: made.root.clone(),
    };
    if let Err(error) = known_files.finish(about) {
        let text = format!("the next backup reads all files again: {error}");
        repository.progress().note(&text);
    }
}

fn make(repository: &Repository, source: &Source, options: BackupOptions) -> Result<Backup> {
    check_also_to(repository, &options)?;
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
    let excludes = Excludes::new(&options.excludes).map_err(Error::pattern)?;
    if matches!(source, Source::Paths(_)) {
        for repository in std::iter::once(repository).chain(&options.also_to) {
            point_out_itself(repository, &paths, &excludes);
        }
    }
    let find_parent = || find_parent(repository, &options, &path_texts, time);
    let begin_here = || begin(repository, &options);
    let (parent, begun) = both(repository.is_far(), find_parent, begin_here);
    let (mut begun, parent) = (begun?, parent?);
    let is_tree = matches!(source, Source::Paths(_));
    let changed = match &options.changed {
        Some(changed) if is_tree => changed_since(repository, &parent, &path_texts, changed)?,
        _ => None,
    };
    let mut writer = Writer::new(repository, take(&mut begun.index), options.dry_run);
    let mut others = Vec::new();
    for other in options.also_to.clone() {
        let mut begun = begin(&other, &options);
        if let Ok(begun) = &mut begun {
            writer = writer.also(&other, take(&mut begun.index));
        }
        others.push((other, begun));
    }
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
    let known_files = if options.dry_run {
        None
    } else {
        KnownFilesWriter::create(repository, &options.hostname, &path_texts)
    };
    let (with_flags, numbered) = (repository.format() > 1, options.root.is_some());
    let assembler = Assembler::new(encoder(BlockKind::Tree), with_flags, numbered, known_files);
    let run = Arc::new(Run {
        repository: repository.clone(),
        writer,
        reading: Gate::new(options.readers),
        contents: Cold::default(),
        options,
        sources: paths.clone(),
        time,
        assembler,
        excludes,
        counters: Counters::default(),
        buffers: Buffers::default(),
    });
    let expected = &run.counters.expected_bytes;
    if let Some(total) = parent.total_bytes().filter(|_| changed.is_none()) {
        expected.store(total, Ordering::Relaxed);
    }
    // With other names, excludes would not be understood.
    let can_count = is_tree && as_path.is_none() && changed.is_none();
    let counted = can_count && repository.progress().wants_total();
    let scan = counted.then(|| Scan::start(&run, &paths));
    for (path, error) in &missing {
        run.error(path, error);
    }
    let walker = Walker::new(&run, pool.submitter().clone(), &parent);
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
    let (used, used_packs) = (run.writer.take_used(), run.writer.used_packs());
    let mut finished = run.writer.finish_each().into_iter().zip(used_packs);
    let (written, used_packs) = finished.next().expect("it wrote here");
    let written = written?;
    let (root, owners, known_files) =
        walked
            .and(flushed)
            .and(produced)
            .and(root)
            .map_err(|error| {
                if !error.is_not_found() {
                    return error;
                }
                // What the index knew of is gone, and perhaps there is somebody who removes.
                match removal::names(repository) {
                    Ok(names) if names != begun.removals => Error::RemovedMeanwhile,
                    // As it was condemned before, only a client that began earlier can read it.
                    Ok(_) if is_of_condemned(repository, &error) => Error::RemovedMeanwhile,
                    _ => {
                        repository.forget_cached();
                        Error::ObjectGone(Box::new(error))
                    }
                }
            })?;

    let counters = run.counters;
    let mut snapshot = Snapshot {
        time: run.time,
        hostname: run.options.hostname,
        username: run.options.username,
        paths: path_texts,
        tags: run.options.tags,
        description: run.options.description,
        retention: run.options.retention,
        parent: parent.id(),
        original: None,
        changes: 0,
        writer: None,
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
            ..Summary::default()
        },
    };
    count(&mut snapshot.summary, written);
    let unchanged = is_tree && parent.is_of(&snapshot.paths) && !is_changed;
    repository.nearby().tidy();
    let rollback = begun.rollback();
    let id = if run.options.dry_run {
        None
    } else {
        let is_wanted = !(unchanged && run.options.skip_if_unchanged);
        // Nobody has looked whether blocks of unseen directories are there, but the parent
        // snapshot keeps them.
        let old = parent.id().filter(|_| changed.is_some());
        let beside = old.map(|old| (old, &used));
        begun.commit(
            repository,
            is_wanted.then_some(&snapshot),
            beside,
            used_packs,
        )?
    };
    if let (Some(id), Some(known_files)) = (id, known_files) {
        remember(repository, known_files, id, &snapshot);
    }
    let also = others.into_iter().map(|(other, begun)| {
        other.nearby().tidy();
        let rollback = begun.as_ref().map(Begun::rollback).unwrap_or_default();
        let made = begun.and_then(|begun| {
            let (written, used_packs) = finished.next().expect("it wrote there");
            let written = written?;
            let Some(id) = id else { return Ok(None) };
            let mut copy = as_copied(id, &snapshot);
            count(&mut copy.summary, written);
            begun.commit(&other, Some(&copy), None, used_packs)
        });
        Also {
            location: other.storage().location(),
            id: made.map_err(Arc::new),
            rollback,
        }
    });
    Ok(Backup {
        id,
        rollback,
        unchanged,
        also: also.collect(),
        snapshot,
    })
}
