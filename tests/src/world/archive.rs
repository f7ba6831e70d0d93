//! Everything that was ever durable in a world's log, whatever the log has dropped
//! since. Holds always: an offset is given once.

use std::collections::BTreeMap;

use forebay_core::log::block::{Body, GapRecord, ReadingRecord, Record, Series};
use forebay_core::log::decode::decode;
use forebay_core::log::key::TopicPartition;
use forebay_core::log::topic::READINGS;
use forebay_core::record::{ClockRecord, TablesRecord};
use forebay_core::store::WriteBatch;

/// One record of the log.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    Reading(Series, ReadingRecord),
    Gap(GapRecord),
    Clock(ClockRecord),
    Tables(TablesRecord),
    Row(String),
}

/// See the module.
#[derive(Debug, Default)]
pub struct Archive {
    places: BTreeMap<TopicPartition, BTreeMap<u64, Entry>>,
}

impl Archive {
    /// A batch became durable.
    pub fn add(&mut self, batch: &WriteBatch) {
        for stored in &batch.blocks {
            let block = decode(stored.key, &stored.bytes).expect("a block of ours");
            let entries: Vec<Entry> = match block.body {
                Body::Rows(rows) => {
                    let text = |line| String::from_utf8(line).expect("JSON is text");
                    rows.into_iter()
                        .map(|row| Entry::Row(text(row.line)))
                        .collect()
                }
                Body::Readings { series, records } => records
                    .into_iter()
                    .map(|record| match record {
                        Record::Reading(reading) => {
                            Entry::Reading(series[usize::from(reading.series)].clone(), reading)
                        }
                        Record::Gap(gap) => Entry::Gap(gap),
                        Record::Clock(clock) => Entry::Clock(clock),
                        Record::Tables(tables) => Entry::Tables(tables),
                    })
                    .collect(),
            };
            let place = self.places.entry(stored.key.at).or_default();
            for (offset, entry) in (stored.key.base.0..).zip(entries) {
                let before = place.insert(offset, entry);
                assert_eq!(
                    before, None,
                    "offset {offset} of {:?} given twice",
                    stored.key.at
                );
            }
        }
    }

    /// All partitions with their records by offset.
    pub fn places(&self) -> impl Iterator<Item = (TopicPartition, &BTreeMap<u64, Entry>)> {
        self.places.iter().map(|(at, place)| (*at, place))
    }

    /// Records of one partition.
    #[must_use]
    pub fn place(&self, at: TopicPartition) -> Option<&BTreeMap<u64, Entry>> {
        self.places.get(&at)
    }

    /// Readings, gaps and clocks of all partitions.
    pub fn readings(&self) -> impl Iterator<Item = &Entry> {
        let readings = self.places.iter().filter(|(at, _)| at.topic == READINGS);
        readings.flat_map(|(_, place)| place.values())
    }
}
