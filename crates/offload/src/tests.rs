//! A service with clients of all kinds.
#![allow(unsafe_code)]

use std::io::{ErrorKind, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use rustix::process::{Pid, Signal, kill_process};
use tabane_engine::gpu;
use tabane_lanes::aes::{self, InOut, Key};
use tabane_lanes::{Algorithm, Hasher};

use crate::layout::{BOARD_LEN, Note, RING_LEN, SLOTS, Want, hello, state};
use crate::memory::{final_seal, sealed};
use crate::{Ask, Client, MESSAGE_MAX, Server, ServerOptions, VERSION, status};

mod attacker;
mod lingering;

fn options(socket: &Path) -> ServerOptions {
    ServerOptions {
        socket: socket.to_owned(),
        mode: 0o600,
        clients_max: 1024,
        ask: Ask::Always,
    }
}

/// A service in this process.
fn serve(dir: &tempfile::TempDir) -> (Server, std::path::PathBuf) {
    let socket = dir.path().join("offload.sock");
    (Server::start(options(&socket)).unwrap(), socket)
}

fn bytes(seed: usize, len: usize) -> Vec<u8> {
    let byte = |i: usize| (i.wrapping_mul(2_654_435_761).wrapping_add(seed * 97) >> 7) as u8;
    (0..len).map(byte).collect()
}

/// Asks for a hash and a ciphertext, does the rest alone, and compares. Returns how many bytes the
/// service did.
fn check(client: &Client, socket: &Path, seed: usize) -> usize {
    let message = bytes(seed, 1 + seed * 4099 % (3 * MESSAGE_MAX));
    let hashes = [
        Algorithm::Md5,
        Algorithm::Sha1,
        Algorithm::Sha224,
        Algorithm::Sha256,
        Algorithm::Sha512,
    ];
    let algorithm = hashes[seed % hashes.len()];
    let mut hasher = Hasher::new(algorithm);
    let hashed = client.update(socket, &mut hasher, &message);
    hasher.update(&message[hashed..]);
    assert_eq!(
        hasher.finish(),
        tabane_lanes::hash_one(algorithm, &message),
        "{algorithm} of {} bytes, {hashed} of them asked for",
        message.len()
    );

    let plain = &message[..message.len() / 16 * 16];
    let key = Key::new(&bytes(seed, [16, 24, 32][seed % 3])).unwrap();
    let (mut iv, mut expected_iv) = ([seed as u8; 16], [seed as u8; 16]);
    let (mut cipher, mut expected) = (vec![0; plain.len()], plain.to_vec());
    aes::cbc_encrypt(&key, &mut expected_iv, &mut expected[..]).unwrap();
    let mut data = InOut::apart(plain, &mut cipher);
    let encrypted = client.cbc_encrypt(socket, &key, &mut iv, &mut data);
    aes::cbc_encrypt(&key, &mut iv, data.split_at(encrypted).1).unwrap();
    assert!(cipher == expected && iv == expected_iv, "a ciphertext");
    hashed + encrypted
}

/// Waits until something is true.
fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A client that is connected.
fn connected(socket: &Path) -> Client {
    let client = Client::new();
    eventually("the service answers", || check(&client, socket, 3) > 0);
    client
}

#[test]
fn many_clients_get_right_answers() {
    let dir = tempfile::tempdir().unwrap();
    let (server, socket) = serve(&dir);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let socket = &socket;
            scope.spawn(move || {
                let client = connected(socket);
                let done = (0..60).map(|seed| check(&client, socket, seed * 4 + number));
                assert!(done.sum::<usize>() > 0);
            });
        }
        // Two threads of one process, for which there is one client.
        let client = connected(&socket);
        std::thread::scope(|scope| {
            for number in 0..2 {
                let (client, socket) = (&client, &socket);
                scope.spawn(move || {
                    for seed in 0..30 {
                        check(client, socket, seed * 2 + number);
                    }
                });
            }
        });
    });
    let status = status(&socket).unwrap();
    assert_eq!(status.clients.len(), 5);
    assert!(
        status
            .clients
            .iter()
            .all(|client| client.messages > 0 && client.refused == 0)
    );
    assert!(status.units.iter().map(|unit| unit.messages).sum::<u64>() > 100);
    server.stop();
    assert!(!socket.exists());
}

/// What a client could write into its ring, beside one that means well.
#[test]
fn a_hostile_ring_harms_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let (server, socket) = serve(&dir);
    let hostile = connected(&socket);
    let place = hostile.place_for_tests();
    let ring = place.ring();
    let units = rustix::thread::sched_getaffinity(None).unwrap().count();
    let ask = |slot: usize| {
        ring.slots[slot].state.store(state::READY, Ordering::SeqCst);
        (0..units as u8).for_each(|unit| hostile.say_for_tests(Note::Wake(unit)));
        eventually("an answer", || {
            !matches!(
                ring.slots[slot].state.load(Ordering::Acquire),
                state::READY | state::ASLEEP
            )
        });
        ring.slots[slot].state.load(Ordering::Acquire)
    };
    let slot = &ring.slots[0];
    // Lengths past its buffer and none, half blocks, tasks and keys that there are not.
    for (task, len, key_len, expected) in [
        (1, 64, 0, state::DONE),
        (1, MESSAGE_MAX as u32, 0, state::DONE),
        (1, MESSAGE_MAX as u32 + 64, 0, state::REFUSED),
        (1, u32::MAX - 63, 0, state::REFUSED),
        (1, 0, 0, state::REFUSED),
        (1, 65, 0, state::REFUSED),
        (5, 64, 0, state::REFUSED),
        (u32::MAX, 64, 0, state::REFUSED),
        (0, 64, 16, state::DONE),
        (0, 64, 17, state::REFUSED),
        (0, 64, u32::MAX, state::REFUSED),
        (0, 24, 16, state::REFUSED),
    ] {
        slot.task.store(task, Ordering::Relaxed);
        slot.len.store(len, Ordering::Relaxed);
        slot.key_len.store(key_len, Ordering::Relaxed);
        slot.unit.store(u32::MAX, Ordering::Relaxed);
        assert_eq!(
            ask(0),
            expected,
            "task {task}, {len} bytes, a key of {key_len}"
        );
    }
    // Anything at any time, while units look at it.
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut seed = 1_u32;
            while !stop.load(Ordering::Relaxed) {
                let mut next = |below: u32| {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (seed >> 8) % below
                };
                let slot = &ring.slots[next(SLOTS as u32) as usize];
                slot.task.store(next(6), Ordering::Relaxed);
                slot.len.store(next(3) * next(70_000), Ordering::Relaxed);
                slot.key_len.store(next(40), Ordering::Relaxed);
                slot.unit.store(next(70), Ordering::Relaxed);
                slot.state.store(next(7), Ordering::SeqCst);
                ring.uncounted.store(next(2), Ordering::Relaxed);
                ring.progress.store(next(1 << 20), Ordering::Relaxed);
            }
        });
        let honest = connected(&socket);
        let done: usize = (0..100).map(|seed| check(&honest, &socket, seed)).sum();
        stop.store(true, Ordering::Relaxed);
        assert!(done > 0);
    });
    assert!(
        status(&socket)
            .unwrap()
            .clients
            .iter()
            .any(|client| client.refused > 5)
    );
    server.stop();
}

#[test]
fn clients_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let (server, socket) = serve(&dir);
    let many: Vec<Client> = (0..150).map(|_| connected(&socket)).collect();
    assert_eq!(status(&socket).unwrap().clients.len(), 150);
    // As in a child that was forked: the connection is given up, with whatever is in the ring.
    for client in &many {
        client.place_for_tests().ring().slots[1]
            .state
            .store(state::READY, Ordering::SeqCst);
        client.forked();
    }
    eventually("those who are gone are noticed", || {
        status(&socket).unwrap().clients.is_empty()
    });
    let again = &many[0];
    eventually("a new connection", || check(again, &socket, 7) > 0);
    server.stop();
    assert_eq!(check(again, &socket, 7), 0, "nobody is there any more");
}

#[test]
fn a_full_service_tells_so() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("offload.sock");
    let options = ServerOptions {
        clients_max: 2,
        ..options(&socket)
    };
    let server = Server::start(options).unwrap();
    let _clients = [connected(&socket), connected(&socket)];
    // One more goes on alone.
    let third = Client::new();
    assert_eq!(
        (0..20)
            .map(|seed| check(&third, &socket, seed))
            .sum::<usize>(),
        0
    );
    let full = status(&socket).unwrap();
    assert_eq!((full.clients.len(), full.clients_max), (2, 2));
    // Others who ask nothing have taken the places that are kept for questions.
    let begun = Instant::now();
    let silent = [(); 20].map(|()| {
        let silent = seqpacket();
        rustix::net::connect(&silent, &SocketAddrUnix::new(&socket).unwrap()).unwrap();
        silent
    });
    match status(&socket) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
        // They are sent away after a second.
        Ok(_) => assert!(begun.elapsed() > Duration::from_secs(1)),
    }
    drop(silent);
    eventually("a place for a question", || status(&socket).is_ok());
    server.stop();
}

fn seqpacket() -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

#[test]
fn strangers_are_sent_away() {
    let dir = tempfile::tempdir().unwrap();
    let (server, socket) = serve(&dir);
    let mut other_version = hello(Want::Ring);
    other_version[8] ^= 1;
    for words in [
        &other_version[..],
        b"",
        b"!",
        b".\0",
        b"GET / HTTP/1.1\r\n\r\n",
    ] {
        let stranger = seqpacket();
        rustix::net::connect(&stranger, &SocketAddrUnix::new(&socket).unwrap()).unwrap();
        rustix::net::send(&stranger, words, SendFlags::NOSIGNAL).unwrap();
        let mut answer = [0; 8];
        let answer = rustix::net::recv(&stranger, &mut answer[..], RecvFlags::empty());
        assert!(
            matches!(answer, Ok((_, 0)) | Err(rustix::io::Errno::CONNRESET)),
            "{answer:?}"
        );
    }
    // One who says nothing is not waited for.
    let silent = seqpacket();
    rustix::net::connect(&silent, &SocketAddrUnix::new(&socket).unwrap()).unwrap();
    let mut answer = [0; 8];
    let (_, len) = rustix::net::recv(&silent, &mut answer[..], RecvFlags::empty()).unwrap();
    assert_eq!(len, 0);
    // There is one service at a place, and what a dead one has left is no obstacle.
    assert!(Server::start(options(&socket)).is_err());
    server.stop();
    let dead = seqpacket();
    rustix::net::bind(&dead, &SocketAddrUnix::new(&socket).unwrap()).unwrap();
    drop(dead);
    let server = Server::start(options(&socket)).unwrap();
    connected(&socket);
    server.stop();
}

/// A service that speaks another version, or sends memory that is not what it must be.
#[test]
fn a_strange_service_is_left_alone() {
    let good = || {
        (
            sealed("board", BOARD_LEN).unwrap(),
            sealed("ring", RING_LEN).unwrap(),
        )
    };
    let unsealed = || {
        let flags = rustix::fs::MemfdFlags::ALLOW_SEALING;
        let memory = rustix::fs::memfd_create("ring", flags).unwrap();
        rustix::fs::ftruncate(&memory, RING_LEN as u64).unwrap();
        memory
    };
    let cases = [
        (VERSION + 1, good().0, good().1),
        (VERSION, good().0, unsealed()),
        (VERSION, good().0, sealed("ring", RING_LEN - 4096).unwrap()),
        (VERSION, good().1, good().0),
    ];
    for (version, board, ring) in cases {
        final_seal(board.as_fd()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("offload.sock");
        let listener = seqpacket();
        rustix::net::bind(&listener, &SocketAddrUnix::new(&socket).unwrap()).unwrap();
        rustix::net::listen(&listener, 1).unwrap();
        let client = Client::new();
        assert_eq!(check(&client, &socket, 3), 0);
        let accepted = rustix::net::accept(&listener).unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let memories = [board.as_fd(), ring.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&memories));
        let version = version.to_le_bytes();
        rustix::net::sendmsg(
            &accepted,
            &[IoSlice::new(&version)],
            &mut control,
            SendFlags::NOSIGNAL,
        )
        .unwrap();
        for seed in 0..10 {
            assert_eq!(check(&client, &socket, seed), 0);
        }
    }
}

#[test]
fn the_rights_of_the_socket_say_who_may() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let socket = dir.path().join("offload.sock");
    let options = ServerOptions {
        mode: 0,
        ..options(&socket)
    };
    let server = Server::start(options).unwrap();
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0);
    let asked = std::thread::spawn(move || {
        const NOBODY: libc::c_long = 65534;
        // SAFETY: of this thread only, which ends soon. Root may do everything, others have no
        // right here anyway.
        unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
        let client = Client::new();
        (0..20)
            .map(|seed| check(&client, &socket, seed))
            .sum::<usize>()
    });
    assert_eq!(asked.join().unwrap(), 0);
    server.stop();
}

/// A service in a process of its own, which can be killed.
struct Process(Child);

impl Process {
    fn start(socket: &Path) -> Self {
        Self::start_with(socket, |command| command)
    }

    fn start_with(socket: &Path, set: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--ignored", "--exact", "tests::be_a_service", "--nocapture"])
            .env("TABANE_TEST_SOCKET", socket)
            .stdout(std::process::Stdio::null());
        Self(set(&mut command).spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "run by other tests"]
fn be_a_service() {
    if let Ok(mode) = std::env::var("TABANE_TEST_CARD") {
        mode.parse::<gpu::Mode>().unwrap().set();
        gpu::open().map(|_| ()).unwrap();
    }
    if let Some(socket) = std::env::var_os("TABANE_TEST_SOCKET") {
        static ENDS: AtomicBool = AtomicBool::new(false);
        extern "C" fn end(_: libc::c_int) {
            ENDS.store(true, Ordering::Relaxed);
        }
        // SAFETY: the handler does nothing but to store a number.
        unsafe { libc::signal(libc::SIGTERM, end as extern "C" fn(libc::c_int) as usize) };
        let server = Server::start(options(Path::new(&socket))).unwrap();
        while !ENDS.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        server.stop();
    }
}

/// Kills a service so often while clients ask.
fn kill(times: usize) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("offload.sock");
    let stop = AtomicBool::new(false);
    let asked = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for number in 0..3 {
            let (socket, stop, asked) = (&socket, &stop, &asked);
            scope.spawn(move || {
                let client = Client::new();
                let mut alone = 0;
                for seed in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let start = Instant::now();
                    match check(&client, socket, 3 * seed + number) {
                        0 => alone += 1,
                        done => {
                            alone = 0;
                            asked.fetch_add(done, Ordering::Relaxed);
                        }
                    }
                    // Begins anew, for it would wait for a second before it looks again.
                    if alone == 20 {
                        alone = 0;
                        client.forked();
                    }
                    assert!(start.elapsed() < Duration::from_secs(10), "a call hangs");
                }
            });
        }
        for time in 0..times {
            let service = Process::start(&socket);
            let before = asked.load(Ordering::Relaxed);
            eventually("the service is asked", || {
                asked.load(Ordering::Relaxed) > before
            });
            std::thread::sleep(Duration::from_micros((time * 7919 % 5000) as u64));
            drop(service);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_service_that_is_killed_is_not_missed() {
    kill(3);
}

#[test]
#[ignore = "takes a minute"]
fn a_service_that_is_killed_a_hundred_times_is_not_missed() {
    kill(100);
}

/// A service in a process of its own, at `offload.sock` in the folder, and a client of it.
fn served() -> (tempfile::TempDir, Process, Client) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("offload.sock");
    let service = Process::start(&socket);
    eventually("a socket", || socket.exists());
    let client = connected(&socket);
    (dir, service, client)
}

#[test]
fn a_service_that_does_not_answer_is_not_waited_for() {
    let (dir, service, client) = served();
    let socket = dir.path().join("offload.sock");
    service.signal(Signal::STOP);
    let start = Instant::now();
    while check(&client, &socket, 5) > 0 {}
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(check(&client, &socket, 6), 0);
    service.signal(Signal::CONT);
}

/// In a sandbox that answers these calls with an error.
fn without<T: Send>(calls: &[libc::c_long], f: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            tabane_testing::sandbox::forbid(calls);
            f()
        });
        thread.join().unwrap()
    })
}

#[test]
fn a_service_says_what_the_system_lacks() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("offload.sock");
    for (call, name) in [
        (libc::SYS_memfd_create, "memfd_create"),
        (libc::SYS_futex, "futex"),
    ] {
        let started = without(&[call], || Server::start(options(&socket)).map(|_| ()));
        let error = started.unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(!socket.exists());
    }
}

#[test]
fn a_client_that_cannot_sleep_goes_on_alone() {
    let (dir, service, client) = served();
    let socket = dir.path().join("offload.sock");
    // It would have to be waited for.
    service.signal(Signal::STOP);
    without(
        &[libc::SYS_futex],
        || {
            while check(&client, &socket, 5) > 0 {}
        },
    );
    service.signal(Signal::CONT);
    without(&[libc::SYS_memfd_create], || {
        eventually("the service answers", || check(&client, &socket, 3) > 0);
    });
}

/// A card that is none, for which the shim of the card's tests does the work.
#[test]
fn a_card_has_its_share() {
    let dir = tempfile::tempdir().unwrap();
    let shim = concat!(env!("CARGO_MANIFEST_DIR"), "/../gpu/tests/shim/driver.cpp");
    let compiled = Command::new("c++")
        .args(["-std=c++17", "-O1", "-shared", "-fPIC", "-o"])
        .arg(dir.path().join("libcuda.so.1"))
        .args([shim, "-ldl", "-lpthread"])
        .status();
    let Ok(compiled) = compiled else {
        println!("NOT CHECKED: the share of a card, since c++ does not run");
        return;
    };
    assert!(compiled.success());
    std::fs::write(dir.path().join("faults"), "").unwrap();
    let socket = dir.path().join("offload.sock");
    let _service = Process::start_with(&socket, |command| {
        command.env("LD_LIBRARY_PATH", dir.path());
        command.env("TABANE_TEST_CARD", "only")
    });
    eventually("a socket", || socket.exists());
    // Short ones, for the shim is slow; several at a time, for a card gets none that is alone.
    let (client, message) = (Client::new(), bytes(1, 256));
    let hash = || {
        let mut hasher = Hasher::new(Algorithm::Sha256);
        let taken = client.update(&socket, &mut hasher, &message);
        hasher.update(&message[taken..]);
        assert_eq!(
            hasher.finish(),
            tabane_lanes::hash_one(Algorithm::Sha256, &message)
        );
    };
    eventually("a bundle for the card", || {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(hash);
            }
        });
        status(&socket).is_ok_and(|status| status.cards.iter().any(|card| card.bundles > 0))
    });
    eventually("a ciphertext", || {
        let (key, mut iv) = (Key::new(&[1; 16]).unwrap(), [2; 16]);
        let (mut cipher, len) = (message.clone(), message.len());
        let mut data = InOut::from(&mut cipher[..]);
        client.cbc_encrypt(&socket, &key, &mut iv, &mut data) == len
    });
    let status = status(&socket).unwrap();
    let [card] = &status.cards[..] else {
        panic!("{status:?}");
    };
    let all: u64 = status.units.iter().map(|unit| unit.bytes).sum();
    assert!(card.bundles > 0 && card.busy_seconds > 0.0, "{card:?}");
    // Ciphertexts are none of its affairs.
    assert!(card.bytes >= 256 && card.bytes < all, "{card:?} of {all}");
}
