//! The samples that both sides hold: three devices with channels of different kinds.
//! Made by rule, the same each time; all times are whole milliseconds, as Prometheus
//! has no finer ones.

use std::fmt::Write as _;

/// The first hour, seconds since 1970.
pub(super) const START: i64 = 1_760_000_400;
/// How long samples go on, seconds.
pub(super) const LENGTH: i64 = 7200;

/// One sample.
pub(super) struct Sample {
    pub(super) channel: &'static str,
    pub(super) device: &'static str,
    pub(super) millis: i64,
    pub(super) value: f64,
}

const DEVICES: [&str; 3] = ["attic", "boiler", "cellar"];

/// Channel, unit, period in ms, and offset in ms of its samples.
const CHANNELS: [(&str, &str, i64, i64); 6] = [
    ("temp", "Cel", 10_000, 337),
    ("energy", "J", 15_000, 1_021),
    ("wet", "%RH", 30_000, 713),
    ("gap", "V", 15_000, 4_409),
    ("wild", "1", 20_000, 9_001),
    // On full minutes: where both sides differ in what a window's start is.
    ("tick", "s", 60_000, 0),
];

/// A number that looks drawn, below `bound`.
fn drawn(seed: i64, bound: i64) -> i64 {
    let mut x = (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= x >> 29;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 32;
    (x % bound as u64) as i64
}

/// All samples, channel by channel, device by device, in order of time.
pub(super) fn all() -> Vec<Sample> {
    let mut all = Vec::new();
    for (channel, _, period, offset) in CHANNELS {
        for (number, device) in (0..).zip(DEVICES) {
            for n in 0..LENGTH * 1000 / period {
                let seed = n * 31 + number * 7919 + period;
                let jitter = if channel == "tick" {
                    0
                } else {
                    drawn(seed, 800)
                };
                let millis = START * 1000 + n * period + offset + jitter;
                if let Some(value) = value(channel, n, number, seed) {
                    all.push(Sample {
                        channel,
                        device,
                        millis,
                        value,
                    });
                }
            }
        }
    }
    all
}

fn value(channel: &str, n: i64, number: i64, seed: i64) -> Option<f64> {
    match channel {
        "temp" => {
            let wave = (n as f64 / 40.0 + number as f64).sin() * 400.0;
            Some((2_000 + wave as i64 + drawn(seed, 60)) as f64 / 100.0)
        }
        // A counter that begins anew now and then.
        "energy" => {
            let since = n % (150 + number * 41);
            Some((since * 12 + drawn(seed - seed % 31, 5)) as f64)
        }
        "wet" => Some((40 + drawn(seed, 20)) as f64),
        // Silent for longer than a sample counts.
        "gap" => (n % 120 < 70).then(|| (3_000 + drawn(seed, 600)) as f64 / 1000.0),
        // Sizes that differ by far, and both signs.
        "wild" => {
            let size = 10f64.powi(i32::try_from(drawn(seed, 9)).expect("small") - 3);
            let sign = if n % 3 == 0 { -1.0 } else { 1.0 };
            Some(sign * size * drawn(seed + 1, 1000) as f64)
        }
        _ => Some((n + number) as f64),
    }
}

fn unit(channel: &str) -> &'static str {
    let found = CHANNELS.iter().find(|(name, ..)| *name == channel);
    found.map_or("", |(_, unit, ..)| unit)
}

/// As `forebay ingest` reads them.
pub(super) fn as_ndjson(samples: &[Sample]) -> String {
    let mut text = String::new();
    let mut order: Vec<&Sample> = samples.iter().collect();
    order.sort_by_key(|sample| sample.millis);
    for Sample {
        channel,
        device,
        millis,
        value,
    } in order
    {
        let (unit, micros) = (unit(channel), millis * 1000);
        writeln!(
            text,
            r#"{{"device":"{device}","channel":"{channel}","unit":"{unit}","time":{micros},"value":{value}}}"#
        )
        .expect("a string takes text");
    }
    text
}

/// As `promtool tsdb create-blocks-from openmetrics` reads them, with the labels that the
/// agent gives.
pub(super) fn as_openmetrics(samples: &[Sample], gateway: &str) -> String {
    let mut text = String::new();
    let mut last = "";
    for Sample {
        channel,
        device,
        millis,
        value,
    } in samples
    {
        if *channel != last {
            writeln!(text, "# TYPE {channel} gauge").expect("a string takes text");
            last = channel;
        }
        let unit = unit(channel);
        let (seconds, part) = (millis / 1000, millis % 1000);
        writeln!(
            text,
            r#"{channel}{{channel="{channel}",device="{device}",gateway="{gateway}",unit="{unit}"}} {value} {seconds}.{part:03}"#
        )
        .expect("a string takes text");
    }
    text + "# EOF\n"
}
