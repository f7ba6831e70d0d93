//! What is asked of a run, checked.

use std::path::PathBuf;
use std::time::Duration;

use super::limits::{DURATION, DURATION_MAX, DURATION_MIN, DURATION_POWER_CUT};
use crate::config::SyncMode;
use crate::shell::output::Form;

/// How the power is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerCut {
    /// Not at all.
    None,
    /// The agent is killed, again and again.
    Kill,
    /// Somebody pulls the plug.
    Pull,
}

/// See the module's text.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The folder's disk is tested: the data directory, or one on the same disk.
    pub data_dir: PathBuf,
    pub sync: SyncMode,
    pub power_cut: PowerCut,
    pub link_chaos: bool,
    /// How long devices sample; `None`: as long as it is usual.
    pub duration: Option<Duration>,
    pub seed: u64,
    /// Where notes of what devices saw acked go, when not beside the log.
    pub witness: Option<PathBuf>,
    /// The last number that the screen showed before the plug was pulled.
    pub seen: Option<u64>,
    pub form: Form,
}

impl Plan {
    /// How long devices sample.
    ///
    /// # Errors
    /// A sentence: it is too short or too long.
    pub(super) fn sampled(&self) -> Result<Duration, String> {
        let usual = match self.power_cut {
            PowerCut::None => DURATION,
            PowerCut::Kill | PowerCut::Pull => DURATION_POWER_CUT,
        };
        let duration = self.duration.unwrap_or(usual);
        if (DURATION_MIN..=DURATION_MAX).contains(&duration) {
            return Ok(duration);
        }
        Err(format!(
            "--duration: must be from {} s to {} h",
            DURATION_MIN.as_secs(),
            DURATION_MAX.as_secs() / 3600
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_around_their_limits() {
        let tick = Duration::from_millis(1);
        for (name, power_cut, duration, want) in [
            ("usual", PowerCut::None, None, Some(DURATION)),
            (
                "usual with kills",
                PowerCut::Kill,
                None,
                Some(DURATION_POWER_CUT),
            ),
            ("limit-1", PowerCut::None, Some(DURATION_MIN - tick), None),
            (
                "limit",
                PowerCut::None,
                Some(DURATION_MIN),
                Some(DURATION_MIN),
            ),
            (
                "limit+1",
                PowerCut::None,
                Some(DURATION_MIN + tick),
                Some(DURATION_MIN + tick),
            ),
            (
                "longest",
                PowerCut::None,
                Some(DURATION_MAX),
                Some(DURATION_MAX),
            ),
            ("longest+1", PowerCut::None, Some(DURATION_MAX + tick), None),
        ] {
            let plan = Plan {
                data_dir: PathBuf::new(),
                sync: SyncMode::EveryBlock,
                power_cut,
                link_chaos: false,
                duration,
                seed: 1,
                witness: None,
                seen: None,
                form: Form::Text,
            };
            assert_eq!(plan.sampled().ok(), want, "{name}");
        }
    }
}
