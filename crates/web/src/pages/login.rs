//! Lets people in and out.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use maud::{Markup, html};
use tabane_http::Peer;

use crate::access::Login;
use crate::answer::{self, Failure};
use crate::app::{App, AppState};
use crate::encoding::Fields;
use crate::{form, look};

/// Asks for token or password.
pub async fn get(State(app): AppState) -> Response {
    answer::page(StatusCode::OK, ask(&app, None))
}

fn ask(app: &App, wrong: Option<&str>) -> Markup {
    let (what, help) = if app.access.has_password() {
        (
            "Password",
            "The password of this page, as its keeper has set it.",
        )
    } else {
        (
            "Token",
            "Open the address that the command printed when it was started, or copy what stands \
             there behind “token=”.",
        )
    };
    let body = html! {
        h1 { "Log in" }
        form class="narrow" method="post" action="/login" {
            @if let Some(wrong) = wrong {
                p class="note bad" role="alert" { (wrong) }
            }
            p { label class="above" {
                span { (what) }
                input type="password" name="secret" required autofocus
                    autocomplete="current-password" aria-describedby="help";
            } }
            p id="help" class="soft small" { (help) }
            p { button class="main" { "Log in" } }
        }
    };
    look::frame("Log in", None, body)
}

/// Tries what was typed.
pub async fn post(State(app): AppState, request: Request) -> Result<Response, Failure> {
    let from = request
        .extensions()
        .get::<Peer>()
        .map(|peer| peer.address.ip());
    let fields = form::read(request.into_body()).await?;
    let secret = fields.bytes("secret").unwrap_or_default();
    Ok(match app.access.try_secret(secret).await {
        Login::Right => enter(&app),
        Login::Wrong => {
            let from = from.map_or_else(|| "somewhere".to_owned(), |ip| ip.to_string());
            (app.report)(&format!("a login from {from} failed: the secret was wrong"));
            answer::page(StatusCode::FORBIDDEN, ask(&app, Some("It is wrong.")))
        }
        Login::TooMany => {
            let text = "Too many attempts at once: try again in a while.";
            answer::page(StatusCode::TOO_MANY_REQUESTS, ask(&app, Some(text)))
        }
    })
}

/// Lets in whoever has the address with the token.
pub async fn by_token(app: &Arc<App>, fields: Fields) -> Response {
    let token = fields.bytes("token").unwrap_or_default();
    match app.access.try_secret(token).await {
        Login::Right => enter(app),
        _ => {
            let text = "This token is none of the running server.";
            answer::page(StatusCode::FORBIDDEN, ask(app, Some(text)))
        }
    }
}

/// Begins a session. The way goes on by a page and not by a redirect: the browser would not send
/// a strict cookie after it, if another page or program has led here.
fn enter(app: &App) -> Response {
    let body = html! {
        meta http-equiv="refresh" content="0; url=/";
        p { a href="/" autofocus { "Go on" } }
    };
    let page = answer::page(StatusCode::OK, look::frame("Welcome", None, body));
    with_cookie(page, &app.access.begin().1)
}

/// Ends the session.
pub async fn end(State(app): AppState, request: Request) -> Response {
    let cookie = app.access.end(request.headers());
    with_cookie(answer::redirect("/login"), &cookie)
}

/// The answer with a `Set-Cookie`.
pub fn with_cookie(mut answer: Response, cookie: &str) -> Response {
    let cookie = HeaderValue::from_str(cookie).expect("it has no control characters");
    answer.headers_mut().insert(header::SET_COOKIE, cookie);
    answer
}
