//! Remote writes by libfabric alone: a small C program, compiled when it is wanted.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

const SOURCE: &str = include_str!("../../peers/rma_bw.c");

/// The program, compiled.
pub struct RmaBw(TempDir);

impl RmaBw {
    /// Compiles it.
    pub fn new() -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a folder to compile in")?;
        let (source, program) = (folder.path().join("rma_bw.c"), folder.path().join("rma_bw"));
        std::fs::write(&source, SOURCE).context("cannot write the program to compile")?;
        let output = Command::new("cc")
            .args(["-O2", "-o"])
            .args([&program, &source])
            .arg("-lfabric")
            .output()
            .context("cannot start cc")?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            bail!("cc cannot compile rma_bw.c: {text}");
        }
        Ok(Self(folder))
    }

    /// Bytes a second, in writes of this length into so many bytes.
    pub fn rate(&self, provider: &str, len: usize, area: usize, time: Duration) -> Result<f64> {
        let numbers = [len, area, time.as_millis() as usize].map(|number| number.to_string());
        let output = Command::new(self.0.path().join("rma_bw"))
            .arg(provider)
            .args(numbers)
            .output()
            .context("cannot start rma_bw")?;
        let text = String::from_utf8_lossy(&output.stdout);
        text.trim().parse().with_context(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            format!("rma_bw failed: {errors}")
        })
    }
}
