//! What a reader of the source tree can rely on: lengths of lines, words, links.

use std::path::{Path, PathBuf};

use tabane_testing::documents::{chart, files, links, read, without_code_blocks};

/// Characters of a line at most.
const COLUMNS: usize = 100;

/// Fails with all that is wrong.
fn expect_none(wrong: &[String]) {
    assert!(
        wrong.is_empty(),
        "{} places:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Lines of Rust that are `wrong`.
fn lines_of_rust(wrong: impl Fn(&Path, &str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for path in files("rs") {
        for (number, line) in (1..).zip(read(&path).lines()) {
            if wrong(&path, line) {
                found.push(format!("{}:{number}: {line}", path.display()));
            }
        }
    }
    found
}

#[test]
fn lines_of_rust_end_at_100_columns() {
    // A digest, or what else nobody breaks.
    let is_one_word = |line: &str| !line.trim().contains(' ');
    expect_none(&lines_of_rust(|_, line| {
        line.chars().count() > COLUMNS && !is_one_word(line)
    }));
}

#[test]
fn lines_of_markdown_end_at_100_columns() {
    let mut wrong = Vec::new();
    for path in files("md") {
        // What programs print is as long as it is; the tests of documents compare it.
        let text = without_code_blocks(&read(&path));
        for (number, line) in (1..).zip(text.lines()) {
            let is_table = line.trim_start().starts_with('|');
            let is_link = line.contains("](") || line.contains("://");
            if line.chars().count() > COLUMNS && !is_table && !is_link {
                wrong.push(format!("{}:{number}: {line}", path.display()));
            }
        }
    }
    expect_none(&wrong);
}

#[test]
fn comments_and_constants_say_what_they_are_about() {
    const COMMENTS: [&str; 4] = ["/// Does it.", "/// It.", "/// These.", "/// That."];
    const NAMES: [&str; 6] = ["PATIENCE", "LOOK", "FULL", "TURNS", "QUIET", "AGE"];
    expect_none(&lines_of_rust(|_, line| {
        let line = line.trim_start();
        let is_bare = |name: &&str| line.contains(&format!("const {name}:"));
        COMMENTS.contains(&line) || NAMES.iter().any(is_bare)
    }));
}

#[test]
fn links_of_pages_lead_somewhere() {
    let dead = |path: &PathBuf| {
        let targets = links::dead(path).into_iter();
        let targets = targets.map(|target| format!("{}: {target}", path.display()));
        targets.collect::<Vec<_>>()
    };
    expect_none(&files("md").iter().flat_map(dead).collect::<Vec<_>>());
}

#[test]
fn the_bars_of_readme_are_those_of_the_results() {
    let drawn = read(Path::new("docs/figures/peers.svg"));
    assert!(
        drawn == chart::peers(),
        "the page of results has other figures: run `make figures`"
    );
}
