//! Rules that keep snapshots, and the removal of snapshots that no rule keeps.
//!
//! The rules are restic's. Each rule goes through the snapshots from the newest to the oldest,
//! independently of the others: a snapshot stays if any rule keeps it.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, Timestamp, Zoned};

use crate::access::repository::Repository;
use tabane_format::snapshot::{Retention, Snapshot, has_tags};
use tabane_format::writer_key::WriterId;
use tabane_format::{Error, Result};
use tabane_storage::{Id, Name, ObjectKind};

pub use tabane_format::snapshot::GroupBy;

/// Stretches of the local calendar, of which a rule keeps the latest snapshot each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// So short that every snapshot has its own.
    Each,
    /// Second 0 to 59.
    Minute,
    /// `:00` to `:59`.
    Hour,
    /// Midnight to midnight.
    Day,
    /// Monday to Sunday (ISO 8601).
    Week,
    /// A calendar month.
    Month,
    /// January to March, and so on.
    Quarter,
    /// January to June, July to December.
    HalfYear,
    /// January to December.
    Year,
}

impl Period {
    /// All periods, the shortest first.
    pub const ALL: [Self; 9] = [
        Self::Each,
        Self::Minute,
        Self::Hour,
        Self::Day,
        Self::Week,
        Self::Month,
        Self::Quarter,
        Self::HalfYear,
        Self::Year,
    ];

    /// The name of its snapshots: `last`, `hourly`, …
    pub fn name(self) -> &'static str {
        match self {
            Self::Each => "last",
            Self::Minute => "minutely",
            Self::Hour => "hourly",
            Self::Day => "daily",
            Self::Week => "weekly",
            Self::Month => "monthly",
            Self::Quarter => "quarter-yearly",
            Self::HalfYear => "half-yearly",
            Self::Year => "yearly",
        }
    }

    /// Numbers that identify the period of a time; `number` is the snapshot's place in its group.
    fn of(self, time: &Zoned, number: usize) -> [i64; 5] {
        let date = time.date();
        let week = date.iso_week_date();
        let (year, month, day) = (date.year().into(), date.month().into(), date.day().into());
        let (hour, minute) = (time.hour().into(), time.minute().into());
        match self {
            Self::Each => [number as i64, 0, 0, 0, 0],
            Self::Minute => [year, month, day, hour, minute],
            Self::Hour => [year, month, day, hour, 0],
            Self::Day => [year, month, day, 0, 0],
            Self::Week => [week.year().into(), week.week().into(), 0, 0, 0],
            Self::Month => [year, month, 0, 0, 0],
            Self::Quarter => [year, (month - 1) / 3, 0, 0, 0],
            Self::HalfYear => [year, (month - 1) / 6, 0, 0, 0],
            Self::Year => [year, 0, 0, 0, 0],
        }
    }
}

/// The number of snapshots that a rule keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// At most this many.
    AtMost(u32),
    /// As many as there are.
    Unlimited,
}

impl FromStr for Count {
    type Err = Error;

    /// Reads a number, or `unlimited`, for which restic also takes -1.
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "unlimited" | "-1" => Ok(Self::Unlimited),
            _ => text.parse().map(Self::AtMost).map_err(|_| {
                Error::Invalid(format!(
                    "{text:?} is no number of snapshots: write a number, or unlimited"
                ))
            }),
        }
    }
}

/// A length of time by the calendar: `2y5m7d3h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Age {
    years: u16,
    months: u16,
    days: u16,
    hours: u16,
}

impl Age {
    /// The time this long before `latest`, as restic computes it: a day that the month lacks runs
    /// on into the next month, so that a month before 31 March is 3 March (2 March in a leap year).
    /// Times before the calendar's range become the earliest timestamp.
    fn before(self, latest: &Zoned) -> Timestamp {
        let start = || {
            let date = latest.date();
            let months = i64::from(self.years) * 12 + i64::from(self.months);
            let months = Span::new().try_months(months).ok()?;
            let start = date.first_of_month().checked_sub(months).ok()?;
            let days = i64::from(date.day()) - 1 - i64::from(self.days);
            let start = start.checked_add(Span::new().days(days)).ok()?;
            let start = start.to_datetime(latest.time());
            let start = start.to_zoned(latest.time_zone().clone()).ok()?;
            let hours = SignedDuration::from_hours(self.hours.into());
            start.timestamp().checked_sub(hours).ok()
        };
        start().unwrap_or(Timestamp::MIN)
    }

    /// The time this long after `start`; the latest timestamp if that is out of range.
    pub fn after(self, start: &Zoned) -> Timestamp {
        let span = || {
            let months = i64::from(self.years) * 12 + i64::from(self.months);
            let span = Span::new().try_months(months)?;
            span.try_days(self.days)?.try_hours(self.hours)
        };
        let end = span().and_then(|span| start.checked_add(span));
        end.map_or(Timestamp::MAX, |end| end.timestamp())
    }
}

impl FromStr for Age {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unusable = || {
            Error::Invalid(format!(
                "{text:?} is no length of time: write years, months, days and hours, as 1y6m, 14d \
                 or 36h"
            ))
        };
        let mut age = Self::default();
        let mut rest = text;
        while let Some(at) = rest.find(|character: char| !character.is_ascii_digit()) {
            let (digits, unit) = rest.split_at(at);
            let place = match unit.as_bytes()[0] {
                b'y' => &mut age.years,
                b'm' => &mut age.months,
                b'd' => &mut age.days,
                b'h' => &mut age.hours,
                _ => return Err(unusable()),
            };
            *place = digits.parse().map_err(|_| unusable())?;
            rest = &unit[1..];
        }
        if rest.is_empty() && age != Self::default() {
            Ok(age)
        } else {
            Err(unusable())
        }
    }
}

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [self.years, self.months, self.days, self.hours];
        for (number, unit) in parts.into_iter().zip(["y", "m", "d", "h"]) {
            if number > 0 {
                write!(f, "{number}{unit}")?;
            }
        }
        Ok(())
    }
}

/// A rule that keeps snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The latest snapshot of each of this many periods. If there are fewer periods, the oldest
    /// snapshot of all stays too, so that history reaches back as far as possible.
    Last(Period, Count),
    /// The latest snapshot of each period that is younger than this age, measured from the latest
    /// snapshot and not from the clock. The oldest snapshot of all stays too if it is younger.
    Within(Period, Age),
    /// Snapshots with all of these tags.
    Tags(Vec<String>),
}

impl fmt::Display for Rule {
    /// The reason as text: `daily snapshot`, `within 1y`, `hourly within 7d`, `has tags [a, b]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Last(period, _) => write!(f, "{} snapshot", period.name()),
            Self::Within(Period::Each, age) => write!(f, "within {age}"),
            Self::Within(period, age) => write!(f, "{} within {age}", period.name()),
            Self::Tags(tags) => write!(f, "has tags [{}]", tags.join(", ")),
        }
    }
}

/// The reasons to keep each snapshot of a group, in the order of `group`; a snapshot without a
/// reason is removed.
///
/// Periods are those of `zone`. Snapshots dated after `now`, and [`misdated`] ones, stay and count
/// for no rule: a fast clock or forged snapshots make no other snapshot old or superfluous. Nor do
/// snapshots that say themselves how long they stay. Ages are measured from the latest of the other
/// snapshots.
pub fn reasons(
    rules: &[Rule],
    group: &[(Id, Snapshot)],
    zone: &TimeZone,
    now: Timestamp,
    misdated: &HashSet<Id>,
) -> Vec<Vec<String>> {
    let zoned = |at: &usize| group[*at].1.time.to_zoned(zone.clone());
    let mut reasons = vec![Vec::new(); group.len()];
    let mut newest_first = Vec::new();
    for (at, (id, snapshot)) in group.iter().enumerate() {
        match snapshot.retention {
            Some(Retention::Never) => reasons[at].push("never to be removed".to_owned()),
            Some(Retention::Until(time)) if time > now => {
                reasons[at].push(format!("wanted until {}", time.strftime("%F")));
            }
            Some(Retention::Until(_)) => {}
            None if snapshot.time > now => reasons[at].push("dated in the future".to_owned()),
            None if misdated.contains(id) => {
                reasons[at].push("dated otherwise than it was stored".to_owned());
            }
            None => newest_first.push(at),
        }
    }
    newest_first.sort_by_key(|&at| Reverse(group[at].1.order(group[at].0)));
    let Some(latest) = newest_first.first().map(zoned) else {
        return reasons;
    };
    for rule in rules {
        let start = match rule {
            Rule::Within(_, age) => age.before(&latest),
            _ => Timestamp::MIN,
        };
        let (mut kept, mut period_before) = (0, None);
        for (number, &at) in newest_first.iter().enumerate() {
            let snapshot = &group[at].1;
            match rule {
                Rule::Tags(tags) => {
                    if has_tags(snapshot, tags) {
                        reasons[at].push(rule.to_string());
                    }
                }
                Rule::Last(period, count) => {
                    if matches!(count, Count::AtMost(most) if kept == *most) {
                        break;
                    }
                    let period = Some(period.of(&zoned(&at), number));
                    if period != period_before {
                        reasons[at].push(rule.to_string());
                    } else if number + 1 == newest_first.len() {
                        reasons[at].push(format!("oldest {rule}"));
                    } else {
                        continue;
                    }
                    (kept, period_before) = (kept + 1, period);
                }
                Rule::Within(period, _) => {
                    if snapshot.time <= start {
                        break;
                    }
                    let period = Some(period.of(&zoned(&at), number));
                    if period != period_before {
                        reasons[at].push(rule.to_string());
                    } else if number + 1 == newest_first.len() {
                        reasons[at].push(format!("oldest {rule}"));
                    }
                    period_before = period;
                }
            }
        }
    }
    reasons
}

/// How far the time of a write-only key's snapshot may be from the time at which it was stored: a
/// backup may take long.
const MISDATING_MAX: Duration = Duration::from_secs(24 * 3600);

/// The snapshots of write-only keys whose time differs by more than a day from the time at which
/// the storage got them. Whoever stole such a key can date snapshots as they like, so that rules
/// would keep these instead of others.
///
/// # Errors
/// When the storage fails.
pub fn misdated<'a>(
    repository: &Repository,
    snapshots: impl IntoIterator<Item = (&'a Id, &'a Snapshot)>,
) -> Result<HashSet<Id>> {
    let kind = ObjectKind::Snapshot;
    let mut misdated = HashSet::new();
    let snapshots = snapshots.into_iter();
    let of_writers: Vec<_> = snapshots
        .filter(|(_, made)| made.writer.is_some())
        .collect();
    if of_writers.is_empty() {
        return Ok(misdated);
    }
    let listed = repository.list_with_times(kind)?;
    let stored: HashMap<Id, SystemTime> = listed
        .into_iter()
        .map(|object| (object.id, object.modified))
        .collect();
    for (id, snapshot) in of_writers {
        let Some(&stored) = stored.get(id) else {
            continue;
        };
        let dated = SystemTime::from(snapshot.time);
        let apart = stored.duration_since(dated);
        let apart = apart.unwrap_or_else(|error| error.duration());
        // One that a full key has made of it is stored later.
        if apart > MISDATING_MAX && repository.is_sealed_by_writer(Name::new(kind, *id))? {
            misdated.insert(*id);
        }
    }
    Ok(misdated)
}

/// Snapshots to which rules are applied together. No group has snapshots of several write-only
/// keys, or of one and of full keys: those of a stolen key make no others superfluous.
#[derive(Clone, Debug)]
pub struct Group {
    /// The write-only key that made the snapshots; nothing for full keys.
    pub writer: Option<WriterId>,
    /// The host name, when grouping by host.
    pub host: Option<String>,
    /// The paths, when grouping by paths.
    pub paths: Option<Vec<String>>,
    /// The tags, sorted, when grouping by tags.
    pub tags: Option<Vec<String>>,
    /// The group's snapshots, in the order of the input.
    pub snapshots: Vec<(Id, Snapshot)>,
}

/// Divides snapshots into groups, each in the place of its first snapshot.
pub fn group(snapshots: Vec<(Id, Snapshot)>, by: GroupBy) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (id, snapshot) in snapshots {
        let sorted = |list: &[String]| {
            let mut list = list.to_vec();
            list.sort();
            list
        };
        let host = by.host.then(|| snapshot.hostname.clone());
        let paths = by.paths.then(|| sorted(&snapshot.paths));
        let tags = by.tags.then(|| sorted(&snapshot.tags));
        let writer = snapshot.writer;
        let same = |group: &&mut Group| {
            let key = (&group.host, &group.paths, &group.tags, group.writer);
            key == (&host, &paths, &tags, writer)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.snapshots.push((id, snapshot)),
            None => groups.push(Group {
                writer,
                host,
                paths,
                tags,
                snapshots: vec![(id, snapshot)],
            }),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use jiff::civil::{DateTime, date};
    use proptest::prelude::*;

    use super::*;

    fn snapshot(number: usize, time: Timestamp, tags: &[&str]) -> (Id, Snapshot) {
        let mut id = Id::default();
        id.0[..8].copy_from_slice(&(number as u64).to_be_bytes());
        let snapshot = Snapshot {
            time,
            hostname: "host".to_owned(),
            username: "user".to_owned(),
            paths: vec!["/home".to_owned()],
            tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
            ..Snapshot::default()
        };
        (id, snapshot)
    }

    fn at(times: &[&str]) -> Vec<(Id, Snapshot)> {
        let time = |text: &str| {
            text.parse::<DateTime>()
                .expect(text)
                .to_zoned(TimeZone::UTC)
        };
        let times = times.iter().enumerate();
        times
            .map(|(number, text)| snapshot(number, time(text).expect(text).timestamp(), &[]))
            .collect()
    }

    fn far_future() -> Timestamp {
        date(2100, 1, 1)
            .to_zoned(TimeZone::UTC)
            .unwrap()
            .timestamp()
    }

    /// Numbers of the kept snapshots.
    fn kept(rules: &[Rule], group: &[(Id, Snapshot)]) -> BTreeSet<usize> {
        let reasons = reasons(rules, group, &TimeZone::UTC, far_future(), &HashSet::new());
        (0..group.len())
            .filter(|&at| !reasons[at].is_empty())
            .collect()
    }

    fn last(period: Period, most: u32) -> Rule {
        Rule::Last(period, Count::AtMost(most))
    }

    /// Examples of restic's manual: snapshots on Sundays, and a century of daily ones.
    #[test]
    fn the_examples_of_restics_manual() {
        let sundays = at(&[
            "2012-07-08T08:15:00",
            "2014-11-22T10:00:00",
            "2014-11-09T10:00:00",
            "2014-11-16T10:00:00",
            "2014-11-23T10:00:00",
            "2014-11-30T10:00:00",
        ]);
        assert_eq!(kept(&[last(Period::Each, 2)], &sundays), [4, 5].into());
        assert_eq!(kept(&[last(Period::Month, 1)], &sundays), [5].into());
        // Only two years have snapshots, so the oldest stays.
        assert_eq!(kept(&[last(Period::Year, 3)], &sundays), [0, 5].into());
        // The 22nd was a Saturday, in the week of the 23rd.
        assert_eq!(kept(&[last(Period::Week, 3)], &sundays), [3, 4, 5].into());

        // "Suppose you make daily backups for 100 years": keep 7 days, 5 weeks, 12 months and 75
        // years.
        let days: Vec<_> = (0..36_525_usize)
            .map(|day| {
                let time = date(2000, 1, 1).at(12, 0, 0, 0).to_zoned(TimeZone::UTC);
                let time = time.unwrap() + Span::new().days(day as i64);
                snapshot(day, time.timestamp(), &[])
            })
            .collect();
        let rules = [
            last(Period::Day, 7),
            last(Period::Week, 5),
            last(Period::Month, 12),
            last(Period::Year, 75),
        ];
        // "The most recent day, week, month and year are the same snapshot", and others may fall
        // together too.
        let union = rules
            .iter()
            .flat_map(|rule| kept(std::slice::from_ref(rule), &days));
        assert_eq!(kept(&rules, &days), union.collect());
        assert!((7 + 4 + 11 + 74 - 3..=7 + 4 + 11 + 74).contains(&kept(&rules, &days).len()));
    }

    #[test]
    fn reasons_are_given_in_the_order_of_the_rules() {
        let mut group = at(&["2026-01-01T10:00", "2026-01-01T10:30", "2026-01-02T10:00"]);
        group[1].1.tags = vec!["a".to_owned(), "b".to_owned()];
        let rules = [
            Rule::Tags(vec!["b".to_owned(), "a".to_owned()]),
            Rule::Within(Period::Each, "1d".parse().unwrap()),
            last(Period::Day, 3),
            Rule::Within(Period::Hour, "2d".parse().unwrap()),
        ];
        assert_eq!(
            reasons(
                &rules,
                &group,
                &TimeZone::UTC,
                far_future(),
                &HashSet::new()
            ),
            [
                vec!["oldest daily snapshot", "oldest hourly within 2d"],
                vec![
                    "has tags [b, a]",
                    "within 1d",
                    "daily snapshot",
                    "hourly within 2d"
                ],
                vec!["within 1d", "daily snapshot", "hourly within 2d"],
            ]
        );
    }

    #[test]
    fn the_oldest_stays_within_an_age_that_reaches_it() {
        let group = at(&["2023-01-02T10:00", "2023-06-01T10:00", "2026-01-01T10:00"]);
        let within = |age: &str| kept(&[Rule::Within(Period::Year, age.parse().unwrap())], &group);
        assert_eq!(within("10y"), [0, 1, 2].into());
        assert_eq!(within("2y300d"), [1, 2].into());
    }

    #[test]
    fn of_one_time_the_snapshot_that_lacks_nothing_stays() {
        for damaged in [0, 1] {
            let mut group = at(&["2026-01-01T00:00", "2026-01-01T00:00"]);
            group[damaged].1.summary.errors = 1;
            for rule in [last(Period::Each, 1), last(Period::Day, 1)] {
                assert_eq!(kept(&[rule], &group), [1 - damaged].into());
            }
        }
    }

    #[test]
    fn quarters_and_halves_of_years_are_those_of_the_calendar() {
        let group = at(&[
            "2026-01-01T00:00:00",
            "2026-03-31T23:59:59",
            "2026-04-01T00:00:00",
            "2026-06-30T23:58:59",
            "2026-06-30T23:59:00",
            "2026-06-30T23:59:59",
            "2026-07-01T00:00:00",
        ]);
        assert_eq!(kept(&[last(Period::Quarter, 3)], &group), [1, 5, 6].into());
        assert_eq!(kept(&[last(Period::HalfYear, 2)], &group), [5, 6].into());
        // There are two, and the oldest snapshot stays too.
        assert_eq!(kept(&[last(Period::HalfYear, 3)], &group), [0, 5, 6].into());
        assert_eq!(kept(&[last(Period::Minute, 3)], &group), [3, 5, 6].into());
    }

    /// Midnight and the repeated hour are those of the time zone.
    #[test]
    fn days_are_those_of_the_time_zone() {
        let berlin = TimeZone::get("Europe/Berlin").expect("jiff knows it");
        // 23:30 and 00:30 in Berlin.
        let group = at(&["2026-01-01T22:30", "2026-01-01T23:30"]);
        let rules = [last(Period::Day, 2)];
        let of = |zone: TimeZone| reasons(&rules, &group, &zone, far_future(), &HashSet::new());
        assert_eq!(of(berlin.clone()), [["daily snapshot"], ["daily snapshot"]]);
        assert_eq!(
            of(TimeZone::UTC),
            [["oldest daily snapshot"], ["daily snapshot"]]
        );
        // 02:30 in summer and 02:30 in winter, as restic has it.
        let group = at(&["2026-10-25T00:30", "2026-10-25T01:30"]);
        let found = reasons(
            &[last(Period::Hour, 1)],
            &group,
            &berlin,
            far_future(),
            &HashSet::new(),
        );
        assert_eq!(found, [vec![], vec!["hourly snapshot"]]);
    }

    #[test]
    fn snapshots_from_the_future_make_no_other_old_or_superfluous() {
        let now = date(2026, 6, 1)
            .to_zoned(TimeZone::UTC)
            .unwrap()
            .timestamp();
        let future = vec!["dated in the future"];
        let rules = [Rule::Within(Period::Each, "7d".parse().unwrap())];
        let group = at(&["2026-05-01T00:00", "2026-05-30T00:00", "2038-01-01T00:00"]);
        let found = reasons(&rules, &group, &TimeZone::UTC, now, &HashSet::new());
        assert_eq!(found, [vec![], vec!["within 7d"], future.clone()]);
        let found = reasons(&rules, &group[2..], &TimeZone::UTC, now, &HashSet::new());
        assert_eq!(found, std::slice::from_ref(&future));
        // The present is not the future.
        let present = group[1].1.time;
        let found = reasons(&rules, &group, &TimeZone::UTC, present, &HashSet::new());
        assert_eq!(found[1], ["within 7d"]);
        let group = at(&["2026-05-30T00:00", "2026-06-02T00:00", "2026-06-03T00:00"]);
        let found = reasons(
            &[last(Period::Day, 2)],
            &group,
            &TimeZone::UTC,
            now,
            &HashSet::new(),
        );
        assert_eq!(found, [vec!["daily snapshot"], future.clone(), future]);
    }

    #[test]
    fn what_a_snapshot_says_of_itself_goes_before_rules() {
        let mut group = at(&[
            "2026-01-01T00:00",
            "2026-01-02T00:00",
            "2026-01-03T00:00",
            "2026-01-04T00:00",
        ]);
        let time = |year| {
            date(year, 1, 1)
                .to_zoned(TimeZone::UTC)
                .unwrap()
                .timestamp()
        };
        group[0].1.retention = Some(Retention::Never);
        group[1].1.retention = Some(Retention::Until(time(2101)));
        group[3].1.retention = Some(Retention::Until(time(2099)));
        // The last one is gone, and counts for no rule.
        let rules = [last(Period::Each, 1)];
        let found = reasons(&rules, &group, &TimeZone::UTC, time(2100), &HashSet::new());
        let expected = [
            vec!["never to be removed"],
            vec!["wanted until 2101-01-01"],
            vec!["last snapshot"],
            vec![],
        ];
        assert_eq!(found, expected);
        // It is wanted until that time, not at it.
        let found = reasons(&[], &group, &TimeZone::UTC, time(2101), &HashSet::new());
        assert_eq!(found[1], [""; 0]);
    }

    #[test]
    fn misdated_snapshots_stay_and_count_for_no_rule() {
        let group = at(&["2026-01-01T00:00", "2026-01-02T00:00", "2026-01-03T00:00"]);
        let misdated = [group[2].0].into();
        let rules = [last(Period::Each, 1)];
        let found = reasons(&rules, &group, &TimeZone::UTC, far_future(), &misdated);
        let expected = [
            vec![],
            vec!["last snapshot"],
            vec!["dated otherwise than it was stored"],
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn ages_and_counts_are_read() {
        for text in ["1y", "6m", "14d", "36h", "2y5m7d3h", "65535h"] {
            assert_eq!(text.parse::<Age>().unwrap().to_string(), text);
        }
        for text in [
            "", "0d", "1", "d", "1w", "1.5d", "-1d", "1d 2h", "65536h", "1ä",
        ] {
            assert!(text.parse::<Age>().is_err(), "{text}");
        }
        assert_eq!("unlimited".parse::<Count>().unwrap(), Count::Unlimited);
        assert_eq!("-1".parse::<Count>().unwrap(), Count::Unlimited);
        assert_eq!("7".parse::<Count>().unwrap(), Count::AtMost(7));
        assert!("-2".parse::<Count>().is_err() && "all".parse::<Count>().is_err());
        // Times before the calendar's range, and the end of February.
        let latest = date(2024, 3, 31).to_zoned(TimeZone::UTC).unwrap();
        assert_eq!(
            "65535y".parse::<Age>().unwrap().before(&latest),
            Timestamp::MIN
        );
        let month = "1m".parse::<Age>().unwrap().before(&latest);
        assert_eq!(month.to_string(), "2024-03-02T00:00:00Z");
        let after = "1y1m".parse::<Age>().unwrap().after(&latest);
        assert_eq!(after.to_string(), "2025-04-30T00:00:00Z");
        assert_eq!(
            "65535y".parse::<Age>().unwrap().after(&latest),
            Timestamp::MAX
        );
        let long = "1y1m31d25h".parse::<Age>().unwrap().before(&latest);
        assert_eq!(long.to_string(), "2023-01-29T23:00:00Z");
    }

    #[test]
    fn groups_have_what_was_asked_for_in_common() {
        let mut all = at(&["2026-01-01T00:00"; 4]);
        all[1].1.hostname = "other".to_owned();
        all[2].1.paths = vec!["/srv".to_owned()];
        all[3].1.tags = vec!["b".to_owned(), "a".to_owned()];
        let count = |by: &str| group(all.clone(), by.parse().unwrap()).len();
        assert_eq!(
            ["", "host", "paths", "tags", "host,paths", "hosts,tag,path"].map(count),
            [1, 2, 2, 2, 3, 4]
        );
        let groups = group(all.clone(), "tags".parse().unwrap());
        assert_eq!(groups[1].tags, Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!((&groups[1].host, &groups[1].paths), (&None, &None));
        assert!("host,pets".parse::<GroupBy>().is_err());
    }

    fn any_group() -> impl Strategy<Value = Vec<(Id, Snapshot)>> {
        // Three years; times that are close, and the same time twice, among them.
        let time = prop_oneof![0..94_608_000_i64, 0..200_000_i64, 0..100_i64];
        let tags = prop_oneof![Just(&[][..]), Just(&["a"][..]), Just(&["a", "b"][..])];
        prop::collection::vec((time, tags), 0..40).prop_map(|list| {
            let list = list.into_iter().enumerate();
            list.map(|(number, (second, tags))| {
                snapshot(number, Timestamp::constant(1_700_000_000 + second, 0), tags)
            })
            .collect()
        })
    }

    fn any_rule() -> impl Strategy<Value = Rule> {
        let period = prop::sample::select(&Period::ALL[..]);
        let count = prop_oneof![(0..12_u32).prop_map(Count::AtMost), Just(Count::Unlimited)];
        let age =
            (0..2_u16, 0..14_u16, 0..40_u16, 1..50_u16).prop_map(|(years, months, days, hours)| {
                Age {
                    years,
                    months,
                    days,
                    hours,
                }
            });
        prop_oneof![
            (period.clone(), count).prop_map(|(period, count)| Rule::Last(period, count)),
            (period, age).prop_map(|(period, age)| Rule::Within(period, age)),
            Just(Rule::Tags(vec!["a".to_owned(), "b".to_owned()])),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Rules are independent of each other.
        #[test]
        fn together_rules_keep_what_each_keeps(
            group in any_group(), rules in prop::collection::vec(any_rule(), 0..5)
        ) {
            let alone = rules.iter().flat_map(|rule| kept(std::slice::from_ref(rule), &group));
            prop_assert_eq!(kept(&rules, &group), alone.collect());
        }

        /// Running the same command twice has the same result as once.
        #[test]
        fn what_was_kept_is_kept_again(
            group in any_group(), rules in prop::collection::vec(any_rule(), 1..5)
        ) {
            let once: Vec<_> = kept(&rules, &group).into_iter().map(|at|
                group[at].clone()).collect();
            prop_assert_eq!(kept(&rules, &once).len(), once.len());
        }

        #[test]
        fn the_order_of_snapshots_means_nothing(
            group in any_group(), rules in prop::collection::vec(any_rule(), 1..5)
        ) {
            let mut turned: Vec<_> = group.clone();
            turned.reverse();
            let back = kept(&rules, &turned).into_iter().map(|at| group.len() - 1 - at);
            prop_assert_eq!(kept(&rules, &group), back.collect());
        }

        #[test]
        fn a_count_is_an_upper_bound_and_more_keeps_more(
            group in any_group(), period in prop::sample::select(&Period::ALL[..]),
                most in 0..12_u32
        ) {
            let few = kept(&[last(period, most)], &group);
            let more = kept(&[last(period, most + 1)], &group);
            prop_assert!(few.len() <= most as usize);
            prop_assert!(few.is_subset(&more));
            let newest = (0..group.len()).max_by_key(|&at| group[at].1.order(group[at].0));
            prop_assert!(most == 0 || newest.is_none_or(|newest| few.contains(&newest)));
            let all = kept(&[Rule::Last(period, Count::Unlimited)], &group);
            prop_assert!(more.is_subset(&all));
        }
    }
}
