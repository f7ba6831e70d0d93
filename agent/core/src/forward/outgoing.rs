//! A message that is to be handed over, made of what a place gives out. Knows no
//! connection.

use super::giving::{Next, What};
use super::lineage::Lineage;
use super::place::Place;
use crate::log::decode::decode_head;
use crate::log::key::StoredBlock;
use crate::payload::{Encoding, GatewayName, MessageId, Origin};
use crate::record::Missing;
use crate::units::{Epoch, EpochNonce, Offset};

/// Opening of the word that a broker does not take records: no log has it, so that they
/// are first deliveries if they come after all.
const REFUSED_OPENING: (Epoch, EpochNonce) = (Epoch(0), EpochNonce::UNKNOWN);

/// See the module.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub id: MessageId,
    pub payload: Vec<u8>,
    /// It says that records are missing.
    pub declares: bool,
}

impl Outgoing {
    /// Renders what comes next; a block that does not read becomes a hole.
    pub(super) fn of(
        next: &mut Next,
        place: &Place,
        gateway: &GatewayName,
        (lineage, encoding): (&Lineage, Encoding),
    ) -> Self {
        let origin = Origin {
            gateway,
            log_id: lineage.log_id,
            stream: &place.stream,
            partition: place.at.partition,
        };
        let last = Offset(next.end.0 - 1);
        let reason = match &next.what {
            What::Missing(reason) => *reason,
            What::Block(stored) => {
                match of_block(stored, (next.first, last), &origin, (lineage, encoding)) {
                    Some((id, payload)) => {
                        return Self {
                            id,
                            payload,
                            declares: false,
                        };
                    }
                    None => Missing::Lost,
                }
            }
        };
        next.what = What::Missing(reason);
        let opening = match reason {
            Missing::Refused => REFUSED_OPENING,
            Missing::Trimmed | Missing::Lost | Missing::Expired => {
                let current = lineage.current();
                (current.epoch, EpochNonce(current.nonce))
            }
        };
        let id = origin.of_offsets(opening, next.first, last);
        Self {
            payload: encoding.render_missing(&id, reason),
            id,
            declares: true,
        }
    }
}

/// `None` when the block cannot be read.
fn of_block(
    stored: &StoredBlock,
    (first, last): (Offset, Offset),
    origin: &Origin<'_>,
    (lineage, encoding): (&Lineage, Encoding),
) -> Option<(MessageId, Vec<u8>)> {
    let head = decode_head(stored.key, &stored.bytes).ok()?;
    let nonce = EpochNonce(lineage.nonce(head.epoch));
    let id = origin.of_offsets((head.epoch, nonce), first, last);
    let payload = encoding.render(&id, stored).ok()?;
    Some((id, payload))
}
