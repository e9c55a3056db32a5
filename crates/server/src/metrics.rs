//! Counters in the text format of Prometheus, and whether the server is well, over HTTP.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::counters::Counters;
use crate::realm::Realm;
use crate::service::{Answer, Service, full};

/// Time for a request and its answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Answers `/metrics` and `/health` for ever.
pub async fn serve(listener: TcpListener, service: Service) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let of = service.clone();
        let answering = service_fn(move |request: Request<Incoming>| {
            let response = answer(request.uri().path(), &of.realm, &of.counters);
            async move { Ok::<_, Infallible>(response) }
        });
        tokio::spawn(async move {
            let mut http = hyper::server::conn::http1::Builder::new();
            http.keep_alive(false);
            let connection = http.serve_connection(TokioIo::new(stream), answering);
            let _ = tokio::time::timeout(TIMEOUT, connection).await;
        });
    }
}

fn answer(path: &str, realm: &Realm, counters: &Counters) -> Response<Answer> {
    let (status, body) = match path {
        "/metrics" => (StatusCode::OK, text(realm, counters)),
        "/health" => match counters.damaged_objects.get() {
            0 => (StatusCode::OK, "ok\n".to_owned()),
            damaged => (
                StatusCode::SERVICE_UNAVAILABLE,
                format!("{damaged} objects are damaged\n"),
            ),
        },
        _ => (
            StatusCode::NOT_FOUND,
            "there are /metrics and /health\n".to_owned(),
        ),
    };
    let mut response = Response::new(full(body));
    *response.status_mut() = status;
    let kind = "text/plain; version=0.0.4".parse().expect("it is a type");
    response.headers_mut().insert(CONTENT_TYPE, kind);
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
