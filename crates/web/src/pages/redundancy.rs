//! The targets of a repository: what could be lost now, and what it takes to rebuild.

use std::f64::consts::TAU;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use tabane_parity::{Content, Layout, fewest_reads};
use tabane_storage::{Name, StorageError};
use tabane_store::Repository;
use tabane_striped::cluster::wire::{RESERVE_BYTES, Status};
use tabane_striped::cluster::{self, NodeStorage};
use tabane_striped::{PartState, StripeView, Survey, TargetState};

use crate::answer::{self, Failure};
use crate::app::{App, AppState};
use crate::asked::Asked;
use crate::command::Command;
use crate::events::{self, Sender};
use crate::form;
use crate::jobs::Kind;
use crate::look::frame::place_address;
use crate::look::{self, Tab};
use crate::places::{Set, Shown};

/// Pause between two looks at the traffic of a cluster.
const TRAFFIC_PAUSE: Duration = Duration::from_secs(2);

/// Width and height of the ring.
const RING: f64 = 320.0;

/// What is known of a set.
struct View {
    survey: Survey,
    stripe: Option<StripeView>,
}

/// Shows the targets.
pub async fn get(State(app): AppState, asked: Asked) -> Result<Response, Failure> {
    let name = asked.name().to_owned();
    let body = match &asked.shown.place.set {
        None => single(&asked).await?,
        Some(_) => {
            let shown = Arc::clone(&asked.shown);
            let view = asked.shown.ask_apart(move || view(&shown)).await;
            html! {
                h1 { "Redundancy" }
                @match &view {
                    Ok(view) => (set(&app, &asked, view)),
                    Err(failure) => {
                        p class="note bad" { (look::sentence(failure.text())) }
                        (actions(&app, &asked))
                    }
                }
                @if is_cluster(&asked.shown) { (traffic_frame(&name)) }
            }
        }
    };
    Ok(answer::of_repository(
        &name,
        Tab::Redundancy,
        "Redundancy",
        body,
    ))
}

fn is_cluster(shown: &Shown) -> bool {
    shown
        .place
        .set
        .as_ref()
        .is_some_and(|set| set.nodes.is_some())
}

fn set_of(shown: &Shown) -> Result<&Set, Failure> {
    let none = || Failure::not_found("this repository is at one place");
    shown.place.set.as_ref().ok_or_else(none)
}

/// Asks the targets, each of them anew.
fn view(shown: &Shown) -> Result<View, Failure> {
    let storage = (set_of(shown)?.open)().map_err(Failure::unavailable)?;
    let failed = |error: StorageError| Failure::unavailable(error.to_string());
    Ok(View {
        survey: storage.survey().map_err(failed)?,
        stripe: storage.example_stripe().map_err(failed)?,
    })
}

/// A repository at one place.
async fn single(asked: &Asked) -> Result<Markup, Failure> {
    let facts = |repository: &Repository| {
        let storage = repository.storage();
        (storage.free_bytes(), storage.stat(Name::CONFIG).is_ok())
    };
    let known = asked
        .shown
        .ask(move |opened| Ok(facts(&opened.repository)))
        .await;
    let (free, is_there) = known.unwrap_or((None, false));
    Ok(html! {
        h1 { "Redundancy" }
        p class="lead" {
            "This repository is at one place. If that is lost, the repository is lost."
        }
        dl class="facts sheet" {
            dt { "Place" } dd { bdi { (tabane_text::printable(&asked.shown.place.url)) } }
            dt { "State" } dd {
                @if is_there { span class="badge good" { "answers" } }
                @else { span class="badge bad" { "does not answer" } }
            }
            @if let Some(free) = free { dt { "Free" } dd { (look::bytes(free)) } }
        }
        p class="narrow soft" {
            "A striped repository is over three or more places, of which any two may be lost. A "
            "copy elsewhere guards a repository of any kind."
        }
    })
}

fn set(app: &App, asked: &Asked, view: &View) -> Markup {
    let survey = &view.survey;
    let (class, word) = match survey {
        survey if survey.is_whole() => ("note good", "Everything is there"),
        survey if survey.can_lose_any() => ("note warn", "Less is protected than should be"),
        _ => ("note bad", "At risk"),
    };
    html! {
        div class=(class) role="status" {
            p { strong { (word) } ": " (survey.statement()) "." }
            @if survey.incomplete_objects > 0 {
                p { (tabane_text::count(survey.incomplete_objects, "object")) " incomplete of "
                    (tabane_text::grouped(survey.objects)) "." }
            }
            @if survey.fragments > 0 {
                p { (tabane_text::count(survey.fragments, "fragment"))
                    " of interrupted writes, which a prune removes." }
            }
        }
        div class="ring-and-table" {
            (ring(survey))
            (targets(survey, view.stripe.as_ref()))
        }
        (actions(app, asked))
        @if let Some(stripe) = &view.stripe { (stripe_section(stripe)) }
    }
}

/// How a target is: class, word.
fn state(target: &TargetState) -> (&'static str, &'static str) {
    match target {
        TargetState {
            missing: Some(_), ..
        } => ("bad", "missing"),
        TargetState { lacks: 1.., .. } => ("warn", "behind"),
        _ => ("good", "ok"),
    }
}

/// The targets on a circle; lines join the pairs that could be lost together.
fn ring(survey: &Survey) -> Markup {
    let count = survey.targets.len();
    let at = |number: usize, radius: f64| {
        let angle = TAU * number as f64 / count as f64 - TAU / 4.0;
        (
            RING / 2.0 + radius * angle.cos(),
            RING / 2.0 + radius * angle.sin(),
        )
    };
    let pairs = &survey.spare_pairs;
    html! {
        figure class="ring sheet" {
            svg viewBox=(format!("0 0 {RING} {RING}")) role="img"
                aria-label=(format!("{count} targets in a ring: {}", survey.statement())) {
                circle class="orbit" cx=(fixed(RING / 2.0)) cy=(fixed(RING / 2.0)) r="108" {}
                @for &(one, other) in pairs {
                    @let ((x1, y1), (x2, y2)) = (at(one, 108.0), at(other, 108.0));
                    line class="spare"
                        x1=(fixed(x1)) y1=(fixed(y1)) x2=(fixed(x2)) y2=(fixed(y2)) {}
                }
                @for (number, target) in survey.targets.iter().enumerate() {
                    @let (x, y) = at(number, 108.0);
                    @let (class, word) = state(target);
                    g class=(class) {
                        circle cx=(fixed(x)) cy=(fixed(y)) r="24" {}
                        text x=(fixed(x)) y=(fixed(y + 5.0)) { (number + 1) }
                        title { (tabane_text::printable(&target.url)) ": " (word) }
                    }
                }
            }
            figcaption class="soft small" {
                @if pairs.is_empty() { "No two targets could be lost together now." }
                @else { "A line joins two targets that could both be lost now." }
            }
        }
    }
}

fn fixed(value: f64) -> String {
    format!("{value:.1}")
}

fn targets(survey: &Survey, stripe: Option<&StripeView>) -> Markup {
    let cost = stripe.map(|stripe| rebuild_cost(&stripe.layout));
    // Of a missing target, what the others have tells what it had.
    let largest = survey.targets.iter().map(|target| target.bytes).max();
    html! {
        div class="scroll" tabindex="0" { table {
            caption class="away" { "The targets" }
            thead { tr {
                th scope="col" class="tight" { "No." }
                th scope="col" { "Target" }
                th scope="col" class="tight" { "State" }
                th scope="col" class="number wide-only" { "Parts" }
                th scope="col" class="number" { "Has" }
                th scope="col" class="number" { "Lacks" }
                th scope="col" class="number wide-only" { "Free" }
                th scope="col" class="number wide-only" { "To rebuild it, read" }
            } }
            tbody { @for (number, target) in survey.targets.iter().enumerate() { tr {
                td class="tight" { (number + 1) }
                th scope="row" class="names" {
                    bdi { (tabane_text::printable(&target.url)) }
                    @if let Some(why) = &target.missing {
                        div class="soft small" { (tabane_text::printable(why)) }
                    }
                }
                td class="tight" {
                    @let (class, word) = state(target);
                    span class={ "badge " (class) } { (word) }
                }
                td class="number wide-only" { (tabane_text::grouped(target.objects)) }
                td class="number" { (look::bytes(target.bytes)) }
                td class="number" {
                    @match target.missing {
                        Some(_) => "?",
                        None => (tabane_text::grouped(target.lacks)),
                    }
                }
                td class="number wide-only" {
                    @match target.free_bytes { Some(free) => (look::bytes(free)), None => "?" }
                }
                td class="number wide-only" {
                    @let is_missing = target.missing.is_some();
                    @let bytes = if is_missing { largest.unwrap_or(0) } else { target.bytes };
                    @match cost {
                        Some(cost) => (look::bytes((bytes as f64 * cost) as u64)),
                        None => "",
                    }
                }
            } } }
        } }
    }
}

/// Bytes that are read for each byte of a lost target, on average over its roles.
fn rebuild_cost(layout: &Layout) -> f64 {
    let reads = (0..layout.roles()).filter_map(|role| fewest_reads(layout, &[role]).ok());
    let reads: usize = reads.sum();
    reads as f64 / (layout.roles() * layout.rows()) as f64
}

/// Heal and scrub.
fn actions(app: &App, asked: &Asked) -> Markup {
    let place = &asked.shown.place;
    let running = |kind| {
        let jobs = app.jobs.of(&place.name);
        jobs.into_iter()
            .find(|job| job.kind == kind && job.ended().is_none())
    };
    let action = |kind: Kind, text: &str| {
        let command = Command::new(place, kind.word());
        html! {
            li class="sheet" {
                div class="head" {
                    h3 { (look::sentence(kind.word()).trim_end_matches('.')) }
                    @match running(kind) {
                        Some(job) => a class="badge warn end"
                            href=(crate::pages::jobs::job_address(&place.name, &job)) {
                            "running: see how far"
                        },
                        None if app.allow_jobs => form class="end" method="post"
                            action={ (place_address(&place.name)) "/jobs" } {
                            (form::token(&asked.session))
                            input type="hidden" name="offer" value=(kind.word());
                            button { "Start" span class="away" { ": " (kind.word()) } }
                        },
                        None => {},
                    }
                }
                p { (text) }
                (command.shown())
            }
        }
    };
    html! {
        ul class="offers" {
            (action(Kind::Heal, "Rebuilds what targets lack, from the others."))
            (action(Kind::Scrub, "Reads everything, and mends what a disk has changed in silence."))
        }
    }
}

/// One stripe as an example: a column a target, a row of cells.
fn stripe_section(stripe: &StripeView) -> Markup {
    let layout = &stripe.layout;
    let cell = |role: usize, row: usize| {
        let (class, word, text) = match layout.content(layout.cell(role, row)) {
            Content::Data(number) => ("data", "data", format!("{}", number + 1)),
            Content::RowParity(row) => ("row", "parity of row", format!("R{}", row + 1)),
            Content::DiagonalParity(diagonal) => (
                "diagonal",
                "parity of diagonal",
                format!("D{}", diagonal + 1),
            ),
        };
        html! { span class=(class) title={ (word) " " (text) } { (text) } }
    };
    let roles = || stripe.parts.iter().enumerate();
    html! {
        section {
            h2 { "One stripe" }
            p class="soft narrow" {
                "The largest pack, " code { (stripe.name.id.short()) } ", in cells of "
                (look::bytes(stripe.cell_len))
                ". Numbers are its data, R and D the exclusive or of a row and of a "
                "diagonal: any two columns can be computed from the others. For other packs the "
                "columns stand in another order."
            }
            div class="scroll" tabindex="0" { table class="stripe" {
                caption class="away" { "Where the cells of one stripe are" }
                thead { tr {
                    th scope="col" { span class="away" { "Row" } }
                    @for (_, part) in roles() {
                        th scope="col" { bdi { (short_url(&part.url)) } }
                    }
                } }
                tbody {
                    @for row in 0..layout.rows() { tr {
                        th scope="row" { (row + 1) }
                        @for (role, part) in roles() {
                            td class=(part_class(part.state)) { (cell(role, row)) }
                        }
                    } }
                    tr {
                        th scope="row" { span class="away" { "State" } }
                        @for (_, part) in roles() {
                            td class="small" { (part_word(part.state)) }
                        }
                    }
                }
            } }
            p class="soft small" {
                "To rebuild one column, " (format!("{:.2}", rebuild_cost(layout)))
                " cells are read for each cell of it, on average."
            }
        }
    }
}

fn part_class(state: PartState) -> &'static str {
    match state {
        PartState::There => "there",
        PartState::Lacking => "lacking",
        PartState::Away => "lost",
    }
}

fn part_word(state: PartState) -> &'static str {
    match state {
        PartState::There => "there",
        PartState::Lacking => "lacking",
        PartState::Away => "away",
    }
}

/// The end of a URL, which tells targets apart.
fn short_url(url: &str) -> String {
    let end = url.trim_end_matches('/').rsplit('/').next().unwrap_or(url);
    tabane_text::printable(end)
}

/// Where the traffic of a cluster appears.
fn traffic_frame(place: &str) -> Markup {
    html! {
        section data-events={ (place_address(place)) "/redundancy/traffic" } {
            h2 { "Nodes and traffic" }
            div id="traffic" { p class="soft" { "The nodes are being asked …" } }
            noscript {
                p { "Without scripts, " code { "tabane cluster status" } " tells the same." }
            }
        }
    }
}

/// Sends how the nodes of a cluster are, again and again.
pub async fn traffic(asked: Asked) -> Result<Response, Failure> {
    let set = set_of(&asked.shown)?;
    let open = set.nodes.as_ref();
    open.ok_or_else(|| Failure::not_found("this repository is on no cluster"))?;
    let (sender, answer) = events::stream();
    let shown = Arc::clone(&asked.shown);
    tokio::spawn(async move {
        // The browser may be gone.
        let _ = watch(&shown, &sender).await;
    });
    Ok(answer)
}

/// What the nodes say at one moment.
type Answers = Vec<(String, String, Result<Status, String>)>;

async fn watch(shown: &Arc<Shown>, sender: &Sender) -> Result<(), events::Gone> {
    let mut before: Option<(Answers, Instant)> = None;
    // To try all links takes connections between all nodes, so it is done once.
    let mut cut = None;
    loop {
        let (asked, with_links) = (Arc::clone(shown), cut.is_none());
        let answers = shown.ask_apart(move || ask_nodes(&asked, with_links)).await;
        let now = Instant::now();
        let markup = match answers {
            Ok((answers, links)) => {
                let cut = cut.get_or_insert(links);
                let markup = traffic_table(&answers, cut, before.as_ref());
                before = Some((answers, now));
                markup
            }
            Err(failure) => html! { p class="note bad" { (look::sentence(failure.text())) } },
        };
        sender.put_later("traffic", markup).await?;
        tokio::time::sleep(TRAFFIC_PAUSE).await;
    }
}

/// Asks all nodes at once; with `with_links`, also which links between them are cut.
fn ask_nodes(shown: &Shown, with_links: bool) -> Result<(Answers, Vec<String>), Failure> {
    let open = set_of(shown)?.nodes.as_ref();
    let open = open.ok_or_else(|| Failure::not_found("this repository is on no cluster"))?;
    let nodes = open().map_err(Failure::unavailable)?;
    let answers: Answers = std::thread::scope(|scope| {
        let ask = |node: &Arc<NodeStorage>| {
            let node = Arc::clone(node);
            scope.spawn(move || {
                let status = node.status().map_err(|error| error.to_string());
                (node.name().to_owned(), node.address().to_owned(), status)
            })
        };
        let asking: Vec<_> = nodes.iter().map(ask).collect();
        asking
            .into_iter()
            .filter_map(|thread| thread.join().ok())
            .collect()
    });
    let answering = nodes
        .iter()
        .zip(&answers)
        .filter(|(_, (_, _, status))| status.is_ok());
    let answering: Vec<&NodeStorage> = answering.map(|(node, _)| &**node).collect();
    let cut = if with_links {
        cluster::cut_links(&answering).unwrap_or_default()
    } else {
        Vec::new()
    };
    Ok((answers, cut))
}

fn traffic_table(answers: &Answers, cut: &[String], before: Option<&(Answers, Instant)>) -> Markup {
    let rate = |name: &str, value: fn(&Status) -> u64| {
        let (before, then) = before?;
        let old = before
            .iter()
            .find(|(other, _, _)| other == name)?
            .2
            .as_ref()
            .ok()?;
        let new = answers
            .iter()
            .find(|(other, _, _)| other == name)?
            .2
            .as_ref()
            .ok()?;
        let bytes = value(new).checked_sub(value(old))?;
        Some(bytes as f64 / then.elapsed().as_secs_f64().max(0.1))
    };
    let shown = |rate: Option<f64>| match rate {
        Some(rate) => format!("{}/s", tabane_text::bytes_rounded(rate as u64)),
        None => "…".to_owned(),
    };
    html! {
        @for link in cut { p class="note warn" { (look::sentence(link)) } }
        div class="scroll" tabindex="0" { table {
            caption class="away" { "The nodes, and what they do now" }
            thead { tr {
                th scope="col" { "Node" }
                th scope="col" class="tight" { "State" }
                th scope="col" class="number" { "Stores" }
                th scope="col" class="number" { "Relays" }
                th scope="col" class="number wide-only" { "Sessions" }
                th scope="col" class="number wide-only" { "Free" }
                th scope="col" class="number wide-only" { "Up" }
            } }
            tbody { @for (name, address, status) in answers { tr {
                th scope="row" { bdi { (tabane_text::printable(name)) } " "
                    span class="soft small" { (tabane_text::printable(address)) } }
                @match status {
                    Err(why) => {
                        td class="tight" { span class="badge bad" { "missing" } }
                        td colspan="5" class="soft names" { (look::sentence(why)) }
                    }
                    Ok(status) => {
                        td class="tight" {
                            @if status.free_bytes < RESERVE_BYTES {
                                span class="badge bad" { "full" }
                            } @else { span class="badge good" { "answers" } }
                        }
                        td class="number" { (shown(rate(name, |status| status.stored_bytes))) }
                        td class="number" { (shown(rate(name, |status| status.relayed_bytes))) }
                        td class="number wide-only" { (tabane_text::grouped(status.sessions)) }
                        td class="number wide-only" { (look::bytes(status.free_bytes)) }
                        td class="number wide-only" { (look::clock(status.uptime_s as i64)) }
                    }
                }
            } } }
        } }
    }
}
