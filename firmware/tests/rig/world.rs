//! A device, a serial line that takes time and damages frames, and a gateway with
//! a disk, in one seeded simulation: the same seed is the same run.

use std::collections::{BTreeMap, VecDeque};

use forebay_firmware::wire::ids::{BootId, ChannelNo, Tick};
use forebay_firmware::wire::limits::LINE_BYTES_MAX;
use forebay_firmware::wire::message::GapReason;
use forebay_firmware::{Accounts, Device, DeviceConfig};

use super::gateway::{Gateway, Taken};
use super::{CONFIG, channels};

/// SplitMix64: enough for choosing faults.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    pub fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Time of a byte on the line, ns.
    pub byte_ns: u64,
    /// Of 1,000 lines, so many are damaged on their way, in each direction.
    pub damaged_per_mille: u64,
    pub sample_period_us: u64,
    /// From the first reading to its fsync.
    pub commit_us: u64,
    /// A USB bridge hands on what came from the device only each so many us; 0: at once.
    pub latency_timer_us: u64,
}

/// One direction of the line: lines with the time at which their last byte arrives.
#[derive(Debug, Default)]
struct Wire {
    free_at: u64,
    lines: VecDeque<(u64, Vec<u8>)>,
}

/// How long a line of so many bytes takes.
fn line_us(bytes: usize, byte_ns: u64) -> u64 {
    (bytes as u64 * byte_ns).div_ceil(1_000)
}

impl Wire {
    fn send(&mut self, now: u64, bytes: Vec<u8>, byte_ns: u64) {
        self.free_at = self.free_at.max(now) + line_us(bytes.len(), byte_ns);
        self.lines.push_back((self.free_at, bytes));
    }

    fn arrived(&mut self, now: u64) -> Option<Vec<u8>> {
        if self.lines.front()?.0 > now {
            return None;
        }
        self.lines.pop_front().map(|(_, bytes)| bytes)
    }

    fn deadline(&self) -> Option<u64> {
        self.lines.front().map(|(at, _)| *at)
    }
}

pub struct World<const N: usize> {
    pub plan: Plan,
    pub random: Random,
    pub device: Device<N>,
    pub gateway: Gateway,
    pub now: u64,
    /// Nothing gets through in either direction while true.
    pub unplugged: bool,
    pub sampling: bool,
    /// The line gives the device back what it says.
    pub echoes: bool,
    /// When each of the gateway's `healths` came.
    pub healths_at: Vec<u64>,
    /// Ordinals given out, by boot.
    pub produced: BTreeMap<BootId, u64>,
    /// How far in the world's time the device's clock started.
    boot_at: u64,
    next_sample: u64,
    commit_at: Option<u64>,
    up: Wire,
    down: Wire,
}

/// The value of reading `ordinal` of `boot`: one taken for another is seen. As
/// large as common sensors have them, two bytes on the line.
fn value(boot: BootId, ordinal: u64) -> i32 {
    Random(u64::from(boot.0) << 40 ^ ordinal).below(8_000) as i32
}

impl<const N: usize> World<N> {
    pub fn new(seed: u64, plan: Plan) -> Self {
        World {
            plan,
            random: Random(seed),
            device: Device::new(CONFIG, &channels()).unwrap(),
            gateway: Gateway::default(),
            now: 0,
            unplugged: false,
            sampling: true,
            echoes: false,
            healths_at: Vec::new(),
            produced: BTreeMap::new(),
            boot_at: 0,
            next_sample: 0,
            commit_at: None,
            up: Wire::default(),
            down: Wire::default(),
        }
    }

    fn tick(&self) -> Tick {
        Tick(self.now - self.boot_at)
    }

    /// A reset in the middle of everything: the backlog is gone, the accounts are
    /// kept in memory that a reset leaves alone, and what stands on the line is cut.
    pub fn reboot_device(&mut self) {
        let boot = BootId(self.device.boot().0 + 1);
        let kept = self.device.accounts().to_bytes();
        self.device = Device::new(DeviceConfig { boot, ..CONFIG }, &channels()).unwrap();
        self.device.remember(&Accounts::from_bytes(&kept).unwrap());
        self.boot_at = self.now;
        self.next_sample = self.now;
        if let Some((_, bytes)) = self.up.lines.back_mut() {
            let keep = self.random.below(bytes.len() as u64 + 1) as usize;
            bytes.truncate(keep);
        }
    }

    pub fn lose_samples(&mut self, reason: GapReason, count: u32) {
        let tick = self.tick();
        self.device.on_lost(reason, count, tick);
        self.note_produced();
    }

    fn note_produced(&mut self) {
        self.produced
            .insert(self.device.boot(), self.device.stats().produced);
        assert!(self.device.stats().closes(), "{:?}", self.device.stats());
    }

    fn sample(&mut self) {
        let stats = self.device.stats();
        let value = value(self.device.boot(), stats.produced);
        self.device
            .on_sample(ChannelNo(0), self.tick(), Ok(value))
            .unwrap();
        self.note_produced();
    }

    fn damage(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        if self.unplugged || bytes.is_empty() {
            return Vec::new();
        }
        if !self.random.chance(self.plan.damaged_per_mille) {
            return bytes;
        }
        let at = self.random.below(bytes.len() as u64) as usize;
        match self.random.below(4) {
            0 => bytes[at] ^= 1 << self.random.below(8),
            1 => {
                bytes.remove(at);
            }
            2 => bytes.insert(at, self.random.below(256) as u8),
            _ => bytes.clear(),
        }
        bytes
    }

    /// Does everything that is due now.
    fn settle(&mut self) {
        while self.sampling && self.next_sample <= self.now {
            self.sample();
            self.next_sample += self.plan.sample_period_us;
        }
        while let Some(bytes) = self.up.arrived(self.now) {
            for reply in self.gateway.take(&bytes) {
                self.reply(reply);
            }
            self.healths_at.resize(self.gateway.healths.len(), self.now);
            if self.echoes {
                let tick = self.tick();
                self.device.on_rx(&bytes, tick);
            }
            self.commit_at.get_or_insert(self.now + self.plan.commit_us);
        }
        if self.commit_at.is_some_and(|at| at <= self.now) {
            self.commit_at = None;
            for ack in self.gateway.commit() {
                self.reply(ack);
            }
        }
        while let Some(bytes) = self.down.arrived(self.now) {
            let tick = self.tick();
            self.device.on_rx(&bytes, tick);
        }
        let mut line = [0u8; LINE_BYTES_MAX];
        while self.up.free_at <= self.now {
            let tick = self.tick();
            let bytes = self.device.poll_tx(tick, &mut line);
            if bytes == 0 {
                break;
            }
            let damaged = self.damage(line[..bytes].to_vec());
            // A cut line takes as long as a whole one.
            self.up.free_at = self.now + line_us(bytes, self.plan.byte_ns);
            let timer_us = self.plan.latency_timer_us.max(1);
            let arrives = self.up.free_at.next_multiple_of(timer_us);
            self.up.lines.push_back((arrives, damaged));
        }
        assert!(self.device.stats().closes(), "{:?}", self.device.stats());
    }

    pub fn reply(&mut self, bytes: Vec<u8>) {
        let bytes = self.damage(bytes);
        self.down.send(self.now, bytes, self.plan.byte_ns);
    }

    /// When something happens next.
    fn deadline(&self) -> u64 {
        let device = self
            .device
            .next_deadline(self.tick())
            .map(|at| at.0 + self.boot_at);
        let device = device.map(|at| at.max(self.up.free_at));
        let sample = self.sampling.then_some(self.next_sample);
        let times = [
            device,
            sample,
            self.up.deadline(),
            self.down.deadline(),
            self.commit_at,
        ];
        times
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(u64::MAX)
            .max(self.now + 1)
    }

    pub fn run_for(&mut self, span_us: u64) {
        let end = self.now + span_us;
        self.settle();
        while self.deadline() <= end {
            self.now = self.deadline();
            self.settle();
        }
        self.now = end;
    }

    /// Heals the line, stops sampling and waits until the device has nothing left.
    pub fn drain(&mut self) {
        (self.sampling, self.unplugged, self.plan.damaged_per_mille) = (false, false, 0);
        let produced = self.device.stats().produced;
        let end = self.now + 300_000_000;
        while self.gateway.durable_of(self.device.boot()) < produced || self.owes() {
            assert!(self.now < end, "does not drain: {:?}", self.device.stats());
            self.run_for(100_000);
        }
        // The last ack may have been lost before the line healed: it comes again at
        // the latest after silence and a Hello.
        self.run_for(10_000_000);
    }

    /// Whether an earlier boot is not settled yet.
    fn owes(&self) -> bool {
        self.device.accounts().len() > 1
    }

    /// Of every boot the gateway has every ordinal, as what the device produced or as
    /// a gap.
    pub fn check(&self) {
        for (&boot, &produced) in &self.produced {
            let have = self.gateway.durable.range((boot, 0)..=(boot, u64::MAX));
            let mut count = 0;
            for ((_, ordinal), taken) in have {
                assert_eq!(*ordinal, count, "a hole in boot {}", boot.0);
                if let Taken::Reading(reading) = taken {
                    assert_eq!(
                        reading.value,
                        value(boot, *ordinal),
                        "boot {} ordinal {ordinal}",
                        boot.0
                    );
                }
                count += 1;
            }
            assert_eq!(count, produced, "boot {}", boot.0);
        }
    }

    /// Readings of `boot` that the gateway has.
    pub fn readings(&self, boot: BootId) -> u64 {
        let have = self.gateway.durable.range((boot, 0)..=(boot, u64::MAX));
        have.filter(|(_, taken)| matches!(taken, Taken::Reading(_)))
            .count() as u64
    }
}
