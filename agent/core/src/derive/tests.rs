//! One engine over restarts: what it writes, leaves out, compares and keeps.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_wire::ids::{BootId, ChannelNo, Ordinal, Tick};
use forebay_wire::message::Quality;

use super::*;
use crate::checkpoint::load;
use crate::engine::config::{Aggregate, Bounds, Emit, Grid, TimeRules, WindowKind, WindowSpec};
use crate::log::block::Body;
use crate::log::decode::decode;
use crate::log::topic::LATE;
use crate::meta::Entry;
use crate::record::ValueKind;
use crate::units::{Epoch, Span};

const FIRST: TopicId = TopicId(16);

fn window(name: &str) -> WindowSpec {
    let kind = WindowKind::Sliding {
        size: Span(10),
        bounds: Bounds::HalfOpen,
    };
    WindowSpec {
        aggregates: vec![Aggregate::Count],
        emit: Emit::EveryUpdate,
        ..WindowSpec::new(name, kind)
    }
}

fn at(topic: TopicId) -> TopicPartition {
    TopicPartition {
        topic,
        partition: PartitionId(0),
    }
}

fn place(offset: u64) -> Place {
    Place {
        offset: Offset(offset),
        ..Place::default()
    }
}

fn seat(stored_until: Place) -> Seat {
    Seat {
        unit: Unit {
            layout: 0,
            partition: PartitionId(0),
        },
        hash: PipelineHash(1),
        stored_until,
        now: Mono(0),
    }
}

struct Fed {
    derive: Derive,
    commit: GroupCommit,
    config: EngineConfig,
}

impl Fed {
    /// Windows `name` and `second`; the topic FIRST holds `head` rows, of which those
    /// from `next` on are of readings from `since` on.
    fn new(name: &str, topics: &[Option<TopicId>], since: u64, next: u64, head: u64) -> Self {
        let windows = vec![window(name), window("second")];
        Self::of(windows, topics, (since, next, head))
    }

    fn of(
        windows: Vec<WindowSpec>,
        topics: &[Option<TopicId>],
        (since, next, head): (u64, u64, u64),
    ) -> Self {
        let config = EngineConfig {
            time: TimeRules::default(),
            windows,
            ..EngineConfig::default()
        };
        let heads = BTreeMap::from([(at(FIRST), Offset(head))]);
        let commit = GroupCommit::new(Epoch(1), Span(0), heads);
        let outlets = Outlets::of_partition(topics, PartitionId(0));
        let derive = Derive::new(seat(place(u64::MAX)), &config, outlets, |at| {
            let since = Since {
                place: place(since),
                next: Offset(if at.topic == FIRST { next } else { 0 }),
            };
            (since, commit.head(at))
        });
        Self {
            derive,
            commit,
            config,
        }
    }

    /// Feeds the readings at these offsets; gives how far FIRST has come.
    fn feed(&mut self, offsets: std::ops::Range<u64>) -> u64 {
        let series = Series {
            uid: DeviceUid([1; 8]),
            boot: BootId(1),
            channel: ChannelNo(0),
            kind: ValueKind::Scaled { scale: 0 },
            name: Arc::from("a"),
            unit: Arc::from(""),
        };
        for n in offsets {
            let reading = ReadingRecord {
                series: 0,
                ordinal: Ordinal(n),
                tick: Tick(n),
                time: EventTime(n as i64),
                uncertainty_us: 0,
                value: 1,
                quality: Quality::Ok,
            };
            let known = self.derive.intern(&series);
            let of = (&series, &reading);
            let when = (place(n), Mono(0));
            self.derive.on_reading(known, of, when, &mut self.commit);
        }
        self.derive.step(Mono(0), &mut self.commit);
        self.commit.next(at(FIRST)).0
    }
}

#[test]
fn a_window_without_a_topic_takes_nobody_elses() {
    let mut fed = Fed::new("first", &[None, Some(FIRST)], 0, 0, 0);
    assert_eq!(fed.feed(0..3), 3);
    assert_eq!(fed.commit.next(at(LATE)).0, 0, "each keeps its own");
    let counters = fed.derive.counters();
    assert_eq!((counters.rows, counters.rows_homeless), (3, 3));
}

#[test]
fn a_row_that_was_never_stored_is_not_among_the_known_ones() {
    let long = "x".repeat(ROW_BYTES_MAX);
    let mut fed = Fed::new(&long, &[Some(FIRST), None], 0, 0, 2);
    assert_eq!(
        (fed.feed(0..3), fed.derive.counters().rows_oversize),
        (2, 3)
    );
    let mut fed = Fed::new("first", &[Some(FIRST), None], 0, 0, 2);
    assert_eq!(fed.feed(0..3), 3, "two stand there, the third is new");
}

#[test]
fn rows_before_the_kept_place_are_left_out_and_so_many_after_it() {
    for (name, since, next, head, want) in [
        ("nothing kept", 0, 0, 0, 6),
        ("nothing kept, some there", 0, 0, 4, 6),
        ("all at the kept place", 4, 4, 4, 6),
        ("one more than the kept place says", 4, 4, 5, 6),
        (
            "more rows than readings, as of a longer log",
            4,
            104,
            104,
            106,
        ),
        (
            "the same, one written after the kept place",
            4,
            103,
            104,
            105,
        ),
        ("past the end", 9, 6, 6, 6),
    ] {
        let mut fed = Fed::new("first", &[Some(FIRST), None], since, next, head);
        assert_eq!(fed.feed(0..6), want, "{name}");
    }
}

#[test]
fn after_a_loss_none_is_counted_off() {
    let fed = || Fed::new("first", &[Some(FIRST), None], 4, 4, 6);
    let mut holes = fed();
    holes.derive.on_hole(place(4));
    assert_eq!(holes.feed(4..8), 8, "a hole before the kept place");
    let mut holes = fed();
    holes.derive.on_hole(place(5));
    assert_eq!(holes.feed(5..8), 9, "one after it");
}

/// Lines of a row per reading with this `count` figure.
fn lines(rows: &[(u64, u64)]) -> VecDeque<StoredLine> {
    let line = |((time, count), offset): (&(u64, u64), u64)| {
        let head = "{\"stream\":\"first\",\"device\":\"0101010101010101\",\"channel\":\"a\"";
        let time = format!("1970-01-01T00:00:00.00000{time}Z");
        StoredLine {
            offset: Offset(offset),
            line: format!("{head},\"time\":\"{time}\",\"count\":{count}}}").into_bytes(),
        }
    };
    rows.iter().zip(4..).map(line).collect()
}

#[test]
fn lines_that_stand_there_are_left_out_whatever_is_missing_before() {
    for (name, stored, from, want) in [
        ("all of them", &[(4, 5), (5, 6)][..], 0, 4 + 4),
        ("none", &[], 0, 4 + 4),
        ("the first is lost", &[(5, 6)], 0, 4 + 4),
        (
            "other figures, as some readings are trimmed",
            &[(4, 5), (5, 6)],
            3,
            4 + 4,
        ),
        ("one that does not come again", &[(4, 5), (5, 6)], 5, 4 + 4),
        ("one of another reading", &[(9, 9)], 0, 4 + 5),
    ] {
        let head = 4 + stored.len() as u64;
        let mut fed = Fed::new("first", &[Some(FIRST), None], 4, 4, head);
        fed.derive.set_stored(FIRST, &lines(stored), true);
        fed.derive.on_hole(place(5));
        assert_eq!(fed.feed(from..8), want, "{name}");
    }
}

#[test]
fn a_row_behind_the_kept_place_is_none_of_those_that_stand_before_it() {
    for (name, next, want) in [
        ("both are of readings behind it", 4, 8),
        ("one is", 5, 9),
        ("none is", 6, 10),
    ] {
        let mut fed = Fed::new("first", &[Some(FIRST), None], 4, next, 6);
        // As of readings of the same times, which are gone.
        fed.derive
            .set_stored(FIRST, &lines(&[(4, 5), (5, 6)]), true);
        fed.derive.on_hole(place(4));
        assert_eq!(fed.feed(4..8), want, "{name}");
        let since = fed.derive.take_since(place(8), true, &fed.commit);
        assert_eq!(since[0].1.next.0, want, "{name}");
    }
}

#[test]
fn behind_a_loss_nothing_is_kept_until_all_that_stood_there_is_passed() {
    // Those at 9 are of readings that are gone; the two others come again, in whatever order.
    let stored = lines(&[(9, 1), (6, 3), (9, 2), (5, 2)]);
    let mut fed = Fed::new("first", &[Some(FIRST), None], 4, 4, 8);
    fed.derive.set_stored(FIRST, &stored, true);
    fed.derive.stored_until = place(8);
    fed.derive.on_hole(place(5));
    assert_eq!(fed.feed(5..8), 9, "the one at 7 is new");
    let kept = |fed: &mut Fed, offset| {
        let since = fed.derive.take_since(place(offset), true, &fed.commit);
        let first = since.into_iter().find(|(to, _)| *to == at(FIRST));
        first.map(|(_, since)| (since.place.offset.0, since.next.0))
    };
    assert_eq!(kept(&mut fed, 7), None);
    assert!(!fed.derive.is_written_up_to(place(7)));
    assert!(fed.derive.is_written_up_to(place(8)), "none stood behind 8");
    assert_eq!(kept(&mut fed, 8), Some((8, 9)));
    assert!(fed.derive.is_written_up_to(place(8)));
    assert_eq!(fed.feed(8..10), 11, "the one at 9 is another");
}

#[test]
fn a_start_behind_a_loss_writes_what_the_one_before_it_did() {
    // Rows of two readings of one time stood; what is written behind them stands at the
    // next start too, which finds the same readings missing.
    let mut stored = lines(&[(7, 1), (5, 1)]);
    for head in 6..9 {
        let mut fed = Fed::new("first", &[Some(FIRST), None], 4, 4, head);
        fed.derive.set_stored(FIRST, &stored, true);
        fed.derive.on_hole(place(5));
        assert_eq!(fed.feed(5..9), 8, "{head} stand there");
        let written = lines(&[(0, 0), (0, 0), (6, 1), (8, 1)]);
        stored.extend(written.get(head as usize - 4).cloned());
    }
}

#[test]
fn what_stands_there_is_forgotten_behind_the_end_of_the_log_at_the_start() {
    let mut fed = Fed::new("first", &[Some(FIRST), None], 4, 4, 6);
    fed.derive
        .set_stored(FIRST, &lines(&[(4, 5), (6, 7)]), true);
    fed.derive.stored_until = place(6);
    assert_eq!(fed.feed(0..6), 7, "the one at 5 is new");
    assert_eq!(
        fed.feed(6..8),
        9,
        "and so is the one at 6, whatever it looks like"
    );
}

#[test]
fn the_place_is_kept_with_new_rows_or_when_all_are_asked() {
    let mut fed = Fed::new("first", &[Some(FIRST), None], 4, 4, 5);
    let kept = |fed: &mut Fed, offset, all| {
        let since = fed.derive.take_since(place(offset), all, &fed.commit);
        let first = since.into_iter().find(|(to, _)| *to == at(FIRST));
        first.map(|(_, since)| (since.place.offset.0, since.next.0))
    };
    fed.feed(0..3);
    assert_eq!(kept(&mut fed, 3, true), None, "never before what is kept");
    fed.feed(3..4);
    assert_eq!(kept(&mut fed, 4, false), None, "no new row");
    fed.feed(4..5);
    assert_eq!(kept(&mut fed, 5, false), None, "a known one is not new");
    assert_eq!(kept(&mut fed, 5, true), Some((5, 5)));
    assert_eq!(kept(&mut fed, 5, true), None, "it has not moved");
    fed.feed(5..7);
    assert_eq!(kept(&mut fed, 7, false), Some((7, 7)));
}

/// A window that gives a row per reading, whose state is kept.
fn tumbling(since: u64, next: u64, head: u64) -> Fed {
    let window = WindowSpec {
        kind: WindowKind::Tumbling(Grid::Fixed {
            size: Span(1000),
            offset: Span(0),
        }),
        ..window("first")
    };
    Fed::of(vec![window], &[Some(FIRST)], (since, next, head))
}

/// The rows of the first readings.
fn made(readings: u64) -> VecDeque<StoredLine> {
    let mut fed = tumbling(0, 0, 0);
    fed.feed(0..readings);
    let (_, batch) = fed.commit.poll(Mono(1)).expect("rows");
    let mut lines = VecDeque::new();
    for block in batch.blocks {
        let Body::Rows(rows) = decode(block.key, &block.bytes).expect("a block").body else {
            panic!("readings in a derived topic");
        };
        lines.extend(rows.into_iter().zip(0..).map(|(row, offset)| StoredLine {
            offset: Offset(offset),
            line: row.line,
        }));
    }
    lines
}

/// What a run keeps after the readings before 4, of which four rows stand.
fn kept() -> Vec<Entry> {
    let mut fed = tumbling(0, 0, 0);
    fed.feed(0..4);
    fed.derive.take_checkpoint(place(4), Mono(9), &fed.commit)
}

/// A run that goes on from it, where `stored` stand behind the first four rows, and all of
/// them are of readings before `since`, where that is behind the fourth.
fn restored(meta: &[Entry], since: u64, stored: &VecDeque<StoredLine>) -> Fed {
    let head = 4 + stored.len() as u64;
    let next = if since > 4 { head } else { 4 };
    let mut fed = tumbling(since, next, head);
    let mut stored = stored.clone();
    for (line, offset) in stored.iter_mut().zip(4..) {
        line.offset = Offset(offset);
    }
    let loaded = load(meta, seat(place(0)).unit, PipelineHash(1)).expect("it is whole");
    let read = Restored::read(loaded, &fed.config).expect("it reads");
    fed.derive.restore(read);
    fed.derive.set_stored(FIRST, &stored, true);
    fed
}

#[test]
fn an_engine_goes_on_from_what_was_kept() {
    let mut fed = restored(&kept(), 4, &VecDeque::new());
    assert_eq!(fed.feed(4..7), 7, "no row of the first four");
    let mut whole = tumbling(0, 0, 0);
    whole.feed(0..7);
    let stages = [&mut whole.derive, &mut fed.derive];
    let [all, of_restored] = stages.map(|derive| {
        let live = derive.live.iter();
        let live: Vec<_> = live.map(|(k, v)| (k.clone(), v.clone())).collect();
        (live, derive.watermark(DeviceUid([1; 8])))
    });
    assert_eq!(
        all, of_restored,
        "the newest reading and the counts are those of all"
    );
    assert_eq!(fed.derive.kept().epoch, 1, "epochs go on");
    fed.derive.take_checkpoint(place(7), Mono(9), &fed.commit);
    assert_eq!(fed.derive.kept().epoch, 2);
}

#[test]
fn what_is_made_again_is_compared_byte_for_byte() {
    let meta = kept();
    let rows = made(8);
    let good = |row: usize| rows[row].clone();
    let bad = |row: usize| {
        let mut row = good(row);
        let figure = row.line.len() - 2;
        row.line[figure] = b'0';
        row
    };
    for (name, since, stored, head, same, different) in [
        ("nothing stands", 4, vec![], 8, 0, 0),
        ("all of it", 4, vec![good(4), good(5)], 8, 2, 0),
        (
            "as the kept place says too",
            6,
            vec![good(4), good(5)],
            8,
            2,
            0,
        ),
        ("another figure", 4, vec![good(4), bad(5)], 8, 1, 1),
        ("and the kept place", 6, vec![good(4), bad(5)], 8, 1, 1),
        (
            "one that does not come",
            4,
            vec![good(4), good(3), good(5)],
            9,
            2,
            1,
        ),
        (
            "one was left out, as the topic was full",
            6,
            vec![good(5)],
            7,
            1,
            0,
        ),
    ] {
        let mut fed = restored(&meta, since, &stored.into());
        assert_eq!(fed.feed(4..8), head, "{name}");
        fed.derive.on_caught_up();
        let counters = fed.derive.counters();
        let found = (counters.rows_same, counters.rows_different);
        assert_eq!(found, (same, different), "{name}");
        let told = fed.derive.take_differences();
        assert_eq!(told.len(), usize::from(different > 0), "{name}");
        assert!(
            fed.derive.take_differences().is_empty(),
            "{name}: told once"
        );
    }
    let stored = VecDeque::from([good(4), bad(5)]);
    let mut fed = restored(&meta, 4, &stored);
    fed.derive.on_hole(place(5));
    fed.feed(5..8);
    fed.derive.on_caught_up();
    assert_eq!(fed.derive.counters().rows_different, 0, "readings are lost");
    let mut fed = restored(&meta, 4, &stored);
    fed.derive.set_stored(FIRST, &stored, false);
    fed.feed(4..8);
    assert_eq!(fed.derive.counters().rows_different, 0, "rows are lost");
}

#[test]
fn nothing_is_due_when_nothing_changed() {
    let mut fed = tumbling(0, 0, 0);
    let late = Mono(u64::MAX);
    assert!(!fed.derive.is_checkpoint_due(0, late));
    fed.feed(0..1);
    assert!(fed.derive.is_checkpoint_due(0, late) && fed.derive.changed_bytes() > 0);
    let first = fed.derive.take_checkpoint(place(1), Mono(1), &fed.commit);
    assert!(!fed.derive.is_checkpoint_due(0, late));
    assert_eq!(fed.derive.changed_bytes(), 0);
    fed.feed(1..2);
    let second = fed.derive.take_checkpoint(place(2), Mono(1), &fed.commit);
    assert!(second.len() < first.len(), "names are kept once");
}
