//! `[[table]]` as types, as far as an engine needs it: names, keys, and the rows that
//! stand in the config. How the other sources are reached is theirs.
//!
//! Always: every row has its key, and no key has two rows. Bound: [`TABLES_MAX`] tables;
//! rows by the size of the file.

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay_core::change::{Change, ChangeOp, row_key};
use forebay_core::engine::config::{EngineConfig, HISTORY_DEFAULT, TableSpec, TimeRules};
use forebay_core::limits::{EVENT_TIME_MAX, KEY_COLUMNS_MAX, ROW_BYTES_MAX, TABLES_MAX};
use forebay_core::near::did_you_mean;
use forebay_core::units::{EventTime, Span};
use serde_json::{Map, Number, Value as Json};
use toml_edit::{InlineTable, Value};

use super::error::{ConfigError, list};
use super::reader::{Field, Source, Table};
use super::schema_table::TABLE;
use super::window::{is_reserved, longer_than_zero};

/// Where the rows of a table come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableSource {
    Config,
    Mqtt,
    File,
    Postgres,
}

/// `[[table]]`
#[derive(Debug, Clone, PartialEq)]
pub struct TableConfig {
    pub name: String,
    /// Its key columns.
    pub key: Vec<String>,
    pub source: TableSource,
    /// Of [`TableSource::Config`].
    pub rows: Vec<TableRow>,
    /// The names of its columns, where they are known.
    pub columns: Option<Vec<String>>,
}

/// A row that stands in the config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRow {
    pub key: Arc<str>,
    /// Text of a JSON object, its columns in the order of the config.
    pub row: Arc<str>,
}

/// Longest change apart from its row: names, times, the key.
const CHANGE_HEAD_BYTES: usize = 512;
const COLUMNS_MAX: usize = 1024;
const ROWS_EXAMPLE: &str = "[{ device = \"boiler\", building = \"north\" }]";

impl TableConfig {
    /// The rows of the config as changes, valid from the beginning of time.
    pub fn first_changes(&self) -> impl Iterator<Item = Change> {
        let table: Arc<str> = self.name.as_str().into();
        self.rows.iter().map(move |row| Change {
            table: Arc::clone(&table),
            op: ChangeOp::Insert,
            key: Arc::clone(&row.key),
            time: EventTime(-EVENT_TIME_MAX),
            before: None,
            after: Some(Arc::clone(&row.row)),
            position: None,
        })
    }

    /// Refuses a column that the table is known not to have.
    ///
    /// # Errors
    /// With the columns that there are.
    pub(super) fn has_column(&self, column: &str) -> Result<(), String> {
        let Some(columns) = &self.columns else {
            return Ok(());
        };
        if columns.iter().any(|known| known == column) {
            return Ok(());
        }
        let known = || columns.iter().map(String::as_str);
        Err(format!(
            "\"{}\", which is no column of \"{}\"{}; columns: {}",
            column.escape_debug(),
            self.name,
            did_you_mean(column, known()),
            list(known())
        ))
    }
}

/// Reads all tables, with what the engine is told of each.
pub(super) fn read(
    source: &Source<'_>,
    time: &TimeRules,
) -> Result<(Vec<TableConfig>, Vec<TableSpec>), ConfigError> {
    let (mut tables, mut specs) = (Vec::<TableConfig>::new(), Vec::new());
    for table in source.many(&TABLE)? {
        if tables.len() == TABLES_MAX {
            let what = format!("is one table too many, at most {TABLES_MAX}");
            return Err(table.error("name", what));
        }
        let name = name(&table)?;
        if tables.iter().any(|other| other.name == name) {
            return Err(table.need("name")?.bad("is the name of two tables"));
        }
        let (config, spec) = one(&table, name, time)?;
        tables.push(config);
        specs.push(spec);
    }
    Ok((tables, specs))
}

fn name(table: &Table<'_>) -> Result<String, ConfigError> {
    let field = table.need("name")?;
    if is_reserved(field.text()?) {
        return Err(field.bad("is a stream of the engine itself; give the table another name"));
    }
    let name = field.name()?;
    if name.contains('.') {
        return Err(field.bad("may have no dot: \"sites.building\" is a column of a table"));
    }
    Ok(name)
}

fn one(
    table: &Table<'_>,
    name: String,
    time: &TimeRules,
) -> Result<(TableConfig, TableSpec), ConfigError> {
    let key_field = table.need("key")?;
    let key = key_field.text_or_texts(KEY_COLUMNS_MAX)?;
    let source = table.need("source")?.one_of(&[
        ("config", TableSource::Config),
        ("mqtt", TableSource::Mqtt),
        ("file", TableSource::File),
        ("postgres", TableSource::Postgres),
    ])?;
    let is_static = source == TableSource::Config;
    let columns = match table.get("columns")? {
        Some(field) => Some(field.texts(COLUMNS_MAX)?),
        None => None,
    };
    let mut config = TableConfig {
        rows: Vec::new(),
        name,
        key,
        source,
        columns,
    };
    for column in &config.key {
        let known = config.has_column(column);
        known.map_err(|what| key_field.error(format!("has {what}")))?;
    }
    match (table.get_nested("rows")?, is_static) {
        (Some(field), true) => read_rows(&mut config, &field)?,
        (None, true) => {
            let what = format!("is missing; for example rows = {ROWS_EXAMPLE}");
            return Err(table.error("rows", what));
        }
        (Some(field), false) => return Err(field.error("is only for source = \"config\"")),
        (None, false) => {}
    }
    let spec = TableSpec {
        key: config.key.clone(),
        is_static,
        out_of_order: span(table, "out_of_order", is_static)?.unwrap_or(time.out_of_order),
        history: span(table, "history", is_static)?.unwrap_or(HISTORY_DEFAULT),
        ..TableSpec::new(&config.name, &[])
    };
    Ok((config, spec))
}

fn span(table: &Table<'_>, key: &str, is_static: bool) -> Result<Option<Span>, ConfigError> {
    let Some(field) = table.get(key)? else {
        return Ok(None);
    };
    if is_static {
        return Err(field.error("is not for source = \"config\", whose rows are all there"));
    }
    let span = match key {
        "history" => longer_than_zero(&field)?,
        _ => field.span_from_zero()?,
    };
    super::window::window_span(&field, span).map(Some)
}

/// Reads the rows; without a list of columns, theirs are the columns.
fn read_rows(config: &mut TableConfig, field: &Field<'_>) -> Result<(), ConfigError> {
    let (mut keys, mut found) = (BTreeSet::new(), Vec::<String>::new());
    for row in field.inline_tables(ROWS_EXAMPLE)? {
        let fail = |what: String| field.error_inside(row, what);
        for (column, _) in row {
            if found.iter().any(|known| known == column) {
                continue;
            }
            let known = config.has_column(column);
            known.map_err(|what| fail(format!("has a row with {what}")))?;
            if found.len() == COLUMNS_MAX {
                return Err(fail(format!("have over {COLUMNS_MAX} columns")));
            }
            found.push(column.to_owned());
        }
        let text = json_object(row).to_string();
        if text.len() > ROW_BYTES_MAX - CHANGE_HEAD_BYTES {
            return Err(fail(format!(
                "has a row of {} bytes, at most {}",
                text.len(),
                ROW_BYTES_MAX - CHANGE_HEAD_BYTES
            )));
        }
        let Some(key) = row_key(&text, &config.key) else {
            return Err(fail(format!(
                "has a row without its key {}",
                list(config.key.iter().map(String::as_str))
            )));
        };
        let key: Arc<str> = key.into();
        if !keys.insert(Arc::clone(&key)) {
            return Err(fail(format!("has two rows of {}", key.escape_debug())));
        }
        let row = text.into();
        config.rows.push(TableRow { key, row });
    }
    if config.columns.is_none() && !config.rows.is_empty() {
        config.columns = Some(found);
    }
    Ok(())
}

fn json_object(row: &InlineTable) -> Json {
    let fields = row.iter();
    Json::Object(
        fields
            .map(|(name, v)| (name.into(), json(v)))
            .collect::<Map<_, _>>(),
    )
}

/// A value of TOML in JSON: numbers that JSON has not, and times, as texts.
fn json(value: &Value) -> Json {
    match value {
        Value::String(text) => Json::String(text.value().clone()),
        Value::Integer(n) => (*n.value()).into(),
        Value::Float(n) => match Number::from_f64(*n.value()) {
            Some(number) => Json::Number(number),
            None if n.value().is_nan() => "NaN".into(),
            None if *n.value() > 0.0 => "Infinity".into(),
            None => "-Infinity".into(),
        },
        Value::Boolean(b) => (*b.value()).into(),
        Value::Datetime(time) => Json::String(time.value().to_string()),
        Value::Array(array) => array.iter().map(json).collect(),
        Value::InlineTable(table) => json_object(table),
    }
}

/// Tables that a name may mean, for errors.
pub(super) fn names(engine: &EngineConfig) -> impl Iterator<Item = &str> + Clone {
    engine.tables.iter().map(|table| table.name.as_str())
}
