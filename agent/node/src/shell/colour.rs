//! Colours on a terminal: one decision for the whole command, by `--color`, `NO_COLOR`,
//! `CLICOLOR_FORCE` and whether there is a terminal. No meaning is by colour alone: a
//! colour repeats what a word says.

use std::io::IsTerminal as _;
use std::sync::OnceLock;

use clap::ValueEnum;

/// When colours are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Default)]
pub enum ColorWhen {
    /// On a terminal; NO_COLOR and CLICOLOR_FORCE are honoured
    #[default]
    Auto,
    Always,
    Never,
}

/// How a word is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    #[default]
    Plain,
    Good,
    /// Somebody should look at it.
    Warn,
    Bad,
    /// Less important than what stands beside it.
    Faint,
    /// A head of a table.
    Head,
}

static STDOUT: OnceLock<bool> = OnceLock::new();

impl ColorWhen {
    /// What holds with this environment.
    #[must_use]
    pub fn decide(self, variable: impl Fn(&str) -> Option<String>, is_terminal: bool) -> bool {
        let set = |name: &str| variable(name).filter(|text| !text.is_empty());
        match self {
            Self::Always => true,
            Self::Never => false,
            // Whoever forbids colours wins over whoever forces them.
            Self::Auto if set("NO_COLOR").is_some() => false,
            Self::Auto if set("CLICOLOR_FORCE").is_some_and(|text| text != "0") => true,
            Self::Auto => is_terminal && set("TERM").is_none_or(|term| term != "dumb"),
        }
    }

    /// Decides for this process; the first call counts.
    pub fn set(self) {
        STDOUT.get_or_init(|| self.decide(environment, std::io::stdout().is_terminal()));
    }
}

fn environment(name: &str) -> Option<String> {
    std::env::var_os(name).map(|text| text.to_string_lossy().into_owned())
}

/// Whether standard output has colours.
#[must_use]
pub fn on() -> bool {
    STDOUT.get().copied().unwrap_or_default()
}

impl Tone {
    /// The tone of a word that says how something does.
    #[must_use]
    pub fn of(word: &str) -> Self {
        let word = word.split([' ', ',']).next().unwrap_or_default();
        match word {
            "ok" | "yes" | "open" | "live" | "online" | "streaming" | "connected" | "trusted" => {
                Self::Good
            }
            "warn" | "degraded" | "waiting" | "building" | "preliminary" | "opening" | "late"
            | "stale" => Self::Warn,
            "NO" | "failed" | "fail" | "lost" | "FULL" | "gone" | "refused" | "error"
            | "silent" => Self::Bad,
            "-" | "skip" | "dropped" | "standing" => Self::Faint,
            _ => Self::Plain,
        }
    }

    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "32",
            Self::Warn => "33",
            Self::Bad => "1;31",
            Self::Faint => "2",
            Self::Head => "1",
        }
    }

    /// The text in this tone, where `colours` are wanted.
    #[must_use]
    pub fn paint(self, text: &str, colours: bool) -> String {
        if !colours || text.is_empty() || self == Self::Plain {
            return text.to_owned();
        }
        format!("\x1b[{}m{text}\x1b[0m", self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_decided_once_for_all() {
        use ColorWhen::{Always, Auto, Never};
        for (name, when, vars, is_terminal, want) in [
            ("a terminal", Auto, &[][..], true, true),
            ("a pipe", Auto, &[], false, false),
            ("NO_COLOR", Auto, &[("NO_COLOR", "1")], true, false),
            ("NO_COLOR of no text", Auto, &[("NO_COLOR", "")], true, true),
            ("forced", Auto, &[("CLICOLOR_FORCE", "1")], false, true),
            (
                "forced by 0",
                Auto,
                &[("CLICOLOR_FORCE", "0")],
                false,
                false,
            ),
            (
                "both",
                Auto,
                &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")],
                true,
                false,
            ),
            ("a dumb one", Auto, &[("TERM", "dumb")], true, false),
            ("always", Always, &[("NO_COLOR", "1")], false, true),
            ("never", Never, &[("CLICOLOR_FORCE", "1")], true, false),
        ] {
            let variable = |name: &str| {
                let found = vars.iter().find(|(known, _)| *known == name);
                found.map(|(_, text)| String::from(*text))
            };
            assert_eq!(when.decide(variable, is_terminal), want, "{name}");
        }
    }

    #[test]
    fn paint_keeps_the_words() {
        for (word, tone) in [
            ("ok", Tone::Good),
            ("NO, off by 2", Tone::Bad),
            ("waiting for 3 s", Tone::Warn),
            ("anything", Tone::Plain),
            ("", Tone::Plain),
        ] {
            assert_eq!(Tone::of(word), tone, "{word}");
            assert_eq!(tone.paint(word, false), word);
            assert!(tone.paint(word, true).contains(word));
        }
        assert_eq!(Tone::Bad.paint("x", true), "\x1b[1;31mx\x1b[0m");
    }
}
