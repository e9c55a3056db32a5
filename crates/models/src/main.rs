//! Takes a model through its states and prints how many there are. Ends with 1 if it is refuted.

use std::process::ExitCode;
use std::time::Instant;

use tabane_models::removal::Removal;
use tabane_models::report::{Traces, explore};

const USAGE: &str = "tabane-models removal BACKUPS PRUNES [STEPS]
BACKUPS: 0 to 3. PRUNES: 0 to 2. STEPS: about how many to take at most; without it, all.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers = arguments
        .iter()
        .skip(1)
        .map(|number| number.parse::<usize>());
    let numbers: Vec<usize> = numbers.map_while(Result::ok).collect();
    let (backups, prunes, steps_max) = match (arguments.first().map(String::as_str), &numbers[..]) {
        (Some("removal"), &[backups, prunes]) => (backups, prunes, None),
        (Some("removal"), &[backups, prunes, steps]) => (backups, prunes, Some(steps)),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let since = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    let found = explore(
        Removal::new(backups, prunes),
        threads,
        steps_max,
        Traces::Any,
    );
    found.print(
        &format!("removal, {backups} backups, {prunes} prunes, a forget"),
        since,
    );
    ExitCode::from(u8::from(!found.refuted.is_empty()))
}
