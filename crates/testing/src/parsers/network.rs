//! What comes over the network: messages of a cluster, writes into a ring, requests to the pages
//! of `tabane web`.

use std::fmt::Debug;
use std::io::{self, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use rustix::net::sockopt::set_socket_linger;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tabane_fabric::{Receiver, Ring, Tcp};
use tabane_storage::{Id, Listed, Name, ObjectKind};
use tabane_striped::cluster::wire::{
    self, DATA_MAGIC, FRAME_HEADER_LEN, FabricAddress, FlowUsage, FrameHeader, FrameKey, Open,
    Pass, Peer, Reply, Request, Scrub, Source, Status, Stripe, Usage,
};
use tabane_web::parts::{Fields, PropertiesWanted, parse_path, path_text};

/// Blocks of which the payload of a frame consists.
const FRAME_BLOCK_LEN: usize = 16;

/// Bytes at the start of an input that say which frame is expected.
const EXPECTED_LEN: usize = 16;

/// Reads the input as something that a client or a node sends. The first byte chooses what.
pub fn wire(input: &[u8]) {
    let Some((&first, bytes)) = input.split_first() else {
        return;
    };
    match first % 6 {
        0 => message::<Request>(bytes, wire::REQUEST_MAX),
        1 => message::<Reply>(bytes, wire::REPLY_MAX),
        2 => {
            // The length is any, too.
            let _ = wire::receive::<Request>(&mut &*bytes, wire::REQUEST_MAX);
            let _ = wire::receive::<Reply>(&mut &*bytes, wire::REPLY_MAX);
        }
        3 => {
            for found in [
                wire::expect_greeting(&mut &*bytes),
                wire::check_greeting(&mut &*bytes, DATA_MAGIC),
            ] {
                assert!(found.is_err() || found.is_ok_and(|version| version <= wire::VERSION));
            }
        }
        4 => {
            if let Ok(text) = std::str::from_utf8(bytes)
                && let Ok(address) = text.parse::<FabricAddress>()
            {
                assert!(!address.provider.is_empty() && !address.host.is_empty());
                let again = address.to_string().parse();
                // Brackets around a host are lost, be there one or many.
                if !address.host.contains(['[', ']']) {
                    assert_eq!(again, Ok(address));
                }
            }
        }
        _ => frame(bytes),
    }
}

fn message<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8], max: usize) {
    let sent = [&(bytes.len() as u32).to_le_bytes(), bytes].concat();
    let Ok(message) = wire::receive::<T>(&mut &sent[..], max) else {
        return;
    };
    let mut again = Vec::new();
    wire::send(&mut again, &message).expect("memory");
    let again = wire::receive::<T>(&mut &again[..], max).expect("a message that comes back");
    assert_eq!(again, message);
}

fn frame_key() -> FrameKey {
    FrameKey::new(&[5; 32])
}

/// The frame that the first bytes of an input expect.
fn expected(bytes: &[u8; EXPECTED_LEN]) -> FrameHeader {
    let number = |at: usize| {
        let bytes = bytes[at..].first_chunk::<4>();
        u32::from_le_bytes(*bytes.expect("four bytes"))
    };
    FrameHeader {
        stripe: u64::from(number(0)) << 32 | u64::from(number(4)),
        sector: number(8),
        index: number(12),
    }
}

fn frame(bytes: &[u8]) {
    let Some((header, frame)) = bytes.split_first_chunk() else {
        return;
    };
    let (key, header) = (frame_key(), expected(header));
    let len = frame.len().saturating_sub(FRAME_HEADER_LEN) / FRAME_BLOCK_LEN * FRAME_BLOCK_LEN;
    if let Ok(payload) = key.open(header, frame, len) {
        assert_eq!(payload.len(), len);
        let again = [&key.seal(header, &[payload]), payload].concat();
        assert_eq!(again, frame);
    }
}

pub fn wire_samples() -> Vec<Vec<u8>> {
    let name = Name::new(ObjectKind::Pack, Id([1; 32]));
    let pass = Pass {
        token: [1; 32],
        key: [2; 32],
    };
    let address = FabricAddress {
        provider: "tcp".to_owned(),
        host: "fe80::1".to_owned(),
        port: 7442,
    };
    let peer = Peer {
        name: "node-1".to_owned(),
        address: "10.0.0.1:7441".to_owned(),
        pass: pass.clone(),
        ring: 1 << 20,
        fabric: Some(address.clone()),
    };
    let stripe = |source| Stripe {
        number: 3,
        name,
        object_len: 70_000,
        generation: 1,
        seal: Some([7; 16]),
        by_role: vec![0, 1, 2, 3],
        source,
        lag: 4,
    };
    let rebuilt = Source::Nodes {
        role: 1,
        others: vec![2],
        yields: true,
    };
    let open = Open {
        session: [9; 16],
        members: 4,
        me: 1,
        client_ring: 1 << 20,
        peer_ring: 1 << 18,
    };
    let requests = [
        Request::Create,
        Request::Put(name, 1 << 20),
        Request::Get(name, Some((1, 2))),
        Request::List(ObjectKind::Snapshot),
        Request::RemoveLeftovers(3600),
        Request::Open(open),
        Request::Join([9; 16], vec![None, Some(peer)]),
        Request::Stripe(
            [9; 16],
            stripe(Source::Client {
                schedules: vec!["chain".to_owned(), "direct".to_owned()],
                by_sector: vec![1, 0],
            }),
        ),
        Request::Stripe([9; 16], stripe(rebuilt)),
        Request::Withdraw(vec![1, 2, 3]),
        Request::Doubts,
    ];
    let status = Status {
        version: "0.1.0".to_owned(),
        uptime_s: 1,
        free_bytes: 2,
        sessions: 3,
        stripes: 4,
        stored_bytes: 5,
        relayed_bytes: 6,
        withdrawn: 7,
        certificate_until: Some(8),
        quota_bytes: None,
        scrub: Some(Scrub::default()),
    };
    let usage = Usage {
        flows: vec![FlowUsage::default(); 2],
        ..Usage::default()
    };
    let listed = Listed {
        id: Id([1; 32]),
        len: 4711,
        modified: SystemTime::UNIX_EPOCH + Duration::from_secs(1),
    };
    let missing = tabane_storage::StorageErrorKind::NotFound.into();
    let replies = [
        Reply::Done,
        Reply::Count(7),
        Reply::List(vec![listed]),
        Reply::Opened(vec![pass], Some(address)),
        Reply::Joined(2),
        Reply::Status(status),
        Reply::failed(&missing),
        Reply::Usage(usage),
        Reply::Names(vec![name]),
    ];
    let sent = |message: &dyn Fn(&mut Vec<u8>) -> io::Result<()>| {
        let mut bytes = Vec::new();
        message(&mut bytes).expect("memory");
        bytes
    };
    let mut samples = Vec::new();
    for request in &requests {
        let bytes = sent(&|to| wire::send(to, request));
        samples.extend([[&[0], &bytes[4..]].concat(), [&[2], &bytes[..]].concat()]);
    }
    for reply in &replies {
        let bytes = sent(&|to| wire::send(to, reply));
        samples.push([&[1], &bytes[4..]].concat());
    }
    samples.push([&[3], &sent(&|to| wire::greet(to))[..]].concat());
    samples.push([&[3], &wire::greeting(DATA_MAGIC)[..]].concat());
    samples.push(b"\x04verbs@10.1.0.1:7442".to_vec());
    samples.push(b"\x04tcp@[::1]:1".to_vec());
    let (header, payload) = ([0; EXPECTED_LEN], [8; 3 * FRAME_BLOCK_LEN]);
    let sealed = frame_key().seal(expected(&header), &[&payload]);
    samples.push([&[5], &header[..], &sealed, &payload].concat());
    samples
}

/// Bytes of the ring that a peer writes into.
const RING_LEN: usize = 4096;

/// Bytes of an input that fit into the buffers of a connection.
const SENT_LEN_MAX: usize = 32 << 10;

/// Sends the input, as a peer that writes into a ring.
pub fn ring(input: &[u8]) {
    let (mut client, server) = connection().expect("a connection on this machine");
    let sent = &input[..input.len().min(SENT_LEN_MAX)];
    client.write_all(sent).expect("room for the bytes");
    client.shutdown(Shutdown::Write).expect("a connection");
    let ring = Arc::new(Ring::new(RING_LEN, 1));
    let endpoint = Tcp::new(server, Some(Arc::clone(&ring))).expect("an endpoint");
    let receiver = Receiver::new(ring, Arc::new(endpoint));
    let tail = receiver.tails().remove(0);
    let frames = Mutex::new(Vec::new());
    receiver.run_and_tell(|len| frames.lock().expect("no panic").push(len));
    let frames = frames.into_inner().expect("no panic");
    assert!(frames.iter().sum::<u64>() <= RING_LEN as u64);
    let mut at = 0;
    for (number, len) in (0..).zip(&frames) {
        // Behind a header of 16 bytes each.
        at += 16;
        let frame = tail.frame(number, Duration::ZERO).expect("a frame");
        assert_eq!(frame, &sent[at..at + *len as usize]);
        at += *len as usize;
    }
    assert!(tail.frame(frames.len() as u64, Duration::ZERO).is_err());
}

/// Two ends. The first is closed at once when it is dropped: it would keep a port for a minute.
fn connection() -> io::Result<(TcpStream, TcpStream)> {
    thread_local! {
        static LISTENER: TcpListener = TcpListener::bind("127.0.0.1:0").expect("a port");
    }
    LISTENER.with(|listener| {
        let client = TcpStream::connect(listener.local_addr()?)?;
        set_socket_linger(&client, Some(Duration::ZERO))?;
        let (server, _) = listener.accept()?;
        server.set_read_timeout(Some(Duration::from_secs(5)))?;
        Ok((client, server))
    })
}

pub fn ring_samples() -> Vec<Vec<u8>> {
    let write = |offset: u64, bytes: &[u8], immediate: u32| {
        let len = (bytes.len() as u32).to_le_bytes();
        [
            &offset.to_le_bytes()[..],
            &len,
            &immediate.to_le_bytes(),
            bytes,
        ]
        .concat()
    };
    let frame = |offset, len: usize| write(offset, &vec![b'a'; len], len as u32);
    vec![
        frame(0, 100),
        [
            frame(0, 1024),
            frame(1024, 1),
            frame(1025, 0),
            frame(1025, 500),
        ]
        .concat(),
        (0..5)
            .flat_map(|number| frame(1024 * number, 1024))
            .collect(),
        frame(0, 1025),
        frame(4096, 1),
        write(0, b"", 1 << 31 | 5),
        write(0, b"abc", 4),
        frame(0, 100)[..50].to_vec(),
    ]
}

/// Reads the input as something that a browser or a program sends to `tabane web`. The first byte
/// chooses what.
pub fn web(input: &[u8]) {
    let Some((&first, bytes)) = input.split_first() else {
        return;
    };
    if first % 3 == 0 {
        let _ = PropertiesWanted::parse(bytes);
        return;
    }
    let text = String::from_utf8_lossy(bytes);
    if first % 3 == 1 {
        if let Some(path) = parse_path(&text) {
            assert!(path.is_absolute() && path.components().all(|part| part.as_os_str() != ".."));
            assert_eq!(parse_path(&path_text(&path)), Some(path));
        }
        return;
    }
    let fields = Fields::parse(&text);
    for name in ["a", "", "path"] {
        assert_eq!(fields.has(name), fields.bytes(name).is_some());
        let _ = (fields.text(name), fields.number(name));
        assert!(fields.path(name).starts_with(Path::new("/")));
    }
}

pub fn web_samples() -> Vec<Vec<u8>> {
    let samples: [&[u8]; 8] = [
        b"\x00<?xml version=\"1.0\"?><propfind xmlns=\"DAV:\"><prop><getetag/><e xmlns=\"x:\"/>\
          </prop></propfind>",
        b"\x00<D:propfind xmlns:D=\"DAV:\"><D:allprop/></D:propfind>",
        b"\x00<a:propfind xmlns:a=\"DAV:\"><a:propname/><!-- x --></a:propfind>",
        b"\x00<!DOCTYPE a [<!ENTITY b \"c\">]><D:propfind xmlns:D=\"DAV:\"/>",
        b"\x00 ",
        b"\x01/a%20b/%ff/c",
        b"\x01a/%2e%2e/b",
        b"\x02a=1&path=%2Fx%FF&=&b=c+d",
    ];
    samples.map(<[u8]>::to_vec).into()
}
