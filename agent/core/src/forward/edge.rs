//! Forwarding to hosts that speak Sparkplug: one block becomes several messages, births
//! among them, whose numbers have no hole.
//!
//! Holds always: a mark moves with the last message of its block; a message that has its
//! number is handed over on its connection before any later one; a refusal leads to births
//! again, for a host cannot read on over a hole. Bound: the messages of one block. Knows no
//! broker.

use std::collections::VecDeque;

use super::connection::{Answer, InFlight};
use super::giving::{Next, What};
use super::ids::ConnNo;
use super::lane::LaneId;
use super::machine::{Forward, ForwardAction};
use crate::log::block::Body;
use crate::log::decode::decode;
use crate::log::key::StoredBlock;
use crate::payload::sparkplug::{EdgeNode, NodeId, Sending, SparkplugMessage};
use crate::record::Missing;
use crate::units::{EventTime, Mono, Offset};

/// A birth is of no block: its answer moves nothing.
const OF_NO_BLOCK: u64 = u64::MAX;

/// See the module.
#[derive(Debug)]
pub(super) struct Edge {
    node: EdgeNode,
    now: EventTime,
    /// What is left of the block that was taken last, in order.
    queue: VecDeque<SparkplugMessage>,
    /// What its messages are answered to; the last of them moves the mark.
    of: Option<InFlight>,
}

impl Edge {
    pub(super) fn new(id: NodeId) -> Self {
        Self {
            node: EdgeNode::new(id),
            now: EventTime(0),
            queue: VecDeque::new(),
            of: None,
        }
    }

    /// Attempts count from 1, `bdSeq` from 0.
    pub(super) fn on_connected(&mut self, conn: ConnNo) {
        self.drop_queue();
        self.node.on_connected(conn.0.saturating_sub(1));
    }

    pub(super) fn drop_queue(&mut self) {
        self.queue.clear();
        self.of = None;
    }

    pub(super) fn on_message(&mut self, topic: &str, payload: &[u8]) -> bool {
        let is_ours = topic == self.node.id().command_topic();
        if is_ours {
            self.node.on_message(topic, payload);
        }
        is_ours
    }

    /// A message has no place in the host's order any more; `false` when it was a birth,
    /// without which nothing can be read.
    pub(super) fn on_refused(&mut self, message: &InFlight) -> bool {
        self.node.start_over();
        message.rewinds != OF_NO_BLOCK
    }

    /// The next message, and what it is answered to.
    fn next(&mut self) -> Option<(SparkplugMessage, InFlight)> {
        if let Some(message) = self.queue.pop_front() {
            let mut of = self.of?;
            of.moves = self.queue.is_empty();
            return Some((message, of));
        }
        let birth = self.node.next_birth(self.now)?;
        let of = InFlight {
            place: 0,
            lane: LaneId::Backlog,
            rewinds: OF_NO_BLOCK,
            first: Offset(0),
            end: Offset(0),
            declares: false,
            moves: false,
            bytes: 0,
            sent_at: Mono(0),
        };
        Some((birth, of))
    }

    /// Takes the readings of a block; what does not read becomes a hole.
    fn take(&mut self, next: &mut Next, (historical, bytes_max): (bool, usize)) {
        let What::Block(stored) = &next.what else {
            return;
        };
        let sending = Sending {
            now: self.now,
            historical,
            bytes_max,
        };
        let range = (next.first, Offset(next.end.0 - 1));
        match self.messages(stored, range, &sending) {
            Some(messages) => self.queue.extend(messages),
            None => next.what = What::Missing(Missing::Lost),
        }
    }

    fn messages(
        &mut self,
        stored: &StoredBlock,
        (first, last): (Offset, Offset),
        sending: &Sending,
    ) -> Option<Vec<SparkplugMessage>> {
        let block = decode(stored.key, &stored.bytes).ok()?;
        let index = |offset: Offset| usize::try_from(offset.0.checked_sub(block.base.0)?).ok();
        let range = index(first)?..=index(last)?;
        match &block.body {
            Body::Readings { series, records } => {
                let records = records.get(range)?;
                Some(self.node.of_readings(series, records, sending))
            }
            // Results have no place in Sparkplug.
            Body::Rows(_) => Some(Vec::new()),
        }
    }
}

impl Forward {
    /// What the gateway's clock says, for the time of messages that have one.
    pub fn on_utc(&mut self, now: EventTime) {
        if let Some(edge) = self.edge.as_mut() {
            edge.now = now;
        }
    }

    /// The next message to a host.
    pub(super) fn publish_edge(&mut self, now: Mono) -> Option<ForwardAction> {
        if self.places.is_empty() {
            return None;
        }
        while self.has_room() {
            let next = self.edge.as_mut().and_then(Edge::next);
            if let Some((message, of)) = next {
                return self.hand_over_edge(message, of, now);
            }
            let (index, lane) = self.choose(now)?;
            let bytes_max = self.payload_bytes_max();
            let place = &mut self.places[index];
            let Some(mut next) = place.peek(lane, self.ages) else {
                continue;
            };
            let historical = next.first < place.replay_below;
            let edge = self.edge.as_mut()?;
            edge.take(&mut next, (historical, bytes_max));
            let of = self.note_handed_over((index, lane), &next, now);
            let edge = self.edge.as_mut()?;
            if edge.queue.is_empty() {
                // There is nothing to say of it: it is answered when all before it is.
                let connection = self.connection.as_mut()?;
                let send = connection.push(of);
                connection.answer(send, Answer::Acked);
                self.pop_answered(now);
            } else {
                edge.of = Some(of);
            }
        }
        None
    }

    fn hand_over_edge(
        &mut self,
        message: SparkplugMessage,
        of: InFlight,
        now: Mono,
    ) -> Option<ForwardAction> {
        let connection = self.connection.as_mut()?;
        let SparkplugMessage { topic, payload } = message;
        self.counters.published += 1;
        let send = connection.push(InFlight {
            bytes: payload.len(),
            sent_at: now,
            ..of
        });
        Some(ForwardAction::Publish {
            conn: connection.conn,
            send,
            topic,
            payload,
            user_properties: Vec::new(),
        })
    }
}
