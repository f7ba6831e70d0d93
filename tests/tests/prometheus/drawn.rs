//! Queries that are drawn from a grammar, beside Debian's Prometheus 2.42. One seed is one
//! list of queries; `FOREBAY_QUERY_SEED` draws another one.
//!
//! What the grammar leaves out is what is known to differ, and stands in docs/prometheus.md:
//! windows whose start meets a sample (all samples and all ends of windows lie beside each
//! other here), counters that begin inside a window, equal values in `topk`, a deviation of NaN or Inf,
//! `predict_linear` with `@`. What adds up
//! may differ in its last digits, so nothing is compared, cut or divided by it.

/// Drawn queries.
pub(super) const QUERIES: usize = 400;
/// What is drawn where no other seed is given.
const SEED: u64 = 20_251_009;
/// How deep expressions nest.
const DEPTH: u32 = 3;

/// A query, and whether its values are the same to the last bit.
#[derive(Debug)]
pub(super) struct Drawn {
    pub(super) text: String,
    pub(super) exact: bool,
}

/// The seed, and all queries of it.
pub(super) fn queries() -> (u64, Vec<Drawn>) {
    let given = std::env::var("FOREBAY_QUERY_SEED");
    let seed = given.map_or(SEED, |text| text.parse().expect("a whole number"));
    let mut dice = Dice(seed);
    let queries = (0..QUERIES).map(|_| dice.query()).collect();
    (seed, queries)
}

struct Dice(u64);

const METRICS: [&str; 5] = ["temp", "energy", "wet", "gap", "wild"];
const MATCHERS: [&str; 12] = [
    "device=\"boiler\"",
    "device!=\"attic\"",
    "device=~\"b.*|cellar\"",
    "device=~\"boil\"",
    "device!~\".*t.*\"",
    "device=~\"(?i)BOILER\"",
    "unit=\"\"",
    "unit!=\"\"",
    "room=\"\"",
    "room!~\".+\"",
    "gateway=~\"g[uvw]\"",
    "unit=~\"|Cel|V\"",
];
const RANGES: [&str; 5] = ["95s", "5m", "7m30s", "20m", "41m"];
const MOVED: [&str; 6] = [
    "offset 4m",
    "offset -3m",
    "@ 1760006000",
    "@ 1760006000 offset 90s",
    "@ start()",
    "@ end() offset 2m",
];
/// No end of a window lies on a step of it.
const SUBQUERIES: [&str; 4] = [
    "[895250ms:30s]",
    "[600370ms:1m]",
    "[301130ms:7s]",
    "[895250ms:30s] offset 5m",
];
const LABELS: [&str; 5] = ["device", "unit", "channel", "device, unit", ""];

impl Dice {
    /// Below `bound`.
    fn roll(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) % bound as u64) as usize
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.roll(of.len())]
    }

    fn query(&mut self) -> Drawn {
        let exact = self.roll(3) > 0;
        let text = if exact {
            self.exact(DEPTH)
        } else {
            self.loose(DEPTH)
        };
        Drawn { text, exact }
    }

    fn selector(&mut self, range: &str) -> String {
        let metric = self.one(&METRICS);
        self.of_metric(metric, range)
    }

    fn of_metric(&mut self, metric: &str, range: &str) -> String {
        let mut matchers: Vec<&str> = Vec::new();
        for _ in 0..self.roll(3) {
            matchers.push(self.one(&MATCHERS));
        }
        let matchers = matchers.join(",");
        let name = match self.roll(6) {
            0 => format!("{{__name__=\"{metric}\",{matchers}}}"),
            1 => format!("{{__name__=~\"{metric}|no.*\",{matchers}}}"),
            _ => format!("{metric}{{{matchers}}}"),
        };
        let name = name.replace(",}", "}");
        let moved = if self.roll(5) == 0 {
            self.one(&MOVED)
        } else {
            ""
        };
        format!("{name}{range} {moved}").trim_end().to_owned()
    }

    fn windows(&mut self, depth: u32) -> String {
        if depth > 0 && self.roll(3) == 0 {
            let inner = self.exact(depth - 1);
            let steps = self.one(&SUBQUERIES);
            return format!("({inner}){steps}");
        }
        let range = self.one(&RANGES);
        self.selector(&format!("[{range}]"))
    }

    fn grouping(&mut self) -> String {
        match self.roll(3) {
            0 => String::new(),
            1 => format!("by ({}) ", self.one(&LABELS)),
            _ => format!("without ({}) ", self.one(&LABELS)),
        }
    }

    fn number(&mut self) -> &'static str {
        self.one(&[
            "0", "1", "-1", "2", "20", "44.5", "0.1", "1e3", "NaN", "Inf", "-Inf",
        ])
    }

    /// Its values do not depend on an order of adding.
    fn exact(&mut self, depth: u32) -> String {
        if depth == 0 {
            return self.selector("");
        }
        let inner = depth - 1;
        match self.roll(16) {
            0 => self.selector(""),
            1 | 2 => {
                let of = self.one(&[
                    "min", "max", "count", "last", "present", "absent", "quantile",
                ]);
                let first = if of == "quantile" {
                    self.one(&["0.3, ", "1, ", "0, ", "-1, ", "1.5, ", "0.95, "])
                } else {
                    ""
                };
                format!("{of}_over_time({first}{})", self.windows(inner))
            }
            3 => {
                let of = self.one(&[
                    "changes", "resets", "irate", "idelta", "rate", "increase", "delta",
                ]);
                let range = self.one(&RANGES);
                format!("{of}({})", self.of_metric("energy", &format!("[{range}]")))
            }
            4 => {
                let of = self.one(&["min", "max", "count", "group", "quantile"]);
                let first = if of == "quantile" {
                    self.one(&["0.4, ", "0, ", "1, ", "2, "])
                } else {
                    ""
                };
                let grouping = self.grouping();
                format!("{of} {grouping}({first}{})", self.exact(inner))
            }
            5 => {
                let of = self.one(&["topk", "bottomk"]);
                let grouping = self.grouping();
                let many = self.one(&["0", "1", "2", "5"]);
                let metric = self.one(&["temp", "wild"]);
                format!("{of} {grouping}({many}, {})", self.of_metric(metric, ""))
            }
            6 => {
                let of = self.one(&["abs", "ceil", "floor", "sgn", "sqrt", "timestamp", "-"]);
                format!("{of}({})", self.exact(inner))
            }
            7 => {
                let of = self.one(&["clamp_min", "clamp_max", "round"]);
                let argument = self.one(&["0.5", "3", "-2", "20"]);
                format!("{of}({}, {argument})", self.exact(inner))
            }
            8 => self.with_number(inner),
            9 => {
                let op = self.one(&["and", "or", "unless"]);
                let on = self.one(&["", "on (device) ", "ignoring (channel, unit) ", "on () "]);
                let (left, right) = (self.exact(inner), self.exact(inner));
                format!("({left}) {op} {on}({right})")
            }
            10 | 11 => self.matched(inner),
            12 => self.labelled(inner),
            13 => format!("absent({})", self.exact(inner)),
            14 => format!("scalar({}) + {}", self.exact(inner), self.selector("")),
            _ => format!("vector(scalar({}))", self.exact(inner)),
        }
    }

    fn with_number(&mut self, depth: u32) -> String {
        let op = self.one(&[
            "+", "-", "*", "/", "%", ">", "<=", "==", "!=", "> bool", "!= bool",
        ]);
        let (inner, number) = (self.exact(depth), self.number());
        if self.roll(2) == 0 {
            format!("({inner}) {op} {number}")
        } else {
            format!("{number} {op} ({inner})")
        }
    }

    /// One to one, and many to one.
    fn matched(&mut self, depth: u32) -> String {
        let op = self.one(&["+", "-", "*", "/", ">", "<=", "== bool", "!=", "%"]);
        let right = format!("max by (device) ({})", self.exact(depth));
        match self.roll(4) {
            0 => format!("min by (device) ({}) {op} {right}", self.exact(depth)),
            1 => format!("{} {op} on (device) {right}", self.selector("")),
            2 => {
                let carried = self.one(&["", "(unit)", "()"]);
                format!(
                    "{} {op} on (device) group_left {carried} {right}",
                    self.selector("")
                )
            }
            _ => format!("{right} {op} on (device) group_right {}", self.selector("")),
        }
    }

    fn labelled(&mut self, depth: u32) -> String {
        let inner = self.exact(depth);
        match self.roll(4) {
            0 => format!("label_replace({inner}, \"short\", \"$1-$2\", \"device\", \"(.)(.*)r\")"),
            1 => format!("label_replace({inner}, \"unit\", \"\", \"unit\", \"C.*\")"),
            2 => format!("label_replace({inner}, \"room\", \"x\", \"room\", \"\")"),
            _ => format!("label_join({inner}, \"both\", \"/\", \"device\", \"unit\", \"room\")"),
        }
    }

    /// Something is added up.
    fn loose(&mut self, depth: u32) -> String {
        let inner = depth.saturating_sub(1);
        match self.roll(5) {
            0 | 1 => {
                let of = self.one(&["sum", "avg", "stddev", "stdvar"]);
                format!("{of}_over_time({})", self.windows(inner))
            }
            2 => {
                let of = self.one(&["deriv", "predict_linear"]);
                let last = if of == "deriv" { "" } else { ", 600" };
                let range = self.one(&["5m", "20m"]);
                format!("{of}(temp[{range}]{last})")
            }
            3 => {
                let of = self.one(&["sum", "avg", "stddev", "stdvar"]);
                let grouping = self.grouping();
                let inner = if of.starts_with("std") {
                    self.selector("")
                } else {
                    self.exact(inner)
                };
                format!("{of} {grouping}({inner})")
            }
            _ => {
                let (left, right) = (self.exact(inner), self.number());
                format!("sum by (device) ({left}) * {right}")
            }
        }
    }
}
