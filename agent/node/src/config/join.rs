//! `[[join]]` to core's type: what each side reads, what must be equal, how near.
//!
//! Always: what comes out names a window or table that is there, and columns that both
//! sides have. Bound: [`JOINS_MAX`] joins.

use forebay_core::engine::config::{
    EngineConfig, JoinColumn, JoinInput, JoinKind, JoinSource, JoinSpec, JoinType, KeySpec,
};
use forebay_core::engine::filter::{FILTER_COLUMNS, Filter, FilterFault};
use forebay_core::limits::{JOINS_MAX, KEY_COLUMNS_MAX, WINDOW_SPAN_MAX};
use forebay_core::near::did_you_mean;
use forebay_core::units::Span;

use super::chain;
use super::duration;
use super::error::{ConfigError, list};
use super::reader::{Field, Inside, Source, Table};
use super::schema::Key;
use super::schema_table::{JOIN, LEFT, RIGHT};
use super::table::{self, TableConfig};
use super::window::{is_reserved, window_span};

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Interval,
    Lookup,
    Table,
}

const KINDS: [(&str, Kind); 3] = [
    ("interval", Kind::Interval),
    ("lookup", Kind::Lookup),
    ("table", Kind::Table),
];

/// Keys that are only for one kind.
const KEYS_OF_KINDS: [(&str, &str, Kind); 2] = [
    ("within", "interval", Kind::Interval),
    ("wait", "lookup", Kind::Lookup),
];

/// What a side may read.
#[derive(Clone, Copy, PartialEq)]
enum Wants {
    Stream,
    Table,
}

/// Reads all joins over the windows and tables of `engine`, into it.
pub(super) fn read(
    source: &Source<'_>,
    engine: &mut EngineConfig,
    tables: &[TableConfig],
) -> Result<(), ConfigError> {
    for join in source.many(&JOIN)? {
        if engine.joins.len() == JOINS_MAX {
            let what = format!("is one join too many, at most {JOINS_MAX}");
            return Err(join.error("name", what));
        }
        let name = name(&join, engine)?;
        let spec = one(&join, name, engine, tables)?;
        engine.joins.push(spec);
    }
    Ok(())
}

fn name(join: &Table<'_>, engine: &EngineConfig) -> Result<String, ConfigError> {
    let field = join.need("name")?;
    if is_reserved(field.text()?) {
        return Err(field.bad("is a stream of the engine itself; give the join another name"));
    }
    let name = field.name()?;
    if engine.joins.iter().any(|other| other.name == name) {
        return Err(field.bad("is the name of two joins"));
    }
    if engine.windows.iter().any(|window| window.name == name) {
        return Err(field.bad("is the name of a window, too"));
    }
    if table::names(engine).any(|other| other == name) {
        return Err(field.bad("is the name of a table, too"));
    }
    Ok(name)
}

fn one(
    join: &Table<'_>,
    name: String,
    engine: &EngineConfig,
    tables: &[TableConfig],
) -> Result<JoinSpec, ConfigError> {
    let kind = join.need("kind")?.one_of(&KINDS)?;
    for (key, name, only) in KEYS_OF_KINDS {
        if kind != only
            && let Some(field) = join.get(key)?
        {
            return Err(field.error(format!("is only for kind = \"{name}\"")));
        }
    }
    let (left_wants, right_wants) = match kind {
        Kind::Interval => (Wants::Stream, Wants::Stream),
        Kind::Lookup => (Wants::Stream, Wants::Table),
        Kind::Table => (Wants::Table, Wants::Table),
    };
    let left = side(join, ("left", LEFT), left_wants, engine)?;
    let right = side(join, ("right", RIGHT), right_wants, engine)?;
    Ok(JoinSpec {
        name,
        on: on(join, kind, (&left, &right), engine, tables)?,
        kind: match kind {
            Kind::Interval => within(join)?,
            Kind::Lookup => JoinKind::Lookup { wait: wait(join)? },
            Kind::Table => JoinKind::Table,
        },
        left,
        right,
        join_type: join_type(join, kind)?,
    })
}

fn side(
    join: &Table<'_>,
    (name, keys): (&str, &'static [Key]),
    wants: Wants,
    engine: &EngineConfig,
) -> Result<JoinInput, ConfigError> {
    let example = match wants {
        Wants::Stream => "{ from = \"readings\" }",
        Wants::Table => "{ from = \"sites\" }",
    };
    let Some(field) = join.get_nested(name)? else {
        let what = format!("is missing; for example {name} = {example}");
        return Err(join.error(name, what));
    };
    let inside = field.inside(keys, example)?;
    let Some(from) = inside.get("from") else {
        let what = format!("is missing; for example {name} = {example}");
        return Err(inside.error("from", what));
    };
    let from = self::from(&from, wants, engine)?;
    let mut input = JoinInput::from(from);
    input.filter = filter(&inside, from, engine)?;
    match (from, inside.get("value")) {
        (JoinSource::Window(at), given) => {
            let window = &engine.windows[usize::from(at)];
            let error = |what| inside.error("value", what);
            input.value = chain::figure(given.as_ref(), error, window)?;
        }
        (JoinSource::Readings | JoinSource::Table(_), Some(field)) => {
            return Err(field.bad("is only for a window's rows: it is the figure that counts"));
        }
        (JoinSource::Readings | JoinSource::Table(_), None) => {}
    }
    Ok(input)
}

fn from(field: &Field<'_>, wants: Wants, engine: &EngineConfig) -> Result<JoinSource, ConfigError> {
    let text = field.text()?;
    let place = |at: usize| u16::try_from(at).expect("at most WINDOWS_MAX and TABLES_MAX");
    let windows = || engine.windows.iter().map(|window| window.name.as_str());
    let window = windows().position(|name| name == text).map(place);
    let table = table::names(engine)
        .position(|name| name == text)
        .map(place);
    let streams = || ["readings"].into_iter().chain(windows());
    match wants {
        Wants::Stream if text == "readings" => Ok(JoinSource::Readings),
        Wants::Stream => match (window, table) {
            (Some(at), _) => {
                chain::has_rows(field, &engine.windows[usize::from(at)])?;
                Ok(JoinSource::Window(at))
            }
            (None, Some(_)) => Err(field.bad(format!(
                "is a table; this side reads a stream: {}",
                list(streams())
            ))),
            (None, None) => Err(field.bad(no_such("stream", text, streams()))),
        },
        Wants::Table => match table {
            Some(at) => Ok(JoinSource::Table(at)),
            None if text == "readings" || window.is_some() => Err(field.bad(format!(
                "is a stream; this side reads a table; tables: {}",
                listed(table::names(engine))
            ))),
            None => Err(field.bad(no_such("table", text, table::names(engine)))),
        },
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let listed = list(names);
    if listed.is_empty() {
        "none".into()
    } else {
        listed
    }
}

/// `is no <what> (did you mean ...); <what>s: ...`
pub(super) fn no_such<'a>(
    what: &str,
    text: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> String {
    format!(
        "is no {what}{}; {what}s: {}",
        did_you_mean(text, known.clone()),
        listed(known)
    )
}

fn filter(
    inside: &Inside<'_>,
    from: JoinSource,
    engine: &EngineConfig,
) -> Result<Option<Filter>, ConfigError> {
    let Some(field) = inside.get("where") else {
        return Ok(None);
    };
    let filter = Filter::parse(field.text()?).map_err(|e| {
        let hint = match &e.fault {
            FilterFault::UnknownColumn(name) => format!(
                "{}; columns: {}",
                did_you_mean(name, FILTER_COLUMNS),
                list(FILTER_COLUMNS)
            ),
            FilterFault::TooLong
            | FilterFault::TooDeep
            | FilterFault::OpenText
            | FilterFault::Expected(..) => String::new(),
        };
        field.error(format!("{e}{hint}"))
    })?;
    let key = match from {
        JoinSource::Readings => KeySpec::DEVICE_CHANNEL,
        JoinSource::Window(at) => engine.windows[usize::from(at)].key,
        JoinSource::Table(_) => {
            return Err(field.error("is for readings and windows; a table is taken as a whole"));
        }
    };
    let (device, channel) = filter.asks_for_names();
    for (column, asked, there) in [
        ("device", device, key.device),
        ("channel", channel, key.channel),
    ] {
        if asked && !there {
            return Err(field.error(format!(
                "asks for the {column}, which the key of the window has not"
            )));
        }
    }
    Ok(Some(filter))
}

fn on(
    join: &Table<'_>,
    kind: Kind,
    sides: (&JoinInput, &JoinInput),
    engine: &EngineConfig,
    tables: &[TableConfig],
) -> Result<Vec<JoinColumn>, ConfigError> {
    let field = join.need("on")?;
    let columns = field.text_or_texts(KEY_COLUMNS_MAX)?;
    if let JoinSource::Table(right) = sides.1.from {
        let right = &tables[usize::from(right)];
        if columns.len() != right.key.len() {
            return Err(field.bad(format!(
                "is {} where the key of \"{}\" has {}: {}",
                count(columns.len()),
                right.name,
                count(right.key.len()),
                list(right.key.iter().map(String::as_str))
            )));
        }
    }
    if let (Kind::Table, JoinSource::Table(left)) = (kind, sides.0.from) {
        let left = &tables[usize::from(left)];
        for column in &columns {
            let known = left.has_column(column);
            known.map_err(|what| field.error(format!("has {what}")))?;
        }
        return Ok(columns.into_iter().map(JoinColumn::Column).collect());
    }
    let of_side = |input: &JoinInput| match input.from {
        JoinSource::Readings | JoinSource::Table(_) => None,
        JoinSource::Window(at) => Some(&engine.windows[usize::from(at)]),
    };
    let windows = [of_side(sides.0), of_side(sides.1)];
    let taken = columns.iter().map(|column| {
        let has = |key: KeySpec| match column.as_str() {
            "device" => Some((JoinColumn::Device, key.device)),
            "channel" => Some((JoinColumn::Channel, key.channel)),
            _ => None,
        };
        let Some((found, _)) = has(KeySpec::DEVICE_CHANNEL) else {
            return Err(field.error(format!(
                "has the unknown column \"{}\"{}; columns: device, channel",
                column.escape_debug(),
                did_you_mean(column, ["device", "channel"])
            )));
        };
        let lacks = |key: KeySpec| has(key).is_some_and(|(_, there)| !there);
        let without = windows.iter().flatten().find(|window| lacks(window.key));
        match without {
            Some(window) => Err(field.error(format!(
                "has the column {column}, which the key of \"{}\" has not",
                window.name
            ))),
            None => Ok(found),
        }
    });
    taken.collect()
}

fn count(n: usize) -> String {
    format!("{n} column{}", if n == 1 { "" } else { "s" })
}

fn within(join: &Table<'_>) -> Result<JoinKind, ConfigError> {
    const EXAMPLE: &str = "[\"-5s\", \"10s\"]";
    let Some(field) = join.get("within")? else {
        let what = format!("is missing; for example within = {EXAMPLE}");
        return Err(join.error("within", what));
    };
    let Some((lower, upper)) = field.pair() else {
        return Err(field.bad(format!("must be two durations such as {EXAMPLE}")));
    };
    let read = |text: &str| -> Result<Span, ConfigError> {
        let span = duration::parse(text)
            .map_err(|what| field.error(format!("\"{}\" {what}", text.escape_debug())))?;
        if span.0.abs() > WINDOW_SPAN_MAX {
            return window_span(&field, span);
        }
        Ok(span)
    };
    let (from, to) = (read(lower)?, read(upper)?);
    if from > to {
        return Err(field.bad(format!(
            "has its ends the wrong way round (did you mean [\"{upper}\", \"{lower}\"]?)"
        )));
    }
    Ok(JoinKind::Interval {
        lower: from,
        upper: to,
    })
}

fn wait(join: &Table<'_>) -> Result<Option<Span>, ConfigError> {
    match join.get("wait")? {
        Some(field) => window_span(&field, field.span_from_zero()?).map(Some),
        None => Ok(None),
    }
}

fn join_type(join: &Table<'_>, kind: Kind) -> Result<JoinType, ConfigError> {
    let field = join.need("type")?;
    let join_type = field.one_of(&[
        ("inner", JoinType::Inner),
        ("left", JoinType::Left),
        ("full", JoinType::Full),
    ])?;
    if join_type == JoinType::Full && kind == Kind::Lookup {
        return Err(field.bad("is not for lookups, which read the table only: inner or left"));
    }
    Ok(join_type)
}

#[cfg(test)]
mod tests;
