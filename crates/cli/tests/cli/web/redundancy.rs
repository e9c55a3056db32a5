//! Repositories over five places, whole and with losses, over plain HTTP.

use std::fs;

use super::served::Served;
use crate::bed::{Bed, bare_command, run, varied};
use crate::cluster::{self, Daemon};
use crate::striped;

const PAGE: &str = "/repository/repository/redundancy";

/// A repository over five directories, and what names it. One snapshot has a file `more` of 3 MiB.
pub fn over_five_directories(bed: &Bed) -> ([String; 5], String) {
    fs::write(bed.source().join("more"), varied(3 << 20)).expect("a file");
    let urls = ["a", "b", "c", "d", "e"].map(|name| bed.path(name).display().to_string());
    striped::init(bed, &urls).succeeds();
    let source = bed.source().display().to_string();
    striped::tabane(bed, ["backup", &source]).succeeds();
    (urls, format!("striped:{}", bed.path("set.toml").display()))
}

/// The same over five nodes of a cluster.
pub fn over_five_nodes(bed: &Bed) -> (Vec<Daemon>, String) {
    let names = ["a", "b", "c", "d", "e"];
    let file = bed.path("cluster.json").display().to_string();
    let nodes = names.map(|name| format!("{name}=127.0.0.1:0"));
    let nodes = nodes.iter().flat_map(|node| ["--node", node]);
    let create = ["cluster", "create", &file].into_iter().chain(nodes);
    run(&mut bare_command(create)).succeeds();
    let daemons = names.map(|name| Daemon::start(bed, name)).into();
    cluster::tabane(bed, ["init"]).succeeds();
    fs::write(bed.source().join("more"), varied(3 << 20)).expect("a file");
    let source = bed.source().display().to_string();
    cluster::tabane(bed, ["backup", &source]).succeeds();
    (daemons, format!("cluster:{file}"))
}

/// Files are shown and downloaded as ever.
#[track_caller]
fn can_be_read(served: &Served, bed: &Bed) {
    assert!(
        served
            .page(&served.of("files", &bed.source()))
            .contains("more")
    );
    let more = served.get(&served.of("raw", &bed.source().join("more")));
    assert!(more.status == 200 && more.body == varied(3 << 20));
}

#[test]
fn two_of_five_targets_are_lost() {
    let bed = Bed::new();
    let (_, set) = over_five_directories(&bed);
    let served = Served::start(&bed, &["-r", &set]);
    let whole = served.page(PAGE);
    assert!(whole.contains("any two targets can be lost now"), "{whole}");
    assert_eq!(whole.matches("class=\"spare\"").count(), 10);
    striped::lose(&bed.path("b"));
    striped::lose(&bed.path("d"));
    let lost = served.page(PAGE);
    assert!(lost.contains("At risk"), "{lost}");
    assert_eq!(lost.matches("badge bad").count(), 2, "{lost}");
    can_be_read(&served, &bed);
    // With a third one nothing can be read, and the page says why.
    striped::lose(&bed.path("e"));
    let answer = served.get(PAGE);
    assert!(
        answer.text().contains("3 of 5 targets"),
        "{}",
        answer.text()
    );
    let fresh = Served::start(&bed, &["-r", &set]);
    assert_eq!(fresh.get(&fresh.of("files", &bed.source())).status, 503);
}

/// A node that takes connections and never answers holds nobody up for long.
#[test]
fn one_of_five_nodes_hangs() {
    let bed = Bed::new();
    let (daemons, place) = over_five_nodes(&bed);
    let served = Served::start(&bed, &["-r", &place]);
    assert!(
        served
            .page(PAGE)
            .contains("any two targets can be lost now")
    );
    daemons[2].hang();
    let text = served.page(PAGE);
    assert!(text.contains("any one target can be lost now"), "{text}");
    assert_eq!(text.matches("badge bad").count(), 1, "{text}");
    can_be_read(&served, &bed);
}
