//! A whole backup over the cluster, beside the rate of the client's link.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tabane_bench::arguments::Program;
use tabane_bench::data::noise;
use tabane_bench::measure;
use tabane_testing::progress;

use super::{Args, Cluster, text, without_redundancy};

/// Backs up random bytes, as many as the link carries in the given time.
pub fn measure(args: &Args, nodes: usize) -> Result<()> {
    progress::show(&format!("n={nodes}: none"));
    let none = without_redundancy(args, nodes, 1)?;
    progress::show(&format!("n={nodes}: backup"));
    let cluster = Cluster::start(args, nodes, 1)?;
    let tabane = Program::default().find()?;
    let tree = cluster.work.path().join("tree");
    std::fs::create_dir(&tree)?;
    let bytes = (args.rate as f64 * args.seconds * 1e6 / 8.0) as usize;
    std::fs::write(tree.join("random"), noise(bytes)).context("cannot write a file")?;
    let command = |words: &[&str]| {
        let mut command = cluster.network.command_of(nodes, &tabane);
        command
            .args(words)
            .env(
                "TABANE_REPOSITORY",
                format!("cluster:{}", text(&cluster.file())),
            )
            .env("TABANE_PASSWORD", "measured")
            .env("TABANE_CACHE_DIR", cluster.work.path().join("cache"))
            .env("TABANE_STATE_DIR", cluster.work.path().join("state"));
        command
    };
    let log = cluster.work.path().join("log");
    measure::measure(command(&["init"]), &log, &[0])?;
    let backup = measure::measure(command(&["backup", &text(&tree)]), &log, &[0])?;
    ensure!(!backup.wall.is_zero(), "it took no time");
    let (seconds, cpu) = (backup.wall.as_secs_f64(), backup.cpu.as_secs_f64());
    let mbit_per_s = bytes as f64 * 8e-6 / seconds;
    if args.json {
        println!(
            "{}",
            json!({"bench": "parity_backup", "nodes": nodes, "link_mbit_per_s": args.rate,
                "bytes": bytes,
                "goodput_mbit_per_s": mbit_per_s, "of_no_redundancy": mbit_per_s / none.mbit_per_s,
                "of_link": mbit_per_s / f64::from(args.rate), "cores": cpu / seconds})
        );
    } else {
        println!(
            "n={nodes}: a backup of {:.0} MB: {mbit_per_s:.1} Mbit/s, {:.3} of no redundancy, \
            {:.3} of the link, {:.2} cores of the client",
            bytes as f64 * 1e-6,
            mbit_per_s / none.mbit_per_s,
            mbit_per_s / f64::from(args.rate),
            cpu / seconds
        );
    }
    Ok(())
}
