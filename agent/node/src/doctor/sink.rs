//! Whether the PostgreSQL that a receiver writes to takes what it will write.

use super::check::Finding;
use super::codes::{SINK_ANSWERS, SINK_TABLES};
use crate::upstream::PostgresSeen;

pub(super) fn judge(seen: &Result<PostgresSeen, String>) -> Vec<Finding> {
    let seen = match seen {
        Ok(seen) => seen,
        Err(why) => {
            let advice = "as it says; more: agent/node/docs/postgres.md";
            return vec![Finding::fail(&SINK_ANSWERS, why, advice)];
        }
    };
    let how = if seen.is_tls {
        "over TLS"
    } else {
        "without TLS"
    };
    let answers = format!("PostgreSQL {} takes us {how}", seen.version);
    let is_far = !seen.is_tls && !seen.is_near;
    let answers = if is_far {
        let advice = "set `tls = \"verify\"` in [postgres]: rows and the password go in plain";
        Finding::warn(&SINK_ANSWERS, answers, advice)
    } else {
        Finding::ok(&SINK_ANSWERS, answers)
    };
    let schema = &seen.schema;
    let tables = match (seen.tables, seen.missing.as_slice()) {
        (0, []) => Finding::ok(
            &SINK_TABLES,
            format!("schema {schema} has no tables yet; the first start makes them, and may"),
        ),
        (version, []) => Finding::ok(
            &SINK_TABLES,
            format!("our tables of version {version} are in schema {schema}, and may be written"),
        ),
        (0, missing) => Finding::fail(
            &SINK_TABLES,
            format!("the role {} may not make its tables", seen.user),
            missing.join(" "),
        ),
        (_, missing) => Finding::fail(
            &SINK_TABLES,
            format!(
                "the role {} may not write all tables of schema {schema}",
                seen.user
            ),
            missing.join(" "),
        ),
    };
    vec![answers, tables]
}

#[cfg(test)]
mod tests {
    use super::super::check::Level;
    use super::*;

    #[test]
    fn databases_of_all_kinds() {
        let seen = |is_tls, is_near, tables, missing: &[&str]| PostgresSeen {
            version: "15.4".into(),
            user: "forebay".into(),
            schema: "forebay".into(),
            is_tls,
            is_near,
            tables,
            missing: missing.iter().map(|text| (*text).to_owned()).collect(),
        };
        let lacks = &["GRANT CREATE ON DATABASE d TO forebay;"][..];
        for (name, seen, levels) in [
            (
                "new, near",
                seen(false, true, 0, &[]),
                [Level::Ok, Level::Ok],
            ),
            (
                "far, in plain",
                seen(false, false, 2, &[]),
                [Level::Warn, Level::Ok],
            ),
            (
                "far, over TLS",
                seen(true, false, 2, &[]),
                [Level::Ok, Level::Ok],
            ),
            (
                "may not make them",
                seen(true, true, 0, lacks),
                [Level::Ok, Level::Fail],
            ),
            (
                "may not write them",
                seen(true, true, 2, lacks),
                [Level::Ok, Level::Fail],
            ),
        ] {
            let found = judge(&Ok(seen));
            let got: Vec<Level> = found.iter().map(|finding| finding.level).collect();
            assert_eq!(got, levels, "{name}");
            let fails = levels[1] == Level::Fail;
            assert_eq!(found[1].advice.contains("GRANT"), fails, "{name}");
        }
        let none = judge(&Err("no route".into()));
        assert_eq!((none.len(), none[0].level), (1, Level::Fail));
    }
}
