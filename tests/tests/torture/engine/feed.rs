//! What is fed to the agent that is killed: the n-th reading is a function of the
//! seed and of n, so a child goes on where the one before it was killed. Some come out
//! of order inside the bound, some late, one device hours behind the others, some with
//! figures that try sums; and the pipelines over them.

use std::path::Path;

use forebay_core::import::ImportRecord;
use forebay_core::units::EventTime;
use forebay_tests::world::dice::Dice;
use forebay_wire::message::Quality;

/// 2020-09-13T12:26:40Z.
const FIRST_US: i64 = 1_600_000_000_000_000;
/// Event time from one reading to the next.
const STEP_US: i64 = 150_000;
/// The bound in the configs below.
const BOUND_US: i64 = 5_000_000;
/// What the last device is behind.
const BEHIND_US: i64 = 3 * 3600 * 1_000_000;
const DEVICES: u64 = 7;
const CHANNELS: [(&str, &str); 2] = [("temperature", "degC"), ("current", "A")];

/// The n-th reading.
pub(super) fn reading(seed: u64, n: u64) -> ImportRecord {
    let mut dice = Dice::new(seed ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let device = dice.below(DEVICES);
    let (channel, unit) = CHANNELS[dice.below(CHANNELS.len() as u64) as usize];
    let behind = match (device, dice.below(40)) {
        (_, 0) => BOUND_US * 2 + dice.below(60_000_000) as i64,
        (_, 1..15) => dice.below(BOUND_US as u64 + 1) as i64,
        _ => 0,
    };
    let of_device = if device + 1 == DEVICES { BEHIND_US } else { 0 };
    let time = FIRST_US + n as i64 * STEP_US - behind - of_device;
    let value = match dice.below(200) {
        0 => 1e16,
        1 => f64::from(f32::MAX),
        2 => -0.0,
        3 => 5e-324,
        _ => (dice.below(2_000_000) as f64 - 1e6) / 100.0,
    };
    let (value, quality) = match dice.below(50) {
        0 => (None, Quality::BusError),
        _ => (Some(value), Quality::Ok),
    };
    let name = format!("f02eba110000000{device}");
    let record = ImportRecord::new(&name, channel, unit, EventTime(time), value, quality);
    record.expect("a reading as every device gives")
}

/// Readings in one batch, at the most.
const BATCH_MAX: u64 = 60;

/// Readings of the batch that begins with the n-th.
pub(super) fn batch(seed: u64, n: u64) -> u64 {
    let mut dice = Dice::new(seed.wrapping_add(n));
    1 + dice.below(BATCH_MAX)
}

const PARTITIONS: [u16; 3] = [1, 4, 16];

const TIMES: [&str; 3] = [
    "out_of_order = \"5s\"",
    "out_of_order = \"5s\"\nallowed_lateness = \"30s\"",
    "out_of_order = \"5s\"\nallowed_lateness = \"1m\"\nidle_after = \"100ms\"",
];

const WINDOWS: &str = r#"
[[window]]
name = "minute"
kind = "tumbling"
size = "1m"
aggregates = ["count", "mean", "min", "max", "stddev", "p95"]

[[window]]
name = "hops"
kind = "hopping"
size = "1m"
hop = "15s"
aggregates = ["count", "sum", "first", "last"]
finalize = true

[[window]]
name = "eager"
kind = "tumbling"
size = "20s"
channels = ["current"]
aggregates = ["count", "sum", "max"]
emit = "every_update"

[[window]]
name = "at_last"
kind = "tumbling"
size = "30s"
key = ["device"]
aggregates = ["count", "min", "last"]
emit = "final_only"

[[window]]
name = "busy"
kind = "session"
gap = "10s"
aggregates = ["count", "mean", "last"]

[[window]]
name = "five"
kind = "tumbling"
size = "5m"
from = "minute"
merge = true
aggregates = ["count", "mean", "stddev", "p95"]
"#;

/// Windows that keep the readings themselves.
const TAILS: &str = r#"
[[window]]
name = "rolling"
kind = "sliding"
size = "60s"
aggregates = ["count", "mean", "max", "p95"]

[[window]]
name = "latest"
kind = "rows"
rows = 40
aggregates = ["count", "mean", "min"]

[[window]]
name = "trend"
kind = "sliding"
size = "3m"
from = "hops"
value = "sum"
bounds = "closed"
aggregates = ["count", "max"]
"#;

/// A window that crosses devices: with more partitions it reads the exchange.
const ACROSS: &str = r#"
[[window]]
name = "across"
kind = "tumbling"
size = "1m"
key = ["channel"]
aggregates = ["count", "mean", "max"]
"#;

/// Joins of a device's channels, of all devices with one, with a table that is all there,
/// and of rows of a window with it.
const JOINS: &str = r#"
[[table]]
name = "sites"
key = "device"
source = "config"
rows = [
  { device = "f02eba1100000000", building = "north" },
  { device = "f02eba1100000002", building = "south" },
]

[[join]]
name = "placed"
kind = "lookup"
left = { from = "readings", where = "channel = 'current'" }
right = { from = "sites" }
on = "device"
type = "left"

[[join]]
name = "minute_placed"
kind = "lookup"
left = { from = "minute", value = "max" }
right = { from = "sites" }
on = "device"

[[join]]
name = "near"
kind = "interval"
left = { from = "readings", where = "channel = 'current'" }
right = { from = "readings", where = "channel = 'temperature'" }
on = "device"
within = ["-1s", "1s"]
type = "full"

[[join]]
name = "met"
kind = "interval"
left = { from = "readings", where = "device = 'f02eba1100000001'" }
right = { from = "readings", where = "device != 'f02eba1100000001'" }
on = "channel"
within = ["-500ms", "500ms"]
type = "left"
"#;

/// The config of a directory: its seed chooses among pipelines and partition counts.
pub(super) fn config(seed: u64, data_dir: &Path, socket: &Path) -> String {
    let partitions = PARTITIONS[(seed % 3) as usize];
    let times = TIMES[(seed / 3 % 3) as usize];
    let tails = if seed.is_multiple_of(2) { TAILS } else { "" };
    let across = if seed % 4 < 2 { ACROSS } else { "" };
    let joins = if seed % 5 < 4 { JOINS } else { "" };
    format!(
        "[agent]\ngateway = \"gw-torture\"\ndata_dir = \"{}\"\npartitions = {partitions}\n\
         linger = \"5ms\"\n[log]\ngeneration = \"256KiB\"\n[query]\nsocket = \"{}\"\n\
         [engine]\n{times}\n{WINDOWS}{tails}{across}{joins}",
        data_dir.display(),
        socket.display(),
    )
}
