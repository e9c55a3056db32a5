//! Settings of the provider's section in OpenSSL's configuration.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::abi::{CoreHandle, Dispatch, Param, core_function};

/// Whether OpenSSL 4 or later has loaded us.
static OPENSSL_4: AtomicBool = AtomicBool::new(false);

/// Whether answers are those of the default provider of OpenSSL 4 or later, not of OpenSSL 3.
pub(crate) fn openssl_4() -> bool {
    OPENSSL_4.load(Ordering::Relaxed)
}

/// The values of the section.
pub(crate) struct Settings<'a> {
    /// `report`: where to say which algorithms a program uses. `tabane openssl check` sets it.
    pub(crate) report: Option<Report>,
    /// `hashes`: whether they are offered too.
    pub(crate) hashes: bool,
    /// `offload`: the socket of the offload service, or `no`.
    pub(crate) offload: Option<&'a [u8]>,
}

impl Settings<'_> {
    /// Asks OpenSSL for them.
    ///
    /// # Safety
    ///
    /// `core` is OpenSSL's table, and `handle` the handle that it gave along.
    pub(crate) unsafe fn read(handle: *const CoreHandle, core: *const Dispatch) -> Self {
        type GetParams = unsafe extern "C" fn(*const CoreHandle, *mut Param) -> c_int;
        let [mut version, mut report, mut hashes, mut offload]: [*const c_char; 4] =
            [ptr::null(); 4];
        let mut params = [
            Param::text_asked_for(c"openssl-version", &mut version),
            Param::text_asked_for(c"report", &mut report),
            Param::text_asked_for(c"hashes", &mut hashes),
            Param::text_asked_for(c"offload", &mut offload),
            Param::END,
        ];
        // SAFETY: the caller's promise; the type is that of the number. OpenSSL leaves the places
        // of strings, or nothing.
        let [version, report, hashes, offload] = unsafe {
            if let Some(function) = Dispatch::find(core, core_function::GET_PARAMS) {
                let get_params = core::mem::transmute::<*const c_void, GetParams>(function);
                get_params(handle, params.as_mut_ptr());
            }
            [version, report, hashes, offload]
                .map(|text| (!text.is_null()).then(|| CStr::from_ptr(text).to_bytes()))
        };
        let major = version.and_then(|version| version.split(|&byte| byte == b'.').next());
        OPENSSL_4.store(major.is_some_and(|major| major != b"3"), Ordering::Relaxed);
        Self {
            report: report.map(|file| Report {
                file: OsStr::from_bytes(file).into(),
                seen: AtomicU32::new(0),
            }),
            hashes: hashes == Some(b"yes"),
            offload,
        }
    }
}

/// A file that gets a line for each algorithm of which a program makes a context.
pub(crate) struct Report {
    file: PathBuf,
    /// One bit for each algorithm that the file lists already.
    seen: AtomicU32,
}

impl Report {
    /// An algorithm is used: its number, less than 32, and its names.
    pub(crate) fn used(&self, number: usize, names: &CStr) {
        let bit = 1 << number;
        if self.seen.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            return;
        }
        let names = names.to_bytes();
        let name = names.split(|&byte| byte == b':').next().unwrap_or(names);
        let line = [name, b"\n"].concat();
        // A program that may not write there still encrypts.
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&self.file);
        if let Ok(mut file) = file {
            let _ = file.write_all(&line);
        }
    }
}
