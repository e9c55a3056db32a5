//! What only endpoints over libfabric have: providers, listeners, and memory that a peer writes
//! into by itself.

#![cfg(feature = "libfabric")]

use std::io::{self, ErrorKind, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tabane_fabric::{Endpoint, Fabric, FabricListener, Receiver, Ring, Sender};

const FRAME_TIMEOUT: Duration = Duration::from_secs(5);

const TOKEN: [u8; 32] = [0xa5; 32];

/// Lets the next peer in.
fn accept(listener: &FabricListener, ring: &Arc<Ring>) -> Fabric {
    let request = listener.next().unwrap();
    assert_eq!(request.token(), &TOKEN);
    request
        .accept(Arc::clone(ring), Some(FRAME_TIMEOUT))
        .unwrap()
}

fn connect(port: u16) -> io::Result<Fabric> {
    Fabric::connect("tcp", "127.0.0.1", port, &TOKEN, Some(FRAME_TIMEOUT))
}

/// Libraries that come with libfabric catch these, and end the program before it can do anything.
#[cfg(target_os = "linux")]
#[test]
fn signals_are_left_to_the_program() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
    // SIGHUP, SIGINT, SIGABRT and SIGTERM.
    for signal in [1, 2, 6, 15] {
        assert_eq!(caught >> (signal - 1) & 1, 0, "signal {signal} is caught");
    }
}

/// A connection whose second end has a ring of 4096 bytes.
fn connected(ring: &Arc<Ring>) -> (Fabric, Fabric) {
    let listener = FabricListener::bind("tcp", "127.0.0.1", 0).unwrap();
    let port = listener.port();
    let ring = Arc::clone(ring);
    let server = thread::spawn(move || accept(&listener, &ring));
    let client = connect(port).unwrap();
    (client, server.join().unwrap())
}

fn failure<T>(result: std::io::Result<T>) -> std::io::Error {
    result.err().expect("that cannot work")
}

#[test]
fn a_provider_that_is_not_there_is_told_with_those_that_are() {
    let error = failure(FabricListener::bind("carrier-pigeon", "127.0.0.1", 0));
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(
        text.contains("carrier-pigeon") && text.contains("tcp"),
        "{text}"
    );
}

#[test]
fn nobody_there_is_an_error() {
    let listener = FabricListener::bind("tcp", "127.0.0.1", 0).unwrap();
    let port = listener.port();
    drop(listener);
    let error = failure(connect(port));
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
    let nowhere = "no.such.host.invalid";
    let error = failure(Fabric::connect("tcp", nowhere, 1, &TOKEN, None));
    assert!(error.to_string().contains("no.such.host.invalid"));
}

#[test]
fn a_listener_takes_several_peers_and_may_go_before_them() {
    let listener = FabricListener::bind("tcp", "127.0.0.1", 0).unwrap();
    let port = listener.port();
    let accepting = thread::spawn(move || {
        [0, 1].map(|_| {
            let ring = Arc::new(Ring::new(4096, 1));
            let endpoint = accept(&listener, &ring);
            Receiver::new(ring, Arc::new(endpoint))
        })
    });
    let clients = [0, 1].map(|_| connect(port).unwrap());
    let receivers = accepting.join().unwrap();
    for (number, (client, receiver)) in (0..).zip(clients.into_iter().zip(receivers)) {
        let tail = receiver.tails().remove(0);
        thread::spawn(move || receiver.run());
        let mut sender = Sender::new(Arc::new(client), 4096);
        sender.send(&[&[number; 100]]).unwrap();
        assert_eq!(tail.frame(0, FRAME_TIMEOUT).unwrap(), [number; 100]);
    }
}

#[test]
fn who_is_turned_away_hears_of_it_and_who_listens_goes_on_until_it_is_closed() {
    let listener = Arc::new(FabricListener::bind("tcp", "127.0.0.1", 0).unwrap());
    let port = listener.port();
    let listening = Arc::clone(&listener);
    let server = thread::spawn(move || {
        drop(listening.next().unwrap());
        let accepted = accept(&listening, &Arc::new(Ring::new(4096, 1)));
        (accepted, failure(listening.next()).kind())
    });
    let error = failure(connect(port));
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
    // The provider takes no notice of who speaks something else.
    let mut garbage = TcpStream::connect(("127.0.0.1", port)).unwrap();
    garbage.write_all(&[0x5a; 200]).unwrap();
    drop(garbage);
    let client = connect(port).unwrap();
    listener.close();
    let (server, end) = server.join().unwrap();
    assert_eq!(end, ErrorKind::UnexpectedEof);
    client.write(0, &[b"bytes"], 5).unwrap();
    assert_eq!(server.wait().unwrap(), 5);
}

#[test]
fn a_peer_writes_within_the_ring_or_not_at_all() {
    let ring = Arc::new(Ring::new(4096, 1));
    let (client, server) = connected(&ring);
    for offset in [3997, 4096, u64::MAX - 50] {
        let error = client.write(offset, &[&[1; 100]], 100).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    // Who has no ring is not written to.
    let error = server.write(0, &[&[1; 100]], 100).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    // Elsewhere than the next frame goes: only its bytes are wrong, which their checksum tells.
    client.write(2048, &[&[1; 100]], 100).unwrap();
    let receiver = Receiver::new(ring, Arc::new(server));
    let tail = receiver.tails().remove(0);
    thread::spawn(move || receiver.run());
    assert_eq!(tail.frame(0, FRAME_TIMEOUT).unwrap(), [0; 100]);
}

#[test]
fn a_write_that_nobody_takes_ends_after_the_time_that_was_given() {
    let ring = Arc::new(Ring::new(64 << 20, 1));
    let (client, server) = connected(&ring);
    let client = client.limits(None, Some(Duration::from_millis(100)));
    let bytes = vec![1; 16 << 20];
    let written = (0..8).try_for_each(|_| client.write(0, &[&bytes], 1));
    assert_eq!(written.unwrap_err().kind(), ErrorKind::TimedOut);
    // It is over for both: what came of the write is not whole.
    assert!(client.write(0, &[], 1).is_err());
    let ended = (0..100).find_map(|_| server.wait().err());
    assert!(ended.is_some());
}
