//! The rule that keeps `agent/core` pure: a fixed list of dependencies, the bans
//! of its clippy.toml, and no name of a module of `std` that reaches outside.

use std::collections::BTreeMap;

use toml_edit::{DocumentMut, Item};

use super::Finding;
use super::lexer::{Token, is};
use super::tree::Tree;

const CORE: &str = "agent/core/";
/// What core may depend on, each without clock, file, socket, thread or chance.
const ALLOWED: [&str; 12] = [
    "bytes",
    "crc32c",
    "forebay-wire",
    "jiff",
    "num-bigint",
    "pco",
    "prost",
    "serde_json",
    "strsim",
    "zmij",
    "zstd",
    "proptest", // in its tests only
];
/// What clippy must ban in core; it knows the types behind every alias.
const BANNED_TYPES: [&str; 9] = [
    "std::time::Instant",
    "std::time::SystemTime",
    "std::fs::File",
    "std::net::TcpStream",
    "std::net::TcpListener",
    "std::net::UdpSocket",
    "std::thread::JoinHandle",
    "std::collections::HashMap",
    "std::collections::HashSet",
];
const BANNED_METHODS: [&str; 7] = [
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    "std::thread::spawn",
    "std::thread::sleep",
    "std::env::var",
    "jiff::Timestamp::now",
    "jiff::Zoned::now",
];
/// Modules of std that core does not name at all.
const CLOSED: [&str; 7] = ["env", "fs", "net", "os", "process", "thread", "time"];
/// A length of time is a value, no clock.
const OPEN_IN_TIME: &str = "Duration";

pub(crate) fn core(tree: &Tree) -> Vec<Finding> {
    let mut findings = dependencies(tree);
    findings.extend(bans(tree));
    for (path, file) in tree.rust_below("agent/core/src/") {
        for (at, token) in file.tokens.iter().enumerate() {
            for name in closed_modules(&file.tokens, at) {
                let text = format!("core is pure: std::{name} reaches outside");
                findings.push(Finding::new(path, token.line, text));
            }
        }
    }
    findings
}

fn parse(tree: &Tree, path: &str) -> Option<DocumentMut> {
    tree.files.get(path)?.text.parse().ok()
}

fn dependencies(tree: &Tree) -> Vec<Finding> {
    let path = format!("{CORE}Cargo.toml");
    let Some(doc) = parse(tree, &path) else {
        return Vec::new();
    };
    ["dependencies", "dev-dependencies", "build-dependencies"]
        .iter()
        .filter_map(|section| doc.get(section)?.as_table_like())
        .flat_map(|section| section.iter())
        .filter(|(name, _)| !ALLOWED.contains(name))
        .map(|(name, _)| {
            let text =
                format!("core may not depend on {name}: its list is fixed in tidy's purity rule");
            Finding::new(&path, 0, text)
        })
        .collect()
}

fn bans(tree: &Tree) -> Vec<Finding> {
    if !tree.files.contains_key("agent/core/Cargo.toml") {
        return Vec::new();
    }
    let path = format!("{CORE}clippy.toml");
    let doc = parse(tree, &path).unwrap_or_default();
    let mut findings = Vec::new();
    for (key, wanted) in [
        ("disallowed-types", BANNED_TYPES.as_slice()),
        ("disallowed-methods", BANNED_METHODS.as_slice()),
    ] {
        let entries = entries(doc.get(key));
        for ban in wanted.iter().filter(|ban| !entries.contains_key(**ban)) {
            findings.push(Finding::new(&path, 0, format!("{key} does not ban {ban}")));
        }
        for (ban, _) in entries.iter().filter(|(_, reason)| reason.is_empty()) {
            findings.push(Finding::new(
                &path,
                0,
                format!("{key}: the ban of {ban} has no reason"),
            ));
        }
    }
    findings
}

/// Paths with their reasons; a bare string is a path without one.
fn entries(item: Option<&Item>) -> BTreeMap<String, String> {
    let values = item.and_then(Item::as_array).into_iter().flatten();
    values
        .filter_map(|value| {
            let field = |key: &str| -> Option<String> {
                let text = value.as_inline_table()?.get(key)?.as_str()?;
                Some(text.to_owned())
            };
            let path = field("path").or_else(|| value.as_str().map(str::to_owned))?;
            Some((path, field("reason").unwrap_or_default()))
        })
        .collect::<BTreeMap<String, String>>()
}

/// Closed modules that a path `std::..` at `at` names, in a group too.
fn closed_modules(tokens: &[Token], at: usize) -> Vec<&str> {
    let root = is(tokens, at, &["std", ":", ":"]) || is(tokens, at, &["core", ":", ":"]);
    let Some(first) = tokens.get(at + 3).filter(|_| root) else {
        return Vec::new();
    };
    let names = if first.text == "{" {
        top_of_group(tokens, at + 3)
    } else {
        vec![at + 3]
    };
    names
        .into_iter()
        .filter(|name| !is(tokens, *name, &["time", ":", ":", OPEN_IN_TIME]))
        .map(|name| tokens[name].text.as_str())
        .filter(|name| CLOSED.contains(name))
        .collect()
}

/// Indices of the first name of each part of the group at `open`.
fn top_of_group(tokens: &[Token], open: usize) -> Vec<usize> {
    let mut names = vec![open + 1];
    let mut at = open + 1;
    while at < tokens[open].close {
        if tokens[at].text == "," {
            names.push(at + 1);
        }
        at = tokens[at].close + 1;
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places_of;

    const SOURCE: &str = "agent/core/src/a.rs";

    #[test]
    fn core_names_nothing_that_reaches_outside() {
        for (name, source, good) in [
            ("a vector", "use std::collections::BTreeMap;", true),
            ("a file", "use std::fs::File;", false),
            ("a clock", "fn f() { std::time::Instant::now() }", false),
            ("a length of time", "use std::time::Duration;", true),
            ("in a group", "use std::{fmt, net::TcpStream};", false),
            ("good group", "use std::{fmt, cmp::{Ord, net}};", true),
            ("in a string", "const A: &str = \"std::fs\";", true),
        ] {
            assert_eq!(
                places_of(core, &[(SOURCE, source)]).is_empty(),
                good,
                "{name}"
            );
        }
        assert!(places_of(core, &[("agent/node/src/a.rs", "use std::fs;")]).is_empty());
    }

    /// A clippy.toml with every ban, `reason` in each.
    fn full(reason: &str) -> String {
        let list = |bans: &[&str]| {
            bans.iter()
                .map(|ban| format!("{{ path = \"{ban}\", reason = \"{reason}\" }},"))
                .collect::<String>()
        };
        format!(
            "disallowed-types = [{}]\ndisallowed-methods = [{}]\n",
            list(&BANNED_TYPES),
            list(&BANNED_METHODS)
        )
    }

    #[test]
    fn every_ban_stands_with_its_reason() {
        let manifest = (
            "agent/core/Cargo.toml",
            "[dependencies]\ncrc32c.workspace = true\n",
        );
        let count =
            |clippy: &str| places_of(core, &[manifest, ("agent/core/clippy.toml", clippy)]).len();
        assert_eq!(count(&full("why")), 0);
        assert_eq!(count(&full("")), BANNED_TYPES.len() + BANNED_METHODS.len());
        assert_eq!(
            count(&full("why").replace("std::fs::File", "std::fs::Other")),
            1
        );
        assert_eq!(
            places_of(core, &[manifest]).len(),
            BANNED_TYPES.len() + BANNED_METHODS.len()
        );
    }

    #[test]
    fn the_dependencies_of_core_are_a_fixed_list() {
        let manifest = "[dependencies]\ntokio.workspace = true\njiff.workspace = true\n";
        let files = [
            ("agent/core/Cargo.toml", manifest),
            ("agent/core/clippy.toml", &full("why")),
        ];
        assert_eq!(places_of(core, &files), ["agent/core/Cargo.toml:0"]);
    }
}
