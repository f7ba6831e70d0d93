//! What a receiver answers over HTTP: whether it is there and does its work, its status,
//! ledger and alarms, and all of its figures as metrics. It is asked as its local socket
//! asks it; readings that it applied are its sink's to give.

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use forebay_core::alarms;
use forebay_core::near::did_you_mean;
use forebay_core::query::Reply;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::endpoints::{ALARMS, HEALTHZ, LEDGER, METRICS, READYZ, STATUS};
use super::given::Given;
use super::metrics::{self, Process};
use super::problem::{Kind, Problem, shown};
use super::routes::{answer, plain};
use super::{ask, health};
use crate::local::{self, Asked};
use crate::reads::ReadError;

/// Who answers.
type Receiver = State<mpsc::Sender<Asked>>;

/// All that is answered; the manual names them.
pub(super) const PATHS: [&str; 6] = [
    HEALTHZ.path,
    READYZ.path,
    METRICS.path,
    STATUS.path,
    LEDGER.path,
    ALARMS.path,
];

/// The routes of a receiver that takes questions by `asked`.
pub(super) fn routes(asked: mpsc::Sender<Asked>) -> Router {
    Router::new()
        .route(HEALTHZ.path, get(health::healthz))
        .route(READYZ.path, get(readyz))
        .route(METRICS.path, get(metrics))
        .route(STATUS.path, get(status))
        .route(LEDGER.path, get(ledger))
        .route(ALARMS.path, get(alarms))
        .with_state(asked)
        .fallback(no_such_path)
}

async fn ask_status(asked: &mpsc::Sender<Asked>, about: Value) -> Result<Reply, Problem> {
    let reply = local::ask_within(asked, json!({ "status": about })).await;
    let reply = reply.ok_or(ReadError::Stopped);
    let reply = reply.and_then(|reply| reply.map_err(ReadError::Wrong));
    reply.map_err(ask::problem)
}

/// `GET /readyz`: the sink is open, and the broker answers.
async fn readyz(State(asked): Receiver, RawQuery(query): RawQuery) -> Result<Response, Problem> {
    Given::read(&READYZ, query.as_deref(), ask::now())?;
    let status = ask_status(&asked, json!({})).await?;
    let status = status.object();
    if status["connected"] == true && status["sink_said"].is_null() {
        return Ok(health::text("ready\n"));
    }
    // Why not is told to who may read the status.
    let detail =
        "the receiver applies nothing right now: forebay alarms, with its config, says why";
    Err(Problem::new(Kind::NotReady, detail).after(1))
}

/// `GET /metrics`
async fn metrics(State(asked): Receiver, RawQuery(query): RawQuery) -> Result<Response, Problem> {
    Given::read(&METRICS, query.as_deref(), ask::now())?;
    let status = ask_status(&asked, json!({ "ledger": true })).await?;
    let status = status.into_value();
    let text = metrics::render(&metrics::RECEIVER, &status, &Process::now());
    Ok(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}

/// `GET /api/v1/status`, as `forebay upstream status --json` shows it.
async fn status(
    State(asked): Receiver,
    headers: HeaderMap,
    query: RawQuery,
) -> Result<Response, Problem> {
    plain(&STATUS, &headers, &query)?;
    ask_status(&asked, json!({})).await.map(answer)
}

/// `GET /api/v1/ledger`, as the member `ledger` of `forebay upstream status --ledger --json`.
async fn ledger(
    State(asked): Receiver,
    headers: HeaderMap,
    query: RawQuery,
) -> Result<Response, Problem> {
    plain(&LEDGER, &headers, &query)?;
    let status = ask_status(&asked, json!({ "ledger": true })).await?;
    Ok(answer(status.into_value()["ledger"].take()))
}

/// `GET /api/v1/alarms`
async fn alarms(
    State(asked): Receiver,
    headers: HeaderMap,
    query: RawQuery,
) -> Result<Response, Problem> {
    plain(&ALARMS, &headers, &query)?;
    let status = ask_status(&asked, json!({})).await?;
    Ok(answer(alarms::of_status(status.object())))
}

async fn no_such_path(uri: Uri) -> Problem {
    let near = did_you_mean(uri.path(), PATHS);
    let path = shown(uri.path());
    let detail = format!(
        "nothing is at {path}{near}; a receiver answers {}",
        PATHS.join(", ")
    );
    Problem::new(Kind::NotFound, detail)
}
