//! The thread that runs all simulated devices: sleeps until a line has bytes
//! or a device is due, then gives each of those its turn.
//!
//! Invariant: no device waits for another's line. Bound: it sleeps at most
//! [`WAIT_MAX`], so flags and new peers need no wake-up.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::device::SimDevice;
use super::drift::Elapsed;
use super::limits::{SHOWS_MAX, WAIT_MAX};
use super::line::WaitsFor;
use super::snapshot::{SimShows, SimSnapshot};
use crate::ports::{Waited, wait};

/// What the thread and its handle both see.
#[derive(Debug)]
pub(super) struct Shared {
    sampling: AtomicBool,
    stopped: AtomicBool,
    snapshots: Mutex<Vec<SimSnapshot>>,
    shows: Mutex<Vec<SimShows>>,
}

impl Shared {
    pub(super) fn new(devices: &[SimDevice]) -> Self {
        Self {
            sampling: AtomicBool::new(true),
            stopped: AtomicBool::new(false),
            snapshots: Mutex::new(devices.iter().map(SimDevice::snapshot).collect()),
            shows: Mutex::new(Vec::new()),
        }
    }

    /// A panic elsewhere leaves plain values, which are valid as they are.
    pub(super) fn snapshots(&self) -> MutexGuard<'_, Vec<SimSnapshot>> {
        self.snapshots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Devices that were told to show where they are, since the last look.
    pub(super) fn shows(&self) -> MutexGuard<'_, Vec<SimShows>> {
        self.shows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn stop_sampling(&self) {
        self.sampling.store(false, Ordering::Release);
    }

    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    fn is_sampling(&self) -> bool {
        self.sampling.load(Ordering::Acquire)
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }
}

#[derive(Debug)]
struct Slot {
    device: SimDevice,
    due: Option<Elapsed>,
    ready: bool,
}

#[derive(Debug)]
pub(super) struct Fleet {
    slots: Vec<Slot>,
    shared: Arc<Shared>,
    started: Instant,
    looked: Option<Elapsed>,
}

impl Fleet {
    /// Devices that boot at `started`.
    pub(super) fn new(devices: Vec<SimDevice>, shared: Arc<Shared>, started: Instant) -> Self {
        let slots = devices
            .into_iter()
            .map(|device| Slot {
                device,
                due: Some(Elapsed(0)),
                ready: true,
            })
            .collect();
        Self {
            slots,
            shared,
            started,
            looked: None,
        }
    }

    /// Runs until it is stopped.
    pub(super) fn run(mut self) -> io::Result<()> {
        while !self.shared.is_stopped() {
            self.look_for_peers();
            self.take_turns();
            self.sleep()?;
        }
        Ok(())
    }

    fn now(&self) -> Elapsed {
        Elapsed(u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    fn look_for_peers(&mut self) {
        let now = self.now();
        let wait_us = WAIT_MAX.as_micros() as u64;
        if self.looked.is_some_and(|looked| now.0 - looked.0 < wait_us) {
            return;
        }
        self.looked = Some(now);
        for slot in &mut self.slots {
            if matches!(slot.device.waits_for(), WaitsFor::Look) {
                slot.ready |= slot.device.look();
            }
        }
    }

    fn take_turns(&mut self) {
        let sampling = self.shared.is_sampling();
        let mut turned = Vec::new();
        for at in 0..self.slots.len() {
            // Anew for each device: the ticks are those of its own sampling.
            let now = self.now();
            let slot = &mut self.slots[at];
            if !slot.ready && slot.due.is_none_or(|due| due > now) {
                continue;
            }
            slot.device.turn(now, sampling);
            slot.due = slot.device.deadline(now, sampling);
            turned.push((at, slot.device.snapshot()));
            if let Some(shows) = slot.device.take_shows() {
                let mut all = self.shared.shows();
                if all.len() < SHOWS_MAX {
                    all.push(shows);
                }
            }
        }
        let mut snapshots = self.shared.snapshots();
        for (at, snapshot) in turned {
            snapshots[at] = snapshot;
        }
    }

    fn sleep(&mut self) -> io::Result<()> {
        let now = self.now();
        let until_due = self
            .slots
            .iter()
            .filter_map(|slot| slot.due)
            .min()
            .map_or(WAIT_MAX, |due| {
                Duration::from_micros(due.0.saturating_sub(now.0))
            });
        let mut waited = Vec::with_capacity(self.slots.len());
        let mut places = Vec::with_capacity(self.slots.len());
        for (at, slot) in self.slots.iter().enumerate() {
            match slot.device.waits_for() {
                WaitsFor::Bytes(fd) => waited.push(Waited::new(fd, slot.device.is_blocked())),
                WaitsFor::Peer(fd) => waited.push(Waited::new(fd, false)),
                WaitsFor::Look => continue,
            }
            places.push(at);
        }
        wait(&mut waited, until_due.min(WAIT_MAX))?;
        let woken: Vec<bool> = waited
            .iter()
            .map(|w| w.readable || w.writable || w.hung_up)
            .collect();
        for slot in &mut self.slots {
            slot.ready = false;
        }
        for (at, woken) in places.into_iter().zip(woken) {
            let slot = &mut self.slots[at];
            slot.ready = woken;
            if woken {
                slot.device.look();
            }
        }
        Ok(())
    }
}
