//! Why a query has no answer, in the classes that Prometheus tells apart.

use std::fmt;

/// Class and sentence. The sentence says what to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryError {
    /// The request is wrong.
    BadData(String),
    /// The query is well formed and cannot be computed, or asks for too much.
    Execution(String),
    /// It took too long.
    Timeout(String),
    /// What was asked for does not exist.
    NotFound(String),
    /// Not now.
    Unavailable(String),
}

impl QueryError {
    /// The class, as Prometheus writes it.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::BadData(_) => "bad_data",
            Self::Execution(_) => "execution",
            Self::Timeout(_) => "timeout",
            Self::NotFound(_) => "not_found",
            Self::Unavailable(_) => "unavailable",
        }
    }

    /// The status of HTTP that goes with it.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::BadData(_) => 400,
            Self::Execution(_) => 422,
            Self::NotFound(_) => 404,
            Self::Timeout(_) | Self::Unavailable(_) => 503,
        }
    }

    /// The sentence.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::BadData(text)
            | Self::Execution(text)
            | Self::Timeout(text)
            | Self::NotFound(text)
            | Self::Unavailable(text) => text,
        }
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class(), self.text())
    }
}

impl std::error::Error for QueryError {}
