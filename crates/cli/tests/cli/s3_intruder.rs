//! Whoever has the S3 key of a laptop that may only add tries every call that there is.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::client::{HttpRequest, HttpRequestBody};

use crate::bed::{Bed, Ran, restored, run, varied};
use tabane_testing::gateway::{ACCESS_KEY, BUCKET, Gateway, SECRET_KEY};

const LAPTOP: &str = "laptop";
const LAPTOP_SECRET: &str = "the secret of the laptop";

/// A user of S3 who sends what they like.
struct User {
    credential: AwsCredential,
    endpoint: String,
    client: reqwest::Client,
    runtime: tokio::runtime::Runtime,
}

impl User {
    fn new(gateway: &Gateway, name: &str, secret: &str) -> Self {
        Self {
            credential: AwsCredential {
                key_id: name.to_owned(),
                secret_key: secret.to_owned(),
                token: None,
            },
            endpoint: gateway.endpoint(),
            client: reqwest::Client::new(),
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime"),
        }
    }

    /// Sends a request; returns status and body.
    fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> (u16, String) {
        let mut request = http::Request::builder()
            .method(method)
            .uri(format!("{}/{path}", self.endpoint));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = body.to_vec();
        let mut request: HttpRequest = request
            .body(HttpRequestBody::from(body.clone()))
            .expect("a request");
        let authorizer = AwsAuthorizer::new(&self.credential, "s3", "us-east-1");
        authorizer
            .try_authorize(&mut request, None)
            .expect("signed");
        let (parts, _) = request.into_parts();
        let sent = self
            .client
            .request(parts.method, parts.uri.to_string())
            .headers(parts.headers)
            .body(body)
            .send();
        self.runtime.block_on(async {
            let response = sent.await.expect("an answer");
            let status = response.status().as_u16();
            (status, response.text().await.unwrap_or_default())
        })
    }

    /// All versions of all objects, those of a key from the newest to the oldest, with deletions.
    fn versions(&self) -> BTreeMap<String, Vec<String>> {
        let (status, text) = self.send("GET", &format!("{BUCKET}?versions="), &[], b"");
        assert_eq!(status, 200, "{text}");
        assert!(text.contains("<IsTruncated>false<"), "{text}");
        let mut versions = BTreeMap::<String, Vec<String>>::new();
        let entries = text
            .split("<Version>")
            .flat_map(|part| part.split("<DeleteMarker>"))
            .skip(1);
        for entry in entries {
            let element = |name: &str| {
                let (_, rest) = entry.split_once(&format!("<{name}>")).expect(name);
                rest.split_once("</").expect(name).0.to_owned()
            };
            versions
                .entry(element("Key"))
                .or_default()
                .push(element("VersionId"));
        }
        versions
    }
}

/// Statuses, and how often each was the answer.
#[derive(Default)]
struct Seen(BTreeMap<u16, usize>);

impl Seen {
    fn add(&mut self, (status, _): (u16, String)) {
        *self.0.entry(status).or_default() += 1;
    }
}

#[test]
fn nothing_is_lost_to_an_s3_key_that_may_only_add() {
    let Some(gateway) = Gateway::start_with_users("an intruder with the S3 key of a laptop") else {
        return;
    };
    let root = User::new(&gateway, ACCESS_KEY, SECRET_KEY);
    // As docs/how-to/s3.md has it: versions first, then a key with the policy for adding.
    let versioning = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    let (status, text) = root.send(
        "PUT",
        &format!("{BUCKET}?versioning="),
        &[],
        versioning.as_bytes(),
    );
    assert_eq!(status, 200, "{text}");
    gateway.add_user(LAPTOP, LAPTOP_SECRET);
    let (status, text) = root.send(
        "PUT",
        &format!("{BUCKET}?policy="),
        &[],
        policy().as_bytes(),
    );
    assert!(status < 300, "{status} {text}");

    let bed = Bed::new();
    let tabane = |key: &str, secret: &str, args: &[&str]| -> Ran {
        let mut command: Command = bed.command(args);
        Gateway::credentials(&mut command)
            .env("AWS_ACCESS_KEY_ID", key)
            .env("AWS_SECRET_ACCESS_KEY", secret)
            .env("TABANE_REPOSITORY", gateway.url(BUCKET, "laptop"));
        run(&mut command)
    };
    let with_laptop = |args: &[&str]| tabane(LAPTOP, LAPTOP_SECRET, args);
    let source = bed.source().display().to_string();
    with_laptop(&["init"]).succeeds();
    with_laptop(&["backup", &source]).succeeds();
    fs::write(bed.source().join("more"), varied(1 << 20)).expect("a file");
    with_laptop(&["backup", &source]).succeeds();
    let refused = with_laptop(&["forget", "latest"]);
    assert!(refused.stderr.contains("403"), "{}", refused.stderr);
    // An object of somebody else.
    let (status, _) = root.send("PUT", &format!("{BUCKET}/other/object"), &[], b"of others");
    assert_eq!(status, 200);

    let before: BTreeMap<String, String> = root
        .versions()
        .into_keys()
        .filter_map(|key| {
            let (status, _) = root.send("GET", &format!("{BUCKET}/{key}"), &[], b"");
            // Records of clients are deleted.
            (status == 200).then(|| {
                let oldest = root.versions()[&key].last().cloned();
                (key, oldest.expect("a version"))
            })
        })
        .collect();
    let contents = |key: &str, version: &str| {
        root.send(
            "GET",
            &format!("{BUCKET}/{key}?versionId={version}"),
            &[],
            b"",
        )
    };
    let stored: BTreeMap<&String, (u16, String)> = before
        .iter()
        .map(|(key, version)| (key, contents(key, version)))
        .collect();

    let intruder = User::new(&gateway, LAPTOP, LAPTOP_SECRET);
    let seen = attack(&intruder, &before);
    let total: usize = seen.0.values().sum();
    eprintln!("{total} calls of an S3 key that may only add: {:?}", seen.0);
    assert!(total > 500, "{total}");

    // Every version that was there is there, and what it was.
    for (key, version) in &before {
        assert_eq!(contents(key, version), stored[key], "{key}");
        if !key.starts_with("laptop/") {
            assert_eq!(root.versions()[key].len(), 1, "{key}");
        }
    }
    // The steps of docs/how-to/s3.md: all but the oldest version of each object go.
    for (key, versions) in root.versions() {
        let newer = if before.contains_key(&key) {
            &versions[..versions.len() - 1]
        } else {
            // What the intruder has added.
            &versions[..]
        };
        for version in newer {
            root.send(
                "DELETE",
                &format!("{BUCKET}/{key}?versionId={version}"),
                &[],
                b"",
            );
        }
    }
    let with_root = |args: &[&str]| tabane(ACCESS_KEY, SECRET_KEY, args);
    with_root(&["check", "--read-data", "--no-cache"]).succeeds();
    let target = bed.path("target").display().to_string();
    with_root(&["restore", "latest", "--target", &target]).succeeds();
    let file = bed.source().join("more");
    let back = fs::read(restored(&bed.path("target"), &file)).expect("it was restored");
    assert!(back == varied(1 << 20));
}

/// The policy of docs/reference/object-stores.md, for one user.
fn policy() -> String {
    let allow = |action: &str, resource: &str| {
        format!(
            "{{\"Effect\": \"Allow\", \"Principal\": {{\"AWS\": [\"{LAPTOP}\"]}}, \"Action\": \
             [{action}], \"Resource\": [{resource}]}}"
        )
    };
    let resource = |path: &str| format!("\"arn:aws:s3:::{BUCKET}{path}\"");
    let statements = [
        allow("\"s3:ListBucket\"", &resource("")),
        allow("\"s3:GetObject\", \"s3:PutObject\"", &resource("/laptop/*")),
        allow(
            "\"s3:DeleteObject\"",
            &format!(
                "{}, {}",
                resource("/laptop/clients/*"),
                resource("/laptop/pending/*")
            ),
        ),
    ];
    let statements = statements.join(", ");
    format!("{{\"Version\": \"2012-10-17\", \"Statement\": [{statements}]}}")
}

fn attack(intruder: &User, before: &BTreeMap<String, String>) -> Seen {
    let mut seen = Seen::default();
    let of_object = [
        "tagging",
        "acl",
        "retention",
        "legal-hold",
        "torrent",
        "attributes",
        "restore",
        "select",
        "uploads",
        "uploadId=x",
        "versionId=null",
    ];
    let first = before.keys().next().expect("an object");
    for (key, version) in before {
        let path = format!("{BUCKET}/{key}");
        let copied = format!("/{BUCKET}/{first}");
        seen.add(intruder.send("GET", &path, &[], b""));
        seen.add(intruder.send("HEAD", &path, &[], b""));
        seen.add(intruder.send("DELETE", &path, &[], b""));
        seen.add(intruder.send("PUT", &path, &[], b"garbage"));
        seen.add(intruder.send("PUT", &path, &[("x-amz-copy-source", &copied)], b""));
        seen.add(intruder.send(
            "PUT",
            &path,
            &[("x-amz-acl", "public-read-write")],
            b"garbage",
        ));
        seen.add(intruder.send("PUT", &path, &[("if-none-match", "*")], b"garbage"));
        for method in ["GET", "DELETE"] {
            let path = format!("{path}?versionId={version}");
            seen.add(intruder.send(method, &path, &[], b""));
        }
        for what in of_object {
            let query = if what.contains('=') {
                what.to_owned()
            } else {
                format!("{what}=")
            };
            for method in ["GET", "PUT", "POST", "DELETE"] {
                seen.add(intruder.send(method, &format!("{path}?{query}"), &[], b"<X></X>"));
            }
        }
        // An upload in parts, over the object.
        let (status, text) = intruder.send("POST", &format!("{path}?uploads="), &[], b"");
        if status == 200
            && let Some((_, rest)) = text.split_once("<UploadId>")
        {
            let id = rest.split_once("</").expect("an ID").0;
            seen.add(intruder.send(
                "PUT",
                &format!("{path}?partNumber=1&uploadId={id}"),
                &[],
                b"x",
            ));
            let whole = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>\
                         9dd4e461268c8034f5c8564e155c67a6</ETag></Part></CompleteMultipartUpload>";
            let end = format!("{path}?uploadId={id}");
            seen.add(intruder.send("POST", &end, &[], whole.as_bytes()));
        }
    }
    let all: String = before
        .keys()
        .map(|key| format!("<Object><Key>{key}</Key></Object>"))
        .collect();
    let versions: String = before
        .iter()
        .map(|(key, id)| format!("<Object><Key>{key}</Key><VersionId>{id}</VersionId></Object>"))
        .collect();
    for objects in [all, versions] {
        let body = format!("<Delete>{objects}</Delete>");
        let bucket = format!("{BUCKET}?delete=");
        let digest = [("x-amz-checksum-algorithm", "SHA256")];
        seen.add(intruder.send("POST", &bucket, &digest, body.as_bytes()));
        seen.add(intruder.send("POST", &bucket, &[], body.as_bytes()));
    }
    let of_bucket = [
        "policy",
        "versioning",
        "lifecycle",
        "acl",
        "ownershipControls",
        "object-lock",
        "encryption",
        "cors",
        "tagging",
        "logging",
        "notification",
        "website",
        "replication",
        "publicAccessBlock",
        "requestPayment",
        "accelerate",
        "inventory",
        "analytics",
        "metrics",
        "versions",
        "uploads",
        "location",
        "list-type=2",
        "policyStatus",
    ];
    let bodies = [
        "",
        "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>",
        "{\"Version\": \"2012-10-17\", \"Statement\": [{\"Effect\": \"Allow\", \"Principal\": \
         \"*\", \"Action\": \"s3:*\", \"Resource\": \"arn:aws:s3:::bucket/*\"}]}",
        "<LifecycleConfiguration><Rule><Status>Enabled</Status><Filter/><Expiration><Days>1</Days>\
         </Expiration></Rule></LifecycleConfiguration>",
    ];
    for what in of_bucket {
        let query = if what.contains('=') {
            what.to_owned()
        } else {
            format!("{what}=")
        };
        for method in ["GET", "PUT", "POST", "DELETE"] {
            for body in bodies {
                let path = format!("{BUCKET}?{query}");
                seen.add(intruder.send(method, &path, &[], body.as_bytes()));
            }
        }
    }
    for (method, path) in [
        ("GET", ""),
        ("PUT", "another-bucket"),
        ("DELETE", BUCKET),
        ("PUT", BUCKET),
        ("HEAD", BUCKET),
        ("GET", "bucket/other/object"),
        ("PUT", "bucket/other/object"),
        ("DELETE", "bucket/other/object"),
        ("PUT", "bucket/laptop/../other/object"),
        ("PUT", "bucket/laptop%2F..%2Fother/object"),
        ("DELETE", "bucket/laptop/clients/../config"),
        ("DELETE", "bucket/laptop/clients/%2E%2E/config"),
        ("PUT", "bucket/laptop"),
        ("DELETE", "bucket/laptop/"),
        ("DELETE", "bucket/laptop/packs/"),
        ("PUT", "bucket/laptop/packs/"),
        ("PUT", "bucket/laptop/new"),
    ] {
        seen.add(intruder.send(method, path, &[], b"garbage"));
    }
    seen
}
