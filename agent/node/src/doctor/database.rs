//! Whether databases that tables are fed from can be read.

use super::check::Finding;
use super::codes::{DATABASE_ANSWERS, DATABASE_SLOT};
use crate::sources::postgres::probe::DatabaseSeen;

/// `is_running`: an agent runs, and should have the slot.
pub(super) fn judge(seen: &Result<DatabaseSeen, String>, is_running: bool) -> Vec<Finding> {
    let seen = match seen {
        Ok(seen) => seen,
        Err(why) => {
            let advice = "as it says; more: agent/node/docs/tables-postgres.md";
            return vec![Finding::fail(&DATABASE_ANSWERS, why, advice)];
        }
    };
    let slot = &seen.slot;
    let drop = format!(
        "SELECT pg_drop_replication_slot('{slot}'); the agent makes a new one and reads all rows"
    );
    let of_slot = match seen.state {
        None if is_running => Finding::warn(
            &DATABASE_SLOT,
            format!("there is no slot {slot}, though an agent runs"),
            "see `forebay table ls` for what keeps the agent from making it",
        ),
        None => Finding::ok(
            &DATABASE_SLOT,
            format!("slot {slot} is made by the first start"),
        ),
        Some(state) if !state.is_ours => Finding::fail(
            &DATABASE_SLOT,
            format!("slot {slot} is of another kind or another database"),
            "give another `slot` in [[database]]",
        ),
        Some(state) if state.is_lost => Finding::fail(
            &DATABASE_SLOT,
            format!("the server has given slot {slot} up"),
            drop,
        ),
        Some(state) if state.is_active && !is_running => Finding::warn(
            &DATABASE_SLOT,
            format!("somebody reads from slot {slot}, and no agent runs here"),
            "is a second gateway configured with the same name?",
        ),
        Some(_) => Finding::ok(&DATABASE_SLOT, format!("slot {slot} is there and ours")),
    };
    vec![
        Finding::ok(&DATABASE_ANSWERS, "it takes us, and logs for replication"),
        of_slot,
    ]
}

#[cfg(test)]
mod tests {
    use super::super::check::Level;
    use super::*;
    use crate::sources::postgres::probe::SlotSeen;

    #[test]
    fn databases_of_all_kinds() {
        let state = |is_active, is_ours, is_lost| {
            Some(SlotSeen {
                is_active,
                is_ours,
                is_lost,
            })
        };
        for (name, state, is_running, want) in [
            ("new", None, false, Level::Ok),
            ("new, beside an agent", None, true, Level::Warn),
            ("in use by us", state(true, true, false), true, Level::Ok),
            ("idle", state(false, true, false), false, Level::Ok),
            (
                "in use by another",
                state(true, true, false),
                false,
                Level::Warn,
            ),
            ("not ours", state(false, false, false), true, Level::Fail),
            ("lost", state(false, true, true), true, Level::Fail),
        ] {
            let seen = DatabaseSeen {
                slot: "s".into(),
                state,
            };
            assert_eq!(judge(&Ok(seen), is_running)[1].level, want, "{name}");
        }
        let none = judge(&Err("refused".into()), false);
        assert_eq!((none.len(), none[0].level), (1, Level::Fail));
    }
}
