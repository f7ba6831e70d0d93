//! One simulated device: the real firmware library with its sensors, behind a
//! line with a bad cable. Time comes in as ticks; nothing here waits.

use forebay_firmware::wire::ids::{BootId, ChannelNo, DeviceUid, Tick};
use forebay_firmware::wire::limits::{CHANNELS_MAX, LINE_BYTES_MAX};
use forebay_firmware::wire::message::{Quality, ResetCause};
use forebay_firmware::{BadChannels, ChannelSpec, Device, DeviceConfig, LineBuffer, Sampler};

use super::faults::{FaultRates, Faults};
use super::limits::{LINES_PER_TURN_MAX, PENDING_BYTES_MAX, READ_BYTES_MAX};
use super::line::Line;
use super::snapshot::SimSnapshot;
use super::source::{Figure, Source};

/// Readings of the ring: 32 KiB, as on a small board.
pub(super) const RING_READINGS: usize = 2730;
/// A reading waits at most this long for others to share its frame.
const LINGER_US: u32 = 100_000;
const TICK_HZ: u32 = 1_000_000;

type Firmware = Device<RING_READINGS, CHANNELS_MAX>;

/// Who a device is, and how bad its cable.
#[derive(Debug, Clone, Copy)]
pub(super) struct Identity {
    pub(super) uid: DeviceUid,
    pub(super) boot: BootId,
    pub(super) faults: FaultRates,
    pub(super) seed: u64,
}

pub(super) struct SimDevice {
    uid: DeviceUid,
    /// On the heap: it is as large as the memory of a board.
    firmware: Box<Firmware>,
    sampler: Sampler<CHANNELS_MAX>,
    sources: Vec<Source>,
    line: Line,
    inbound: Faults,
    outbound: Faults,
    /// Bytes that left the transmitter and that the line has not taken.
    pending: Vec<u8>,
}

impl SimDevice {
    /// A device that boots at `now`.
    ///
    /// # Errors
    /// The firmware does not take the channels.
    pub(super) fn new(
        identity: Identity,
        channels: Vec<(Source, u32)>,
        line: Line,
        now: Tick,
    ) -> Result<Self, BadChannels> {
        let specs: Vec<ChannelSpec> = channels
            .iter()
            .map(|(source, period_us)| spec(source, *period_us))
            .collect();
        let config = DeviceConfig {
            uid: identity.uid,
            boot: identity.boot,
            firmware_version: version(),
            build_id: *b"hostsim\0",
            reset_cause: ResetCause::PowerOn,
            tick_hz: TICK_HZ,
            linger_us: LINGER_US,
        };
        let mut firmware = Box::new(Firmware::unstarted());
        firmware.start(config, &specs)?;
        Ok(Self {
            uid: identity.uid,
            firmware,
            sampler: Sampler::new(&specs, now),
            sources: channels.into_iter().map(|(source, _)| source).collect(),
            line,
            inbound: Faults::new(identity.faults, identity.seed),
            outbound: Faults::new(identity.faults, !identity.seed),
            pending: Vec::with_capacity(PENDING_BYTES_MAX),
        })
    }

    pub(super) fn line(&self) -> &Line {
        &self.line
    }

    /// Looks whether a gateway came, where that cannot be waited for.
    pub(super) fn look(&mut self) -> bool {
        self.line.look()
    }

    /// True: wait for the line to take more bytes.
    pub(super) fn is_blocked(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Takes in what came, samples what is due, sends what the line takes.
    pub(super) fn turn(&mut self, now: Tick, sampling: bool) {
        self.receive(now);
        if sampling {
            self.sample(now);
        }
        self.transmit(now);
    }

    /// When the next turn is needed if nothing comes in.
    pub(super) fn deadline(&self, now: Tick, sampling: bool) -> Option<Tick> {
        let sample = self.sampler.next_deadline().filter(|_| sampling);
        let send = self
            .firmware
            .next_deadline(now)
            .filter(|_| !self.is_blocked());
        [sample, send].into_iter().flatten().min()
    }

    fn receive(&mut self, now: Tick) {
        let mut buffer = [0_u8; READ_BYTES_MAX];
        if let Some(count) = self.line.read(&mut buffer) {
            let mut bytes = Vec::with_capacity(count);
            self.inbound.pass(&buffer[..count], &mut bytes);
            self.firmware.on_rx(&bytes, now);
        }
    }

    fn sample(&mut self, now: Tick) {
        while let Some(channel) = self.sampler.poll(now) {
            let figure = match self.sources[usize::from(channel.0)].read(now) {
                Figure::Value(value) => Ok(value),
                Figure::Stale => Err(Quality::Stale),
            };
            self.firmware
                .on_sample(channel, now, figure)
                .expect("the sampler and the firmware were given the same channels");
        }
    }

    fn transmit(&mut self, now: Tick) {
        let mut buffer: LineBuffer = [0; LINE_BYTES_MAX];
        for _ in 0..LINES_PER_TURN_MAX {
            if !self.flush_pending() {
                return;
            }
            let count = self.firmware.poll_tx(now, &mut buffer);
            if count == 0 {
                return;
            }
            self.outbound.pass(&buffer[..count], &mut self.pending);
        }
        self.flush_pending();
    }

    /// True: the line took everything.
    fn flush_pending(&mut self) -> bool {
        if !self.pending.is_empty() {
            let taken = self.line.write(&self.pending);
            self.pending.drain(..taken);
        }
        self.pending.is_empty()
    }

    pub(super) fn snapshot(&self) -> SimSnapshot {
        let stats = self.firmware.stats();
        SimSnapshot {
            uid: self.uid,
            boot: self.firmware.boot(),
            open: self.firmware.is_open(),
            produced: stats.produced,
            acked: stats.acked,
            waiting: stats.waiting,
            gaps: stats.lost(),
            resends: stats.link.resends,
            bad_frames: stats.received.bad(),
            faults: self.inbound.done() + self.outbound.done(),
            missed_samples: (0..)
                .map(ChannelNo)
                .zip(&self.sources)
                .map(|(n, _)| self.sampler.missed(n))
                .sum(),
        }
    }
}

fn spec(source: &Source, period_us: u32) -> ChannelSpec {
    ChannelSpec {
        quantity: source.info.quantity,
        unit: source.info.unit,
        scale: source.info.scale,
        range: source.info.range,
        period_us,
    }
}

/// The version of this program, as a firmware says its own.
fn version() -> [u8; 3] {
    let mut parts = env!("CARGO_PKG_VERSION")
        .split('.')
        .map(|part| part.parse().unwrap_or(0));
    std::array::from_fn(|_| parts.next().unwrap_or(0))
}

impl std::fmt::Debug for SimDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimDevice")
            .field("uid", &self.uid)
            .field("line", &self.line)
            .finish()
    }
}
