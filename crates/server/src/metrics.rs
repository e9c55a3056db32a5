//! Counters in the text format of Prometheus, and whether the server is well, over HTTP.

use std::fmt::Write as _;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use tabane_http::{Limits, Listener};
use tokio::net::TcpListener;

use crate::counters::Counters;
use crate::realm::Realm;
use crate::service::{Answer, Service, full};

/// Bounds on who asks: few, soon, and with little.
const LIMITS: Limits = Limits {
    connections_max: 64,
    head_timeout: Duration::from_secs(5),
    stall_timeout: Duration::from_secs(5),
    head_len_max: 16 << 10,
};

/// Answers `/metrics` and `/health` for ever.
pub async fn serve(socket: TcpListener, service: Service) {
    let handler = move |request: Request<Incoming>| {
        let response = answer(request.uri().path(), &service.realm, &service.counters);
        async move { response }
    };
    let listener = Listener::new(socket, None, LIMITS);
    listener.serve(handler, std::future::pending::<()>()).await;
}

fn answer(path: &str, realm: &Realm, counters: &Counters) -> Response<Answer> {
    let (status, body) = match path {
        "/metrics" => (StatusCode::OK, text(realm, counters)),
        "/health" => match counters.damaged_objects.get() {
            0 => (StatusCode::OK, "ok\n".to_owned()),
            damaged => (
                StatusCode::SERVICE_UNAVAILABLE,
                format!("damaged objects: {damaged}\n"),
            ),
        },
        _ => (
            StatusCode::NOT_FOUND,
            "there are /metrics and /health\n".to_owned(),
        ),
    };
    let mut response = Response::new(full(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/plain; version=0.0.4");
    headers.insert(CONTENT_TYPE, kind);
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn text(realm: &Realm, counters: &Counters) -> String {
    let mut text = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, value: u64| {
        let _ = write!(
            text,
            "# HELP tabane_serve_{name} {help}\n# TYPE tabane_serve_{name} \
             {kind}\ntabane_serve_{name} {value}\n"
        );
    };
    let numbers = [
        (
            "connections",
            "gauge",
            "Open connections.",
            &counters.connections,
        ),
        (
            "requests_total",
            "counter",
            "Requests that were done as asked.",
            &counters.requests,
        ),
        (
            "failed_requests_total",
            "counter",
            "Requests that were refused or failed.",
            &counters.failed_requests,
        ),
        (
            "unknown_clients_total",
            "counter",
            "Requests and handshakes without a known token or certificate.",
            &counters.unknown_clients,
        ),
        (
            "dropped_connections_total",
            "counter",
            "Connections that were closed since no known client used them.",
            &counters.dropped_connections,
        ),
        (
            "received_bytes_total",
            "counter",
            "Bytes of objects that were stored.",
            &counters.received_bytes,
        ),
        (
            "sent_bytes_total",
            "counter",
            "Bytes of objects that were sent.",
            &counters.sent_bytes,
        ),
        (
            "scrubbed_objects_total",
            "counter",
            "Objects that scrubs have read.",
            &counters.scrubbed_objects,
        ),
        (
            "damaged_objects",
            "gauge",
            "Objects that were damaged at the last scrub.",
            &counters.damaged_objects,
        ),
        (
            "scrub_time_seconds",
            "gauge",
            "When the scrub ended that is longest ago of all repositories (Unix time); 0 if there \
             was none.",
            &counters.scrubbed_at,
        ),
    ];
    for (name, kind, help, counter) in numbers {
        metric(name, kind, help, counter.get());
    }
    let name = "tabane_serve_repository_bytes";
    let _ = write!(
        text,
        "# HELP {name} Bytes of a repository, where a quota had them counted.\n# TYPE {name} \
         gauge\n"
    );
    for (repository, found) in realm.all() {
        if let Some(bytes) = found.known_bytes() {
            let _ = writeln!(text, "{name}{{repository=\"{repository}\"}} {bytes}");
        }
    }
    text
}
