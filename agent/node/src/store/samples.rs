//! Blocks for tests of the store.

use forebay_core::log::appender::Appender;
use forebay_core::log::block::Row;
use forebay_core::log::key::{StoredBlock, TopicPartition};
use forebay_core::units::{Epoch, EventTime, Mono, Offset};

/// A block of `count` rows of `line_bytes` bytes from offset `base` on.
pub(super) fn rows_block(
    at: TopicPartition,
    base: u64,
    count: u64,
    epoch: u32,
    line_bytes: usize,
) -> StoredBlock {
    let mut appender = Appender::rows(at, Epoch(epoch), Offset(base));
    for n in 0..count {
        let mut line = format!("{{\"n\":{},\"e\":{epoch}}}", base + n).into_bytes();
        line.resize(line_bytes.max(line.len()), b' ');
        let row = Row {
            time: EventTime((base + n) as i64),
            line,
        };
        appender.push_row(&row, Mono(0));
    }
    appender.seal();
    let mut sealed: Vec<_> = appender.take_sealed().collect();
    assert_eq!(sealed.len(), 1, "one block");
    sealed.remove(0)
}
