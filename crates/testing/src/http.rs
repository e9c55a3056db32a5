//! A client of HTTP/1.1 for tests: sends what it is told, byte by byte, and hides nothing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Time for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body, whole.
    pub body: Vec<u8>,
}

impl Answer {
    /// The first value of a header; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        let mut named = self.headers.iter().filter(|(other, _)| other == name);
        named.next().map_or("", |(_, value)| value)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Sends a request with these headers, `Host` and `Connection` among them if they are not given.
///
/// # Panics
/// When there is no answer, or none of HTTP.
#[track_caller]
pub fn request(
    address: SocketAddr,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let has = |name: &str| {
        headers
            .iter()
            .any(|(other, _)| other.eq_ignore_ascii_case(name))
    };
    let mut head = format!("{method} {target} HTTP/1.1\r\n");
    if !has("host") {
        head += &format!("Host: {address}\r\n");
    }
    if !body.is_empty() || method == "POST" {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += "Connection: close\r\n\r\n";
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.write_all(head.as_bytes()).expect("it reads");
    // It may have answered without reading the body.
    let _ = stream.write_all(body);
    answer(stream)
}

/// Reads an answer to its end.
///
/// # Panics
/// When there is none.
#[track_caller]
pub fn answer(mut stream: TcpStream) -> Answer {
    stream
        .set_read_timeout(Some(ANSWER_TIMEOUT))
        .expect("a socket");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("it answers");
    let end = bytes.windows(4).position(|end| end == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(&bytes)));
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let header = |line: &str| {
        let (name, value) = line.split_once(": ")?;
        Some((name.to_ascii_lowercase(), value.to_owned()))
    };
    let headers: Vec<(String, String)> = lines.filter_map(header).collect();
    let mut body = bytes.split_off(end + 4);
    let is_chunked =
        |(name, value): &(String, String)| name == "transfer-encoding" && value.contains("chunked");
    if headers.iter().any(is_chunked) {
        body = unchunked(&body);
    }
    Answer {
        status: status.expect("a status"),
        headers,
        body,
    }
}

/// The bytes of chunks; what is cut off is missing.
fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = bytes.windows(2).position(|end| end == b"\r\n") {
        let len = std::str::from_utf8(&bytes[..end]).ok();
        let len = len
            .and_then(|len| usize::from_str_radix(len, 16).ok())
            .unwrap_or(0);
        let start = end + 2;
        if len == 0 || bytes.len() < start + len {
            break;
        }
        body.extend_from_slice(&bytes[start..start + len]);
        bytes = bytes.get(start + len + 2..).unwrap_or_default();
    }
    body
}
