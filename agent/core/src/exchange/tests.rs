//! How windows are split by whether they cross devices.

use super::*;
use crate::engine::config::{Bounds, KeySpec, TimeRules, WindowKind, WindowSpec};
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
