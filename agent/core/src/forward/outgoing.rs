//! A message that is to be handed over, made of what a place gives out. Knows no
//! connection.

use super::place::{Next, Place};
use crate::log::decode::decode;
use crate::payload::{DataMessage, GatewayName, MessageId};
use crate::store::StoreInfo;
use crate::units::Offset;

/// See the module.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub id: MessageId,
    /// Offset after its last record.
    pub end: Offset,
    pub payload: Vec<u8>,
}

impl Outgoing {
    /// `None` when the place has passed something over and gives nothing for it.
    pub(super) fn of(
        next: Next,
        place: &mut Place,
        gateway: &GatewayName,
        info: &StoreInfo,
    ) -> Option<Self> {
        let (first, end, reason) = match next {
            Next::Parked => return None,
            Next::Missing(first, end, reason) => (first, end, reason),
            Next::Block(stored, from, end) => match decode(stored.key, &stored.bytes) {
                Ok(block) => {
                    let block = block.starting_at(from);
                    let id = MessageId::of(gateway, info.log_id, &place.stream, &block);
                    let payload = DataMessage::render(&id, &block);
                    return Some(Self { id, end, payload });
                }
                Err(_) => {
                    let first = stored.key.base;
                    (first, end, place.count_missing(first, end))
                }
            },
        };
        let id = MessageId {
            gateway: gateway.clone(),
            log_id: info.log_id,
            epoch: info.epoch,
            stream: place.stream.clone(),
            partition: place.at.partition,
            first,
            last: Offset(end.0 - 1),
        };
        let payload = DataMessage::render_missing(&id, reason);
        Some(Self { id, end, payload })
    }
}
