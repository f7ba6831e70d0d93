//! Which topics there are. Numbers are stored in keys: append only.

use crate::units::TopicId;

/// Raw readings and gaps, by device.
pub const READINGS: TopicId = TopicId(0);
/// What is no reading but changes a result.
pub const CONTROL: TopicId = TopicId(1);
/// Readings that were late for every window.
pub const LATE: TopicId = TopicId(2);
/// Readings that are kept but believed by nobody.
pub const QUARANTINE: TopicId = TopicId(3);
/// Readings once more, of all partitions in one order, for windows that cross devices.
pub const EXCHANGE: TopicId = TopicId(4);
/// Changes of tables, in one partition and in the order in which they were taken; what a
/// line is, `agent/core/docs/changes.md` says.
pub const CHANGES: TopicId = TopicId(5);
/// Derived streams take numbers from here up, one per definition.
pub const DERIVED_FIRST: TopicId = TopicId(16);
