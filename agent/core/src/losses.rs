//! What the store found missing when it was opened, as rows of the topic `control`:
//! one per range that was not told before. Byte table: `agent/core/docs/format.md`.
//!
//! Bound: [`LOSS_ROWS_MAX`] rows per partition and start, the last one for all that
//! follows; [`LOSS_RANGES_MAX`] ranges are remembered as told. Knows no store.

use std::collections::BTreeMap;

use serde_json::json;

use crate::limits::{LOSS_RANGES_MAX, LOSS_ROWS_MAX, META_VALUE_BYTES_MAX};
use crate::log::bytes::put_varint;
use crate::log::key::TopicPartition;
use crate::meta::{Entry, checked, with_crc};
use crate::record::Row;
use crate::store::Loss;
use crate::topics::TopicTable;
use crate::units::{EventTime, Offset, PartitionId, TopicId};
use crate::utc::time_value;

/// Meta keys of losses that were told: this, topic, `/`, partition.
pub const LOSS_META_PREFIX: &[u8] = b"loss/";
const VERSION: u8 = 1;
const _: () = assert!(1 + 10 + 20 * LOSS_RANGES_MAX + 4 <= META_VALUE_BYTES_MAX);

type Ranges = Vec<(Offset, Offset)>;

/// Losses that are new.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// For the topic `control`.
    pub rows: Vec<Row>,
    /// That they were told; in the batch of the rows.
    pub entries: Vec<Entry>,
    /// For the operator.
    pub notes: Vec<String>,
    /// How many records these are.
    pub records: u64,
}

/// Which losses were told.
#[derive(Debug)]
pub struct Losses {
    known: BTreeMap<TopicPartition, Ranges>,
}

impl Losses {
    /// As `meta` keeps them.
    #[must_use]
    pub fn restore(meta: &[Entry]) -> Self {
        let entries = meta.iter().filter(|(_, value)| !value.is_empty());
        let known = entries.filter_map(|(key, value)| Some((parse_key(key)?, parse(value)?)));
        Self {
            known: known.collect(),
        }
    }

    /// What of `losses` was not told before, found at `found_at`.
    pub fn tell(&mut self, losses: &[Loss], topics: &TopicTable, found_at: EventTime) -> Told {
        let mut new: BTreeMap<TopicPartition, Vec<Loss>> = BTreeMap::new();
        let mut records = 0;
        for loss in losses.iter().filter(|loss| loss.first < loss.end) {
            let ranges = self.known.entry(loss.at).or_default();
            let told = |(first, end): &(Offset, Offset)| *first <= loss.first && loss.end <= *end;
            if !ranges.iter().any(told) {
                insert(ranges, (loss.first, loss.end));
                records += loss.end.0.saturating_sub(loss.first.0);
                new.entry(loss.at).or_default().push(*loss);
            }
        }
        let names: BTreeMap<_, _> = topics.streams().collect();
        let mut out = Told {
            records,
            ..Told::default()
        };
        for (at, losses) in new {
            let stream = names.get(&at.topic).copied();
            for (loss, parts) in summed(&losses) {
                out.rows.push(row(&loss, stream, parts, found_at));
                let named = stream.map_or(String::new(), |name| format!("stream {name}, "));
                let text = match parts {
                    1 => format!("{named}{loss}"),
                    _ => format!("{named}{loss}, in {parts} parts with readable ones between"),
                };
                out.notes.push(text);
            }
            let value = bytes(self.known.get(&at).map_or(&[], Vec::as_slice));
            out.entries.push((key(at), value));
        }
        out
    }
}

fn row(loss: &Loss, stream: Option<&str>, parts: usize, found_at: EventTime) -> Row {
    let mut row = json!({
        "kind": "lost",
        "topic": loss.at.topic.0,
        "stream": stream,
        "partition": loss.at.partition.0,
        "first": loss.first.0,
        "end": loss.end.0,
        "found_at": time_value(found_at),
    });
    if parts > 1 {
        row["parts"] = json!(parts);
    }
    Row {
        time: found_at,
        line: row.to_string().into_bytes(),
    }
}

/// The first ones as they are, what is too many as one, with the number of parts.
fn summed(losses: &[Loss]) -> Vec<(Loss, usize)> {
    let single = |loss: &Loss| (*loss, 1);
    if losses.len() <= LOSS_ROWS_MAX {
        return losses.iter().map(single).collect();
    }
    let (first, rest) = losses.split_at(LOSS_ROWS_MAX - 1);
    let end = rest.iter().map(|loss| loss.end).max();
    let sum = rest
        .first()
        .zip(end)
        .map(|(loss, end)| (Loss { end, ..*loss }, rest.len()));
    first.iter().map(single).chain(sum).collect()
}

fn insert(ranges: &mut Ranges, new: (Offset, Offset)) {
    ranges.push(new);
    ranges.sort_unstable();
    let mut merged: Ranges = Vec::new();
    for (first, end) in ranges.drain(..) {
        match merged.last_mut() {
            Some(last) if first <= last.1 => last.1 = last.1.max(end),
            Some(_) | None => merged.push((first, end)),
        }
    }
    *ranges = merged;
}

fn key(at: TopicPartition) -> Vec<u8> {
    let name = format!("{}/{}", at.topic.0, at.partition.0);
    [LOSS_META_PREFIX, name.as_bytes()].concat()
}

fn parse_key(key: &[u8]) -> Option<TopicPartition> {
    let name = std::str::from_utf8(key.strip_prefix(LOSS_META_PREFIX)?).ok()?;
    let (topic, partition) = name.split_once('/')?;
    Some(TopicPartition {
        topic: TopicId(topic.parse().ok()?),
        partition: PartitionId(partition.parse().ok()?),
    })
}

/// The newest ranges, where they are too many: what is forgotten is told again.
fn bytes(ranges: &[(Offset, Offset)]) -> Vec<u8> {
    let kept = &ranges[ranges.len().saturating_sub(LOSS_RANGES_MAX)..];
    let mut out = vec![VERSION];
    put_varint(&mut out, kept.len() as u64);
    for (first, end) in kept {
        put_varint(&mut out, first.0);
        put_varint(&mut out, end.0);
    }
    with_crc(out)
}

fn parse(value: &[u8]) -> Option<Ranges> {
    let mut reader = checked(VERSION, value)?;
    let count = reader.varint().ok()?;
    if count > LOSS_RANGES_MAX as u64 {
        return None;
    }
    let mut number = || reader.varint().ok().map(Offset);
    let ranges = (0..count).map(|_| Some((number()?, number()?)));
    let ranges = ranges.collect::<Option<Ranges>>()?;
    reader.is_at_end().then_some(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::topic::READINGS;

    fn loss(first: u64, end: u64) -> Loss {
        Loss {
            at: TopicPartition {
                topic: READINGS,
                partition: PartitionId(2),
            },
            first: Offset(first),
            end: Offset(end),
        }
    }

    fn told(losses: &[Loss], meta: &[Entry]) -> Told {
        let topics = TopicTable::restore(&[], &BTreeMap::new());
        Losses::restore(meta).tell(losses, &topics, EventTime(1_000_000))
    }

    fn text(row: &Row) -> &str {
        std::str::from_utf8(&row.line).expect("JSON is text")
    }

    #[test]
    fn a_loss_is_told_once_with_all_that_is_known() {
        let first = told(&[loss(5, 9)], &[]);
        assert_eq!(
            text(&first.rows[0]),
            "{\"kind\":\"lost\",\"topic\":0,\"stream\":\"readings\",\"partition\":2,\
             \"first\":5,\"end\":9,\"found_at\":\"1970-01-01T00:00:01Z\"}"
        );
        assert_eq!(
            first.notes,
            ["stream readings, topic 0, partition 2: offsets 5 to 8 are lost"]
        );
        assert_eq!(told(&[loss(5, 9)], &first.entries), Told::default());
        for (name, losses, rows) in [
            ("a part of it", vec![loss(6, 8)], 0),
            ("more than it", vec![loss(5, 10)], 1),
            ("before it", vec![loss(4, 5)], 1),
            ("it and another", vec![loss(5, 9), loss(20, 21)], 1),
            ("nothing", vec![loss(7, 7)], 0),
        ] {
            let again = told(&losses, &first.entries);
            assert_eq!(again.rows.len(), rows, "{name}");
            let kept: BTreeMap<_, _> = first.entries.iter().cloned().chain(again.entries).collect();
            let after = told(&losses, &kept.into_iter().collect::<Vec<_>>());
            assert_eq!(after.rows.len(), 0, "{name}, again");
        }
        let damaged = [(first.entries[0].0.clone(), vec![1, 2])];
        assert_eq!(told(&[loss(5, 9)], &damaged).rows.len(), 1, "told again");
    }

    #[test]
    fn rows_at_their_limit() {
        let many = |count: usize| -> Vec<Loss> {
            (0..count as u64)
                .map(|n| loss(10 * n, 10 * n + 1))
                .collect()
        };
        for count in [
            LOSS_ROWS_MAX - 1,
            LOSS_ROWS_MAX,
            LOSS_ROWS_MAX + 1,
            5 * LOSS_ROWS_MAX,
        ] {
            let told = told(&many(count), &[]);
            assert_eq!(told.rows.len(), count.min(LOSS_ROWS_MAX), "{count}");
            let last = text(told.rows.last().expect("rows"));
            let end = 10 * (count - 1) + 1;
            assert!(last.contains(&format!("\"end\":{end},")), "{count}: {last}");
            let parts = count + 1 - LOSS_ROWS_MAX.min(count);
            let has_parts = last.contains(&format!("\"parts\":{parts}"));
            assert_eq!(has_parts, count > LOSS_ROWS_MAX, "{count}: {last}");
        }
    }

    #[test]
    fn remembered_ranges_at_their_limit() {
        for count in [LOSS_RANGES_MAX - 1, LOSS_RANGES_MAX, LOSS_RANGES_MAX + 1] {
            let ranges: Ranges = (0..count as u64)
                .map(|n| (Offset(2 * n), Offset(2 * n + 1)))
                .collect();
            let kept = count.min(LOSS_RANGES_MAX);
            assert_eq!(
                parse(&bytes(&ranges)),
                Some(ranges[count - kept..].to_vec())
            );
        }
        assert_eq!(parse(b""), None);
    }
}
