//! The list of what the documentation claims of speed.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The benchmarks, and the claims that they measure.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claims {
    /// Command lines by their names: a program of this workspace and its arguments, in which
    /// `{work}` is a directory for them, `{tree}` a test tree, and `{programs}` where programs are.
    pub benches: BTreeMap<String, String>,
    /// In the order of the pages.
    pub claims: Vec<Claim>,
}

/// A ratio to a peer; the greater, the better.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// What is compared with what.
    pub name: String,
    /// The benchmark that measures it.
    pub bench: String,
    /// What the benchmark's JSON line has, besides the ratio.
    line: Map<String, Value>,
    /// The field of that line.
    ratio: String,
    /// The figure in the documentation.
    claimed: Option<f64>,
    /// Vendor and family of the processor that the figure is of.
    processor: Option<String>,
}

impl Claims {
    /// The list of this program.
    pub fn read() -> Result<Claims> {
        serde_json::from_str(include_str!("claims.json")).context("claims.json is no such list")
    }
}

impl Claim {
    /// The ratio in what the benchmark printed; `None` where the peer is not installed.
    pub fn find(&self, output: &[Value]) -> Option<f64> {
        let is_of = |line: &&Value| {
            let mut fields = self.line.iter();
            fields.all(|(field, value)| &line[field] == value)
        };
        let ratio = output.iter().find(is_of)?[&self.ratio].as_f64()?;
        ratio.is_finite().then_some(ratio)
    }

    /// The figure in the documentation, if it is of processors of this family.
    pub fn claimed_of(&self, family: &str) -> Option<f64> {
        let claimed = self.claimed?;
        (self.processor.as_deref() == Some(family)).then_some(claimed)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn the_list_is_whole() {
        let Claims { benches, claims } = Claims::read().unwrap();
        let names: BTreeSet<&str> = claims.iter().map(|claim| claim.name.as_str()).collect();
        assert_eq!(names.len(), claims.len(), "two claims have one name");
        for claim in &claims {
            assert!(benches.contains_key(&claim.bench), "{}", claim.name);
            assert_eq!(claim.claimed.is_some(), claim.processor.is_some());
        }
        for (name, bench) in benches {
            assert!(bench.split(' ').any(|word| word == "--json"), "{name}");
            assert!(claims.iter().any(|claim| claim.bench == name), "{name}");
        }
    }

    #[test]
    fn a_ratio_is_found_in_its_line() {
        let claim: Claim = serde_json::from_value(json!({
            "name": "a ÷ b", "bench": "x", "line": {"kind": "rate", "messages": 4},
            "ratio": "by_b", "claimed": 2.5, "processor": "AuthenticAMD 26, avx512bw",
        }))
        .unwrap();
        let other = json!({"kind": "rate", "messages": 8, "by_b": 1.0});
        let own = json!({"kind": "rate", "messages": 4, "more": true, "by_b": 2.0});
        assert_eq!(claim.find(&[other.clone(), own]), Some(2.0));
        assert_eq!(claim.find(&[other]), None);
        assert_eq!(claim.find(&[json!({"kind": "rate", "messages": 4})]), None);
        assert_eq!(claim.claimed_of("AuthenticAMD 26, avx512bw"), Some(2.5));
        assert_eq!(claim.claimed_of("AuthenticAMD 26, avx2"), None);
    }
}
