//! The receiver's ledger as the local socket shows it, and as a person reads it: what is
//! durable, device by device. Bound: as many devices as the core's ledger has.

use std::collections::BTreeMap;

use forebay_core::payload::GatewayName;
use forebay_core::record::GAPS;
use forebay_core::upstream::apply::Applier;
use forebay_core::upstream::ledger::LedgerHead;
use forebay_core::upstream::tally::{BootTally, DeviceTally, Tally};
use forebay_wire::ids::DeviceUid;
use serde_json::{Map, Value, json};

use crate::table::columns;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct LedgerShown {
    head: LedgerHead,
    devices: BTreeMap<(GatewayName, DeviceUid), DeviceTally>,
}

impl LedgerShown {
    /// All of a ledger that was loaded just now.
    pub(super) fn of(applier: &Applier) -> Self {
        let ledger = applier.ledger();
        let devices = ledger.devices();
        Self {
            head: ledger.head(),
            devices: devices
                .map(|(gateway, uid, tally)| ((gateway.clone(), uid), tally.clone()))
                .collect(),
        }
    }

    /// Takes over what became durable with the last commit.
    pub(super) fn update(&mut self, applier: &mut Applier) {
        for (gateway, uid) in applier.take_written_devices() {
            if let Some(tally) = applier.ledger().get(&gateway, uid) {
                self.devices.insert((gateway, uid), tally.clone());
            }
        }
        self.head = applier.ledger().head();
    }

    /// The member `ledger` of a status.
    pub(super) fn to_json(&self) -> Value {
        let devices = self.devices.iter().map(|((gateway, uid), tally)| {
            let mut line = sums(&tally.total());
            line["gateway"] = json!(gateway.as_str());
            line["device"] = json!(uid.to_string());
            line["boots"] = tally.boots().iter().map(boot).collect();
            line
        });
        let others = &self.head.others;
        json!({
            "begun_late": self.head.begun_late,
            "devices": devices.collect::<Vec<_>>(),
            "others": { "readings": others.readings, "gaps": gaps(others) },
        })
    }
}

fn boot(boot: &BootTally) -> Value {
    let mut line = sums(&boot.tally);
    line["boot"] = json!(boot.boot.0);
    line["from"] = json!(boot.from.0);
    line
}

fn sums(tally: &Tally) -> Value {
    json!({
        "produced": tally.produced,
        "readings": tally.readings,
        "gaps": gaps(tally),
        "missing": tally.missing(),
        "twice": tally.twice(),
        "closes": tally.closes(),
    })
}

/// As the gateway's status shows gaps.
fn gaps(tally: &Tally) -> Value {
    let reasons = GAPS.iter().zip(tally.gaps).filter(|(_, count)| *count > 0);
    let reasons: Map<String, Value> = reasons
        .map(|((_, name), count)| ((*name).to_owned(), json!(count)))
        .collect();
    json!({ "total": tally.gap_total(), "by_reason": reasons })
}

/// The member `ledger` of a status as a table: a line per device, and what does not
/// fit one below it.
#[must_use]
pub(super) fn ledger_text(ledger: &Value) -> String {
    let devices: Vec<&Value> = ledger["devices"].as_array().into_iter().flatten().collect();
    let count = |value: &Value| value.as_u64().unwrap_or_default();
    let occurs = |name: &&str| {
        let of = |line: &&Value| count(&line["gaps"]["by_reason"][*name]) > 0;
        devices.iter().any(of)
    };
    let names = GAPS.iter().map(|(_, name)| *name);
    let reasons: Vec<&str> = names.filter(occurs).collect();
    let head = ["device", "gateway", "produced", "readings", "gaps"];
    let head = head
        .iter()
        .chain(&reasons)
        .chain(&["missing", "twice", "closes"]);
    let mut rows = vec![head.map(|cell| String::from(*cell)).collect()];
    for line in &devices {
        let text = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
        let mut row = vec![text("device"), text("gateway")];
        let figures = [&line["produced"], &line["readings"], &line["gaps"]["total"]];
        row.extend(figures.map(|value| count(value).to_string()));
        let by_reason = &line["gaps"]["by_reason"];
        row.extend(
            reasons
                .iter()
                .map(|name| count(&by_reason[*name]).to_string()),
        );
        row.extend(["missing", "twice"].map(|name| count(&line[name]).to_string()));
        row.push(String::from(if line["closes"] == true {
            "yes"
        } else {
            "NO"
        }));
        rows.push(row);
    }
    let mut out = columns(&rows);
    let others = &ledger["others"];
    let (readings, gaps) = (count(&others["readings"]), count(&others["gaps"]["total"]));
    if readings + gaps > 0 {
        out.push_str(&format!(
            "\n{readings} readings and {gaps} in gaps of devices beyond those that are told apart"
        ));
    }
    if ledger["begun_late"] == true {
        out.push_str("\nwhat the sink held before it had a ledger is not in it");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(device: &str, ring_full: u64, missing: u64) -> Value {
        json!({
            "device": device, "gateway": "gw-1", "produced": 10, "readings": 7,
            "gaps": { "total": ring_full, "by_reason": { "ring_full": ring_full } },
            "missing": missing, "twice": 0, "closes": missing == 0,
        })
    }

    #[test]
    fn a_line_per_device_and_only_reasons_that_occur() {
        let none = json!({ "readings": 0, "gaps": { "total": 0 } });
        let ledger = json!({
            "begun_late": false, "others": none,
            "devices": [line("0000000000000001", 3, 0), line("0000000000000002", 0, 3)],
        });
        assert_eq!(
            ledger_text(&ledger),
            "device            gateway  produced  readings  gaps  ring_full  missing  twice  closes\n\
             0000000000000001     gw-1        10         7     3          3        0      0     yes\n\
             0000000000000002     gw-1        10         7     0          0        3      0      NO"
        );
        let ledger = json!({
            "begun_late": true, "others": { "readings": 4, "gaps": { "total": 1 } },
            "devices": [],
        });
        let text = ledger_text(&ledger);
        assert!(
            text.contains("4 readings and 1 in gaps of devices beyond"),
            "{text}"
        );
        assert!(
            text.contains("before it had a ledger") && !text.contains("ring_full"),
            "{text}"
        );
    }
}
