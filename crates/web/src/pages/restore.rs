//! Brings files back to a chosen place, after a dry run.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};

use crate::answer::{self, Failure};
use crate::app::{App, AppState};
use crate::asked::{Asked, Found, Target};
use crate::command::Command;
use crate::encoding::Fields;
use crate::form::{self, Sent};
use crate::jobs::{Kind, Order};
use crate::look::frame::place_address;
use crate::look::{self, Tab};
use crate::pages::jobs::begin;

/// What a restore does with what is there: value of the option, and its words.
const OVERWRITE: [(&str, &str); 4] = [
    ("always", "Replace what differs"),
    ("if-changed", "Replace what differs in size or time"),
    ("if-newer", "Replace only older files"),
    ("never", "Replace nothing, restore what is missing"),
];

/// Shows the form.
pub async fn get(State(app): AppState, asked: Asked) -> Result<Response, Failure> {
    let target = target_of(&asked.fields);
    let looked_up = target.clone();
    let found = asked
        .shown
        .ask(move |opened| looked_up.find(opened))
        .await?;
    let body = html! {
        h1 { "Restore " bdi { (look::path_text(&target.path)) } }
        p class="soft" {
            "As " bdi { (tabane_text::printable(&found.snapshot.hostname)) } " had it at "
            (look::time(found.snapshot.time)) "."
        }
        @if app.allow_restore.is_empty() {
            p class="note" {
                "This page may write nothing: the server was started without --allow-restore DIR. "
                "This command does the same; it lists what it would do, and does it without "
                "--dry-run."
            }
            (Command::new(&asked.shown.place, "restore").words([
                place_of(&found, &target).as_os_str(), OsStr::new("--target"),
                OsStr::new("/tmp/restored"), OsStr::new("--dry-run"), OsStr::new("-v"),
            ]).shown())
        } @else { (inputs(&app, &asked, &found, &target)) }
    };
    Ok(answer::of_repository(
        asked.name(),
        Tab::Snapshots,
        "Restore",
        body,
    ))
}

fn target_of(fields: &Fields) -> Target {
    Target {
        snapshot: fields.text("snapshot"),
        path: fields.path("path"),
    }
}

/// The argument of the command that names snapshot and path.
fn place_of(found: &Found, target: &Target) -> PathBuf {
    let mut place = found.id.to_string().into_bytes();
    if target.path != Path::new("/") {
        place.push(b':');
        place.extend_from_slice(target.path.as_os_str().as_bytes());
    }
    PathBuf::from(OsStr::from_bytes(&place))
}

fn inputs(app: &App, asked: &Asked, found: &Found, target: &Target) -> Markup {
    let date = found.snapshot.time.strftime("%Y-%m-%d");
    let proposed = format!("restored-{date}");
    html! {
        form class="sheet narrow stack" method="post"
            action={ (place_address(asked.name())) "/restore" } {
            (form::token(&asked.session))
            input type="hidden" name="snapshot" value=(found.id);
            // A path of any bytes does not survive a text field.
            input type="hidden" name="path" value=(crate::encoding::path(&target.path));
            div class="fields" {
                label class="above" { span { "Below" }
                    select name="root" {
                        @for (number, root) in app.allow_restore.iter().enumerate() {
                            option value=(number) { (look::path_text(root)) }
                        }
                    }
                }
                label class="above grow" { span { "in the folder (made if it is not there)" }
                    input type="text" name="folder" value=(proposed) spellcheck="false";
                }
            }
            fieldset class="stack" {
                legend { "What is there already" }
                @for (number, (value, text)) in OVERWRITE.iter().enumerate() {
                    label {
                        input type="radio" name="overwrite" value=(value) checked[number == 0];
                        (text)
                    }
                }
            }
            label {
                input type="checkbox" name="delete" value="yes";
                "Delete what the snapshot does not have"
            }
            label {
                input type="checkbox" name="verify" value="yes";
                "Read everything again at the end"
            }
            p class="row" {
                button class="main" { "Dry run" }
                span class="soft" { "lists what would be written, replaced and deleted" }
            }
        }
    }
}

/// Starts the dry run.
pub async fn post(
    State(app): AppState,
    asked: Asked,
    Sent(fields): Sent,
) -> Result<Response, Failure> {
    app.may_start(Kind::Restore)?;
    let path = crate::encoding::parse_path(&fields.text("path"));
    let target = Target {
        snapshot: fields.text("snapshot"),
        path: path.ok_or_else(|| Failure::wrong("this is no path of a snapshot"))?,
    };
    let looked_up = target.clone();
    let found = asked
        .shown
        .ask(move |opened| looked_up.find(opened))
        .await?;
    let root = fields
        .number("root")
        .and_then(|number| app.allow_restore.get(number));
    let root = root.ok_or_else(|| Failure::wrong("choose one of the folders"))?;
    let folder = fields.bytes("folder").unwrap_or_default();
    let folder = Path::new(OsStr::from_bytes(folder));
    let is_plain = |component| matches!(component, Component::Normal(_));
    if !folder.components().all(is_plain) {
        return Err(Failure::wrong(
            "the folder must be below the one that is allowed, without ..",
        ));
    }
    let directory = root.join(folder);
    let overwrite = fields.text("overwrite");
    let overwrite = OVERWRITE.iter().find(|(value, _)| *value == overwrite);
    let (overwrite, _) = overwrite.ok_or_else(|| Failure::wrong("choose what is replaced"))?;
    let mut command = Command::new(&asked.shown.place, "restore").words([
        place_of(&found, &target).as_os_str(),
        OsStr::new("--target"),
        directory.as_os_str(),
        // Whoever can write there may put a link in the way, also after the dry run.
        OsStr::new("--within"),
        root.as_os_str(),
        OsStr::new("--overwrite"),
        OsStr::new(overwrite),
    ]);
    for option in ["delete", "verify"] {
        if fields.has(option) {
            command = command.words([format!("--{option}")]);
        }
    }
    let order = |words: &[&str], next| Order {
        kind: Kind::Restore,
        command: command.clone().words(words),
        next,
    };
    let real = order(&["-v"], None);
    begin(
        &app,
        &asked,
        order(&["-v", "--dry-run"], Some(Box::new(real))),
    )
}
