//! What the log keeps of its views beside their rows: which pipeline writes them, which
//! of them are to be built anew, which may go, and where a name went on.
//!
//! Holds always: the pipeline that is live is named by one entry, which changes in one
//! batch with all that belongs to it; the state of another one stands under a slot of its
//! own until then. Byte tables: `agent/core/docs/format.md`. Bound: a pipeline's text has
//! [`PIPELINE_TEXT_BYTES_MAX`] bytes; one entry per topic. Knows no engine and no store.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::checkpoint::{CHECKPOINT_META_PREFIX, PipelineHash, STATE_META_PREFIX};
use crate::ingest::fnv1a;
use crate::limits::{META_VALUE_BYTES_MAX, PARTITIONS_MAX, PIPELINE_TEXT_BYTES_MAX};
use crate::log::bytes::{put_varint, put_zigzag};
use crate::meta::{Entry, checked, with_crc};
use crate::units::{EventTime, Offset, PartitionId, TopicId};

/// Meta keys of the live pipeline: this and what is meant.
pub const PIPELINE_META_PREFIX: &[u8] = b"pipeline/";
/// Meta keys of the state of a slot that is not the first: this, its number, `/`, and the
/// key that it has in the first.
pub const SLOT_META_PREFIX: &[u8] = b"slot/";
/// Meta keys of single views: this, what is meant, `/`, and which one.
pub const VIEW_META_PREFIX: &[u8] = b"view/";
const LIVE_KEY: &[u8] = b"pipeline/live";
const TEXT_KEY: &str = "pipeline/text/";
const VERSION: u8 = 1;
/// Bytes of a text in one entry.
const TEXT_PIECE: usize = 4096;
const _: () = assert!(TEXT_PIECE <= META_VALUE_BYTES_MAX);
const PIECES_MAX: usize = PIPELINE_TEXT_BYTES_MAX.div_ceil(TEXT_PIECE);

/// The pipeline that writes the streams of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pipeline {
    /// Where its state stands.
    pub slot: u32,
    pub hash: PipelineHash,
    /// As whoever starts the gateway wrote it; empty where it is not kept.
    pub text: Vec<u8>,
}

impl Pipeline {
    /// The one that `meta` names.
    #[must_use]
    pub fn restore(meta: &[Entry]) -> Option<Self> {
        let find = |wanted: &[u8]| meta.iter().find(|(key, _)| key == wanted);
        let (_, value) = find(LIVE_KEY)?;
        let mut reader = checked(VERSION, value)?;
        let slot = u32::try_from(reader.varint().ok()?).ok()?;
        let hash = PipelineHash(u64::from_le_bytes(reader.array().ok()?));
        let of_text = u64::from_le_bytes(reader.array().ok()?);
        let pieces = usize::try_from(reader.varint().ok()?).ok()?;
        if !reader.is_at_end() || pieces > PIECES_MAX {
            return None;
        }
        let mut text = Vec::new();
        for piece in 0..pieces {
            let found = find(&text_key(piece));
            text.extend_from_slice(found.map_or(&[][..], |(_, value)| value));
        }
        if fnv1a(&text) != of_text {
            text.clear();
        }
        Some(Self { slot, hash, text })
    }

    /// The entries to write, all in one batch. A text that is too long is not kept.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let text: &[u8] = if self.text.len() <= PIPELINE_TEXT_BYTES_MAX {
            &self.text
        } else {
            &[]
        };
        let mut head = vec![VERSION];
        put_varint(&mut head, u64::from(self.slot));
        head.extend_from_slice(&self.hash.0.to_le_bytes());
        head.extend_from_slice(&fnv1a(text).to_le_bytes());
        let pieces: Vec<&[u8]> = text.chunks(TEXT_PIECE).collect();
        put_varint(&mut head, pieces.len() as u64);
        let mut entries = vec![(LIVE_KEY.to_vec(), with_crc(head))];
        let pieces = pieces.into_iter().enumerate();
        entries.extend(pieces.map(|(at, piece)| (text_key(at), piece.to_vec())));
        entries
    }
}

fn text_key(piece: usize) -> Vec<u8> {
    format!("{TEXT_KEY}{piece}").into_bytes()
}

fn slot_prefix(slot: u32) -> Vec<u8> {
    [SLOT_META_PREFIX, format!("{slot}/").as_bytes()].concat()
}

fn is_state(key: &[u8]) -> bool {
    key.starts_with(CHECKPOINT_META_PREFIX) || key.starts_with(STATE_META_PREFIX)
}

/// Entries of readers under the keys of their slot.
#[must_use]
pub fn into_slot(slot: u32, entries: Vec<Entry>) -> Vec<Entry> {
    if slot == 0 {
        return entries;
    }
    let prefix = slot_prefix(slot);
    let into = |(key, value): Entry| match is_state(&key) {
        true => ([&prefix[..], &key].concat(), value),
        false => (key, value),
    };
    entries.into_iter().map(into).collect()
}

/// `meta` as readers of a slot know it: of all state only theirs.
#[must_use]
pub fn of_slot(slot: u32, meta: &[Entry]) -> Cow<'_, [Entry]> {
    let has_slots = meta
        .iter()
        .any(|(key, _)| key.starts_with(SLOT_META_PREFIX));
    if slot == 0 && !has_slots {
        return Cow::Borrowed(meta);
    }
    let prefix = slot_prefix(slot);
    let ours = meta.iter().filter_map(|(key, value)| {
        if let Some(rest) = key.strip_prefix(&prefix[..]) {
            return Some((rest.to_vec(), value.clone()));
        }
        let others = key.starts_with(SLOT_META_PREFIX) || (slot > 0 && is_state(key));
        (!others).then(|| (key.clone(), value.clone()))
    });
    Cow::Owned(ours.collect())
}

/// Keys of state in slots that are none of these.
#[must_use]
pub fn stale_slots(slots: &[u32], meta: &[Entry]) -> Vec<Vec<u8>> {
    let stays = |key: &[u8]| {
        if is_state(key) {
            return slots.contains(&0);
        }
        let mut ours = slots.iter().map(|slot| slot_prefix(*slot));
        !key.starts_with(SLOT_META_PREFIX) || ours.any(|prefix| key.starts_with(&prefix))
    };
    let keys = meta.iter().map(|(key, _)| key);
    keys.filter(|key| !stays(key)).cloned().collect()
}

fn view_key(what: &str, which: &str) -> Vec<u8> {
    [VIEW_META_PREFIX, format!("{what}/{which}").as_bytes()].concat()
}

fn of_views<'a>(meta: &'a [Entry], what: &str) -> impl Iterator<Item = (&'a str, &'a [u8])> {
    let prefix = view_key(what, "");
    let entries = meta.iter().filter(|(_, value)| !value.is_empty());
    entries.filter_map(move |(key, value)| {
        let which = key.strip_prefix(&prefix[..])?;
        Some((std::str::from_utf8(which).ok()?, &value[..]))
    })
}

/// Where the rows of a view that is built anew begin.
fn time_value(from: Option<EventTime>) -> Vec<u8> {
    let mut value = vec![VERSION];
    put_zigzag(&mut value, from.map_or(i64::MIN, |from| from.0));
    with_crc(value)
}

fn parse_time(value: &[u8]) -> Option<EventTime> {
    let mut reader = checked(VERSION, value)?;
    let time = EventTime(reader.zigzag().ok()?);
    reader.is_at_end().then_some(time)
}

/// Notes that a view is to be built anew, from this event time on.
#[must_use]
pub fn renew_entry(name: &str, from: Option<EventTime>) -> Entry {
    (view_key("renew", name), time_value(from))
}

/// Views that are to be built anew, with the time from which their rows are told; all of
/// them: the first time of all.
#[must_use]
pub fn renewals(meta: &[Entry]) -> BTreeMap<String, EventTime> {
    let all = of_views(meta, "renew");
    all.filter_map(|(name, value)| Some((name.to_owned(), parse_time(value)?)))
        .collect()
}

/// The entry that goes when a view has been built anew.
#[must_use]
pub fn renewed_entry(name: &str) -> Entry {
    (view_key("renew", name), Vec::new())
}

/// Notes that the rows of a topic begin at this event time.
#[must_use]
pub fn from_entry(topic: TopicId, from: EventTime) -> Entry {
    (
        view_key("from", &topic.0.to_string()),
        time_value(Some(from)),
    )
}

/// The same, where they do not begin with the first reading.
#[must_use]
pub fn begins(topic: TopicId, from: EventTime) -> Vec<Entry> {
    let some = (from.0 > i64::MIN).then(|| from_entry(topic, from));
    some.into_iter().collect()
}

/// Topics whose rows begin at some event time.
#[must_use]
pub fn froms(meta: &[Entry]) -> BTreeMap<TopicId, EventTime> {
    let all = of_views(meta, "from");
    let read =
        |(topic, value): (&str, &[u8])| Some((TopicId(topic.parse().ok()?), parse_time(value)?));
    all.filter_map(read).collect()
}

/// Notes that nobody wants the rows of a topic any more.
#[must_use]
pub fn dropped_entry(topic: TopicId) -> Entry {
    (
        view_key("dropped", &topic.0.to_string()),
        with_crc(vec![VERSION]),
    )
}

/// Topics whose rows go.
#[must_use]
pub fn dropped(meta: &[Entry]) -> Vec<TopicId> {
    let all = of_views(meta, "dropped");
    all.filter_map(|(topic, _)| Some(TopicId(topic.parse().ok()?)))
        .collect()
}

/// What a name stands for since it left a topic, and with which rows it goes on there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    pub to: TopicId,
    pub next: BTreeMap<PartitionId, Offset>,
}

/// Notes where the name of a topic went on.
#[must_use]
pub fn moved_entry(from: TopicId, moved: &Moved) -> Entry {
    let mut value = vec![VERSION];
    put_varint(&mut value, u64::from(moved.to.0));
    put_varint(&mut value, moved.next.len() as u64);
    for (partition, next) in &moved.next {
        put_varint(&mut value, u64::from(partition.0));
        put_varint(&mut value, next.0);
    }
    (view_key("moved", &from.0.to_string()), with_crc(value))
}

/// Topics whose names stand for others by now.
#[must_use]
pub fn moved(meta: &[Entry]) -> BTreeMap<TopicId, Moved> {
    let all = of_views(meta, "moved");
    let read =
        |(topic, value): (&str, &[u8])| Some((TopicId(topic.parse().ok()?), parse_moved(value)?));
    all.filter_map(read).collect()
}

fn parse_moved(value: &[u8]) -> Option<Moved> {
    let mut reader = checked(VERSION, value)?;
    let mut number = || reader.varint().ok();
    let to = TopicId(u16::try_from(number()?).ok()?);
    let partitions = number()?;
    if partitions > PARTITIONS_MAX as u64 + 1 {
        return None;
    }
    let mut one = || {
        Some((
            PartitionId(u16::try_from(number()?).ok()?),
            Offset(number()?),
        ))
    };
    let next = (0..partitions).map(|_| one()).collect::<Option<_>>()?;
    reader.is_at_end().then_some(Moved { to, next })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipeline(slot: u32, text: &[u8]) -> Pipeline {
        Pipeline {
            slot,
            hash: PipelineHash(7),
            text: text.to_vec(),
        }
    }

    #[test]
    fn a_pipeline_reads_back_up_to_its_longest_text() {
        for length in [
            0,
            1,
            TEXT_PIECE,
            TEXT_PIECE + 1,
            PIPELINE_TEXT_BYTES_MAX - 1,
            PIPELINE_TEXT_BYTES_MAX,
        ] {
            let kept = pipeline(3, &vec![b'x'; length]);
            assert_eq!(Pipeline::restore(&kept.entries()), Some(kept), "{length}");
        }
        let long = pipeline(3, &vec![b'x'; PIPELINE_TEXT_BYTES_MAX + 1]);
        assert_eq!(Pipeline::restore(&long.entries()), Some(pipeline(3, b"")));
        assert_eq!(Pipeline::restore(&[]), None);
    }

    #[test]
    fn a_text_that_was_cut_is_none() {
        let mut entries = pipeline(1, &vec![b'x'; 2 * TEXT_PIECE]).entries();
        entries.pop();
        assert_eq!(Pipeline::restore(&entries), Some(pipeline(1, b"")));
        entries[0].1[1] ^= 1;
        assert_eq!(Pipeline::restore(&entries), None, "its head does not read");
    }

    #[test]
    fn slots_are_apart() {
        let entry = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
        let ours = vec![entry("checkpoint/0/0", "b"), entry("derive/16/0", "d")];
        let mut meta = into_slot(2, ours.clone());
        assert_eq!(meta[1], ours[1], "only state has a slot");
        meta.push(entry("checkpoint/0/0", "a"));
        meta.push(entry("slot/21/state/0/0/e", "c"));
        let of = |slot| of_slot(slot, &meta).into_owned();
        assert_eq!(of(0), [ours[1].clone(), entry("checkpoint/0/0", "a")]);
        assert_eq!(of(2), ours);
        assert_eq!(of(3), [ours[1].clone()]);
        let stale = |slots: &[u32]| {
            let keys = stale_slots(slots, &meta).into_iter();
            keys.map(|key| String::from_utf8(key).expect("text"))
                .collect::<Vec<_>>()
        };
        assert_eq!(stale(&[0, 2]), ["slot/21/state/0/0/e"]);
        assert_eq!(stale(&[21]), ["slot/2/checkpoint/0/0", "checkpoint/0/0"]);
        assert_eq!(into_slot(0, ours.clone()), ours);
    }

    #[test]
    fn what_is_noted_of_views_reads_back() {
        let moved_to = Moved {
            to: TopicId(18),
            next: [(PartitionId(0), Offset(5)), (PartitionId(16), Offset(0))].into(),
        };
        let meta = vec![
            renew_entry("a", None),
            renew_entry("b/c", Some(EventTime(-5))),
            renewed_entry("gone"),
            from_entry(TopicId(17), EventTime(9)),
            dropped_entry(TopicId(16)),
            moved_entry(TopicId(16), &moved_to),
        ];
        let first = EventTime(i64::MIN);
        let want = [
            (String::from("a"), first),
            (String::from("b/c"), EventTime(-5)),
        ];
        assert_eq!(renewals(&meta), want.into());
        assert_eq!(froms(&meta), [(TopicId(17), EventTime(9))].into());
        assert_eq!(dropped(&meta), [TopicId(16)]);
        assert_eq!(moved(&meta), [(TopicId(16), moved_to)].into());
    }
}
