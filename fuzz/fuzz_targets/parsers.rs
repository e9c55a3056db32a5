//! The parser that the environment variable `PARSER` names: those of
//! `crates/testing/src/parsers/`, which ordinary tests run too.
#![no_main]

use std::process::exit;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tabane_fuzz::begin;
use tabane_testing::parsers::{PARSERS, Parser};

static PARSER: LazyLock<&Parser> = LazyLock::new(|| {
    let name = std::env::var("PARSER").unwrap_or_default();
    PARSERS
        .iter()
        .find(|parser| parser.name == name)
        .unwrap_or_else(|| {
            let names: Vec<_> = PARSERS.iter().map(|parser| parser.name).collect();
            eprintln!("PARSER must name one of {}", names.join(", "));
            exit(2);
        })
});

fuzz_target!(
    init: begin(PARSER.name, PARSER.samples),
    |input: &[u8]| (PARSER.run)(input)
);
