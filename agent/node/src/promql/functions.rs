//! The functions that queries may call: one table with their names and arguments.
//!
//! Always holds: what stands in [`TABLE`] can be computed, and what can be computed
//! stands there; the page for operators is compared with it. Knows no samples.

use super::ast::Type;

/// A function of the samples in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverTime {
    Avg,
    Min,
    Max,
    Sum,
    Count,
    Stddev,
    Stdvar,
    /// The quantile is the first argument.
    Quantile,
    Last,
    First,
    Present,
    Absent,
    Rate,
    Increase,
    Delta,
    Irate,
    Idelta,
    Changes,
    Resets,
    Deriv,
    /// How far ahead is the second argument.
    PredictLinear,
}

impl OverTime {
    /// Whether the metric's name stays.
    #[must_use]
    pub fn keeps_name(self) -> bool {
        matches!(self, Self::Last | Self::First)
    }
}

/// A function of each value of a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PerValue {
    Abs,
    Ceil,
    Floor,
    Exp,
    Ln,
    Log2,
    Log10,
    Sqrt,
    Sgn,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    Deg,
    Rad,
    Clamp,
    ClampMin,
    ClampMax,
    Round,
}

/// All other functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Time,
    Pi,
    Scalar,
    Vector,
    Timestamp,
    Absent,
    LabelReplace,
    LabelJoin,
    Sort,
    SortDesc,
}

impl Shape {
    #[must_use]
    pub fn gives(self) -> Type {
        match self {
            Self::Time | Self::Pi | Self::Scalar => Type::Scalar,
            Self::Vector
            | Self::Timestamp
            | Self::Absent
            | Self::LabelReplace
            | Self::LabelJoin
            | Self::Sort
            | Self::SortDesc => Type::Vector,
        }
    }
}

/// Which family a function belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    OverTime(OverTime),
    PerValue(PerValue),
    Shape(Shape),
}

/// A function that can be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function {
    pub name: &'static str,
    pub kind: Kind,
    /// Types of its arguments, in order.
    pub takes: &'static [Type],
    /// How many of the last ones may be left out.
    pub optional: usize,
    /// Whether the last one may be given any number of times, also none.
    pub repeats: bool,
}

const fn window(name: &'static str, of: OverTime) -> Function {
    fixed(name, Kind::OverTime(of), &[Type::Matrix])
}

const fn value(name: &'static str, of: PerValue) -> Function {
    fixed(name, Kind::PerValue(of), &[Type::Vector])
}

const fn shape(name: &'static str, of: Shape, takes: &'static [Type]) -> Function {
    fixed(name, Kind::Shape(of), takes)
}

const fn fixed(name: &'static str, kind: Kind, takes: &'static [Type]) -> Function {
    Function {
        name,
        kind,
        takes,
        optional: 0,
        repeats: false,
    }
}

use Type::{Matrix, Scalar, Text, Vector};

/// All functions, by their names.
pub const TABLE: &[Function] = &[
    value("abs", PerValue::Abs),
    shape("absent", Shape::Absent, &[Vector]),
    window("absent_over_time", OverTime::Absent),
    value("acos", PerValue::Acos),
    value("acosh", PerValue::Acosh),
    value("asin", PerValue::Asin),
    value("asinh", PerValue::Asinh),
    value("atan", PerValue::Atan),
    value("atanh", PerValue::Atanh),
    window("avg_over_time", OverTime::Avg),
    value("ceil", PerValue::Ceil),
    window("changes", OverTime::Changes),
    fixed(
        "clamp",
        Kind::PerValue(PerValue::Clamp),
        &[Vector, Scalar, Scalar],
    ),
    fixed(
        "clamp_max",
        Kind::PerValue(PerValue::ClampMax),
        &[Vector, Scalar],
    ),
    fixed(
        "clamp_min",
        Kind::PerValue(PerValue::ClampMin),
        &[Vector, Scalar],
    ),
    value("cos", PerValue::Cos),
    value("cosh", PerValue::Cosh),
    window("count_over_time", OverTime::Count),
    value("deg", PerValue::Deg),
    window("delta", OverTime::Delta),
    window("deriv", OverTime::Deriv),
    value("exp", PerValue::Exp),
    window("first_over_time", OverTime::First),
    value("floor", PerValue::Floor),
    window("idelta", OverTime::Idelta),
    window("increase", OverTime::Increase),
    window("irate", OverTime::Irate),
    Function {
        repeats: true,
        ..shape("label_join", Shape::LabelJoin, &[Vector, Text, Text, Text])
    },
    shape(
        "label_replace",
        Shape::LabelReplace,
        &[Vector, Text, Text, Text, Text],
    ),
    window("last_over_time", OverTime::Last),
    value("ln", PerValue::Ln),
    value("log10", PerValue::Log10),
    value("log2", PerValue::Log2),
    window("max_over_time", OverTime::Max),
    window("min_over_time", OverTime::Min),
    shape("pi", Shape::Pi, &[]),
    fixed(
        "predict_linear",
        Kind::OverTime(OverTime::PredictLinear),
        &[Matrix, Scalar],
    ),
    window("present_over_time", OverTime::Present),
    fixed(
        "quantile_over_time",
        Kind::OverTime(OverTime::Quantile),
        &[Scalar, Matrix],
    ),
    value("rad", PerValue::Rad),
    window("rate", OverTime::Rate),
    window("resets", OverTime::Resets),
    Function {
        optional: 1,
        ..fixed("round", Kind::PerValue(PerValue::Round), &[Vector, Scalar])
    },
    shape("scalar", Shape::Scalar, &[Vector]),
    value("sgn", PerValue::Sgn),
    value("sin", PerValue::Sin),
    value("sinh", PerValue::Sinh),
    shape("sort", Shape::Sort, &[Vector]),
    shape("sort_desc", Shape::SortDesc, &[Vector]),
    value("sqrt", PerValue::Sqrt),
    window("stddev_over_time", OverTime::Stddev),
    window("stdvar_over_time", OverTime::Stdvar),
    window("sum_over_time", OverTime::Sum),
    value("tan", PerValue::Tan),
    value("tanh", PerValue::Tanh),
    shape("time", Shape::Time, &[]),
    shape("timestamp", Shape::Timestamp, &[Vector]),
    shape("vector", Shape::Vector, &[Scalar]),
];

/// The function of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Function> {
    TABLE.iter().find(|function| function.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_and_known_to_the_parser() {
        for pair in TABLE.windows(2) {
            assert!(pair[0].name < pair[1].name, "{}", pair[1].name);
        }
        for function in TABLE {
            let arguments: Vec<&str> = function
                .takes
                .iter()
                .map(|kind| match kind {
                    Type::Scalar => "1",
                    Type::Vector => "x",
                    Type::Matrix => "x[5m]",
                    Type::Text => "'a'",
                })
                .collect();
            let query = format!("{}({})", function.name, arguments.join(", "));
            promql_parser::parser::parse(&query).expect(&query);
        }
    }

    #[test]
    fn the_page_for_operators_lists_them_all() {
        let page = include_str!("../../docs/prometheus.md");
        let (_, list) = page.split_once("<!-- functions").expect("the list begins");
        let (list, _) = list.split_once("<!-- end -->").expect("the list ends");
        let mut listed: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
        listed.sort_unstable();
        let names: Vec<&str> = TABLE.iter().map(|function| function.name).collect();
        assert_eq!(listed, names);
    }
}
