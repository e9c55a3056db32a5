//! The parser of stored bytes that the environment variable `PARSER` names: those of
//! `crates/testing/src/parsers/`, which ordinary tests run too.
//!
//! What is sealed for one process no other can open. So each puts the samples that it makes into
//! the corpus, a folder which is the first argument.
#![no_main]

use std::path::Path;
use std::process::exit;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tabane_testing::parsers::{PARSERS, Parser};

static PARSER: LazyLock<&Parser> = LazyLock::new(|| {
    let name = std::env::var("PARSER").unwrap_or_default();
    PARSERS.iter().find(|parser| parser.name == name).unwrap_or_else(|| {
        let names: Vec<_> = PARSERS.iter().map(|parser| parser.name).collect();
        eprintln!("PARSER must name one of {}", names.join(", "));
        exit(2);
    })
});

fuzz_target!(
    init: {
        let corpus = std::env::args_os().nth(1).unwrap_or_default();
        for (number, sample) in (PARSER.samples)().into_iter().enumerate() {
            if Path::new(&corpus).is_dir() {
                let name = format!("sample-{number}");
                std::fs::write(Path::new(&corpus).join(name), sample).expect("a corpus to write \
                to");
            }
        }
    },
    |input: &[u8]| (PARSER.run)(input)
);
