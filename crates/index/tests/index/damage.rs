//! Files of a cache that are damaged, cut off, foreign or wrong: they go, and are made again.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use tabane_index::{Cache, Error, Index};
use tabane_storage::Id;

use crate::bed::{Objects, cache, id, mixed, names, only_run};
use crate::format::{Opened, objects};
use crate::model::Model;

struct Bed {
    _folder: tempfile::TempDir,
    cache: Cache,
    objects: Objects,
    run: PathBuf,
}

fn bed() -> Bed {
    let folder = tempfile::tempdir().unwrap();
    let (cache, objects) = (cache(folder.path()), objects());
    cache.load_index(&objects).unwrap();
    let run = only_run(&cache.folder(id(0)));
    Bed {
        _folder: folder,
        cache,
        objects,
        run,
    }
}

impl Bed {
    fn folder(&self) -> &Path {
        self.run.parent().unwrap()
    }

    fn load(&self) -> Index {
        self.cache.load_index(&self.objects).unwrap()
    }

    fn model(&self) -> Model {
        Model::of(self.objects.all().values())
    }

    /// Checks that the file is not believed, and made again.
    fn expect_made_again(&self) {
        self.objects.take_read();
        let index = self.load();
        assert!(!self.run.exists());
        assert_eq!(self.objects.take_read().len(), self.objects.all().len());
        self.model().check(&index, []);
        fs::rename(only_run(self.folder()), &self.run).unwrap();
    }
}

/// Asks for everything, up to the first error.
fn ask(index: &Index, blocks: &[Id]) -> tabane_index::Result<()> {
    for block in blocks {
        for place in index.places(block)? {
            index.pack_of(place)?;
        }
    }
    index.packs().try_for_each(|pack| pack.map(|_| ()))?;
    index.blocks().try_for_each(|block| block.map(|_| ()))
}

#[test]
fn no_changed_byte_of_a_run_changes_an_answer() {
    let bed = bed();
    let whole = fs::read(&bed.run).unwrap();
    let model = bed.model();
    let blocks: Vec<Id> = bed.load().blocks().map(|block| block.unwrap().0).collect();
    let (mut at_open, mut later) = (0, 0);
    for at in (0..whole.len()).step_by(41) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        fs::write(&bed.run, flipped).unwrap();
        let index = bed.load();
        if !bed.run.exists() {
            at_open += 1;
            model.check(&index, []);
        } else if let Err(error) = ask(&index, &blocks) {
            later += 1;
            let path = bed.run.display();
            let text = format!("cannot read the cache file {path}: it is damaged");
            assert_eq!(error.to_string(), text);
            assert!(!bed.run.exists());
            model.check(&bed.load(), []);
        } else {
            // The page is one that no answer needs.
            model.check(&index, []);
            fs::remove_file(&bed.run).unwrap();
        }
        names(bed.folder())
            .into_iter()
            .for_each(|name| fs::remove_file(bed.folder().join(name)).unwrap());
    }
    assert!(at_open > 40 && later > 40, "{at_open} and {later}");
}

#[test]
fn a_run_of_another_length_is_made_again() {
    let bed = bed();
    let whole = fs::read(&bed.run).unwrap();
    for len in (0..whole.len()).step_by(97).chain([512, 1024]) {
        fs::write(&bed.run, &whole[..len]).unwrap();
        bed.expect_made_again();
    }
    for more in [1, 100, 511, 512, 1024] {
        let mut longer = whole.clone();
        longer.resize(whole.len() + more, 0);
        fs::write(&bed.run, longer).unwrap();
        bed.expect_made_again();
    }
}

#[test]
fn a_run_of_other_keys_is_made_again() {
    let mut bed = bed();
    bed.objects.keys.secret = 1;
    bed.expect_made_again();
}

#[test]
fn pages_that_change_places_are_damage() {
    let bed = bed();
    let mut bytes = fs::read(&bed.run).unwrap();
    let (first, second) = bytes[512..].split_at_mut(512);
    first.swap_with_slice(&mut second[..512]);
    fs::write(&bed.run, bytes).unwrap();
    let index = bed.load();
    let found = index.packs().find_map(Result::err);
    assert!(matches!(found, Some(Error::Cache { .. })));
    assert!(!bed.run.exists());
    bed.model().check(&bed.load(), []);
}

/// Flips a bit of each page of a section.
fn damage_section(bed: &Bed, section: usize) {
    let footer = Opened::read(&bed.run, &bed.objects.keys).footer();
    let mut bytes = fs::read(&bed.run).unwrap();
    for page in footer[2 * section]..footer[2 * section + 2] {
        bytes[512 * page as usize] ^= 1;
    }
    fs::write(&bed.run, bytes).unwrap();
}

#[test]
fn damage_that_a_merge_meets_is_mended_by_another_attempt() {
    for section in 0..4 {
        let mut bed = bed();
        damage_section(&bed, section);
        bed.objects.add(vec![(id(77), crate::bed::pack(&[&[77]]))]);
        bed.objects.calls.lists.set(0);
        let index = bed.load();
        assert_eq!(bed.objects.calls.lists.get(), 2);
        bed.model().check(&index, []);
        only_run(bed.folder());
    }
}

#[test]
fn damage_at_condemned_packs_is_mended_by_another_attempt() {
    let mut bed = bed();
    damage_section(&bed, 0);
    bed.objects.condemned.insert(mixed(1003));
    let index = bed.load();
    let mut model = bed.model();
    model.condemned.insert(mixed(1003));
    model.check(&index, []);
}

#[test]
fn a_run_that_gets_shorter_meanwhile_is_damage() {
    let bed = bed();
    let index = bed.load();
    let (block, _) = index.blocks().next().unwrap().unwrap();
    let index = bed.load();
    let file = fs::File::options().write(true).open(&bed.run).unwrap();
    file.set_len(600).unwrap();
    let error = index.find(&block).unwrap_err();
    assert!(matches!(error, Error::Cache { .. }), "{error}");
    assert!(!bed.run.exists());
}

/// Writes another number of bits into the footer.
fn set_bucket_bits(opened: &mut Opened, bits: u8) {
    let at = opened.pages[0].iter().rposition(|&byte| byte == 8);
    opened.pages[0][at.unwrap()] = bits;
    assert_eq!(opened.bucket_bits(), u32::from(bits));
}

#[test]
fn a_footer_that_cannot_be_is_damage() {
    let changes: [fn(&mut Opened); 6] = [
        |opened| set_bucket_bits(opened, 9),
        |opened| set_bucket_bits(opened, 7),
        |opened| set_bucket_bits(opened, 0),
        |opened| set_bucket_bits(opened, 33),
        |opened| opened.pages[0].fill(0xff),
        |opened| opened.pages[0].fill(0),
    ];
    for change in changes {
        let bed = bed();
        let mut opened = Opened::read(&bed.run, &bed.objects.keys);
        change(&mut opened);
        opened.write(&bed.run, &bed.objects.keys);
        bed.expect_made_again();
    }
}

/// Overwrites a number of the first record of a section, whose seal stays right.
fn forge(bed: &Bed, section: usize, at: usize, number: u32) {
    let mut opened = Opened::read(&bed.run, &bed.objects.keys);
    let footer = opened.footer();
    // The bits of buckets are behind the fifth section.
    let page = footer[2 * section + usize::from(section > 4)] as usize;
    opened.pages[page][at..at + 4].copy_from_slice(&number.to_le_bytes());
    opened.write(&bed.run, &bed.objects.keys);
}

const NO_SUCH: &str = "the cache is damaged: it names a segment or a pack that does not exist";

#[test]
fn a_block_in_a_segment_that_does_not_exist_is_an_error() {
    let bed = bed();
    forge(&bed, 2, 32, 1_000_000);
    let index = bed.load();
    let forged = |place: &tabane_index::BlockLocation| place.segment == 1_000_000;
    let mut places = index.blocks().map(|block| block.unwrap().1);
    let place = places.find(forged).unwrap();
    assert_eq!(index.pack_of(place).unwrap_err().to_string(), NO_SUCH);
}

#[test]
fn a_merge_refuses_numbers_that_do_not_exist() {
    // A naming has a source and a pack.
    for (section, at, number) in [(6, 0, 99), (6, 4, 99)] {
        let mut bed = bed();
        let name = *bed.objects.all().keys().next().unwrap();
        forge(&bed, section, at, number);
        bed.objects.add(vec![]);
        let error = bed.cache.load_index(&bed.objects).err().unwrap();
        assert_eq!(error.to_string(), NO_SUCH);
        // What was written of the new run is gone.
        assert_eq!(only_run(bed.folder()), bed.run);
        // If an object is gone, all namings are read.
        bed.objects.remove(&name);
        let error = bed.cache.load_index(&bed.objects).err().unwrap();
        assert_eq!(error.to_string(), NO_SUCH);
    }
}

#[test]
fn a_run_is_opened_once_and_each_page_read_once() {
    let bed = bed();
    let keys = &bed.objects.keys;
    keys.files.store(0, Ordering::Relaxed);
    let index = bed.load();
    assert_eq!(keys.files.load(Ordering::Relaxed), 1);
    let pages = |section: usize| {
        let footer = Opened::read(&bed.run, keys).footer();
        let per_page = [5, 23, 11, 62][section];
        footer[2 * section + 1].div_ceil(per_page) as usize
    };
    let [packs, blocks, table] = [0, 2, 3].map(pages);
    assert!(packs > 4 && blocks > 4 && table > 0);
    keys.take_opened();
    assert!(index.packs().all(|pack| pack.is_ok()));
    assert_eq!(keys.take_opened(), packs);
    assert!(index.blocks().all(|block| block.is_ok()));
    // Of the table each bucket is read alone.
    let once = keys.take_opened();
    assert!(index.blocks().all(|block| block.is_ok()));
    assert_eq!(keys.take_opened(), blocks);
    assert!(once > blocks + table, "{once}");
}
