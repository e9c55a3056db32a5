//! Makes a run that fails smaller.

use crate::plan::Plan;

/// The smallest plan found that still fails, as `fails` says.
pub fn shrink(plan: Plan, fails: impl Fn(&Plan) -> bool) -> Plan {
    let mut smallest = plan;
    while let Some(smaller) = smallest.smaller().into_iter().find(&fails) {
        smallest = smaller;
    }
    smallest
}
