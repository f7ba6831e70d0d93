//! The wiring of the log's room: what the store says goes in, what is to be removed
//! and who is full comes out.

use std::collections::{BTreeMap, BTreeSet};

use super::forwarding::progress as delivered;
use super::{Gateway, Reader, readings_of};
use crate::accounts::Accounts;
use crate::changes::{CHANGES_AT, Changes};
use crate::effect::{Effect, GatewayConfig, Note, Opened};
use crate::exchange::{EXCHANGE_AT, Exchange};
use crate::forward::Forward;
use crate::log::key::{StoredBlock, TopicPartition};
use crate::log::topic::{CHANGES, CONTROL, EXCHANGE, LATE, QUARANTINE, READINGS};
use crate::readers::Readers;
use crate::retention::{Progress, Retention};
use crate::store::{Loss, SegmentId, StoreEvent, WriteBatch};
use crate::topics::TopicTable;
use crate::units::{Mono, Now, Offset, PartitionId};

/// Segments that go once the counts that say so are durable: a crash must not forget
/// what was dropped.
#[derive(Debug, Default)]
pub(super) struct Removals {
    /// Their counts go with the next batch.
    given: Vec<SegmentId>,
    /// Their counts are in the batch under way.
    cut: Vec<SegmentId>,
}

/// The room of a log that was just opened.
pub(super) fn open(
    config: &GatewayConfig,
    opened: &Opened,
    topics: &TopicTable,
    (forward, crosses): (&[Forward], bool),
    now: Now,
) -> Retention {
    let fixed = [
        (READINGS, "readings"),
        (CONTROL, "control"),
        (LATE, "late"),
        (QUARANTINE, "quarantine"),
    ];
    let fixed = fixed.map(|(topic, name)| (topic, String::from(name)));
    let exchange = (EXCHANGE, String::from("exchange"));
    let has_changes =
        opened.store.heads.contains_key(&CHANGES_AT) || !config.engine.tables.is_empty();
    let changes = (CHANGES, String::from("changes"));
    let has_it = opened.store.heads.contains_key(&EXCHANGE_AT) || crosses;
    let fixed = fixed.into_iter().chain(has_it.then_some(exchange));
    let fixed = fixed.chain(has_changes.then_some(changes));
    let names = fixed.chain(topics.windows());
    let came = |at| delivered(forward, at);
    let store = (&opened.store, opened.meta.as_slice());
    Retention::new(config.space.clone(), names, store, came, now)
}

/// How far those are who read a partition.
fn progress(
    forward: &[Forward],
    (readers, exchange): (&Readers, Option<&Exchange>),
    (accounts, changes): (&Accounts, &Changes),
    at: TopicPartition,
) -> Progress {
    let accounted = if at.topic == READINGS {
        accounts.kept(at.partition)
    } else if at == CHANGES_AT {
        changes.folded()
    } else {
        Offset(u64::MAX)
    };
    let read = (at.topic == READINGS).then(|| readers.cursor(at.partition));
    let crossing = exchange.filter(|_| at == EXCHANGE_AT);
    let (taken, kept) = match crossing {
        Some(exchange) => exchange.progress(),
        None if at == CHANGES_AT => {
            let across = exchange.map(|exchange| exchange.stage().changes_kept());
            let kept = across.into_iter().chain(readers.changes_kept()).min();
            (Offset(u64::MAX), kept.unwrap_or(Offset(u64::MAX)))
        }
        None => (read.unwrap_or_default(), readers.done_with(at.partition)),
    };
    let of_engines = Progress {
        came: None,
        done: Offset(0),
        accounted,
        taken,
        kept,
    };
    let Some(came) = delivered(forward, at) else {
        return of_engines;
    };
    Progress {
        came: Some(came),
        done: read.map_or(came.arrived, |read| came.arrived.min(read)),
        ..of_engines
    }
}

impl Gateway {
    pub(super) fn on_store_event(&mut self, event: &StoreEvent, now: Now) {
        let note = match event {
            StoreEvent::Trouble(error) => {
                let text = format!("{error}; it is tried again");
                (!self.retention.is_in_trouble()).then_some(text)
            }
            StoreEvent::Recovered => Some(String::from("store: writing works again")),
            StoreEvent::Lost(loss) => {
                self.tell_losses(&[*loss], now);
                None
            }
            StoreEvent::Note(text) => Some(text.clone()),
            StoreEvent::Sealed(_)
            | StoreEvent::Removed(_)
            | StoreEvent::Disk { .. }
            | StoreEvent::Written(_)
            | StoreEvent::SetAside(_) => None,
        };
        self.note_wear(event);
        self.effects
            .extend(note.map(|text| Effect::Note(Note(text))));
        let forward = &self.forward;
        self.retention
            .on_event(event, |at| delivered(forward, at), now.mono);
    }

    /// Losses that were not told before become rows of `control` and notes.
    pub(super) fn tell_losses(&mut self, losses: &[Loss], now: Now) {
        let told = self.losses.tell(losses, &self.topics, now.utc);
        self.tallies.lost += told.records;
        let at = TopicPartition {
            topic: CONTROL,
            partition: PartitionId(0),
        };
        for row in &told.rows {
            self.commit.row(at, row, now.mono);
        }
        self.keep(told.entries, now.mono);
        let notes = told.notes.into_iter().map(Note).map(Effect::Note);
        self.effects.extend(notes);
    }

    /// Reads what is to go of the changes of tables into their base.
    fn fold_waiting(&mut self) {
        if let Some(end) = self.retention.waiting(CHANGES_AT) {
            self.changes.fold(end);
        }
        if let Some((at, from)) = self.changes.next_base_fetch() {
            self.fetch(at, from, Reader::Base);
        }
    }

    pub(super) fn on_base_fetched(&mut self, blocks: &[StoredBlock], now: Mono) {
        self.changes.on_base_fetched(blocks);
        self.commit.wake(now);
    }

    /// Gives the base of tables to the engines that may need it.
    pub(super) fn share_base(&mut self) {
        let base = self.changes.base();
        self.readers.set_base(base);
        if let Some(build) = &mut self.build {
            build.readers.set_base(base);
        }
        if let Some(exchange) = &mut self.exchange {
            exchange.set_base(base);
        }
    }

    fn remove(&mut self, segments: Vec<SegmentId>) {
        if !segments.is_empty() {
            self.effects.push_back(Effect::Remove(segments));
        }
    }

    /// The counts of the batch that left last are durable: what they count may go.
    pub(super) fn remove_counted(&mut self) {
        let counted = std::mem::take(&mut self.removals.cut);
        self.remove(counted);
    }

    /// A batch leaves for the store.
    pub(super) fn on_written(&mut self, batch: &WriteBatch) {
        self.removals.cut.append(&mut self.removals.given);
        let mut bytes: BTreeMap<TopicPartition, u64> = BTreeMap::new();
        for block in &batch.blocks {
            *bytes.entry(block.key.at).or_default() += block.bytes.len() as u64;
        }
        let of_meta = batch
            .meta
            .iter()
            .map(|(key, value)| key.len() + value.len());
        let all = bytes.values().sum::<u64>() + of_meta.sum::<usize>() as u64;
        self.alarms.wear().on_written(all);
        for (at, bytes) in bytes {
            self.retention.on_written(at, self.commit.next(at), bytes);
        }
    }

    /// What is missing below these offsets was removed on purpose.
    pub(super) fn tell_trimmed(&mut self) {
        let retention = &self.retention;
        for forward in &mut self.forward {
            forward.on_trimmed(|at| Offset(retention.counts(at).counted_to));
        }
    }

    /// Removes what has to go and tells the other stages who is full.
    pub(super) fn advance_space(&mut self, now: Mono) {
        for (at, rows) in self.commit.take_refused() {
            self.retention.refuse_rows(at, rows);
        }
        for (partition, first, end) in self.readers.take_holes() {
            let at = readings_of(partition);
            let came = delivered(&self.forward, at);
            self.retention.not_found(at, (first, end), came);
        }
        let (forward, readers) = (&self.forward, (&self.readers, self.exchange.as_ref()));
        let accounts = (&self.accounts, &self.changes);
        let removed = self
            .retention
            .poll(|at| progress(forward, readers, accounts, at), now);
        if self.retention.wants_accounts() {
            let of_exchange = self.exchange.as_mut().is_some_and(Exchange::want);
            if self.accounts.want() | self.readers.want() | of_exchange {
                self.commit.wake(now);
            }
            self.fold_waiting();
        }
        if !removed.is_empty() {
            self.tell_trimmed();
        }
        let entries = self.retention.take_entries();
        if self.retention.is_in_trouble() {
            // A full disk takes no counts before there is room.
            self.remove_counted();
            let given = std::mem::take(&mut self.removals.given);
            self.remove(given);
            self.remove(removed);
        } else if entries.is_empty() {
            // All of it was counted before.
            self.remove(removed);
        } else {
            self.removals.given.extend(removed);
        }
        for (key, value) in entries {
            self.commit.meta(key, value, now);
        }
        let full = self.retention.full_topics().collect::<BTreeSet<_>>();
        self.commit.set_full(full);
        while let Some(text) = self.retention.poll_note(now) {
            self.effects.push_back(Effect::Note(Note(text)));
        }
    }
}
