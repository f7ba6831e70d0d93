//! How a sentence and an exit code reach the operator, and how lengths of time are
//! read from the command line.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use crate::config::duration;
use crate::exit::Exit;
use crate::shell::output;

/// Prints to standard output. A reader that went away, as `head` does, has seen enough:
/// the command ends well and without a word.
pub fn print_line(text: &str) -> ExitCode {
    output::print(&format!("{text}\n"))
}

/// Says what is wrong, on standard error.
pub fn fail(text: &str) -> ExitCode {
    // When even this cannot be written, the exit code remains.
    let _ = writeln!(std::io::stderr(), "forebay: {text}");
    Exit::Failed.into()
}

/// A length of time of the process's own clocks, such as `20s`.
///
/// # Errors
/// What is wrong, for the option's message.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let span = duration::parse(text)?;
    match u64::try_from(span.0) {
        Ok(micros) if micros > 0 => Ok(Duration::from_micros(micros)),
        Ok(_) | Err(_) => Err(String::from("must be longer than 0, for example 20s")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_longer_than_nothing() {
        for (text, want) in [
            ("1us", Some(1)),
            ("20s", Some(20_000_000)),
            ("0s", None),
            ("-1s", None),
            ("x", None),
        ] {
            let micros = parse_duration(text).ok().map(|d| d.as_micros());
            assert_eq!(micros, want, "{text}");
        }
    }
}
