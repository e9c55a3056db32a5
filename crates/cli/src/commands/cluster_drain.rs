//! `tabane cluster drain`

use std::process;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tabane_node::authority;
use tabane_storage::{Name, Storage, StorageError, StorageErrorKind};
use tabane_store::Repository;
use tabane_store::client::Seen;
use tabane_striped::HealOptions;
use tabane_striped::cluster::{self, NodeStorage};

use super::cluster::{known, move_objects, moved, say};
use super::{heal, unlock};
use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::output::warn;
use crate::password;

/// From one look at who is at work to the next.
const PAUSE: Duration = Duration::from_secs(5);

/// How often a set is told to forget nodes while others change it.
const FORGET_TRIES_MAX: u32 = 5;

/// Empties a group, and forgets its nodes.
pub fn drain(global: &Global, names: &[String], limit: Option<u64>) -> Result<Exit> {
    let file = global.cluster()?;
    let node = |name: &String| match known(&file, name) {
        Err(Failure::Other(text)) => Err(Failure::Other(format!(
            "{text}. A node that was drained to the end is forgotten"
        ))),
        node => node,
    };
    let nodes: Result<Vec<Arc<NodeStorage>>> = names.iter().map(node).collect();
    let (nodes, password) = (nodes?, password::existing(global)?.0);
    let urls: Vec<String> = names.iter().map(|name| cluster::node_url(name)).collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let open = || global.set_and_repository(&password);
    let (mut storage, mut repository) = open()?;
    let cannot = |error: StorageError| Failure::Storage("cannot drain these nodes: ", error);
    if storage.urls().any(|url| urls.contains(&url)) {
        if storage.retire(&urls).map_err(cannot)? {
            (storage, repository) = open()?;
        }
        wait_for_clients(global, &repository)?;
        heal::heal_set(global, &storage, HealOptions::default())?;
        let report = move_objects(global, &storage, limit)?;
        forget(|| {
            // Another client may have changed the set meanwhile.
            let (storage, _) = open()?;
            storage.forget_retired(&urls).map_err(cannot)
        })?;
        if !global.quiet && !global.json {
            say(global, "", moved(&report))?;
        }
    } else {
        // An earlier run was interrupted when the set had forgotten the nodes. As long as they say
        // that they are its targets, clients that know an older set use them.
        for node in &nodes {
            match node.delete(Name::TARGET) {
                Err(error) if error.kind() != StorageErrorKind::NotFound => {
                    return Err(cannot(error));
                }
                _ => {}
            }
        }
    }
    authority::change(&file, |nodes| {
        nodes.retain(|node| !names.contains(&node.name))
    })?;
    let names = names.join(", ");
    let text = format!(
        "{names} hold nothing that is needed and are forgotten: switch them off, and give other \
         clients the new {}",
        file.display()
    );
    say(global, &names, text)?;
    Ok(Exit::Success)
}

/// Calls `forget`, again where another client changes the targets in the same moment: all that took
/// long is done.
fn forget(forget: impl Fn() -> Result<()>) -> Result<()> {
    for _ in 1..FORGET_TRIES_MAX {
        match forget() {
            Err(Failure::Storage(_, error)) if error.kind() == StorageErrorKind::Overtaken => {
                // Two that have met do not meet again.
                thread::sleep(Duration::from_millis(u64::from(process::id() % 5000)));
            }
            done => return done,
        }
    }
    forget()
}

/// Waits until those have ended who may still put something on the nodes, and says for whom.
fn wait_for_clients(global: &Global, repository: &Repository) -> Result<()> {
    let mut is_said = false;
    let pause = |left: &[Seen]| {
        if !is_said && !global.quiet {
            let clients: Vec<String> = left.iter().map(unlock::describe).collect();
            warn(format!(
                "waiting for who was at work before: {}",
                clients.join("; ")
            ));
            is_said = true;
        }
        thread::sleep(PAUSE);
        Ok(())
    };
    Ok(repository.wait_for_clients(pause)?)
}
