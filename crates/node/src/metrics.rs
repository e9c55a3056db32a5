//! Counters in the text format of Prometheus, and whether the node is well, over HTTP.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::counters::Counter;
use crate::shared::Shared;

/// A request is read up to here.
const REQUEST_MAX: usize = 1024;

/// Answers one request: `/metrics`, or `/health`.
pub fn answer(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut request = Vec::new();
    let mut piece = [0; 256];
    while request.len() < REQUEST_MAX && !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut piece)? {
            0 => break,
            len => request.extend_from_slice(&piece[..len]),
        }
    }
    let is_head = request.starts_with(b"HEAD ");
    let path = request.strip_prefix(if is_head {
        b"HEAD ".as_slice()
    } else {
        b"GET "
    });
    let path = path.unwrap_or_default();
    let (status, body) = if path.starts_with(b"/metrics ") {
        ("200 OK", text(shared))
    } else if path.starts_with(b"/health ") {
        match shared.home.trouble() {
            None => ("200 OK", "ok\n".to_owned()),
            Some(trouble) => ("503 Service Unavailable", format!("{trouble}\n")),
        }
    } else {
        (
            "404 Not Found",
            "there are /metrics and /health\n".to_owned(),
        )
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: \
         {}\r\nConnection: close\r\n\r\n{}",
        body.len(),
        if is_head { "" } else { &body }
    )
}

fn text(shared: &Shared) -> String {
    let (mut text, counters) = (String::new(), &shared.counters);
    let mut metric = |name: &str, kind: &str, help: &str, value: u64| {
        let _ = write!(
            text,
            "# HELP tabane_node_{name} {help}\n# TYPE tabane_node_{name} \
             {kind}\ntabane_node_{name} {value}\n"
        );
    };
    metric(
        "free_bytes",
        "gauge",
        "Bytes that are free where shards are kept.",
        shared.home.free_bytes(),
    );
    metric(
        "unauthenticated_connections",
        "gauge",
        "Connections that have not authenticated yet.",
        shared.door.unproved(),
    );
    metric(
        "sessions",
        "gauge",
        "Sessions that are open.",
        counters.sessions.get(),
    );
    if let Some(quota) = shared.home.quota_bytes() {
        metric("quota_bytes", "gauge", "Bytes that shards may take.", quota);
    }
    if let Some(until) = shared.node.credentials.until {
        let help = "When the certificate of the node ends, in seconds since 1970.";
        metric("certificate_end_seconds", "gauge", help, until);
    }
    if let Some(scrub) = shared.scrubs.last() {
        let help = "When the last scrub ended, in seconds since 1970.";
        metric("scrub_end_seconds", "gauge", help, scrub.ended_s);
        let help = "Bytes that the last scrub has read.";
        metric("scrub_bytes", "gauge", help, scrub.bytes);
        let help = "Shards that are damaged, and have not been replaced yet.";
        metric("damaged_shards", "gauge", help, scrub.damaged);
    }
    let totals: [(&str, &str, &Counter); 8] = [
        (
            "stripes_total",
            "Stripes of which a part was made durable.",
            &counters.stripes,
        ),
        (
            "failed_stripes_total",
            "Stripes that came to nothing.",
            &counters.failed_stripes,
        ),
        (
            "received_bytes_total",
            "Bytes that came from clients and other nodes.",
            &counters.received_bytes,
        ),
        (
            "relayed_bytes_total",
            "Bytes that were sent to other nodes.",
            &counters.relayed_bytes,
        ),
        (
            "stored_bytes_total",
            "Bytes of parts of stripes that were made durable.",
            &counters.stored_bytes,
        ),
        (
            "commits_total",
            "Times that parts were made durable, several at once.",
            &counters.commits,
        ),
        (
            "libfabric_connections_total",
            "Connections for data that were made over libfabric.",
            &counters.fabric_connections,
        ),
        (
            "refused_connections_total",
            "Connections that were refused.",
            &counters.refused,
        ),
    ];
    for (name, help, counter) in totals {
        metric(name, "counter", help, counter.get());
    }
    text
}
