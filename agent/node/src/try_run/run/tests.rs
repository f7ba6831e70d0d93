//! Restart and crash lines wherever they may stand, over files and streams, against
//! the run without them.

use std::fs;
use std::io::{self, Cursor, Read};

use proptest::prelude::*;
use serde_json::Value;

use super::super::args::Summary;
use super::super::output::OutputError;
use super::super::source::Source;
use super::super::summary;
use super::*;
use crate::config::Config;

/// Gives a few bytes at a time.
struct Drops(Cursor<Vec<u8>>, usize);

impl Read for Drops {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let len = to.len().min(self.1);
        self.0.read(&mut to[..len])
    }
}

/// How a run is to go.
#[derive(Debug, Clone)]
struct Way {
    batch: usize,
    pace: Pace,
    /// Bytes that a stream gives at once; `None` for files.
    stream: Option<usize>,
    /// Checkpoints in a folder.
    folder: bool,
}

const PLAIN: Way = Way {
    batch: 1000,
    pace: Pace::USUAL,
    stream: None,
    folder: false,
};

#[derive(Debug, PartialEq)]
struct Outcome {
    out: String,
    errors: Vec<String>,
    summary: Value,
}

fn config(windows: &str) -> Config {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("c.toml");
    let text = format!(
        "[engine]\nout_of_order = \"5s\"\nallowed_lateness = \"10s\"\nidle_after = \"60s\"\n{windows}"
    );
    fs::write(&path, text).expect("written");
    Config::load(&path).expect("a good config")
}

fn run(config: &Config, texts: &[String], way: &Way) -> Result<Outcome, Stop> {
    let dir = tempfile::tempdir().expect("a folder");
    let source = |(n, text): (usize, &String)| match way.stream {
        Some(at_once) => {
            let bytes = Cursor::new(text.clone().into_bytes());
            Source::stream(Box::new(Drops(bytes, at_once)))
        }
        None => {
            let path = dir.path().join(n.to_string());
            fs::write(&path, text).expect("written");
            Source::file(fs::File::open(&path).expect("it is there"))
        }
    };
    let sources = texts.iter().enumerate().map(source);
    let (mut out, mut errors) = (Vec::new(), Vec::new());
    let mut run = Run {
        config: &config.engine,
        engine: Engine::new(&config.engine),
        tables: &config.tables,
        inputs: sources.map(|s| Input::new("in".into(), s)).collect(),
        batch_max: way.batch,
        output: Output::new(&mut out),
        errors: &mut errors,
        checkpoints: if way.folder {
            Checkpoints::in_folder(&dir.path().join("state")).expect("a folder")
        } else {
            Checkpoints::in_memory()
        },
        pace: way.pace,
        work: Work::default(),
    };
    run.all(way.folder, true)?;
    let mut shown = Vec::new();
    summary::write(Summary::Json, &run.engine, run.rejected(), &mut shown).expect("memory");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    // Their numbers move with the lines that are put in.
    let unplaced = |line: &str| line.splitn(3, ':').nth(2).unwrap_or(line).to_owned();
    Ok(Outcome {
        out: text(out),
        errors: text(errors).lines().map(unplaced).collect(),
        summary: serde_json::from_slice(&shown).expect("JSON"),
    })
}

/// Two windows, a chain, a reader by reading, a key of a table; every kind of join, of
/// tables that lines feed and of one of the config.
fn windows() -> Config {
    config(
        "[[window]]\nname = \"t\"\nkind = \"tumbling\"\nsize = \"10s\"\naggregates = [\"count\", \"mean\", \"p50\"]\nfinalize = true\n\
         [[window]]\nname = \"c\"\nkind = \"hopping\"\nsize = \"1m\"\nhop = \"20s\"\nfrom = \"t\"\n\
         [[window]]\nname = \"s\"\nkind = \"sliding\"\nsize = \"15s\"\naggregates = [\"count\", \"max\", \"stddev\"]\n\
         [[window]]\nname = \"k\"\nkind = \"tumbling\"\nsize = \"20s\"\nkey = [\"sites.plant\"]\n\
         [[table]]\nname = \"sites\"\nkey = \"device\"\nsource = \"file\"\n\
         [[table]]\nname = \"plants\"\nkey = \"id\"\nsource = \"config\"\nrows = [{ id = \"p1\" }, { id = \"p2\", n = 5 }]\n\
         [[join]]\nname = \"l\"\nkind = \"lookup\"\nleft = { from = \"readings\", where = \"value > 0\" }\nright = { from = \"sites\" }\non = \"device\"\ntype = \"left\"\nwait = \"10s\"\n\
         [[join]]\nname = \"i\"\nkind = \"interval\"\nleft = { from = \"readings\", where = \"value < 2\" }\nright = { from = \"readings\", where = \"device != 'b'\" }\non = \"channel\"\nwithin = [\"-3s\", \"1s\"]\ntype = \"full\"\n\
         [[join]]\nname = \"o\"\nkind = \"interval\"\nleft = { from = \"readings\" }\nright = { from = \"t\" }\non = \"device\"\nwithin = [\"0s\", \"10s\"]\ntype = \"left\"\n\
         [[join]]\nname = \"f\"\nkind = \"table\"\nleft = { from = \"sites\" }\nright = { from = \"plants\" }\non = \"plant\"\ntype = \"full\"\n",
    )
}

fn time() -> impl Strategy<Value = i64> {
    (0..100_i64).prop_map(|second| second * 1_000_000)
}

fn line() -> impl Strategy<Value = String> {
    let device = prop::sample::select(vec!["a", "b", "c"]);
    let reading = (device.clone(), time(), -5_i64..5, any::<bool>());
    prop_oneof![
        20 => (reading, 0_u64..40).prop_map(|((device, second, value, identity), seq)| {
            let id = if identity { format!(",\"boot\":\"x{}\",\"seq\":{seq}", seq % 2) } else { String::new() };
            format!("{{\"device\":\"{device}\",\"channel\":\"t\",\"time\":{second},\"value\":{value}.25{id}}}")
        }),
        1 => (device, time()).prop_map(|(device, second)| format!("{{\"control\":\"watermark\",\"device\":\"{device}\",\"time\":{second}}}")),
        1 => time().prop_map(|second| format!("{{\"control\":\"watermark\",\"time\":{second}}}")),
        1 => time().prop_map(|second| format!("{{\"control\":\"clock\",\"time\":{second}}}")),
        4 => change(),
        1 => Just("{\"table\":\"plants\",\"op\":\"insert\",\"key\":\"a\"}".to_owned()),
        1 => Just("{no line".to_owned()),
        1 => Just(String::new()),
    ]
}

fn change() -> impl Strategy<Value = String> {
    let device = prop::sample::select(vec!["a", "b", "c"]);
    let op = prop::sample::select(vec!["insert", "update", "delete", "heartbeat"]);
    (device, op, time(), 1..4_u8).prop_map(|(device, op, time, plant)| {
        let row = match op {
            "insert" | "update" => format!(",\"row\":{{\"plant\":\"p{plant}\"}}"),
            _ => String::new(),
        };
        format!("{{\"table\":\"sites\",\"op\":\"{op}\",\"key\":\"{device}\",\"time\":{time}{row}}}")
    })
}

fn way() -> impl Strategy<Value = Way> {
    let pace = (1_u64..30, 0_u64..200, 0_usize..4000);
    let pace = pace.prop_map(|(readings_min, bytes_per_reading, held_max)| Pace {
        readings_min,
        bytes_per_reading,
        held_max,
    });
    let stream = prop::option::of(prop::sample::select(vec![1, 100, 10_000]));
    (1_usize..50, pace, stream, any::<bool>()).prop_map(|(batch, pace, stream, folder)| Way {
        batch,
        pace,
        stream,
        folder,
    })
}

fn with_stops(lines: &[String], stops: &[(prop::sample::Index, bool)]) -> Vec<String> {
    let mut lines = lines.to_vec();
    for (at, crash) in stops {
        let stop = if *crash { "crash" } else { "restart" };
        lines.insert(
            at.index(lines.len() + 1),
            format!("{{\"control\":\"{stop}\"}}"),
        );
    }
    lines
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn no_stop_changes_a_byte(
        lines in prop::collection::vec(line(), 1..120),
        stops in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..8),
        cut in any::<prop::sample::Index>(),
        way in way(),
    ) {
        let config = windows();
        let want = run(&config, &[lines.join("\n")], &PLAIN).expect("it goes through");
        let stopped = with_stops(&lines, &stops);
        // Two inputs, one of which may be empty.
        let (one, two) = stopped.split_at(cut.index(stopped.len() + 1));
        let texts = [one.join("\n"), two.join("\n")];
        let got = run(&config, &texts, &way).expect("it goes through");
        prop_assert_eq!(got, want);
    }
}

#[test]
fn a_stop_after_each_line_changes_no_byte() {
    let lines: Vec<String> = (0..40)
        .map(|n| {
            format!(
                "{{\"device\":\"d{}\",\"channel\":\"t\",\"time\":{}000000,\"value\":{n}.5}}",
                n % 3,
                n * 2
            )
        })
        .collect();
    let config = windows();
    let want = run(&config, &[lines.join("\n")], &PLAIN).expect("it goes through");
    assert!(want.out.lines().count() > 40);
    for stop in ["restart", "crash"] {
        for batch in [1, 32] {
            let way = Way { batch, ..PLAIN };
            let stopped = lines
                .iter()
                .flat_map(|line| [line.clone(), format!("{{\"control\":\"{stop}\"}}")]);
            let all: Vec<String> = stopped.collect();
            let got = run(&config, &[all.join("\n")], &way).expect("it goes through");
            assert_eq!(got, want, "{stop} after every line, batches of {batch}");
        }
    }
}

#[test]
fn a_crash_reads_again_from_the_last_checkpoint_over_inputs() {
    let csv: String = (0..30).map(|n| format!("d,t,{n}000000,{n}\n")).collect();
    let csv = format!("device,channel,time,value\n{csv}");
    let good = "{\"device\":\"d\",\"channel\":\"t\",\"time\":40000000,\"value\":1}\n";
    let bad = "{\"device\":\"d\"}\n";
    let crash = "{\"control\":\"crash\"}\n";
    let texts = |stop: &str| {
        [
            format!("{good}{bad}{stop}"),
            csv.clone(),
            format!("{good}{stop}{good}{stop}"),
        ]
    };
    let config = windows();
    let want = run(&config, &texts(""), &PLAIN).expect("it goes through");
    assert_eq!(want.errors.len(), 1, "told once");
    for stream in [None, Some(7), Some(1000)] {
        let way = Way {
            stream,
            batch: 4,
            ..PLAIN
        };
        let got = run(&config, &texts(crash), &way).expect("it goes through");
        assert_eq!(got, want, "{stream:?}");
    }
}

#[test]
fn what_is_held_is_bounded() {
    // One line per reading, and never enough readings for a checkpoint of their own.
    let lines = (0..500).map(|n| {
        format!("{{\"device\":\"d\",\"channel\":\"t\",\"time\":{n}000000,\"value\":1}}\n")
    });
    let pace = Pace {
        readings_min: u64::MAX,
        bytes_per_reading: 0,
        held_max: 5000,
    };
    let way = Way {
        batch: 10,
        pace,
        stream: Some(500),
        folder: false,
    };
    let text: String = lines.collect();
    let config = windows();
    let want = run(&config, std::slice::from_ref(&text), &PLAIN).expect("it goes through");
    let got = run(&config, &[text + "{\"control\":\"crash\"}\n"], &way).expect("it goes through");
    assert_eq!(got, want);
}

#[test]
fn another_output_after_a_crash_is_told() {
    let config = windows();
    let lines: String = (0..40)
        .map(|n| format!("{{\"device\":\"d\",\"channel\":\"t\",\"time\":{n}000000,\"value\":1}}\n"))
        .collect();
    let mut out = Vec::new();
    let mut errors = Vec::new();
    let text = lines + "{\"control\":\"crash\"}\n";
    let source = Source::stream(Box::new(Cursor::new(text.into_bytes())));
    let mut run = Run {
        config: &config.engine,
        engine: Engine::new(&config.engine),
        tables: &[],
        inputs: vec![Input::new("in".into(), source)],
        batch_max: 1,
        output: Output::new(&mut out),
        errors: &mut errors,
        checkpoints: Checkpoints::in_memory(),
        pace: Pace::USUAL,
        work: Work::default(),
    };
    run.checkpoint().expect("it is kept");
    // Stands in the output, and no engine gives it.
    run.output.write(b"{\"stream\":\"s\"}\n").expect("memory");
    let stop = run.all(false, true).expect_err("it is told");
    assert!(
        matches!(stop, Stop::Output(OutputError::Differs { .. })),
        "{stop}"
    );
    assert_eq!(stop.code(), 3);
    assert!(
        stop.to_string().contains("stands: {\"stream\":\"s\"}"),
        "{stop}"
    );
}
