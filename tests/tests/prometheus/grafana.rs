//! Requests in the form in which Grafana's data source for Prometheus sends them: its
//! health check, what it asks to know the server, to help while a query is written, for
//! panels and for annotations.

use std::fs;

use forebay_tests::process::root;
use serde_json::Value;

use super::rig::{Agent, data};
use super::samples::all;
use super::web::{get, post};

#[test]
fn requests_of_grafana_are_answered() {
    let agent = Agent::start(&all());
    let file = root().join("tests/fixtures/grafana/requests.json");
    let text = fs::read_to_string(file).expect("the fixture is there");
    let requests: Vec<Value> = serde_json::from_str(&text).expect("it is a list");
    for request in &requests {
        let name = request["name"].as_str().expect("a name");
        let path = request["path"].as_str().expect("a path");
        let got = match request["method"].as_str() {
            Some("POST") => post(agent.port, path, request["form"].as_str().expect("a form")),
            _ => get(agent.port, path),
        };
        let data = data(got);
        if let Some(kind) = request["type"].as_str() {
            assert_eq!(data["resultType"], kind, "{name}");
            let result = data["result"].as_array().expect(name);
            assert!(!result.is_empty(), "{name}: no data");
        }
        if let Some(member) = request["has"].as_str() {
            assert!(!data[member].is_null(), "{name}: {data}");
        }
        if request["items"] == true {
            let items = data.as_array().expect(name);
            assert!(!items.is_empty(), "{name}: nothing");
        }
    }
    // What Grafana shows to people stands in `error`.
    let (status, body) = post(agent.port, "/api/v1/query", "query=temp%5B").expect("an answer");
    assert_eq!(
        (status, &body["errorType"]),
        (400, &Value::from("bad_data"))
    );
}
