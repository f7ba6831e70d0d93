//! The rules of forwarding as a state machine: what to read, what to hand over,
//! when to give a connection up, which marks to keep.
//!
//! Holds always: nothing at or above a durable head leaves; per partition order is
//! kept; a new connection starts from the marks; a mark moves only over contiguous
//! acks; what was handed over and is not under a kept mark is at most
//! [`FORWARD_UNKEPT_WINDOWS`], so a kill resends no more. When the receiver's side shows a session that is not
//! the one it had, the broker may have lost what it had acked: the marks go back
//! to what the receiver confirmed. Bound: [`FORWARD_BYTES_MAX`] on the way, reads
//! of FORWARD_LOADED_MAX partitions. Knows no broker, no clock and no disk.

use std::collections::{BTreeMap, VecDeque};

use super::ahead::Ahead;
use super::config::ForwardConfig;
use super::connection::{Answer, Connection, InFlight};
use super::counters::Counters;
use super::ids::{ConnNo, SendNo};
use super::marks::{Marks, mark_key};
use super::outgoing::Outgoing;
use super::place::Place;
use super::receiver::{Receiver, session_key};
use crate::limits::{FORWARD_BYTES_MAX, FORWARD_LOADED_MAX, FORWARD_UNKEPT_WINDOWS};
use crate::log::key::{StoredBlock, TopicPartition};
use crate::log::topic::READINGS;
use crate::payload::{GatewayName, StreamName};
use crate::store::StoreInfo;
use crate::topics::TopicTable;
use crate::units::{Mono, Offset, PartitionId, TopicId};

/// Marks are kept at most so long after they moved.
pub(super) const SAVE_AFTER_US: u64 = 200_000;

/// What forwarding wants done.
#[derive(Debug, PartialEq, Eq)]
pub enum ForwardAction {
    /// Read the log; the answer goes to [`Forward::on_fetched`].
    Fetch { at: TopicPartition, from: Offset },
    Publish {
        conn: ConnNo,
        send: SendNo,
        topic: String,
        payload: Vec<u8>,
        user_properties: Vec<(String, String)>,
    },
    /// Drop the connection; its end is told by [`Forward::on_disconnected`].
    Reset { conn: ConnNo, why: String },
    /// Keep these meta entries with the next write, all or none; once they are
    /// durable, [`Forward::on_saved`] is to be told.
    SaveMarks(Vec<(Vec<u8>, Vec<u8>)>),
}

/// Marks on their way to the disk.
#[derive(Debug, Default)]
pub(super) struct Saving {
    /// When marks that moved are to be kept.
    pub(super) due: Option<Mono>,
    /// Messages acked since the marks were last given out to be kept.
    moved: usize,
    /// Messages under the marks that are being written.
    under_way: Option<usize>,
}

/// The forwarder of one gateway to one destination.
#[derive(Debug)]
pub struct Forward {
    pub(super) config: ForwardConfig,
    pub(super) gateway: GatewayName,
    pub(super) info: StoreInfo,
    pub(super) places: Vec<Place>,
    /// Ends of older layouts that were not all acked yet, the oldest first.
    barriers: VecDeque<BTreeMap<PartitionId, Offset>>,
    /// Place whose turn it is.
    turn: usize,
    pub(super) connection: Option<Connection>,
    pub(super) ahead: Ahead,
    /// Why the connection is to be dropped; nothing is handed over until it is.
    pub(super) reset: Option<String>,
    pub(super) resetting: bool,
    /// The broker has no room: nothing is handed over before this.
    pub(super) paused_until: Option<Mono>,
    /// Pauses in a row.
    pub(super) pauses: u32,
    pub(super) receiver: Receiver,
    pub(super) saving: Saving,
    /// The gateway is to stop: marks are kept at once.
    draining: bool,
    /// Nothing more is handed over.
    held: bool,
    /// A place is sent again on request at most once before this.
    pub(super) resend_after: BTreeMap<usize, Mono>,
    pub(super) last_disconnect: Option<String>,
    pub(super) counters: Counters,
}

impl Forward {
    /// A forwarder over the streams of a log that the destination wants, with the
    /// marks that `meta` holds.
    #[must_use]
    pub fn new(
        config: ForwardConfig,
        gateway: &GatewayName,
        info: &StoreInfo,
        meta: &[(Vec<u8>, Vec<u8>)],
        (topics, partitions): (&TopicTable, &[PartitionId]),
        heads: &BTreeMap<TopicPartition, Offset>,
    ) -> Self {
        let meta: BTreeMap<&[u8], &[u8]> = meta
            .iter()
            .map(|(key, value)| (key.as_slice(), value.as_slice()))
            .collect();
        let windows: BTreeMap<TopicId, String> = topics.windows().collect();
        let mut places = Vec::new();
        for (topic, name) in topics.streams() {
            let Ok(stream) = StreamName::new(name) else {
                continue;
            };
            // A window's earlier definitions go by its name too.
            if !config.wants(windows.get(&topic).map_or(name, String::as_str)) {
                continue;
            }
            for partition in partitions {
                let at = TopicPartition {
                    topic,
                    partition: *partition,
                };
                let head = heads.get(&at).copied().unwrap_or(Offset(0));
                let mut place = Place::new(at, stream.clone(), head);
                if let Some(value) = meta.get(mark_key(&config.name, at).as_slice()) {
                    place.restore(value);
                }
                places.push(place);
            }
        }
        let session = meta.get(session_key(&config.name).as_slice()).copied();
        Self {
            receiver: Receiver::restore(session),
            config,
            gateway: gateway.clone(),
            info: *info,
            places,
            barriers: VecDeque::new(),
            turn: 0,
            connection: None,
            ahead: Ahead::default(),
            reset: None,
            resetting: false,
            paused_until: None,
            pauses: 0,
            saving: Saving::default(),
            draining: false,
            held: false,
            resend_after: BTreeMap::new(),
            last_disconnect: None,
            counters: Counters::default(),
        }
    }

    /// The settings of the destination.
    #[must_use]
    pub fn config(&self) -> &ForwardConfig {
        &self.config
    }

    /// How far a partition has come: below the first the broker has acked all, below
    /// the second all has arrived for good. `None` when it is not forwarded.
    #[must_use]
    pub fn progress(&self, at: TopicPartition) -> Option<(Offset, Offset)> {
        let place = self.places.iter().find(|place| place.at == at)?;
        let Marks {
            sent, confirmed, ..
        } = place.marks;
        // Without a receiver of ours nobody says more than the broker does.
        let arrived = if self.receiver.is_known() {
            confirmed
        } else {
            sent
        };
        Some((sent, arrived))
    }

    /// Readings from each of these on go out only when all before it, in all
    /// partitions, is acked by the broker: a device may have changed its partition.
    pub fn set_barriers(&mut self, barriers: &[BTreeMap<PartitionId, Offset>]) {
        self.barriers = barriers.iter().cloned().collect();
        self.pass_barriers();
    }

    fn pass_barriers(&mut self) {
        let of = |barrier: &BTreeMap<PartitionId, Offset>, place: &Place| {
            let offset = barrier.get(&place.at.partition).copied();
            offset.unwrap_or(Offset(0))
        };
        let readings = |place: &&Place| place.at.topic == READINGS;
        while let Some(barrier) = self.barriers.front() {
            let mut places = self.places.iter().filter(readings);
            if places.any(|place| place.is_before(of(barrier, place))) {
                break;
            }
            self.barriers.pop_front();
        }
        let front = self.barriers.front();
        for place in self.places.iter_mut().filter(|p| p.at.topic == READINGS) {
            let barrier = front.map(|barrier| of(barrier, place));
            place.set_barrier(barrier);
        }
    }

    /// Told of each partition that is forwarded: below which offset its log was trimmed.
    pub fn on_trimmed(&mut self, below: impl Fn(TopicPartition) -> Offset) {
        for place in &mut self.places {
            place.on_trimmed(below(place.at));
        }
    }

    /// More of a partition is durable.
    pub fn on_durable(&mut self, at: TopicPartition, head: Offset) {
        if let Some(place) = self.places.iter_mut().find(|place| place.at == at) {
            place.on_durable(head);
        }
    }

    /// A connection takes messages, at most `window` unacked.
    pub fn on_connected(&mut self, conn: ConnNo, window: u16, now: Mono) {
        for place in &mut self.places {
            place.rewind();
            place.replay_below = place.head;
            place
                .patience
                .note(place.marks.confirmed < place.marks.sent, now);
            place.patience.restart(now);
        }
        (self.reset, self.resetting) = (None, false);
        self.ahead.forget();
        self.connection = Some(Connection::new(conn, window.min(self.config.window)));
    }

    /// A connection, or the attempt at one, ended.
    pub fn on_disconnected(&mut self, conn: ConnNo, reason: &str) {
        self.last_disconnect = Some(reason.to_owned());
        self.receiver.on_disconnected();
        if self.connection.as_ref().is_some_and(|c| c.conn == conn) {
            self.counters.disconnects += 1;
            self.connection = None;
            (self.reset, self.resetting) = (None, false);
            self.places.iter_mut().for_each(Place::rewind);
        }
    }

    /// The broker has a message; an ack of another connection changes nothing.
    pub fn on_acked(&mut self, conn: ConnNo, send: SendNo, now: Mono) {
        let connection = self.connection.as_mut().filter(|c| c.conn == conn);
        if connection
            .and_then(|c| c.answer(send, Answer::Acked))
            .is_some()
        {
            self.pauses = 0;
            self.pop_answered(now);
        }
    }

    /// Moves marks over what is answered without a hole.
    pub(super) fn pop_answered(&mut self, now: Mono) {
        let Some(connection) = self.connection.as_mut() else {
            return;
        };
        while let Some((message, answer)) = connection.pop_answered(now) {
            let place = &mut self.places[message.place];
            if answer == Answer::Acked && place.rewinds == message.rewinds {
                place.on_acked(message.first, message.end);
                self.saving.moved += 1;
                self.saving.due.get_or_insert(Mono(now.0 + SAVE_AFTER_US));
            }
            place
                .patience
                .note(place.marks.confirmed < place.marks.sent, now);
        }
    }

    /// Takes what a read of the log brought.
    pub fn on_fetched(&mut self, at: TopicPartition, blocks: Vec<StoredBlock>) {
        if let Some(place) = self.places.iter_mut().find(|place| place.at == at) {
            place.on_fetched(blocks);
            if place.dirty {
                // Passed over what cannot be read: rare, and kept at once.
                self.saving.due.get_or_insert(Mono(0));
            }
        }
    }

    /// The marks of the last [`ForwardAction::SaveMarks`] are durable.
    pub fn on_saved(&mut self) {
        self.saving.under_way = None;
    }

    /// Gives up a broker that acks nothing; asks a silent receiver.
    pub fn handle_deadline(&mut self, now: Mono) {
        self.paused_until = self.paused_until.filter(|until| *until > now);
        self.ahead.handle_deadline(now);
        for place in &mut self.places {
            place.handle_deadline(now);
        }
        if self.ack_deadline().is_some_and(|deadline| deadline <= now) {
            let seconds = self.config.ack_timeout.0 as f64 / 1e6;
            self.reset = Some(format!("no ack for {seconds} s"));
        }
        if self.may_probe() {
            for place in &mut self.places {
                if place.patience.due().is_some_and(|due| due <= now) {
                    place.probe();
                    place.patience.probed(now);
                    self.counters.probes += 1;
                }
            }
        }
    }

    /// When [`Forward::handle_deadline`] or [`Forward::poll`] wants to be called.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        let save = self.saving.due.filter(|_| self.saving.under_way.is_none());
        let retries = self.places.iter().filter_map(Place::waits_until);
        let probes = self.places.iter().filter(|_| self.may_probe());
        retries
            .chain(probes.filter_map(|place| place.patience.due()))
            .chain(self.paused_until)
            .chain(self.ahead.due())
            .chain(self.ack_deadline())
            .chain(save)
            .min()
    }

    fn ack_deadline(&self) -> Option<Mono> {
        let since = self.connection.as_ref()?.waits_since()?;
        let timeout = self.config.ack_timeout.0.unsigned_abs();
        (!self.resetting).then_some(Mono(since.0.saturating_add(timeout)))
    }

    fn may_probe(&self) -> bool {
        self.connection.is_some() && !self.resetting && self.receiver.is_online()
    }

    /// The next thing to do.
    pub fn poll(&mut self, now: Mono) -> Option<ForwardAction> {
        if self.is_save_due(now) {
            let entries = self.take_marks();
            if !entries.is_empty() {
                return Some(ForwardAction::SaveMarks(entries));
            }
        }
        if self.resetting {
            return None;
        }
        let connection = self.connection.as_ref()?;
        if let Some(why) = self.reset.take() {
            self.resetting = true;
            return Some(ForwardAction::Reset {
                conn: connection.conn,
                why,
            });
        }
        if self.paused_until.is_some() || self.held {
            return None;
        }
        if !self.barriers.is_empty() {
            self.pass_barriers();
        }
        self.publish(now).or_else(|| self.fetch())
    }

    fn is_save_due(&self, now: Mono) -> bool {
        // Early enough that the next messages need not wait for the disk.
        let many = self.saving.moved >= self.unkept_max().div_ceil(4);
        let due = self
            .saving
            .due
            .is_some_and(|due| due <= now || self.draining);
        self.saving.under_way.is_none() && (many || due)
    }

    /// Messages that may be handed over and not be under a kept mark.
    fn unkept_max(&self) -> usize {
        usize::from(self.config.window.max(1)) * FORWARD_UNKEPT_WINDOWS
    }

    /// The gateway is to stop: from here on marks are kept as soon as they move,
    /// so that the next start sends nothing again.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// Nothing more is handed over: what is on its way may still be answered, and
    /// the marks kept, so that the next start sends nothing again.
    pub fn hold(&mut self) {
        (self.held, self.draining) = (true, true);
    }

    /// Whether nothing is on its way and the marks are kept.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let up = self.connection.as_ref().filter(|_| !self.resetting);
        let kept = self.places.iter().all(|place| !place.dirty);
        up.is_none_or(|c| c.len() == 0) && kept && self.saving.under_way.is_none()
    }

    fn take_marks(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.saving.due = None;
        let moved = std::mem::take(&mut self.saving.moved);
        let mut entries = Vec::new();
        for place in self.places.iter_mut().filter(|place| place.dirty) {
            place.dirty = false;
            entries.push(place.entry(&self.config.name));
        }
        if std::mem::take(&mut self.receiver.dirty) {
            entries.extend(self.receiver.entry(&self.config.name));
        }
        if !entries.is_empty() {
            self.saving.under_way = Some(moved);
        }
        entries
    }

    fn fetch(&mut self) -> Option<ForwardAction> {
        let busy = |place: &&Place| place.is_loaded() || place.is_fetching();
        let loaded = self.places.iter().filter(busy).count();
        let count = self.places.len();
        let mut order = (0..count).map(|n| (self.turn + n) % count);
        let (index, from) = order.find_map(|index| {
            let place = &self.places[index];
            let may = busy(&place) || loaded < FORWARD_LOADED_MAX;
            let from = place.next_fetch().filter(|_| may)?;
            Some((index, from))
        })?;
        let place = &mut self.places[index];
        place.fetching(from);
        Some(ForwardAction::Fetch { at: place.at, from })
    }

    /// The next block of the next partition that has one, in turn.
    fn publish(&mut self, now: Mono) -> Option<ForwardAction> {
        let unkept = self.saving.moved + self.saving.under_way.unwrap_or(0);
        let unkept_max = self.unkept_max();
        loop {
            let connection = self.connection.as_mut()?;
            let kept_soon = connection.len() + unkept < unkept_max;
            let is_ahead = self.receiver.is_online() && !self.ahead.has_room();
            if is_ahead || !kept_soon || !connection.has_room(FORWARD_BYTES_MAX) {
                return None;
            }
            let count = self.places.len();
            let mut order = (0..count).map(|n| (self.turn + n) % count);
            let index = order.find(|index| self.places[*index].is_ready())?;
            self.turn = (index + 1) % count;
            let place = &mut self.places[index];
            let Some(next) = place.take() else {
                continue;
            };
            let Some(outgoing) = Outgoing::of(next, place, &self.gateway, &self.info) else {
                self.counters.parked += 1;
                self.saving.due.get_or_insert(Mono(now.0 + SAVE_AFTER_US));
                continue;
            };
            return self.hand_over(index, outgoing, now);
        }
    }

    fn hand_over(&mut self, index: usize, outgoing: Outgoing, now: Mono) -> Option<ForwardAction> {
        let Outgoing { id, end, payload } = outgoing;
        let (connection, place) = (self.connection.as_mut()?, &mut self.places[index]);
        self.counters.published += 1;
        self.counters.resent += u64::from(id.first < place.reached);
        let send = connection.push(InFlight {
            place: index,
            rewinds: place.rewinds,
            first: id.first,
            end,
            bytes: payload.len(),
            sent_at: now,
        });
        place.handed_over(end);
        if self.receiver.is_online() {
            self.ahead.handed_over(index, end, now);
        }
        Some(ForwardAction::Publish {
            conn: connection.conn,
            send,
            topic: self.gateway.data_topic(&place.stream, id.partition),
            payload,
            user_properties: id.user_properties(id.first < place.replay_below),
        })
    }

    /// Whether the broker has acked everything that is durable, and the marks that
    /// say so are kept.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        let sent = |place: &Place| place.marks.sent >= place.head && !place.dirty;
        self.places.iter().all(sent) && self.saving.under_way.is_none()
    }
}
