//! What every endpoint has to do, and what a peer must not.

use std::io::{self, ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tabane_fabric::{Endpoint, Receiver, Ring, Sender, Tail, Tcp};

const PATIENCE: Duration = Duration::from_secs(5);

fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.set_write_timeout(Some(PATIENCE)).unwrap();
    (client, server)
}

/// A sender, and what the other end has.
fn pair(capacity: usize, tails: usize) -> (Sender, Arc<Ring>, Vec<Tail>) {
    let (client, server) = connected();
    let endpoint: Arc<dyn Endpoint> = Arc::new(Tcp::new(client, None).unwrap());
    let (ring, tails) = receive(server, capacity, tails);
    (Sender::new(endpoint, capacity), ring, tails)
}

fn receive(server: TcpStream, capacity: usize, tails: usize) -> (Arc<Ring>, Vec<Tail>) {
    let ring = Arc::new(Ring::new(capacity, tails));
    let endpoint = Arc::new(Tcp::new(server, Some(Arc::clone(&ring))).unwrap());
    let receiver = Receiver::new(Arc::clone(&ring), endpoint);
    let tails = receiver.tails();
    thread::spawn(move || receiver.run());
    (ring, tails)
}

fn pattern(number: u64, len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|at| (number * 31 + at * 7 + at / 256) as u8)
        .collect()
}

#[test]
fn frames_of_all_lengths_arrive_in_order_and_as_they_were_in_each_tail() {
    let (mut sender, _, tails) = pair(1 << 16, 3);
    let lens: Vec<usize> = (0..400).map(|number| number * 977 % (1 << 13)).collect();
    let expected = lens.clone();
    let readers: Vec<_> = tails
        .into_iter()
        .enumerate()
        .map(|(index, mut tail)| {
            let lens = expected.clone();
            thread::spawn(move || {
                for (number, len) in (0..).zip(lens) {
                    let frame = tail.frame(number, PATIENCE).unwrap();
                    assert!(frame == pattern(number, len), "frame {number}");
                    // One of them gives back several at once: it holds a quarter of the ring at most.
                    if index < 2 || number % 3 == 2 {
                        tail.release(number + 1).unwrap();
                    }
                }
            })
        })
        .collect();
    for (number, len) in (0..).zip(lens) {
        let bytes = pattern(number, len);
        let (first, second) = bytes.split_at(len / 3);
        sender.send(&[first, second]).unwrap();
    }
    readers
        .into_iter()
        .for_each(|reader| reader.join().unwrap());
}

#[test]
fn the_longest_frames_pass_whatever_came_before() {
    let capacity = 4096;
    let (mut sender, _, mut tails) = pair(capacity, 1);
    let mut tail = tails.remove(0);
    let reader = thread::spawn(move || {
        for number in 0..500 {
            let len = if number % 2 == 0 { capacity / 4 } else { 333 };
            assert!(tail.frame(number, PATIENCE).unwrap() == pattern(number, len));
            tail.release(number + 1).unwrap();
        }
    });
    for number in 0..500 {
        let len = if number % 2 == 0 { capacity / 4 } else { 333 };
        sender.send(&[&pattern(number, len)]).unwrap();
    }
    reader.join().unwrap();
    let error = sender.send(&[&vec![0; capacity / 4 + 1]]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn the_writer_waits_for_the_slowest_tail() {
    let capacity = 4096;
    let (client, server) = connected();
    client
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let endpoint = Arc::new(Tcp::new(client, None).unwrap());
    let mut sender = Sender::new(endpoint, capacity);
    let (_, mut tails) = receive(server, capacity, 2);
    for number in 0..4 {
        sender.send(&[&pattern(number, 1024)]).unwrap();
    }
    tails[0].frame(3, PATIENCE).unwrap();
    tails[0].release(4).unwrap();
    let error = sender.send(&[&pattern(4, 1024)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert!(sender.waited() >= Duration::from_millis(90));
    // What the slower one has not released is as it was.
    for number in 0..4 {
        assert!(tails[1].frame(number, PATIENCE).unwrap() == pattern(number, 1024));
    }
    tails[1].release(4).unwrap();
    sender.send(&[&pattern(4, 1024)]).unwrap();
    assert!(tails[1].frame(4, PATIENCE).unwrap() == pattern(4, 1024));
}

#[test]
fn frames_are_read_where_they_were_received() {
    // No copy but the kernel's: all that a consumer sees is the memory that the socket was read into.
    let (mut sender, ring, tails) = pair(1 << 16, 2);
    for number in 0..40 {
        sender.send(&[&pattern(number, 1000)]).unwrap();
    }
    let mut seen = Vec::new();
    for number in 0..40 {
        let [first, second] = [&tails[0], &tails[1]].map(|tail| {
            let frame = tail.frame(number, PATIENCE).unwrap();
            frame.as_ptr_range()
        });
        assert_eq!(first, second, "every consumer sees the same bytes");
        seen.push(first.start as usize);
    }
    let steps: Vec<usize> = seen.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(steps, vec![1000; 39]);
    assert!(seen[39] + 1000 <= seen[0] + ring.capacity());
}

#[test]
fn what_was_sent_before_the_end_is_there_and_then_there_is_an_error() {
    let (mut sender, _, tails) = pair(4096, 1);
    sender.send(&[b"last words"]).unwrap();
    drop(sender);
    assert_eq!(tails[0].frame(0, PATIENCE).unwrap(), b"last words");
    let error = tails[0].frame(1, PATIENCE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn silence_ends_after_the_time_that_was_given() {
    let (_sender, _, tails) = pair(4096, 1);
    let error = tails[0].frame(0, Duration::from_millis(20)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

/// What a receiver with a ring of 4096 bytes says to these bytes, of which `sound` frames come before.
fn says_to(bytes: &[u8], sound: u64) -> io::Error {
    let (mut client, server) = connected();
    let (_, tails) = receive(server, 4096, 1);
    client.write_all(bytes).unwrap();
    let error = tails[0].frame(sound, PATIENCE).unwrap_err();
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
        let error = says_to(&bytes, 0);
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
        assert!(error.to_string().contains(says), "{says}: {error}");
    }
}

#[test]
fn a_peer_that_overtakes_a_tail_is_refused() {
    let mut bytes = Vec::new();
    for number in 0..4 {
        bytes.extend(write_of(number * 1024, 1024, 1024));
    }
    bytes.extend(write_of(0, 1024, 1024));
    let error = says_to(&bytes, 4);
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert!(error.to_string().contains("has not been read"), "{error}");
}

#[test]
fn credit_that_was_not_earned_and_frames_to_a_sender_are_refused() {
    for bytes in [write_of(0, 0, 1 << 31 | 4097), write_of(0, 8, 8)] {
        let (client, mut server) = connected();
        let mut sender = Sender::new(Arc::new(Tcp::new(client, None).unwrap()), 4096);
        server.write_all(&bytes).unwrap();
        let sent = (0..5).try_for_each(|_| sender.send(&[&[1; 1024]]));
        assert_eq!(sent.unwrap_err().kind(), ErrorKind::InvalidData);
    }
}

#[test]
fn a_frame_that_ends_too_early_is_not_shown() {
    let (mut client, server) = connected();
    let (_, tails) = receive(server, 4096, 1);
    client.write_all(&write_of(0, 1000, 1000)[..500]).unwrap();
    drop(client);
    let error = tails[0].frame(0, PATIENCE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
}
