//! A ring of the fabric: one peer writes, two consumers read.

use std::time::Duration;

use shuttle::sync::Arc;
use shuttle::sync::mpsc::channel;
use shuttle::thread;

use crate::in_many_orders;
use crate::ring::{Cursor, Ring};

const FRAMES: u64 = 12;

/// The bytes of a frame. Lengths differ, so that frames wrap at the end of the ring.
fn bytes(number: u64) -> Vec<u8> {
    vec![number as u8; 1 + number as usize % 4]
}

/// Writes all frames, waiting for credit as a sender does.
fn write(ring: &Ring, credits: &shuttle::sync::mpsc::Receiver<u64>) {
    let mut cursor = Cursor {
        capacity: ring.capacity() as u64,
        head: 0,
    };
    let mut released = 0;
    for number in 0..FRAMES {
        let frame = bytes(number);
        let start = cursor.start(frame.len());
        while start + frame.len() as u64 - released > cursor.capacity {
            released += credits.recv().expect("consumers give credit");
        }
        let vacancy = ring.vacancy(start % cursor.capacity, frame.len());
        let mut vacancy = vacancy.expect("there is room");
        vacancy.copy_from_slice(&frame);
        vacancy.publish();
        cursor.head = start + frame.len() as u64;
    }
}

#[test]
fn every_consumer_reads_every_frame() {
    in_many_orders(|| {
        let ring = Arc::new(Ring::new(16, 2));
        let (sender, credits) = channel();
        let consumers: Vec<_> = (0..ring.tails())
            .map(|tail| {
                let (ring, sender) = (Arc::clone(&ring), sender.clone());
                thread::spawn(move || {
                    for number in 0..FRAMES {
                        let found = ring.frame(tail, number, Duration::from_secs(3600));
                        assert_eq!(found.expect("it arrives"), bytes(number));
                        let credit = ring.release(tail, number + 1);
                        if credit > 0 {
                            // The writer may have ended.
                            let _ = sender.send(credit);
                        }
                    }
                })
            })
            .collect();
        write(&ring, &credits);
        for consumer in consumers {
            consumer.join().expect("it reads all");
        }
    });
}

/// Whoever waits hears of the end, and reads before it what has arrived.
#[test]
fn nobody_waits_for_what_does_not_come() {
    in_many_orders(|| {
        let ring = Arc::new(Ring::new(16, 2));
        let consumers: Vec<_> = (0..ring.tails())
            .map(|tail| {
                let ring = Arc::clone(&ring);
                thread::spawn(move || {
                    let first = ring.frame(tail, 0, Duration::from_secs(3600));
                    assert_eq!(first.expect("it arrives"), [7]);
                    let second = ring.frame(tail, 1, Duration::from_secs(3600));
                    assert_eq!(second.expect_err("it is over").to_string(), "gone");
                })
            })
            .collect();
        let mut vacancy = ring.vacancy(0, 1).expect("there is room");
        vacancy[0] = 7;
        vacancy.publish();
        ring.end(&std::io::Error::other("gone"));
        for consumer in consumers {
            consumer.join().expect("it hears of the end");
        }
    });
}
