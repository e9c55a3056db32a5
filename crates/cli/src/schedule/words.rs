//! The words of a command.

/// The words of a command, as a shell makes them; an error says why a timer cannot start it.
pub fn split(command: &str) -> Result<Vec<String>, String> {
    if let Some(what) = needs_a_shell(command) {
        return Err(format!(
            "{what} is for a shell, and a timer has none: put the command into a script, and start \
             that with cron or a timer of your own; or write {what} between single quotes if it \
             stands for itself"
        ));
    }
    shlex::split(command).ok_or_else(|| "a quote has no end".to_owned())
}

/// What only a shell understands, outside single quotes and without a backslash before it.
fn needs_a_shell(command: &str) -> Option<char> {
    let (mut is_single, mut is_double) = (false, false);
    let mut before = ' ';
    let mut characters = command.chars();
    while let Some(character) = characters.next() {
        match character {
            '\'' if !is_double => is_single = !is_single,
            _ if is_single => {}
            '\\' => _ = characters.next(),
            '"' => is_double = !is_double,
            '$' | '`' => return Some(character),
            ';' | '&' | '|' | '<' | '>' if !is_double => return Some(character),
            '*' | '?' | '[' | '{' if !is_double => return Some(character),
            '~' | '#' if !is_double && before.is_whitespace() => return Some(character),
            _ => {}
        }
        before = character;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        for (command, words) in [
            ("forget --prune", &["forget", "--prune"][..]),
            (
                "backup '/a b' \"c d\" e\\ f",
                &["backup", "/a b", "c d", "e f"],
            ),
            (
                "backup --exclude '$RECYCLE.BIN' a~",
                &["backup", "--exclude", "$RECYCLE.BIN", "a~"],
            ),
            ("backup \"it's; so\"", &["backup", "it's; so"]),
            ("backup /a#b '*.o' \"#?\"", &["backup", "/a#b", "*.o", "#?"]),
            ("backup \\$x ''", &["backup", "$x", ""]),
        ] {
            assert_eq!(split(command).expect(command), words);
        }
    }

    #[test]
    fn what_needs_a_shell_is_refused() {
        for (command, why) in [
            (
                "check --read-data-subset $(date +%m)/12",
                "$ is for a shell",
            ),
            ("backup \"$HOME\"", "$ is for a shell"),
            ("backup `pwd`", "` is for a shell"),
            ("backup ~/x", "~ is for a shell"),
            ("backup #x", "# is for a shell"),
            ("backup /tmp/*.txt", "* is for a shell"),
            ("backup /tmp/{a,b}", "{ is for a shell"),
            ("backup && forget", "& is for a shell"),
            ("backup 2>/dev/null", "> is for a shell"),
            ("backup 'x", "a quote has no end"),
        ] {
            let said = split(command).expect_err(command);
            assert!(said.contains(why), "{command}: {said}");
        }
    }
}
