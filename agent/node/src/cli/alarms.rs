//! `forebay alarms`: what is wrong with a running agent, and where to read what to do.
//! Decides nothing: the agent judges.

use std::process::ExitCode;

use clap::Args;
use forebay_core::alarms::of_status;
use forebay_core::query::Query;
use serde_json::Value;

use super::query::Listed;
use crate::agent::questions;
use crate::exit::Exit;
use crate::shell::output::{self, Form};
use crate::shell::sheets;

/// Shows what is wrong with a running agent, and what to do
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example:
  forebay alarms
  forebay alarms --strict && echo all is well

Ends with 4 when an alarm is `failed`: what the gateway is there for does not happen; with
--strict also when one is `degraded`. What each code means: agent/node/docs/alarms.md.")]
pub(super) struct AlarmsArgs {
    /// End with 4 when there is any alarm
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    listed: Listed,
}

/// Asks and shows.
pub(super) fn run(args: &AlarmsArgs) -> ExitCode {
    let request = questions::write(&Query::Summary);
    let answer = match args.listed.target.ask(&request) {
        Ok(status) => of_status(&status),
        Err(failure) => return output::failed(&failure),
    };
    let text = match args.listed.form() {
        Form::Json => format!("{answer}\n"),
        Form::Csv => sheets::ALARMS.csv(&answer),
        Form::Text => format!("{}\n", text(&answer)),
    };
    // A reader that went away has seen enough: what was found stays found.
    output::print(&text);
    exit(&answer, args.strict).into()
}

fn exit(answer: &Value, strict: bool) -> Exit {
    match answer["health"].as_str() {
        Some("failed") => Exit::Found,
        Some("degraded") if strict => Exit::Found,
        Some(_) | None => Exit::Ok,
    }
}

fn text(answer: &Value) -> String {
    let mut out = sheets::ALARMS.text(answer);
    let more = answer["left_out"].as_u64().unwrap_or_default();
    if more > 0 {
        out.push_str(&format!("\nand {more} more"));
    }
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use forebay_core::alarms::Code;
    use serde_json::json;

    use super::*;

    /// Around the table of the page that is made of the codes.
    const BEGIN: &str = "<!-- codes -->\n";
    const END: &str = "<!-- end of codes -->";
    /// What each section says.
    const PARTS: [&str; 5] = ["Means.", "At stake.", "Find.", "Mend.", "Over."];

    fn table() -> String {
        let mut out = String::from(
            "\n| code | severity | subject | there is an alarm when | told |\n|---|---|---|---|---|\n",
        );
        for code in Code::ALL {
            let facts = code.facts();
            let name = facts.name;
            let told = if facts.is_told { "*told*" } else { "" };
            out.push_str(&format!(
                "| [`{name}`](#{name}) | {} | {} | {} | {told} |\n",
                facts.severity.name(),
                facts.subject,
                facts.when,
            ));
        }
        out.push('\n');
        out
    }

    #[test]
    fn docs_of_alarms_are_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/alarms.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (head, rest) = page.split_once(BEGIN).expect("where the codes begin");
        let (_, tail) = rest.split_once(END).expect("where they end");
        let made = format!("{head}{BEGIN}{}{END}{tail}", table());
        assert_eq!(crate::shell::docs::checked("alarms.md", &made), Ok(()));
    }

    #[test]
    fn docs_of_alarms_have_a_section_for_each_code_and_no_other() {
        let page = include_str!("../../docs/alarms.md");
        let sections = page.split("\n## ").skip(1);
        let sections: Vec<(&str, &str)> = sections.filter_map(|s| s.split_once('\n')).collect();
        let names: Vec<&str> = sections.iter().map(|(name, _)| *name).collect();
        let codes: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names, codes);
        for (name, text) in sections {
            let begins = PARTS.map(|part| text.find(&format!("**{part}**")));
            assert!(begins.iter().all(Option::is_some), "{name}: {PARTS:?}");
            assert!(begins.is_sorted(), "{name}");
            assert!(
                text.contains('`'),
                "{name}: a command, or a key of the config"
            );
        }
    }

    fn answer(health: &str) -> Value {
        of_status(&json!({
            "health": health,
            "alarms_left_out": 3,
            "alarms": [{
                "code": "port-lost", "severity": "degraded", "subject": "/dev/ttyUSB0",
                "since": "2026-03-01T00:00:00Z", "age_us": 7, "text": "gone, see cable",
                "runbook": "alarms.md#port-lost",
            }],
        }))
    }

    #[test]
    fn an_alarm_is_a_line_with_what_to_do() {
        let shown = text(&answer("degraded"));
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[0].starts_with("severity"), "{shown}");
        assert!(lines[1].ends_with("gone, see cable"), "{shown}");
        assert_eq!(lines[2], "and 3 more");
        let csv = sheets::ALARMS.csv(&answer("degraded"));
        assert_eq!(
            csv.lines().nth(1),
            Some(
                "degraded,port-lost,/dev/ttyUSB0,2026-03-01T00:00:00Z,7,\"gone, see cable\",\
                 alarms.md#port-lost"
            )
        );
        assert_eq!(text(&of_status(&json!({ "alarms": [] }))), "no alarm");
    }

    #[test]
    fn the_exit_code_says_how_bad_it_is() {
        for (health, strict, want) in [
            ("ok", false, Exit::Ok),
            ("ok", true, Exit::Ok),
            ("degraded", false, Exit::Ok),
            ("degraded", true, Exit::Found),
            ("failed", false, Exit::Found),
            ("failed", true, Exit::Found),
        ] {
            assert_eq!(exit(&answer(health), strict), want, "{health} {strict}");
        }
    }
}
