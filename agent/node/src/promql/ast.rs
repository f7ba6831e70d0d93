//! A query after it was checked: only what the evaluator can compute, with every time
//! resolved to milliseconds.
//!
//! Always holds: arguments have the types that their function takes, and selectors are
//! numbered by their place in [`Plan::selectors`]. Bound: the limits of
//! [`limits`](super::limits). Knows no series and no samples.

use super::functions::{OverTime, PerValue, Shape};
use super::labels::Matcher;

/// The times at which an expression is computed: `first`, `first + step`, and so on, ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    pub first: i64,
    /// Above 0, also where there is one time only.
    pub step: i64,
    pub count: usize,
}

impl Grid {
    /// One time.
    #[must_use]
    pub fn at(time: i64) -> Self {
        Self {
            first: time,
            step: 1,
            count: 1,
        }
    }

    /// Time number `index`, ms.
    #[must_use]
    pub fn time(&self, index: usize) -> i64 {
        self.first + self.step * index as i64
    }

    /// The last time, ms.
    #[must_use]
    pub fn last(&self) -> i64 {
        self.time(self.count.saturating_sub(1))
    }

    /// All times, ms.
    pub fn times(self) -> impl Iterator<Item = i64> {
        (0..self.count).map(move |index| self.time(index))
    }
}

/// Which time a selector looks at, seen from the time of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moved {
    /// `@`: this time instead of the step's, ms.
    pub at: Option<i64>,
    /// `offset`: so much earlier, ms; negative is later.
    pub offset: i64,
}

impl Moved {
    /// The time that is looked at for a step at `time`, ms.
    #[must_use]
    pub fn from(&self, time: i64) -> i64 {
        self.at.unwrap_or(time) - self.offset
    }
}

/// Which samples a selector needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    pub matchers: Vec<Matcher>,
    pub moved: Moved,
    /// Length of its windows, ms; for a selector of an instant the look-back.
    pub range: i64,
    /// The steps at which it is asked for.
    pub grid: Grid,
    /// Samples in `(from, to]` are looked at, ms.
    pub from: i64,
    pub to: i64,
    /// The function over its windows, where that is all that is made of it.
    pub only: Option<OverTime>,
}

/// A checked expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    Number(f64),
    Text(String),
    /// A selector of an instant, by its number.
    Instant(usize),
    /// Windows over the samples of a selector, by its number; only as an argument.
    Range(usize),
    /// Windows over what an expression gives; only as an argument.
    Subquery(Box<Subquery>),
    Negated(Box<Node>),
    OverTime(OverTime, Box<Node>, Vec<Node>),
    PerValue(PerValue, Box<Node>, Vec<Node>),
    Shape(Shape, Vec<Node>),
    Aggregate(Box<Aggregate>),
    Binary(Box<Binary>),
}

/// An expression, computed on a grid of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Subquery {
    pub node: Node,
    /// Length of its windows, ms.
    pub range: i64,
    pub moved: Moved,
    /// The times at which `node` is computed.
    pub grid: Grid,
}

/// What becomes of the series of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AggregateOp {
    Sum,
    Avg,
    Min,
    Max,
    Count,
    Group,
    Stddev,
    Stdvar,
    Topk,
    Bottomk,
    Quantile,
}

/// Which labels make a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grouping {
    By(Vec<String>),
    Without(Vec<String>),
}

/// An aggregation over series.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregate {
    pub op: AggregateOp,
    pub grouping: Grouping,
    pub node: Node,
    /// Of topk, bottomk and quantile.
    pub parameter: Option<Node>,
}

/// What is computed of two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
    Atan2,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    And,
    Or,
    Unless,
}

impl BinaryOp {
    #[must_use]
    pub fn is_comparison(self) -> bool {
        match self {
            Self::Equal
            | Self::NotEqual
            | Self::Less
            | Self::LessEqual
            | Self::Greater
            | Self::GreaterEqual => true,
            Self::Add
            | Self::Sub
            | Self::Mul
            | Self::Div
            | Self::Mod
            | Self::Pow
            | Self::Atan2
            | Self::And
            | Self::Or
            | Self::Unless => false,
        }
    }

    #[must_use]
    pub fn is_set(self) -> bool {
        matches!(self, Self::And | Self::Or | Self::Unless)
    }
}

/// Which series of both sides belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Matching {
    On(Vec<String>),
    Ignoring(Vec<String>),
}

/// How many series of a side one of the other side may meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cardinality {
    OneToOne,
    /// `group_left`: many on the left; the named labels come from the right.
    ManyToOne(Vec<String>),
    /// `group_right`: many on the right; the named labels come from the left.
    OneToMany(Vec<String>),
}

/// An operation on two operands.
#[derive(Debug, Clone, PartialEq)]
pub struct Binary {
    pub op: BinaryOp,
    pub left: Node,
    pub right: Node,
    pub matching: Matching,
    pub cardinality: Cardinality,
    /// A comparison gives 0 or 1, instead of leaving out what does not hold.
    pub as_bool: bool,
}

/// A whole query.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub node: Node,
    pub grid: Grid,
    pub selectors: Vec<Selector>,
}

/// What an expression gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Scalar,
    Vector,
    Matrix,
    Text,
}

impl std::fmt::Display for Type {
    /// As Prometheus names them in errors.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Scalar => "scalar",
            Self::Vector => "instant vector",
            Self::Matrix => "range vector",
            Self::Text => "string",
        })
    }
}

impl Node {
    #[must_use]
    pub fn kind(&self) -> Type {
        match self {
            Self::Number(_) => Type::Scalar,
            Self::Text(_) => Type::Text,
            Self::Range(_) | Self::Subquery(_) => Type::Matrix,
            Self::Negated(node) => node.kind(),
            Self::Shape(shape, _) => shape.gives(),
            Self::Instant(_) | Self::OverTime(..) | Self::PerValue(..) | Self::Aggregate(_) => {
                Type::Vector
            }
            Self::Binary(binary) => {
                let both = [binary.left.kind(), binary.right.kind()];
                if both == [Type::Scalar; 2] {
                    Type::Scalar
                } else {
                    Type::Vector
                }
            }
        }
    }

    /// The string that it is; empty of all else.
    #[must_use]
    pub fn text(&self) -> &str {
        if let Self::Text(text) = self {
            text
        } else {
            ""
        }
    }
}
