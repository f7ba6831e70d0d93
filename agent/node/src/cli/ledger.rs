//! The ledger of a gateway's devices as a person reads it: for each what the device
//! says of the boot that runs, what the gateway counted over all boots, and whether
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
    let head = [
        "device", "produced", "acked", "waiting", "taken", "readings",
    ];
    let head = head.iter().copied().chain(["gaps"]);
    let head = head.chain(reasons.iter().map(String::as_str));
    let head = head.chain(["lost", "closes"]).map(String::from);
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
    out.extend(["produced", "acked", "waiting"].map(|name| count(&says[name])));
    out.extend(["taken", "readings"].map(|name| count(&ledger[name])));
    out.push(count(&ledger["gaps"]["total"]));
    let by_reason = &ledger["gaps"]["by_reason"];
    let or_none = |name: &String| by_reason[name].as_u64().unwrap_or_default().to_string();
    out.extend(reasons.iter().map(or_none));
    out.push(count(&ledger["lost"]));
    out.push(match ledger["closes"].as_bool() {
        Some(true) => String::from("yes"),
        Some(false) => format!("NO, off by {}", ledger["off"]),
        None => String::from("-"),
    });
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_per_device_says_whether_its_sums_close() {
        let status = json!({ "devices": [
            { "device": "boiler", "ledger": {
                "taken": 110, "readings": 100, "lost": 3, "off": 0, "closes": true,
                "gaps": { "total": 7, "by_reason": { "ring_full": 7 } },
                "device": { "produced": 112, "acked": 103, "waiting": 2 },
            } },
            { "device": "pump", "ledger": {
                "taken": 5, "readings": 5, "lost": 0, "off": 2, "closes": false,
                "gaps": { "total": 0, "by_reason": {} }, "device": null,
            } },
            { "device": "new", "ledger": null },
        ] });
        assert_eq!(
            text(&status),
            "device  produced  acked  waiting  taken  readings  gaps  ring_full  lost        closes\n\
             boiler       112    103        2    110       100     7          7     3           yes\n\
             pump           -      -        -      5         5     0          0     0  NO, off by 2\n\
             new            -      -        -      -         -     -          0     -             -"
        );
        assert_eq!(
            text(&json!({ "devices": [] })),
            "no device was heard of yet"
        );
    }
}
