//! The ports' side of `forebay status`: where each port is, whether it is open,
//! and what went wrong with it. The core knows ports by number only.

use serde_json::{Value, json};

use crate::ports::PortStatus;

/// Adds what the process knows of each port to what the core knows of it.
pub(super) fn with_ports(mut status: Value, ports: &[PortStatus]) -> Value {
    let known = status.get_mut("ports").map(Value::take);
    let known: Vec<Value> = match known {
        Some(Value::Array(known)) => known,
        Some(_) | None => Vec::new(),
    };
    let merged = ports.iter().map(|port| {
        let mut merged = json!({
            "port": port.id.0,
            "name": port.name,
            "place": port.place,
            "state": port.state.name(),
            "bytes_in": port.bytes_in,
            "bytes_out": port.bytes_out,
            "opens": port.opens,
            "dropped_writes": port.dropped_writes,
            "last_error": port.last_error,
        });
        let link = known.iter().find(|link| link["port"] == port.id.0);
        for (name, value) in link.and_then(Value::as_object).into_iter().flatten() {
            merged[name] = value.clone();
        }
        merged
    });
    status["ports"] = merged.collect();
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::{PortId, PortState};

    fn port(id: u32, state: PortState) -> PortStatus {
        PortStatus {
            id: PortId(id),
            name: format!("p{id}"),
            place: String::from("/dev/ttyUSB0"),
            state,
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
        let status = with_ports(core, &ports);
        assert_eq!(status["received"], 3);
        assert_eq!(status["ports"][0]["state"], "waiting");
        assert_eq!(status["ports"][0]["frames_ok"], Value::Null);
        assert_eq!(status["ports"][1]["state"], "open");
        assert_eq!(status["ports"][1]["frames_ok"], 5);
    }
}
