//! A device of the world: the real firmware library with made-up sensors and a
//! clock of its own, and what it has produced, for the model.

use forebay_firmware::sampler::Sampler;
use forebay_firmware::sensor::ChannelSpec;
use forebay_firmware::{Account, Action, Device, DeviceConfig, Stats};
use forebay_wire::ids::{BootId, DeviceUid, Tick};
use forebay_wire::limits::LINE_BYTES_MAX;
use forebay_wire::message::{Quality, ResetCause};

use super::dice::Dice;
use super::line::{Line, LineFaults};

/// Readings that the ring holds: small, so that outages overflow it.
const RING: usize = 64;
const CHANNELS: [ChannelSpec; 2] = [
    ChannelSpec {
        quantity: "temperature",
        unit: "degC",
        scale: 2,
        range: (-4000, 12_500),
        period_us: 50_000,
    },
    ChannelSpec {
        quantity: "pressure",
        unit: "hPa",
        scale: 1,
        range: (3000, 11_000),
        period_us: 170_000,
    },
];

/// What one boot of a device has produced.
#[derive(Debug)]
pub struct Boot {
    pub id: u32,
    /// Why it began.
    pub cause: ResetCause,
    /// Ordinals given out.
    pub produced: u64,
    /// Figures by ordinal; `None` for a sensor fault.
    pub values: Vec<Option<f64>>,
}

/// One simulated device, with a ring of so many readings.
#[derive(Debug)]
pub struct WorldDevice<const READINGS: usize = RING> {
    uid: u64,
    boot: u32,
    cause: ResetCause,
    /// World time of the boot, us.
    booted: u64,
    /// The device's clock runs so many parts in a million fast.
    drift_ppm: i64,
    device: Device<READINGS>,
    channels: &'static [ChannelSpec],
    sampler: Sampler<2>,
    sampling: bool,
    /// Of its sensors alone: what they read does not depend on what else happens.
    senses: Dice,
    /// Of what it writes into its log, for the same reason.
    chatter: Dice,
    /// Boots that are over.
    pub boots: Vec<Boot>,
    values: Vec<Option<f64>>,
    /// Times that it was asked to show which one it is.
    pub identified: u32,
    logged: u8,
    pub up: Line,
    pub down: Line,
}

/// Chance of a line in the log per run of the main loop, in a million.
const LOGS: u64 = 10_000;

impl WorldDevice {
    /// A device with the channels of every world.
    #[must_use]
    pub fn new(uid: u64, now: u64, dice: &mut Dice) -> Self {
        Self::with(uid, now, &CHANNELS, dice)
    }
}

impl<const READINGS: usize> WorldDevice<READINGS> {
    /// A device with these channels, at most two.
    #[must_use]
    pub fn with(uid: u64, now: u64, channels: &'static [ChannelSpec], dice: &mut Dice) -> Self {
        let drift_ppm = dice.below(101) as i64 - 50;
        Self {
            uid,
            boot: 1,
            cause: ResetCause::PowerOn,
            booted: now,
            drift_ppm,
            device: booted(uid, 1, ResetCause::PowerOn, channels),
            channels,
            sampler: Sampler::new(channels, Tick(0)),
            sampling: true,
            senses: Dice::new(dice.below(u64::MAX)),
            chatter: Dice::new(dice.below(u64::MAX)),
            boots: Vec::new(),
            values: Vec::new(),
            identified: 0,
            logged: 0,
            up: Line::default(),
            down: Line::default(),
        }
    }

    fn tick(&self, now: u64) -> Tick {
        let since = (now - self.booted) as i64;
        Tick((since + since * self.drift_ppm / 1_000_000) as u64)
    }

    fn time_of(&self, tick: Tick) -> u64 {
        let ticks = tick.0 as i64;
        let since = ticks - ticks * self.drift_ppm / 1_000_000;
        self.booted + since.max(0) as u64 + 1
    }

    /// When the device wants to run, us.
    #[must_use]
    pub fn next(&self, now: u64) -> Option<u64> {
        let sample = self.sampler.next_deadline().filter(|_| self.sampling);
        let send = self.device.next_deadline(self.tick(now));
        let own = sample.into_iter().chain(send).min();
        let own = own.map(|tick| self.time_of(tick).max(now));
        own.into_iter().chain(self.down.next()).min()
    }

    /// Runs the main loop once.
    pub fn step(&mut self, now: u64, faults: LineFaults, dice: &mut Dice) {
        let tick = self.tick(now);
        while let Some(bytes) = self.down.receive(now) {
            self.device.on_rx(&bytes, tick);
        }
        self.sampler.follow(&mut self.device, tick);
        while self.sampling
            && let Some(channel) = self.sampler.poll(tick)
        {
            let value = sample(channel.0, tick, &mut self.senses);
            let spec = self.channels[usize::from(channel.0)];
            let power = 10_f64.powi(i32::from(spec.scale));
            let taken = self.device.on_sample(channel, tick, value);
            let ordinal = taken.expect("the channel is one of ours");
            if ordinal.is_some() {
                let figure = value.ok().map(|raw| f64::from(raw) / power);
                self.values.push(figure);
            }
        }
        if self.chatter.hit(LOGS) {
            self.logged = self.logged.wrapping_add(1);
            self.device.on_log(&log_frame(self.uid, self.logged));
        }
        let mut line = [0; LINE_BYTES_MAX];
        loop {
            let len = self.device.poll_tx(tick, &mut line);
            if len == 0 {
                break;
            }
            self.up.send(now, line[..len].to_vec(), faults, dice);
        }
        while let Some(action) = self.device.take_action() {
            match action {
                Action::Identify { .. } => self.identified += 1,
                // Its answer has left already.
                Action::Reboot => return self.boot_anew(now, ResetCause::Software),
            }
        }
    }

    /// Resets the device: what its ring held is gone, and the next boot says so.
    pub fn reset(&mut self, now: u64) {
        self.up.clear();
        self.boot_anew(now, ResetCause::Watchdog);
    }

    fn boot_anew(&mut self, now: u64, cause: ResetCause) {
        self.close_boot();
        let accounts = self.device.accounts();
        (self.boot, self.cause) = (self.boot + 1, cause);
        self.booted = now;
        self.device = booted(self.uid, self.boot, cause, self.channels);
        self.device.remember(&accounts);
        self.sampler = Sampler::new(self.channels, Tick(0));
        self.down.clear();
    }

    /// Takes no more samples; what is in the ring still goes out.
    pub fn stop_sampling(&mut self) {
        self.sampling = false;
    }

    /// Notes what this boot has produced.
    pub fn close_boot(&mut self) {
        let stats = self.device.stats();
        assert!(stats.closes(), "the device's sums close: {stats:?}");
        self.boots.push(Boot {
            id: self.device.boot().0,
            cause: self.cause,
            produced: stats.produced,
            values: std::mem::take(&mut self.values),
        });
    }

    #[must_use]
    pub fn uid(&self) -> u64 {
        self.uid
    }

    /// What it counts in the boot that it is in.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.device.stats()
    }

    /// Whether the gateway has everything that was produced, or knows that it is lost.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let accounts = self.device.accounts();
        accounts.iter().all(Account::is_settled)
    }
}

/// What a device says in its log: it can be told from what another one says.
#[must_use]
pub fn log_frame(uid: u64, nth: u8) -> [u8; 3] {
    [uid as u8, nth, uid as u8 ^ nth]
}

fn booted<const READINGS: usize>(
    uid: u64,
    boot: u32,
    reset_cause: ResetCause,
    channels: &[ChannelSpec],
) -> Device<READINGS> {
    let config = DeviceConfig {
        uid: DeviceUid(uid.to_be_bytes()),
        boot: BootId(boot),
        firmware_version: [0, 1, 0],
        build_id: [0; 8],
        reset_cause,
        tick_hz: 1_000_000,
        linger_us: 100_000,
    };
    Device::new(config, channels).expect("the channels are in their ranges")
}

fn sample(channel: u8, tick: Tick, dice: &mut Dice) -> Result<i32, Quality> {
    if dice.hit(20_000) {
        return Err(Quality::BusError);
    }
    let slow = (tick.0 / 100_000 % 500) as i32;
    let noise = dice.below(7) as i32;
    Ok(if channel == 0 {
        2000 + slow + noise
    } else {
        10_132 + noise
    })
}
