//! One message longer than lengths of 32 bits. By itself, since it takes some seconds.

use sha1::Digest;
use tabane_lanes::{Algorithm, Hasher};

/// The length is counted right behind 2³² bits and 2³² bytes.
#[test]
fn longer_than_four_gibibytes() {
    let piece = vec![b'x'; 1 << 24];
    let mut hasher = Hasher::new(Algorithm::Sha1);
    let mut reference = sha1::Sha1::new();
    for i in 0..257 {
        hasher.update(&piece);
        reference.update(&piece);
        if [31, 32, 255, 256].contains(&i) {
            let expected = reference.clone().finalize();
            assert_eq!(hasher.finish().as_ref(), expected.as_slice());
        }
    }
}
