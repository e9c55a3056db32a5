//! Where the clients of a schedule keep their repository: in memory, or on a storage server.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tabane_server::clients::Client;
use tabane_server::settings::{self, Proof};
use tabane_server::{Role, Server, ServerOptions};
use tabane_storage::{
    LocalStorage, RemoteOptions, ServedLocation, ServedStorage, ServerCredentials, Storage,
};
use tempfile::TempDir;

use crate::common::memory::MemoryStorage;
use crate::common::scratch;

/// A place for the repository of one schedule.
pub enum World {
    Memory(MemoryStorage),
    Served(Box<Served>),
}

/// A server with one repository.
pub struct Served {
    server: Option<Server>,
    location: ServedLocation,
    clients: Arc<Clients>,
    root: PathBuf,
    _dir: TempDir,
}

/// The settings of servers, with two clients.
pub struct Clients {
    dir: TempDir,
    /// Of one that adds, and of one that may remove.
    tokens: [String; 2],
}

const REPOSITORY: &str = "repository";

impl Clients {
    pub fn new() -> Self {
        let dir = scratch();
        let folder = dir.path().join("settings");
        settings::create(&folder, &["127.0.0.1".to_owned()]).unwrap();
        let add = |name: &str, role| {
            let client = Client {
                name: name.to_owned(),
                role,
                repositories: vec![REPOSITORY.to_owned()],
                quota: None,
                token_hash: None,
                certificate_hash: None,
            };
            match settings::add(&folder, client, false).unwrap() {
                Proof::Token(token) => token,
                Proof::Certificate(_) => unreachable!("it was to be a token"),
            }
        };
        let tokens = [add("writer", Role::Append), add("keeper", Role::Admin)];
        Self { dir, tokens }
    }
}

impl World {
    /// A server in this process.
    pub fn served(clients: &Arc<Clients>) -> Self {
        let dir = scratch();
        let server = Server::start(ServerOptions {
            directory: dir.path().to_owned(),
            settings: clients.dir.path().join("settings"),
            listen: "127.0.0.1:0".to_owned(),
            metrics: None,
            scrub_interval: None,
            log: Arc::new(|line| eprintln!("server: {line}")),
        });
        let server = server.unwrap();
        Self::Served(Box::new(Served {
            location: ServedLocation::Https {
                host: "127.0.0.1".to_owned(),
                port: server.address().port(),
                repository: REPOSITORY.to_owned(),
            },
            server: Some(server),
            clients: Arc::clone(clients),
            root: dir.path().join(REPOSITORY),
            _dir: dir,
        }))
    }

    /// What a client sees. On a server, one that does not remove has no right to.
    pub fn client(&self, removes: bool) -> Arc<dyn Storage> {
        match self {
            Self::Memory(storage) => Arc::new(storage.clone()),
            Self::Served(served) => {
                let authority = served.clients.dir.path().join("settings/authority.pem");
                let credentials = ServerCredentials::default()
                    .token(served.clients.tokens[usize::from(removes)].clone())
                    .authorities(fs::read(authority).unwrap());
                let options = RemoteOptions::default();
                let storage = ServedStorage::connect(&served.location, &credentials, &options);
                Arc::new(storage.unwrap())
            }
        }
    }

    /// The storage, without a server in between.
    pub fn storage(&self) -> Arc<dyn Storage> {
        match self {
            Self::Memory(storage) => Arc::new(storage.clone()),
            Self::Served(served) => Arc::new(LocalStorage::new(&served.root)),
        }
    }

    /// Lets time pass.
    pub fn wait(&self, time: Duration) {
        match self {
            Self::Memory(storage) => storage.wait(time),
            Self::Served(served) => make_older(&served.root, time),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
    }
}

/// Makes all files below a folder so much older.
fn make_older(folder: &Path, time: Duration) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            make_older(&path, time);
        } else {
            let file = fs::File::options().write(true).open(path).unwrap();
            let modified = file.metadata().unwrap().modified().unwrap();
            file.set_modified(modified - time).unwrap();
        }
    }
}
