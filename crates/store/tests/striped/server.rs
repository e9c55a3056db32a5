//! One of the targets is a real S3 server.

use std::fs;
use std::path::PathBuf;

use crate::bed::{Bed, Random, Server};
use crate::common::gateway::{BUCKET, Gateway};
use crate::common::process;
use crate::loss::every_pair;

/// The server's target is below this prefix.
const PREFIX: &str = "some/prefix";

/// MiB that are backed up besides.
const MORE: &str = "TABANE_TEST_STRIPED_MIB";

#[test]
fn every_pair_of_five_one_of_them_a_server() {
    let Some(gateway) = Gateway::start("loss of every pair of targets, one on a real S3 server")
    else {
        return;
    };
    let folder = gateway.bucket().join(PREFIX);
    let mut child = process::child(child_that_loses_every_pair, &[folder]);
    // A URL has colons in it, which a task cannot have.
    let child =
        Gateway::credentials(&mut child).env("TABANE_TEST_URL", gateway.url(BUCKET, PREFIX));
    assert!(child.status().unwrap().success());
}

#[test]
fn child_that_loses_every_pair() {
    let Some(task) = process::task() else { return };
    let [folder]: [PathBuf; 1] = task.try_into().unwrap();
    let url = std::env::var("TABANE_TEST_URL").unwrap();
    let bed = Bed::with_server(5, Server { url, folder });
    if let Ok(mib) = std::env::var(MORE) {
        let bytes = Random(12).bytes(mib.parse::<usize>().unwrap() << 20);
        fs::write(bed.source().join("more"), bytes).unwrap();
    }
    let snapshot = bed.fill();
    every_pair(&bed, snapshot);
}
