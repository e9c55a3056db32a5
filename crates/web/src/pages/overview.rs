//! All repositories and all hosts.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use maud::{Markup, html};
use tabane_store::lister::Listed;

use crate::answer::{self, Failure};
use crate::app::AppState;
use crate::look;
use crate::look::frame::place_address;
use crate::pages::jobs::state;
use crate::places::Shown;
use crate::rhythm::{Source, sources};

/// Days of the strip beside each source.
const STRIP_DAYS: i64 = 30;

/// What is known of a repository.
type Known = (Arc<Shown>, Result<Arc<Listed>, Failure>);

/// Shows the repositories; goes on to the only one.
pub async fn get(State(app): AppState) -> Response {
    if let [only] = &app.places[..] {
        return answer::redirect(&place_address(&only.place.name));
    }
    // One that hangs does not hold up the others.
    let asking = app.places.iter().map(|shown| {
        let shown = Arc::clone(shown);
        tokio::spawn(async move {
            let listed = shown.ask(|opened| Ok(opened.snapshots()?)).await;
            (shown, listed)
        })
    });
    let asking: Vec<_> = asking.collect();
    let mut known: Vec<Known> = Vec::new();
    for asked in asking {
        known.extend(asked.await);
    }
    let now = Timestamp::now();
    let of_all: Vec<(&str, Source)> = known
        .iter()
        .filter_map(|(shown, listed)| Some((shown, listed.as_ref().ok()?)))
        .flat_map(|(shown, listed)| {
            let place = &shown.place;
            let sources = sources(listed, place.expect_every, now).into_iter();
            sources.map(move |source| (&place.name[..], source))
        })
        .collect();
    let late = of_all.iter().filter(|(_, source)| source.is_late).count();
    let body = html! {
        h1 { "Repositories" }
        @if late > 0 {
            p class="note warn" { (tabane_text::count(late as u64, "backup")) " overdue." }
        }
        ul class="offers" {
            @for (shown, listed) in &known {
                @let name = &shown.place.name;
                @let running = app.jobs.of(name).iter().filter(|job| job.ended().is_none()).count();
                (card(shown, listed.as_ref(), running, now))
            }
        }
        @if !of_all.is_empty() {
            section { h2 { "Hosts" } (hosts(&of_all, now)) }
        }
    };
    answer::page(StatusCode::OK, look::frame("Repositories", None, body))
}

fn card(
    shown: &Shown,
    listed: Result<&Arc<Listed>, &Failure>,
    running: usize,
    now: Timestamp,
) -> Markup {
    let place = &shown.place;
    html! {
        li class="sheet" {
            div class="head" {
                h2 { a href=(place_address(&place.name)) {
                    bdi { (tabane_text::printable(&place.name)) }
                } }
                @match listed {
                    Ok(listed) if !listed.damaged().is_empty() => {
                        span class="badge bad" { "damaged snapshots" }
                    }
                    Ok(_) => span class="badge good" { "open" },
                    Err(_) => span class="badge bad" { "no answer" },
                }
                @if running > 0 {
                    a class="badge warn" href={ (place_address(&place.name)) "/jobs" } {
                        (tabane_text::count(running as u64, "job"))
                    }
                }
            }
            p class="soft small names" { bdi { (tabane_text::printable(&place.url)) } }
            @match listed {
                Err(failure) => p { (look::sentence(failure.text())) },
                Ok(listed) => dl class="numbers" {
                    div { dt { "snapshots" } dd {
                        (tabane_text::grouped(listed.snapshots().len() as u64))
                    } }
                    @if let Some((_, latest)) = listed.snapshots().last() {
                        div { dt { "latest" } dd { (look::ago(latest.time, now)) } }
                        @let summaries = listed.snapshots().iter().map(|(_, at)| &at.summary);
                        @let stored = look::sum(summaries.map(|summary| summary.stored_bytes));
                        div { dt { "added by all of them" } dd { (look::bytes(stored)) } }
                    }
                },
            }
        }
    }
}

fn hosts(sources: &[(&str, Source)], now: Timestamp) -> Markup {
    html! {
        div class="scroll" { table {
            caption class="away" { "What is backed up, and how it goes" }
            thead { tr {
                th scope="col" { "Host" }
                th scope="col" { "Paths" }
                th scope="col" { "Repository" }
                th scope="col" class="tight" { "Latest" }
                th scope="col" class="tight wide-only" { "Last " (STRIP_DAYS) " days" }
                th scope="col" class="tight" { "State" }
            } }
            tbody { @for (place, source) in sources { @let (_, latest) = source.latest(); tr {
                th scope="row" { bdi { (tabane_text::printable(&source.host)) } }
                td class="names" {
                    @for path in &source.paths { div { (look::name(path.as_bytes())) } }
                }
                td { a href=(place_address(place)) { bdi { (tabane_text::printable(place)) } } }
                td class="tight" { (look::ago(latest.time, now)) }
                td class="tight wide-only" { (strip(source, now)) }
                td class="tight" { (state(source)) }
            } } }
        } }
    }
}

/// A mark for each of the last days: whether there was a backup, and whether it was whole.
fn strip(source: &Source, now: Timestamp) -> Markup {
    let zone = TimeZone::system();
    let date = |time: Timestamp| time.to_zoned(zone.clone()).date();
    let today = date(now);
    let mut days: BTreeMap<Date, bool> = BTreeMap::new();
    for (_, snapshot) in &source.snapshots {
        let is_whole = days.entry(date(snapshot.time)).or_insert(true);
        *is_whole &= snapshot.summary.errors == 0;
    }
    let shown = (0..STRIP_DAYS)
        .rev()
        .map(|back| today.saturating_sub(back.days()));
    let shown: Vec<Date> = shown.collect();
    let with = shown.iter().filter(|day| days.contains_key(day)).count();
    html! {
        svg class="strip" viewBox=(format!("0 0 {} 14", STRIP_DAYS * 6)) width=(STRIP_DAYS * 6)
            height="14" role="img" aria-label=(format!("Backups on {with} of {STRIP_DAYS} days")) {
            @for (place, day) in shown.iter().enumerate() {
                @let (class, height) = match days.get(day) {
                    Some(true) => ("whole", 14),
                    Some(false) => ("partly", 14),
                    None => ("none", 3),
                };
                rect class=(class) x=(place * 6) y=(14 - height) width="4" height=(height) rx="1" {
                    title { (day) }
                }
            }
        }
    }
}
