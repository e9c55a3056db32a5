//! What a worker asks of OpenSSL: found at run time, so that building takes no OpenSSL.

use std::ffi::{CString, c_char, c_int, c_uchar, c_void};
use std::ptr;

use anyhow::{Context as _, Result, bail, ensure};
use libloading::{Library, Symbol};

type Pointer = *mut c_void;

/// libcrypto of OpenSSL 3, with the configuration that `OPENSSL_CONF` names. Kept loaded.
pub struct Libcrypto(&'static Library);

/// A hash, or AES in CBC mode, of one message after the other.
pub enum Work {
    Hash { context: Pointer, hash: Pointer },
    Encrypt { context: Pointer, out: Vec<u8> },
}

impl Libcrypto {
    /// Loads it.
    pub fn load() -> Result<Self> {
        // SAFETY: libcrypto may be loaded at any time.
        let library = unsafe { Library::new("libcrypto.so.3") };
        let library = library.context("libcrypto.so.3 of OpenSSL 3 is missing")?;
        Ok(Self(Box::leak(Box::new(library))))
    }

    /// A function.
    fn get<T>(&self, name: &str) -> Result<Symbol<'static, T>> {
        // SAFETY: callers give the type of the manual page.
        unsafe { self.0.get(name.as_bytes()) }.with_context(|| format!("libcrypto has no {name}"))
    }

    /// An algorithm by its name, as programs ask for it.
    pub fn work(&self, name: &str, len: usize) -> Result<Work> {
        type Fetch = unsafe extern "C" fn(Pointer, *const c_char, *const c_char) -> Pointer;
        type New = unsafe extern "C" fn() -> Pointer;
        type CipherInit = unsafe extern "C" fn(
            Pointer,
            Pointer,
            *const c_uchar,
            *const c_uchar,
            c_int,
            Pointer,
        ) -> c_int;
        type SetPadding = unsafe extern "C" fn(Pointer, c_int) -> c_int;
        let text = CString::new(name)?;
        // SAFETY: as in the manual.
        unsafe {
            let hash =
                self.get::<Fetch>("EVP_MD_fetch")?(ptr::null_mut(), text.as_ptr(), ptr::null());
            if !hash.is_null() {
                let context = self.get::<New>("EVP_MD_CTX_new")?();
                return Ok(Work::Hash { context, hash });
            }
            let cipher =
                self.get::<Fetch>("EVP_CIPHER_fetch")?(ptr::null_mut(), text.as_ptr(), ptr::null());
            ensure!(!cipher.is_null(), "OpenSSL has no {name}");
            let context = self.get::<New>("EVP_CIPHER_CTX_new")?();
            let key = [7; 32];
            let init = self.get::<CipherInit>("EVP_CipherInit_ex2")?;
            if init(
                context,
                cipher,
                key.as_ptr(),
                key.as_ptr(),
                1,
                ptr::null_mut(),
            ) != 1
            {
                bail!("OpenSSL takes no key for {name}");
            }
            self.get::<SetPadding>("EVP_CIPHER_CTX_set_padding")?(context, 0);
            let out = vec![0; len];
            Ok(Work::Encrypt { context, out })
        }
    }

    /// The functions that [`Work::run`] calls.
    pub fn functions(&self) -> Result<Functions> {
        Ok(Functions {
            digest_init: *self.get("EVP_DigestInit_ex2")?,
            digest_update: *self.get("EVP_DigestUpdate")?,
            digest_final: *self.get("EVP_DigestFinal_ex")?,
            cipher_update: *self.get("EVP_CipherUpdate")?,
        })
    }

    /// Does so many messages in jobs, so many at a time.
    pub fn run_in_jobs(&self, works: &mut [Work], message: &[u8], count: usize) -> Result<()> {
        type Start = unsafe extern "C" fn(
            *mut Pointer,
            Pointer,
            *mut c_int,
            unsafe extern "C" fn(*mut c_void) -> c_int,
            *mut c_void,
            usize,
        ) -> c_int;
        type New = unsafe extern "C" fn() -> Pointer;
        const PAUSE: c_int = 2;
        const FINISH: c_int = 3;
        let start: Symbol<Start> = self.get("ASYNC_start_job")?;
        let new: Symbol<New> = self.get("ASYNC_WAIT_CTX_new")?;
        let functions = self.functions()?;
        let mut jobs: Vec<(Pointer, Pointer, Task)> = works
            .iter_mut()
            .map(|work| {
                let task = Task {
                    work,
                    message,
                    functions: &functions,
                };
                // SAFETY: it needs nothing.
                (ptr::null_mut(), unsafe { new() }, task)
            })
            .collect();
        let (mut left, mut running) = (count, 0);
        while left > 0 || running > 0 {
            for (job, wait, task) in &mut jobs {
                if job.is_null() {
                    if left == 0 {
                        continue;
                    }
                    left -= 1;
                    running += 1;
                }
                let mut result = 0;
                let mut place: *mut Task = task;
                // SAFETY: as in the manual; what the job is told is copied, and stays valid until
                // it has ended.
                let state = unsafe {
                    start(
                        job,
                        *wait,
                        &mut result,
                        run_task,
                        (&raw mut place).cast(),
                        size_of::<*mut Task>(),
                    )
                };
                match state {
                    PAUSE => {}
                    FINISH if result == 1 => {
                        *job = ptr::null_mut();
                        running -= 1;
                    }
                    _ => bail!("a job failed"),
                }
            }
        }
        Ok(())
    }
}

/// What a job does.
struct Task<'a> {
    work: &'a mut Work,
    message: &'a [u8],
    functions: &'a Functions,
}

/// # Safety
///
/// `argument` is the place of a pointer to a [`Task`] that nobody else uses.
unsafe extern "C" fn run_task(argument: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    let task = unsafe { &mut **argument.cast::<*mut Task>() };
    c_int::from(task.work.run(task.functions, task.message))
}

/// Functions of libcrypto.
pub struct Functions {
    digest_init: unsafe extern "C" fn(Pointer, Pointer, Pointer) -> c_int,
    digest_update: unsafe extern "C" fn(Pointer, *const c_uchar, usize) -> c_int,
    digest_final: unsafe extern "C" fn(Pointer, *mut c_uchar, *mut u32) -> c_int,
    cipher_update:
        unsafe extern "C" fn(Pointer, *mut c_uchar, *mut c_int, *const c_uchar, c_int) -> c_int,
}

impl Work {
    /// Does a message. Whether it went well.
    pub fn run(&mut self, functions: &Functions, message: &[u8]) -> bool {
        let mut digest = [0; 64];
        let (mut digest_len, mut len) = (0, 0);
        // SAFETY: as in the manual; there is room for the results.
        unsafe {
            match self {
                Self::Hash { context, hash } => {
                    (functions.digest_init)(*context, *hash, ptr::null_mut()) == 1
                        && (functions.digest_update)(*context, message.as_ptr(), message.len()) == 1
                        && (functions.digest_final)(*context, digest.as_mut_ptr(), &mut digest_len)
                            == 1
                }
                Self::Encrypt { context, out } => {
                    let bytes = message.len().min(out.len());
                    (functions.cipher_update)(
                        *context,
                        out.as_mut_ptr(),
                        &mut len,
                        message.as_ptr(),
                        bytes as c_int,
                    ) == 1
                }
            }
        }
    }
}
