//! The link session: greets until the gateway answers, announces channels, keeps
//! the window full, goes back to what is not acked, and answers clock probes.
//!
//! | state | sends | leaves when |
//! |---|---|---|
//! | greeting | Hello each second | a HelloAck with our boot id |
//! | open | results of commands, Channel, Health, Data, Gap, last gaps of earlier boots, log frames | no Ack for 3 s with something to ack, or the gateway does not know us |
//!
//! Probes are answered in both. A frame is cut anew from the backlog each time it
//! is sent, so nothing but ordinals is remembered of it. Knows no port: bytes come
//! and go through [`crate::Device`].

use forebay_wire::ids::{BootId, ChannelNo, Ordinal, Tick};
use forebay_wire::limits::WINDOW_FRAMES_MAX;
use forebay_wire::message::{Ack, HelloAck, SyncReply};
use heapless::Deque;

use crate::account::{Account, Accounts};
use crate::backlog::Backlog;
use crate::flight::Flight;
use crate::limits::{
    ANNOUNCE_REPEATS, ECHO_US, HELLO_ASKED_US, HELLO_PERIOD_US, PROBES_MAX, REPEATS_MIN_US,
    SILENCE_MAX_US,
};
use crate::stats::LinkStats;

mod next;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Next Hello at this tick.
    Greeting(Tick),
    Open,
}

/// What the next line shall be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outgoing {
    Delimiter,
    Hello,
    SyncReply(SyncReply),
    Channel(ChannelNo),
    /// From the backlog's cursor on.
    Data,
    Gap,
    /// All that an earlier boot still owes.
    LastGap(Account),
    Health,
    /// Of a command.
    Result,
    Log,
}

/// What waits to be sent outside of the backlog.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    pub(crate) result: bool,
    pub(crate) log: bool,
    /// Everything that was ever lost on the device, as one number: when it changes,
    /// the gateway is told soon.
    pub(crate) losses: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Session {
    state: State,
    boot: BootId,
    /// Wait this long for a frame to fill, us.
    linger_us: u64,
    /// Frames that may be on the way; 0 stops Data.
    credit: u8,
    /// Readings are forgotten once sent. False, like all of a new session, is zero
    /// bits: see [`crate::Device::unstarted`].
    lossy: bool,
    log_level: u8,
    flight: Flight,
    /// Last Ack, or when we began to wait for one.
    heard: Tick,
    /// What was on the way when we last went back ends here. Until it is acked, a
    /// repeated Ack tells nothing new.
    recover: Ordinal,
    /// And not until this tick either: the gateway answers each frame that it had
    /// already with the same Ack, and taking those for new losses would send
    /// everything twice for ever.
    quiet_until: Tick,
    /// From here on a repeated Ack tells that what was sent again is lost, too: else its
    /// Ack would have come.
    again_at: Tick,
    /// Channels to announce before any Data, as a bit set.
    to_announce: u32,
    /// Channels that have changed, to be said again behind so many Healths more.
    changed: u32,
    repeats: u8,
    /// Channels of which Data was acked in this session.
    confirmed: u32,
    probes: Deque<(u32, Tick), PROBES_MAX>,
    /// Earlier boots, the one to be declared next in front, and when.
    earlier: Accounts,
    declare_at: Tick,
    /// When the last Health went out; `None`: none in this session, or another is
    /// asked for.
    health_at: Option<Tick>,
    /// Losses that it told.
    losses_told: u64,
    last_tx: Option<Tick>,
    /// When one of our own frames came back; `None`: never.
    echo_at: Option<Tick>,
    /// The delimiter after silence went out; the frame follows.
    delimited: bool,
    stats: LinkStats,
}

impl Session {
    pub(crate) const fn new() -> Self {
        Session {
            state: State::Greeting(Tick(0)),
            boot: BootId(0),
            linger_us: 0,
            credit: 0,
            lossy: false,
            log_level: 0,
            flight: Flight::new(),
            heard: Tick(0),
            recover: Ordinal(0),
            quiet_until: Tick(0),
            again_at: Tick(0),
            to_announce: 0,
            changed: 0,
            repeats: 0,
            confirmed: 0,
            probes: Deque::new(),
            earlier: Accounts::new(),
            declare_at: Tick(0),
            health_at: None,
            losses_told: 0,
            last_tx: None,
            echo_at: None,
            delimited: false,
            stats: LinkStats {
                tx_frames: 0,
                tx_bytes: 0,
                sessions: 0,
                resends: 0,
                stale_acks: 0,
                dropped_probes: 0,
                round_trip_us: 0,
            },
        }
    }

    pub(crate) fn start(&mut self, boot: BootId, linger_us: u64) {
        self.boot = boot;
        self.linger_us = linger_us;
    }

    pub(crate) fn boot(&self) -> BootId {
        self.boot
    }

    /// Accounts of earlier boots that are not settled.
    pub(crate) fn earlier(&self) -> &Accounts {
        &self.earlier
    }

    pub(crate) fn remember(&mut self, accounts: &Accounts) {
        for account in accounts.iter() {
            if !account.is_settled() && account.boot != self.boot {
                self.earlier.push(*account);
            }
        }
    }

    /// Whether no gateway has acked anything for `quiet_us`.
    #[cfg(feature = "spill")]
    pub(crate) fn is_quiet(&self, now: Tick, quiet_us: u64) -> bool {
        !self.is_open() || now.0.saturating_sub(self.heard.0) >= quiet_us
    }

    /// As [`Session::remember`], of a second place that may know the same boots.
    #[cfg(feature = "spill")]
    pub(crate) fn remember_more(&mut self, accounts: &Accounts) {
        let mut more = Accounts::new();
        for found in accounts.iter() {
            let covers =
                |known: &Account| known.boot == found.boot && known.produced >= found.produced;
            if !self.earlier.iter().any(covers) {
                more.push(*found);
            }
        }
        self.remember(&more);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    pub(crate) fn log_level(&self) -> u8 {
        self.log_level
    }

    pub(crate) fn stats(&self) -> LinkStats {
        LinkStats {
            round_trip_us: self.flight.round_trip_us(),
            ..self.stats
        }
    }

    /// The gateway sent a delimiter alone: it has just opened the line, and a Hello
    /// now spares it the wait for the next one.
    pub(crate) fn on_line_opened(&mut self, now: Tick) {
        let echoes = |at: Tick| now.0.saturating_sub(at.0) < ECHO_US;
        // On a line that echoes it is our own, and would make us greet ten times as often.
        if self.echo_at.is_some_and(echoes) {
            return;
        }
        if let State::Greeting(at) = self.state {
            let last = at.0.saturating_sub(HELLO_PERIOD_US);
            let asked = now.max(Tick(last + HELLO_ASKED_US));
            self.state = State::Greeting(at.min(asked));
        }
    }

    /// A frame of our own came back.
    pub(crate) fn on_echo(&mut self, now: Tick) {
        self.echo_at = Some(now);
    }

    /// Something was set that Health tells.
    pub(crate) fn ask_health(&mut self) {
        self.health_at = None;
    }

    /// Says these channels (a bit set) again: they have changed. Nothing acks a Channel
    /// frame of a channel that is known, so it is not said only once.
    pub(crate) fn announce(&mut self, channels: u32) {
        if self.is_open() {
            self.to_announce |= channels;
            self.changed |= channels;
            self.repeats = ANNOUNCE_REPEATS;
        }
    }

    fn say_changes_again(&mut self) {
        if self.repeats == 0 {
            self.changed = 0;
            return;
        }
        self.repeats -= 1;
        self.to_announce |= self.changed;
    }

    pub(crate) fn on_probe(&mut self, id: u32, now: Tick) {
        if self.probes.push_back((id, now)).is_err() {
            self.stats.dropped_probes += 1;
        }
    }

    /// `channels`: how many the device has.
    pub(crate) fn on_hello_ack<const N: usize>(
        &mut self,
        ack: HelloAck,
        channels: usize,
        backlog: &mut Backlog<N>,
        now: Tick,
    ) {
        if ack.boot != self.boot {
            self.stats.stale_acks += 1;
            return;
        }
        if ack.next > backlog.produced() {
            self.boot_id_was_used(backlog, now);
            return;
        }
        self.credit = ack.window.clamp(1, WINDOW_FRAMES_MAX);
        self.lossy = !ack.reliable;
        self.log_level = ack.log_level;
        if self.state == State::Open {
            // The answer to an earlier Hello, older than the acks since then.
            if ack.next > backlog.base() {
                self.progress(ack.next, backlog, now);
            }
            return;
        }
        backlog.forget_acks(ack.next);
        backlog.release(ack.next);
        backlog.rewind();
        self.flight.clear();
        self.flight.reset_backoff();
        self.heard = now;
        self.recover = Ordinal(0);
        self.to_announce = u32::MAX.checked_shr(32 - channels as u32).unwrap_or(0);
        self.changed = 0;
        self.confirmed = 0;
        self.health_at = None;
        self.stats.sessions += 1;
        self.state = State::Open;
    }

    /// The gateway knows more of this boot than was ever produced: another boot had
    /// the same id (a random one, by bad luck). As long as nothing was acked under
    /// it, take the next id and greet again; else the frames would be taken for
    /// repeats and be lost in silence.
    fn boot_id_was_used<const N: usize>(&mut self, backlog: &Backlog<N>, now: Tick) {
        self.stats.stale_acks += 1;
        if !self.is_open() && backlog.base() == Ordinal(0) {
            self.boot = BootId(self.boot.0.wrapping_add(1));
            self.state = State::Greeting(now);
        }
    }

    pub(crate) fn on_ack<const N: usize>(&mut self, ack: Ack, backlog: &mut Backlog<N>, now: Tick) {
        let settles = |owed: &Account| owed.boot == ack.boot && owed.produced <= ack.next;
        if self.earlier.iter().any(settles) {
            self.earlier.settle(settles);
            self.declare_at = now;
            return;
        }
        if ack.is_to_unknown(self.boot) && self.is_open() {
            // The gateway was started again: waiting for its silence to grow long
            // enough would hold the readings up for seconds.
            self.go_back(backlog, now);
            self.state = State::Greeting(now);
            return;
        }
        if ack.boot != self.boot || ack.next > backlog.sent_end() {
            self.stats.stale_acks += 1;
            return;
        }
        self.credit = ack.credit.min(WINDOW_FRAMES_MAX);
        self.heard = now;
        if ack.next > backlog.base() {
            self.progress(ack.next, backlog, now);
        } else if ack.next == backlog.base() && self.repeat_means_loss(ack.next, now) {
            self.go_back(backlog, now);
        }
    }

    fn repeat_means_loss(&self, next: Ordinal, now: Tick) -> bool {
        let is_new = next >= self.recover || now >= self.again_at;
        !self.flight.is_empty() && is_new && now >= self.quiet_until
    }

    fn progress<const N: usize>(&mut self, next: Ordinal, backlog: &mut Backlog<N>, now: Tick) {
        let recovering = backlog.base() < self.recover;
        self.confirmed |= backlog.release(next);
        self.flight.acked(next, now);
        if recovering && next >= self.recover {
            self.quiet_until = Tick(now.0 + self.flight.round_trip_us().max(REPEATS_MIN_US));
        }
    }

    /// Everything on the way counts as lost; channels of which no Data was acked
    /// may be unknown to the gateway, and are announced again before their Data.
    fn go_back<const N: usize>(&mut self, backlog: &mut Backlog<N>, now: Tick) {
        self.recover = backlog.sent_end();
        self.again_at = Tick(now.0 + self.flight.round_trip_us().max(REPEATS_MIN_US));
        self.to_announce |= backlog.channels_on_the_way() & !self.confirmed;
        self.flight.clear();
        backlog.rewind();
        self.stats.resends += 1;
    }

    fn on_timers<const N: usize>(&mut self, backlog: &mut Backlog<N>, now: Tick) {
        if self.state != State::Open {
            return;
        }
        if self.silence_deadline(backlog).is_some_and(|at| at <= now) {
            self.go_back(backlog, now);
            self.state = State::Greeting(now);
        } else if self.flight.deadline().is_some_and(|at| at <= now) {
            self.flight.timed_out();
            self.go_back(backlog, now);
        }
    }

    /// When to give the gateway up; `None` when nothing is expected of it.
    fn silence_deadline<const N: usize>(&self, backlog: &Backlog<N>) -> Option<Tick> {
        let stopped = self.credit == 0 && backlog.cursor() < backlog.produced();
        let expecting = !self.flight.is_empty() || stopped;
        expecting.then_some(Tick(self.heard.0 + SILENCE_MAX_US))
    }
}
