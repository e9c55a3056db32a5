//! Every parser, for a short time, with damaged and invented bytes, and with its samples and all
//! inputs that the repository keeps. `make fuzz PARSER=…` looks longer, and sees which code was
//! reached.

use std::panic::catch_unwind;
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Resource, Rlimit, setrlimit};
use tabane_testing::corpus;
use tabane_testing::mutate::Mutator;
use tabane_testing::parsers::{PARSERS, Parser};

/// Each parser gets so long.
const TIME: Duration = Duration::from_millis(1000);

/// No input may take longer, on however busy a machine.
const INPUT_TIME_MAX: Duration = Duration::from_secs(10);

/// Who asks for more address space than this has believed a length that was only said.
const MEMORY_MAX: u64 = 4 << 30;

fn parser(name: &str) -> &'static Parser {
    let parser = PARSERS.iter().find(|parser| parser.name == name);
    parser.expect("a parser of this name")
}

/// Feeds a parser with an input, and says which one it does not survive.
fn run(parser: &Parser, input: &[u8]) {
    let begun = Instant::now();
    let ended = catch_unwind(|| (parser.run)(input));
    let took = begun.elapsed();
    assert!(
        ended.is_ok() && took < INPUT_TIME_MAX,
        "{}: after {took:?} with these bytes: {}",
        parser.name,
        hex::encode(input)
    );
}

fn fuzz(name: &str) {
    let limit = Rlimit {
        current: Some(MEMORY_MAX),
        maximum: None,
    };
    setrlimit(Resource::As, limit).expect("a limit of memory");
    let parser = parser(name);
    let samples = (parser.samples)();
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("after 1970");
    let mut mutator = Mutator::new(now.as_nanos() as u64);
    let start = Instant::now();
    let mut runs = 0;
    while start.elapsed() < TIME || runs <= samples.len() {
        let input = match samples.get(runs) {
            Some(sample) => sample.clone(),
            None => mutator.mutate(&samples),
        };
        run(parser, &input);
        runs += 1;
    }
    println!("{name}: {runs} inputs");
}

fn run_kept(name: &str) {
    let parser = parser(name);
    for input in (parser.samples)().iter().chain(&corpus::kept(name)) {
        run(parser, input);
    }
}

macro_rules! fuzz_tests {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            fuzz(stringify!($name));
        })*

        /// All samples, and all inputs that are kept.
        mod kept {
            $(#[test]
            fn $name() {
                super::run_kept(stringify!($name));
            })*
        }

        #[test]
        fn every_parser_has_a_test() {
            let names: Vec<&str> = PARSERS.iter().map(|parser| parser.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

fuzz_tests!(object key config footer segment index unverified writer_object writer_key directory
    copy snapshot removal client cache patterns request sftp container target set set_file
    wire ring borg restic check_file key_text clients web kernels);

/// The cache names its records by number, and each number may be wrong, though the seal is right.
#[test]
fn every_number_in_the_cache_may_be_wrong() {
    let parser = parser("cache");
    for sample in (parser.samples)() {
        for at in (0..sample.len() - 3).step_by(4) {
            let run = |change: &dyn Fn(&mut [u8])| {
                let mut input = sample.clone();
                change(&mut input[at..at + 4]);
                let ended = catch_unwind(|| (parser.run)(&input));
                assert!(ended.is_ok(), "at {at}");
            };
            let is_zero = sample[at..at + 4] == [0; 4];
            // Most is padding: some of it will do.
            if is_zero && at % 64 != 0 {
                continue;
            }
            run(&|bytes| bytes.fill(0xff));
            // Of numbers of any length, as those of a footer, the first seven bits.
            for byte in (0..4).filter(|_| !is_zero) {
                run(&|bytes| bytes[byte] ^= 0x10);
            }
        }
    }
}
