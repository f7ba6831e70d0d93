//! Which partition holds which slot, now and before: the partition count may grow at
//! a start, behind a fence. Byte table: `agent/core/docs/format.md`.
//!
//! Holds always: layouts count up from 0, each has at least as many partitions as the
//! one before, and begins where the log ended when it was made. A device's readings
//! so have one order: layout by layout. Bound: PARTITIONS_MAX layouts, as each one
//! has more partitions. Knows no store.

use std::collections::BTreeMap;
use std::fmt;

use forebay_wire::ids::DeviceUid;

use crate::ingest::{Router, SLOTS};
use crate::limits::PARTITIONS_MAX;
use crate::log::bytes::put_varint;
use crate::log::key::TopicPartition;
use crate::log::topic::READINGS;
use crate::meta::{Entry, checked, with_crc};
use crate::units::{Offset, PartitionId};

/// Meta keys of layouts: this and the number.
pub const LAYOUT_META_PREFIX: &[u8] = b"layout/";
const VERSION: u8 = 1;

/// Partition of rows that have a writer in each partition and one over all of them, and of
/// the state of that one's engine.
pub const CROSSING_PARTITION: PartitionId = PartitionId(PARTITIONS_MAX as u16);

/// One layout and where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    pub router: Router,
    /// First offset of `readings` that was written under it; 0 where none is named.
    fence: BTreeMap<PartitionId, Offset>,
}

/// A run of offsets of one partition that were written under one layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    pub partition: PartitionId,
    pub first: Offset,
    pub end: Offset,
}

/// All layouts of one log, the oldest first; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layouts {
    list: Vec<Layout>,
}

/// What came of reading the stored layouts.
#[derive(Debug, PartialEq, Eq)]
pub struct Restored {
    pub layouts: Layouts,
    /// Those before are lost.
    pub anew: bool,
    /// To be written with the first batch.
    pub entries: Vec<Entry>,
    /// For the operator.
    pub note: Option<String>,
}

/// The log has more partitions than were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shrinks {
    pub has: u16,
    pub asked: u16,
}

impl fmt::Display for Shrinks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { has, asked } = self;
        write!(
            f,
            "partitions = {asked}, but the log has {has}: their number can grow and not \
             shrink. Set partitions = {has} or more, or start with a new data_dir"
        )
    }
}

impl std::error::Error for Shrinks {}

impl Layout {
    /// First offset of a partition that was written under this layout.
    #[must_use]
    pub fn fence(&self, partition: PartitionId) -> Offset {
        self.fence.get(&partition).copied().unwrap_or(Offset(0))
    }
}

impl Layouts {
    /// The layouts that `meta` keeps, grown to `asked` partitions where that is more.
    ///
    /// # Errors
    /// When the log has more partitions than `asked`.
    pub fn restore(
        meta: &[Entry],
        asked: u16,
        heads: &BTreeMap<TopicPartition, Offset>,
    ) -> Result<Restored, Shrinks> {
        let of_readings = heads.iter().filter(|(at, _)| at.topic == READINGS);
        let ends: BTreeMap<PartitionId, Offset> = of_readings
            .map(|(at, head)| (at.partition, *head))
            .collect();
        let stored: Vec<&Entry> = meta
            .iter()
            .filter(|(key, value)| key.starts_with(LAYOUT_META_PREFIX) && !value.is_empty())
            .collect();
        let holds = ends.keys().map(|partition| partition.0 + 1);
        let known = parse_all(&stored);
        let has = known
            .as_ref()
            .map_or(0, |known| known.current().router.count());
        let has = holds.fold(has, u16::max);
        if has > asked {
            return Err(Shrinks { has, asked });
        }
        let Some(mut layouts) = known else {
            return Ok(rebuilt(asked, &stored, !ends.is_empty()));
        };
        let mut entries = Vec::new();
        let mut note = None;
        let before = layouts.current().router.count();
        if before < asked {
            let fence = ends.into_iter().filter(|(_, end)| *end > Offset(0));
            layouts.list.push(Layout {
                router: Router::new(asked),
                fence: fence.collect(),
            });
            entries.push(layouts.entry(layouts.number()));
            note = Some(format!(
                "the log grows from {before} to {asked} partitions: what was written \
                 before is read first"
            ));
        }
        Ok(Restored {
            layouts,
            anew: false,
            entries,
            note,
        })
    }

    /// The one by which records are written.
    #[must_use]
    pub fn current(&self) -> &Layout {
        self.list.last().expect("there is always one")
    }

    /// Number of the current one.
    #[must_use]
    pub fn number(&self) -> usize {
        self.list.len() - 1
    }

    #[must_use]
    pub fn get(&self, number: usize) -> Option<&Layout> {
        self.list.get(number)
    }

    /// Where what was written under layout `number` ends in a partition; `None` while
    /// it is the current one.
    #[must_use]
    pub fn end(&self, number: usize, partition: PartitionId) -> Option<Offset> {
        let next = self.list.get(number + 1)?;
        Some(next.fence(partition))
    }

    /// Where each layout but the first begins, for the partitions that had readings.
    #[must_use]
    pub fn barriers(&self) -> Vec<BTreeMap<PartitionId, Offset>> {
        let later = self.list.iter().skip(1);
        later.map(|layout| layout.fence.clone()).collect()
    }

    /// All that was written before layout `number`, in the order in which it is to be
    /// read.
    #[must_use]
    pub fn before(&self, number: usize) -> Vec<Stretch> {
        let pairs = self.list.windows(2).take(number);
        let spans = pairs.flat_map(|pair| {
            let span = |partition| Stretch {
                partition,
                first: pair[0].fence(partition),
                end: pair[1].fence(partition),
            };
            pair[0].router.partitions().map(span)
        });
        spans.filter(|span| span.first < span.end).collect()
    }

    /// Where the readings of a device stand up to layout `number`, in order; the last
    /// span has no end.
    #[must_use]
    pub fn spans(&self, number: usize, uid: DeviceUid) -> Vec<Stretch> {
        let layouts = self.list.iter().enumerate().take(number + 1);
        let spans = layouts.map(|(n, layout)| {
            let partition = layout.router.partition(uid);
            let end = self.end(n, partition).filter(|_| n < number);
            Stretch {
                partition,
                first: layout.fence(partition),
                end: end.unwrap_or(Offset(u64::MAX)),
            }
        });
        spans.filter(|span| span.first < span.end).collect()
    }

    fn entry(&self, number: usize) -> Entry {
        let Layout { router, fence } = &self.list[number];
        let mut out = vec![VERSION];
        put_varint(&mut out, u64::from(router.count()));
        let slots = router.slots().iter();
        slots.for_each(|held| put_varint(&mut out, u64::from(held.0)));
        put_varint(&mut out, fence.len() as u64);
        for (partition, first) in fence {
            put_varint(&mut out, u64::from(partition.0));
            put_varint(&mut out, first.0);
        }
        (key(number), with_crc(out))
    }
}

fn key(number: usize) -> Vec<u8> {
    [LAYOUT_META_PREFIX, number.to_string().as_bytes()].concat()
}

/// The layout that the config describes, where none is stored or not all of them.
fn rebuilt(asked: u16, stored: &[&Entry], has_readings: bool) -> Restored {
    let layouts = Layouts {
        list: vec![Layout {
            router: Router::new(asked),
            fence: BTreeMap::new(),
        }],
    };
    // Entries that a later start would take for layouts after this one.
    let emptied = stored.iter().map(|(key, _)| (key.clone(), Vec::new()));
    let entries = emptied.chain([layouts.entry(0)]).collect();
    let note = has_readings.then(|| {
        format!(
            "the layout of the log's partitions is lost and made anew for partitions = \
             {asked}: if their number was another before, windows that were open are \
             written in two parts"
        )
    });
    Restored {
        layouts,
        anew: has_readings,
        entries,
        note,
    }
}

/// All layouts, when they count up from 0 and all of them read.
fn parse_all(stored: &[&Entry]) -> Option<Layouts> {
    let by_key: BTreeMap<&[u8], &[u8]> = stored
        .iter()
        .map(|(key, value)| (key.as_slice(), value.as_slice()))
        .collect();
    let all = (0..by_key.len()).map(|n| parse(by_key.get(key(n).as_slice())?));
    let list = all.collect::<Option<Vec<Layout>>>()?;
    let grows = list
        .windows(2)
        .all(|pair| pair[0].router.count() < pair[1].router.count());
    (grows && !list.is_empty()).then_some(Layouts { list })
}

fn parse(value: &[u8]) -> Option<Layout> {
    let mut reader = checked(VERSION, value)?;
    let mut number = || reader.varint().ok();
    let partitions = u16::try_from(number()?).ok()?;
    let slots = (0..SLOTS).map(|_| Some(PartitionId(u16::try_from(number()?).ok()?)));
    let router = Router::from_slots(slots.collect::<Option<_>>()?, partitions)?;
    let count = number()?;
    if count > PARTITIONS_MAX as u64 {
        return None;
    }
    let mut fence = BTreeMap::new();
    for _ in 0..count {
        let partition = PartitionId(u16::try_from(number()?).ok()?);
        fence.insert(partition, Offset(number()?));
    }
    reader.is_at_end().then_some(Layout { router, fence })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heads(ends: &[(u16, u64)]) -> BTreeMap<TopicPartition, Offset> {
        let at = |partition| TopicPartition {
            topic: READINGS,
            partition: PartitionId(partition),
        };
        ends.iter().map(|(p, end)| (at(*p), Offset(*end))).collect()
    }

    fn restore(meta: &[Entry], asked: u16, ends: &[(u16, u64)]) -> Restored {
        Layouts::restore(meta, asked, &heads(ends)).expect("it grows")
    }

    /// Layouts 1, 2 and 5, with the meta entries that keep them.
    fn grown() -> (Layouts, Vec<Entry>) {
        let mut meta: Vec<Entry> = Vec::new();
        let mut last = restore(&meta, 1, &[]);
        for (asked, ends) in [(2, &[(0, 10)][..]), (5, &[(0, 10), (1, 4)])] {
            meta.extend(last.entries);
            last = restore(&meta, asked, ends);
            assert!(last.note.is_some(), "{asked}");
        }
        meta.extend(last.entries);
        (last.layouts, meta)
    }

    #[test]
    fn layouts_read_back_and_stay() {
        let (layouts, meta) = grown();
        let again = restore(&meta, 5, &[(0, 99), (4, 7)]);
        assert_eq!(
            (again.layouts, again.entries, again.note),
            (layouts, vec![], None)
        );
    }

    #[test]
    fn what_was_written_before_is_read_in_order_of_layouts() {
        let (layouts, _) = grown();
        let spans = |number| {
            let spans = layouts.before(number).into_iter();
            let short = spans.map(|s| (s.partition.0, s.first.0, s.end.0));
            short.collect::<Vec<_>>()
        };
        assert_eq!(spans(0), []);
        assert_eq!(spans(1), [(0, 0, 10)]);
        // Nothing was written to partition 0 under layout 1.
        assert_eq!(spans(2), [(0, 0, 10), (1, 0, 4)]);
        assert_eq!(layouts.end(0, PartitionId(0)), Some(Offset(10)));
        assert_eq!(layouts.end(2, PartitionId(0)), None);
    }

    #[test]
    fn the_spans_of_a_device_are_where_its_readings_went() {
        let (layouts, _) = grown();
        for uid in 0..50_u64 {
            let uid = DeviceUid(uid.to_be_bytes());
            let spans = layouts.spans(2, uid);
            let last = spans.last().expect("the current one");
            assert_eq!(last.partition, layouts.current().router.partition(uid));
            assert_eq!(last.end, Offset(u64::MAX));
            assert_eq!((spans[0].partition.0, spans[0].end.0), (0, 10));
            let in_two = layouts.list[1].router.partition(uid);
            assert_eq!(spans.len(), if in_two.0 == 1 { 3 } else { 2 });
        }
    }

    #[test]
    fn fewer_partitions_are_refused_with_the_number() {
        let (_, meta) = grown();
        for (name, meta, asked, ends, has) in [
            ("by the table", &meta[..], 4, &[][..], 5),
            ("to one", &meta, 1, &[], 5),
            ("by the data, where the table is lost", &[], 2, &[(2, 1)], 3),
        ] {
            let refused = Layouts::restore(meta, asked, &heads(ends)).expect_err(name);
            assert_eq!(refused, Shrinks { has, asked }, "{name}");
            assert!(
                refused
                    .to_string()
                    .contains(&format!("partitions = {has} or more"))
            );
        }
    }

    #[test]
    fn a_lost_layout_is_made_anew_and_stays() {
        let (_, meta) = grown();
        let cases = [
            ("one missing", meta[1..].to_vec(), true),
            (
                "one damaged",
                [(meta[0].0.clone(), vec![9])]
                    .into_iter()
                    .chain(meta[1..].to_vec())
                    .collect(),
                true,
            ),
            ("none", vec![], true),
            ("a new log", vec![], false),
        ];
        for (name, meta, has_readings) in cases {
            let ends: &[_] = if has_readings { &[(0, 5)] } else { &[] };
            let made = restore(&meta, 5, ends);
            assert_eq!(made.note.is_some(), has_readings, "{name}");
            assert_eq!(made.layouts.list.len(), 1, "{name}");
            let kept: BTreeMap<_, _> = meta.into_iter().chain(made.entries).collect();
            let again = restore(&kept.into_iter().collect::<Vec<_>>(), 5, ends);
            assert_eq!(again.layouts, made.layouts, "{name}");
            assert_eq!((again.entries, again.note), (vec![], None), "{name}");
        }
    }

    #[test]
    fn the_bytes_of_a_layout_are_the_table() {
        let (layouts, meta) = grown();
        let (key, value) = &meta[2];
        assert_eq!(key, b"layout/2");
        assert_eq!(value[..4], [1, 5, 0, 1]);
        let behind_slots = 2 + SLOTS;
        assert_eq!(value[behind_slots..value.len() - 4], [2, 0, 10, 1, 4]);
        assert_eq!(parse(value).as_ref(), layouts.get(2));
        for cut in 0..value.len() {
            assert_eq!(parse(&value[..cut]), None, "{cut}");
        }
    }
}
