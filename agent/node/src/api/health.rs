//! Whether the agent is there, and whether it does its work.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use super::endpoints::{HEALTHZ, READYZ};
use super::given::Given;
use super::problem::{Kind, Problem};
use super::{App, ask};

/// It runs.
pub(super) async fn healthz(RawQuery(query): RawQuery) -> Result<Response, Problem> {
    Given::read(&HEALTHZ, query.as_deref(), ask::now())?;
    Ok(text("ok\n"))
}

/// Its log is open and read, and the engine has caught up with where it had been.
pub(super) async fn readyz(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    Given::read(&READYZ, query.as_deref(), ask::now())?;
    let status = ask::summary(&app).await?;
    if status.object()["recovered"] == true {
        return Ok(text("ready\n"));
    }
    let detail = "the agent still reads its log: ask again in a second";
    Err(Problem::new(Kind::NotReady, detail).after(1))
}

pub(super) fn text(text: &'static str) -> Response {
    ([(CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}
