//! One repository over the nodes of a cluster: [striped storage](crate::StripedStorage) whose
//! targets are nodes, which can make the parities of a stripe among themselves.
//!
//! Nodes store byte for byte the same shards as any other targets, whether client or nodes computed
//! them. `docs/reference/cluster.md` is for users, `docs/reference/wire.md` says what goes over the
//! network.

pub mod file;
pub mod groups;
mod limits;
mod links;
mod mixer;
mod node;
pub mod optimum;
mod relay;
pub mod role;
mod session;
pub mod tls;
pub mod wire;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tabane_storage::sync::try_each;
use tabane_storage::{
    Event, EventKind, Name, RemoteOptions, Result, StorageError, StorageErrorKind,
};

use crate::place::Place;
use crate::striped::StripedStorage;
use file::ClusterFile;
use limits::Limits;
use relay::Relay;

pub use crate::place::node_url;
pub use crate::targets::RESTART_TIME;
pub use mixer::Due;
pub use node::{NodeStorage, prove};
pub use relay::{Plan, SENDING_MAX};
pub use session::{Rings, STALL_TIMEOUT, cut_links, data_endpoint};

/// So long before its certificate ends a client is told.
pub const CERTIFICATE_NOTICE: Duration = Duration::from_secs(30 * 86_400);

/// Pause before a client that opens a cluster asks all nodes again.
const OPEN_PAUSE: Duration = Duration::from_secs(1);

/// Opens the repository of the cluster that a file describes. Opening, and later operations, wait
/// for [`RemoteOptions::patience`] when too many nodes are away.
///
/// # Errors
/// [`StorageErrorKind::NotFound`] when all nodes are empty, [`StorageErrorKind::Invalid`] when the
/// file does not exist, [`StorageErrorKind::Unauthorized`] when the client's certificate has ended;
/// as [`StripedStorage::open`].
pub fn open_file(path: &Path, options: &RemoteOptions, plan: Plan) -> Result<StripedStorage> {
    let limits = Arc::new(Limits::new(options));
    let file = ClusterFile::read(path).map_err(|error| match error.kind() {
        // What is not there is the file, and perhaps not the repository.
        StorageErrorKind::NotFound => {
            StorageError::new(StorageErrorKind::Invalid, error.to_string())
        }
        _ => error,
    })?;
    tell_of_end(&file, options)?;
    let places = places(&file, &limits)?;
    let location = format!("cluster:{}", path.display());
    let (begun, mut is_told) = (Instant::now(), false);
    loop {
        let notice = options.notice.clone();
        let error = match StripedStorage::open(location.clone(), places.clone(), notice) {
            Ok(storage) => {
                let sender = Box::new(Relay::new(plan, limits));
                return Ok(storage.over_nodes(sender, options.patience));
            }
            Err(error) => error,
        };
        let blank = blank(&places)?;
        if blank == places.len() {
            return Err(StorageErrorKind::NotFound.into());
        }
        // Without a repository on any node that answers, waiting for other nodes is pointless.
        let may_end = error.kind() == StorageErrorKind::TooFewTargets
            || error.kind() == StorageErrorKind::NoTargets && blank == 0;
        if !may_end || begun.elapsed() >= options.patience {
            return Err(error);
        }
        if !std::mem::replace(&mut is_told, true) {
            let text = format!(
                "{error}; waiting for up to {} s",
                options.patience.as_secs()
            );
            (options.notice)(&Event::note(text));
        }
        std::thread::sleep(OPEN_PAUSE);
    }
}

/// Makes the nodes of a cluster targets of one set, or resumes an interrupted attempt.
///
/// # Errors
/// As [`StripedStorage::form`].
pub fn form(path: &Path) -> Result<()> {
    let file = ClusterFile::read(path)?;
    let mut groups: BTreeMap<u8, Vec<Place>> = BTreeMap::new();
    for (node, place) in file.nodes.iter().zip(places(&file, &Arc::default())?) {
        groups.entry(node.group).or_default().push(place);
    }
    StripedStorage::form_groups(groups.into_values().collect(), false)
}

/// The nodes that a file names; no request is sent yet.
///
/// # Errors
/// When the file cannot be used.
pub fn nodes(path: &Path) -> Result<Vec<Arc<NodeStorage>>> {
    nodes_within(&ClusterFile::read(path)?, &Arc::default())
}

fn nodes_within(file: &ClusterFile, limits: &Arc<Limits>) -> Result<Vec<Arc<NodeStorage>>> {
    let config = tls::client(&file.credentials)?;
    let nodes = file.nodes.iter().cloned();
    Ok(nodes
        .map(|node| NodeStorage::new(node, Arc::clone(&config), Arc::clone(limits)))
        .map(Arc::new)
        .collect())
}

/// The place of a node, as sets know it.
pub fn place(node: Arc<NodeStorage>) -> Place {
    Place {
        url: node_url(node.name()),
        storage: node,
    }
}

fn places(file: &ClusterFile, limits: &Arc<Limits>) -> Result<Vec<Place>> {
    let nodes = nodes_within(file, limits)?;
    Ok(nodes.into_iter().map(place).collect())
}

/// Tells that the certificate of the client ends soon, if it does.
///
/// # Errors
/// When it has ended.
fn tell_of_end(file: &ClusterFile, options: &RemoteOptions) -> Result<()> {
    let Some(left) = file.credentials.time_left() else {
        return Ok(());
    };
    if left > CERTIFICATE_NOTICE {
        return Ok(());
    }
    let name = file
        .client
        .as_ref()
        .map_or("this client", |client| &client.name);
    if left.is_zero() {
        let text = format!(
            "the certificate of {name} has ended, by the clock of this machine: an administrator \
             makes a new one"
        );
        return Err(StorageError::new(StorageErrorKind::Unauthorized, text));
    }
    let days = left.as_secs() / 86_400;
    let text = format!("the certificate of {name} ends in {days} days");
    let kind = EventKind::CertificateEnds;
    (options.notice)(&Event { kind, text });
    Ok(())
}

/// Number of nodes that answer and are empty.
///
/// # Errors
/// When a node does not let this client in.
fn blank(places: &[Place]) -> Result<usize> {
    let is_blank = |place: &Place| match place.storage.stat(Name::TARGET) {
        Err(error) if error.kind() == StorageErrorKind::Unauthorized => Err(error),
        answer => Ok(answer.is_err_and(|error| error.kind() == StorageErrorKind::NotFound)),
    };
    let answers: Result<Vec<bool>> = try_each(places, places.len(), is_blank);
    Ok(answers?.into_iter().filter(|&is_blank| is_blank).count())
}
