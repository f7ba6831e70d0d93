//! What is loaded is what was written, whole, or nothing; and each limit of the pace.

use super::pace::Pace;
use super::*;
use crate::limits::{
    CHECKPOINT_BYTES, CHECKPOINT_BYTES_PER_S, CHECKPOINT_EVERY_US, CHECKPOINT_READINGS,
    CHECKPOINT_ROWS, CHECKPOINT_SPACING_US,
};
use crate::units::{Mono, Offset, TopicId};

const UNIT: Unit = Unit {
    layout: 1,
    partition: PartitionId(3),
};
const HASH: PipelineHash = PipelineHash(77);

fn manifest(book: &Book) -> Manifest {
    Manifest {
        hash: HASH,
        epoch: 300,
        place: Place {
            layout: 1,
            step: 2,
            offset: Offset(12_345),
        },
        entries: book.entries(),
        sum: book.sum(),
        heads: vec![(TopicId(2), Offset(0)), (TopicId(16), Offset(70_000))],
        exact: true,
        counts: [1, 0, 300, u64::MAX],
        applied: Offset(1 << 40),
        changes_missing: 7,
    }
}

#[test]
fn a_head_of_before_there_were_tables_is_read() {
    let of_now = Manifest {
        applied: Offset(0),
        changes_missing: 0,
        ..manifest(&Book::default())
    };
    let mut before = of_now.bytes();
    // Both last numbers, and the CRC.
    before.truncate(before.len() - 6);
    before[0] = 1;
    assert_eq!(
        Manifest::parse(&crate::meta::with_crc(before.clone())),
        Some(of_now)
    );
    before[0] = 3;
    assert_eq!(Manifest::parse(&crate::meta::with_crc(before)), None);
}

/// A state of three entries.
fn kept() -> Vec<Entry> {
    let mut book = Book::default();
    let entries = [
        (Part::Engine, &b"b"[..], &b"second"[..]),
        (Part::Engine, b"a", b"first"),
        (Part::Newest, b"\0\0\0\0", b"third"),
    ];
    let mut meta: Vec<Entry> = Vec::new();
    for (part, key, value) in entries {
        let key = UNIT.state_key(part, key);
        book.set(&key, value);
        meta.push((key, value.to_vec()));
    }
    meta.push((UNIT.manifest_key(), manifest(&book).bytes()));
    meta
}

#[test]
fn a_state_is_loaded_as_it_was_written() {
    let meta = kept();
    let loaded = load(&meta, UNIT, HASH).expect("it is whole");
    assert_eq!(loaded.manifest, manifest(&loaded.book));
    assert_eq!(
        loaded.part(Part::Engine),
        [(&b"a"[..], &b"first"[..]), (b"b", b"second")]
    );
    assert_eq!(loaded.part(Part::Newest).len(), 1);
    assert_eq!(loaded.part(Part::Index), []);
    assert_eq!(loaded.manifest.head(TopicId(16)), Some(Offset(70_000)));
    assert_eq!(loaded.manifest.head(TopicId(17)), None);
}

#[test]
fn a_state_that_is_not_whole_is_not_used() {
    type Change = fn(&mut Vec<Entry>);
    let cases: [(&str, Change, &str); 9] = [
        ("as it is", |_| {}, "whole"),
        ("no head", |meta| drop(meta.pop()), "Missing"),
        ("an empty head", |meta| meta[3].1.clear(), "Missing"),
        ("a bit of the head", |meta| meta[3].1[20] ^= 1, "Damaged"),
        ("another version", |meta| meta[3].1[0] = 3, "Damaged"),
        ("an entry less", |meta| drop(meta.remove(0)), "Damaged"),
        ("a bit of an entry", |meta| meta[1].1[0] ^= 1, "Damaged"),
        (
            "one more",
            |meta| meta.push((UNIT.state_key(Part::Index, b"x"), vec![1])),
            "Damaged",
        ),
        (
            "of an unknown part",
            |meta| meta.push((b"state/1/3/?".to_vec(), vec![1])),
            "Damaged",
        ),
    ];
    for (name, change, want) in cases {
        let mut meta = kept();
        change(&mut meta);
        let found = load(&meta, UNIT, HASH);
        let said = found.map_or_else(|why| format!("{why:?}"), |_| String::from("whole"));
        assert!(said.starts_with(want), "{name}: {said}");
    }
    let meta = kept();
    let other = load(&meta, UNIT, PipelineHash(78)).map(|_| ());
    assert_eq!(other, Err(Unusable::OtherPipeline));
    let next = Unit { layout: 2, ..UNIT };
    assert_eq!(load(&meta, next, HASH).map(|_| ()), Err(Unusable::Missing));
    let moved = (next.manifest_key(), meta[3].1.clone());
    let found = load(&[moved], next, HASH).map(|_| ());
    assert!(matches!(found, Err(Unusable::Damaged(_))), "{found:?}");
}

#[test]
fn the_bytes_of_a_head_are_the_table() {
    let value = manifest(&Book::default()).bytes();
    let want = [
        &[2, 1, 77, 0, 0, 0, 0, 0, 0, 0][..],
        &[0; 8],
        &[0xac, 2, 1, 2, 0xb9, 0x60, 0],
        &[1, 0, 0xac, 2],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        &[2, 2, 0, 16, 0xf0, 0xa2, 4],
        &[0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 7],
    ]
    .concat();
    assert_eq!(value[..value.len() - 4], want);
    for cut in 0..value.len() {
        assert_eq!(Manifest::parse(&value[..cut]), None, "{cut}");
    }
}

#[test]
fn keys_of_other_units_are_told_apart() {
    let mut meta = kept();
    for key in [
        "checkpoint/0/3",
        "state/0/3/e1",
        "state/10/3/e1",
        "stately/0/3",
    ] {
        meta.push((key.as_bytes().to_vec(), vec![1]));
    }
    let stale = keys_of(&meta, |unit| unit.layout != 1);
    let stale: Vec<_> = stale
        .iter()
        .map(|key| String::from_utf8_lossy(key))
        .collect();
    assert_eq!(stale, ["checkpoint/0/3", "state/0/3/e1", "state/10/3/e1"]);
    assert_eq!(keys_of(&meta, |unit| unit == UNIT).len(), 4);
    let prefix = load(&meta, UNIT, HASH);
    assert!(prefix.is_ok(), "10/3 is not 1/3: {prefix:?}");
}

#[test]
fn each_limit_asks_for_a_checkpoint() {
    let start = Mono(1_000);
    let fed = |readings, rows, fired| {
        let mut pace = Pace::new(start);
        pace.on_fed((readings, rows), fired, start);
        pace
    };
    let due = |pace: Pace, bytes, behind, after| pace.is_due(bytes, behind, Mono(1_000 + after));
    let far = CHECKPOINT_READINGS + 1;
    for (name, pace, bytes, behind, after, want) in [
        (
            "nothing changed",
            Pace::new(start),
            u64::MAX,
            0,
            u64::MAX - 1_000,
            false,
        ),
        (
            "short of the time",
            fed(1, 0, false),
            0,
            0,
            CHECKPOINT_EVERY_US - 1,
            false,
        ),
        (
            "the time",
            fed(1, 0, false),
            0,
            0,
            CHECKPOINT_EVERY_US,
            true,
        ),
        (
            "over it",
            fed(1, 0, false),
            0,
            0,
            CHECKPOINT_EVERY_US + 1,
            true,
        ),
        (
            "the time, behind",
            fed(1, 0, false),
            0,
            far,
            CHECKPOINT_EVERY_US,
            true,
        ),
        (
            "short of the readings",
            fed(CHECKPOINT_READINGS - 1, 0, false),
            0,
            0,
            0,
            false,
        ),
        (
            "the readings",
            fed(CHECKPOINT_READINGS, 0, false),
            0,
            0,
            0,
            true,
        ),
        (
            "more",
            fed(CHECKPOINT_READINGS + 1, 0, false),
            0,
            0,
            0,
            true,
        ),
        (
            "the readings, one short of behind",
            fed(far, 0, false),
            0,
            far - 1,
            0,
            true,
        ),
        ("the readings, behind", fed(far, 0, false), 0, far, 0, false),
        (
            "short of the rows",
            fed(1, CHECKPOINT_ROWS - 1, false),
            0,
            0,
            0,
            false,
        ),
        ("the rows", fed(1, CHECKPOINT_ROWS, false), 0, 0, 0, true),
        (
            "the rows, behind",
            fed(1, CHECKPOINT_ROWS + 1, false),
            0,
            far,
            0,
            true,
        ),
        (
            "short of the bytes",
            fed(1, 0, false),
            CHECKPOINT_BYTES - 1,
            0,
            0,
            false,
        ),
        ("the bytes", fed(1, 0, false), CHECKPOINT_BYTES, 0, 0, true),
        (
            "more bytes",
            fed(1, 0, false),
            CHECKPOINT_BYTES + 1,
            0,
            0,
            true,
        ),
        (
            "the bytes, behind",
            fed(1, 0, false),
            CHECKPOINT_BYTES,
            far,
            0,
            false,
        ),
        (
            "fired, too soon",
            fed(1, 1, true),
            0,
            0,
            CHECKPOINT_SPACING_US - 1,
            false,
        ),
        ("fired", fed(1, 1, true), 0, 0, CHECKPOINT_SPACING_US, true),
        (
            "fired, later",
            fed(1, 1, true),
            0,
            0,
            CHECKPOINT_SPACING_US + 1,
            true,
        ),
        (
            "fired, behind",
            fed(1, 1, true),
            0,
            far,
            CHECKPOINT_SPACING_US,
            false,
        ),
    ] {
        assert_eq!(due(pace, bytes, behind, after), want, "{name}");
        if let Some(at) = pace.deadline(behind).filter(|_| want) {
            let by_time = Mono(1_000 + after) >= at;
            let counted = pace.readings() >= CHECKPOINT_READINGS || bytes > 0;
            let counted = counted || name.contains("rows");
            assert!(by_time || counted, "{name}: a deadline says when");
        }
    }
    assert_eq!(Pace::new(start).deadline(0), None);
    assert_eq!(
        fed(1, 0, false).deadline(0),
        Some(Mono(1_000 + CHECKPOINT_EVERY_US))
    );
    assert_eq!(
        fed(1, 1, true).deadline(0),
        Some(Mono(1_000 + CHECKPOINT_SPACING_US))
    );
}

#[test]
fn the_bytes_of_one_put_off_the_next() {
    let second = CHECKPOINT_BYTES_PER_S;
    let half = 500_000;
    let most = CHECKPOINT_EVERY_US;
    let none = (0, 0, false);
    let many = (CHECKPOINT_READINGS, 0, false);
    let fired = (1, 1, true);
    for (name, written, fed, changed, after, want) in [
        ("readings, too soon", second / 2, many, 0, half - 1, false),
        ("readings", second / 2, many, 0, half, true),
        ("readings, later", second / 2, many, 0, half + 1, true),
        (
            "bytes, too soon",
            second,
            none,
            CHECKPOINT_BYTES,
            2 * half - 1,
            false,
        ),
        ("bytes", second, none, CHECKPOINT_BYTES, 2 * half, true),
        ("fired, too soon", second / 2, fired, 0, half - 1, false),
        ("fired", second / 2, fired, 0, half, true),
        (
            "fired, after a small one",
            1,
            fired,
            0,
            CHECKPOINT_SPACING_US,
            true,
        ),
        (
            "rows wait for nothing",
            second,
            (1, CHECKPOINT_ROWS, false),
            0,
            0,
            true,
        ),
        (
            "never longer than the time",
            u64::MAX,
            many,
            0,
            most - 1,
            false,
        ),
        ("the time", u64::MAX, many, 0, most, true),
    ] {
        let start = Mono(1_000);
        let mut pace = Pace::after(written, start);
        pace.on_fed((fed.0, fed.1), fed.2, start);
        assert_eq!(pace.is_due(changed, 0, Mono(1_000 + after)), want, "{name}");
    }
    let mut pace = Pace::after(second / 2, Mono(0));
    pace.on_fed((1, 1), true, Mono(0));
    assert_eq!(
        pace.deadline(0),
        Some(Mono(half)),
        "a deadline says so, too"
    );
}
