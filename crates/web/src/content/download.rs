//! Files and directories to keep.

use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use tabane_archive::Archive;
use tabane_store::client::{Presence, Purpose};
use tabane_store::entry::{Entry, Kind, Piece};
use tabane_store::file_reader::FileReader;

use super::preview::{PICTURE_LEN_MAX, picture_kind};
use super::stream;
use crate::answer::{CONTENT_POLICY, Failure};
use crate::app::AppState;
use crate::asked::{Asked, Found};
use crate::encoding::segment;
use crate::places::Opened;

/// Bytes that are read at a time: the fewer pieces, the less their way between threads costs.
const READ_LEN: u64 = 512 << 10;

/// Files from this length on are announced, so that no prune takes them away in the middle.
const ANNOUNCED_LEN_MIN: u64 = 64 << 20;

/// Sends a file to be kept, or a part of it.
pub async fn raw(
    State(app): AppState,
    asked: Asked,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let target = asked.target()?;
    let name = target.path.file_name().map(|name| name.as_bytes().to_vec());
    let (reader, tag, presence) = asked
        .shown
        .ask(move |opened| {
            let entry = target.find(opened)?.entry;
            let tag = tag_of(&entry);
            let Kind::File { content, .. } = entry.kind else {
                return Err(Failure::wrong("this is no regular file: it has no bytes"));
            };
            let reader = FileReader::new(opened.cache()?, content);
            let presence = announce(opened, reader.size() >= ANNOUNCED_LEN_MIN);
            Ok((Arc::new(reader), tag, presence))
        })
        .await?;
    let mut answer = send(reader, &tag, presence, &headers, app.report);
    let name = disposition(&name.unwrap_or_default());
    answer
        .headers_mut()
        .insert(header::CONTENT_DISPOSITION, name);
    Ok(answer)
}

/// The bytes of a file, or the part of them that the headers of the request ask for. `presence` is
/// kept until they are sent.
pub fn send(
    reader: Arc<FileReader>,
    tag: &str,
    presence: Option<Presence>,
    headers: &HeaderMap,
    report: fn(&str),
) -> Response {
    let size = reader.size();
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let is_same = text(header::IF_RANGE).is_none_or(|known| known == tag);
    let wanted = text(header::RANGE).filter(|_| is_same);
    let mut answer = Response::builder()
        .header(header::CONTENT_TYPE, "application/octet-stream")
        .header(header::CONTENT_SECURITY_POLICY, CONTENT_POLICY)
        .header(header::ACCEPT_RANGES, "bytes")
        .header(header::ETAG, tag);
    let mut range = 0..size;
    match wanted.map(|range| parse_range(range, size)) {
        Some(Wanted::Part(part)) => {
            let Range { start, end } = part;
            let told = format!("bytes {start}-{}/{size}", end - 1);
            answer = answer.status(StatusCode::PARTIAL_CONTENT);
            answer = answer.header(header::CONTENT_RANGE, told);
            range = part;
        }
        Some(Wanted::Nothing) => {
            let answer = answer.status(StatusCode::RANGE_NOT_SATISFIABLE);
            let answer = answer.header(header::CONTENT_RANGE, format!("bytes */{size}"));
            return answer
                .body(Body::empty())
                .expect("the headers are well-formed");
        }
        Some(Wanted::Whole) | None => {}
    }
    let len = range.end - range.start;
    let mut at = range.start;
    let body = stream::body(Some(len), report, move || {
        let _presence = &presence;
        let len = (range.end - at).min(READ_LEN);
        let bytes = reader.read_at(at, len as usize)?;
        at += bytes.len() as u64;
        Ok((!bytes.is_empty()).then_some(bytes))
    });
    answer.body(body).expect("the headers are well-formed")
}

/// Sends a picture to be shown.
pub async fn show(asked: Asked) -> Result<Response, Failure> {
    let target = asked.target()?;
    let no_picture = || Failure::not_found("this is no picture that can be shown");
    let (kind, bytes) = asked
        .shown
        .ask(move |opened| {
            let Kind::File { content, .. } = target.find(opened)?.entry.kind else {
                return Err(no_picture());
            };
            let reader = FileReader::new(opened.cache()?, content);
            if reader.size() > PICTURE_LEN_MAX {
                return Err(no_picture());
            }
            let bytes = reader.read_at(0, reader.size() as usize)?;
            let kind = picture_kind(&bytes).ok_or_else(no_picture)?;
            Ok((kind, bytes))
        })
        .await?;
    let answer = Response::builder()
        .header(header::CONTENT_TYPE, kind)
        .header(header::CONTENT_SECURITY_POLICY, CONTENT_POLICY)
        .header(header::CONTENT_DISPOSITION, "inline")
        .body(bytes.into());
    Ok(answer.expect("the headers are well-formed"))
}

/// Sends anything as a tar archive.
pub async fn tar(app: AppState, asked: Asked) -> Result<Response, Failure> {
    archive(app, asked, "tar", "application/x-tar").await
}

/// Sends anything as a zip archive.
pub async fn zip(app: AppState, asked: Asked) -> Result<Response, Failure> {
    archive(app, asked, "zip", "application/zip").await
}

async fn archive(
    State(app): AppState,
    asked: Asked,
    form: &'static str,
    kind: &'static str,
) -> Result<Response, Failure> {
    let target = asked.target()?;
    let mut name = match target.path.file_name() {
        Some(name) => name.as_bytes().to_vec(),
        None => b"snapshot".to_vec(),
    };
    name.extend_from_slice(format!(".{form}").as_bytes());
    let (mut archive, mut cache, presence) = asked
        .shown
        .ask(move |opened| {
            let Found {
                snapshot, entry, ..
            } = target.find(opened)?;
            let archive = match form {
                "tar" => Archive::tar(snapshot, &target.path, entry),
                _ => Archive::zip(&target.path, entry),
            };
            Ok((archive, Arc::clone(opened.cache()?), announce(opened, true)))
        })
        .await?;
    let body = stream::body(None, app.report, move || {
        let _presence = &presence;
        archive.next(&mut cache)
    });
    let answer = Response::builder()
        .header(header::CONTENT_TYPE, kind)
        .header(header::CONTENT_SECURITY_POLICY, CONTENT_POLICY)
        .header(header::CONTENT_DISPOSITION, disposition(&name))
        .body(body);
    Ok(answer.expect("the headers are well-formed"))
}

/// Keeps a prune from taking packs away meanwhile, where the repository can be written to.
fn announce(opened: &Opened, is_long: bool) -> Option<Presence> {
    let announced = is_long.then(|| Presence::announce(&opened.repository, Purpose::Restore));
    announced?.ok()
}

/// A tag that tells the contents of files apart.
pub fn tag_of(entry: &Entry) -> String {
    let mut hasher = blake3::Hasher::new();
    let pieces: &[Piece] = match &entry.kind {
        Kind::File { content, .. } => content,
        _ => &[],
    };
    for piece in pieces {
        hasher.update(piece.block().unwrap_or_default().0.as_slice());
        hasher.update(&piece.len().to_le_bytes());
    }
    format!("\"{}\"", &hasher.finalize().to_hex()[..32])
}

/// What of a file is wanted.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Whole,
    Part(Range<u64>),
    /// A part that is not there.
    Nothing,
}

/// Reads `bytes=0-99`, `bytes=100-` or `bytes=-100`. Of several parts, the whole is sent.
fn parse_range(text: &str, size: u64) -> Wanted {
    let parts = text
        .strip_prefix("bytes=")
        .and_then(|part| part.split_once('-'));
    let Some((first, last)) = parts else {
        return Wanted::Whole;
    };
    let (first, last) = (first.trim(), last.trim());
    let range = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => first..last.saturating_add(1).min(size),
        (Ok(first), Err(_)) if last.is_empty() => first..size,
        (Err(_), Ok(last)) if first.is_empty() => size.saturating_sub(last)..size,
        _ => return Wanted::Whole,
    };
    if range.is_empty() {
        Wanted::Nothing
    } else {
        Wanted::Part(range)
    }
}

/// What makes the browser keep a file under this name, without running or showing it.
pub fn disposition(name: &[u8]) -> HeaderValue {
    let plain = |&byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b' ' => char::from(byte),
        _ => '_',
    };
    let plain: String = name.iter().map(plain).collect();
    // What a browser makes a file name of: no control characters, nothing that turns writing.
    let shown = |c: char| if tabane_text::is_unsafe(c) { '_' } else { c };
    let text: String = String::from_utf8_lossy(name).chars().map(shown).collect();
    let encoded = segment(text.as_bytes());
    let value = format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}");
    HeaderValue::from_str(&value).expect("it is ASCII without control characters")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_as_browsers_ask_for_them() {
        for (text, wanted) in [
            ("bytes=0-99", Wanted::Part(0..100)),
            ("bytes=100-", Wanted::Part(100..1000)),
            ("bytes=-100", Wanted::Part(900..1000)),
            ("bytes=-5000", Wanted::Part(0..1000)),
            ("bytes=900-99999", Wanted::Part(900..1000)),
            ("bytes=1000-", Wanted::Nothing),
            ("bytes=5-4", Wanted::Whole),
            ("bytes=0-1,5-6", Wanted::Whole),
            ("lines=0-1", Wanted::Whole),
            (
                "bytes=18446744073709551615-18446744073709551615",
                Wanted::Nothing,
            ),
        ] {
            assert_eq!(parse_range(text, 1000), wanted, "{text}");
        }
        assert_eq!(parse_range("bytes=-0", 1000), Wanted::Nothing);
    }

    #[test]
    fn no_name_gets_out_of_its_header() {
        for name in [
            &b"a\r\nSet-Cookie: x=1"[..],
            b"\"; filename=\"evil.exe",
            b"../../etc/passwd",
            b"\xff\xfe\0",
            "\u{202e}gpj.exe".as_bytes(),
        ] {
            let value = disposition(name);
            let text = value.to_str().expect("ASCII");
            let (plain, encoded) = text.split_once("; filename*=UTF-8''").expect("two names");
            let plain = plain
                .strip_prefix("attachment; filename=\"")
                .expect("quoted");
            let plain = plain.strip_suffix('"').expect("quoted");
            assert!(!plain.contains(['"', '/', '\\', ';', '\r', '\n']), "{text}");
            assert!(!encoded.contains([';', '"', '/', '\\', ' ']), "{text}");
            assert!(
                !encoded.contains("%E2%80%AE") && !encoded.contains("%0D"),
                "{text}"
            );
        }
        let value = disposition("b\u{fc}cher.odt".as_bytes());
        assert!(
            value
                .to_str()
                .expect("ASCII")
                .ends_with("UTF-8''b%C3%BCcher.odt")
        );
    }
}
