//! The parser of check files: any bytes are lines or not, and what is a line is one again when it
//! is written.
//!
//! The first byte of the input chooses what the file may have, the rest is the file.
#![no_main]

use std::num::NonZeroU64;

use libfuzzer_sys::fuzz_target;
use tabane_sum::{Accept, Algorithm, Format, Line, Parser, Style, Upload};

fuzz_target!(|input: &[u8]| {
    let [first, file @ ..] = input else {
        return;
    };
    let algorithms: Vec<_> = Algorithm::all().collect();
    let algorithm = algorithms[usize::from(first / 3) % algorithms.len()];
    let accept = match first % 3 {
        0 => Accept::Only(algorithm),
        1 => Accept::AnyTagged(algorithm),
        _ => Accept::Etags(Upload::new(NonZeroU64::new(u64::from(*first)).expect("at least 2"))),
    };
    let mut parser = Parser::new(accept);
    for line in file.split(|&byte| byte == b'\n') {
        if let Some(line) = parser.parse(line) {
            write_and_read_back(&line, accept);
        }
    }
});

fn write_and_read_back(line: &Line, accept: Accept) {
    assert!(!line.name.contains(&0));
    let algorithm = line.algorithm;
    let style = match accept {
        Accept::Only(_) | Accept::AnyTagged(_) => Style::Tagged(algorithm),
        // Only a tagged line can have an empty name.
        Accept::Etags(_) if line.name.is_empty() => return,
        Accept::Etags(_) => Style::Untagged { algorithm, binary: false },
    };
    let mut written = Vec::new();
    Format::new(style).write(&line.sum, &line.name, &mut written);
    assert_eq!(written.pop(), Some(b'\n'));
    assert!(!written.contains(&b'\n') && !written.contains(&b'\r'));
    assert_eq!(Parser::new(accept).parse(&written).as_ref(), Some(line));
}
