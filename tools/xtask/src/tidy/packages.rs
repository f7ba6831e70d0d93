//! Rules about Cargo.toml files: who may depend on whom, the one dependency
//! table, and lints that each package inherits.

use toml_edit::{DocumentMut, Item, TableLike};

use super::Finding;
use super::lexer::is;
use super::tree::Tree;

/// Each package, and which of our own packages it may name.
const SEES: [(&str, &[&str]); 9] = [
    ("forebay-wire", &[]),
    ("forebay-firmware", &["forebay-wire"]),
    ("forebay-core", &["forebay-wire"]),
    (
        "forebay",
        &["forebay-wire", "forebay-core", "forebay-firmware"],
    ),
    ("forebay-tests", OURS),
    ("forebay-fuzz", OURS),
    ("forebay-libfuzzer", &["forebay-fuzz"]),
    ("forebay-bench", OURS),
    ("xtask", OURS),
];
/// What tests and tools may see; nothing sees them.
const OURS: &[&str] = &[
    "forebay-wire",
    "forebay-firmware",
    "forebay-core",
    "forebay",
];
/// What a board may name of ours.
const BOARD_SEES: &[&str] = &["forebay-wire", "forebay-firmware"];
const BOARDS: &str = "firmware/boards/";
const SECTIONS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

struct Manifest<'a> {
    path: &'a str,
    text: &'a str,
    doc: DocumentMut,
}

impl Manifest<'_> {
    fn name(&self) -> Option<&str> {
        self.doc.get("package")?.get("name")?.as_str()
    }

    /// Every dependency of every section, those for one target too.
    fn dependencies(&self) -> Vec<(&str, &Item)> {
        let mut tables: Vec<&dyn TableLike> = vec![self.doc.as_table()];
        let targets = self.doc.get("target").and_then(Item::as_table_like);
        tables.extend(
            targets
                .into_iter()
                .flat_map(|targets| targets.iter())
                .filter_map(|(_, item)| item.as_table_like()),
        );
        tables
            .into_iter()
            .flat_map(|table| SECTIONS.map(|section| table.get(section)))
            .flatten()
            .filter_map(Item::as_table_like)
            .flat_map(|section| section.iter())
            .collect()
    }

    /// The line of the first entry of that name, for the message.
    fn line_of(&self, key: &str) -> usize {
        let starts = |line: &str| {
            line.strip_prefix(key)
                .is_some_and(|rest| rest.starts_with([' ', '.', '=']))
        };
        self.text.lines().position(starts).map_or(0, |at| at + 1)
    }
}

/// The manifests; one that is no TOML fails in cargo long before this.
fn manifests(tree: &Tree) -> Vec<Manifest<'_>> {
    tree.files
        .iter()
        .filter(|(path, _)| *path == "Cargo.toml" || path.ends_with("/Cargo.toml"))
        .filter_map(|(path, file)| {
            Some(Manifest {
                path,
                text: &file.text,
                doc: file.text.parse().ok()?,
            })
        })
        .collect()
}

/// A package names only those of ours that it may see.
pub(crate) fn direction(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in manifests(tree) {
        let Some(name) = manifest.name() else {
            continue;
        };
        let may_see = if manifest.path.starts_with(BOARDS) {
            BOARD_SEES
        } else if let Some((_, sees)) = SEES.iter().find(|(package, _)| *package == name) {
            sees
        } else {
            let text = format!("package {name} has no place in the direction of dependencies");
            findings.push(Finding::new(manifest.path, 0, text));
            continue;
        };
        for (dependency, item) in manifest.dependencies() {
            let dependency = item
                .get("package")
                .and_then(Item::as_str)
                .unwrap_or(dependency);
            let ours = SEES.iter().any(|(package, _)| *package == dependency);
            // A package that names itself does so to test with all of its features.
            if ours && dependency != name && !may_see.contains(&dependency) {
                let text = format!("{name} must not see {dependency}");
                findings.push(Finding::new(
                    manifest.path,
                    manifest.line_of(dependency),
                    text,
                ));
            }
        }
    }
    findings
}

/// Outside crates: a version and a reason at the root, `workspace = true` below.
pub(crate) fn table(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in manifests(tree) {
        if manifest.doc.get("workspace").is_some() {
            findings.extend(entries_without_reason(&manifest));
        }
        for (name, item) in manifest.dependencies() {
            let inherits = item.get("workspace").and_then(Item::as_bool) == Some(true);
            if !inherits {
                let text = format!(
                    "{name} is not taken from the workspace's table: `{name}.workspace = true`"
                );
                findings.push(Finding::new(manifest.path, manifest.line_of(name), text));
            }
        }
    }
    findings.extend(unused_entries(tree));
    findings
}

fn entries_without_reason(manifest: &Manifest<'_>) -> Vec<Finding> {
    table_lines(manifest.text)
        .into_iter()
        .filter(|(_, line)| !line.contains("path = ") && !has_reason(line))
        .map(|(number, line)| {
            let name = line.split([' ', '=']).next().unwrap_or(line);
            Finding::new(
                manifest.path,
                number,
                format!("{name} stands without its reason"),
            )
        })
        .collect()
}

/// The entries of `[workspace.dependencies]`, with their line numbers.
fn table_lines(text: &str) -> Vec<(usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line))
        .skip_while(|(_, line)| line.trim() != "[workspace.dependencies]")
        .skip(1)
        .take_while(|(_, line)| !line.starts_with('['))
        .filter(|(_, line)| line.contains(" = ") && !line.starts_with('#'))
        .collect()
}

/// A comment of two words at least at the end of the line.
fn has_reason(line: &str) -> bool {
    line.rsplit_once(" # ")
        .is_some_and(|(_, reason)| reason.split_whitespace().nth(1).is_some())
}

/// Entries of the root's table that no package takes.
fn unused_entries(tree: &Tree) -> Vec<Finding> {
    let all = manifests(tree);
    let Some(root) = all.iter().find(|manifest| manifest.path == "Cargo.toml") else {
        return Vec::new();
    };
    table_lines(root.text)
        .into_iter()
        .filter(|(_, line)| !line.contains("path = "))
        .filter_map(|(number, line)| Some((number, line.split([' ', '=']).next()?)))
        .filter(|(_, name)| {
            !all.iter()
                .filter(|manifest| !manifest.path.starts_with(BOARDS))
                .any(|manifest| manifest.dependencies().iter().any(|(used, _)| used == name))
        })
        .map(|(number, name)| {
            Finding::new(
                root.path,
                number,
                format!("no package uses {name}: take it out"),
            )
        })
        .collect()
}

/// Lints that must be denied at the root, as clippy checks those for us.
const DENIED: [&str; 2] = ["wildcard_enum_match_arm", "unwrap_used"];

pub(crate) fn lints(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in manifests(tree) {
        let own = manifest.doc.get("lints");
        if let Some(workspace) = manifest.doc.get("workspace") {
            let clippy = workspace.get("lints").and_then(|lints| lints.get("clippy"));
            for lint in DENIED {
                let level = clippy
                    .and_then(|table| table.get(lint))
                    .and_then(Item::as_str);
                if level != Some("deny") {
                    let text = format!("clippy's {lint} is not denied for the workspace");
                    findings.push(Finding::new(manifest.path, 0, text));
                }
            }
        }
        let inherits = own
            .and_then(|lints| lints.get("workspace"))
            .and_then(Item::as_bool);
        if manifest.doc.get("package").is_some() && inherits != Some(true) {
            let text = "does not take the workspace's lints: `[lints] workspace = true`";
            findings.push(Finding::new(manifest.path, 0, text));
        }
    }
    findings.extend(allows_without_reason(tree));
    findings
}

fn allows_without_reason(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, file) in tree.rust().filter(|(_, file)| !file.test) {
        for (at, token) in file
            .tokens
            .iter()
            .enumerate()
            .filter(|(_, token)| !token.test)
        {
            let open = match () {
                () if is(&file.tokens, at, &["#", "[", "allow", "("]) => at + 1,
                () if is(&file.tokens, at, &["#", "!", "[", "allow", "("]) => at + 2,
                () => continue,
            };
            let inside = &file.tokens[open..file.tokens[open].close];
            if !inside.iter().any(|inner| inner.text == "reason") {
                let text = "an allowed lint without `reason = \"...\"`";
                findings.push(Finding::new(path, token.line, text));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places_of;

    fn package(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"{name}\"\n{rest}\n")
    }

    #[test]
    fn arrows_point_one_way() {
        let line = |dependency: &str| format!("[dependencies]\n{dependency}.workspace = true");
        for (name, path, package_name, rest, good) in [
            (
                "firmware sees wire",
                "firmware",
                "forebay-firmware",
                line("forebay-wire"),
                true,
            ),
            (
                "wire sees firmware",
                "shared",
                "forebay-wire",
                line("forebay-firmware"),
                false,
            ),
            (
                "core sees firmware",
                "core",
                "forebay-core",
                line("forebay-firmware"),
                false,
            ),
            (
                "core sees node",
                "core",
                "forebay-core",
                line("forebay"),
                false,
            ),
            (
                "node sees core",
                "node",
                "forebay",
                line("forebay-core"),
                true,
            ),
            (
                "node sees tests",
                "node",
                "forebay",
                line("forebay-tests"),
                false,
            ),
            (
                "tests see node",
                "tests",
                "forebay-tests",
                line("forebay"),
                true,
            ),
            (
                "tests see tools",
                "tests",
                "forebay-tests",
                line("xtask"),
                false,
            ),
            (
                "board sees firmware",
                "firmware/boards/x",
                "x",
                line("forebay-firmware"),
                true,
            ),
            (
                "board sees core",
                "firmware/boards/x",
                "x",
                line("forebay-core"),
                false,
            ),
            (
                "a package nobody placed",
                "tools/x",
                "x",
                String::new(),
                false,
            ),
        ] {
            let (path, text) = (format!("{path}/Cargo.toml"), package(package_name, &rest));
            let found = places_of(direction, &[(&path, &text)]);
            assert_eq!(found.is_empty(), good, "{name}");
        }
    }

    #[test]
    fn no_other_way_of_naming_a_package_gets_past_the_arrows() {
        for (name, rest) in [
            (
                "for tests",
                "[dev-dependencies]\nforebay-tests.workspace = true",
            ),
            (
                "renamed",
                "[dependencies]\na = { workspace = true, package = \"forebay\" }",
            ),
            (
                "one target",
                "[target.'cfg(unix)'.dependencies]\nforebay.workspace = true",
            ),
            (
                "for the build",
                "[build-dependencies]\nforebay.workspace = true",
            ),
        ] {
            let text = package("forebay-core", rest);
            let found = places_of(direction, &[("agent/core/Cargo.toml", &text)]);
            assert_eq!(found.len(), 1, "{name}");
        }
    }

    #[test]
    fn the_table_has_reasons_and_users() {
        let user = package("forebay", "[dependencies]\nclap.workspace = true");
        for (name, table_text, want) in [
            ("good", "clap = \"4\" # the command line", vec![]),
            ("no reason", "clap = \"4\"", vec!["Cargo.toml:2"]),
            ("no words", "clap = \"4\" # cli", vec!["Cargo.toml:2"]),
            ("our own", "clap = { path = \"clap\" }", vec![]),
            (
                "no user",
                "clap = \"4\" # the command line\nserde = \"1\" # made of bytes",
                vec!["Cargo.toml:3"],
            ),
        ] {
            let root = format!("[workspace.dependencies]\n{table_text}\n");
            let files = [
                ("Cargo.toml", root.as_str()),
                ("agent/node/Cargo.toml", &user),
            ];
            assert_eq!(places_of(table, &files), want, "{name}");
        }
    }

    #[test]
    fn a_package_brings_no_version_of_its_own() {
        let text = package(
            "forebay",
            "[dependencies]\nclap = \"4\"\nserde = { workspace = true }",
        );
        assert_eq!(
            places_of(table, &[("agent/node/Cargo.toml", &text)]),
            ["agent/node/Cargo.toml:4"]
        );
    }

    #[test]
    fn lints_come_from_the_root() {
        let denied = "[workspace.lints.clippy]\nwildcard_enum_match_arm = \"deny\"\nunwrap_used = \"deny\"\n";
        let good = package("a", "[lints]\nworkspace = true");
        for (name, root, member, want) in [
            ("good", denied, good.as_str(), vec![]),
            (
                "not denied",
                "[workspace]\n",
                good.as_str(),
                vec!["Cargo.toml:0", "Cargo.toml:0"],
            ),
            (
                "not taken",
                denied,
                "[package]\nname = \"a\"\n",
                vec!["a/Cargo.toml:0"],
            ),
        ] {
            let files = [("Cargo.toml", root), ("a/Cargo.toml", member)];
            assert_eq!(places_of(lints, &files), want, "{name}");
        }
    }

    #[test]
    fn an_allow_says_why() {
        for (name, source, good) in [
            (
                "with reason",
                "#[allow(dead_code, reason = \"used by one target\")] fn a() {}",
                true,
            ),
            ("without", "#[allow(dead_code)] fn a() {}", false),
            ("whole file", "#![allow(dead_code)]", false),
            ("in a comment", "// #[allow(dead_code)]", true),
        ] {
            assert_eq!(
                places_of(lints, &[("a.rs", source)]).is_empty(),
                good,
                "{name}"
            );
        }
    }
}
