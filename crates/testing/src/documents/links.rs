//! Links of Markdown pages.

use std::path::{Component, Path, PathBuf};

use super::{read, root, without_code_blocks};

/// The targets of a page's links and images, without those in code.
pub fn targets(page: &str) -> Vec<String> {
    let text = without_code_blocks(page);
    let mut targets = Vec::new();
    for line in text.lines() {
        // What stands between single backticks is code.
        let prose: String = line.split('`').step_by(2).collect();
        for (at, _) in prose.match_indices("](") {
            let rest = &prose[at + 2..];
            targets.extend(rest.split(')').next().map(str::to_owned));
        }
        if let Some((label, target)) = prose.split_once("]: ")
            && label.starts_with('[')
        {
            targets.push(target.to_owned());
        }
    }
    targets
}

/// What GitHub and mdBook make of a heading: `Two words` is `two-words`.
pub fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = |c: char| c.is_alphanumeric() || c == '-' || c == '_' || c == ' ';
    let text: String = text.chars().filter(|&c| kept(c)).collect();
    text.replace(' ', "-")
}

fn anchors(page: &str) -> Vec<String> {
    let text = without_code_blocks(page);
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(anchor).collect()
}

/// The links of a page of the source tree that lead nowhere. Links to other sites are not tried.
pub fn dead(page: &Path) -> Vec<String> {
    let text = read(page);
    let dead = |target: &String| {
        if target.contains("://") || target.starts_with("mailto:") {
            return false;
        }
        let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
        let path = match file {
            "" => page.to_owned(),
            _ => clean(&page.parent().unwrap_or(Path::new("")).join(file)),
        };
        if !root().join(&path).exists() {
            return true;
        }
        let is_page = path.extension().is_some_and(|extension| extension == "md");
        !fragment.is_empty() && is_page && !anchors(&read(&path)).contains(&fragment.to_owned())
    };
    targets(&text).into_iter().filter(dead).collect()
}

/// A relative path without `..`.
fn clean(path: &Path) -> PathBuf {
    let mut cleaned = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                cleaned.pop();
            }
            other => cleaned.push(other),
        }
    }
    cleaned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_and_headings_have_their_anchors() {
        let page = "See [a](b.md#c) and ![d](e.svg), `[no](link)`.\n```\n[no](x)\n```\n[f]: g.md\n";
        assert_eq!(targets(page), ["b.md#c", "e.svg", "g.md"]);
        assert_eq!(anchor("## What `x` costs, now"), "what-x-costs-now");
    }
}
