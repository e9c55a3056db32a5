//! The project's Markdown pages: their code blocks, links and figures.

pub mod chart;
pub mod console;
pub mod links;
#[cfg(feature = "store")]
pub mod pictures;
pub mod recording;

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the source tree.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The project's own files with this extension, as paths from [`root`], sorted.
pub fn files(extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(root(), Path::new(""), extension, &mut found);
    found.sort();
    found
}

fn collect(root: &Path, folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for item in fs::read_dir(root.join(folder)).expect("a folder of the source tree") {
        let item = item.expect("an entry of the source tree");
        let name = item.file_name();
        let path = folder.join(&name);
        if item.file_type().is_ok_and(|kind| kind.is_dir()) {
            let built = ["target", "corpus", "book"].map(std::ffi::OsStr::new);
            let hidden = name.to_string_lossy().starts_with('.') && name != ".github";
            if !hidden && !built.contains(&name.as_os_str()) {
                collect(root, &path, extension, found);
            }
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
}

/// The text of a file of the source tree.
pub fn read(path: &Path) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A fenced block of a page.
#[derive(Debug, PartialEq, Eq)]
pub struct CodeBlock {
    /// The number of its first line, from 1.
    pub line: usize,
    /// What stands behind the fence, as `console`.
    pub language: String,
    /// The heading that the block is under.
    pub section: String,
    /// Its lines.
    pub text: String,
}

/// The fenced blocks of a page.
pub fn code_blocks(page: &str) -> Vec<CodeBlock> {
    let mut blocks = Vec::new();
    let mut open: Option<CodeBlock> = None;
    let mut section = String::new();
    for (number, line) in (1..).zip(page.lines()) {
        let inner = line.trim_start_matches("> ").trim_start();
        match (inner.strip_prefix("```"), &mut open) {
            (Some(language), None) => {
                open = Some(CodeBlock {
                    line: number + 1,
                    language: language.trim().to_owned(),
                    section: section.clone(),
                    text: String::new(),
                });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => {
                block.text += line;
                block.text.push('\n');
            }
            (None, None) => {
                if let Some(heading) = line.strip_prefix('#') {
                    section = heading.trim_start_matches('#').trim().to_owned();
                }
            }
        }
    }
    blocks
}

/// A page with its fenced blocks emptied, line for line.
pub fn without_code_blocks(page: &str) -> String {
    let mut text = String::new();
    let mut inside = false;
    for line in page.lines() {
        let fence = line
            .trim_start_matches("> ")
            .trim_start()
            .starts_with("```");
        inside ^= fence;
        if !inside && !fence {
            text += line;
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_their_language_line_and_section() {
        let page = "# One\n\ntext\n```sh\na\nb\n```\n## Two\n```\nc\n```\n";
        let block = |line, language: &str, section: &str, text: &str| CodeBlock {
            line,
            language: language.to_owned(),
            section: section.to_owned(),
            text: text.to_owned(),
        };
        let expected = [block(5, "sh", "One", "a\nb\n"), block(10, "", "Two", "c\n")];
        assert_eq!(code_blocks(page), expected);
        assert_eq!(
            without_code_blocks(page),
            "# One\n\ntext\n\n\n\n\n## Two\n\n\n\n"
        );
    }
}
