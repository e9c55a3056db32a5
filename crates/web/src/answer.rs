//! Answers that are no page of their own: failures, redirects, and the headers of all answers.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use tabane_storage::StorageErrorKind;
use tabane_store::Error;

use crate::look::{self, Nav, Tab};

/// What a browser may do with answers: load styles, scripts and pictures of this server alone, and
/// nothing that stands in a page.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

/// What a browser may do with what comes out of a backup: nothing.
pub const CONTENT_POLICY: &str = "default-src 'none'; sandbox; frame-ancestors 'none'";

/// Why there is no answer.
#[derive(Debug)]
pub struct Failure {
    status: StatusCode,
    text: String,
    cause: Option<Box<Error>>,
}

impl Failure {
    fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self {
            status,
            text: text.into(),
            cause: None,
        }
    }

    /// There is no such thing.
    pub fn not_found(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, text)
    }

    /// The request makes no sense.
    pub fn wrong(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    /// This is not allowed.
    pub fn forbidden(text: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, text)
    }

    /// Something else is in the way.
    pub fn conflict(text: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, text)
    }

    /// The repository cannot answer.
    pub fn unavailable(text: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }

    /// The program has a bug, of which it has told on standard error.
    pub fn bug() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "this is a bug in tabane, please report it: see the terminal for what happened",
        )
    }

    /// The same with advice.
    pub fn explained(mut self, explain: fn(&Error) -> String) -> Self {
        if let Some(cause) = &self.cause {
            self.text = explain(cause);
        }
        self
    }

    /// Whether the storage has failed, other than by lacking an object.
    pub fn is_of_storage(&self) -> bool {
        matches!(self.cause.as_deref(), Some(Error::Storage { source, .. })
            if source.kind() != StorageErrorKind::NotFound)
    }

    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The sentence.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::NoSuchPath { .. } | Error::NoSnapshot(_) | Error::AmbiguousSnapshot { .. } => {
                StatusCode::NOT_FOUND
            }
            Error::WrongKind(_) | Error::Invalid(_) | Error::Pattern(_) => StatusCode::BAD_REQUEST,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self {
            status,
            text: error.to_string(),
            cause: Some(Box::new(error)),
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let title = match self.status {
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::BAD_REQUEST => "This cannot be done",
            StatusCode::FORBIDDEN => "Not allowed",
            StatusCode::CONFLICT => "Not now",
            _ => "No answer",
        };
        let text = tabane_text::printable(&self.text);
        let body = html! {
            h1 { (title) }
            p class="lead" { (look::sentence(&text)) }
            p { a href="/" { "All repositories" } }
        };
        page(self.status, look::frame(title, None, body))
    }
}

/// An answer with a page.
pub fn page(status: StatusCode, markup: Markup) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (status, headers, markup.into_string()).into_response()
}

/// An answer with a page about a repository.
pub fn of_repository(place: &str, tab: Tab, title: &str, body: Markup) -> Response {
    let nav = Nav { place, tab };
    page(StatusCode::OK, look::frame(title, Some(nav), body))
}

/// Sends the browser to another address of this server.
pub fn redirect(address: &str) -> Response {
    // Addresses are made by this program, of ASCII.
    let address = HeaderValue::from_str(address).unwrap_or(HeaderValue::from_static("/"));
    let answer = Response::builder()
        .status(StatusCode::SEE_OTHER)
        .header(header::LOCATION, address);
    answer.body(Body::empty()).expect("it is well-formed")
}

/// Adds what all answers have.
pub fn harden(mut answer: Response) -> Response {
    let headers = answer.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Without any, forms would come with the origin `null`.
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::CACHE_CONTROL, "no-store"),
        (
            header::HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            header::HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ] {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    answer
}
