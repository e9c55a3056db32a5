//! Running one child process and measuring it.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use wait4::Wait4;

/// What one run of a program took.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// From before the start of the process until it was reaped.
    pub wall: Duration,
    /// User and system time of the process and of the children it waited for.
    pub cpu: Duration,
    /// The greatest resident set of the process. The kernel starts this at the resident set of the
    /// process that spawned it, so the benchmark keeps its own small.
    pub peak_rss_bytes: u64,
    /// CPU time that everything else on the machine took meanwhile. Much of it means that the wall
    /// time is not to be trusted.
    pub others_cpu: Duration,
    /// The code it exited with.
    pub exit_code: i32,
}

/// Runs `command` to its end, its output going to `log`. Exit codes other than those in `accepted`
/// are an error that quotes the end of the output.
pub fn measure(mut command: Command, log: &Path, accepted: &[i32]) -> Result<Sample> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output =
        File::create(log).with_context(|| format!("cannot write the log {}", log.display()))?;
    command
        .stdin(Stdio::null())
        .stdout(output.try_clone().context("cannot share the log")?)
        .stderr(output);
    let busy_before = machine_busy();
    let start = Instant::now();
    let child = command
        .spawn()
        .with_context(|| format!("cannot run {program}"))?;
    let used = child
        .wait4()
        .with_context(|| format!("cannot wait for {program}"))?;
    let wall = start.elapsed();
    let busy = machine_busy().saturating_sub(busy_before);
    let cpu = used.rusage.utime + used.rusage.stime;
    let code = used.status.code();
    match code {
        Some(code) if accepted.contains(&code) => Ok(Sample {
            wall,
            cpu,
            others_cpu: busy.saturating_sub(cpu),
            peak_rss_bytes: used.rusage.maxrss,
            exit_code: code,
        }),
        _ => {
            let arguments: Vec<_> = command
                .get_args()
                .map(|argument| argument.to_string_lossy().into_owned())
                .collect();
            bail!(
                "`{program} {}` failed ({}); the end of its output:\n{}",
                arguments.join(" "),
                used.status,
                tail(log)
            )
        }
    }
}

/// CPU time that all processors together have been busy since the start of the machine, or taken
/// by other virtual machines; zero where that cannot be known.
fn machine_busy() -> Duration {
    let Ok(text) = fs::read_to_string("/proc/stat") else {
        return Duration::ZERO;
    };
    // user nice system idle iowait irq softirq steal
    let ticks: u64 = text
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .take(8)
        .enumerate()
        .filter(|(index, _)| ![3, 4].contains(index))
        .filter_map(|(_, ticks)| ticks.parse::<u64>().ok())
        .sum();
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second().max(1) as f64)
}

/// The last lines of a log.
pub fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(12)..]
        .iter()
        .map(|line| format!("    {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The middle value; the mean of the two middle ones of an even number. `None` of nothing.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn measures_time_and_memory() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "sleep 0.05; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done",
        ]);
        let sample = measure(command, &log, &[0]).unwrap();
        assert!(sample.wall >= Duration::from_millis(50));
        assert!(sample.cpu > Duration::ZERO && sample.cpu < sample.wall);
        assert!(sample.peak_rss_bytes > 100 << 10);
    }

    #[test]
    fn quotes_the_output_of_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let script = |text: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", text]);
            command
        };
        let error = measure(script("echo so sad; exit 7"), &log, &[0, 3]).unwrap_err();
        assert!(format!("{error:#}").contains("so sad"), "{error:#}");
        assert_eq!(
            measure(script("exit 3"), &log, &[0, 3]).unwrap().exit_code,
            3
        );
        assert!(measure(script("kill -9 $$"), &log, &[0]).is_err());
    }
}
