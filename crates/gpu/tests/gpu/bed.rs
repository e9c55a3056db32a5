//! Drivers without a card, and what several tests need.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use tabane_gpu::{Card, Error, Options};
use tempfile::TempDir;

/// Where the C++ of the tests is.
pub fn shim() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shim")
}

/// Builds a C++ program of the shim's folder; `None`, after saying so, where there is no compiler.
pub fn build(source: &str, to: &Path, options: &[&str]) -> Option<()> {
    let mut command = Command::new("c++");
    command
        .args(["-std=c++17", "-O1"])
        .args(options)
        .arg(shim().join(source))
        .arg(OsStr::new("-o"))
        .arg(to)
        .args(["-ldl", "-lpthread"]);
    match command.output() {
        Ok(output) => assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => {
            println!("NOT CHECKED: kernels of the card, since c++ does not run: {error}");
            return None;
        }
    }
    Some(())
}

/// A driver without a card, with faults of its own: a copy of the library, which is loaded for
/// itself.
pub struct FakeDriver {
    folder: TempDir,
}

impl FakeDriver {
    /// With these faults: lines as `driver.cpp` has them. `None` where there is no compiler.
    pub fn new(faults: &str) -> Option<Self> {
        static BUILT: OnceLock<Option<TempDir>> = OnceLock::new();
        let built = BUILT.get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            let library = folder.path().join("libcuda.so.1");
            build("driver.cpp", &library, &["-shared", "-fPIC"]).map(|()| folder)
        });
        let built = built.as_ref()?;
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(
            built.path().join("libcuda.so.1"),
            folder.path().join("libcuda.so.1"),
        )
        .unwrap();
        std::fs::write(folder.path().join("faults"), faults).unwrap();
        Some(Self { folder })
    }

    pub fn library(&self) -> PathBuf {
        self.folder.path().join("libcuda.so.1")
    }

    /// Opens its card.
    pub fn open(&self) -> Result<Card, Error> {
        self.open_with(&options())
    }

    pub fn open_with(&self, options: &Options) -> Result<Card, Error> {
        Card::open_with(&self.library(), options)
    }

    /// One of the counters that the driver has for tests.
    pub fn count(&self, name: &str) -> usize {
        // SAFETY: loaded already; the functions take nothing and return a number.
        unsafe {
            let library = libloading::Library::new(self.library()).unwrap();
            let function: libloading::Symbol<unsafe extern "C" fn() -> usize> =
                library.get(name.as_bytes()).unwrap();
            function() & 0x7fff_ffff
        }
    }
}

/// The card of the driver without one, and the machine's own if there is one.
pub fn cards() -> Vec<Card> {
    let mut cards: Vec<Card> = FakeDriver::new("")
        .map(|driver| driver.open().unwrap())
        .into_iter()
        .collect();
    match Card::open(&options()) {
        Ok(card) => {
            println!("also checked: {}", card.properties().name);
            cards.push(card);
        }
        Err(error) => println!("NOT CHECKED: a card of this machine: {error}"),
    }
    cards
}

/// With little staging memory, so that there are many batches.
pub fn options() -> Options {
    Options {
        staging: 4 << 20,
        ..Options::default()
    }
}

/// That does not wait long.
pub fn impatient() -> Options {
    Options {
        hang_bound: Duration::from_millis(200),
        ..options()
    }
}

/// Reproducible bytes (splitmix64).
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).to_le_bytes()
    };
    std::iter::repeat_with(next).flatten().take(len).collect()
}
