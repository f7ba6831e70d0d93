//! Which run of the agent answers: in headers of each answer about it, so that whoever keeps
//! answers tells those of one process, and of its log, from those of the next one.
//!
//! Holds always: two runs have different values but for chance; nothing of a run is told to
//! who may not ask. Knows no route.

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;

use super::page;

/// Another one with each start.
const RUN: HeaderName = HeaderName::from_static("forebay-run");
/// Version of the page that this program gives out.
const PAGE: HeaderName = HeaderName::from_static("forebay-page");

/// The headers of one run.
#[derive(Debug, Clone)]
pub(super) struct Run([(HeaderName, HeaderValue); 2]);

impl Run {
    pub(super) fn new() -> Self {
        // Without random bytes the number of the process tells runs apart as well.
        let number = getrandom::u64().unwrap_or_else(|_| std::process::id().into());
        let text = |text: &str| HeaderValue::from_str(text).expect("digits");
        Self([
            (RUN, text(&format!("{number:016x}"))),
            (PAGE, text(page::version())),
        ])
    }

    /// Puts them on an answer.
    pub(super) fn mark(&self, mut response: Response) -> Response {
        response.headers_mut().extend(self.0.clone());
        response
    }
}
