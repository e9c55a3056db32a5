//! Libraries say what failed and why. Which command or option helps is up to the command line.

use std::fs;
use std::path::{Path, PathBuf};

const LIBRARIES: [&str; 10] = [
    "storage", "striped", "index", "store", "node", "server", "copy", "sum", "engine", "mount",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Whether a line of code has a command of ours, as in `tabane heal`, or an option, as in `--repo`.
fn names_a_command(line: &str) -> bool {
    let code = line.trim_start();
    // A client starts this over SSH: it is a part of the protocol.
    if code.starts_with("//") || code.starts_with("pub const SERVE_COMMAND:") {
        return false;
    }
    let is_word = |rest: &str| rest.starts_with(|c: char| c.is_ascii_lowercase());
    let follows = |start: &str| {
        code.match_indices(start)
            .any(|(at, _)| is_word(&code[at + start.len()..]))
    };
    follows("tabane ") || follows("--")
}

#[test]
fn no_library_names_a_command_or_an_option() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut named = Vec::new();
    for library in LIBRARIES {
        let mut files = Vec::new();
        sources(&crates.join(library).join("src"), &mut files);
        assert!(!files.is_empty(), "{library}");
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for (number, line) in (1..).zip(text.lines()) {
                if names_a_command(line) {
                    named.push(format!("{}:{number}: {}", file.display(), line.trim()));
                }
            }
        }
    }
    assert!(named.is_empty(), "{}", named.join("\n"));
    for line in ["\"run `tabane heal`\"", "\"give --repo\""] {
        assert!(names_a_command(line), "{line}");
    }
    assert!(!names_a_command("/// What `tabane heal` does."));
}
