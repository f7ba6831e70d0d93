//! A device for the real agent: the firmware library behind a TCP port, on a thread
//! of its own. It keeps its power while agents come and go, and notes what they
//! acked. Its values are a function of their ordinals.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay_firmware::{ChannelSpec, Device, DeviceConfig, LineBuffer};
use forebay_wire::ids::{BootId, ChannelNo, DeviceUid, Tick};
use forebay_wire::limits::LINE_BYTES_MAX;
use forebay_wire::message::ResetCause;

pub(crate) const UID: DeviceUid = DeviceUid([0xf0, 0x2e, 0xba, 0x11, 0, 0, 0, 9]);
/// Readings that wait for an ack, at the most: nothing is overwritten in a test.
const RING: usize = 1 << 13;
/// No more is produced while this many wait.
const WAITING_MAX: u64 = 5_000;
/// Readings per turn.
const BURST: u64 = 60;
const CHANNELS: usize = 3;
const TURN: Duration = Duration::from_millis(4);
const LINGER_US: u32 = 5_000;

/// What became of its readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) boot: u32,
    pub(crate) produced: u64,
    /// Readings that an agent has acked: while none is lost, the first ordinals.
    pub(crate) acked: u64,
    /// Declared lost: a log was taken back to an older state.
    pub(crate) lost: u64,
    /// An agent is connected.
    pub(crate) connected: bool,
}

/// The value of a reading, scaled by ten.
pub(crate) fn value(ordinal: u64) -> i32 {
    let mixed = ordinal.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    (mixed % 20_000) as i32 - 10_000
}

/// Dropping it ends its thread.
pub(crate) struct Scripted {
    pub(crate) addr: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Scripted {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let addr = listener.local_addr().unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::new(Mutex::new(Seen {
            boot: 1,
            produced: 0,
            acked: 0,
            lost: 0,
            connected: false,
        }));
        let mut board = Board::new(listener, Arc::clone(&seen));
        let stop = Arc::clone(&ended);
        let thread = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                board.turn();
                std::thread::park_timeout(TURN);
            }
        });
        Self {
            addr,
            seen,
            ended,
            thread: Some(thread),
        }
    }

    pub(crate) fn seen(&self) -> Seen {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Board {
    listener: TcpListener,
    agent: Option<TcpStream>,
    firmware: Box<Device<RING>>,
    started: Instant,
    unsent: Vec<u8>,
    seen: Arc<Mutex<Seen>>,
}

impl Board {
    fn new(listener: TcpListener, seen: Arc<Mutex<Seen>>) -> Self {
        let config = DeviceConfig {
            uid: UID,
            boot: BootId(1),
            firmware_version: [0, 1, 0],
            build_id: [0; 8],
            reset_cause: ResetCause::PowerOn,
            tick_hz: 1_000_000,
            linger_us: LINGER_US,
        };
        let channels: [ChannelSpec; CHANNELS] = [
            ("temperature", "degC"),
            ("pressure", "hPa"),
            ("current", "A"),
        ]
        .map(|(quantity, unit)| ChannelSpec {
            quantity,
            unit,
            scale: 1,
            range: (-20_000, 20_000),
            period_us: 1_000,
        });
        let mut firmware = Box::new(Device::unstarted());
        firmware.start(config, &channels).unwrap();
        Self {
            listener,
            agent: None,
            firmware,
            started: Instant::now(),
            unsent: Vec::new(),
            seen,
        }
    }

    fn turn(&mut self) {
        let now = Tick(self.started.elapsed().as_micros() as u64);
        if let Ok((agent, _)) = self.listener.accept() {
            agent.set_nonblocking(true).unwrap();
            let _ = agent.set_nodelay(true);
            self.agent = Some(agent);
            self.unsent.clear();
        }
        self.receive(now);
        self.sample(now);
        self.transmit(now);
        let stats = self.firmware.stats();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = Seen {
            boot: self.firmware.boot().0,
            produced: stats.produced,
            acked: stats.acked,
            lost: stats.lost(),
            connected: self.agent.is_some(),
        };
    }

    fn receive(&mut self, now: Tick) {
        let mut chunk = [0; 4096];
        loop {
            let Some(agent) = &mut self.agent else {
                return;
            };
            match agent.read(&mut chunk) {
                Ok(count @ 1..) => self.firmware.on_rx(&chunk[..count], now),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Ok(0) | Err(_) => self.agent = None,
            }
        }
    }

    fn sample(&mut self, now: Tick) {
        let mut produced = self.firmware.stats();
        for _ in 0..BURST {
            if produced.waiting >= WAITING_MAX {
                return;
            }
            let channel = ChannelNo((produced.produced % CHANNELS as u64) as u8);
            let value = value(produced.produced);
            self.firmware.on_sample(channel, now, Ok(value)).unwrap();
            produced = self.firmware.stats();
        }
    }

    fn transmit(&mut self, now: Tick) {
        loop {
            if let Some(agent) = &mut self.agent {
                match agent.write(&self.unsent) {
                    Ok(count) => drop(self.unsent.drain(..count)),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(_) => self.agent = None,
                }
            } else {
                self.unsent.clear();
            }
            if !self.unsent.is_empty() {
                return;
            }
            let mut line: LineBuffer = [0; LINE_BYTES_MAX];
            let count = self.firmware.poll_tx(now, &mut line);
            if count == 0 {
                return;
            }
            self.unsent.extend_from_slice(&line[..count]);
        }
    }
}
