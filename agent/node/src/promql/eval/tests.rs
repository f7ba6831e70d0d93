//! Tables of queries over a few series, and windows beside the model.

use proptest::prelude::*;

use super::super::ast::{Grid, Moved};
use super::super::data::{Answer, Read, Rolled, Samples};
use super::super::error::QueryError;
use super::super::functions::OverTime;
use super::super::labels::{Labels, NAME, all_take};
use super::super::limits::{LOOKBACK_MS, QUERY_SAMPLES_MAX, QUERY_VISITS_MAX};
use super::super::plan::plan;
use super::range::over_windows;
use super::windows::Windows;
use super::{evaluate, model};

/// A series with a sample every ten seconds from 10 s on; `None`: no value.
fn series(labels: &[(&str, &str)], values: &[Option<f64>]) -> Samples {
    Samples {
        labels: Labels::of(labels.iter().copied()),
        times: (1..=values.len() as i64).map(|n| n * 10_000_000).collect(),
        values: values.iter().map(|v| v.unwrap_or(f64::NAN)).collect(),
    }
}

fn numbers(values: &[f64]) -> Vec<Option<f64>> {
    values.iter().copied().map(Some).collect()
}

fn room() -> Vec<Samples> {
    vec![
        series(
            &[(NAME, "temp"), ("device", "a"), ("floor", "1")],
            &numbers(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        ),
        series(
            &[(NAME, "temp"), ("device", "b"), ("floor", "1")],
            &numbers(&[10.0, 20.0, 30.0, 40.0, 50.0, 60.0]),
        ),
        series(
            &[(NAME, "wet"), ("device", "a"), ("floor", "1")],
            &numbers(&[0.5, 0.5, 0.5, 0.5, 0.5, 0.5]),
        ),
        series(
            &[(NAME, "total"), ("device", "a")],
            &numbers(&[0.0, 5.0, 10.0, 2.0, 7.0, 12.0]),
        ),
        series(
            &[(NAME, "gone"), ("device", "a")],
            &[Some(1.0), Some(2.0), None, None, Some(5.0), None],
        ),
        series(
            &[(NAME, "name"), ("device", "a"), ("place", "hall")],
            &numbers(&[1.0; 6]),
        ),
    ]
}

fn ask(query: &str, grid: Grid) -> Result<Answer, QueryError> {
    let plan = plan(query, grid, LOOKBACK_MS)?;
    let all = room();
    let reads: Vec<Read> = plan
        .selectors
        .iter()
        .map(|selector| {
            let found = all
                .iter()
                .filter(|one| all_take(&selector.matchers, &one.labels));
            Read::Samples(found.cloned().collect())
        })
        .collect();
    evaluate(&plan, &reads, &|| true)
}

/// The answer at 60 s, as text: `labels value` joined by `; `.
fn shown(query: &str) -> String {
    match ask(query, Grid::at(60_000)) {
        Err(error) => error.to_string(),
        Ok(Answer::Scalar(values)) => format!("{}", values[0]),
        Ok(Answer::Text(text)) => format!("{text:?}"),
        Ok(Answer::Vector(series)) => {
            let texts = series.iter().map(|one| {
                format!(
                    "{} {}",
                    one.labels,
                    one.values[0].expect("series without values are left out")
                )
            });
            texts.collect::<Vec<_>>().join("; ")
        }
        Ok(Answer::Matrix(series)) => {
            let texts = series
                .iter()
                .map(|one| format!("{} {:?}", one.labels, one.values));
            texts.collect::<Vec<_>>().join("; ")
        }
    }
}

#[test]
fn queries_of_an_instant() {
    for (query, want) in [
        ("1 + 2 * 3 ^ 2", "19"),
        ("-1 ^ 2", "-1"),
        ("7 % 4 - -3", "6"),
        ("1 > bool 2", "0"),
        ("'text'", "\"text\""),
        ("time()", "60"),
        (
            "temp",
            r#"temp{device="a", floor="1"} 6; temp{device="b", floor="1"} 60"#,
        ),
        (
            "temp offset 25s",
            r#"temp{device="a", floor="1"} 3; temp{device="b", floor="1"} 30"#,
        ),
        (
            "temp{device='a'} offset -1s",
            r#"temp{device="a", floor="1"} 6"#,
        ),
        ("temp{device='a'} @ 20", r#"temp{device="a", floor="1"} 2"#),
        (
            "temp{device='a'} @ end() offset 10s",
            r#"temp{device="a", floor="1"} 5"#,
        ),
        ("-temp{device='a'}", r#"{device="a", floor="1"} -6"#),
        ("gone", ""),
        ("gone @ 50", r#"gone{device="a"} 5"#),
        ("gone @ 30", ""),
        ("count_over_time(gone[1m])", r#"{device="a"} 3"#),
        ("last_over_time(gone[1m])", r#"gone{device="a"} 5"#),
        (
            "avg_over_time(temp{device='a'}[30s])",
            r#"{device="a", floor="1"} 5"#,
        ),
        (
            "sum_over_time(temp{device='a'}[30s] offset 10s)",
            r#"{device="a", floor="1"} 12"#,
        ),
        (
            "max_over_time(temp{device='a'}[1m] @ 30)",
            r#"{device="a", floor="1"} 3"#,
        ),
        (
            "quantile_over_time(0.5, temp{device='a'}[1m])",
            r#"{device="a", floor="1"} 3.5"#,
        ),
        ("rate(total[30s])", r#"{device="a"} 0.4"#),
        ("increase(total[1m])", r#"{device="a"} 22"#),
        (
            "delta(temp{device='a'}[40s])",
            r#"{device="a", floor="1"} 4"#,
        ),
        ("irate(total[1m])", r#"{device="a"} 0.5"#),
        ("idelta(total[25s] @ 40)", r#"{device="a"} -8"#),
        ("resets(total[1m])", r#"{device="a"} 1"#),
        ("changes(wet[1m])", r#"{device="a", floor="1"} 0"#),
        (
            "deriv(temp{device='b'}[1m])",
            r#"{device="b", floor="1"} 1"#,
        ),
        (
            "predict_linear(temp{device='b'}[1m], 60)",
            r#"{device="b", floor="1"} 120"#,
        ),
        ("sum(temp)", "{} 66"),
        (
            "sum by (device) ({__name__=~'temp|wet'})",
            r#"{device="a"} 6.5; {device="b"} 60"#,
        ),
        ("avg without (device) (temp)", r#"{floor="1"} 33"#),
        ("count(temp > 6)", "{} 1"),
        ("topk(1, temp)", r#"temp{device="b", floor="1"} 60"#),
        ("bottomk(1, temp)", r#"temp{device="a", floor="1"} 6"#),
        ("quantile(0.5, temp)", "{} 33"),
        ("stddev(temp)", "{} 27"),
        ("group by (floor) (temp)", r#"{floor="1"} 1"#),
        (
            "temp > bool 6",
            r#"{device="a", floor="1"} 0; {device="b", floor="1"} 1"#,
        ),
        ("6 < temp", r#"temp{device="b", floor="1"} 60"#),
        ("temp * on(device) wet", r#"{device="a"} 3"#),
        ("temp + ignoring(x) wet", r#"{device="a", floor="1"} 6.5"#),
        (
            "temp * on(device) group_left(place) name",
            r#"{device="a", floor="1", place="hall"} 6"#,
        ),
        (
            "temp and on(device) wet",
            r#"temp{device="a", floor="1"} 6"#,
        ),
        (
            "temp unless on(device) wet",
            r#"temp{device="b", floor="1"} 60"#,
        ),
        (
            "wet or temp",
            r#"wet{device="a", floor="1"} 0.5; temp{device="b", floor="1"} 60"#,
        ),
        ("absent(temp)", ""),
        ("absent(no{a='b',c=~'d'})", r#"{a="b"} 1"#),
        ("absent(no{a=~'b',a='b'})", r#"{a="b"} 1"#),
        ("absent(no{a='b',a=~'b'})", "{} 1"),
        ("absent(no{a='b',a='b',a='b'})", "{} 1"),
        ("absent_over_time(no{a='b'}[5m])", r#"{a="b"} 1"#),
        ("scalar(temp)", "NaN"),
        ("scalar(wet)", "0.5"),
        ("vector(3)", "{} 3"),
        (
            "clamp(temp, 10, 20)",
            r#"{device="a", floor="1"} 10; {device="b", floor="1"} 20"#,
        ),
        (
            "round(temp{device='a'} / 4, 0.5)",
            r#"{device="a", floor="1"} 1.5"#,
        ),
        (
            "timestamp(temp{device='a'})",
            r#"{device="a", floor="1"} 60"#,
        ),
        ("timestamp(gone @ 20)", r#"{device="a"} 20"#),
        (
            "sort_desc(temp)",
            r#"temp{device="b", floor="1"} 60; temp{device="a", floor="1"} 6"#,
        ),
        (
            "label_replace(wet, 'to', '$1x', 'device', '(.*)')",
            r#"wet{device="a", floor="1"} 0.5"#,
        ),
        (
            "label_replace(wet, 'to', '${1}x', 'device', '(.*)')",
            r#"wet{device="a", floor="1", to="ax"} 0.5"#,
        ),
        (
            "label_join(wet, 'to', '-', 'device', 'floor')",
            r#"wet{device="a", floor="1", to="a-1"} 0.5"#,
        ),
        ("max_over_time(sum(temp)[30s:10s])", "{} 66"),
        (
            "count_over_time(temp{device='a'}[1m:10s])",
            r#"{device="a", floor="1"} 6"#,
        ),
        ("wet[25s]", r#"wet{device="a", floor="1"} [0.5, 0.5, 0.5]"#),
    ] {
        assert_eq!(shown(query), want, "{query}");
    }
}

#[test]
fn what_cannot_be_computed_says_why() {
    for (query, want) in [
        (
            "histogram_quantile(0.9, temp)",
            "histogram_quantile() is not supported",
        ),
        ("count_values('x', temp)", "count_values() is not supported"),
        ("temp + on(floor) temp", "many-to-many matching not allowed"),
        (
            "temp + on(floor) wet",
            "many-to-one matching must be explicit",
        ),
        ("abs({device='a'})", "same labelset"),
        ("topk(NaN, temp)", "overflows int64"),
        ("temp{", "parse error"),
        ("{device=~'.*'}", "at least one non-empty matcher"),
        ("rate(temp)", "parse error"),
        ("temp[5m:1m", "parse error"),
        ("1 > 2", "BOOL modifier"),
        ("exp(NaN)", "expected type instant vector"),
        (
            "label_replace(temp, '0', 'a', 'b', 'c')",
            "invalid label name",
        ),
        (
            "label_replace(temp, 'a', 'a', 'b', '(')",
            "invalid regular expression",
        ),
        ("temp[1000000000000y]", ""),
        ("temp offset 200y", "a duration of"),
        ("temp @ 1e300", ""),
        ("{a='b' or c='d'}", "is not supported"),
    ] {
        let got = shown(query);
        let error = ask(query, Grid::at(60_000)).expect_err(query);
        assert!(error.text().contains(want), "{query}: {got}");
    }
}

#[test]
fn steps_of_a_range() {
    let grid = Grid {
        first: 0,
        step: 20_000,
        count: 4,
    };
    for (query, want) in [
        (
            "temp{device='a'}",
            vec![None, Some(2.0), Some(4.0), Some(6.0)],
        ),
        ("gone", vec![None, Some(2.0), None, None]),
        ("temp{device='a'} @ start()", vec![]),
        ("temp{device='a'} @ end()", vec![Some(6.0); 4]),
        (
            "sum_over_time(temp{device='a'}[30s])",
            vec![None, Some(3.0), Some(9.0), Some(15.0)],
        ),
        (
            "min_over_time(temp{device='a'}[30s])",
            vec![None, Some(1.0), Some(2.0), Some(4.0)],
        ),
        ("absent(gone)", vec![Some(1.0), None, Some(1.0), Some(1.0)]),
        (
            "topk(1, temp)",
            vec![None, Some(20.0), Some(40.0), Some(60.0)],
        ),
        (
            "temp{device='a'} > 3",
            vec![None, None, Some(4.0), Some(6.0)],
        ),
        (
            "avg_over_time(temp{device='a'}[20s:10s])",
            vec![None, Some(1.5), Some(3.5), Some(5.5)],
        ),
    ] {
        let Ok(Answer::Vector(series)) = ask(query, grid) else {
            panic!("{query} gives a vector");
        };
        let values: Vec<Option<f64>> = series.first().map_or(Vec::new(), |one| one.values.clone());
        assert_eq!(values, want, "{query}");
    }
    let error = ask("temp[1m]", grid).expect_err("a matrix has no steps");
    assert!(error.text().contains("invalid expression type"), "{error}");
}

#[test]
fn a_sample_is_taken_until_it_is_too_old() {
    let last = 60_000 + LOOKBACK_MS;
    for (name, at, there) in [
        ("one ms below", last - 1, true),
        ("as old as that", last, false),
        ("one ms above", last + 1, false),
    ] {
        let Ok(Answer::Vector(series)) = ask("wet", Grid::at(at)) else {
            panic!("a vector");
        };
        assert_eq!(!series.is_empty(), there, "{name}");
    }
}

#[test]
fn windows_are_open_at_their_start() {
    for (name, range, want) in [
        ("just short of a sample", "9999ms", "1"),
        ("a sample at its start", "10s", "1"),
        ("one ms more", "10001ms", "2"),
    ] {
        let query = format!("count_over_time(wet[{range}])");
        assert!(shown(&query).ends_with(&format!(" {want}")), "{name}");
    }
}

#[test]
fn figures_of_windows_answer_like_samples() {
    let rolled = Rolled {
        labels: Labels::of([(NAME, "x"), ("device", "a")]),
        ends: vec![60_000_000, 120_000_000, 240_000_000],
        count: vec![2, 3, 1],
        sum: vec![3.0, 9.0, 5.0],
        min: vec![1.0, 2.0, 5.0],
        max: vec![2.0, 4.0, 5.0],
    };
    let grid = Grid {
        first: 60_000,
        step: 60_000,
        count: 5,
    };
    for (function, want) in [
        (
            "sum",
            [Some(3.0), Some(12.0), Some(9.0), Some(5.0), Some(5.0)],
        ),
        (
            "count",
            [Some(2.0), Some(5.0), Some(3.0), Some(1.0), Some(1.0)],
        ),
        (
            "avg",
            [Some(1.5), Some(2.4), Some(3.0), Some(5.0), Some(5.0)],
        ),
        (
            "min",
            [Some(1.0), Some(1.0), Some(2.0), Some(5.0), Some(5.0)],
        ),
        (
            "max",
            [Some(2.0), Some(4.0), Some(4.0), Some(5.0), Some(5.0)],
        ),
    ] {
        let plan = plan(&format!("{function}_over_time(x[2m])"), grid, LOOKBACK_MS).expect("right");
        let read = Read::Rolled {
            size: 60_000,
            series: vec![rolled.clone()],
        };
        let answer = evaluate(&plan, &[read], &|| true).expect("it has an answer");
        let Answer::Vector(series) = answer else {
            panic!("{function} gives a vector");
        };
        assert_eq!(series[0].values, want, "{function}");
        assert_eq!(series[0].labels.to_string(), r#"{device="a"}"#);
    }
}

/// `rows` series of one value, over `count` steps.
fn held(rows: usize, count: usize) -> Result<Answer, QueryError> {
    let grid = Grid {
        first: 0,
        step: 1000,
        count,
    };
    let plan = plan("x", grid, LOOKBACK_MS).expect("right");
    let series = (0..rows).map(|_| series(&[(NAME, "x")], &numbers(&[1.0])));
    evaluate(&plan, &[Read::Samples(series.collect())], &|| true)
}

#[test]
fn places_of_series_are_bounded() {
    let count = 10_000;
    let rows = QUERY_SAMPLES_MAX / count;
    for (name, rows, count, fits) in [
        ("below", rows - 1, count, true),
        ("at", rows, count, true),
        ("above", rows + 1, count, false),
    ] {
        assert_eq!(held(rows, count).is_ok(), fits, "{name}");
    }
}

#[test]
fn samples_looked_at_are_bounded() {
    for (name, more, fits) in [("below", -1, true), ("at", 0, true), ("above", 1, false)] {
        let budget = super::Budget {
            go_on: &|| true,
            places: Default::default(),
            visits: Default::default(),
        };
        let samples = usize::try_from(QUERY_VISITS_MAX as i64 + more).expect("it fits");
        assert_eq!(budget.visit(samples).is_ok(), fits, "{name}");
    }
}

#[test]
fn a_query_that_must_stop_stops() {
    let plan = plan("x", Grid::at(0), LOOKBACK_MS).expect("right");
    let read = Read::Samples(vec![series(&[(NAME, "x")], &numbers(&[1.0]))]);
    let error = evaluate(&plan, &[read], &|| false).expect_err("it stops");
    assert_eq!(error.class(), "timeout");
}

const OVER_TIME: [OverTime; 9] = [
    OverTime::Sum,
    OverTime::Avg,
    OverTime::Count,
    OverTime::Min,
    OverTime::Max,
    OverTime::Last,
    OverTime::First,
    OverTime::Increase,
    OverTime::Delta,
];

/// Values are multiples of 2^-20 below 2^20, as sensors give them; some are missing.
fn samples() -> impl Strategy<Value = Vec<(i64, f64)>> {
    let sample = (1..2_000_000i64, -(1i64 << 40)..(1i64 << 40), 0..20u8);
    prop::collection::vec(sample, 0..3000).prop_map(|steps| {
        let mut time = 0;
        let samples = steps.into_iter().map(|(step, units, luck)| {
            time += step;
            let value = units as f64 / f64::from(1 << 20);
            (time, if luck == 0 { f64::NAN } else { value })
        });
        samples.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn windows_give_what_the_model_gives(
        samples in samples(),
        step in 1..400_000i64,
        range in 1..3_000_000i64,
        offset in -100_000..100_000i64,
    ) {
        let grid = Grid { first: 0, step, count: 20 };
        let moved = Moved { at: None, offset };
        let valid = samples.iter().filter(|(_, value)| !value.is_nan());
        let (times, values): (Vec<i64>, Vec<f64>) = valid.copied().unzip();
        let windows = Windows::over((&times, &values), (grid, moved, range));
        for of in OVER_TIME {
            let got = over_windows(of, &windows, &[]);
            for (time, got) in grid.times().zip(got) {
                let end = (time - offset) * 1000;
                let want = model::over_time(of, &samples, (end, range * 1000));
                let room = |want: f64| {
                    if matches!(of, OverTime::Increase | OverTime::Delta) {
                        want.abs() * 1e-9 + 1e-9
                    } else if of == OverTime::Avg {
                        want.abs() * 2.0 * f64::EPSILON
                    } else {
                        0.0
                    }
                };
                let near = match (got, want) {
                    (Some(got), Some(want)) => got == want || (got - want).abs() <= room(want),
                    (got, want) => got == want,
                };
                prop_assert!(near, "{of:?} at {time}: {got:?}, not {want:?}");
            }
        }
    }

    #[test]
    fn no_text_makes_the_planner_panic(
        words in prop::collection::vec(prop::sample::select(WORDS.to_vec()), 0..24),
        glue in prop::sample::select(vec!["", " "]),
    ) {
        let _ = ask(&words.join(glue), Grid::at(60_000));
    }
}

const WORDS: [&str; 52] = [
    "temp",
    "wet",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "5m",
    "1",
    "-",
    "+",
    "*",
    "/",
    "^",
    "%",
    "=",
    "!=",
    "=~",
    "!~",
    "==",
    ">",
    "<",
    "bool",
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "sum",
    "avg",
    "topk",
    "rate",
    "avg_over_time",
    "abs",
    "exp",
    ",",
    ":",
    "offset",
    "@",
    "start()",
    "end()",
    "'a'",
    "\"(\"",
    "and",
    "or",
    "unless",
    "1e300",
    "NaN",
    "Inf",
    "-5m",
    "time()",
];
