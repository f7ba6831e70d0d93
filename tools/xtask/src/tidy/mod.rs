//! `cargo xtask tidy`: the rules of the source tree that no compiler checks.
//!
//! A rule is a pure function from the tree to findings, and has its own test
//! with a good and a bad snippet. Nothing here runs a program.

use crate::report::{Failed, Report};
use crate::workspace::Workspace;

mod layout;
mod lexer;
mod order;
mod packages;
mod purity;
mod style;
mod text;
mod tree;

use tree::Tree;

/// One thing that breaks a rule, or (a note) that deserves a look.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) path: String,
    /// From 1; 0 is the file as a whole.
    pub(crate) line: usize,
    pub(crate) text: String,
    /// A note is printed and fails nothing.
    pub(crate) note: bool,
}

impl Finding {
    fn new(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            text: text.into(),
            note: false,
        }
    }

    fn note(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self {
            note: true,
            ..Self::new(path, line, text)
        }
    }
}

struct Rule {
    name: &'static str,
    holds: &'static str,
    check: fn(&Tree) -> Vec<Finding>,
}

const RULES: &[Rule] = &[
    Rule {
        name: "top-level",
        holds: "the folders at the top are exactly those of the map, with the files it names",
        check: layout::top_level,
    },
    Rule {
        name: "file-head",
        holds: "each Rust file starts with a `//!` that says what it owns",
        check: layout::file_head,
    },
    Rule {
        name: "file-size",
        holds: "no Rust file has over 800 lines; over 400 is a note",
        check: layout::file_size,
    },
    Rule {
        name: "package-direction",
        holds: "firmware -> shared <- agent/core <- agent/node; tests and tools see all, nothing sees them",
        check: packages::direction,
    },
    Rule {
        name: "dependency-table",
        holds: "outside crates stand once, in the root table, each with its reason",
        check: packages::table,
    },
    Rule {
        name: "lints-inherited",
        holds: "each package takes the workspace's lints; outside tests no `allow` stands without a reason",
        check: packages::lints,
    },
    Rule {
        name: "flow-order",
        holds: "in core and node a module uses only modules above it in lib.rs; core's pipeline is last",
        check: order::flow,
    },
    Rule {
        name: "firmware-in-sim-only",
        holds: "agent/node uses forebay_firmware under src/sim only",
        check: order::firmware_in_sim,
    },
    Rule {
        name: "sled-in-one-file",
        holds: "one file names sled: another store can stand in behind the trait",
        check: order::sled_in_one_file,
    },
    Rule {
        name: "pure-core",
        holds: "agent/core depends on a fixed list and names no clock, file, socket, thread or hash map",
        check: purity::core,
    },
    Rule {
        name: "unwrap-expect",
        holds: "outside tests no `unwrap`, and the text of `expect` is the proof",
        check: style::unwrap_expect,
    },
    Rule {
        name: "function-size",
        holds: "no function has over 70 lines; in tests that is a note",
        check: style::function_size,
    },
    Rule {
        name: "sleep-in-tests",
        holds: "no test sleeps to wait for something",
        check: style::sleep_in_tests,
    },
    Rule {
        name: "ignored-tests",
        holds: "no test is ignored",
        check: style::ignored_tests,
    },
    Rule {
        name: "unfinished",
        holds: "nothing is marked as to be done later",
        check: text::unfinished,
    },
    Rule {
        name: "places",
        holds: "no text names a package registry's host or a path of one machine",
        check: text::places,
    },
    Rule {
        name: "doc-links",
        holds: "each relative link of a page leads to a file of the tree",
        check: text::doc_links,
    },
];

/// One line for each rule.
pub(crate) fn print_rules() {
    for rule in RULES {
        println!("{:<22} {}", rule.name, rule.holds);
    }
}

/// # Errors
/// Says how many findings there are, after printing each.
pub(crate) fn run(ws: &Workspace, report: &mut Report) -> Result<(), Failed> {
    report.step("tidy", || {
        let tree = Tree::read(ws.root())?;
        let broken = print_findings(&tree);
        if broken == 0 {
            Ok(())
        } else {
            Err(format!(
                "{broken} findings; `cargo xtask tidy --list` explains the rules"
            ))
        }
    })
}

/// Prints each finding and returns how many of them are no notes.
fn print_findings(tree: &Tree) -> usize {
    let mut broken = 0;
    for rule in RULES {
        let mut findings = (rule.check)(tree);
        findings.sort();
        for finding in findings {
            let kind = if finding.note { "note: " } else { "" };
            broken += usize::from(!finding.note);
            let Finding {
                path, line, text, ..
            } = finding;
            println!("{path}:{line}: {kind}{text} [{}]", rule.name);
        }
    }
    broken
}

/// Findings of `check` on files given as (path, text), as `path:line`.
#[cfg(test)]
fn places_of(check: fn(&Tree) -> Vec<Finding>, files: &[(&str, &str)]) -> Vec<String> {
    let mut findings = check(&Tree::from_files(files));
    findings.sort();
    findings
        .iter()
        .map(|finding| {
            let note = if finding.note { " note" } else { "" };
            format!("{}:{}{note}", finding.path, finding.line)
        })
        .collect()
}
