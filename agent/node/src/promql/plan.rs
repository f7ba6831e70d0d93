//! Makes a [`Plan`] of the text of a query: parses it, checks it, resolves its times.
//!
//! Always holds: a query that is planned can be computed; what is not supported is
//! refused here, by its name. Bound: [`QUERY_BYTES_MAX`], [`QUERY_NESTING_MAX`],
//! [`QUERY_SELECTORS_MAX`]. Knows no series.

use std::panic::catch_unwind;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use promql_parser::parser::token as t;
use promql_parser::parser::{
    AggregateExpr, AtModifier, BinaryExpr, Call, Expr, LabelModifier, Offset, SubqueryExpr,
    VectorMatchCardinality, VectorSelector,
};

use super::ast::{
    Aggregate, AggregateOp, Binary, BinaryOp, Cardinality, Grid, Grouping, Matching, Moved, Node,
    Plan, Selector, Subquery, Type,
};
use super::error::QueryError;
use super::functions::{self, Kind, OverTime, Shape};
use super::labels::{Matcher, NAME};
use super::limits::{
    QUERY_BYTES_MAX, QUERY_NESTING_MAX, QUERY_SAMPLES_MAX, QUERY_SELECTORS_MAX, SPAN_MS_MAX,
    SUBQUERY_STEP_MS, TIME_MS_MAX,
};

/// Plans `query` for the times of `grid`; a sample of an instant is at most `lookback`
/// ms old.
///
/// # Errors
/// A sentence that says what is wrong with it, or what is not supported.
pub fn plan(query: &str, grid: Grid, lookback: i64) -> Result<Plan, QueryError> {
    plan_until(query, (grid, grid.last()), lookback)
}

/// The same for a query that ends at `end`, which need not be a step of its own: it is
/// what `@ end()` means.
///
/// # Errors
/// As [`plan`].
pub fn plan_until(
    query: &str,
    (grid, end): (Grid, i64),
    lookback: i64,
) -> Result<Plan, QueryError> {
    let expr = parse(query)?;
    let mut planner = Planner {
        ends: (grid.first, end),
        lookback,
        selectors: Vec::new(),
    };
    let node = planner.node(&expr, grid)?;
    Ok(Plan {
        node,
        grid,
        selectors: planner.selectors,
    })
}

/// The conditions of a selector on its own, as in `match[]`.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub fn matchers_of(text: &str) -> Result<Vec<Matcher>, QueryError> {
    if let Expr::VectorSelector(selector) = parse(text)?
        && selector.offset.is_none()
        && selector.at.is_none()
    {
        return matchers(&selector);
    }
    Err(QueryError::BadData(format!(
        "parse error: `{text}` is not a selector of series"
    )))
}

fn parse(query: &str) -> Result<Expr, QueryError> {
    if query.len() > QUERY_BYTES_MAX {
        let bytes = query.len();
        return Err(bad(format!(
            "the query has {bytes} bytes, and may have {QUERY_BYTES_MAX}"
        )));
    }
    let nesting = nesting(query);
    if nesting > QUERY_NESTING_MAX {
        return Err(bad(format!(
            "the query has {nesting} brackets and operators, and may have {QUERY_NESTING_MAX}"
        )));
    }
    // The parser makes a duration of a number of seconds by a conversion that panics
    // where the number is negative, not finite, or too large.
    let parsed = catch_unwind(|| promql_parser::parser::parse(query));
    match parsed {
        Ok(Ok(expr)) => Ok(expr),
        Ok(Err(error)) => Err(bad(format!("parse error: {error}"))),
        Err(_) => Err(bad("parse error: a duration is out of range".to_owned())),
    }
}

fn bad(text: String) -> QueryError {
    QueryError::BadData(text)
}

fn unsupported(what: &str) -> QueryError {
    QueryError::BadData(format!("{what} is not supported"))
}

/// How many brackets open and operators stand in the text, outside of its strings: the
/// tree is at most this deep.
fn nesting(query: &str) -> usize {
    let mut count = 0;
    let mut quote = None;
    let mut escaped = false;
    let mut word = String::new();
    for c in query.chars().chain([' ']) {
        if let Some(open) = quote {
            if escaped {
                escaped = false;
            } else if c == '\\' && open != '`' {
                escaped = true;
            } else if c == open {
                quote = None;
            }
            continue;
        }
        if c.is_ascii_alphanumeric() || c == '_' {
            word.push(c.to_ascii_lowercase());
            continue;
        }
        if matches!(word.as_str(), "and" | "or" | "unless" | "atan2") {
            count += 1;
        }
        word.clear();
        match c {
            '"' | '\'' | '`' => quote = Some(c),
            '(' | '[' | '{' | '+' | '-' | '*' | '/' | '%' | '^' | '=' | '!' | '<' | '>' => {
                count += 1;
            }
            _ => {}
        }
    }
    count
}

struct Planner {
    /// First and last time of the whole query, for `@ start()` and `@ end()`.
    ends: (i64, i64),
    lookback: i64,
    selectors: Vec<Selector>,
}

impl Planner {
    fn node(&mut self, expr: &Expr, grid: Grid) -> Result<Node, QueryError> {
        match expr {
            Expr::NumberLiteral(number) => Ok(Node::Number(number.val)),
            Expr::StringLiteral(text) => Ok(Node::Text(text.val.clone())),
            Expr::Paren(inner) => self.node(&inner.expr, grid),
            Expr::Unary(unary) => {
                let node = self.node(&unary.expr, grid)?;
                expect(&node, &[Type::Scalar, Type::Vector], "unary expression")?;
                Ok(Node::Negated(Box::new(node)))
            }
            Expr::VectorSelector(selector) => {
                let number = self.selector(selector, (self.lookback, None), grid)?;
                Ok(Node::Instant(number))
            }
            Expr::MatrixSelector(matrix) => {
                let range = span(matrix.range)?;
                let number = self.selector(&matrix.vs, (range, None), grid)?;
                Ok(Node::Range(number))
            }
            Expr::Subquery(subquery) => self.subquery(subquery, grid),
            Expr::Call(call) => self.call(call, grid),
            Expr::Aggregate(aggregate) => self.aggregate(aggregate, grid),
            Expr::Binary(binary) => self.binary(binary, grid),
            Expr::Extension(_) => Err(unsupported("this expression")),
        }
    }

    fn selector(
        &mut self,
        selector: &VectorSelector,
        (range, only): (i64, Option<OverTime>),
        grid: Grid,
    ) -> Result<usize, QueryError> {
        if self.selectors.len() == QUERY_SELECTORS_MAX {
            return Err(bad(format!(
                "the query has more than {QUERY_SELECTORS_MAX} selectors"
            )));
        }
        let moved = self.moved(selector.at.as_ref(), selector.offset.as_ref())?;
        let (from, to) = (moved.from(grid.first) - range, moved.from(grid.last()));
        in_time(from)?;
        in_time(to)?;
        self.selectors.push(Selector {
            matchers: matchers(selector)?,
            moved,
            range,
            grid,
            from,
            to,
            only,
        });
        Ok(self.selectors.len() - 1)
    }

    fn moved(&self, at: Option<&AtModifier>, by: Option<&Offset>) -> Result<Moved, QueryError> {
        let at = match at {
            None => None,
            Some(AtModifier::Start) => Some(self.ends.0),
            Some(AtModifier::End) => Some(self.ends.1),
            Some(AtModifier::At(time)) => Some(in_time(millis(*time))?),
        };
        let offset = match by {
            None => 0,
            Some(Offset::Pos(duration)) => span(*duration)?,
            Some(Offset::Neg(duration)) => -span(*duration)?,
        };
        Ok(Moved { at, offset })
    }

    fn subquery(&mut self, subquery: &SubqueryExpr, outer: Grid) -> Result<Node, QueryError> {
        let range = span(subquery.range)?;
        let step = subquery.step.map_or(Ok(SUBQUERY_STEP_MS), span)?;
        let moved = self.moved(subquery.at.as_ref(), subquery.offset.as_ref())?;
        let after = in_time(moved.from(outer.first) - range)?;
        let last = in_time(moved.from(outer.last()))?;
        // Its times are multiples of its step, whatever the times of the query.
        let first = (after.div_euclid(step) + 1) * step;
        let count = (last - first).div_euclid(step) + 1;
        let count = usize::try_from(count).unwrap_or(0);
        if count > QUERY_SAMPLES_MAX {
            return Err(bad(format!(
                "a subquery has {count} steps, and may have {QUERY_SAMPLES_MAX}: give it a longer step"
            )));
        }
        let grid = Grid { first, step, count };
        let node = self.node(&subquery.expr, grid)?;
        expect(&node, &[Type::Vector], "subquery")?;
        Ok(Node::Subquery(Box::new(Subquery {
            node,
            range,
            moved,
            grid,
        })))
    }

    fn call(&mut self, call: &Call, grid: Grid) -> Result<Node, QueryError> {
        let name = call.func.name;
        let Some(function) = functions::find(name) else {
            return Err(unsupported(&format!("the function {name}()")));
        };
        let given = call.args.args.len();
        let most = if function.repeats {
            usize::MAX
        } else {
            function.takes.len()
        };
        let least = function.takes.len() - function.optional - usize::from(function.repeats);
        if given < least || given > most {
            return Err(bad(format!(
                "{name}() takes {} argument(s), not {given}",
                function.takes.len()
            )));
        }
        let mut nodes = Vec::with_capacity(given);
        for (index, argument) in call.args.args.iter().enumerate() {
            let node = self.argument(argument, function.kind, grid)?;
            let kind = function.takes[index.min(function.takes.len() - 1)];
            expect(&node, &[kind], &format!("call to function \"{name}\""))?;
            nodes.push(node);
        }
        Ok(match function.kind {
            Kind::OverTime(of) => {
                let at = nodes.iter().position(|node| node.kind() == Type::Matrix);
                let windows = nodes.remove(at.expect("every such function takes windows"));
                Node::OverTime(of, Box::new(windows), nodes)
            }
            Kind::PerValue(of) => {
                let vector = nodes.remove(0);
                Node::PerValue(of, Box::new(vector), nodes)
            }
            Kind::Shape(of) => {
                check_texts(of, &nodes)?;
                Node::Shape(of, nodes)
            }
        })
    }

    /// An argument; a selector of windows is told which function it is for.
    fn argument(&mut self, expr: &Expr, kind: Kind, grid: Grid) -> Result<Node, QueryError> {
        match (expr, kind) {
            (Expr::Paren(inner), _) => self.argument(&inner.expr, kind, grid),
            (Expr::MatrixSelector(matrix), Kind::OverTime(of)) => {
                let range = span(matrix.range)?;
                let number = self.selector(&matrix.vs, (range, Some(of)), grid)?;
                Ok(Node::Range(number))
            }
            _ => self.node(expr, grid),
        }
    }

    fn aggregate(&mut self, aggregate: &AggregateExpr, grid: Grid) -> Result<Node, QueryError> {
        let op = aggregate_op(aggregate)?;
        let node = self.node(&aggregate.expr, grid)?;
        expect(&node, &[Type::Vector], "aggregation expression")?;
        let parameter = match &aggregate.param {
            Some(expr) => {
                let parameter = self.node(expr, grid)?;
                expect(&parameter, &[Type::Scalar], "aggregation parameter")?;
                Some(parameter)
            }
            None => None,
        };
        let grouping = match &aggregate.modifier {
            None => Grouping::By(Vec::new()),
            Some(LabelModifier::Include(names)) => Grouping::By(names.labels.clone()),
            Some(LabelModifier::Exclude(names)) => Grouping::Without(names.labels.clone()),
        };
        Ok(Node::Aggregate(Box::new(Aggregate {
            op,
            grouping,
            node,
            parameter,
        })))
    }

    fn binary(&mut self, binary: &BinaryExpr, grid: Grid) -> Result<Node, QueryError> {
        let op = binary_op(binary)?;
        let left = self.node(&binary.lhs, grid)?;
        let right = self.node(&binary.rhs, grid)?;
        for side in [&left, &right] {
            expect(side, &[Type::Scalar, Type::Vector], "binary expression")?;
        }
        let mut matching = Matching::Ignoring(Vec::new());
        let mut cardinality = Cardinality::OneToOne;
        if let Some(modifier) = &binary.modifier {
            if modifier.fill_values != Default::default() {
                return Err(unsupported("the modifier fill()"));
            }
            match &modifier.matching {
                None => {}
                Some(LabelModifier::Include(names)) => {
                    matching = Matching::On(names.labels.clone())
                }
                Some(LabelModifier::Exclude(names)) => {
                    matching = Matching::Ignoring(names.labels.clone());
                }
            }
            match &modifier.card {
                VectorMatchCardinality::OneToOne | VectorMatchCardinality::ManyToMany => {}
                VectorMatchCardinality::ManyToOne(names) => {
                    cardinality = Cardinality::ManyToOne(names.labels.clone());
                }
                VectorMatchCardinality::OneToMany(names) => {
                    cardinality = Cardinality::OneToMany(names.labels.clone());
                }
            }
        }
        Ok(Node::Binary(Box::new(Binary {
            op,
            left,
            right,
            matching,
            cardinality,
            as_bool: binary.return_bool(),
        })))
    }
}

fn expect(node: &Node, kinds: &[Type], place: &str) -> Result<(), QueryError> {
    let kind = node.kind();
    if kinds.contains(&kind) {
        return Ok(());
    }
    let wanted: Vec<String> = kinds.iter().map(Type::to_string).collect();
    Err(bad(format!(
        "parse error: expected type {} in {place}, got {kind}",
        wanted.join(" or ")
    )))
}

/// The texts that name labels and expressions, checked before anything is read.
fn check_texts(of: Shape, nodes: &[Node]) -> Result<(), QueryError> {
    let text = |index: usize| nodes.get(index).map_or("", Node::text);
    let (name, labels) = match of {
        Shape::LabelReplace => ("label_replace", vec![text(1)]),
        Shape::LabelJoin => {
            let sources = (3..nodes.len()).map(text);
            ("label_join", [text(1)].into_iter().chain(sources).collect())
        }
        Shape::Time
        | Shape::Pi
        | Shape::Scalar
        | Shape::Vector
        | Shape::Timestamp
        | Shape::Absent
        | Shape::Sort
        | Shape::SortDesc => return Ok(()),
    };
    if let Some(wrong) = labels
        .iter()
        .find(|label| !super::labels::is_label_name(label))
    {
        return Err(QueryError::Execution(format!(
            "invalid label name in {name}(): {wrong}"
        )));
    }
    if of == Shape::LabelReplace {
        anchored(text(4))?;
    }
    Ok(())
}

/// An expression of `label_replace`, which meets whole values only.
///
/// # Errors
/// When it is none.
pub(super) fn anchored(text: &str) -> Result<regex::Regex, QueryError> {
    regex::Regex::new(&format!("^(?s:{text})$")).map_err(|_| {
        QueryError::Execution(format!(
            "invalid regular expression in label_replace(): {text}"
        ))
    })
}

fn matchers(selector: &VectorSelector) -> Result<Vec<Matcher>, QueryError> {
    if !selector.matchers.or_matchers.is_empty() {
        return Err(unsupported("`or` between matchers"));
    }
    let named = selector.name.as_deref().map(Matcher::named);
    let others = selector.matchers.matchers.iter().map(Matcher::of);
    let all: Vec<Matcher> = named.into_iter().chain(others).collect();
    if all.iter().all(|matcher| matcher.takes_value("")) {
        return Err(bad(
            "parse error: vector selector must contain at least one non-empty matcher".to_owned(),
        ));
    }
    let names = all.iter().filter(|one| one.name == NAME && one.is_equal());
    if selector.name.is_some() && names.count() > 1 {
        return Err(bad(
            "parse error: metric name must not be set twice".to_owned()
        ));
    }
    Ok(all)
}

fn aggregate_op(aggregate: &AggregateExpr) -> Result<AggregateOp, QueryError> {
    let id = aggregate.op.id();
    Ok(match id {
        t::T_SUM => AggregateOp::Sum,
        t::T_AVG => AggregateOp::Avg,
        t::T_MIN => AggregateOp::Min,
        t::T_MAX => AggregateOp::Max,
        t::T_COUNT => AggregateOp::Count,
        t::T_GROUP => AggregateOp::Group,
        t::T_STDDEV => AggregateOp::Stddev,
        t::T_STDVAR => AggregateOp::Stdvar,
        t::T_TOPK => AggregateOp::Topk,
        t::T_BOTTOMK => AggregateOp::Bottomk,
        t::T_QUANTILE => AggregateOp::Quantile,
        _ => return Err(unsupported(&format!("the aggregation {}()", aggregate.op))),
    })
}

fn binary_op(binary: &BinaryExpr) -> Result<BinaryOp, QueryError> {
    let id = binary.op.id();
    Ok(match id {
        t::T_ADD => BinaryOp::Add,
        t::T_SUB => BinaryOp::Sub,
        t::T_MUL => BinaryOp::Mul,
        t::T_DIV => BinaryOp::Div,
        t::T_MOD => BinaryOp::Mod,
        t::T_POW => BinaryOp::Pow,
        t::T_ATAN2 => BinaryOp::Atan2,
        t::T_EQLC => BinaryOp::Equal,
        t::T_NEQ => BinaryOp::NotEqual,
        t::T_LSS => BinaryOp::Less,
        t::T_LTE => BinaryOp::LessEqual,
        t::T_GTR => BinaryOp::Greater,
        t::T_GTE => BinaryOp::GreaterEqual,
        t::T_LAND => BinaryOp::And,
        t::T_LOR => BinaryOp::Or,
        t::T_LUNLESS => BinaryOp::Unless,
        _ => return Err(unsupported(&format!("the operator {}", binary.op))),
    })
}

fn span(duration: Duration) -> Result<i64, QueryError> {
    let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    if millis == 0 {
        return Err(bad("a duration below one millisecond".to_owned()));
    }
    if millis > SPAN_MS_MAX {
        return Err(bad(format!(
            "a duration of {millis} ms: it may have {SPAN_MS_MAX} ms"
        )));
    }
    Ok(millis)
}

fn millis(time: SystemTime) -> i64 {
    let (sign, distance) = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (1, after),
        Err(before) => (-1, before.duration()),
    };
    sign * i64::try_from(distance.as_millis()).unwrap_or(i64::MAX)
}

/// # Errors
/// When a time lies too far from 1970.
pub fn in_time(time: i64) -> Result<i64, QueryError> {
    if (-TIME_MS_MAX..=TIME_MS_MAX).contains(&time) {
        return Ok(time);
    }
    Err(bad(format!("the time {time} ms is out of range")))
}
