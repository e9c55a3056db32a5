//! Many files at once: the same checksums as one after the other, in order, whatever happens to
//! files.

#![forbid(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tabane_engine::Hasher;
use tabane_sum::{
    Algorithm, FileTask, Function, Job, KeyFile, KeyRule, Method, Sum, Task, Upload, sum_all,
    sum_all_with, sum_reader,
};

/// Bytes that repeat nowhere.
fn varied(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut bytes: Vec<u8> = std::iter::repeat_with(next)
        .take(len / 8 + 1)
        .flatten()
        .collect();
    bytes.truncate(len);
    bytes
}

fn upload(part_len: u64) -> Upload {
    Upload::new(NonZeroU64::new(part_len).expect("not zero"))
}

fn one_after_the_other(path: &Path, method: &Method) -> io::Result<Sum> {
    sum_reader(File::open(path)?, method, |_| {})
}

/// Every algorithm, with a key where one is needed.
fn all_functions() -> impl Iterator<Item = Function> {
    Algorithm::all().map(|algorithm| match algorithm.key_rule() {
        KeyRule::None => Function::keyless(algorithm),
        KeyRule::Exactly(len) => function(algorithm, &vec![7; len]),
        KeyRule::AnyLength => function(algorithm, b"key"),
    })
}

fn function(algorithm: Algorithm, key: &[u8]) -> Function {
    let key = KeyFile::read(key).expect("short");
    key.function(algorithm).expect("a key that fits")
}

fn sums(tasks: Vec<FileTask>) -> Vec<io::Result<Sum>> {
    let paths: Vec<PathBuf> = tasks.iter().map(|task| task.path.clone()).collect();
    let done: Vec<_> = sum_all(tasks.into_iter(), |_| {}).flatten().collect();
    let order: Vec<PathBuf> = done.iter().map(|done| done.task.path.clone()).collect();
    assert_eq!(order, paths);
    done.into_iter()
        .map(|done| done.outcome.expect("it has a file"))
        .collect()
}

/// Lengths around those of blocks, pages, chunks and parts, small ones among large ones.
fn lengths() -> Vec<usize> {
    let mut lengths = vec![3 << 20, 1 << 20, 700_001];
    for edge in [0, 64, 128, 4096, 32 << 10, 64 << 10, 256 << 10, 1 << 20] {
        lengths.extend([edge, edge + 1, edge + 63]);
        lengths.extend((edge > 0).then(|| edge - 1));
    }
    lengths.extend((0..600).map(|i| i * 37 % 5000));
    lengths.push(5_000_000);
    lengths
}

/// Has the system forget the files' bytes, so that they have to be asked for.
fn evict(files: &[PathBuf]) {
    for path in files {
        let file = File::open(path).expect("there");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("it is advice");
    }
}

#[test]
fn many_files_have_the_sums_that_each_has_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let files: Vec<PathBuf> = lengths()
        .into_iter()
        .enumerate()
        .map(|(number, len)| {
            let path = directory.path().join(number.to_string());
            fs::write(&path, varied(len, number as u64)).expect("written");
            path
        })
        .collect();
    let mut methods: Vec<Method> = all_functions().map(Method::Digest).collect();
    methods.extend([1 << 20, 100_000, 5_000_000, 64].map(|part| Method::Etag(upload(part))));
    let assert_right = |path: &Path, method: &Method, sum: io::Result<Sum>| {
        let sum = sum.expect("read");
        // A VMAC has a nonce of its own each time.
        let to_check = match method {
            Method::Digest(function) => Method::Digest(function.to_check(&sum.digest)),
            Method::Etag(_) => method.clone(),
        };
        let expected = one_after_the_other(path, &to_check).expect("read");
        assert_eq!(sum.to_string(), expected.to_string(), "{method:?}");
    };
    rustix::fs::sync();
    for method in &methods {
        evict(&files);
        let tasks = files.iter().map(|path| FileTask {
            path: path.clone(),
            method: method.clone(),
        });
        for (path, sum) in files.iter().zip(sums(tasks.collect())) {
            assert_right(path, method, sum);
        }
    }
    // And all kinds in one go.
    let mixed = files.iter().zip(methods.iter().cycle());
    let tasks: Vec<_> = mixed
        .map(|(path, method)| FileTask {
            path: path.clone(),
            method: method.clone(),
        })
        .collect();
    for (task, sum) in tasks.clone().into_iter().zip(sums(tasks)) {
        assert_right(&task.path, &task.method, sum);
    }
}

/// An idle worker takes over files of a worker with many.
#[test]
fn few_large_files_are_shared() {
    let directory = tempfile::tempdir().expect("a directory");
    for count in 1..6 {
        let tasks: Vec<_> = (0..count)
            .map(|number| {
                let path = directory.path().join(number.to_string());
                fs::write(&path, varied(6_000_000 + number, number as u64)).expect("written");
                FileTask {
                    path,
                    method: Method::keyless(Algorithm::Sha1),
                }
            })
            .collect();
        for (task, sum) in tasks.clone().into_iter().zip(sums(tasks)) {
            assert_eq!(
                sum.expect("read"),
                one_after_the_other(&task.path, &task.method).expect("read")
            );
        }
    }
}

/// The AWS documentation has no vectors; these were computed with `md5sum`, `xxd` and `dd`.
#[test]
fn etags_are_those_of_s3() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("file");
    let etag = |len: usize, part: u64| {
        fs::write(&path, vec![b'a'; len]).expect("written");
        let task = FileTask {
            path: path.clone(),
            method: Method::Etag(upload(part)),
        };
        let alone = one_after_the_other(&path, &task.method).expect("read");
        let sum = sums(vec![task]).remove(0).expect("read");
        assert_eq!(sum, alone);
        sum.to_string()
    };
    assert_eq!(etag(0, 8), "d41d8cd98f00b204e9800998ecf8427e");
    assert_eq!(etag(7, 8), Algorithm::Md5.digest(b"aaaaaaa").to_string());
    let md5 = |bytes: &[u8]| Algorithm::Md5.digest(bytes);
    let part = md5(b"aaaaaaaa");
    assert_eq!(etag(8, 8), format!("{}-1", md5(part.as_ref())));
    let two = [part.as_ref(), part.as_ref()].concat();
    assert_eq!(etag(16, 8), format!("{}-2", md5(&two)));
    let three = [&two[..], md5(b"a").as_ref()].concat();
    assert_eq!(etag(17, 8), format!("{}-3", md5(&three)));
}

#[test]
fn what_cannot_be_read_is_an_error_and_ends_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let good = directory.path().join("good");
    fs::write(&good, "good").expect("written");
    let mut tasks = Vec::new();
    for method in [Method::keyless(Algorithm::Md5), Method::Etag(upload(2))] {
        for name in ["no such file", ".", "good/below", "good", "/proc/self/mem"] {
            let path = directory.path().join(name);
            let method = method.clone();
            tasks.push(FileTask { path, method });
        }
    }
    let kinds: Vec<_> = sums(tasks)
        .into_iter()
        .map(|sum| sum.map_err(|error| error.kind()))
        .collect();
    for kinds in kinds.chunks(5) {
        assert_eq!(kinds[0], Err(io::ErrorKind::NotFound));
        assert_eq!(kinds[1], Err(io::ErrorKind::IsADirectory));
        assert_eq!(kinds[2], Err(io::ErrorKind::NotADirectory));
        assert!(kinds[3].is_ok());
        assert!(kinds[4].is_err());
    }
}

/// Files of the kernel, whose length reads as 0 or one page.
#[test]
fn files_that_lie_about_their_length_are_read_to_their_end() {
    let names = [
        "/proc/version",
        "/proc/self/limits",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    ];
    for name in names {
        let path = PathBuf::from(name);
        let Ok(bytes) = fs::read(&path) else {
            println!("NOT CHECKED: there is no {name}");
            continue;
        };
        let method = Method::keyless(Algorithm::Sha256);
        let sum = sums(vec![FileTask { path, method }])
            .remove(0)
            .expect("read");
        assert_eq!(sum.digest, Algorithm::Sha256.digest(&bytes), "{name}");
    }
}

/// Whether a digest is that of up to so many zeros. A read that races with a change can end at any
/// byte.
fn is_of_zeros(sum: Sum, most: u64) -> bool {
    [4096, 1].into_iter().any(|step: u64| {
        let mut hasher = Hasher::new(Algorithm::Xxh64);
        (0..=most / step).any(|_| {
            let same = hasher.finish() == sum.digest;
            hasher.update(&[0; 4096][..step as usize]);
            same
        })
    })
}

/// What is hashed while it grows or shrinks is hashed to some end that it had.
#[test]
fn files_that_change_while_they_are_read() {
    const LEN: u64 = 8 << 20;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("file");
    let file = File::create(&path).expect("created");
    file.set_len(LEN).expect("grown");
    let done = Arc::new(AtomicBool::new(false));
    let changer = {
        let done = Arc::clone(&done);
        std::thread::spawn(move || {
            for pages in (0..u64::MAX).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                file.set_len(LEN / 2 + pages * 4096 % LEN).expect("changed");
            }
        })
    };
    let digest = Method::keyless(Algorithm::Xxh64);
    let etag = Method::Etag(upload(1 << 20));
    for _ in 0..20 {
        let tasks = [&digest, &etag, &digest].map(|method| FileTask {
            path: path.clone(),
            method: method.clone(),
        });
        for (number, sum) in sums(tasks.to_vec()).into_iter().enumerate() {
            match sum {
                Ok(sum) if number != 1 => assert!(is_of_zeros(sum, 2 * LEN), "{sum}"),
                Ok(sum) => assert!(sum.parts.is_some()),
                // Parts that are gone cannot be left out of an ETag.
                Err(error) => assert_eq!((error.kind(), number), (io::ErrorKind::UnexpectedEof, 1)),
            }
        }
    }
    done.store(true, Ordering::Relaxed);
    changer.join().expect("it does not panic");
}

#[test]
fn a_file_that_grows_all_the_time_comes_to_an_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("file");
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .expect("created");
    let done = Arc::new(AtomicBool::new(false));
    let writer = {
        let done = Arc::clone(&done);
        std::thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                file.write_all(&[0; 4096]).expect("written");
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
        })
    };
    let method = Method::keyless(Algorithm::Xxh64);
    for _ in 0..50 {
        let sum = sums(vec![FileTask {
            path: path.clone(),
            method: method.clone(),
        }])
        .remove(0)
        .expect("read");
        let len = fs::metadata(&path).expect("there").len();
        assert!(is_of_zeros(sum, len));
    }
    done.store(true, Ordering::Relaxed);
    writer.join().expect("it does not panic");
}

/// The reported bytes add up to the bytes of the files.
#[test]
fn bytes_are_counted() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut total = 0;
    let tasks: Vec<_> = lengths()
        .into_iter()
        .enumerate()
        .map(|(number, len)| {
            total += len as u64;
            let path = directory.path().join(number.to_string());
            fs::write(&path, vec![0; len]).expect("written");
            let method = match number % 2 {
                0 => Method::keyless(Algorithm::Md5),
                _ => Method::Etag(upload(50_000)),
            };
            FileTask { path, method }
        })
        .collect();
    let counted = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&counted);
    let count = move |bytes| {
        counter.fetch_add(bytes, Ordering::Relaxed);
    };
    for done in sum_all(tasks.into_iter(), count).flatten() {
        done.outcome.expect("it has a file").expect("read");
    }
    assert_eq!(counted.load(Ordering::Relaxed), total);
}

/// A task that has nothing to do.
struct Nothing(usize);

impl Task for Nothing {
    fn job(&self) -> Option<Job<'_>> {
        None
    }
}

#[test]
fn tasks_without_a_job_keep_their_place() {
    let done: Vec<usize> = sum_all((0..10_000).map(Nothing), |_| {})
        .flatten()
        .inspect(|done| assert!(done.outcome.is_none()))
        .map(|done| done.task.0)
        .collect();
    assert_eq!(done, (0..10_000).collect::<Vec<_>>());
}

/// Tasks are not taken much before they are needed, and not at all when nobody wants the results
/// any more.
#[test]
fn an_endless_list_can_be_left() {
    let taken = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&taken);
    let endless = (0..).map(move |number| {
        counter.fetch_add(1, Ordering::Relaxed);
        Nothing(number)
    });
    let mut sums = sum_all(endless, |_| {});
    assert!(sums.next().is_some());
    std::thread::sleep(std::time::Duration::from_millis(300));
    let ahead = taken.load(Ordering::Relaxed);
    assert!(ahead < 2_000_000, "{ahead}");
    drop(sums);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let then = taken.load(Ordering::Relaxed);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(taken.load(Ordering::Relaxed), then);
}

#[test]
#[should_panic(expected = "told to")]
fn a_panic_of_the_list_reaches_the_caller() {
    let tasks = (0..1000).map(|number| match number {
        999 => panic!("told to"),
        _ => Nothing(number),
    });
    sum_all(tasks, |_| {}).for_each(drop);
}

/// CityHash128 begins with the length of a message, so all of it is kept: but not of any length.
#[test]
fn too_much_for_an_algorithm_that_needs_all_of_it_is_an_error() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("file");
    let file = File::create(&path).expect("created");
    let sum = |len: u64| {
        file.set_len(len).expect("sparse");
        let method = Method::keyless(Algorithm::CityHash128);
        let path = path.clone();
        sums(vec![FileTask { path, method }]).remove(0)
    };
    assert_eq!(
        sum(100).expect("read").digest,
        Algorithm::CityHash128.digest(&[0; 100])
    );
    let error = sum((256 << 20) + 1).expect_err("too long");
    assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
}

#[test]
fn any_number_of_threads_makes_the_same_sums() {
    let directory = tempfile::tempdir().expect("a directory");
    let method = Method::keyless(Algorithm::Sha1);
    let tasks: Vec<FileTask> = (0..200)
        .map(|number| {
            let path = directory.path().join(number.to_string());
            fs::write(&path, varied(number * 100, number as u64)).expect("a file");
            let method = method.clone();
            FileTask { path, method }
        })
        .collect();
    let expected: Vec<Sum> = tasks
        .iter()
        .map(|task| one_after_the_other(&task.path, &method).expect("a sum"))
        .collect();
    for workers in [1, 2, 5] {
        let workers = NonZeroUsize::new(workers).expect("not zero");
        let mut sums = sum_all_with(workers, tasks.clone().into_iter(), |_| {});
        let mut found = Vec::new();
        while let Some(done) = sums.next_within(Duration::from_millis(1)) {
            let sum = |done: tabane_sum::Done<FileTask>| done.outcome.expect("a file");
            found.extend(done.into_iter().map(|done| sum(done).expect("a sum")));
        }
        assert_eq!(found, expected);
    }
}

#[test]
fn a_wait_for_sums_ends_in_time_and_dropping_them_ends_the_work() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("endless");
    File::create(&path)
        .and_then(|file| file.set_len(1 << 42))
        .expect("a file");
    let method = Method::keyless(Algorithm::Md5);
    let read = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&read);
    let mut sums = sum_all([FileTask { path, method }].into_iter(), move |bytes| {
        count.fetch_add(bytes, Ordering::Relaxed);
    });
    let none = sums.next_within(Duration::from_millis(20));
    assert!(none.is_some_and(|done| done.is_empty()));
    drop(sums);
    // The last worker drops the last counting reference.
    while Arc::strong_count(&read) > 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(read.load(Ordering::Relaxed) < 1 << 42);
}
