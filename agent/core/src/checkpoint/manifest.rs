//! The head of a checkpoint: which state it is, and of which place in the input.
//! Byte table: `agent/core/docs/checkpoint.md`. Bound: one meta value.

use crate::limits::{JOINS_MAX, META_VALUE_BYTES_MAX, WINDOWS_MAX};
use crate::log::bytes::put_varint;
use crate::meta::{checked, with_crc};
use crate::units::{Offset, TopicId};

const VERSION: u8 = 2;
/// The one before had no changes of tables.
const VERSION_BEFORE: u8 = 1;
/// Topics of windows and joins, `late` and `quarantine`.
const HEADS_MAX: usize = WINDOWS_MAX + JOINS_MAX + 2;
const _: () = assert!(
    2 + 8 + 8 + 10 * (8 + COUNTS) + 13 * HEADS_MAX + 4 <= META_VALUE_BYTES_MAX,
    "a head fits one meta value"
);
/// Counts that are kept beside the state.
pub const COUNTS: usize = 4;

/// Hash of everything that a state depends on beside the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PipelineHash(pub u64);

/// A place in the order in which readings are read: layout by layout, under one
/// layout first what was written before it, span by span, then its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    pub layout: u16,
    pub step: u16,
    pub offset: Offset,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    pub hash: PipelineHash,
    /// Counts the checkpoints of the unit from 1.
    pub epoch: u64,
    /// All readings before it are in the state, and none after.
    pub place: Place,
    /// Number of entries, and their sum, see [`super::Book`].
    pub entries: u64,
    pub sum: u64,
    /// Per topic, the offset of the first row of readings at or after the place.
    pub heads: Vec<(TopicId, Offset)>,
    /// Rows that stood behind the heads are what these readings give: none of what gave
    /// them is missing.
    pub exact: bool,
    /// What the reader had counted.
    pub counts: [u64; COUNTS],
    /// Changes of tables before this offset are in the state, and none after.
    pub applied: Offset,
    /// Of these, such as were gone before they were applied.
    pub changes_missing: u64,
}

impl Manifest {
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION, u8::from(self.exact)];
        out.extend_from_slice(&self.hash.0.to_le_bytes());
        out.extend_from_slice(&self.sum.to_le_bytes());
        let Place {
            layout,
            step,
            offset,
        } = self.place;
        let (layout, step) = (u64::from(layout), u64::from(step));
        for number in [self.epoch, layout, step, offset.0, self.entries] {
            put_varint(&mut out, number);
        }
        self.counts.iter().for_each(|n| put_varint(&mut out, *n));
        put_varint(&mut out, self.heads.len() as u64);
        for (topic, next) in &self.heads {
            put_varint(&mut out, u64::from(topic.0));
            put_varint(&mut out, next.0);
        }
        put_varint(&mut out, self.applied.0);
        put_varint(&mut out, self.changes_missing);
        with_crc(out)
    }

    /// `None` when a version, a CRC or a form is wrong.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let current = checked(VERSION, value);
        let has_changes = current.is_some();
        let mut reader = current.or_else(|| checked(VERSION_BEFORE, value))?;
        let exact = match reader.byte().ok()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let hash = PipelineHash(u64::from_le_bytes(reader.array().ok()?));
        let sum = u64::from_le_bytes(reader.array().ok()?);
        let mut number = || reader.varint().ok();
        let epoch = number()?;
        let place = Place {
            layout: u16::try_from(number()?).ok()?,
            step: u16::try_from(number()?).ok()?,
            offset: Offset(number()?),
        };
        let entries = number()?;
        let mut counts = [0; COUNTS];
        for count in &mut counts {
            *count = number()?;
        }
        let heads = number()?;
        if heads > HEADS_MAX as u64 {
            return None;
        }
        let mut head = || Some((TopicId(u16::try_from(number()?).ok()?), Offset(number()?)));
        let heads = (0..heads).map(|_| head()).collect::<Option<Vec<_>>>()?;
        let (applied, changes_missing) = if has_changes {
            (Offset(reader.varint().ok()?), reader.varint().ok()?)
        } else {
            (Offset(0), 0)
        };
        reader.is_at_end().then_some(Self {
            hash,
            epoch,
            place,
            entries,
            sum,
            heads,
            exact,
            counts,
            applied,
            changes_missing,
        })
    }

    /// Offset of the first row of `topic` that readings from the place on make.
    #[must_use]
    pub fn head(&self, topic: TopicId) -> Option<Offset> {
        let mut heads = self.heads.iter();
        heads.find(|(of, _)| *of == topic).map(|(_, next)| *next)
    }
}
