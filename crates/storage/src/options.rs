//! Options and events of remote storages.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Receives events for the user while an operation runs; called from many threads.
pub type Notice = Arc<dyn Fn(&Event) + Send + Sync>;

/// An event for the user while an operation runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The kind, from which a program derives its advice.
    pub kind: EventKind,
    /// One sentence.
    pub text: String,
}

/// Kinds of [`Event`], from which a program derives its advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// For information only.
    Note,
    /// Targets of a set are missing at its opening.
    TargetsMissing {
        /// All targets of the set are nodes of a cluster.
        are_nodes: bool,
    },
    /// A target of a set failed, and is out of use.
    TargetFails,
    /// A target of a set is full or cannot be written to; what it has is read.
    TargetRefuses,
    /// A target of a set has wrong bytes with right checksums.
    TargetLies,
    /// The certificate of this client ends soon.
    CertificateEnds,
    /// A place holds a target that was replaced by another.
    TargetReplaced {
        /// The place is a node of a cluster.
        is_node: bool,
    },
}

impl Event {
    /// An event of kind [`EventKind::Note`].
    pub fn note(text: impl Into<String>) -> Self {
        Self {
            kind: EventKind::Note,
            text: text.into(),
        }
    }
}

/// Object lock of new objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// For how long what is needed is locked at least.
    pub period: Duration,
    /// Who can end a lock before its time.
    pub mode: LockMode,
}

/// Who can end an object's lock before its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockMode {
    /// Users with a special right.
    #[default]
    Governance,
    /// Nobody.
    Compliance,
}

impl Lock {
    /// For how long an object is locked when it is put, or its lock extended: a third longer, so
    /// that each is extended seldom.
    pub fn put_period(self) -> Duration {
        self.period + self.period / 3
    }
}

impl LockMode {
    /// The name in S3.
    pub fn name(self) -> &'static str {
        match self {
            Self::Governance => "GOVERNANCE",
            Self::Compliance => "COMPLIANCE",
        }
    }
}

/// Options of a remote storage.
#[derive(Clone)]
#[non_exhaustive]
pub struct RemoteOptions {
    /// Requests at a time; by default a number that grows with the latency of the server.
    pub connections: Option<usize>,
    /// Limit of what is sent, in KiB a second; none by default.
    pub upload_kib_per_s: Option<u64>,
    /// Limit of what is received, in KiB a second; none by default.
    pub download_kib_per_s: Option<u64>,
    /// Time for which a request is retried when the server is unreachable, overloaded, or breaks
    /// off; 5 minutes by default.
    pub patience: Duration,
    /// Receives reports of longer outages.
    pub notice: Notice,
    /// Whom to trust, and how to be known.
    pub tls: TlsOptions,
    /// The storage class of packs with contents of files, as the service calls it; its default if
    /// nothing is said. Everything else has the default: it is read again and again.
    pub storage_class: Option<String>,
    /// How new objects are locked; by default not at all.
    pub lock: Option<Lock>,
}

/// Options of encrypted connections.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// Files (PEM) with certificates of authorities to trust beside those of the system.
    pub authorities: Vec<PathBuf>,
    /// A file (PEM) with a certificate and its key, by which the server knows this client.
    pub identity: Option<PathBuf>,
    /// Do not check the server's certificate: whoever is in between can read and change all.
    pub is_insecure: bool,
}

crate::setters!(RemoteOptions {
    into => connections: Option<usize>,
    into => upload_kib_per_s: Option<u64>,
    into => download_kib_per_s: Option<u64>,
    set => patience: Duration,
    set => notice: Notice,
    set => tls: TlsOptions,
    into => storage_class: Option<String>,
    into => lock: Option<Lock>,
});

impl Default for RemoteOptions {
    fn default() -> Self {
        Self {
            connections: None,
            upload_kib_per_s: None,
            download_kib_per_s: None,
            patience: Duration::from_secs(300),
            notice: Arc::new(|_| {}),
            tls: TlsOptions::default(),
            storage_class: None,
            lock: None,
        }
    }
}
