//! The snapshots of a repository: calendar, charts, table.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use axum::response::Response;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use maud::{Markup, html};
use tabane_store::Id;
use tabane_store::lister::Listed;
use tabane_store::snapshot::Snapshot;

use crate::answer::{self, Failure};
use crate::asked::{Asked, address};
use crate::encoding::{Fields, query};
use crate::look::calendar::{self, Calendar, Day};
use crate::look::chart::{Chart, Form, Point, Series};
use crate::look::frame::place_address;
use crate::look::words::seconds_between;
use crate::look::{self, Tab};
use crate::rhythm;

/// Rows of the table on one page.
const ROWS_MAX: usize = 100;

/// Lines of a chart; the sources with the most snapshots have one.
const LINES_MAX: usize = 6;

type Listing<'a> = Vec<&'a (Id, Arc<Snapshot>)>;

/// What of the snapshots is shown, as the address says.
struct Choice {
    host: String,
    tag: String,
    day: Option<Date>,
    until: Option<Date>,
    /// Snapshots that are passed over in the table.
    skip: usize,
}

impl Choice {
    fn of(fields: &Fields) -> Self {
        let date = |name| fields.text(name).parse::<Date>().ok();
        Self {
            host: fields.text("host"),
            tag: fields.text("tag"),
            day: date("day"),
            until: date("until"),
            skip: fields.number("skip").unwrap_or(0),
        }
    }

    fn allows(&self, snapshot: &Snapshot) -> bool {
        (self.host.is_empty() || snapshot.hostname == self.host)
            && (self.tag.is_empty() || snapshot.tags.contains(&self.tag))
    }

    /// The address of the page with other values for some fields; empty ones are left out.
    fn address(&self, place: &str, changed: &[(&str, String)]) -> String {
        let text = |date: Option<Date>| date.map(|date| date.to_string()).unwrap_or_default();
        let mut fields = vec![
            ("host", self.host.clone()),
            ("tag", self.tag.clone()),
            ("until", text(self.until)),
            ("day", text(self.day)),
        ];
        fields.retain(|(name, _)| changed.iter().all(|(other, _)| name != other));
        fields.extend(changed.iter().cloned());
        fields.retain(|(_, value)| !value.is_empty());
        let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
        place_address(place) + &query(fields)
    }
}

/// Shows them.
pub async fn get(asked: Asked) -> Result<Response, Failure> {
    let name = asked.name().to_owned();
    let listed = asked.shown.ask(|opened| Ok(opened.snapshots()?)).await?;
    let choice = Choice::of(&asked.fields);
    let now = Timestamp::now();
    let chosen = listed.snapshots().iter();
    let chosen: Listing<'_> = chosen
        .filter(|(_, snapshot)| choice.allows(snapshot))
        .collect();
    let expected = asked.shown.place.expect_every;
    let late = rhythm::sources(&listed, expected, now);
    let late: Vec<_> = late.iter().filter(|source| source.is_late).collect();
    let body = html! {
        div class="head" {
            h1 { "Snapshots" }
            (filter(&name, &listed, &choice))
        }
        @for (_, error) in listed.damaged() {
            p class="note bad" { (look::sentence(error)) }
        }
        @for source in &late {
            p class="note warn" {
                strong { bdi { (tabane_text::printable(&source.host)) } }
                " is overdue: its latest backup is of " (look::time(source.latest().1.time)) " ("
                (look::ago(source.latest().1.time, now)) ")"
                @if let Some(every) = source.every { ", and one is made " (look::every(every)) }
                "."
            }
        }
        @if chosen.is_empty() {
            p class="lead" {
                @if listed.snapshots().is_empty() { "There is no snapshot yet." }
                @else { "No snapshot is like that." }
            }
        } @else {
            (numbers(&chosen, now))
            (days(&name, &chosen, &choice))
            (charts(&chosen))
            (table(&name, &chosen, &choice))
        }
    };
    Ok(answer::of_repository(
        &name,
        Tab::Snapshots,
        "Snapshots",
        body,
    ))
}

/// The choice of host and tag.
fn filter(place: &str, listed: &Listed, choice: &Choice) -> Markup {
    let snapshots = || listed.snapshots().iter().map(|(_, snapshot)| snapshot);
    let hosts: BTreeSet<&String> = snapshots().map(|snapshot| &snapshot.hostname).collect();
    let tags: BTreeSet<&String> = snapshots().flat_map(|snapshot| &snapshot.tags).collect();
    let select = |name: &str, all: &str, values: &BTreeSet<&String>, chosen: &str| {
        html! {
            @if values.len() > 1 || !chosen.is_empty() {
                label { span class="away" { (name) }
                    select name=(name) data-submit {
                        option value="" { (all) }
                        @for value in values {
                            option value=(value) selected[value.as_str() == chosen] {
                                (tabane_text::printable(value))
                            }
                        }
                    }
                }
            }
        }
    };
    let hosts = select("host", "All hosts", &hosts, &choice.host);
    let tags = select("tag", "All tags", &tags, &choice.tag);
    html! {
        @if !hosts.0.is_empty() || !tags.0.is_empty() {
            form class="row end" method="get" action=(place_address(place)) {
                (hosts) (tags)
                button data-submits { "Show" }
            }
        }
    }
}

fn numbers(chosen: &Listing<'_>, now: Timestamp) -> Markup {
    let stored = chosen
        .iter()
        .map(|(_, snapshot)| snapshot.summary.stored_bytes);
    let (_, latest) = chosen.last().expect("some were chosen");
    let hosts: BTreeSet<&str> = chosen.iter().map(|(_, at)| &at.hostname[..]).collect();
    html! {
        dl class="numbers" {
            @for (count, one, many) in [
                (chosen.len(), "snapshot", "snapshots"),
                (hosts.len(), "host", "hosts"),
            ] {
                div {
                    dt { (if count == 1 { one } else { many }) }
                    dd { (tabane_text::grouped(count as u64)) }
                }
            }
            div { dt { "latest" } dd { (look::ago(latest.time, now)) } }
            div { dt { "files in the latest" } dd { (look::bytes(latest.summary.total_bytes)) } }
            div { dt { "added by all of them" } dd { (look::bytes(look::sum(stored))) } }
        }
    }
}

/// The day of a snapshot in the local time zone.
fn day_of(snapshot: &Snapshot) -> Date {
    snapshot.time.to_zoned(TimeZone::system()).date()
}

fn days(place: &str, chosen: &Listing<'_>, choice: &Choice) -> Markup {
    let mut days: BTreeMap<Date, Day> = BTreeMap::new();
    for (_, snapshot) in chosen {
        let day = days.entry(day_of(snapshot)).or_default();
        day.snapshots += 1;
        day.marked += u32::from(snapshot.summary.errors > 0);
    }
    let (first, last) = (days.keys().next().copied(), days.keys().last().copied());
    let until = choice.until.or(choice.day).or(last).unwrap_or_default();
    let calendar = Calendar {
        days: &days,
        until,
        chosen: choice.day,
        marked: "with problems",
        address: &|date| {
            let until = until.to_string();
            choice.address(place, &[("day", date.to_string()), ("until", until)]) + "#table"
        },
    };
    let months = calendar::MONTHS;
    let before = calendar::shifted(until, -months);
    let behind = calendar::shifted(until, months);
    let link = |date: Date| choice.address(place, &[("until", date.to_string())]);
    html! {
        section aria-label="Calendar" {
            (calendar.draw())
            div class="row small" {
                @if first.is_some_and(|first| first < calendar::shifted(before, 1)) {
                    a href=(link(before)) rel="prev" { "Earlier months" }
                }
                @if last.is_some_and(|last| last >= calendar::shifted(until, 1)) {
                    a href=(link(behind)) rel="next" { "Later months" }
                }
            }
        }
    }
}

fn charts(chosen: &Listing<'_>) -> Markup {
    if chosen.len() < 2 {
        return html! {};
    }
    let mut sources: BTreeMap<(&str, String), Listing<'_>> = BTreeMap::new();
    for snapshot in chosen {
        let key = (&snapshot.1.hostname[..], snapshot.1.paths.join(" "));
        sources.entry(key).or_default().push(snapshot);
    }
    let mut sources: Vec<_> = sources.into_iter().collect();
    sources.sort_by_key(|(_, snapshots)| std::cmp::Reverse(snapshots.len()));
    let others = sources.len().saturating_sub(LINES_MAX);
    let lines = |value: fn(&Snapshot) -> f64, unit: fn(f64) -> String| -> Vec<Series> {
        let series = sources
            .iter()
            .take(LINES_MAX)
            .map(|((host, paths), snapshots)| Series {
                name: tabane_text::printable(&format!("{host} {paths}")),
                points: points(snapshots, value, unit),
            });
        series.collect()
    };
    let size = Chart {
        title: "Size of each backup",
        form: Form::Lines,
        series: lines(|snapshot| snapshot.summary.total_bytes as f64, bytes),
        unit: bytes,
        top: None,
    };
    let added = Chart {
        title: "Added by each backup",
        form: Form::Bars,
        series: vec![Series {
            name: String::new(),
            points: points(chosen, |at| at.summary.stored_bytes as f64, bytes),
        }],
        unit: bytes,
        top: None,
    };
    let known = Chart {
        title: "Share that the repository had already",
        form: Form::Lines,
        series: lines(share_known, percent),
        unit: percent,
        top: Some(100.0),
    };
    html! {
        section aria-label="Sizes over time" {
            div class="grid" { (size.draw()) (added.draw()) (known.draw()) }
            @if others > 0 {
                p class="soft small" { (tabane_text::count(others as u64, "source")) " not drawn." }
            }
        }
    }
}

fn points(
    snapshots: &[&(Id, Arc<Snapshot>)],
    value: fn(&Snapshot) -> f64,
    unit: fn(f64) -> String,
) -> Vec<Point> {
    let point = |(_, snapshot): &&(Id, Arc<Snapshot>)| {
        let (time, value) = (snapshot.time, value(snapshot));
        Point {
            time,
            value,
            title: format!("{}: {}", tabane_text::local_time(time), unit(value)),
        }
    };
    snapshots.iter().map(point).collect()
}

fn bytes(value: f64) -> String {
    tabane_text::bytes_rounded(value as u64)
}

fn percent(value: f64) -> String {
    format!("{value:.0} %")
}

/// The percentage of a backup's bytes that were in the repository before.
fn share_known(snapshot: &Snapshot) -> f64 {
    let (added, all) = (snapshot.summary.added_bytes, snapshot.summary.total_bytes);
    if all == 0 {
        return 100.0;
    }
    (100.0 * (1.0 - added as f64 / all as f64)).clamp(0.0, 100.0)
}

fn table(place: &str, chosen: &Listing<'_>, choice: &Choice) -> Markup {
    let of_day = |(_, at): &&&(Id, Arc<Snapshot>)| choice.day.is_none_or(|day| day_of(at) == day);
    let rows: Listing<'_> = chosen.iter().filter(of_day).rev().copied().collect();
    let end = choice.skip.saturating_add(ROWS_MAX).min(rows.len());
    let shown = rows.get(choice.skip..end).unwrap_or_default();
    let page = |skip: usize| choice.address(place, &[("skip", skip.to_string())]) + "#table";
    html! {
        section id="table" aria-label="All snapshots" {
            @if let Some(day) = choice.day {
                div class="head" {
                    h2 { (day.strftime("%A, %-d %B %Y")) }
                    a href={ (choice.address(place, &[("day", String::new())])) "#table" } {
                        "All days"
                    }
                }
            }
            div class="scroll" {
                table {
                    caption class="away" { "Snapshots, the latest first" }
                    thead { tr {
                        th scope="col" { "Time" }
                        th scope="col" { "Host" }
                        th scope="col" { "Paths" }
                        th scope="col" class="wide-only" { "Tags" }
                        th scope="col" class="number" { "Size" }
                        th scope="col" class="number wide-only" { "Added" }
                        th scope="col" class="number wide-only" { "Took" }
                        th scope="col" { "Problems" }
                    } }
                    tbody { @for (id, snapshot) in shown { (row(place, *id, snapshot)) } }
                }
                @if rows.len() > ROWS_MAX {
                    div class="end-of-table row" {
                        span class="soft" {
                            (choice.skip.saturating_add(1)) "–" (end)
                            " of " (tabane_text::grouped(rows.len() as u64))
                        }
                        @if choice.skip > 0 {
                            @let later = choice.skip.saturating_sub(ROWS_MAX);
                            a href=(page(later)) rel="prev" { "Later" }
                        }
                        @if end < rows.len() { a href=(page(end)) rel="next" { "Earlier" } }
                    }
                }
            }
        }
    }
}

fn row(place: &str, id: Id, snapshot: &Snapshot) -> Markup {
    let summary = &snapshot.summary;
    let took = seconds_between(summary.start, summary.end);
    html! {
        tr {
            th scope="row" class="tight" {
                a href=(address(place, id, "files", Path::new("/"))) { (look::time(snapshot.time)) }
            }
            td { bdi { (tabane_text::printable(&snapshot.hostname)) } }
            td class="names" {
                @for path in &snapshot.paths { div { (look::name(path.as_bytes())) } }
                @if let Some(description) = &snapshot.description {
                    div class="soft small" { bdi { (tabane_text::printable(description)) } }
                }
            }
            td class="wide-only" {
                @for tag in &snapshot.tags { span class="tag" { (look::name(tag.as_bytes())) } " " }
            }
            td class="number" { (look::bytes(summary.total_bytes)) }
            td class="number wide-only" { (look::bytes(summary.stored_bytes)) }
            td class="number wide-only" { (look::clock(took)) }
            td class="tight" {
                @match summary.errors {
                    0 => span class="soft" { "none" },
                    errors => span class="badge warn" { (tabane_text::grouped(errors)) " unread" },
                }
            }
        }
    }
}
