//! Takes a model through its states and prints how many there are. Ends with 1 if it is refuted.

#![forbid(unsafe_code)]

use std::fmt::Debug;
use std::hash::Hash;
use std::process::ExitCode;
use std::time::Instant;

use stateright::Model;
use tabane_models::cluster::{self, Cluster, Way};
use tabane_models::groups::{self, Groups};
use tabane_models::removal::Removal;
use tabane_models::report::{Traces, explore};

const USAGE: &str = "tabane-models removal BACKUPS PRUNES [STEPS]
tabane-models far-removal BACKUPS PRUNES [STEPS]
tabane-models cluster FAULTS HEALS [STEPS]
tabane-models groups FAULTS MOVERS [STEPS]
BACKUPS: 0 to 3. PRUNES, FAULTS, HEALS, MOVERS: 0 to 2.
STEPS: about how many to take at most; without it, all.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers = arguments
        .iter()
        .skip(1)
        .map(|number| number.parse::<usize>());
    let numbers: Vec<usize> = numbers.map_while(Result::ok).collect();
    let (one, other, steps_max) = match numbers[..] {
        [one, other] => (one, other, None),
        [one, other, steps] => (one, other, Some(steps)),
        _ => return misused(),
    };
    match arguments[0].as_str() {
        "removal" if one <= 3 && other <= 2 => take(
            &format!("removal, {one} backups, {other} prunes, a forget"),
            Removal::new(one, other),
            steps_max,
        ),
        "far-removal" if one <= 3 && other <= 2 => take(
            &format!("removal far away, {one} backups, {other} prunes, a forget"),
            Removal {
                is_far: true,
                ..Removal::new(one, other)
            },
            steps_max,
        ),
        "cluster" if one <= 2 && other <= cluster::HEALS => take(
            &format!("cluster, four nodes, {one} faults, {other} heals"),
            Cluster {
                way: Way::Ours,
                faults: one as u8,
                heals: other,
            },
            steps_max,
        ),
        "groups" if one <= 2 && other <= groups::MOVERS_MAX => {
            let sizes = Groups::together(one as u8, other).into_iter();
            let codes = sizes.map(|(what, model)| {
                let what = format!("groups, {what}, {one} faults, {other} move objects");
                take(&what, model, steps_max)
            });
            codes.fold(ExitCode::SUCCESS, |all, code| {
                if code == ExitCode::SUCCESS { all } else { code }
            })
        }
        _ => misused(),
    }
}

fn misused() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

fn take<M>(what: &str, model: M, steps_max: Option<usize>) -> ExitCode
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq,
{
    let since = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    let found = explore(model, threads, steps_max, Traces::Any);
    found.print(what, since);
    ExitCode::from(u8::from(!found.refuted.is_empty()))
}
