//! Whether the table and a status fit: for tests, which have a status of a real agent.

use serde_json::Value;

use super::from::samples;
use super::table::Table;

/// What does not fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Numbers of the status that are no metric, and of which nothing says why.
    pub numbers: Vec<String>,
    /// Metrics for which the status has no member at all.
    pub metrics: Vec<&'static str>,
}

/// Holds a status against a table.
#[must_use]
pub fn coverage(table: &Table, status: &Value) -> Coverage {
    let mut leaves = Vec::new();
    numbers(status, &mut Vec::new(), &mut leaves);
    let paths = table.metrics().flat_map(|metric| metric.sources);
    let paths: Vec<&str> = paths.map(|source| source.path).collect();
    let known = |leaf: &Vec<String>| {
        let shown = paths.iter().any(|path| is_at(leaf, path, false));
        shown
            || table
                .not_metrics
                .iter()
                .any(|(path, _)| is_at(leaf, path, true))
    };
    let unknown = leaves.iter().filter(|leaf| !known(leaf));
    let mut unknown: Vec<String> = unknown.map(|leaf| format!("/{}", leaf.join("/"))).collect();
    unknown.sort();
    unknown.dedup();
    let unused = table.metrics().filter(|metric| {
        let mut sources = metric.sources.iter();
        sources.all(|source| samples(status, source).is_empty())
    });
    Coverage {
        numbers: unknown,
        metrics: unused.map(|metric| metric.name).collect(),
    }
}

fn numbers(value: &Value, at: &mut Vec<String>, out: &mut Vec<Vec<String>>) {
    let mut go = |name: String, member: &Value| {
        at.push(name);
        numbers(member, at, out);
        at.pop();
    };
    match value {
        Value::Number(_) => out.push(at.clone()),
        Value::Array(members) => members.iter().for_each(|member| go("*".into(), member)),
        Value::Object(members) => {
            for (name, member) in members {
                go(name.clone(), member);
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Whether a leaf is at this path, or below it.
fn is_at(leaf: &[String], path: &str, below: bool) -> bool {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let long_enough = if below {
        leaf.len() >= parts.len()
    } else {
        leaf.len() == parts.len()
    };
    let same = |(name, part): (&String, &&str)| *part == "*" || name == part;
    long_enough && leaf.iter().zip(&parts).all(same)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_that_nobody_knows_is_named() {
        let status = json!({
            "received": 3,
            "new_one": 4,
            "devices": [{ "partition": 0, "ledger": { "lost": 1, "boots": [{ "boot": 7 }] } }],
            "gaps": { "total": 5, "by_reason": { "ring_full": 5 } },
        });
        let coverage = coverage(&super::super::AGENT, &status);
        assert_eq!(coverage.numbers, ["/new_one"]);
        assert!(coverage.metrics.contains(&"forebay_device_taken_total"));
        assert!(!coverage.metrics.contains(&"forebay_device_lost_total"));
    }
}
