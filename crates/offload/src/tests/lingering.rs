//! Clients that send a descriptor whose last close takes as long as they want: that of a TCP
//! connection that still has something to send.

use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix};

use super::{check, connected, eventually, seqpacket, serve};
use crate::layout::{Note, Want, hello};
use crate::status;

/// How long a close of the descriptors would take.
const LINGER: Duration = Duration::from_secs(600);

/// A connection with something left to send, and its other end, which reads nothing.
fn lingering() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // So little that something is left to send.
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 4096).unwrap();
    let mut from = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (to, _) = listener.accept().unwrap();
    rustix::net::sockopt::set_socket_send_buffer_size(&from, 1 << 16).unwrap();
    from.set_nonblocking(true).unwrap();
    while from.write(&[0; 1 << 16]).is_ok() {}
    (from, to)
}

/// Sends words with a descriptor, of which the service then has the last copy, unless it has hung
/// up.
fn send(socket: &OwnedFd, words: &[u8], from: TcpStream) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [from.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let words = [IoSlice::new(words)];
    rustix::net::sockopt::set_socket_linger(&from, Some(LINGER)).unwrap();
    let _ = rustix::net::sendmsg(socket, &words, &mut control, SendFlags::NOSIGNAL);
    // This copy may be the last one by now.
    std::thread::spawn(move || drop(from));
}

fn connect(service: &Path) -> OwnedFd {
    let socket = seqpacket();
    rustix::net::connect(&socket, &SocketAddrUnix::new(service).unwrap()).unwrap();
    socket
}

fn say(socket: &OwnedFd, words: &[u8]) {
    rustix::net::send(socket, words, SendFlags::NOSIGNAL).unwrap();
}

#[test]
fn descriptors_that_linger_hold_nobody_up() {
    const TIMES: usize = 20;
    let dir = tempfile::tempdir().unwrap();
    let (server, socket) = serve(&dir);
    let honest = connected(&socket);
    let (mut froms, _ends): (Vec<_>, Vec<_>) = (0..6 * TIMES).map(|_| lingering()).unzip();
    let mut from = || froms.pop().unwrap();
    let hello = hello(Want::Ring);
    for _ in 0..TIMES {
        // With the first words, with a note, with nothing, and behind words that are refused.
        send(&connect(&socket), &hello, from());
        let with_a_note = connect(&socket);
        say(&with_a_note, &hello);
        send(&with_a_note, &Note::AtWork.to_bytes(), from());
        send(&connect(&socket), b"", from());
        let refused = connect(&socket);
        say(&refused, b"anything else");
        send(&refused, &hello, from());
    }
    eventually("the honest client is served", || {
        check(&honest, &socket, 3) > 0
    });
    let _another = connected(&socket);
    eventually("all others are gone", || {
        status(&socket).is_ok_and(|status| status.clients.len() == 2)
    });
    // In the queue of the listener, too, when the service ends.
    for from in froms {
        send(&connect(&socket), b"", from);
    }
    let (stopped, is_stopped) = mpsc::channel();
    std::thread::spawn(move || {
        server.stop();
        let _ = stopped.send(());
    });
    let ended = is_stopped.recv_timeout(Duration::from_secs(5));
    assert!(ended.is_ok(), "the service does not end");
}
