//! One `[[window]]` to core's type, as far as it depends on no other window.

use forebay_core::engine::config::{
    AGGREGATE_NAMES, Aggregate, Bounds, CalendarUnit, Emit, Grid, KeyColumn, KeySpec, WindowKind,
    WindowSpec, Zone,
};
use forebay_core::limits::{
    AGGREGATES_MAX, FILTER_NAMES_MAX, HOPS_PER_WINDOW_MAX, KEY_COLUMNS_MAX, NAME_BYTES_MAX,
    ROWS_PER_WINDOW_MAX, WINDOW_SPAN_MAX,
};
use forebay_core::near::did_you_mean;
use forebay_core::units::Span;

use super::error::{ConfigError, list};
use super::reader::{Field, Table};
use super::table::TableConfig;

/// Streams that the engine itself writes or reads.
const RESERVED_STREAMS: [&str; 6] = [
    "readings",
    "control",
    "late",
    "quarantine",
    "exchange",
    "changes",
];

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Tumbling,
    Hopping,
    Sliding,
    Rows,
    Session,
}

const KINDS: [(&str, Kind); 5] = [
    ("tumbling", Kind::Tumbling),
    ("hopping", Kind::Hopping),
    ("sliding", Kind::Sliding),
    ("rows", Kind::Rows),
    ("session", Kind::Session),
];

/// Keys that are only for some kinds.
const KEYS_OF_KINDS: [(&str, &[Kind]); 7] = [
    ("size", &[Kind::Tumbling, Kind::Hopping, Kind::Sliding]),
    ("hop", &[Kind::Hopping]),
    ("offset", &[Kind::Tumbling, Kind::Hopping]),
    ("zone", &[Kind::Tumbling]),
    ("bounds", &[Kind::Sliding]),
    ("rows", &[Kind::Rows]),
    ("gap", &[Kind::Session]),
];

/// The sizes whose length a zone decides.
const UNITS: [(&str, CalendarUnit); 3] = [
    ("1d", CalendarUnit::Day),
    ("1w", CalendarUnit::Week),
    ("1mo", CalendarUnit::Month),
];

/// Whether no window, table or join may be called so.
pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED_STREAMS.contains(&name)
}

/// The name of a window's stream.
pub(super) fn name(table: &Table<'_>) -> Result<String, ConfigError> {
    let field = table.need("name")?;
    if is_reserved(field.text()?) {
        return Err(field.bad("is a stream of the engine itself; give the window another name"));
    }
    field.name()
}

/// All but what it reads.
pub(super) fn read(
    table: &Table<'_>,
    name: &str,
    tables: &[TableConfig],
) -> Result<WindowSpec, ConfigError> {
    let kind = table.need("kind")?.one_of(&KINDS)?;
    let shape = shape(table, kind)?;
    let emit = emit(table, kind)?;
    let (key, key_columns) = key(table, tables)?;
    Ok(WindowSpec {
        channels: names(table, "channels")?,
        devices: names(table, "devices")?,
        key,
        key_columns,
        aggregates: aggregates(table)?,
        emit,
        finalize: finalize(table, kind, emit)?,
        ..WindowSpec::new(name, shape)
    })
}

pub(super) fn longer_than_zero(field: &Field<'_>) -> Result<Span, ConfigError> {
    let span = field.span()?;
    if span.0 <= 0 {
        return Err(field.bad("must be longer than 0"));
    }
    Ok(span)
}

pub(super) fn window_span(field: &Field<'_>, span: Span) -> Result<Span, ConfigError> {
    if span.0.abs() > WINDOW_SPAN_MAX {
        let days = WINDOW_SPAN_MAX / 86_400_000_000;
        return Err(field.bad(format!("is too long, at most \"{days}d\"")));
    }
    Ok(span)
}

/// A length that the kind needs; `example` is what an error shows.
fn length(table: &Table<'_>, key: &str, example: &str) -> Result<Span, ConfigError> {
    let Some(field) = table.get(key)? else {
        return Err(missing(table, key, example));
    };
    window_span(&field, longer_than_zero(&field)?)
}

fn missing(table: &Table<'_>, key: &str, example: &str) -> ConfigError {
    table.error(key, format!("is missing; for example {key} = {example}"))
}

fn shape(table: &Table<'_>, kind: Kind) -> Result<WindowKind, ConfigError> {
    for (key, kinds) in KEYS_OF_KINDS {
        if !kinds.contains(&kind) && table.has(key) {
            let names = KINDS.iter().filter(|(_, k)| kinds.contains(k));
            let names: Vec<&str> = names.map(|(name, _)| *name).collect();
            let what = format!("is only for kind = \"{}\"", names.join("\" or \""));
            return Err(table.need(key)?.error(what));
        }
    }
    match kind {
        Kind::Tumbling => Ok(WindowKind::Tumbling(grid(table)?)),
        Kind::Hopping => hopping(table),
        Kind::Sliding => {
            let bounds = table.get("bounds")?.map_or(Ok(Bounds::HalfOpen), |field| {
                field.one_of(&[("half_open", Bounds::HalfOpen), ("closed", Bounds::Closed)])
            })?;
            let size = length(table, "size", "\"1m\"")?;
            Ok(WindowKind::Sliding { size, bounds })
        }
        Kind::Rows => {
            let Some(field) = table.get("rows")? else {
                return Err(missing(table, "rows", "100"));
            };
            let n = field.int(1, i64::from(ROWS_PER_WINDOW_MAX))?;
            let n = u32::try_from(n).expect("at most ROWS_PER_WINDOW_MAX");
            Ok(WindowKind::Rows { n })
        }
        Kind::Session => Ok(WindowKind::Session {
            gap: length(table, "gap", "\"10m\"")?,
        }),
    }
}

fn offset(table: &Table<'_>) -> Result<Span, ConfigError> {
    table
        .get("offset")?
        .map_or(Ok(Span(0)), |field| window_span(&field, field.span()?))
}

fn hopping(table: &Table<'_>) -> Result<WindowKind, ConfigError> {
    let size = length(table, "size", "\"1m\"")?;
    let hop = length(table, "hop", "\"10s\"")?;
    if size.0 / hop.0 > HOPS_PER_WINDOW_MAX {
        let shortest = size.0.div_euclid(HOPS_PER_WINDOW_MAX + 1) + 1;
        return Err(table.need("hop")?.bad(format!(
            "is too short: over {HOPS_PER_WINDOW_MAX} windows over one reading; \
             at least \"{shortest}us\""
        )));
    }
    let offset = offset(table)?;
    Ok(WindowKind::Hopping { size, hop, offset })
}

fn grid(table: &Table<'_>) -> Result<Grid, ConfigError> {
    let size = table.need("size")?;
    let unit = size.text().ok().and_then(|text| {
        let unit = UNITS.iter().find(|(name, _)| *name == text);
        unit.map(|(_, unit)| *unit)
    });
    let zone = table.get("zone")?;
    let zone = match (unit, zone) {
        (Some(_), Some(field)) => Some(named(&field)?),
        (Some(CalendarUnit::Month), None) => Some(Zone::utc()),
        (None, Some(field)) => {
            return Err(field.bad(format!(
                "is only for a size of {}, whose length a zone decides; without a zone any size \
                 is taken",
                list(UNITS.map(|(name, _)| name))
            )));
        }
        (_, None) => None,
    };
    match (unit, zone) {
        (Some(unit), Some(zone)) => match table.get("offset")? {
            Some(field) => Err(field.bad(
                "cannot stand beside a zone or months, which start at midnight: leave it out",
            )),
            None => Ok(Grid::Calendar { unit, zone }),
        },
        (_, None) | (None, _) => Ok(Grid::Fixed {
            size: length(table, "size", "\"1m\"")?,
            offset: offset(table)?,
        }),
    }
}

fn named(field: &Field<'_>) -> Result<Zone, ConfigError> {
    let text = field.text()?;
    if let Some(zone) = Zone::named(text) {
        return Ok(zone);
    }
    let names = Zone::names();
    let place = |name: &str| name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    // "Paris" is no zone, but which one is meant is clear.
    let same_place = names.iter().find(|name| place(name) == place(text));
    let near = same_place.map_or_else(
        || did_you_mean(text, names.iter().map(String::as_str)),
        |name| format!(" (did you mean \"{name}\"?)"),
    );
    Err(field.bad(format!(
        "is no time zone{near}; zones are named as \"Europe/Paris\" or \"UTC\""
    )))
}

fn emit(table: &Table<'_>, kind: Kind) -> Result<Emit, ConfigError> {
    let field = table.need("emit")?;
    let emit = field.one_of(&[
        ("on_close", Emit::OnClose),
        ("every_update", Emit::EveryUpdate),
        ("final_only", Emit::FinalOnly),
        ("never", Emit::Never),
    ])?;
    let revised = !matches!(kind, Kind::Sliding | Kind::Rows);
    if !revised && emit == Emit::FinalOnly {
        return Err(field.bad(
            "is not for sliding and rows, whose lines are never revised; on_close or every_update",
        ));
    }
    if kind != Kind::Sliding && emit == Emit::Never {
        return Err(field.bad("is only for kind = \"sliding\", whose figures can be asked for"));
    }
    Ok(emit)
}

fn finalize(table: &Table<'_>, kind: Kind, emit: Emit) -> Result<bool, ConfigError> {
    let field = table.need("finalize")?;
    let finalize = field.bool()?;
    let revised = !matches!(kind, Kind::Sliding | Kind::Rows);
    if finalize && (!revised || emit != Emit::OnClose) {
        return Err(field.bad("is only for emit = \"on_close\", and not for sliding and rows"));
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

/// Device and channel, and the columns of tables beside them.
fn key(
    table: &Table<'_>,
    tables: &[TableConfig],
) -> Result<(KeySpec, Vec<KeyColumn>), ConfigError> {
    let field = table.need("key")?;
    let columns = field.texts(2 + KEY_COLUMNS_MAX)?;
    let (mut key, mut key_columns) = (KeySpec::NONE, Vec::new());
    for column in &columns {
        match column.as_str() {
            "device" => key.device = true,
            "channel" => key.channel = true,
            other => key_columns.push(key_column(&field, other, tables)?),
        }
    }
    if key_columns.len() > KEY_COLUMNS_MAX {
        return Err(field.error(format!(
            "has {} columns of tables, at most {KEY_COLUMNS_MAX}",
            key_columns.len()
        )));
    }
    Ok((key, key_columns))
}

/// `sites.building`
fn key_column(
    field: &Field<'_>,
    text: &str,
    tables: &[TableConfig],
) -> Result<KeyColumn, ConfigError> {
    let names = || tables.iter().map(|table| table.name.as_str());
    let Some((name, column)) = text.split_once('.') else {
        let near = did_you_mean(text, ["device", "channel"]);
        return Err(field.bad(format!(
            "has an unknown column \"{}\"{near}; columns: device, channel, and those of tables, \
             such as \"sites.building\"",
            text.escape_debug()
        )));
    };
    let Some(at) = names().position(|known| known == name) else {
        return Err(field.bad(format!(
            "has a column of \"{}\", which is no table{}; tables: {}",
            name.escape_debug(),
            did_you_mean(name, names()),
            if tables.is_empty() {
                "none".into()
            } else {
                list(names())
            }
        )));
    };
    let found = &tables[at];
    if column.is_empty() {
        return Err(field.bad(format!("names no column of \"{name}\"")));
    }
    let known = found.has_column(column);
    known.map_err(|what| field.error(format!("has {what}")))?;
    let is_name = |column: &String| matches!(column.as_str(), "device" | "channel");
    if found.key.len() > 1 && !found.key.iter().all(is_name) {
        return Err(field.bad(format!(
            "has a column of \"{name}\", whose rows no device or channel names: its key is {}",
            list(found.key.iter().map(String::as_str))
        )));
    }
    Ok(KeyColumn {
        table: u16::try_from(at).expect("at most TABLES_MAX"),
        column: column.to_owned(),
    })
}

fn aggregates(table: &Table<'_>) -> Result<Vec<Aggregate>, ConfigError> {
    let field = table.need("aggregates")?;
    let names = field.texts(AGGREGATES_MAX)?;
    names.iter().map(|name| aggregate(&field, name)).collect()
}

/// The aggregate of that name, which stands in a field.
pub(super) fn aggregate(field: &Field<'_>, name: &str) -> Result<Aggregate, ConfigError> {
    Aggregate::from_name(name).ok_or_else(|| {
        let valid = || AGGREGATE_NAMES.iter().map(|(name, _)| *name);
        field.error(format!(
            "\"{}\" is no aggregate{}; aggregates: {}, p01 to p99",
            name.escape_debug(),
            did_you_mean(name, valid()),
            list(valid())
        ))
    })
}
