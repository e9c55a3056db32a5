//! Which mutant of a program is active, and which are reached.

use std::env;
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap};

struct State {
    active: Option<u32>,
    /// A byte for each mutant.
    reached: Option<&'static [AtomicU8]>,
}

/// Whether this mutant is the one that `MUTANT` names. Notes that it was reached in the file that
/// `MUTANT_REACHED` names, which has a byte for each.
pub fn m(id: u32) -> bool {
    static STATE: OnceLock<State> = OnceLock::new();
    let state = STATE.get_or_init(|| State {
        active: env::var("MUTANT").ok().and_then(|id| id.parse().ok()),
        reached: env::var_os("MUTANT_REACHED").map(|path| map(path.as_ref())),
    });
    if let Some(reached) = state.reached {
        reached[id as usize].store(1, Ordering::Relaxed);
    }
    state.active == Some(id)
}

/// A file in memory that all processes share: what is written stays whatever ends a process.
fn map(path: &Path) -> &'static [AtomicU8] {
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.expect("the file of what is reached");
    let len = file.metadata().expect("its length").len() as usize;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, which is never unmapped, of as many bytes as the file has.
    unsafe {
        let bytes = mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, &file, 0);
        std::slice::from_raw_parts(bytes.expect("it can be mapped").cast(), len)
    }
}
