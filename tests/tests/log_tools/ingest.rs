//! `forebay ingest`.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread;

use forebay_tests::process::{ANSWER_LIMIT, forebay_bin};
use forebay_tests::wait;
use serde_json::json;

use crate::support::{Site, csv, tree};

#[test]
fn a_stopped_agent_has_the_readings_when_it_starts() {
    let site = Site::new();
    site.file("in.csv", &csv("m1", 5000));
    let ended = site.ingest("in.csv", &[]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(
        ended.out.contains("5000 readings are in the log"),
        "{ended:?}"
    );
    let agent = site.agent();
    let status = site.status().expect("it answers");
    assert_eq!(status["stored"], 5000);
    assert_eq!(
        status["devices"][0]["device"], "m1",
        "by its name: {status}"
    );
    let readings = site.readings("m1", "temp");
    assert_eq!(readings.len(), 5000);
    assert_eq!(
        readings[1],
        ("1970-01-01T00:01:00Z".into(), json!(20.1 + 1_f64.sin()))
    );
    assert!(agent.end_by("TERM").success());
}

#[test]
fn a_running_agent_takes_them_and_computes() {
    let site = Site::new();
    site.file("in.csv", &csv("m1", 3000));
    let agent = site.agent();
    let ended = site.ingest("in.csv", &["--json"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let summary = ended.json();
    assert_eq!(
        (&summary["running"], &summary["taken"]),
        (&json!(true), &json!(3000))
    );
    // Durable at once, windows a moment later.
    assert_eq!(site.status().expect("it answers")["stored"], 3000);
    wait::until("the windows are there", ANSWER_LIMIT, || {
        let rows = site.status()?["rows"].as_u64();
        rows.filter(|rows| *rows > 2900)
            .ok_or("fewer rows")
            .map_err(String::from)
    });
    assert!(agent.end_by("TERM").success());
}

#[test]
fn what_was_confirmed_survives_a_kill() {
    let site = Site::new();
    site.file("in.csv", &csv("m1", 2000));
    let agent = site.agent();
    assert_eq!(site.ingest("in.csv", &[]).code, 0);
    agent.kill_9();
    let agent = site.agent();
    assert_eq!(site.readings("m1", "temp").len(), 2000);
    // A second import is another boot: nothing is taken for a repetition.
    assert_eq!(site.ingest("in.csv", &[]).code, 0);
    let status = site.status().expect("it answers");
    assert_eq!(
        (&status["stored"], &status["duplicates"]),
        (&json!(4000), &json!(0))
    );
    assert!(agent.end_by("TERM").success());
}

#[test]
fn an_agent_that_is_killed_under_an_import_has_all_that_was_confirmed() {
    let site = Site::new();
    site.file("in.csv", &csv("m1", 200_000));
    let agent = site.agent();
    let importing = thread::scope(|scope| {
        let importing = scope.spawn(|| site.ingest("in.csv", &["--json"]));
        wait::until("some of it is stored", ANSWER_LIMIT, || {
            let stored = site.status()?["stored"].as_u64();
            stored.filter(|n| *n > 0).ok_or(String::from("nothing"))
        });
        agent.kill_9();
        importing.join().expect("it ends")
    });
    assert_eq!(importing.code, 2, "{importing:?}");
    let summary = importing.json();
    let taken = summary["taken"].as_u64().expect("a number");
    // How that shows depends on where in a batch it was killed.
    assert!(summary["error"].is_string(), "{importing:?}");
    let stored = site.all_readings().len() as u64;
    assert!(stored >= taken, "{stored} of {taken}");
    assert_eq!(
        summary["done_to_line"].as_u64().map(|line| line.max(1) - 1),
        Some(taken)
    );
}

#[test]
fn bad_lines_are_named_and_cost_no_other() {
    let site = Site::new();
    let text = "device,channel,time,value,unit,quality\r\n\
        boiler,t,2026-03-01T00:00:00Z,1.5,degC,\r\n\
        boiler,t,yesterday,1.5,degC,\r\n\
        \r\n\
        \"boiler,t,1,1,,\r\n\
        boiler,t,2026-03-01T00:01:00Z,,degC,bus_error\r\n\
        boiler,t,9223372036854775807,1,,\r\n\
        00000000000000ab,t,2026-03-01T00:02:00Z,2.5,degC,ok";
    site.file("in.csv", text);
    let ended = site.ingest("in.csv", &["--json"]);
    assert_eq!(ended.code, 4, "{ended:?}");
    let summary = ended.json();
    assert_eq!((&summary["taken"], &summary["bad"]), (&json!(3), &json!(3)));
    let lines: Vec<_> = summary["bad_lines"]
        .as_array()
        .expect("a list")
        .iter()
        .collect();
    let numbers: Vec<_> = lines.iter().map(|bad| bad["line"].as_u64()).collect();
    assert_eq!(numbers, [Some(3), Some(5), Some(7)]);
    for (line, why) in [(3, "RFC 3339"), (5, "does not close"), (7, "beyond")] {
        let place = format!("in.csv:{line}: ");
        let named = ended.errors.lines().find(|text| text.starts_with(&place));
        assert!(
            named.is_some_and(|text| text.contains(why)),
            "{line}: {ended:?}"
        );
    }
    let agent = site.agent();
    let readings = site.readings("boiler", "t");
    let values: Vec<_> = readings.iter().map(|(_, value)| value.clone()).collect();
    assert_eq!(
        values,
        [json!(1.5), json!(null), json!(2.5)],
        "one device, two names"
    );
    assert!(agent.end_by("TERM").success());
}

#[test]
fn the_three_formats_say_the_same() {
    let site = Site::new();
    let ndjson = r#"{"device":"a","channel":"t","time":"1970-01-01T00:00:01Z","value":0.1}"#;
    site.file("in.ndjson", &format!("\u{feff}{ndjson}\n"));
    site.file("in.csv", "device,channel,time,value\nb,t,1000000,0.1\n");
    site.file("in.lp", "t,device=c value=0.1 1000000000\n");
    for name in ["in.ndjson", "in.csv", "in.lp"] {
        let ended = site.ingest(name, &[]);
        assert_eq!(ended.code, 0, "{name}: {ended:?}");
    }
    let agent = site.agent();
    for device in ["a", "b", "c"] {
        let want = [("1970-01-01T00:00:01Z".to_owned(), json!(0.1))];
        assert_eq!(site.readings(device, "t"), want);
    }
    assert!(agent.end_by("TERM").success());
}

#[test]
fn stdin_is_handed_on_while_it_is_still_open() {
    let site = Site::new();
    let agent = site.agent();
    let mut child = Command::new(forebay_bin())
        .args(["ingest", "--config", "gw.toml", "--input", "-"])
        .current_dir(site.dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("the binary starts");
    let mut to = child.stdin.take().expect("piped");
    for n in 1..=2 {
        writeln!(
            to,
            r#"{{"device":"d","channel":"c","time":{n},"value":{n}}}"#
        )
        .expect("it reads");
        wait::until("the line is in the log", ANSWER_LIMIT, || {
            let stored = site.status()?["stored"].clone();
            (stored == n).then_some(()).ok_or(stored.to_string())
        });
    }
    drop(to);
    assert!(child.wait().expect("it ends").success());
    assert!(agent.end_by("TERM").success());
}

#[test]
fn a_data_directory_alone_is_enough_and_the_agent_computes_later() {
    let site = Site::new();
    site.file("first.csv", &csv("m1", 1000));
    site.file("more.csv", &csv("m2", 1000));
    assert_eq!(site.ingest("first.csv", &[]).code, 0);
    let args = ["ingest", "--data-dir", "data", "--input", "more.csv"];
    let ended = site.run(&args, "");
    assert_eq!(ended.code, 0, "{ended:?}");
    let agent = site.agent();
    assert_eq!(site.readings("m2", "temp").len(), 1000);
    wait::until("the windows of both are there", ANSWER_LIMIT, || {
        let partitions = site.status()?["partitions"].clone();
        let of_windows = partitions.as_array().into_iter().flatten();
        let of_windows = of_windows.filter(|partition| partition["stream"] == "w");
        let rows: u64 = of_windows.filter_map(|p| p["head"].as_u64()).sum();
        (rows > 1990).then_some(()).ok_or(format!("{rows} rows"))
    });
    assert!(agent.end_by("TERM").success());
}

#[test]
fn an_import_goes_on_where_it_was_cut_short() {
    let site = Site::new();
    site.file("in.csv", &csv("m1", 10));
    let ended = site.ingest("in.csv", &["--from-line", "6", "--json"]);
    assert_eq!(
        (ended.code, &ended.json()["taken"]),
        (0, &json!(6)),
        "{ended:?}"
    );
}

#[test]
fn what_cannot_be_used_is_said_and_nothing_is_touched() {
    let site = Site::new();
    site.file("in.csv", "a,b,c\n1,2,3\n");
    site.file("good.csv", &csv("m1", 1));
    site.file("bad.toml", "[agent]\ngateway = \"g\"\nlinger = \"x\"\n");
    let ingest = |args: &[&str]| site.run(&[&["ingest"], args].concat(), "");
    for (name, args, word) in [
        (
            "no such input",
            &["--config", "gw.toml", "--input", "none.csv"][..],
            "none.csv",
        ),
        (
            "a folder",
            &["--config", "gw.toml", "--input", "."],
            "directory",
        ),
        (
            "a bad config",
            &["--config", "bad.toml", "--input", "good.csv"],
            "linger",
        ),
        (
            "no log there",
            &["--data-dir", "nothing", "--input", "good.csv"],
            "holds no log",
        ),
        (
            "a wrong format",
            &[
                "--config", "gw.toml", "--format", "xml", "--input", "good.csv",
            ],
            "ndjson",
        ),
    ] {
        let ended = ingest(args);
        assert_eq!(ended.code, 2, "{name}: {ended:?}");
        assert!(ended.errors.contains(word), "{name}: {ended:?}");
    }
    assert_eq!(tree(&site.path("data")), []);
    let ended = ingest(&["--config", "gw.toml", "--input", "in.csv"]);
    assert_eq!(ended.code, 2);
    assert!(ended.errors.contains("in.csv:1: "), "{ended:?}");
}

#[test]
fn a_data_directory_that_another_process_holds_is_refused_with_its_pid() {
    let site = Site::new();
    site.file("in.csv", &csv("m1", 1));
    let config = std::fs::read_to_string(site.path("gw.toml")).expect("a config");
    let other = format!("{config}\n[query]\nsocket = \"elsewhere.sock\"\n");
    site.file("other.toml", &other);
    let agent = site.agent();
    let ended = site.run(
        &["ingest", "--config", "other.toml", "--input", "in.csv"],
        "",
    );
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.errors.contains(&agent.id().to_string()), "{ended:?}");
    let ended = site.run(&["ingest", "--data-dir", "data", "--input", "in.csv"], "");
    assert_eq!(ended.code, 0, "by the socket in it: {ended:?}");
    assert!(agent.end_by("TERM").success());
}
