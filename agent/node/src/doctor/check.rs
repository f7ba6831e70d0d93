//! What a check is, and what came of one.

use serde_json::{Value, json};

/// One thing that is looked at. Its code never changes its meaning.
#[derive(Debug, PartialEq, Eq)]
pub struct Check {
    pub code: &'static str,
    /// Ends a sentence that begins with "Whether".
    pub looks_at: &'static str,
    /// What helps in general, when it is not all right.
    pub advice: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Ok,
    /// The agent works, and somebody should look.
    Warn,
    /// It does not work, or does not keep what it promises.
    Fail,
    /// It could not be told, or is not needed.
    Skip,
}

impl Level {
    pub const ALL: [Self; 4] = [Self::Ok, Self::Warn, Self::Fail, Self::Skip];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
            Self::Skip => "skip",
        }
    }
}

/// What came of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub check: &'static Check,
    pub level: Level,
    /// Which of several: a port, a destination; empty where there is one.
    pub about: String,
    /// The measured fact. Never a secret.
    pub text: String,
    /// What to do; empty when nothing.
    pub advice: String,
}

impl Finding {
    fn new(check: &'static Check, level: Level, text: String, advice: String) -> Self {
        Self {
            check,
            level,
            about: String::new(),
            text,
            advice,
        }
    }

    pub(super) fn ok(check: &'static Check, text: impl Into<String>) -> Self {
        Self::new(check, Level::Ok, text.into(), String::new())
    }

    pub(super) fn skip(check: &'static Check, text: impl Into<String>) -> Self {
        Self::new(check, Level::Skip, text.into(), String::new())
    }

    pub(super) fn warn(
        check: &'static Check,
        text: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::new(check, Level::Warn, text.into(), advice.into())
    }

    pub(super) fn fail(
        check: &'static Check,
        text: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::new(check, Level::Fail, text.into(), advice.into())
    }

    pub(super) fn of(mut self, about: &str) -> Self {
        about.clone_into(&mut self.about);
        self
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "code": self.check.code,
            "level": self.level.name(),
            "about": self.about,
            "text": self.text,
            "advice": self.advice,
        })
    }
}
