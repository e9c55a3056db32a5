//! An index from the cache is the index that the repository has, whatever happens to the cache.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::memory::MemoryStorage;
use crate::common::mount::Mount;
use crate::common::tree::{random_bytes, settle, write};
use crate::common::{
    Recorder, back_up_observed, backup_options, init, init_options, password, scratch,
};
use proptest::collection::vec;
use proptest::prelude::*;
use tabane_index::{Cache, Cached, Index, IndexSegment, PackEntry};
use tabane_storage::{LocalStorage, Name, ObjectKind};
use tabane_store::backup::Parent;
use tabane_store::parts::pack::{Codec, PackContents, PackKind, Segment};
use tabane_store::{Error, Id, Repository};

/// Opens a repository with a cache that must not warn.
fn open(storage: &MemoryStorage, root: &Path) -> Arc<Repository> {
    let cache = Cache::new(root, |text: &str| panic!("a warning: {text}"));
    open_with(storage, cache)
}

fn open_with(storage: &MemoryStorage, cache: Cache) -> Arc<Repository> {
    let opened = Repository::open(Arc::new(storage.clone()), &password());
    Arc::new(opened.unwrap().with_cache(cache))
}

/// Numbers that look random.
fn mix(number: u64) -> u64 {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

const BLOCKS: u64 = 60;
const PACKS: u64 = 12;

/// IDs in groups of four that differ in the last byte only.
fn block(number: u64) -> Id {
    let mut id = Id::default();
    for (at, bytes) in id.0.chunks_exact_mut(8).enumerate() {
        bytes.copy_from_slice(&mix(number / 4 * 4 + at as u64).to_le_bytes());
    }
    id.0[31] = number as u8;
    id
}

fn pack_id(number: u64) -> Id {
    block(1000 + 4 * number)
}

/// What a pack holds, the same each time.
fn contents(number: u64) -> PackContents {
    let random = |what: u64, below: u64| mix(number * 1000 + what) % below;
    let segment = |segment: u64| Segment {
        stored_len: 100 + random(segment, 1000) as u32,
        codec: match random(10 + segment, 2) {
            0 => Codec::Stored,
            _ => Codec::Zstd,
        },
        blocks: (0..random(20 + segment, 6))
            .map(|at| {
                let block_number = random(30 + 6 * segment + at, BLOCKS);
                (block(block_number), 1 + block_number as u32)
            })
            .collect(),
    };
    PackContents {
        salt: [number as u8; 32],
        kind: match number % 4 {
            0 => PackKind::Data,
            1 => PackKind::Tree,
            2 => PackKind::WriterData,
            _ => PackKind::WriterTree,
        },
        segments: (0..random(0, 4)).map(segment).collect(),
    }
}

/// A place: pack, segment in it, offset, length.
type Place = (Id, u32, u32, u32);

/// What packs say.
fn expected(packs: &BTreeSet<u64>) -> BTreeMap<Id, BTreeSet<Place>> {
    let mut places: BTreeMap<Id, BTreeSet<Place>> = BTreeMap::new();
    for &number in packs {
        for (segment, in_segment) in (0..).zip(&contents(number).segments) {
            let mut offset = 0;
            for &(id, len) in &in_segment.blocks {
                let place = (pack_id(number), segment, offset, len);
                places.entry(id).or_default().insert(place);
                offset += len;
            }
        }
    }
    places
}

fn assert_is(index: &Index, packs: &BTreeSet<u64>) {
    check(index, packs).unwrap();
}

/// Compares every answer of an index with the expected one.
fn check(index: &Index, packs: &BTreeSet<u64>) -> tabane_store::Result<()> {
    let expected = expected(packs);
    let of_packs: BTreeMap<Id, u64> = (0..PACKS).map(|pack| (pack_id(pack), pack)).collect();
    for number in 0..BLOCKS + 8 {
        let id = block(number);
        let places = index.places(&id)?;
        assert_eq!(index.find(&id)?, places.first().copied());
        let mut found = BTreeSet::new();
        for place in places {
            let segment = index.segment(place.segment)?;
            let pack = index.pack(segment.pack)?;
            let contents = contents(of_packs[&pack.id]);
            let described = &contents.segments[segment.number as usize];
            assert_eq!((pack.salt, pack.kind), (contents.salt, contents.kind));
            assert_eq!(pack.len, contents.object_len());
            assert_eq!(segment.stored_len, described.stored_len);
            assert_eq!(segment.codec, described.codec);
            assert_eq!(segment.raw_len as usize, described.raw_len());
            let before = &contents.segments[..segment.number as usize];
            let before: u32 = before.iter().map(|segment| segment.stored_len).sum();
            assert_eq!(segment.offset, contents.kind.head_len() as u32 + before);
            found.insert((pack.id, segment.number, place.offset, place.len));
        }
        assert_eq!(
            found,
            expected.get(&id).cloned().unwrap_or_default(),
            "{number}"
        );
    }
    let mut seen = BTreeSet::new();
    for block in index.blocks() {
        let (id, place) = block?;
        assert!(seen.insert(id), "a block came twice");
        assert_eq!(index.find(&id)?, Some(place));
    }
    assert_eq!(seen, expected.keys().copied().collect());
    assert_eq!(index.is_empty(), expected.is_empty());
    Ok(())
}

fn put(repository: &Repository, packs: &[u64]) -> Id {
    let with_contents = packs.iter().map(|&pack| (pack_id(pack), contents(pack)));
    put_packs(repository, &with_contents.collect())
}

/// Writes an index object, and something in the place of each of its packs.
fn put_packs(repository: &Repository, packs: &IndexSegment) -> Id {
    for (pack, _) in packs {
        // Another index object may have named it already.
        let _ = repository
            .storage()
            .put(Name::new(ObjectKind::Pack, *pack), &[b"a pack"]);
    }
    repository.write_index_segment(packs).unwrap().id
}

/// The cache's folder of its only repository.
fn folder(root: &Path) -> PathBuf {
    Cached::list(root).unwrap().pop().expect("a folder").path
}

fn files(root: &Path) -> Vec<PathBuf> {
    let Some(cached) = Cached::list(root).unwrap().pop() else {
        return Vec::new();
    };
    let entries = fs::read_dir(cached.path).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[derive(Clone, Debug)]
enum Step {
    /// An index object comes.
    Put(Vec<u64>),
    /// One goes.
    Delete(usize),
    /// One comes that says what others said, which go.
    Rewrite(Vec<usize>),
    /// The index is loaded and looked at; then some packs do not count.
    Load(Vec<u64>),
    /// Another process keeps what is in the cache now…
    Keep,
    /// …and brings it back.
    BringBack,
    /// Something happens to a file of the cache.
    Damage(usize, Damage, usize),
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip,
    Cut,
    Lengthen,
    Remove,
    Zero,
}

fn steps() -> impl Strategy<Value = Step> {
    use Damage::*;
    let damage = prop_oneof![
        Just(Flip),
        Just(Cut),
        Just(Lengthen),
        Just(Remove),
        Just(Zero)
    ];
    prop_oneof![
        4 => vec(0..PACKS, 0..4).prop_map(Step::Put),
        2 => any::<usize>().prop_map(Step::Delete),
        1 => vec(any::<usize>(), 1..4).prop_map(Step::Rewrite),
        4 => vec(0..PACKS, 0..3).prop_map(Step::Load),
        1 => Just(Step::Keep),
        1 => Just(Step::BringBack),
        1 => (any::<usize>(), damage, any::<usize>())
            .prop_map(|(file, damage, at)| Step::Damage(file, damage, at)),
    ]
}

fn damage(path: &Path, damage: Damage, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    let at = at % bytes.len();
    match damage {
        Damage::Flip => bytes[at] ^= 1 << (at % 8),
        Damage::Cut => bytes.truncate(at),
        Damage::Lengthen => bytes.extend_from_slice(&[0; 1024]),
        Damage::Remove => return fs::remove_file(path).unwrap(),
        Damage::Zero => bytes.fill(0),
    }
    fs::write(path, bytes).unwrap();
}

/// Does the steps, and compares the cached index with the objects after each loading.
fn try_steps(steps: Vec<Step>) {
    let (storage, root) = (MemoryStorage::default(), scratch());
    let plain = init(storage.clone());
    let mut objects: Vec<(Id, BTreeSet<u64>)> = Vec::new();
    let mut kept: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    let mut damaged = false;
    let packs_of = |objects: &[(Id, BTreeSet<u64>)]| -> BTreeSet<u64> {
        objects
            .iter()
            .flat_map(|(_, packs)| packs.iter().copied())
            .collect()
    };
    for step in steps.into_iter().chain([Step::Load(vec![])]) {
        match step {
            Step::Put(packs) => objects.push((put(&plain, &packs), packs.into_iter().collect())),
            Step::Delete(number) if !objects.is_empty() => {
                let (id, _) = objects.remove(number % objects.len());
                storage.remove(Name::new(ObjectKind::Index, id));
            }
            Step::Rewrite(numbers) if !objects.is_empty() => {
                let numbers: BTreeSet<usize> = numbers
                    .into_iter()
                    .map(|number| number % objects.len())
                    .collect();
                let gone: Vec<_> = numbers
                    .into_iter()
                    .rev()
                    .map(|number| objects.remove(number))
                    .collect();
                let packs = packs_of(&gone);
                let id = put(&plain, &packs.iter().copied().collect::<Vec<_>>());
                objects.push((id, packs));
                for (id, _) in gone {
                    storage.remove(Name::new(ObjectKind::Index, id));
                }
            }
            Step::Delete(_) | Step::Rewrite(_) => {}
            Step::Load(excluded) => {
                let mut packs = packs_of(&objects);
                let repository = open(&storage, root.path());
                let mut index = repository.load_index().unwrap();
                if damaged && let Err(error) = check(&index, &packs) {
                    // It was noticed, and the next one finds it repaired.
                    assert!(matches!(error, Error::Cache { .. }), "{error}");
                    index = repository.load_index().unwrap();
                }
                assert_is(&index, &packs);
                packs.retain(|pack| !excluded.contains(pack));
                let excluded: Vec<Id> = excluded.into_iter().map(pack_id).collect();
                let is_excluded = |pack: &PackEntry| excluded.contains(&pack.id);
                // It reads more than was read until now.
                if let Err(error) = index.exclude_packs(is_excluded) {
                    assert!(
                        damaged && matches!(error, tabane_index::Error::Cache { .. }),
                        "{error}"
                    );
                    index = repository.load_index().unwrap();
                    index.exclude_packs(is_excluded).unwrap();
                }
                damaged = false;
                assert_is(&index, &packs);
                for path in files(root.path()) {
                    let name = path.file_name().unwrap().to_str().unwrap();
                    assert!(name.starts_with("index2-"));
                }
            }
            Step::Keep => {
                let read = |path: PathBuf| (path.clone(), fs::read(path).unwrap());
                kept = files(root.path()).into_iter().map(read).collect();
            }
            Step::BringBack => {
                for (path, bytes) in &kept {
                    fs::write(path, bytes).unwrap();
                }
            }
            Step::Damage(number, kind, at) => {
                let files = files(root.path());
                if !files.is_empty() {
                    damage(&files[number % files.len()], kind, at);
                    damaged = true;
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_cached_index_is_the_index(steps in vec(steps(), 1..25)) {
        try_steps(steps);
    }
}

/// A run that was merged into another one comes back, as when its process dies before it removes
/// the file: both have the same index objects.
#[test]
fn runs_that_share_index_objects_are_merged() {
    for deleted in 0..3 {
        for rewritten in 0..3 {
            try_steps(vec![
                Step::Put(vec![2]),
                Step::Put(vec![]),
                Step::Put(vec![1]),
                Step::Load(vec![]),
                Step::Rewrite(vec![rewritten]),
                Step::Keep,
                Step::Load(vec![]),
                Step::BringBack,
                Step::Load(vec![]),
                Step::Delete(deleted),
            ]);
        }
    }
}

#[test]
fn no_byte_of_a_run_can_change_what_is_found() {
    let (storage, root) = (MemoryStorage::default(), scratch());
    let repository = init(storage.clone());
    put(&repository, &[0, 1, 2, 3]);
    put(&repository, &[3, 4]);
    let packs: BTreeSet<u64> = (0..5).collect();
    let repository = open(&storage, root.path());
    let whole = {
        assert_is(&repository.load_index().unwrap(), &packs);
        let files = files(root.path());
        assert_eq!(files.len(), 1);
        fs::read(&files[0]).unwrap()
    };
    let folder = folder(root.path());
    let path = folder.join("index2-flipped");
    let clear = || {
        for file in files(root.path()) {
            fs::remove_file(file).unwrap();
        }
    };
    let (mut at_open, mut later) = (0, 0);
    // Every byte, and in every page each bit of one.
    let bits = (0..whole.len()).map(|at| (at, 1 << (at % 8)));
    let more = (0..whole.len())
        .step_by(512)
        .flat_map(|at| (0..8).map(move |bit| (at, 1_u8 << bit)));
    for (at, bit) in bits.chain(more) {
        clear();
        let mut flipped = whole.clone();
        flipped[at] ^= bit;
        fs::write(&path, flipped).unwrap();
        let index = repository.load_index().unwrap();
        if !path.exists() {
            at_open += 1
        } else {
            let found = check(&index, &packs);
            assert!(!path.exists() || found.is_ok(), "byte {at}: {found:?}");
            later += usize::from(found.is_err());
        }
        // Some lookups may have been answered before the damage was met; now it is repaired.
        if at % 64 == 0 {
            assert_is(&repository.load_index().unwrap(), &packs);
        }
    }
    assert!(at_open > 1024 && later > 1024, "{at_open} and {later}");
    for len in (0..whole.len()).step_by(37) {
        clear();
        fs::write(&path, &whole[..len]).unwrap();
        assert_is(&repository.load_index().unwrap(), &packs);
        assert!(!path.exists());
    }
}

#[test]
fn a_run_of_another_repository_is_not_believed() {
    let (mine, other) = (MemoryStorage::default(), MemoryStorage::default());
    put(&init(mine.clone()), &[1, 2]);
    put(&init(other.clone()), &[3, 4]);
    let (root, other_root) = (scratch(), scratch());
    let loaded = open(&other, other_root.path()).load_index().unwrap();
    assert_is(&loaded, &[3, 4].into());
    open(&mine, root.path()).load_index().unwrap();
    let foreign = folder(root.path()).join("index2-foreign");
    fs::copy(&files(other_root.path())[0], &foreign).unwrap();
    let loaded = open(&mine, root.path()).load_index().unwrap();
    assert_is(&loaded, &[1, 2].into());
    assert!(!foreign.exists());
}

/// Only what is new is read.
#[test]
fn opening_reads_what_is_new() {
    let (storage, root) = (MemoryStorage::default(), scratch());
    let repository = init(storage.clone());
    let first = Name::new(ObjectKind::Index, put(&repository, &[1, 2]));
    let cached = open(&storage, root.path());
    assert_is(&cached.load_index().unwrap(), &[1, 2].into());
    // It could not be read again: but it is there.
    storage.set(first, vec![0; 100]);
    assert!(repository.load_index().is_err());
    put(&repository, &[3]);
    assert_is(&cached.load_index().unwrap(), &[1, 2, 3].into());
    // Everything is damaged: nobody knows any more.
    files(root.path())
        .iter()
        .for_each(|path| damage(path, Damage::Zero, 0));
    assert!(matches!(cached.load_index(), Err(Error::Damaged { .. })));
}

/// More blocks than are read at a time: what they make becomes one run with what there is.
#[test]
fn many_new_blocks_make_one_run() {
    let (storage, root) = (MemoryStorage::default(), scratch());
    let repository = init(storage.clone());
    let cached = open(&storage, root.path());
    for pack in 0..2 {
        let blocks = (0..530_000).map(|number| (block(4 * (number + pack * 1_000_000)), 1));
        let contents = PackContents {
            salt: [0; 32],
            kind: PackKind::Data,
            segments: vec![Segment {
                stored_len: 100,
                codec: Codec::Zstd,
                blocks: blocks.collect(),
            }],
        };
        let packs = IndexSegment::from_iter([(pack_id(pack), contents)]);
        put_packs(&repository, &packs);
        let index = cached.load_index().unwrap();
        assert_eq!(index.len(), 530_000 * (pack + 1));
        assert_eq!(files(root.path()).len(), 1);
    }
}

/// Many open and change one cache at a time, while index objects come, go and are rewritten.
#[test]
fn several_at_once() {
    let (storage, root) = (MemoryStorage::default(), scratch());
    let repository = init(storage.clone());
    let lasting: BTreeSet<u64> = (0..4).collect();
    let mut changing = put(&repository, &[0, 1, 2, 3, 4]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let cached = open(&storage, root.path());
                while !done.load(Ordering::Relaxed) {
                    let index = cached.load_index().unwrap();
                    for id in expected(&lasting).keys() {
                        assert!(index.find(id).unwrap().is_some());
                    }
                }
            });
        }
        for round in 0..100 {
            let packs: Vec<u64> = (0..4).chain([4 + round % 8]).collect();
            let next = put(&repository, &packs);
            storage.remove(Name::new(ObjectKind::Index, changing));
            changing = next;
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        done.store(true, Ordering::Relaxed);
    });
    let packs: BTreeSet<u64> = (0..4).chain([4 + 99 % 8]).collect();
    assert_is(&open(&storage, root.path()).load_index().unwrap(), &packs);
    assert_eq!(files(root.path()).len(), 1);
}

#[test]
fn what_a_killed_process_left_is_no_obstacle_and_goes() {
    let (storage, root) = (MemoryStorage::default(), scratch());
    put(&init(storage.clone()), &[1, 2]);
    let repository = open(&storage, root.path());
    repository.load_index().unwrap();
    let [old, of_old_format, young] =
        ["tmp-old", "index1-old", "tmp-young"].map(|name| folder(root.path()).join(name));
    for path in [&old, &of_old_format, &young] {
        write(path, b"half a run");
    }
    let two_days_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(2 * 86_400);
    for path in [&old, &of_old_format] {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(two_days_ago).unwrap();
    }
    assert_is(&repository.load_index().unwrap(), &[1, 2].into());
    assert!(!old.exists() && !of_old_format.exists() && young.exists());
}

#[test]
fn without_a_place_for_it_one_goes_on_and_warns_once() {
    let (storage, root) = (MemoryStorage::default(), scratch());
    let plain = init(storage.clone());
    put(&plain, &[1, 2]);
    let blocked = root.path().join("file");
    write(&blocked, b"no directory");
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let warn = |warnings: &Arc<Mutex<Vec<String>>>| {
        let warnings = Arc::clone(warnings);
        move |text: &str| warnings.lock().unwrap().push(text.to_owned())
    };
    let repository = open_with(&storage, Cache::new(&blocked, warn(&warnings)));
    for _ in 0..2 {
        assert_is(&repository.load_index().unwrap(), &[1, 2].into());
    }
    assert_eq!(warnings.lock().unwrap().len(), 1, "{warnings:?}");
    assert!(warnings.lock().unwrap()[0].contains("cannot use the cache"));

    let at = root.path().join("full");
    fs::create_dir(&at).unwrap();
    let Some(_mount) = Mount::tmpfs(&at, "16k") else {
        return;
    };
    warnings.lock().unwrap().clear();
    let repository = open_with(&storage, Cache::new(&at, warn(&warnings)));
    // It has room for the first run, but not for the second beside it.
    let mut packs = BTreeSet::from([1, 2]);
    for pack in 3..PACKS {
        put(&plain, &[pack]);
        packs.insert(pack);
        assert_is(&repository.load_index().unwrap(), &packs);
    }
    assert_eq!(warnings.lock().unwrap().len(), 1, "{warnings:?}");
}

/// With a cache, packs are listed by `--force` alone: what is missing is noticed then, and stored
/// again.
#[test]
fn lost_packs_and_a_cache() {
    let (dir, root) = (scratch(), scratch());
    let source = dir.path().join("source");
    fs::create_dir(&source).unwrap();
    write(source.join("file"), &random_bytes(1, 500_000));
    settle();
    let storage = LocalStorage::new(dir.path().join("repository"));
    let cache = Cache::new(root.path(), |text: &str| panic!("a warning: {text}"));
    let made = Repository::init(Arc::new(storage), &password(), init_options()).unwrap();
    let repository = Arc::new(made.with_cache(cache));
    let back_up = |parent| {
        let mut options = backup_options();
        options.parent = parent;
        let recorder = Arc::new(Recorder::default());
        let made = back_up_observed(&repository, &[&source], options, &recorder).unwrap();
        (made, recorder.warnings())
    };
    back_up(Parent::OF_SAME);
    // Now the cache knows it.
    repository.load_index().unwrap();
    let all = repository.list(ObjectKind::Pack).unwrap();
    let (lost, _) = *all.iter().max_by_key(|(_, len)| len).unwrap();
    let name = Name::new(ObjectKind::Pack, lost);
    repository.storage().delete(name).unwrap();

    let (made, warnings) = back_up(Parent::OF_SAME);
    assert_eq!((made.snapshot.summary.read_bytes, warnings), (0, vec![]));
    let (made, warnings) = back_up(Parent::None);
    assert!(warnings[0].1.contains("stored again"), "{warnings:?}");
    assert!(made.snapshot.summary.added_bytes >= 500_000);
    // The pack is still named, and now without need.
    crate::common::assert_restores(&repository, made.id.unwrap(), &source, &source);
    let lost: HashSet<Id> = repository
        .load_index_and_lost(tabane_store::parts::Trust::Any)
        .unwrap()
        .1
        .into_iter()
        .collect();
    assert_eq!(lost, [name.id].into());
}
