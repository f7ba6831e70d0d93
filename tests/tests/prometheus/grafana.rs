//! Requests of Grafana's data source for Prometheus, of two of its major versions, as they
//! were recorded (`tests/fixtures/grafana/record.mjs` says how): each is sent unchanged, and
//! what comes back must have the form in which Grafana reads it.

use std::fs;

use forebay_tests::process::root;
use serde_json::Value;

use super::rig::Agent;
use super::samples::all;
use super::web::{Request, sent};

/// The versions, as the names of the fixtures have them.
const VERSIONS: [u32; 2] = [11, 13];
/// Grafana asks these by POST first, and by GET once that is refused with 405 (or 400).
const GET_ONLY: [&str; 2] = ["/api/v1/status/buildinfo", "/api/v1/rules"];
/// What has no data among the test's samples.
const EMPTY: [&str; 1] = ["a year in a panel"];

#[test]
fn recorded_requests_of_grafana_are_answered() {
    let agent = Agent::start(&all());
    for version in VERSIONS {
        let file = format!("tests/fixtures/grafana/requests-{version}.json");
        let text = fs::read_to_string(root().join(file)).expect("the fixture is there");
        let recorded: Value = serde_json::from_str(&text).expect("it is JSON");
        let requests = recorded["requests"].as_array().expect("a list");
        assert!(
            requests.len() > 25,
            "{version}: {} requests",
            requests.len()
        );
        for request in requests {
            let name = format!("{version}, {}: {request}", request["name"]);
            replay(&agent, request).unwrap_or_else(|why| panic!("{name}: {why}"));
        }
    }
}

fn replay(agent: &Agent, recorded: &Value) -> Result<(), String> {
    let text = |name: &str| recorded[name].as_str().unwrap_or_default();
    let headers = recorded["headers"].as_object();
    let headers = headers.map(|headers| {
        let pairs = headers.iter();
        let pairs = pairs.map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default()));
        pairs.collect()
    });
    let request = Request {
        method: text("method"),
        path: text("path"),
        form: recorded["form"].as_str(),
        headers: headers.unwrap_or_default(),
    };
    let (path, _) = request.path.split_once('?').unwrap_or((request.path, ""));
    let got = sent(agent.port, &request)?;
    if request.method == "POST" && GET_ONLY.contains(&path) {
        return (got.status == 405)
            .then_some(())
            .ok_or(format!("{} where Grafana waits for 405", got.status));
    }
    if got.status != 200 || !got.is_json() {
        return Err(format!("{} {}: {}", got.status, got.kind, got.body));
    }
    let body: Value = serde_json::from_str(&got.body).map_err(|error| error.to_string())?;
    has_form(path, &body, &got.body)?;
    let may_be_empty = EMPTY.contains(&text("name")) || path.ends_with("exemplars");
    if may_be_empty || path.ends_with("rules") || path.ends_with("buildinfo") {
        return Ok(());
    }
    let found = match &body["data"] {
        Value::Array(items) => !items.is_empty(),
        Value::Object(data) => match data.get("result") {
            Some(Value::Array(items)) => !items.is_empty(),
            Some(_) => false,
            None => !data.is_empty(),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    found.then_some(()).ok_or(format!("no data: {body}"))
}

/// The form of an answer, as Grafana's server reads it (queries, exemplars) or its front end
/// (all others).
fn has_form(path: &str, body: &Value, text: &str) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{what}: {text:.500}"));
    let data = &body["data"];
    if body["status"] != "success" {
        return wrong("status");
    }
    let notes = ["warnings", "infos"]
        .iter()
        .all(|name| match body.get(name) {
            Some(notes) => is_list_of(notes, Value::is_string),
            None => true,
        });
    if !notes {
        return wrong("warnings and infos are lists of texts");
    }
    let fits = match path {
        "/api/v1/query" | "/api/v1/query_range" => {
            // The kind first: then it is read as it comes.
            let kind = text.find("\"resultType\"");
            kind < text.find("\"result\":") && is_result(data, path.ends_with("range"))
        }
        "/api/v1/series" => is_list_of(data, is_metric),
        "/api/v1/metadata" => data
            .as_object()
            .is_some_and(|metrics| metrics.values().all(|list| is_list_of(list, is_about))),
        "/api/v1/query_exemplars" => data.is_array(),
        "/api/v1/rules" => data["groups"].is_array(),
        "/api/v1/status/buildinfo" => {
            // Features would make it a Mimir.
            data["version"].is_string() && data.get("features").is_none()
        }
        _ => is_list_of(data, Value::is_string),
    };
    if fits { Ok(()) } else { wrong("form") }
}

fn is_list_of(list: &Value, is: impl Fn(&Value) -> bool) -> bool {
    list.as_array().is_some_and(|items| items.iter().all(is))
}

fn is_metric(labels: &Value) -> bool {
    let labels = labels.as_object();
    labels.is_some_and(|labels| labels.values().all(Value::is_string))
}

fn is_about(about: &Value) -> bool {
    ["type", "help", "unit"]
        .iter()
        .all(|name| about[name].is_string())
}

/// A time as a number, and a text that Go reads as a float.
fn is_point(point: &Value) -> bool {
    let number =
        |text: &str| matches!(text, "NaN" | "+Inf" | "-Inf") || text.parse::<f64>().is_ok();
    point.as_array().is_some_and(|pair| pair.len() == 2)
        && point[0].is_number()
        && point[1].as_str().is_some_and(number)
}

fn is_result(data: &Value, is_range: bool) -> bool {
    let result = &data["result"];
    match data["resultType"].as_str() {
        Some("scalar") => !is_range && is_point(result),
        Some("vector") => {
            let is = |one: &Value| is_metric(&one["metric"]) && is_point(&one["value"]);
            !is_range && is_list_of(result, is)
        }
        Some("matrix") => is_list_of(result, |one| {
            is_metric(&one["metric"]) && is_list_of(&one["values"], is_point)
        }),
        _ => false,
    }
}

/// What is wrong with a query is shown to people as it stands in `error`; a server that does
/// not know the newer search API is asked the other way once it says 404.
#[test]
fn refusals_have_the_form_that_grafana_shows() {
    let agent = Agent::start(&all());
    let post = |path, form| {
        let request = Request {
            method: "POST",
            path,
            form: Some(form),
            headers: Vec::new(),
        };
        sent(agent.port, &request).expect("an answer")
    };
    let got = post("/api/v1/query", "query=temp%5B");
    let body: Value = serde_json::from_str(&got.body).expect("it is JSON");
    assert_eq!(got.status, 400, "{body}");
    assert_eq!(body["status"], "error");
    assert_eq!(body["errorType"], "bad_data");
    assert!(
        body["error"].as_str().is_some_and(|text| !text.is_empty()),
        "{body}"
    );
    assert_eq!(post("/api/v1/search/metric_names", "limit=1").status, 404);
}
