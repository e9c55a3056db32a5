//! Remote writes by libfabric alone: a small C program, compiled when it is wanted.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Compiled, compile};

const SOURCE: &str = include_str!("../../peers/rma_bw.c");

/// The program, compiled.
pub struct RmaBw(Compiled);

impl RmaBw {
    /// Compiles it.
    pub fn new() -> Result<Self> {
        Ok(Self(compile("cc", "rma_bw.c", SOURCE, &["-lfabric"])?))
    }

    /// Bytes a second, in writes of this length into so many bytes.
    pub fn rate(&self, provider: &str, len: usize, area: usize, time: Duration) -> Result<f64> {
        let numbers = [len, area, time.as_millis() as usize].map(|number| number.to_string());
        let output = Command::new(&self.0.program)
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
