//! How often backups come, and which are late.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tabane_store::Id;
use tabane_store::lister::Listed;
use tabane_store::snapshot::Snapshot;

/// Gaps from which a rhythm is told: fewer tell nothing.
const GAPS_MIN: usize = 3;

/// The latest gaps count.
const GAPS_MAX: usize = 15;

/// A backup is late when it is away for this many times the usual.
const LATE_TIMES: f64 = 2.0;

/// And for at least this long beyond the usual: half an hour more is no reason to worry.
const LATE_MIN: Duration = Duration::from_secs(6 * 3600);

type Snapshots = Vec<(Id, Arc<Snapshot>)>;

/// Backups of the same paths of the same machine.
pub struct Source {
    /// The machine.
    pub host: String,
    /// The paths.
    pub paths: Vec<String>,
    /// Snapshots of it, oldest first.
    pub snapshots: Snapshots,
    /// The usual time from one to the next; nothing for few or irregular ones.
    pub every: Option<Duration>,
    /// Whether the next one is late.
    pub is_late: bool,
}

impl Source {
    /// The latest snapshot.
    pub fn latest(&self) -> &(Id, Arc<Snapshot>) {
        self.snapshots.last().expect("a source has a snapshot")
    }
}

/// The sources of all snapshots, those with the latest one first. `expected` replaces the usual
/// time from one to the next.
pub fn sources(listed: &Listed, expected: Option<Duration>, now: Timestamp) -> Vec<Source> {
    let mut grouped: BTreeMap<(&str, &[String]), Snapshots> = BTreeMap::new();
    for (id, snapshot) in listed.snapshots() {
        let group = grouped.entry((&snapshot.hostname, &snapshot.paths));
        group.or_default().push((*id, Arc::clone(snapshot)));
    }
    let mut sources: Vec<Source> = grouped
        .into_iter()
        .map(|((host, paths), snapshots)| {
            let times: Vec<Timestamp> = snapshots.iter().map(|(_, at)| at.time).collect();
            let away = away(&times, now);
            let every = usual(&times);
            let is_late = match expected {
                Some(expected) => away > expected,
                None => every.is_some_and(|every| {
                    away > every.mul_f64(LATE_TIMES) && away > every + LATE_MIN
                }),
            };
            Source {
                host: host.to_owned(),
                paths: paths.to_vec(),
                every: expected.or(every),
                is_late,
                snapshots,
            }
        })
        .collect();
    sources.sort_by_key(|source| std::cmp::Reverse(source.latest().1.time));
    sources
}

/// The time since the latest one; none for one of the future.
fn away(times: &[Timestamp], now: Timestamp) -> Duration {
    let latest = times.last().copied().unwrap_or(now);
    Duration::try_from(now.duration_since(latest)).unwrap_or_default()
}

/// The middle one of the latest gaps, if most of them are alike.
fn usual(times: &[Timestamp]) -> Option<Duration> {
    let gaps = times.windows(2).rev().take(GAPS_MAX);
    let mut gaps: Vec<Duration> = gaps
        .map(|pair| Duration::try_from(pair[1].duration_since(pair[0])).unwrap_or_default())
        .collect();
    gaps.sort_unstable();
    let middle = *gaps
        .get(gaps.len() / 2)
        .filter(|_| gaps.len() >= GAPS_MIN)?;
    let is_alike = |gap: &&Duration| **gap >= middle / 2 && **gap <= middle * 2;
    (gaps.iter().filter(is_alike).count() * 3 >= gaps.len() * 2).then_some(middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(hours: &[i64]) -> Vec<Timestamp> {
        let time = |hours: &i64| Timestamp::from_second(hours * 3600).expect("a time");
        hours.iter().map(time).collect()
    }

    #[test]
    fn a_rhythm_is_told_from_several_alike_gaps() {
        let day = Some(Duration::from_secs(24 * 3600));
        assert_eq!(usual(&times(&[0, 24, 48, 72])), day);
        assert_eq!(usual(&times(&[0, 24, 48, 120, 144, 168])), day);
        assert_eq!(usual(&times(&[0, 24, 48])), None);
        // Whenever somebody thought of it.
        assert_eq!(usual(&times(&[0, 1, 2, 90, 91, 400, 900])), None);
    }
}
