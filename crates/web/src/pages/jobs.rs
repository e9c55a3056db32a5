//! Jobs of a repository: starting them, watching them, and what became of them.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;
use maud::{Markup, html};

use crate::access::Session;
use crate::answer::{self, Failure};
use crate::app::{App, AppState};
use crate::asked::Asked;
use crate::command::Command;
use crate::events::{self, Sender};
use crate::form::{self, Sent};
use crate::jobs::{Ended, Job, Kind, Line, Order};
use crate::look::frame::place_address;
use crate::look::words::seconds_between;
use crate::look::{self, Tab};
use crate::places::Place;
use crate::rhythm;

/// Time without anything new after which a browser is told again how far a job is.
const TELL_PAUSE: Duration = Duration::from_secs(10);

/// Pause between two events of one job, so that a page does not flicker.
const EVENT_PAUSE: Duration = Duration::from_millis(250);

/// Something that can be started from the page.
struct Offer {
    /// How a form names it.
    id: String,
    title: &'static str,
    /// What is done, in one sentence.
    text: Markup,
    order: Order,
    /// Whether something is removed.
    removes: bool,
}

/// What can be started for a place.
fn offers(place: &Place) -> Vec<Offer> {
    let offer = |id: &str, title, text: &str, kind, words: &[&str]| Offer {
        id: id.to_owned(),
        title,
        text: html! { (text) },
        order: Order {
            kind,
            command: Command::new(place, kind.word()).words(words),
            next: None,
        },
        removes: false,
    };
    let mut offers = Vec::new();
    for (number, backup) in place.backups.iter().enumerate() {
        offers.push(Offer {
            id: format!("backup-{number}"),
            title: "Back up",
            text: html! {
                "Profile " strong { (backup.profile) } ": "
                @for path in &backup.paths { bdi { (tabane_text::printable(path)) } " " }
            },
            order: Order {
                kind: Kind::Backup,
                command: Command::of_profile(place, &backup.profile, Kind::Backup.word()),
                next: None,
            },
            removes: false,
        });
    }
    let text = "Looks whether all that snapshots need is there.";
    offers.push(offer("check", "Check", text, Kind::Check, &[]));
    let text = "Reads every byte, decrypts it and compares it with its digest.";
    offers.push(offer(
        "check-data",
        "Check all data",
        text,
        Kind::Check,
        &["--read-data"],
    ));
    if place.set.is_some() {
        let text = "Rebuilds what targets lack.";
        offers.push(offer("heal", "Heal", text, Kind::Heal, &[]));
        let text = "Reads everything on all targets, and mends what has changed.";
        offers.push(offer("scrub", "Scrub", text, Kind::Scrub, &[]));
    }
    let text = "Says what a prune would remove.";
    offers.push(offer(
        "prune-dry",
        "Try a prune",
        text,
        Kind::Prune,
        &["--dry-run"],
    ));
    let text = "Removes what no snapshot needs.";
    let mut prune = offer("prune", "Prune", text, Kind::Prune, &[]);
    prune.removes = true;
    offers.push(prune);
    offers
}

/// Lists what can be started, what runs and what has run.
pub async fn list(State(app): AppState, asked: Asked) -> Result<Response, Failure> {
    let name = asked.name().to_owned();
    let jobs = app.jobs.of(&name);
    // The page is of use without the repository, too.
    let listed = asked.shown.ask(|opened| Ok(opened.snapshots()?)).await;
    let now = Timestamp::now();
    let running: Vec<_> = jobs.iter().filter(|job| job.ended().is_none()).collect();
    let past: Vec<_> = jobs.iter().filter(|job| job.ended().is_some()).collect();
    let body = html! {
        h1 { "Jobs" }
        @match &listed {
            Ok(listed) => {
                @let sources = rhythm::sources(listed, asked.shown.place.expect_every, now);
                (backups(&sources, now))
            }
            Err(failure) => p class="note bad" { (look::sentence(failure.text())) },
        }
        section {
            h2 { "Start" }
            @if !app.allow_jobs {
                p class="soft narrow" {
                    "This page may start nothing: the server was started without --allow-jobs. "
                    "These commands do the same."
                }
            }
            ul class="offers" {
                @for offer in offers(&asked.shown.place) { (offered(&app, &asked, &offer)) }
            }
        }
        @if !running.is_empty() {
            section { h2 { "Running" } (table(&name, &running, now)) }
        }
        section {
            h2 { "History" }
            @if past.is_empty() {
                p class="soft" { "This page has started nothing so far." }
            } @else { (table(&name, &past, now)) }
        }
    };
    Ok(answer::of_repository(&name, Tab::Jobs, "Jobs", body))
}

/// What is backed up into the repository, and whether it comes as usual.
fn backups(sources: &[rhythm::Source], now: Timestamp) -> Markup {
    html! {
        section {
            h2 { "Backups" }
            div class="scroll" tabindex="0" { table {
                caption class="away" { "Latest backup of each host and its paths" }
                thead { tr {
                    th scope="col" { "Host" }
                    th scope="col" { "Paths" }
                    th scope="col" class="tight" { "Latest" }
                    th scope="col" class="tight wide-only" { "Usually" }
                    th scope="col" class="tight" { "State" }
                } }
                tbody { @for source in sources { @let (_, latest) = source.latest(); tr {
                    th scope="row" { bdi { (tabane_text::printable(&source.host)) } }
                    td class="names" {
                        @for path in &source.paths { div { (look::name(path.as_bytes())) } }
                    }
                    td class="tight" { (look::time(latest.time)) " " span class="soft" {
                        (look::ago(latest.time, now))
                    } }
                    td class="tight wide-only" {
                        @match source.every {
                            Some(every) => (look::every(every)),
                            None => span class="soft" { "no rhythm" },
                        }
                    }
                    td class="tight" { (state(source)) }
                } } }
            } }
        }
    }
}

/// How the backups of a source are.
pub fn state(source: &rhythm::Source) -> Markup {
    let errors = source.latest().1.summary.errors;
    html! {
        @if source.is_late { span class="badge bad" { "overdue" } }
        @else if errors > 0 {
            span class="badge warn" { (tabane_text::grouped(errors)) " unread" }
        } @else { span class="badge good" { "ok" } }
    }
}

fn offered(app: &App, asked: &Asked, offer: &Offer) -> Markup {
    let address = format!("{}/jobs", place_address(asked.name()));
    html! {
        li class="sheet" {
            div class="head" {
                h3 { (offer.title) }
                @if app.allow_jobs {
                    form class="end" method="post" action=(address) {
                        (form::token(&asked.session))
                        input type="hidden" name="offer" value=(offer.id);
                        button class=(if offer.removes { "bad" } else { "" }) {
                            "Start" span class="away" { ": " (offer.title) }
                        }
                    }
                }
            }
            p { (offer.text) }
            (offer.order.command.shown())
        }
    }
}

fn table(place: &str, jobs: &[&Arc<Job>], now: Timestamp) -> Markup {
    html! {
        div class="scroll" { table {
            caption class="away" { "Jobs, the latest first" }
            thead { tr {
                th scope="col" class="tight" { "Started" }
                th scope="col" class="tight" { "Job" }
                th scope="col" class="tight" { "State" }
                th scope="col" class="number wide-only" { "Took" }
                th scope="col" class="wide-only" { "Command" }
            } }
            tbody { @for job in jobs { tr {
                th scope="row" class="tight" {
                    a href=(job_address(place, job)) { (look::time(job.started)) }
                }
                td class="tight" { (job.kind.word()) }
                td class="tight" { (badge(job.ended().as_ref())) }
                td class="number wide-only" {
                    @let end = job.ended().map_or(now, |ended| ended.at);
                    (look::clock(seconds_between(job.started, end)))
                }
                td class="names wide-only" { code { (job.command) } }
            } } }
        } }
    }
}

/// The state of a job.
fn badge(ended: Option<&Ended>) -> Markup {
    let (class, text) = match ended {
        None => ("badge warn", "running".to_owned()),
        Some(Ended {
            is_cancelled, code, ..
        }) if *is_cancelled && *code != Some(0) => ("badge", "cancelled".to_owned()),
        Some(Ended { code: Some(0), .. }) => ("badge good", "done".to_owned()),
        Some(Ended { code: Some(3), .. }) => ("badge warn", "incomplete".to_owned()),
        Some(Ended {
            code: Some(code), ..
        }) => ("badge bad", format!("failed ({code})")),
        Some(Ended { code: None, .. }) => ("badge bad", "killed".to_owned()),
    };
    html! { span class=(class) { (text) } }
}

/// The address of a job.
pub fn job_address(place: &str, job: &Job) -> String {
    format!("{}/jobs/{}", place_address(place), job.id)
}

/// Starts what a form asks for.
pub async fn start(
    State(app): AppState,
    asked: Asked,
    Sent(fields): Sent,
) -> Result<Response, Failure> {
    let id = fields.text("offer");
    let mut offers = offers(&asked.shown.place).into_iter();
    let offer = offers.find(|offer| offer.id == id);
    let offer = offer.ok_or_else(|| Failure::wrong("there is nothing of this name to start"))?;
    app.may_start(Kind::Check)?;
    begin(&app, &asked, offer.order)
}

/// Starts a job and leads to it.
pub fn begin(app: &App, asked: &Asked, order: Order) -> Result<Response, Failure> {
    app.may_start(order.kind)?;
    let job = app.jobs.start(&asked.shown.place, order)?;
    Ok(answer::redirect(&job_address(asked.name(), &job)))
}

/// The job that the address names.
fn job_of(app: &App, asked: &Asked) -> Result<Arc<Job>, Failure> {
    let id = asked.part(1).parse().unwrap_or(0);
    app.jobs.get(asked.name(), id)
}

/// Shows a job.
pub async fn show(State(app): AppState, asked: Asked) -> Result<Response, Failure> {
    let job = job_of(&app, &asked)?;
    let address = job_address(asked.name(), &job);
    let is_over = job.ended().is_some();
    let events = (!is_over).then(|| format!("{address}/events"));
    let body = html! {
        p { a href={ (place_address(asked.name())) "/jobs" } { "All jobs" } }
        div data-events=[events] {
            div id="job-head" class="blocks" aria-live="polite" {
                (head(&app, &asked.session, &job, &address))
            }
        }
        pre class="command" tabindex="0" { code { (job.command) } }
        @if !is_over {
            noscript { p { a href=(address) { "Load again to see how far it is" } } }
        }
        section {
            h2 { "Log" }
            div class="content log" id="job-log" tabindex="0" role="log" aria-label="Log" {
                (whole_log(&app, &job))
            }
        }
    };
    let title = format!(
        "{} of {}",
        job.kind.word(),
        tabane_text::local_time(job.started)
    );
    Ok(answer::of_repository(asked.name(), Tab::Jobs, &title, body))
}

/// State, progress, and what can be done about it.
fn head(app: &App, session: &Session, job: &Job, address: &str) -> Markup {
    let ended = job.ended();
    let end = ended.as_ref().map_or_else(Timestamp::now, |ended| ended.at);
    let (progress, warnings) = job.with_said(|said| (said.progress.clone(), said.warnings));
    let done = tabane_text::bytes_rounded(progress.done_bytes);
    html! {
        div class="head" {
            h1 { (look::sentence(job.kind.word()).trim_end_matches('.')) }
            (badge(ended.as_ref()))
            span class="soft" {
                (look::time(job.started)) ", " (look::clock(seconds_between(job.started, end)))
            }
            @if ended.is_none() && app.may_start(job.kind).is_ok() {
                form class="end" method="post" action={ (address) "/cancel" } {
                    (form::token(session))
                    button { "Cancel" }
                }
            }
        }
        @if ended.is_none() {
            @match progress.total_bytes {
                0 => progress aria-label="Progress" {},
                total => progress aria-label="Progress" max=(total)
                    value=(progress.done_bytes.min(total)) {},
            }
            p class="soft" {
                (done)
                @if progress.total_bytes > 0 {
                    " of " (tabane_text::bytes_rounded(progress.total_bytes))
                }
                @if progress.entries > 0 { ", " (tabane_text::count(progress.entries, "entry")) }
                @if let Some(seconds) = progress.seconds_remaining {
                    ", " (look::clock(seconds as i64)) " left"
                }
                @if !progress.current.is_empty() {
                    br; bdi { (tabane_text::printable(&progress.current)) }
                }
            }
        }
        @if warnings > 0 {
            p class="note warn" { (tabane_text::count(warnings, "problem")) " (see the log)." }
        }
        @if let Some(ended) = &ended {
            (summary(ended))
            @if let (Some(next), Some(0)) = (&job.next, ended.code) {
                form class="note row" method="post" action={ (address) "/next" } {
                    (form::token(session))
                    span { "This was a dry run: nothing was changed." }
                    button class="main" { "Do it" }
                    (next.command.shown())
                }
            }
        }
    }
}

/// The fields of a summary, as they are called in JSON.
fn summary(ended: &Ended) -> Markup {
    let Some(fields) = ended.summary.as_object() else {
        return html! {};
    };
    let skipped = [
        "message_type",
        "snapshot_id",
        "parent",
        "dry_run",
        "program_version",
    ];
    let shown = fields.iter().filter(|(name, value)| {
        let is_readable = value.is_number() || value.is_string();
        // How fast it was is for the command line; here its bytes and seconds stand below.
        is_readable && !skipped.contains(&name.as_str()) && !name.starts_with("speed_")
    });
    html! {
        dl class="facts sheet" {
            @for (name, value) in shown {
                @let (word, text) = readable(name, value);
                dt { (word) } dd { (text) }
            }
        }
    }
}

/// A field of a summary as people read it.
fn readable(name: &str, value: &serde_json::Value) -> (String, String) {
    let text = match (value.as_u64(), value.as_f64()) {
        (Some(count), _) if name.ends_with("_bytes") => tabane_text::bytes_rounded(count),
        (Some(count), _) => tabane_text::grouped(count),
        (None, Some(seconds)) if name.ends_with("_s") => look::clock(seconds.round() as i64),
        (None, Some(number)) => format!("{number:.1}"),
        _ => tabane_text::printable(value.as_str().unwrap_or_default()),
    };
    let word = name
        .trim_end_matches("_bytes")
        .trim_end_matches("_s")
        .replace('_', " ");
    let unit = if name.ends_with("_bytes") {
        " data"
    } else {
        ""
    };
    (format!("{word}{unit}"), text)
}

fn whole_log(app: &App, job: &Job) -> Markup {
    let (mut lines, mut left_out) = job.with_said(|said| {
        (
            said.lines_from(0).cloned().collect::<Vec<_>>(),
            said.dropped,
        )
    });
    if lines.is_empty() && job.ended().is_some() {
        (lines, left_out) = app.jobs.past_lines(job.id);
    }
    html! {
        @if left_out > 0 {
            p class="soft" { (tabane_text::count(left_out, "line")) " in the middle are left out." }
        }
        @for line in &lines { (log_line(line)) }
    }
}

fn log_line(line: &Line) -> Markup {
    let class = match &line.class[..] {
        "warning" => "log-warn",
        "problem" | "error" => "log-bad",
        _ => "",
    };
    html! {
        div class=(class) {
            span class="log-kind" { (line.class) } " " (tabane_text::printable(&line.text))
        }
    }
}

/// Sends what is new of a job.
pub async fn events(State(app): AppState, asked: Asked) -> Result<Response, Failure> {
    let job = job_of(&app, &asked)?;
    let address = job_address(asked.name(), &job);
    let (sender, answer) = events::stream();
    let session = asked.session;
    tokio::spawn(async move {
        // The browser may be gone.
        let _ = follow(&app, &session, &job, &address, &sender).await;
    });
    Ok(answer)
}

async fn follow(
    app: &App,
    session: &Session,
    job: &Job,
    address: &str,
    sender: &Sender,
) -> Result<(), events::Gone> {
    let mut changes = job.changes();
    let mut told = job.with_said(|said| said.count());
    sender.put_later("job-log", whole_log(app, job)).await?;
    loop {
        changes.mark_unchanged();
        let is_over = job.ended().is_some();
        sender
            .put_later("job-head", head(app, session, job, address))
            .await?;
        let (count, lines) = job.with_said(|said| {
            (
                said.count(),
                said.lines_from(told).cloned().collect::<Vec<_>>(),
            )
        });
        told = count;
        if !lines.is_empty() {
            let lines = html! { @for line in &lines { (log_line(line)) } };
            sender.add_later("job-log", lines).await?;
        }
        if is_over {
            return Ok(());
        }
        let _ = tokio::time::timeout(TELL_PAUSE, changes.changed()).await;
        tokio::time::sleep(EVENT_PAUSE).await;
    }
}

/// Cancels a job.
pub async fn cancel(
    State(app): AppState,
    asked: Asked,
    Sent(_): Sent,
) -> Result<Response, Failure> {
    let job = job_of(&app, &asked)?;
    app.may_start(job.kind)?;
    job.cancel();
    Ok(answer::redirect(&job_address(asked.name(), &job)))
}

/// Does what a dry run has tried.
pub async fn next(State(app): AppState, asked: Asked, Sent(_): Sent) -> Result<Response, Failure> {
    let job = job_of(&app, &asked)?;
    let is_good = job.ended().is_some_and(|ended| ended.code == Some(0));
    match &job.next {
        Some(next) if is_good => begin(&app, &asked, (**next).clone()),
        _ => Err(Failure::wrong("there is nothing to do after this job")),
    }
}
