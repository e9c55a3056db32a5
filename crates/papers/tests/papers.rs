//! The whole of `tabane-papers sha1`, `regimes` and `gpu`, on little data and without peers.

use std::fs;
use std::process::Command;

use serde_json::Value;
use tabane_testing::output::{json_lines, of_kind};

/// Runs the program with these words and reads the JSON objects that it prints.
fn lines(words: &str) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_tabane-papers"))
        .args(words.split(' '))
        .env_remove("TABANE_SIMD")
        .output()
        .unwrap();
    json_lines(&output)
}

#[test]
fn json_and_plots_of_sha1() {
    let folder = tempfile::tempdir().unwrap();
    let plots = folder.path().join("new");
    let processors = std::thread::available_parallelism().unwrap().get();
    let lines = lines(&format!(
        "sha1 --json --no-openssl --rounds 1 --block 4 --data {processors} --plots {}",
        plots.display()
    ));
    assert!(lines.iter().all(|line| line["bench"] == "sha1"));
    let rates = of_kind(&lines, "rate");
    for shown in ["table_3", "figure_5", "figure_6", "figure_7"] {
        let shown_in = |line: &&&Value| line["shown_in"].as_str().unwrap().contains(shown);
        assert!(rates.iter().filter(shown_in).count() > 1, "{shown}");
    }
    for (name, words) in [
        ("figure5_threads.svg", ["threads", "GB/s"]),
        ("figure6_blocks.svg", ["KiB", "Tabane, a block a lane"]),
        ("figure7_devices.svg", ["W[80][4]", "scalar"]),
    ] {
        let svg = fs::read_to_string(plots.join(name)).unwrap();
        assert!(
            svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"),
            "{name}"
        );
        if cfg!(target_arch = "x86_64") || name != "figure7_devices.svg" {
            assert!(words.iter().all(|word| svg.contains(word)), "{name}");
        }
    }
}

#[test]
fn json_of_regimes() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().to_str().unwrap();
    let lines = lines(&format!(
        "regimes --json --rounds 1 --data 20 --duplicates 0,95 --fixed 64 --work {folder} \
         --plots {folder}"
    ));
    let stages = of_kind(&lines, "stage");
    // Two hashes, two shares, two ways to cut.
    assert_eq!(stages.len(), 8 * 9);
    for case in stages.chunk_by(|one, next| {
        ["hash", "duplicates_percent", "chunking"]
            .iter()
            .all(|name| one[name] == next[name])
    }) {
        let share = |name| {
            let line = case.iter().find(|line| line["stage"] == name).unwrap();
            line["share"].as_f64().unwrap()
        };
        let sum: f64 = case
            .iter()
            .map(|line| line["share"].as_f64().unwrap())
            .sum();
        assert!((0.999..1.001).contains(&sum));
        assert_eq!(
            case.iter().filter(|line| line["longest"] == true).count(),
            1
        );
        let known = case[0]["known_fraction"].as_f64().unwrap();
        match case[0]["duplicates_percent"].as_u64().unwrap() {
            0 => assert!(known == 0.0 && share("compress") > share("hash")),
            _ => assert!((0.5..=0.95).contains(&known), "{known}"),
        }
        let confirms = case[0]["hash"] == "sha1" && known > 0.0;
        assert_eq!(share("confirm") > 0.01, confirms);
    }
    for hash in ["sha1", "sha256"] {
        let figure = fs::read_to_string(dir.path().join(format!("regimes_{hash}.svg"))).unwrap();
        assert!(figure.contains("95% known, fixed 64 KiB"));
    }
}

/// Without a card, too: then its columns are empty.
#[test]
fn json_and_plots_of_gpu() {
    let dir = tempfile::tempdir().unwrap();
    let plots = dir.path().join("plots");
    let lines = lines(&format!(
        "gpu --json --no-peers --rounds 1 --data 1 --time 1 --plots {}",
        plots.display()
    ));
    assert!(lines.iter().all(|line| line["bench"] == "gpu"));
    assert!(lines[0]["card"].is_string() != lines[0]["card_missing"].is_string());
    // Five subjects, seven lengths; and chunking, of 1 MiB.
    assert_eq!(lines.len(), 1 + 5 * 7 + 1);
    for line in &lines[1..] {
        assert!(
            line["lanes_all_cores_bytes_per_s"].as_f64() > Some(0.0),
            "{line}"
        );
        let measured = line["card_resident_bytes_per_s"].is_number();
        assert_eq!(measured, lines[0]["card"].is_string(), "{line}");
    }
    let svg = fs::read_to_string(plots.join("gpu-sha-1.svg")).unwrap();
    assert!(svg.contains("bytes a message") && svg.contains("lanes, all cores"));
}

#[test]
fn less_data_than_a_block_a_thread_is_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_tabane-papers"))
        .args(["sha1", "--data", "1", "--block", "16384"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("less than a block a thread"));
}
