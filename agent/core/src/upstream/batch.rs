//! One transaction of the receiver, as every sink gets it: messages of which
//! something is new, and entries of the tables Marks, Meta and Rejected.
//!
//! Always holds: messages and the marks that call them applied are in one batch.
//! What a sink makes of a message is its own; entries it stores as they are. Bound:
//! set by who gathers. Knows no sink.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::keys::gateway_of_mark;
use super::ranges::OffsetRange;
use crate::payload::{DataMessage, GatewayName};

/// Tables of a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    Rows,
    Marks,
    Meta,
    Rejected,
}

/// One entry of the tables Marks, Meta or Rejected: set or removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryWrite {
    pub table: Table,
    pub key: Vec<u8>,
    /// `None` removes the key.
    pub value: Option<Vec<u8>>,
}

/// A message of which something is new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    pub message: Arc<DataMessage>,
    /// As it came, decompressed.
    pub payload: Bytes,
    /// The offsets of it that are new: in order, not empty, inside of the message.
    pub fresh: Vec<OffsetRange>,
}

/// See the module's text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// What is new, in order of arrival.
    pub applied: Vec<Applied>,
    /// Marks, meta and rejected entries; each key once.
    pub entries: Vec<EntryWrite>,
    /// Version that the state of each touched gateway had when this was judged; 0 is
    /// a new one. The sink refuses the batch when it holds another version of any,
    /// and else writes this one plus 1. Each once; [`shared`] is among them when
    /// entries of no gateway are.
    pub gateways: Vec<(GatewayName, u64)>,
}

impl Batch {
    /// Nothing is to be written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.applied.is_empty() && self.entries.is_empty()
    }
}

/// What a sink holds of the tables Marks and Meta, and the versions: of all gateways
/// or of one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    pub marks: Vec<(Vec<u8>, Vec<u8>)>,
    pub meta: Vec<(Vec<u8>, Vec<u8>)>,
    pub versions: BTreeMap<GatewayName, u64>,
}

const SHARED: &str = ".";

/// Who owns the entries that are of no gateway. Data of a gateway of this name is
/// rejected.
#[must_use]
pub fn shared() -> GatewayName {
    GatewayName::new(SHARED).expect("a dot is a name")
}

/// Whether this is [`shared`].
#[must_use]
pub fn is_shared(gateway: &GatewayName) -> bool {
    gateway.as_str() == SHARED
}

/// Whose version guards an entry: that of the gateway that it is of, or of
/// [`shared`]. For sinks that load the entries of one gateway.
#[must_use]
pub fn owner(table: Table, key: &[u8]) -> GatewayName {
    let gateway = match table {
        Table::Rows | Table::Marks => gateway_of_mark(key),
        Table::Meta => gateway_of_meta(key),
        Table::Rejected => None,
    };
    gateway.unwrap_or_else(shared)
}

/// Meta entries of a gateway are `<what>.<gateway>`, and more behind a zero byte.
fn gateway_of_meta(key: &[u8]) -> Option<GatewayName> {
    let dot = key.iter().position(|byte| *byte == b'.')?;
    let name = key[dot + 1..].split(|byte| *byte == 0).next()?;
    GatewayName::new(std::str::from_utf8(name).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_belong_to_their_gateway_or_to_all() {
        for (table, key, want) in [
            (Table::Marks, &b"gw-1\0and more"[..], "gw-1"),
            (Table::Marks, b"no end", "."),
            (Table::Meta, b"session", "."),
            (Table::Meta, b"current.a.b", "a.b"),
            (Table::Meta, b"device.gw\0\x01\x2e\0", "gw"),
            (Table::Meta, b"current.", "."),
            (Table::Rejected, b"\0\0", "."),
        ] {
            assert_eq!(owner(table, key).as_str(), want, "{key:?}");
        }
    }
}
