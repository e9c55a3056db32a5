//! Runs a checker and says what it found.

use std::hash::Hash;
use std::time::Instant;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

/// What a checker found.
#[derive(Debug)]
pub struct Found {
    /// Different states.
    pub states: usize,
    /// Steps from one state to another.
    pub steps: usize,
    /// Whether there was nothing more to look at.
    pub is_done: bool,
    /// Invariants that do not hold, each with the trace that leads there.
    pub refuted: Vec<(&'static str, Vec<String>)>,
    /// What should happen at some time and never did.
    pub never: Vec<&'static str>,
}

/// What traces of refuted invariants are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traces {
    /// One for each invariant, of any length.
    Any,
    /// The first one for this invariant, of any length.
    First(&'static str),
    /// The first one for this invariant, about as short as can be. States take more memory while
    /// they wait.
    Short(&'static str),
}

/// Takes a model through all its states on `threads` threads, or takes about `steps_max` steps.
pub fn explore<M>(model: M, threads: usize, steps_max: Option<usize>, traces: Traces) -> Found
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + std::fmt::Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + std::fmt::Debug + PartialEq,
{
    let mut builder = model.checker().threads(threads);
    if let Some(max) = steps_max {
        builder = builder.target_state_count(max);
    }
    if let Traces::First(invariant) | Traces::Short(invariant) = traces {
        builder = builder.finish_when(HasDiscoveries::AllOf([invariant].into()));
    }
    match traces {
        Traces::Any | Traces::First(_) => found(builder.spawn_dfs().join(), steps_max),
        Traces::Short(_) => found(builder.spawn_bfs().join(), steps_max),
    }
}

fn found<M>(checker: impl Checker<M>, steps_max: Option<usize>) -> Found
where
    M: Model,
    M::State: Clone + std::fmt::Debug + Hash + PartialEq,
    M::Action: Clone + std::fmt::Debug + PartialEq,
{
    let discoveries = checker.discoveries();
    let (mut refuted, mut never) = (Vec::new(), Vec::new());
    for property in checker.model().properties() {
        let trace = discoveries.get(property.name);
        match (property.expectation, trace) {
            (Expectation::Always | Expectation::Eventually, Some(trace)) => {
                let step = |(state, action): (M::State, Option<M::Action>)| {
                    action.and_then(|action| checker.model().format_step(&state, action))
                };
                let trace = trace.clone().into_vec().into_iter().filter_map(step);
                refuted.push((property.name, trace.collect()));
            }
            (Expectation::Sometimes, None) => never.push(property.name),
            _ => {}
        }
    }
    Found {
        states: checker.unique_state_count(),
        steps: checker.state_count(),
        is_done: steps_max.is_none_or(|max| checker.state_count() < max) && refuted.is_empty(),
        refuted,
        never,
    }
}

impl Found {
    /// Panics, with traces, unless all states were looked at and nothing is refuted.
    pub fn assert_holds(&self) {
        let Self { refuted, .. } = self;
        assert!(self.is_done && refuted.is_empty(), "{refuted:?}");
    }

    /// Whether this invariant does not hold.
    pub fn refutes(&self, invariant: &str) -> bool {
        self.refuted.iter().any(|&(name, _)| name == invariant)
    }

    /// Prints it.
    pub fn print(&self, what: &str, since: Instant) {
        let how = if self.is_done { "all" } else { "not all" };
        println!(
            "{what}: {} states ({how} of them), {} steps, {:.1} s",
            self.states,
            self.steps,
            since.elapsed().as_secs_f64()
        );
        for (property, trace) in &self.refuted {
            println!("  REFUTED: {property}");
            for step in trace {
                println!("    {step}");
            }
        }
        for property in &self.never {
            println!("  NEVER: {property}");
        }
    }
}

/// Panics unless all of this holds and each thing that should happen does so in some of it.
pub fn assert_all_hold(found: &[Found]) {
    for found in found {
        found.assert_holds();
    }
    let is_never = |what: &&str| found.iter().all(|found| found.never.contains(what));
    assert!(!found[0].never.iter().any(is_never), "{found:?}");
}
