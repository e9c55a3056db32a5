//! Console blocks of pages, run in a shell: lines with `$ ` are commands, the others their output.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::Winsize;
use tempfile::TempDir;

/// A command of a page, with what it is to print.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// The number of its line in the block, from 0.
    pub line: usize,
    /// The command, of more than one line where these end in `\` or are a here-document.
    pub command: String,
    /// What it prints, to standard output and standard error.
    pub expected: String,
}

/// The steps of a `console` block.
pub fn steps(block: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    // The line that ends the here-document that is open.
    let mut ending: Option<String> = None;
    for (line, text) in block.lines().enumerate() {
        if let Some(command) = text.strip_prefix("$ ").filter(|_| ending.is_none()) {
            steps.push(Step {
                line,
                command: format!("{command}\n"),
                expected: String::new(),
            });
            ending = command.split("<<'").nth(1).map(|rest| {
                let word = rest.split('\'').next();
                word.unwrap_or_default().to_owned()
            });
            continue;
        }
        let Some(step) = steps.last_mut() else {
            panic!("a console block begins with a command: {text}");
        };
        let continued = step.expected.is_empty() && step.command.ends_with("\\\n");
        let target = if ending.is_some() || continued {
            &mut step.command
        } else {
            &mut step.expected
        };
        *target += text;
        target.push('\n');
        if ending.as_deref() == Some(text) {
            ending = None;
        }
    }
    steps
}

/// A shell that runs one command after another.
pub struct Shell {
    child: Child,
    stdin: Option<ChildStdin>,
    output: BufReader<File>,
}

/// What a command did.
pub struct Ran {
    /// What it printed, to standard output and standard error.
    pub output: String,
    /// Its exit code.
    pub code: i32,
    /// How long it took.
    pub took: Duration,
}

impl Shell {
    /// Starts `bash` with HOME in `home`, `programs` first in PATH, and the environment of nobody.
    /// With `columns`, its output is a terminal of that width.
    ///
    /// # Panics
    ///
    /// If there is no bash, or no terminal to be had.
    pub fn start(home: &Path, programs: &Path, columns: Option<u16>) -> Self {
        let (output, stdout) = match columns {
            None => {
                let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
                (reader, writer)
            }
            Some(columns) => terminal(columns),
        };
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        command
            .args(["--norc", "--noprofile"])
            .current_dir(home)
            .env_clear()
            .env("HOME", home)
            .env("USER", "ada")
            .env("LANG", "C.UTF-8")
            .env("TERM", "xterm-256color")
            .env("PATH", format!("{}:{path}", programs.display()))
            .stdin(Stdio::piped())
            .stderr(Stdio::from(stdout.try_clone().expect("a descriptor")))
            .stdout(Stdio::from(stdout));
        let mut child = command.spawn().expect("bash can be started");
        Self {
            stdin: child.stdin.take(),
            child,
            output: BufReader::new(File::from(output)),
        }
    }

    /// Runs a command to its end.
    ///
    /// # Panics
    ///
    /// If the shell ends.
    pub fn run(&mut self, command: &str) -> Ran {
        let start = Instant::now();
        let stdin = self.stdin.as_mut().expect("the shell is running");
        let text = format!("{{ {command}\n}} < /dev/null\nprintf '\\036%d\\n' $?\n");
        stdin
            .write_all(text.as_bytes())
            .expect("the shell is running");
        let mut output = Vec::new();
        self.output
            .read_until(b'\x1e', &mut output)
            .expect("the shell's output");
        let mut code = String::new();
        self.output
            .read_line(&mut code)
            .expect("the shell's output");
        assert_eq!(output.pop(), Some(b'\x1e'), "the shell ended in: {command}");
        Ran {
            output: String::from_utf8_lossy(&output).into_owned(),
            code: code.trim().parse().expect("an exit code"),
            took: start.elapsed(),
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// Both ends of a pseudo-terminal: first the end to read from, then the end for programs.
fn terminal(columns: u16) -> (OwnedFd, OwnedFd) {
    let outer = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&outer).expect("a terminal");
    unlockpt(&outer).expect("a terminal");
    let size = Winsize {
        ws_row: 40,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(&outer, size).expect("a terminal's size");
    let name = ptsname(&outer, Vec::new()).expect("a terminal's name");
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
    let inner = rustix::fs::open(&name, flags, rustix::fs::Mode::empty()).expect("a terminal");
    (outer, inner)
}

/// A home directory as the pages presuppose it, with two files in `Documents`, and the folder
/// `.local/bin` with `tabane`. There, `git clone` and `make install` find that all is there
/// already.
///
/// # Panics
///
/// If files cannot be written.
pub fn home(tabane: &Path) -> TempDir {
    // As deep as /home/ada, since snapshots count directories.
    let home = tempfile::tempdir_in("/tmp").expect("a directory");
    let documents = home.path().join("Documents");
    let programs = home.path().join(".local/bin");
    std::fs::create_dir_all(&documents).expect("a directory");
    std::fs::create_dir_all(&programs).expect("a directory");
    std::fs::write(documents.join("numbers.csv"), numbers()).expect("a file");
    std::fs::write(documents.join("letter.txt"), "Dear Ada,\n").expect("a file");
    std::os::unix::fs::symlink(tabane, programs.join("tabane")).expect("a link");
    for (name, script) in [
        (
            "git",
            "#!/bin/sh\n[ \"$1\" = clone ] && mkdir \"${2##*/}\"\n",
        ),
        ("make", "#!/bin/sh\n[ \"$1\" = install ]\n"),
    ] {
        let path = programs.join(name);
        std::fs::write(&path, script).expect("a file");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).expect("rights");
    }
    home
}

/// Lines with numbers that do not follow from each other (xorshift64): however they are cut into
/// blocks, they compress alike.
fn numbers() -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut number = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % 1_000_000
    };
    (0..187_000).map(|_| format!("{}\n", number())).collect()
}

/// What a page and a run have in common: without columns, times, speeds, IDs and the names of this
/// machine and of `home`.
pub fn normal(text: &str, home: &Path) -> String {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy().into_owned();
    let text = text.replace(&home.display().to_string(), "/home/ada");
    let parent = home.parent().unwrap_or(home).display().to_string();
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let word = |(at, word): (usize, &&str)| match words.get(at + 1..) {
            _ if **word == parent => "/home".to_owned(),
            Some(behind) if varies(word, behind) => "N".to_owned(),
            _ => normal_word(word, &host),
        };
        let words: Vec<String> = words.iter().enumerate().map(word).collect();
        // Where something takes no time, it has no speed.
        let line = words.join(" ").replace(" N MB/s)", "");
        line.replace("N KiB", "N B") + "\n"
    };
    text.lines().map(line).collect()
}

/// Whether a number, with these words behind it, differs from run to run: times, speeds, what
/// depends on where files are cut and who packs them, and lengths of what has inodes and times in
/// it.
fn varies(word: &str, behind: &[&str]) -> bool {
    let Ok(number) = word.trim_start_matches('(').parse::<f64>() else {
        return false;
    };
    let mut units = behind
        .iter()
        .map(|unit| unit.trim_matches([',', ')', '.', ';', ':']));
    match units.next() {
        Some("s" | "ms" | "MB/s" | "GB/s" | "block" | "blocks" | "pack" | "packs") => true,
        Some("new" | "known") => units.next().is_some_and(|unit| unit.starts_with("block")),
        // Other programs use the directory above the home directory, too.
        Some("with") => behind.starts_with(&["with", "other", "attributes"]),
        Some("B") => number >= 100.0,
        Some("KiB") => number < 2.0,
        _ => false,
    }
}

fn normal_word(word: &str, host: &str) -> String {
    let bare = word.trim_matches(['(', ')', ',', ':', ';', '.', '\'', '"']);
    let digits = |text: &str, count: usize| {
        text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let parts = |separator| bare.split(separator).map(str::len).collect::<Vec<_>>();
    let is_id = [8, 16, 64].contains(&bare.len()) && bare.bytes().all(|b| b.is_ascii_hexdigit());
    let is_numbers = |separator| bare.split(separator).all(|part| digits(part, part.len()));
    let name = if is_id {
        "ID"
    } else if parts('-') == [4, 2, 2] && is_numbers('-') {
        "DATE"
    } else if parts(':') == [2, 2, 2] && is_numbers(':') {
        "TIME"
    } else if bare == host {
        "laptop"
    } else if !bare.is_empty() && bare.chars().all(|c| c == '-') {
        "RULE"
    } else {
        return word.to_owned();
    };
    word.replacen(bare, name, 1)
}

/// Whether a run printed what a page says. `…` in the page stands for anything in one line; sizes
/// with a decimal point may differ by 10 %, since repositories cut files at places of their own.
pub fn agree(page: &str, run: &str) -> bool {
    let (page, run): (Vec<_>, Vec<_>) = (page.lines().collect(), run.lines().collect());
    page.len() == run.len()
        && page
            .iter()
            .zip(&run)
            .all(|(page, run)| match page.split_once('…') {
                Some((before, after)) => {
                    run.starts_with(before.trim_end()) && run.ends_with(after.trim_start())
                }
                None => {
                    let (page, run) = (page.split(' '), run.split(' '));
                    page.clone().count() == run.clone().count()
                        && page
                            .zip(run)
                            .all(|(page, run)| page == run || are_near(page, run))
                }
            })
}

fn are_near(page: &str, run: &str) -> bool {
    let number = |word: &str| {
        let word = word.trim_matches(['(', ')', ',', 'x']);
        let number = word.contains('.').then(|| word.parse::<f64>().ok());
        number.flatten()
    };
    match (number(page), number(run)) {
        (Some(page), Some(run)) => (page - run).abs() <= 0.1 * page.abs().max(run.abs()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_their_output_are_told_apart() {
        let block = "$ a \\\n  b\nout\nput\n$ cat > x <<'END'\n$ no command\nEND\n$ c\n";
        let step = |line, command: &str, expected: &str| Step {
            line,
            command: command.to_owned(),
            expected: expected.to_owned(),
        };
        let expected = [
            step(0, "a \\\n  b\n", "out\nput\n"),
            step(4, "cat > x <<'END'\n$ no command\nEND\n", ""),
            step(7, "c\n", ""),
        ];
        assert_eq!(steps(block), expected);
    }

    #[test]
    fn what_differs_from_run_to_run_is_left_out() {
        let home = Path::new("/tmp/xyz");
        let page = normal(
            "a1b2c3d4  2026-01-02 03:04:05  /home/ada/f in 0.12 s (8.3 MB/s), as 503.1 KiB",
            home,
        );
        let run = normal(
            "00000000 2027-11-12 13:14:15 /tmp/xyz/f in 12.3 s (80 MB/s), as 503.9 KiB",
            home,
        );
        assert!(agree(&page, &run), "{page}{run}");
        assert!(!agree(&page, &run.replace("503.9", "603.9")));
        assert!(!agree(&page, &run.replace("/f", "/g")));
        assert!(agree("a … c\n", "a b b c\n"));
        assert!(!agree("a … c\n", "a b b d\n"));
    }

    #[test]
    fn a_shell_keeps_its_variables_and_tells_exit_codes() {
        let home = tempfile::tempdir().expect("a directory");
        for columns in [None, Some(80)] {
            let mut shell = Shell::start(home.path(), home.path(), columns);
            assert_eq!(shell.run("export X=1; false").code, 1);
            let ran = shell.run("echo $X; echo error >&2; cat");
            assert_eq!(ran.output.replace('\r', ""), "1\nerror\n");
        }
    }
}
