//! Which function answers which address, and who is let in.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};

use crate::access::{Login, basic_password};
use crate::answer::{self, Failure};
use crate::app::{App, AppState};
use crate::encoding::Fields;
use crate::{assets, content, dav, pages};

/// The answers to all addresses.
pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(pages::overview::get))
        .route("/login", get(pages::login::get).post(pages::login::post))
        .route("/logout", post(pages::login::end))
        .route("/assets/{version}/{name}", get(assets::get))
        .route("/repository/{place}", get(pages::snapshots::get))
        .route("/repository/{place}/compare", get(pages::compare::get))
        .route(
            "/repository/{place}/jobs",
            get(pages::jobs::list).post(pages::jobs::start),
        )
        .route("/repository/{place}/jobs/{id}", get(pages::jobs::show))
        .route(
            "/repository/{place}/jobs/{id}/events",
            get(pages::jobs::events),
        )
        .route(
            "/repository/{place}/jobs/{id}/cancel",
            post(pages::jobs::cancel),
        )
        .route(
            "/repository/{place}/jobs/{id}/next",
            post(pages::jobs::next),
        )
        .route(
            "/repository/{place}/redundancy",
            get(pages::redundancy::get),
        )
        .route(
            "/repository/{place}/redundancy/traffic",
            get(pages::redundancy::traffic),
        )
        .route(
            "/repository/{place}/restore",
            get(pages::restore::get).post(pages::restore::post),
        )
        .route(
            "/repository/{place}/retention",
            get(pages::retention::get).post(pages::retention::post),
        )
        .route("/repository/{place}/search", get(pages::search::get))
        .route("/repository/{place}/search/hits", get(pages::search::hits))
        .route(
            "/repository/{place}/versions/{*path}",
            get(pages::versions::get),
        )
        .route("/repository/{place}/{id}/files", get(pages::browse::get))
        .route(
            "/repository/{place}/{id}/files/{*path}",
            get(pages::browse::get),
        )
        .route(
            "/repository/{place}/{id}/raw/{*path}",
            get(content::download::raw),
        )
        .route("/repository/{place}/{id}/tar", get(content::download::tar))
        .route(
            "/repository/{place}/{id}/tar/{*path}",
            get(content::download::tar),
        )
        .route("/repository/{place}/{id}/zip", get(content::download::zip))
        .route(
            "/repository/{place}/{id}/zip/{*path}",
            get(content::download::zip),
        )
        .route(
            "/repository/{place}/{id}/show/{*path}",
            get(content::download::show),
        )
        .route("/dav", any(dav::answer))
        .route("/dav/{*path}", any(dav::answer))
        .route("/dav/", any(dav::answer))
        .fallback(|| async { Failure::not_found("there is no such page") })
        .layer(from_fn_with_state(Arc::clone(&app), check))
        .with_state(app)
}

/// Lets a request in, or not.
async fn check(State(app): AppState, mut request: Request, next: Next) -> Response {
    let headers = request.headers();
    if !app.access.is_meant(headers) {
        let text = "this server does not answer under this name\n";
        return answer::harden((StatusCode::MISDIRECTED_REQUEST, text).into_response());
    }
    let path = request.uri().path();
    if path == "/dav" || path.starts_with("/dav/") {
        return answer::harden(of_dav(&app, request, next).await);
    }
    if !app.access.is_from_here(request.method(), headers) {
        let text = "this request does not come from a page of this server";
        return answer::harden(Failure::forbidden(text).into_response());
    }
    let session = app.access.session(headers);
    if let Some(session) = session {
        request.extensions_mut().insert(session);
    } else if app.access.is_by_certificate() {
        let (session, cookie) = app.access.begin();
        request.extensions_mut().insert(session);
        let answer = next.run(request).await;
        return answer::harden(pages::login::with_cookie(answer, &cookie));
    } else if path == "/"
        && let Some(query) = request.uri().query()
    {
        let fields = Fields::parse(query);
        return answer::harden(pages::login::by_token(&app, fields).await);
    } else if path != "/login" && !path.starts_with("/assets/") {
        return answer::harden(match *request.method() {
            Method::GET => answer::redirect("/login"),
            _ => StatusCode::UNAUTHORIZED.into_response(),
        });
    }
    answer::harden(next.run(request).await)
}

/// Lets a program for WebDAV in, or not: such a program knows name and password, and no cookies.
async fn of_dav(app: &App, request: Request, next: Next) -> Response {
    let (headers, access) = (request.headers(), &app.access);
    let is_known = access.session(headers).is_some() || access.is_by_certificate();
    if !is_known {
        let Some(password) = basic_password(headers) else {
            return dav::unauthorized();
        };
        match access.try_secret(&password).await {
            Login::Right => {}
            Login::Wrong => {
                (app.report)("a login for WebDAV failed: the password was wrong");
                return dav::unauthorized();
            }
            Login::TooMany => return StatusCode::TOO_MANY_REQUESTS.into_response(),
        }
    }
    next.run(request).await
}
