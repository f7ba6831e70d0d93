//! Golden bytes, by the schema of the specification. The rules are tested against a host of
//! its own in `tests/tests/sparkplug`.

use std::sync::Arc;

use forebay_wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use forebay_wire::message::Quality;

use super::*;
use crate::payload::GatewayName;
use crate::record::{ReadingRecord, Record, Series, ValueKind};
use crate::units::EventTime;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn id() -> NodeId {
    NodeId::new("plant", &GatewayName::new("g1").unwrap()).unwrap()
}

#[test]
fn a_death_has_these_bytes() {
    for (attempt, value) in [(0, "00"), (1, "01"), (127, "7f"), (256, "00"), (257, "01")] {
        let death = id().death(attempt);
        assert_eq!(death.topic, "spBv1.0/plant/NDEATH/g1");
        // Metric of 11 bytes: name, type Int64, long value.
        let want = format!("120b0a05626453657120{}58{value}", "04");
        assert_eq!(hex(&death.payload), want, "{attempt}");
    }
    assert!(hex(&id().death(255).payload).ends_with("58ff01"));
}

#[test]
fn births_and_data_have_these_bytes() {
    let mut node = EdgeNode::new(id());
    node.on_connected(3);
    let series = Series {
        uid: DeviceUid([0, 0, 0, 0, 0, 0, 0, 9]),
        boot: BootId(1),
        channel: ChannelNo(0),
        kind: ValueKind::Scaled { scale: 1 },
        name: Arc::from("t"),
        unit: Arc::from("K"),
    };
    let reading = |value, quality| {
        Record::Reading(ReadingRecord {
            series: 0,
            ordinal: Ordinal(0),
            tick: Tick(0),
            time: EventTime(2_000_500),
            uncertainty_us: 0,
            value,
            quality,
        })
    };
    let records = [reading(25, Quality::Ok), reading(0, Quality::Stale)];
    let sending = Sending {
        now: EventTime(3_000_000),
        historical: true,
        bytes_max: 1000,
    };
    let out = node.of_readings(&[series], &records, &sending);
    let said: Vec<_> = out
        .iter()
        .map(|message| (message.topic.as_str(), hex(&message.payload)))
        .collect();
    // Time 3000 is b817, 2000 is d00f.
    let rebirth = "4e6f646520436f6e74726f6c2f52656269727468";
    let unit = concat!("4a10", "0a07656e67556e6974", "1205", "080c42014b");
    let quality = concat!("4a10", "0a075175616c697479", "1205", "080318f403");
    let want = [
        (
            "spBv1.0/plant/NBIRTH/g1",
            format!(
                "08b817{}{}1800",
                "120e0a05626453657118b81720045803",
                format_args!("121d0a14{rebirth}18b817200b7000"),
            ),
        ),
        (
            "spBv1.0/plant/DBIRTH/g1/0000000000000009",
            format!(
                "08b817{}1801",
                format_args!("121e0a0174100118b817200a3801{unit}")
            ),
        ),
        (
            "spBv1.0/plant/DDATA/g1/0000000000000009",
            format!(
                "08b817{}{}1802",
                "1210100118d00f2801690000000000000440",
                format_args!("121b100118d00f28013801{quality}"),
            ),
        ),
    ];
    for (said, want) in said.iter().zip(&want) {
        assert_eq!(said, want);
    }
    assert_eq!(said.len(), want.len());
}
