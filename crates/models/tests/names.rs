//! The steps of the models and those of the code have the same names.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use tabane_models::cluster;
use tabane_models::groups;
use tabane_models::offload;
use tabane_models::removal::steps::Step;

/// The names behind `// model: KIND/` in the sources of a crate.
fn marked(krate: &str, kind: &str) -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(krate)
        .join("src");
    let mark = format!("// model: {kind}/");
    let (mut folders, mut names) = (vec![root], BTreeSet::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the sources of a crate") {
            let path = entry.expect("the sources of a crate").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source");
                let lines = text
                    .lines()
                    .filter_map(|line| line.trim().strip_prefix(&mark));
                names.extend(lines.map(str::to_owned));
            }
        }
    }
    names
}

/// Wants the same names in the code and in a model.
#[track_caller]
fn assert_same(marked: &BTreeSet<String>, modelled: &BTreeSet<String>) {
    let code: Vec<_> = marked.difference(modelled).collect();
    let model: Vec<_> = modelled.difference(marked).collect();
    assert!(
        code.is_empty() && model.is_empty(),
        "only in the code: {code:?}; only in the model: {model:?}. A change of a protocol changes \
         the model first: see Names in crates/models/README.md"
    );
}

#[test]
fn steps_of_removal_stand_in_the_store() {
    let modelled: BTreeSet<String> = Step::ALL
        .iter()
        .map(|step| step.name().to_owned())
        .collect();
    assert_same(&marked("store", "removal"), &modelled);
}

#[test]
fn steps_of_clusters_stand_in_the_striped_storage() {
    let modelled: BTreeSet<String> = cluster::STEPS.iter().map(|&step| step.to_owned()).collect();
    assert_same(&marked("striped", "cluster"), &modelled);
}

#[test]
fn steps_of_groups_stand_in_the_striped_storage_and_the_store() {
    let modelled: BTreeSet<String> = groups::STEPS.iter().map(|&step| step.to_owned()).collect();
    let mut marked_anywhere = marked("striped", "groups");
    marked_anywhere.extend(marked("store", "groups"));
    assert_same(&marked_anywhere, &modelled);
}

#[test]
fn steps_of_the_offload_service_stand_in_its_crate() {
    let modelled: BTreeSet<String> = offload::STEPS.iter().map(|&step| step.to_owned()).collect();
    assert_same(&marked("offload", "offload"), &modelled);
}
