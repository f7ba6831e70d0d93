//! `cargo xtask sim`: runs worlds by their seeds. Knows no world: it hands the
//! seeds to the test that CI runs, so that a replay is the same build.

use crate::cargo::{cargo, run as run_command};
use crate::report::{Failed, Report};
use crate::workspace::Workspace;

/// # Errors
/// A world in which the model disagrees: what and where was printed.
pub(crate) fn run(
    ws: &Workspace,
    report: &mut Report,
    seed: u64,
    count: u64,
) -> Result<(), Failed> {
    report.step("sim", || {
        let args = ["test", "--workspace", "--test", "world", "--quiet"];
        let mut command = cargo(ws.root(), &args);
        command
            .args(["--", "--nocapture", "--skip", "the_same_seed"])
            .env("FOREBAY_SEEDS", seeds(seed, count));
        run_command(command)
    })
}

/// As the world test reads them: `first..end`.
fn seeds(seed: u64, count: u64) -> String {
    format!("{seed}..{}", seed.saturating_add(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_range() {
        for (name, seed, count, want) in [
            ("one", 77, 1, "77..78"),
            ("some", 0, 200, "0..200"),
            ("none", 5, 0, "5..5"),
            (
                "at the end",
                u64::MAX - 1,
                9,
                "18446744073709551614..18446744073709551615",
            ),
        ] {
            assert_eq!(seeds(seed, count), want, "{name}");
        }
    }
}
