//! What a forwarder wants next: marks kept, messages handed over, the log read on.
//!
//! Holds always: what is live goes before what waited; within a lane partitions take
//! turns. Bound: [`FORWARD_BYTES_MAX`] on the way, reads of FORWARD_LOADED_MAX
//! partitions per lane.

use super::connection::InFlight;
use super::giving::{Next, What};
use super::lane::{LANES, LaneId};
use super::machine::{Forward, ForwardAction};
use super::outgoing::Outgoing;
use super::place::Place;
use crate::limits::{FORWARD_BYTES_MAX, FORWARD_LOADED_MAX};
use crate::units::Mono;

impl Forward {
    /// The next thing to do.
    pub fn poll(&mut self, now: Mono) -> Option<ForwardAction> {
        if let Some(save) = self.save(now) {
            return Some(save);
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
        self.places.iter_mut().for_each(Place::open_retry);
        self.publish(now).or_else(|| self.fetch())
    }

    fn fetch(&mut self) -> Option<ForwardAction> {
        let count = self.places.len();
        for lane in LANES {
            let busy = self.places.iter().filter(|place| place.is_busy(lane));
            let loaded = busy.count();
            let mut order = (0..count).map(|n| (self.turn + n) % count);
            let found = order.find_map(|index| {
                let place = &self.places[index];
                let may = place.is_busy(lane) || loaded < FORWARD_LOADED_MAX;
                let from = place.next_fetch(lane).filter(|_| may)?;
                Some((index, from))
            });
            if let Some((index, from)) = found {
                let place = &mut self.places[index];
                place.fetching(lane, from);
                return Some(ForwardAction::Fetch { at: place.at, from });
            }
        }
        None
    }

    /// Whether one more message may be on its way.
    pub(super) fn has_room(&self) -> bool {
        let Some(connection) = self.connection.as_ref() else {
            return false;
        };
        let on_the_way = connection.len() + self.saving.unkept();
        on_the_way < self.unkept_max() && connection.has_room(FORWARD_BYTES_MAX)
    }

    /// The next message of the next partition that has one, in turn.
    fn publish(&mut self, now: Mono) -> Option<ForwardAction> {
        if self.edge.is_some() {
            return self.publish_edge(now);
        }
        while self.has_room() {
            let (index, lane) = self.choose(now)?;
            let place = &mut self.places[index];
            let Some(mut next) = place.peek(lane, self.ages) else {
                // It has passed what does not count any more.
                continue;
            };
            let made = (&self.lineage, self.config.encoding);
            let outgoing = Outgoing::of(&mut next, place, &self.gateway, made);
            let bytes = (outgoing.payload.len(), self.payload_bytes_max());
            if bytes.0 > bytes.1 && !outgoing.declares {
                let offsets = (next.first, next.end);
                let parked = self.places[index].too_large(lane, offsets, bytes);
                self.count_parked(parked, now);
                continue;
            }
            return self.hand_over((index, lane), &next, outgoing, now);
        }
        None
    }

    /// Whether the broker holds as much for the receiver as it should.
    pub(super) fn is_ahead(&self) -> bool {
        self.receiver.is_online() && !self.ahead.has_room()
    }

    pub(super) fn payload_bytes_max(&self) -> usize {
        let broker = self.connection.as_ref().map(|c| c.payload_bytes_max);
        let own = self.config.message_bytes_max;
        broker.unwrap_or(own).min(own)
    }

    /// The place and lane whose turn it is.
    pub(super) fn choose(&mut self, now: Mono) -> Option<(usize, LaneId)> {
        let count = self.places.len();
        let paced = self.cap.next_at(now).is_some();
        let is_ahead = self.is_ahead();
        for lane in LANES {
            let mut order = (0..count).map(|n| (self.turn + n) % count);
            let ready = |index: &usize| {
                let place = &self.places[*index];
                let waits =
                    (paced && is_capped(place, lane)) || (is_ahead && lane == LaneId::Backlog);
                place.lane(lane).is_ready() && !waits
            };
            if let Some(index) = order.find(ready) {
                self.turn = (index + 1) % count;
                return Some((index, lane));
            }
        }
        None
    }

    fn hand_over(
        &mut self,
        (index, lane): (usize, LaneId),
        next: &Next,
        outgoing: Outgoing,
        now: Mono,
    ) -> Option<ForwardAction> {
        let Outgoing {
            id,
            payload,
            declares,
        } = outgoing;
        self.counters.published += 1;
        let of = self.note_handed_over((index, lane), next, now);
        let connection = self.connection.as_mut()?;
        let send = connection.push(InFlight {
            declares,
            bytes: payload.len(),
            ..of
        });
        let place = &self.places[index];
        let replayed = next.first < place.replay_below;
        Some(ForwardAction::Publish {
            conn: connection.conn,
            send,
            topic: self.gateway.data_topic(&place.stream, id.partition),
            payload,
            user_properties: self.config.encoding.user_properties(&id, replayed),
        })
    }

    /// What comes next leaves its place; gives what its messages are answered to.
    pub(super) fn note_handed_over(
        &mut self,
        (index, lane): (usize, LaneId),
        next: &Next,
        now: Mono,
    ) -> InFlight {
        let place = &mut self.places[index];
        if is_capped(place, lane) && matches!(next.what, What::Block(_)) {
            self.cap.take(next.end.0 - next.first.0, now);
        }
        let is_again = place.handed_over(lane, next);
        self.counters.resent += u64::from(is_again);
        let of = InFlight {
            place: index,
            lane,
            rewinds: place.lane(lane).rewinds,
            first: next.first,
            end: next.end,
            declares: false,
            moves: true,
            bytes: 0,
            sent_at: now,
        };
        if lane == LaneId::Backlog && self.receiver.is_online() {
            self.ahead.handed_over(index, next.end, now);
        }
        of
    }

    /// When the backlog may go on, where the cap holds it.
    pub(super) fn capped_until(&self, now: Mono) -> Option<Mono> {
        let waits = |place: &Place| {
            place.lane(LaneId::Backlog).is_ready() && is_capped(place, LaneId::Backlog)
        };
        let at = self.cap.next_at(now)?;
        self.places.iter().any(waits).then_some(at)
    }
}

/// Whether what a lane gives out next waited before the connection.
fn is_capped(place: &Place, lane: LaneId) -> bool {
    lane == LaneId::Backlog && place.lane(lane).cursor < place.replay_below
}
