//! What routes ask the agent, and what its refusals are over HTTP.

use std::time::{SystemTime, UNIX_EPOCH};

use forebay_core::query::{Query, Reply};
use forebay_core::units::EventTime;
use serde_json::Value;

use super::App;
use super::problem::{Kind, Problem};
use crate::agent::questions;
use crate::reads::ReadError;

/// What this computer's clock says.
pub(super) fn now() -> EventTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = since.unwrap_or_default().as_micros();
    EventTime(i64::try_from(micros).unwrap_or_default())
}

/// Asks as the local socket does.
pub(super) async fn ask(app: &App, request: Value) -> Result<Value, Problem> {
    reply(app, request).await.map(Reply::into_value)
}

/// The same as it comes: what is only handed on needs no tree.
pub(super) async fn reply(app: &App, request: Value) -> Result<Reply, Problem> {
    app.reads.ask(request).await.map_err(problem)
}

/// What a refusal of the agent is over HTTP.
pub(super) fn problem(error: ReadError) -> Problem {
    match error {
        ReadError::Unknown(text) => Problem::new(Kind::NoSuchName, text),
        ReadError::Wrong(text) => Problem::new(Kind::BadParameter, text),
        ReadError::TooMuch(text) => Problem::new(Kind::TooMuch, text),
        ReadError::Busy => Problem::busy(error.to_string()),
        ReadError::Stopped => Problem::new(Kind::Stopping, error.to_string()).after(5),
        ReadError::Disk(text) => Problem::new(Kind::Failed, text),
    }
}

/// The status without its devices.
pub(super) async fn summary(app: &App) -> Result<Reply, Problem> {
    reply(app, questions::write(&Query::Summary)).await
}

/// The status, as `forebay status --json` shows it.
pub(super) async fn status(app: &App) -> Result<Reply, Problem> {
    reply(app, questions::write(&Query::Status)).await
}
