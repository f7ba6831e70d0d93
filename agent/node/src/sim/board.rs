//! The firmware library with a ring of a size chosen at run time, over the resets
//! of one device, and what its boots came to. Knows no line and no real time.
//!
//! Invariant: of each boot produced = acked + waiting + gaps; of those that ended,
//! what waited was taken by the reset, and the next boot declares it.

use forebay_firmware::wire::ids::{BootId, ChannelNo, Tick};
use forebay_firmware::wire::limits::CHANNELS_MAX;
use forebay_firmware::wire::message::{Quality, ResetCause};
use forebay_firmware::{
    Accounts, Action, BadChannels, ChannelSpec, Device, DeviceConfig, LineBuffer, Sampler, Stats,
};

use super::limits::RINGS;

/// Readings that a device's ring holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingSize(u32);

impl Default for RingSize {
    /// 32 KiB, as on a small board.
    fn default() -> Self {
        Self(2730)
    }
}

impl RingSize {
    /// # Errors
    /// None of [`RINGS`]; ends a sentence about it.
    pub fn new(readings: u32) -> Result<Self, String> {
        if RINGS.contains(&readings) {
            return Ok(Self(readings));
        }
        let all = RINGS.map(|ring| ring.to_string()).join(", ");
        Err(format!("must be one of {all}"))
    }
}

/// The library, whatever the size of its ring.
trait Library: Send {
    fn start(&mut self, config: DeviceConfig, channels: &[ChannelSpec]) -> Result<(), BadChannels>;
    fn remember(&mut self, accounts: &Accounts);
    fn accounts(&self) -> Accounts;
    fn on_sample(&mut self, channel: ChannelNo, tick: Tick, value: Result<i32, Quality>);
    fn follow(&mut self, sampler: &mut Sampler<CHANNELS_MAX>, now: Tick);
    fn take_action(&mut self) -> Option<Action>;
    fn on_rx(&mut self, bytes: &[u8], tick: Tick);
    fn poll_tx(&mut self, now: Tick, line: &mut LineBuffer) -> usize;
    fn next_deadline(&self, now: Tick) -> Option<Tick>;
    fn boot(&self) -> BootId;
    fn is_open(&self) -> bool;
    fn stats(&self) -> Stats;
}

impl<const RING: usize> Library for Device<RING, CHANNELS_MAX> {
    fn start(&mut self, config: DeviceConfig, channels: &[ChannelSpec]) -> Result<(), BadChannels> {
        Device::start(self, config, channels)
    }

    fn remember(&mut self, accounts: &Accounts) {
        Device::remember(self, accounts);
    }

    fn accounts(&self) -> Accounts {
        Device::accounts(self)
    }

    fn on_sample(&mut self, channel: ChannelNo, tick: Tick, value: Result<i32, Quality>) {
        Device::on_sample(self, channel, tick, value)
            .expect("the sampler and the firmware were given the same channels");
    }

    fn follow(&mut self, sampler: &mut Sampler<CHANNELS_MAX>, now: Tick) {
        sampler.follow(self, now);
    }

    fn take_action(&mut self) -> Option<Action> {
        Device::take_action(self)
    }

    fn on_rx(&mut self, bytes: &[u8], tick: Tick) {
        Device::on_rx(self, bytes, tick);
    }

    fn poll_tx(&mut self, now: Tick, line: &mut LineBuffer) -> usize {
        Device::poll_tx(self, now, line)
    }

    fn next_deadline(&self, now: Tick) -> Option<Tick> {
        Device::next_deadline(self, now)
    }

    fn boot(&self) -> BootId {
        Device::boot(self)
    }

    fn is_open(&self) -> bool {
        Device::is_open(self)
    }

    fn stats(&self) -> Stats {
        Device::stats(self)
    }
}

/// On the heap: it is as large as the memory of a board.
fn library(ring: RingSize) -> Box<dyn Library> {
    match ring.0 {
        64 => Box::new(Device::<64, CHANNELS_MAX>::unstarted()),
        256 => Box::new(Device::<256, CHANNELS_MAX>::unstarted()),
        1024 => Box::new(Device::<1024, CHANNELS_MAX>::unstarted()),
        8192 => Box::new(Device::<8192, CHANNELS_MAX>::unstarted()),
        _ => Box::new(Device::<2730, CHANNELS_MAX>::unstarted()),
    }
}

/// What the boots that ended came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EarlierBoots {
    pub boots: u32,
    pub produced: u64,
    /// Readings that the gateway has on its disk, as far as the device knew.
    pub acked: u64,
    /// Declared as lost, and acked as such.
    pub gaps: u64,
    /// Not acked when the reset came: the next boot declares them.
    pub reset: u64,
    /// Damaged frames from the gateway.
    pub bad_frames: u64,
    pub resends: u64,
    pub missed_samples: u64,
}

/// One device's processor.
pub(super) struct Board {
    ring: RingSize,
    config: DeviceConfig,
    specs: Vec<ChannelSpec>,
    library: Box<dyn Library>,
    sampler: Sampler<CHANNELS_MAX>,
    earlier: EarlierBoots,
}

impl Board {
    /// Boots it; ticks count from 0.
    ///
    /// # Errors
    /// The firmware does not take the channels.
    pub(super) fn new(
        ring: RingSize,
        config: DeviceConfig,
        specs: Vec<ChannelSpec>,
    ) -> Result<Self, BadChannels> {
        let mut library = library(ring);
        library.start(config, &specs)?;
        Ok(Self {
            ring,
            config,
            sampler: Sampler::new(&specs, Tick(0)),
            specs,
            library,
            earlier: EarlierBoots::default(),
        })
    }

    /// A warm start: all is lost but what a board keeps over a reset.
    pub(super) fn reset(&mut self, cause: ResetCause) {
        self.end_boot();
        let accounts = self.library.accounts();
        self.config.boot = BootId(self.library.boot().0.wrapping_add(1));
        self.config.reset_cause = cause;
        let mut next = library(self.ring);
        next.start(self.config, &self.specs)
            .expect("the same channels were taken at the first boot");
        next.remember(&accounts);
        self.library = next;
        self.sampler = Sampler::new(&self.specs, Tick(0));
    }

    fn end_boot(&mut self) {
        let stats = self.library.stats();
        // The last account is this boot's: all below its mark is acked.
        let settled = self.settled();
        let missed = self.missed_now();
        let earlier = &mut self.earlier;
        earlier.boots += 1;
        earlier.produced += stats.produced;
        earlier.acked += stats.acked;
        earlier.gaps += settled - stats.acked;
        earlier.reset += stats.produced - settled;
        earlier.bad_frames += stats.received.bad();
        earlier.resends += stats.link.resends;
        earlier.missed_samples += missed;
    }

    fn missed_now(&self) -> u64 {
        let channels = (0..).map(ChannelNo).zip(&self.specs);
        channels.map(|(n, _)| self.sampler.missed(n)).sum()
    }

    /// Takes over the periods that the gateway has set.
    pub(super) fn follow(&mut self, now: Tick) {
        self.library.follow(&mut self.sampler, now);
    }

    pub(super) fn poll_sample(&mut self, now: Tick) -> Option<ChannelNo> {
        self.sampler.poll(now)
    }

    /// What a command of the gateway wants of the board.
    pub(super) fn take_action(&mut self) -> Option<Action> {
        self.library.take_action()
    }

    pub(super) fn on_sample(
        &mut self,
        channel: ChannelNo,
        tick: Tick,
        value: Result<i32, Quality>,
    ) {
        self.library.on_sample(channel, tick, value);
    }

    pub(super) fn on_rx(&mut self, bytes: &[u8], tick: Tick) {
        self.library.on_rx(bytes, tick);
    }

    pub(super) fn poll_tx(&mut self, now: Tick, line: &mut LineBuffer) -> usize {
        self.library.poll_tx(now, line)
    }

    pub(super) fn sample_deadline(&self) -> Option<Tick> {
        self.sampler.next_deadline()
    }

    pub(super) fn send_deadline(&self, now: Tick) -> Option<Tick> {
        self.library.next_deadline(now)
    }

    pub(super) fn boot(&self) -> BootId {
        self.library.boot()
    }

    pub(super) fn is_open(&self) -> bool {
        self.library.is_open()
    }

    /// First ordinal of the boot that runs that is not acked.
    pub(super) fn settled(&self) -> u64 {
        let accounts = self.library.accounts();
        accounts.iter().last().map_or(0, |account| account.acked.0)
    }

    /// Of the boot that runs.
    pub(super) fn stats(&self) -> Stats {
        self.library.stats()
    }

    pub(super) fn earlier(&self) -> EarlierBoots {
        self.earlier
    }

    /// Boots that ended and whose losses no gateway has noted yet.
    pub(super) fn owed_boots(&self) -> usize {
        self.library.accounts().len() - 1
    }

    /// Sampling slots that passed without a reading, in all boots.
    pub(super) fn missed(&self) -> u64 {
        self.earlier.missed_samples + self.missed_now()
    }
}
