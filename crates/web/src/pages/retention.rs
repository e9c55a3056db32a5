//! What rules of removal would keep, and why, before anything is removed.

use std::collections::BTreeMap;
use std::path::Path;

use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use maud::{Markup, html};
use tabane_store::forget::{self, Age, Count, Group, GroupBy, Period, Rule};
use tabane_store::snapshot::{Snapshot, split_tags};
use tabane_store::{Error, Id};

use crate::answer::{self, Failure};
use crate::app::{App, AppState};
use crate::asked::{Asked, address};
use crate::command::Command;
use crate::encoding::{Fields, query};
use crate::form::{self, Sent};
use crate::jobs::{Kind, Order};
use crate::look::calendar::{self, Calendar, Day};
use crate::look::frame::place_address;
use crate::look::{self, Tab};
use crate::pages::jobs::begin;

/// The rules that the page offers: field and option, text, period.
const COUNTS: [(&str, &str, Period); 6] = [
    ("keep-last", "Latest", Period::Each),
    ("keep-hourly", "Hours", Period::Hour),
    ("keep-daily", "Days", Period::Day),
    ("keep-weekly", "Weeks", Period::Week),
    ("keep-monthly", "Months", Period::Month),
    ("keep-yearly", "Years", Period::Year),
];

/// What is proposed where nothing was chosen.
const PROPOSED: [(&str, &str); 4] = [
    ("keep-daily", "7"),
    ("keep-weekly", "5"),
    ("keep-monthly", "12"),
    ("keep-yearly", "10"),
];

/// Snapshots of one group on the page.
const ROWS_MAX: usize = 400;

/// Rules as the form has them: text, since that is what goes into the command.
struct Form {
    values: Vec<(&'static str, String)>,
    group_by: String,
    until: Option<Date>,
}

/// Rules, and the words of the command that has them.
struct Rules {
    rules: Vec<Rule>,
    group_by: GroupBy,
    words: Vec<String>,
}

impl Form {
    fn of(fields: &Fields) -> Self {
        let names = COUNTS.map(|(name, _, _)| name).into_iter();
        let names = names.chain(["keep-within", "keep-tag"]);
        let proposed = |name: &str| {
            let mut proposed = PROPOSED.iter().filter(|(other, _)| *other == name);
            proposed.next().map_or("", |(_, value)| value).to_owned()
        };
        let is_sent = fields.has("group-by");
        let value = |name| {
            if is_sent {
                fields.text(name)
            } else {
                proposed(name)
            }
        };
        Self {
            values: names.map(|name| (name, value(name))).collect(),
            group_by: if is_sent {
                fields.text("group-by")
            } else {
                "host,paths".to_owned()
            },
            until: fields.text("until").parse().ok(),
        }
    }

    fn value(&self, name: &str) -> &str {
        let mut named = self.values.iter().filter(|(other, _)| *other == name);
        named.next().map_or("", |(_, value)| value)
    }

    /// Reads the rules.
    fn rules(&self) -> Result<Rules, Error> {
        let mut rules = Vec::new();
        let mut words = Vec::new();
        if self.group_by != "host,paths" {
            words.extend(["--group-by".to_owned(), self.group_by.clone()]);
        }
        for (name, value) in &self.values {
            if value.is_empty() {
                continue;
            }
            let count = COUNTS.iter().find(|(other, _, _)| other == name);
            let rule = match count {
                Some((_, _, period)) => Rule::Last(*period, value.parse::<Count>()?),
                None if *name == "keep-within" => Rule::Within(Period::Each, value.parse::<Age>()?),
                None => Rule::Tags(split_tags(value)),
            };
            words.extend([format!("--{name}"), value.clone()]);
            if rule != Rule::Last(Period::Each, Count::AtMost(0)) {
                rules.push(rule);
            }
        }
        Ok(Rules {
            rules,
            group_by: self.group_by.parse()?,
            words,
        })
    }
}

/// A group, and why each of its snapshots stays; one without a reason goes.
struct Judged {
    group: Group,
    reasons: Vec<Vec<String>>,
}

impl Judged {
    fn kept(&self) -> usize {
        self.reasons
            .iter()
            .filter(|reasons| !reasons.is_empty())
            .count()
    }
}

/// Shows the rules and what they would do.
pub async fn get(State(app): AppState, asked: Asked) -> Result<Response, Failure> {
    let name = asked.name().to_owned();
    let asking = asked.shown.ask(|opened| {
        let listed = opened.snapshots()?;
        let snapshots = listed.snapshots().iter().map(|(id, made)| (id, &**made));
        let misdated = forget::misdated(&opened.repository, snapshots)?;
        Ok((listed, misdated))
    });
    let (listed, misdated) = asking.await?;
    let form = Form::of(&asked.fields);
    let rules = form.rules();
    let (zone, now) = (TimeZone::system(), Timestamp::now());
    let judged = rules.as_ref().ok().filter(|rules| !rules.rules.is_empty());
    let judged: Option<Vec<Judged>> = judged.map(|rules| {
        let snapshots = listed.snapshots().iter();
        let snapshots = snapshots.map(|(id, at)| (*id, (**at).clone())).collect();
        let groups = forget::group(snapshots, rules.group_by).into_iter();
        let judge = |group: Group| Judged {
            reasons: forget::reasons(&rules.rules, &group.snapshots, &zone, now, &misdated),
            group,
        };
        groups.map(judge).collect()
    });
    let body = html! {
        h1 { "Retention" }
        p class="narrow soft" {
            "Try rules here before they remove anything. A snapshot stays if any rule wants it; "
            "each reason stands beside it."
        }
        (inputs(&name, &form))
        @if let Err(error) = &rules { p class="note bad" role="alert" {
            (look::sentence(&error.to_string()))
        } }
        @match (&judged, &rules) {
            (Some(judged), Ok(rules)) => (result(&app, &form, rules, judged, &asked)),
            (None, Ok(_)) => p class="lead" { "No rule is given, so nothing would be removed." },
            _ => {}
        }
    };
    Ok(answer::of_repository(
        &name,
        Tab::Retention,
        "Retention",
        body,
    ))
}

fn inputs(place: &str, form: &Form) -> Markup {
    let groups = [
        ("host,paths", "host and paths"),
        ("host", "host"),
        ("paths", "paths"),
        ("", "nothing: one group"),
    ];
    html! {
        form class="sheet fields" method="get" action={ (place_address(place)) "/retention" } {
            fieldset class="row" {
                legend { "Keep the latest snapshot of each of so many" }
                @for (name, text, _) in COUNTS {
                    label class="above" { span { (text) }
                        input type="text" class="count" name=(name) value=(form.value(name))
                            inputmode="numeric" autocomplete="off";
                    }
                }
            }
            label class="above" { span { "All younger than" }
                input type="text" class="age" name="keep-within" placeholder="14d, 1y6m"
                    value=(form.value("keep-within")) autocomplete="off";
            }
            label class="above" { span { "Those with the tags" }
                input type="text" name="keep-tag" value=(form.value("keep-tag")) autocomplete="off";
            }
            label class="above" { span { "In each group of the same" }
                select name="group-by" {
                    @for (value, text) in groups {
                        option value=(value) selected[value == form.group_by] { (text) }
                    }
                }
            }
            button class="main" { "Try" }
        }
    }
}

fn result(app: &App, form: &Form, rules: &Rules, judged: &[Judged], asked: &Asked) -> Markup {
    let all: usize = judged.iter().map(|judged| judged.reasons.len()).sum();
    let kept: usize = judged.iter().map(Judged::kept).sum();
    let emptied = judged.iter().filter(|judged| judged.kept() == 0).count();
    let place = asked.name();
    let command = Command::new(&asked.shown.place, "forget").words(&rules.words);
    html! {
        dl class="numbers" {
            div { dt { "would stay" } dd { (tabane_text::grouped(kept as u64)) } }
            div { dt { "would be removed" } dd { (tabane_text::grouped((all - kept) as u64)) } }
        }
        @if emptied > 0 {
            p class="note warn" {
                "Of " (tabane_text::count(emptied as u64, "group")) " nothing would stay. The "
                "command refuses that."
            }
        }
        (calendar(place, form, judged))
        section {
            h2 { "The same on the command line" }
            (command.words(["--dry-run"]).shown())
            p class="soft small" {
                "Without --dry-run it removes the snapshots. What only they needed stays in the "
                "repository until it is pruned."
            }
            @if app.allow_jobs && kept < all && emptied == 0 {
                form method="post" action={ (place_address(place)) "/retention" } {
                    (form::token(&asked.session))
                    @for (name, value) in &form.values {
                        input type="hidden" name=(name) value=(value);
                    }
                    input type="hidden" name="group-by" value=(form.group_by);
                    button { "Start the dry run" }
                    " " span class="soft" { "It can be followed by the removal." }
                }
            }
        }
        @for judged in judged { (group(place, judged)) }
    }
}

/// Starts the dry run of a removal.
pub async fn post(
    State(app): AppState,
    asked: Asked,
    Sent(fields): Sent,
) -> Result<Response, Failure> {
    let rules = Form::of(&fields).rules()?;
    let command = Command::new(&asked.shown.place, "forget").words(&rules.words);
    let order = |command: Command, next| Order {
        kind: Kind::Forget,
        command,
        next,
    };
    let real = order(command.clone(), None);
    let tried = order(command.words(["--dry-run"]), Some(Box::new(real)));
    begin(&app, &asked, tried)
}

fn calendar(place: &str, form: &Form, judged: &[Judged]) -> Markup {
    let mut days: BTreeMap<Date, Day> = BTreeMap::new();
    let pairs = judged.iter();
    let pairs = pairs.flat_map(|judged| judged.group.snapshots.iter().zip(&judged.reasons));
    for ((_, snapshot), reasons) in pairs {
        let date = snapshot.time.to_zoned(TimeZone::system()).date();
        let day = days.entry(date).or_default();
        day.snapshots += 1;
        day.marked += u32::from(reasons.is_empty());
    }
    let Some((&first, &last)) = days.keys().next().zip(days.keys().last()) else {
        return html! {};
    };
    let until = form.until.unwrap_or(last);
    let link = |until: Date| {
        let until = until.to_string();
        let mut fields: Vec<(&str, &[u8])> = form
            .values
            .iter()
            .map(|(name, value)| (*name, value.as_bytes()))
            .collect();
        fields.push(("group-by", form.group_by.as_bytes()));
        fields.push(("until", until.as_bytes()));
        place_address(place) + "/retention" + &query(fields)
    };
    let months = calendar::MONTHS;
    let before = calendar::shifted(until, -months);
    html! {
        section aria-label="Calendar" {
            (Calendar {
                days: &days,
                until,
                chosen: None,
                marked: "would be removed",
                address: &|date| {
                    let date = date.to_string();
                    place_address(place) + &query([("day", date.as_bytes())]) + "#table"
                },
            }.draw())
            div class="row small" {
                @if first < calendar::shifted(before, 1) {
                    a href=(link(before)) rel="prev" { "Earlier months" }
                }
                @if last >= calendar::shifted(until, 1) {
                    a href=(link(calendar::shifted(until, months))) rel="next" { "Later months" }
                }
            }
        }
    }
}

fn group(place: &str, judged: &Judged) -> Markup {
    let group = &judged.group;
    let rows = group.snapshots.iter().zip(&judged.reasons).rev();
    let all = judged.reasons.len();
    html! {
        section {
            h2 {
                @if let Some(host) = &group.host { bdi { (tabane_text::printable(host)) } " " }
                @for path in group.paths.iter().flatten() { (look::name(path.as_bytes())) " " }
                @if group.host.is_none() && group.paths.is_none() { "All snapshots" }
            }
            div class="scroll" {
                table {
                    caption class="away" { "Snapshots of the group, and why they stay" }
                    thead { tr {
                        th scope="col" class="tight" { "Snapshot" }
                        th scope="col" class="tight" { "Would" }
                        th scope="col" { "Because it is the" }
                    } }
                    tbody {
                        @for (snapshot, reasons) in rows.take(ROWS_MAX) {
                            (row(place, snapshot, reasons))
                        }
                    }
                }
                @if all > ROWS_MAX {
                    div class="end-of-table soft" {
                        (tabane_text::count((all - ROWS_MAX) as u64, "earlier snapshot"))
                        " not listed: the calendar has them."
                    }
                }
            }
        }
    }
}

fn row(place: &str, (id, snapshot): &(Id, Snapshot), reasons: &[String]) -> Markup {
    html! {
        tr {
            th scope="row" class="tight" {
                a href=(address(place, *id, "files", Path::new("/"))) {
                    (look::time(snapshot.time))
                }
            }
            td class="tight" {
                @if reasons.is_empty() { span class="badge warn" { "be removed" } }
                @else { span class="badge good" { "stay" } }
            }
            td {
                @for reason in reasons {
                    span class="tag" { (tabane_text::printable(reason)) } " "
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_makes_rules_and_the_words_of_the_command() {
        let form = Form::of(&Fields::parse(
            "keep-daily=7&keep-last=&keep-within=1y&group-by=host&keep-tag=a,b",
        ));
        let rules = form.rules().expect("rules");
        assert_eq!(rules.rules.len(), 3);
        assert_eq!(
            rules.words.join(" "),
            "--group-by host --keep-daily 7 --keep-within 1y --keep-tag a,b"
        );
        let wrong = Form::of(&Fields::parse("keep-daily=many&group-by="));
        assert!(wrong.rules().is_err());
        // What is proposed.
        assert_eq!(
            Form::of(&Fields::default())
                .rules()
                .map(|rules| rules.rules.len())
                .ok(),
            Some(4)
        );
    }
}
