//! The kernels of every instruction set that the processor has.

use tabane_engine::Algorithm as Named;
use tabane_lanes::{Algorithm, Backend, HmacKey, aes, hash_many_on, hash_one_on, hmac_many};

use super::outcome::{Outcome, noise, same, sha256_of_aws_lc};

/// Of each hash: the digest of `abc`, as its standard has it, and the SHA-256 of all digests of
/// [`messages`], as OpenSSL has it.
const HASHES: [(Algorithm, &str, &str); 6] = [
    (
        Algorithm::Md5,
        "900150983cd24fb0d6963f7d28e17f72",
        "8b43f175b627b2f094c53d63dfd519ae528d2561e0ff73e85cfea3e0aac3a0aa",
    ),
    (
        Algorithm::Sha1,
        "a9993e364706816aba3e25717850c26c9cd0d89d",
        "ae9b548893d6e200c34946db335e227ec0427b05defcfe4e2e6bc0efc1102725",
    ),
    (
        Algorithm::Sha224,
        "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7",
        "608dec49e51d3d34e6199becfff651b150cda28f77fd131999577201f2a75d38",
    ),
    (
        Algorithm::Sha256,
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "412ce5610d2416bf60bd96f007833d113a9b6143f29970c522d08c50323672a9",
    ),
    (
        Algorithm::Sha384,
        "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
        "5fa14663d25845585c1d50a888b79e76e0b2b99f4e38d3549ff0b4e5c5ca52b0",
    ),
    (
        Algorithm::Sha512,
        "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        "c6e5a4f166191e3c5954952757add7d85f2bd2ceca9047059dca3ad326acbea9",
    ),
];

/// FIPS 197, appendix C: key bytes count up from 0; the ciphertext of
/// 00112233445566778899aabbccddeeff.
const AES: [(usize, &str); 3] = [
    (16, "69c4e0d86a7b0430d8cdb78070b4c55a"),
    (24, "dda97ca4864cdfe06eaf70a0ec0d7191"),
    (32, "8ea2b7ca516745bfeafc49904b496089"),
];

/// RFC 4231, test case 2, and RFC 2202's of the same key and text.
const HMACS: [(Algorithm, &str); 3] = [
    (Algorithm::Md5, "750c783e6ab0b503eaa86e310a5db738"),
    (Algorithm::Sha1, "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
    (
        Algorithm::Sha256,
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
    ),
];

/// Checks every hash and AES on every backend that the processor has, and what chooses among them.
pub fn kernels() -> Vec<Outcome> {
    let noise = noise(1 << 16);
    let messages = messages(&noise);
    let mut outcomes = Vec::new();
    for backend in Backend::available() {
        outcomes.push(Outcome::of(format!("hashes on {backend}"), || {
            for (algorithm, of_abc, of_all) in HASHES {
                if backend.supports(algorithm) {
                    let failed = |error: &dyn std::fmt::Display| error.to_string();
                    let abc = hash_one_on(backend, algorithm, b"abc");
                    let abc = abc.map_err(|error| failed(&error))?;
                    same(algorithm.name(), abc.to_string().as_str(), of_abc)?;
                    let digests = hash_many_on(backend, algorithm, &messages);
                    let digests = digests.map_err(|error| failed(&error))?;
                    let parts: Vec<&[u8]> = digests.iter().map(AsRef::as_ref).collect();
                    let all = sha256_of_aws_lc(&parts).to_string();
                    same(algorithm.name(), all.as_str(), of_all)?;
                }
            }
            Ok(())
        }));
    }
    for backend in aes::Backend::available() {
        let what = format!("AES on {}", backend.name());
        outcomes.push(Outcome::of(what, || aes_on(backend)));
    }
    outcomes.push(Outcome::of("HMAC", || {
        for (algorithm, expected) in HMACS {
            let key = HmacKey::new(algorithm, b"Jefe");
            let text = &b"what do ya want for nothing?"[..];
            let tags = hmac_many(&[(&key, text); 20]);
            for tag in tags {
                same(algorithm.name(), tag.to_string().as_str(), expected)?;
            }
        }
        Ok(())
    }));
    outcomes.push(Outcome::of("BLAKE3 and XXH128", || {
        // BLAKE3's test vectors: 1024 bytes, byte `i` being `i mod 251`.
        let counted: Vec<u8> = (0..1024).map(|at| (at % 251) as u8).collect();
        for (algorithm, message, expected) in [
            (
                Named::Blake3,
                &counted[..],
                "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7",
            ),
            // As xxhsum 0.8.1 has it.
            (
                Named::Xxh128,
                &noise[..],
                "96ca2199d09d1e29824224d384647171",
            ),
        ] {
            let digest = algorithm.digest(message).to_string();
            same(algorithm.name(), digest.as_str(), expected)?;
        }
        Ok(())
    }));
    outcomes
}

/// 200 messages of mixed lengths up to 4000 bytes.
fn messages(noise: &[u8]) -> Vec<&[u8]> {
    (0..200).map(|at| &noise[at..][..at * 37 % 4000]).collect()
}

/// Single blocks as FIPS 197 has them; long data back and forth, in every mode.
fn aes_on(backend: aes::Backend) -> Result<(), String> {
    let failed = |error: aes::Error| error.to_string();
    let text: [u8; 16] = std::array::from_fn(|at| at as u8 * 0x11);
    for (key_len, expected) in AES {
        let key: Vec<u8> = (0..key_len as u8).collect();
        let key = aes::Key::new_on(backend, &key).map_err(failed)?;
        let mut block = text;
        aes::ecb_encrypt(&key, &mut block).map_err(failed)?;
        same("encryption", hex::encode(block).as_str(), expected)?;
        aes::ecb_decrypt(&key, &mut block).map_err(failed)?;
        same("decryption", block, text)?;

        let plain = noise(4096);
        let mut data = plain.clone();
        let mut jobs = data.chunks_mut(128);
        let mut ivs = [[7; aes::BLOCK]; 32];
        let mut jobs: Vec<aes::CbcJob> = ivs
            .iter_mut()
            .zip(&mut jobs)
            .map(|(iv, data)| aes::CbcJob {
                key: &key,
                iv,
                data,
            })
            .collect();
        aes::cbc_encrypt_many(&mut jobs).map_err(failed)?;
        for part in data.chunks_mut(128) {
            aes::cbc_decrypt(&key, &mut [7; aes::BLOCK], part).map_err(failed)?;
        }
        same("CBC there and back", data == plain, true)?;
        aes::Ctr::new(&key, &[9; aes::BLOCK]).apply(&mut data);
        same("CTR", data == plain, false)?;
        aes::Ctr::new(&key, &[9; aes::BLOCK]).apply(&mut data);
        same("CTR there and back", data == plain, true)?;
    }
    Ok(())
}
