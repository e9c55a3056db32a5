//! A storage server in this process, with one repository.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tabane_server::clients::Client;
use tabane_server::settings::{self, Proof};
use tabane_server::{Role, Server, ServerOptions};
use tabane_storage::{
    LocalStorage, RemoteOptions, ServedLocation, ServedStorage, ServerCredentials, Storage,
};
use tabane_testing::scratch;
use tempfile::TempDir;

use crate::aging::make_older;

/// A server that runs.
pub struct Served {
    server: Option<Server>,
    location: ServedLocation,
    accounts: Arc<Accounts>,
    root: PathBuf,
    _dir: TempDir,
}

/// The settings of servers, with two clients. To make them takes time, so that runs share them.
pub struct Accounts {
    dir: TempDir,
    /// Of one that adds, and of one that may remove.
    tokens: [String; 2],
}

const REPOSITORY: &str = "repository";

impl Accounts {
    /// New settings.
    pub fn new() -> Self {
        let dir = scratch();
        let folder = dir.path().join("settings");
        settings::create(&folder, &["127.0.0.1".to_owned()]).expect("settings");
        let add = |name: &str, role| {
            let client = Client {
                name: name.to_owned(),
                role,
                repositories: vec![REPOSITORY.to_owned()],
                quota: None,
                token_hash: None,
                certificate_hash: None,
            };
            match settings::add(&folder, client, false).expect("a new client") {
                Proof::Token(token) => token,
                Proof::Certificate(_) => unreachable!("it was to be a token"),
            }
        };
        let tokens = [add("writer", Role::Append), add("keeper", Role::Admin)];
        Self { dir, tokens }
    }
}

impl Default for Accounts {
    fn default() -> Self {
        Self::new()
    }
}

impl Served {
    /// Starts a server.
    pub fn start(accounts: &Arc<Accounts>) -> Self {
        let dir = scratch();
        let server = Server::start(ServerOptions {
            directory: dir.path().to_owned(),
            settings: accounts.dir.path().join("settings"),
            listen: "127.0.0.1:0".to_owned(),
            metrics: None,
            scrub_interval: None,
            log: Arc::new(|line| eprintln!("server: {line}")),
        });
        let server = server.expect("the server starts");
        Self {
            location: ServedLocation::Https {
                host: "127.0.0.1".to_owned(),
                port: server.address().port(),
                repository: REPOSITORY.to_owned(),
            },
            server: Some(server),
            accounts: Arc::clone(accounts),
            root: dir.path().join(REPOSITORY),
            _dir: dir,
        }
    }

    /// What a client sees. One that does not remove has no right to.
    pub fn client(&self, removes: bool) -> Arc<dyn Storage> {
        let authority = self.accounts.dir.path().join("settings/authority.pem");
        let credentials = ServerCredentials::default()
            .token(self.accounts.tokens[usize::from(removes)].clone())
            .authorities(fs::read(authority).expect("the authority's certificate"));
        let options = RemoteOptions::default();
        let storage = ServedStorage::connect(&self.location, &credentials, &options);
        Arc::new(storage.expect("the server answers"))
    }

    /// The server's disk.
    pub fn disk(&self) -> Arc<dyn Storage> {
        Arc::new(LocalStorage::new(&self.root))
    }

    /// Makes everything on the disk so much older.
    pub fn wait(&self, time: Duration) {
        make_older(&self.root, time);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
    }
}
