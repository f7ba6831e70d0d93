//! Whether the agent is there, and whether it does its work.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use super::App;
use super::ask;
use super::problem::{Kind, Problem};

/// It runs.
pub(super) async fn healthz() -> Response {
    text("ok\n")
}

/// Its log is open and read, and the engine has caught up with where it had been.
pub(super) async fn readyz(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let status = ask::status(&app).await?;
    if status["recovered"] == true {
        return Ok(text("ready\n"));
    }
    let detail = "the agent still reads its log: ask again in a second";
    Err(Problem::new(Kind::NotReady, detail).after(1))
}

fn text(text: &'static str) -> Response {
    ([(CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}
