//! The process's side of `forebay status`: where each port is, whether it is open, and
//! what went wrong with it; what sources have read. The core knows ports by number and
//! sources by name only.

use std::collections::BTreeMap;

use forebay_core::query::{Reply, Written};
use forebay_core::units::Mono;
use serde_json::{Map, Value, json};

use crate::ports::{PortStatus, UsbId};

/// Adds what the process knows of each port to what the core knows of it.
pub(super) fn with_ports(mut status: Reply, ports: &[PortStatus], now: Mono) -> Reply {
    let known = status.object_mut().get_mut("ports").map(Value::take);
    let known: Vec<Value> = match known {
        Some(Value::Array(known)) => known,
        Some(_) | None => Vec::new(),
    };
    let number = |link: &Value| link["port"].as_u64();
    let mut known: BTreeMap<_, _> = known
        .into_iter()
        .filter_map(|link| Some((number(&link)?, link)))
        .collect();
    let mut all = Written::default();
    for port in ports {
        let mut merged = json!({
            "port": port.id.0,
            "name": port.name,
            "place": port.place,
            "state": port.state.name(),
            // Whole seconds in this state.
            "state_s": now.0.saturating_sub(port.since.0) / 1_000_000,
            "tty": port.tty,
            "usb": port.usb.as_ref().map(usb),
            "baud": port.baud.map(|baud| baud.0),
            "latency_ms": port.latency_ms,
            "bytes_in": port.bytes_in,
            "bytes_out": port.bytes_out,
            "opens": port.opens,
            "dropped_writes": port.dropped_writes,
            "last_error": port.last_error,
        });
        if let Some(Value::Object(link)) = known.remove(&port.id.0.into()) {
            for (name, value) in link {
                merged[name] = value;
            }
        }
        all.push(&merged);
    }
    status.with("ports", all)
}

/// Adds what the process knows of each source to what the core knows of it, and to each
/// table that is told of the source that feeds it.
pub(super) fn with_sources(mut reply: Reply, figures: &Map<String, Value>) -> Reply {
    let answer = reply.object_mut();
    let known = answer.get_mut("sources").map(Value::take);
    let mut sources: Vec<Value> = match known {
        Some(Value::Array(known)) => known,
        Some(_) | None => return reply,
    };
    for source in &mut sources {
        let name = source["name"].as_str().unwrap_or_default();
        let figures = figures.get(name).and_then(Value::as_object);
        for (name, value) in figures.into_iter().flatten() {
            source[name] = value.clone();
        }
    }
    for table in answer["tables"].as_array_mut().into_iter().flatten() {
        let feeds = |source: &&Value| {
            let tables = source["tables"].as_array();
            tables.is_some_and(|tables| tables.contains(&table["table"]))
        };
        // One of the config is there, and its rows change with the config only.
        let of_config = json!({ "kind": "config", "state": "streaming" });
        let source = sources.iter().find(feeds).cloned();
        table["source"] = source.unwrap_or(of_config);
    }
    answer["sources"] = sources.into();
    reply
}

/// As the config names it.
fn usb(id: &UsbId) -> Value {
    json!({
        "usb": id.config_text(),
        "vendor": format!("{:04x}", id.vendor),
        "product": format!("{:04x}", id.product),
        "serial": id.serial,
        "interface": id.interface,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::{Baud, PortId, PortState};

    fn port(id: u32, state: PortState) -> PortStatus {
        PortStatus {
            id: PortId(id),
            name: format!("p{id}"),
            place: String::from("/dev/ttyUSB0"),
            state,
            since: Mono(1_000_000),
            tty: None,
            usb: None,
            baud: None,
            latency_ms: None,
            bytes_in: 7,
            bytes_out: 0,
            opens: 1,
            dropped_writes: 0,
            last_error: None,
        }
    }

    #[test]
    fn both_halves_of_a_port_come_together() {
        let core = json!({"received": 3, "ports": [{"port": 1, "frames_ok": 5}]});
        let ports = [port(0, PortState::Waiting), port(1, PortState::Open)];
        let status = with_ports(core.into(), &ports, Mono(3_999_999)).into_value();
        assert_eq!(status["received"], 3);
        assert_eq!(status["ports"][0]["state"], "waiting");
        assert_eq!(status["ports"][0]["frames_ok"], Value::Null);
        assert_eq!(status["ports"][1]["state"], "open");
        assert_eq!(status["ports"][1]["frames_ok"], 5);
        assert_eq!(status["ports"][0]["state_s"], 2);
        assert_eq!(status["ports"][0]["usb"], Value::Null);
    }

    #[test]
    fn both_halves_of_a_source_come_together_beside_its_tables() {
        let core = json!({
            "sources": [{ "name": "sites", "tables": ["sites"], "state": "waiting", "why": "x" }],
            "tables": [{ "table": "sites", "rows": 3 }, { "table": "limits" }],
        });
        let figures = json!({ "sites": { "kind": "file", "malformed": 2 } });
        let figures = figures.as_object().expect("an object");
        let answer = with_sources(core.into(), figures).into_value();
        assert_eq!(answer["sources"][0]["malformed"], 2);
        let sites = &answer["tables"][0];
        assert_eq!(
            (&sites["rows"], &sites["source"]["why"]),
            (&json!(3), &json!("x"))
        );
        assert_eq!(sites["source"]["kind"], "file");
        assert_eq!(answer["tables"][1]["source"]["kind"], "config");
        let nothing = Reply::from(json!({}));
        assert_eq!(with_sources(nothing.clone(), &Map::new()), nothing);
    }

    #[test]
    fn a_port_says_who_its_board_is() {
        let mut port = port(0, PortState::Open);
        port.tty = Some(String::from("/dev/ttyACM3"));
        port.baud = Some(Baud(115_200));
        port.usb = Some(UsbId {
            vendor: 0x2e8a,
            product: 0xa,
            serial: Some(String::from("E661")),
            interface: Some(0),
        });
        let status = with_ports(json!({}).into(), &[port], Mono(0)).into_value();
        let port = &status["ports"][0];
        assert_eq!(port["tty"], "/dev/ttyACM3");
        assert_eq!(port["baud"], 115_200);
        assert_eq!(port["state_s"], 0);
        let want = json!({
            "usb": "2e8a:000a:E661", "vendor": "2e8a", "product": "000a",
            "serial": "E661", "interface": 0,
        });
        assert_eq!(port["usb"], want);
    }
}
