//! What moves on a page: pieces of HTML that the server sends as they come (server-sent events).
//!
//! An event is one line that says what to do, `put ID` or `add ID`, and the HTML behind it; `end`
//! ends the stream. `page.js` obeys.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::header;
use axum::response::Response;
use bytes::Bytes;
use http_body::Frame;
use maud::Markup;
use tokio::sync::mpsc;

/// Events that wait for a slow browser; then the sender waits.
const WAITING_MAX: usize = 32;

/// Sends events; ends the stream when it is dropped.
pub struct Sender(mpsc::Sender<Bytes>);

/// The browser is gone.
pub struct Gone;

impl Sender {
    /// Replaces what is in the element of this ID. Waits, on a thread that may block.
    ///
    /// # Errors
    /// When the browser is gone.
    pub fn put(&self, id: &str, markup: Markup) -> Result<(), Gone> {
        self.0
            .blocking_send(event("put", id, markup))
            .map_err(|_| Gone)
    }

    /// Adds to what is in the element of this ID. Waits, on a thread that may block.
    ///
    /// # Errors
    /// When the browser is gone.
    pub fn add(&self, id: &str, markup: Markup) -> Result<(), Gone> {
        self.0
            .blocking_send(event("add", id, markup))
            .map_err(|_| Gone)
    }

    /// Whether the browser is gone.
    pub fn is_gone(&self) -> bool {
        self.0.is_closed()
    }

    /// As [`Sender::put`], without holding a thread.
    ///
    /// # Errors
    /// When the browser is gone.
    pub async fn put_later(&self, id: &str, markup: Markup) -> Result<(), Gone> {
        self.0
            .send(event("put", id, markup))
            .await
            .map_err(|_| Gone)
    }

    /// As [`Sender::add`], without holding a thread.
    ///
    /// # Errors
    /// When the browser is gone.
    pub async fn add_later(&self, id: &str, markup: Markup) -> Result<(), Gone> {
        self.0
            .send(event("add", id, markup))
            .await
            .map_err(|_| Gone)
    }
}

fn event(what: &str, id: &str, markup: Markup) -> Bytes {
    let html = markup.into_string();
    let mut text = format!("data: {what} {id}\n");
    for line in html.split(['\n', '\r']) {
        text += "data: ";
        text += line;
        text.push('\n');
    }
    text.push('\n');
    text.into()
}

/// A stream of events, and its answer.
pub fn stream() -> (Sender, Response) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    let answer = Response::builder()
        .header(header::CONTENT_TYPE, "text/event-stream")
        .body(Body::new(Stream(Some(receiver))));
    (Sender(sender), answer.expect("it is well-formed"))
}

/// The body; nothing after its end.
struct Stream(Option<mpsc::Receiver<Bytes>>);

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Some(receiver) = &mut self.0 else {
            return Poll::Ready(None);
        };
        receiver.poll_recv(context).map(|event| match event {
            Some(event) => Some(Ok(Frame::data(event))),
            None => {
                self.0 = None;
                Some(Ok(Frame::data(Bytes::from_static(b"data: end\n\n"))))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use maud::html;

    use super::*;

    #[test]
    fn an_event_is_one_whatever_is_in_it() {
        let event = event("add", "hits", html! { "a\n\ndata: end\n\n" b { "c" } });
        let text = String::from_utf8(event.to_vec()).expect("text");
        let lines: Vec<&str> = text.trim_end().lines().collect();
        assert!(
            lines.iter().all(|line| line.starts_with("data: ")),
            "{text}"
        );
        assert_eq!(text.matches("\n\n").count(), 1);
    }
}
