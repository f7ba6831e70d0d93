//! How windows are split by whether they cross devices.

use super::*;
use crate::engine::config::{
    Bounds, EngineConfig, JoinColumn, JoinKind, JoinSource, JoinSpec, KeyColumn, KeySpec, Source,
    TableSpec, TimeRules, WindowKind, WindowSpec,
};
use std::collections::BTreeMap;

use crate::units::{Epoch, Span};

fn window(name: &str, device: bool, from: Source) -> WindowSpec {
    let kind = WindowKind::Sliding {
        size: Span(1),
        bounds: Bounds::HalfOpen,
    };
    let mut window = WindowSpec::new(name, kind);
    window.from = from;
    window.key = KeySpec {
        device,
        channel: true,
    };
    window
}

fn names(config: &EngineConfig) -> Vec<(&str, Source)> {
    let windows = config.windows.iter();
    windows.map(|w| (w.name.as_str(), w.from)).collect()
}

#[test]
fn what_crosses_devices_takes_its_sources_along() {
    let from = Source::Window;
    let whole = EngineConfig {
        time: TimeRules::default(),
        windows: vec![
            window("a", true, Source::Readings),
            window("b", true, Source::Readings),
            window("c", true, from(1)),
            window("d", false, from(2)),
            window("e", true, from(0)),
            window("f", false, from(3)),
        ],
        ..EngineConfig::default()
    };
    let split = Split::of(&whole).expect("some cross");
    assert_eq!(
        names(&split.by_device),
        [
            ("a", Source::Readings),
            ("b", Source::Readings),
            ("c", from(1)),
            ("e", from(0))
        ]
    );
    assert_eq!(
        names(&split.across),
        [
            ("b", Source::Readings),
            ("c", from(0)),
            ("d", from(1)),
            ("f", from(2))
        ]
    );
    assert_eq!(split.by_device_of, [0, 1, 2, 4]);
    assert_eq!(split.across_of, [1, 2, 3, 5]);
    assert_eq!(Split::of(&split.by_device), None);
}

#[test]
fn joins_stand_where_what_they_meet_is() {
    let lookup = JoinKind::Lookup { wait: None };
    let (lower, upper) = (Span(-1), Span(1));
    let interval = JoinKind::Interval { lower, upper };
    let (readings, table) = (JoinSource::Readings, JoinSource::Table);
    let join = |name: &str, kind, left, right| JoinSpec::new(name, kind, left, right);
    let by_channel = JoinSpec {
        on: vec![JoinColumn::Channel],
        ..join("by_channel", interval, JoinSource::Window(0), readings)
    };
    let mut keyed = window("keyed", true, Source::Readings);
    keyed.key_columns = vec![KeyColumn {
        table: 1,
        column: String::from("building"),
    }];
    let whole = EngineConfig {
        windows: vec![
            window("a", true, Source::Readings),
            window("b", false, Source::Window(0)),
            keyed,
        ],
        tables: ["t", "u", "v"]
            .map(|name| TableSpec::new(name, &["device"]))
            .to_vec(),
        joins: vec![
            join("tables", JoinKind::Table, table(2), table(0)),
            join("found", lookup, readings, table(0)),
            join("pairs", interval, readings, readings),
            by_channel,
            join("of_b", lookup, JoinSource::Window(1), table(2)),
        ],
        ..EngineConfig::default()
    };
    let split = Split::of(&whole).expect("some cross");
    let joins = |config: &EngineConfig| -> Vec<(String, JoinSource, JoinSource)> {
        let joins = config.joins.iter();
        joins
            .map(|j| (j.name.clone(), j.left.from, j.right.from))
            .collect()
    };
    let named = |name: &str, left, right| (String::from(name), left, right);
    assert_eq!(
        joins(&split.by_device),
        [
            named("found", readings, table(0)),
            named("pairs", readings, readings)
        ]
    );
    assert_eq!(
        joins(&split.across),
        [
            named("tables", table(1), table(0)),
            named("by_channel", JoinSource::Window(0), readings),
            named("of_b", JoinSource::Window(1), table(1)),
        ]
    );
    let tables = |config: &EngineConfig| -> Vec<String> {
        config
            .tables
            .iter()
            .map(|table| table.name.clone())
            .collect()
    };
    assert_eq!(tables(&split.by_device), ["t", "u"]);
    assert_eq!(split.by_device.windows[1].key_columns[0].table, 1);
    assert_eq!(tables(&split.across), ["t", "v"]);
    assert_eq!(split.by_device_of, [0, 2, 4, 5]);
    assert_eq!(split.across_of, [0, 1, 3, 6, 7]);
}

#[test]
fn what_stands_in_the_exchange_and_in_a_topic_is_both_read() {
    const TOPIC: TopicId = TopicId(16);
    let whole = EngineConfig {
        time: TimeRules::default(),
        windows: vec![window("a", false, Source::Readings)],
        ..EngineConfig::default()
    };
    let split = Split::of(&whole).expect("it crosses");
    let rows = TopicPartition {
        topic: TOPIC,
        partition: PartitionId(0),
    };
    // A crash has left both, and the entry of neither.
    let heads = BTreeMap::from([(EXCHANGE_AT, Offset(5)), (rows, Offset(3))]);
    let layouts = Layouts::restore(&[], 2, &heads).expect("new").layouts;
    let commit = GroupCommit::new(Epoch(2), Span(0), heads);
    let of = (&commit, Mono(0));
    let mut exchange = Exchange::new(&split, &[Some(TOPIC)], &layouts, &[], of);
    let asked = std::iter::from_fn(|| exchange.next_fetch(&commit));
    let asked: Vec<_> = asked.map(|(read, at, from)| (read, at, from.0)).collect();
    let standing = ExchangeRead::Standing;
    assert_eq!(asked, [(standing, EXCHANGE_AT, 0), (standing, rows, 0)]);
}
