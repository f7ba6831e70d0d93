//! One device at any rate on a line at its rate: the real firmware library in a thread of
//! its own, as a board's main loop runs it, with a UART that lets a byte through every ten
//! bits' time and spoils some frames, both ways, by chance from a seed.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use forebay_firmware::wire::ids::{BootId, ChannelNo, DeviceUid, Tick};
use forebay_firmware::wire::limits::LINE_BYTES_MAX;
use forebay_firmware::wire::message::ResetCause;
use forebay_firmware::{ChannelSpec, Device, DeviceConfig, LineBuffer, Stats};

use super::clock::Chance;

/// 32 KiB, as on a small board.
const RING: usize = 2_730;
const CHANNELS: usize = 2;
/// A reading waits at most this long for others to share its frame.
const LINGER_US: u32 = 20_000;
/// What the loop sleeps when nothing is due: two bytes' time at the faster rate.
const NAP: Duration = Duration::from_micros(50);
/// A line that the loop came late to goes on as if it had not, up to this.
const CATCH_UP: Duration = Duration::from_millis(2);

/// How it measures, and its line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting {
    pub(super) readings_per_s: f64,
    pub(super) baud: u32,
    /// Chance of a frame to be spoiled.
    pub(super) loss: f64,
}

/// What the thread tells, and is told.
#[derive(Debug, Default)]
struct Shared {
    stats: Mutex<(Stats, bool)>,
    stop_sampling: AtomicBool,
    stop: AtomicBool,
}

/// The device; it ends when dropped.
#[derive(Debug)]
pub(super) struct Board {
    shared: Arc<Shared>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Board {
    /// Boots it on a line to an agent.
    pub(super) fn boot(setting: Setting, line: TcpStream) -> Result<Self, String> {
        line.set_nonblocking(true).map_err(|e| e.to_string())?;
        line.set_nodelay(true).map_err(|e| e.to_string())?;
        let shared = Arc::new(Shared::default());
        let run = Loop::new(setting, line, Arc::clone(&shared))?;
        let thread = std::thread::Builder::new().name("board".into());
        let thread = thread.spawn(|| run.run()).map_err(|e| e.to_string())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Its counters, and whether a gateway answers.
    pub(super) fn stats(&self) -> (Stats, bool) {
        *self
            .shared
            .stats
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// No new readings; what it holds still goes out.
    pub(super) fn stop_sampling(&self) {
        self.shared.stop_sampling.store(true, Ordering::Relaxed);
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It says by a panic what it has to say.
            let _ = thread.join();
        }
    }
}

struct Loop {
    device: Box<Device<RING, CHANNELS>>,
    line: TcpStream,
    shared: Arc<Shared>,
    started: Instant,
    period: Duration,
    sampled: u32,
    out: Wire,
    into: Wire,
}

impl Loop {
    fn new(setting: Setting, line: TcpStream, shared: Arc<Shared>) -> Result<Self, String> {
        let channel = |quantity| ChannelSpec {
            quantity,
            unit: "degC",
            scale: 2,
            range: (-10_000, 10_000),
            period_us: (2e6 / setting.readings_per_s) as u32,
        };
        let config = DeviceConfig {
            uid: DeviceUid(*b"paced\0\0\0"),
            boot: BootId(setting.baud),
            firmware_version: [0; 3],
            build_id: [0; 8],
            reset_cause: ResetCause::PowerOn,
            tick_hz: 1_000_000,
            linger_us: LINGER_US,
        };
        let mut device = Box::new(Device::unstarted());
        let channels = [channel("inside"), channel("outside")];
        device
            .start(config, &channels)
            .map_err(|error| error.to_string())?;
        Ok(Self {
            device,
            line,
            shared,
            started: Instant::now(),
            period: Duration::from_secs_f64(1.0 / setting.readings_per_s),
            sampled: 0,
            out: Wire::new(setting, 1),
            into: Wire::new(setting, 2),
        })
    }

    fn run(mut self) {
        while !self.shared.stop.load(Ordering::Relaxed) {
            self.sample();
            let gone = self.receive().and_then(|()| self.send());
            let told = (self.device.stats(), self.device.is_open());
            *self
                .shared
                .stats
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = told;
            if gone.is_err() {
                return;
            }
            std::thread::sleep(NAP);
        }
    }

    fn tick(&self, at: Instant) -> Tick {
        Tick(at.duration_since(self.started).as_micros() as u64)
    }

    /// What is due, each at its time, as a timer's interrupt would take it.
    fn sample(&mut self) {
        let stops = self.shared.stop_sampling.load(Ordering::Relaxed);
        // Before a gateway answers the ring would only overflow.
        if stops || !self.device.is_open() {
            self.sampled =
                (self.started.elapsed().as_secs_f64() / self.period.as_secs_f64()) as u32;
            return;
        }
        let now = Instant::now();
        loop {
            let due = self.started + self.period * (self.sampled + 1);
            if due > now {
                return;
            }
            self.sampled += 1;
            let value = 2_150 + (self.sampled % 97) as i32;
            let channel = ChannelNo((self.sampled % 2) as u8);
            let taken = self.device.on_sample(channel, self.tick(due), Ok(value));
            taken.expect("both channels are there");
        }
    }

    fn receive(&mut self) -> std::io::Result<()> {
        let mut bytes = [0; 256];
        match self.line.read(&mut bytes) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => self.into.put(&bytes[..count], Instant::now()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        while let Some((bytes, at)) = self.into.take(Instant::now()) {
            let tick = self.tick(at);
            self.device.on_rx(&bytes, tick);
        }
        Ok(())
    }

    /// The next line once the one before has left.
    fn send(&mut self) -> std::io::Result<()> {
        loop {
            while let Some((bytes, _)) = self.out.take(Instant::now()) {
                // A full socket is a line that lost bytes.
                match self.line.write(&bytes) {
                    Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                    Ok(_) | Err(_) => {}
                }
            }
            let now = Instant::now();
            if !self.out.is_free(now) {
                return Ok(());
            }
            let mut line: LineBuffer = [0; LINE_BYTES_MAX];
            let tick = self.tick(now);
            let count = self.device.poll_tx(tick, &mut line);
            if count == 0 {
                return Ok(());
            }
            self.out.put(&line[..count], now);
        }
    }
}

/// One way of the line.
struct Wire {
    byte_time: Duration,
    loss: f64,
    chance: Chance,
    /// What is on it, with when its last byte comes out.
    on_way: VecDeque<(Vec<u8>, Instant)>,
    free_at: Instant,
    /// Bytes of the frame that passed.
    at: usize,
    spoils: bool,
}

impl Wire {
    fn new(setting: Setting, seed: u64) -> Self {
        Self {
            byte_time: Duration::from_secs(10) / setting.baud,
            loss: setting.loss,
            chance: Chance::new(seed),
            on_way: VecDeque::new(),
            free_at: Instant::now(),
            at: 0,
            spoils: false,
        }
    }

    fn is_free(&self, now: Instant) -> bool {
        self.free_at <= now
    }

    fn put(&mut self, bytes: &[u8], now: Instant) {
        let mut bytes = bytes.to_vec();
        bytes.iter_mut().for_each(|byte| self.spoil(byte));
        let time = self.byte_time * bytes.len() as u32;
        self.free_at = self.free_at.max(now - CATCH_UP) + time;
        self.on_way.push_back((bytes, self.free_at));
    }

    fn take(&mut self, now: Instant) -> Option<(Vec<u8>, Instant)> {
        let (_, at) = self.on_way.front()?;
        (*at <= now).then(|| self.on_way.pop_front())?
    }

    /// Spoils the fourth byte of some frames: any has so many.
    fn spoil(&mut self, byte: &mut u8) {
        if *byte == 0 {
            self.at = 0;
            return;
        }
        if self.at == 0 {
            self.spoils = self.chance.part() < self.loss;
        }
        if self.at == 3 && self.spoils {
            *byte ^= if *byte == 0x55 { 0x33 } else { 0x55 };
        }
        self.at += 1;
    }
}
