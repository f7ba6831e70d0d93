//! The counters at the end of stderr. The keys of the JSON form are a stable
//! interface.

use std::io::{self, Write};

use forebay_core::engine::Engine;
use forebay_core::engine::counters::Counters;
use serde_json::{Map, Value};

use super::args::Summary;

/// Writes the last lines of stderr.
///
/// # Errors
/// Those of the writer.
pub(super) fn write(
    form: Summary,
    engine: &Engine,
    rejected: u64,
    to: &mut dyn Write,
) -> io::Result<()> {
    match form {
        Summary::Json => writeln!(to, "{}", json(engine, rejected)),
        Summary::Text => text(engine, rejected, to),
    }
}

fn named(counters: &Counters) -> Map<String, Value> {
    let named = counters.named().into_iter();
    named.map(|(name, n)| (name.to_owned(), n.into())).collect()
}

fn json(engine: &Engine, rejected: u64) -> Value {
    let mut summary = named(&engine.counters());
    summary.insert("rejected".into(), rejected.into());
    summary.insert("state_rows".into(), engine.state_rows().into());
    let devices = engine.device_counters();
    let devices = devices.map(|(name, c)| (name.to_owned(), named(&c).into()));
    summary.insert("devices".into(), Value::Object(devices.collect()));
    let late: Map<_, _> = engine
        .late_derived()
        .map(|(stream, n)| (stream.to_owned(), n.into()))
        .collect();
    if !late.is_empty() {
        summary.insert("late_derived".into(), late.into());
    }
    summary.into()
}

fn text(engine: &Engine, rejected: u64, to: &mut dyn Write) -> io::Result<()> {
    for (name, n) in engine.counters().named() {
        write!(to, "{name} {n}, ")?;
    }
    for (stream, n) in engine.late_derived() {
        write!(to, "late_derived of {stream} {n}, ")?;
    }
    writeln!(
        to,
        "rejected {rejected}, state_rows {}",
        engine.state_rows()
    )
}
