//! Exclusive or with every instruction set, compared byte by byte.

#![forbid(unsafe_code)]

use tabane_lanes::{
    Backend, BackendError, Sum, xor_into, xor_into_on, xor_of, xor_of_both, xor_of_both_on,
    xor_of_on,
};

/// The most sources that are tried.
const SOURCES: usize = 19;

/// Lengths around the ends of what registers hold.
fn lengths() -> impl Iterator<Item = usize> {
    (0..70).chain([
        127, 128, 129, 255, 256, 257, 511, 512, 513, 640, 1023, 1024, 1025, 4099,
    ])
}

/// Sources without a pattern, at odd addresses.
fn sources() -> Vec<Vec<u8>> {
    let mut state = 1_u64;
    let mut byte = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    (0..SOURCES)
        .map(|_| (0..4200).map(|_| byte()).collect())
        .collect()
}

#[test]
fn every_backend_is_right() {
    let sources = sources();
    for backend in Backend::available() {
        for len in lengths() {
            for count in [0, 1, 2, 3, 7, SOURCES] {
                let from: Vec<&[u8]> = (0..count).map(|i| &sources[i][i..i + len]).collect();
                let sum = |at: usize| from.iter().fold(0, |sum, source| sum ^ source[at]);
                let mut into = vec![0x5a; len];
                xor_of_on(backend, &mut into, &from).unwrap();
                assert!(
                    (0..len).all(|at| into[at] == sum(at)),
                    "{backend}, {count} of {len}"
                );
                into.fill(0x5a);
                xor_into_on(backend, &mut into, &from).unwrap();
                assert!(
                    (0..len).all(|at| into[at] == sum(at) ^ 0x5a),
                    "{backend}, into, {count} of {len}"
                );
            }
        }
    }
}

#[test]
fn two_sums_at_once_are_what_each_is_by_itself() {
    let sources = sources();
    let from = |count: usize, len: usize| -> Vec<&[u8]> {
        (0..count).map(|i| &sources[i][i..i + len]).collect()
    };
    for backend in Backend::available() {
        for (distant_len, near_len) in
            lengths().zip(lengths().collect::<Vec<_>>().into_iter().rev())
        {
            for (distant_count, near_count) in [(3, 4), (0, 2), (1, 0), (SOURCES, SOURCES)] {
                let sources = [from(distant_count, distant_len), from(near_count, near_len)];
                let mut sums = [vec![0x5a; distant_len], vec![0x5a; near_len]];
                let mut alone = sums.clone();
                let [distant, near] = &mut sums;
                let (distant, near) = (
                    Sum {
                        into: distant,
                        from: &sources[0],
                    },
                    Sum {
                        into: near,
                        from: &sources[1],
                    },
                );
                xor_of_both_on(backend, distant, near).unwrap();
                for (sum, from) in alone.iter_mut().zip(&sources) {
                    xor_of_on(backend, sum, from).unwrap();
                }
                assert!(sums == alone, "{backend}, {distant_len} and {near_len}");
            }
        }
    }
}

#[test]
#[should_panic(expected = "a source is too short")]
fn a_short_source_of_the_second_sum_is_refused() {
    let distant = Sum {
        into: &mut [],
        from: &[],
    };
    let near = Sum {
        into: &mut [0; 4],
        from: &[&[1; 3]],
    };
    xor_of_both(distant, near);
}

#[test]
fn longer_sources_are_used_as_far_as_needed() {
    let mut into = [1; 3];
    xor_of(&mut into, &[&[7, 8, 9, 10], &[1, 1, 1]]);
    assert_eq!(into, [6, 9, 8]);
    xor_into(&mut into, &[&[6; 600]]);
    assert_eq!(into, [0, 15, 14]);
}

#[test]
#[should_panic(expected = "a source is too short")]
fn a_short_source_is_refused() {
    xor_of(&mut [0; 4], &[&[1; 4], &[1; 3]]);
}

#[test]
fn a_backend_that_is_not_there_is_refused() {
    for &backend in Backend::ALL {
        if !backend.is_available() {
            let error = Err(BackendError::Unavailable(backend));
            assert_eq!(xor_of_on(backend, &mut [], &[]), error);
        }
    }
}
