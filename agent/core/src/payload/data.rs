//! What a data message says: who sent which offsets, and what stands there.
//!
//! Always holds: the identity names the opening of the log in which the records were
//! written, so that what is equal by it is the same data. Bound: MESSAGE_BYTES_MAX and
//! BLOCK_RECORDS_MAX. Knows no format and no topic.

use super::PAYLOAD_VERSION;
use super::json::PayloadError;
use super::names::{GatewayName, StreamName};
use super::{compact, parse, squeeze};
use crate::log::block::{Block, BlockHead};
use crate::record::{Missing, Record, Series};
use crate::units::{Epoch, EpochNonce, LogId, Offset, PartitionId};

/// Identity of what is sent. Never less: a wiped disk, a restored backup or a
/// lost tail would make new data look like old.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    pub gateway: GatewayName,
    pub log_id: LogId,
    /// Opening of the log in which the records were written.
    pub epoch: Epoch,
    /// Drawn at that opening.
    pub nonce: EpochNonce,
    pub stream: StreamName,
    pub partition: PartitionId,
    /// Offset of the first record.
    pub first: Offset,
    /// Offset of the last record, itself included.
    pub last: Offset,
}

/// What the message carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataBody {
    /// At least one record. A tick is 0 where the format does not carry it.
    Readings {
        series: Vec<Series>,
        records: Vec<Record>,
    },
    /// JSON objects as the gateway's engine wrote them; at least one.
    Rows(Vec<Vec<u8>>),
    /// Nothing: no record of these offsets will ever come.
    Missing(Missing),
}

impl DataBody {
    /// Records that it has; `None` when it says that there are none.
    #[must_use]
    pub fn records(&self) -> Option<usize> {
        match self {
            Self::Readings { records, .. } => Some(records.len()),
            Self::Rows(rows) => Some(rows.len()),
            Self::Missing(_) => None,
        }
    }
}

/// A data message as read by the upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataMessage {
    pub id: MessageId,
    pub body: DataBody,
}

/// Whose log it is, and what each message of one of its partitions says alike.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    pub gateway: &'a GatewayName,
    pub log_id: LogId,
    pub stream: &'a StreamName,
    pub partition: PartitionId,
}

impl Origin<'_> {
    /// Identity of the records of the block with this head.
    #[must_use]
    pub fn of_head(&self, head: &BlockHead, nonce: EpochNonce) -> MessageId {
        let last = Offset(head.end().0 - 1);
        self.of_offsets((head.epoch, nonce), head.base, last)
    }

    /// Identity of `first..=last`, written in this opening.
    #[must_use]
    pub fn of_offsets(
        &self,
        (epoch, nonce): (Epoch, EpochNonce),
        first: Offset,
        last: Offset,
    ) -> MessageId {
        MessageId {
            gateway: self.gateway.clone(),
            log_id: self.log_id,
            epoch,
            nonce,
            stream: self.stream.clone(),
            partition: self.partition,
            first,
            last,
        }
    }
}

impl MessageId {
    /// Identity of `block`, which holds at least one record.
    #[must_use]
    pub fn of(
        gateway: &GatewayName,
        log_id: LogId,
        nonce: EpochNonce,
        stream: &StreamName,
        block: &Block,
    ) -> Self {
        assert!(!block.body.is_empty(), "a block without records");
        let origin = Origin {
            gateway,
            log_id,
            stream,
            partition: block.at.partition,
        };
        let last = Offset(block.end().0 - 1);
        origin.of_offsets((block.epoch, nonce), block.base, last)
    }

    /// The identity as MQTT user properties, for those that route without
    /// reading payloads. `replayed` marks what is sent again or late.
    pub(super) fn user_properties(&self, replayed: bool) -> Vec<(String, String)> {
        let pair = |key: &str, value: String| (key.to_owned(), value);
        vec![
            pair("v", PAYLOAD_VERSION.to_string()),
            pair("gateway", self.gateway.to_string()),
            pair("log_id", self.log_id.to_string()),
            pair("epoch", self.epoch.0.to_string()),
            pair("nonce", self.nonce.to_string()),
            pair("first_offset", self.first.0.to_string()),
            pair("last_offset", self.last.0.to_string()),
            pair("replayed", replayed.to_string()),
        ]
    }
}

impl DataMessage {
    /// Reads a payload of any format but sparkplug-b; which one, it finds out by its
    /// first bytes.
    ///
    /// # Errors
    /// With the byte where it stopped, when it is no data message, too large,
    /// of a newer version, or when offsets and records do not agree.
    pub fn parse(payload: &[u8]) -> Result<Self, PayloadError> {
        let plain = squeeze::plain(payload)?;
        if compact::is_compact(&plain) {
            compact::parse(&plain)
        } else {
            parse::parse(&plain)
        }
    }
}
