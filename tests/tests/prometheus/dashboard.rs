//! The dashboard for Grafana: it imports, and each of its queries answers with data.

use std::fs;

use forebay_tests::process::root;
use serde_json::Value;

use super::rig::{Agent, data};
use super::samples::{START, all};
use super::web::{escaped, get};

fn dashboard() -> Value {
    let text = fs::read_to_string(root().join("config/grafana-dashboard.json"));
    serde_json::from_str(&text.expect("it is there")).expect("it is JSON")
}

/// Panels, also those in rows.
fn panels(of: &Value) -> Vec<&Value> {
    let panels = of["panels"].as_array().into_iter().flatten();
    panels
        .flat_map(|panel| [vec![panel], panels_of_row(panel)].concat())
        .collect()
}

fn panels_of_row(panel: &Value) -> Vec<&Value> {
    panel["panels"].as_array().into_iter().flatten().collect()
}

#[test]
fn every_query_of_the_dashboard_has_data() {
    let agent = Agent::start(&all());
    let dashboard = dashboard();
    let end = START + 7200;
    let mut queries = 0;
    for panel in panels(&dashboard) {
        let title = panel["title"].as_str().expect("each panel has a title");
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().expect("each target has a query");
            let query = query
                .replace("$__rate_interval", "1m")
                .replace("$__interval", "15s")
                .replace("$__range", "1h")
                .replace("$channel", "temp|energy")
                .replace("$device", "attic|boiler|cellar")
                .replace("$gateway", "gw");
            assert!(
                !query.contains('$'),
                "{title}: {query} has a variable of its own"
            );
            let query = escaped(&query);
            let path = if target["instant"] == true {
                format!("/api/v1/query?query={query}&time={end}")
            } else {
                let start = end - 3600;
                format!("/api/v1/query_range?query={query}&start={start}&end={end}&step=60")
            };
            let got = data(get(agent.port, &path));
            let result = got["result"].as_array().expect("a list");
            assert!(!result.is_empty(), "{title}: {}", target["expr"]);
            queries += 1;
        }
    }
    assert!(queries >= 6, "{queries} queries");
    for variable in dashboard["templating"]["list"]
        .as_array()
        .expect("variables")
    {
        let Some(query) = variable["query"]["query"].as_str() else {
            assert_eq!(variable["type"], "datasource", "{variable}");
            continue;
        };
        let (selector, label) = query
            .strip_prefix("label_values(")
            .and_then(|rest| rest.strip_suffix(')')?.rsplit_once(','))
            .expect("values of a label");
        let selector = selector
            .replace("$gateway", "gw")
            .replace("$device", "boiler");
        let path = format!(
            "/api/v1/label/{}/values?match[]={}",
            label.trim(),
            escaped(&selector)
        );
        let values = data(get(agent.port, &path));
        assert!(!values.as_array().expect("a list").is_empty(), "{query}");
    }
}

#[test]
fn the_dashboard_asks_for_a_data_source() {
    let dashboard = dashboard();
    assert_eq!(dashboard["__inputs"][0]["pluginId"], "prometheus");
    assert!(
        dashboard["id"].is_null(),
        "an id would overwrite another dashboard"
    );
    for panel in panels(&dashboard) {
        assert_eq!(
            panel["datasource"]["uid"], "${datasource}",
            "{}",
            panel["title"]
        );
    }
}
