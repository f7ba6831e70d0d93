//! The rules, one after the other. Each looks at its part of the facts and says what it
//! found; watches that nothing was looked at with are forgotten.

use std::collections::{BTreeMap, BTreeSet};

use forebay_wire::ids::DeviceUid;

use super::book::Found;
use super::code::{Code, Severity};
use super::facts::{BacklogFacts, DestinationFacts, Facts};
use super::rules::{AlarmRules, Expect};
use super::stalled::{DeviceFacts, Pulse, Silence, Wanted};
use super::watch::{Edges, Lasting, Watch};
use super::wear::{Wear, days, years};
use super::{Watches, text};
use crate::limits::{ALARM_PORTS_MAX, STALLED_US_MIN};
use crate::retention::{WhenFull, size};
use crate::units::{Mono, Now, PortId, Span};

pub(super) const fn seconds(seconds: i64) -> Span {
    Span(seconds * 1_000_000)
}

/// What is mended by itself within this is no alarm.
const MINUTE: Lasting = Lasting {
    bad: seconds(60),
    good: seconds(5),
};
/// A broker that refuses is asked again within this.
pub(super) const REFUSED: Lasting = Lasting {
    bad: seconds(5),
    good: seconds(30),
};
/// A backlog, percent of its room.
const BACKLOG: Edges = Edges { on: 80, off: 75 };
/// Moves of a device that are no change of its cable.
const MOVES_MIN: u64 = 3;
/// A card is well again when it lasts so much longer, percent.
const CARD_WELL_PERCENT: u64 = 110;
/// A subject for what is of no part.
const ALL_DEVICES: &str = "all devices";

/// See the module.
pub(super) struct Judge<'a> {
    pub rules: &'a AlarmRules,
    before: BTreeMap<Code, Watches>,
    watches: BTreeMap<Code, Watches>,
    is_first: bool,
    pub found: Vec<Found>,
    pub now: Now,
}

impl<'a> Judge<'a> {
    /// Begins to judge, with the watches of before.
    pub(super) fn new(
        rules: &'a AlarmRules,
        (watches, is_first): (&mut BTreeMap<Code, Watches>, &mut bool),
        now: Now,
    ) -> Self {
        Self {
            rules,
            before: std::mem::take(watches),
            watches: BTreeMap::new(),
            is_first: std::mem::take(is_first),
            found: Vec::new(),
            now,
        }
    }

    /// All that was found; what is still watched goes to `watches`.
    pub(super) fn end(self, watches: &mut BTreeMap<Code, Watches>) -> Vec<Found> {
        *watches = self.watches;
        self.found
    }
}

impl Judge<'_> {
    /// Looks with the watch of a code and a subject.
    fn with<T>(
        &mut self,
        (code, subject): (Code, &str),
        new: Watch,
        look: impl FnOnce(&mut Watch, Mono) -> T,
    ) -> T {
        let before = self.before.get_mut(&code);
        let mut watch = before.and_then(|all| all.remove(subject)).unwrap_or(new);
        let out = look(&mut watch, self.now.mono);
        if !watch.is_idle() {
            let all = self.watches.entry(code).or_default();
            all.insert(subject.to_owned(), watch);
        }
        out
    }

    fn say(&mut self, what: (Code, &str), since: Mono, text: String) {
        self.say_as(what, what.0.facts().severity, since, text);
    }

    pub(super) fn say_as(
        &mut self,
        (code, subject): (Code, &str),
        severity: Severity,
        since: Mono,
        text: String,
    ) {
        self.found.push(Found {
            code,
            subject: subject.to_owned(),
            severity,
            since,
            text,
        });
    }

    /// A state that has to last.
    pub(super) fn state(
        &mut self,
        what: (Code, &str),
        (bad, lasting): (bool, Lasting),
        text: impl FnOnce() -> String,
    ) {
        let since = self.with(what, Watch::default(), |watch, now| {
            watch.state(bad, lasting, now)
        });
        if let Some(since) = since {
            self.say(what, since, text());
        }
    }

    /// A count that grows. One that is kept over restarts is no news at first.
    pub(super) fn growth(
        &mut self,
        what: (Code, &str),
        (count, is_kept, least): (u64, bool, u64),
        text: impl FnOnce(u64) -> String,
    ) {
        let known = if is_kept && self.is_first { count } else { 0 };
        let new = Watch::from_count(known);
        let hold = self.rules.hold;
        let grown = self.with(what, new, |watch, now| {
            watch.growth(count, (least, hold), now)
        });
        if let Some((since, more)) = grown {
            self.say(what, since, text(more));
        }
    }

    fn limit(&self, period: Span) -> u64 {
        let periods = u64::from(self.rules.stalled_periods);
        let long = period.0.unsigned_abs().saturating_mul(periods);
        let least = self.rules.stalled_min.0.unsigned_abs();
        // Half of it has to be longer than the time between two looks.
        long.max(least).max(STALLED_US_MIN)
    }

    /// Devices: whether they are heard, and what they lost.
    pub(super) fn devices(&mut self, facts: &Facts, pulses: &mut BTreeMap<DeviceUid, Pulse>) {
        let known: BTreeSet<DeviceUid> = facts.devices.iter().map(|(uid, _)| *uid).collect();
        pulses.retain(|uid, _| known.contains(uid));
        let mut watched = 0;
        let mut silent: Vec<(&DeviceFacts, Silence)> = Vec::new();
        for (uid, device) in &facts.devices {
            let wanted = match self.rules.expects.get(uid) {
                Some(Expect::Never) => {
                    pulses.remove(uid);
                    continue;
                }
                Some(Expect::Every(span)) => Wanted::Said(*span),
                None => device.period.map_or(Wanted::Unknown, Wanted::Announced),
            };
            let now = self.now.mono;
            let pulse = pulses
                .entry(*uid)
                .or_insert_with(|| Pulse::new(device.taken, now));
            let heard = (device.taken, device.alive_at);
            let silence = pulse.look(heard, wanted, |period| self.limit(period), now);
            watched += 1;
            silent.extend(silence.map(|silence| (device, silence)));
        }
        self.stalled(watched, &silent);
        for (_, device) in &facts.devices {
            self.device(device);
        }
        let refused = (facts.devices_refused, false, 1);
        self.growth((Code::DevicesRefused, "table"), refused, |more| {
            format!(
                "devices were turned away {more} times: the table of devices is full; see \
                 `forebay device ls`, and spread devices over more gateways"
            )
        });
    }

    fn stalled(&mut self, watched: usize, silent: &[(&DeviceFacts, Silence)]) {
        let now = self.now.mono;
        let all = watched == silent.len();
        let severity = if all {
            Severity::Failed
        } else {
            Severity::Degraded
        };
        let newest = silent.iter().map(|(_, silence)| silence.since).max();
        if let Some(since) = newest.filter(|_| all && watched > 1) {
            self.found.push(Found {
                code: Code::IngestStalled,
                subject: ALL_DEVICES.to_owned(),
                severity,
                since,
                text: text::all_stalled(watched, since, now),
            });
            return;
        }
        for (device, silence) in silent {
            self.found.push(Found {
                code: Code::IngestStalled,
                subject: device.name.clone(),
                severity,
                since: silence.since,
                text: text::stalled(device, *silence, now),
            });
        }
    }

    fn device(&mut self, device: &DeviceFacts) {
        let name = device.name.as_str();
        self.growth((Code::DeviceGaps, name), (device.gaps, true, 1), |more| {
            format!(
                "{more} of its readings were lost before they were here: `forebay device show \
                 {name}` says why; a ring that runs full wants longer periods, a faster line, or \
                 a gateway that is away for less long"
            )
        });
        let moves = (device.moves, false, MOVES_MIN);
        self.growth((Code::DeviceTwice, name), moves, |more| {
            format!(
                "it went to another port {more} times while the one before was open: two boards \
                 have its uid, or two ways lead to it; unplug one"
            )
        });
        self.state((Code::LedgerOpen, name), (!device.closes, MINUTE), || {
            String::from(
                "the sums of its ledger do not close: `forebay status --ledger` says by how \
                     much; keep its output and the log, this is an error of ours or of the device",
            )
        });
    }

    /// Ports of the rules that were open and are gone.
    pub(super) fn ports(&mut self, facts: &Facts, opened: &mut BTreeSet<PortId>) {
        let rules = self.rules;
        let open: BTreeSet<PortId> = facts.open_ports.iter().copied().collect();
        let lasting = Lasting {
            bad: rules.port_lost_after,
            good: seconds(2),
        };
        for (port, name) in rules.ports.iter().take(ALARM_PORTS_MAX) {
            let is_open = open.contains(port);
            if is_open {
                opened.insert(*port);
            }
            let is_lost = opened.contains(port) && !is_open;
            self.state((Code::PortLost, name), (is_lost, lasting), || {
                String::from(
                    "it was open and is gone, and is tried again and again: see its cable and its \
                     power; `forebay status` says what the system says",
                )
            });
        }
    }

    /// What is of no part: the clock, what engines and store counted.
    pub(super) fn agent(&mut self, facts: &Facts) {
        self.state(
            (Code::ClockUntrusted, "clock"),
            (!facts.clock_trusted, MINUTE),
            || {
                String::from(
                    "the clock is not trusted: readings are kept, and their windows wait until it \
                     is set or synchronised; see `timedatectl`",
                )
            },
        );
        let engine = facts.engine;
        let quarantined = (engine.quarantined, true, 1);
        self.growth((Code::Quarantine, "readings"), quarantined, |more| {
            format!(
                "{more} readings went to the topic `quarantine`: `forebay watch quarantine` shows \
                 why; a device's clock or its values are wrong"
            )
        });
        self.growth(
            (Code::RowsDiffer, "rows"),
            (engine.rows_different, false, 1),
            |more| {
                format!(
                    "{more} rows that were computed again are not those that the log has: run \
                     `forebay verify`, keep the log; this is an error of ours, or a config that \
                     was changed without a new view"
                )
            },
        );
        let left_out = (engine.left_out, false, 1);
        self.growth((Code::RowsLeftOut, "rows"), left_out, |more| {
            format!(
                "{more} rows or readings are in no window's stream: `forebay status --json` says \
                 which (rows_homeless, rows_oversize, readings_beyond, rejected)"
            )
        });
        self.store(facts);
    }

    fn store(&mut self, facts: &Facts) {
        let store = &facts.store;
        let aside = store.set_aside;
        let files = (Code::Quarantine, "files");
        self.state(files, (aside > 0, Lasting::AT_ONCE), || {
            let stand = if aside == 1 {
                "file stands"
            } else {
                "files stand"
            };
            format!(
                "{aside} damaged {stand} in the folder `quarantine` of `data_dir`: stop the agent, \
                 `forebay log check` says what is missing, `forebay log repair` takes back what \
                 reads; then remove them, or move them to `quarantine/kept`"
            )
        });
        let lost = (store.lost, false, 1);
        self.growth((Code::RecordsLost, "log"), lost, |more| {
            format!(
                "{more} records that were durable cannot be read any more: `forebay log check` \
                 names them; see the card, replace it when it happens again"
            )
        });
        let at_once = Lasting {
            bad: Span(0),
            good: seconds(5),
        };
        let trouble = store.trouble.as_deref();
        self.state(
            (Code::StoreFailed, "log"),
            (trouble.is_some(), at_once),
            || text::cut(trouble.unwrap_or("writing works again")).to_owned(),
        );
        let low = store.low.as_deref();
        let lasting = Lasting {
            bad: seconds(5),
            good: seconds(30),
        };
        self.state((Code::DiskLow, "disk"), (low.is_some(), lasting), || {
            let what = text::cut(low.unwrap_or("the disk has room again"));
            format!("{what}; make room on it, or give the log less by quota")
        });
    }

    /// Topics that fill up.
    pub(super) fn topics(&mut self, facts: &Facts) {
        let lasting = Lasting {
            bad: Span(0),
            good: seconds(5),
        };
        for topic in &facts.topics {
            let name = topic.name.as_str();
            self.state((Code::LogFull, name), (topic.full, lasting), || {
                text::full(topic)
            });
            // A topic that drops its oldest is full for ever: that is how it lives.
            let keeps = topic.when_full != WhenFull::DropOldest;
            let near = keeps && topic.near_full && !topic.full;
            self.state((Code::LogNearFull, name), (near, lasting), || {
                text::near_full(topic)
            });
            let dropped = (topic.dropped_unsent, true, 1);
            self.growth((Code::DroppedUnsent, name), dropped, |more| {
                format!(
                    "{more} of its records were dropped to make room and had not arrived: they \
                     are lost upstream; see the destinations, or give it a larger quota"
                )
            });
        }
    }

    /// How long the card lasts.
    pub(super) fn wear(&mut self, wear: &Wear) {
        let Some(endurance) = self.rules.card_endurance_bytes else {
            return;
        };
        let years_min = u64::from(self.rules.card_years);
        let now = self.now.mono;
        let left = wear.days_left(endurance, now);
        // Judged from the other side: what a card is short of.
        let edges = Edges {
            on: days(years_min),
            off: days(years_min) * CARD_WELL_PERCENT / 100,
        };
        let what = (Code::CardWear, "card");
        let since = self.with(what, Watch::default(), |watch, now| {
            let edge = if watch.raised().is_some() {
                edges.off
            } else {
                edges.on
            };
            let short = left.is_some_and(|left| left < edge);
            watch.state(short, Lasting::AT_ONCE, now)
        });
        if let (Some(since), Some(left), Some(day)) = (since, left, wear.per_day(now)) {
            let text = format!(
                "{} a day are written to it, {} so far of the {} that it takes: it lasts {} more \
                 years, not {years_min}; write less often (longer periods, `[log] group`, fewer \
                 windows), or take a better card",
                size(day),
                size(wear.total_bytes()),
                size(endurance),
                years(left),
            );
            self.say(what, since, text);
        }
    }

    /// Destinations: whether they are reached, and what waits for them.
    pub(super) fn destinations(&mut self, facts: &Facts) {
        for destination in &facts.destinations {
            self.backlog(destination);
            self.refused(destination);
            self.away(destination);
            let standing = &destination.standing;
            let name = standing.name.as_str();
            let parked = standing.parked;
            self.state(
                (Code::DeadLetters, name),
                (parked > 0, Lasting::AT_ONCE),
                || {
                    format!(
                        "{parked} records are passed over because its broker does not take them: \
                         `forebay forward dead-letters` shows why, `forebay forward retry` sends \
                         them again"
                    )
                },
            );
            let foreign = (standing.foreign, false, 1);
            self.growth((Code::LogCopied, name), foreign, |_| {
                String::from(
                    "the receiver has records of this log that another opening of it has sent: the \
                     disk was restored from a backup, or copied; see that only one gateway runs \
                     on it",
                )
            });
        }
    }

    fn backlog(&mut self, destination: &DestinationFacts) {
        let Some(worst) = destination.backlog.iter().max_by_key(|b| b.percent()) else {
            return;
        };
        let what = (Code::BacklogHigh, destination.standing.name.as_str());
        let percent = BacklogFacts::percent(worst);
        let since = self.with(what, Watch::default(), |watch, now| {
            watch.level(percent, BACKLOG, now)
        });
        if let Some(since) = since {
            self.say(what, since, text::backlog(destination, worst));
        }
    }

    fn refused(&mut self, destination: &DestinationFacts) {
        let standing = &destination.standing;
        let what = (Code::BrokerRefused, standing.name.as_str());
        let why = standing.denied.as_deref();
        self.state(what, (why.is_some(), REFUSED), || {
            let why = text::cut(why.unwrap_or("it lets us in again"));
            format!("{why}; readings are kept meanwhile")
        });
    }

    fn away(&mut self, destination: &DestinationFacts) {
        let standing = &destination.standing;
        let name = standing.name.as_str();
        let lasting = Lasting {
            bad: self.rules.away_after,
            good: seconds(5),
        };
        let reason = standing.last_disconnect.as_deref();
        self.state(
            (Code::BrokerAway, name),
            (!standing.connected, lasting),
            || {
                let reason = text::cut(reason.unwrap_or("nothing was heard of it yet"));
                format!("no connection to its broker ({reason}); readings are kept meanwhile")
            },
        );
        let silent = standing.connected && standing.receiver_known && !standing.receiver_online;
        self.state((Code::ReceiverSilent, name), (silent, lasting), || {
            String::from(
                "its broker is there and the receiver behind it is not: what is sent waits at the \
                 broker, and nothing is confirmed; see `forebay upstream`",
            )
        });
    }

    /// Sources of tables.
    pub(super) fn sources(&mut self, facts: &Facts) {
        for source in &facts.sources {
            let lasting = Lasting {
                bad: if source.failed.is_some() {
                    Span(0)
                } else {
                    self.rules.away_after
                },
                good: seconds(5),
            };
            let why = source.failed.as_deref().or(source.waits.as_deref());
            let what = (Code::SourceFailed, source.name.as_str());
            self.state(what, (why.is_some(), lasting), || {
                let why = text::cut(why.unwrap_or("it goes on"));
                format!("{why}; tables stay as they were, and rows that need them wait")
            });
        }
    }
}
