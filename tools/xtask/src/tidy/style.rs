//! Rules about Rust code: unwrap and expect, the size of functions, tests that
//! sleep or are ignored.

use super::Finding;
use super::lexer::{functions, is};
use super::tree::{File, Tree};

const FUNCTION_LINES_MAX: usize = 70;
/// Stands on the line of a sleep, or on the one above, with the reason after it.
const SLEEP_ALLOWED: &str = "tidy: allow(sleep): ";

/// `unwrap` says nothing; an `expect` says why it cannot fail.
pub(crate) fn unwrap_expect(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, file) in tree.rust().filter(|(_, file)| !file.test) {
        for (at, token) in file
            .tokens
            .iter()
            .enumerate()
            .filter(|(_, token)| !token.test)
        {
            if is(&file.tokens, at, &[".", "unwrap", "(", ")"]) {
                let text = "`unwrap` outside tests: handle it, or `expect` with the proof";
                findings.push(Finding::new(path, token.line, text));
            }
            let empty = is(&file.tokens, at, &[".", "expect", "("])
                && file
                    .tokens
                    .get(at + 3)
                    .is_some_and(|text| is_blank_string(&text.text));
            if empty {
                let text = "`expect` without a text: say why it cannot fail";
                findings.push(Finding::new(path, token.line, text));
            }
        }
    }
    findings
}

fn is_blank_string(literal: &str) -> bool {
    literal
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .is_some_and(|inner| inner.trim().is_empty())
}

pub(crate) fn function_size(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, file) in tree.rust() {
        for function in functions(&file.tokens) {
            if function.lines <= FUNCTION_LINES_MAX {
                continue;
            }
            let text = format!(
                "{} has {} lines, over {FUNCTION_LINES_MAX}",
                function.name, function.lines
            );
            findings.push(Finding {
                note: file.test || function.test,
                ..Finding::new(path, function.line, text)
            });
        }
    }
    findings
}

/// A test waits for the thing itself, or drives time by hand.
pub(crate) fn sleep_in_tests(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, file) in tree.rust() {
        for (at, token) in file.tokens.iter().enumerate() {
            let calls = is(&file.tokens, at, &["sleep", "("])
                || is(&file.tokens, at, &["sleep_until", "("]);
            let defines = at >= 1 && file.tokens[at - 1].text == "fn";
            let in_test = file.test || token.test;
            if calls && in_test && !defines && !sleep_allowed(file, token.line) {
                let text = "a test sleeps: wait for the condition with a deadline instead";
                findings.push(Finding::new(path, token.line, text));
            }
        }
    }
    findings
}

fn sleep_allowed(file: &File, line: usize) -> bool {
    let with_reason = |line: &str| {
        line.split_once(SLEEP_ALLOWED)
            .is_some_and(|(_, reason)| !reason.trim().is_empty())
    };
    // Lines count from 1: the line itself and the one above it.
    file.text
        .lines()
        .skip(line.saturating_sub(2))
        .take(if line >= 2 { 2 } else { 1 })
        .any(with_reason)
}

pub(crate) fn ignored_tests(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, file) in tree.rust() {
        for (at, token) in file.tokens.iter().enumerate() {
            if is(&file.tokens, at, &["#", "[", "ignore"]) {
                let text = "an ignored test: a test that needs a missing part fails and says how to get it";
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

    #[test]
    fn unwrap_and_expect_outside_tests() {
        for (name, path, source, good) in [
            ("unwrap", "a/src/b.rs", "fn f() { g().unwrap() }", false),
            (
                "with a default",
                "a/src/b.rs",
                "fn f() { g().unwrap_or(1) }",
                true,
            ),
            (
                "in a test",
                "a/src/b.rs",
                "#[test] fn f() { g().unwrap() }",
                true,
            ),
            (
                "in a test file",
                "a/tests/b.rs",
                "fn f() { g().unwrap() }",
                true,
            ),
            (
                "in a string",
                "a/src/b.rs",
                "const A: &str = \".unwrap()\";",
                true,
            ),
            (
                "expect with proof",
                "a/src/b.rs",
                "fn f() { g().expect(\"checked above\") }",
                true,
            ),
            (
                "expect empty",
                "a/src/b.rs",
                "fn f() { g().expect(\" \") }",
                false,
            ),
        ] {
            assert_eq!(
                places_of(unwrap_expect, &[(path, source)]).is_empty(),
                good,
                "{name}"
            );
        }
    }

    #[test]
    fn functions_count_at_the_edge() {
        let of = |lines: usize| format!("fn f() {{{}}}", "\n".repeat(lines - 1));
        for (name, path, lines, want) in [
            ("below", "a/src/b.rs", 69, vec![]),
            ("at", "a/src/b.rs", 70, vec![]),
            ("above", "a/src/b.rs", 71, vec!["a/src/b.rs:1"]),
            (
                "above in a test",
                "a/tests/b.rs",
                71,
                vec!["a/tests/b.rs:1 note"],
            ),
        ] {
            assert_eq!(
                places_of(function_size, &[(path, &of(lines))]),
                want,
                "{name}"
            );
        }
    }

    #[test]
    fn tests_do_not_sleep() {
        let slept = "fn f() {\n    std::thread::sleep(t);\n}";
        for (name, path, source, good) in [
            ("outside tests", "a/src/b.rs", slept.to_owned(), true),
            ("in a test file", "a/tests/b.rs", slept.to_owned(), false),
            (
                "in the tests package",
                "tests/src/b.rs",
                slept.to_owned(),
                false,
            ),
            (
                "in a test",
                "a/src/b.rs",
                format!("#[cfg(test)] mod t {{ {slept} }}"),
                false,
            ),
            (
                "allowed with a reason",
                "a/tests/b.rs",
                slept.replace(
                    "    std",
                    "    // tidy: allow(sleep): the kernel has no event for it\n    std",
                ),
                true,
            ),
            (
                "allowed without one",
                "a/tests/b.rs",
                slept.replace("    std", "    // tidy: allow(sleep): \n    std"),
                false,
            ),
            (
                "a word",
                "a/tests/b.rs",
                "// sleep(1)\nfn sleepy() {}".to_owned(),
                true,
            ),
        ] {
            assert_eq!(
                places_of(sleep_in_tests, &[(path, &source)]).is_empty(),
                good,
                "{name}"
            );
        }
    }

    #[test]
    fn no_test_is_ignored() {
        for (name, source, good) in [
            ("test", "#[test] fn f() {}", true),
            ("ignored", "#[test] #[ignore] fn f() {}", false),
            (
                "with a reason",
                "#[test] #[ignore = \"slow\"] fn f() {}",
                false,
            ),
            ("in a comment", "// #[ignore]", true),
        ] {
            assert_eq!(
                places_of(ignored_tests, &[("a.rs", source)]).is_empty(),
                good,
                "{name}"
            );
        }
    }
}
