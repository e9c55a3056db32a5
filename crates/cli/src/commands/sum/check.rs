//! Checking checksums.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tabane_sum::{
    Accept, Algorithm, CheckFileError, CheckTask, CheckTasks, KeyFile, KeyRule, Line, Parser,
    Tally, Upload, Verdict, escape_name, sum_all, tag,
};

use super::report::Report;
use super::{Sum, key};
use crate::args::Global;
use crate::exit::Result;
use crate::format::reason;
use crate::output::into_object;

/// A check of files against their sums, and the options of its output.
pub struct Check<'a> {
    args: &'a Sum,
    accept: Accept,
    key: Option<KeyFile>,
    quiet: bool,
    /// Whether a file failed by an algorithm without a key, though a key was given.
    lacks_algorithm: bool,
}

impl<'a> Check<'a> {
    /// A check as the arguments say.
    pub fn new(args: &'a Sum, key: Option<KeyFile>, global: &Global) -> Result<Self> {
        let accept = match (args.etag, args.algorithm) {
            (Some(part_len), _) => Accept::Etags(Upload::new(part_len)),
            (None, Some(algorithm)) => Accept::Only(algorithm),
            (None, None) => Accept::AnyTagged(Algorithm::Sha256),
        };
        if let Accept::Only(algorithm) = accept {
            // Before anything is read, whatever the files have.
            key::function(algorithm, key.as_ref())?;
        }
        Ok(Self {
            args,
            accept,
            key,
            quiet: global.quiet,
            lacks_algorithm: false,
        })
    }

    /// Checks; returns whether all went well.
    pub fn run(mut self, report: &mut Report) -> Result<bool> {
        let files = if self.args.files.is_empty() {
            vec!["-".into()]
        } else {
            self.args.files.clone()
        };
        let has_key = self.key.is_some();
        let tasks = CheckTasks::new(files, Parser::new(self.accept), self.key.take());
        let counted = Arc::clone(&report.progress);
        let mut success = true;
        let mut tally = Tally::default();
        for batch in sum_all(tasks, move |bytes| counted.bytes(bytes)) {
            for done in batch {
                match (done.task, done.outcome) {
                    (CheckTask::Compare { line, .. }, Some(outcome)) => {
                        report.count();
                        let verdict = tally.count(&line, &outcome, self.args.ignore_missing);
                        let is_keyless = line.algorithm.key_rule() == KeyRule::None;
                        self.lacks_algorithm |=
                            verdict == Verdict::Mismatch && has_key && is_keyless;
                        self.tell(&line, verdict, outcome.err(), report)?;
                    }
                    (CheckTask::Compare { .. }, None) => {}
                    (CheckTask::Misformatted { file, line }, _) => {
                        tally.misformatted += 1;
                        if self.args.warn {
                            self.warn(&file, line, report)?;
                        }
                    }
                    (CheckTask::End { file, error, fits }, _) => {
                        let tally = std::mem::take(&mut tally);
                        success &= self.end(&file, error, tally, &fits, report)?;
                        self.lacks_algorithm = false;
                    }
                }
            }
            report.print()?;
        }
        Ok(success)
    }

    /// Says what came of a line.
    fn tell(
        &self,
        line: &Line,
        verdict: Verdict,
        error: Option<io::Error>,
        report: &mut Report,
    ) -> Result<()> {
        let path = Path::new(OsStr::from_bytes(&line.name));
        if let (Verdict::Unreadable, Some(error)) = (verdict, error) {
            report.error(path, &reason(&error))?;
        }
        let (word, shown) = match verdict {
            Verdict::Match => ("OK", !self.quiet),
            Verdict::Mismatch => ("FAILED", !self.args.status),
            Verdict::Unreadable => ("FAILED open or read", !self.args.status),
            Verdict::Missing => ("missing", false),
        };
        if report.json {
            report.object("check", path, into_object(json!({"result": word})));
        } else if shown {
            let lines = &mut report.lines;
            if line.name.contains(&b'\n') {
                lines.push(b'\\');
                escape_name(&line.name, lines);
            } else {
                lines.extend_from_slice(&line.name);
            }
            lines.extend_from_slice(format!(": {word}\n").as_bytes());
        }
        Ok(())
    }

    fn warn(&self, file: &Path, line: u64, report: &mut Report) -> Result<()> {
        let kind = match self.accept {
            Accept::Only(algorithm) => tag(algorithm) + " ",
            Accept::AnyTagged(_) => String::new(),
            Accept::Etags(_) => "ETag ".to_owned(),
        };
        report.error(
            shown(file),
            &format!("{line}: improperly formatted {kind}checksum line"),
        )
    }

    /// Says of which algorithms a check file may be that has no line of the right one.
    fn hint(&self, file: &Path, fits: &[Algorithm], report: &mut Report) -> Result<()> {
        let names: Vec<_> = fits.iter().map(|algorithm| algorithm.name()).collect();
        let cure = match names[..] {
            [] => return Ok(()),
            [name] => format!("use --algorithm {name}"),
            _ => "say which with --algorithm".to_owned(),
        };
        let given = match self.accept {
            Accept::Only(algorithm) => format!(", not {algorithm}"),
            Accept::AnyTagged(_) | Accept::Etags(_) => String::new(),
        };
        let names = alternatives(&names);
        let what = format!("its lines look like those of {names}{given}: {cure}");
        report.error(shown(file), &what)
    }

    /// Says that lines without a tag may be of an algorithm with a key.
    fn hint_at_keyed(&self, file: &Path, report: &mut Report) -> Result<()> {
        let default = Algorithm::Sha256;
        let keyed = |algorithm: &Algorithm| {
            algorithm.key_rule() != KeyRule::None && algorithm.digest_len() == default.digest_len()
        };
        let names: Vec<_> = Algorithm::all()
            .filter(keyed)
            .map(Algorithm::name)
            .collect();
        let what = format!(
            "{default} takes no key: if its lines are of {}, say which with --algorithm",
            alternatives(&names)
        );
        report.error(shown(file), &what)
    }

    /// Says what came of a check file; returns whether it is fine.
    fn end(
        &self,
        file: &Path,
        error: Option<CheckFileError>,
        tally: Tally,
        fits: &[Algorithm],
        report: &mut Report,
    ) -> Result<bool> {
        match error {
            Some(CheckFileError::Open(error)) => {
                report.error(file, &reason(&error))?;
                return Ok(false);
            }
            Some(CheckFileError::Read(_)) => {
                report.error(shown(file), "read error")?;
                return Ok(false);
            }
            Some(CheckFileError::Key(line, error)) => {
                report.error(shown(file), &format!("{line}: {}", key::explain(error)))?;
                return Ok(false);
            }
            None => {}
        }
        let success = tally.is_success(self.args.strict);
        if report.json {
            let rest = json!({
                "matches": tally.matches,
                "mismatches": tally.mismatches,
                "missing": tally.missing,
                "unreadable": tally.unreadable,
                "misformatted": tally.misformatted,
                "success": success,
            });
            report.object("summary", file, into_object(rest));
            return Ok(success);
        }
        if tally.lines() == 0 {
            report.error(shown(file), "no properly formatted checksum lines found")?;
            self.hint(file, fits, report)?;
            return Ok(success);
        }
        if self.args.status {
            return Ok(success);
        }
        for (count, one, many) in [
            (
                tally.misformatted,
                "line is improperly formatted",
                "lines are improperly formatted",
            ),
            (
                tally.unreadable,
                "listed file could not be read",
                "listed files could not be read",
            ),
            (
                tally.mismatches,
                "computed checksum did NOT match",
                "computed checksums did NOT match",
            ),
        ] {
            match count {
                0 => {}
                1 => report.message(&format!("WARNING: 1 {one}"))?,
                _ => report.message(&format!("WARNING: {count} {many}"))?,
            }
        }
        if self.lacks_algorithm {
            self.hint_at_keyed(file, report)?;
        }
        if self.args.ignore_missing && tally.matches == 0 {
            report.error(shown(file), "no file was verified")?;
        }
        Ok(success)
    }
}

/// Joins words with commas and an `or`.
fn alternatives(words: &[&str]) -> String {
    match words {
        [words @ .., last] if !words.is_empty() => format!("{} or {last}", words.join(", ")),
        words => words.concat(),
    }
}

/// The name of a check file in messages.
fn shown(file: &Path) -> &Path {
    if file.as_os_str() == "-" {
        Path::new("standard input")
    } else {
        file
    }
}
