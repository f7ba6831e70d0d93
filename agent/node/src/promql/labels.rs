//! Labels of series, and the matchers that choose series by them.
//!
//! Always holds: the pairs of [`Labels`] are in order of their names, no name twice, and
//! no value is empty, because to Prometheus an empty label is one that is not there.
//! Bound: as many as a series has. Knows nothing of samples.

use std::sync::Arc;

use promql_parser::label::MatchOp;

/// The label that holds the metric's name.
pub const NAME: &str = "__name__";

/// The labels of a series, with its name among them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Labels(Vec<(Arc<str>, Arc<str>)>);

impl Labels {
    /// Labels of these pairs; empty values are left out, of a name given twice the last
    /// counts.
    #[must_use]
    pub fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut labels = Self::default();
        for (name, value) in pairs {
            labels.set(name, value);
        }
        labels
    }

    /// The value of a label, empty where there is none.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        self.place(name).map_or("", |at| &self.0[at].1)
    }

    /// All pairs, in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Sets a label; an empty value removes it.
    pub fn set(&mut self, name: &str, value: &str) {
        match (self.place(name), value.is_empty()) {
            (Ok(at), true) => {
                self.0.remove(at);
            }
            (Ok(at), false) => self.0[at].1 = Arc::from(value),
            (Err(_), true) => {}
            (Err(at), false) => self.0.insert(at, (Arc::from(name), Arc::from(value))),
        }
    }

    /// These without the metric's name.
    #[must_use]
    pub fn without_name(&self) -> Self {
        self.without(&[])
    }

    /// These without the named ones, and without the metric's name.
    #[must_use]
    pub fn without(&self, names: &[String]) -> Self {
        self.filtered(|name| name != NAME && !names.iter().any(|other| other == name))
    }

    /// Only the named ones of these.
    #[must_use]
    pub fn only(&self, names: &[String]) -> Self {
        self.filtered(|name| names.iter().any(|other| other == name))
    }

    /// These without the named ones; the metric's name stays unless it is named.
    #[must_use]
    pub fn deleting(&self, names: &[String]) -> Self {
        self.filtered(|name| !names.iter().any(|other| other == name))
    }

    fn filtered(&self, keep: impl Fn(&str) -> bool) -> Self {
        let pairs = self.0.iter().filter(|(name, _)| keep(name));
        Self(pairs.cloned().collect())
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| (**other).cmp(name))
    }
}

impl std::fmt::Display for Labels {
    /// As Prometheus writes them in errors: `{a="x", b="y"}`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.get(NAME);
        let mut rest = self.iter().filter(|(label, _)| *label != NAME).peekable();
        f.write_str(name)?;
        if !name.is_empty() && rest.peek().is_none() {
            return Ok(());
        }
        let pairs = rest.map(|(label, value)| format!("{label}={value:?}"));
        write!(f, "{{{}}}", pairs.collect::<Vec<_>>().join(", "))
    }
}

/// One condition on a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matcher {
    pub name: String,
    pub value: String,
    op: MatchOp,
}

impl Matcher {
    /// Takes what the parser made of it: its expressions are anchored at both ends.
    #[must_use]
    pub fn of(matcher: &promql_parser::label::Matcher) -> Self {
        Self {
            name: matcher.name.clone(),
            value: matcher.value.clone(),
            op: matcher.op.clone(),
        }
    }

    /// That the metric has this name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: NAME.to_owned(),
            value: name.to_owned(),
            op: MatchOp::Equal,
        }
    }

    /// Whether it asks for one value.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.op == MatchOp::Equal
    }

    /// Whether a series of these labels meets it.
    #[must_use]
    pub fn takes(&self, labels: &Labels) -> bool {
        self.takes_value(labels.get(&self.name))
    }

    /// Whether a label of this value meets it; an empty one is a label that is not there.
    #[must_use]
    pub fn takes_value(&self, value: &str) -> bool {
        match &self.op {
            MatchOp::Equal => self.value == value,
            MatchOp::NotEqual => self.value != value,
            MatchOp::Re(regex) => regex.is_match(value),
            MatchOp::NotRe(regex) => !regex.is_match(value),
        }
    }
}

/// Whether a series meets all conditions.
#[must_use]
pub fn all_take(matchers: &[Matcher], labels: &Labels) -> bool {
    matchers.iter().all(|matcher| matcher.takes(labels))
}

/// A name as a metric may have it: what is no letter, digit, `_` or `:` becomes `_`, and
/// one that begins with a digit gets a `_` before it.
#[must_use]
pub fn metric_name(text: &str) -> String {
    let mut name: String = text
        .chars()
        .map(|c| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | ':' => c,
            _ => '_',
        })
        .collect();
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        name.insert(0, '_');
    }
    name
}

/// Whether a label may have this name.
#[must_use]
pub fn is_label_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_valid_ones() {
        for (name, text, want) in [
            ("as it is", "temp_c", "temp_c"),
            ("a dot and a dash", "room.temp-c", "room_temp_c"),
            ("a digit first", "2nd", "_2nd"),
            ("nothing", "", "_"),
            ("not ASCII", "µg", "_g"),
            ("colons stay", "minute:mean", "minute:mean"),
        ] {
            assert_eq!(metric_name(text), want, "{name}");
        }
    }

    #[test]
    fn labels_stay_in_order_and_hold_no_empty_value() {
        let mut labels = Labels::of([("b", "1"), ("a", "2"), ("c", ""), ("b", "3")]);
        assert_eq!(labels.to_string(), r#"{a="2", b="3"}"#);
        labels.set("a", "");
        assert_eq!(labels.to_string(), r#"{b="3"}"#);
        labels.set(NAME, "x");
        assert_eq!(labels.to_string(), r#"x{b="3"}"#);
        assert_eq!(labels.get("missing"), "");
    }

    #[test]
    fn matchers_are_anchored_and_see_absent_labels_as_empty() {
        let labels = Labels::of([(NAME, "temp"), ("device", "boiler")]);
        for (text, want) in [
            (r#"temp{device="boiler"}"#, true),
            (r#"temp{device=~"boil"}"#, false),
            (r#"temp{device=~"boil.*|x"}"#, true),
            (r#"temp{device!~"boil"}"#, true),
            (r#"temp{room=""}"#, true),
            (r#"temp{room!=""}"#, false),
            (r#"temp{room=~".*"}"#, true),
            (r#"temp{room=~".+"}"#, false),
            (r#"{__name__=~"te.p"}"#, true),
            (r#"{__name__!="temp",device="boiler"}"#, false),
        ] {
            let matchers = crate::promql::plan::matchers_of(text).expect(text);
            assert_eq!(all_take(&matchers, &labels), want, "{text}");
        }
    }
}
