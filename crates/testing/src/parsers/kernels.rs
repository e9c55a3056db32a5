//! Every backend beside the portable one, and messages in pieces beside whole ones.
//!
//! The input is a program: its first byte chooses the algorithm, its second the number of messages,
//! pairs of bytes after them the lengths of messages and where each is cut. The messages are taken
//! from the rest.

use tabane_lanes::{Algorithm, Backend, Hasher, finish_many, hash_many, hash_many_on, update_many};

pub fn kernels(input: &[u8]) {
    let [first, count, rest @ ..] = input else {
        return;
    };
    let algorithm = Algorithm::ALL[usize::from(*first) % Algorithm::ALL.len()];
    let count = usize::from(*count).min(rest.len() / 2);
    let (lengths, data) = rest.split_at(2 * count);
    let mut messages = Vec::new();
    let mut cuts = Vec::new();
    for (i, pair) in lengths.chunks_exact(2).enumerate() {
        let length = (usize::from(pair[0]) * usize::from(pair[1] % 16 + 1)).min(data.len());
        let start = (i * 7 + usize::from(pair[1])) % (data.len() - length + 1);
        messages.push(&data[start..start + length]);
        cuts.push(usize::from(pair[1]) * length / 255);
    }

    let expected = hash_many_on(Backend::Portable, algorithm, &messages).expect("everywhere");
    for backend in Backend::available().filter(|backend| backend.supports(algorithm)) {
        let digests = hash_many_on(backend, algorithm, &messages).expect("available");
        assert_eq!(digests, expected, "{backend} {algorithm}");
    }
    assert_eq!(hash_many(algorithm, &messages), expected, "{algorithm}");

    let mut hashers = vec![Hasher::new(algorithm); messages.len()];
    for half in 0..2 {
        let pieces = messages.iter().zip(&cuts).map(|(message, &cut)| {
            let (before, after) = message.split_at(cut);
            [before, after][half]
        });
        let mut parts: Vec<_> = hashers.iter_mut().zip(pieces).collect();
        update_many(&mut parts);
    }
    let digests = finish_many(&hashers.iter().collect::<Vec<_>>());
    assert_eq!(digests, expected, "{algorithm} in pieces");
}

pub fn kernel_samples() -> Vec<Vec<u8>> {
    let data: Vec<u8> = (0..300_u16).map(|number| number as u8).collect();
    let program = |algorithm: usize| {
        let lengths = [0, 0, 1, 255, 63, 0x10, 64, 0x81, 200, 0x33];
        [&[algorithm as u8, 5], &lengths[..], &data].concat()
    };
    (0..Algorithm::ALL.len()).map(program).collect()
}
