//! The demo's own figures, and how they read. Knows no terminal and no clock; the live
//! view is [`crate::top`].

use std::time::Duration;

use serde_json::{Value, json};

/// How many readings have come how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    pub produced: u64,
    pub received: u64,
    pub stored: u64,
    pub forwarded: u64,
    pub applied: u64,
    pub duplicates: u64,
    pub gaps: u64,
    /// From the start to the first ack that a device heard; `None` before.
    pub first_ack_ms: Option<u64>,
}

impl Counters {
    /// Readings that are neither applied nor in a declared gap: on their way while
    /// the demo runs, lost when they still are after the drain.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.produced
            .saturating_sub(self.applied.saturating_add(self.gaps))
    }

    /// The demo's last line for machines.
    #[must_use]
    pub fn to_json(self) -> Value {
        json!({
            "produced": self.produced,
            "received": self.received,
            "stored": self.stored,
            "forwarded": self.forwarded,
            "applied": self.applied,
            "duplicates": self.duplicates,
            "gaps": self.gaps,
            "lost": self.missing(),
            "first_ack_ms": self.first_ack_ms.unwrap_or_default(),
        })
    }

    /// One line for people; `drained` says that nothing is on its way any more.
    #[must_use]
    pub fn line(&self, drained: bool) -> String {
        let Self {
            produced,
            received,
            stored,
            forwarded,
            applied,
            duplicates,
            gaps,
            ..
        } = self;
        let missing = self.missing();
        let rest = if drained { "lost" } else { "on their way" };
        format!(
            "produced {produced} > received {received} > stored {stored} > forwarded {forwarded} \
             > applied once {applied} | duplicates {duplicates}, gaps {gaps}, {rest} {missing}"
        )
    }
}

/// How far readings have come, in lines of the live view.
#[must_use]
pub fn stages(counters: &Counters, (elapsed, left): (Duration, Option<Duration>)) -> Vec<String> {
    let ends = match left {
        Some(left) => format!("ends in {} s", left.as_secs()),
        None => String::from("q ends it"),
    };
    let first_ack = counters.first_ack_ms;
    vec![
        String::from(
            "sensor -> [ring] == pty ==> [agent: log -> windows] -> MQTT -> [upstream table]",
        ),
        format!(
            "produced {}   received {}   stored {}   forwarded {}   applied once {}",
            counters.produced,
            counters.received,
            counters.stored,
            counters.forwarded,
            counters.applied,
        ),
        format!(
            "duplicates {}   gaps {}   on their way {}   first ack after {}   {} s, {ends}",
            counters.duplicates,
            counters.gaps,
            counters.missing(),
            first_ack.map_or_else(|| String::from("-"), |ms| format!("{ms} ms")),
            elapsed.as_secs(),
        ),
    ]
}

/// How to ask the demo's agent for the first channel.
#[must_use]
pub fn hint((device, channel): (&str, &str), socket: &str) -> [String; 2] {
    [
        format!(
            "ask it: forebay query rolling --device {device} --channel {channel} --window 10s \\"
        ),
        format!("            --socket {socket}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters() -> Counters {
        Counters {
            produced: 10,
            received: 9,
            stored: 8,
            forwarded: 7,
            applied: 6,
            duplicates: 1,
            gaps: 2,
            first_ack_ms: Some(40),
        }
    }

    #[test]
    fn counters_close() {
        assert_eq!(counters().missing(), 2);
        assert_eq!(counters().to_json()["lost"], 2);
        assert_eq!(Counters::default().to_json()["first_ack_ms"], 0);
        let keys: Vec<_> = counters()
            .to_json()
            .as_object()
            .map(|o| o.keys().cloned().collect())
            .unwrap_or_default();
        assert_eq!(
            keys.join(" "),
            "produced received stored forwarded applied duplicates gaps lost first_ack_ms"
        );
    }

    #[test]
    fn stages_say_how_far_readings_are() {
        let text = stages(&counters(), (Duration::from_secs(5), None)).join("\n");
        for word in [
            "applied once 6",
            "on their way 2",
            "40 ms",
            "5 s, q ends it",
        ] {
            assert!(text.contains(word), "{word} in\n{text}");
        }
        let left = Some(Duration::from_secs(3));
        let text = stages(&Counters::default(), (Duration::ZERO, left)).join("\n");
        assert!(
            text.contains("first ack after -   0 s, ends in 3 s"),
            "{text}"
        );
    }
}
