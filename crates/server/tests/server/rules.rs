//! Any requests of several clients, compared with a model of the rules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use proptest::prelude::*;
use tabane_server::{Realm, Role, Service, Who};
use tabane_storage::protocol::{self, Operation};
use tabane_storage::{Id, Listed, Name, ObjectKind, object_id};

/// A request of one of three clients, in one of two sessions.
#[derive(Clone, Debug)]
struct Step {
    role: Role,
    session: u8,
    act: Act,
}

#[derive(Clone, Debug)]
enum Act {
    /// Object `number` of a kind, under its own name or a wrong one.
    Put(ObjectKind, u8, bool),
    Replace(ObjectKind, u8),
    Delete(ObjectKind, u8),
    Get(ObjectKind, u8, Option<(u64, u64)>),
    Stat(ObjectKind, u8),
    List(ObjectKind),
}

fn bytes(kind: ObjectKind, number: u8) -> Vec<u8> {
    match kind {
        // What the format says of copies is checked.
        ObjectKind::Copy => {
            let original = bytes(ObjectKind::Key, number);
            [b"TABANEY\x01K", &original[..]].concat()
        }
        _ => [
            kind.name().as_bytes(),
            &vec![number; usize::from(number) * 100],
        ]
        .concat(),
    }
}

fn name(kind: ObjectKind, number: u8) -> Name {
    match kind {
        ObjectKind::Config => Name::CONFIG,
        _ => Name::new(kind, object_id(&[&bytes(kind, number)])),
    }
}

fn kind() -> impl Strategy<Value = ObjectKind> {
    prop::sample::select(ObjectKind::ALL.to_vec())
}

fn act() -> impl Strategy<Value = Act> {
    let number = || 0..3_u8;
    prop_oneof![
        4 => (kind(), number(), prop::bool::weighted(0.1))
            .prop_map(|(kind, number, wrong)| Act::Put(kind, number, wrong)),
        1 => (kind(), number()).prop_map(|(kind, number)| Act::Replace(kind, number)),
        3 => (kind(), number()).prop_map(|(kind, number)| Act::Delete(kind, number)),
        2 => (kind(), number(), prop::option::of((0..300_u64, 1..100_u64)))
            .prop_map(|(kind, number, range)| Act::Get(kind, number, range)),
        1 => (kind(), number()).prop_map(|(kind, number)| Act::Stat(kind, number)),
        1 => kind().prop_map(Act::List),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let role = prop::sample::select(Role::ALL.to_vec());
    (role, 0..2_u8, act()).prop_map(|(role, session, act)| Step { role, session, act })
}

/// What must be there, and who put it.
#[derive(Default)]
struct Model {
    objects: BTreeMap<Name, Vec<u8>>,
    owners: BTreeMap<Name, (Role, u8)>,
}

impl Model {
    fn is_new(&self) -> bool {
        let hides = [
            ObjectKind::Config,
            ObjectKind::Copy,
            ObjectKind::Snapshot,
            ObjectKind::Index,
            ObjectKind::Unverified,
            ObjectKind::Pack,
        ];
        !self.objects.keys().any(|name| hides.contains(&name.kind))
    }

    fn may_put(&self, role: Role, name: Name) -> bool {
        match (role, name.kind) {
            (Role::Admin, _) | (_, ObjectKind::Client) => true,
            (Role::Read, _) => false,
            (Role::Append, kind) => match kind {
                ObjectKind::Pack
                | ObjectKind::Index
                | ObjectKind::Unverified
                | ObjectKind::Snapshot
                | ObjectKind::Pending => true,
                ObjectKind::Config | ObjectKind::Key => self.is_new(),
                // Only of a key that is there.
                ObjectKind::Copy => true,
                _ => false,
            },
        }
    }

    fn may_delete(&self, step: &Step, name: Name) -> bool {
        let is_own = self.owners.get(&name) == Some(&(step.role, step.session));
        match (step.role, name.kind) {
            (Role::Admin, _) => true,
            (_, ObjectKind::Client) => is_own,
            (
                Role::Append,
                ObjectKind::Pending
                | ObjectKind::Index
                | ObjectKind::Unverified
                | ObjectKind::Snapshot,
            ) => is_own,
            _ => false,
        }
    }

    /// The status that a request must have, after what it changes.
    fn expect(&mut self, step: &Step) -> u16 {
        match step.act {
            Act::Put(kind, number, is_wrong) => {
                let (name, mut content) = (name(kind, number), bytes(kind, number));
                if is_wrong && kind != ObjectKind::Config {
                    content.push(b'!');
                }
                if !self.may_put(step.role, name) {
                    return 403;
                }
                if self.objects.contains_key(&name) {
                    return 409;
                }
                if is_wrong && kind != ObjectKind::Config {
                    return 400;
                }
                let key = self::name(ObjectKind::Key, number);
                let is_orphan = kind == ObjectKind::Copy && !self.objects.contains_key(&key);
                if is_orphan && step.role < Role::Admin {
                    return 403;
                }
                self.objects.insert(name, content);
                self.owners.insert(name, (step.role, step.session));
                201
            }
            Act::Replace(kind, number) => {
                if step.role < Role::Admin {
                    return 403;
                }
                self.objects.insert(name(kind, number), bytes(kind, number));
                201
            }
            Act::Delete(kind, number) => {
                let name = name(kind, number);
                if !self.may_delete(step, name) {
                    return 403;
                }
                // Whoever put it may ask again when somebody else has deleted it.
                if self.owners.get(&name) == Some(&(step.role, step.session)) {
                    self.owners.remove(&name);
                }
                match self.objects.remove(&name) {
                    Some(_) => 204,
                    None => 404,
                }
            }
            Act::Get(kind, number, range) => match (self.objects.get(&name(kind, number)), range) {
                (None, _) => 404,
                (Some(_), None) => 200,
                (Some(bytes), Some((start, len))) if start + len <= bytes.len() as u64 => 206,
                (Some(_), Some(_)) => 416,
            },
            Act::Stat(kind, number) => match self.objects.get(&name(kind, number)) {
                Some(_) => 200,
                None => 404,
            },
            Act::List(ObjectKind::Config) if !self.objects.contains_key(&Name::CONFIG) => 404,
            Act::List(_) => 200,
        }
    }

    /// What a request must be answered with.
    fn body(&self, act: &Act) -> Vec<u8> {
        match *act {
            Act::Get(kind, number, range) => {
                let bytes = &self.objects[&name(kind, number)];
                match range {
                    None => bytes.clone(),
                    Some((start, len)) => bytes[start as usize..(start + len) as usize].to_vec(),
                }
            }
            _ => Vec::new(),
        }
    }
}

fn runtime() -> &'static tokio::runtime::Runtime {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    RUNTIME.get_or_init(crate::bed::runtime)
}

/// A client of `laptop` that is called as its role is.
fn who(role: Role, quota: Option<u64>) -> Who {
    Who {
        name: role.to_string(),
        role,
        repositories: Some(vec!["laptop".to_owned()]),
        quota,
        session: None,
    }
}

/// The status of the answer to a put.
fn put(service: &Service, who: Who, kind: ObjectKind, content: Vec<u8>) -> u16 {
    let name = Name::new(kind, object_id(&[&content]));
    let request = request_with(Operation::Put(name), 0, content);
    let answer = runtime().block_on(service.answer(who, request));
    answer.status().as_u16()
}

fn request_with(operation: Operation, session: u8, content: Vec<u8>) -> Request<Full<Bytes>> {
    let session = hex::encode([session; protocol::SESSION_LEN]);
    let request = Request::builder()
        .method(operation.method())
        .uri(operation.path("laptop"))
        .header(protocol::SESSION, session)
        .header("content-length", content.len());
    request.body(Full::new(content.into())).unwrap()
}

/// A service of the repository `laptop`, which is made.
fn service_in(dir: &std::path::Path) -> Service {
    let laptop = tabane_storage::LocalStorage::new(dir.join("laptop"));
    tabane_storage::Storage::create(&laptop).unwrap();
    Service::new(Realm::named(dir))
}

fn request(step: &Step) -> Request<Full<Bytes>> {
    let (operation, body) = match step.act {
        Act::Put(kind, number, is_wrong) => {
            let mut content = bytes(kind, number);
            if is_wrong && kind != ObjectKind::Config {
                content.push(b'!');
            }
            (Operation::Put(name(kind, number)), content)
        }
        Act::Replace(kind, number) => (Operation::Replace(name(kind, number)), bytes(kind, number)),
        Act::Delete(kind, number) => (Operation::Delete(name(kind, number)), Vec::new()),
        Act::Get(kind, number, _) => (Operation::Get(name(kind, number)), Vec::new()),
        Act::Stat(kind, number) => (Operation::Stat(name(kind, number)), Vec::new()),
        Act::List(kind) => (Operation::List(kind), Vec::new()),
    };
    let mut request = request_with(operation, step.session, body);
    if let Act::Get(_, _, Some((start, len))) = step.act {
        let range = format!("bytes={start}-{}", start + len - 1);
        request
            .headers_mut()
            .insert("range", range.parse().unwrap());
    }
    request
}

#[test]
fn readers_leave_room_for_the_records_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let service = service_in(dir.path());
    let record = |number: u32| number.to_le_bytes().to_vec();
    let added = (0..1000)
        .take_while(|number| {
            let content = record(*number);
            put(&service, who(Role::Read, None), ObjectKind::Client, content) == 201
        })
        .count();
    assert_eq!(added, 500);
    for (role, status) in [(Role::Read, 507), (Role::Append, 201)] {
        let content = record(1000 + role as u32);
        let answered = put(&service, who(role, None), ObjectKind::Client, content);
        assert_eq!(answered, status, "{role}");
    }
}

#[test]
fn a_full_quota_keeps_no_admin_from_freeing_space() {
    let dir = tempfile::tempdir().unwrap();
    let service = service_in(dir.path());
    let add = |role, kind, content: &str| put(&service, who(role, Some(10)), kind, content.into());
    assert_eq!(add(Role::Append, ObjectKind::Pack, "ten bytes."), 201);
    for kind in [
        ObjectKind::Pack,
        ObjectKind::Unverified,
        ObjectKind::Snapshot,
    ] {
        assert_eq!(add(Role::Admin, kind, "more"), 507, "{kind:?}");
    }
    for kind in [ObjectKind::Client, ObjectKind::Pending, ObjectKind::Index] {
        assert_eq!(add(Role::Append, kind, "what an append client adds"), 507);
        assert_eq!(add(Role::Admin, kind, "what a prune adds"), 201, "{kind:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_server_keeps_the_rules(steps in prop::collection::vec(step(), 1..60)) {
        let dir = tempfile::tempdir().unwrap();
        let service = service_in(dir.path());
        let mut model = Model::default();
        for step in &steps {
            let answer = runtime().block_on(service.answer(who(step.role, None), request(step)));
            let status = answer.status().as_u16();
            prop_assert_eq!(status, model.expect(step), "{:?}", step);
            let body = runtime().block_on(answer.into_body().collect()).unwrap().to_bytes();
            match step.act {
                Act::Get(..) if status < 300 => prop_assert_eq!(&body[..], model.body(&step.act)),
                Act::List(kind) if status == 200 => {
                    let listed = protocol::decode_list(&body).unwrap();
                    let found: BTreeSet<(Id, u64)> =
                        listed.iter().map(|Listed { id, len, .. }| (*id, *len)).collect();
                    let of_kind = model.objects.iter().filter(|(name, _)| name.kind == kind);
                    let expected = of_kind.map(|(name, bytes)| (name.id, bytes.len() as u64));
                    prop_assert_eq!(found, expected.collect::<BTreeSet<_>>());
                }
                _ => {}
            }
        }
        // Nothing else is there.
        let root = dir.path().join("laptop");
        let found = crate::bed::files(&root);
        let expected = model.objects.iter();
        let expected: BTreeMap<_, _> =
            expected.map(|(name, bytes)| (root.join(name.path()), bytes.clone())).collect();
        prop_assert_eq!(found, expected);
    }
}
