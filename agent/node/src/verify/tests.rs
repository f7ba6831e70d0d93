//! A log with rows as an agent writes them, and with each kind of damage to them.

use std::path::Path;
use std::sync::Arc;

use forebay_core::commit::GroupCommit;
use forebay_core::layout::Layouts;
use forebay_core::log::decode::decode;
use forebay_core::record::{ReadingRecord, Row, Series, ValueKind};
use forebay_core::store::{Store as _, WriteBatch};
use forebay_core::units::{Mono, Span};
use forebay_wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use forebay_wire::message::Quality;

use super::*;
use crate::store::{LogStore, StoreSettings};

const CONFIG: &str = "\
[agent]
gateway = \"gw\"
data_dir = \"data\"

[[window]]
name = \"ten\"
kind = \"tumbling\"
size = \"10s\"
aggregates = [\"count\", \"mean\"]

[[window]]
name = \"last\"
kind = \"sliding\"
size = \"5s\"
aggregates = [\"max\"]

[[join]]
name = \"near\"
kind = \"interval\"
left = { from = \"readings\", where = \"value > 20\" }
right = { from = \"last\", value = \"max\" }
on = \"device\"
within = [\"-3s\", \"3s\"]
";
const READINGS_COUNT: u64 = 400;

fn at(topic: TopicId) -> TopicPartition {
    TopicPartition {
        topic,
        partition: PartitionId(0),
    }
}

/// Two devices, a reading a second of each, every seventh late.
fn readings(commit: &mut GroupCommit) {
    for n in 0..READINGS_COUNT {
        let uid = DeviceUid((n % 2).to_be_bytes());
        let series = Series {
            uid,
            boot: BootId(1),
            channel: ChannelNo(0),
            kind: ValueKind::Scaled { scale: 0 },
            name: Arc::from("a"),
            unit: Arc::from(""),
        };
        let late = if n % 7 == 6 { 30 } else { 0 };
        let record = ReadingRecord {
            series: 0,
            ordinal: Ordinal(n / 2),
            tick: Tick(n),
            time: EventTime((n as i64 / 2 - late) * 1_000_000),
            uncertainty_us: 0,
            value: n as i64,
            quality: Quality::Ok,
        };
        commit.reading(at(READINGS), &series, &record, Mono(0));
    }
}

/// Rows of one topic as an agent would write them.
type Rows = BTreeMap<TopicId, Vec<Row>>;

fn computed(config: &EngineConfig, topics: &[Option<TopicId>], readings: &[StoredBlock]) -> Rows {
    let layouts = Layouts::restore(&[], 1, &BTreeMap::new())
        .expect("new")
        .layouts;
    let ends = BTreeMap::from([(PartitionId(0), Offset(READINGS_COUNT))]);
    let of = (config, topics.to_vec());
    let mut recompute = Recompute::new(of, layouts, &ends, &BTreeMap::new(), Epoch(1));
    let mut rows = Rows::new();
    while let Some((read, at, from)) = recompute.next_fetch() {
        assert_eq!(at.topic, READINGS);
        let blocks: Vec<_> = readings
            .iter()
            .filter(|b| b.key.base >= from)
            .cloned()
            .collect();
        for block in recompute.on_fetched(read, &blocks) {
            let Body::Rows(made) = decode(block.key, &block.bytes).expect("a block").body else {
                panic!("readings in a derived topic");
            };
            rows.entry(block.key.at.topic).or_default().extend(made);
        }
    }
    rows
}

/// A stopped agent's data directory, whose rows are `changed`.
fn log(dir: &Path, changed: impl Fn(&mut Rows)) -> VerifyArgs {
    let path = dir.join("forebay.toml");
    std::fs::write(&path, CONFIG).expect("a config");
    let config = Config::load(&path).expect("it reads");
    let data_dir = config.agent.data_dir.clone();
    std::fs::create_dir_all(&data_dir).expect("a directory");
    let (mut store, opened) = LogStore::open(&data_dir, StoreSettings::default()).expect("new");
    let mut table = TopicTable::restore(&[], &opened.heads);
    let mut meta = Layouts::restore(&[], 1, &BTreeMap::new())
        .expect("new")
        .entries;
    let mut topics = Vec::new();
    for window in 0..streams_of(&config.engine) {
        let (topic, entry) = table.assign(&config.engine, window).expect("room");
        topics.push(Some(topic));
        meta.extend(entry);
    }
    let mut commit = GroupCommit::new(opened.info.epoch, Span(0), BTreeMap::new());
    readings(&mut commit);
    let (token, batch) = commit.poll(Mono(0)).expect("readings");
    commit.committed(token);
    let mut rows = computed(&config.engine, &topics, &batch.blocks);
    changed(&mut rows);
    for (topic, rows) in rows {
        rows.iter()
            .for_each(|row| assert!(commit.row(at(topic), row, Mono(0))));
    }
    let (_, more) = commit.poll(Mono(0)).expect("rows");
    let blocks = batch.blocks.into_iter().chain(more.blocks).collect();
    store.append(&WriteBatch { blocks, meta }).expect("room");
    store.sync().expect("it syncs");
    VerifyArgs {
        config: path,
        data_dir: None,
        view: None,
        json: false,
        csv: Csv::default(),
    }
}

#[test]
fn what_differs_is_named() {
    const TEN: TopicId = TopicId(16);
    const LAST: TopicId = TopicId(17);
    const NEAR: TopicId = TopicId(18);
    /// A name, what is done to the rows, and where the first difference is.
    type Case = (&'static str, fn(&mut Rows), Option<(TopicId, u64)>);
    let cases: [Case; 9] = [
        ("all as it was", |_| {}, None),
        (
            "the last rows not written yet",
            |rows| {
                rows.get_mut(&TEN).expect("rows").truncate(10);
                rows.get_mut(&LAST).expect("rows").truncate(0);
            },
            None,
        ),
        (
            "a figure",
            |rows| {
                let row = &mut rows.get_mut(&TEN).expect("rows")[5];
                let figure = row.line.len() - 2;
                row.line[figure] ^= 1;
            },
            Some((TEN, 5)),
        ),
        (
            "a row is missing",
            |rows| drop(rows.get_mut(&LAST).expect("rows").remove(7)),
            Some((LAST, 7)),
        ),
        (
            "a row too much",
            |rows| {
                let rows = rows.get_mut(&TEN).expect("rows");
                let last = rows.last().cloned().expect("a row");
                rows.push(last);
            },
            Some((TEN, u64::MAX)),
        ),
        (
            "a row of late",
            |rows| rows.get_mut(&LATE).expect("rows")[1].line[30] ^= 1,
            Some((LATE, 1)),
        ),
        (
            "a row of a join",
            |rows| rows.get_mut(&NEAR).expect("rows")[3].line[30] ^= 1,
            Some((NEAR, 3)),
        ),
        (
            "one of it is missing",
            |rows| drop(rows.get_mut(&NEAR).expect("rows").remove(2)),
            Some((NEAR, 2)),
        ),
        (
            "the first of two",
            |rows| {
                rows.get_mut(&TEN).expect("rows")[9].line[30] ^= 1;
                rows.get_mut(&TEN).expect("rows")[3].line[30] ^= 1;
            },
            Some((TEN, 3)),
        ),
    ];
    for (name, change, want) in cases {
        let dir = tempfile::tempdir().expect("a directory");
        let args = log(dir.path(), change);
        let report = verify(&args).unwrap_or_else(|error| panic!("{name}: {error}"));
        let found = report.first();
        let found = found.map(|(compare, difference)| (compare.at().topic, difference.offset.0));
        match (found, want) {
            (Some((topic, _)), Some((wanted, u64::MAX))) => assert_eq!(topic, wanted, "{name}"),
            _ => assert_eq!(found, want, "{name}"),
        }
        assert_eq!(report.readings, READINGS_COUNT, "{name}");
        let json = report.json();
        assert_eq!(json["same"], want.is_none(), "{name}: {json}");
        assert_eq!(report.text().contains("differs"), want.is_some(), "{name}");
    }
}

#[test]
fn one_view_is_compared_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let break_ten = |rows: &mut Rows| rows.get_mut(&TopicId(16)).expect("rows")[0].line[30] ^= 1;
    let args = log(dir.path(), break_ten);
    for (view, same) in [
        ("ten", false),
        ("last", true),
        ("near", true),
        ("late", true),
    ] {
        let view = Some(String::from(view));
        let args = VerifyArgs {
            view,
            ..args.clone()
        };
        assert_eq!(
            verify(&args).expect("it reads").is_same(),
            same,
            "{:?}",
            args.view
        );
    }
    let view = Some(String::from("other"));
    let said = verify(&VerifyArgs { view, ..args })
        .err()
        .expect("there is none");
    assert!(said.contains("it has ten, last, near"), "{said}");
}

#[test]
fn rows_that_may_depend_on_what_is_gone_are_not_compared() {
    let from = Some(EventTime(100));
    for (name, rule, tells_from, whole, want) in [
        ("all is there", Rule::Never, None, true, Side::Offset),
        (
            "rows were refused",
            Rule::Reaches(5),
            None,
            false,
            Side::Order(i64::MIN),
        ),
        (
            "the oldest are gone",
            Rule::Reaches(5),
            from,
            true,
            Side::Order(105),
        ),
        ("rows of the last n", Rule::Never, from, true, Side::Not),
        (
            "at the end of time",
            Rule::Reaches(i64::MAX),
            from,
            true,
            Side::Order(i64::MAX),
        ),
    ] {
        assert_eq!(rule.at(tells_from, whole), want, "{name}");
    }
}
