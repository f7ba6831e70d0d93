//! Views that are added, changed, taken out and built anew while readings come, by a
//! gateway that is killed at every step of its work. What comes of it is what a log has
//! that never knew another pipeline, byte for byte, and nothing is written twice.
#![allow(clippy::unwrap_used, reason = "a test")]

mod killed;

use std::collections::BTreeMap;

use forebay_core::effect::{Effect, GatewayConfig, Input, Opened, QueryId};
use forebay_core::engine::config::{Bounds, EngineConfig, Grid, TimeRules, WindowKind, WindowSpec};
use forebay_core::follow::{FollowFrom, FollowRequest};
use forebay_core::import::{ImportId, ImportRequest, SessionNo};
use forebay_core::ingest::Router;
use forebay_core::log::topic::READINGS;
use forebay_core::payload::GatewayName;
use forebay_core::pipeline::{Gateway, Pipelines};
use forebay_core::query::{Query, Reply};
use forebay_core::store::memory::{Crash, MemoryStore};
use forebay_core::store::{Store as _, WriteBatch};
use forebay_core::topics::TopicTable;
use forebay_core::units::{EventTime, LogId, Now, Span, TopicId};
use forebay_core::views::{Pipeline, renew_entry};
use killed::{Killed, PAUSE, Rig, Run, SECOND, leavings, record};
use serde_json::{Value, json};

const BATCH: usize = 20;
/// Readings before the change, and with those that come beside it.
const BEFORE: usize = 60;
const ALL: usize = 120;

fn span(seconds: i64) -> Span {
    Span(seconds * SECOND)
}

fn tumbling(name: &str, size: i64) -> WindowSpec {
    let kind = WindowKind::Tumbling(Grid::Fixed {
        size: span(size),
        offset: span(0),
    });
    WindowSpec::new(name, kind)
}

fn sliding(name: &str, size: i64) -> WindowSpec {
    let bounds = Bounds::HalfOpen;
    WindowSpec::new(
        name,
        WindowKind::Sliding {
            size: span(size),
            bounds,
        },
    )
}

fn engine(windows: Vec<WindowSpec>) -> EngineConfig {
    EngineConfig {
        time: TimeRules {
            out_of_order: span(2),
            allowed_lateness: span(3),
            ..TimeRules::default()
        },
        windows,
        ..EngineConfig::default()
    }
}

/// By the words that are kept of it.
fn pipeline(text: &[u8]) -> Option<EngineConfig> {
    match text {
        b"old" => Some(engine(vec![
            tumbling("same", 4),
            tumbling("changed", 4),
            sliding("gone", 5),
        ])),
        b"new" => Some(engine(vec![
            sliding("added", 3),
            tumbling("same", 4),
            tumbling("changed", 6),
        ])),
        _ => None,
    }
}

fn config(text: &[u8], partitions: u16) -> GatewayConfig {
    GatewayConfig {
        engine: pipeline(text).unwrap(),
        ..GatewayConfig::new(GatewayName::new("gw").unwrap(), partitions, Span(10_000))
    }
}

struct Lab {
    text: &'static [u8],
    partitions: u16,
    rig: Rig,
    imports: u64,
    session: Option<SessionNo>,
    answers: Vec<Result<Value, String>>,
}

impl Run for Lab {
    fn rig(&mut self) -> &mut Rig {
        &mut self.rig
    }

    fn die(&mut self, crash: Crash) {
        self.restart(self.text, crash);
    }

    fn act(&mut self, effect: Effect) -> Result<(), Killed> {
        match effect {
            Effect::Imported(_, answer) => self.session = Some(answer.unwrap().session),
            Effect::Answer(_, answer) => self.answers.push(answer.map(Reply::into_value)),
            Effect::Remove(segments) => self.rig.store.remove(&segments).unwrap(),
            Effect::Note(_) => {}
            Effect::Commit(..)
            | Effect::Fetch { .. }
            | Effect::PortWrite(..)
            | Effect::Publish { .. }
            | Effect::BrokerReset(..)
            | Effect::DeviceLog { .. }
            | Effect::Planned(..)
            | Effect::SourceStart { .. }
            | Effect::ChangesDurable { .. }
            | Effect::Stop(_) => panic!("{effect:?}"),
        }
        Ok(())
    }
}

impl Lab {
    fn new(text: &'static [u8], partitions: u16) -> Self {
        let store = MemoryStore::create(LogId([1; 16]), 1);
        Self {
            text,
            partitions,
            rig: Rig::new(store, |opened, now| open(text, partitions, opened, now)),
            imports: 0,
            session: None,
            answers: Vec::new(),
        }
    }

    /// Stopped without a word, and started with these windows.
    fn restart(&mut self, text: &'static [u8], crash: Crash) {
        self.text = text;
        self.session = None;
        let partitions = self.partitions;
        self.rig
            .restart(crash, |opened, now| open(text, partitions, opened, now));
    }

    /// Takes readings up to `end`, however often it is killed; `beside` is done before
    /// each batch.
    fn go(&mut self, end: usize, mut beside: impl FnMut(&mut Self)) {
        loop {
            beside(self);
            let from = self.rig.readings(self.partitions);
            if from == end {
                if self.drive(self.rig.now + 40 * PAUSE).is_ok() && self.rig.gateway.is_settled() {
                    break;
                }
                continue;
            }
            self.imports += 1;
            let records = (from..from + BATCH).map(record).collect();
            let session = self.session;
            let request = ImportRequest::Batch { session, records };
            self.rig
                .input(Input::Import(ImportId(self.imports), request));
            let _ = self.drive(self.rig.now + PAUSE);
        }
    }

    fn ask(&mut self, query: Query) -> Result<Value, String> {
        self.answers.clear();
        self.rig.input(Input::Query(QueryId(9), query));
        // No step is counted for what is answered at once.
        let mut rest = Vec::new();
        while let Some(effect) = self.rig.gateway.poll_effect() {
            if let Effect::Answer(_, answer) = effect {
                self.answers.push(answer.map(Reply::into_value));
            } else {
                rest.push(effect);
            }
        }
        for effect in rest {
            if self.work(effect).is_err() {
                break;
            }
        }
        self.answers
            .pop()
            .unwrap_or_else(|| Err(String::from("killed")))
    }

    /// Lines of every derived stream by its name on the wire, all partitions in order.
    fn lines(&self) -> BTreeMap<String, Vec<String>> {
        let meta = self.rig.store.meta_with_prefix(b"topic/").unwrap();
        let table = TopicTable::restore(&meta, &self.rig.store.opened().heads);
        let streams = table.streams().filter(|(topic, _)| *topic != READINGS);
        let lines = streams.map(|(topic, name)| {
            let partitions = Router::new(self.partitions).partitions();
            let text = partitions.flat_map(|partition| self.rig.lines(topic, partition));
            (name.to_owned(), text.collect())
        });
        lines.collect()
    }

    fn states(&mut self) -> BTreeMap<String, String> {
        let answer = self.ask(Query::Views).unwrap();
        assert_eq!(answer["building"], Value::Null, "{answer}");
        let text = |view: &Value, name: &str| view[name].as_str().unwrap().to_owned();
        let views = answer["views"].as_array().unwrap().iter();
        views
            .map(|view| (text(view, "stream"), text(view, "state")))
            .collect()
    }
}

fn open(text: &'static [u8], partitions: u16, opened: &Opened, now: Now) -> Gateway {
    let kept = Pipeline::restore(&opened.meta);
    let pipelines = Pipelines {
        text: text.to_vec(),
        kept: kept.and_then(|kept| pipeline(&kept.text)),
    };
    let config = config(text, partitions);
    Gateway::with_pipeline(config, opened, pipelines, now).unwrap()
}

/// A log that only ever had these windows.
fn only(text: &'static [u8], partitions: u16) -> BTreeMap<String, Vec<String>> {
    let mut run = Lab::new(text, partitions);
    run.go(ALL, |_| {});
    run.lines()
}

/// The first line that is another, as lists of lines are long.
fn same(got: &[String], want: &[String], what: &str) {
    let differs = got.iter().zip(want).position(|(got, want)| got != want);
    let at = differs.unwrap_or(got.len().min(want.len()));
    assert_eq!(
        (got.get(at), got.len()),
        (want.get(at), want.len()),
        "{what}: line {at}"
    );
}

/// Which readings are late depends on the windows: those of before judge up to the swap.
fn late(got: &[String], old: &[String], new: &[String], what: &str) {
    let of = |line: &String| old.contains(line) || new.contains(line);
    assert!(got.iter().all(of), "{what}: {got:#?}");
    let both = old.iter().filter(|line| new.contains(line));
    for line in both {
        let times = got.iter().filter(|got| *got == line).count();
        assert_eq!(times, 1, "{what}: {line}");
    }
    let mut known = got.to_vec();
    known.sort();
    known.dedup();
    assert_eq!(known.len(), got.len(), "{what}: {got:#?}");
}

fn is_prefix(some: &[String], of: &[String]) -> bool {
    of.starts_with(some)
}

/// Old windows for a while, then new ones, killed at a step after that.
fn change(partitions: u16, kill: Option<(usize, Crash)>) -> (Lab, usize) {
    let mut run = Lab::new(b"old", partitions);
    run.go(BEFORE, |_| {});
    let before = run.rig.steps;
    run.rig.kill = kill.map(|(at, crash)| (before + at, crash));
    run.restart(b"new", leavings()[2]);
    run.go(ALL, |_| {});
    let steps = run.rig.steps - before;
    (run, steps)
}

#[test]
fn a_changed_pipeline_swaps_in_beside_the_live_one_whatever_the_crash() {
    for partitions in [1, 2] {
        let (new, old) = (only(b"new", partitions), only(b"old", partitions));
        let (_, steps) = change(partitions, None);
        assert!(steps > 20, "{steps}");
        for at in 0..=steps {
            let crash = leavings()[at % 3];
            let (mut run, _) = change(partitions, Some((at, crash)));
            let lines = run.lines();
            let what = format!("{partitions} partitions, killed at step {at}, leaving {crash:?}");
            for (name, of_new) in [
                ("added", "added"),
                ("same", "same"),
                ("changed.1", "changed"),
            ] {
                same(&lines[name], &new[of_new], &format!("{what}: {name}"));
            }
            late(&lines["late"], &old["late"], &new["late"], &what);
            for name in ["changed", "gone"] {
                assert!(lines[name].len() > 5, "{what}: {name}");
                if partitions == 1 {
                    assert!(is_prefix(&lines[name], &old[name]), "{what}: {name}");
                }
            }
            let want = [
                ("added", "live"),
                ("same", "live"),
                ("changed.1", "live"),
                ("changed", "standing"),
                ("gone", "standing"),
            ];
            let want = want.map(|(name, state)| (name.to_owned(), state.to_owned()));
            assert_eq!(run.states(), want.into(), "{what}");
        }
    }
}

#[test]
fn the_live_streams_go_on_while_others_are_built() {
    let mut run = Lab::new(b"old", 1);
    run.go(BEFORE, |_| {});
    run.restart(b"new", leavings()[2]);
    let answer = run.ask(Query::Views).unwrap();
    let states = answer["views"].as_array().unwrap().iter();
    let states: Vec<_> = states
        .map(|view| {
            (
                view["stream"].as_str().unwrap(),
                view["state"].as_str().unwrap(),
            )
        })
        .collect();
    let want = [
        ("same", "live"),
        ("changed", "live"),
        ("gone", "live"),
        ("added", "building"),
        ("changed.1", "building"),
    ];
    assert_eq!(states, want);
    assert!(answer["building"].is_object(), "{answer}");
    let refused = run.ask(Query::DropView {
        stream: String::from("gone"),
    });
    assert!(refused.is_err_and(|text| text.contains("is live")));
    let refused = run.ask(Query::DropView {
        stream: String::from("added"),
    });
    assert!(refused.is_err_and(|text| text.contains("is being built")));
}

/// A window is built anew while readings come, killed at a step after that was asked for.
fn rebuild(from: Option<EventTime>, kill: Option<(usize, Crash)>) -> (Lab, usize) {
    let mut run = Lab::new(b"old", 1);
    run.go(BEFORE, |_| {});
    let before = run.rig.steps;
    run.rig.kill = kill.map(|(at, crash)| (before + at, crash));
    run.go(ALL, |run| {
        // Asked again when a crash took the question.
        let known = run.rig.store.meta_with_prefix(b"view/").unwrap();
        if run.rig.readings(run.partitions) == BEFORE || known.is_empty() {
            let name = String::from("same");
            let _ = run.ask(Query::RebuildView { name, from });
        }
    });
    let steps = run.rig.steps - before;
    (run, steps)
}

#[test]
fn a_window_is_built_anew_while_the_agent_runs_whatever_the_crash() {
    let want = only(b"old", 1);
    let (_, steps) = rebuild(None, None);
    assert!(steps > 15, "{steps}");
    for at in 0..=steps {
        let crash = leavings()[at % 3];
        let (mut run, _) = rebuild(None, Some((at, crash)));
        let lines = run.lines();
        let what = format!("killed at step {at}, leaving {crash:?}");
        let states = run.states();
        let live = states
            .iter()
            .filter(|(name, state)| *state == "live" && name.split('.').next() == Some("same"));
        let live: Vec<_> = live.map(|(name, _)| name.clone()).collect();
        assert_eq!(live.len(), 1, "{what}: {states:?}");
        assert_ne!(live[0], "same", "{what}: {states:?}");
        same(&lines[&live[0]], &want["same"], &what);
        assert!(is_prefix(&lines["same"], &want["same"]), "{what}");
        for name in ["changed", "gone", "late"] {
            same(&lines[name], &want[name], &format!("{what}: {name}"));
        }
    }
}

/// Of these lines those of windows that end after a time.
fn ending_after(from: EventTime, lines: &[String]) -> Vec<String> {
    let ends_after = |line: &&String| {
        let row: Value = serde_json::from_str(line).unwrap();
        let end = forebay_core::utc::parse(row["end"].as_str().unwrap()).unwrap();
        end > from
    };
    let kept: Vec<String> = lines.iter().filter(ends_after).cloned().collect();
    assert!(!kept.is_empty() && kept.len() < lines.len());
    kept
}

const FROM: EventTime = EventTime((1_800_000_000 + 16) * SECOND);

#[test]
fn rows_before_a_time_are_left_out_of_what_is_built_anew() {
    let want = only(b"old", 1);
    let (mut run, _) = rebuild(Some(FROM), None);
    let lines = run.lines();
    let states = run.states();
    let mut states = states.iter();
    let live = states.find(|(name, state)| *state == "live" && name.starts_with("same"));
    let (live, _) = live.unwrap();
    same(&lines[live], &ending_after(FROM, &want["same"]), live);
}

#[test]
fn a_log_that_does_not_know_its_pipeline_goes_over_at_once() {
    for partitions in [1, 2] {
        let want = only(b"old", partitions);
        let mut run = Lab::new(b"old", partitions);
        run.go(BEFORE, |_| {});
        let before = run.lines();
        let meta = vec![
            renew_entry("same", Some(FROM)),
            renew_entry("unknown", None),
            (b"pipeline/live".to_vec(), Vec::new()),
        ];
        let blocks = Vec::new();
        run.rig.store.append(&WriteBatch { blocks, meta }).unwrap();
        run.rig.store.sync().unwrap();
        run.restart(b"old", leavings()[2]);
        run.go(ALL, |_| {});
        let lines = run.lines();
        same(
            &lines["same.1"],
            &ending_after(FROM, &want["same"]),
            "same.1",
        );
        same(&lines["same"], &before["same"], "what stood stands");
        for name in ["changed", "gone", "late"] {
            same(&lines[name], &want[name], name);
        }
        let left = run.rig.store.meta_with_prefix(b"view/renew/").unwrap();
        assert_eq!(left, [], "each is done once");
    }
}

#[test]
fn a_reader_of_a_name_goes_on_where_the_name_went() {
    let mut run = Lab::new(b"old", 1);
    run.go(BEFORE, |_| {});
    let request = |topic, from| {
        Query::Follow(FollowRequest {
            stream: String::from("changed"),
            table: None,
            topic,
            from,
            lines_max: 1000,
            wait: Span(0),
        })
    };
    let follow = |run: &mut Lab, topic, from| {
        run.answers.clear();
        run.rig
            .input(Input::Query(QueryId(5), request(topic, from)));
        assert!(run.drive(run.rig.now + PAUSE).is_ok());
        run.answers.pop().unwrap().unwrap()
    };
    let first = follow(&mut run, None, FollowFrom::Beginning);
    let topic = TopicId(u16::try_from(first["topic"].as_u64().unwrap()).unwrap());
    let place = |answer: &Value| FollowFrom::parse(answer["next"].as_str().unwrap()).unwrap();
    run.restart(b"new", leavings()[2]);
    run.go(ALL, |_| {});
    let rest = follow(&mut run, Some(topic), place(&first));
    assert_eq!(rest["topic"], json!(topic.0), "it is read to its end");
    let lines = run.lines();
    let count = |answer: &Value| answer["changes"].as_array().unwrap().len();
    assert_eq!(count(&first) + count(&rest), lines["changed"].len());
    let moved = &rest["moved"];
    assert_eq!(moved["stream"], json!("changed.1"), "{rest}");
    let to = TopicId(u16::try_from(moved["topic"].as_u64().unwrap()).unwrap());
    let after = follow(&mut run, Some(to), place(moved));
    let Ok(FollowFrom::At(at)) = FollowFrom::parse(moved["next"].as_str().unwrap()) else {
        panic!("a place: {moved}");
    };
    let skipped: u64 = at.values().map(|offset| offset.0).sum();
    assert_eq!(skipped as usize + count(&after), lines["changed.1"].len());
    assert!(skipped > 0, "{moved}");
}

#[test]
fn a_standing_view_is_dropped_and_stays_so() {
    let (mut run, _) = change(1, None);
    let rows = run.lines()["gone"].len();
    let answer = run
        .ask(Query::DropView {
            stream: String::from("gone"),
        })
        .unwrap();
    assert_eq!(answer["rows"], json!(rows));
    assert!(run.drive(run.rig.now + PAUSE).is_ok());
    run.restart(b"new", leavings()[2]);
    run.go(ALL, |_| {});
    assert_eq!(run.states()["gone"], "dropped");
    let unknown = run.ask(Query::DropView {
        stream: String::from("nothing"),
    });
    assert!(unknown.is_err_and(|text| text.contains("no view is called")));
}
