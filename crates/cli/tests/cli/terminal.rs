//! What a terminal gets to see: colours where they are wanted, tables that fit, and no names that
//! it would obey.

use std::fs;
use std::path::Path;

use tabane_testing::documents::console::Shell;

use crate::bed::{Bed, PASSWORD};

/// What a command prints to a terminal of this width, or to a pipe.
fn printed(bed: &Bed, columns: Option<u16>, command: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_tabane"));
    let mut shell = Shell::start(&bed.path(""), program.parent().expect("a folder"), columns);
    let repository = bed.repository();
    shell.run(&format!(
        "export TABANE_PASSWORD='{PASSWORD}' TABANE_REPOSITORY='{}' TABANE_CACHE_DIR='{}' \
         TABANE_STATE_DIR='{}'",
        repository.display(),
        bed.path("cache").display(),
        bed.path("state").display()
    ));
    shell.run(command).output
}

fn changed_bed() -> Bed {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    fs::write(bed.source().join("\x1b[31mred"), "name").expect("a file");
    bed.backup(&[]).succeeds();
    bed
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let bed = changed_bed();
    let diff = "tabane diff $(tabane list snapshots | head -1) $(tabane list snapshots | tail -1)";
    let added = |text: &str| text.contains("\x1b[32m+    \x1b[0m");
    let removed = |text: &str| text.contains("\x1b[31m-    \x1b[0m");
    let shown = printed(&bed, Some(100), diff);
    assert!(added(&shown) || removed(&shown), "{shown:?}");
    for quiet in ["NO_COLOR=1 ", "TERM=dumb "] {
        let shown = printed(&bed, Some(100), &format!("{quiet}{diff}"));
        assert!(!shown.contains('\x1b'), "{shown:?}");
    }
    let piped = printed(&bed, None, diff);
    assert!(!added(&piped) && !removed(&piped), "{piped:?}");

    let error = "tabane ls latest:/nowhere";
    assert!(printed(&bed, Some(100), error).contains("\x1b[31mtabane:\x1b[0m"));
    assert!(printed(&bed, Some(100), &format!("NO_COLOR=1 {error}")).starts_with("tabane:"));
    let kept = printed(&bed, Some(100), "tabane forget --keep-last 1 --dry-run");
    assert!(kept.contains("\x1b[32mkeep 1 snapshot:\x1b[0m"), "{kept:?}");
    assert!(
        kept.contains("\x1b[31mremove 1 snapshot:\x1b[0m"),
        "{kept:?}"
    );
}

#[test]
fn names_are_shown_and_never_obeyed() {
    let bed = changed_bed();
    let shown = printed(&bed, Some(100), "NO_COLOR=1 tabane ls latest");
    assert!(
        shown.contains("\\x1b[31mred") && !shown.contains('\x1b'),
        "{shown:?}"
    );
    fs::write(bed.source().join("b\u{fc}cher"), "name").expect("a file");
    let backup = "tabane backup --verbose source";
    assert!(printed(&bed, Some(100), backup).contains("b\u{fc}cher"));
    let ascii = printed(&bed, Some(100), "LANG=C tabane ls latest");
    assert!(
        ascii.contains("b\\u{fc}cher") && ascii.is_ascii(),
        "{ascii:?}"
    );
    // A pipe gets the very bytes.
    assert!(printed(&bed, None, "LANG=C tabane ls latest").contains("b\u{fc}cher"));
}

#[test]
fn tables_fit_the_terminal_and_keep_the_end_of_paths() {
    let bed = Bed::with_repository();
    let deep = bed.source().join("a-long-name".repeat(9)).join("the-end");
    fs::create_dir_all(&deep).expect("directories");
    bed.run(["backup".as_ref(), deep.as_os_str()]).succeeds();
    let shown = printed(&bed, Some(90), "tabane snapshots");
    let longest = shown
        .lines()
        .map(|line| line.trim_end().chars().count())
        .max();
    assert!(longest <= Some(90), "{shown}");
    assert!(shown.contains("the-end"), "{shown}");
    assert!(printed(&bed, None, "tabane snapshots").contains(&deep.display().to_string()));
    // As narrow as can be: the last column keeps some of its end.
    assert!(printed(&bed, Some(40), "tabane snapshots").contains("the-end"));
}
