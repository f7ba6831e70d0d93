//! Rules of the stage, and what a crash at each step of the store leaves of them.

use std::collections::BTreeMap;

use super::*;
use crate::change::ChangeOp::{Delete, Heartbeat, Insert, Update};
use crate::engine::config::{TableSpec, TimeRules};
use crate::limits::{CHANGES_NOTE_EACH_US, ROW_BYTES_MAX, SOURCE_BATCHES_MAX, TABLE_KEY_BYTES_MAX};
use crate::log::block::Record;
use crate::log::decode::decode;
use crate::log::topic::READINGS;
use crate::units::{Epoch, Span};

/// What of a batch a crash leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Crash {
    /// Nothing.
    Before,
    /// Its blocks, and no meta entry.
    Between,
    /// All of it, and nobody was told.
    After,
}

/// The stage over a store that is two lists.
struct Lab {
    engine: EngineConfig,
    sources: Vec<SourceConfig>,
    tables: Vec<StaticTable>,
    blocks: Vec<StoredBlock>,
    meta: BTreeMap<Vec<u8>, Vec<u8>>,
    changes: Changes,
    commit: GroupCommit,
    now: Now,
    epoch: u32,
    says: Vec<ChangesSay>,
}

fn engine() -> EngineConfig {
    EngineConfig {
        tables: vec![
            TableSpec::new("sites", &["device"]),
            TableSpec::new("limits", &["device", "channel"]),
        ],
        joins: vec![crate::engine::config::JoinSpec::new(
            "placed",
            crate::engine::config::JoinKind::Lookup { wait: None },
            JoinSource::Readings,
            JoinSource::Table(0),
        )],
        time: TimeRules::default(),
        ..EngineConfig::default()
    }
}

fn source(name: &str, tables: &[&str]) -> SourceConfig {
    SourceConfig {
        name: name.into(),
        tables: tables.iter().map(|table| Arc::from(*table)).collect(),
    }
}

impl Lab {
    fn new(sources: Vec<SourceConfig>, tables: Vec<StaticTable>) -> Self {
        let mut lab = Self {
            engine: engine(),
            sources,
            tables,
            blocks: Vec::new(),
            meta: BTreeMap::new(),
            changes: Changes::new(
                (&[], &[]),
                (&EngineConfig::default(), Vec::new()),
                &[],
                (Offset(0), at(0)),
            ),
            commit: GroupCommit::new(Epoch(0), Span(0), BTreeMap::new()),
            now: at(1_000_000_000),
            epoch: 0,
            says: Vec::new(),
        };
        lab.open();
        lab
    }

    /// Starts on what the store has.
    fn open(&mut self) {
        self.epoch += 1;
        let mut heads = BTreeMap::new();
        for stored in &self.blocks {
            let block = decode(stored.key, &stored.bytes).unwrap();
            heads.insert(block.at, block.end());
        }
        let head = heads.get(&CHANGES_AT).copied().unwrap_or_default();
        self.commit = GroupCommit::new(Epoch(self.epoch), Span(0), heads);
        let meta = self.meta.iter();
        let meta: Vec<Entry> = meta.map(|(k, v)| (k.clone(), v.clone())).collect();
        self.changes = Changes::new(
            (&self.sources, &self.tables),
            (&self.engine, vec![PartitionId(0), PartitionId(1)]),
            &meta,
            (head, self.now),
        );
        while let Some((place, from)) = self.changes.next_fetch() {
            let blocks = self.blocks.iter().filter(|b| b.key.at == place);
            let of = |b: &&StoredBlock| decode(b.key, &b.bytes).unwrap().end() > from;
            let blocks: Vec<_> = blocks.filter(of).cloned().collect();
            self.changes.on_fetched(&blocks);
        }
        self.step();
    }

    fn step(&mut self) {
        self.changes.step(self.now, &mut self.commit);
        self.says.extend(self.changes.take_says());
    }

    /// One commit; false when there was nothing to write, or the crash has come.
    fn commit(&mut self, crash: Option<Crash>) -> bool {
        if self.commit.is_due(self.now.mono) {
            for (key, value) in self.changes.take_entries(&self.commit) {
                self.commit.meta(key, value, self.now.mono);
            }
        }
        let Some((token, batch)) = self.commit.poll(self.now.mono) else {
            return false;
        };
        self.changes.on_cut();
        if crash == Some(Crash::Before) {
            return false;
        }
        self.blocks.extend(batch.blocks);
        if crash == Some(Crash::Between) {
            return false;
        }
        for (key, value) in batch.meta {
            match value.is_empty() {
                true => self.meta.remove(&key),
                false => self.meta.insert(key, value),
            };
        }
        if crash.is_some() {
            return false;
        }
        self.commit.committed(token);
        self.changes.on_committed();
        true
    }

    /// Until nothing is left to do.
    fn settle(&mut self) {
        self.step();
        while self.commit(None) || !self.changes.is_settled(&self.commit) {
            self.pass(MARK_EACH);
        }
    }

    fn pass(&mut self, us: u64) {
        self.now = at(self.now.mono.0 + us);
        self.step();
    }

    fn give(&mut self, events: Vec<SourceEvent>, position: &str) {
        let position = place(position);
        self.changes
            .on_batch(SourceNo(0), SourceBatch { events, position });
        self.step();
    }

    /// All lines of the topic.
    fn lines(&self) -> Vec<Change> {
        let mut lines = Vec::new();
        for stored in self.blocks.iter().filter(|b| b.key.at == CHANGES_AT) {
            let Body::Rows(rows) = decode(stored.key, &stored.bytes).unwrap().body else {
                panic!("rows");
            };
            lines.extend(rows.iter().map(|row| Change::parse(&row.line).unwrap()));
        }
        lines
    }

    /// Op, key and value before and after of each.
    fn told(&self) -> Vec<(ChangeOp, String, i64, i64)> {
        let value = |row: &Option<Arc<str>>| {
            let row = row
                .as_ref()
                .and_then(|row| crate::change::column_text(row, "v"));
            row.map_or(0, |text| text.parse().unwrap())
        };
        let told = self.lines().into_iter();
        let told = told.map(|c| (c.op, c.key.to_string(), value(&c.before), value(&c.after)));
        told.collect()
    }

    /// Offsets that the markers of a partition name.
    fn marks(&self, partition: u16) -> Vec<u64> {
        let at = TopicPartition {
            topic: READINGS,
            partition: PartitionId(partition),
        };
        let mut marks = Vec::new();
        for stored in self.blocks.iter().filter(|b| b.key.at == at) {
            let Body::Readings { records, .. } = decode(stored.key, &stored.bytes).unwrap().body
            else {
                panic!("readings");
            };
            marks.extend(records.iter().map(|record| {
                let Record::Tables(tables) = record else {
                    panic!("a marker: {record:?}");
                };
                tables.upto.0
            }));
        }
        marks
    }

    fn rows(&self, table: &str) -> Vec<(String, String)> {
        let table = self.changes.book().table(table).unwrap();
        let rows = table.rows(None);
        rows.map(|(key, held)| (key.to_string(), held.row.to_string()))
            .collect()
    }

    fn notes(&self) -> Vec<&str> {
        let note = |say: &'_ ChangesSay| matches!(say, ChangesSay::Note(_));
        let notes = self.says.iter().filter(|say| note(say));
        notes
            .map(|say| match say {
                ChangesSay::Note(text) => text.as_str(),
                ChangesSay::Start(..) | ChangesSay::Durable(..) => "",
            })
            .collect()
    }

    fn durable(&self) -> Option<String> {
        let mut said = self.says.iter().rev();
        said.find_map(|say| match say {
            ChangesSay::Durable(_, position) => Some(position.0.to_string()),
            ChangesSay::Start(..) | ChangesSay::Note(_) => None,
        })
    }

    fn started(&self) -> Option<Option<String>> {
        let mut said = self.says.iter().rev();
        said.find_map(|say| match say {
            ChangesSay::Start(_, position) => Some(position.as_ref().map(|p| p.0.to_string())),
            ChangesSay::Durable(..) | ChangesSay::Note(_) => None,
        })
    }
}

const MARK_EACH: u64 = crate::limits::MARK_SPACING_US;

fn at(mono: u64) -> Now {
    Now {
        mono: Mono(mono),
        utc: EventTime(mono as i64),
    }
}

fn place(text: &str) -> SourcePosition {
    SourcePosition(Arc::from(text))
}

fn row(device: &str, v: i64) -> RowText {
    Arc::from(format!(r#"{{"device":"{device}","v":{v}}}"#))
}

fn put(device: &str, v: i64, position: &str) -> SourceEvent {
    SourceEvent::Upsert {
        table: Arc::from("sites"),
        key: None,
        time: EventTime(v),
        before: None,
        after: row(device, v),
        position: place(position),
        is_insert: Some(false),
        unchanged: Vec::new(),
    }
}

fn delete(device: &str, position: &str) -> SourceEvent {
    SourceEvent::Delete {
        table: Arc::from("sites"),
        key: Arc::from(device),
        time: EventTime(9),
        before: None,
        position: place(position),
    }
}

fn snapshot(position: &str, rows: &[(&str, i64)]) -> Vec<SourceEvent> {
    let table = || Arc::from("sites");
    let begin = SourceEvent::SnapshotBegin {
        table: table(),
        position: place(position),
    };
    let end = SourceEvent::SnapshotEnd {
        table: table(),
        time: EventTime(50),
        position: place(position),
    };
    let rows = rows.iter().map(|(device, v)| SourceEvent::SnapshotRow {
        table: table(),
        row: row(device, *v),
        time: EventTime(40),
    });
    [begin].into_iter().chain(rows).chain([end]).collect()
}

fn lab() -> Lab {
    Lab::new(vec![source("plant", &["sites"])], Vec::new())
}

#[test]
fn each_change_is_a_line_and_then_a_marker() {
    let mut lab = lab();
    assert_eq!(lab.started(), Some(None));
    let events = vec![
        put("a", 1, "01"),
        delete("a", "02"),
        put("b", 3, "03"),
        put("b", 4, "04"),
        put("b", 4, "05"),
        delete("never", "06"),
    ];
    lab.give(events, "06");
    assert!(lab.marks(0).is_empty(), "nothing is durable");
    lab.settle();
    let want = [
        (Insert, "a".into(), 0, 1),
        (Delete, "a".into(), 1, 0),
        (Insert, "b".into(), 0, 3),
        (Update, "b".into(), 3, 4),
        (Update, "b".into(), 4, 4),
        (Delete, "never".into(), 0, 0),
    ];
    assert_eq!(lab.told(), want);
    assert_eq!((lab.marks(0), lab.marks(1)), (vec![6], vec![6]));
    assert_eq!(lab.rows("sites"), [("b".into(), row("b", 4).to_string())]);
    assert_eq!(lab.durable().as_deref(), Some("06"));
    assert_eq!(lab.notes(), [""; 0]);
}

#[test]
fn what_came_before_is_left_out_and_counted() {
    let mut lab = lab();
    lab.give(vec![put("a", 1, "01"), put("a", 2, "02")], "02");
    lab.give(
        vec![put("a", 1, "01"), put("a", 2, "02"), put("a", 3, "03")],
        "03",
    );
    lab.settle();
    let want = [
        (Insert, "a".into(), 0, 1),
        (Update, "a".into(), 1, 2),
        (Update, "a".into(), 2, 3),
    ];
    assert_eq!(lab.told(), want);
    let counters = lab.changes.sources().next().unwrap().counters;
    assert_eq!((counters.repeated, counters.changes), (2, 3));
    // Without a position only what says nothing new is known again.
    lab.give(
        vec![put("a", 3, ""), delete("b", ""), put("a", 4, "")],
        "03",
    );
    lab.settle();
    assert_eq!(lab.told().len(), 4);
}

#[test]
fn a_snapshot_becomes_what_is_not_so_already() {
    let mut lab = lab();
    lab.give(snapshot("10", &[("a", 1), ("b", 2), ("c", 3)]), "10");
    lab.settle();
    assert_eq!(lab.told().len(), 3);
    let mut same = snapshot("20", &[("b", 2), ("c", 4), ("d", 5)]);
    // The same columns in another order are the same row.
    same.insert(
        1,
        SourceEvent::SnapshotRow {
            table: Arc::from("sites"),
            row: Arc::from(r#"{"v":1, "device":"a"}"#),
            time: EventTime(40),
        },
    );
    lab.give(same, "20");
    lab.settle();
    let want = [(Update, "c".into(), 3, 4), (Insert, "d".into(), 0, 5)];
    assert_eq!(lab.told()[3..], want);
    // Positions begin anew, as of a database that was restored.
    lab.give(snapshot("05", &[("b", 2)]), "05");
    lab.give(vec![put("e", 6, "06")], "06");
    lab.settle();
    let want = [
        (Delete, "a".into(), 1, 0),
        (Delete, "c".into(), 4, 0),
        (Delete, "d".into(), 5, 0),
        (Insert, "e".into(), 0, 6),
    ];
    assert_eq!(lab.told()[5..], want);
    assert_eq!(lab.durable().as_deref(), Some("06"));
}

#[test]
fn a_truncate_is_a_delete_of_each_row() {
    let mut lab = lab();
    lab.give(vec![put("a", 1, "1"), put("b", 2, "2")], "2");
    let truncate = SourceEvent::Truncate {
        table: Arc::from("sites"),
        time: EventTime(7),
        position: place("3"),
    };
    lab.give(vec![truncate, put("c", 3, "4")], "4");
    lab.settle();
    let lines = lab.lines();
    let told: Vec<_> = lines[2..]
        .iter()
        .map(|c| (c.op, &*c.key, c.position.as_deref()))
        .collect();
    let want = [
        (Delete, "a", None),
        (Delete, "b", Some("3")),
        (Insert, "c", Some("4")),
    ];
    assert_eq!(told, want);
}

#[test]
fn a_row_that_may_have_come_before_is_no_change_where_it_is_held() {
    let mut lab = lab();
    let maybe = |v: i64, position: &str| {
        let mut event = put("a", v, position);
        if let SourceEvent::Upsert { is_insert, .. } = &mut event {
            *is_insert = None;
        }
        event
    };
    let events = vec![maybe(1, "1"), maybe(1, "2"), maybe(2, "3"), maybe(1, "4")];
    lab.give(events, "4");
    lab.settle();
    let want = [
        (Insert, "a".into(), 0, 1),
        (Update, "a".into(), 1, 2),
        (Update, "a".into(), 2, 1),
    ];
    assert_eq!(lab.told(), want);
    let counters = lab.changes.sources().next().unwrap().counters;
    assert_eq!(counters.repeated, 1);
}

#[test]
fn a_row_that_gets_another_key_leaves_the_old_one() {
    let mut lab = lab();
    lab.give(vec![put("a", 1, "1")], "1");
    let moved = SourceEvent::Upsert {
        table: Arc::from("sites"),
        key: None,
        time: EventTime(2),
        before: Some(row("a", 1)),
        after: row("b", 1),
        position: place("2"),
        is_insert: Some(false),
        unchanged: Vec::new(),
    };
    lab.give(vec![moved], "2");
    lab.settle();
    let want = [
        (Insert, "a".into(), 0, 1),
        (Delete, "a".into(), 1, 0),
        (Insert, "b".into(), 0, 1),
    ];
    assert_eq!(lab.told(), want);
}

#[test]
fn columns_that_did_not_change_are_those_of_the_row_that_is_held() {
    let mut lab = lab();
    lab.give(vec![put("a", 1, "1")], "1");
    let part = |position: &str, device: &str| SourceEvent::Upsert {
        table: Arc::from("sites"),
        key: None,
        time: EventTime(2),
        before: None,
        after: Arc::from(format!(r#"{{"device":"{device}","w":2}}"#)),
        position: place(position),
        is_insert: Some(false),
        unchanged: vec![Arc::from("v")],
    };
    lab.give(vec![part("2", "a"), part("3", "z")], "3");
    lab.settle();
    let want = [
        ("a".into(), r#"{"device":"a","w":2,"v":1}"#.into()),
        ("z".into(), r#"{"device":"z","w":2}"#.into()),
    ];
    assert_eq!(lab.rows("sites"), want);
    let table = lab.changes.book().table("sites").unwrap();
    assert_eq!(table.counters.columns_unknown, 1);
}

#[test]
fn rows_at_the_limits_of_a_line_and_of_a_key() {
    let line = |length: usize| {
        let wide = SourceEvent::Upsert {
            table: Arc::from("sites"),
            key: None,
            time: EventTime(0),
            before: None,
            after: Arc::from(format!(r#"{{"device":"a","v":"{}"}}"#, "x".repeat(length))),
            position: place("2"),
            is_insert: None,
            unchanged: Vec::new(),
        };
        let mut lab = lab();
        lab.give(vec![put("a", 1, "1"), wide], "2");
        lab.settle();
        lab
    };
    // The line without the row before.
    let around = line(0).lines()[1].clone();
    let mut bare = Vec::new();
    Change {
        before: None,
        ..around
    }
    .write_json(&mut bare);
    let room = ROW_BYTES_MAX - bare.len();
    for (more, fits) in [(room - 1, true), (room, true), (room + 1, false)] {
        let lab = line(more);
        let last = lab.lines()[1].clone();
        assert_eq!(last.before.is_some(), !fits, "{more}");
        assert_eq!(last.op, if fits { Update } else { Delete }, "{more}");
        assert_eq!(lab.rows("sites").len(), usize::from(fits), "{more}");
        let oversize = lab.changes.book().table("sites").unwrap().counters.oversize;
        assert_eq!(oversize, u64::from(!fits), "{more}");
        assert_eq!(lab.notes().len(), usize::from(!fits), "{more}");
        assert_eq!(lab.durable().as_deref(), Some("2"), "{more}");
    }
    for length in [
        TABLE_KEY_BYTES_MAX - 1,
        TABLE_KEY_BYTES_MAX,
        TABLE_KEY_BYTES_MAX + 1,
    ] {
        let mut lab = lab();
        lab.give(vec![put(&"k".repeat(length), 1, "1")], "1");
        lab.settle();
        assert_eq!(
            lab.told().len(),
            usize::from(length <= TABLE_KEY_BYTES_MAX),
            "{length}"
        );
        let told = lab.notes().join("");
        let named = told.starts_with("table sites: the row of key kkkk");
        assert_eq!(named, length > TABLE_KEY_BYTES_MAX, "{told}");
    }
}

#[test]
fn what_is_no_row_or_of_another_table_is_refused_and_told_now_and_then() {
    let mut lab = lab();
    let with = |table: &str, after: &str, position: &str| SourceEvent::Upsert {
        table: Arc::from(table),
        key: None,
        time: EventTime(0),
        before: None,
        after: Arc::from(after),
        position: place(position),
        is_insert: None,
        unchanged: Vec::new(),
    };
    let events = vec![
        with("limits", r#"{"device":"a","channel":"b"}"#, "1"),
        with("sites", "[1]", "2"),
        with("nowhere", "{}", "3"),
        with("sites", r#"{"device":null}"#, "4"),
        with("sites", "{}", "5"),
        with("sites", "{\n\"device\":\"a\"\r\n}", "6"),
    ];
    lab.give(events, "6");
    lab.settle();
    assert_eq!(
        lab.rows("sites"),
        [("a".into(), "{ \"device\":\"a\"  }".into())]
    );
    assert_eq!(lab.changes.sources().next().unwrap().counters.refused, 3);
    let keyless = |lab: &Lab| lab.changes.book().table("sites").unwrap().counters.keyless;
    assert_eq!((keyless(&lab), lab.notes().len()), (2, 1));
    lab.pass(CHANGES_NOTE_EACH_US);
    lab.give(vec![with("sites", "{}", "7")], "7");
    assert_eq!((keyless(&lab), lab.notes().len()), (3, 2));
}

#[test]
fn heartbeats_are_spaced_and_the_newest_is_written() {
    let mut lab = lab();
    let beat = |time: i64, position: &str| SourceEvent::Heartbeat {
        time: EventTime(time),
        position: place(position),
    };
    lab.give(vec![put("a", 1, "1"), beat(5, "1")], "1");
    lab.settle();
    assert_eq!(lab.told().len(), 2);
    for (time, position) in [(6, "1"), (8, "3"), (7, "2")] {
        lab.give(vec![beat(time, position)], position);
    }
    assert_eq!(
        lab.changes.next_deadline(&lab.commit),
        Some(Mono(1_001_000_000))
    );
    lab.settle();
    let lines = lab.lines();
    let beats = lines.iter().filter(|c| c.op == Heartbeat);
    let times: Vec<_> = beats.map(|c| c.time.0).collect();
    assert_eq!(times, [5, 8]);
    assert_eq!(lab.marks(1).last(), Some(&3));
    // A change at a later time says as much.
    lab.pass(crate::limits::HEARTBEAT_SPACING_US);
    lab.give(vec![put("a", 20, "5"), beat(15, "6")], "6");
    lab.settle();
    assert_eq!(lab.lines().len(), 4);
}

#[test]
fn rows_of_the_config_hold_from_the_beginning_and_then_from_when_they_changed() {
    let sites = |rows: &[(&str, i64)]| StaticTable {
        table: Arc::from("sites"),
        rows: rows.iter().map(|(device, v)| row(device, *v)).collect(),
    };
    let mut lab = Lab::new(Vec::new(), vec![sites(&[("a", 1), ("b", 2)])]);
    lab.settle();
    assert_eq!(lab.started(), None);
    let times = |lab: &Lab| lab.lines().iter().map(|c| c.time).collect::<Vec<_>>();
    assert_eq!(times(&lab), [BEGINNING; 2]);
    lab.now = at(5_000_000_000);
    lab.open();
    lab.settle();
    assert_eq!(lab.told().len(), 2, "nothing changed");
    lab.tables = vec![sites(&[("b", 3), ("c", 4)])];
    lab.open();
    lab.settle();
    let want = [
        (Update, "b".into(), 2, 3),
        (Insert, "c".into(), 0, 4),
        (Delete, "a".into(), 1, 0),
    ];
    assert_eq!(lab.told()[2..], want);
    assert!(times(&lab)[2..].iter().all(|t| t.0 >= 5_000_000_000));
    assert_eq!(lab.marks(0).last(), Some(&5));
}

#[test]
fn a_source_that_does_not_wait_is_not_heard_any_more() {
    let mut lab = lab();
    lab.commit.set_full([CHANGES].into());
    for n in 1..=SOURCE_BATCHES_MAX + 2 {
        lab.give(vec![put("a", 1, &format!("{n:02}"))], &format!("{n:02}"));
        assert_eq!(
            lab.notes().len(),
            usize::from(n > SOURCE_BATCHES_MAX),
            "{n}"
        );
    }
    lab.commit.set_full(std::collections::BTreeSet::new());
    lab.settle();
    assert_eq!((lab.told().len(), lab.durable()), (0, None));
}

/// Hands over what a source that was told `from` has, from there on.
fn hand_over(lab: &mut Lab, batches: &[(Vec<SourceEvent>, &str)], from: Option<&str>) {
    for (events, position) in batches.iter().filter(|(_, p)| Some(*p) > from) {
        lab.give(events.clone(), position);
    }
}

/// However often and wherever it crashes, the same changes stand in the topic once.
#[test]
fn a_crash_at_any_step_neither_loses_nor_doubles_a_change() {
    let truncate = SourceEvent::Truncate {
        table: Arc::from("sites"),
        time: EventTime(7),
        position: place("31"),
    };
    let beat = SourceEvent::Heartbeat {
        time: EventTime(99),
        position: place("42"),
    };
    let batches = [
        (snapshot("10", &[("a", 1), ("b", 2)]), "11"),
        (
            vec![put("a", 3, "20"), put("a", 4, "21"), delete("b", "22")],
            "22",
        ),
        (vec![put("b", 5, "30"), truncate, put("c", 6, "32")], "33"),
        (vec![put("c", 7, "40"), put("d", 8, "41"), beat], "44"),
    ];
    let mut straight = lab();
    hand_over(&mut straight, &batches, None);
    straight.settle();
    let want = straight.told();
    let rows = straight.rows("sites");

    for crash in [Crash::Before, Crash::Between, Crash::After] {
        for steps in 0..12 {
            let mut lab = lab();
            let mut left = steps;
            // One batch of the store for each of the source's, so that there are steps.
            'run: for batch in &batches {
                hand_over(&mut lab, std::slice::from_ref(batch), None);
                loop {
                    let crashes = (left == 0).then_some(crash);
                    let had = lab.commit(crashes);
                    if crashes.is_some() {
                        break 'run;
                    }
                    left -= 1;
                    lab.pass(MARK_EACH);
                    if !had {
                        break;
                    }
                }
            }
            let told = lab.durable();
            lab.says.clear();
            lab.open();
            let from = lab.started().expect("the source starts");
            let name = format!("{crash:?} after {steps} steps, from {from:?}");
            assert!(from >= told, "{name}: it was told of {told:?}");
            hand_over(&mut lab, &batches, from.as_deref());
            lab.settle();
            let (mut got, mut want) = (lab.told(), want.clone());
            // A heartbeat that comes again says nothing wrong.
            got.retain(|line| line.0 != Heartbeat);
            want.retain(|line| line.0 != Heartbeat);
            assert_eq!(got, want, "{name}");
            assert_eq!(lab.rows("sites"), rows, "{name}");
            let head = lab.lines().len() as u64;
            for partition in [0, 1] {
                let marks = lab.marks(partition);
                assert!(marks.is_sorted(), "{name}: {marks:?}");
                assert_eq!(marks.last(), Some(&head), "{name}");
            }
            assert_eq!(lab.notes(), [""; 0], "{name}");
        }
    }
}

#[test]
fn rows_come_back_from_the_topic_when_their_entries_are_gone() {
    let mut lab = lab();
    lab.give(
        vec![put("a", 1, "1"), put("b", 2, "2"), delete("a", "3")],
        "3",
    );
    lab.settle();
    let rows = lab.rows("sites");
    // Another row of an entry that nothing vouches for.
    let stale = lab.meta.remove(&b"table/sites/b"[..]).unwrap();
    lab.meta.insert(b"table/sites/z".to_vec(), stale);
    lab.meta.remove(CHANGES_META_KEY);
    lab.meta.remove(&b"source/plant"[..]);
    lab.open();
    lab.settle();
    assert_eq!(lab.rows("sites"), rows);
    assert_eq!(lab.changes.sources().next().unwrap().seen(), &place("3"));
    assert!(!lab.meta.contains_key(&b"table/sites/z"[..]));
    assert!(lab.meta.contains_key(&b"table/sites/b"[..]));
}

#[test]
fn a_log_that_lost_changes_has_them_said_again() {
    let mut lab = lab();
    lab.give(vec![put("a", 1, "1")], "1");
    lab.settle();
    lab.give(vec![put("b", 2, "2")], "2");
    lab.settle();
    let lost = lab.blocks.iter().rposition(|b| b.key.at == CHANGES_AT);
    lab.blocks.remove(lost.unwrap());
    lab.says.clear();
    lab.open();
    assert_eq!(lab.started(), Some(None), "from its beginning");
    assert!(lab.notes()[0].contains("lost the changes of tables from offset 1 to 2"));
    lab.give(snapshot("3", &[("a", 1), ("b", 2)]), "3");
    lab.settle();
    assert_eq!(
        lab.told(),
        [(Insert, "a".into(), 0, 1), (Insert, "b".into(), 0, 2)]
    );
}
