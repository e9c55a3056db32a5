//! What a cache reads, writes and keeps.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs;
use std::rc::Rc;

use tabane_index::{Index, IndexObjects, IndexSegment};
use tabane_storage::Id;

use crate::bed::{
    GONE, Objects, Part, cache, id, mixed, names, only_run, pack, pack_of, runs, warning_cache,
};
use crate::format::check_run;
use crate::model::Model;

/// An index object that names one pack, with these blocks.
fn one(number: u8, blocks: &[u8]) -> IndexSegment {
    vec![(id(number), pack(&[blocks]))]
}

fn model(objects: &Objects) -> Model {
    let mut model = Model::of(objects.all().values());
    model.condemned.clone_from(&objects.condemned);
    model
}

#[test]
fn only_new_index_objects_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, mut objects) = (cache(folder.path()), Objects::default());
    assert!(cache.load_index(&objects).unwrap().is_empty());
    let runs_folder = cache.folder(id(0));
    assert_eq!(names(&runs_folder), [""; 0]);
    let mut before = None;
    for number in 0..5 {
        let name = objects.add(one(100 + number, &[number, number + 1]));
        let index = cache.load_index(&objects).unwrap();
        assert_eq!(objects.take_read(), [name]);
        model(&objects).check(&index, (0..9).map(id));
        assert_eq!(index.len(), 2 * u64::from(number + 1));
        let run = only_run(&runs_folder);
        assert_ne!(before.replace(run.clone()), Some(run));
        // With nothing new, nothing is read or written.
        cache.load_index(&objects).unwrap();
        assert_eq!(objects.take_read(), []);
        assert_eq!(before, Some(only_run(&runs_folder)));
    }
    check_run(&only_run(&runs_folder), &objects.keys, objects.all(), 8);
}

#[test]
fn packs_of_deleted_index_objects_are_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, mut objects) = (cache(folder.path()), Objects::default());
    // Exactly a page of namings; the first and the last pack are named by two objects.
    let first = objects.add(
        (0..31)
            .map(|pack| (mixed(pack), pack_of(pack, 2)))
            .collect(),
    );
    let rest = objects.add(
        (31..60)
            .map(|pack| (mixed(pack), pack_of(pack, 2)))
            .collect(),
    );
    let both = [0, 59].map(|pack| (mixed(pack), pack_of(pack, 2)));
    objects.add(both.to_vec());
    cache.load_index(&objects).unwrap();
    for gone in [first, rest] {
        objects.remove(&gone);
        let index = cache.load_index(&objects).unwrap();
        let model = model(&objects);
        model.check(&index, (0..62).map(mixed));
        assert_eq!(index.len(), model.len_in_run());
        check_run(
            &only_run(&cache.folder(id(0))),
            &objects.keys,
            objects.all(),
            8,
        );
        assert_eq!(cache.load_index(&objects).unwrap().len(), index.len());
    }
}

/// Adds an index object as a client that wrote it.
fn write(cache: &tabane_index::Cache, objects: &mut Objects, packs: IndexSegment) -> Id {
    let name = objects.add(packs.clone());
    cache.add(objects, vec![(name, packs)]);
    name
}

#[test]
fn what_a_client_wrote_is_a_run_of_its_own_and_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, mut objects) = (cache(folder.path()), Objects::default());
    cache.load_index(&objects).unwrap();
    let packs = |numbers: std::ops::Range<u64>| -> IndexSegment {
        let segments = |number| {
            let mut contents = pack_of(number, 3);
            contents.segments.extend(pack_of(number + 500, 2).segments);
            contents
        };
        numbers
            .map(|number| (mixed(900 + number), segments(number)))
            .collect()
    };
    write(&cache, &mut objects, packs(0..20));
    write(&cache, &mut objects, packs(20..27));
    write(&cache, &mut objects, packs(15..18));
    objects.condemned = [mixed(900), mixed(915), mixed(921), mixed(926), mixed(0)].into();
    assert_eq!(runs(&cache.folder(id(0))).len(), 3);
    let mut index = cache.load_index(&objects).unwrap();
    assert_eq!(objects.take_read(), []);
    assert_eq!(runs(&cache.folder(id(0))).len(), 3);
    let mut model = model(&objects);
    let blocks = || (0..30).chain(500..530).map(mixed);
    model.check(&index, blocks());
    assert_eq!(index.len(), 5 * 30);
    // The longest run comes first.
    let first = index.find(&mixed(5)).unwrap().unwrap().segment;
    assert!(first < 40, "{first}");
    let more = packs(26..33);
    index.add_all(&more).unwrap();
    model.say(&more, true);
    model.check(&index, blocks());
    // Three blocks of the first segment of pack 26, and two of the second one, were known.
    assert_eq!(index.len(), 5 * 30 + 9 + 8);
    let excluded = |id: &Id| [mixed(900), mixed(917), mixed(922), mixed(928)].contains(id);
    for _ in 0..2 {
        index.exclude_packs(|pack| excluded(&pack.id)).unwrap();
        model.exclude(excluded);
        model.check(&index, blocks());
    }
    // The next new object merges all.
    objects.add(one(7, &[1]));
    let index = cache.load_index(&objects).unwrap();
    assert_eq!(index.len(), 5 * 27 + 1);
    check_run(
        &only_run(&cache.folder(id(0))),
        &objects.keys,
        objects.all(),
        8,
    );
}

#[test]
fn runs_that_others_made_superfluous_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, mut objects) = (cache(folder.path()), Objects::default());
    cache.load_index(&objects).unwrap();
    let runs_folder = cache.folder(id(0));
    write(&cache, &mut objects, one(101, &[1]));
    let old = only_run(&runs_folder);
    let bytes = fs::read(&old).unwrap();
    objects.add(one(102, &[2]));
    cache.load_index(&objects).unwrap();
    let merged = only_run(&runs_folder);
    // As when a process dies before it removes the old one.
    fs::write(&old, &bytes).unwrap();
    let index = cache.load_index(&objects).unwrap();
    assert_eq!(only_run(&runs_folder), merged);
    assert_eq!(index.len(), 2);
    // One whose index objects are all gone.
    let names = objects.list().unwrap();
    names.iter().for_each(|name| drop(objects.remove(name)));
    assert!(cache.load_index(&objects).unwrap().is_empty());
    assert!(runs(&runs_folder).is_empty());
}

#[test]
fn an_index_object_that_vanishes_is_no_error_until_the_fifth_time() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path());
    let mut objects = Objects::default();
    let name = objects.add(one(101, &[1]));
    objects.unreadable.borrow_mut().insert(name, GONE);
    let error = cache.load_index(&objects).err().unwrap();
    assert_eq!(
        error.to_string(),
        format!("{} is damaged: it is gone", name.short())
    );
    assert_eq!(objects.calls.lists.get(), 5);

    // What cannot be read for another reason is an error at once.
    let mut objects = Objects::default();
    let name = objects.add(one(101, &[1]));
    objects.unreadable.borrow_mut().insert(name, "no");
    assert!(cache.load_index(&objects).is_err());
    assert_eq!(objects.calls.lists.get(), 1);

    // Others may vanish as often as they like.
    let mut objects = Objects::default();
    for number in 0..12 {
        let name = objects.add(one(100 + number, &[number]));
        objects.unreadable.borrow_mut().insert(name, GONE);
    }
    objects.is_unreadable_once = true;
    let index = cache.load_index(&objects).unwrap();
    assert_eq!((objects.calls.lists.get(), index.len()), (13, 12));
}

#[test]
fn packs_that_are_not_there_are_left_out() {
    let packs = |numbers: std::ops::Range<u64>| -> IndexSegment {
        numbers
            .map(|number| (mixed(number), pack_of(number, 1)))
            .collect()
    };
    // Few packs are asked for one by one: 32, and one more for each 1,000 known ones.
    for (known, new, asked, lists) in [
        (0, 32, 32, 0),
        (0, 33, 0, 1),
        (999, 32, 32, 0),
        (999, 33, 0, 1),
        (1000, 33, 33, 0),
        (1000, 34, 0, 1),
        (2500, 34, 34, 0),
        (2500, 35, 0, 1),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (cache, mut objects) = (cache(folder.path()), Objects::default());
        objects.add(packs(0..known));
        cache.load_index(&objects).unwrap();
        objects.calls.asked.set(0);
        objects.calls.pack_lists.set(0);
        objects.add(packs(known..known + new));
        objects.lost.insert(mixed(known + 3));
        let index = cache.load_index(&objects).unwrap();
        let calls = &objects.calls;
        assert_eq!((calls.asked.get(), calls.pack_lists.get()), (asked, lists));
        assert_eq!(index.len(), known + new - 1);
        assert_eq!(index.find(&mixed(known + 3)).unwrap(), None);
    }
    // Several objects share the number, and one list is enough.
    let folder = tempfile::tempdir().unwrap();
    let (cache, mut objects) = (cache(folder.path()), Objects::default());
    for number in 0..4 {
        objects.add(packs(20 * number..20 * number + 20));
    }
    let index = cache.load_index(&objects).unwrap();
    assert_eq!(
        (objects.calls.asked.get(), objects.calls.pack_lists.get()),
        (20, 1)
    );
    assert_eq!(index.len(), 80);
}

#[test]
fn folding_moves_new_packs_from_memory_to_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, mut objects) = (cache(folder.path()), Objects::default());
    objects.add(one(101, &[1, 2]));
    let mut others = Part("unverified", Objects::default());
    others.1.add(one(110, &[2, 9]));
    let mut index = cache.load_index(&objects).unwrap();
    let other = cache.load_index(&others).unwrap();
    index.add_unverified(other).unwrap();
    let mut model = model(&objects);
    model.say(&one(110, &[2, 9]), false);
    let new = [one(102, &[3, 1]), one(103, &[4])].concat();
    let waiting = one(104, &[5]);
    for packs in [&new, &waiting] {
        index.add_all(packs).unwrap();
        model.say(packs, true);
    }
    model.check(&index, (0..9).map(id));
    // Of the new packs, block 1 has a second place in memory.
    assert_eq!(index.len(), 2 + 2 + 4);
    let name = objects.add(new.clone());
    cache.fold(&objects, &mut index, vec![(name, new)]).unwrap();
    model.check(&index, (0..9).map(id));
    assert_eq!(index.len(), 2 + 2 + 3 + 1);
    // The unverified run is where it was, the others became one.
    let run = only_run_beside_folders(&cache.folder(id(0)));
    check_run(&run, &objects.keys, objects.all(), 8);
    only_run(&cache.folder(id(0)).join("unverified"));
    objects.take_read();
    let index = cache.load_index(&objects).unwrap();
    assert_eq!((objects.take_read().len(), index.len()), (0, 5));
}

fn only_run_beside_folders(folder: &std::path::Path) -> std::path::PathBuf {
    let mut files = names(folder);
    files.retain(|name| !folder.join(name).is_dir());
    assert_eq!(files.len(), 1, "{files:?}");
    folder.join(&files[0])
}

#[test]
fn folding_does_not_bring_back_excluded_packs() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, mut objects) = (cache(folder.path()), Objects::default());
    objects.add([one(101, &[1]), one(102, &[2])].concat());
    let mut index = cache.load_index(&objects).unwrap();
    index.exclude_packs(|pack| pack.id == id(101)).unwrap();
    let new = one(103, &[3]);
    index.add_all(&new).unwrap();
    let name = objects.add(new.clone());
    cache.fold(&objects, &mut index, vec![(name, new)]).unwrap();
    assert_eq!(index.find(&id(1)).unwrap(), None);
    assert!(index.keeps(&id(2)).unwrap() && index.keeps(&id(3)).unwrap());
    assert_eq!(index.len(), 2);
    // For those who come later, the pack counts: they may know that it is there again.
    assert!(cache.load_index(&objects).unwrap().keeps(&id(1)).unwrap());
}

#[test]
fn folding_reports_contents_that_break_limits() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, mut objects) = (cache(folder.path()), Objects::default());
    objects.add(one(101, &[1]));
    let mut index = cache.load_index(&objects).unwrap();
    let mut bad = one(102, &[2]);
    bad[0].1.segments[0].stored_len = 15;
    let error = cache
        .fold(&objects, &mut index, vec![(id(5), bad)])
        .unwrap_err();
    assert!(error.to_string().contains("break the limits"), "{error}");
    // What was known is still known.
    assert!(index.keeps(&id(1)).unwrap());
}

/// Moves the folder of a repository away when its objects are listed, so that nothing can be
/// written, though runs were opened.
fn lose_folder(objects: &mut Objects, folder: &std::path::Path) {
    let (from, to) = (folder.to_owned(), folder.with_extension("moved"));
    objects.at_list = Some(Box::new(move || {
        let _ = fs::rename(&from, &to);
    }));
}

#[test]
fn an_index_stays_in_memory_if_the_cache_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, warnings) = warning_cache(folder.path());
    let mut objects = Objects::default();
    let gone = objects.add([one(101, &[1]), one(102, &[])].concat());
    objects.add([one(103, &[3, 1]), one(104, &[4])].concat());
    cache.load_index(&objects).unwrap();
    let runs_folder = cache.folder(id(0));
    lose_folder(&mut objects, &runs_folder);
    let known = objects.take_read();
    objects.remove(&gone);
    let new = objects.add([one(105, &[5, 3]), one(106, &[6])].concat());
    objects.lost.insert(id(106));
    let index = cache.load_index(&objects).unwrap();
    assert_eq!(known.len(), 2);
    // It is read for the run, and again for the memory.
    assert_eq!(objects.take_read(), [new, new]);
    let found = |index: &Index| {
        (1..=6)
            .map(|block| index.keeps(&id(block)).unwrap())
            .collect()
    };
    let found: Vec<bool> = found(&index);
    assert_eq!(found, [true, false, true, true, true, false]);
    assert_eq!(index.len(), 3 + 2);
    let text = "No such file or directory (os error 2); going on without it";
    let root = folder.path().display();
    let expected = format!("cannot use the cache in {root}: {text}");
    assert_eq!(*warnings.lock().unwrap(), [expected]);
    // Nothing that a client writes down stops it, and it warns once.
    cache.add(&objects, vec![(id(1), one(107, &[7]))]);
    assert_eq!(warnings.lock().unwrap().len(), 1);
}

#[test]
fn folding_changes_nothing_if_the_cache_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, warnings) = warning_cache(folder.path());
    let mut objects = Objects::default();
    objects.add(one(101, &[1]));
    let mut index = cache.load_index(&objects).unwrap();
    let new = one(102, &[2, 1]);
    index.add_all(&new).unwrap();
    let name = objects.add(new.clone());
    let runs_folder = cache.folder(id(0));
    fs::rename(&runs_folder, folder.path().join("away")).unwrap();
    cache.fold(&objects, &mut index, vec![(name, new)]).unwrap();
    assert_eq!(warnings.lock().unwrap().len(), 1);
    model(&objects).check(&index, (0..9).map(id));
    assert_eq!(index.len(), 3);
}

#[test]
fn packs_that_stale_runs_alone_name_do_not_count_twice_as_excluded() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, _) = warning_cache(folder.path());
    let mut objects = Objects::default();
    let gone = objects.add([one(20, &[1, 2]), one(22, &[]), one(24, &[3, 4, 5])].concat());
    objects.add([one(21, &[6]), one(23, &[]), one(25, &[7, 8])].concat());
    cache.load_index(&objects).unwrap();
    lose_folder(&mut objects, &cache.folder(id(0)));
    objects.remove(&gone);
    // The run stays as it is, without the packs that nothing names.
    let mut index = cache.load_index(&objects).unwrap();
    assert_eq!(index.len(), 3);
    for excluded in [24, 23, 22, 21] {
        index.exclude_packs(|pack| pack.id == id(excluded)).unwrap();
    }
    assert_eq!(index.len(), 2);
    let known: Vec<u8> = (1..=8)
        .filter(|block| index.keeps(&id(*block)).unwrap())
        .collect();
    assert_eq!(known, [7, 8]);
    let iterated: HashSet<Id> = index.blocks().map(|block| block.unwrap().0).collect();
    assert_eq!(iterated, [id(7), id(8)].into());
}

#[test]
fn excluding_a_pack_without_blocks_excludes_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, mut objects) = (cache(folder.path()), Objects::default());
    let packs = [
        one(20, &[1, 2]),
        one(21, &[]),
        one(22, &[3, 4, 5]),
        one(23, &[6]),
    ];
    objects.add(packs.concat());
    let all = [20, 21, 22, 23];
    for first in all {
        for second in all {
            let mut index = cache.load_index(&objects).unwrap();
            let mut model = model(&objects);
            for number in [first, second] {
                index.exclude_packs(|pack| pack.id == id(number)).unwrap();
                model.exclude(|pack| *pack == id(number));
                model.check(&index, (0..9).map(id));
                assert_eq!(index.len(), model.len_in_run());
            }
        }
    }
}

#[test]
fn a_run_is_written_when_half_a_million_blocks_wait() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, mut objects) = (cache(folder.path()), Objects::default());
    // All blocks are one, so that they are made fast.
    let many = |count: usize| {
        let mut contents = pack(&[&[1]]);
        contents.segments[0].blocks = vec![(id(1), 1); count];
        contents
    };
    let batch = 1 << 19;
    for (number, count) in [(1, batch - 1), (2, 1), (3, 5), (4, 6)] {
        objects.add(vec![(id(number), many(count))]);
    }
    // Objects are read in the order of their names.
    let names = objects.list().unwrap();
    let mut waiting = 0;
    let mut written = 0;
    let mut expected = vec![];
    for name in names {
        let count = objects.all()[&name][0].1.segments[0].blocks.len();
        waiting += count;
        if waiting >= batch {
            (waiting, written) = (0, written + 1);
        }
        expected.push(written);
    }
    assert_eq!(written, 1, "{expected:?}");
    let seen = Rc::new(RefCell::new(vec![]));
    let runs_folder = cache.folder(id(0));
    let noted = Rc::clone(&seen);
    objects.at_read = Some(Box::new(move || {
        noted.borrow_mut().push(runs(&runs_folder).len());
    }));
    let index = cache.load_index(&objects).unwrap();
    assert_eq!(*seen.borrow(), expected);
    assert_eq!(index.len(), batch as u64 + 11);
    only_run(&cache.folder(id(0)));
}
