//! Bodies that are made while the client takes them, one piece ahead of it: a slow client holds no
//! thread.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tabane_store::Error;
use tokio::task::JoinHandle;

/// Makes the next bytes; nothing at the end.
type Make = Box<dyn FnMut() -> Made + Send>;

type Made = Result<Option<Vec<u8>>, Error>;

struct Stream {
    /// There until the first piece is asked for.
    make: Option<Make>,
    /// Makes the next piece.
    working: Option<JoinHandle<(Make, Made)>>,
    /// Bytes that are left, if that is known.
    left: Option<u64>,
    report: fn(&str),
}

/// A body of `len` bytes, if that is known, which `make` makes piece by piece on threads that may
/// block. Its error cuts the answer off, and goes to `report`.
pub fn body(
    len: Option<u64>,
    report: fn(&str),
    make: impl FnMut() -> Made + Send + 'static,
) -> Body {
    Body::new(Stream {
        make: Some(Box::new(make)),
        working: None,
        left: len,
        report,
    })
}

/// Makes the next bytes on a thread that may block.
fn start(mut make: Make) -> JoinHandle<(Make, Made)> {
    tokio::task::spawn_blocking(move || {
        let made = make();
        (make, made)
    })
}

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if let Some(make) = self.make.take() {
            self.working = Some(start(make));
        }
        let Some(working) = &mut self.working else {
            return Poll::Ready(None);
        };
        let done = ready!(Pin::new(working).poll(context));
        self.working = None;
        let (make, made) = match done {
            Ok(done) => done,
            Err(_) => return Poll::Ready(Some(Err(Error::Cancelled))),
        };
        Poll::Ready(match made {
            Ok(Some(bytes)) => {
                self.left = self
                    .left
                    .map(|left| left.saturating_sub(bytes.len() as u64));
                if self.left == Some(0) {
                    tokio::task::spawn_blocking(|| drop(make));
                } else {
                    self.working = Some(start(make));
                }
                Some(Ok(Frame::data(bytes.into())))
            }
            Ok(None) => None,
            Err(error) => {
                (self.report)(&format!("a download was cut off: {error}"));
                Some(Err(error))
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.make.is_none() && self.working.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.left
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // What goes with it may have to tell the storage.
        if let Some(make) = self.make.take() {
            tokio::task::spawn_blocking(|| drop(make));
        }
        if let Some(working) = self.working.take() {
            tokio::spawn(async {
                if let Ok(done) = working.await {
                    tokio::task::spawn_blocking(|| drop(done));
                }
            });
        }
    }
}
