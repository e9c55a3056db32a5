//! Pipelines of OpenSSL 3.5, compared with one message after the other by the default provider.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::time::{Duration, Instant};

use tabane_provider::abi::{Param, param_type};

use tabane_testing::openssl::choices::{Choices, for_seeds};
use tabane_testing::openssl::ciphers::{Ciphers, GET_TAG, offered};
use tabane_testing::openssl::libcrypto::{Libcrypto, Pointer, libcrypto, symbol};

type Init = unsafe extern "C" fn(
    Pointer,
    Pointer,
    *const u8,
    usize,
    usize,
    *const *const u8,
    usize,
) -> c_int;
type Update = unsafe extern "C" fn(
    Pointer,
    *const *mut u8,
    *mut usize,
    *const usize,
    *const *const u8,
    *const usize,
) -> c_int;
type Finish = unsafe extern "C" fn(Pointer, *const *mut u8, *mut usize, *const usize) -> c_int;

/// The functions for pipelines, which a libcrypto before 3.5 lacks.
struct Pipelines {
    can: unsafe extern "C" fn(Pointer, c_int) -> c_int,
    /// To decrypt, and to encrypt.
    init: [Init; 2],
    update: Update,
    finish: Finish,
}

impl Pipelines {
    fn find() -> Option<Self> {
        let inits = [
            symbol(c"EVP_CipherPipelineDecryptInit")?,
            symbol(c"EVP_CipherPipelineEncryptInit")?,
        ];
        // SAFETY: the types are those of the manual page.
        unsafe {
            Some(Self {
                can: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
                >(symbol(c"EVP_CIPHER_can_pipeline")?),
                init: inits.map(|init| std::mem::transmute::<*mut c_void, Init>(init)),
                update: std::mem::transmute::<*mut c_void, Update>(symbol(
                    c"EVP_CipherPipelineUpdate",
                )?),
                finish: std::mem::transmute::<*mut c_void, Finish>(symbol(
                    c"EVP_CipherPipelineFinal",
                )?),
            })
        }
    }
}

/// A few messages under one key, and the operation on them.
struct Messages {
    ciphers: Ciphers,
    encrypt: bool,
    key: Vec<u8>,
    ivs: Vec<Vec<u8>>,
    /// The messages may differ in length.
    data: Vec<Vec<u8>>,
    aad: Vec<u8>,
}

impl Messages {
    /// One after the other, by the default provider. Returns what comes out, and tags, which are
    /// empty but for GCM.
    fn one_by_one(&self, libcrypto: &Libcrypto) -> Vec<(Vec<u8>, Vec<u8>)> {
        let functions = &libcrypto.functions;
        let each = self.data.iter().zip(&self.ivs).map(|(data, iv)| {
            let (mut to, mut tag) = (vec![0; data.len() + 32], Vec::new());
            let (mut len, mut last) = (0, 0);
            // SAFETY: as in the manual.
            unsafe {
                let context = (functions.EVP_CIPHER_CTX_new)();
                let (key, iv, encrypt) =
                    (self.key.as_ptr(), iv.as_ptr(), c_int::from(self.encrypt));
                let cipher = self.ciphers.both[1];
                (functions.EVP_CipherInit_ex2)(context, cipher, key, iv, encrypt, ptr::null());
                if !self.aad.is_empty() {
                    let (aad, aad_len) = (self.aad.as_ptr(), self.aad.len() as c_int);
                    (functions.EVP_CipherUpdate)(context, ptr::null_mut(), &mut len, aad, aad_len);
                }
                let (from, from_len) = (data.as_ptr(), data.len() as c_int);
                (functions.EVP_CipherUpdate)(context, to.as_mut_ptr(), &mut len, from, from_len);
                let end = to.as_mut_ptr().add(len as usize);
                (functions.EVP_CipherFinal_ex)(context, end, &mut last);
                if self.ciphers.mode == "GCM" && self.encrypt {
                    tag = vec![0; 16];
                    let place = tag.as_mut_ptr().cast();
                    (functions.EVP_CIPHER_CTX_ctrl)(context, GET_TAG, 16, place);
                }
                (functions.EVP_CIPHER_CTX_free)(context);
            }
            to.truncate((len + last) as usize);
            (to, tag)
        });
        each.collect()
    }

    /// In a pipeline, by ours, in a few calls. `tags` are set when decrypting, and otherwise
    /// returned. None if the end fails.
    fn in_pipeline(
        &self,
        libcrypto: &Libcrypto,
        pipelines: &Pipelines,
        tags: &mut [Vec<u8>],
        random: &mut Choices,
    ) -> Option<Vec<Vec<u8>>> {
        let functions = &libcrypto.functions;
        let count = self.data.len();
        let ivs: Vec<*const u8> = self.ivs.iter().map(|iv| iv.as_ptr()).collect();
        let room = |data: &Vec<u8>| vec![0; data.len() + 32];
        let mut to: Vec<Vec<u8>> = self.data.iter().map(room).collect();
        let (mut done, mut filled) = (vec![0; count], vec![0; count]);
        let mut written = vec![0; count];
        let places: Vec<*mut u8> = tags.iter_mut().map(|tag| tag.as_mut_ptr()).collect();
        let mut first = places.as_ptr();
        let tags = [
            Param {
                key: c"pipeline-tag".as_ptr(),
                data_type: param_type::OCTET_PTR,
                data: (&raw mut first).cast(),
                data_size: 16,
                return_size: 0,
            },
            Param {
                key: ptr::null(),
                data_type: 0,
                data: ptr::null_mut(),
                data_size: 0,
                return_size: 0,
            },
        ];
        let gcm = self.ciphers.mode == "GCM";
        // SAFETY: as in the manual.
        unsafe {
            let context = (functions.EVP_CIPHER_CTX_new)();
            let init = pipelines.init[usize::from(self.encrypt)];
            let (cipher, key) = (self.ciphers.both[0], &self.key);
            let iv_len = self.ivs[0].len();
            let begun = init(
                context,
                cipher,
                key.as_ptr(),
                key.len(),
                count,
                ivs.as_ptr(),
                iv_len,
            );
            assert_eq!(begun, 1, "a pipeline begins");
            if gcm && !self.encrypt {
                assert_eq!(
                    (functions.EVP_CIPHER_CTX_set_params)(context, tags.as_ptr()),
                    1
                );
            }
            if !self.aad.is_empty() {
                let from = vec![self.aad.as_ptr(); count];
                let lens = vec![self.aad.len(); count];
                let len = written.as_mut_ptr();
                let (from, lens) = (from.as_ptr(), lens.as_ptr());
                let added = (pipelines.update)(context, ptr::null(), len, ptr::null(), from, lens);
                assert_eq!(added, 1, "additional data");
            }
            for left in (0..1 + random.below(3)).rev() {
                let (mut from, mut lens, mut places, mut rooms) = (vec![], vec![], vec![], vec![]);
                for (number, data) in self.data.iter().enumerate() {
                    let rest = &data[done[number]..];
                    let len = if left == 0 {
                        rest.len()
                    } else {
                        random.below(rest.len() + 1)
                    };
                    from.push(rest.as_ptr());
                    lens.push(len);
                    done[number] += len;
                    places.push(to[number].as_mut_ptr().add(filled[number]));
                    rooms.push(to[number].len() - filled[number]);
                }
                let updated = (pipelines.update)(
                    context,
                    places.as_ptr(),
                    written.as_mut_ptr(),
                    rooms.as_ptr(),
                    from.as_ptr(),
                    lens.as_ptr(),
                );
                assert_eq!(updated, 1, "an update");
                (0..count).for_each(|number| filled[number] += written[number]);
            }
            let ends = to.iter_mut().zip(&filled);
            let (places, rooms): (Vec<_>, Vec<_>) = ends
                .map(|(to, &at)| (to.as_mut_ptr().add(at), to.len() - at))
                .unzip();
            let ended = (pipelines.finish)(
                context,
                places.as_ptr(),
                written.as_mut_ptr(),
                rooms.as_ptr(),
            );
            if gcm && self.encrypt {
                let tags = tags.as_ptr().cast_mut();
                assert_eq!((functions.EVP_CIPHER_CTX_get_params)(context, tags), 1);
            }
            (functions.EVP_CIPHER_CTX_free)(context);
            (functions.ERR_clear_error)();
            if ended != 1 {
                return None;
            }
        }
        for (number, to) in to.iter_mut().enumerate() {
            to.truncate(filled[number] + written[number]);
        }
        Some(to)
    }
}

#[test]
fn pipelines_give_the_same() {
    let Some(libcrypto) = libcrypto() else { return };
    let Some(pipelines) = Pipelines::find() else {
        println!("NOT CHECKED: pipelines, for libcrypto.so.3 is older than OpenSSL 3.5");
        return;
    };
    let offered = offered(libcrypto);
    for_seeds(100, |random| {
        for &ciphers in &offered {
            for encrypt in [0, 1] {
                // SAFETY: as in the manual.
                assert_eq!(unsafe { (pipelines.can)(ciphers.both[0], encrypt) }, 1);
            }
            let gcm = ciphers.mode == "GCM";
            let count = 1 + random.below(12);
            let iv_len = match ciphers.mode {
                "ECB" => 0,
                "GCM" => 12,
                _ => 16,
            };
            let mut messages = Messages {
                ciphers,
                encrypt: true,
                key: random.bytes(ciphers.key_len),
                ivs: (0..count).map(|_| random.bytes(iv_len)).collect(),
                data: Vec::new(),
                aad: random.bytes(if gcm { 13 } else { 0 }),
            };
            for _ in 0..count {
                let length = random.length();
                messages.data.push(random.bytes(length));
            }
            let mut tags = vec![vec![0; 16]; count];
            let sealed = messages.in_pipeline(libcrypto, &pipelines, &mut tags, random);
            let sealed = sealed.expect("an end");
            let expected = messages.one_by_one(libcrypto);
            for (number, (cipher, tag)) in expected.iter().enumerate() {
                assert!(sealed[number] == *cipher, "{} of {count}", ciphers.mode);
                assert!(!gcm || tags[number] == *tag, "a tag of {count}");
            }
            let plain = std::mem::replace(&mut messages.data, sealed);
            messages.encrypt = false;
            let opened = messages.in_pipeline(libcrypto, &pipelines, &mut tags, random);
            assert!(
                opened.expect("an end") == plain,
                "{} of {count}",
                ciphers.mode
            );
            if gcm {
                tags[random.below(count)][random.below(16)] ^= 1;
                let opened = messages.in_pipeline(libcrypto, &pipelines, &mut tags, random);
                assert!(opened.is_none(), "a wrong tag among {count}");
            }
        }
    });
}

/// The least time that something took.
fn least(mut what: impl FnMut()) -> Duration {
    let time = |_| {
        let start = Instant::now();
        what();
        start.elapsed()
    };
    (0..30).map(time).min().expect("more than none")
}

/// Prints how many times as fast messages of 16 KiB are encrypted in one call as one after the
/// other, by Tabane and by the default provider, in one thread: `cargo test --release -p
/// tabane-provider --test provider -- --ignored --nocapture measure_pipelines`.
#[test]
#[ignore = "a measurement"]
fn measure_pipelines() {
    const LEN: usize = 16 << 10;
    const PIPES_MAX: usize = 32;
    let (libcrypto, pipelines) = (libcrypto().unwrap(), Pipelines::find().unwrap());
    let functions = &libcrypto.functions;
    let mut to = vec![vec![0_u8; LEN + 32]; PIPES_MAX];
    let from = vec![vec![7_u8; LEN]; PIPES_MAX];
    let (key, ivs, mut tags) = ([1; 32], [[3_u8; 16]; PIPES_MAX], [[0_u8; 16]; PIPES_MAX]);
    for ciphers in offered(libcrypto) {
        let (gcm, key_len) = (ciphers.mode == "GCM", ciphers.key_len);
        let iv_len = if gcm { 12 } else { 16 };
        if ciphers.mode == "ECB" {
            continue;
        }
        for pipes in [1, 4, 8, 16, 32] {
            let places: Vec<*mut u8> = to.iter_mut().map(|to| to.as_mut_ptr()).collect();
            let froms: Vec<*const u8> = from.iter().map(|from| from.as_ptr()).collect();
            let iv_places: Vec<*const u8> = ivs.iter().map(|iv| iv.as_ptr()).collect();
            let tag_places: Vec<*mut u8> = tags.iter_mut().map(|tag| tag.as_mut_ptr()).collect();
            let (lens, rooms, mut written) = ([LEN; 32], [LEN + 32; 32], [0; 32]);
            let mut first = tag_places.as_ptr();
            let mut tag = [
                Param {
                    key: c"pipeline-tag".as_ptr(),
                    data_type: param_type::OCTET_PTR,
                    data: (&raw mut first).cast(),
                    data_size: 16,
                    return_size: 0,
                },
                Param {
                    key: ptr::null(),
                    data_type: 0,
                    data: ptr::null_mut(),
                    data_size: 0,
                    return_size: 0,
                },
            ];
            // SAFETY: as in the manual.
            let together = unsafe {
                let cipher = ciphers.both[0];
                least(|| {
                    // OpenSSL 3.5 forgets the number of pipes when a context is used again.
                    let context = (functions.EVP_CIPHER_CTX_new)();
                    let (key, ivs) = (key.as_ptr(), iv_places.as_ptr());
                    let init = pipelines.init[1];
                    assert_eq!(init(context, cipher, key, key_len, pipes, ivs, iv_len), 1);
                    let (to, written, rooms) =
                        (places.as_ptr(), written.as_mut_ptr(), rooms.as_ptr());
                    let (from, lens) = (froms.as_ptr(), lens.as_ptr());
                    let updated = (pipelines.update)(context, to, written, rooms, from, lens);
                    assert_eq!(updated, 1);
                    let mut ends = [ptr::null_mut(); PIPES_MAX];
                    for (number, end) in ends.iter_mut().enumerate().take(pipes) {
                        *end = places[number].add(written.add(number).read());
                    }
                    let rest = [32; PIPES_MAX];
                    let rest = rest.as_ptr();
                    assert_eq!((pipelines.finish)(context, ends.as_ptr(), written, rest), 1);
                    if gcm {
                        let got = (functions.EVP_CIPHER_CTX_get_params)(context, tag.as_mut_ptr());
                        assert_eq!(got, 1);
                    }
                    (functions.EVP_CIPHER_CTX_free)(context);
                })
            };
            // SAFETY: as in the manual.
            let one_by_one = ciphers.both.map(|cipher| unsafe {
                let context = (functions.EVP_CIPHER_CTX_new)();
                let time = least(|| {
                    for number in 0..pipes {
                        let (key, iv, mut len) = (key.as_ptr(), ivs[number].as_ptr(), 0);
                        (functions.EVP_CipherInit_ex2)(context, cipher, key, iv, 1, ptr::null());
                        let (to, from) = (places[number], froms[number]);
                        (functions.EVP_CipherUpdate)(context, to, &mut len, from, LEN as c_int);
                        let end = to.add(len as usize);
                        assert_eq!((functions.EVP_CipherFinal_ex)(context, end, &mut len), 1);
                        if gcm {
                            let tag = tag_places[number].cast();
                            (functions.EVP_CIPHER_CTX_ctrl)(context, GET_TAG, 16, tag);
                        }
                    }
                });
                (functions.EVP_CIPHER_CTX_free)(context);
                time
            });
            let [ours, theirs] = one_by_one.map(|time| time.div_duration_f64(together));
            let rate = (pipes * LEN) as f64 / together.as_secs_f64() / 1e9;
            println!(
                "AES-{}-{}, {pipes} pipes: {rate:.2} GB/s, {ours:.2} x Tabane and {theirs:.2} x \
                 the default provider one after the other",
                8 * key_len,
                ciphers.mode
            );
        }
    }
}
