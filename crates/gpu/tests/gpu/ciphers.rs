//! AES by a whole card.

use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use tabane_gpu::{Aes, Design, Error, Message, Mode};

use crate::bed::{FakeDriver, cards, noise};

const MODES: [Mode; 5] = [
    Mode::EcbEncrypt,
    Mode::EcbDecrypt,
    Mode::Ctr,
    Mode::CbcEncrypt,
    Mode::CbcDecrypt,
];

/// A key of another crate.
enum Here {
    Aes128(Box<aes::Aes128>),
    Aes256(Box<aes::Aes256>),
}

impl Here {
    fn new(key: &[u8]) -> Self {
        match key.len() {
            16 => Self::Aes128(Box::new(KeyInit::new_from_slice(key).unwrap())),
            _ => Self::Aes256(Box::new(KeyInit::new_from_slice(key).unwrap())),
        }
    }

    fn encrypt(&self, block: [u8; 16]) -> [u8; 16] {
        let mut block = block.into();
        match self {
            Self::Aes128(key) => key.encrypt_block(&mut block),
            Self::Aes256(key) => key.encrypt_block(&mut block),
        }
        block.into()
    }

    fn decrypt(&self, block: [u8; 16]) -> [u8; 16] {
        let mut block = block.into();
        match self {
            Self::Aes128(key) => key.decrypt_block(&mut block),
            Self::Aes256(key) => key.decrypt_block(&mut block),
        }
        block.into()
    }

    /// The modes by their definition.
    fn crypt(&self, mode: Mode, mut vector: [u8; 16], data: &mut [u8]) {
        let xor = |a: [u8; 16], b: [u8; 16]| {
            (u128::from_ne_bytes(a) ^ u128::from_ne_bytes(b)).to_ne_bytes()
        };
        for bytes in data.chunks_mut(16) {
            let mut block = [0; 16];
            block[..bytes.len()].copy_from_slice(bytes);
            let result = match mode {
                Mode::EcbEncrypt => self.encrypt(block),
                Mode::EcbDecrypt => self.decrypt(block),
                Mode::Ctr => {
                    let stream = self.encrypt(vector);
                    vector = u128::from_be_bytes(vector).wrapping_add(1).to_be_bytes();
                    xor(block, stream)
                }
                Mode::CbcEncrypt => {
                    vector = self.encrypt(xor(block, vector));
                    vector
                }
                Mode::CbcDecrypt => xor(self.decrypt(block), std::mem::replace(&mut vector, block)),
            };
            bytes.copy_from_slice(&result[..bytes.len()]);
        }
    }
}

/// Messages of which some are longer than an item of work.
fn messages(mode: Mode) -> Vec<([u8; 16], Vec<u8>)> {
    let lens = [16, 0, 32, 1, 40_000, 16_384, 16_400, 517, 130_000];
    lens.iter()
        .zip(0..)
        .map(|(&len, seed)| {
            let len = if mode == Mode::Ctr {
                len
            } else {
                len / 16 * 16
            };
            let mut vector: [u8; 16] = noise(16, seed).try_into().unwrap();
            if seed % 2 == 1 {
                vector[..14].fill(0xff);
            }
            (vector, noise(len, 100 + seed))
        })
        .collect()
}

#[test]
fn all_modes_equal_the_processors() {
    for card in cards() {
        for key_len in [16, 32] {
            let key = noise(key_len, 9);
            let (on_card, here) = (Aes::new(&card, &key).unwrap(), Here::new(&key));
            for mode in MODES {
                let mut expected = messages(mode);
                for (vector, data) in &mut expected {
                    here.crypt(mode, *vector, data);
                }
                for design in [Design::Tables, Design::Bits] {
                    let mut found = messages(mode);
                    let mut parts: Vec<_> = found
                        .iter_mut()
                        .map(|(v, data)| (*v, &mut data[..]))
                        .collect();
                    on_card.crypt_many_by(design, mode, &mut parts).unwrap();
                    assert!(found == expected, "{key_len} {mode:?} {design:?}");
                }
            }
        }
    }
}

#[test]
fn keys_are_wiped() {
    let Some(driver) = FakeDriver::new("") else {
        return;
    };
    let card = driver.open().unwrap();
    let key = Aes::new(&card, &[1; 32]).unwrap();
    let before = driver.count("fake_wiped");
    drop(key);
    assert_eq!(driver.count("fake_wiped"), before + 1);
}

#[test]
fn what_is_on_the_card_is_encrypted_there() {
    for card in cards() {
        let key = Aes::new(&card, &[5; 16]).unwrap();
        let here = Here::new(&[5; 16]);
        let bytes = noise(100_000, 7);
        let (mut from, mut to) = (
            card.allocate(100_000).unwrap(),
            card.allocate(100_000).unwrap(),
        );
        from.write(&bytes).unwrap();
        for mode in MODES {
            let list = [(0, 32_768), (32_768, 16), (32_784, 60_000)].map(|(start, len)| Message {
                start,
                len,
                vector: [start as u8 + 3; 16],
            });
            let items = key.items(mode, &list).unwrap();
            key.crypt_on_card(Design::Bits, &items, &from, &mut to)
                .unwrap();
            let mut found = vec![0; 100_000];
            to.read(&mut found).unwrap();
            for message in &list {
                let range = message.start as usize..message.start as usize + message.len;
                let mut expected = bytes[range.clone()].to_vec();
                here.crypt(mode, message.vector, &mut expected);
                assert!(found[range] == expected, "{mode:?}");
            }
        }
        let list = [Message {
            start: 99_984,
            len: 32,
            vector: [0; 16],
        }];
        let items = key.items(Mode::Ctr, &list).unwrap();
        let error = key.crypt_on_card(Design::Tables, &items, &from, &mut to);
        assert!(matches!(error, Err(Error::Misuse(_))));
    }
}

#[test]
fn what_goes_into_no_block_is_refused() {
    for card in cards() {
        assert!(matches!(Aes::new(&card, &[0; 24]), Err(Error::Misuse(_))));
        let key = Aes::new(&card, &[0; 16]).unwrap();
        let error = key.crypt_many(Mode::CbcEncrypt, &mut [([0; 16], &mut [0; 17])]);
        assert!(matches!(error, Err(Error::Misuse(_))));
        let mut long = vec![0; 4 << 20];
        let error = key.crypt_many(Mode::Ctr, &mut [([0; 16], &mut long)]);
        assert_eq!(error, Err(Error::TooLong(4 << 20)));
    }
}
