//! What goes wrong with drivers and cards, and what is said of it.

use std::process::Command;
use std::time::{Duration, Instant};

use tabane_gpu::{Aes, Algorithm, Card, Error, Options};

use crate::bed::{FakeDriver, impatient, noise};

/// What opening a card says with these faults.
fn said(faults: &str) -> Option<String> {
    let driver = FakeDriver::new(faults)?;
    let error = driver
        .open_with(&impatient())
        .err()
        .expect("it cannot be opened");
    Some(error.to_string())
}

#[test]
fn no_driver() {
    let error = Card::open_with("/nowhere/libcuda.so.1".as_ref(), &Options::default()).err();
    let Some(error @ Error::NoDriver(_)) = error else {
        panic!("{error:?}")
    };
    assert!(
        error.to_string().starts_with("no NVIDIA driver: "),
        "{error}"
    );
    // Another library under that name.
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("libcuda.so.1"), "not a library").unwrap();
    let error = Card::open_with(&folder.path().join("libcuda.so.1"), &Options::default()).err();
    assert!(matches!(error, Some(Error::NoDriver(_))), "{error:?}");
}

#[test]
fn drivers_and_cards_of_no_use() {
    for (faults, expected) in [
        (
            "version 11040",
            "the NVIDIA driver is too old: it is of CUDA 11.4, and 11.8 (version 520) is needed",
        ),
        (
            "init 100",
            "there is an NVIDIA driver, but no card that it can use",
        ),
        (
            "cards 0",
            "there is an NVIDIA driver, but no card that it can use",
        ),
        ("init 803", "no NVIDIA driver: told to fail"),
        (
            "ptx 222",
            "the NVIDIA driver cannot compile the kernels for this card (told to fail): a newer \
             driver may help",
        ),
        ("free 4000000", "the card has too little memory free: 3 MiB"),
        (
            "memory 3000000\nfree 1000000000",
            "the card has too little memory free: 953 MiB",
        ),
        (
            "wrong 1",
            "the card computes wrongly: md5 of a message that was checked",
        ),
        (
            "error 214",
            "the card's memory has failed (an uncorrectable ECC error)",
        ),
        ("error 719", "cuStreamQuery: told to fail (error 719)"),
        ("hang 1", "the card has not answered for 0.2 s"),
    ] {
        let Some(said) = said(faults) else { return };
        assert_eq!(said, expected);
    }
}

#[test]
fn little_memory_is_enough() {
    // Others have the rest: a quarter of what is free is taken.
    let Some(driver) = FakeDriver::new("memory 40000000\nfree 16000000") else {
        return;
    };
    let card = driver.open_with(&Options::default()).unwrap();
    assert!(driver.count("fake_used") <= 8_000_000);
    let data = noise(3 << 20, 1);
    let messages: Vec<&[u8]> = data.chunks(1000).collect();
    assert!(card.hash_many(Algorithm::Md5, &messages).is_ok());
    // What does not fit leaves the card as it is.
    assert_eq!(card.allocate(60_000_000).err(), Some(Error::OutOfMemory));
    assert_eq!(card.failure(), None);
    assert!(card.hash_many(Algorithm::Md5, &messages).is_ok());
}

#[test]
fn a_card_that_fails_later_is_given_up() {
    for (faults, expected) in [
        ("error 214\nafter 6", Error::Ecc),
        ("hang 1\nafter 6", Error::Hung(Duration::from_millis(200))),
    ] {
        let Some(driver) = FakeDriver::new(faults) else {
            return;
        };
        let card = driver.open_with(&impatient()).unwrap();
        let data = noise(3 << 20, 1);
        let messages: Vec<&[u8]> = data.chunks(1000).collect();
        let start = Instant::now();
        let mut outcome = Ok(Vec::new());
        while outcome.is_ok() {
            outcome = card.hash_many(Algorithm::Sha1, &messages);
        }
        assert_eq!(outcome, Err(expected.clone()));
        assert!(start.elapsed() < Duration::from_secs(20));
        // From now on at once.
        assert_eq!(card.failure(), Some(expected.clone()));
        assert_eq!(
            card.hash_many(Algorithm::Sha1, &[b"abc"]),
            Err(expected.clone())
        );
        assert_eq!(card.allocate(100).err(), Some(expected));
    }
}

#[test]
fn ciphers_that_are_wrong_are_noticed() {
    let Some(driver) = FakeDriver::new("wrong 1\nafter 3") else {
        return;
    };
    let card = driver.open().unwrap();
    let error = Aes::new(&card, &[0; 16]).err();
    assert_eq!(error, Some(Error::WrongAnswer("AES")));
}

/// In a process of its own, whose only thread forks.
#[test]
fn cards_do_not_go_through_fork() {
    let Some(driver) = FakeDriver::new("") else {
        return;
    };
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "faults::forks", "--ignored", "--nocapture"])
        .env("FAKE_DRIVER", driver.library())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("the child says"),
        "{text}"
    );
    assert!(
        text.contains(
            "the child says: the card belongs to the process that this one was forked from"
        )
    );
}

#[test]
#[ignore = "started by cards_do_not_go_through_fork"]
fn forks() {
    unsafe extern "C" {
        fn fork() -> i32;
        fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
        fn _exit(code: i32) -> !;
        fn write(file: i32, bytes: *const u8, len: usize) -> isize;
    }
    let driver = std::env::var_os("FAKE_DRIVER").expect("set by the test that starts this");
    let card = Card::open_with(driver.as_ref(), &Options::default()).unwrap();
    assert!(card.hash_many(Algorithm::Md5, &[b"abc"]).is_ok());
    // SAFETY: the child does only what needs no lock that another thread may have had: it asks for
    // its number, builds a short text, writes, and ends.
    unsafe {
        let child = fork();
        if child == 0 {
            let error = card.hash_many(Algorithm::Md5, &[b"abc"]).unwrap_err();
            let text = format!("the child says: {error}\n");
            write(1, text.as_ptr(), text.len());
            drop(card);
            _exit(0);
        }
        let mut status = -1;
        waitpid(child, &mut status, 0);
        assert_eq!(status, 0);
    }
    // The parent goes on.
    assert!(card.hash_many(Algorithm::Md5, &[b"abc"]).is_ok());
}
