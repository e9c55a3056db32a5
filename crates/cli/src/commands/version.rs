//! `tabane version`

use clap::Args;
use serde_json::json;
use tabane_lanes::Backend;

use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::output::{Output, print_json};

/// The commit from which `make dist` built this. A plain `cargo build` does not ask git.
const COMMIT: Option<&str> = option_env!("TABANE_COMMIT");

/// Parts of the command that a build can leave out or add.
const FEATURES: &[(&str, bool)] = &[
    ("mount", cfg!(feature = "mount")),
    ("libfabric", cfg!(feature = "libfabric")),
];

/// Show the version, how it was built, and what this processor offers
#[derive(Args)]
pub struct Version {}

impl Version {
    /// Runs `tabane version`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let version = env!("CARGO_PKG_VERSION");
        let (system, machine) = (std::env::consts::OS, std::env::consts::ARCH);
        let backends: Vec<&str> = Backend::available().map(Backend::name).collect();
        let forced = Backend::forced().map_err(|error| Failure::Other(error.to_string()))?;
        let (rustc, target) = (env!("BUILD_RUSTC"), env!("BUILD_TARGET"));
        let profile = env!("BUILD_PROFILE");
        let features = FEATURES.iter().filter(|(_, is_on)| *is_on);
        let features: Vec<&str> = features.map(|&(name, _)| name).collect();
        if global.json {
            print_json(&json!({
                "version": version,
                "commit": COMMIT,
                "rustc": rustc,
                "target": target,
                "profile": profile,
                "features": features,
                "system": system,
                "machine": machine,
                "simd_backends": backends,
                "simd_forced": forced.map(Backend::name),
            }))?;
            return Ok(Exit::Success);
        }
        let mut output = Output::new();
        output.line(format!("tabane {version} ({machine} {system})"))?;
        let commit = COMMIT.map(|commit| format!(" from commit {commit}"));
        output.line(format!(
            "built{} by rustc {rustc} for {target} ({profile})",
            commit.unwrap_or_default()
        ))?;
        output.line(format!("features: {}", features.join(" ")))?;
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
