//! One simulated device: a board with its sensors and its own clock, behind a line
//! with a bad cable. Time comes in; nothing here waits.

use forebay_firmware::wire::ids::{BootId, DeviceUid, Tick};
use forebay_firmware::wire::limits::LINE_BYTES_MAX;
use forebay_firmware::wire::message::{Quality, ResetCause};
use forebay_firmware::{Action, BadChannels, ChannelSpec, DeviceConfig, LineBuffer};

use super::board::{Board, RingSize};
use super::dice::hash;
use super::drift::{ClockPpm, DeviceClock, Elapsed};
use super::faults::ByteFaults;
use super::limits::{LATE_US_MAX, LINES_PER_TURN_MAX, PENDING_BYTES_MAX, READ_BYTES_MAX};
use super::line::{Line, WaitsFor};
use super::snapshot::{SimShows, SimSnapshot};
use super::source::{Figure, Source};
use super::spec::CableFaults;
use super::spells::{Moments, Spells};

/// A reading waits at most this long for others to share its frame.
const LINGER_US: u32 = 100_000;
const TICK_HZ: u32 = 1_000_000;

/// Who a device is, and what is wrong with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Identity {
    pub(super) uid: DeviceUid,
    pub(super) boot: BootId,
    pub(super) ring: RingSize,
    pub(super) faults: CableFaults,
    pub(super) clock: ClockPpm,
    pub(super) resets: Option<std::time::Duration>,
    pub(super) seed: u64,
}

pub(super) struct SimDevice {
    uid: DeviceUid,
    board: Board,
    clock: DeviceClock,
    /// What the clock showed at the boot that runs.
    booted: Tick,
    sources: Vec<Source>,
    line: Line,
    inbound: ByteFaults,
    outbound: ByteFaults,
    stalls: Spells,
    unplugs: Spells,
    resets: Moments,
    next_reset: Option<Elapsed>,
    stalled: bool,
    unplugged: bool,
    stall_count: u64,
    unplug_count: u64,
    /// Seconds for which it is to show where it is, since it was asked last.
    shows: Option<u8>,
    /// Bytes that left the transmitter and that the line has not taken.
    pending: Vec<u8>,
}

impl SimDevice {
    /// A device that boots when the simulator starts.
    ///
    /// # Errors
    /// The firmware does not take the channels.
    pub(super) fn new(
        identity: Identity,
        channels: Vec<(Source, u32)>,
        line: Line,
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
        let Identity { faults, seed, .. } = identity;
        let resets = Moments::new(identity.resets, hash(seed, 3));
        Ok(Self {
            uid: identity.uid,
            board: Board::new(identity.ring, config, specs)?,
            clock: DeviceClock::new(identity.clock, hash(seed, 4)),
            booted: Tick(0),
            sources: channels.into_iter().map(|(source, _)| source).collect(),
            line,
            inbound: ByteFaults::new(faults.rates, seed),
            outbound: ByteFaults::new(faults.rates, !seed),
            stalls: Spells::new(faults.stall, hash(seed, 1)),
            unplugs: Spells::new(faults.unplug, hash(seed, 2)),
            next_reset: resets.next(Elapsed(0)),
            resets,
            stalled: false,
            unplugged: false,
            stall_count: 0,
            unplug_count: 0,
            shows: None,
            pending: Vec::with_capacity(PENDING_BYTES_MAX),
        })
    }

    /// What is to be waited for; a stalled line gives nothing to wait for.
    pub(super) fn waits_for(&self) -> WaitsFor<'_> {
        if self.stalled {
            WaitsFor::Look
        } else {
            self.line.waits_for()
        }
    }

    /// Looks whether a gateway came, where that cannot be waited for.
    pub(super) fn look(&mut self) -> bool {
        self.line.look()
    }

    /// True: wait for the line to take more bytes.
    pub(super) fn is_blocked(&self) -> bool {
        !self.pending.is_empty()
    }

    fn tick(&self, now: Elapsed) -> Tick {
        Tick(self.clock.tick(now).0 - self.booted.0)
    }

    /// Takes in what came, samples what is due, sends what the line takes. What
    /// goes wrong by the time goes wrong only while it is sampling.
    pub(super) fn turn(&mut self, now: Elapsed, sampling: bool) {
        self.go_wrong(now, sampling);
        self.receive(now);
        if sampling {
            self.sample(now);
        }
        self.transmit(now);
    }

    /// When the next turn is needed if nothing comes in.
    pub(super) fn deadline(&self, now: Elapsed, sampling: bool) -> Option<Elapsed> {
        let tick = self.tick(now);
        let sample = self.board.sample_deadline().filter(|_| sampling);
        let send = self
            .board
            .send_deadline(tick)
            .filter(|_| !self.is_blocked());
        let own = [sample, send].into_iter().flatten().min();
        let own = own.map(|due| self.clock.when(Tick(self.booted.0 + due.0), now));
        let wrong = [
            self.stalls.next_change(now),
            self.unplugs.next_change(now),
            self.next_reset,
        ];
        let wrong = wrong.into_iter().flatten().min().filter(|_| sampling);
        [own, wrong].into_iter().flatten().min()
    }

    fn go_wrong(&mut self, now: Elapsed, sampling: bool) {
        let stalled = sampling && self.stalls.lasts_at(now);
        self.stall_count += u64::from(stalled && !self.stalled);
        self.stalled = stalled;
        let unplugged = sampling && self.unplugs.lasts_at(now);
        if unplugged && !self.unplugged {
            self.unplug_count += 1;
            self.line.unplug();
            self.pending.clear();
            self.unplugged = true;
        }
        if !unplugged && self.unplugged {
            // Otherwise the place is taken for now: the next turn tries again.
            self.unplugged = self.line.plug_in().is_err();
        }
        if self.next_reset.is_some_and(|at| at <= now) {
            self.next_reset = self.resets.next(now);
            if sampling {
                self.reset(ResetCause::Pin, now);
            }
        }
    }

    /// In the middle of a frame, if there is one to send.
    fn reset(&mut self, cause: ResetCause, now: Elapsed) {
        let mut buffer: LineBuffer = [0; LINE_BYTES_MAX];
        let count = self.board.poll_tx(self.tick(now), &mut buffer);
        self.pending.extend_from_slice(&buffer[..count / 2]);
        self.board.reset(cause);
        self.booted = self.clock.tick(now);
    }

    fn receive(&mut self, now: Elapsed) {
        if self.stalled {
            return;
        }
        let mut buffer = [0_u8; READ_BYTES_MAX];
        if let Some(count) = self.line.read(&mut buffer) {
            let mut bytes = Vec::with_capacity(count);
            let mut echo = Vec::new();
            self.inbound.pass(&buffer[..count], &mut bytes, &mut echo);
            // A full transmitter swallows the echo, so that none can pile up.
            let room = PENDING_BYTES_MAX.saturating_sub(self.pending.len());
            echo.truncate(room);
            self.pending.append(&mut echo);
            self.board.on_rx(&bytes, self.tick(now));
        }
    }

    /// Every slot that is due, at the time of its grid, as an interrupt does it: this
    /// computer wakes up once in a millisecond at best. What is later than
    /// [`LATE_US_MAX`] is missed.
    fn sample(&mut self, now: Elapsed) {
        let now = self.tick(now);
        self.board.follow(now);
        while let Some(due) = self.board.sample_deadline().filter(|due| *due <= now) {
            let tick = due.max(Tick(now.0.saturating_sub(LATE_US_MAX)));
            let Some(channel) = self.board.poll_sample(tick) else {
                return;
            };
            let figure = match self.sources[usize::from(channel.0)].read(tick) {
                Figure::Value(value) => Ok(value),
                Figure::Stale => Err(Quality::Stale),
            };
            self.board.on_sample(channel, tick, figure);
        }
    }

    fn transmit(&mut self, now: Elapsed) {
        let tick = self.tick(now);
        let mut buffer: LineBuffer = [0; LINE_BYTES_MAX];
        let mut echo = Vec::new();
        for _ in 0..LINES_PER_TURN_MAX {
            if !self.flush_pending() {
                break;
            }
            let count = self.board.poll_tx(tick, &mut buffer);
            if count == 0 {
                break;
            }
            self.outbound
                .pass(&buffer[..count], &mut self.pending, &mut echo);
        }
        self.flush_pending();
        if !echo.is_empty() {
            self.board.on_rx(&echo, tick);
        }
        self.act(now);
    }

    /// Does what a command wants. There is nothing here that could blink: what it
    /// shows is a line of the program.
    fn act(&mut self, now: Elapsed) {
        while let Some(action) = self.board.take_action() {
            match action {
                Action::Identify { seconds } => self.shows = Some(seconds),
                Action::Reboot => {
                    self.board.reset(ResetCause::Software);
                    self.booted = self.clock.tick(now);
                }
            }
        }
    }

    /// Whether it was asked to show where it is, since the last look.
    pub(super) fn take_shows(&mut self) -> Option<SimShows> {
        let seconds = self.shows.take()?;
        let uid = self.uid;
        Some(SimShows { uid, seconds })
    }

    /// True: the line took everything.
    fn flush_pending(&mut self) -> bool {
        if !self.pending.is_empty() && !self.stalled {
            let taken = self.line.write(&self.pending);
            self.pending.drain(..taken);
        }
        self.pending.is_empty()
    }

    pub(super) fn snapshot(&self) -> SimSnapshot {
        let stats = self.board.stats();
        let earlier = self.board.earlier();
        SimSnapshot {
            uid: self.uid,
            boot: self.board.boot(),
            open: self.board.is_open(),
            produced: stats.produced,
            acked: stats.acked,
            settled: self.board.settled(),
            waiting: stats.waiting,
            gaps: stats.lost(),
            gaps_by_reason: stats.gaps,
            earlier,
            owed_boots: self.board.owed_boots() as u64,
            resends: earlier.resends + stats.link.resends,
            bad_frames: earlier.bad_frames + stats.received.bad(),
            faults: self.inbound.done().total() + self.outbound.done().total(),
            stalls: self.stall_count,
            unplugs: self.unplug_count,
            missed_samples: self.board.missed(),
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
