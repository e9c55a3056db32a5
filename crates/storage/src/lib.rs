#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod buffer;
mod concurrency;
mod error;
mod files;
mod hash;
mod id;
mod limit;
mod local;
mod location;
mod name;
mod object;
mod options;
mod progress;
pub mod protocol;
mod remote;
mod retry;
mod role;
mod served;
mod setters;
mod sftp;
mod ssh;
mod storage;
pub mod sync;

pub use error::{Result, StorageError, StorageErrorKind};
pub use files::Files;
pub use hash::{object_id, random};
pub use id::{ID_LEN, Id};
pub use limit::Limiter;
pub use local::{Draft, LocalStorage, make_directory, sync_name, write_whole};
pub use location::Location;
pub use name::{Name, ObjectKind};
pub use object::{ObjectStorage, RemoteLocation, Service};
pub use options::{Event, EventKind, Lock, LockMode, Notice, RemoteOptions, TlsOptions};
pub use progress::{Outcome, Progress};
pub use role::Role;
pub use served::{ServedLocation, ServedStorage, ServerCredentials, is_repository_name};
pub use sftp::SftpStorage;
#[doc(hidden)]
pub use sftp::is_message as is_sftp_message;
pub use ssh::SshPlace;
pub use storage::{Listed, OBJECT_LEN_MAX, Storage};
