//! Other programs and libraries that do what the lanes do, each run as a process of its own.

pub mod ipsec_mb;
pub mod macs;
pub mod openssl;
#[cfg(feature = "libfabric")]
pub mod rma_bw;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// A program that is compiled where it is wanted.
#[derive(Debug)]
struct Compiled {
    program: PathBuf,
    _folder: TempDir,
}

/// Compiles the text of the file `name`; `arguments` come after it.
fn compile(compiler: &str, name: &str, text: &str, arguments: &[&str]) -> Result<Compiled> {
    let folder = tempfile::tempdir().context("cannot make a folder to compile in")?;
    let (source, program) = (folder.path().join(name), folder.path().join("program"));
    std::fs::write(&source, text).context("cannot write the program to compile")?;
    let output = Command::new(compiler)
        .args(["-O2", "-o"])
        .args([&program, &source])
        .args(arguments)
        .output()
        .with_context(|| format!("cannot run {compiler}"))?;
    ensure!(
        output.status.success(),
        "cannot compile {name}:\n{}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(Compiled {
        program,
        _folder: folder,
    })
}
