//! `prometheus-api-client` from PyPI works unchanged. Its environment is made by
//! `cargo xtask setup`.

use std::process::Command;
use std::time::Duration;

use forebay_tests::process::{python_program, root, run};
use serde_json::{Value, json};

use super::rig::Agent;
use super::samples::{START, all};

/// For all that the client asks.
const CLIENT_MAX: Duration = Duration::from_secs(120);

#[test]
fn the_client_of_pypi_works() {
    let samples = all();
    let agent = Agent::start(&samples);
    let python = python_program(
        env!("CARGO_TARGET_TMPDIR"),
        "prometheus-api-client",
        "python",
    );
    let dir = tempfile::tempdir().expect("a folder");
    let (begin, end) = (START + 600, START + 600 + 5400);
    let mut command = Command::new(python);
    command
        .arg(root().join("tests/tests/prometheus/client.py"))
        .arg(format!("http://127.0.0.1:{}", agent.port))
        .args([begin.to_string(), end.to_string()]);
    let printed = run(command, dir.path(), CLIENT_MAX).expect("the client ends well");
    let got: Value = serde_json::from_str(&printed).expect("a line of JSON");

    let inside = |millis: i64| millis > begin * 1000 && millis <= end * 1000;
    let boiler = || {
        let of = samples
            .iter()
            .filter(|one| (one.channel, one.device) == ("temp", "boiler"));
        of.filter(|one| inside(one.millis))
    };
    let newest = boiler().next_back().expect("there are some").value;
    for method in ["GET", "POST"] {
        let got = &got[method];
        for (name, got, want) in [
            ("connected", &got["connected"], json!(true)),
            (
                "devices",
                &got["devices"],
                json!(["attic", "boiler", "cellar"]),
            ),
            (
                "labels",
                &got["labels"],
                json!(["__name__", "channel", "device", "gateway", "unit"]),
            ),
            ("series", &got["series"], json!(3)),
            ("samples", &got["samples"], json!(boiler().count())),
            ("steps", &got["steps"], json!(91)),
            ("unit", &got["unit"], json!("Cel")),
            (
                "current",
                &got["current"][0]["value"],
                json!([end, newest.to_string()]),
            ),
        ] {
            assert_eq!(*got, want, "{method}: {name}");
        }
        let metrics = got["metrics"].as_array().expect("names");
        assert!(metrics.contains(&json!("temp")), "{metrics:?}");
        assert!(metrics.contains(&json!("minute:mean")), "{metrics:?}");
        let refused = got["refused"].as_str().expect("a sentence");
        assert!(refused.contains("400"), "{refused}");
    }
}
