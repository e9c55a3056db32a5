//! An intruder who has all that a client with a write-only key has: what is on its disk, and what
//! is in its memory while it backs up. The place lets it list, read and add objects, and delete
//! those of clients at work, as the policy of docs/reference/object-stores.md does.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tabane_storage::{Id, Listed, Name, ObjectKind, Storage, StorageErrorKind, object_id, random};
use tabane_store::check::{CheckOptions, ReadData};
use tabane_store::client::{Presence, Purpose};
use tabane_store::forget::{self, Count, GroupBy, Period, Rule};
use tabane_store::key::KdfCost;
use tabane_store::parts::pack::{
    self, BlockKind, Codec, PackContents, PackKind, PackWriter, Segment,
};
use tabane_store::parts::reader::BlockReader;
use tabane_store::parts::{self, MasterKey};
use tabane_store::segment_cache::SegmentCache;
use tabane_store::{Algorithm, Cache, Error, PruneOptions, Repository, Snapshot, Timestamp};

use super::write_only::{Bed, writer_password};
use crate::common::memory::MemoryStorage;
use crate::common::tree::{random_bytes, write};
use crate::common::{
    Recorder, back_up, back_up_with, backup_options, compare, forward, id, password,
    restore_observed, restore_options, restore_with, scratch,
};

/// What the intruder tried, and how often.
#[derive(Default)]
struct Attempts(BTreeMap<&'static str, u64>);

impl Attempts {
    fn count(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }
}

impl Drop for Attempts {
    fn drop(&mut self) {
        let all: u64 = self.0.values().sum();
        println!("{all} attempts: {:?}", self.0);
    }
}

/// The place as the policy shows it to the client.
struct Policy {
    inner: MemoryStorage,
    denied: AtomicU64,
}

impl Policy {
    fn deny<T>(&self) -> tabane_storage::Result<T> {
        self.denied.fetch_add(1, Ordering::Relaxed);
        Err(StorageErrorKind::Denied.into())
    }
}

impl Storage for Policy {
    forward!(get, list, stat);

    fn location(&self) -> String {
        "the policy".to_owned()
    }

    fn create(&self) -> tabane_storage::Result<()> {
        self.deny()
    }

    fn put(&self, name: Name, parts: &[&[u8]]) -> tabane_storage::Result<()> {
        // What is there stays: `If-None-Match: *`.
        if self.inner.stat(name).is_ok() {
            return self.deny();
        }
        self.inner.put(name, parts)
    }

    fn delete(&self, name: Name) -> tabane_storage::Result<()> {
        match name.kind {
            ObjectKind::Client | ObjectKind::Pending => self.inner.delete(name),
            _ => self.deny(),
        }
    }
}

/// Everybody's files: a snapshot of each, and where it comes from.
struct Genuine {
    snapshot: Id,
    source: PathBuf,
    /// What was there then.
    contents: BTreeMap<PathBuf, Vec<u8>>,
}

struct Scene {
    bed: Bed,
    policy: Arc<Policy>,
    genuine: Vec<Genuine>,
    /// Names and contents that nobody may read.
    secrets: Vec<Vec<u8>>,
}

const OTHER_SECRET: &[u8] = b"the secret of another machine, which nobody should read";
const OWN_SECRET: &[u8] = b"a file of this machine that was deleted since, name and all";

impl Scene {
    fn new() -> Self {
        let bed = Bed::new();
        let policy = Arc::new(Policy {
            inner: bed.storage.clone(),
            denied: AtomicU64::new(0),
        });
        let mut scene = Self {
            bed,
            policy,
            genuine: Vec::new(),
            secrets: vec![
                OTHER_SECRET.to_vec(),
                OWN_SECRET.to_vec(),
                b"diary-2026".to_vec(),
            ],
        };
        let server = scene.bed.dir.path().join("server");
        write(server.join("diary-2026"), OTHER_SECRET);
        write(server.join("data"), &random_bytes(10, 300_000));
        scene.back_up(&scene.bed.master.clone(), &server, "server");
        write(server.join("data"), &random_bytes(11, 300_000));
        scene.back_up(&scene.bed.master.clone(), &server, "server");
        // Another machine with a write-only key of its own.
        let other_password = b"other".to_vec().into();
        let added = scene
            .bed
            .master
            .add_write_only_key(&other_password, KdfCost::WEAKEST);
        added.unwrap();
        let storage = Arc::new(scene.bed.storage.clone());
        let other = Arc::new(Repository::open(storage, &other_password).unwrap());
        let desk = scene.bed.dir.path().join("desk");
        write(desk.join("plan"), &random_bytes(12, 200_000));
        scene.back_up(&other, &desk, "desk");
        // The machine that will be broken into.
        let source = scene.bed.source();
        write(source.join("diary-2026"), OWN_SECRET);
        scene.back_up(&scene.bed.cached(), &source, "laptop");
        fs::remove_file(source.join("diary-2026")).unwrap();
        scene
    }

    fn back_up(&mut self, repository: &Arc<Repository>, source: &Path, host: &str) {
        let options = backup_options().hostname(host);
        let made = back_up_with(repository, &[source], options);
        self.genuine.push(Genuine {
            snapshot: id(&made),
            source: source.to_owned(),
            contents: compare::contents(source),
        });
    }

    /// The stolen key, with its place.
    fn stolen(&self) -> Arc<Repository> {
        let storage: Arc<dyn Storage> = self.policy.clone();
        Arc::new(Repository::open(storage, &writer_password()).unwrap())
    }

    /// What anybody who answers for the repository wants: every genuine snapshot is there and
    /// whole.
    fn assert_all_restore(&self) {
        for genuine in &self.genuine {
            let target = scratch();
            let options = restore_options(target.path()).subpath(genuine.source.clone());
            restore_with(&self.bed.master, genuine.snapshot, options);
            assert_eq!(compare::contents(target.path()), genuine.contents);
        }
    }

    /// Removes what a check has shown not to be genuine, and prunes.
    fn clean_up(&self) {
        let master = &self.bed.master;
        let listing = master.snapshots(&Default::default()).unwrap();
        let genuine = |id: &Id| self.genuine.iter().any(|one| one.snapshot == *id);
        let forged = listing.snapshots.iter().filter(|(id, _)| !genuine(id));
        for (id, snapshot) in forged {
            assert!(
                snapshot.writer.is_some(),
                "somebody forged a full key's snapshot"
            );
            master.remove_snapshot(*id).unwrap();
        }
        for _ in 0..2 {
            let plan = master.plan_prune(PruneOptions::default()).unwrap();
            plan.execute().unwrap();
        }
    }
}

/// Every secret that 32 bytes of the stolen key's memory could be.
fn windows(stolen: &Repository) -> Vec<[u8; 32]> {
    let key = parts::keys(stolen).writer().expect("a write-only key");
    let bytes = key.to_bytes();
    let all = bytes.windows(32).map(|window| window.try_into().unwrap());
    all.collect()
}

#[test]
fn reads_nothing() {
    let scene = Scene::new();
    let stolen = scene.stolen();
    let mut attempts = Attempts::default();
    let objects = scene.bed.storage.objects();
    // With the key as it is meant to be used.
    for (name, bytes) in &objects {
        if [ObjectKind::Config, ObjectKind::Key, ObjectKind::Copy].contains(&name.kind) {
            continue;
        }
        attempts.count("open");
        let opened = parts::keys(&stolen).open(name.kind, bytes.clone(), "it");
        let may = match name.kind {
            ObjectKind::Index | ObjectKind::Removal => true,
            ObjectKind::Unverified => opened.as_ref().is_ok_and(|it| it.writer == stolen.writer()),
            _ => false,
        };
        assert_eq!(opened.is_ok(), may, "{name}");
    }
    // With all of its bytes as a key, for whole objects and for parts of packs.
    let windows = windows(&stolen);
    for (name, bytes) in &objects {
        for window in &windows {
            let master = MasterKey::from_bytes(window).unwrap();
            let salt = bytes.get(8..40).and_then(|salt| salt.first_chunk());
            let Some(salt) = salt else { continue };
            let key = master.object_key(name.kind, salt);
            let (start, end) = match name.kind {
                ObjectKind::Pack => {
                    let len = u32::from_le_bytes(*bytes.last_chunk().unwrap()) as usize;
                    (bytes.len() - 4 - len, bytes.len() - 4)
                }
                _ => (40, bytes.len()),
            };
            for head in [0, 1120] {
                attempts.count("guess a key");
                let sealed = bytes.get(start + head..end).or(bytes.get(start..end));
                let mut sealed = sealed.unwrap_or_default().to_vec();
                assert!(key.open(0, &mut sealed).is_none(), "{name}");
            }
        }
    }
    // Through the program.
    for genuine in &scene.genuine {
        attempts.count("restore");
        assert!(stolen.load_snapshot(genuine.snapshot).is_err());
    }
    attempts.count("list snapshots");
    assert!(stolen.snapshots(&Default::default()).is_err());
    attempts.count("check data");
    let options = CheckOptions::default().read_data(ReadData::All);
    assert!(stolen.check(options).is_err());
    // In the bytes themselves: of all objects, and of all that the machine remembers.
    let mut files = Vec::new();
    collect(&scene.bed.dir.path().join("cache"), &mut files);
    assert!(!files.is_empty());
    for secret in &scene.secrets {
        for bytes in objects.values().chain(&files) {
            attempts.count("look for a name or a content");
            assert!(!bytes.windows(secret.len()).any(|found| found == secret));
        }
    }
}

fn collect(folder: &Path, files: &mut Vec<Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files)
        } else {
            files.push(fs::read(&path).unwrap())
        }
    }
}

/// What the policy forbids.
#[test]
fn changes_and_deletes_nothing() {
    let scene = Scene::new();
    let mut attempts = Attempts::default();
    let before = scene.bed.storage.objects();
    for (name, bytes) in &before {
        for forged in [&b"forged"[..], &bytes[..bytes.len() / 2], b""] {
            attempts.count("overwrite");
            assert!(scene.policy.put(*name, &[forged]).is_err());
        }
        attempts.count("replace");
        assert!(scene.policy.replace(*name, &[b"forged"]).is_err());
        attempts.count("delete");
        assert!(scene.policy.delete(*name).is_err());
    }
    attempts.count("create");
    assert!(scene.policy.create().is_err());
    let stolen = scene.stolen();
    for genuine in &scene.genuine {
        attempts.count("forget");
        assert!(stolen.remove_snapshot(genuine.snapshot).is_err());
    }
    attempts.count("prune");
    assert!(stolen.plan_prune(PruneOptions::default()).is_err());
    attempts.count("remove a key");
    assert!(stolen.remove_key(scene.bed.master.key()).is_err());
    attempts.count("migrate");
    assert!(stolen.migrate().is_err());
    attempts.count("repair");
    assert!(stolen.repair_index(Default::default()).is_err());
    assert!(stolen.repair_config().is_err());
    let mut after = scene.bed.storage.objects();
    after.retain(|name, _| name.kind != ObjectKind::Client);
    assert_eq!(after, before);
    scene.assert_all_restore();
}

/// A header, and what is sealed behind it with each secret that the intruder has.
fn sealed_with_all(stolen: &Repository, kind: ObjectKind, payload: &[u8]) -> Vec<Vec<u8>> {
    let writer = parts::keys(stolen).writer().expect("a write-only key");
    let mut made = Vec::new();
    let letter = match kind {
        ObjectKind::Index => b'I',
        ObjectKind::Removal => b'R',
        ObjectKind::Snapshot => b'S',
        ObjectKind::Pending => b'N',
        ObjectKind::Unverified => b'U',
        ObjectKind::Pack => b'P',
        _ => b'A',
    };
    let bytes = writer.to_bytes();
    // The last 64 bytes are the index secret and the own secret.
    let secrets = bytes[bytes.len() - 64..].chunks(32);
    for secret in secrets {
        for format in 1..=4 {
            for signature in [&[][..], &[0; 64], &[7; 64]] {
                let mut object = [b"TABANE", &[letter, format][..], &random::<32>()].concat();
                object[8..24].copy_from_slice(&hex::decode(writer.id.to_string()).unwrap());
                let header = *object.first_chunk().unwrap();
                let key = parts::ObjectKey::derived(secret, &header);
                object.extend_from_slice(payload);
                object.extend_from_slice(signature);
                key.seal(0, &mut object, 40);
                made.push(object);
            }
        }
    }
    made
}

fn put(scene: &Scene, attempts: &mut Attempts, what: &'static str, kind: ObjectKind, bytes: &[u8]) {
    attempts.count(what);
    let name = Name::new(kind, object_id(&[bytes]));
    scene.policy.put(name, &[bytes]).unwrap();
}

/// Contents of a pack that is said to hold these blocks in one segment.
fn said(salt: [u8; 32], kind: PackKind, blocks: &[(Id, u32)], stored_len: u32) -> PackContents {
    PackContents {
        salt,
        kind,
        segments: vec![Segment {
            stored_len,
            codec: Codec::Stored,
            blocks: blocks.to_vec(),
        }],
    }
}

#[test]
fn adds_what_it_likes_and_harms_nobody() {
    let scene = Scene::new();
    let stolen = scene.stolen();
    let master = &scene.bed.master;
    let mut attempts = Attempts::default();
    let objects = scene.bed.storage.objects();
    let index = stolen.load_index().unwrap();
    let known: Vec<(Id, u32)> = index
        .blocks()
        .map(|block| block.map(|(id, place)| (id, place.len)).unwrap())
        .collect();
    assert!(!known.is_empty());
    // What others are about to store.
    let coming = random_bytes(77, 150_000);
    let server = scene.bed.dir.path().join("server");
    write(server.join("coming"), &coming);
    let chunks: Vec<usize> = stolen.chunker().blocks(&coming, true).collect();
    let mut at = 0;
    let coming: Vec<(Id, u32)> = chunks
        .into_iter()
        .map(|len| {
            let digest = Algorithm::Sha256.digest(&coming[at..at + len]);
            at += len;
            (Id::from(digest), len as u32)
        })
        .collect();

    // Index objects and removals that it cannot sign, and replays of those of others.
    let all_packs: Vec<Id> = objects
        .keys()
        .filter(|name| name.kind == ObjectKind::Pack)
        .map(|name| name.id)
        .collect();
    let lie: Vec<(Id, PackContents)> = all_packs
        .iter()
        .map(|pack| (*pack, said(random(), PackKind::Data, &coming, 150_016)))
        .collect();
    let lie = postcard::to_stdvec(&lie).unwrap();
    let removal = postcard::to_stdvec(&all_packs).unwrap();
    for (kind, payload) in [(ObjectKind::Index, &lie), (ObjectKind::Removal, &removal)] {
        for object in sealed_with_all(&stolen, kind, payload) {
            put(
                &scene,
                &mut attempts,
                "forge index objects and removals",
                kind,
                &object,
            );
        }
    }
    for (name, bytes) in &objects {
        // As if it were of another kind; and under the same kind with a header of its own.
        if [ObjectKind::Index, ObjectKind::Removal].contains(&name.kind) {
            let payload = parts::keys(&stolen).open(name.kind, bytes.clone(), "it");
            let payload = payload.unwrap().payload;
            for kind in [
                ObjectKind::Index,
                ObjectKind::Removal,
                ObjectKind::Unverified,
            ] {
                for object in sealed_with_all(&stolen, kind, &payload) {
                    put(&scene, &mut attempts, "replay payloads", kind, &object);
                }
                let mut turned = bytes.clone();
                turned[6] = if kind == ObjectKind::Index {
                    b'I'
                } else {
                    b'R'
                };
                if turned != *bytes {
                    put(
                        &scene,
                        &mut attempts,
                        "turn objects into others",
                        kind,
                        &turned,
                    );
                }
            }
        }
    }
    // Bytes of any kind, and of none, in every folder.
    for kind in ObjectKind::ALL {
        if kind == ObjectKind::Config {
            continue;
        }
        for len in [0, 7, 40, 200, 1300] {
            let mut junk = random_bytes(u64::from(kind as u8) + len as u64, len);
            put(&scene, &mut attempts, "put junk", kind, &junk);
            if len >= 40 {
                junk[..6].copy_from_slice(b"TABANE");
                for format in [1, 2, 3, 4, 9] {
                    junk[6] = b"PISNRAU"[len % 7];
                    junk[7] = format;
                    put(&scene, &mut attempts, "put junk with a header", kind, &junk);
                }
            }
        }
    }
    // Packs of its own that hold something else than it says.
    let mut claims = Vec::new();
    for blocks in [&known[..], &coming[..]] {
        for blocks in blocks.chunks(1) {
            let keys = parts::keys(&stolen);
            let mut pack = PackWriter::new(keys, BlockKind::Data, Vec::new());
            let forged = vec![0x66; blocks[0].1 as usize];
            pack.push(Codec::Stored, &forged, blocks.to_vec());
            let (bytes, contents) = pack.finish();
            put(
                &scene,
                &mut attempts,
                "store lies",
                ObjectKind::Pack,
                &bytes,
            );
            let id = object_id(&[&bytes]);
            claims.push((id, contents.clone()));
            // Also of other lengths, in other packs, and beyond all limits.
            let mut longer = contents.clone();
            longer.segments[0].blocks[0].1 += 1;
            claims.push((id, longer));
            for pack in &all_packs {
                claims.push((*pack, contents.clone()));
            }
            let mut huge = contents;
            huge.segments[0].blocks[0].1 = u32::MAX;
            claims.push((id, huge));
        }
    }
    for claims in claims.chunks(50) {
        attempts.count("say lies");
        let payload = postcard::to_stdvec(claims).unwrap();
        stolen.put_sealed(ObjectKind::Unverified, &payload).unwrap();
    }
    // Snapshots of other machines, at any time; some lack everything.
    let own = scene.genuine.last().unwrap();
    let root = master.load_snapshot(own.snapshot).unwrap();
    let now = Timestamp::now();
    for (number, genuine) in scene.genuine.iter().enumerate() {
        let snapshot = master.load_snapshot(genuine.snapshot).unwrap();
        for hours in [-24 * 400, -24 * 7, -30, -1, 0, 1, 24 * 400] {
            let forged = Snapshot {
                time: now + jiff_hours(hours),
                root: match number % 2 {
                    0 => root.root.clone(),
                    _ => snapshot.root.clone(),
                },
                writer: None,
                ..snapshot.clone()
            };
            attempts.count("forge snapshots");
            let json = serde_json::to_vec(&forged).unwrap();
            stolen.put_sealed(ObjectKind::Snapshot, &json).unwrap();
            stolen.put_sealed(ObjectKind::Pending, &json).unwrap();
            for kind in [ObjectKind::Snapshot, ObjectKind::Pending] {
                for object in sealed_with_all(&stolen, kind, &json) {
                    put(
                        &scene,
                        &mut attempts,
                        "forge snapshots of others",
                        kind,
                        &object,
                    );
                }
            }
        }
    }
    // The records of clients at work.
    for kind in [ObjectKind::Client, ObjectKind::Pending] {
        for listed in scene.policy.list(kind).unwrap() {
            attempts.count("delete records");
            scene.policy.delete(Name::new(kind, listed.id)).unwrap();
        }
    }

    // Everybody goes on.
    scene.assert_all_restore();
    let recorder = Arc::new(Recorder::default());
    let told = master.with_progress(Arc::clone(&recorder));
    let report = told.check(CheckOptions::default().read_data(ReadData::All));
    assert!(report.unwrap().problems > 0, "nobody has noticed");
    let mut scene = scene;
    let options = backup_options().hostname("server");
    let made = back_up_with(&scene.bed.master, &[&server], options);
    assert_eq!(made.snapshot.parent, Some(scene.genuine[1].snapshot));
    scene.genuine.push(Genuine {
        snapshot: id(&made),
        contents: compare::contents(&server),
        source: server,
    });
    // Rules that count keep what they would have kept.
    let listing = scene.bed.master.snapshots(&Default::default()).unwrap();
    let listed = listing.snapshots.iter().map(|(id, made)| (id, made));
    let misdated = forget::misdated(&scene.bed.master, listed).unwrap();
    let group_by: GroupBy = "host".parse().unwrap();
    let rules = [Rule::Last(Period::Day, Count::AtMost(3))];
    let zone = jiff::tz::TimeZone::UTC;
    for group in forget::group(listing.snapshots, group_by) {
        if group.writer.is_some() {
            continue;
        }
        let reasons = forget::reasons(&rules, &group.snapshots, &zone, Timestamp::now(), &misdated);
        // Two of the same day, and the latest is the genuine one.
        let kept = group.snapshots.iter().zip(&reasons);
        let kept: Vec<Id> = kept
            .filter(|(_, reasons)| !reasons.is_empty())
            .map(|((id, _), _)| *id)
            .collect();
        assert!(kept.contains(&scene.genuine.last().unwrap().snapshot));
    }
    let plan = scene.bed.master.plan_prune(PruneOptions::default());
    let report = match plan.and_then(|plan| plan.execute()) {
        Ok(report) => Some(report),
        // Its own snapshots lack what they say they need.
        Err(Error::CannotPrune(_)) => None,
        Err(error) => panic!("{error}"),
    };
    assert!(report.is_none_or(|report| report.refuted_packs > 0));
    scene.assert_all_restore();
    scene.clean_up();
    scene.assert_all_restore();
    // And with all that it has left behind.
    let again = back_up(&scene.bed.master, &[&scene.bed.source()]);
    scene.bed.master.load_snapshot(id(&again)).unwrap();
    let reopened = Repository::open(Arc::new(scene.bed.storage.clone()), &password());
    assert!(reopened.is_ok());
}

fn jiff_hours(hours: i64) -> jiff::SignedDuration {
    jiff::SignedDuration::from_hours(hours)
}

/// A block of a snapshot may be left in a pack that is about to be deleted, if a client crashed.
/// What somebody says of other packs must not make a prune believe that the block is safe, whether
/// the pack that goes was ever verified or not.
#[test]
fn a_lie_lets_no_condemned_block_go() {
    for is_verified in [true, false] {
        lie_about_condemned_blocks(is_verified);
    }
}

fn lie_about_condemned_blocks(is_verified: bool) {
    let mut scene = Scene::new();
    let master = scene.bed.master.clone();
    let crashed = if is_verified {
        master.clone()
    } else {
        scene.bed.writer()
    };
    let source = scene.bed.dir.path().join("crashed");
    write(source.join("data"), &random_bytes(21, 300_000));
    scene.back_up(&crashed, &source, "crashed");
    let made = scene.genuine.last().unwrap().snapshot;
    let snapshot = Name::new(ObjectKind::Snapshot, made);
    let bytes = scene.bed.storage.get(snapshot, None).unwrap();
    master.remove_snapshot(made).unwrap();
    let at_work = Presence::announce(&master, Purpose::Backup).unwrap();
    scene.bed.prune();
    drop(at_work);
    let condemned = master.read_removals().unwrap().condemned();
    assert!(!condemned.is_empty());
    scene.bed.storage.set(snapshot, bytes);

    let stolen = scene.stolen();
    let index = stolen.load_index().unwrap();
    let mut claims = Vec::new();
    for block in index.blocks() {
        let (block, place) = block.unwrap();
        let mut pack = PackWriter::new(parts::keys(&stolen), BlockKind::Data, Vec::new());
        pack.push(
            Codec::Stored,
            &vec![0x66; place.len as usize],
            vec![(block, place.len)],
        );
        let (bytes, contents) = pack.finish();
        let id = object_id(&[&bytes]);
        let name = Name::new(ObjectKind::Pack, id);
        scene.policy.put(name, &[&bytes]).unwrap();
        claims.push((id, contents));
    }
    let payload = postcard::to_stdvec(&claims).unwrap();
    stolen.put_sealed(ObjectKind::Unverified, &payload).unwrap();
    let report = scene.bed.prune();
    assert!(report.copied_bytes > 0, "{report:?}");
    assert!(condemned.iter().all(|pack| {
        scene
            .bed
            .storage
            .stat(Name::new(ObjectKind::Pack, *pack))
            .is_err()
    }));
    scene.assert_all_restore();
}

/// The contents of a pack, for whoever has the repository's own key.
fn contents_of(bed: &Bed, pack: Id) -> PackContents {
    pack::fetch_contents(&bed.storage, parts::keys(&bed.master), pack).unwrap()
}

/// Reads all blocks that an index knows, as a restore does and as a mount does: what is read is
/// right. Returns how many blocks could not be read.
fn read_all(repository: &Arc<Repository>) -> usize {
    let index = repository.load_index().unwrap();
    let mut reader = BlockReader::new(repository);
    let cache = SegmentCache::new(repository, 1 << 20).unwrap();
    let blocks = index.blocks().map(|block| block.unwrap());
    let mut blocks: Vec<(Id, u32)> = blocks.map(|(id, place)| (id, place.len)).collect();
    // What only lies name comes first.
    blocks.sort_by_key(|(id, _)| !id.0.starts_with(FORGED));
    cache.read_ahead(blocks.iter().copied());
    let mut failed = 0;
    for (id, len) in blocks {
        let (mut read, mut mounted) = (Vec::new(), Vec::new());
        let results = [
            reader.append_block(&index, id, &mut read).is_ok(),
            cache.append(id, len, 0..len as usize, &mut mounted).is_ok(),
        ];
        for (is_read, bytes) in results.into_iter().zip([read, mounted]) {
            assert!(!is_read || Id::from(Algorithm::Sha256.digest(&bytes)) == id);
            failed += usize::from(!is_read);
        }
    }
    failed
}

const FORGED: &[u8] = b"forged block";

/// Whoever says something else of a genuine pack must not make others read it so.
#[test]
fn a_lie_about_a_pack_changes_no_block_of_it() {
    let bed = Bed::new();
    back_up(&bed.writer(), &[&bed.source()]);
    assert!(bed.prune().verified_packs > 0);
    let mut claims = Vec::new();
    for listed in bed.storage.list(ObjectKind::Pack).unwrap() {
        let mut said = contents_of(&bed, listed.id);
        for segment in &mut said.segments {
            let mut block = random::<32>();
            block[..FORGED.len()].copy_from_slice(FORGED);
            segment.codec = Codec::Stored;
            segment.blocks = vec![(Id(block), segment.stored_len - TAG_LEN)];
        }
        claims.push((listed.id, said));
    }
    let lies: usize = claims.iter().map(|(_, said)| said.segments.len()).sum();
    let payload = postcard::to_stdvec(&claims).unwrap();
    let stolen = bed.writer();
    stolen.put_sealed(ObjectKind::Unverified, &payload).unwrap();
    let cache = Cache::new(bed.dir.path().join("cache"), |warning| panic!("{warning}"));
    let master = Arc::unwrap_or_clone(crate::common::open(bed.storage.clone()));
    // By both ways, only what is forged cannot be read.
    assert_eq!(read_all(&Arc::new(master.with_cache(cache))), 2 * lies);
}

/// A place that lets objects be overwritten lets a writer change its packs after a prune has
/// verified them.
#[test]
fn a_writer_that_overwrites_its_verified_pack_is_found_out() {
    let bed = Bed::new();
    let made = back_up(&bed.writer(), &[&bed.source()]);
    assert_eq!(bed.prune().refuted_packs, 0);
    assert_eq!(read_all(&bed.master), 0);
    let stolen = bed.writer();
    for listed in bed.storage.list(ObjectKind::Pack).unwrap() {
        let contents = contents_of(&bed, listed.id);
        if contents.kind.blocks() == BlockKind::Tree {
            continue;
        }
        let mut forged = PackWriter::new(parts::keys(&stolen), BlockKind::Data, Vec::new());
        for segment in contents.segments {
            let bytes = vec![0x66; (segment.stored_len - TAG_LEN) as usize];
            forged.push(segment.codec, &bytes, segment.blocks);
        }
        let name = Name::new(ObjectKind::Pack, listed.id);
        bed.storage.set(name, forged.finish().0);
    }
    let master = crate::common::open(bed.storage.clone());
    assert!(read_all(&master) > 0);
    let target = scratch();
    let options = restore_options(target.path()).subpath(bed.source());
    let (summary, _) = restore_observed(&master, id(&made), options);
    assert!(summary.errors > 0);
    let report = master.check(CheckOptions::default().read_data(ReadData::All));
    assert!(report.unwrap().problems > 0);
}

/// Bytes that seal a segment.
const TAG_LEN: u32 = 16;
