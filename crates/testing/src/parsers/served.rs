//! What comes over the network: requests to a storage server, and answers of servers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use tabane_server::{Realm, Role, Service, Who};
use tabane_storage::protocol::{self, LISTED_LEN, Operation, SESSION_LEN};
use tabane_storage::{LocalStorage, Name, ObjectKind, Storage, is_sftp_message, object_id};
use tempfile::TempDir;

/// A server with a repository, whose objects a client that may only add must leave alone.
struct Bed {
    dir: TempDir,
    service: Service,
    runtime: tokio::runtime::Runtime,
    files: BTreeMap<PathBuf, Vec<u8>>,
    names: Vec<Name>,
}

thread_local! {
    static BED: Bed = Bed::new();
}

const REPOSITORY: &str = "laptop";

impl Bed {
    fn new() -> Self {
        let dir = crate::scratch();
        let storage = LocalStorage::new(dir.path().join(REPOSITORY));
        storage.create().expect("a repository");
        let mut names = Vec::new();
        for kind in ObjectKind::ALL {
            let bytes = kind.name().as_bytes();
            let name = match kind {
                ObjectKind::Config => Name::CONFIG,
                _ => Name::new(kind, object_id(&[bytes])),
            };
            storage.put(name, &[bytes]).expect("an object");
            names.push(name);
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        Self {
            service: Service::new(Realm::named(dir.path())),
            files: files(dir.path()),
            names,
            runtime,
            dir,
        }
    }
}

fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let bytes = std::fs::read(&path).expect("a file");
            found.insert(path, bytes);
        }
    }
    found
}

/// Reads the input as requests: whatever a client that may only add sends, it deletes and changes
/// nothing, and what it adds is in its repository under the name that the bytes have.
pub fn request(input: &[u8]) {
    BED.with(|bed| {
        let mut rest = input;
        while let Some((&choice, more)) = rest.split_first() {
            rest = more;
            let len = rest.len().min(usize::from(choice >> 2));
            let (chosen, more) = rest.split_at(len);
            rest = more;
            if let Some(request) = parse(bed, choice, chosen) {
                let who = Who {
                    name: "laptop".to_owned(),
                    role: Role::Append,
                    repositories: Some(vec![REPOSITORY.to_owned()]),
                    quota: Some(1 << 20),
                    session: None,
                };
                bed.runtime.block_on(async {
                    let answer = bed.service.answer(who, request).await;
                    let _ = answer.into_body().collect().await;
                });
            }
        }
        let found = files(bed.dir.path());
        for (path, bytes) in &bed.files {
            assert_eq!(found.get(path), Some(bytes), "{}", path.display());
        }
        let root = bed.dir.path().join(REPOSITORY);
        for (path, bytes) in found {
            if !bed.files.contains_key(&path) {
                let below = path.strip_prefix(&root).expect("it is in the repository");
                let name = Name::from_path(below.to_str().expect("UTF-8"));
                assert_eq!(name.map(|name| name.id), Some(object_id(&[&bytes])));
                std::fs::remove_file(path).expect("removed");
            }
        }
    });
}

/// Makes a request of some bytes: the first two bits of `choice` say how free it is.
fn parse(bed: &Bed, choice: u8, bytes: &[u8]) -> Option<Request<Full<Bytes>>> {
    let (&first, rest) = bytes.split_first()?;
    let name = bed.names[usize::from(first >> 4) % bed.names.len()];
    let session = [first & 1; SESSION_LEN];
    let own = Name::new(name.kind, object_id(&[rest]));
    let operation = match first & 7 {
        0 => Operation::Put(own),
        1 => Operation::Delete(own),
        2 => Operation::Delete(name),
        3 => Operation::Replace(name),
        4 => Operation::Get(name),
        5 => Operation::List(name.kind),
        6 => Operation::Put(name),
        _ => Operation::RemoveLeftovers(std::time::Duration::ZERO),
    };
    let (method, path) = match choice & 3 {
        // Free text in the place of the path, or of a part of it.
        0 => (operation.method(), String::from_utf8(rest.to_vec()).ok()?),
        1 => {
            let text = String::from_utf8(rest.to_vec()).ok()?;
            (operation.method(), format!("/v1/{REPOSITORY}/{text}"))
        }
        2 => {
            let text = String::from_utf8(rest.to_vec()).ok()?;
            let path = operation.path(REPOSITORY);
            (operation.method(), path.replace(REPOSITORY, &text))
        }
        _ => (operation.method(), operation.path(REPOSITORY)),
    };
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(protocol::SESSION, hex::encode(session))
        .header("content-length", rest.len());
    if matches!(operation, Operation::Get(_)) {
        request = request.header("range", String::from_utf8_lossy(rest).as_ref());
    }
    request.body(Full::new(Bytes::copy_from_slice(rest))).ok()
}

pub fn request_samples() -> Vec<Vec<u8>> {
    let id = "ab".repeat(32);
    let mut samples = vec![
        // An object is put, put again, read, and taken back.
        b"\x17\x10bytes\x17\x10bytes\x17\x11bytes".to_vec(),
        b"\x2c\x14bytes=0-3".to_vec(),
    ];
    for text in [
        "/v1/laptop/config".to_owned(),
        "/v1/laptop/../other/config".to_owned(),
        format!("/v1/laptop/packs/ab/{id}"),
    ] {
        let mut sample = vec![(text.len() as u8 + 1) << 2, 4];
        sample.extend(text.as_bytes());
        samples.push(sample);
    }
    samples
}

/// Reads the input as answers of servers: of SFTP, and as a listing.
pub fn sftp(input: &[u8]) {
    let _ = is_sftp_message(input);
    match protocol::decode_list(input) {
        Some(listed) => assert_eq!(protocol::encode_list(&listed), input),
        None => assert_ne!(input.len() % LISTED_LEN, 0),
    }
}

pub fn sftp_samples() -> Vec<Vec<u8>> {
    let samples = vec![
        // VERSION with an extension, STATUS, HANDLE, DATA, NAME, ATTRS.
        b"\x02\0\0\0\x03\0\0\0\x11fsync@openssh.com\0\0\0\x011".to_vec(),
        b"\x65\0\0\0\x07\0\0\0\x02\0\0\0\x0cNo such file\0\0\0\0".to_vec(),
        b"\x66\0\0\0\x07\0\0\0\x04\0\0\0\0".to_vec(),
        b"\x67\0\0\0\x07\0\0\0\x03abc".to_vec(),
        b"\x68\0\0\0\x07\0\0\0\x01\0\0\0\x01x\0\0\0\x01y\0\0\0\x0d\0\0\0\0\0\0\0\x05\0\0\x81\xa4\
          \0\0\0\x01\0\0\0\x02"
            .to_vec(),
        b"\x69\0\0\0\x07\0\0\0\x01\0\0\0\0\0\0\0\x05".to_vec(),
    ];
    for sample in &samples {
        assert!(is_sftp_message(sample));
    }
    [samples, vec![vec![1; LISTED_LEN]]].concat()
}
