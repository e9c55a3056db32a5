//! Serves one client over standard input and output, which SSH connects with it.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;

use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustix::fs::{FileType, fstat};
use tabane_storage::{Role, StorageError, StorageErrorKind, protocol};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use crate::daemon::http2;
use crate::realm::Realm;
use crate::repository::Who;
use crate::service::Service;

/// What a client behind SSH may do.
#[derive(Clone, Debug)]
pub struct StdioOptions {
    /// Folders at or below which its repositories are; everywhere if empty.
    pub restrict_to: Vec<PathBuf>,
    /// What it may do.
    pub role: Role,
    /// Bytes that a repository may have after the client has added to it.
    pub quota: Option<u64>,
}

/// Serves until the client ends the connection.
///
/// # Errors
/// When a folder does not exist, or standard input and output are no pipes or sockets.
pub fn serve_stdio(options: &StdioOptions) -> tabane_storage::Result<()> {
    let service = Service::new(Realm::paths(&options.restrict_to)?);
    let who = Who {
        name: "behind this key".to_owned(),
        role: options.role,
        repositories: None,
        quota: options.quota,
        session: None,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let input = reader(io::stdin().as_fd().try_clone_to_owned()?)?;
        let mut output = writer(io::stdout().as_fd().try_clone_to_owned()?)?;
        output.write_all(protocol::GREETING).await?;
        let service = service_fn(move |request: Request<Incoming>| {
            let (service, who) = (service.clone(), who.clone());
            async move { Ok::<_, Infallible>(service.answer(who, request).await) }
        });
        let stream = TokioIo::new(tokio::io::join(input, output));
        // The client may end the connection at any moment, and how does not matter here.
        let _ = http2().serve_connection(stream, service).await;
        Ok(())
    })
}

fn reader(descriptor: OwnedFd) -> tabane_storage::Result<Box<dyn AsyncRead + Send + Unpin>> {
    Ok(match kind(&descriptor)? {
        FileType::Fifo => Box::new(pipe::Receiver::from_owned_fd(descriptor)?),
        FileType::Socket => Box::new(socket(descriptor)?),
        _ => return Err(no_stream()),
    })
}

fn writer(descriptor: OwnedFd) -> tabane_storage::Result<Box<dyn AsyncWrite + Send + Unpin>> {
    Ok(match kind(&descriptor)? {
        FileType::Fifo => Box::new(pipe::Sender::from_owned_fd(descriptor)?),
        FileType::Socket => Box::new(socket(descriptor)?),
        _ => return Err(no_stream()),
    })
}

fn kind(descriptor: &OwnedFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(fstat(descriptor)?.st_mode))
}

fn socket(descriptor: OwnedFd) -> io::Result<UnixStream> {
    let socket = StdUnixStream::from(descriptor);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

fn no_stream() -> StorageError {
    let text = "standard input and output are no pipes and no sockets: a client starts this by ssh";
    StorageError::new(StorageErrorKind::Unsupported, text)
}
