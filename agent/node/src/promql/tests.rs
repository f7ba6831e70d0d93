//! Requests against a source of a few channels: parameters, forms, limits, rollups.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, to_bytes};
use axum::http::Request;
use forebay_core::live::ChannelKey;
use forebay_wire::ids::DeviceUid;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::error::QueryError;
use super::fetch::too_many_samples;
use super::limits::{
    MATCHES_MAX, QUERY_BYTES_MAX, QUERY_NESTING_MAX, QUERY_SELECTORS_MAX, SPAN_MS_MAX, STEPS_MAX,
    TIME_MS_MAX,
};
use super::routes;
use super::source::{Channel, Column, Figures, Known, Rollup, Source};

/// A channel with a reading of rising value every ten seconds from 1 s to an hour.
#[derive(Debug, Clone, Default)]
struct Fake {
    figures_read: Arc<AtomicUsize>,
}

fn key(device: u8, channel: &str) -> ChannelKey {
    ChannelKey {
        uid: DeviceUid([device; 8]),
        channel: channel.into(),
    }
}

fn readings() -> impl Iterator<Item = (i64, f64)> {
    (0..360).map(|n| (1_000_000 + n * 10_000_000, n as f64))
}

impl Source for Fake {
    async fn known(&self) -> Result<Known, QueryError> {
        let channel = |device: u8, name: &str| Channel {
            key: key(device, name),
            device: format!("d{device}").into(),
            unit: "Cel".into(),
            newest: 3_591_000_000,
        };
        Ok(Known {
            gateway: "gw".into(),
            channels: vec![channel(1, "temp"), channel(2, "temp")],
            rollups: vec![Rollup {
                name: "minute".to_owned(),
                size: 60_000_000,
                figures: ["count", "mean", "max"].map(str::to_owned).to_vec(),
            }],
        })
    }

    async fn readings(
        &self,
        keys: Vec<ChannelKey>,
        (from, to): (i64, i64),
        most: usize,
    ) -> Result<Vec<Column>, QueryError> {
        let inside = readings().filter(|(time, _)| (from..to).contains(time));
        let (times, values): (Vec<i64>, Vec<f64>) = inside.unzip();
        if times.len() * keys.len() > most {
            return Err(too_many_samples());
        }
        Ok(keys
            .iter()
            .map(|_| Column {
                times: times.clone(),
                values: values.clone(),
            })
            .collect())
    }

    async fn figures(
        &self,
        keys: Vec<ChannelKey>,
        size: i64,
        (from, to): (i64, i64),
        _most: usize,
    ) -> Result<Vec<Figures>, QueryError> {
        self.figures_read.fetch_add(1, Ordering::Relaxed);
        let mut figures = Figures {
            figures: vec![("mean".to_owned(), vec![]), ("max".to_owned(), vec![])],
            from_rows: true,
            ..Figures::default()
        };
        let first = from.div_euclid(size);
        for start in (first..=to.div_euclid(size)).map(|n| n * size) {
            let inside = readings().filter(|(time, _)| (start..start + size).contains(time));
            let values: Vec<f64> = inside.map(|(_, value)| value).collect();
            if !values.is_empty() {
                figures.ends.push(start + size);
                figures.count.push(values.len() as u64);
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                figures.figures[0].1.push(mean);
                figures.figures[1].1.push(values[values.len() - 1]);
            }
        }
        Ok(keys.iter().map(|_| figures.clone()).collect())
    }
}

async fn sent(source: &Fake, request: Request<Body>) -> (u16, Value) {
    let response = routes(source.clone())
        .oneshot(request)
        .await
        .expect("it answers");
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), 1 << 24)
        .await
        .expect("a short body");
    (
        status,
        serde_json::from_slice(&body).expect("a body of JSON"),
    )
}

async fn get(path: &str) -> (u16, Value) {
    let request = Request::get(path).body(Body::empty()).expect("a request");
    sent(&Fake::default(), request).await
}

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

#[tokio::test]
async fn an_instant_is_asked_by_get_and_by_post() {
    let want = json!([{
        "metric": {
            "__name__": "temp", "channel": "temp", "device": "d1", "gateway": "gw", "unit": "Cel"
        },
        "value": [100.500, "9"],
    }]);
    let query = escaped("temp{device='d1'}");
    let (status, body) = get(&format!("/api/v1/query?query={query}&time=100.5")).await;
    assert_eq!((status, &body["data"]["result"]), (200, &want));
    let request = Request::post("/api/v1/query")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Body::from(format!(
            "query={query}&time=1970-01-01T00:01:40.5Z"
        )));
    let (status, body) = sent(&Fake::default(), request.expect("a request")).await;
    assert_eq!((status, &body["data"]["result"]), (200, &want));
}

#[tokio::test]
async fn parameters_are_checked() {
    for (name, path, status, text) in [
        (
            "no query",
            "/api/v1/query",
            400,
            "invalid parameter \"query\"",
        ),
        (
            "a wrong query",
            "/api/v1/query?query=temp%7B",
            400,
            "parse error",
        ),
        (
            "a wrong time",
            "/api/v1/query?query=1&time=x",
            400,
            "valid timestamp",
        ),
        (
            "a wrong timeout",
            "/api/v1/query?query=1&timeout=0",
            400,
            "above 0",
        ),
        (
            "no start",
            "/api/v1/query_range?query=1&end=1&step=1",
            400,
            "\"start\"",
        ),
        (
            "no step",
            "/api/v1/query_range?query=1&start=0&end=1",
            400,
            "\"step\"",
        ),
        (
            "no time goes on",
            "/api/v1/query_range?query=1&start=0&end=1&step=0",
            400,
            "zero or negative",
        ),
        (
            "backwards",
            "/api/v1/query_range?query=1&start=2&end=1&step=1",
            400,
            "before start",
        ),
        (
            "a matrix by steps",
            "/api/v1/query_range?query=temp[1m]&start=2&end=2&step=1",
            400,
            "range vector",
        ),
        ("series of nothing", "/api/v1/series", 400, "no match[]"),
        (
            "a wrong match",
            "/api/v1/series?match[]=1%2B1",
            400,
            "\"match[]\"",
        ),
        (
            "no label",
            "/api/v1/label/a-b/values",
            400,
            "invalid label name",
        ),
        (
            "not supported",
            "/api/v1/query?query=histogram_quantile(1,temp)",
            400,
            "histogram_quantile()",
        ),
        (
            "it cannot be computed",
            "/api/v1/query?query=topk(NaN,temp)",
            422,
            "overflows int64",
        ),
    ] {
        let (got, body) = get(path).await;
        assert_eq!(got, status, "{name}: {body}");
        assert_eq!(body["status"], "error", "{name}");
        let error = body["error"].as_str().expect("a sentence");
        assert!(error.contains(text), "{name}: {error}");
    }
}

#[tokio::test]
async fn bounds_of_a_request() {
    let steps = |steps: i64| format!("/api/v1/query_range?query=1&start=0&end={steps}&step=1");
    let bytes = |bytes: usize| format!("/api/v1/query?query={:<bytes$}", "1").replace(' ', "+");
    let nested = |deep: usize| {
        format!(
            "/api/v1/query?query={}1{}",
            "(".repeat(deep),
            ")".repeat(deep)
        )
    };
    let selectors =
        |count: usize| format!("/api/v1/query?query={}", vec!["temp"; count].join("%2b"));
    let matches = |count: usize| format!("/api/v1/labels?{}", "match[]=temp&".repeat(count));
    let spans = |millis: i64| {
        format!(
            "/api/v1/query?query=1&lookback_delta={}",
            millis as f64 / 1000.0
        )
    };
    let times = |millis: i64| format!("/api/v1/query?query=1&time={}", millis as f64 / 1000.0);
    for (name, below, at, above) in [
        (
            "steps",
            steps(STEPS_MAX - 1),
            steps(STEPS_MAX),
            steps(STEPS_MAX + 1),
        ),
        (
            "bytes",
            bytes(QUERY_BYTES_MAX - 1),
            bytes(QUERY_BYTES_MAX),
            bytes(QUERY_BYTES_MAX + 1),
        ),
        (
            "nesting",
            nested(QUERY_NESTING_MAX - 1),
            nested(QUERY_NESTING_MAX),
            nested(QUERY_NESTING_MAX + 1),
        ),
        (
            "selectors",
            selectors(QUERY_SELECTORS_MAX - 1),
            selectors(QUERY_SELECTORS_MAX),
            selectors(QUERY_SELECTORS_MAX + 1),
        ),
        (
            "matches",
            matches(MATCHES_MAX - 1),
            matches(MATCHES_MAX),
            matches(MATCHES_MAX + 1),
        ),
        (
            "spans",
            spans(SPAN_MS_MAX - 1),
            spans(SPAN_MS_MAX),
            spans(SPAN_MS_MAX + 1),
        ),
        (
            "times",
            times(TIME_MS_MAX - 1),
            times(TIME_MS_MAX),
            times(TIME_MS_MAX + 1),
        ),
    ] {
        for (place, path, fits) in [
            ("below", below, true),
            ("at", at, true),
            ("above", above, false),
        ] {
            let (status, body) = get(&path).await;
            assert_eq!(status == 200, fits, "{name} {place}: {body}");
        }
    }
}

#[tokio::test]
async fn names_of_series_are_told() {
    for (path, want) in [
        (
            "/api/v1/labels",
            json!(["__name__", "channel", "device", "gateway", "unit"]),
        ),
        (
            "/api/v1/label/__name__/values",
            json!(["minute:count", "minute:max", "minute:mean", "temp"]),
        ),
        (
            "/api/v1/label/device/values?match[]=temp",
            json!(["d1", "d2"]),
        ),
        (
            "/api/v1/label/device/values?match[]=temp&limit=1",
            json!(["d1"]),
        ),
        ("/api/v1/label/device/values?start=3592&end=4000", json!([])),
        (
            "/api/v1/series?match[]=temp%7Bdevice%3D%22d2%22%7D&match[]=temp%7Bdevice%3D%22d2%22%7D",
            json!([{
                "__name__": "temp", "channel": "temp", "device": "d2", "gateway": "gw", "unit": "Cel"
            }]),
        ),
        (
            "/api/v1/metadata?metric=temp",
            json!({"temp": [{
                "type": "gauge", "help": "Readings of the channel temp.", "unit": "Cel"
            }]}),
        ),
        ("/api/v1/query_exemplars", json!([])),
        ("/api/v1/rules", json!({"groups": []})),
    ] {
        let (status, body) = get(path).await;
        assert_eq!((status, &body["data"]), (200, &want), "{path}");
    }
    let (_, body) = get("/api/v1/label/device/values?limit=1").await;
    assert_eq!(body["warnings"], json!(["results truncated due to limit"]));
    let (_, body) = get("/api/v1/status/buildinfo").await;
    assert_eq!(body["data"]["version"], super::routes::COMPATIBLE);
}

#[tokio::test]
async fn figures_answer_where_windows_lie_on_their_grid() {
    for (name, query, range, rolled) in [
        (
            "on it",
            "avg_over_time(temp[5m])",
            "start=600&end=1200&step=60",
            true,
        ),
        (
            "moved by whole windows",
            "avg_over_time(temp[5m] offset 2m)",
            "start=600&end=1200&step=60",
            true,
        ),
        (
            "moved by less",
            "avg_over_time(temp[5m] offset 30s)",
            "start=600&end=1200&step=60",
            false,
        ),
        (
            "steps beside it",
            "avg_over_time(temp[5m])",
            "start=600&end=1200&step=30",
            false,
        ),
        (
            "a start beside it",
            "avg_over_time(temp[5m])",
            "start=601&end=1200&step=60",
            false,
        ),
        (
            "a window beside it",
            "avg_over_time(temp[90s])",
            "start=600&end=1200&step=60",
            false,
        ),
        (
            "a figure that there is not",
            "min_over_time(temp[5m])",
            "start=600&end=1200&step=60",
            false,
        ),
        (
            "a function without one",
            "stddev_over_time(temp[5m])",
            "start=600&end=1200&step=60",
            false,
        ),
        (
            "not wanted",
            "avg_over_time(temp[5m])",
            "start=600&end=1200&step=60&rollups=off",
            false,
        ),
        (
            "one time on it",
            "max_over_time(temp[5m] @ 600)",
            "start=601&end=601&step=1",
            true,
        ),
    ] {
        let source = Fake::default();
        let path = format!("/api/v1/query_range?query={}&{range}", escaped(query));
        let request = || Request::get(&path).body(Body::empty()).expect("a request");
        let (status, body) = sent(&source, request()).await;
        assert_eq!(status, 200, "{name}: {body}");
        assert_eq!(
            source.figures_read.load(Ordering::Relaxed) > 0,
            rolled,
            "{name}"
        );
        assert_eq!(body["infos"].is_array(), rolled, "{name}");
        // No reading lies on a bound of a window, so both ways give the same.
        let plain = format!("{path}&rollups=off");
        let (_, other) = get(&plain).await;
        assert_eq!(body["data"], other["data"], "{name}");
        assert_eq!(
            body["data"]["result"].as_array().map(Vec::len),
            Some(2),
            "{name}"
        );
    }
}

#[tokio::test]
async fn figures_are_series_of_their_own() {
    let query = escaped("minute:mean{device='d1'}");
    let path = format!("/api/v1/query_range?query={query}&start=60&end=240&step=60");
    let (_, body) = get(&path).await;
    assert_eq!(
        body["data"]["result"][0]["values"],
        json!([[60, "2.5"], [120, "8.5"], [180, "14.5"], [240, "20.5"]])
    );
}
