//! Where objects live: a small trait, and one file for each kind of place.
//!
//! An object is a name ([`Name`]: a kind and a 32-byte [`Id`]) and its bytes. It is written once and never changed.
//! [`Storage`] is the trait, [`LocalStorage`] keeps objects as files, [`ObjectStorage`] in S3, Google Cloud Storage, Azure or
//! WebDAV. What objects mean is up to the crates above.

#![forbid(unsafe_code)]

pub mod buffer;
mod error;
mod hash;
mod id;
mod limit;
mod local;
mod location;
mod name;
mod object;
mod options;
mod progress;
mod retry;
mod storage;
pub mod sync;

pub use error::{Result, StorageError, StorageErrorKind};
pub use hash::{object_id, random};
pub use id::{ID_LEN, Id};
pub use limit::Limiter;
pub use local::{Draft, LocalStorage, write_whole};
pub use location::Location;
pub use name::{Name, ObjectKind};
pub use object::{ObjectStorage, RemoteLocation, Service};
pub use options::{Event, EventKind, Notice, RemoteOptions};
pub use progress::Progress;
pub use storage::{Listed, OBJECT_LEN_MAX, Storage};
