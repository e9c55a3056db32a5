//! Inputs that a fuzzer starts from, and those that are kept.

use std::env;
use std::fs;
use std::path::Path;
use std::process::exit;

use tabane_testing::corpus::{keep, kept};

/// Begins to fuzz what is called `name`. What happens hangs on two variables of the environment:
///
/// - `CORPUS`: the kept inputs and the samples are put into this folder.
/// - `KEEP`: the files of this folder, but for samples, become the kept inputs, and the process
///   ends.
///
/// # Panics
/// When a folder or file cannot be read or written.
pub fn begin(name: &str, samples: impl FnOnce() -> Vec<Vec<u8>>) {
    if let Some(folder) = env::var_os("KEEP") {
        let (files, samples) = (fs::read_dir(folder).expect("a folder"), samples());
        let inputs = files.map(|file| fs::read(file.expect("an entry").path()).expect("a file"));
        keep(name, inputs.filter(|input| !samples.contains(input)).collect());
        exit(0);
    }
    if let Some(folder) = env::var_os("CORPUS") {
        for (kind, inputs) in [("kept", kept(name)), ("sample", samples())] {
            for (number, input) in inputs.iter().enumerate() {
                let path = Path::new(&folder).join(format!("{kind}-{number}"));
                fs::write(path, input).expect("a corpus to write to");
            }
        }
    }
}
