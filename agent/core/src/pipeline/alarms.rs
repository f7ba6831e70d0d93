//! The wiring of the alarms: what the stages know goes in once a second, what has begun
//! and what is over comes out as rows of `control` and notes. Decides nothing.

use forebay_wire::ids::DeviceUid;

use super::Gateway;
use super::device_view::closes;
use crate::alarms::{
    BacklogFacts, DestinationFacts, DeviceFacts, EngineFacts, Facts, SourceFacts, StoreFacts,
    TopicFacts,
};
use crate::devices::Device;
use crate::effect::{Effect, Note, SourceState};
use crate::forward::Forward;
use crate::log::key::TopicPartition;
use crate::log::topic::{CONTROL, QUARANTINE};
use crate::record::GapReason;
use crate::store::StoreEvent;
use crate::units::{Mono, Now, PartitionId, Span, TopicId};

/// Where rows about alarms go.
const CONTROL_AT: TopicPartition = TopicPartition {
    topic: CONTROL,
    partition: PartitionId(0),
};

/// What is known for alarms alone, since the start.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tallies {
    /// Records that were found lost.
    pub lost: u64,
    /// Damaged files that stand in quarantine now.
    pub set_aside: u64,
}

impl Gateway {
    /// Nothing is judged before the accounts are known, nor while the gateway stops.
    fn judges_alarms(&self) -> bool {
        self.is_recovered() && !self.draining
    }

    pub(super) fn alarms_deadline(&self) -> Option<Mono> {
        self.judges_alarms().then(|| self.alarms.next_deadline())
    }

    /// Judges them where a second has passed.
    pub(super) fn advance_alarms(&mut self, now: Now) {
        if !self.judges_alarms() || !self.alarms.is_due(now.mono) {
            return;
        }
        if let Some((key, value)) = self.alarms.wear().on_time(now.mono) {
            self.commit.meta(key, value, now.mono);
        }
        let facts = self.alarm_facts(now.mono);
        let told = self.alarms.judge(&facts, self.clock.stamp(now));
        for row in &told.rows {
            self.commit.row(CONTROL_AT, row, now.mono);
        }
        let notes = told.notes.into_iter().map(Note).map(Effect::Note);
        self.effects.extend(notes);
    }

    /// The gateway stops: what was written so far is known to the next start.
    pub(super) fn keep_wear(&mut self, now: Mono) {
        if let Some((key, value)) = self.alarms.wear().entry() {
            self.commit.meta(key, value, now);
        }
    }

    /// The store says what it wrote, or what stands aside.
    pub(super) fn note_wear(&mut self, event: &StoreEvent) {
        match event {
            StoreEvent::Written(bytes) => self.alarms.wear().on_measured(*bytes),
            // A generation is written a second time when it is sealed.
            StoreEvent::Sealed(segments) => {
                let bytes = segments.iter().map(|segment| segment.bytes);
                self.alarms.wear().on_written(bytes.sum());
            }
            StoreEvent::SetAside(files) => self.tallies.set_aside = *files,
            StoreEvent::Removed(_)
            | StoreEvent::Disk { .. }
            | StoreEvent::Trouble(_)
            | StoreEvent::Recovered
            | StoreEvent::Lost(_)
            | StoreEvent::Note(_) => {}
        }
    }

    fn alarm_facts(&self, now: Mono) -> Facts {
        let devices = self.devices.iter();
        let sessions = self.ports.values().flatten();
        let refused = sessions.map(|session| session.counters().devices_refused);
        let destinations = self.forward.iter();
        Facts {
            clock_trusted: self.clock.is_trusted(),
            devices: devices
                .map(|(uid, device)| (uid, self.device_facts(uid, device)))
                .collect(),
            devices_refused: refused.sum(),
            open_ports: self.ports.keys().copied().collect(),
            topics: self.retention.topics().map(TopicFacts::of).collect(),
            destinations: destinations
                .map(|forward| self.destination_facts(forward, now))
                .collect(),
            sources: self.source_facts(),
            store: StoreFacts {
                trouble: self.retention.trouble(),
                low: self.retention.short_sentence(),
                lost: self.tallies.lost,
                set_aside: self.tallies.set_aside,
            },
            engine: self.engine_facts(),
        }
    }

    fn device_facts(&self, uid: DeviceUid, device: &Device) -> DeviceFacts {
        let accounts = self.ledger.device(uid);
        let newest = accounts.and_then(|a| a.boots.get(&a.newest()?));
        let sum = accounts.map(|accounts| accounts.total());
        let gaps = sum.map_or(0, |sum| {
            let rejected = sum.gaps[GapReason::LogFull as usize];
            sum.gap_total().saturating_sub(rejected)
        });
        let period = period(device);
        let health_at = device.heard.as_ref().map(|(_, at)| *at);
        DeviceFacts {
            name: self.config.names.name(uid),
            taken: accounts.map_or(0, |accounts| accounts.taken_live()),
            last: newest.and_then(|account| account.times.map(|(_, last)| last)),
            period,
            alive_at: health_at.filter(|_| sends_changes_only(device)),
            connected: device.link.is_some(),
            health_at,
            gaps,
            closes: closes(self, uid),
            moves: device.moves,
        }
    }

    fn destination_facts(&self, forward: &Forward, now: Mono) -> DestinationFacts {
        let unsent = forward.unsent_by_topic();
        let spare = self.retention.free_bytes().map(|free| {
            let reserve = self.retention.reserve_bytes();
            free.saturating_sub(reserve)
        });
        let backlog = self.retention.topics().filter_map(|topic| {
            let bytes = *unsent.get(&topic.topic)?;
            let by_disk = topic.used_bytes.saturating_add(spare.unwrap_or(u64::MAX));
            Some(BacklogFacts {
                topic: topic.name,
                bytes,
                room_bytes: topic.policy.quota_bytes.min(by_disk),
            })
        });
        DestinationFacts {
            standing: forward.standing(now),
            backlog: backlog.collect(),
        }
    }

    fn source_facts(&self) -> Vec<SourceFacts> {
        let sources = self.changes.sources().map(|source| {
            let (mut failed, mut waits) = (source.broken().map(str::to_owned), None);
            match &source.state {
                Some(SourceState::Failed(why)) => failed = failed.or(Some(why.clone())),
                Some(SourceState::Waiting(why)) => waits = Some(why.clone()),
                Some(
                    SourceState::Connected
                    | SourceState::Snapshotting { .. }
                    | SourceState::Streaming,
                )
                | None => {}
            }
            SourceFacts {
                name: source.config.name.clone(),
                failed,
                waits,
            }
        });
        sources.collect()
    }

    fn engine_facts(&self) -> EngineFacts {
        let mut facts = EngineFacts::default();
        for stage in self.readers.stages() {
            let counters = stage.counters();
            facts.rows_different += counters.rows_different;
            facts.left_out += counters.rows_homeless + counters.rows_oversize;
            facts.left_out += counters.readings_beyond;
        }
        if let Some(exchange) = &self.exchange {
            facts.rows_different += exchange.counters().rows_different;
        }
        let topics = self.retention.topics();
        facts.left_out += topics.map(|topic| topic.counts.refused).sum::<u64>();
        let of = |topic: TopicId| self.commit.heads().filter(move |(at, _)| at.topic == topic);
        facts.quarantined = of(QUARANTINE).map(|(_, head)| head.0).sum();
        facts
    }
}

/// Shortest period of a channel of which each sample is sent: as it is wanted, else as
/// the device says.
fn period(device: &Device) -> Option<Span> {
    let changes_only = sends_changes_only(device);
    let channels = device.kept.channels.values().filter_map(|info| {
        let wanted = device.kept.desired.of(info.channel);
        let period = match wanted.period_us {
            0 => info.period_us,
            wanted => wanted,
        };
        let counts = period > 0 && (changes_only || wanted.threshold == 0);
        counts.then_some(Span(i64::from(period)))
    });
    channels.min()
}

/// Whether no channel of the device sends each sample.
fn sends_changes_only(device: &Device) -> bool {
    let mut channels = device.kept.channels.values();
    let all = !device.kept.channels.is_empty();
    all && channels.all(|info| device.kept.desired.of(info.channel).threshold > 0)
}
