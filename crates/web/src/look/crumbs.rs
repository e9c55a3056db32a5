//! The way from the root of a snapshot to a path.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use maud::{Markup, html};

/// Every step links to its `address`, but the last one, which is the `heading`.
pub fn crumbs(
    path: &Path,
    address: impl Fn(&Path) -> String,
    heading: impl Fn(&str) -> Markup,
) -> Markup {
    let mut above = PathBuf::from("/");
    let mut steps = vec![("Files".to_owned(), above.clone())];
    for name in path.iter().skip(1) {
        above.push(name);
        steps.push((tabane_text::escape(name.as_bytes()), above.clone()));
    }
    let last = steps.len() - 1;
    html! {
        nav aria-label="Path" { ol class="crumbs" {
            @for (number, (name, path)) in steps.iter().enumerate() {
                li {
                    @if number == last { (heading(name)) }
                    @else { a href=(address(path)) { bdi { (name) } } }
                }
            }
        } }
    }
}
