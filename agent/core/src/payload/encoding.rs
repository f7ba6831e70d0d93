//! How a destination wants its data messages, and one of them as bytes.
//!
//! Always holds: the same records, identity and encoding give the same bytes, and
//! [`DataMessage::parse`](super::DataMessage::parse) reads them back. Bound:
//! MESSAGE_BYTES_MAX, as asserted in limits.rs. Knows no topic and no connection.

use super::data::MessageId;
use super::{compact, readable, squeeze};
use crate::log::block::{Block, BlockError};
use crate::log::decode::decode;
use crate::log::key::StoredBlock;
use crate::record::Missing;

/// Form of one data message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Format {
    /// Readable by anyone.
    #[default]
    Json,
    /// Blocks of the log as they are stored.
    Compact,
}

/// Names of these in the config.
pub const FORMATS: [(Format, &str); 2] = [(Format::Json, "json"), (Format::Compact, "compact")];

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Encoding {
    pub format: Format,
    /// Compress what gets shorter by it.
    pub zstd: bool,
}

impl Encoding {
    /// What stands beside the payload of a message, as MQTT user properties. Compact
    /// messages have only `replayed`: with the rest they would be twice as long where few
    /// readings come together, and who reads them finds the identity in front.
    #[must_use]
    pub fn user_properties(&self, id: &MessageId, replayed: bool) -> Vec<(String, String)> {
        match self.format {
            Format::Json => id.user_properties(replayed),
            Format::Compact => vec![("replayed".to_owned(), replayed.to_string())],
        }
    }

    /// The payload of the records `id.first..=id.last` of a block, all of which it holds.
    ///
    /// # Errors
    /// When the block cannot be read. As a whole and compact, only its head is.
    ///
    /// # Panics
    /// When `id` names offsets that the block does not hold.
    pub fn render(&self, id: &MessageId, stored: &StoredBlock) -> Result<Vec<u8>, BlockError> {
        let payload = match self.format {
            Format::Json => {
                let block = decode(stored.key, &stored.bytes)?;
                readable::render(id, &block)
            }
            Format::Compact => compact::render(id, stored)?,
        };
        Ok(self.squeezed(payload))
    }

    /// The payload of the records `id.first..=id.last` of a block that is at hand read.
    /// `None` when it is to be compact and they do not fit one block: a block that the
    /// log has packed may hold more than a builder takes.
    ///
    /// # Panics
    /// When `id` names offsets that the block does not hold.
    #[must_use]
    pub fn render_block(&self, id: &MessageId, block: &Block) -> Option<Vec<u8>> {
        let payload = match self.format {
            Format::Json => readable::render(id, block),
            Format::Compact => compact::render_block(id, block)?,
        };
        Some(self.squeezed(payload))
    }

    /// The payload that says that the offsets of `id` will never come.
    #[must_use]
    pub fn render_missing(&self, id: &MessageId, reason: Missing) -> Vec<u8> {
        match self.format {
            Format::Json => readable::render_missing(id, reason),
            Format::Compact => compact::render_missing(id, reason),
        }
    }

    fn squeezed(&self, payload: Vec<u8>) -> Vec<u8> {
        if self.zstd {
            squeeze::squeeze(payload)
        } else {
            payload
        }
    }
}
