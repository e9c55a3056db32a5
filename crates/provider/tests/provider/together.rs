//! Calls at the same time, whose work is done together: in jobs of one thread, and in threads of
//! one program.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use tabane_testing::openssl::choices::Choices;
use tabane_testing::openssl::libcrypto::{Libcrypto, Pointer, fetch_both, libcrypto};

/// A message, and what both providers make of it: the hash, and the ciphertext.
struct Message {
    data: Vec<u8>,
    hash: usize,
    key: [u8; 32],
    expected: (Vec<u8>, Vec<u8>),
}

/// The algorithms, ours and the others.
struct Tools<'l> {
    libcrypto: &'l Libcrypto,
    hashes: Vec<[Pointer; 2]>,
    cipher: Option<[Pointer; 2]>,
}

// SAFETY: algorithms of OpenSSL may be used by any thread.
unsafe impl Sync for Tools<'_> {}

impl<'l> Tools<'l> {
    fn new(libcrypto: &'l Libcrypto) -> Self {
        let functions = &libcrypto.functions;
        let hashes = ["MD5", "SHA1", "SHA256", "SHA512"];
        Self {
            libcrypto,
            hashes: hashes
                .iter()
                .filter_map(|name| fetch_both(libcrypto, functions.EVP_MD_fetch, name))
                .collect(),
            cipher: fetch_both(libcrypto, functions.EVP_CIPHER_fetch, "AES-256-CBC"),
        }
    }

    fn message(&self, random: &mut Choices) -> Message {
        let len = 16 * random.below(2500);
        let mut message = Message {
            data: random.bytes(len),
            hash: random.below(self.hashes.len()),
            key: random.bytes(32).try_into().unwrap(),
            expected: Default::default(),
        };
        message.expected = (self.hash(&message, 1), self.encrypted(&message, 1));
        message
    }

    fn hash(&self, message: &Message, whose: usize) -> Vec<u8> {
        let functions = &self.libcrypto.functions;
        let mut digest = vec![0; 64];
        let mut len = 0;
        // SAFETY: as in the manual.
        unsafe {
            let context = (functions.EVP_MD_CTX_new)();
            let hash = self.hashes[message.hash][whose];
            assert_eq!(
                (functions.EVP_DigestInit_ex2)(context, hash, ptr::null()),
                1
            );
            for piece in message.data.chunks(20_000) {
                assert_eq!(
                    (functions.EVP_DigestUpdate)(context, piece.as_ptr(), piece.len()),
                    1
                );
            }
            assert_eq!(
                (functions.EVP_DigestFinal_ex)(context, digest.as_mut_ptr(), &mut len),
                1
            );
            (functions.EVP_MD_CTX_free)(context);
        }
        digest.truncate(len as usize);
        digest
    }

    fn encrypted(&self, message: &Message, whose: usize) -> Vec<u8> {
        let Some(cipher) = self.cipher else {
            return Vec::new();
        };
        let functions = &self.libcrypto.functions;
        let mut result = message.data.clone();
        let in_place = message.key[0] < 128;
        // SAFETY: as in the manual.
        unsafe {
            let context = (functions.EVP_CIPHER_CTX_new)();
            let key = message.key.as_ptr();
            let ok =
                (functions.EVP_CipherInit_ex2)(context, cipher[whose], key, key, 1, ptr::null());
            assert_eq!(ok, 1);
            assert_eq!((functions.EVP_CIPHER_CTX_set_padding)(context, 0), 1);
            for (from, to) in message.data.chunks(20_000).zip(result.chunks_mut(20_000)) {
                let mut len = 0;
                let from_place = if in_place { to.as_ptr() } else { from.as_ptr() };
                let ok = (functions.EVP_CipherUpdate)(
                    context,
                    to.as_mut_ptr(),
                    &mut len,
                    from_place,
                    from.len() as c_int,
                );
                assert_eq!((ok, len as usize), (1, from.len()));
            }
            (functions.EVP_CIPHER_CTX_free)(context);
        }
        result
    }

    /// Does all with ours.
    fn check(&self, message: &Message) {
        assert!(self.hash(message, 0) == message.expected.0, "hash");
        assert!(
            self.encrypted(message, 0) == message.expected.1,
            "ciphertext"
        );
    }
}

const PAUSE: c_int = 2;
const FINISH: c_int = 3;

type Task = Box<dyn FnOnce()>;

thread_local! {
    /// What a job is to do: OpenSSL copies what it is given byte by byte.
    static JOBS: RefCell<Vec<Option<Task>>> = const { RefCell::new(Vec::new()) };
}

unsafe extern "C" fn run_job(argument: *mut c_void) -> c_int {
    // SAFETY: `start` gives the place of a number.
    let number = unsafe { *argument.cast::<usize>() };
    let job = JOBS.with_borrow_mut(|jobs| jobs[number].take().unwrap());
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
    c_int::from(done.is_ok())
}

/// A job, begun or not.
struct Job<'l> {
    libcrypto: &'l Libcrypto,
    number: usize,
    job: Pointer,
    wait: Pointer,
}

impl<'l> Job<'l> {
    fn new(libcrypto: &'l Libcrypto, work: impl FnOnce() + 'static) -> Self {
        let number = JOBS.with_borrow_mut(|jobs| {
            jobs.push(Some(Box::new(work)));
            jobs.len() - 1
        });
        Self {
            libcrypto,
            number,
            job: ptr::null_mut(),
            // SAFETY: as in the manual.
            wait: unsafe { (libcrypto.functions.ASYNC_WAIT_CTX_new)() },
        }
    }

    /// Begins or goes on. Whether it has ended.
    fn go(&mut self) -> bool {
        let mut result = 0;
        // SAFETY: as in the manual.
        let state = unsafe {
            (self.libcrypto.functions.ASYNC_start_job)(
                &mut self.job,
                self.wait,
                &mut result,
                run_job,
                (&raw mut self.number).cast(),
                size_of::<usize>(),
            )
        };
        match state {
            FINISH => {
                assert_eq!(result, 1, "a job failed");
                true
            }
            PAUSE => {
                self.is_announced();
                false
            }
            other => panic!("ASYNC_start_job: {other}"),
        }
    }

    /// It waits for one descriptor, which is ready.
    fn is_announced(&self) {
        let (mut events, mut count) = ([-1; 4], 0_usize);
        // SAFETY: as in the manual; first only how many there are.
        unsafe {
            let all = self.libcrypto.functions.ASYNC_WAIT_CTX_get_all_fds;
            assert_eq!(all(self.wait, ptr::null_mut(), &mut count), 1);
            assert_eq!(count, 1);
            assert_eq!(all(self.wait, events.as_mut_ptr(), &mut count), 1);
            let mut poll = libc::pollfd {
                fd: events[0],
                events: libc::POLLIN,
                revents: 0,
            };
            assert_eq!(libc::poll(&mut poll, 1, 0), 1, "ready at once");
        }
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        // SAFETY: as in the manual.
        unsafe { (self.libcrypto.functions.ASYNC_WAIT_CTX_free)(self.wait) };
    }
}

#[test]
fn jobs() {
    let Some(libcrypto) = libcrypto() else { return };
    let tools: &'static Tools = Box::leak(Box::new(Tools::new(libcrypto)));
    let mut random = Choices::new(1);
    for jobs in [1, 2, 3, 16, 40] {
        let mut running: Vec<Job> = (0..jobs)
            .map(|_| {
                let messages: Vec<Message> = (0..4).map(|_| tools.message(&mut random)).collect();
                Job::new(libcrypto, move || {
                    messages.iter().for_each(|message| tools.check(message))
                })
            })
            .collect();
        let mut paused = 0;
        while !running.is_empty() {
            // In any order.
            let at = random.below(running.len());
            if running[at].go() {
                running.swap_remove(at);
            } else {
                paused += 1;
            }
        }
        assert!(paused > 0, "{jobs} jobs: none was left");
    }
}

/// A job is given up, and its context freed, as when a connection breaks. The others go on.
#[test]
fn a_job_that_never_goes_on() {
    let Some(libcrypto) = libcrypto() else { return };
    let tools: &'static Tools = Box::leak(Box::new(Tools::new(libcrypto)));
    let functions = &libcrypto.functions;
    let mut random = Choices::new(2);
    let (from, mut to) = (vec![1_u8; 16 << 10], vec![0_u8; 16 << 10]);
    let (from_place, place) = (from.as_ptr(), to.as_mut_ptr());
    // SAFETY: as in the manual.
    let hash = unsafe { (functions.EVP_MD_CTX_new)() };
    // SAFETY: as in the manual.
    let cipher = unsafe { (functions.EVP_CIPHER_CTX_new)() };
    let mut hashing = Job::new(libcrypto, move || {
        // SAFETY: as in the manual.
        unsafe {
            (functions.EVP_DigestInit_ex2)(hash, tools.hashes[0][0], ptr::null());
            (functions.EVP_DigestUpdate)(hash, from_place, 16 << 10);
        }
        unreachable!("it goes on");
    });
    assert!(!hashing.go());
    if let Some([ours, _]) = tools.cipher {
        let mut encrypting = Job::new(libcrypto, move || {
            let mut len = 0;
            // SAFETY: as in the manual.
            unsafe {
                (functions.EVP_CipherInit_ex2)(
                    cipher,
                    ours,
                    from_place,
                    from_place,
                    1,
                    ptr::null(),
                );
                (functions.EVP_CipherUpdate)(cipher, place, &mut len, from_place, 16 << 10);
            }
            unreachable!("it goes on");
        });
        assert!(!encrypting.go());
    }
    // SAFETY: as in the manual.
    unsafe {
        (functions.EVP_MD_CTX_free)(hash);
        (functions.EVP_CIPHER_CTX_free)(cipher);
    }
    let message = tools.message(&mut random);
    let mut other = Job::new(libcrypto, move || tools.check(&message));
    while !other.go() {}
    assert!(
        to.iter().all(|&byte| byte == 0),
        "nothing is done for those who are gone"
    );
}

/// More threads than cores, and meanwhile children that are forked.
#[test]
fn threads() {
    let Some(libcrypto) = libcrypto() else { return };
    let tools = Tools::new(libcrypto);
    let messages: Vec<Message> = (0..8)
        .map(|seed| tools.message(&mut Choices::new(seed)))
        .collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3 * cores + 2)
            .map(|i| {
                let (tools, messages) = (&tools, &messages);
                scope.spawn(move || {
                    for turn in 0..60 {
                        tools.check(&messages[(i + turn) % messages.len()]);
                    }
                })
            })
            .collect();
        let (tools, messages, done) = (&tools, &messages, &done);
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                // SAFETY: the child calls nothing that waits for another thread but what is tested.
                unsafe {
                    let child = libc::fork();
                    if child == 0 {
                        let right = tools.hash(&messages[0], 0) == messages[0].expected.0;
                        libc::_exit(c_int::from(!right));
                    }
                    let mut status = -1;
                    assert_eq!(libc::waitpid(child, &mut status, 0), child);
                    assert_eq!(status, 0, "a child");
                }
            }
        });
        for worker in workers {
            worker.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
}
