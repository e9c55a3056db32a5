//! `tabane cluster drain`

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tabane_node::authority;
use tabane_storage::{Name, Storage, StorageError, StorageErrorKind};
use tabane_store::Repository;
use tabane_store::client::Seen;
use tabane_striped::cluster::{self, NodeStorage};
use tabane_striped::{HealOptions, StripedStorage};

use super::cluster::{known, move_objects, say};
use super::unlock;
use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::output::warn;
use crate::password;
use crate::progress::Progress;
use crate::reporter::Reporter;

/// From one look at who is at work to the next.
const PAUSE: Duration = Duration::from_secs(5);

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
    let open = || -> Result<(Arc<StripedStorage>, Repository)> {
        let storage = Arc::new(global.set()?);
        let of_set = Arc::clone(&storage) as Arc<dyn Storage>;
        let repository = Repository::open_with_memory(of_set, &password, global.memory())?;
        Ok((storage, repository))
    };
    let (mut storage, mut repository) = open()?;
    let cannot = |error: StorageError| Failure::Storage("cannot drain these nodes: ", error);
    let is_used = storage.urls().any(|url| urls.contains(&url));
    // An earlier run may have been interrupted when only the file was left to change.
    if is_used {
        if storage.retire(&urls).map_err(cannot)? {
            (storage, repository) = open()?;
        }
        wait_for_clients(global, &repository)?;
        let progress = Progress::start(global);
        let reporter = Reporter::new(&progress).without_notes(global.quiet);
        let healed = storage.heal(HealOptions::default(), &reporter);
        progress.stop();
        healed.map_err(cannot)?;
        let report = move_objects(global, &storage, limit)?;
        // Somebody may have changed the set meanwhile.
        (storage, _) = open()?;
        storage.forget_retired(&urls).map_err(cannot)?;
        if !global.quiet && !global.json {
            let objects = format::count(report.moved_objects, "object");
            let bytes = format::bytes(report.moved_bytes);
            say(global, "", format!("moved {objects}, {bytes}"))?;
        }
    }
    for node in &nodes {
        // Without it nobody takes the node for one of the repository.
        match node.delete(Name::TARGET) {
            Err(error) if error.kind() != StorageErrorKind::NotFound => return Err(cannot(error)),
            _ => {}
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
