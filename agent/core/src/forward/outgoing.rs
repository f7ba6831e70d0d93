//! A message that is to be handed over, made of what a place gives out. Knows no
//! connection.

use super::place::{Next, Place};
use crate::log::decode::decode_head;
use crate::log::key::StoredBlock;
use crate::payload::{Encoding, GatewayName, MessageId, Origin};
use crate::store::StoreInfo;
use crate::units::{Epoch, EpochNonce, Offset};

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
        let encoding = Encoding::default();
        let (first, end, reason) = match next {
            Next::Parked => return None,
            Next::Missing(first, end, reason) => (first, end, reason),
            Next::Block(stored, from, end) => {
                let origin = origin(gateway, info, place);
                match whole(&encoding, &origin, info, (&stored, from)) {
                    Some((id, payload)) => return Some(Self { id, end, payload }),
                    None => {
                        let first = stored.key.base;
                        (first, end, place.count_missing(first, end))
                    }
                }
            }
        };
        let opening = (info.epoch, EpochNonce(info.nonce));
        let last = Offset(end.0 - 1);
        let id = origin(gateway, info, place).of_offsets(opening, first, last);
        let payload = encoding.render_missing(&id, reason);
        Some(Self { id, end, payload })
    }
}

fn origin<'a>(gateway: &'a GatewayName, info: &StoreInfo, place: &'a Place) -> Origin<'a> {
    Origin {
        gateway,
        log_id: info.log_id,
        stream: &place.stream,
        partition: place.at.partition,
    }
}

/// The records of a block from `from` on, all of them where that would leave none; `None`
/// when it cannot be read.
fn whole(
    encoding: &Encoding,
    origin: &Origin<'_>,
    info: &StoreInfo,
    (stored, from): (&StoredBlock, Offset),
) -> Option<(MessageId, Vec<u8>)> {
    let head = decode_head(stored.key, &stored.bytes).ok()?;
    let mut id = origin.of_head(&head, nonce_of(head.epoch, info));
    if from > id.first && from <= id.last {
        id.first = from;
    }
    let payload = encoding.render(&id, stored).ok()?;
    Some((id, payload))
}

/// What was drawn at the opening `epoch`, where that is this one.
fn nonce_of(epoch: Epoch, info: &StoreInfo) -> EpochNonce {
    if epoch == info.epoch {
        EpochNonce(info.nonce)
    } else {
        EpochNonce::UNKNOWN
    }
}
