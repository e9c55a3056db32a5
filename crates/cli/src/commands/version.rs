//! `tabane version`

use clap::Args;
use serde_json::json;
use tabane_lanes::Backend;

use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::output::{Output, print_json};

/// Show the version, and what this processor offers
#[derive(Args)]
pub struct Version {}

impl Version {
    /// Runs `tabane version`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let version = env!("CARGO_PKG_VERSION");
        let (system, machine) = (std::env::consts::OS, std::env::consts::ARCH);
        let backends: Vec<&str> = Backend::available().map(Backend::name).collect();
        let forced = Backend::forced().map_err(|error| Failure::Other(error.to_string()))?;
        if global.json {
            print_json(&json!({
                "version": version,
                "system": system,
                "machine": machine,
                "simd_backends": backends,
                "simd_forced": forced.map(Backend::name),
            }))?;
            return Ok(Exit::Success);
        }
        let mut output = Output::new();
        output.line(format!("tabane {version} ({machine} {system})"))?;
        let forced = forced.map(|backend| format!("; TABANE_SIMD forces {backend}"));
        output.line(format!(
            "hashing: {}{}",
            backends.join(" "),
            forced.unwrap_or_default()
        ))?;
        output.finish()?;
        Ok(Exit::Success)
    }
}
