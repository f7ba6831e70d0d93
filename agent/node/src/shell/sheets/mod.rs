//! The columns of every command that shows figures. The page agent/node/docs/shell.md is
//! made of this list. Columns of CSV are only ever added, at the end.

mod alarms;
mod live;
mod log;
mod streams;
mod upstream;

pub use alarms::*;
pub use live::*;
pub use log::*;
pub use streams::*;
pub use upstream::*;

use super::output::Sheet;

/// All of them, as the page of the manual has them.
pub const ALL: [&Sheet; 25] = [
    &ROLLING,
    &ROLLUP,
    &READINGS,
    &FIGURES,
    &LEDGER,
    &ALARMS,
    &DEVICES,
    &DEVICE_CHANNELS,
    &DEVICE_LOG,
    &TABLES,
    &TABLE_ROWS,
    &TABLE_HISTORY,
    &VIEWS,
    &TAILED,
    &CHANGES,
    &PARKED,
    &LOG_TOPICS,
    &LOG_RECORDS,
    &LOG_DAMAGES,
    &VERIFIED,
    &REPLAYED,
    &UPSTREAM_LEDGER,
    &UPSTREAM_ROWS,
    &UPSTREAM_PROOF,
    &FINDINGS,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::docs;

    /// What stands before the columns.
    const HEAD: &str = include_str!("head.txt");

    #[test]
    fn docs_of_columns_are_current() {
        let pages: String = ALL.iter().map(|sheet| sheet.page()).collect();
        let written = docs::checked("shell.md", &format!("{HEAD}{pages}"));
        assert_eq!(written, Ok(()));
    }

    #[test]
    fn columns_have_names_of_their_own() {
        for sheet in ALL {
            let mut names: Vec<&str> = sheet.columns.iter().map(|c| c.name).collect();
            let is_plain = |name: &&str| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            assert!(names.iter().all(is_plain), "{}: {names:?}", sheet.command);
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{}", sheet.command);
        }
    }
}
