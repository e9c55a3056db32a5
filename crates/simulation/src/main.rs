//! Simulates runs by seeds, and prints the first that fails, made smaller.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use clap::Parser;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tabane_simulation::plan::{PlaceKind, Plan};
use tabane_simulation::run::{Shared, Tally, run};
use tabane_simulation::shrink;
use tabane_testing::progress;

/// How often a smaller plan is tried: names of objects are random, and the threads of a client are
/// in no fixed order.
const TRIES: usize = 20;

/// Let many clients use one repository at once, on storage that fails, and check that nothing is
/// lost.
#[derive(Parser)]
struct Args {
    /// How many seeds, for each kind of place
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Where the repository is
    #[arg(long, value_delimiter = ',', default_value = "memory,set")]
    place: Vec<PlaceKind>,
    /// Print a plan that fails as it is, instead of making it smaller
    #[arg(long)]
    whole: bool,
    /// Run this plan alone, as a failure prints it, until it fails, and print every operation
    #[arg(long, value_name = "JSON")]
    plan: Option<String>,
    /// How often to run it at most: names of objects are random, and the threads of a client are
    /// in no fixed order
    #[arg(long, default_value_t = 100, requires = "plan")]
    tries: usize,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let shared = Shared::default();
    if let Some(plan) = &args.plan {
        return match serde_json::from_str::<Plan>(plan) {
            Err(error) => {
                eprintln!("no plan of this version: {error}");
                ExitCode::from(2)
            }
            Ok(plan) => {
                let mut runs = (0..args.tries).map(|_| run(&plan, &shared, true));
                match runs.find_map(Result::err) {
                    None => {
                        println!("{} runs, nothing is wrong", args.tries);
                        ExitCode::SUCCESS
                    }
                    Some(failed) => {
                        println!("{}\nFAILED: {}", failed.operations, failed.why);
                        ExitCode::FAILURE
                    }
                }
            }
        };
    }
    for &place in &args.place {
        if !try_seeds(&args, place, &shared) {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Keeps this thread, and those that it starts, on one of the processors that it may use: clients
/// mostly wait for each other, and wake each other sooner there.
fn stay_on_processor(number: usize) {
    let usable = sched_getaffinity(None).unwrap_or_default();
    let mut usable = (0..CpuSet::MAX_CPU).filter(|&processor| usable.is_set(processor));
    if let Some(processor) = usable.nth(number) {
        let mut one = CpuSet::new();
        one.set(processor);
        // Without it runs are slower, that is all.
        let _ = sched_setaffinity(None, &one);
    }
}

/// Tries all seeds at one kind of place; says whether all went well.
fn try_seeds(args: &Args, place: PlaceKind, shared: &Shared) -> bool {
    let begun = Instant::now();
    let next = AtomicU64::new(args.first);
    let end = args.first + args.seeds;
    let totals = Mutex::new(Tally::default());
    let failed: Mutex<Option<(u64, String)>> = Mutex::new(None);
    let processors = thread::available_parallelism().map_or(1, |count| count.get());
    thread::scope(|scope| {
        let (next, totals, failed) = (&next, &totals, &failed);
        for number in 0..processors {
            scope.spawn(move || {
                stay_on_processor(number);
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end || failed.lock().expect("no panic").is_some() {
                        return;
                    }
                    if seed.is_multiple_of(100) {
                        progress::show(&format!("{place:?}: seed {seed}"));
                    }
                    match run(&Plan::from_seed(seed, place), shared, false) {
                        Ok(tally) => {
                            let mut totals = totals.lock().expect("no panic");
                            totals.turns += tally.turns;
                            totals.refused += tally.refused;
                            totals.new_targets += tally.new_targets;
                        }
                        Err(error) => {
                            let mut failed = failed.lock().expect("no panic");
                            if failed.as_ref().is_none_or(|(other, _)| seed < *other) {
                                *failed = Some((seed, error.why));
                            }
                        }
                    }
                }
            });
        }
    });
    progress::show("");
    if let Some((seed, why)) = failed.into_inner().expect("no panic") {
        println!(
            "FAILED: {place:?}, seed {seed}, after {:.0} s: {why}",
            begun.elapsed().as_secs_f64()
        );
        let mut plan = Plan::from_seed(seed, place);
        if !args.whole {
            let fails = |plan: &Plan| (0..TRIES).any(|_| run(plan, shared, false).is_err());
            plan = shrink(plan, fails);
        }
        let json = serde_json::to_string(&plan).expect("a plan is JSON");
        println!("A plan that fails, to see by --plan:\n{json}");
        return false;
    }
    let totals = totals.into_inner().expect("no panic");
    println!(
        "{place:?}: seeds {} to {}, {} operations of storage, {} times somebody was told to try \
         again, {} new targets; nothing is lost ({:.0} s)",
        args.first,
        end - 1,
        totals.turns,
        totals.refused,
        totals.new_targets,
        begun.elapsed().as_secs_f64()
    );
    true
}
