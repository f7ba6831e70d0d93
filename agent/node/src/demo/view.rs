//! The demo's picture: figures in, lines of text out. Knows no terminal and no
//! clock.

use std::time::Duration;

use serde_json::{Value, json};

/// Bars of a sparkline, low to high.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Values that a sparkline shows.
pub const SPARK_VALUES: usize = 24;

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

/// One channel's row.
#[derive(Debug, Clone, PartialEq)]
pub struct ChannelRow {
    pub device: String,
    pub channel: String,
    pub unit: String,
    pub value: Option<f64>,
    /// Rolling averages over 10 s and 60 s.
    pub rolling: [Option<f64>; 2],
    /// Mean of the last minute that is over.
    pub minute: Option<f64>,
    /// Latest values, oldest first.
    pub recent: Vec<f64>,
}

/// Everything that is on the screen at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    pub elapsed: Duration,
    pub left: Option<Duration>,
    pub channels: Vec<ChannelRow>,
    /// Channels beyond those shown.
    pub hidden: usize,
    pub counters: Counters,
    pub socket: String,
}

fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| String::from("-"), |value| format!("{value:.2}"))
}

/// Values as bars between their smallest and largest.
#[must_use]
pub fn sparkline(values: &[f64]) -> String {
    let min = values.iter().copied().fold(f64::INFINITY, f64::min);
    let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let span = max - min;
    let bar = |value: &f64| {
        let share = if span > 0.0 {
            (value - min) / span
        } else {
            0.0
        };
        BARS[((share * 7.0).round() as usize).min(7)]
    };
    values.iter().map(bar).collect()
}

/// The lines of a frame, none longer than `width` characters.
#[must_use]
pub fn lines(frame: &Frame, width: usize) -> Vec<String> {
    let mut out = vec![title(frame), String::new()];
    out.push(format!(
        "{:<17} {:<16} {:>10} {:>10} {:>10} {:>10} {:<8} recent",
        "device", "channel", "last", "10 s mean", "60 s mean", "minute", "unit"
    ));
    for row in &frame.channels {
        out.push(format!(
            "{:<17} {:<16} {:>10} {:>10} {:>10} {:>10} {:<8} {}",
            row.device,
            row.channel,
            figure(row.value),
            figure(row.rolling[0]),
            figure(row.rolling[1]),
            figure(row.minute),
            row.unit,
            sparkline(&row.recent),
        ));
    }
    if frame.hidden > 0 {
        out.push(format!("... and {} channels more", frame.hidden));
    }
    let counters = &frame.counters;
    out.push(String::new());
    out.push(String::from(
        "sensor -> [ring] == pty ==> [agent: log -> windows] -> MQTT -> [upstream table]",
    ));
    out.push(format!(
        "produced {}   received {}   stored {}   forwarded {}   applied once {}",
        counters.produced, counters.received, counters.stored, counters.forwarded, counters.applied,
    ));
    out.push(format!(
        "duplicates {}   gaps {}   on their way {}   first ack after {}",
        counters.duplicates,
        counters.gaps,
        counters.missing(),
        counters
            .first_ack_ms
            .map_or_else(|| String::from("-"), |ms| format!("{ms} ms")),
    ));
    out.push(String::new());
    if let Some(row) = frame.channels.first() {
        out.push(format!(
            "ask it: forebay query rolling --device {} --channel {} --window 10s \\",
            row.device, row.channel
        ));
        out.push(format!("            --socket {}", frame.socket));
    }
    out.into_iter()
        .map(|line| line.chars().take(width).collect())
        .collect()
}

fn title(frame: &Frame) -> String {
    let ends = match frame.left {
        Some(left) => format!("ends in {} s", left.as_secs()),
        None => String::from("Ctrl-C ends it"),
    };
    format!(
        "forebay demo: live readings from this computer, {} s, {ends}",
        frame.elapsed.as_secs()
    )
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
    fn sparklines_span_their_values() {
        for (name, values, want) in [
            ("none", &[][..], ""),
            ("flat", &[3.0, 3.0][..], "▁▁"),
            ("rising", &[0.0, 1.0, 7.0][..], "▁▂█"),
            ("below zero", &[-7.0, 0.0][..], "▁█"),
        ] {
            assert_eq!(sparkline(values), want, "{name}");
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
    fn a_frame_fits_its_width_and_shows_its_figures() {
        let frame = Frame {
            elapsed: Duration::from_secs(5),
            left: None,
            channels: vec![ChannelRow {
                device: "0000000000000001".into(),
                channel: "load".into(),
                unit: "1".into(),
                value: Some(1.25),
                rolling: [Some(1.5), None],
                minute: None,
                recent: vec![1.0, 2.0],
            }],
            hidden: 3,
            counters: counters(),
            socket: "/tmp/s".into(),
        };
        let shown = lines(&frame, 100);
        assert!(shown.iter().all(|line| line.chars().count() <= 100));
        let text = shown.join("\n");
        for word in [
            "load",
            "1.25",
            "1.50",
            "▁█",
            "3 channels more",
            "applied once 6",
        ] {
            assert!(text.contains(word), "{word} in\n{text}");
        }
    }
}
