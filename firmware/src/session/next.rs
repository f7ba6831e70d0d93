//! What a session sends next and when: probes before results, those before channels,
//! Health before readings, logs after everything.

use forebay_wire::ids::{ChannelNo, Tick};
use forebay_wire::message::SyncReply;

use super::{Outgoing, Session, State, Waiting};
use crate::backlog::{Backlog, Item};
use crate::limits::{
    FRAME_TARGET, HEALTH_LOSS_US, HEALTH_PERIOD_US, HELLO_PERIOD_US, IDLE_DELIMITER_US,
    SETTLE_PERIOD_US,
};

impl Session {
    /// What to send now, if anything.
    pub(crate) fn poll<const N: usize>(
        &mut self,
        backlog: &mut Backlog<N>,
        waiting: Waiting,
        now: Tick,
    ) -> Option<Outgoing> {
        self.on_timers(backlog, now);
        let outgoing = self.choose(backlog, waiting, now)?;
        let silent = self
            .last_tx
            .is_none_or(|last| now.0.saturating_sub(last.0) >= IDLE_DELIMITER_US);
        if silent && !self.delimited {
            self.delimited = true;
            return Some(Outgoing::Delimiter);
        }
        Some(outgoing)
    }

    fn choose<const N: usize>(
        &mut self,
        backlog: &Backlog<N>,
        waiting: Waiting,
        now: Tick,
    ) -> Option<Outgoing> {
        if let Some((id, received)) = self.probes.front().copied() {
            // A probe may have come while the caller already held `now`.
            let sent = now.max(received);
            return Some(Outgoing::SyncReply(SyncReply { id, received, sent }));
        }
        match self.state {
            State::Greeting(at) => (at <= now).then_some(Outgoing::Hello),
            State::Open if waiting.result => Some(Outgoing::Result),
            State::Open if self.to_announce != 0 => Some(Outgoing::Channel(ChannelNo(
                self.to_announce.trailing_zeros() as u8,
            ))),
            // Before Data: with more to send than the line carries it would never go.
            State::Open if self.health_deadline(waiting) <= now => Some(Outgoing::Health),
            State::Open => match self.earlier.iter().next() {
                Some(owed) if self.declare_at <= now => Some(Outgoing::LastGap(*owed)),
                Some(_) | None => self
                    .choose_data(backlog, now)
                    .or_else(|| may_log(backlog, waiting).then_some(Outgoing::Log)),
            },
        }
    }

    fn choose_data<const N: usize>(&self, backlog: &Backlog<N>, now: Tick) -> Option<Outgoing> {
        if self.data_deadline(backlog)? > now {
            return None;
        }
        Some(match backlog.at_cursor()? {
            Item::Gap { .. } => Outgoing::Gap,
            Item::Reading(_) => Outgoing::Data,
        })
    }

    fn health_deadline(&self, waiting: Waiting) -> Tick {
        let Some(last) = self.health_at else {
            return Tick(0);
        };
        let period_us = if waiting.losses == self.losses_told {
            HEALTH_PERIOD_US
        } else {
            HEALTH_LOSS_US
        };
        Tick(last.0 + period_us)
    }

    /// When the next Data or Gap may go; `None` while there is none or the window
    /// is full.
    fn data_deadline<const N: usize>(&self, backlog: &Backlog<N>) -> Option<Tick> {
        if self.flight.len() >= usize::from(self.credit) {
            return None;
        }
        let again = backlog.cursor() < backlog.sent_end();
        let full = backlog.produced().0 - backlog.cursor().0 >= FRAME_TARGET;
        match backlog.at_cursor()? {
            Item::Reading(reading) if !again && !full => {
                Some(Tick(reading.tick.0 + self.linger_us))
            }
            Item::Reading(_) | Item::Gap { .. } => Some(Tick(0)),
        }
    }

    /// When [`Session::poll`] has something to do; at or before `now` means at once.
    pub(crate) fn deadline<const N: usize>(
        &self,
        backlog: &Backlog<N>,
        waiting: Waiting,
    ) -> Option<Tick> {
        if !self.probes.is_empty() {
            return Some(Tick(0));
        }
        match self.state {
            State::Greeting(at) => Some(at),
            State::Open if waiting.result || self.to_announce != 0 => Some(Tick(0)),
            State::Open if may_log(backlog, waiting) => Some(Tick(0)),
            State::Open => [
                self.flight.deadline(),
                self.silence_deadline(backlog),
                self.data_deadline(backlog),
                (!self.earlier.is_empty()).then_some(self.declare_at),
                Some(self.health_deadline(waiting)),
            ]
            .into_iter()
            .flatten()
            .min(),
        }
    }

    /// `outgoing` was written as a line of `bytes`; the backlog's cursor stands
    /// behind what was taken. `fresh`: it was never sent before.
    pub(crate) fn on_sent<const N: usize>(
        &mut self,
        outgoing: Outgoing,
        bytes: usize,
        fresh: bool,
        waiting: Waiting,
        backlog: &mut Backlog<N>,
        now: Tick,
    ) {
        self.stats.tx_bytes += bytes as u64;
        self.last_tx = Some(now);
        if outgoing == Outgoing::Delimiter {
            return;
        }
        self.delimited = false;
        self.stats.tx_frames += 1;
        match outgoing {
            Outgoing::Delimiter => {}
            Outgoing::Hello => self.state = State::Greeting(Tick(now.0 + HELLO_PERIOD_US)),
            Outgoing::SyncReply(_) => {
                self.probes.pop_front();
            }
            Outgoing::Channel(channel) => self.to_announce &= !(1 << channel.0),
            Outgoing::LastGap(_) => {
                self.earlier.rotate();
                self.declare_at = Tick(now.0 + SETTLE_PERIOD_US);
            }
            Outgoing::Data | Outgoing::Gap => self.on_data_sent(fresh, backlog, now),
            Outgoing::Health => {
                // One that was asked for comes too soon after what it tells.
                if self.health_at.is_some() {
                    self.say_changes_again();
                }
                (self.health_at, self.losses_told) = (Some(now), waiting.losses);
            }
            Outgoing::Result | Outgoing::Log => {}
        }
    }

    fn on_data_sent<const N: usize>(&mut self, fresh: bool, backlog: &mut Backlog<N>, now: Tick) {
        let end = backlog.cursor();
        if self.lossy {
            backlog.release(end);
            return;
        }
        // Sent again, it has been waited for since the first time.
        if fresh && self.flight.is_empty() {
            self.heard = self.heard.max(now);
        }
        self.flight.sent(end, now, fresh);
    }
}

/// Logs never wait in front of a reading: they go when there is none to send.
fn may_log<const N: usize>(backlog: &Backlog<N>, waiting: Waiting) -> bool {
    waiting.log && backlog.cursor() >= backlog.produced()
}
