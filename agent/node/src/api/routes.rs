//! What is answered with what the agent says of itself: status, devices, ledger, alarms,
//! streams.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use forebay_core::alarms;
use forebay_core::devices::DeviceRequest;
use forebay_core::query::{Query, Reply};
use serde_json::{Value, json};

use super::endpoints::{self, Endpoint};
use super::given::{Given, NAME_BYTES_MAX};
use super::metrics::{self, Process};
use super::problem::{Kind, Problem};
use super::{App, accept, ask, openapi};
use crate::agent::device_questions::{self, DeviceQuestion};
use crate::agent::questions;

type Answer = Result<Response, Problem>;

/// Refuses parameters, as these have none, and forms other than JSON.
pub(super) fn plain(
    endpoint: &'static Endpoint,
    headers: &HeaderMap,
    query: &RawQuery,
) -> Result<(), Problem> {
    Given::read(endpoint, query.0.as_deref(), ask::now())?;
    accept::form(headers, false).map(drop)
}

pub(super) fn answer(reply: impl Into<Reply>) -> Response {
    let text = reply.into().into_text();
    ([(CONTENT_TYPE, "application/json")], text).into_response()
}

/// `GET /api/v1/status`
pub(super) async fn status(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    query: RawQuery,
) -> Answer {
    plain(&endpoints::STATUS, &headers, &query)?;
    ask::status(&app).await.map(answer)
}

/// `GET /api/v1/ledger`
pub(super) async fn ledger(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    query: RawQuery,
) -> Answer {
    plain(&endpoints::LEDGER, &headers, &query)?;
    let status = ask::status(&app).await?.into_value();
    let devices = status["devices"].as_array().into_iter().flatten();
    let devices = devices.map(|device| {
        json!({
            "device": device["device"],
            "uid": device["uid"],
            "ledger": device["ledger"],
        })
    });
    let devices: Value = devices.collect();
    Ok(answer(json!({
        "gateway": status["gateway"],
        "received": status["received"],
        "stored": status["stored"],
        "duplicates": status["duplicates"],
        "lost": status["lost"],
        "gaps": status["gaps"],
        "devices": devices,
    })))
}

/// `GET /api/v1/alarms`
pub(super) async fn alarms(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    query: RawQuery,
) -> Answer {
    plain(&endpoints::ALARMS, &headers, &query)?;
    let status = ask::summary(&app).await?;
    Ok(answer(alarms::of_status(status.object())))
}

/// `GET /metrics`
pub(super) async fn metrics(State(app): State<Arc<App>>, query: RawQuery) -> Answer {
    // Whatever form a scraper would rather have, it takes this one.
    Given::read(&endpoints::METRICS, query.0.as_deref(), ask::now())?;
    let status = ask::status(&app).await?.into_value();
    let text = metrics::render(&metrics::AGENT, &status, &Process::now());
    Ok(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}

/// `GET /api/v1/devices`
pub(super) async fn devices(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    query: RawQuery,
) -> Answer {
    plain(&endpoints::DEVICES, &headers, &query)?;
    let list = DeviceQuestion::Core(DeviceRequest::List);
    ask::reply(&app, device_questions::write(&list))
        .await
        .map(answer)
}

/// `GET /api/v1/devices/{device}`
pub(super) async fn device(
    State(app): State<Arc<App>>,
    Path(device): Path<String>,
    headers: HeaderMap,
    query: RawQuery,
) -> Answer {
    plain(&endpoints::DEVICE, &headers, &query)?;
    if device.is_empty() || device.len() > NAME_BYTES_MAX {
        let detail = format!("a name of a device has 1 to {NAME_BYTES_MAX} bytes");
        return Err(Problem::new(Kind::BadParameter, detail));
    }
    let show = DeviceQuestion::Core(DeviceRequest::Show { device });
    let device = ask::ask(&app, device_questions::write(&show)).await;
    // A name is all that can be wrong here.
    let device = device.map_err(|problem| {
        if problem.kind == Kind::BadParameter {
            return Problem::new(Kind::NoSuchName, problem.detail);
        }
        problem
    })?;
    Ok(answer(device))
}

/// Streams that every log has, with what they are.
const FIXED: [(&str, &str); 5] = [
    ("readings", "readings"),
    ("control", "log"),
    ("late", "log"),
    ("quarantine", "log"),
    ("changes", "log"),
];

/// `GET /api/v1/streams`
pub(super) async fn streams(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    query: RawQuery,
) -> Answer {
    plain(&endpoints::STREAMS, &headers, &query)?;
    let views = ask::ask(&app, questions::write(&Query::Views)).await?;
    let fixed = FIXED.map(|(stream, kind)| json!({ "stream": stream, "kind": kind }));
    let views = views["views"].as_array().into_iter().flatten();
    let views = views.map(|view| {
        json!({
            "stream": view["stream"],
            "kind": "view",
            "state": view["state"],
            "rows": view["rows"],
        })
    });
    let streams: Value = fixed.into_iter().chain(views).collect();
    Ok(answer(json!({ "streams": streams })))
}

/// `GET /api/v1/openapi.json`
pub(super) async fn document(headers: HeaderMap, query: RawQuery) -> Answer {
    plain(&endpoints::DOCUMENT, &headers, &query)?;
    Ok(answer(openapi::document()))
}
