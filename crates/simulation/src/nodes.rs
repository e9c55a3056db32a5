//! Nodes of a cluster in this process, each behind a line, and a repository over them.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tabane_node::{ScrubOptions, Server, ServerOptions, authority};
use tabane_storage::sync::lock;
use tabane_storage::{LocalStorage, Name, ObjectKind, RemoteOptions, Storage};
use tabane_striped::StripedStorage;
use tabane_striped::cluster::file::{ClusterFile, NodeAddress, NodeFile};
use tabane_striped::cluster::{self, Plan};
use tabane_testing::line::{Line, Properties, Trouble};
use tabane_testing::scratch;
use tempfile::TempDir;

use crate::aging::make_older;
use crate::plan::Damage;
use crate::target::is_own;

/// The nodes.
pub struct Nodes {
    dir: TempDir,
    nodes: Vec<Node>,
}

struct Node {
    name: String,
    /// Where the node itself listens.
    port: u16,
    /// Where clients and other nodes reach it.
    line: Line,
    server: Mutex<Option<Server>>,
}

impl Nodes {
    /// Starts so many nodes, which make one set.
    pub fn start(count: usize) -> Self {
        let dir = scratch();
        let node = |number| NodeAddress::new(format!("n{number}"), "127.0.0.1:0".to_owned());
        let addresses: Vec<NodeAddress> = (0..count).map(node).collect();
        let path = dir.path().join("cluster.json");
        authority::create(&path, &addresses, None).expect("a new cluster");
        let mut file = ClusterFile::read(&path).expect("the cluster's file");
        let mut nodes = Self {
            dir,
            nodes: Vec::new(),
        };
        for address in &mut file.nodes {
            let server = nodes.serve(&address.name, 0).expect("the node starts");
            let port = server.address().port();
            let line = Line::to(port, Properties::default());
            address.address = format!("127.0.0.1:{}", line.port());
            nodes.nodes.push(Node {
                name: address.name.clone(),
                port,
                line,
                server: Mutex::new(Some(server)),
            });
        }
        cluster::file::write(&path, &file, true).expect("written");
        cluster::form(&path).expect("a set is made");
        nodes
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("cluster.json")
    }

    fn directory(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("of-{name}"))
    }

    fn serve(&self, name: &str, port: u16) -> tabane_storage::Result<Server> {
        let node = NodeFile::read(&authority::node_path(&self.file(), name))?;
        Server::start(ServerOptions {
            node,
            directory: self.directory(name),
            listen: format!("127.0.0.1:{port}"),
            fabric: None,
            metrics: None,
            scrub: ScrubOptions {
                pause: None,
                ..ScrubOptions::default()
            },
            quota_bytes: None,
            log: Arc::new(|_| ()),
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    /// The repository's storage as a new client opens it.
    ///
    /// # Errors
    /// When too few nodes answer.
    pub fn open(&self) -> tabane_storage::Result<StripedStorage> {
        let options = RemoteOptions::default().patience(Duration::from_secs(20));
        cluster::open_file(&self.file(), &options, Plan::Auto)
    }

    /// A node ends.
    pub fn stop(&self, number: usize) {
        if let Some(server) = lock(&self.nodes[number].server).take() {
            server.stop();
        }
    }

    /// A node starts again, if it has ended.
    pub fn restart(&self, number: usize) {
        let node = &self.nodes[number];
        let mut server = lock(&node.server);
        if server.is_none() {
            *server = Some(self.serve(&node.name, node.port).expect("it starts again"));
        }
    }

    /// From now on each new connection to a node is cut in the middle of what is sent to it, or no
    /// longer.
    pub fn cut(&self, number: usize, is_cut: bool) {
        self.nodes[number].line.set_trouble(if is_cut {
            Trouble::Cuts { one_of: 1 }
        } else {
            Trouble::None
        });
    }

    /// Where a node keeps what it stores.
    fn disk(&self, number: usize) -> PathBuf {
        self.directory(&self.nodes[number].name).join("shards")
    }

    /// What a node holds, but for what says what it is.
    fn objects(&self, number: usize) -> Vec<Name> {
        let disk = LocalStorage::new(self.disk(number));
        let kinds = ObjectKind::ALL.into_iter();
        let listed = kinds.flat_map(|kind| {
            let listed = disk.list(kind).unwrap_or_default().into_iter();
            listed.map(move |object| Name::new(kind, object.id))
        });
        let mut names: Vec<Name> = listed.filter(|name| !is_own(*name)).collect();
        names.sort();
        names
    }

    /// A node has lost all objects but those that say what it is.
    pub fn empty(&self, number: usize) {
        let disk = LocalStorage::new(self.disk(number));
        for name in self.objects(number) {
            disk.delete(name).expect("deleted");
        }
    }

    /// Damages an object of a node; which one, and where, `pick` decides.
    pub fn damage(&self, number: usize, pick: u64, how: Damage) -> Option<Name> {
        let objects = self.objects(number);
        let name = *objects.get((pick % objects.len().max(1) as u64) as usize)?;
        let path = self.disk(number).join(name.path());
        match how.spoil(fs::read(&path).ok()?, pick) {
            Some(bytes) => fs::write(path, bytes).ok()?,
            None => fs::remove_file(path).ok()?,
        }
        Some(name)
    }

    /// Makes everything on the disks so much older.
    pub fn wait(&self, time: Duration) {
        (0..self.nodes.len()).for_each(|number| make_older(&self.disk(number), time));
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        (0..self.nodes.len()).for_each(|number| self.stop(number));
    }
}
