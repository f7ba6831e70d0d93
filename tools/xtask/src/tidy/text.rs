//! Rules about text in any file: nothing unfinished, no place of one machine, no
//! link that leads nowhere.

use std::collections::BTreeSet;

use super::Finding;
use super::tree::{File, Tree};

/// Cargo writes the lock files, with the registry's name in each entry.
const GENERATED: &str = "Cargo.lock";
/// In parts, so that this file holds none of them itself.
const UNFINISHED: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];
const PLACES: [&str; 8] = [
    concat!("crates", ".io"),
    concat!("static.rust", "-lang.org"),
    concat!("deb.debian", ".org"),
    concat!("pypi", ".org"),
    concat!("npmjs", ".org"),
    concat!("/wo", "rk/"),
    concat!("/ho", "me/"),
    concat!("../shared/", "design"),
];

fn hand_written(tree: &Tree) -> impl Iterator<Item = (&str, &File)> {
    tree.files
        .iter()
        .filter(|(path, _)| !path.ends_with(GENERATED))
        .map(|(path, file)| (path.as_str(), file))
}

/// Each line that holds one of the words, once for each word.
fn lines_with(tree: &Tree, words: &[&str], say: impl Fn(&str) -> String) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, file) in hand_written(tree) {
        for (at, line) in file.text.lines().enumerate() {
            for word in words.iter().filter(|word| line.contains(**word)) {
                findings.push(Finding::new(path, at + 1, say(word)));
            }
        }
    }
    findings
}

pub(crate) fn unfinished(tree: &Tree) -> Vec<Finding> {
    lines_with(tree, &UNFINISHED, |word| {
        format!("{word}: finish it, or file it as an issue")
    })
}

pub(crate) fn places(tree: &Tree) -> Vec<Finding> {
    lines_with(tree, &PLACES, |word| {
        format!("names {word}, which only some machines know")
    })
}

/// `[text](target)` with a relative target must lead to a file or a folder.
pub(crate) fn doc_links(tree: &Tree) -> Vec<Finding> {
    let folders: BTreeSet<&str> = tree
        .files
        .keys()
        .flat_map(|path| path.match_indices('/').map(|(at, _)| &path[..at]))
        .collect();
    let mut findings = Vec::new();
    for (path, file) in hand_written(tree).filter(|(path, _)| path.ends_with(".md")) {
        for (at, line) in file.text.lines().enumerate() {
            for target in links(line) {
                let resolved = resolve(path, target);
                let there =
                    tree.files.contains_key(&resolved) || folders.contains(resolved.as_str());
                if !there {
                    findings.push(Finding::new(
                        path,
                        at + 1,
                        format!("{target} leads nowhere"),
                    ));
                }
            }
        }
    }
    findings
}

/// Relative targets of the links in a line, without their anchors.
fn links(line: &str) -> Vec<&str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.split('#').next().unwrap_or(target))
        .filter(|target| !target.is_empty() && !target.contains("://"))
        .collect()
}

/// The path from the root of a target that stands in the page `page`.
fn resolve(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places_of;

    #[test]
    fn nothing_is_left_for_later() {
        for word in UNFINISHED {
            let text = format!("good\n// {word}: later\n");
            assert_eq!(
                places_of(unfinished, &[("a.rs", &text)]),
                ["a.rs:2"],
                "{word}"
            );
        }
        assert!(places_of(unfinished, &[("a.rs", "// to do is a phrase\n")]).is_empty());
    }

    #[test]
    fn texts_name_no_place_of_one_machine() {
        for word in PLACES {
            let text = format!("see {word} there");
            assert_eq!(places_of(places, &[("a.md", &text)]), ["a.md:1"], "{word}");
            assert!(
                places_of(places, &[("Cargo.lock", &text)]).is_empty(),
                "{word}"
            );
        }
        assert!(places_of(places, &[("a.md", "a framework/part")]).is_empty());
    }

    #[test]
    fn links_lead_to_files() {
        let files = |text| {
            [
                ("shared/docs/a.md", text),
                ("shared/docs/b.md", ""),
                ("config/c.toml", ""),
            ]
        };
        for (name, text, good) in [
            ("beside", "[b](b.md)", true),
            ("an anchor", "[b](b.md#part) [here](#part)", true),
            ("above", "[c](../../config/c.toml)", true),
            ("a folder", "[config](../../config/)", true),
            ("the net", "[x](https://example.org/)", true),
            ("nowhere", "[x](x.md)", false),
            ("second of a line", "[b](b.md) [x](x.md)", false),
        ] {
            assert_eq!(
                places_of(doc_links, &files(text)).is_empty(),
                good,
                "{name}"
            );
        }
    }
}
