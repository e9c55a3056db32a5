//! Jobs of OpenSSL (`ASYNC_start_job(3)`): calls that a program can leave and come back to, many at
//! once in one thread.
//!
//! A call within a job joins the bundle of its thread and leaves the job. The program sees that the
//! job waits for a file descriptor, which is ready from the beginning; so it comes back soon, but
//! mostly not before it has started its other jobs. The first job that continues runs the bundle,
//! full or not. So no thread has to look after bundles, and the last bundle always runs.

use core::ffi::{c_char, c_int, c_void};
use core::mem::transmute;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::cell::Cell;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::bundle::{self, Waiting};
use crate::error::Reason;
use crate::work::Work;

/// `ASYNC_JOB` and `ASYNC_WAIT_CTX`.
type Job = *mut c_void;
type WaitContext = *mut c_void;
type Cleanup = unsafe extern "C" fn(WaitContext, *const c_void, c_int, *mut c_void);
type Callback = unsafe extern "C" fn(*mut c_void) -> c_int;

/// Functions, and their names.
macro_rules! library {
    ($($field:ident = $name:literal: $function:ty;)*) => {
        /// The functions of the libcrypto that has loaded us.
        struct Library {
            $($field: $function,)*
        }

        impl Library {
            /// All of them, if all are there.
            ///
            /// # Safety
            ///
            /// `library` is an open libcrypto, and stays so.
            unsafe fn of(library: *mut c_void) -> Option<Self> {
                Some(Self {
                    $($field: {
                        // SAFETY: an open library and a string; the type is that of the manual
                        // page.
                        unsafe {
                            let function = libc::dlsym(library, $name.as_ptr());
                            if function.is_null() {
                                return None;
                            }
                            transmute::<*mut c_void, $function>(function)
                        }
                    },)*
                })
            }
        }
    };
}

library! {
    get_current_job = c"ASYNC_get_current_job": unsafe extern "C" fn() -> Job;
    get_wait_ctx = c"ASYNC_get_wait_ctx": unsafe extern "C" fn(Job) -> WaitContext;
    pause_job = c"ASYNC_pause_job": unsafe extern "C" fn() -> c_int;
    get_fd = c"ASYNC_WAIT_CTX_get_fd":
        unsafe extern "C" fn(WaitContext, *const c_void, *mut c_int, *mut *mut c_void) -> c_int;
    set_wait_fd = c"ASYNC_WAIT_CTX_set_wait_fd":
        unsafe extern "C" fn(WaitContext, *const c_void, c_int, *mut c_void,
            Option<Cleanup>) -> c_int;
    get_callback = c"ASYNC_WAIT_CTX_get_callback":
        unsafe extern "C" fn(WaitContext, *mut Option<Callback>, *mut *mut c_void) -> c_int;
}

static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();

/// Looks for the functions. A libcrypto may be built without them, or be part of a program that
/// hides them.
///
/// `of_libcrypto` is a function of libcrypto.
pub(crate) fn find(of_libcrypto: *const c_void) {
    // SAFETY: an address in a library that is loaded.
    LIBRARY.get_or_init(|| unsafe { Library::find(of_libcrypto) });
}

impl Library {
    /// # Safety
    ///
    /// `of_libcrypto` is a function of libcrypto.
    unsafe fn find(of_libcrypto: *const c_void) -> Option<Self> {
        // SAFETY: the pointers are places for the answers. The opened library is never closed, so
        // its functions stay valid.
        unsafe {
            let mut info: libc::Dl_info = core::mem::zeroed();
            if libc::dladdr(of_libcrypto, &mut info) == 0 || info.dli_fname.is_null() {
                return None;
            }
            let library = libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if library.is_null() {
                return None;
            }
            Self::of(library)
        }
    }

    /// Tells the program that the job can go on; false if that is impossible.
    ///
    /// # Safety
    ///
    /// `context` is that of the current job.
    unsafe fn announce(&self, context: WaitContext) -> bool {
        /// A unique address as the key.
        static KEY: c_char = 0;
        let key: *const c_void = (&raw const KEY).cast();
        let (mut callback, mut argument, mut custom) = (None, ptr::null_mut(), ptr::null_mut());
        let mut event = -1;
        // SAFETY: the caller's promise; places for the answers.
        unsafe {
            if (self.get_callback)(context, &mut callback, &mut argument) == 1
                && let Some(callback) = callback
            {
                return callback(argument) == 1;
            }
            if (self.get_fd)(context, key, &mut event, &mut custom) == 1 {
                // Makes the descriptor ready again, for edge-triggered waits.
                return libc::eventfd_write(event, 1) == 0;
            }
            event = libc::eventfd(1, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
            if event < 0 {
                return false;
            }
            let set = (self.set_wait_fd)(context, key, event, ptr::null_mut(), Some(close)) == 1;
            if !set {
                libc::close(event);
            }
            set
        }
    }
}

/// # Safety
///
/// As OpenSSL calls it, once for each descriptor.
unsafe extern "C" fn close(_: WaitContext, _: *const c_void, event: c_int, _: *mut c_void) {
    // SAFETY: `announce` made this descriptor for the job, and OpenSSL calls this once, at its end.
    unsafe { libc::close(event) };
}

/// The waiting work of a thread's jobs. Locked, since OpenSSL may resume a job in another thread.
type Bundle = Mutex<Vec<Place>>;

/// Address of a [`Waiting`] on the stack of its job, which returns only when this is done.
struct Place(*mut Waiting<'static>);

// SAFETY: only the holder of the bundle's lock uses the pointer.
unsafe impl Send for Place {}

thread_local! {
    static BUNDLE: Arc<Bundle> = Arc::default();
    /// Number of next calls that stay in their job, since the last bundle had one job only.
    static STAY: Cell<u32> = const { Cell::new(0) };
}

/// Number of waiting jobs in all threads; at 0, `forget` has nothing to look for.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Number of calls that do their own work, within their job, after a bundle of one.
const CALLS_INLINE_AFTER_ALONE: u32 = 15;

/// The job in which the caller runs.
pub(crate) struct Current {
    library: &'static Library,
    job: Job,
}

/// The current job, if the caller runs in one.
#[inline]
pub(crate) fn current() -> Option<Current> {
    let library = LIBRARY.get()?.as_ref()?;
    // SAFETY: the function has no preconditions.
    let job = unsafe { (library.get_current_job)() };
    (!job.is_null()).then_some(Current { library, job })
}

impl Current {
    /// Does work, mostly in a bundle with that of other jobs.
    pub(crate) fn within(self, work: Work) -> Result<(), Reason> {
        let stay = STAY.get();
        if stay > 0 {
            STAY.set(stay - 1);
            return work.alone();
        }
        // SAFETY: the current job.
        if unsafe { !self.library.announce((self.library.get_wait_ctx)(self.job)) } {
            return work.alone();
        }
        let mut waiting = Waiting::new(work);
        let place: *mut Waiting = &raw mut waiting;
        let bundle = BUNDLE.with(Arc::clone);
        // `place` stays valid until its work is done, and by then the bundle no longer holds it.
        WAITING.fetch_add(1, Ordering::Relaxed);
        lock(&bundle).push(Place(place.cast()));
        loop {
            // SAFETY: within a job, and no lock is held. If it fails we go on at once.
            unsafe { (self.library.pause_job)() };
            // SAFETY: `waiting` has not moved and lives until this function returns.
            if let Some(result) = unsafe { (*place).result() } {
                return result;
            }
            let mut bundle = lock(&bundle);
            let places: Vec<_> = bundle.drain(..).map(|place| place.0).collect();
            WAITING.fetch_sub(places.len(), Ordering::Relaxed);
            if let [_] = places[..] {
                STAY.set(CALLS_INLINE_AFTER_ALONE);
            }
            // SAFETY: no work in the bundle is done, so each job still waits and its stack is
            // valid; the lock keeps other threads out.
            unsafe { bundle::run(&places) };
        }
    }
}

/// Removes the waiting work of a context that is about to be freed: of a job that was given up.
pub(crate) fn forget(context: *const u8, size: usize) {
    if WAITING.load(Ordering::Relaxed) == 0 {
        return;
    }
    // `BUNDLE` is gone while the thread ends.
    let _ = BUNDLE.try_with(|bundle| {
        let mut bundle = lock(bundle);
        let before = bundle.len();
        // SAFETY: no work in the bundle is done, so each job still waits and its stack is valid;
        // the lock keeps other threads out.
        bundle.retain(|place| unsafe { !(*place.0).belongs_to(context, size) });
        WAITING.fetch_sub(before - bundle.len(), Ordering::Relaxed);
    });
}

fn lock(bundle: &Bundle) -> std::sync::MutexGuard<'_, Vec<Place>> {
    bundle.lock().unwrap_or_else(PoisonError::into_inner)
}
