//! The ledger of a gateway's devices as a person reads it: for each what the gateway
//! counted over all boots, what the device says of the boot that it is in, and whether
//! both sums close.

use serde_json::Value;

use crate::table::columns;

/// A table of the members `ledger` of a status' devices.
#[must_use]
pub(super) fn text(status: &Value) -> String {
    let devices: Vec<&Value> = status["devices"].as_array().into_iter().flatten().collect();
    if devices.is_empty() {
        return String::from("no device was heard of yet");
    }
    let reasons = reasons(&devices);
    let head = ["device", "produced", "readings", "gaps"].into_iter();
    let head = head.chain(reasons.iter().map(String::as_str));
    let says = ["boot", "produced", "acked", "waiting", "gaps"];
    let head = head.chain(["lost", "missing"]).chain(says);
    let head = head.chain(["closes"]).map(String::from);
    let mut rows = vec![head.collect()];
    rows.extend(devices.iter().map(|device| row(device, &reasons)));
    columns(&rows)
}

/// Reasons for gaps of any of the devices, in order of their names.
fn reasons(devices: &[&Value]) -> Vec<String> {
    let of = |device: &&Value| device["ledger"]["gaps"]["by_reason"].as_object().cloned();
    let mut names: Vec<String> = devices
        .iter()
        .filter_map(of)
        .flatten()
        .filter(|(_, count)| count.as_u64() != Some(0))
        .map(|(name, _)| name)
        .collect();
    names.sort();
    names.dedup();
    names
}

fn row(device: &Value, reasons: &[String]) -> Vec<String> {
    let ledger = &device["ledger"];
    let count = |value: &Value| value.as_u64().map_or(String::from("-"), |n| n.to_string());
    let says = &ledger["device"];
    let mut out = vec![device["device"].as_str().unwrap_or("-").to_owned()];
    out.extend(["produced", "readings"].map(|name| count(&ledger[name])));
    out.push(count(&ledger["gaps"]["total"]));
    let by_reason = &ledger["gaps"]["by_reason"];
    let or_none = |name: &String| by_reason[name].as_u64().unwrap_or_default().to_string();
    out.extend(reasons.iter().map(or_none));
    out.extend(["lost", "missing"].map(|name| count(&ledger[name])));
    out.extend(["boot", "produced", "acked", "waiting"].map(|name| count(&says[name])));
    out.push(count(&says["gaps"]["total"]));
    out.push(match ledger["closes"].as_bool() {
        Some(true) => String::from("yes"),
        Some(false) => format!("NO, off by {}", off(&ledger["off"])),
        None => String::from("-"),
    });
    out
}

/// Which sums do not close, and by how much.
fn off(off: &Value) -> String {
    let sums = ["gateway", "device", "acked"].into_iter();
    let sums = sums.filter(|name| off[*name].as_i64() != Some(0));
    let sums = sums.map(|name| format!("{} ({name})", off[name]));
    sums.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_per_device_says_whether_its_sums_close() {
        let status = json!({ "devices": [
            { "device": "boiler", "ledger": {
                "produced": 112, "readings": 100, "lost": 3, "missing": 2, "closes": true,
                "gaps": { "total": 7, "by_reason": { "ring_full": 7 } },
                "device": { "boot": 4, "produced": 52, "acked": 50, "waiting": 2,
                    "gaps": { "total": 0 } },
            } },
            { "device": "pump", "ledger": {
                "produced": 5, "readings": 5, "lost": 0, "missing": 0, "closes": false,
                "off": { "gateway": 0, "device": -2, "acked": 1 },
                "gaps": { "total": 0, "by_reason": {} }, "device": null,
            } },
            { "device": "new", "ledger": null },
        ] });
        let shown = text(&status);
        let cells: Vec<Vec<&str>> = shown
            .lines()
            .map(|line| {
                line.split("  ")
                    .map(str::trim)
                    .filter(|cell| !cell.is_empty())
            })
            .map(Iterator::collect)
            .collect();
        let head = [
            "device",
            "produced",
            "readings",
            "gaps",
            "ring_full",
            "lost",
            "missing",
            "boot",
            "produced",
            "acked",
            "waiting",
            "gaps",
            "closes",
        ];
        let boiler = [
            "boiler", "112", "100", "7", "7", "3", "2", "4", "52", "50", "2", "0", "yes",
        ];
        let off = "NO, off by -2 (device), 1 (acked)";
        let pump = [
            "pump", "5", "5", "0", "0", "0", "0", "-", "-", "-", "-", "-", off,
        ];
        let new = [
            "new", "-", "-", "-", "0", "-", "-", "-", "-", "-", "-", "-", "-",
        ];
        assert_eq!(cells, [head, boiler, pump, new]);
        let none = text(&json!({ "devices": [] }));
        assert_eq!(none, "no device was heard of yet");
    }
}
