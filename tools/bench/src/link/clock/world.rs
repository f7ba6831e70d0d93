//! A device with a bad clock on a line with delays, and the gateway's model of it: what
//! it says of each reading beside the truth. Seeded; an hour takes a moment.

use forebay_core::link::clock::{DeviceClock, PROBE_PAUSE_US};
use forebay_core::units::{Baud, EventTime, Mono, Now};
use forebay_wire::ids::Tick;
use forebay_wire::varint::len_u64;

/// 2026-03-01T00:00:00Z.
const START_UTC: i64 = 1_772_323_200_000_000;
/// The gateway has run for a while when the device comes.
const START_MONO: u64 = 77_000_000_000;
/// Probes until the session opens, and the pauses between them, us: as the link does it.
const FIRST_PROBES: u32 = 8;
const FAST_US: f64 = 50_000.0;
/// COBS code, kind, CRC and delimiter.
const LINE_BYTES: usize = 7;
/// A frame of readings is sent so often, us.
const FRAME_US: f64 = 160_000.0;
/// Readings are taken so often, us.
const READING_US: f64 = 10_000.0;

/// Numbers by chance from a seed.
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// From 0 to 1.
    pub(crate) fn part(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ z >> 31) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Exponential with this mean.
    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.part()).ln()
    }
}

/// How a device's clock runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Oscillator {
    /// Always off by so much.
    pub(crate) ppm: f64,
    /// Swings by so much more, each so many seconds.
    pub(crate) swing_ppm: f64,
    pub(crate) swing_s: f64,
    /// Walks at random by so much in the root of a second.
    pub(crate) walk_ppm: f64,
}

/// What holds bytes up on one way of a line.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Delay {
    /// A pty: a moment, some more by chance, and now and then a busy scheduler.
    Pty,
    /// An FTDI chip's latency timer: bytes wait for its next tick.
    Timer { period_us: f64 },
    /// A pty, and always so much more.
    Longer { us: f64 },
}

impl Delay {
    fn us(self, chance: &mut Chance, at: f64) -> f64 {
        let busy = if chance.part() < 0.01 { 4_000.0 } else { 0.0 };
        let pty = 10.0 + chance.exponential(25.0) + busy * chance.part();
        match self {
            Self::Pty => pty,
            Self::Longer { us } => pty + us,
            Self::Timer { period_us } => {
                let there = at + pty;
                pty + period_us - there % period_us
            }
        }
    }
}

/// Device, line and time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene {
    pub(crate) oscillator: Oscillator,
    pub(crate) to_device: Delay,
    pub(crate) to_gateway: Delay,
    pub(crate) baud: Option<u32>,
    pub(crate) seconds: f64,
    /// Readings that wait in the ring when the session opens, s.
    pub(crate) waiting_s: f64,
    pub(crate) seed: u64,
}

/// Errors in us, and how many of them the stated uncertainty covers.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    errors: Vec<f64>,
    uncertainties: Vec<f64>,
    covered: usize,
    pub(crate) ascends: bool,
}

impl Errors {
    fn note(&mut self, error: f64, uncertainty: u32) {
        self.covered += usize::from(error <= f64::from(uncertainty));
        self.errors.push(error);
        self.uncertainties.push(f64::from(uncertainty));
    }

    pub(crate) fn part_covered(&self) -> f64 {
        self.covered as f64 / self.errors.len().max(1) as f64
    }

    pub(crate) fn error(&mut self, part: f64) -> f64 {
        quantile(&mut self.errors, part)
    }

    pub(crate) fn uncertainty(&mut self, part: f64) -> f64 {
        quantile(&mut self.uncertainties, part)
    }
}

fn quantile(figures: &mut [f64], part: f64) -> f64 {
    figures.sort_by(f64::total_cmp);
    let last = figures.len().saturating_sub(1);
    figures
        .get((last as f64 * part) as usize)
        .copied()
        .unwrap_or(f64::NAN)
}

struct World {
    scene: Scene,
    chance: Chance,
    clock: DeviceClock,
    /// True time, and the device's, us since the start.
    now: f64,
    tick: f64,
    walked_ppm: f64,
    errors: Errors,
    /// Readings not sent yet: tick and true time.
    waiting: Vec<(Tick, f64)>,
    last: i64,
}

/// Runs a scene to its end.
pub(crate) fn run(scene: Scene) -> Errors {
    let mut world = World {
        scene,
        chance: Chance::new(scene.seed),
        clock: DeviceClock::new(scene.baud.map(Baud)),
        now: 0.0,
        // The device has run for a minute and what waits.
        tick: 60e6 + scene.waiting_s * 1e6,
        walked_ppm: 0.0,
        errors: Errors {
            ascends: true,
            ..Errors::default()
        },
        waiting: Vec::new(),
        last: i64::MIN,
    };
    world.run();
    world.errors
}

impl World {
    fn run(&mut self) {
        let end = (self.scene.seconds + self.scene.waiting_s) * 1e6;
        let mut probe = self.scene.waiting_s * 1e6;
        let mut frame = probe + 1e6;
        let mut probes = 0_u32;
        while self.now < end {
            if probe < frame {
                self.advance(probe);
                self.probe();
                probes += 1;
                probe += if probes < FIRST_PROBES {
                    FAST_US
                } else {
                    PROBE_PAUSE_US as f64
                };
            } else {
                self.advance(frame);
                self.hear_frame();
                frame += FRAME_US;
            }
        }
    }

    /// Lets true time go on, and with it the device's clock and its readings.
    fn advance(&mut self, to: f64) {
        while self.now < to {
            let step = (to - self.now).min(READING_US - self.now % READING_US);
            let Oscillator {
                ppm,
                swing_ppm,
                swing_s,
                walk_ppm,
            } = self.scene.oscillator;
            let seconds = step / 1e6;
            let kick = walk_ppm * (3.0 * seconds).sqrt() * (2.0 * self.chance.part() - 1.0);
            self.walked_ppm += kick;
            let turn = std::f64::consts::TAU * self.now / 1e6 / swing_s;
            let fast = ppm + swing_ppm * turn.sin() + self.walked_ppm;
            self.now += step;
            self.tick += step * (1.0 + fast / 1e6);
            if self.now % READING_US < 1e-3 {
                self.waiting.push((Tick(self.tick as u64), self.now));
            }
        }
    }

    fn wire_us(&self, bytes: usize) -> f64 {
        self.scene
            .baud
            .map_or(0.0, |baud| bytes as f64 * 1e7 / f64::from(baud))
    }

    fn mono(&self) -> Mono {
        Mono(START_MONO + self.now as u64)
    }

    fn probe(&mut self) {
        let id = self.clock.probe(self.mono());
        let id_bytes = len_u64(u64::from(id));
        let asked = self.wire_us(LINE_BYTES + id_bytes);
        let out = self.scene.to_device.us(&mut self.chance, self.now) + asked;
        self.advance(self.now + out);
        let received = Tick(self.tick as u64);
        let held = self.chance.exponential(150.0);
        self.advance(self.now + held);
        let sent = Tick(self.tick as u64);
        let bytes = LINE_BYTES + id_bytes + len_u64(received.0) + len_u64(sent.0);
        let back = self.scene.to_gateway.us(&mut self.chance, self.now) + self.wire_us(bytes);
        self.advance(self.now + back);
        self.clock.reply(id, received, sent, self.mono());
    }

    fn hear_frame(&mut self) {
        let mono = self.mono();
        let utc = EventTime(START_UTC + (mono.0 - START_MONO) as i64);
        for (tick, truth) in std::mem::take(&mut self.waiting) {
            let Some((time, uncertainty)) = self.clock.map(tick, Now { mono, utc }) else {
                self.errors.ascends = false;
                continue;
            };
            self.errors.ascends &= time.0 > self.last;
            self.last = time.0;
            let error = (time.0 - START_UTC) as f64 - truth;
            self.errors.note(error.abs(), uncertainty);
        }
    }
}
