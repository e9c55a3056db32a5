//! What an endpoint over TCP says to bytes that no peer of ours sends.

use std::io::{self, ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tabane_fabric::{Endpoint, Receiver, Ring, Tail, Tcp};

const FRAME_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to a receiver with a ring of 4096 bytes.
fn receiver() -> (TcpStream, Tail) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.set_read_timeout(Some(FRAME_TIMEOUT)).unwrap();
    let (server, _) = listener.accept().unwrap();
    let ring = Arc::new(Ring::new(4096, 1));
    let endpoint = Arc::new(Tcp::new(server, Some(Arc::clone(&ring))).unwrap());
    let receiver = Receiver::new(ring, endpoint);
    let tail = receiver.tails().remove(0);
    thread::spawn(move || receiver.run());
    (client, tail)
}

/// What a receiver says to these bytes.
fn says_to(bytes: &[u8]) -> io::Error {
    let (mut client, tail) = receiver();
    client.write_all(bytes).unwrap();
    let error = tail.frame(0, FRAME_TIMEOUT).unwrap_err();
    // The connection is closed: the peer notices.
    let endpoint = Tcp::new(client, None).unwrap();
    assert!(endpoint.wait().is_err());
    error
}

fn write_of(offset: u64, len: u32, immediate: u32) -> Vec<u8> {
    let mut bytes = offset.to_le_bytes().to_vec();
    bytes.extend(len.to_le_bytes());
    bytes.extend(immediate.to_le_bytes());
    bytes.resize(16 + (len as usize).min(8192), 0xaa);
    bytes
}

#[test]
fn a_hostile_peer_is_refused() {
    let refusals = [
        (write_of(1, 100, 100), "does not go there"),
        (write_of(4096, 100, 100), "does not go there"),
        (write_of(u64::MAX, 100, 100), "does not go there"),
        (write_of(u64::MAX - 50, 100, 100), "does not go there"),
        (write_of(0, 1025, 1025), "not that long"),
        (write_of(0, u32::MAX >> 1, u32::MAX >> 1), "not that long"),
        (write_of(0, 100, 99), "means 99"),
        (write_of(0, 100, 1 << 31), "means 0"),
        (write_of(0, 0, 1 << 31 | 5), "gives credit"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), ""),
    ];
    for (bytes, says) in refusals {
        let error = says_to(&bytes);
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
        assert!(error.to_string().contains(says), "{says}: {error}");
    }
}

#[test]
fn a_frame_that_ends_too_early_is_not_shown() {
    let (mut client, tail) = receiver();
    client.write_all(&write_of(0, 1000, 1000)[..500]).unwrap();
    drop(client);
    let error = tail.frame(0, FRAME_TIMEOUT).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
}
