//! Rules about files as such: where they stand, how they start, how long they are.

use super::Finding;
use super::tree::Tree;

const TOP_FOLDERS: [&str; 6] = ["firmware", "agent", "shared", "config", "tests", "tools"];
const TOP_FILES: [&str; 7] = [
    "Cargo.toml",
    "Cargo.lock",
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "LICENSE",
    "CONTRIBUTING.md",
];
const FILE_LINES_MAX: usize = 800;
const FILE_LINES_NOTE: usize = 400;

/// Exactly the folders and files of the map at the top; dotfiles are free.
pub(crate) fn top_level(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, is_dir) in &tree.top {
        let name = name.as_str();
        let known = if *is_dir {
            TOP_FOLDERS.contains(&name)
        } else {
            TOP_FILES.contains(&name)
        };
        if !known && !name.starts_with('.') {
            findings.push(Finding::new(
                name,
                0,
                "does not belong at the top of the tree",
            ));
        }
    }
    for (want, is_dir) in TOP_FOLDERS
        .map(|f| (f, true))
        .into_iter()
        .chain(TOP_FILES.map(|f| (f, false)))
    {
        if !tree
            .top
            .iter()
            .any(|(name, dir)| name == want && *dir == is_dir)
        {
            findings.push(Finding::new(want, 0, "is missing at the top of the tree"));
        }
    }
    findings
}

/// The first line is a module doc, so that a reader knows what the file owns.
pub(crate) fn file_head(tree: &Tree) -> Vec<Finding> {
    tree.rust()
        .filter(|(_, file)| !file.text.starts_with("//! "))
        .map(|(path, _)| Finding::new(path, 1, "starts without a `//!` that says what it owns"))
        .collect()
}

pub(crate) fn file_size(tree: &Tree) -> Vec<Finding> {
    tree.rust()
        .filter_map(|(path, file)| {
            let lines = file.text.lines().count();
            if lines > FILE_LINES_MAX {
                let text = format!("{lines} lines, over {FILE_LINES_MAX}: split it");
                Some(Finding::new(path, 0, text))
            } else if lines > FILE_LINES_NOTE {
                let text = format!("{lines} lines, over {FILE_LINES_NOTE}: does it own one thing?");
                Some(Finding::note(path, 0, text))
            } else {
                None
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places_of;

    const GOOD: [(&str, &str); 13] = [
        ("firmware/a", ""),
        ("agent/a", ""),
        ("shared/a", ""),
        ("config/a", ""),
        ("tests/a", ""),
        ("tools/a", ""),
        ("Cargo.toml", ""),
        ("Cargo.lock", ""),
        ("README.md", ""),
        ("ARCHITECTURE.md", ""),
        ("CHANGELOG.md", ""),
        ("LICENSE", ""),
        ("CONTRIBUTING.md", ""),
    ];

    #[test]
    fn the_top_is_exactly_the_map() {
        assert!(places_of(top_level, &GOOD).is_empty());
        for (name, extra, want) in [
            ("a folder", "docs/a", "docs:0"),
            ("a file", "NOTES.md", "NOTES.md:0"),
            ("a file named as a folder", "target-notes", "target-notes:0"),
        ] {
            let mut files = GOOD.to_vec();
            files.push((extra, ""));
            assert_eq!(places_of(top_level, &files), [want], "{name}");
        }
        let mut with_dots = GOOD.to_vec();
        with_dots.extend([(".gitignore", ""), (".ci/run", "")]);
        assert!(places_of(top_level, &with_dots).is_empty());
        assert_eq!(places_of(top_level, &GOOD[1..]), ["firmware:0"]);
    }

    #[test]
    fn a_file_starts_with_its_doc() {
        for (name, text, good) in [
            ("module doc", "//! Owns it.\n", true),
            ("item doc", "/// Owns it.\n", false),
            ("code", "fn a() {}\n", false),
            ("empty", "", false),
            ("empty doc", "//!\n", false),
        ] {
            let found = places_of(file_head, &[("a.rs", text)]);
            assert_eq!(found.is_empty(), good, "{name}");
        }
        assert!(places_of(file_head, &[("a.md", "words")]).is_empty());
    }

    #[test]
    fn lengths_count_at_the_edges() {
        for (lines, want) in [
            (400, vec![]),
            (401, vec!["a.rs:0 note"]),
            (800, vec!["a.rs:0 note"]),
            (801, vec!["a.rs:0"]),
        ] {
            let text = "//\n".repeat(lines);
            assert_eq!(places_of(file_size, &[("a.rs", &text)]), want, "{lines}");
        }
    }
}
