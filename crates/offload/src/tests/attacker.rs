//! A client that does to everything it is given whatever the system lets it do.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use libc::{c_int, c_long, c_void};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix, recvmsg,
};
use rustix::process::Signal;

use super::{Process, check, connected, eventually, seqpacket};
use crate::layout::{BOARD_LEN, Note, RING_LEN, Want, hello};
use crate::status;

/// What a client holds of the service.
struct Loot {
    socket: OwnedFd,
    board: OwnedFd,
    ring: OwnedFd,
    /// Where the two are mapped.
    board_at: *mut c_void,
    ring_at: *mut c_void,
}

impl Loot {
    fn take(service: &Path) -> Self {
        let socket = seqpacket();
        rustix::net::connect(&socket, &SocketAddrUnix::new(service).unwrap()).unwrap();
        rustix::net::send(&socket, &hello(Want::Ring), SendFlags::NOSIGNAL).unwrap();
        let mut version = [0; 8];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut words = [IoSliceMut::new(&mut version)];
        recvmsg(&socket, &mut words, &mut control, RecvFlags::empty()).unwrap();
        let memories = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        let mut memories = memories.expect("a board and a ring");
        let (board, ring) = (memories.next().unwrap(), memories.next().unwrap());
        let board_at = map(&board, BOARD_LEN, libc::PROT_READ);
        let ring_at = map(&ring, RING_LEN, libc::PROT_READ | libc::PROT_WRITE);
        assert!(board_at != libc::MAP_FAILED && ring_at != libc::MAP_FAILED);
        Self {
            socket,
            board,
            ring,
            board_at,
            ring_at,
        }
    }

    /// Everything once. Returns how many threads were moved from one word to another.
    fn attack(&mut self) -> c_long {
        let moved = self.attack_sleepers();
        self.attack_memory();
        self.leave_locks_behind();
        // Until the socket is full.
        for note in [Note::AtWork, Note::Wake(0), Note::Wake(1), Note::Wake(255)].repeat(100) {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(&self.socket, &note.to_bytes(), flags) {
                Ok(_) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => panic!("the service has hung up: {error}"),
            }
        }
        moved
    }

    /// All that futexes can do, with every word. Threads that are found are moved to a word of the
    /// ring.
    fn attack_sleepers(&self) -> c_long {
        /// The last word of the ring that is no message: nobody is woken there.
        const HIDDEN: usize = 4092;
        let mut moved = 0;
        for (at, len) in [(self.board_at, BOARD_LEN), (self.ring_at, HIDDEN)] {
            for offset in (0..len).step_by(4) {
                let word = at.wrapping_byte_add(offset);
                let hidden = self.ring_at.wrapping_byte_add(HIDDEN);
                moved += futex(word, libc::FUTEX_REQUEUE, 0, i32::MAX, hidden, 0).max(0);
                for value in [0, 1] {
                    let done = futex(word, libc::FUTEX_CMP_REQUEUE, 0, i32::MAX, hidden, value);
                    moved += done.max(0);
                }
                if at == self.board_at {
                    // Sets a word if it may be written.
                    futex(word, libc::FUTEX_WAKE_OP, i32::MAX, i32::MAX, word, 1 << 12);
                    futex(word, libc::FUTEX_TRYLOCK_PI, 0, 0, ptr::null_mut(), 0);
                }
                futex(word, libc::FUTEX_WAKE, i32::MAX, 0, ptr::null_mut(), 0);
            }
        }
        moved
    }

    /// Lengths, holes, seals, rights and places.
    fn attack_memory(&mut self) {
        let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        for (memory, len) in [(&self.board, BOARD_LEN), (&self.ring, RING_LEN)] {
            let (file, len) = (memory.as_raw_fd(), len as libc::off_t);
            // SAFETY: calls that touch no memory of this process but a constant.
            unsafe {
                libc::ftruncate(file, 0);
                libc::ftruncate(file, 2 * len);
                libc::fallocate(file, hole, 0, len);
                libc::fallocate(file, 0, len, len);
                libc::fcntl(file, libc::F_ADD_SEALS, libc::F_SEAL_WRITE);
                libc::fcntl(file, libc::F_ADD_SEALS, libc::F_SEAL_FUTURE_WRITE);
                libc::fcntl(file, libc::F_SETLEASE, libc::F_WRLCK);
                libc::fcntl(file, libc::F_SETFL, libc::O_APPEND | libc::O_NONBLOCK);
                libc::flock(file, libc::LOCK_EX | libc::LOCK_NB);
                libc::lseek(file, i64::MAX, libc::SEEK_SET);
                libc::fchmod(file, 0);
                libc::fchown(file, 65534, 65534);
            }
        }
        // SAFETY: 8 bytes, which are read.
        let written =
            unsafe { libc::pwrite(self.board.as_raw_fd(), [0xff_u8; 8].as_ptr().cast(), 8, 0) };
        assert_eq!(written, -1, "a board that can be written");
        let writable = map(&self.board, BOARD_LEN, libc::PROT_READ | libc::PROT_WRITE);
        assert_eq!(writable, libc::MAP_FAILED, "a board that can be written");
        // SAFETY: mappings of this process, of which nobody keeps the address.
        unsafe {
            libc::mprotect(self.board_at, BOARD_LEN, libc::PROT_READ | libc::PROT_WRITE);
            for (at, len) in [
                (&mut self.board_at, BOARD_LEN),
                (&mut self.ring_at, RING_LEN),
            ] {
                let moved = libc::mremap(*at, len, len, libc::MREMAP_MAYMOVE);
                assert_ne!(moved, libc::MAP_FAILED);
                *at = moved;
                libc::madvise(*at, len, libc::MADV_REMOVE);
            }
        }
    }

    /// A thread that ends while a list of its own says that it holds every word as a lock.
    fn leave_locks_behind(&self) {
        let places = [
            self.board_at.expose_provenance(),
            self.ring_at.expose_provenance(),
        ];
        let thread = std::thread::spawn(move || {
            for place in places {
                // The head of such a list: the first entry, how far from it its lock is, and none
                // that is being taken.
                let head: &'static [usize; 3] = Box::leak(Box::new([place, 0, 0]));
                // SAFETY: the kernel looks at the list when this thread ends, and survives any.
                unsafe {
                    libc::syscall(libc::SYS_set_robust_list, head.as_ptr(), size_of_val(head))
                };
            }
        });
        thread.join().unwrap();
    }
}

fn map(memory: &OwnedFd, len: usize, rights: c_int) -> *mut c_void {
    let file = memory.as_fd().as_raw_fd();
    // SAFETY: a new place.
    unsafe { libc::mmap(ptr::null_mut(), len, rights, libc::MAP_SHARED, file, 0) }
}

fn futex(
    word: *mut c_void,
    operation: c_int,
    first: c_int,
    second: c_int,
    other: *mut c_void,
    value: c_int,
) -> c_long {
    let second = c_long::from(second);
    // SAFETY: none of the operations sleeps, and the words are of memory that nobody in this
    // process refers to.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word,
            operation,
            first,
            second,
            other,
            value,
        )
    }
}

#[test]
#[ignore = "run by other tests"]
fn be_an_attacker() {
    let variable = |name| std::env::var_os(name);
    let (Some(service), Some(seconds)) = (
        variable("TABANE_TEST_SOCKET"),
        variable("TABANE_TEST_SECONDS"),
    ) else {
        return;
    };
    let seconds = seconds.to_str().unwrap().parse().unwrap();
    let (begun, mut moved) = (Instant::now(), 0);
    let mut loot = Loot::take(Path::new(&service));
    while begun.elapsed() < Duration::from_secs(seconds) {
        moved += loot.attack();
    }
    assert_eq!(moved, 0, "threads of others that were moved");
}

fn attacker(service: &Path, seconds: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "tests::attacker::be_an_attacker"])
        .env("TABANE_TEST_SOCKET", service)
        .env("TABANE_TEST_SECONDS", seconds.to_string())
        .stdout(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// Messages that a service has done so far.
fn messages(service: &Path) -> u64 {
    let status = status(service).unwrap();
    status.units.iter().map(|unit| unit.messages).sum()
}

fn withstand(seconds: u64) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("offload.sock");
    let mut service = Process::start(&socket);
    eventually("a socket", || socket.exists());
    let (stop, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for number in 0..2 {
            let (socket, stop, asked) = (&socket, &stop, &asked);
            scope.spawn(move || {
                let client = connected(socket);
                for seed in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    asked.fetch_add(check(&client, socket, 2 * seed + number), Ordering::Relaxed);
                    // Long enough for units to fall asleep.
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        }
        eventually("honest clients", || asked.load(Ordering::Relaxed) > 0);
        let mut attackers = [attacker(&socket, seconds), attacker(&socket, seconds)];
        // One second more than the attack takes.
        let mut done = Vec::new();
        for _ in 0..=seconds + 1 {
            done.push(messages(&socket));
            std::thread::sleep(Duration::from_secs(1));
        }
        stop.store(true, Ordering::Relaxed);
        let ends = attackers
            .each_mut()
            .map(|attacker| attacker.wait().unwrap());
        println!("messages after each second: {done:?}");
        assert!(
            done.is_sorted_by(|before, after| before < after),
            "a second without a message: {done:?}"
        );
        assert!(ends.iter().all(|end| end.success()), "{ends:?}");
    });
    let asked_to_end = Instant::now();
    service.signal(Signal::TERM);
    let ended = loop {
        if let Some(status) = service.0.try_wait().unwrap() {
            break status;
        }
        assert!(
            asked_to_end.elapsed() < Duration::from_secs(2),
            "the service does not end"
        );
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(ended.success(), "{ended}");
}

#[test]
fn an_attacker_harms_nobody_but_itself() {
    withstand(3);
}

#[test]
#[ignore = "takes a minute"]
fn an_attacker_harms_nobody_but_itself_for_a_minute() {
    withstand(60);
}
