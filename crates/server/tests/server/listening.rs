//! Connections of those who are not known, and of those who are slow.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use rustix::process::{Resource, getrlimit, setrlimit};
use tabane_server::clients::Client;
use tabane_server::{Role, settings};
use tabane_storage::{Name, ObjectKind, ServerCredentials, Storage, StorageErrorKind, object_id};

use crate::bed::{Bed, Raw, client, runtime};

fn put(storage: &dyn Storage, bytes: &[u8]) {
    let name = Name::new(ObjectKind::Pack, object_id(&[bytes]));
    storage.put(name, &[bytes]).unwrap();
    assert!(storage.get(name, None).unwrap() == bytes);
}

#[test]
fn tokens_that_nobody_has_are_looked_at_a_few_times_only() {
    let bed = Bed::new(&[("laptop", Role::Append, "laptop")]);
    let before = bed.storage("laptop", "laptop");
    before.create().unwrap();
    let secret = "0123456789abcdef".repeat(4);
    let (statuses, after) = runtime().block_on(async {
        let mut tries = Vec::new();
        for _ in 0..20 {
            let mut raw = Raw::connect(&bed, Some(&secret)).await;
            tries.push(tokio::spawn(async move {
                let answer = raw.send("GET", "/v1/laptop/config", &[], b"").await;
                answer.map(|answer| answer.status)
            }));
        }
        let mut statuses = Vec::new();
        for attempt in tries {
            statuses.push(attempt.await.unwrap().unwrap());
        }
        // The right one is not looked at either, on a new connection.
        let mut raw = Raw::connect(&bed, Some(bed.token("laptop"))).await;
        let answer = raw
            .send("GET", "/v1/laptop/config", &[], b"")
            .await
            .unwrap();
        (statuses, (answer.status, answer.kind))
    });
    let count = |status| statuses.iter().filter(|found| **found == status).count();
    assert_eq!((count(401), count(429)), (10, 10), "{statuses:?}");
    assert_eq!(after, (429, Some("retryable".to_owned())));
    // A connection that has shown the token goes on.
    put(&before, b"still there");
    let log = bed.log();
    let told: Vec<_> = log
        .iter()
        .filter(|line| line.contains("a token that no client"))
        .collect();
    assert_eq!(told.len(), 10, "{log:?}");
    assert!(
        !log.iter().any(|line| line.contains(&secret[..8])),
        "{log:?}"
    );
    assert!(
        !log.iter()
            .any(|line| line.contains(&bed.token("laptop")[..8])),
        "{log:?}"
    );
}

/// The answer to a wrong token takes as long wherever it differs: what is compared are hashes.
#[test]
fn a_token_that_begins_right_is_as_wrong_as_any() {
    let bed = Bed::new(&[("laptop", Role::Append, "laptop")]);
    let right = bed.token("laptop").to_owned();
    for wrong in [
        String::new(),
        right[..right.len() - 1].to_owned(),
        format!("{right}0"),
        right.to_uppercase(),
        format!(" {right} x"),
    ] {
        let credentials = ServerCredentials::default().token(wrong);
        let error = bed
            .storage_with(credentials, "laptop")
            .list(ObjectKind::Key)
            .unwrap_err();
        assert_eq!(error.kind(), StorageErrorKind::Unauthorized, "{error}");
        assert!(
            error.to_string().contains("no client with this token"),
            "{error}"
        );
    }
}

#[test]
fn certificates_that_have_expired_are_refused() {
    let bed = Bed::new(&[]);
    let settings = bed.settings();
    settings::add(&settings, client("laptop", Role::Append, "laptop"), true).unwrap();
    thread::sleep(Duration::from_millis(1100));
    let with = |pem: Vec<u8>| {
        let credentials = ServerCredentials::default().certificate(pem);
        bed.storage_with(credentials, "laptop").create()
    };
    with(fs::read(settings.join("laptop.pem")).unwrap()).unwrap();
    let (expired, _) = settings::issue(&settings, "laptop", Duration::ZERO).unwrap();
    thread::sleep(Duration::from_millis(2100));
    let error = with(expired.into_bytes()).unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::Unauthorized, "{error}");
    assert!(
        error.to_string().to_lowercase().contains("expired"),
        "{error}"
    );
    // The server answers first and writes its line then.
    let deadline = Instant::now() + Duration::from_secs(10);
    while !bed.log().iter().any(|line| line.contains("expired")) {
        assert!(Instant::now() < deadline, "{:?}", bed.log());
        thread::sleep(Duration::from_millis(10));
    }
    // One that is good, of a client that is not listed.
    let hour = Duration::from_secs(3600);
    let (unlisted, _) = settings::issue(&settings, "desktop", hour).unwrap();
    let error = with(unlisted.into_bytes()).unwrap_err();
    assert!(error.to_string().contains("lists no client"), "{error}");
}

/// A certificate that was stolen stays out when its client gets another one, or a token.
#[test]
fn a_client_has_the_certificate_of_its_entry_and_no_other() {
    let bed = Bed::new(&[("desktop", Role::Append, "desktop")]);
    let settings = bed.settings();
    let hour = Duration::from_secs(3600);
    let (first, hash) = settings::issue(&settings, "laptop", hour).unwrap();
    let (second, _) = settings::issue(&settings, "laptop", hour).unwrap();
    let (of_desktop, _) = settings::issue(&settings, "desktop", hour).unwrap();
    let kind_of_answer = |pem: &str, repository: &str| {
        let credentials = ServerCredentials::default().certificate(pem.as_bytes().to_vec());
        let answer = bed
            .storage_with(credentials, repository)
            .list(ObjectKind::Key);
        answer.err().map(|error| error.kind())
    };
    let refused = Some(StorageErrorKind::Unauthorized);
    let clients = settings::clients(&settings);
    let before = fs::read_to_string(&clients).unwrap();
    let list_laptop = |certificate_hash| {
        let laptop = Client {
            certificate_hash,
            ..client("laptop", Role::Append, "laptop")
        };
        fs::write(&clients, format!("{before}{}", laptop.entry())).unwrap();
        thread::sleep(Duration::from_millis(1500));
    };
    list_laptop(Some(hash));
    assert_ne!(kind_of_answer(&first, "laptop"), refused);
    assert_eq!(kind_of_answer(&second, "laptop"), refused);
    // The client has a token and no certificate.
    assert_eq!(kind_of_answer(&of_desktop, "desktop"), refused);
    // Whoever signs the certificates says which are good.
    list_laptop(None);
    assert_ne!(kind_of_answer(&first, "laptop"), refused);
    assert_ne!(kind_of_answer(&second, "laptop"), refused);
}

#[test]
fn ten_thousand_connections_that_say_nothing_hold_up_nobody() {
    let bed = Bed::new(&[("laptop", Role::Append, "laptop")]);
    let files = getrlimit(Resource::Nofile);
    let _ = setrlimit(
        Resource::Nofile,
        rustix::process::Rlimit {
            current: files.maximum,
            ..files
        },
    );
    let room = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) as usize;
    // The server keeps the ends of a few hundred.
    let wanted = 10_000.min(room.saturating_sub(2000));
    if wanted < 10_000 {
        eprintln!("NOT CHECKED: 10000 idle connections: only {wanted} fit into the limit of files");
    }
    let storage = bed.storage("laptop", "laptop");
    storage.create().unwrap();
    let mut idle = Vec::new();
    for number in 0..wanted {
        let mut stream = TcpStream::connect(("127.0.0.1", bed.port())).unwrap();
        if number % 3 == 0 {
            // The beginning of a handshake, and no more.
            let _ = stream.write_all(&[22, 3, 1]);
        }
        idle.push(stream);
    }
    let start = Instant::now();
    put(&storage, b"on a connection that was there");
    put(&bed.storage("laptop", "laptop"), b"on a new one");
    let took = start.elapsed();
    eprintln!(
        "{} idle connections; two objects on old and new connections in {took:?}",
        idle.len()
    );
    assert!(took < Duration::from_secs(9), "{took:?}");
}

/// Uploads that stall hold up nobody else, and leave nothing.
#[test]
fn clients_that_stop_in_the_middle_of_an_object() {
    let bed = Bed::new(&[
        ("laptop", Role::Append, "laptop"),
        ("slow", Role::Append, "laptop"),
    ]);
    let storage = bed.storage("laptop", "laptop");
    storage.create().unwrap();
    let temporary = bed.repository("laptop").join("tmp");
    let runtime = runtime();
    let id = "00".repeat(32);
    let stalled: Vec<_> = (0..40)
        .map(|_| {
            let mut raw = runtime.block_on(Raw::connect(&bed, Some(bed.token("slow"))));
            let path = format!("/v1/laptop/packs/00/{id}");
            runtime.spawn(async move {
                let begun = stream::once(async { Ok(Frame::data(vec![0; 3_000_000].into())) });
                let body = StreamBody::new(begun.chain(stream::pending())).boxed_unsync();
                let headers = [("content-length", "9000000")];
                raw.send_body("PUT", &path, &headers, body).await;
            })
        })
        .collect();
    thread::sleep(Duration::from_millis(500));
    for number in 0..20 {
        put(&storage, format!("object {number}").as_bytes());
    }
    for stalled in stalled {
        stalled.abort();
    }
    drop(runtime);
    let start = Instant::now();
    while fs::read_dir(&temporary).unwrap().count() > 0 {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "files of stalled uploads stay"
        );
        thread::sleep(Duration::from_millis(10));
    }
    let name = Name::from_path(&format!("packs/00/{id}")).unwrap();
    assert_eq!(
        storage.stat(name).unwrap_err().kind(),
        StorageErrorKind::NotFound
    );
}
