//! The files of the page itself.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{Markup, PreEscaped};

/// A file of the page.
pub struct Asset {
    name: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
    /// The beginning of the hash of its bytes, so that browsers can keep it for good.
    version: LazyLock<String>,
}

macro_rules! assets {
    ($($(#[$doc:meta])* $variable:ident = $name:literal, $kind:literal;)*) => {
        $($(#[$doc])* pub static $variable: Asset = Asset {
            name: $name,
            kind: $kind,
            bytes: include_bytes!(concat!("assets/", $name)),
            version: LazyLock::new(|| version(include_bytes!(concat!("assets/", $name)))),
        };)*
        static ALL: &[&Asset] = &[$(&$variable),*];
    };
}

assets! {
    /// How pages look.
    STYLE = "style.css", "text/css; charset=utf-8";
    /// What pages do by themselves.
    SCRIPT = "page.js", "text/javascript; charset=utf-8";
    /// The mark in the browser's tab.
    ICON = "icon.svg", "image/svg+xml";
}

fn version(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..12].to_owned()
}

impl Asset {
    /// Its address, which changes with its bytes.
    pub fn address(&self) -> String {
        format!("/assets/{}/{}", *self.version, self.name)
    }
}

/// The mark beside the name.
pub fn mark() -> Markup {
    PreEscaped(include_str!("assets/mark.svg").to_owned())
}

/// Answers with a file.
pub async fn get(Path((_, name)): Path<(String, String)>) -> Response {
    let Some(asset) = ALL.iter().find(|asset| asset.name == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, asset.kind),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    (headers, asset.bytes).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Browsers load little, and everything from here.
    #[test]
    fn the_files_are_small_and_name_no_other_server() {
        let len: usize = ALL.iter().map(|asset| asset.bytes.len()).sum();
        assert!(len <= 150 * 1024, "{len} bytes");
        for asset in ALL {
            let text = std::str::from_utf8(asset.bytes).expect("text");
            let text = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("://"), "{}", asset.name);
        }
    }
}
