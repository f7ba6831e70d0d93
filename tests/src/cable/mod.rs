//! A bad cable between a real device or a simulated one and the real agent: flips,
//! drops and adds bytes, echoes, picks up noise, stalls, falls out and comes back as
//! another tty, is as slow as a UART, and delays like a USB bridge. QEMU does none
//! of that.
//!
//! Invariant: which byte is spoilt how is a function of the seed and of the bytes
//! that passed before, never of the time. Everything can be switched by the test
//! while bytes pass. The device's side stays connected while the gateway's is
//! unplugged, as a board on a battery does. Bound: see [`lane`]. Knows no frame.

mod end;
pub mod lane;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay_node::ports::{Waited, wait};
use forebay_node::sim::FaultRates;

pub use end::{DeviceEnd, GatewayEnd};
use lane::{Lane, LaneCounts};

/// Longest wait of the cable's thread: when a test's switch takes effect.
const WAIT_MAX: Duration = Duration::from_millis(2);
const READ_BYTES: usize = 1024;

/// Direction on the cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    ToGateway,
    ToDevice,
}

impl Way {
    pub const BOTH: [Way; 2] = [Way::ToGateway, Way::ToDevice];
}

#[derive(Debug)]
struct State {
    to_gateway: Lane,
    to_device: Lane,
    /// What the test wants, and what is so.
    want_plugged: bool,
    is_plugged: bool,
    replug_error: Option<String>,
    stopped: bool,
}

impl State {
    fn lane(&mut self, way: Way) -> &mut Lane {
        match way {
            Way::ToGateway => &mut self.to_gateway,
            Way::ToDevice => &mut self.to_device,
        }
    }
}

struct Shared {
    state: Mutex<State>,
    switched: Condvar,
}

/// A poisoned lock is a test that failed already: go on to its end.
fn lock(shared: &Shared) -> MutexGuard<'_, State> {
    shared.state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The cable. Dropping it unplugs both ends.
pub struct Cable {
    shared: Arc<Shared>,
    addr: Option<SocketAddr>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Cable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cable").field("addr", &self.addr).finish()
    }
}

impl Cable {
    /// Plugs both ends in; without faults until some are switched on.
    ///
    /// # Errors
    /// The device is not there, or there is no pty, link or port for the gateway.
    pub fn open(device: DeviceEnd, gateway: GatewayEnd, seed: u64) -> io::Result<Self> {
        let gateway = end::Gateway::open(gateway)?;
        let addr = gateway.addr();
        let carrier = Carrier {
            device: end::Device::open(device)?,
            gateway,
            leftover: [Vec::new(), Vec::new()],
            start: Instant::now(),
        };
        let state = State {
            to_gateway: Lane::new(seed),
            to_device: Lane::new(!seed),
            want_plugged: true,
            is_plugged: true,
            replug_error: None,
            stopped: false,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            switched: Condvar::new(),
        });
        let carried = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("cable".into())
            .spawn(move || carrier.run(&carried))?;
        Ok(Self {
            shared,
            addr,
            thread: Some(thread),
        })
    }

    /// Where gateways connect, at a [`GatewayEnd::Tcp`].
    #[must_use]
    pub fn addr(&self) -> Option<SocketAddr> {
        self.addr
    }

    /// Changes one direction, from the next byte on.
    pub fn set(&self, way: Way, change: impl FnOnce(&mut Lane)) {
        change(lock(&self.shared).lane(way));
    }

    /// Chances of faults per byte, both ways.
    pub fn rates(&self, rates: FaultRates) {
        for way in Way::BOTH {
            self.set(way, |lane| lane.set_rates(rates));
        }
    }

    /// Both ends at this rate, in bits per second; 0: as fast as can be.
    pub fn pace(&self, baud: u32) {
        for way in Way::BOTH {
            self.set(way, |lane| lane.set_baud(baud));
        }
    }

    /// The two ends run at different rates.
    pub fn garble(&self, garbled: bool) {
        for way in Way::BOTH {
            self.set(way, |lane| lane.set_garbled(garbled));
        }
    }

    /// Nothing passes, and both ends stay open.
    pub fn stall(&self, stalled: bool) {
        for way in Way::BOTH {
            self.set(way, |lane| lane.set_stalled(stalled));
        }
    }

    /// Puts bytes on the wire that nobody sent.
    pub fn inject(&self, way: Way, bytes: &[u8]) {
        // At time 0 they are through behind what is on the wire already.
        self.set(way, |lane| lane.put(bytes, 0));
    }

    /// Takes the gateway's end out; returns when it is out.
    pub fn unplug(&self) {
        self.switch(false);
    }

    /// Puts it in again, a pty as another one; returns when it is in.
    ///
    /// # Panics
    /// When there is no pty, link or port for it.
    pub fn plug_in(&self) {
        self.switch(true);
    }

    fn switch(&self, plugged: bool) {
        let mut state = lock(&self.shared);
        state.want_plugged = plugged;
        let wanted = |state: &mut State| {
            state.is_plugged != plugged && state.replug_error.is_none() && !state.stopped
        };
        let mut state = self
            .shared
            .switched
            .wait_while(state, wanted)
            .unwrap_or_else(PoisonError::into_inner);
        let error = state.replug_error.take();
        drop(state);
        if let Some(error) = error {
            panic!("the cable does not go in again: {error}");
        }
    }

    #[must_use]
    pub fn counts(&self, way: Way) -> LaneCounts {
        lock(&self.shared).lane(way).counts()
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        lock(&self.shared).stopped = true;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread's half: both ends.
struct Carrier {
    device: end::Device,
    gateway: end::Gateway,
    /// Bytes that came through and that an end has not taken yet, by [`Way`].
    leftover: [Vec<u8>; 2],
    start: Instant,
}

impl Carrier {
    fn run(mut self, shared: &Shared) {
        loop {
            let mut state = lock(shared);
            if state.stopped {
                self.gateway.unplug();
                return;
            }
            self.switch(&mut state, shared);
            self.device.look();
            self.gateway.look();
            self.read(&mut state);
            self.write(&mut state);
            let next = self.next_wait(&state);
            drop(state);
            self.rest(next);
        }
    }

    fn now_us(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    fn switch(&mut self, state: &mut State, shared: &Shared) {
        if state.is_plugged == state.want_plugged {
            return;
        }
        if state.want_plugged {
            match self.gateway.plug_in() {
                Ok(()) => state.is_plugged = true,
                Err(error) => state.replug_error = Some(error.to_string()),
            }
        } else {
            self.gateway.unplug();
            state.to_gateway.clear();
            state.to_device.clear();
            self.leftover = [Vec::new(), Vec::new()];
            state.is_plugged = false;
        }
        shared.switched.notify_all();
    }

    fn read(&mut self, state: &mut State) {
        let mut buffer = [0; READ_BYTES];
        let now = self.now_us();
        if state.to_gateway.has_room() {
            let count = self.device.read(&mut buffer);
            let echo = state.to_gateway.push(&buffer[..count], now);
            state.to_device.put(&echo, now);
        }
        if state.to_device.has_room() {
            let count = self.gateway.read(&mut buffer);
            let echo = state.to_device.push(&buffer[..count], now);
            state.to_gateway.put(&echo, now);
        }
    }

    fn write(&mut self, state: &mut State) {
        let now = self.now_us();
        let [up, down] = &mut self.leftover;
        for (leftover, way) in [(up, Way::ToGateway), (down, Way::ToDevice)] {
            if leftover.is_empty() {
                *leftover = state.lane(way).pop(now);
            }
            if leftover.is_empty() {
                continue;
            }
            let taken = match way {
                Way::ToGateway => self.gateway.write(leftover),
                Way::ToDevice => self.device.write(leftover),
            };
            match taken {
                Some(count) => drop(leftover.drain(..count)),
                None => lose(state.lane(way), leftover),
            }
            if state.lane(way).is_lossy() {
                lose(state.lane(way), leftover);
            }
        }
    }

    fn next_wait(&self, state: &State) -> Duration {
        let now = self.now_us();
        let lanes = [&state.to_gateway, &state.to_device];
        let due = lanes.into_iter().filter_map(Lane::next_due).min();
        let wait = due.map(|due| Duration::from_micros(due.saturating_sub(now)));
        wait.map_or(WAIT_MAX, |wait| wait.min(WAIT_MAX))
    }

    /// Until an end has bytes or takes some, or the time is up. An end whose lane is
    /// full would always be ready: then only the time counts.
    fn rest(&self, most: Duration) {
        let blocked = |way: usize| !self.leftover[way].is_empty();
        let mut waited: Vec<Waited<'_>> = Vec::with_capacity(2);
        waited.extend(self.gateway.fd().map(|fd| Waited::new(fd, blocked(0))));
        waited.extend(self.device.fd().map(|fd| Waited::new(fd, blocked(1))));
        // Nothing to be done about a wait that fails: the next turn is early.
        let _ = wait(&mut waited, most);
    }
}

fn lose(lane: &mut Lane, bytes: &mut Vec<u8>) {
    lane.lose(bytes.len());
    bytes.clear();
}

#[cfg(test)]
mod tests;
