//! `tabane sum`

mod check;
mod guide;
mod key;
mod list;
mod report;

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::builder::TypedValueParser;
use clap::{ArgAction, ArgMatches, Args, FromArgMatches};
use tabane_sum::Algorithm;

use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::progress::Progress;

use check::Check;
use list::List;
use report::Report;

/// Print or check checksums of files, many at a time
#[derive(Args)]
#[command(infer_long_args = true, args_override_self = true)]
// As `md5sum (GNU coreutils) 9.1`, for scripts that ask the program in its place.
#[command(version, display_name = "sum (tabane)")]
// These take the place of the global options: -r means something else here, and --quiet is the
// opposite of others.
#[command(arg = clap::Arg::new("repo").long("repo").hide(true)
    .value_parser(clap::value_parser!(PathBuf)))]
#[command(arg = clap::Arg::new("quiet").short('q').long("quiet").action(ArgAction::SetTrue)
    .overrides_with_all(["status", "warn"]).help("With --check: don't print OK for each file"))]
#[command(after_help = "\
Takes the place of md5sum, sha1sum, sha224sum, sha256sum, sha384sum and sha512sum of GNU \
coreutils: the same lines, the same options, the same exit codes (0, or 1 if anything was wrong; \
2 for wrong usage, as all of tabane). Files are hashed side by side, in the lanes of all \
processors, and printed in the order in which they were named. Without FILE, or where FILE is -, \
it reads standard input.

The default is sha256: nobody can make two files with the same one, most published checksums are \
of this kind, and it is not the slow part. --list says what each algorithm withstands, and how \
fast it is here.

With a key, nobody who lacks it can make or change a file and its checksum. The file of \
--key-file has the bytes of the key; where keys have a certain length, it may also have them as \
hexadecimal digits (`openssl rand -hex 32`). HMAC takes all bytes as they are, a newline too. The \
checksum of vmac-64 and vmac-128 is a random nonce with the tag behind it: another one each time, \
and --check takes the nonce from the line.

xxh32, xxh64, xxh3 and xxh128 have the lines of xxhsum, which for xxh3 begin with XXH3_. \
cityhash128 needs a file as a whole and takes none above 256 MiB.

With --recursive, files of a directory come sorted as LC_ALL=C sort does it. A link that is named \
is followed; links, pipes, sockets and devices in directories are left out.

With --check, lines of the forms `SUM  NAME`, `SUM *NAME`, `SUM NAME`, `TAG (NAME) = SUM` and \
those of `openssl dgst` are read. Without --algorithm, tagged lines may be of any algorithm, \
untagged ones are of sha256.

--etag SIZE prints what S3 gives as the ETag of an upload in parts of SIZE: the MD5 of the parts' \
MD5s, and their number. A file shorter than SIZE has the MD5 of its bytes, since it is uploaded \
whole, as the AWS command line does it when its multipart_threshold is SIZE; one of exactly SIZE \
is uploaded in one part, and has -1. With --check, the form of each line says how the file was \
uploaded. S3 takes no more than 10,000 parts: tools make larger ones of larger files. Objects \
encrypted with SSE-KMS or SSE-C have other ETags. A SIZE counts in units of 1024, however it is \
written: 8M, 8MB and 8MiB are the same, and what the AWS command line means by 8MB.

With --json, each line is an object. Its message_type is `sum` (path, algorithm, sum), `check` \
(path, result: OK, FAILED, FAILED open or read, or missing), `summary` at the end of each check \
file (path, matches, mismatches, missing, unreadable, misformatted, success), `error` (path, \
what), or with --list `algorithm` (name, digest_bytes, takes_key, key_bytes: null if there is \
none or any will do, withstands: accidents, substitution, collisions or forgery, bytes_per_s). A \
path that is no UTF-8 comes with path_bytes_hex.

Examples:
  tabane sum *.iso > SHA256SUMS
  tabane sum --check SHA256SUMS
  tabane sum -a md5 -r photos > photos.md5
  find . -name '*.rs' -print0 | tabane sum --files0-from -
  tabane sum -a vmac-128 --key-file ~/.sum-key -r photos > photos.vmac
  tabane sum --etag 8MiB backup.tar
  tabane sum --list")]
pub struct Sum {
    // First, since what comes after takes the options out of what clap has matched.
    #[command(flatten)]
    order: Order,
    /// What to read; - is standard input
    #[arg(value_name = "FILE")]
    #[arg(value_parser = clap::builder::OsStringValueParser::new().map(PathBuf::from))]
    files: Vec<PathBuf>,
    /// Algorithm, sha256 unless given: md5, sha1, sha512, blake3, xxh128, hmac-sha256, vmac-128, …;
    /// --list has all
    #[arg(short, long, value_name = "NAME", value_parser = parse_algorithm)]
    #[arg(conflicts_with = "etag")]
    algorithm: Option<Algorithm>,
    /// List the algorithms: what each withstands, and how fast one core of this machine does many
    /// files at once
    #[arg(long)]
    #[arg(conflicts_with_all = [
        "files", "algorithm", "key_file", "check", "recursive", "files0_from", "etag", "binary",
        "text", "tag", "zero",
    ])]
    list: bool,
    /// Read the key of an algorithm that takes one from this file
    #[arg(long, value_name = "FILE", conflicts_with = "etag")]
    key_file: Option<PathBuf>,
    /// Print a * before names; changes nothing else
    #[arg(short, long, overrides_with = "text")]
    binary: bool,
    /// Print a space before names (the default)
    #[arg(short, long, overrides_with = "binary")]
    text: bool,
    /// Read checksums from the FILEs and check them
    #[arg(short, long)]
    check: bool,
    /// Print lines as BSD does: SHA256 (NAME) = SUM
    #[arg(long, conflicts_with = "etag")]
    tag: bool,
    /// End lines with NUL instead of a newline, and escape nothing in names
    #[arg(short, long)]
    zero: bool,
    /// Go down into directories; without FILE, into the current one
    #[arg(short, long)]
    recursive: bool,
    /// Read the names of files from this file, each ended by NUL; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "files")]
    files0_from: Option<PathBuf>,
    /// Print the ETags that S3 gives to uploads in parts of this size, such as 8MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_part_len)]
    etag: Option<NonZeroU64>,
    /// With --check: pass over files that are not there
    #[arg(long)]
    ignore_missing: bool,
    /// With --check: print nothing but errors, the exit code tells
    #[arg(long, overrides_with_all = ["quiet", "warn"])]
    status: bool,
    /// With --check: fail if a line is improperly formatted
    #[arg(long)]
    strict: bool,
    /// With --check: tell of each line that is improperly formatted
    #[arg(short, long, overrides_with_all = ["quiet", "status"])]
    warn: bool,
}

/// In which order options were given.
struct Order {
    text_after_tag: bool,
}

impl FromArgMatches for Order {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let given = |id| {
            let by_user = matches.value_source(id) == Some(clap::parser::ValueSource::CommandLine);
            by_user
                .then(|| matches.indices_of(id)?.next_back())
                .flatten()
        };
        let text_after_tag = given("tag").is_some() && given("text") > given("tag");
        Ok(Self { text_after_tag })
    }

    fn update_from_arg_matches(
        &mut self,
        matches: &ArgMatches,
    ) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Order {
    fn augment_args(command: clap::Command) -> clap::Command {
        command
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        command
    }
}

fn parse_algorithm(name: &str) -> std::result::Result<Algorithm, String> {
    name.parse::<Algorithm>().map_err(|unknown| {
        let meant = unknown
            .similar()
            .map(|algorithm| format!("did you mean {algorithm}? "));
        let names = Algorithm::names().collect::<Vec<_>>().join(", ");
        format!("{}use one of: {names}", meant.unwrap_or_default())
    })
}

fn parse_part_len(text: &str) -> std::result::Result<NonZeroU64, String> {
    NonZeroU64::new(format::parse_bytes(text)?)
        .ok_or_else(|| "a part has at least one byte".to_owned())
}

impl Sum {
    /// Prints checksums, checks them, or lists the algorithms, as the arguments say.
    pub fn run(self, global: &Global) -> Result<Exit> {
        self.reject_nonsense(global)?;
        if self.list {
            guide::print(global.json)?;
            return Ok(Exit::Success);
        }
        global.open_card()?;
        let key = self.key_file.as_deref().map(key::read).transpose()?;
        let mut global = global.clone();
        global.quiet |= self.status;
        let progress = Progress::start_late(&global);
        let mut report = Report::new(&global, &progress);
        let success = if self.check {
            Check::new(&self, key, &global)?.run(&mut report)?
        } else {
            List::new(&self, key.as_ref())?.run(&mut report)?
        };
        progress.stop();
        Ok(if success {
            Exit::Success
        } else {
            Exit::Failure
        })
    }

    /// Refuses what coreutils refuses, in its order, and what makes no sense besides.
    fn reject_nonsense(&self, global: &Global) -> Result<()> {
        let is_check = self.check;
        let only_with_check =
            |option| format!("the --{option} option is meaningful only when verifying checksums");
        let not_with_check = |option| format!("the {option} meaningless when verifying checksums");
        let nonsense = [
            (
                self.order.text_after_tag,
                "--tag does not support --text mode".to_owned(),
            ),
            (
                is_check && self.zero,
                "the --zero option is not supported when verifying checksums".to_owned(),
            ),
            (is_check && self.tag, not_with_check("--tag option is")),
            (
                is_check && (self.binary || self.text),
                not_with_check("--binary and --text options are"),
            ),
            (
                is_check && self.recursive,
                not_with_check("--recursive option is"),
            ),
            (
                is_check && self.files0_from.is_some(),
                not_with_check("--files0-from option is"),
            ),
            (
                !is_check && self.ignore_missing,
                only_with_check("ignore-missing"),
            ),
            (!is_check && self.status, only_with_check("status")),
            (!is_check && self.warn, only_with_check("warn")),
            (!is_check && global.quiet, only_with_check("quiet")),
            (!is_check && self.strict, only_with_check("strict")),
        ];
        match nonsense.into_iter().find(|(given, _)| *given) {
            Some((_, text)) => Err(Failure::Usage(text)),
            None => Ok(()),
        }
    }
}
