//! A server that lies about what it sends.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::Response;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tabane_server::{Role, settings};
use tabane_storage::protocol::{self, LISTED_LEN};
use tabane_storage::{
    Id, Name, ObjectKind, RemoteOptions, ServedLocation, ServedStorage, ServerCredentials, Storage,
    StorageErrorKind,
};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::bed::{Bed, runtime};

/// An answer to any request.
#[derive(Clone, Copy, Debug)]
struct Lie {
    status: u16,
    /// The length that the head tells.
    told: Option<u64>,
    /// Bytes of the body.
    len: u64,
}

const OK: u16 = 200;
const LISTED: u64 = LISTED_LEN as u64;
const ENDLESS: u64 = u64::MAX;

/// Bytes that a piece of a body has at most.
const PIECE_LEN: u64 = 1 << 20;

/// What a client may have let come before it has seen through an endless answer.
const SENT_MAX: u64 = 32 << 20;

#[test]
fn answers_that_are_cut_or_never_end_are_refused() {
    let bed = Bed::new(&[("laptop", Role::Append, "laptop")]);
    let tls = settings::read_tls(&bed.settings()).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let runtime = runtime();
    let ask = |lie: Lie, act: &dyn Fn(&ServedStorage) -> tabane_storage::Result<usize>| {
        let sent = Arc::<AtomicU64>::default();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let location = ServedLocation::Https {
            host: "127.0.0.1".to_owned(),
            port: listener.local_addr().unwrap().port(),
            repository: "laptop".to_owned(),
        };
        let server = runtime.spawn(serve(listener, acceptor.clone(), lie, Arc::clone(&sent)));
        let credentials = ServerCredentials::default().authorities(bed.authority());
        let options = RemoteOptions::default().patience(Duration::from_secs(1));
        let storage = ServedStorage::connect(&location, &credentials, &options).unwrap();
        let done = act(&storage);
        server.abort();
        let sent = sent.load(Ordering::SeqCst);
        assert!(sent <= SENT_MAX, "{lie:?}: {sent} bytes were taken");
        done
    };
    let list = |storage: &ServedStorage| storage.list(ObjectKind::Pack).map(|found| found.len());
    let pack = Name::new(ObjectKind::Pack, Id([7; 32]));
    let get = |storage: &ServedStorage| storage.get(pack, None).map(|found| found.len());
    let part = |storage: &ServedStorage| storage.get(pack, Some(5..10)).map(|found| found.len());

    let answer = |told, len| Lie {
        status: OK,
        told,
        len,
    };
    assert_eq!(ask(answer(Some(0), 0), &list).unwrap(), 0);
    assert_eq!(ask(answer(Some(2 * LISTED), 2 * LISTED), &list).unwrap(), 2);
    for (told, len) in [
        (None, LISTED),
        (Some(u64::MAX), LISTED),
        (Some(LISTED), LISTED - 1),
        (Some(LISTED - 1), LISTED - 1),
        (Some(LISTED), 0),
        (Some(LISTED), 2 * LISTED),
        (Some(LISTED), ENDLESS),
        (None, ENDLESS),
        (Some(u64::MAX), ENDLESS),
    ] {
        let error = ask(answer(told, len), &list).unwrap_err();
        assert_eq!(error.kind(), StorageErrorKind::Malformed, "{told:?}, {len}");
        assert!(error.to_string().contains("malformed"), "{error}");
    }
    for act in [&get as &dyn Fn(&ServedStorage) -> _, &part] {
        for lie in [answer(Some(5), ENDLESS), answer(Some(5), 4)] {
            let error = ask(lie, act).unwrap_err();
            assert_eq!(error.kind(), StorageErrorKind::Malformed, "{lie:?}");
        }
    }
    // A refusal whose reason never ends.
    let refusal = Lie {
        status: 403,
        told: None,
        len: ENDLESS,
    };
    let error = ask(refusal, &list).unwrap_err();
    assert!(error.to_string().contains("403"), "{error}");
}

/// Gives the same answer to every request, and counts the bytes of it.
async fn serve(listener: TcpListener, acceptor: TlsAcceptor, lie: Lie, sent: Arc<AtomicU64>) {
    while let Ok((stream, _)) = listener.accept().await {
        let Ok(stream) = acceptor.accept(stream).await else {
            continue;
        };
        let sent = Arc::clone(&sent);
        let service = service_fn(move |_| {
            let mut response = Response::builder().status(lie.status);
            if let Some(told) = lie.told {
                response = response.header(protocol::LENGTH, told);
            }
            let response = response.body(body(lie.len, Arc::clone(&sent))).unwrap();
            async move { Ok::<_, Infallible>(response) }
        });
        let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
    }
}

fn body(len: u64, sent: Arc<AtomicU64>) -> UnsyncBoxBody<Bytes, Infallible> {
    let pieces = stream::unfold(len, move |left| {
        let sent = Arc::clone(&sent);
        async move {
            let piece = left.min(PIECE_LEN);
            sent.fetch_add(piece, Ordering::SeqCst);
            let frame = Frame::data(Bytes::from(vec![0; piece as usize]));
            (piece > 0).then_some((Ok(frame), left - piece))
        }
    });
    StreamBody::new(pieces).boxed_unsync()
}
