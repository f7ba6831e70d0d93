//! Rows as JSON objects: the columns of a table in its order.
//!
//! Always holds: a row and its copy in a snapshot are the same text. Memory is in
//! proportion to the row. Knows no transaction.

use std::sync::Arc;

use forebay_core::json;

use super::pgoutput::{Tuple, Value};
use super::value::{self, Kind};

/// The columns of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    columns: Vec<(Arc<str>, Kind)>,
    /// `"name":` of each.
    heads: Vec<Vec<u8>>,
}

impl Shape {
    #[must_use]
    pub fn new(columns: Vec<(Arc<str>, Kind)>) -> Self {
        let head = |(name, _): &(Arc<str>, Kind)| {
            let mut out = Vec::new();
            json::write_text(name, &mut out);
            out.push(b':');
            out
        };
        Self {
            heads: columns.iter().map(head).collect(),
            columns,
        }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Where the column of this name stands.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<usize> {
        self.columns
            .iter()
            .position(|(column, _)| &**column == name)
    }

    pub(super) fn name(&self, place: usize) -> &Arc<str> {
        &self.columns[place].0
    }

    /// The row of these values; values that are not there are left out.
    pub(super) fn row<'v>(
        &self,
        values: impl Iterator<Item = Value<'v>>,
        out: &mut Vec<u8>,
    ) -> Arc<str> {
        out.clear();
        out.push(b'{');
        for ((head, (_, kind)), value) in self.heads.iter().zip(&self.columns).zip(values) {
            let text = match value {
                Value::Unchanged => continue,
                Value::Null => None,
                Value::Text(text) => Some(text),
            };
            if out.len() > 1 {
                out.push(b',');
            }
            out.extend_from_slice(head);
            match text {
                None => out.extend_from_slice(b"null"),
                Some(text) => value::write(*kind, text, out),
            }
        }
        out.push(b'}');
        std::str::from_utf8(out)
            .expect("names, values and what stands between them are UTF-8")
            .into()
    }

    /// A row of the columns at `places` alone.
    pub(super) fn part(&self, places: &[usize], tuple: &Tuple<'_>, out: &mut Vec<u8>) -> Arc<str> {
        let values = tuple.0.iter().enumerate();
        let kept = values.map(|(place, value)| match places.contains(&place) {
            true => *value,
            false => Value::Unchanged,
        });
        self.row(kept, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_in_the_order_of_the_table() {
        let shape = Shape::new(vec![
            ("id".into(), Kind::Integer),
            ("a\"b".into(), Kind::Text),
            ("ok".into(), Kind::Bool),
        ]);
        let mut out = Vec::new();
        let tuple = Tuple(vec![Value::Text("7"), Value::Null, Value::Text("t")]);
        let row = shape.row(tuple.0.iter().copied(), &mut out);
        assert_eq!(&*row, r#"{"id":7,"a\"b":null,"ok":true}"#);
        assert_eq!(&*shape.part(&[2], &tuple, &mut out), r#"{"ok":true}"#);
        let gone = [Value::Unchanged, Value::Text("x"), Value::Unchanged];
        assert_eq!(&*shape.row(gone.into_iter(), &mut out), r#"{"a\"b":"x"}"#);
        assert_eq!(shape.place("ok"), Some(2));
        assert_eq!(shape.place("no"), None);
    }
}
