//! Rules about who names whom inside a package: flow order of modules, the
//! firmware in the simulated device only, sled in one file.

use std::collections::BTreeSet;

use super::Finding;
use super::lexer::{Token, is};
use super::tree::{File, Tree};

/// The crates whose `mod` lines stand in flow order, and the module that wires
/// all others and so stands last.
const FLOWS: [(&str, Option<&str>); 2] = [
    ("agent/core/src/", Some("pipeline")),
    ("agent/node/src/", None),
];

/// A module uses only modules above it in lib.rs. Test code may use all.
pub(crate) fn flow(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (dir, last) in FLOWS {
        let lib = format!("{dir}lib.rs");
        let Some(file) = tree.files.get(&lib) else {
            continue;
        };
        let order = declared_modules(&file.tokens);
        if let Some(last) = last
            && order.iter().any(|name| name == last)
            && order.last().is_none_or(|name| name != last)
        {
            findings.push(Finding::new(
                &lib,
                0,
                format!("`mod {last}` wires all and stands last"),
            ));
        }
        for (path, file) in tree.rust_below(dir).filter(|(_, file)| !file.test) {
            findings.extend(against_flow(path, file, dir, &order));
        }
    }
    findings
}

/// Names of the `mod x;` and `mod x {}` lines at the top level, tests left out.
fn declared_modules(tokens: &[Token]) -> Vec<String> {
    let mut names = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        if token.text == "mod" && !token.test {
            names.extend(tokens.get(at + 1).map(|name| name.text.clone()));
        }
        at = token.close + 1;
    }
    names
}

fn against_flow(path: &str, file: &File, dir: &str, order: &[String]) -> Vec<Finding> {
    let parts: Vec<&str> = path[dir.len()..]
        .trim_end_matches(".rs")
        .split('/')
        .collect();
    let own = parts[0];
    // lib.rs and main.rs stand above the order: they name what they like.
    let Some(own_place) = order.iter().position(|name| name == own) else {
        return Vec::new();
    };
    let file_depth = parts.iter().filter(|part| **part != "mod").count();
    let mut findings = Vec::new();
    for (line, name) in root_paths(&file.tokens, file_depth) {
        match order.iter().position(|module| *module == name) {
            Some(place) if place > own_place => {
                let text = format!("{own} uses {name}, which stands below it in lib.rs");
                findings.push(Finding::new(path, line, text));
            }
            Some(_) => {}
            None => {
                let text = format!("{name} is no module of lib.rs: name it by its module");
                findings.push(Finding::new(path, line, text));
            }
        }
    }
    findings
}

/// First names of all paths that start at the crate's root: `crate::x`, or as
/// many `super::` as the module is deep. `file_depth` is the depth of the file.
fn root_paths(tokens: &[Token], file_depth: usize) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut blocks: Vec<usize> = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        blocks.retain(|close| at < *close);
        if is(tokens, at, &["mod"]) && is(tokens, at + 2, &["{"]) {
            blocks.push(tokens[at + 2].close);
        }
        if !token.test
            && let Some(start) = path_from_root(tokens, at, file_depth + blocks.len())
        {
            let macro_call = is(tokens, start + 1, &["!"]);
            if !macro_call {
                found.extend(first_names(tokens, start));
            }
            at = start;
        } else {
            at += 1;
        }
    }
    found
}

/// Where the names start after a path to the root, if one starts at `at`.
fn path_from_root(tokens: &[Token], at: usize, depth: usize) -> Option<usize> {
    let inside_path = at >= 1 && matches!(tokens[at - 1].text.as_str(), ":" | "$");
    if inside_path {
        return None;
    }
    if is(tokens, at, &["crate", ":", ":"]) {
        return Some(at + 3);
    }
    let mut next = at;
    let mut supers = 0;
    while is(tokens, next, &["super", ":", ":"]) {
        supers += 1;
        next += 3;
    }
    (supers == depth && supers > 0).then_some(next)
}

/// `x::y` gives x; `{x::y, z}` gives x and z.
fn first_names(tokens: &[Token], start: usize) -> Vec<(usize, String)> {
    let Some(first) = tokens.get(start) else {
        return Vec::new();
    };
    if first.text != "{" {
        return vec![(first.line, first.text.clone())];
    }
    let mut names = Vec::new();
    let mut at = start + 1;
    let mut fresh = true;
    while at < first.close {
        let token = &tokens[at];
        if fresh {
            names.push((token.line, token.text.clone()));
        }
        fresh = token.text == ",";
        at = token.close + 1;
    }
    names
}

pub(crate) fn firmware_in_sim(tree: &Tree) -> Vec<Finding> {
    tree.rust_below("agent/node/")
        .filter(|(path, _)| {
            !path.starts_with("agent/node/src/sim/") && *path != "agent/node/src/sim.rs"
        })
        .flat_map(|(path, file)| {
            lines_naming(file, "forebay_firmware")
                .into_iter()
                .map(move |line| {
                    Finding::new(path, line, "forebay_firmware belongs in src/sim only")
                })
        })
        .collect()
}

pub(crate) fn sled_in_one_file(tree: &Tree) -> Vec<Finding> {
    let users: Vec<(&str, usize)> = tree
        .rust()
        .filter_map(|(path, file)| Some((path, *lines_naming(file, "sled").first()?)))
        .collect();
    // The file of the store is the first in the store's folder; all others are findings.
    let home = users
        .iter()
        .position(|(path, _)| path.contains("/store/"))
        .unwrap_or(0);
    users
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != home)
        .map(|(_, (path, line))| {
            let text = format!("sled is named here and in {}", users[home].0);
            Finding::new(path, *line, text)
        })
        .collect()
}

fn lines_naming(file: &File, name: &str) -> BTreeSet<usize> {
    file.tokens
        .iter()
        .filter(|token| token.text == name)
        .map(|token| token.line)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places_of;

    const LIB: &str = "pub mod a;\npub mod b;\npub mod c;";

    fn flow_of(path: &str, source: &str) -> Vec<String> {
        places_of(flow, &[("agent/node/src/lib.rs", LIB), (path, source)])
    }

    #[test]
    fn modules_use_what_stands_above() {
        let b = "agent/node/src/b.rs";
        for (name, source, good) in [
            ("above", "use crate::a::X;", true),
            ("itself", "use crate::b::X;", true),
            ("below", "use crate::c::X;", false),
            ("below in a group", "use crate::{a::X, c::{Y, Z}};", false),
            ("above in a group", "use crate::{a::{c, X}, b};", true),
            ("below by super", "use super::c::X;", false),
            ("above by super", "use super::a::X;", true),
            ("below in an expression", "fn f() { crate::c::g() }", false),
            (
                "below in an inner module",
                "mod x { use super::super::c; }",
                false,
            ),
            ("its own by super", "mod x { use super::c; }", true),
            ("after an inner module", "mod x { } use super::c;", false),
            (
                "below in a test",
                "#[cfg(test)] mod tests { use crate::c::X; }",
                true,
            ),
            ("in a comment", "// crate::c", true),
            ("a macro of the crate", "fn f() { crate::log!() }", true),
            ("past the modules", "use crate::X;", false),
        ] {
            assert_eq!(flow_of(b, source).is_empty(), good, "{name}");
        }
        assert_eq!(
            flow_of("agent/node/src/b/deep.rs", "\nuse super::super::c;").len(),
            1
        );
        assert_eq!(flow_of("agent/node/src/b/mod.rs", "use super::c;").len(), 1);
        assert!(flow_of("agent/node/src/main.rs", "use crate::c;").is_empty());
    }

    #[test]
    fn the_wiring_of_core_stands_last() {
        for (name, lib, good) in [
            ("last", "mod a; mod pipeline;", true),
            (
                "tests after it",
                "mod a; mod pipeline; #[cfg(test)] mod tests;",
                true,
            ),
            ("not last", "mod pipeline; mod a;", false),
            ("not there yet", "mod a;", true),
        ] {
            let found = places_of(flow, &[("agent/core/src/lib.rs", lib)]);
            assert_eq!(found.is_empty(), good, "{name}");
        }
    }

    #[test]
    fn firmware_stays_in_the_simulated_device() {
        let source = "use forebay_firmware::Device;";
        for (path, good) in [
            ("agent/node/src/sim/device.rs", true),
            ("agent/node/src/sim.rs", true),
            ("agent/node/src/demo.rs", false),
            ("agent/node/src/simple.rs", false),
            ("tests/src/world.rs", true),
        ] {
            assert_eq!(
                places_of(firmware_in_sim, &[(path, source)]).is_empty(),
                good,
                "{path}"
            );
        }
    }

    #[test]
    fn one_file_names_the_store() {
        let (home, other) = ("agent/node/src/store/sled.rs", "agent/node/src/run.rs");
        assert!(
            places_of(
                sled_in_one_file,
                &[(home, "use sled::Db;"), (other, "// sled")]
            )
            .is_empty()
        );
        let both = [
            (home, "use sled::Db;"),
            (other, "\nfn f() -> sled::Error {}"),
        ];
        assert_eq!(
            places_of(sled_in_one_file, &both),
            ["agent/node/src/run.rs:2"]
        );
    }
}
