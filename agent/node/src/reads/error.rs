//! Why a question is not answered.

use std::fmt;

use forebay_core::query::PlanError;

/// See the module. Each sentence says what to ask instead, or what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadError {
    /// There is nothing of that name.
    Unknown(String),
    /// What is asked makes no sense.
    Wrong(String),
    /// More than one answer takes.
    TooMuch(String),
    /// Too many questions wait already: ask again in a moment.
    Busy,
    /// The agent has stopped.
    Stopped,
    /// The disk does not give what stands on it.
    Disk(String),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(text) | Self::Wrong(text) | Self::TooMuch(text) | Self::Disk(text) => {
                f.write_str(text)
            }
            Self::Busy => {
                f.write_str("too many questions are being answered: ask again in a moment")
            }
            Self::Stopped => f.write_str("the agent has stopped"),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<PlanError> for ReadError {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Unknown(text) => Self::Unknown(text),
            PlanError::Wrong(text) => Self::Wrong(text),
            PlanError::TooMuch(text) => Self::TooMuch(text),
        }
    }
}
