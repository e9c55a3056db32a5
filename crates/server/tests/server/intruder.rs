//! Whoever has taken over a client that may only add tries everything that the protocol has.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use tabane_server::Role;
use tabane_storage::{LocalStorage, Name, ObjectKind, Storage, object_id};
use tabane_store::backup::BackupOptions;
use tabane_store::check::{CheckOptions, ReadData};
use tabane_store::key::KdfCost;
use tabane_store::restore::RestoreOptions;
use tabane_store::{Id, InitOptions, Repository};
use tabane_testing::compare;
use tabane_testing::files::{random_bytes, small_tree, write};

use crate::bed::{Bed, Raw, files, runtime};

fn password() -> tabane_store::key::Password {
    b"correct horse".to_vec().into()
}

fn back_up(repository: &Repository, source: &Path) -> Id {
    let options = BackupOptions::default().hostname("host").username("user");
    let made = repository.backup(options, &[source]).expect("backup");
    made.id.expect("it was no dry run")
}

#[test]
fn nothing_is_lost_to_a_client_that_may_only_add() {
    let bed = Bed::new(&[
        ("laptop", Role::Append, "laptop"),
        ("desktop", Role::Append, "desktop"),
    ]);
    let source = tempfile::tempdir().unwrap();
    small_tree(source.path(), 3);
    write(source.path().join("large"), &random_bytes(5, 3 << 20));
    // Two clients that do no more than they may.
    let mut snapshots = Vec::new();
    for client in ["laptop", "desktop"] {
        let storage = Arc::new(bed.storage(client, client));
        let options = InitOptions::default().kdf_cost(KdfCost::WEAKEST);
        let repository = Repository::init(storage, &password(), options).expect("init");
        let first = back_up(&repository, source.path());
        snapshots.push((client, first));
    }
    // Somebody is at work, as far as the records say.
    let laptop = bed.storage("laptop", "laptop");
    for kind in [ObjectKind::Client, ObjectKind::Pending] {
        let bytes = kind.name().as_bytes();
        let name = Name::new(kind, object_id(&[bytes]));
        laptop.put(name, &[bytes]).unwrap();
    }
    let before = files(bed.root());
    let bed = Arc::new(bed);
    let attempts = runtime().block_on(attack(&bed));
    let total: usize = attempts.values().sum();
    eprintln!("{total} attempts of a client that may only add: {attempts:?}");
    assert!(total > 10_000, "{total}");

    let after = files(bed.root());
    for (path, bytes) in &before {
        let is_same = after.get(path).is_some_and(|found| found == bytes);
        assert!(is_same, "{} was deleted or changed", path.display());
    }
    // What was added is in the intruder's own repository, under the name that its bytes have.
    for path in after.keys().filter(|path| !before.contains_key(*path)) {
        assert!(
            path.starts_with(bed.repository("laptop")),
            "{}",
            path.display()
        );
        let name = path.file_name().unwrap().to_str().unwrap();
        let hash = object_id(&[&after[path]]).to_string();
        assert_eq!(name, hash, "{}", path.display());
        // Whoever keeps the repository removes it.
        fs::remove_file(path).unwrap();
    }
    for (client, snapshot) in snapshots {
        let storage = Arc::new(LocalStorage::new(bed.repository(client)));
        let repository = Arc::new(Repository::open(storage, &password()).expect("open"));
        let report = repository.check(CheckOptions::default().read_data(ReadData::All));
        assert_eq!(report.expect("check").problems, 0);
        let loaded = repository.load_snapshot(snapshot).expect("a snapshot");
        let target = tempfile::tempdir().unwrap();
        let options = RestoreOptions::new(target.path()).subpath(source.path().to_owned());
        let summary = repository
            .restore(options, snapshot, &loaded)
            .expect("restore");
        assert_eq!(summary.errors, 0);
        compare::assert_same_contents(source.path(), target.path());
    }
}

/// Statuses, and how often each was the answer.
type Seen = BTreeMap<String, usize>;

/// Tries what there is.
async fn attack(bed: &Arc<Bed>) -> Seen {
    let own = bed.repository("laptop");
    let objects: BTreeMap<String, Vec<u8>> = files(&own)
        .into_iter()
        .map(|(path, bytes)| {
            let below = path.strip_prefix(&own).unwrap();
            (below.to_str().unwrap().to_owned(), bytes)
        })
        .collect();
    let objects = Arc::new(objects);
    let repositories = [
        "laptop",
        "desktop",
        "nobody",
        ".",
        "..",
        "",
        "laptop%2F..%2Fdesktop",
        "%2e%2e%2Frepositories%2Fdesktop",
        "laptop/../desktop",
        "..%2F..%2Fsettings",
    ];
    let tries = repositories
        .map(|repository| tokio::spawn(try_all(Arc::clone(bed), repository, Arc::clone(&objects))));
    let mut seen = make_up(bed).await;
    for attempt in tries {
        for (status, count) in attempt.await.unwrap() {
            *seen.entry(status).or_default() += count;
        }
    }
    seen
}

/// Every method on every path that is one, and on many that are none.
async fn try_all(
    bed: Arc<Bed>,
    repository: &'static str,
    objects: Arc<BTreeMap<String, Vec<u8>>>,
) -> Seen {
    let mut raw = Raw::connect(&bed, Some(bed.token("laptop"))).await;
    let id = "5a".repeat(32);
    let mut paths: Vec<String> = objects.keys().cloned().collect();
    let mangled: Vec<String> = paths
        .iter()
        .step_by(7)
        .flat_map(|path| {
            [
                path.to_uppercase(),
                format!("/{path}"),
                format!("{path}/"),
                format!("./{path}"),
                format!("x/../{path}"),
                path.replace('/', "%2F"),
                path.replace('/', "//"),
                format!("{path}%00"),
                format!("{path}?x"),
            ]
        })
        .collect();
    paths.extend(mangled);
    let kinds = ObjectKind::ALL.into_iter().map(ObjectKind::name);
    for folder in kinds.chain(["target", "sets", "deleted", "tmp", "", ".."]) {
        paths.extend([
            folder.to_owned(),
            format!("{folder}/"),
            format!("{folder}/{id}"),
        ]);
        paths.push(format!("{folder}/../config"));
    }
    let others = [
        "create",
        "folders",
        "leftovers/0",
        "leftovers/-1",
        "leftovers/",
        "create/x",
    ];
    paths.extend(others.map(str::to_owned));
    let methods = [
        "GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "MOVE", "PROPFIND",
    ];
    let session = "00".repeat(16);
    let mut seen = Seen::new();
    for path in &paths {
        let whole = format!("/v1/{repository}/{path}");
        for method in methods {
            let mut bodies: Vec<&[u8]> = vec![b""];
            if ["PUT", "POST"].contains(&method) {
                bodies.push(b"not what it says");
                bodies.extend(objects.get(path).map(Vec::as_slice));
            }
            for body in bodies {
                let len = body.len().to_string();
                let headers = [
                    ("content-length", len.as_str()),
                    ("tabane-session", &session),
                    ("range", "bytes=0-99"),
                ];
                let answer = raw.send(method, &whole, &headers, body).await;
                let status = match answer {
                    Some(answer) => {
                        let is_own = repository == "laptop";
                        assert!(is_own || answer.status >= 400, "{method} {whole}");
                        assert!(method != "HEAD" || answer.body_len == 0, "{whole}");
                        answer.status.to_string()
                    }
                    None => {
                        raw = Raw::connect(&bed, Some(bed.token("laptop"))).await;
                        "no request".to_owned()
                    }
                };
                *seen.entry(status).or_default() += 1;
            }
        }
    }
    seen
}

/// Objects that the intruder makes up, puts, replaces, and takes back.
async fn make_up(bed: &Bed) -> Seen {
    let mut raw = Raw::connect(bed, Some(bed.token("laptop"))).await;
    let (session, other) = ("22".repeat(16), "11".repeat(16));
    let mut seen = Seen::new();
    for kind in ObjectKind::ALL {
        for number in 0..20_u8 {
            let bytes = [kind.name().as_bytes(), &[number]].concat();
            let name = Name::new(kind, object_id(&[&bytes]));
            let path = format!("/v1/laptop/{}", name.path());
            let len = bytes.len().to_string();
            for (method, session) in [
                ("PUT", &session),
                ("PUT", &session),
                ("POST", &session),
                ("DELETE", &other),
                ("DELETE", &session),
                ("DELETE", &session),
            ] {
                let headers = [
                    ("tabane-session", session.as_str()),
                    ("content-length", &len),
                ];
                let (headers, body) = match method {
                    "DELETE" => (&headers[..1], &[][..]),
                    _ => (&headers[..], &bytes[..]),
                };
                let answer = raw.send(method, &path, headers, body).await.unwrap();
                *seen.entry(answer.status.to_string()).or_default() += 1;
            }
        }
    }
    seen
}
