//! Counts the bytes that are copied outside of the kernel while frames go from one ring through a
//! second into a third.
//!
//! All of this program, the standard library and libraries that it loads call the `memcpy` and
//! `memmove` that are defined here. What the compiler copies without them is a few words at a time.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(unsafe_code)]

use std::arch::asm;
use std::ffi::c_void;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tabane_fabric::{Endpoint, Receiver, Ring, Sender, Tail, Tcp};

static COPIED: AtomicU64 = AtomicU64::new(0);

/// # Safety
/// As of the C standard.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void {
    COPIED.fetch_add(len as u64, Ordering::Relaxed);
    // SAFETY: the caller promises `len` readable and writable bytes that do not overlap.
    unsafe {
        asm!("rep movsb", inout("rcx") len => _, inout("rdi") to => _, inout("rsi") from => _)
    };
    to
}

/// # Safety
/// As of the C standard.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void {
    if (to as usize).wrapping_sub(from as usize) >= len {
        // SAFETY: the caller's; what is read comes before what is written over it.
        return unsafe { memcpy(to, from, len) };
    }
    COPIED.fetch_add(len as u64, Ordering::Relaxed);
    let (last_to, last_from) = (
        to.wrapping_byte_add(len - 1),
        from.wrapping_byte_add(len - 1),
    );
    // SAFETY: the caller's; from the end on, for the two overlap.
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rcx") len => _, inout("rdi") last_to => _,
            inout("rsi") last_from => _);
    }
    to
}

const FRAME_TIMEOUT: Duration = Duration::from_secs(5);
const FRAME: usize = 64 << 10;
const FRAMES: u64 = 500;
const RING: usize = 1 << 20;

type Connect = fn(Arc<Ring>) -> (Arc<dyn Endpoint>, Arc<dyn Endpoint>);

fn tcp(ring: Arc<Ring>) -> (Arc<dyn Endpoint>, Arc<dyn Endpoint>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let server = Tcp::new(listener.accept().unwrap().0, Some(ring)).unwrap();
    (Arc::new(Tcp::new(client, None).unwrap()), Arc::new(server))
}

#[cfg(feature = "libfabric")]
fn libfabric(ring: Arc<Ring>) -> (Arc<dyn Endpoint>, Arc<dyn Endpoint>) {
    use tabane_fabric::{Fabric, FabricListener};
    let listener = FabricListener::bind("tcp", "127.0.0.1", 0).unwrap();
    let port = listener.port();
    let server = thread::spawn(move || listener.next()?.accept(ring, Some(FRAME_TIMEOUT)));
    let client = Fabric::connect("tcp", "127.0.0.1", port, &[0; 32], Some(FRAME_TIMEOUT)).unwrap();
    (Arc::new(client), Arc::new(server.join().unwrap().unwrap()))
}

fn link(connect: Connect) -> (Sender, Tail) {
    let ring = Arc::new(Ring::new(RING, 1));
    let (client, server) = connect(Arc::clone(&ring));
    let receiver = Receiver::new(ring, server);
    let tail = receiver.tails().remove(0);
    thread::spawn(move || receiver.run());
    (Sender::new(client, RING), tail)
}

/// Bytes copied for each byte that was received, over two connections.
fn copied(connect: Connect) -> f64 {
    let (mut first, mut middle) = link(connect);
    let (mut second, mut last) = link(connect);
    let frame = vec![7; FRAME];
    let before = COPIED.load(Ordering::Relaxed);
    let relay = thread::spawn(move || -> io::Result<Sender> {
        for number in 0..FRAMES {
            second.send(&[middle.frame(number, FRAME_TIMEOUT)?])?;
            middle.release(number + 1)?;
        }
        // Credit still comes in.
        Ok(second)
    });
    let consumer = thread::spawn(move || -> io::Result<()> {
        for number in 0..FRAMES {
            assert_eq!(last.frame(number, FRAME_TIMEOUT)?.len(), FRAME);
            last.release(number + 1)?;
        }
        Ok(())
    });
    (0..FRAMES).for_each(|_| first.send(&[&frame]).unwrap());
    let _second = relay.join().unwrap().unwrap();
    consumer.join().unwrap().unwrap();
    let copied = COPIED.load(Ordering::Relaxed) - before;
    copied as f64 / (2 * FRAMES * FRAME as u64) as f64
}

#[test]
fn nothing_is_copied_but_by_the_kernel() {
    let before = COPIED.load(Ordering::Relaxed);
    let copy = std::hint::black_box(vec![1_u8; FRAME]).clone();
    drop(std::hint::black_box(copy));
    let counted = COPIED.load(Ordering::Relaxed) - before;
    assert!(counted >= FRAME as u64, "copies are counted: {counted}");

    let by_tcp = copied(tcp);
    println!("over TCP {by_tcp:.5} bytes are copied for each that is received");
    assert!(by_tcp < 0.001, "{by_tcp}");
    #[cfg(feature = "libfabric")]
    {
        let by_libfabric = copied(libfabric);
        println!("over libfabric's TCP {by_libfabric:.5}, its own copies among them");
        assert!(by_libfabric < 0.25, "{by_libfabric}");
    }
}
