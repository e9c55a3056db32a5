//! `tabane openssl`

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, Subcommand};
use serde_json::json;

use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::output::{Output, print_json};

/// Let programs that use OpenSSL encrypt and hash with Tabane's kernels
#[derive(Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  tabane openssl install
  tabane openssl conf > ~/.config/tabane-openssl.cnf
  OPENSSL_CONF=~/.config/tabane-openssl.cnf curl https://example.org/
  tabane openssl check -- curl https://example.org/")]
pub struct Openssl {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Copy the provider to where OpenSSL looks for it
    Install(Install),
    /// Print a configuration with which programs use the provider
    Conf(Conf),
    /// Run a program with the provider, and show what it used of it
    Check(Check),
}

#[derive(Args)]
#[command(after_help = "\
The provider is the file tabane.so. This puts it into the folder that the openssl command names as \
its own for modules, or into another one. Installing it changes no program: see tabane openssl conf.

Examples:
  tabane openssl install
  tabane openssl install --dir ~/.local/lib/ossl-modules")]
struct Install {
    /// Copy it into this folder
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

#[derive(Args)]
#[command(after_help = "\
OpenSSL reads its configuration from the file that OPENSSL_CONF names. This one replaces the \
system's file; to keep what is there, put its lines into that file instead. The default provider \
does what Tabane does not offer. Node.js reads the same file, under the name nodejs_conf, which is \
in it too.

Examples:
  tabane openssl conf > tabane-openssl.cnf
  OPENSSL_CONF=$PWD/tabane-openssl.cnf python3 script.py")]
struct Conf {
    /// The provider, wherever it is
    #[arg(long, value_name = "FILE")]
    module: Option<PathBuf>,
}

#[derive(Args)]
#[command(after_help = "\
Runs the program with a configuration as of tabane openssl conf, and then says which algorithms it \
took from the provider. If it took none, the exit code is 1. Without a program, the openssl \
command encrypts a few bytes.

Examples:
  tabane openssl check
  tabane openssl check -- python3 -c 'import hashlib; hashlib.sha256(b\"\")'")]
struct Check {
    /// The provider, wherever it is
    #[arg(long, value_name = "FILE")]
    module: Option<PathBuf>,
    /// The program, and its arguments
    #[arg(value_name = "PROGRAM", last = true)]
    program: Vec<OsString>,
}

impl Openssl {
    /// Installs the provider, prints a configuration for it, or runs a program with it.
    pub fn run(self, global: &Global) -> Result<Exit> {
        match self.action {
            Action::Install(install) => install.run(global),
            Action::Conf(conf) => conf.run(global),
            Action::Check(check) => check.run(global),
        }
    }
}

impl Install {
    fn run(self, global: &Global) -> Result<Exit> {
        let from = built()?;
        let named = self.dir.is_some();
        let dir = match self.dir {
            Some(dir) => std::path::absolute(dir).map_err(|error| other(&error.to_string()))?,
            None => system_modules().ok_or_else(|| {
                other("the openssl command does not say where its modules are: name a folder with \
                --dir")
            })?,
        };
        let to = dir.join("tabane.so");
        let new = dir.join("tabane.so.new");
        let copied = fs::create_dir_all(&dir)
            .and_then(|()| fs::copy(&from, &new))
            .and_then(|_| fs::rename(&new, &to));
        copied.map_err(|error| {
            other(&format!(
                "{} cannot be written ({}): name another folder with --dir, or be root",
                format::path(&to),
                format::reason(&error)
            ))
        })?;
        if global.json {
            print_json(&json!({ "installed": to.to_string_lossy() }))?;
            return Ok(Exit::Success);
        }
        let mut output = Output::new();
        output.line(format!("installed {}", format::path(&to)))?;
        let module = if named {
            format!(" --module {}", format::path(&to))
        } else {
            String::new()
        };
        output.line(format!(
            "Programs use it with a configuration: tabane openssl conf{module}"
        ))?;
        output.finish()?;
        Ok(Exit::Success)
    }
}

impl Conf {
    fn run(self, global: &Global) -> Result<Exit> {
        let module = module(self.module)?;
        let text = configuration(&module, None);
        if global.json {
            print_json(&json!({ "module": module.to_string_lossy(), "configuration": text }))?;
            return Ok(Exit::Success);
        }
        let mut output = Output::new();
        output.line(text.trim_end())?;
        output.finish()?;
        Ok(Exit::Success)
    }
}

impl Check {
    fn run(self, global: &Global) -> Result<Exit> {
        let module = module(self.module)?;
        let dir = std::env::temp_dir().join(format!("tabane-openssl-{}", std::process::id()));
        let made = fs::DirBuilder::new().mode(0o700).create(&dir);
        made.map_err(|error| {
            other(&format!(
                "{}: {}",
                format::path(&dir),
                format::reason(&error)
            ))
        })?;
        let checked = check(&module, &dir, &self.program);
        // Removes only this command's own files.
        let _ = fs::remove_dir_all(&dir);
        let (code, used) = checked?;

        let program = self
            .program
            .first()
            .map_or("openssl".into(), |program| program.to_string_lossy());
        if global.json {
            print_json(&json!({
                "program": program,
                "program_exit_code": code,
                "module": module.to_string_lossy(),
                "algorithms": used,
            }))?;
        } else {
            let mut output = Output::new();
            for name in &used {
                output.line(format!("{program} used {name} of Tabane"))?;
            }
            output.finish()?;
        }
        if used.is_empty() {
            return Err(other(&format!(
                "{program} used nothing of {} (exit code {})",
                format::path(&module),
                code.map_or("none".into(), |code| code.to_string())
            )));
        }
        Ok(Exit::Success)
    }
}

/// Runs the program, with `dir` as scratch space. Returns its exit code, and the algorithms that it
/// used.
fn check(module: &Path, dir: &Path, program: &[OsString]) -> Result<(Option<i32>, Vec<String>)> {
    let (conf, report) = (dir.join("openssl.cnf"), dir.join("report"));
    let write = |file: &Path, text: &str| {
        fs::write(file, text).map_err(|error| {
            other(&format!(
                "{}: {}",
                format::path(file),
                format::reason(&error)
            ))
        })
    };
    write(&report, "")?;
    write(&conf, &configuration(module, Some(&report)))?;
    let mut command = if let [program, args @ ..] = program {
        let mut command = Command::new(program);
        command.args(args);
        command
    } else {
        let mut command = Command::new("openssl");
        let key = "00112233445566778899aabbccddeeff";
        command
            .args([
                "enc",
                "-aes-128-ctr",
                "-K",
                key,
                "-iv",
                key,
                "-in",
                "/dev/null",
                "-out",
            ])
            .arg(dir.join("out"));
        command
    };
    let status = command.env("OPENSSL_CONF", &conf).status();
    let status = status.map_err(|error| {
        let program = command.get_program().to_string_lossy();
        other(&format!(
            "{program} cannot be run: {}",
            format::reason(&error)
        ))
    })?;
    let mut used: Vec<String> = fs::read_to_string(&report)
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect();
    used.sort();
    used.dedup();
    Ok((status.code(), used))
}

/// The configuration for `OPENSSL_CONF`. The provider writes the algorithms used to `report`.
fn configuration(module: &Path, report: Option<&Path>) -> String {
    let report = report.map_or(String::new(), |file| {
        format!("report = {}\n", file.display())
    });
    format!(
        "\
# Programs that use OpenSSL 3 take from Tabane what it offers, and the rest from the default \
provider.
openssl_conf = openssl_init
# Node.js reads this name instead.
nodejs_conf = openssl_init

[openssl_init]
providers = provider_sect
alg_section = algorithm_sect

[provider_sect]
tabane = tabane_sect
default = default_sect

[tabane_sect]
module = {}
activate = 1
{report}
[default_sect]
activate = 1

[algorithm_sect]
default_properties = ?provider=tabane
",
        module.display()
    )
}

/// The absolute path of the provider that was named, else of the one that is installed, else of the
/// one beside this command.
fn module(named: Option<PathBuf>) -> Result<PathBuf> {
    let module = match named {
        Some(module) => module,
        None => match system_modules().map(|dir| dir.join("tabane.so")) {
            Some(installed) if installed.exists() => installed,
            _ => built()?,
        },
    };
    let failed = |error: std::io::Error| {
        other(&format!(
            "{}: {}",
            format::path(&module),
            format::reason(&error)
        ))
    };
    let bytes = fs::read(&module).map_err(failed)?;
    // The function with which every provider begins.
    let name = b"OSSL_provider_init";
    if !bytes.windows(name.len()).any(|window| window == name) {
        return Err(other(&format!(
            "{}: this is no OpenSSL provider: name the file tabane.so with --module",
            format::path(&module)
        )));
    }
    fs::canonicalize(&module).map_err(failed)
}

/// OpenSSL's folder of modules, if the command reports it.
fn system_modules() -> Option<PathBuf> {
    let output = Command::new("openssl")
        .args(["version", "-m"])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let dir = text
        .trim()
        .strip_prefix("MODULESDIR: \"")?
        .strip_suffix('"')?;
    Some(dir.into())
}

/// The provider that came with this command: where cargo puts libraries, beside it, or in `lib`
/// where `make install` does.
fn built() -> Result<PathBuf> {
    let command = std::env::current_exe().and_then(fs::canonicalize);
    let command = command.map_err(|error| other(&error.to_string()))?;
    let dir = command.parent().unwrap_or(Path::new("/"));
    let places = [
        dir.join("deps/libtabane_provider.so"),
        dir.join("tabane.so"),
        dir.join("../lib/tabane/tabane.so"),
    ];
    let found = places.iter().find(|place| place.exists());
    found.cloned().ok_or_else(|| {
        other(&format!(
            "the provider, tabane.so, is not beside {} nor where make install puts it: put it \
             there (the build calls it libtabane_provider.so)",
            format::path(&command)
        ))
    })
}

fn other(text: &str) -> Failure {
    Failure::Other(text.to_owned())
}
