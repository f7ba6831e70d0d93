//! What a command says with its exit code: one list for all of them. The page
//! agent/node/docs/exit-codes.md is made of it; a test compares. Knows no command.

use std::fmt::Write as _;
use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// It did what was asked.
    Ok = 0,
    /// It could not be done, or not to the end.
    Failed = 1,
    /// Nothing was done: the command line, the config, or what they point at is wrong.
    Usage = 2,
    /// Nobody answers at the socket.
    Unreachable = 3,
    /// It was done, and what was looked at is not all right.
    Found = 4,
}

impl Exit {
    /// All of them, by number.
    pub const ALL: [Self; 5] = [
        Self::Ok,
        Self::Failed,
        Self::Usage,
        Self::Unreachable,
        Self::Found,
    ];

    /// The number that the shell sees.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// What it means, for a page of the manual.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Ok => "done as asked; also when whoever read the output had enough (`| head`)",
            Self::Failed => {
                "could not be done, or not to the end: the agent refused it, a device did not \
                 answer, a disk or a connection failed. The sentence on standard error says which"
            }
            Self::Usage => {
                "nothing was done: the command line or the config is wrong, or what they point at \
                 (a file, a log, a topic, the socket of another user) cannot be used"
            }
            Self::Unreachable => {
                "nobody answers at the socket: no agent or receiver runs with this config"
            }
            Self::Found => {
                "done to the end, and what was looked at is not all right: bad lines of an input, \
                 damage in a log, rows that differ, offsets that are not proven, a check that fails"
            }
        }
    }

    /// The page of the manual.
    #[must_use]
    pub fn page() -> String {
        let mut out = String::from(
            "# Exit codes\n\n\
             What every `forebay` command ends with. Written by `agent/node/src/exit.rs`; \
             `FOREBAY_WRITE_DOCS=1 cargo test -p forebay --lib docs_of` writes it anew.\n\n\
             | code | meaning |\n|---|---|\n",
        );
        for exit in Self::ALL {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "| {} | {} |", exit.number(), exit.about());
        }
        out.push_str(
            "\n`forebay try` asks nobody, and keeps what its users know: 1 also says that a line was \
             bad (`--strict`), and 3 that what it computed twice differs, a defect to report.\n\
             \nA command that a signal ends (Ctrl-C, `kill`) has the shell's own code for that, \
             but for those that run until a signal ends them (`run`, `upstream`, `demo`, `top`): \
             these end with 0.\n",
        );
        out
    }

    /// The same for `--help`.
    #[must_use]
    pub fn help() -> String {
        "Exit codes: 0 done; 1 failed; 2 wrong command line or config; 3 nobody answers at the \
         socket;\n4 a check found something. More: \
         agent/node/docs/exit-codes.md"
            .to_owned()
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}

/// Why a command ends early: how, and the sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub exit: Exit,
    pub text: String,
}

impl Failure {
    #[must_use]
    pub fn new(exit: Exit, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { exit, text }
    }

    /// The command line, the config, or what they point at is wrong.
    #[must_use]
    pub fn usage(text: impl Into<String>) -> Self {
        Self::new(Exit::Usage, text)
    }
}

impl From<Failure> for String {
    fn from(failure: Failure) -> Self {
        failure.text
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::new(Exit::Failed, text)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docs_of_exit_codes_are_current() {
        let written = crate::shell::docs::checked("exit-codes.md", &Exit::page());
        assert_eq!(written, Ok(()));
    }

    #[test]
    fn numbers_are_those_of_the_page() {
        for (at, exit) in Exit::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(exit.number()), at);
            let line = format!("| {at} | {} |", exit.about());
            assert!(Exit::page().contains(&line), "{line}");
            assert!(Exit::help().contains(&format!("{at} ")), "{at}");
        }
    }
}
