//! Files of cron.

use tabane_storage::random;

use super::Job;

/// The folder of the system's tables.
pub const SYSTEM: &str = "/etc/cron.d";

/// The file of a job, with its name.
pub fn file(job: &Job) -> (String, String) {
    let [byte] = random::<1>();
    let lines = job.command_lines().map(|words| {
        let words: Vec<String> = words.iter().map(|word| quote(word)).collect();
        words.join(" ")
    });
    // As with systemd: exit code 3 lets the next command start, others do not.
    let commands = lines.collect::<Vec<_>>().join(" || [ $? = 3 ] && ");
    let variables = job.environment_files.iter().map(|file| {
        let file = quote(&file.display().to_string());
        format!("set -a; . {file}; set +a; ")
    });
    let variables: String = variables.collect();
    // A percent sign is the end of a line for cron.
    let line = format!("{variables}{commands}").replace('%', "\\%");
    let text = format!(
        "SHELL=/bin/sh\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n{} root \
         {line}\n",
        job.at.table(byte % 60)
    );
    (format!("tabane-{}", job.name), text)
}

/// A word of a command line for a shell.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "%_-+=./:@,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Name, time and commands of the table `file` with this text.
pub fn read(file: &str, text: &str) -> Option<(String, String, Vec<String>)> {
    let name = file.strip_prefix("tabane-")?;
    let line = text.lines().find(|line| line.contains(" root "))?;
    let (when, commands) = line.split_once(" root ")?;
    let commands = commands.replace("\\%", "%");
    let commands = commands.split(" || [ $? = 3 ] && ").map(str::to_owned);
    Some((name.to_owned(), when.to_owned(), commands.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, quoted) in [
            ("8%", "8%"),
            ("a b", "'a b'"),
            ("it's", "'it'\\''s'"),
            ("", "''"),
        ] {
            assert_eq!(quote(word), quoted);
        }
    }
}
