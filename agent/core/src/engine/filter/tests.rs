//! Filters by name, their refusals, and against an evaluator that is slow and plain.

use proptest::prelude::*;

use super::*;
use crate::limits::{FILTER_DEPTH_MAX, FILTER_TEXT_BYTES_MAX};

fn filter(text: &str) -> Filter {
    Filter::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[test]
fn readings_are_taken_by_what_is_true() {
    let (d, c) = ("boiler", "temp");
    for (text, value, want) in [
        ("channel = 'temp'", None, true),
        ("channel = 'Temp'", None, false),
        ("CHANNEL = 'temp' AND Device = 'boiler'", None, true),
        ("channel != 'temp'", Some(1.0), false),
        ("channel <> 'door'", Some(1.0), true),
        ("channel in ('door', 'temp')", None, true),
        ("channel in ('door')", None, false),
        ("channel not in ('door')", None, true),
        ("device='boiler'and value>=-1.5e0", Some(-1.5), true),
        ("value < 2", Some(2.0), false),
        ("value <= 2", Some(2.0), true),
        ("value = +2", Some(2.0), true),
        ("value = 0", Some(-0.0), true),
        ("value != 2", Some(2.0), false),
        ("value != 2", Some(f64::NAN), true),
        ("value > 2", Some(f64::NAN), false),
        ("not value > 2", Some(f64::NAN), true),
        ("value > 2", Some(f64::INFINITY), true),
        ("value = 2 or value != 2", None, false),
        ("not value = 2", None, false),
        ("not (value = 2)", None, false),
        ("value = 2 or channel = 'temp'", None, true),
        ("not (value = 2 and channel = 'door')", None, true),
        ("not not channel = 'temp'", None, true),
        ("not channel = 'temp' or channel = 'temp'", None, true),
        (
            "channel = 'door' and value = 2 or channel = 'temp'",
            None,
            true,
        ),
        (
            "channel = 'door' and (value = 2 or channel = 'temp')",
            None,
            false,
        ),
    ] {
        assert_eq!(filter(text).takes(d, c, value), want, "{text} of {value:?}");
    }
    assert!(filter("channel = 'it''s'").takes(d, "it's", None));
    assert!(filter("channel = ''''").takes(d, "'", None));
    assert!(filter("channel = 'ä (or) b'").takes(d, "ä (or) b", None));
}

#[test]
fn names_decide_where_they_can() {
    for (text, want) in [
        ("channel = 'temp'", Maybe::Yes),
        ("channel = 'door'", Maybe::No),
        ("value > 1", Maybe::ByValue),
        ("channel = 'temp' and value > 1", Maybe::ByValue),
        ("channel = 'door' and value > 1", Maybe::No),
        ("channel = 'temp' or value > 1", Maybe::Yes),
        ("not (channel = 'temp' or value > 1)", Maybe::No),
    ] {
        assert_eq!(filter(text).takes_series("boiler", "temp"), want, "{text}");
    }
    assert_eq!(filter("value > 1").asks_for_names(), (false, false));
    let both = filter("not (device = 'a' or channel in ('b'))");
    assert_eq!(both.asks_for_names(), (true, true));
}

#[test]
fn what_is_no_filter_is_told_with_its_place() {
    for (text, want) in [
        (
            "",
            "wants device, channel, value, `not` or `(`, not the end at byte 1",
        ),
        ("chanel = 'a'", "has the unknown column chanel at byte 1"),
        (
            "channel == 'a'",
            "wants a text in single quotes, not = 'a' at byte 10",
        ),
        (
            "channel = \"a\"",
            "wants a text in single quotes, not \"a\" at byte 11",
        ),
        (
            "channel = a",
            "wants a text in single quotes, not a at byte 11",
        ),
        (
            "channel = 'a",
            "has a text without its second quote at byte 11",
        ),
        (
            "channel < 'a'",
            "wants `=`, `!=` or `in`, not < 'a' at byte 9",
        ),
        ("channel not 'a'", "wants `in`, not 'a' at byte 13"),
        (
            "channel in 'a'",
            "wants a list such as ('a', 'b'), not 'a' at byte 12",
        ),
        (
            "channel in ()",
            "wants a text in single quotes, not ) at byte 13",
        ),
        ("channel in ('a' 'b')", "wants `)`, not 'b') at byte 17"),
        ("value = '5'", "wants a number, not '5' at byte 9"),
        ("value > 1e999", "wants a number, not 1e999 at byte 9"),
        ("value > nan", "wants a number, not nan at byte 9"),
        ("value > 1_0", "wants a number, not 1_0 at byte 9"),
        (
            "value in (1)",
            "wants one of = != < <= > >=, not in (1) at byte 7",
        ),
        (
            "value ! 1",
            "wants one of = != < <= > >=, not ! 1 at byte 7",
        ),
        (
            "value > 1 value < 2",
            "wants `and`, `or` or the end, not value < 2 at byte 11",
        ),
        ("(value > 1", "wants `)`, not the end at byte 11"),
        (
            "value > 1)",
            "wants `and`, `or` or the end, not ) at byte 10",
        ),
        (
            "value > 1 and",
            "wants device, channel, value, `not` or `(`, not the end at byte 14",
        ),
        (
            "or value > 1",
            "wants device, channel, value, `not` or `(`, not or value > 1 at byte 1",
        ),
        (
            "'door' = channel and value > 1",
            "wants device, channel, value, `not` or `(`, not 'door' = channel and... at byte 1",
        ),
        (
            "value > 1; drop",
            "wants `and`, `or` or the end, not ; drop at byte 10",
        ),
    ] {
        let error = Filter::parse(text).expect_err(text);
        assert_eq!(error.to_string(), want, "{text}");
    }
}

#[test]
fn limits_hold() {
    for (len, fits) in [
        (FILTER_TEXT_BYTES_MAX - 1, true),
        (FILTER_TEXT_BYTES_MAX, true),
        (FILTER_TEXT_BYTES_MAX + 1, false),
    ] {
        let text = format!("channel = '{}'", "x".repeat(len - 12));
        assert_eq!(text.len(), len);
        let found = Filter::parse(&text).map_err(|e| e.fault);
        assert_eq!(found.is_ok(), fits, "{len} bytes");
        if !fits {
            assert_eq!(found, Err(FilterFault::TooLong));
        }
    }
    for (depth, fits) in [
        (FILTER_DEPTH_MAX - 1, true),
        (FILTER_DEPTH_MAX, true),
        (FILTER_DEPTH_MAX + 1, false),
    ] {
        let nested = format!("{}value = 1{}", "(".repeat(depth), ")".repeat(depth));
        let negated = format!("{}value = 1", "not ".repeat(depth));
        for text in [nested, negated] {
            let found = Filter::parse(&text).map_err(|e| e.fault);
            assert_eq!(found.is_ok(), fits, "{depth} levels");
            if !fits {
                assert_eq!(found, Err(FilterFault::TooDeep));
            }
        }
    }
}

/// A condition as a tree with a text, beside the code under test.
#[derive(Debug, Clone)]
enum Plain {
    And(Box<Plain>, Box<Plain>),
    Or(Box<Plain>, Box<Plain>),
    Not(Box<Plain>),
    Name(&'static str, bool, Vec<&'static str>),
    Value(&'static str, f64),
}

const NAMES: [&str; 4] = ["a", "b", "it's", "or"];
const NUMBERS: [f64; 5] = [-1.5, 0.0, 1.0, 2.0, 1e300];

impl Plain {
    fn text(&self) -> String {
        match self {
            Self::And(a, b) => format!("({}) and ({})", a.text(), b.text()),
            Self::Or(a, b) => format!("({}) OR ({})", a.text(), b.text()),
            Self::Not(a) => format!("not ({})", a.text()),
            Self::Name(column, not, names) => {
                let quoted: Vec<_> = names
                    .iter()
                    .map(|name| format!("'{}'", name.replace('\'', "''")))
                    .collect();
                match (not, quoted.as_slice()) {
                    (false, [one]) => format!("{column} = {one}"),
                    (true, [one]) => format!("{column} != {one}"),
                    (false, many) => format!("{column} in ({})", many.join(",")),
                    (true, many) => format!("{column} not in ({})", many.join(" , ")),
                }
            }
            Self::Value(sign, bound) => format!("value {sign} {bound}"),
        }
    }

    /// SQL's three values; `None` is null.
    fn holds(&self, device: &str, channel: &str, value: Option<f64>) -> Option<bool> {
        let of = |part: &Plain| part.holds(device, channel, value);
        match self {
            Self::And(a, b) => match (of(a), of(b)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                (None, _) | (_, None) => None,
            },
            Self::Or(a, b) => match (of(a), of(b)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                (None, _) | (_, None) => None,
            },
            Self::Not(a) => of(a).map(|holds| !holds),
            Self::Name(column, not, names) => {
                let name = if *column == "device" { device } else { channel };
                Some(names.contains(&name) != *not)
            }
            Self::Value(sign, bound) => {
                let order = value?.partial_cmp(bound);
                use std::cmp::Ordering::{Equal, Greater, Less};
                Some(match *sign {
                    "=" => order == Some(Equal),
                    "!=" => order != Some(Equal),
                    "<" => order == Some(Less),
                    "<=" => matches!(order, Some(Less | Equal)),
                    ">" => order == Some(Greater),
                    _ => matches!(order, Some(Greater | Equal)),
                })
            }
        }
    }
}

fn plain() -> impl Strategy<Value = Plain> {
    let name = prop::sample::select(&NAMES[..]);
    let names = prop::collection::vec(name, 1..4);
    let column = prop::sample::select(&["device", "channel"][..]);
    let sign = prop::sample::select(&["=", "!=", "<", "<=", ">", ">="][..]);
    let leaf = prop_oneof![
        (column, any::<bool>(), names).prop_map(|(c, not, n)| Plain::Name(c, not, n)),
        (sign, prop::sample::select(&NUMBERS[..])).prop_map(|(s, n)| Plain::Value(s, n)),
    ];
    leaf.prop_recursive(5, 32, 2, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            two.clone()
                .prop_map(|(a, b)| Plain::And(a.into(), b.into())),
            two.prop_map(|(a, b)| Plain::Or(a.into(), b.into())),
            inner.prop_map(|a| Plain::Not(a.into())),
        ]
    })
}

proptest! {
    #[test]
    fn it_says_what_a_plain_evaluator_says(
        plain in plain(),
        device in prop::sample::select(&NAMES[..]),
        channel in prop::sample::select(&NAMES[..]),
        value in prop::option::of(prop::sample::select(&[-2.0, -1.5, 0.0, 1.0, f64::NAN, f64::INFINITY][..])),
    ) {
        let filter = filter(&plain.text());
        let want = plain.holds(device, channel, value) == Some(true);
        prop_assert_eq!(filter.takes(device, channel, value), want, "{}", plain.text());
        match filter.takes_series(device, channel) {
            Maybe::Yes => prop_assert!(want),
            Maybe::No => prop_assert!(!want),
            Maybe::ByValue => {}
        }
        // The form it is kept in is the same filter.
        let again = self::filter(&filter.to_string());
        prop_assert_eq!(again.to_string(), filter.to_string());
        prop_assert_eq!(again, filter);
    }

    #[test]
    fn no_text_is_too_much(text in "[a-z'()=<>! ,.0-9ä-]{0,40}|(device|channel|value|and|or|not|in| |'a'|=|<|\\(|\\)|,|1){0,12}") {
        if let Err(error) = Filter::parse(&text) {
            prop_assert!(error.at <= text.len());
            prop_assert_eq!(error.to_string().lines().count(), 1);
        }
    }
}
