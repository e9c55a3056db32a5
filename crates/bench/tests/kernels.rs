//! The whole of `tabane-bench lanes`, `parity`, `chunk` and `mac`, on little data and without
//! peers.

use std::fs;
use std::process::Command;

use serde_json::Value;
use tabane_testing::output::{json_lines, of_kind};

/// Runs the program with these words and reads the JSON objects that it prints.
fn lines(words: &str) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_tabane-bench"))
        .args(words.split(' '))
        .env_remove("TABANE_SIMD")
        .output()
        .unwrap();
    json_lines(&output)
}

#[test]
fn json_of_lanes() {
    let lines = lines(
        "lanes --json --no-peers --rounds 1 --time 1 --block 4 --arena 8 \
         --algorithms sha1,aes-128-cbc-encrypt",
    );
    assert!(lines.iter().all(|line| line["bench"] == "lanes"));
    assert_eq!(of_kind(&lines, "host").len(), 1);
    for name in ["sha1", "aes-128-cbc-encrypt"] {
        let rates = of_kind(&lines, "rate");
        let mut rates = rates.iter().filter(|line| line["algorithm"] == name);
        assert!(rates.clone().count() > 10);
        assert!(rates.all(|line| line["rate_gb_per_s"].as_f64().unwrap() > 0.0));
    }
    let bounds = of_kind(&lines, "bound");
    if cfg!(target_arch = "x86_64") {
        assert!(!bounds.is_empty());
    }
    for line in bounds {
        let figure = |name: &str| line[name].as_f64().unwrap();
        assert!(figure("block_cycles") > 0.0);
        let alone = figure("bound_of_lanes_alone_bytes_per_cycle");
        assert!(alone <= figure("bound_bytes_per_cycle"), "{line}");
    }
    assert!(
        of_kind(&lines, "bar")
            .iter()
            .all(|bar| bar["ok"].is_boolean())
    );
}

#[test]
fn json_and_plot_of_mac() {
    let folder = tempfile::tempdir().unwrap();
    let plots = folder.path().join("new");
    let lines = lines(&format!(
        "mac --json --no-peers --rounds 1 --time 1 --block 4 --data 1 --plots {}",
        plots.display()
    ));
    assert!(lines.iter().all(|line| line["bench"] == "mac"));
    assert_eq!(of_kind(&lines, "host")[0]["data_bytes"], 1 << 20);
    for shape in ["warm", "memory"] {
        for name in [
            "hmac-md5",
            "hmac-sha256",
            "vmac-64",
            "vmac-128",
            "xxh128",
            "md5",
        ] {
            let rates = of_kind(&lines, "rate");
            let mut rates = rates
                .iter()
                .filter(|line| line["algorithm"] == name && line["shape"] == shape);
            let rate = rates.next().expect(name);
            assert!(rate["rate_gbit_per_s"].as_f64().unwrap() > 0.0 && rates.next().is_none());
            assert_eq!(rate["ratio_to_hmac_md5"] == 1.0, name == "hmac-md5");
        }
    }
    // Those to peers are left out with them.
    let bars = of_kind(&lines, "bar");
    assert!(bars.len() == 2 && bars.iter().all(|bar| bar["ok"].is_boolean()));
    let svg = fs::read_to_string(plots.join("macs.svg")).unwrap();
    assert!(svg.trim_end().ends_with("</svg>"));
    assert!(["Gbit/s", "vmac-128"].iter().all(|word| svg.contains(word)));
}

#[test]
fn wrong_arguments_are_refused() {
    let run = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_tabane-bench"))
            .args(arguments)
            .output()
            .unwrap()
    };
    let output = run(&["lanes", "--algorithms", "crc32"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("known are md5, sha1"));
}

#[test]
fn json_of_parity() {
    let lines = lines("parity --json --rounds 1 --time 1 --arena 8 --targets 3,6 --cells 4,4096");
    // In the cache, and with the shorter cells: the longer have no room.
    let rates = of_kind(&lines, "rate");
    assert_eq!(rates.len(), 2 * 2 * 3);
    for line in rates {
        for figure in ["rate_gb_per_s", "bound_gb_per_s", "fraction_of_bound"] {
            assert!(line[figure].as_f64().unwrap() > 0.0, "{line}");
        }
    }
    assert_eq!(of_kind(&lines, "bar").len(), 1);
}

#[test]
fn the_code_is_verified() {
    let lines = lines("parity --verify 7 --json");
    assert_eq!(lines.len(), 5);
    assert!(lines.iter().all(|line| line["kind"] == "verify"));
    assert_eq!(
        (&lines[4]["losses_rebuilt"], &lines[4]["reads_least"]),
        (&28.into(), &22.into())
    );
}

#[test]
fn json_of_chunk() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let mut state = 1_u64;
    let next = |_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        (state >> 56) as u8
    };
    let half: Vec<u8> = (0..1 << 20).map(next).collect();
    fs::write(&path, [half.as_slice(), &half].concat()).unwrap();
    let path = path.to_str().unwrap();
    let lines = lines(&format!(
        "chunk --json --rounds 1 --average 16 {path} {path}"
    ));
    let blocks = of_kind(&lines, "blocks");
    assert_eq!(blocks.len(), 5);
    for line in blocks {
        // The second generation is all there; blocks shorter than the half find that comes twice,
        // too.
        let ratio = line["dedup_ratio"].as_f64().unwrap();
        assert!((3.5..=4.0).contains(&ratio), "{line}");
        assert!(line["rate_gb_per_s"].as_f64().unwrap() > 0.0);
    }
    let rates = of_kind(&lines, "rate");
    assert_eq!(rates.len(), 4);
    assert_eq!(rates[0]["ratio_to_fastcdc"], 1.0);
    assert!(rates[3]["bar"].as_f64().unwrap() == 0.8);
}
