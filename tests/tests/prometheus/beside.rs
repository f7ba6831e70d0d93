//! Value by value beside Debian's Prometheus 2.42.

use std::collections::BTreeMap;

use serde_json::Value;

use super::drawn::{self, Drawn};
use super::queries::{EDGES, Near, QUERIES, REFUSED};
use super::rig::{Agent, Prometheus, data};
use super::samples::{START, all};
use super::web::{escaped, get};

/// On a full minute, and between.
const INSTANTS: [&str; 3] = ["1760004000", "1760005000.123", "1760007540"];
/// Start, end, step: on full minutes; not so; finer than samples come.
const RANGES: [(&str, &str, &str); 3] = [
    ("1760001000", "1760007000", "60"),
    ("1760000411.5", "1760008000", "97"),
    ("1760003000", "1760003120", "1"),
];

struct Both {
    agent: Agent,
    prometheus: Prometheus,
}

impl Both {
    fn start() -> Self {
        let samples = all();
        Self {
            agent: Agent::start(&samples),
            prometheus: Prometheus::start(&samples),
        }
    }

    fn instant(port: u16, query: &str, time: &str) -> super::web::Got {
        let query = escaped(query);
        get(port, &format!("/api/v1/query?query={query}&time={time}"))
    }

    fn range(port: u16, query: &str, (start, end, step): (&str, &str, &str)) -> super::web::Got {
        let query = escaped(query);
        let times = format!("start={start}&end={end}&step={step}");
        get(port, &format!("/api/v1/query_range?query={query}&{times}"))
    }
}

#[test]
fn queries_have_the_same_answers() {
    let both = Both::start();
    assert!(QUERIES.len() >= 60, "{} queries", QUERIES.len());
    let (mut answers, mut with_data, mut wrong) = (0, 0, Vec::new());
    for (near, query) in QUERIES {
        let mut any = false;
        let mut look = |place: String, ours: Value, theirs: Value| {
            answers += 1;
            any |= theirs["result"] != Value::Array(Vec::new());
            if let Err(why) = same(*near, &ours, &theirs) {
                wrong.push(format!("{query} at {place}: {why}"));
            }
        };
        for time in INSTANTS {
            let ours = data(Both::instant(both.agent.port, query, time));
            let theirs = data(Both::instant(both.prometheus.port, query, time));
            look(time.to_owned(), ours, theirs);
        }
        let no_range =
            query.starts_with('"') || query.ends_with("m]") || query.ends_with("offset 1m");
        for range in RANGES.iter().filter(|_| !no_range) {
            let ours = data(Both::range(both.agent.port, query, *range));
            let theirs = data(Both::range(both.prometheus.port, query, *range));
            look(format!("{range:?}"), ours, theirs);
        }
        with_data += usize::from(any);
    }
    assert!(
        wrong.is_empty(),
        "{} of {answers} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    // A comparison of nothing with nothing shows nothing.
    assert!(
        with_data + 3 >= QUERIES.len(),
        "{with_data} of {} have data",
        QUERIES.len()
    );

    edges(&both);
    for query in REFUSED {
        let ours = Both::instant(both.agent.port, query, INSTANTS[0]).expect("an answer");
        let theirs = Both::instant(both.prometheus.port, query, INSTANTS[0]).expect("an answer");
        assert_eq!(ours.0, theirs.0, "{query}: {} and {}", ours.1, theirs.1);
        assert_eq!(ours.1["errorType"], theirs.1["errorType"], "{query}");
    }
    metadata(&both);
}

/// Late enough that all counters have begun before any window, and past the end of the
/// samples: until the last one is too old, and behind that.
const DRAWN_INSTANTS: [&str; 3] = ["1760005001", "1760007613.5", "1760007850"];
const DRAWN_RANGES: [(&str, &str, &str); 2] = [
    ("1760004801.25", "1760008101.25", "150"),
    ("1760007300", "1760007960", "37"),
];

#[test]
fn drawn_queries_have_the_same_answers() {
    let both = Both::start();
    let (seed, queries) = drawn::queries();
    println!("FOREBAY_QUERY_SEED={seed}");
    let (mut answers, mut refused, mut with_data, mut wrong) = (0, 0, 0, Vec::new());
    for Drawn { text, exact } in &queries {
        let near = if *exact { Near::Same } else { Near::Added };
        let mut look = |place: String, ours: super::web::Got, theirs: super::web::Got| {
            let ((status, ours), (theirs_status, theirs)) =
                (ours.expect("an answer"), theirs.expect("an answer"));
            answers += 1;
            if status != theirs_status || ours["errorType"] != theirs["errorType"] {
                wrong.push(format!(
                    "{text} at {place}: {status} {ours}, not {theirs_status} {theirs}"
                ));
            } else if status != 200 {
                refused += 1;
            } else if let Err(why) = same(near, &ours["data"], &theirs["data"]) {
                wrong.push(format!("{text} at {place}: {why}"));
            } else {
                with_data += usize::from(theirs["data"]["result"] != Value::Array(Vec::new()));
            }
        };
        for time in DRAWN_INSTANTS {
            let ours = Both::instant(both.agent.port, text, time);
            look(
                time.to_owned(),
                ours,
                Both::instant(both.prometheus.port, text, time),
            );
        }
        for range in DRAWN_RANGES {
            let ours = Both::range(both.agent.port, text, range);
            look(
                format!("{range:?}"),
                ours,
                Both::range(both.prometheus.port, text, range),
            );
        }
    }
    let count = wrong.len();
    wrong.truncate(40);
    assert!(
        wrong.is_empty(),
        "seed {seed}: {count} of {answers} differ:\n{}",
        wrong.join("\n")
    );
    // A comparison of nothing with nothing shows nothing.
    assert!(
        with_data * 2 > answers && refused * 4 < answers,
        "seed {seed}: {with_data} of {answers} have data, {refused} are refused"
    );
}

/// Queries in which a sample at the start of a window counts: Prometheus 2.42 gives the
/// same for windows that are a millisecond shorter, and only for these.
fn edges(both: &Both) {
    let range = RANGES[0];
    for (near, ours, theirs) in EDGES {
        let query = escaped(ours);
        let (start, end, step) = range;
        let path = format!("/api/v1/query_range?query={query}&start={start}&end={end}&step={step}");
        if ours.contains("(tick[") && !ours.contains(':') {
            // Rows of the minutes stand for it otherwise, whose bounds lie otherwise.
            let (_, rolled) = get(both.agent.port, &path).expect("an answer");
            assert!(rolled["infos"].is_array(), "{ours}: {rolled}");
        }
        let agent = data(get(both.agent.port, &format!("{path}&rollups=off")));
        let plain = data(Both::range(both.prometheus.port, ours, range));
        let narrow = data(Both::range(both.prometheus.port, theirs, range));
        same(*near, &agent, &narrow).unwrap_or_else(|why| panic!("{ours}: {why}"));
        assert!(
            same(*near, &narrow, &plain).is_err(),
            "{ours}: the edge counts"
        );
    }
}

/// Labels, their values and series.
fn metadata(both: &Both) {
    let times = format!("start={START}&end={}", START + 7200);
    let minutes = escaped("{__name__!~\".*:.*\",gateway=\"gw\"}");
    for path in [
        format!("/api/v1/labels?{times}"),
        format!("/api/v1/labels?match[]={}", escaped("temp")),
        format!("/api/v1/label/device/values?{times}"),
        format!(
            "/api/v1/label/unit/values?match[]={}",
            escaped("{device=\"attic\"}")
        ),
        format!("/api/v1/label/__name__/values?match[]={minutes}"),
        format!(
            "/api/v1/series?match[]=temp&match[]={}&{times}",
            escaped("{__name__=~\"w.*\"}")
        ),
    ] {
        let ours = data(get(both.agent.port, &path));
        let theirs = data(get(both.prometheus.port, &path));
        assert_eq!(sorted(&ours), sorted(&theirs), "{path}");
    }
    for path in [
        "/api/v1/series",
        "/api/v1/label/a-b/values",
        "/api/v1/query_range?query=1",
    ] {
        let ours = get(both.agent.port, path).expect("an answer");
        let theirs = get(both.prometheus.port, path).expect("an answer");
        assert_eq!(ours.0, theirs.0, "{path}: {} and {}", ours.1, theirs.1);
        assert_eq!(ours.1["errorType"], theirs.1["errorType"], "{path}");
    }
}

fn sorted(list: &Value) -> Vec<String> {
    let mut texts: Vec<String> = list
        .as_array()
        .expect("a list")
        .iter()
        .map(Value::to_string)
        .collect();
    texts.sort();
    texts
}

/// # Errors
/// Where they differ.
fn same(near: Near, ours: &Value, theirs: &Value) -> Result<(), String> {
    let kind = &theirs["resultType"];
    if ours["resultType"] != *kind {
        return Err(format!("{}, not {kind}", ours["resultType"]));
    }
    if kind == "scalar" || kind == "string" {
        return same_point(near, &ours["result"], &theirs["result"]);
    }
    let (ours, theirs) = (by_labels(ours), by_labels(theirs));
    let names = |series: &BTreeMap<String, Vec<Value>>| series.keys().cloned().collect::<Vec<_>>();
    if names(&ours) != names(&theirs) {
        return Err(format!(
            "series {:?}, not {:?}",
            names(&ours),
            names(&theirs)
        ));
    }
    for (labels, points) in &theirs {
        let got = &ours[labels];
        if got.len() != points.len() {
            return Err(format!(
                "{labels}: {} points, not {}",
                got.len(),
                points.len()
            ));
        }
        for (ours, theirs) in got.iter().zip(points) {
            same_point(near, ours, theirs).map_err(|why| format!("{labels}: {why}"))?;
        }
    }
    Ok(())
}

fn by_labels(data: &Value) -> BTreeMap<String, Vec<Value>> {
    let series = data["result"].as_array().expect("a list of series");
    let pairs = series.iter().map(|one| {
        let points = match one.get("values") {
            Some(values) => values.as_array().expect("a list of points").clone(),
            None => vec![one["value"].clone()],
        };
        (one["metric"].to_string(), points)
    });
    pairs.collect()
}

fn same_point(near: Near, ours: &Value, theirs: &Value) -> Result<(), String> {
    let number = |point: &Value| point[1].as_str().and_then(|text| text.parse::<f64>().ok());
    let within = match (number(ours), number(theirs)) {
        _ if ours == theirs => return Ok(()),
        (Some(ours), Some(theirs)) => {
            let part = match near {
                Near::Same => 0.0,
                Near::Sums => 1e-12,
                Near::Functions => 1e-14,
                Near::Added => 1e-9,
            };
            let size = theirs.abs().max(ours.abs());
            // What nearly cancels out leaves digits of what was added.
            let rest = if near == Near::Added { 1e-6 } else { 0.0 };
            (ours - theirs).abs() <= size * part + rest
        }
        (None, _) | (_, None) => false,
    };
    if within && ours[0] == theirs[0] {
        Ok(())
    } else {
        Err(format!("{ours}, not {theirs}"))
    }
}
