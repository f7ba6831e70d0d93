//! What each window reads: readings or another window. Puts every window behind
//! the one it reads and checks what the two must agree on.

use forebay_core::engine::config::{Aggregate, Emit, Source as From, WindowKind, WindowSpec};
use forebay_core::near::did_you_mean;

use super::error::{ConfigError, list};
use super::reader::{Field, Table};
use super::window;

/// The windows in the order in which they run: that of the file, but what a
/// window reads comes before it.
pub(super) fn link(
    tables: &[Table<'_>],
    names: &[String],
    specs: Vec<WindowSpec>,
) -> Result<Vec<WindowSpec>, ConfigError> {
    let sources: Result<Vec<_>, _> = tables.iter().map(|table| source(table, names)).collect();
    let sources = sources?;
    let order = order(tables, names, &sources)?;
    let mut windows: Vec<WindowSpec> = Vec::with_capacity(specs.len());
    for at in &order {
        let mut spec = specs[*at].clone();
        match sources[*at] {
            None => only_over_windows(&tables[*at])?,
            Some(source) => {
                let place = order.iter().position(|other| *other == source);
                let place = place.expect("every window is in the order");
                over(&tables[*at], &mut spec, &windows[place])?;
                spec.from = From::Window(u16::try_from(place).expect("at most WINDOWS_MAX"));
            }
        }
        windows.push(spec);
    }
    Ok(windows)
}

/// The window that is read, by its place in the file; `None` for readings.
fn source(table: &Table<'_>, names: &[String]) -> Result<Option<usize>, ConfigError> {
    let from = table.need("from")?;
    let text = from.text()?;
    if text == "readings" {
        return Ok(None);
    }
    let found = names.iter().position(|name| name == text);
    found.map(Some).ok_or_else(|| {
        let known = || {
            ["readings"]
                .into_iter()
                .chain(names.iter().map(String::as_str))
        };
        from.bad(format!(
            "is no stream{}; streams: {}",
            did_you_mean(text, known()),
            list(known())
        ))
    })
}

/// Places in the file, sources before readers.
fn order(
    tables: &[Table<'_>],
    names: &[String],
    sources: &[Option<usize>],
) -> Result<Vec<usize>, ConfigError> {
    let mut order: Vec<usize> = Vec::with_capacity(sources.len());
    while order.len() < sources.len() {
        let placed = |at: &usize| order.contains(at);
        let ready = (0..sources.len())
            .find(|at| !placed(at) && sources[*at].is_none_or(|source| placed(&source)));
        match ready {
            Some(at) => order.push(at),
            None => {
                let first = (0..sources.len()).find(|at| !placed(at));
                let first = first.expect("fewer are placed than there are");
                return Err(circle(tables, names, sources, first));
            }
        }
    }
    Ok(order)
}

/// The error of a window that reads itself, perhaps through others.
fn circle(
    tables: &[Table<'_>],
    names: &[String],
    sources: &[Option<usize>],
    first: usize,
) -> ConfigError {
    // Whoever is not placed reads one that is not: after so many steps we are in
    // the circle.
    let next = |at: usize| sources[at].unwrap_or(at);
    let inside = (0..sources.len()).fold(first, |at, _| next(at));
    let mut way = vec![inside];
    while next(way[way.len() - 1]) != inside {
        way.push(next(way[way.len() - 1]));
    }
    let start = way.iter().copied().min().unwrap_or(inside);
    let turn = way.iter().position(|at| *at == start).unwrap_or(0);
    way.rotate_left(turn);
    way.push(start);
    let way: Vec<&str> = way.iter().map(|at| names[*at].as_str()).collect();
    let what = format!("makes a circle: {} (each reads the next)", way.join(" -> "));
    match tables[start].need("from") {
        Ok(field) => field.bad(what),
        Err(error) => error,
    }
}

fn only_over_windows(table: &Table<'_>) -> Result<(), ConfigError> {
    for key in ["value", "merge"] {
        if let Some(field) = table.get(key)?
            && (key != "merge" || field.bool()?)
        {
            return Err(
                field.bad("is only for a window over another one; here from = \"readings\"")
            );
        }
    }
    Ok(())
}

/// # Errors
/// When a window that is to be read never has a row.
pub(super) fn has_rows(field: &Field<'_>, inner: &WindowSpec) -> Result<(), ConfigError> {
    if inner.emit == Emit::Never {
        let name = inner.name.as_str();
        return Err(field.bad(format!("has no rows: \"{name}\" has emit = \"never\"")));
    }
    Ok(())
}

/// What a window takes from the one it reads.
fn over(table: &Table<'_>, spec: &mut WindowSpec, inner: &WindowSpec) -> Result<(), ConfigError> {
    has_rows(&table.need("from")?, inner)?;
    key(table, spec, inner)?;
    let name = inner.name.as_str();
    for (key, there) in [
        ("channels", inner.key.channel),
        ("devices", inner.key.device),
    ] {
        if let Some(field) = table.get(key)?.filter(|_| !there) {
            let column = key.trim_end_matches('s');
            return Err(field.bad(format!(
                "cannot be told apart: \"{name}\" has no {column} in its key"
            )));
        }
    }
    spec.merge = table
        .get("merge")?
        .map_or(Ok(false), |field| field.bool())?;
    if spec.merge {
        return can_merge(table, inner);
    }
    spec.value = value(table, inner)?;
    Ok(())
}

fn key(table: &Table<'_>, spec: &mut WindowSpec, inner: &WindowSpec) -> Result<(), ConfigError> {
    let field = table.need("key")?;
    if !field.is_given() {
        spec.key = inner.key;
        spec.key_columns.clone_from(&inner.key_columns);
        return Ok(());
    }
    let columns = [
        ("device", spec.key.device, inner.key.device),
        ("channel", spec.key.channel, inner.key.channel),
    ];
    for (column, wanted, there) in columns {
        if wanted && !there {
            let has = columns.iter().filter(|(_, _, there)| *there);
            return Err(field.bad(format!(
                "has the column {column}, which the key of \"{}\" has not; columns: {}",
                inner.name,
                list(has.map(|(column, _, _)| *column))
            )));
        }
    }
    let missing = spec
        .key_columns
        .iter()
        .find(|column| !inner.key_columns.contains(column));
    if let Some(missing) = missing {
        return Err(field.bad(format!(
            "has a column {}, which the key of \"{}\" has not",
            missing.column.escape_debug(),
            inner.name,
        )));
    }
    Ok(())
}

fn value(table: &Table<'_>, inner: &WindowSpec) -> Result<Aggregate, ConfigError> {
    let given = table.get("value")?;
    figure(given.as_ref(), |what| table.error("value", what), inner)
}

/// The figure of a window's rows that its reader takes; `missing` makes the error of the
/// key where it is not given.
pub(super) fn figure(
    given: Option<&Field<'_>>,
    missing: impl Fn(String) -> ConfigError,
    inner: &WindowSpec,
) -> Result<Aggregate, ConfigError> {
    let has = list(
        inner
            .aggregates
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .iter()
            .map(String::as_str),
    );
    let Some(field) = given else {
        if inner.aggregates.contains(&Aggregate::Mean) {
            return Ok(Aggregate::Mean);
        }
        let what = format!(
            "is missing: \"{}\" has no mean, which is the default; its figures: {has}",
            inner.name
        );
        return Err(missing(what));
    };
    let value = window::aggregate(field, field.text()?)?;
    if !inner.aggregates.contains(&value) {
        return Err(field.bad(format!(
            "is no figure of \"{}\"; its figures: {has}",
            inner.name
        )));
    }
    Ok(value)
}

fn can_merge(table: &Table<'_>, inner: &WindowSpec) -> Result<(), ConfigError> {
    if let Some(field) = table.get("value")? {
        return Err(field.bad("cannot stand beside merge = true, which takes whole windows"));
    }
    let twice = match &inner.kind {
        WindowKind::Tumbling(_) | WindowKind::Session { .. } => false,
        WindowKind::Hopping { size, hop, .. } => size > hop,
        WindowKind::Sliding { .. } | WindowKind::Rows { .. } => true,
    };
    if twice {
        return Err(table.need("merge")?.bad(format!(
            "would count readings twice: the windows of \"{}\" overlap; merge takes tumbling \
             windows and sessions",
            inner.name
        )));
    }
    Ok(())
}
