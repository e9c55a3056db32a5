//! Notices that nothing arrives any more of what was sent to a member.

use std::time::{Duration, Instant};

/// For how long nothing may arrive. The system ends a connection as early when nothing is
/// acknowledged, but not while it has no route to the peer.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(8);

/// What has arrived at each member, and when that last changed.
#[derive(Default)]
pub struct Arrivals(Vec<(u64, Instant)>);

impl Arrivals {
    /// Looks at how many bytes were sent to each member, and how many of them have arrived. Returns
    /// a member at which none have arrived for too long, although some are on their way.
    pub fn stuck(&mut self, now: Instant, flows: &[(u64, u64)]) -> Option<usize> {
        self.0.resize(flows.len(), (0, now));
        let mut flows = flows.iter().zip(&mut self.0);
        flows.position(|(&(sent, arrived), (before, changed))| {
            if sent == arrived || arrived != *before {
                (*before, *changed) = (arrived, now);
            }
            now.duration_since(*changed) >= ARRIVAL_TIMEOUT
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_stuck_when_nothing_arrives_though_something_was_sent() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut arrivals = Arrivals::default();
        let mut stuck = |seconds, flows: &[(u64, u64)]| arrivals.stuck(at(seconds), flows);
        assert_eq!(stuck(0, &[(10, 10), (20, 5)]), None);
        assert_eq!(stuck(7, &[(10, 10), (20, 5)]), None);
        assert_eq!(stuck(7, &[(10, 10), (20, 6)]), None, "a byte has arrived");
        assert_eq!(stuck(13, &[(10, 10), (20, 6)]), None);
        assert_eq!(stuck(14, &[(30, 10), (20, 6)]), None);
        assert_eq!(stuck(15, &[(30, 10), (20, 6)]), Some(1));
        assert_eq!(stuck(15, &[(30, 10), (20, 20)]), None);
        // What is idle is not stuck.
        assert_eq!(stuck(30, &[(30, 30), (20, 20)]), None);
        assert_eq!(stuck(31, &[(40, 30), (20, 20)]), None);
    }
}
