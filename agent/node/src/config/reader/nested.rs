//! Values with values inside: a table in one line (`left = { from = "readings" }`, or
//! `[join.left]` below its section) and lists of such.

use forebay_core::near::did_you_mean;
use toml_edit::{InlineTable, Item, Value};

use super::{Field, Table, shown};
use crate::config::error::{ConfigError, list};
use crate::config::schema::Key;

/// The keys inside of one value, all of them known ones.
#[derive(Debug)]
pub struct Inside<'a> {
    table: Table<'a>,
    inner: InlineTable,
    keys: &'static [Key],
    /// Where the value stands.
    at: Option<usize>,
    name: &'static str,
}

/// The last part of `left.from`.
fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

impl<'a> Table<'a> {
    /// As [`Table::get`], where the value may also be a section of its own
    /// (`[join.left]`, `[[table.rows]]`).
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn get_nested(&self, name: &str) -> Result<Option<Field<'a>>, ConfigError> {
        let item = self.table.and_then(|table| Some((table, table.get(name)?)));
        let Some((table, item)) = item.filter(|(_, item)| item.as_value().is_none()) else {
            return self.get(name);
        };
        // A list of sections has no place of its own, but its first one has.
        let first = item.as_array_of_tables().and_then(|tables| tables.get(0));
        let first = first
            .and_then(toml_edit::Table::span)
            .map(|span| span.start);
        let at = first.or_else(|| self.source.key_span(table, name, item));
        let key = self.section.key(name);
        let key = key.expect("keys are read by their schema name");
        match Item::into_value(item.clone()) {
            Ok(value) => Ok(Some(Field {
                table: *self,
                key,
                value,
                at,
            })),
            Err(_) => Err(self.error_at(at, name, "must be a value")),
        }
    }
}

impl<'a> Field<'a> {
    /// The values inside, whose keys are `keys`, each named `<this>.<key>`.
    ///
    /// # Errors
    /// When it is no table, or has another key.
    pub fn inside(&self, keys: &'static [Key], example: &str) -> Result<Inside<'a>, ConfigError> {
        let Some(inner) = self.value.as_inline_table() else {
            return Err(self.wants(&format!("keys and values such as {example}")));
        };
        let inside = Inside {
            table: self.table,
            inner: inner.clone(),
            keys,
            at: self.at,
            name: self.key.name,
        };
        let names = || keys.iter().map(|key| last(key.name));
        for (name, _) in inner {
            if !names().any(|known| known == name) {
                let what = format!(
                    "is not a key here{}; keys: {}",
                    did_you_mean(name, names()),
                    list(names())
                );
                let name_of = format!("{}.{}", inside.name, shown(name));
                return Err(self.table.error_at(inside.at_of(name), &name_of, what));
            }
        }
        Ok(inside)
    }

    /// The entries of a list of tables, in order; refused as [`Field::error`] does.
    ///
    /// # Errors
    /// When it is no list, or an entry is no table.
    pub fn inline_tables(&self, example: &str) -> Result<Vec<&InlineTable>, ConfigError> {
        let entries = self.value.as_array().map(|array| {
            let tables: Option<Vec<&InlineTable>> =
                array.iter().map(Value::as_inline_table).collect();
            tables
        });
        match entries.flatten() {
            Some(tables) => Ok(tables),
            None => Err(self.error(format!("must be a list of rows such as {example}"))),
        }
    }

    /// An error about a part of this value, at the part's line where it has one.
    pub fn error_inside(&self, part: &InlineTable, what: impl Into<String>) -> ConfigError {
        let at = part.span().map(|span| span.start);
        self.table.error_at(at.or(self.at), self.key.name, what)
    }

    /// A text, or a list of different texts, not empty, at most `max` long.
    ///
    /// # Errors
    /// When it is neither.
    pub fn text_or_texts(&self, max: usize) -> Result<Vec<String>, ConfigError> {
        if self.value.is_str() {
            return self.text().map(|text| vec![text.to_owned()]);
        }
        if !self.value.is_array() {
            return Err(self.wants("a text in quotes, or a list of such"));
        }
        let texts = self.texts(max)?;
        if texts.iter().any(String::is_empty) {
            return Err(self.error("has an empty text"));
        }
        Ok(texts)
    }

    /// Two texts.
    pub fn pair(&self) -> Option<(&str, &str)> {
        let array = self.value.as_array().filter(|array| array.len() == 2)?;
        Some((array.get(0)?.as_str()?, array.get(1)?.as_str()?))
    }
}

impl<'a> Inside<'a> {
    fn at_of(&self, name: &str) -> Option<usize> {
        let key = self.inner.key(name).and_then(toml_edit::Key::span);
        key.map(|span| span.start).or(self.at)
    }

    /// The value of the key of that name (`left.from`), if it is given.
    ///
    /// # Panics
    /// When the schema has no such key.
    pub fn get(&self, name: &str) -> Option<Field<'a>> {
        let key = self.keys.iter().find(|key| last(key.name) == name);
        let key = key.expect("keys are read by their schema name");
        Some(Field {
            table: self.table,
            key,
            value: self.inner.get(name)?.clone(),
            at: self.at_of(name),
        })
    }

    /// An error about a key that is not given.
    pub fn error(&self, name: &str, what: impl Into<String>) -> ConfigError {
        let name = format!("{}.{name}", self.name);
        self.table.error_at(self.at, &name, what)
    }
}
