//! The cache of decoded segments.

use std::panic::{AssertUnwindSafe, catch_unwind};

use shuttle::sync::Arc;
use shuttle::thread;
use tabane_format::Result;

use crate::access::repository::{Fault, Repository};
use crate::access::segment_cache::SegmentCache;
use crate::in_many_orders;

const READERS: u8 = 3;

/// Enough for all segments.
const LIMIT: usize = 1 << 20;

/// Reads a block of one byte, which is its number.
fn read(cache: &SegmentCache, number: u8) -> Result<()> {
    let mut bytes = Vec::new();
    cache.append(Repository::block(number), 1, 0..1, &mut bytes)?;
    assert_eq!(bytes, [number]);
    Ok(())
}

fn announce(cache: &SegmentCache, numbers: impl Iterator<Item = u8>) {
    cache.read_ahead(numbers.map(|number| (Repository::block(number), 1)));
}

/// What `readers` of one cache come to, which have its number.
fn in_readers<R: Send + 'static>(
    repository: &Repository,
    limit: usize,
    reader: impl Fn(&SegmentCache, u8) -> R + Copy + Send + 'static,
) -> Vec<R> {
    let cache = SegmentCache::new(repository, limit).expect("it has an index");
    let cache = Arc::new(cache);
    let readers = (0..READERS).map(|number| {
        let cache = Arc::clone(&cache);
        thread::spawn(move || reader(&cache, number))
    });
    let readers: Vec<_> = readers.collect();
    drop(cache);
    let ended = readers.into_iter().map(|reader| reader.join());
    ended.map(|ended| ended.expect("it ends")).collect()
}

/// Whoever reads or announces, in whichever order, and none waits for ever. The last reader drops
/// the cache, whose threads end.
#[test]
fn each_segment_is_decoded_once() {
    in_many_orders(|| {
        let repository = Repository::default();
        in_readers(&repository, LIMIT, |cache, number| {
            if number > 0 {
                announce(cache, number - 1..number + 2);
            }
            for block in 0..4 {
                read(cache, (block + number) % 4).expect("it is there");
            }
        });
        assert_eq!(repository.reads(), [1, 1]);
    });
}

/// There is room for one segment.
#[test]
fn what_makes_room_is_decoded_again() {
    in_many_orders(|| {
        let repository = Repository::default();
        in_readers(&repository, 2, |cache, number| {
            announce(cache, number..number + 1);
            for block in 0..4 {
                read(cache, (block + 2 * number) % 4).expect("it is there");
            }
        });
        assert!(repository.reads().iter().all(|&reads| reads > 0));
    });
}

/// A cache that is dropped while its threads have work.
#[test]
fn what_was_announced_holds_nobody_up() {
    in_many_orders(|| {
        let repository = Repository::default();
        let cache = SegmentCache::new(&repository, LIMIT).expect("it has an index");
        announce(&cache, 0..4);
        drop(cache);
        assert!(repository.reads().iter().all(|&reads| reads < 2));
    });
}

/// Nobody waits for ever for a segment that cannot be decoded, and it can be once it is mended.
#[test]
fn every_reader_meets_an_error_and_it_does_not_stay() {
    in_many_orders(|| {
        let repository = Repository::default();
        repository.set_fault(Some(Fault::AllFail));
        let cache = SegmentCache::new(&repository, LIMIT).expect("it has an index");
        let cache = Arc::new(cache);
        let readers = (0..2).map(|number| {
            let cache = Arc::clone(&cache);
            thread::spawn(move || {
                announce(&cache, 0..number);
                read(&cache, number).expect_err("it cannot be decoded");
            })
        });
        for reader in readers.collect::<Vec<_>>() {
            reader.join().expect("it ends");
        }
        repository.set_fault(None);
        read(&cache, 0).expect("it is mended");
    });
}

/// An error of a moment is that of one reader alone; the others decode the segment.
#[test]
fn an_error_reaches_nobody_else() {
    in_many_orders(|| {
        let repository = Repository::default();
        repository.set_fault(Some(Fault::NextFails));
        let results = in_readers(&repository, LIMIT, |cache, _| read(cache, 0).is_err());
        assert_eq!(results.iter().filter(|&&has_failed| has_failed).count(), 1);
        assert_eq!(repository.reads()[0], 2);
    });
}

/// A reader that panics while it decodes a segment, for which others wait.
#[test]
fn a_panic_holds_up_nobody_else() {
    in_many_orders(|| {
        let repository = Repository::default();
        repository.set_fault(Some(Fault::NextPanics));
        let results = in_readers(&repository, LIMIT, |cache, _| {
            let read = catch_unwind(AssertUnwindSafe(|| read(cache, 0)));
            read.map(|read| read.expect("it is there")).is_err()
        });
        assert_eq!(results.iter().filter(|&&panicked| panicked).count(), 1);
        assert_eq!(repository.reads()[0], 2);
    });
}

/// Several readers miss a block in an old index.
#[test]
fn the_index_is_reloaded_once() {
    in_many_orders(|| {
        let repository = Repository::with_old_index();
        in_readers(&repository, LIMIT, |cache, number| {
            read(cache, number).expect("it is in the new one");
        });
        assert_eq!((repository.loads(), repository.reads()), (2, [1, 1]));
    });
}
