//! Joins with tables, and keys of tables, whose changes come between the readings: the rows
//! are those of an engine that sees each partition's log once, in order, however the log is
//! read, and whenever a crash comes.

use std::sync::Arc;

use super::*;
use crate::change::ChangeOp;
use crate::engine::config::{JoinKind, JoinSource, JoinSpec, JoinType, KeyColumn, TableSpec};
use crate::engine::row::StreamId;
use crate::engine::{Batch, Engine, row};
use crate::limits::BASE_CHANGES_AT_ONCE;
use crate::live::figure;
use crate::recompute::Recompute;
use crate::units::Now;

fn joined() -> EngineConfig {
    let mut config = config(false);
    config.windows.truncate(1);
    config.windows[0].key_columns = vec![KeyColumn {
        table: 0,
        column: String::from("building"),
    }];
    let lookup = JoinKind::Lookup { wait: None };
    let (lower, upper) = (Span(-3), Span(3));
    let interval = JoinKind::Interval { lower, upper };
    let (readings, table) = (JoinSource::Readings, JoinSource::Table(0));
    config.tables = vec![TableSpec {
        out_of_order: Span(2),
        ..TableSpec::new("sites", &["device"])
    }];
    config.joins = vec![
        JoinSpec {
            join_type: JoinType::Left,
            ..JoinSpec::new("placed", lookup, readings, table)
        },
        JoinSpec::new("near", interval, readings, readings),
        JoinSpec::new("window", lookup, JoinSource::Window(0), table),
    ];
    config
}

/// What is known of a device from some time on; of none: only the time.
fn change(device: Option<u64>, time: i64, building: u8) -> Change {
    let row = |device: &str| format!("{{\"device\":\"{device}\",\"building\":\"b{building}\"}}");
    let name = device.map(|device| uid(device).to_string());
    let after = name
        .as_deref()
        .filter(|_| building > 0)
        .map(|name| Arc::from(row(name)));
    Change {
        table: Arc::from("sites"),
        op: match (device, building) {
            (None, _) => ChangeOp::Heartbeat,
            (Some(_), 0) => ChangeOp::Delete,
            (Some(_), _) => ChangeOp::Update,
        },
        key: Arc::from(name.as_deref().unwrap_or("")),
        time: EventTime(time),
        before: None,
        after,
        position: None,
    }
}

#[derive(Debug, Clone)]
enum Act {
    Step(Step),
    Change(Option<u64>, i64, u8),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let step = steps(8, false, false).prop_map(|steps| steps.into_iter().map(Act::Step).collect());
    let one = (prop::option::weighted(0.7, 0..6_u64), 0..60_i64, 0..4_u8);
    let changes = prop::collection::vec(one, 1..12).prop_map(|all| {
        all.into_iter()
            .map(|(d, t, b)| Act::Change(d, t, b))
            .collect()
    });
    let some = prop_oneof![3 => step, 2 => changes];
    let all = prop::collection::vec(some, 1..8);
    all.prop_map(|all: Vec<Vec<Act>>| all.into_iter().flatten().collect())
}

/// The rows of a fresh engine per partition, by topic and partition.
fn fresh(rig: &Rig) -> BTreeMap<(u16, u16), Vec<String>> {
    let changes: Vec<Change> = rig
        .lines(CHANGES_AT.topic)
        .remove(&0)
        .unwrap_or_default()
        .iter()
        .map(|line| Change::parse(line.as_bytes()).expect("it was written"))
        .collect();
    let mut out: BTreeMap<(u16, u16), Vec<String>> = BTreeMap::new();
    for partition in rig.layouts.current().router.partitions() {
        let mut engine = Engine::new(&rig.config);
        let (mut batch, mut rows, mut applied) = (Batch::new(), row::Rows::new(), 0);
        let of = |key: &BlockKey| key.at == readings_of(partition);
        for (key, bytes) in rig.blocks.iter().filter(|(key, _)| of(key)) {
            let block = decode(*key, bytes).expect("a block");
            let Body::Readings { series, records } = block.body else {
                panic!("rows among readings");
            };
            for record in records {
                match record {
                    Record::Reading(reading) => {
                        let series = &series[usize::from(reading.series)];
                        let id = engine.series(&series.uid.to_string(), &series.name);
                        let value = figure(series, &reading);
                        batch.push(id.expect("room"), reading.time, value, None);
                    }
                    Record::Tables(tables) => {
                        engine.on_batch(&batch, &mut rows);
                        batch.clear();
                        let upto = tables.upto.0 as usize;
                        for change in &changes[applied..upto.max(applied)] {
                            engine.on_change(change, &mut rows);
                        }
                        applied = applied.max(upto);
                    }
                    Record::Gap(_) | Record::Clock(_) => panic!("nobody wrote it"),
                }
            }
        }
        engine.on_batch(&batch, &mut rows);
        let windows = rig.config.windows.len() as u16;
        for view in engine.views(&rows) {
            let topic = match view.stream() {
                StreamId::Window(n) => TUMBLING.0 + n,
                StreamId::Join(n) => TUMBLING.0 + windows + n,
                StreamId::Late => LATE.0,
                StreamId::Quarantine => QUARANTINE.0,
            };
            let mut line = Vec::new();
            view.write_json(&mut line);
            let line = String::from_utf8(line).expect("JSON is text");
            out.entry((topic, partition.0)).or_default().push(line);
        }
    }
    out
}

/// What stands in the derived topics.
fn standing(rig: &Rig) -> BTreeMap<(u16, u16), Vec<String>> {
    let all = topics(&rig.config)
        .into_iter()
        .flatten()
        .chain([LATE, QUARANTINE]);
    let lines = all.flat_map(|topic| {
        let lines = rig.lines(topic).into_iter();
        lines.map(move |(partition, lines)| ((topic.0, partition), lines))
    });
    lines.collect()
}

/// What is computed anew, with reads of so many bytes.
fn recomputed(rig: &Rig, bytes_max: usize) -> BTreeMap<(u16, u16), Vec<String>> {
    let ends = rig.heads.iter().filter(|(at, _)| at.topic == READINGS);
    let ends = ends.map(|(at, head)| (at.partition, *head)).collect();
    let of = (&rig.config, topics(&rig.config));
    let recompute = Recompute::new(of, rig.layouts.clone(), &ends, &BTreeMap::new(), Epoch(1));
    let recompute = recompute.with_changes(rig.commit.head(CHANGES_AT));
    let meta: Vec<MetaEntry> = rig.meta.clone().into_iter().collect();
    let mut recompute = recompute.with_base(&meta);
    let mut out: BTreeMap<(u16, u16), Vec<String>> = BTreeMap::new();
    while let Some((read, at, from)) = recompute.next_fetch() {
        for stored in recompute.on_fetched(read, &rig.blocks_of(at, from, bytes_max)) {
            let block = decode(stored.key, &stored.bytes).expect("a block");
            let Body::Rows(rows) = block.body else {
                panic!("readings in a derived topic");
            };
            let key = (stored.key.at.topic.0, stored.key.at.partition.0);
            let text = |row: Row| String::from_utf8(row.line).expect("JSON is text");
            out.entry(key)
                .or_default()
                .extend(rows.into_iter().map(text));
        }
    }
    out
}

fn run_acts(partitions: u16, acts: &[Act]) -> Rig {
    let mut rig = Rig::of(partitions, joined());
    for act in acts {
        match act {
            Act::Step(step) => rig.step(step),
            Act::Change(device, time, building) => {
                if !rig.founded {
                    rig.turn(None);
                }
                rig.change(&change(*device, *time, *building));
            }
        }
    }
    // The marker of the last changes comes after them.
    rig.turn(None);
    rig.turn(None);
    rig.settle();
    rig.sum_up();
    rig
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn rows_are_those_of_the_log_however_it_was_read(acts in acts(), partitions in prop_oneof![Just(1_u16), Just(4)]) {
        let rig = run_acts(partitions, &acts);
        prop_assert_eq!((rig.different, &rig.notes), (0, &Vec::new()));
        let want = fresh(&rig);
        prop_assert_eq!(&standing(&rig), &want);
        for bytes_max in [1, 300, usize::MAX] {
            prop_assert_eq!(&recomputed(&rig, bytes_max), &want, "{}", bytes_max);
        }
    }
}

#[test]
fn a_start_goes_on_from_the_changes_that_its_checkpoint_has() {
    let mut rig = Rig::of(1, joined());
    for round in 0..50_i64 {
        rig.change(&change(Some(1), round * 10, 1 + (round % 3) as u8));
        rig.turn(None);
        for _ in 0..10 {
            rig.take(1, 1);
        }
        rig.settle();
        assert!(rig.readers.want());
        rig.commit.wake(rig.now);
        rig.turn(None);
    }
    let applied = rig.readers.stages()[0].applied();
    assert_eq!(applied, Offset(50));
    rig.turn(Some((false, false)));
    assert_eq!(rig.readers.stages()[0].applied(), Offset(50));
    assert_eq!(rig.readers.start_up().restored, 1);
    rig.settle();
    rig.sum_up();
    assert_eq!((rig.restored, rig.different), (1, 0));
    assert_eq!(standing(&rig), fresh(&rig));
    assert!(
        standing(&rig).contains_key(&(TUMBLING.0 + 1, 0)),
        "readings found rows"
    );
}

#[test]
fn nothing_is_kept_between_the_first_change_of_a_place_and_its_record() {
    let mut rig = Rig::of(1, joined());
    // More than a block of changes.
    for n in 0..400 {
        rig.change(&change(Some(n % 6), 1 + n as i64, 1 + (n % 3) as u8));
    }
    rig.take(1, 1);
    rig.turn(None);
    rig.turn(None);
    let (mut inside, mut entries) = (0, 0);
    while rig.read(1) {
        let stage = &rig.readers.stages()[0];
        let waits = stage.applied() > Offset(0) && stage.is_inside_changes();
        let all = rig.readers.take_entries(true, &rig.commit, rig.now);
        if waits {
            inside += 1;
            entries += all.len();
        }
    }
    assert!(inside > 1, "{inside}");
    assert_eq!(entries, 0);
}

#[test]
fn changes_that_are_gone_are_counted_and_passed_over() {
    let mut rig = Rig::of(2, joined());
    for n in 0..400 {
        rig.change(&change(Some(n % 6), 1 + n as i64, 1));
    }
    rig.take(1, 1);
    rig.turn(None);
    let first = rig.blocks.keys().find(|key| key.at == CHANGES_AT).copied();
    let first = first.expect("there are changes");
    let gone = decode(first, &rig.blocks[&first]).expect("a block").end().0;
    rig.blocks.remove(&first);
    rig.turn(None);
    rig.settle();
    for stage in rig.readers.stages() {
        assert_eq!(stage.counters().changes_missing, gone);
        assert_eq!(stage.applied(), Offset(400));
    }
}

/// Folds the changes below `end`, and removes the blocks that have nothing else.
fn trim_changes(rig: &mut Rig, end: u64) {
    let meta: Vec<MetaEntry> = rig.meta.clone().into_iter().collect();
    let now = Now {
        mono: rig.now,
        utc: EventTime(0),
    };
    let none = (&EngineConfig::default(), Vec::new());
    let of = (rig.commit.head(CHANGES_AT), now);
    let mut changes = Changes::new((&[], &[]), none, &meta, of);
    changes.fold(Offset(end));
    while let Some((at, from)) = changes.next_base_fetch() {
        changes.on_base_fetched(&rig.blocks_of(at, from, 400));
        rig.meta.extend(changes.take_entries(&rig.commit));
        changes.on_cut();
        changes.on_committed();
    }
    assert_eq!(changes.folded(), Offset(end));
    rig.meta.retain(|_, value| !value.is_empty());
    rig.blocks.retain(|key, bytes| {
        let is_gone = || decode(*key, bytes).expect("a block").end() <= Offset(end);
        key.at != CHANGES_AT || !is_gone()
    });
}

/// Those of what happened from this time on, us.
fn since(
    lines: &BTreeMap<(u16, u16), Vec<String>>,
    time_from: i64,
) -> BTreeMap<(u16, u16), Vec<String>> {
    let is_new = |line: &&String| {
        let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let time = row["start"].as_str().or(row["time"].as_str());
        time.and_then(crate::utc::parse) >= Some(EventTime(time_from))
    };
    let lines = lines.iter();
    let lines = lines.map(|(at, lines)| (*at, lines.iter().filter(is_new).cloned().collect()));
    lines
        .filter(|(_, lines): &(_, Vec<_>)| !lines.is_empty())
        .collect()
}

/// Rows of six devices, some of them deleted, with readings up to 400 us; then readings up
/// to 500 us while only one row is told. Gives the end of the first changes.
fn told_once(partitions: u16) -> (Rig, u64) {
    let mut rig = Rig::of(partitions, joined());
    for round in 0..60_i64 {
        let device = round as u64 % 6;
        let building = if round == 57 {
            0
        } else {
            1 + (round % 3) as u8
        };
        rig.change(&change(Some(device), round * 5, building));
        rig.turn(None);
        rig.take(device, 4);
        rig.settle();
    }
    rig.change(&change(None, 400, 1));
    rig.turn(None);
    rig.turn(None);
    let first = rig.commit.head(CHANGES_AT).0;
    for round in 0..40_i64 {
        for device in 0..6 {
            let newest = rig.devices.get(&device).map_or(0, |device| device.0);
            rig.take(device, (410 + round * 2 - newest).max(0));
        }
        rig.turn(None);
        rig.change(&change(Some(0), 405 + round * 2, 1 + (round % 3) as u8));
        rig.turn(None);
    }
    rig.turn(None);
    rig.turn(None);
    rig.settle();
    rig.sum_up();
    (rig, first)
}

#[test]
fn an_engine_built_anew_knows_rows_whose_changes_were_removed() {
    for partitions in [1, 4] {
        let (mut rig, first) = told_once(partitions);
        let want = since(&fresh(&rig), 410);
        assert!(want.contains_key(&(TUMBLING.0 + 1, 0)), "joined: {want:?}");
        assert!(want.contains_key(&(TUMBLING.0, 0)), "windows: {want:?}");
        let kept = rig.meta.clone();
        trim_changes(&mut rig, first);
        for bytes_max in [1, 300, usize::MAX] {
            let got = since(&recomputed(&rig, bytes_max), 410);
            assert_eq!(got, want, "{partitions} {bytes_max}");
        }
        let with_base = std::mem::replace(&mut rig.meta, kept);
        let without = since(&recomputed(&rig, usize::MAX), 410);
        assert_ne!(without, want, "rows that were told once only");
        // A start that finds no checkpoint.
        rig.meta = with_base;
        let state = |key: &[u8]| key.starts_with(b"checkpoint/") || key.starts_with(b"state/");
        rig.meta.retain(|key, _| !state(key));
        rig.start();
        assert_eq!(rig.readers.start_up().restored, 0);
        rig.settle();
        for stage in rig.readers.stages() {
            assert_eq!(stage.counters().changes_missing, 0);
            assert_eq!(stage.applied(), rig.commit.head(CHANGES_AT));
        }
        assert_eq!(since(&standing(&rig), 410), want, "{partitions}");
    }
}

#[test]
fn an_engine_that_was_behind_takes_what_it_lacks_from_the_base() {
    let mut rig = Rig::of(1, joined());
    for n in 0..400 {
        rig.change(&change(Some(n), 1 + n as i64, 1));
    }
    rig.take(1, 1);
    rig.turn(None);
    rig.turn(None);
    // It has applied a part of them when they go.
    while rig.readers.stages()[0].applied() == Offset(0) {
        assert!(rig.read(1));
    }
    let applied = rig.readers.stages()[0].applied().0;
    assert!(applied < 400, "{applied}");
    trim_changes(&mut rig, 400);
    let meta: Vec<MetaEntry> = rig.meta.clone().into_iter().collect();
    rig.readers.set_base(&Arc::new(Base::restore(&meta)));
    rig.settle();
    let stage = &rig.readers.stages()[0];
    assert_eq!(stage.applied(), Offset(400));
    assert_eq!(stage.counters().changes_missing, 0);
}

#[test]
fn nothing_is_kept_while_an_engine_takes_the_base() {
    let mut rig = Rig::of(1, joined());
    let all = BASE_CHANGES_AT_ONCE as u64 * 2 + 1;
    for n in 0..all {
        rig.change(&change(Some(n), 1 + n as i64, 1));
    }
    rig.turn(None);
    trim_changes(&mut rig, all);
    rig.take(1, 1);
    rig.turn(Some((false, false)));
    rig.take(2, 1);
    rig.turn(None);
    rig.turn(None);
    let (mut inside, mut entries) = (0, 0);
    while rig.read(1) {
        if rig.readers.stages()[0].is_inside_changes() {
            inside += 1;
            entries += rig.readers.take_entries(true, &rig.commit, rig.now).len();
        }
    }
    // The heartbeat comes with the last ones.
    assert!(inside > 2, "{inside}");
    assert_eq!(entries, 0);
    assert_eq!(rig.readers.stages()[0].applied(), Offset(all));
    assert_eq!(rig.readers.stages()[0].counters().changes_missing, 0);
}

#[test]
fn changes_wait_until_the_engines_that_applied_them_are_kept() {
    let mut rig = Rig::of(1, joined());
    assert_eq!(rig.readers.changes_kept(), Some(Offset(u64::MAX)), "none");
    rig.change(&change(Some(1), 1, 1));
    rig.take(1, 1);
    rig.turn(None);
    rig.turn(None);
    rig.settle();
    assert_eq!(rig.readers.stages()[0].applied(), Offset(1));
    assert_eq!(rig.readers.changes_kept(), Some(Offset(0)), "not kept");
    assert!(rig.readers.want());
    rig.commit.wake(rig.now);
    rig.turn(None);
    assert_eq!(rig.readers.changes_kept(), Some(Offset(u64::MAX)), "kept");
    rig.turn(Some((false, false)));
    assert_eq!(rig.readers.start_up().restored, 1);
    assert_eq!(
        rig.readers.changes_kept(),
        Some(Offset(u64::MAX)),
        "restored"
    );
}
