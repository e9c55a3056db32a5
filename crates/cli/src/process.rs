//! Settings of the process: limits, signals, panics.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::process::Child;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Resource, Rlimit, Signal, getrlimit, kill_process, kill_process_group, setrlimit,
};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use tabane_storage::sync::lock;
use tabane_store::client;

use crate::exit::{self, Exit, Failure, Result};

/// Keeps secrets out of core files, and lets the program open as many files as the system allows.
///
/// If the system refuses, the program works without them.
pub fn harden() {
    let no_core = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _ = setrlimit(Resource::Core, no_core);
    let files = getrlimit(Resource::Nofile);
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: files.maximum,
            ..files
        },
    );
}

/// Makes a panic, which is a bug, one sentence and exit code 1 on whatever thread it happens.
pub fn exit_on_panic() {
    std::panic::set_hook(Box::new(|info| {
        let what = info.payload_as_str().unwrap_or("unknown");
        let place = info
            .location()
            .map(|place| format!(" at {place}"))
            .unwrap_or_default();
        let _ = writeln!(
            io::stderr(),
            "tabane: this is a bug in tabane, please report it: {what}{place}; nothing that was \
             stored is lost"
        );
        low_level::exit(Exit::Failure as i32);
    }));
}

/// The terminal, and its settings before it was asked for a password.
static TERMINAL: Mutex<Option<(File, Termios)>> = Mutex::new(None);

/// Keeps the terminal's settings, so that an interrupted password prompt does not leave echo off.
pub fn remember_terminal() {
    let found = File::open("/dev/tty")
        .ok()
        .and_then(|file| tcgetattr(&file).ok().map(|state| (file, state)));
    if let Ok(mut terminal) = TERMINAL.lock() {
        *terminal = found;
    }
}

/// The action at the next signal, in place of ending the program.
static ON_SIGNAL: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

/// Runs `action` at the next SIGINT, SIGTERM or SIGHUP; a second signal ends the program at once.
pub fn on_signal(action: impl FnOnce() + Send + 'static) {
    if let Ok(mut on_signal) = ON_SIGNAL.lock() {
        *on_signal = Some(Box::new(action));
    }
}

/// From now on, SIGINT, SIGTERM and SIGHUP end the program, and the second one at once.
///
/// That is safe at any point, since a repository is consistent after every single operation.
pub fn exit_on_signals() -> Result<()> {
    // Without a free file descriptor, signals keep their default action and end the program
    // silently.
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) else {
        return Ok(());
    };
    let wait = move || {
        let mut withdrawing: Option<Instant> = None;
        for _ in signals.forever() {
            let action = ON_SIGNAL.lock().ok().and_then(|mut action| action.take());
            if let Some(action) = action {
                action();
            } else if ENDS_ITSELF.load(Ordering::Relaxed)
                && !INTERRUPTED.swap(true, Ordering::Relaxed)
            {
                // A command that waits for a dead disk or network would never end by itself.
                std::thread::spawn(|| {
                    std::thread::sleep(EXIT_TIMEOUT);
                    exit_with_last_words();
                });
            } else if let Some(first) = withdrawing {
                if first.elapsed() > ECHO_MAX {
                    exit_interrupted();
                }
            } else {
                withdrawing = Some(Instant::now());
                std::thread::spawn(|| {
                    withdraw();
                    exit_interrupted();
                });
            }
        }
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(wait)
        .map_err(|error| Failure::Other(format!("cannot handle signals: {error}")))?;
    Ok(())
}

/// Time limit for withdrawing from repositories.
const WITHDRAWAL_TIMEOUT: Duration = Duration::from_secs(2);

/// What comes so soon after a signal belongs to it: `timeout` tells a child and then its group.
const ECHO_MAX: Duration = Duration::from_millis(300);

/// Removes from repositories what says that this program works on them, as far as that is quick.
fn withdraw() {
    let (done, is_done) = channel();
    std::thread::spawn(move || {
        client::withdraw();
        let _ = done.send(());
    });
    let _ = is_done.recv_timeout(WITHDRAWAL_TIMEOUT);
}

/// What is still to be done by a command that does not end by itself after a signal.
enum LastWords {
    /// These, the last ones first.
    Owed(Vec<Box<dyn FnOnce() + Send>>),
    /// The command has ended, and does it.
    Taken,
}

static LAST_WORDS: Mutex<LastWords> = Mutex::new(LastWords::Owed(Vec::new()));

/// Has `action` run if the command does not end within [`EXIT_TIMEOUT`] of a signal, before what
/// was owed before.
pub fn owe_last_words(action: impl FnOnce() + Send + 'static) {
    if let LastWords::Owed(actions) = &mut *lock(&LAST_WORDS) {
        actions.push(Box::new(action));
    }
}

/// From now on the command does by itself what it owed. Waits for the end of the program if that is
/// being done already.
pub fn take_last_words() {
    let before = std::mem::replace(&mut *lock(&LAST_WORDS), LastWords::Taken);
    while let LastWords::Taken = before {
        std::thread::park();
    }
}

/// Ends the program with what is still owed, unless the command does that now.
fn exit_with_last_words() {
    let mut last_words = lock(&LAST_WORDS);
    match std::mem::replace(&mut *last_words, LastWords::Taken) {
        LastWords::Taken => {}
        LastWords::Owed(actions) => {
            drop(last_words);
            actions.into_iter().rev().for_each(|action| action());
            withdraw();
            exit_interrupted();
        }
    }
}

/// The process group that is killed when a signal ends the program.
static GROUP: Mutex<Option<Pid>> = Mutex::new(None);

/// Lets the process group of a child end with this program, until it is dropped.
pub fn ends_with_this(child: &Child) -> Group {
    *lock(&GROUP) = Some(Pid::from_child(child));
    Group
}

/// See [`ends_with_this`].
pub struct Group;

impl Drop for Group {
    fn drop(&mut self) {
        *lock(&GROUP) = None;
    }
}

/// Ends what this program has started, as far as the system tells.
fn end_children() {
    let tasks = fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    for child in children.flat_map(|text| numbers(&text)) {
        let _ = kill_process(child, Signal::TERM);
    }
}

fn numbers(text: &str) -> Vec<Pid> {
    let numbers = text.split_whitespace().filter_map(|word| word.parse().ok());
    numbers.filter_map(Pid::from_raw).collect()
}

/// Ends the program, and says so.
fn exit_interrupted() {
    if let Some(group) = *lock(&GROUP) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    end_children();
    if let Ok(mut terminal) = TERMINAL.try_lock()
        && let Some((file, state)) = terminal.take()
    {
        let _ = tcsetattr(&file, OptionalActions::Now, &state);
    }
    let mut stderr = io::stderr();
    // Overwrites a line of progress.
    let clear = if stderr.is_terminal() { "\r\x1b[K" } else { "" };
    let _ = writeln!(stderr, "{clear}{}", exit::interruption());
    low_level::exit(Exit::Interrupted as i32);
}

/// Time limit for a command to end by itself.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether the command ends by itself after a signal.
static ENDS_ITSELF: AtomicBool = AtomicBool::new(false);

/// Whether there was such a signal.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on, only the second of these signals ends the program at once. After the first, the
/// command removes its temporary files and ends by itself, within [`EXIT_TIMEOUT`]. Returns a
/// function that tells whether the first signal has come.
pub fn end_after_signals() -> fn() -> bool {
    ENDS_ITSELF.store(true, Ordering::Relaxed);
    is_interrupted
}

/// Whether a signal has come that the command is to end after.
pub fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Ends as a program that knows nothing of SIGPIPE does when its reader is gone: silently.
pub fn die_of_broken_pipe() {
    let _ = low_level::emulate_default_handler(SIGPIPE);
}
