//! Draws README's pictures: `cargo run -p tabane-testing --example figures -- TABANE`, where TABANE
//! is the program, records README's tour, draws the bars of `docs/results.md` and takes pictures of
//! the page.

use std::path::{Path, PathBuf};

use tabane_testing::documents::chart;
use tabane_testing::documents::console::{self, Shell};
use tabane_testing::documents::pictures;
use tabane_testing::documents::recording::{COLUMNS, Recording};
use tabane_testing::documents::{code_blocks, read, root};

/// The heading of README whose blocks are recorded, but for the first, which prepares.
const SECTION: &str = "A lost file, restored";

fn main() {
    let tabane = std::env::args_os().nth(1).map(PathBuf::from);
    let tabane = tabane.expect("usage: figures PROGRAM");
    let tabane = tabane.canonicalize().expect("the program");
    let figures = root().join("docs/figures");
    let tour = tour(&tabane);
    std::fs::write(figures.join("tour.svg"), tour).expect("a file");
    std::fs::write(figures.join("peers.svg"), chart::peers()).expect("a file");
    println!("written: docs/figures/tour.svg, docs/figures/peers.svg");
    for picture in pictures::draw(&tabane, &figures) {
        println!("written: docs/figures/{picture}");
    }
}

fn tour(tabane: &Path) -> String {
    let home = console::home(tabane);
    let programs = home.path().join(".local/bin");
    let mut shell = Shell::start(home.path(), &programs, Some(COLUMNS));
    let mut recording = Recording::default();
    let page = read(Path::new("README.md"));
    let blocks = code_blocks(&page).into_iter();
    for (number, block) in blocks.filter(|block| block.section == SECTION).enumerate() {
        for step in console::steps(&block.text) {
            let ran = shell.run(&step.command);
            assert_eq!(ran.code, 0, "{}{}", step.command, ran.output);
            let output = ran
                .output
                .replace(&home.path().display().to_string(), "/home/ada");
            if number > 0 {
                recording.step(&step.command, &output, ran.took);
            }
        }
    }
    let done = shell.run("cat ~/Documents/letter.txt");
    recording.step("cat ~/Documents/letter.txt", &done.output, done.took);
    recording.svg("tabane: a lost file is found in a snapshot and restored")
}
