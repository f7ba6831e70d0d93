//! Views of a running agent: added, built anew, dropped, followed as changes, and sent to
//! a broker.

use std::fs;

use forebay_tests::mosquitto::Mosquitto;
use forebay_tests::process::{ANSWER_LIMIT, Running};
use forebay_tests::wait;
use serde_json::{Value, json};

use crate::support::{Site, csv};

const SECTION: &str = "[[window]]\nname = \"v\"\nkind = \"sliding\"\nsize = \"5m\"\n\
                       aggregates = [\"count\", \"max\"]\n";

/// Adds lines to the config.
fn add(site: &Site, section: &str) {
    let path = site.path("gw.toml");
    let text = fs::read_to_string(&path).expect("a config");
    fs::write(&path, format!("{text}\n{section}")).expect("written");
}

/// A site whose agent has taken readings and computed its windows.
fn computed(readings: u32) -> Site {
    let site = Site::new();
    site.file("in.csv", &csv("m1", readings));
    let ended = site.ingest("in.csv", &[]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(site.agent().end_by("TERM").success());
    site
}

fn ask(site: &Site, args: &[&str]) -> Value {
    let ended = site.run(&[args, &["--config", "gw.toml", "--json"]].concat(), "");
    assert_eq!(ended.code, 0, "{args:?}: {ended:?}");
    ended.json()
}

/// State by stream.
fn states(site: &Site) -> Vec<(String, String)> {
    let answer = ask(site, &["view", "ls"]);
    let views = answer["views"].as_array().expect("a list").iter();
    let text = |view: &Value, name: &str| view[name].as_str().expect("a text").to_owned();
    views
        .map(|view| (text(view, "stream"), text(view, "state")))
        .collect()
}

fn built(site: &Site, agent: &mut Running) -> Vec<(String, String)> {
    wait::until("all views are built", ANSWER_LIMIT, || {
        agent.must_run();
        let building = ask(site, &["view", "ls"])["building"].clone();
        building.is_null().then_some(()).ok_or(building.to_string())
    });
    states(site)
}

fn want(all: &[(&str, &str)]) -> Vec<(String, String)> {
    let all = all.iter();
    all.map(|(stream, state)| ((*stream).to_owned(), (*state).to_owned()))
        .collect()
}

/// What `watch` says of a stream up to now.
fn watched(site: &Site, stream: &str, from: &str) -> Vec<Value> {
    let args = ["watch", stream, "--from", from, "--once"];
    let ended = site.run(
        &[&args[..], &["--config", "gw.toml", "--json"]].concat(),
        "",
    );
    assert_eq!(ended.code, 0, "{ended:?}");
    let lines = ended.out.lines();
    let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    lines.map(read).collect()
}

fn verified(site: &Site) {
    let ended = site.run(&["verify", "--config", "gw.toml", "--json"], "");
    assert_eq!(ended.code, 0, "{ended:?}");
}

#[test]
fn a_window_is_added_rebuilt_and_dropped_while_the_agent_runs() {
    let site = computed(4000);
    add(&site, SECTION);
    // Killed while it builds, at whatever step; it goes on.
    let config = site.path("gw.toml");
    let args = ["run", "--config", config.to_str().expect("UTF-8")];
    let first = Running::forebay("agent", &args, site.dir.path());
    wait::until("it answers", ANSWER_LIMIT, || {
        let ended = site.run(&["view", "ls", "--config", "gw.toml"], "");
        (ended.code == 0).then_some(()).ok_or(ended.errors)
    });
    first.kill_9();
    let mut agent = site.agent();
    let states = built(&site, &mut agent);
    assert_eq!(states, want(&[("w", "live"), ("v", "live")]));
    let rows = watched(&site, "v", "beginning");
    // The last one waits for what may come before it.
    assert_eq!(rows.len(), 3999);
    let said = ask(
        &site,
        &["view", "rebuild", "v", "--from", "1970-01-02T00:00:00Z"],
    );
    assert_eq!(said["stream"], json!("v.1"));
    let states = built(&site, &mut agent);
    let all = [("w", "live"), ("v", "standing"), ("v.1", "live")];
    assert_eq!(states, want(&all));
    let of = |rows: &[Value]| -> Vec<Value> { rows.iter().map(|r| r["row"].clone()).collect() };
    let after: Vec<Value> = of(&rows)
        .into_iter()
        .filter(|row| row["time"].as_str() >= Some("1970-01-02"))
        .collect();
    assert_eq!(of(&watched(&site, "v.1", "beginning")), after);
    assert!(after.len() > 2000 && after.len() < 3000, "{}", after.len());
    let ended = site.run(&["view", "drop", "v.1", "--config", "gw.toml"], "");
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.errors.contains("is live"), "{ended:?}");
    assert!(agent.end_by("TERM").success());
    verified(&site);
    // What is kept of it holds over a start.
    let mut agent = site.agent();
    assert_eq!(built(&site, &mut agent), want(&all));
    assert!(agent.end_by("TERM").success());
    verified(&site);
}

#[test]
fn a_stream_is_followed_from_any_row() {
    let site = computed(300);
    let _agent = site.agent();
    let all = watched(&site, "w", "beginning");
    assert!(all.len() > 280, "{}", all.len());
    assert!(all.iter().all(|line| line["op"] == json!("insert")));
    for at in [0, 1, all.len() / 2, all.len() - 1] {
        let next = all[at]["next"].as_str().expect("a place");
        assert_eq!(watched(&site, "w", next), all[at + 1..], "{next}");
    }
    assert_eq!(watched(&site, "w", "now"), [] as [Value; 0]);
    let readings = watched(&site, "readings", "beginning");
    assert_eq!(readings.len(), 300);
    assert_eq!(readings[0]["row"]["channel"], json!("temp"));
    let ended = site.run(&["watch", "nothing", "--config", "gw.toml"], "");
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.errors.contains("no stream is called \"nothing\""));
}

#[test]
fn revisions_of_a_window_go_out_to_a_broker_and_are_applied_once() {
    let site = Site::new();
    let broker = Mosquitto::start();
    let port = broker.port();
    let text = format!(
        "[agent]\ngateway = \"g\"\ndata_dir = \"data\"\n\
         [engine]\nallowed_lateness = \"1h\"\n\
         [[window]]\nname = \"w\"\nkind = \"tumbling\"\nsize = \"60s\"\naggregates = [\"count\"]\n\
         [[window]]\nname = \"x\"\nkind = \"tumbling\"\nsize = \"60s\"\naggregates = [\"count\"]\n\
         [[forward]]\nbroker = \"127.0.0.1:{port}\"\ntopics = [\"w\"]\nbackoff_max = \"1s\"\n\
         [upstream]\ndata_dir = \"up\"\nbroker = \"127.0.0.1:{port}\"\nbackoff_max = \"1s\"\n"
    );
    site.file("gw.toml", &text);
    let late = format!("{}m1,temp,30000000,1.0\n", csv("m1", 20));
    site.file("in.csv", &late);
    let ended = site.ingest("in.csv", &[]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let config = site.path("gw.toml");
    let config = config.to_str().expect("UTF-8");
    let args = ["upstream", "--config", config];
    let mut upstream = Running::forebay("upstream", &args, site.dir.path());
    wait::until("it hears the broker", ANSWER_LIMIT, || {
        upstream.must_run();
        let printed = upstream.printed();
        printed.contains("connected").then_some(()).ok_or(printed)
    });
    let agent = site.agent();
    let changes = watched(&site, "w", "beginning");
    let ops: Vec<&str> = changes.iter().filter_map(|c| c["op"].as_str()).collect();
    let updates = ops.iter().filter(|op| **op == "update");
    assert_eq!(updates.count(), 1, "{ops:?}");
    let applied = |stream: &str| {
        let args = [
            "upstream", "query", "--config", "gw.toml", "--stream", stream, "--limit", "1000",
            "--json",
        ];
        site.run(&args, "").out.lines().count()
    };
    let mut arrives = |stream: &str| {
        wait::until("all changes are applied", ANSWER_LIMIT, || {
            upstream.must_run();
            let rows = applied(stream);
            (rows == changes.len())
                .then_some(())
                .ok_or(rows.to_string())
        });
    };
    arrives("w");
    // A stream that is new to a running agent goes out as well.
    ask(&site, &["view", "rebuild", "w"]);
    arrives("w.1");
    assert!(agent.end_by("TERM").success());
    let agent = site.agent();
    for stream in ["w", "w.1"] {
        assert_eq!(applied(stream), changes.len(), "nothing twice: {stream}");
    }
    assert_eq!(applied("x"), 0, "it is not forwarded");
    assert!(agent.end_by("TERM").success());
    assert!(upstream.end_by("TERM").success());
}
