//! Files that need each other can only be read together: no more than three do.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tabane_testing::documents::{files, read};

/// Files of a circle at most.
const CIRCLE_LEN_MAX: usize = 3;

/// A module's path within its crate, and the modules that it names.
type Graph = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

/// Crate and path of the module in this file; `None` of what is no source of a crate.
fn module(file: &Path) -> Option<(String, Vec<String>)> {
    let text = file.to_str()?.strip_suffix(".rs")?;
    let (package, rest) = text.strip_prefix("crates/")?.split_once("/src/")?;
    let mut path: Vec<String> = rest.split('/').map(str::to_owned).collect();
    if matches!(
        path.last().map(String::as_str),
        Some("mod" | "lib" | "main")
    ) {
        path.pop();
    }
    Some((package.to_owned(), path))
}

/// Without comments and the module of tests at the end.
fn code(text: &str) -> String {
    let is_test = |line: &&str| !line.starts_with("#[cfg(test)]");
    let lines = text.lines().take_while(is_test);
    lines
        .filter_map(|line| line.split("//").next())
        .collect::<Vec<_>>()
        .join("\n")
}

/// The paths of a tree like `a::{b, c::{d, e}}`.
fn expand(prefix: &str, tree: &str, found: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((head, inner)) = tree.strip_suffix('}').and_then(|tree| tree.split_once('{')) else {
        found.push(format!("{prefix}{tree}"));
        return;
    };
    let prefix = format!("{prefix}{head}");
    let (mut depth, mut start) = (0, 0);
    for (at, sign) in inner.char_indices() {
        match sign {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&prefix, &inner[start..at], found);
                start = at + 1;
            }
            _ => {}
        }
    }
    expand(&prefix, &inner[start..], found);
}

/// Paths that code names: in `use`, and in full elsewhere.
fn paths(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in code.split("use ").skip(1) {
        if let Some((tree, _)) = part.split_once(';') {
            expand("", tree, &mut found);
        }
    }
    let is_of_path = |sign: char| sign.is_alphanumeric() || sign == '_' || sign == ':';
    let words = code.split(|sign| !is_of_path(sign));
    let full = |word: &&str| word.starts_with("crate::") || word.starts_with("super::");
    found.extend(words.filter(full).map(str::to_owned));
    found
}

/// The module that a path leads into, seen from the module `from`.
fn target(from: &[String], path: &str, modules: &Graph) -> Option<Vec<String>> {
    let mut base = from.to_vec();
    let mut steps = path.split("::").map(str::trim).peekable();
    match steps.next()? {
        "crate" => base.clear(),
        "self" => {}
        "super" => {
            base.pop();
            while steps.next_if_eq(&"super").is_some() {
                base.pop();
            }
        }
        _ => return None,
    }
    base.extend(steps.map(str::to_owned));
    while !modules.contains_key(&base) {
        base.pop()?;
    }
    Some(base)
}

/// The modules that can be reached from one.
fn reached(from: &[String], graph: &Graph) -> BTreeSet<Vec<String>> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from.to_vec()];
    while let Some(module) = next.pop() {
        for named in &graph[&module] {
            if reached.insert(named.clone()) {
                next.push(named.clone());
            }
        }
    }
    reached
}

/// The sets of modules that reach each other, of more than so many.
fn circles(graph: &Graph, len_max: usize) -> BTreeSet<Vec<String>> {
    let reach: BTreeMap<_, _> = graph
        .keys()
        .map(|from| (from, reached(from, graph)))
        .collect();
    let circle = |(from, to): (&&Vec<String>, &BTreeSet<Vec<String>>)| {
        let back = to.iter().filter(|module| reach[module].contains(*from));
        back.map(|module| module.join("::")).collect::<Vec<_>>()
    };
    let found = reach.iter().map(circle);
    found.filter(|circle| circle.len() > len_max).collect()
}

#[test]
fn no_more_than_three_files_need_each_other() {
    let mut crates: BTreeMap<String, BTreeMap<Vec<String>, String>> = BTreeMap::new();
    for file in files("rs") {
        if let Some((package, path)) = module(&file) {
            let code = code(&read(&file));
            crates.entry(package).or_default().insert(path, code);
        }
    }
    assert!(crates.len() > 20, "{:?}", crates.keys());
    let mut wrong = Vec::new();
    for (package, modules) in crates {
        let none = modules.keys().map(|path| (path.clone(), BTreeSet::new()));
        let mut graph: Graph = none.collect();
        for (path, code) in &modules {
            let named = paths(code).into_iter();
            let named = named.filter_map(|named| target(path, &named, &graph));
            let named = named.filter(|named| named != path).collect();
            graph.insert(path.clone(), named);
        }
        for circle in circles(&graph, CIRCLE_LEN_MAX) {
            wrong.push(format!("{package}: {}", circle.join(", ")));
        }
    }
    assert!(wrong.is_empty(), "circles:\n{}", wrong.join("\n"));
}

#[test]
fn circles_are_found() {
    let module = |name: &str| vec![name.to_owned()];
    let edges = |names: &str| {
        names
            .chars()
            .map(|name| module(&name.to_string()))
            .collect()
    };
    let graph = [("a", "b"), ("b", "cd"), ("c", "ae"), ("d", ""), ("e", "d")];
    let graph: Graph = graph.map(|(from, to)| (module(from), edges(to))).into();
    assert_eq!(
        circles(&graph, 2),
        [["a", "b", "c"].map(str::to_owned).to_vec()].into()
    );
    assert_eq!(circles(&graph, 3), BTreeSet::new());
    let mut found = Vec::new();
    expand("", "crate::{a, b::{self, c}}", &mut found);
    assert_eq!(found, ["crate::a", "crate::b::self", "crate::b::c"]);
}
