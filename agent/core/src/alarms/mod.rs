//! What is wrong, said plainly: each second all that the stages know is held against
//! rules, and what is wrong for long enough is an alarm with a code, a subject and a
//! sentence that says what to do.
//!
//! Holds always: the same facts at the same times give the same alarms; nothing is judged
//! more often than each [`ALARMS_EVERY_US`]. Bound: a watch per subject and code while
//! something is wrong with it, and the [`Book`]. Knows no stage and no clock; what each
//! code means stands in `agent/node/docs/alarms.md`.

mod book;
mod code;
mod facts;
mod judge;
mod receiver;
mod rules;
mod stalled;
#[cfg(test)]
mod tests;
mod text;
mod watch;
mod wear;

use std::collections::{BTreeMap, BTreeSet};

use forebay_wire::ids::DeviceUid;
use serde_json::{Value, json};

use self::book::Book;
pub use self::book::{Found, Told};
pub use self::code::{Code, CodeFacts, Severity};
pub use self::facts::{
    BacklogFacts, DestinationFacts, EngineFacts, Facts, SourceFacts, StoreFacts, TopicFacts,
};
pub use self::receiver::{DiskFacts, ReceiverFacts};
pub use self::rules::{AlarmRules, Expect};
pub use self::stalled::DeviceFacts;
use self::stalled::Pulse;
use self::watch::Watch;
use self::wear::{Wear, years};
use crate::limits::ALARMS_EVERY_US;
use crate::meta::Entry;
use crate::units::{Mono, Now, PortId};

/// What of a status is of alarms: the answer of `forebay alarms --json` and of
/// `GET /api/v1/alarms`.
#[must_use]
pub fn of_status(status: &Value) -> Value {
    let alarms = status.get("alarms").filter(|alarms| alarms.is_array());
    json!({
        "health": status["health"],
        "alarms": alarms.cloned().unwrap_or_else(|| json!([])),
        "left_out": status["alarms_left_out"].as_u64().unwrap_or(0),
    })
}

/// Subjects of one code that are watched.
type Watches = BTreeMap<String, Watch>;

/// See the module.
#[derive(Debug)]
pub struct Alarms {
    rules: AlarmRules,
    due: Mono,
    /// Nothing was judged yet: what counters say now is no news, as far as they are kept.
    is_first: bool,
    watches: BTreeMap<Code, Watches>,
    pulses: BTreeMap<DeviceUid, Pulse>,
    /// Ports of the rules that were open in this run.
    opened: BTreeSet<PortId>,
    book: Book,
    wear: Wear,
}

impl Alarms {
    /// The alarms of a run that starts now, on a log with these entries: none.
    #[must_use]
    pub fn new(rules: AlarmRules, meta: &[Entry], now: Now) -> Self {
        Self {
            rules,
            due: now.mono,
            is_first: true,
            watches: BTreeMap::new(),
            pulses: BTreeMap::new(),
            opened: BTreeSet::new(),
            book: Book::default(),
            wear: Wear::restore(meta, now.mono),
        }
    }

    /// When [`Alarms::judge`] wants to be called.
    #[must_use]
    pub fn next_deadline(&self) -> Mono {
        self.due
    }

    /// Whether it is time for [`Alarms::judge`].
    #[must_use]
    pub fn is_due(&self, now: Mono) -> bool {
        self.due <= now
    }

    /// Nothing can be judged yet, or any more: asks again in a second.
    pub fn put_off(&mut self, now: Mono) {
        self.due = Mono(now.0.saturating_add(ALARMS_EVERY_US));
    }

    /// What is written to the card, for whoever knows of it.
    pub fn wear(&mut self) -> &mut Wear {
        &mut self.wear
    }

    /// Holds the facts of an agent against the rules; what has changed.
    pub fn judge(&mut self, facts: &Facts, now: Now) -> Told {
        self.put_off(now.mono);
        let known = (&mut self.watches, &mut self.is_first);
        let mut judge = judge::Judge::new(&self.rules, known, now);
        judge.devices(facts, &mut self.pulses);
        judge.ports(facts, &mut self.opened);
        judge.agent(facts);
        judge.topics(facts);
        judge.wear(&self.wear);
        judge.destinations(facts);
        judge.sources(facts);
        let found = judge.end(&mut self.watches);
        self.book.take(found, now)
    }

    /// The same for a receiver.
    pub fn judge_receiver(&mut self, facts: &ReceiverFacts, now: Now) -> Told {
        self.put_off(now.mono);
        let known = (&mut self.watches, &mut self.is_first);
        let mut judge = judge::Judge::new(&self.rules, known, now);
        judge.receiver(facts);
        let found = judge.end(&mut self.watches);
        self.book.take(found, now)
    }

    /// All that there are, the worst first.
    pub fn active(&self) -> impl Iterator<Item = &Found> {
        self.book.active()
    }

    /// `ok`, `degraded` or `failed`.
    #[must_use]
    pub fn health(&self) -> &'static str {
        self.book.health()
    }

    /// How many there are beyond those that are listed.
    #[must_use]
    pub fn left_out(&self) -> usize {
        self.book.left_out()
    }

    /// All of them as JSON.
    #[must_use]
    pub fn status(&self, now: Mono) -> Value {
        self.book.status(now)
    }

    /// What is known of the card, as JSON.
    #[must_use]
    pub fn wear_status(&self, now: Mono) -> Value {
        let endurance = self.rules.card_endurance_bytes;
        let left = endurance.and_then(|endurance| self.wear.days_left(endurance, now));
        json!({
            "written_bytes": self.wear.total_bytes(),
            "measured": self.wear.is_measured(),
            "bytes_per_day": self.wear.per_day(now),
            "endurance_bytes": endurance,
            "years_left": left.map(years),
        })
    }
}
