//! Which readings a side of a join takes: a condition over device, channel and value,
//! written as in SQL.
//!
//! Always: a text that was taken has a form of its own, [`Filter`]'s `Display`, which
//! reads back to the same filter; equal filters have equal forms. A value that is null
//! makes a comparison neither true nor false, as in SQL; only what is true is taken.
//! Comparisons of NaN are those of IEEE 754: none but `!=` is true.
//!
//! Bound: [`FILTER_TEXT_BYTES_MAX`] bytes of text, [`FILTER_DEPTH_MAX`] levels. Knows no
//! series ids: whoever asks remembers the answer for a series.

use std::fmt;

mod parse;

pub use self::parse::{FILTER_COLUMNS, FilterError, FilterFault};

#[cfg(doc)]
use crate::limits::{FILTER_DEPTH_MAX, FILTER_TEXT_BYTES_MAX};

/// A checked condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    node: Node,
}

/// Whether the readings of a series are taken, as far as its names tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maybe {
    No,
    Yes,
    /// The value decides: [`Filter::takes`].
    ByValue,
}

/// A condition or a part of one.
#[derive(Debug, Clone, PartialEq)]
enum Node {
    /// Two or more, none of them an `And`.
    And(Vec<Node>),
    /// Two or more, none of them an `Or`.
    Or(Vec<Node>),
    Not(Box<Node>),
    /// The name is one of these; sorted, at least one.
    Name(NameColumn, Vec<String>),
    Value(Comparison, f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameColumn {
    Device,
    Channel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// What a condition comes to. In the order of `and`: the least wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Truth {
    False,
    /// Null, or not known yet.
    Open,
    True,
}

impl Filter {
    /// Reads a condition.
    ///
    /// # Errors
    /// What is wrong with it, and at which byte.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        parse::whole(text).map(|node| Self { node })
    }

    /// What the names of a series tell about all its readings.
    #[must_use]
    pub fn takes_series(&self, device: &str, channel: &str) -> Maybe {
        match self.node.truth(device, channel, Seen::Names) {
            Truth::False => Maybe::No,
            Truth::Open => Maybe::ByValue,
            Truth::True => Maybe::Yes,
        }
    }

    /// Whether a reading is taken; `None` is a value that is null.
    #[must_use]
    pub fn takes(&self, device: &str, channel: &str, value: Option<f64>) -> bool {
        self.node.truth(device, channel, Seen::All(value)) == Truth::True
    }

    /// Whether it asks for the device, and for the channel.
    #[must_use]
    pub fn asks_for_names(&self) -> (bool, bool) {
        let asks = |column| self.node.asks_for(column);
        (asks(NameColumn::Device), asks(NameColumn::Channel))
    }
}

/// What is known of a reading.
#[derive(Clone, Copy)]
enum Seen {
    Names,
    All(Option<f64>),
}

impl Node {
    fn truth(&self, device: &str, channel: &str, seen: Seen) -> Truth {
        match self {
            Self::And(nodes) => {
                let mut all = Truth::True;
                for node in nodes {
                    all = all.min(node.truth(device, channel, seen));
                    if all == Truth::False {
                        break;
                    }
                }
                all
            }
            Self::Or(nodes) => {
                let mut any = Truth::False;
                for node in nodes {
                    any = any.max(node.truth(device, channel, seen));
                    if any == Truth::True {
                        break;
                    }
                }
                any
            }
            Self::Not(node) => match node.truth(device, channel, seen) {
                Truth::False => Truth::True,
                Truth::Open => Truth::Open,
                Truth::True => Truth::False,
            },
            Self::Name(column, names) => {
                let name = match column {
                    NameColumn::Device => device,
                    NameColumn::Channel => channel,
                };
                let found = names.binary_search_by(|known| known.as_str().cmp(name));
                Truth::of(found.is_ok())
            }
            Self::Value(comparison, bound) => match seen {
                Seen::Names | Seen::All(None) => Truth::Open,
                Seen::All(Some(value)) => Truth::of(comparison.holds(value, *bound)),
            },
        }
    }

    fn asks_for(&self, column: NameColumn) -> bool {
        match self {
            Self::And(nodes) | Self::Or(nodes) => nodes.iter().any(|node| node.asks_for(column)),
            Self::Not(node) => node.asks_for(column),
            Self::Name(asked, _) => *asked == column,
            Self::Value(..) => false,
        }
    }

    /// Writes it; parts in parentheses where they need them.
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::And(nodes) => write_list(f, nodes, " and "),
            Self::Or(nodes) => write_list(f, nodes, " or "),
            Self::Not(node) => {
                f.write_str("not ")?;
                node.write_inside(f)
            }
            Self::Name(column, names) => {
                f.write_str(match column {
                    NameColumn::Device => "device in (",
                    NameColumn::Channel => "channel in (",
                })?;
                for (at, name) in names.iter().enumerate() {
                    let comma = if at > 0 { ", " } else { "" };
                    write!(f, "{comma}'{}'", name.replace('\'', "''"))?;
                }
                f.write_str(")")
            }
            Self::Value(comparison, bound) => {
                write!(f, "value {} {bound:e}", comparison.sign())
            }
        }
    }

    fn write_inside(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(self, Self::And(_) | Self::Or(_)) {
            f.write_str("(")?;
            self.write(f)?;
            return f.write_str(")");
        }
        self.write(f)
    }
}

fn write_list(f: &mut fmt::Formatter<'_>, nodes: &[Node], between: &str) -> fmt::Result {
    for (at, node) in nodes.iter().enumerate() {
        if at > 0 {
            f.write_str(between)?;
        }
        node.write_inside(f)?;
    }
    Ok(())
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node.write(f)
    }
}

impl Truth {
    fn of(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

impl Comparison {
    const SIGNS: [(&str, Self); 7] = [
        ("=", Self::Equal),
        ("!=", Self::NotEqual),
        ("<>", Self::NotEqual),
        ("<=", Self::LessOrEqual),
        ("<", Self::Less),
        (">=", Self::GreaterOrEqual),
        (">", Self::Greater),
    ];

    fn sign(self) -> &'static str {
        let found = Self::SIGNS.iter().find(|(_, known)| *known == self);
        found.map_or("", |(sign, _)| sign)
    }

    #[allow(
        clippy::float_cmp,
        reason = "equal as numbers, which is what the text asks for"
    )]
    fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Self::Equal => value == bound,
            Self::NotEqual => value != bound,
            Self::Less => value < bound,
            Self::LessOrEqual => value <= bound,
            Self::Greater => value > bound,
            Self::GreaterOrEqual => value >= bound,
        }
    }
}

#[cfg(test)]
mod tests;
