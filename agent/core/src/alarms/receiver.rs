//! What is wrong with a receiver, by the same rules and in the same words as an agent's.

use super::code::{Code, Severity};
use super::judge::{Judge, REFUSED, seconds};
use super::text;
use super::watch::Lasting;
use crate::retention::size;
use crate::units::Mono;

/// Subjects of what a receiver has one of.
const BROKER: &str = "broker";
const SINK: &str = "sink";
const ALL_GATEWAYS: &str = "all gateways";
/// A disk is low with less free than this, or than this part of it, percent.
const FREE_BYTES_MIN: u64 = 1 << 30;
const FREE_PERCENT_MIN: u64 = 5;

/// The disk that a sink writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskFacts {
    pub free_bytes: u64,
    pub size_bytes: u64,
}

impl DiskFacts {
    /// Below this it is low.
    fn least(self) -> u64 {
        FREE_BYTES_MIN.min(self.size_bytes / 100 * FREE_PERCENT_MIN)
    }
}

/// What is looked at each second.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReceiverFacts {
    pub connected: bool,
    /// Why it is not, as was said last.
    pub broker_said: Option<String>,
    /// What the broker does not let us do.
    pub denied: Option<String>,
    /// Why nothing can be applied.
    pub sink_said: Option<String>,
    /// `None`: the sink is elsewhere.
    pub disk: Option<DiskFacts>,
    /// Partitions in which something is missing before what is applied.
    pub holes: u64,
    /// Messages that were not ours or not readable, in all runs.
    pub rejected: u64,
    /// Openings that showed a second disk of one log, in all runs.
    pub clones: u64,
    /// Gateways that are known, with when the last message of each came, of the start where
    /// none came since; in order of their names.
    pub gateways: Vec<(String, Mono)>,
}

impl Judge<'_> {
    /// All rules of a receiver.
    pub(super) fn receiver(&mut self, facts: &ReceiverFacts) {
        self.link(facts);
        self.sink(facts);
        self.silent(facts);
        let lasting = Lasting {
            bad: self.rules.away_after,
            good: seconds(5),
        };
        let holes = facts.holes;
        self.state((Code::HolesOpen, SINK), (holes > 0, lasting), || {
            format!(
                "{holes} partitions wait for records that should have come before those that are \
                 applied, and gateways were asked for them: `forebay upstream verify` names the \
                 offsets; see `forebay status` on the gateways"
            )
        });
        let rejected = (facts.rejected, true, 1);
        self.growth((Code::MessagesRejected, SINK), rejected, |more| {
            format!(
                "{more} messages were not ours or did not read: `forebay upstream export \
                 --rejected` has them once the receiver is stopped; see who else publishes below \
                 forebay/, and whether a gateway is newer than this program"
            )
        });
        let clones = (facts.clones, true, 1);
        self.growth((Code::LogCopied, SINK), clones, |_| {
            String::from(
                "two disks of one gateway send under one log, as after a restored backup or a \
                 copied card: both are kept apart; `forebay upstream status` names the log, let \
                 only one of them run",
            )
        });
    }

    fn link(&mut self, facts: &ReceiverFacts) {
        let denied = facts.denied.as_deref();
        self.state(
            (Code::BrokerRefused, BROKER),
            (denied.is_some(), REFUSED),
            || {
                let why = text::cut(denied.unwrap_or("it lets us in again"));
                format!("{why}: gateways keep what they have; see the broker's list of who may")
            },
        );
        let lasting = Lasting {
            bad: self.rules.away_after,
            good: seconds(5),
        };
        // Without a sink nothing is received on purpose.
        let is_away = !facts.connected && facts.sink_said.is_none();
        let reason = facts.broker_said.as_deref();
        self.state((Code::BrokerAway, BROKER), (is_away, lasting), || {
            let reason = text::cut(reason.unwrap_or("nothing was heard of it yet"));
            format!("no connection to the broker ({reason}): gateways keep what they have")
        });
    }

    fn sink(&mut self, facts: &ReceiverFacts) {
        let lasting = Lasting {
            bad: seconds(5),
            good: seconds(5),
        };
        let said = facts.sink_said.as_deref();
        self.state((Code::SinkFailed, SINK), (said.is_some(), lasting), || {
            let said = text::cut(said.unwrap_or("it takes what comes again"));
            format!("nothing can be applied: {said}; it is tried again, and nothing is lost")
        });
        let Some(disk) = facts.disk else {
            return;
        };
        let lasting = Lasting {
            bad: seconds(5),
            good: seconds(30),
        };
        let is_low = disk.free_bytes < disk.least();
        self.state((Code::DiskLow, SINK), (is_low, lasting), || {
            format!(
                "the sink's disk has {} free of {}: make room, or nothing can be applied soon",
                size(disk.free_bytes),
                size(disk.size_bytes)
            )
        });
    }

    fn silent(&mut self, facts: &ReceiverFacts) {
        let Some(after) = self.rules.silent_after else {
            return;
        };
        if !facts.connected {
            return;
        }
        let now = self.now.mono;
        let limit = after.0.unsigned_abs();
        let ago = |at: Mono| now.0.saturating_sub(at.0);
        let is_there = |name: &String| !self.rules.gone.contains(name);
        let there = facts.gateways.iter().filter(|(name, _)| is_there(name));
        let there: Vec<&(String, Mono)> = there.collect();
        let silent = there.iter().filter(|(_, at)| ago(*at) >= limit);
        let silent: Vec<&(String, Mono)> = silent.copied().collect();
        let all = silent.len() == there.len();
        let newest = silent.iter().map(|(_, at)| *at).max();
        if let Some(since) = newest.filter(|_| all && silent.len() > 1) {
            let text = format!(
                "none of the {} gateways has sent anything for {}: see the broker, and what lies \
                 between",
                silent.len(),
                text::span(ago(since))
            );
            return self.say_as(
                (Code::GatewaySilent, ALL_GATEWAYS),
                Severity::Failed,
                since,
                text,
            );
        }
        let severity = if all {
            Severity::Failed
        } else {
            Severity::Degraded
        };
        for (name, at) in silent {
            let text = format!(
                "nothing has come of it for {}: see whether it runs and reaches the broker, by \
                 `forebay status` there; one that is no more goes into `gateways_gone` of [alarms]",
                text::span(ago(*at))
            );
            self.say_as((Code::GatewaySilent, name), severity, *at, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AlarmRules, Alarms};
    use super::*;
    use crate::units::{EventTime, Now};

    const S: u64 = 1_000_000;

    fn good() -> ReceiverFacts {
        ReceiverFacts {
            connected: true,
            disk: Some(DiskFacts {
                free_bytes: 50 << 30,
                size_bytes: 100 << 30,
            }),
            ..ReceiverFacts::default()
        }
    }

    fn at(second: u64) -> Now {
        Now {
            mono: Mono(second * S),
            utc: EventTime(1_772_323_200_000_000),
        }
    }

    /// Codes and subjects of what there is after `seconds` of the same facts.
    fn after(seconds: u64, facts: &ReceiverFacts) -> Vec<(&'static str, String)> {
        let mut alarms = Alarms::new(AlarmRules::default(), &[], at(0));
        for second in 0..=seconds {
            alarms.judge_receiver(facts, at(second));
        }
        let found = alarms.active();
        found.map(|f| (f.code.name(), f.subject.clone())).collect()
    }

    #[test]
    fn each_rule_takes_its_time() {
        let said = |text: &str| Some(text.to_owned());
        let away = ReceiverFacts {
            connected: false,
            broker_said: said("refused"),
            ..good()
        };
        let sink = ReceiverFacts {
            sink_said: said("full"),
            connected: false,
            ..good()
        };
        let denied = ReceiverFacts {
            denied: said("no"),
            ..good()
        };
        let holes = ReceiverFacts { holes: 1, ..good() };
        for (name, facts, seconds, want) in [
            ("all is well", good(), 1000, None),
            ("away, before", away.clone(), 299, None),
            ("away", away.clone(), 300, Some(("broker-away", "broker"))),
            ("away, after", away, 301, Some(("broker-away", "broker"))),
            ("a sink, before", sink.clone(), 4, None),
            ("a sink", sink.clone(), 5, Some(("sink-failed", "sink"))),
            (
                "a sink, and no broker for it",
                sink,
                301,
                Some(("sink-failed", "sink")),
            ),
            ("denied, before", denied.clone(), 4, None),
            ("denied", denied, 5, Some(("broker-refused", "broker"))),
            ("holes, before", holes.clone(), 299, None),
            ("holes", holes, 300, Some(("holes-open", "sink"))),
        ] {
            let want = want.map(|(code, subject)| (code, subject.to_owned()));
            assert_eq!(after(seconds, &facts), Vec::from_iter(want), "{name}");
        }
    }

    #[test]
    fn a_disk_is_low_below_a_part_of_it_and_of_a_gibibyte() {
        for (name, free_bytes, size_bytes, low) in [
            ("a large one", (1 << 30) - 1, 100 << 30, true),
            ("at the edge", 1 << 30, 100 << 30, false),
            ("above", (1 << 30) + 1, 100 << 30, false),
            ("a small one", 49, 1000, true),
            ("a small one at its edge", 50, 1000, false),
            ("none at all", 0, 0, false),
        ] {
            let disk = Some(DiskFacts {
                free_bytes,
                size_bytes,
            });
            let facts = ReceiverFacts { disk, ..good() };
            assert_eq!(after(10, &facts).len() == 1, low, "{name}");
        }
    }

    #[test]
    fn gateways_are_missed_at_their_limit() {
        let heard = |of: &[(&str, u64)]| ReceiverFacts {
            gateways: of
                .iter()
                .map(|(name, s)| ((*name).to_owned(), Mono(s * S)))
                .collect(),
            ..good()
        };
        for (name, of, seconds, want) in [
            ("before", &[("a", 0), ("b", 800)][..], 899, vec![]),
            ("at it", &[("a", 0), ("b", 800)], 900, vec!["a"]),
            ("after", &[("a", 0), ("b", 800)], 901, vec!["a"]),
            ("both", &[("a", 0), ("b", 100)], 1000, vec!["all gateways"]),
            ("the only one", &[("a", 0)], 900, vec!["a"]),
            ("none is known", &[], 900, vec![]),
        ] {
            let found = after(seconds, &heard(of));
            let names: Vec<&str> = found.iter().map(|(_, subject)| subject.as_str()).collect();
            assert_eq!(names, want, "{name}");
        }
        let cut = ReceiverFacts {
            connected: false,
            ..heard(&[("a", 0)])
        };
        let found = after(1000, &cut);
        assert_eq!(found.len(), 1, "of a broker that is away nobody is heard");
        assert_eq!(found[0].0, "broker-away");
    }

    #[test]
    fn what_was_counted_before_the_start_is_no_news() {
        let mut alarms = Alarms::new(AlarmRules::default(), &[], at(0));
        let counted = |rejected, clones| ReceiverFacts {
            rejected,
            clones,
            ..good()
        };
        alarms.judge_receiver(&counted(7, 1), at(0));
        assert_eq!(alarms.active().count(), 0);
        alarms.judge_receiver(&counted(9, 2), at(1));
        let codes: Vec<_> = alarms.active().map(|found| found.code.name()).collect();
        assert_eq!(codes, ["log-copied", "messages-rejected"]);
        assert!(
            alarms
                .active()
                .any(|found| found.text.starts_with("2 messages"))
        );
    }
}
