//! How long the turns of the agent's loop take, by what they are for: a question, an ack and
//! the bytes of a port wait for the turns before them. Sums since the start; knows nothing
//! of what a turn does.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A turn this long is felt by who asks.
const SLOW: Duration = Duration::from_millis(5);

/// What a turn is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    Store,
    Ports,
    Brokers,
    Sources,
    Plans,
    Questions,
    /// What the core wanted to do by now: a piece of the engine's work, most often.
    Due,
}

/// Names in the status, in order.
const NAMES: [&str; 7] = [
    "store",
    "ports",
    "brokers",
    "sources",
    "plans",
    "questions",
    "due",
];

/// See the module.
#[derive(Debug, Default)]
pub(super) struct TurnTimes {
    begun: Option<(For, Instant)>,
    sums: [Sums; NAMES.len()],
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    turns: u64,
    busy: Duration,
    slow: u64,
    longest: Duration,
}

impl TurnTimes {
    /// A turn begins `now`; one that has begun goes on.
    pub(super) fn begin(&mut self, what: For, now: Instant) {
        self.begun.get_or_insert((what, now));
    }

    /// It has ended, with all that came of it.
    pub(super) fn end(&mut self, now: Instant) {
        let Some((what, begun)) = self.begun.take() else {
            return;
        };
        let took = now.saturating_duration_since(begun);
        let sums = &mut self.sums[what as usize];
        sums.turns += 1;
        sums.busy += took;
        sums.slow += u64::from(took >= SLOW);
        sums.longest = sums.longest.max(took);
    }

    /// The member `loop` of a status.
    pub(super) fn told(&self) -> Value {
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let told = NAMES.iter().zip(&self.sums).map(|(name, sums)| {
            json!({
                "for": name,
                "turns": sums.turns,
                "busy_us": us(sums.busy),
                "slow": sums.slow,
                "longest_us": us(sums.longest),
            })
        });
        told.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_counts_for_what_began_it_and_is_slow_from_the_limit_on() {
        let start = Instant::now();
        let mut times = TurnTimes::default();
        times.end(start);
        let us = [4_999, 5_000, 5_001];
        for us in us {
            times.begin(For::Ports, start);
            times.begin(For::Due, start + Duration::from_micros(1));
            times.end(start + Duration::from_micros(us));
        }
        let told = times.told();
        let want = json!({
            "for": "ports", "turns": 3, "busy_us": us.iter().sum::<u64>(), "slow": 2,
            "longest_us": 5_001,
        });
        assert_eq!(told[For::Ports as usize], want);
        assert_eq!(told[For::Due as usize]["for"], "due");
        assert_eq!(told[For::Due as usize]["turns"], 0);
    }
}
