//! How a device does and what it is told: commands, configs, logs, and the counters
//! of Health that no other part has. All zero bits at start.

use forebay_wire::Settings;
use forebay_wire::ids::ChannelNo;
use forebay_wire::message::{Cmd, CmdStatus, ConfigChunk, Health, Operation, ReceiveCounts};

use super::Device;
use crate::commands::{Action, Commands};
use crate::inbox::{Inbox, Taken};
use crate::log::LogRing;
use crate::session::{Session, Waiting};
use crate::tuning::Tuning;

/// See the module.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) commands: Commands,
    pub(super) log: LogRing,
    inbox: Inbox,
    rx_dropped: u32,
    missed: u32,
    /// `u32::MAX` minus the free bytes, so that 0 is what Health calls unmeasured.
    stack_unmeasured: u32,
}

impl Control {
    pub(super) const fn new() -> Self {
        Control {
            commands: Commands::new(),
            log: LogRing::new(),
            inbox: Inbox::new(),
            rx_dropped: 0,
            missed: 0,
            stack_unmeasured: 0,
        }
    }

    /// Carries a command out, unless it is a repeat. One from outside of a session
    /// may have been meant for the boot before: the gateway says it again.
    pub(super) fn on_cmd<const CHANNELS: usize>(
        &mut self,
        cmd: &Cmd,
        channels: usize,
        tuning: &mut Tuning<CHANNELS>,
        session: &mut Session,
    ) {
        if !session.is_open() || self.commands.is_repeat(cmd.id) {
            return;
        }
        let known = |channel: ChannelNo| usize::from(channel.0) < channels;
        let status = match cmd.operation {
            Operation::SetPeriod { channel, period_us } => {
                if known(channel) && tuning.set_period(channel, period_us) {
                    session.announce(1 << channel.0);
                    CmdStatus::Done
                } else {
                    CmdStatus::BadArgument
                }
            }
            Operation::SetThreshold { channel, threshold } => {
                if known(channel) {
                    tuning.set_threshold(channel, threshold);
                    CmdStatus::Done
                } else {
                    CmdStatus::BadArgument
                }
            }
            Operation::Identify { seconds } => {
                self.commands.identify(seconds);
                CmdStatus::Done
            }
            Operation::Reboot { boot } if boot == session.boot() => {
                self.commands.reboot(cmd.id);
                CmdStatus::Done
            }
            Operation::Reboot { .. } => CmdStatus::WrongBoot,
            Operation::Unknown { .. } => CmdStatus::UnknownOperation,
        };
        self.commands.keep(cmd.id, status);
    }

    /// Takes a chunk; once the config is whole, applies or refuses all of it.
    pub(super) fn on_config<const CHANNELS: usize>(
        &mut self,
        chunk: &ConfigChunk<'_>,
        channels: usize,
        tuning: &mut Tuning<CHANNELS>,
        session: &mut Session,
    ) {
        if !session.is_open() {
            return;
        }
        let whole = match self.inbox.take(chunk) {
            Taken::More => return,
            Taken::InUse => {
                // The Health that said so may be lost.
                session.ask_health();
                return;
            }
            Taken::Whole(whole) => whole,
        };
        let known = |settings: &Settings| {
            let last = settings.entries.last();
            last.is_none_or(|last| usize::from(last.channel.0) < channels)
        };
        let settings = whole.and_then(|bytes| Settings::decode(bytes).ok());
        match settings.filter(known) {
            Some(settings) => {
                session.announce(tuning.apply(&settings));
                self.inbox.applied();
            }
            None => self.inbox.refuse(),
        }
        session.ask_health();
    }
}

impl<const RING: usize, const CHANNELS: usize> Device<RING, CHANNELS> {
    /// Takes one raw defmt frame of 1 to 245 bytes, to be sent when the line has
    /// nothing better to do. One that finds no room is counted. Nothing is kept
    /// while a gateway is there that wants no logs.
    pub fn on_log(&mut self, frame: &[u8]) {
        if !self.session.is_open() || self.session.log_level() > 0 {
            self.control.log.push(frame);
        }
    }

    /// Notes `bytes` more that the board lost between its interrupt and here.
    pub fn on_rx_dropped(&mut self, bytes: u32) {
        self.control.rx_dropped = self.control.rx_dropped.saturating_add(bytes);
    }

    /// Notes `slots` more of the sampling grid that passed without a reading;
    /// [`crate::Sampler`] does it.
    pub fn on_missed(&mut self, slots: u32) {
        self.control.missed = self.control.missed.saturating_add(slots);
    }

    /// Notes the fewest bytes of stack that were ever free.
    pub fn set_stack_free(&mut self, bytes: u32) {
        self.control.stack_unmeasured = u32::MAX - bytes;
    }

    /// What a command wants of the board, once each. A reboot is handed out only
    /// when its result has left the line.
    pub fn take_action(&mut self) -> Option<Action> {
        self.control.commands.take_action()
    }

    /// How often `channel` is to be sampled now, us: as set, or as built. 0 when
    /// there is no such channel.
    #[must_use]
    pub fn period_us(&self, channel: ChannelNo) -> u32 {
        let built = self.channels.get(usize::from(channel.0));
        match (built, self.tuning.period_us(channel)) {
            (None, _) => 0,
            (Some(spec), 0) => spec.period_us,
            (Some(_), set) => set,
        }
    }

    /// All that the device counts, as it goes to the gateway.
    #[must_use]
    pub fn health(&self) -> Health {
        let control = &self.control;
        let totals = self.totals();
        let short = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let errors = (0..self.channels.len()).map(|channel| self.tuning.errors(channel));
        Health {
            boot: self.session.boot(),
            config: control.inbox.active(),
            config_refused: control.inbox.refused(),
            produced: totals.produced.0,
            acked: self.backlog.acked(),
            waiting: short(totals.waiting),
            gaps: totals.gaps,
            suppressed: self.tuning.suppressed(),
            ring_high: short(self.backlog.high()),
            received: ReceiveCounts::from(self.deframer.counters()),
            rx_dropped: control.rx_dropped,
            resends: short(self.session.stats().resends),
            missed: control.missed,
            log_dropped: control.log.dropped(),
            stack_free: u32::MAX - control.stack_unmeasured,
            errors: errors.collect(),
        }
    }

    pub(super) fn waiting(&self) -> Waiting {
        let control = &self.control;
        let lost: u64 = self.totals().gaps.iter().sum();
        Waiting {
            result: control.commands.waiting().is_some(),
            log: self.session.log_level() > 0 && !control.log.is_empty(),
            losses: lost + u64::from(control.rx_dropped) + u64::from(control.missed),
        }
    }
}
