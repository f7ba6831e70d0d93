//! Memory that a receiver's marks take: bytes on the heap after something of each
//! partition of each gateway was applied.

use forebay_core::payload::{Encoding, GatewayName, MessageId, StreamName};
use forebay_core::record::Missing;
use forebay_core::units::{Epoch, EpochNonce, LogId, Mono, Offset, PartitionId};
use forebay_core::upstream::apply::{Applier, Outcome};

use super::limits::{GATEWAYS, MARKS_BYTES_MAX, PARTITIONS};
use super::row;
use crate::memory;
use crate::table::Row;

pub(super) fn run(quick: bool) -> Result<Vec<Row>, String> {
    let gateways = if quick { GATEWAYS / 10 } else { GATEWAYS };
    let before = memory::start();
    let mut applier = Applier::default();
    for gateway in 0..gateways {
        apply(&mut applier, gateway)?;
    }
    let bytes = (memory::stop() - before) as f64;
    let partitions = f64::from(gateways) * f64::from(PARTITIONS);
    drop(applier);
    let all = bytes / partitions * f64::from(GATEWAYS) * f64::from(PARTITIONS);
    Ok(vec![row(
        format!("memory of marks, {GATEWAYS} gateways of {PARTITIONS} partitions"),
        "one opening each".into(),
        format!(
            "{:.1} MB, {:.0} bytes a partition",
            all / 1e6,
            bytes / partitions
        ),
        Some((all, MARKS_BYTES_MAX, false)),
        "<= 40 MB".into(),
    )])
}

/// A first message of each partition of a gateway.
fn apply(applier: &mut Applier, number: u32) -> Result<(), String> {
    let name = |error: forebay_core::payload::BadName| error.to_string();
    let gateway = GatewayName::new(&format!("gateway-{number}")).map_err(name)?;
    let stream = StreamName::new("readings").map_err(name)?;
    let mut log_id = [0; 16];
    log_id[..4].copy_from_slice(&number.to_be_bytes());
    for partition in 0..PARTITIONS {
        let id = MessageId {
            gateway: gateway.clone(),
            log_id: LogId(log_id),
            epoch: Epoch(1),
            nonce: EpochNonce(1),
            stream: stream.clone(),
            partition: PartitionId(partition),
            first: Offset(0),
            last: Offset(999),
        };
        let topic = gateway.data_topic(&stream, PartitionId(partition));
        let payload = Encoding::default().render_missing(&id, Missing::Trimmed);
        let outcome = applier.handle(&topic, payload.into());
        if !matches!(outcome, Outcome::Taken { .. }) {
            return Err(format!("{topic}: {outcome:?}"));
        }
        drop(applier.take_batch());
        applier.committed(Mono(0));
    }
    Ok(())
}
