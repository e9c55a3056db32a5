//! Every `tabane` command of the pages is one that the program takes.

use std::path::Path;
use std::process::Command;

use tabane_testing::documents::{code_blocks, files, read, without_code_blocks};

#[test]
fn every_command_of_the_pages_parses() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for page in files("md") {
        // What is no longer so may stand in the history.
        if [Path::new("CHANGELOG.md"), Path::new("docs/notebook.md")].contains(&page.as_path()) {
            continue;
        }
        let text = read(&page);
        let mut commands = Vec::new();
        for block in code_blocks(&text) {
            if ["sh", "console"].contains(&block.language.as_str()) {
                commands.extend(of_script(&block.text, block.language == "console"));
            }
        }
        let prose = without_code_blocks(&text).replace('\n', " ");
        let spans = prose.split('`').skip(1).step_by(2);
        commands.extend(
            spans
                .filter(|span| span.starts_with("tabane "))
                .flat_map(of_line),
        );
        for words in commands {
            count += 1;
            if !parses(&words) {
                wrong.push(format!("{}: tabane {}", page.display(), words.join(" ")));
            }
        }
    }
    assert!(count > 100, "only {count} commands were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether the program knows the command and its options: `--help` behind them is only understood
/// if all before it is.
fn parses(words: &[String]) -> bool {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tabane"));
    command.args(words).arg("--help").env_clear();
    let output = command.output().expect("the command can be started");
    output.status.success()
}

/// The commands of a script; in a console, of the lines behind a prompt.
fn of_script(text: &str, is_console: bool) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    for line in text.replace("\\\n", " ").lines() {
        match (is_console, line.strip_prefix("$ ")) {
            (true, Some(line)) => commands.extend(of_line(line)),
            (false, _) => commands.extend(of_line(line)),
            _ => {}
        }
    }
    commands
}

/// The arguments of each `tabane` in a line of shell.
fn of_line(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let (mut word, mut quote, mut is_word) = (String::new(), None, false);
    let ended = |word: &mut String, is_word: &mut bool, commands: &mut Vec<Vec<String>>| {
        if std::mem::take(is_word) {
            let word = std::mem::take(word);
            commands.last_mut().expect("one is open").push(word);
        }
    };
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => (quote, is_word) = (Some(c), true),
            (None, '#') if !is_word => break,
            (None, ' ') => ended(&mut word, &mut is_word, &mut commands),
            (None, '|' | '&' | ';' | '(' | ')') => {
                ended(&mut word, &mut is_word, &mut commands);
                commands.push(Vec::new());
            }
            (None, c) => {
                word.push(c);
                is_word = true;
            }
        }
    }
    ended(&mut word, &mut is_word, &mut commands);
    commands.into_iter().filter_map(of_words).collect()
}

/// The arguments, if the words are a command of ours; without assignments before and redirections
/// behind it, and without what stands for anything.
fn of_words(words: Vec<String>) -> Option<Vec<String>> {
    let mut words = words.into_iter();
    let name = words.find(|word| !word.contains('='))?;
    if name != "tabane" {
        return None;
    }
    let is_redirection = |word: &String| word.starts_with(['>', '<']) || word.starts_with("2>");
    let words = words.take_while(|word| !is_redirection(word));
    // Behind `--` is the command line of another program.
    let words = words.take_while(|word| word != "--");
    let words: Vec<String> = words.filter(|word| !word.contains(['…', '$'])).collect();
    let is_named = words
        .first()
        .is_some_and(|word| word != "COMMAND" && word != "help");
    is_named.then_some(words)
}
