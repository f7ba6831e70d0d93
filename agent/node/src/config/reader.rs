//! Reads TOML by a [`Section`]: takes defaults from it, and names file, line,
//! key and the nearest valid key in every error. Knows no meaning of any key.
//!
//! Bound: a file holds at most [`CONFIG_BYTES_MAX`].

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use forebay_core::near::did_you_mean;
use toml_edit::{Document, Item, Table as TomlTable, Value};

use super::error::{ConfigError, Place, list};
use super::schema::{Default, Section};

mod field;
mod nested;

pub use self::field::Field;
pub use self::nested::Inside;

/// Largest config file.
pub const CONFIG_BYTES_MAX: u64 = 1 << 20;
/// Longest text in an error message; the rest is cut.
const SHOWN_BYTES_MAX: usize = 80;

/// Text of a config file. The error of a file that is too large says so
/// without reading all of it.
pub fn read_text(path: &Path) -> Result<String, ConfigError> {
    let fail = |what: String| ConfigError::whole_file(path, what);
    let file = File::open(path).map_err(|e| {
        // Most often the default name, in a folder without such a file.
        let next = if e.kind() == ErrorKind::NotFound {
            ": give the path of a config, or begin one with `forebay config reference`"
        } else {
            ""
        };
        fail(format!("cannot be opened: {e}{next}"))
    })?;
    let mut bytes = Vec::new();
    file.take(CONFIG_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| fail(format!("cannot be read: {e}")))?;
    if bytes.len() as u64 > CONFIG_BYTES_MAX {
        return Err(fail(format!(
            "is larger than {CONFIG_BYTES_MAX} bytes, the most a config may have"
        )));
    }
    String::from_utf8(bytes).map_err(|e| {
        let good = e.utf8_error().valid_up_to();
        let line = 1 + e.as_bytes()[..good].iter().filter(|b| **b == b'\n').count();
        ConfigError {
            line: Some(line),
            ..fail("is not UTF-8 text".into())
        }
    })
}

/// A parsed file with what errors need.
#[derive(Debug)]
pub struct Source<'a> {
    path: &'a Path,
    text: &'a str,
    document: Document<&'a str>,
}

impl<'a> Source<'a> {
    /// Parses TOML; an error of the grammar names the line, never its text,
    /// which could hold a secret.
    pub fn parse(path: &'a Path, text: &'a str) -> Result<Self, ConfigError> {
        let document = Document::parse(text).map_err(|e| ConfigError {
            line: e.span().map(|span| line_of(text, span.start)),
            ..ConfigError::whole_file(path, format!("is not TOML: {}", one_line(e.message())))
        })?;
        Ok(Self {
            path,
            text,
            document,
        })
    }

    /// Refuses sections that nobody knows.
    pub fn only(&self, sections: &[&'static Section]) -> Result<(), ConfigError> {
        for (name, item) in self.document.as_table() {
            if sections.iter().any(|section| section.name == name) {
                continue;
            }
            let names = || sections.iter().map(|section| section.name);
            let what = format!(
                "is not a section{}; sections: {}",
                did_you_mean(name, names()),
                list(names())
            );
            return Err(ConfigError {
                file: self.path.to_owned(),
                line: self.line(self.key_span(self.document.as_table(), name, item)),
                place: format!("[{}]", shown(name)),
                what,
            });
        }
        Ok(())
    }

    /// The section `[name]`, with all defaults when it is missing.
    pub fn one(&'a self, section: &'static Section) -> Result<Table<'a>, ConfigError> {
        match self.document.get(section.name) {
            None => Ok(Table {
                source: self,
                section,
                table: None,
            }),
            Some(item) => match item.as_table() {
                Some(table) => Table::open(self, section, table),
                None => Err(self.wrong_shape(section, item)),
            },
        }
    }

    /// All sections `[[name]]` in file order.
    pub fn many(&'a self, section: &'static Section) -> Result<Vec<Table<'a>>, ConfigError> {
        match self.document.get(section.name) {
            None => Ok(Vec::new()),
            Some(item) => match item.as_array_of_tables() {
                Some(tables) => tables
                    .iter()
                    .map(|table| Table::open(self, section, table))
                    .collect(),
                None => Err(self.wrong_shape(section, item)),
            },
        }
    }

    /// The section `[name]`, or all sections `[[name]]` in file order.
    pub fn one_or_many(&'a self, section: &'static Section) -> Result<Vec<Table<'a>>, ConfigError> {
        let item = self.document.get(section.name);
        match item.and_then(Item::as_table) {
            Some(table) => Ok(vec![Table::open(self, section, table)?]),
            None => self.many(section),
        }
    }

    fn wrong_shape(&self, section: &Section, item: &Item) -> ConfigError {
        let root = self.document.as_table();
        ConfigError {
            file: self.path.to_owned(),
            line: self.line(self.key_span(root, section.name, item)),
            place: section.name.to_owned(),
            what: format!("must be written as {}", section.header()),
        }
    }

    fn key_span(&self, table: &TomlTable, name: &str, item: &Item) -> Option<usize> {
        let key = table.key(name).and_then(toml_edit::Key::span);
        key.or_else(|| item.span()).map(|span| span.start)
    }

    fn line(&self, at: Option<usize>) -> Option<usize> {
        at.map(|at| line_of(self.text, at))
    }
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|b| *b == b'\n').count()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A value in an error message: one line, cut where it is long.
fn shown(text: &str) -> String {
    let mut end = text.len().min(SHOWN_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let cut = if end < text.len() { "..." } else { "" };
    format!("{}{cut}", text[..end].escape_debug())
}

/// One section of the file, whose keys are all known ones.
#[derive(Debug, Clone, Copy)]
pub struct Table<'a> {
    source: &'a Source<'a>,
    section: &'static Section,
    table: Option<&'a TomlTable>,
}

impl<'a> Table<'a> {
    fn open(
        source: &'a Source<'a>,
        section: &'static Section,
        table: &'a TomlTable,
    ) -> Result<Self, ConfigError> {
        let this = Self {
            source,
            section,
            table: Some(table),
        };
        for (name, item) in table {
            if section.key(name).is_none() {
                let names = || section.all_keys().map(|key| key.name);
                return Err(ConfigError {
                    file: source.path.to_owned(),
                    line: source.line(source.key_span(table, name, item)),
                    place: format!("{} {}", section.header(), shown(name)),
                    what: format!(
                        "is not a key here{}; keys: {}",
                        did_you_mean(name, names()),
                        list(names())
                    ),
                });
            }
        }
        Ok(this)
    }

    /// Whether the file has this key here.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.table.is_some_and(|table| table.contains_key(name))
    }

    /// Whether the file has this section.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.table.is_some()
    }

    /// What the file says, else the default; `None` where there is neither.
    ///
    /// # Errors
    /// When a key without default is missing or the value is a section.
    ///
    /// # Panics
    /// When the schema has no such key or its default is not TOML, which the
    /// tests of the schema rule out.
    pub fn get(&self, name: &str) -> Result<Option<Field<'a>>, ConfigError> {
        let key = self
            .section
            .key(name)
            .expect("keys are read by their schema name");
        let given = self.table.and_then(|table| Some((table, table.get(name)?)));
        let (value, at) = match (given, key.default) {
            (Some((table, item)), _) => {
                let at = self.source.key_span(table, name, item);
                let Some(value) = item.as_value() else {
                    return Err(self.error_at(at, name, "must be a value, not a section"));
                };
                (value.clone(), at)
            }
            (None, Default::Is(text)) => (
                text.parse::<Value>().expect("defaults are TOML values"),
                None,
            ),
            (None, Default::None(_)) => return Ok(None),
            (None, Default::Required(example)) => {
                return Err(self.error(name, format!("is missing; for example {name} = {example}")));
            }
        };
        Ok(Some(Field {
            table: *self,
            key,
            value,
            at,
        }))
    }

    /// As [`Table::get`] for a key that has a default or is required.
    ///
    /// # Errors
    /// As [`Table::get`].
    ///
    /// # Panics
    /// When the key is optional in the schema.
    pub fn need(&self, name: &str) -> Result<Field<'a>, ConfigError> {
        Ok(self
            .get(name)?
            .expect("the schema gives a default or requires the key"))
    }

    /// An error about a key of this section, at the section's line.
    pub fn error(&self, name: &str, what: impl Into<String>) -> ConfigError {
        let at = self.table.and_then(TomlTable::span).map(|span| span.start);
        self.error_at(at, name, what)
    }

    fn error_at(&self, at: Option<usize>, name: &str, what: impl Into<String>) -> ConfigError {
        self.place_at(at, name).error(what)
    }

    fn place_at(&self, at: Option<usize>, name: &str) -> Place {
        Place {
            file: self.source.path.to_owned(),
            line: self.source.line(at),
            key: format!("{} {name}", self.section.header()),
        }
    }
}
