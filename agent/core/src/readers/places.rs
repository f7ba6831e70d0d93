//! How far each derived topic of a partition has come, as a meta entry. Byte table:
//! `agent/core/docs/format.md`.

use std::collections::BTreeMap;

use super::{CHANGED_META_PREFIX, DERIVE_META_PREFIX, MetaEntry, VERSION, readings_of};
use crate::commit::GroupCommit;
use crate::derive::{Place, Since};
use crate::layout::Layouts;
use crate::log::bytes::put_varint;
use crate::log::key::TopicPartition;
use crate::meta::{checked, with_crc};
use crate::units::{Offset, PartitionId, TopicId};

/// A place past the end of the log is of records that are gone, and one in a layout
/// that is lost says nothing: what comes in their place is not known.
pub(super) fn clamp(
    since: &mut Since,
    at: TopicPartition,
    layouts: &Layouts,
    commit: &GroupCommit,
) {
    let place = &mut since.place;
    if usize::from(place.layout) > layouts.number() {
        *place = Place::default();
        since.next = commit.head(at);
        return;
    }
    let own = layouts.before(usize::from(place.layout)).len();
    if usize::from(place.step) == own {
        let end = commit.head(readings_of(at.partition));
        place.offset = place.offset.min(end);
    }
}

pub(super) fn entry(at: TopicPartition, since: &Since) -> MetaEntry {
    entry_of(DERIVE_META_PREFIX, at, since)
}

/// The same when the pipeline was changed.
pub(super) fn changed_entry(at: TopicPartition, since: &Since) -> MetaEntry {
    entry_of(CHANGED_META_PREFIX, at, since)
}

/// How far topics had come when the pipeline was changed last, where it was.
#[must_use]
pub fn changed(meta: &[MetaEntry]) -> BTreeMap<TopicPartition, Since> {
    let entries = meta.iter();
    let read = entries.filter_map(|(key, value)| parse_of(CHANGED_META_PREFIX, key, value));
    read.collect()
}

/// How far each derived topic has come.
#[must_use]
pub fn derived(meta: &[MetaEntry]) -> BTreeMap<TopicPartition, Since> {
    let read = meta.iter().filter_map(|(key, value)| parse(key, value));
    read.collect()
}

/// Entries from which readers begin there.
#[must_use]
pub fn entries(places: &BTreeMap<TopicPartition, Since>) -> Vec<MetaEntry> {
    places.iter().map(|(at, since)| entry(*at, since)).collect()
}

fn entry_of(prefix: &[u8], at: TopicPartition, since: &Since) -> MetaEntry {
    let TopicPartition { topic, partition } = at;
    let name = format!("{}/{}", topic.0, partition.0);
    let key = [prefix, name.as_bytes()].concat();
    let Since { place, next } = since;
    let mut value = vec![VERSION];
    let (layout, step) = (u64::from(place.layout), u64::from(place.step));
    for number in [layout, step, place.offset.0, next.0] {
        put_varint(&mut value, number);
    }
    (key, with_crc(value))
}

/// `None` for anything else: the rows of that topic are then told from all readings
/// that are kept.
pub(super) fn parse(key: &[u8], value: &[u8]) -> Option<(TopicPartition, Since)> {
    parse_of(DERIVE_META_PREFIX, key, value)
}

fn parse_of(prefix: &[u8], key: &[u8], value: &[u8]) -> Option<(TopicPartition, Since)> {
    let name = std::str::from_utf8(key.strip_prefix(prefix)?).ok()?;
    let (topic, partition) = name.split_once('/')?;
    let at = TopicPartition {
        topic: TopicId(topic.parse().ok()?),
        partition: PartitionId(partition.parse().ok()?),
    };
    let mut reader = checked(VERSION, value)?;
    let mut number = || reader.varint().ok();
    let place = Place {
        layout: u16::try_from(number()?).ok()?,
        step: u16::try_from(number()?).ok()?,
        offset: Offset(number()?),
    };
    let next = Offset(number()?);
    reader.is_at_end().then_some((at, Since { place, next }))
}

/// Of a topic's kept place, while there was one partition, the offset in `readings` before
/// which all rows are told, and that of the first row after them.
#[must_use]
pub fn kept_place(key: &[u8], value: &[u8]) -> Option<(Offset, Offset)> {
    let (_, since) = parse(key, value)?;
    let first = since.place.layout == 0 && since.place.step == 0;
    first.then_some((since.place.offset, since.next))
}
