//! The whole device half behind one door: readings and bytes in, lines out. Owns
//! the backlog, the session and the deframer; decides nothing itself. What commands
//! and configs change stands in `control`, what becomes of a line in `lines`.
//!
//! Bound: all memory is in the struct; `RING` readings of 12 bytes and `CHANNELS`
//! channels. A `const fn new` lets it stand in a `static`, never on the stack.

use core::fmt;

use forebay_wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use forebay_wire::limits::{CHANNELS_MAX, LINE_BYTES_MAX};
use forebay_wire::message::{GapReason, Quality, Reading, ResetCause};
use forebay_wire::{DecodeError, Deframer, GatewayMessage, Rejected};
use heapless::Vec;

use crate::account::{Account, Accounts};
use crate::backlog::Backlog;
use crate::isr::{SampleConsumer, Taken};
use crate::sensor::ChannelSpec;
use crate::session::Session;
#[cfg(feature = "spill")]
use crate::spill::tail::Tail;
use crate::stats::Stats;
use crate::tuning::Tuning;
use control::Control;

mod control;
#[cfg(not(feature = "spill"))]
mod keeping;
mod lines;
#[cfg(feature = "spill")]
mod spilling;

/// Room for one line of the link.
pub type LineBuffer = [u8; LINE_BYTES_MAX];

/// Who the device is, for its Hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceConfig {
    pub uid: DeviceUid,
    /// Another one at each reset: counted, or drawn at random.
    pub boot: BootId,
    /// major, minor, patch
    pub firmware_version: [u8; 3],
    pub build_id: [u8; 8],
    pub reset_cause: ResetCause,
    /// Rate of the hardware counter behind the ticks, for the record.
    pub tick_hz: u32,
    /// A reading waits at most this long for others to share its frame, us.
    pub linger_us: u32,
}

/// Before [`Device::start`]; see [`Device::unstarted`].
const NOBODY: DeviceConfig = DeviceConfig {
    uid: DeviceUid([0; 8]),
    boot: BootId(0),
    firmware_version: [0; 3],
    build_id: [0; 8],
    reset_cause: ResetCause::Unknown,
    tick_hz: 0,
    linger_us: 0,
};

/// The list of channels cannot be told to a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadChannels {
    /// More than the device has room for.
    TooMany { given: usize, most: usize },
    /// A field is outside the range in [`ChannelSpec`].
    OutOfRange { channel: ChannelNo },
    /// Two channels have the same quantity.
    SameName { channel: ChannelNo },
}

impl fmt::Display for BadChannels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadChannels::TooMany { given, most } => {
                write!(f, "{given} channels, at most {most} fit")
            }
            BadChannels::OutOfRange { channel } => {
                write!(f, "channel {}: a field is outside its range", channel.0)
            }
            BadChannels::SameName { channel } => {
                write!(f, "channel {}: its quantity is taken already", channel.0)
            }
        }
    }
}

impl core::error::Error for BadChannels {}

/// A reading of a channel that the device was not built with; it got no ordinal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownChannel(pub ChannelNo);

impl fmt::Display for UnknownChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no channel {} on this device", self.0.0)
    }
}

impl core::error::Error for UnknownChannel {}

/// Counts of all that was produced, wherever it waits.
#[derive(Debug)]
struct Totals {
    produced: Ordinal,
    waiting: u64,
    gaps: [u64; GapReason::ALL.len()],
}

/// See the module.
#[derive(Debug)]
pub struct Device<const RING: usize, const CHANNELS: usize = CHANNELS_MAX> {
    started: bool,
    config: DeviceConfig,
    channels: Vec<ChannelSpec, CHANNELS>,
    tuning: Tuning<CHANNELS>,
    control: Control,
    backlog: Backlog<RING>,
    #[cfg(feature = "spill")]
    tail: Tail,
    session: Session,
    deframer: Deframer,
}

impl<const RING: usize, const CHANNELS: usize> Default for Device<RING, CHANNELS> {
    fn default() -> Self {
        Self::unstarted()
    }
}

impl<const RING: usize, const CHANNELS: usize> Device<RING, CHANNELS> {
    /// A started device. Channel `i` of the list gets number `i`.
    ///
    /// # Errors
    /// [`BadChannels`].
    pub fn new(config: DeviceConfig, channels: &[ChannelSpec]) -> Result<Self, BadChannels> {
        let mut device = Self::unstarted();
        device.start(config, channels)?;
        Ok(device)
    }

    /// For a `static`: says nothing until [`Device::start`]. Every field is zero
    /// bits, so that the linker puts it into `.bss`; with any other start value the
    /// whole ring would stand in flash as well, to be copied from there.
    #[must_use]
    pub const fn unstarted() -> Self {
        const {
            assert!(
                CHANNELS <= CHANNELS_MAX,
                "more channels than the link can number"
            )
        };
        Device {
            started: false,
            config: NOBODY,
            channels: Vec::new(),
            tuning: Tuning::new(),
            control: Control::new(),
            backlog: Backlog::new(),
            #[cfg(feature = "spill")]
            tail: Tail::new(),
            session: Session::new(),
            deframer: Deframer::new(),
        }
    }

    /// Gives an [`Device::unstarted`] device its identity and channels.
    ///
    /// # Errors
    /// [`BadChannels`]; the device stays unstarted.
    pub fn start(
        &mut self,
        config: DeviceConfig,
        channels: &[ChannelSpec],
    ) -> Result<(), BadChannels> {
        let too_many = BadChannels::TooMany {
            given: channels.len(),
            most: CHANNELS,
        };
        self.channels = Vec::from_slice(channels).map_err(|_| too_many)?;
        for (channel, spec) in (0..).map(ChannelNo).zip(channels) {
            if spec.info(channel).is_none() {
                return Err(BadChannels::OutOfRange { channel });
            }
            let earlier = &channels[..usize::from(channel.0)];
            if earlier.iter().any(|other| other.quantity == spec.quantity) {
                return Err(BadChannels::SameName { channel });
            }
        }
        self.session.start(config.boot, u64::from(config.linger_us));
        self.config = config;
        self.started = true;
        Ok(())
    }

    /// Takes over what earlier boots kept of [`Device::accounts`]: once the session
    /// is open, all they still owe is declared lost, until the gateway has noted it.
    /// To be called after [`Device::start`].
    pub fn remember(&mut self, accounts: &Accounts) {
        self.session.remember(accounts);
    }

    /// What this boot and earlier ones owe, for memory that a reset does not clear.
    /// Worth keeping anew, before the next line is sent, whenever it has changed.
    #[must_use]
    pub fn accounts(&self) -> Accounts {
        let mut accounts = self.session.earlier().clone();
        let (acked, produced) = (self.backlog.base(), self.totals().produced);
        accounts.push(Account {
            boot: self.session.boot(),
            acked,
            produced,
        });
        accounts
    }

    /// Takes a reading and gives it its ordinal; `None` when a threshold holds it
    /// back. A value outside the channel's range becomes implausible.
    ///
    /// # Errors
    /// [`UnknownChannel`].
    pub fn on_sample(
        &mut self,
        channel: ChannelNo,
        tick: Tick,
        value: Result<i32, Quality>,
    ) -> Result<Option<Ordinal>, UnknownChannel> {
        let spec = self
            .channels
            .get(usize::from(channel.0))
            .ok_or(UnknownChannel(channel))?;
        let (low, high) = spec.range;
        let (value, quality) = match value {
            Ok(value) if (low..=high).contains(&value) => (value, Quality::Ok),
            Ok(_) | Err(Quality::Ok) => (0, Quality::Implausible),
            Err(quality) => (0, quality),
        };
        let admitted = self.tuning.admit(channel, value, quality);
        Ok(admitted.then(|| {
            self.keep(Reading {
                channel,
                tick,
                value,
                quality,
            })
        }))
    }

    /// Accounts for `count` readings that were produced but lost before they came
    /// here, the first at about `tick`. They get ordinals and become a Gap.
    pub fn on_lost(&mut self, reason: GapReason, count: u32, tick: Tick) {
        self.keep_lost(reason, count, tick);
    }

    /// Empties the interrupt's queue, dropped samples included.
    pub fn drain(&mut self, samples: &mut SampleConsumer<'_>, now: Tick) {
        while let Some(taken) = samples.take() {
            match taken {
                // A sample of no channel is lost as well: it must not go uncounted.
                Taken::Sample(sample) => {
                    if self
                        .on_sample(sample.channel, sample.tick, sample.value)
                        .is_err()
                    {
                        self.on_lost(GapReason::SensorOff, 1, sample.tick);
                    }
                }
                Taken::Dropped(count) => self.on_lost(GapReason::IsrFull, count, now),
            }
        }
    }

    /// Takes bytes from the line; `tick` is when the last of them came, best
    /// stamped in the interrupt at a delimiter (see [`Device::DELIMITER`]).
    pub fn on_rx(&mut self, bytes: &[u8], tick: Tick) {
        let Device {
            channels,
            tuning,
            control,
            backlog,
            session,
            deframer,
            ..
        } = self;
        if bytes == [Self::DELIMITER] {
            session.on_line_opened(tick);
        }
        let channels = channels.len();
        deframer.receive_gateway(bytes, |message| match message {
            Ok(GatewayMessage::HelloAck(ack)) => {
                session.on_hello_ack(ack, channels, backlog, tick);
                if session.log_level() == 0 {
                    control.log.clear();
                }
            }
            Ok(GatewayMessage::Ack(ack)) => session.on_ack(ack, backlog, tick),
            Ok(GatewayMessage::SyncReq(request)) => session.on_probe(request.id, tick),
            Ok(GatewayMessage::Cmd(cmd)) => control.on_cmd(&cmd, channels, tuning, session),
            Ok(GatewayMessage::Config(chunk)) => {
                control.on_config(&chunk, channels, tuning, session);
            }
            Err(Rejected::Message(DecodeError::WrongDirection { .. })) => session.on_echo(tick),
            // Counted by the deframer; the next frame is another chance.
            Err(Rejected::Frame(_) | Rejected::Message(_)) => {}
        });
    }

    /// Ends each frame on the line.
    pub const DELIMITER: u8 = forebay_wire::frame::DELIMITER;

    /// Writes the next line to send and returns its length; 0 when there is none
    /// now. Call it again only when the line before has left: a frame counts as
    /// sent, and its clock runs, from here.
    pub fn poll_tx(&mut self, now: Tick, line: &mut LineBuffer) -> usize {
        if !self.started {
            return 0;
        }
        self.control.commands.line_is_free();
        let waiting = self.waiting();
        let Some(outgoing) = self.session.poll(&mut self.backlog, waiting, now) else {
            return 0;
        };
        let fresh = self.backlog.cursor() >= self.backlog.sent_end();
        let bytes = self.write(outgoing, line);
        self.session
            .on_sent(outgoing, bytes, fresh, waiting, &mut self.backlog, now);
        bytes
    }

    /// When [`Device::poll_tx`] will have something to do without new input:
    /// at once if not after `now`; never if `None`.
    #[must_use]
    pub fn next_deadline(&self, now: Tick) -> Option<Tick> {
        if !self.started {
            return None;
        }
        if self.control.commands.waits_for_line() {
            return Some(now);
        }
        self.session
            .deadline(&self.backlog, self.waiting())
            .map(|at| at.max(now))
    }

    /// The boot id in use: that of the config, or a later one when the gateway
    /// knew it from another boot.
    #[must_use]
    pub fn boot(&self) -> BootId {
        self.session.boot()
    }

    /// Whether a gateway answered our Hello and still does.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.session.is_open()
    }

    /// What the gateway wants to read: 0 off, 1 error, to 5 trace.
    #[must_use]
    pub fn log_level(&self) -> u8 {
        self.session.log_level()
    }

    #[must_use]
    pub fn channels(&self) -> &[ChannelSpec] {
        &self.channels
    }

    #[must_use]
    pub fn stats(&self) -> Stats {
        let Totals {
            produced,
            waiting,
            gaps,
        } = self.totals();
        Stats {
            produced: produced.0,
            acked: self.backlog.acked(),
            waiting,
            gaps,
            link: self.session.stats(),
            received: *self.deframer.counters(),
        }
    }
}
