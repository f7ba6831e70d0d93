//! How far 1,000 agents spread that lost their broker in the same moment, and found it
//! back: their waits, computed by the backoff of the agent with chance from a seed.

use std::time::Duration;

use forebay_node::mqtt::backoff::{Backoff, BackoffConfig};

use super::limits::{AGENTS, SPREAD_S_MIN};
use super::row;
use crate::data::Dice;
use crate::table::Row;

/// The broker is away for so long; attempts meanwhile are refused at once.
const AWAY: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_secs(5),
    Duration::from_secs(60),
];

pub(super) fn run() -> Vec<Row> {
    AWAY.into_iter().map(of).collect()
}

/// When an agent is back, after the end of its connection.
fn back_after(away: Duration, seed: u64) -> Duration {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for _ in 0..8 {
        dice.next();
    }
    let mut backoff = Backoff::new(BackoffConfig::default());
    let mut random = move || dice.next() << 32 ^ dice.next();
    // It was up.
    let mut at = backoff.after_loss(random());
    while at < away {
        at += backoff.after_failure(random());
    }
    at
}

fn of(away: Duration) -> Row {
    let agents = u64::from(AGENTS);
    let mut back: Vec<Duration> = (1..=agents).map(|seed| back_after(away, seed)).collect();
    back.sort_unstable();
    let spread = (back[back.len() - 1] - back[0]).as_secs_f64();
    let mut most = 0;
    for (n, at) in back.iter().enumerate() {
        let end = *at + Duration::from_secs(1);
        most = most.max(back[n..].partition_point(|other| *other < end));
    }
    row(
        "spread of 1,000 agents after the broker's restart".into(),
        format!("broker away for {} s", away.as_secs()),
        format!("{spread:.1} s, at most {most} in a second"),
        Some((spread, SPREAD_S_MIN, true)),
        ">= 30 s".into(),
    )
}
