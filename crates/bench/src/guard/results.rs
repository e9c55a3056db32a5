//! The last result for each processor: `docs/results/guard.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// One result for each processor, in the order of their names.
#[derive(Default, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Results(Vec<Measured>);

/// What was measured on a processor.
#[derive(Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Vendor, family, model, and the widest vectors.
    pub processor: String,
    /// What the processor calls itself.
    pub model_name: String,
    pub processors: usize,
    /// What was measured, and the day.
    pub commit: String,
    pub date: String,
    /// The peers with their versions.
    pub peers: BTreeSet<String>,
    /// By the names of the claims.
    pub ratios: BTreeMap<String, f64>,
}

impl Results {
    /// Reads the file; nothing where it is missing.
    pub fn read(path: &Path) -> Result<Results> {
        match fs::read(path) {
            Ok(text) => serde_json::from_slice(&text)
                .with_context(|| format!("{} holds no results of the guard", path.display())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Results::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// The last result of a processor.
    pub fn of(&self, processor: &str) -> Option<&Measured> {
        let mut all = self.0.iter();
        all.find(|measured| measured.processor == processor)
    }

    /// Takes the place of the processor's last result. Ratios that were not measured this time
    /// stay.
    pub fn put(&mut self, mut measured: Measured) {
        if let Some(last) = self.of(&measured.processor) {
            let mut ratios = last.ratios.clone();
            ratios.append(&mut measured.ratios);
            measured.ratios = ratios;
        }
        self.0.retain(|other| other.processor != measured.processor);
        self.0.push(measured);
        self.0.sort_by(|a, b| a.processor.cmp(&b.processor));
    }

    /// Writes the file, a ratio a line.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::FALLEN_BELOW;
    use super::super::claims::Claims;
    use super::*;

    fn measured(processor: &str, commit: &str, ratios: &[(&str, f64)]) -> Measured {
        Measured {
            processor: processor.to_owned(),
            commit: commit.to_owned(),
            ratios: ratios
                .iter()
                .map(|&(name, ratio)| (name.to_owned(), ratio))
                .collect(),
            ..Measured::default()
        }
    }

    #[test]
    fn a_result_takes_the_place_of_that_of_the_same_processor() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("guard.json");
        let mut results = Results::read(&path).unwrap();
        results.put(measured("B", "1", &[("x", 1.0), ("y", 2.0)]));
        results.put(measured("A", "2", &[("x", 3.0)]));
        results.put(measured("B", "3", &[("x", 4.0)]));
        results.write(&path).unwrap();

        let results = Results::read(&path).unwrap();
        assert_eq!(results.of("A").unwrap().ratios["x"], 3.0);
        let last = results.of("B").unwrap();
        assert_eq!(last.commit, "3");
        assert_eq!((last.ratios["x"], last.ratios["y"]), (4.0, 2.0));
        assert!(results.of("C").is_none());

        fs::write(&path, "[1]").unwrap();
        assert!(Results::read(&path).is_err());
    }

    /// `--accept` keeps a ratio that has fallen. Then the documentation has to say so, too.
    #[test]
    fn the_last_results_are_what_is_claimed() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results/guard.json");
        let results = Results::read(&path).unwrap();
        let claims = Claims::read().unwrap().claims;
        let mut compared = 0;
        for measured in &results.0 {
            let (model, vectors) = measured.processor.split_once(", ").unwrap();
            let (family, _) = model.rsplit_once(' ').unwrap();
            let family = format!("{family}, {vectors}");
            for claim in &claims {
                let claimed = claim.claimed_of(&family);
                if let (Some(claimed), Some(&ratio)) = (claimed, measured.ratios.get(&claim.name)) {
                    let name = &claim.name;
                    assert!(
                        ratio >= FALLEN_BELOW * claimed,
                        "{name}: {ratio}, not {claimed}"
                    );
                    compared += 1;
                }
            }
        }
        assert!(compared > 40, "{compared}");
    }
}
