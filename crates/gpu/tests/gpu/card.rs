//! Hashes by a whole card: from the machine's memory, and where the data are on the card.

use tabane_gpu::{Algorithm, Card, Error, MESSAGE_MAX};

use crate::bed::{FakeDriver, cards, noise};

/// By other crates.
fn expected(algorithm: Algorithm, messages: &[&[u8]]) -> Vec<u8> {
    use sha2::Digest;
    let digest = |message: &&[u8]| match algorithm {
        Algorithm::Md5 => md5::Md5::digest(message).to_vec(),
        Algorithm::Sha1 => sha1::Sha1::digest(message).to_vec(),
        Algorithm::Sha256 => sha2::Sha256::digest(message).to_vec(),
    };
    messages.iter().flat_map(digest).collect()
}

fn check(card: &Card, messages: &[&[u8]]) {
    for algorithm in Algorithm::ALL {
        let found = card.hash_many(algorithm, messages).unwrap();
        assert!(found == expected(algorithm, messages), "{algorithm:?}");
    }
}

#[test]
fn hashes_messages_of_all_lengths() {
    for card in cards() {
        let data = noise(60_000, 1);
        let lens = (0..=300).chain([511, 512, 513, 1000, 5000, 50_000, 0, 1]);
        let messages: Vec<&[u8]> = lens.map(|len| &data[len % 7..][..len]).collect();
        check(&card, &messages);
        check(&card, &[]);
    }
}

#[test]
fn thousands_of_one_byte_messages() {
    for card in cards() {
        let data = noise(5000, 2);
        let messages: Vec<&[u8]> = data.chunks(1).collect();
        check(&card, &messages);
    }
}

#[test]
fn several_batches_are_on_their_way_at_a_time() {
    let Some(driver) = FakeDriver::new("meet 3\nafter 3") else {
        return;
    };
    let card = driver.open().unwrap();
    let data = noise(6 << 20, 3);
    let messages: Vec<&[u8]> = data.chunks(60_001).collect();
    let found = card.hash_many(Algorithm::Md5, &messages).unwrap();
    assert!(found == expected(Algorithm::Md5, &messages));
    let at_a_time = driver.count("fake_busiest");
    assert!(at_a_time >= 3, "{at_a_time}");
}

#[test]
fn many_threads_share_a_card() {
    for card in cards() {
        let data = noise(10_000, 4);
        std::thread::scope(|scope| {
            for thread in 1..9 {
                let (card, data) = (&card, &data);
                scope.spawn(move || {
                    let messages: Vec<&[u8]> = data.chunks(37 * thread).collect();
                    let found = card.hash_many(Algorithm::Sha1, &messages).unwrap();
                    assert!(found == expected(Algorithm::Sha1, &messages));
                });
            }
        });
    }
}

#[test]
fn too_long_messages_are_refused() {
    for card in cards() {
        // Longer than a slot, and longer than any message may be.
        for len in [2 << 20, MESSAGE_MAX + 1] {
            let message = vec![0; len];
            let error = card.hash_many(Algorithm::Sha256, &[b"abc", &message]);
            assert_eq!(error, Err(Error::TooLong(len)));
        }
        // Of 8 GiB: only the table is asked.
        let error = card.messages(std::slice::from_ref(&(0..8 << 30))).err();
        assert_eq!(error, Some(Error::TooLong(8 << 30)));
        assert_eq!(card.failure(), None);
        check(&card, &[b"it goes on"]);
    }
}

#[test]
fn states_are_taken_on() {
    for card in cards() {
        let data = noise(40_000, 5);
        for algorithm in Algorithm::ALL {
            let lens = [0, 64, 128, 640, 19_200, 64];
            let mut states = vec![vec![7_u32; algorithm.words()]; lens.len()];
            let mut twice = states.clone();
            let parts = |states: &mut Vec<Vec<u32>>, from: fn(usize) -> (usize, usize)| {
                let mut parts: Vec<(&mut [u32], &[u8])> = states
                    .iter_mut()
                    .zip(lens)
                    .map(|(state, len)| {
                        let (start, end) = from(len);
                        (&mut state[..], &data[start..end])
                    })
                    .collect();
                card.advance_many(algorithm, &mut parts).unwrap();
            };
            parts(&mut states, |len| (0, len));
            parts(&mut twice, |len| (0, len / 128 * 64));
            parts(&mut twice, |len| (len / 128 * 64, len));
            assert_eq!(states, twice);
            assert_eq!(states[0], vec![7; algorithm.words()]);
            assert_ne!(states[1], states[2]);
            let mut state = vec![0; algorithm.words()];
            let error = card.advance_many(algorithm, &mut [(&mut state, &data[..65])]);
            assert!(matches!(error, Err(Error::Misuse(_))));
        }
    }
}

#[test]
fn what_is_on_the_card_is_hashed_there() {
    for card in cards() {
        let bytes = noise(50_000, 6);
        let mut data = card.allocate(bytes.len()).unwrap();
        data.write(&bytes).unwrap();
        // Anywhere, and at multiples of 16 bytes.
        for step in [1, 16] {
            let ranges: Vec<_> = (0..200_u64)
                .map(|i| (i * step * 3)..(i * step * 3 + i * i % 9000))
                .collect();
            let messages = card.messages(&ranges).unwrap();
            let slices: Vec<&[u8]> = ranges
                .iter()
                .map(|range| &bytes[range.start as usize..range.end as usize])
                .collect();
            for algorithm in Algorithm::ALL {
                let len = slices.len() * algorithm.digest_len();
                let mut digests = card.allocate(len).unwrap();
                card.hash_on_card(algorithm, &data, &messages, &mut digests)
                    .unwrap();
                let mut found = vec![0; len];
                digests.read(&mut found).unwrap();
                assert!(
                    found == expected(algorithm, &slices),
                    "{algorithm:?}, {step}"
                );
                let short = &mut card.allocate(len - 1).unwrap();
                let error = card.hash_on_card(algorithm, &data, &messages, short);
                assert!(matches!(error, Err(Error::Misuse(_))));
            }
        }
        let behind = card
            .messages(std::slice::from_ref(&(49_999..50_001)))
            .unwrap();
        let mut digests = card.allocate(32).unwrap();
        let error = card.hash_on_card(Algorithm::Md5, &data, &behind, &mut digests);
        assert!(matches!(error, Err(Error::Misuse(_))));
        // Memory of somebody else's is not freed.
        // SAFETY: it lives longer, and nobody writes to it.
        let same = unsafe { card.borrow(data.address(), data.len()) };
        let one = card.messages(std::slice::from_ref(&(0..10))).unwrap();
        card.hash_on_card(Algorithm::Md5, &same, &one, &mut digests)
            .unwrap();
        drop(same);
        let mut back = vec![0; bytes.len()];
        data.read(&mut back).unwrap();
        assert!(back == bytes);
        drop((data, digests, one, behind));
    }
}

#[test]
fn everything_is_given_back() {
    let Some(driver) = FakeDriver::new("") else {
        return;
    };
    let card = driver.open().unwrap();
    assert!(driver.count("fake_used") > 1 << 20);
    drop(card);
    assert_eq!(driver.count("fake_used"), 0);
}
