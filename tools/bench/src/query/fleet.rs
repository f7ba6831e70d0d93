//! Many devices in one thread: the real firmware library, each behind a TCP port of its
//! own. Each samples all its channels at once, at a phase of its own. They stand for other
//! computers, so on this one they come behind what is measured: a device has its ring, and
//! what comes late by it is not lost.
//!
//! Bound: the firmware's ring per device; what a gateway does not take in time becomes gaps,
//! which are counted.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay_firmware::wire::ids::{BootId, ChannelNo, DeviceUid, Tick};
use forebay_firmware::wire::limits::LINE_BYTES_MAX;
use forebay_firmware::wire::message::ResetCause;
use forebay_firmware::{ChannelSpec, Device, DeviceConfig, LineBuffer};

use super::limits::{CHANNELS, FLEET_NICE, PATIENCE};
use super::load;

const RING: usize = 1_024;
/// A reading waits at most this long for others to share its frame.
const LINGER_US: u32 = 20_000;
/// All devices have their turn once in this time.
const TURN: Duration = Duration::from_millis(5);
const LINES_PER_TURN_MAX: usize = 16;
/// First uid; the others count up.
const UID_FIRST: u64 = 0xbe7c_4000_0000_0000;

/// The uid of a device as it is asked for.
pub(super) fn uid(device: usize) -> String {
    format!("{:016x}", UID_FIRST + device as u64)
}

/// The name of a channel.
pub(super) fn channel(number: usize) -> &'static str {
    NAMES[number]
}

const NAMES: [&str; CHANNELS] = [
    "t00", "t01", "t02", "t03", "t04", "t05", "t06", "t07", "t08", "t09", "t10", "t11", "t12",
    "t13", "t14", "t15", "t16", "t17", "t18", "t19", "t20", "t21", "t22", "t23", "t24", "t25",
    "t26", "t27", "t28", "t29", "t30", "t31",
];

/// What all devices have done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) open: u64,
    pub(super) produced: u64,
    pub(super) acked: u64,
    pub(super) lost: u64,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    sums: [AtomicU64; 4],
}

/// The devices; they end when dropped.
#[derive(Debug)]
pub(super) struct Fleet {
    addresses: Vec<SocketAddr>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Fleet {
    /// Boots so many devices with so many channels, each of which gives so many readings
    /// per second.
    pub(super) fn boot(devices: usize, channels: usize, hz: f64) -> Result<Self, String> {
        let shared = Arc::new(Shared::default());
        let boards: Vec<Board> = (0..devices)
            .map(|number| Board::new((number, devices), &NAMES[..channels], hz))
            .collect::<Result<_, _>>()?;
        let address = |board: &Board| board.listener.local_addr();
        let addresses: Result<_, _> = boards.iter().map(address).collect();
        let told = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("fleet".into());
        let thread = thread.spawn(move || run(boards, &told));
        Ok(Self {
            addresses: addresses.map_err(|error: std::io::Error| error.to_string())?,
            shared,
            thread: Some(thread.map_err(|error| error.to_string())?),
        })
    }

    /// Waits until a gateway answers all of them.
    pub(super) fn wait_until_open(&self) -> Result<(), String> {
        let (started, all) = (Instant::now(), self.addresses.len() as u64);
        while self.sums().open < all {
            if started.elapsed() > PATIENCE {
                return Err(format!(
                    "{} of {all} devices are answered",
                    self.sums().open
                ));
            }
            std::thread::sleep(TURN);
        }
        Ok(())
    }

    /// `[[device_port]]` tables of all of them.
    pub(super) fn ports(&self) -> String {
        let port = |address: &SocketAddr| {
            format!("[[device_port]]\nkind = \"tcp\"\naddress = \"{address}\"\n\n")
        };
        self.addresses.iter().map(port).collect()
    }

    pub(super) fn sums(&self) -> Sums {
        let [open, produced, acked, lost] = &self.shared.sums;
        Sums {
            open: open.load(Relaxed),
            produced: produced.load(Relaxed),
            acked: acked.load(Relaxed),
            lost: lost.load(Relaxed),
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // It says by a panic what it has to say.
            let _ = thread.join();
        }
    }
}

fn run(mut boards: Vec<Board>, shared: &Shared) {
    load::be_nice(FLEET_NICE);
    let started = Instant::now();
    let mut turn = started;
    while !shared.stop.load(Relaxed) {
        let mut sums = Sums::default();
        for board in &mut boards {
            board.turn(started);
            let stats = board.device.stats();
            sums.open += u64::from(board.device.is_open());
            sums.produced += stats.produced;
            sums.acked += stats.acked;
            sums.lost += stats.gaps.iter().sum::<u64>();
        }
        let told = [sums.open, sums.produced, sums.acked, sums.lost];
        for (cell, sum) in shared.sums.iter().zip(told) {
            cell.store(sum, Relaxed);
        }
        turn = (turn + TURN).max(Instant::now());
        std::thread::sleep(turn.saturating_duration_since(Instant::now()));
    }
}

/// One device behind its port.
struct Board {
    device: Box<Device<RING, CHANNELS>>,
    listener: TcpListener,
    line: Option<TcpStream>,
    /// What the line did not take yet.
    pending: Vec<u8>,
    channels: usize,
    due_us: u64,
    period_us: u64,
    count: i32,
}

impl Board {
    fn new(
        (number, devices): (usize, usize),
        names: &[&'static str],
        hz: f64,
    ) -> Result<Self, String> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        listener
            .set_nonblocking(true)
            .map_err(|error| error.to_string())?;
        let period_us = (1e6 / hz) as u64;
        let config = DeviceConfig {
            uid: DeviceUid((UID_FIRST + number as u64).to_be_bytes()),
            boot: BootId(1),
            firmware_version: [0; 3],
            build_id: [0; 8],
            reset_cause: ResetCause::PowerOn,
            tick_hz: 1_000_000,
            linger_us: LINGER_US,
        };
        let spec = |quantity: &&'static str| ChannelSpec {
            quantity,
            unit: "degC",
            scale: 2,
            range: (-10_000, 10_000),
            period_us: period_us as u32,
        };
        let channels: Vec<ChannelSpec> = names.iter().map(spec).collect();
        let mut device = Box::new(Device::unstarted());
        let started = device.start(config, &channels);
        started.map_err(|error| error.to_string())?;
        Ok(Self {
            device,
            listener,
            line: None,
            pending: Vec::new(),
            channels: names.len(),
            due_us: period_us * number as u64 / devices as u64,
            period_us,
            count: number as i32,
        })
    }

    fn turn(&mut self, started: Instant) {
        if self.line.is_none() {
            self.line = self.listener.accept().ok().map(|(line, _)| line);
            if let Some(line) = &self.line {
                // Without these it would only be slower.
                let _ = line.set_nonblocking(true).and(line.set_nodelay(true));
            }
        }
        let tick = Tick(started.elapsed().as_micros() as u64);
        self.sample(tick);
        let done = self.receive(started).and_then(|()| self.send(started));
        if done.is_err() {
            (self.line, self.pending) = (None, Vec::new());
        }
    }

    /// What is due, each at its time, as a timer's interrupt would take it.
    fn sample(&mut self, now: Tick) {
        while self.due_us <= now.0 {
            // Before a gateway answers the ring would only overflow.
            if self.device.is_open() {
                self.count += 1;
                for number in 0..self.channels {
                    let value = 2_150 + (self.count + 7 * number as i32) % 97;
                    let channel = ChannelNo(number as u8);
                    let tick = Tick(self.due_us + 20 * number as u64);
                    let taken = self.device.on_sample(channel, tick, Ok(value));
                    taken.expect("all channels are there");
                }
            }
            self.due_us += self.period_us;
        }
    }

    fn receive(&mut self, started: Instant) -> std::io::Result<()> {
        let Some(line) = &mut self.line else {
            return Ok(());
        };
        let mut bytes = [0; 1_024];
        match line.read(&mut bytes) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                let tick = Tick(started.elapsed().as_micros() as u64);
                self.device.on_rx(&bytes[..count], tick);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn send(&mut self, started: Instant) -> std::io::Result<()> {
        let Some(line) = &mut self.line else {
            return Ok(());
        };
        for _ in 0..LINES_PER_TURN_MAX {
            if self.pending.is_empty() {
                let mut buffer: LineBuffer = [0; LINE_BYTES_MAX];
                let tick = Tick(started.elapsed().as_micros() as u64);
                let count = self.device.poll_tx(tick, &mut buffer);
                self.pending.extend_from_slice(&buffer[..count]);
            }
            if self.pending.is_empty() {
                return Ok(());
            }
            match line.write(&self.pending) {
                Ok(count) => drop(self.pending.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
