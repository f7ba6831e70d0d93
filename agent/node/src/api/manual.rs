//! `agent/node/docs/api.md`: what an operator reads of the API, made of the table of
//! paths. A test keeps the file true.

use std::fmt::Write as _;

use super::endpoints::{ALL, Answer, Endpoint, Kind, Need, Param};
use super::examples;
use super::problem::Kind as Wrong;

/// What stands before the paths.
const BEFORE: &str = include_str!("manual.txt");

/// The page.
pub(super) fn text() -> String {
    let mut out = String::from(BEFORE);
    out += "\n## Paths\n";
    for endpoint in ALL {
        path(&mut out, endpoint);
    }
    out += "\n## Problems\n\n| status | type | title |\n|---|---|---|\n";
    for kind in Wrong::ALL {
        let (status, name, title) = kind.about();
        // Writing to a String cannot fail.
        let _ = writeln!(out, "| {status} | `urn:forebay:problem:{name}` | {title} |");
    }
    out
}

fn path(out: &mut String, endpoint: &Endpoint) {
    let (request, answer) = examples::of(endpoint.id);
    let _ = writeln!(
        out,
        "\n### `GET {}`\n\n{}. {}\n",
        endpoint.path, endpoint.summary, endpoint.about
    );
    if !endpoint.params.is_empty() {
        *out += "| parameter | values | default | |\n|---|---|---|---|\n";
        for param in endpoint.params {
            row(out, param);
        }
        out.push('\n');
    }
    let form = match &endpoint.answer {
        Answer::Json { csv, .. } => {
            if *csv {
                *out += "Also as CSV, with `Accept: text/csv`.\n\n";
            }
            "json"
        }
        Answer::Document => "json",
        Answer::Text { .. } | Answer::Events => "text",
    };
    let _ = writeln!(out, "```text\ncurl 'http://127.0.0.1:7380{request}'\n```\n");
    let _ = writeln!(out, "```{form}\n{answer}\n```");
}

fn row(out: &mut String, param: &Param) {
    let values = match param.kind {
        Kind::Name => "a name".to_owned(),
        Kind::Time => "a time".to_owned(),
        Kind::Span => "a length of time, such as `60s`".to_owned(),
        Kind::Count { most } => format!("1 to {most}"),
        Kind::Word(words) => format!("`{}`", words.join("`, `")),
        Kind::Cursor => "text of `next`".to_owned(),
        Kind::Place => "`now`, `beginning`, an id".to_owned(),
    };
    let default = match param.need {
        Need::Once | Need::Some { .. } => "must be given".to_owned(),
        Need::Maybe | Need::Many { .. } => "none".to_owned(),
        Need::Default(text) => format!("`{text}`"),
    };
    let _ = writeln!(
        out,
        "| `{}` | {values} | {default} | {} |",
        param.name, param.about
    );
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_page_is_not_stale() {
        let text = text();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/api.md");
        if std::env::var_os("UPDATE_GENERATED").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == text,
            "agent/node/docs/api.md is stale: UPDATE_GENERATED=1 cargo test -p forebay --lib api"
        );
    }
}
