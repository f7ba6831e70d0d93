//! `[engine]` and `[[window]]` to core's types. What the engine does not do yet
//! is refused here, by name.

use forebay_core::engine::config::{
    AGGREGATE_NAMES, Aggregate, Bounds, Emit, EngineConfig, Grid, IdleAfter, KeySpec, TimeRules,
    WindowKind, WindowSpec,
};
use forebay_core::limits::{
    AGGREGATES_MAX, FILTER_NAMES_MAX, HOPS_PER_WINDOW_MAX, NAME_BYTES_MAX, WINDOW_SPAN_MAX,
    WINDOWS_MAX,
};
use forebay_core::units::Span;

use super::error::{ConfigError, did_you_mean, list};
use super::reader::{Field, Source, Table};
use super::schema::{ENGINE, WINDOW};

/// Streams that the engine itself writes or reads.
const RESERVED_STREAMS: [&str; 4] = ["readings", "late", "quarantine", "changes"];
/// Keys of windows that the engine does not have yet.
const NOT_YET: [&str; 5] = ["rows", "gap", "zone", "merge", "value"];

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Tumbling,
    Hopping,
    Sliding,
    NotYet,
}

const KINDS: [(&str, Kind); 5] = [
    ("tumbling", Kind::Tumbling),
    ("hopping", Kind::Hopping),
    ("sliding", Kind::Sliding),
    ("rows", Kind::NotYet),
    ("session", Kind::NotYet),
];

/// Reads the pipeline.
pub(super) fn read(source: &Source<'_>) -> Result<EngineConfig, ConfigError> {
    let time = time_rules(&source.one(&ENGINE)?)?;
    let tables = source.many(&WINDOW)?;
    let mut windows: Vec<WindowSpec> = Vec::with_capacity(tables.len());
    for table in &tables {
        if windows.len() == WINDOWS_MAX {
            return Err(table.error(
                "name",
                format!("is one window too many, at most {WINDOWS_MAX}"),
            ));
        }
        let spec = window(table, &tables)?;
        if windows.iter().any(|w| w.name == spec.name) {
            return Err(table.need("name")?.bad("is the name of two windows"));
        }
        windows.push(spec);
    }
    Ok(EngineConfig { time, windows })
}

fn time_rules(table: &Table<'_>) -> Result<TimeRules, ConfigError> {
    let idle = table.need("idle_after")?;
    Ok(TimeRules {
        out_of_order: table.need("out_of_order")?.span_from_zero()?,
        allowed_lateness: table.need("allowed_lateness")?.span_from_zero()?,
        idle_after: if idle.text()? == "auto" {
            IdleAfter::Auto
        } else {
            IdleAfter::After(longer_than_zero(&idle)?)
        },
        future_guard: table.need("future_guard")?.span_from_zero()?,
    })
}

fn longer_than_zero(field: &Field<'_>) -> Result<Span, ConfigError> {
    let span = field.span()?;
    if span.0 <= 0 {
        return Err(field.bad("must be longer than 0"));
    }
    Ok(span)
}

fn window_span(field: &Field<'_>, span: Span) -> Result<Span, ConfigError> {
    if span.0.abs() > WINDOW_SPAN_MAX {
        let days = WINDOW_SPAN_MAX / 86_400_000_000;
        return Err(field.bad(format!("is too long, at most \"{days}d\"")));
    }
    Ok(span)
}

fn window(table: &Table<'_>, all: &[Table<'_>]) -> Result<WindowSpec, ConfigError> {
    let name = table.need("name")?;
    if RESERVED_STREAMS.contains(&name.text()?) {
        return Err(name.bad("is a stream of the engine itself; give the window another name"));
    }
    let kind_field = table.need("kind")?;
    let kind = kind_field.one_of(&KINDS)?;
    if kind == Kind::NotYet {
        return Err(kind_field.bad("is not supported yet; supported: tumbling, hopping, sliding"));
    }
    for key in NOT_YET {
        if let Some(field) = table.get(key)? {
            return Err(field.bad("is not supported yet"));
        }
    }
    source_of(table, all)?;
    let size_field = table.need("size")?;
    let size = window_span(&size_field, longer_than_zero(&size_field)?)?;
    let emit = emit(table, kind)?;
    Ok(WindowSpec {
        channels: names(table, "channels")?,
        devices: names(table, "devices")?,
        key: key(table)?,
        aggregates: aggregates(table)?,
        emit,
        finalize: finalize(table, kind, emit)?,
        ..WindowSpec::new(&name.name()?, shape(table, kind, size)?)
    })
}

fn source_of(table: &Table<'_>, all: &[Table<'_>]) -> Result<(), ConfigError> {
    let from = table.need("from")?;
    let text = from.text()?;
    if text == "readings" {
        return Ok(());
    }
    let mut known = vec!["readings".to_owned()];
    for other in all {
        known.push(other.need("name")?.text()?.to_owned());
    }
    if known.iter().any(|name| name == text) {
        return Err(from.bad("is a window; windows over windows are not supported yet"));
    }
    let known = || known.iter().map(String::as_str);
    Err(from.bad(format!(
        "is no stream{}; streams: {}",
        did_you_mean(text, known()),
        list(known())
    )))
}

fn shape(table: &Table<'_>, kind: Kind, size: Span) -> Result<WindowKind, ConfigError> {
    for (key, kinds) in [
        ("offset", &[Kind::Tumbling, Kind::Hopping][..]),
        ("hop", &[Kind::Hopping][..]),
        ("bounds", &[Kind::Sliding][..]),
    ] {
        if let Some(field) = table.get(key)?.filter(|_| !kinds.contains(&kind)) {
            let names = KINDS.iter().filter(|(_, k)| kinds.contains(k));
            let names: Vec<&str> = names.map(|(name, _)| *name).collect();
            return Err(field.error(format!("is only for kind = \"{}\"", names.join("\" or \""))));
        }
    }
    let offset = match table.get("offset")? {
        None => Span(0),
        Some(field) => window_span(&field, field.span()?)?,
    };
    if kind == Kind::Sliding {
        let bounds = table.get("bounds")?.map_or(Ok(Bounds::HalfOpen), |field| {
            field.one_of(&[("half_open", Bounds::HalfOpen), ("closed", Bounds::Closed)])
        })?;
        return Ok(WindowKind::Sliding { size, bounds });
    }
    if kind == Kind::Hopping {
        let Some(field) = table.get("hop")? else {
            return Err(table.error("hop", "is missing; for example hop = \"10s\""));
        };
        let hop = window_span(&field, longer_than_zero(&field)?)?;
        if size.0 / hop.0 > HOPS_PER_WINDOW_MAX {
            let what = format!("is too short: over {HOPS_PER_WINDOW_MAX} windows over one reading");
            return Err(field.bad(what));
        }
        return Ok(WindowKind::Hopping { size, hop, offset });
    }
    Ok(WindowKind::Tumbling(Grid::Fixed { size, offset }))
}

fn emit(table: &Table<'_>, kind: Kind) -> Result<Emit, ConfigError> {
    let field = table.need("emit")?;
    let emit = field.one_of(&[
        ("on_close", Emit::OnClose),
        ("every_update", Emit::EveryUpdate),
        ("final_only", Emit::FinalOnly),
    ])?;
    if kind == Kind::Sliding && emit == Emit::FinalOnly {
        return Err(field.bad("is not for sliding windows, whose lines are never revised"));
    }
    Ok(emit)
}

fn finalize(table: &Table<'_>, kind: Kind, emit: Emit) -> Result<bool, ConfigError> {
    let field = table.need("finalize")?;
    let finalize = field.bool()?;
    if finalize && (kind == Kind::Sliding || emit != Emit::OnClose) {
        return Err(field.bad("is only for emit = \"on_close\", and not for kind = \"sliding\""));
    }
    Ok(finalize)
}

fn names(table: &Table<'_>, key: &str) -> Result<Option<Vec<String>>, ConfigError> {
    let Some(field) = table.get(key)? else {
        return Ok(None);
    };
    let names = field.texts(FILTER_NAMES_MAX)?;
    for name in &names {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(field.bad(format!(
                "has a name that is not of 1 to {NAME_BYTES_MAX} bytes"
            )));
        }
    }
    Ok(Some(names))
}

fn key(table: &Table<'_>) -> Result<KeySpec, ConfigError> {
    let field = table.need("key")?;
    let columns = field.texts(8)?;
    for column in &columns {
        if !matches!(column.as_str(), "device" | "channel") {
            let what = if column.contains('.') {
                "has a column of a table; tables are not supported yet".to_owned()
            } else {
                let near = did_you_mean(column, ["device", "channel"]);
                format!("has an unknown column \"{column}\"{near}; columns: device, channel")
            };
            return Err(field.bad(what));
        }
    }
    match (
        columns.iter().any(|c| c == "device"),
        columns.iter().any(|c| c == "channel"),
    ) {
        (true, true) => Ok(KeySpec::DEVICE_CHANNEL),
        (true, false) => Ok(KeySpec::DEVICE),
        (false, _) => Err(field.bad("has no device; windows across devices are not supported yet")),
    }
}

fn aggregates(table: &Table<'_>) -> Result<Vec<Aggregate>, ConfigError> {
    let field = table.need("aggregates")?;
    let mut found = Vec::new();
    for name in field.texts(AGGREGATES_MAX)? {
        let Some(aggregate) = Aggregate::from_name(&name) else {
            let valid = || AGGREGATE_NAMES.iter().map(|(name, _)| *name);
            return Err(field.error(format!(
                "\"{}\" is no aggregate{}; aggregates: {}, p01 to p99",
                name.escape_debug(),
                did_you_mean(&name, valid()),
                list(valid())
            )));
        };
        found.push(aggregate);
    }
    Ok(found)
}
