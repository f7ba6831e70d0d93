//! `forebay forward`: dead letters of a running agent. Records that a broker refuses
//! again and again are passed over and stay in the log; here they are listed and sent
//! once more.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use forebay_core::query::Query;
use serde_json::Value;

use super::query::{Listed, Target};
use crate::agent::questions;
use crate::shell::{output, sheets};
use crate::terminal::print_line;

#[derive(Debug, Subcommand)]
pub(super) enum ForwardVerb {
    /// Lists the records that no broker takes, with the reason
    #[command(after_help = "\
Example:
  forebay forward ls --config gateway.toml

They were refused again and again and passed over, so that they hold up nothing. They stay in
the log as long as its quota allows.")]
    Ls(Listed),
    /// Sends them once more; what the broker takes is off the list
    #[command(after_help = "\
Example:
  forebay forward retry --to cloud

When the broker's rules or limits were changed, say. What it refuses again stays on the list.")]
    Retry(RetryArgs),
}

#[derive(Debug, Clone, Args)]
pub(super) struct RetryArgs {
    /// Only those of this destination
    #[arg(long, value_name = "NAME")]
    to: Option<String>,
    #[command(flatten)]
    target: Target,
}

/// Asks and shows.
pub(super) fn run(verb: &ForwardVerb) -> ExitCode {
    let (target, query) = match verb {
        ForwardVerb::Ls(listed) => {
            let request = questions::write(&Query::DeadLetters);
            return listed.show(&request, &sheets::PARKED, text);
        }
        ForwardVerb::Retry(RetryArgs { to, target }) => {
            let destination = to.clone();
            (target, Query::RetryDeadLetters { destination })
        }
    };
    match target.ask(&questions::write(&query)) {
        Ok(answer) if target.json => print_line(&answer.to_string()),
        Ok(answer) => print_line(&text(&answer)),
        Err(failure) => output::failed(&failure),
    }
}

fn text(answer: &Value) -> String {
    if let Some(records) = answer["records"].as_u64() {
        return match records {
            0 => String::from("nothing is parked"),
            1 => String::from("1 record is sent once more"),
            _ => format!("{records} records are sent once more"),
        };
    }
    sheets::PARKED.text(answer)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn dead_letters_are_a_table() {
        let answer = json!({ "parked": [{
            "destination": "cloud", "stream": "readings", "partition": 0,
            "first_offset": 7, "last_offset": 9, "reason": "too_large",
        }] });
        let shown = text(&answer);
        let lines: Vec<Vec<&str>> = shown
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[1], ["cloud", "readings", "0", "7", "9", "too_large"]);
        for (answer, want) in [
            (json!({ "parked": [] }), "nothing is parked"),
            (json!({ "records": 0 }), "nothing is parked"),
            (json!({ "records": 1 }), "1 record is sent once more"),
            (json!({ "records": 5 }), "5 records are sent once more"),
        ] {
            assert_eq!(text(&answer), want);
        }
    }
}
