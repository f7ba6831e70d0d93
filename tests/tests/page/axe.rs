//! The rules of axe-core, held against what a browser shows. The package of npm is brought by
//! `cargo xtask setup`; it is run in the page by the test and is no part of it.

use std::path::Path;
use std::sync::OnceLock;

use forebay_tests::browser::Browser;

/// All rules but those that axe-core itself calls experimental; nothing else is left out.
/// What it would fetch again (`preload`), the page's own policy forbids.
const RUN: &str = "axe.run(document, { preload: false, resultTypes: ['violations'] }).then((found) => \
     found.violations.flatMap((rule) => rule.nodes.map((node) => \
     `${rule.id} (${rule.impact}): ${node.html.slice(0, 200)}: ${node.failureSummary}`)))";

fn source() -> &'static str {
    static SOURCE: OnceLock<String> = OnceLock::new();
    SOURCE.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
        let file = target
            .expect("a folder of the target")
            .join("npm/axe-core/package/axe.min.js");
        std::fs::read_to_string(&file).unwrap_or_else(|error| {
            panic!(
                "{}: {error}. axe-core of npm looks at the page: run `cargo xtask setup`",
                file.display()
            )
        })
    })
}

/// What breaks a rule: which, where, and what to change.
pub(crate) fn violations(browser: &mut Browser) -> Vec<String> {
    if browser.eval("typeof axe") == "undefined" {
        browser.eval(&format!("{}; true", source()));
    }
    let found = browser.eval(RUN);
    let found = found.as_array().expect("a list").iter();
    found
        .map(|text| text.as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn axe_finds_what_is_wrong() {
    let mut browser = Browser::start();
    browser.go("data:text/html,<html lang=en><title>x</title><main><h1>x</h1><img src=data:,><button></button></main>");
    let found = violations(&mut browser).join("\n");
    assert!(found.contains("image-alt"), "{found}");
    assert!(found.contains("button-name"), "{found}");
}
