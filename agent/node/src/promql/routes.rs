//! Where Prometheus's API answers over HTTP.
//!
//! Always holds: parameters come from the URL, and of POST also from a form in the body;
//! errors have Prometheus's form. Knows no query.

use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

use super::answer;
use super::ask::{Asked, Ready};
use super::error::QueryError;
use super::form::Form;
use super::limits::ANSWER_TIME_MS;
use super::source::Source;
use crate::sending;

/// The version of Prometheus whose rules are followed, as clients ask for it.
pub const COMPATIBLE: &str = "3.0.0";

/// The paths of Prometheus's API, answered from `source`.
pub fn routes<S: Source>(source: S) -> Router {
    Router::new()
        .route("/api/v1/query", get(query::<S>).post(query::<S>))
        .route(
            "/api/v1/query_range",
            get(query_range::<S>).post(query_range::<S>),
        )
        .route("/api/v1/series", get(series::<S>).post(series::<S>))
        .route("/api/v1/labels", get(labels::<S>).post(labels::<S>))
        .route("/api/v1/label/{name}/values", get(label_values::<S>))
        .route("/api/v1/metadata", get(metadata::<S>))
        .route(
            "/api/v1/query_exemplars",
            get(no_exemplars).post(no_exemplars),
        )
        .route("/api/v1/rules", get(no_rules))
        .route("/api/v1/status/buildinfo", get(buildinfo))
        .with_state(Asked::new(source))
}

fn form(query: Option<&str>, body: &[u8]) -> Form {
    let body = String::from_utf8_lossy(body);
    Form::of(&[&body, query.unwrap_or_default()])
}

fn answered(result: Result<String, QueryError>) -> Response {
    let (status, body) = match result {
        Ok(body) => (200, body),
        Err(error) => (error.status(), answer::error(&error)),
    };
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}

/// An answer that may be long, sent as it is taken.
fn sent(result: Result<Ready, QueryError>) -> Response {
    match result {
        Ok(Ready { pieces, held }) => {
            let body = sending::body(pieces, Duration::from_millis(ANSWER_TIME_MS), held);
            ([(CONTENT_TYPE, "application/json")], body).into_response()
        }
        Err(error) => answered(Err(error)),
    }
}

async fn query<S: Source>(
    State(asked): State<Asked<S>>,
    RawQuery(query): RawQuery,
    body: Bytes,
) -> Response {
    sent(asked.query(&form(query.as_deref(), &body)).await)
}

async fn query_range<S: Source>(
    State(asked): State<Asked<S>>,
    RawQuery(query): RawQuery,
    body: Bytes,
) -> Response {
    sent(asked.query_range(&form(query.as_deref(), &body)).await)
}

async fn series<S: Source>(
    State(asked): State<Asked<S>>,
    RawQuery(query): RawQuery,
    body: Bytes,
) -> Response {
    answered(asked.series(&form(query.as_deref(), &body)).await)
}

async fn labels<S: Source>(
    State(asked): State<Asked<S>>,
    RawQuery(query): RawQuery,
    body: Bytes,
) -> Response {
    answered(asked.labels(&form(query.as_deref(), &body)).await)
}

async fn label_values<S: Source>(
    State(asked): State<Asked<S>>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    answered(
        asked
            .label_values(&name, &form(query.as_deref(), &[]))
            .await,
    )
}

async fn metadata<S: Source>(State(asked): State<Asked<S>>, RawQuery(query): RawQuery) -> Response {
    answered(asked.metadata(&form(query.as_deref(), &[])).await)
}

async fn no_exemplars() -> Response {
    answered(Ok(answer::success("[]", &answer::Notes::default())))
}

async fn no_rules() -> Response {
    let none = r#"{"groups":[]}"#;
    answered(Ok(answer::success(none, &answer::Notes::default())))
}

async fn buildinfo() -> Response {
    let data = serde_json::json!({
        "version": COMPATIBLE,
        "revision": env!("CARGO_PKG_VERSION"),
        "branch": "forebay",
        "buildUser": "",
        "buildDate": "",
        "goVersion": "",
    });
    let body = answer::success(&data.to_string(), &answer::Notes::default());
    answered(Ok(body))
}
