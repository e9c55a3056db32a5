//! What every endpoint has to do, and what a peer must not, whatever moves the bytes.

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tabane_fabric::{Endpoint, Receiver, Ring, Sender, Tail, Tcp};

const FRAME_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes a connection. The second end has the ring, the first one waits so long. Nothing where that
/// cannot be had here.
type Connect = fn(Arc<Ring>, Duration) -> Option<Connection>;
type Connection = (Arc<dyn Endpoint>, Arc<dyn Endpoint>);

macro_rules! suite {
    ($connect:expr, $($test:ident)*) => {
        $(#[test]
        fn $test() {
            crate::$test($connect);
        })*
    };
    ($connect:expr) => {
        suite! { $connect,
            frames_of_all_lengths_arrive_in_order_and_as_they_were_in_each_tail
            the_longest_frames_pass_whatever_came_before
            frames_of_many_parts_arrive_whole
            the_writer_waits_for_the_slowest_tail
            frames_are_read_where_they_were_received
            what_was_sent_before_the_end_is_there_and_then_there_is_an_error
            who_closes_wakes_who_waits_on_both_sides
            silence_ends_after_the_time_that_was_given
            a_peer_that_writes_what_it_must_not_is_refused
            a_peer_that_overtakes_a_tail_is_refused
            credit_that_was_not_earned_and_frames_to_a_sender_are_refused
        }
    };
}

mod tcp {
    use super::*;

    fn connect(ring: Arc<Ring>, patience: Duration) -> Option<Connection> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        client.set_read_timeout(Some(patience)).unwrap();
        client.set_write_timeout(Some(patience)).unwrap();
        let client = Arc::new(Tcp::new(client, None).unwrap());
        Some((client, Arc::new(Tcp::new(server, Some(ring)).unwrap())))
    }

    suite!(connect);
}

#[cfg(feature = "libfabric")]
mod libfabric {
    use super::*;
    use tabane_fabric::{Fabric, FabricListener, providers};

    fn connect(provider: &str, ring: Arc<Ring>, patience: Duration) -> Option<Connection> {
        if !providers().iter().any(|name| name == provider) {
            println!("NOT RUN: endpoints over libfabric's {provider}: it is not there");
            return None;
        }
        let listener = FabricListener::bind(provider, "127.0.0.1", 0).unwrap();
        let port = listener.port();
        let server = thread::spawn(move || {
            let request = listener.next().unwrap();
            assert_eq!(request.token(), &TOKEN);
            request.accept(ring, Some(FRAME_TIMEOUT)).unwrap()
        });
        let client =
            Fabric::connect(provider, "127.0.0.1", port, &TOKEN, Some(FRAME_TIMEOUT)).unwrap();
        let client = client.limits(Some(patience), Some(patience));
        Some((Arc::new(client), Arc::new(server.join().unwrap())))
    }

    const TOKEN: [u8; 32] = [0xa5; 32];

    macro_rules! provider {
        ($($name:ident)*) => {
            $(mod $name {
                suite!(|ring, patience| super::connect(stringify!($name), ring, patience));
            })*
        };
    }

    provider!(tcp net verbs);
}

/// An endpoint, and what the other end has.
type Received = (Arc<dyn Endpoint>, Arc<Ring>, Vec<Tail>);

/// A sender, and what the other end has.
fn pair(connect: Connect, capacity: usize, tails: usize) -> Option<(Sender, Arc<Ring>, Vec<Tail>)> {
    let (client, ring, tails) = receive(connect, FRAME_TIMEOUT, capacity, tails)?;
    Some((Sender::new(client, capacity), ring, tails))
}

fn receive(
    connect: Connect,
    patience: Duration,
    capacity: usize,
    tails: usize,
) -> Option<Received> {
    let ring = Arc::new(Ring::new(capacity, tails));
    let (client, server) = connect(Arc::clone(&ring), patience)?;
    let receiver = Receiver::new(Arc::clone(&ring), server);
    let tails = receiver.tails();
    thread::spawn(move || receiver.run());
    Some((client, ring, tails))
}

fn pattern(number: u64, len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|at| (number * 31 + at * 7 + at / 256) as u8)
        .collect()
}

fn frames_of_all_lengths_arrive_in_order_and_as_they_were_in_each_tail(connect: Connect) {
    let Some((mut sender, _, tails)) = pair(connect, 1 << 16, 3) else {
        return;
    };
    let lens: Vec<usize> = (0..400).map(|number| number * 977 % (1 << 13)).collect();
    let expected = lens.clone();
    let readers: Vec<_> = tails
        .into_iter()
        .enumerate()
        .map(|(index, mut tail)| {
            let lens = expected.clone();
            thread::spawn(move || {
                for (number, len) in (0..).zip(lens) {
                    let frame = tail.frame(number, FRAME_TIMEOUT).unwrap();
                    assert!(frame == pattern(number, len), "frame {number}");
                    // One of them gives back several at once: it holds a quarter of the ring at
                    // most.
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

fn the_longest_frames_pass_whatever_came_before(connect: Connect) {
    let capacity = 4096;
    let Some((mut sender, _, mut tails)) = pair(connect, capacity, 1) else {
        return;
    };
    let mut tail = tails.remove(0);
    let reader = thread::spawn(move || {
        for number in 0..500 {
            let len = if number % 2 == 0 { capacity / 4 } else { 333 };
            assert!(tail.frame(number, FRAME_TIMEOUT).unwrap() == pattern(number, len));
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

fn the_writer_waits_for_the_slowest_tail(connect: Connect) {
    let capacity = 4096;
    let patience = Duration::from_millis(100);
    let Some((client, _, mut tails)) = receive(connect, patience, capacity, 2) else {
        return;
    };
    let mut sender = Sender::new(client, capacity);
    for number in 0..4 {
        sender.send(&[&pattern(number, 1024)]).unwrap();
    }
    tails[0].frame(3, FRAME_TIMEOUT).unwrap();
    tails[0].release(4).unwrap();
    let error = sender.send(&[&pattern(4, 1024)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert!(sender.waited() >= Duration::from_millis(90));
    // Frames that the slower tail has not released are intact.
    for number in 0..4 {
        assert!(tails[1].frame(number, FRAME_TIMEOUT).unwrap() == pattern(number, 1024));
    }
    tails[1].release(4).unwrap();
    sender.send(&[&pattern(4, 1024)]).unwrap();
    assert!(tails[1].frame(4, FRAME_TIMEOUT).unwrap() == pattern(4, 1024));
}

fn frames_are_read_where_they_were_received(connect: Connect) {
    // No copy but the kernel's: all that a consumer sees is the memory that the socket was read
    // into.
    let Some((mut sender, ring, tails)) = pair(connect, 1 << 16, 2) else {
        return;
    };
    for number in 0..40 {
        sender.send(&[&pattern(number, 1000)]).unwrap();
    }
    let mut seen = Vec::new();
    for number in 0..40 {
        let [first, second] = [&tails[0], &tails[1]].map(|tail| {
            let frame = tail.frame(number, FRAME_TIMEOUT).unwrap();
            frame.as_ptr_range()
        });
        assert_eq!(first, second, "every consumer sees the same bytes");
        seen.push(first.start as usize);
    }
    let steps: Vec<usize> = seen.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(steps, vec![1000; 39]);
    assert!(seen[39] + 1000 <= seen[0] + ring.capacity());
}

fn what_was_sent_before_the_end_is_there_and_then_there_is_an_error(connect: Connect) {
    let Some((mut sender, _, tails)) = pair(connect, 4096, 1) else {
        return;
    };
    sender.send(&[b"last words"]).unwrap();
    drop(sender);
    assert_eq!(tails[0].frame(0, FRAME_TIMEOUT).unwrap(), b"last words");
    let error = tails[0].frame(1, FRAME_TIMEOUT).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
}

fn silence_ends_after_the_time_that_was_given(connect: Connect) {
    let Some((_sender, _, tails)) = pair(connect, 4096, 1) else {
        return;
    };
    let error = tails[0].frame(0, Duration::from_millis(20)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

fn frames_of_many_parts_arrive_whole(connect: Connect) {
    let Some((mut sender, _, tails)) = pair(connect, 1 << 16, 1) else {
        return;
    };
    for number in 0..8 {
        let bytes = pattern(number, 1000 * (number as usize + 1));
        let parts: Vec<&[u8]> = bytes.chunks(bytes.len() / 5).collect();
        sender.send(&[&[], parts[0], &[]]).unwrap();
        assert!(tails[0].frame(2 * number, FRAME_TIMEOUT).unwrap() == parts[0]);
        sender.send(&parts).unwrap();
        assert!(tails[0].frame(2 * number + 1, FRAME_TIMEOUT).unwrap() == bytes);
    }
}

fn who_closes_wakes_who_waits_on_both_sides(connect: Connect) {
    let ring = Arc::new(Ring::new(4096, 1));
    let Some((client, server)) = connect(ring, FRAME_TIMEOUT) else {
        return;
    };
    let waiters = [&client, &server].map(|end| {
        let end = Arc::clone(end);
        thread::spawn(move || end.wait().unwrap_err().kind())
    });
    thread::sleep(Duration::from_millis(50));
    server.close();
    for waiter in waiters {
        assert_eq!(waiter.join().unwrap(), ErrorKind::UnexpectedEof);
    }
    // A first write may still be taken by the system.
    let written = (0..100).try_for_each(|_| {
        thread::sleep(Duration::from_millis(2));
        client.write(0, &[b"too late"], 8)
    });
    assert!(written.is_err());
}

fn a_peer_that_writes_what_it_must_not_is_refused(connect: Connect) {
    let bytes = [0; 1025];
    for (len, immediate, says) in [
        (1025, 1025, "not that long"),
        (0, u32::MAX >> 1, ""),
        (0, 1 << 31 | 5, "gives credit"),
    ] {
        let Some((client, _, tails)) = receive(connect, FRAME_TIMEOUT, 4096, 1) else {
            return;
        };
        // It may be refused before this side knows that it has come.
        let _ = client.write(0, &[&bytes[..len]], immediate);
        let error = tails[0].frame(0, FRAME_TIMEOUT).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
        assert!(error.to_string().contains(says), "{says}: {error}");
        assert!(client.wait().is_err(), "the connection is closed");
    }
}

fn a_peer_that_overtakes_a_tail_is_refused(connect: Connect) {
    let Some((client, _, tails)) = receive(connect, FRAME_TIMEOUT, 4096, 1) else {
        return;
    };
    for number in 0..4 {
        let offset = number * 1024;
        client.write(offset, &[&[1; 1024]], 1024).unwrap();
    }
    // It may be refused before this side knows that it has come.
    let _ = client.write(0, &[&[1; 1024]], 1024);
    let error = tails[0].frame(4, FRAME_TIMEOUT).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert!(error.to_string().contains("has not been read"), "{error}");
}

fn credit_that_was_not_earned_and_frames_to_a_sender_are_refused(connect: Connect) {
    for immediate in [1 << 31 | 4097, 8] {
        let ring = Arc::new(Ring::new(4096, 1));
        let Some((client, server)) = connect(ring, FRAME_TIMEOUT) else {
            return;
        };
        let mut sender = Sender::new(client, 4096);
        server.write(0, &[], immediate).unwrap();
        let sent = (0..5).try_for_each(|_| sender.send(&[&[1; 1024]]));
        assert_eq!(sent.unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
