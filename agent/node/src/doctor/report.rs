//! All findings as a person or a program reads them, and what the exit code says.

use serde_json::{Value, json};

use super::check::{Finding, Level};
use crate::exit::Exit;
use crate::shell::colour::Tone;

/// See the module's text.
#[derive(Debug, Clone, Default)]
pub struct Report {
    pub findings: Vec<Finding>,
}

impl Report {
    fn count(&self, level: Level) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.level == level)
            .count()
    }

    #[must_use]
    pub fn exit(&self) -> Exit {
        if self.count(Level::Fail) > 0 {
            Exit::Found
        } else {
            Exit::Ok
        }
    }

    #[must_use]
    pub fn to_json(&self) -> Value {
        let counts = Level::ALL.map(|level| (level.name().to_owned(), json!(self.count(level))));
        json!({
            "counts": counts.into_iter().collect::<serde_json::Map<_, _>>(),
            "checks": self.findings.iter().map(Finding::to_json).collect::<Vec<_>>(),
        })
    }

    /// One line per check, and what to do under those that need it; the sum at the end.
    #[must_use]
    pub fn text(&self, colours: bool) -> String {
        let codes = self.findings.iter().map(|finding| finding.check.code.len());
        let width = codes.max().unwrap_or_default();
        let mut lines = Vec::new();
        for finding in &self.findings {
            let level = format!("{:<4}", finding.level.name());
            let level = Tone::of(finding.level.name()).paint(&level, colours);
            let about = if finding.about.is_empty() {
                String::new()
            } else {
                format!("{}: ", finding.about)
            };
            lines.push(format!(
                "{level}  {:<width$}  {about}{}",
                finding.check.code, finding.text
            ));
            if !finding.advice.is_empty() {
                lines.push(format!("{:6}{:<width$}  -> {}", "", "", finding.advice));
            }
        }
        let [ok, warn, fail, skip] = Level::ALL.map(|level| self.count(level));
        lines.push(format!(
            "{fail} failed, {warn} to look at, {ok} good, {skip} skipped"
        ));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::super::codes::{CLOCK_RTC, DISK_FSYNC, PORT_THERE};
    use super::*;

    #[test]
    fn a_check_that_fails_is_said_with_what_to_do_and_counts() {
        let mut report = Report {
            findings: vec![
                Finding::ok(&DISK_FSYNC, "2 ms"),
                Finding::warn(&CLOCK_RTC, "none", "add one"),
                Finding::skip(&CLOCK_RTC, "unknown"),
            ],
        };
        assert_eq!(report.exit(), Exit::Ok, "a warning is no failure");
        report
            .findings
            .push(Finding::fail(&PORT_THERE, "is not there", "plug it in").of("/dev/x"));
        assert_eq!(report.exit(), Exit::Found);
        assert_eq!(
            report.text(false),
            "ok    disk.fsync  2 ms\n\
             warn  clock.rtc   none\n                  -> add one\n\
             skip  clock.rtc   unknown\n\
             fail  port.there  /dev/x: is not there\n                  -> plug it in\n\
             1 failed, 1 to look at, 1 good, 1 skipped"
        );
        let json = report.to_json();
        assert_eq!(json["counts"]["fail"], 1);
        assert_eq!(json["checks"][3]["about"], "/dev/x");
        assert_eq!(json["checks"][3]["advice"], "plug it in");
    }
}
