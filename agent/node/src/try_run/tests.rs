//! Golden runs: a config, an input, and the bytes that must come out.

use std::fs;

use serde_json::Value;

use super::*;

const ENGINE: &str = "[engine]\nout_of_order = \"0s\"\n";

fn args(dir: &Path, inputs: &[&str], batch: u32) -> TryArgs {
    TryArgs {
        config: dir.join("pipeline.toml"),
        input: inputs.iter().map(|name| dir.join(name)).collect(),
        batch,
        state: None,
        no_flush: false,
        strict: false,
        summary: Summary::Json,
    }
}

/// Output and stderr of a run that must go through.
fn done(args: &TryArgs) -> (String, String, ExitCode) {
    let (mut out, mut errors) = (Vec::new(), Vec::new());
    let code = try_run(args, &mut out, &mut errors).expect("the run goes through");
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    (text(out), text(errors), code)
}

fn last_json(errors: &str) -> Value {
    let last = errors.lines().last().expect("a summary");
    serde_json::from_str(last).expect("the summary is JSON")
}

fn temp(n: i64, value: &str) -> String {
    format!(
        "{{\"device\":\"d\",\"channel\":\"t\",\"time\":{},\"value\":{value}}}\n",
        n * 1_000_000
    )
}

struct Golden {
    name: &'static str,
    config: String,
    input: String,
    want: &'static str,
    summary: &'static [(&'static str, u64)],
}

fn goldens() -> Vec<Golden> {
    let window = |kind: &str, more: &str| {
        format!("{ENGINE}[[window]]\nname = \"w\"\nkind = \"{kind}\"\nsize = \"10s\"\n{more}\n")
    };
    vec![
        Golden {
            name: "a tumble closes when W reaches its end",
            config: window("tumbling", "aggregates = [\"count\", \"sum\"]"),
            input: temp(0, "0.1") + &temp(9, "0.2") + &temp(10, "1"),
            want: r#"{"stream":"w","device":"d","channel":"t","start":"1970-01-01T00:00:00Z","end":"1970-01-01T00:00:10Z","revision":0,"final":true,"count":2,"sum":0.30000000000000004}
{"stream":"w","device":"d","channel":"t","start":"1970-01-01T00:00:10Z","end":"1970-01-01T00:00:20Z","revision":0,"final":true,"count":1,"sum":1.0}
"#,
            summary: &[
                ("readings", 3),
                ("accepted", 3),
                ("rejected", 0),
                ("state_rows", 0),
            ],
        },
        Golden {
            name: "late for all goes to its stream",
            config: window("tumbling", "aggregates = [\"count\"]"),
            input: temp(0, "1") + &temp(10, "1") + &temp(9, "7"),
            want: r#"{"stream":"w","device":"d","channel":"t","start":"1970-01-01T00:00:00Z","end":"1970-01-01T00:00:10Z","revision":0,"final":true,"count":1}
{"stream":"late","device":"d","channel":"t","time":"1970-01-01T00:00:09Z","value":7.0,"reason":"late_all"}
{"stream":"w","device":"d","channel":"t","start":"1970-01-01T00:00:10Z","end":"1970-01-01T00:00:20Z","revision":0,"final":true,"count":1}
"#,
            summary: &[("accepted", 2), ("late_all", 1)],
        },
        Golden {
            name: "a rolling line per reading",
            config: window(
                "sliding",
                "aggregates = [\"count\", \"mean\", \"variance\"]",
            ),
            input: temp(1, "2") + &temp(5, "4") + &temp(11, "6"),
            want: r#"{"stream":"w","device":"d","channel":"t","time":"1970-01-01T00:00:01Z","count":1,"mean":2.0,"variance":null}
{"stream":"w","device":"d","channel":"t","time":"1970-01-01T00:00:05Z","count":2,"mean":3.0,"variance":2.0}
{"stream":"w","device":"d","channel":"t","time":"1970-01-01T00:00:11Z","count":2,"mean":5.0,"variance":2.0}
"#,
            summary: &[("accepted", 3), ("state_rows", 0)],
        },
        Golden {
            name: "faults and special values",
            config: window(
                "tumbling",
                "aggregates = [\"count\", \"sum\", \"min\", \"last\"]",
            ),
            input: temp(1, "null") + &temp(11, "\"NaN\"") + &temp(12, "3") + &temp(21, "\"-inf\""),
            want: r#"{"stream":"w","device":"d","channel":"t","start":"1970-01-01T00:00:00Z","end":"1970-01-01T00:00:10Z","revision":0,"final":true,"count":0,"sum":null,"min":null,"last":null}
{"stream":"w","device":"d","channel":"t","start":"1970-01-01T00:00:10Z","end":"1970-01-01T00:00:20Z","revision":0,"final":true,"count":2,"sum":"NaN","min":3.0,"last":3.0}
{"stream":"w","device":"d","channel":"t","start":"1970-01-01T00:00:20Z","end":"1970-01-01T00:00:30Z","revision":0,"final":true,"count":1,"sum":"-Infinity","min":"-Infinity","last":"-Infinity"}
"#,
            summary: &[("accepted", 4)],
        },
        Golden {
            name: "the clock makes a silent device idle and guards the future",
            config: window("tumbling", "aggregates = [\"count\"]")
                .replace("[engine]", "[engine]\nidle_after = \"60s\""),
            input: format!(
                "{}{}{}{}{}",
                "{\"control\":\"clock\",\"time\":0}\n",
                temp(1, "1"),
                temp(302, "1"),
                "{\"control\":\"clock\",\"time\":60000000}\n",
                "{\"control\":\"clock\",\"time\":90000000}\n"
            ),
            want: r#"{"stream":"quarantine","device":"d","channel":"t","time":"1970-01-01T00:05:02Z","value":1.0,"reason":"future"}
{"stream":"w","device":"d","channel":"t","start":"1970-01-01T00:00:00Z","end":"1970-01-01T00:00:10Z","revision":0,"final":false,"reason":"idle","count":1}
"#,
            summary: &[("accepted", 1), ("future", 1), ("state_rows", 1)],
        },
        Golden {
            name: "duplicates by identity",
            config: window("tumbling", "aggregates = [\"count\"]"),
            input: [("1", 0), ("1", 0), ("\"x\"", 0), ("\"x\"", 1), ("\"x\"", 0)]
                .map(|(boot, seq)| temp(1, &format!("1,\"boot\":{boot},\"seq\":{seq}")))
                .concat(),
            want: r#"{"stream":"w","device":"d","channel":"t","start":"1970-01-01T00:00:00Z","end":"1970-01-01T00:00:10Z","revision":0,"final":true,"count":3}
"#,
            summary: &[("readings", 5), ("accepted", 3), ("duplicate", 2)],
        },
    ]
}

#[test]
fn golden_runs_are_equal_for_every_batch_size() {
    for golden in goldens() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("pipeline.toml"), &golden.config).expect("written");
        fs::write(dir.path().join("in"), &golden.input).expect("written");
        for batch in [1, 2, 32, 1000] {
            let (out, errors, code) = done(&args(dir.path(), &["in"], batch));
            assert_eq!(out, golden.want, "{}, batches of {batch}", golden.name);
            assert_eq!(code, ExitCode::SUCCESS, "{}", golden.name);
            let summary = last_json(&errors);
            for (key, want) in golden.summary {
                assert_eq!(summary[key], *want, "{}: {key} in {summary}", golden.name);
            }
        }
    }
}

fn folder(config: &str, input: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("pipeline.toml"), config).expect("written");
    fs::write(dir.path().join("in"), input).expect("written");
    dir
}

const WINDOW: &str = "[[window]]\nname = \"w\"\nkind = \"tumbling\"\nsize = \"10s\"\n";

#[test]
fn bad_lines_are_named_counted_and_skipped() {
    let input = temp(1, "1") + "{\"device\":\n" + &temp(2, "true") + &temp(3, "3");
    let dir = folder(WINDOW, &input);
    let mut args = args(dir.path(), &["in"], 32);
    let (out, errors, code) = done(&args);
    assert!(out.contains("\"count\":2"), "{out}");
    assert!(errors.contains("in:2: is not JSON"), "{errors}");
    assert!(
        errors.contains("in:3: has a value that is no number: true"),
        "{errors}"
    );
    assert_eq!(last_json(&errors)["rejected"], 2);
    assert_eq!(code, ExitCode::SUCCESS);
    args.strict = true;
    assert_eq!(done(&args).2, ExitCode::from(crate::exit::Exit::Failed));
}

#[test]
fn inputs_follow_each_other() {
    let dir = folder(WINDOW, &temp(1, "1"));
    fs::write(
        dir.path().join("b.csv"),
        "device,channel,time,value\nd,t,2000000,4\n",
    )
    .expect("written");
    let (out, ..) = done(&args(dir.path(), &["in", "b.csv"], 32));
    assert!(out.contains("\"count\":2,\"mean\":2.5"), "{out}");
}

#[test]
fn the_input_may_leave_windows_open() {
    let dir = folder(WINDOW, &temp(1, "1"));
    let mut args = args(dir.path(), &["in"], 32);
    args.no_flush = true;
    let (out, errors, _) = done(&args);
    assert_eq!(
        (out.as_str(), &last_json(&errors)["state_rows"]),
        ("", &Value::from(1))
    );
    let steered = temp(1, "1") + "{\"control\":\"watermark\",\"device\":\"other\",\"time\":0}\n";
    let dir = folder(WINDOW, &steered);
    assert_eq!(done(&self::args(dir.path(), &["in"], 32)).0, "");
}

#[test]
fn what_cannot_be_used_writes_nothing() {
    for (name, config, inputs, want) in [
        (
            "config",
            WINDOW.replace("10s", "0s"),
            &["in"][..],
            "pipeline.toml:4: [[window]] size: \"0s\"",
        ),
        (
            "input",
            WINDOW.to_owned(),
            &["in", "missing"][..],
            "missing: cannot be read",
        ),
        ("folder", WINDOW.to_owned(), &["."][..], "cannot be read"),
    ] {
        let dir = folder(&config, &temp(1, "1"));
        let (mut out, mut errors) = (Vec::new(), Vec::new());
        let stop = try_run(&args(dir.path(), inputs, 1), &mut out, &mut errors).expect_err(name);
        assert!(stop.to_string().contains(want), "{name}: {stop}");
        assert!(out.is_empty(), "{name}");
    }
}
