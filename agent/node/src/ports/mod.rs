//! The gateway's device ports: serial lines and TCP connections that carry the
//! link. A port opens, hands on what comes in, writes what it is given, and is
//! opened again for ever when it goes away.
//!
//! Invariant: no port waits for another; a peer that reads nothing, sends
//! garbage or is not there costs only its own port. Bound: per port one read
//! buffer, [`limits::WRITE_QUEUE_FRAMES_MAX`] frames and
//! [`limits::PORT_EVENTS_MAX`] events. Knows no message.

pub mod limits;

mod backoff;
mod clock;
mod error;
mod holder;
mod notices;
mod rate;
mod share;
mod sys;
mod usb;

mod latency;

mod carry;
pub mod pty;
mod serial;
mod status;

pub mod look;
mod opener;
mod worker;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use forebay_core::units::Mono;
pub use forebay_core::units::PortId;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

pub use clock::MonoClock;
pub use error::{CloseReason, OpenError};
pub use share::PortEvent;
pub use status::{PortState, PortStatus};
pub(crate) use sys::clock_is_synchronised;
pub use sys::{Waited, wait};

pub use usb::{UsbId, UsbMatch};

use share::EventSender;
use status::Shared;
use usb::watch::{Roots, UsbPorts};

/// Bits per second of a serial line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Baud(pub u32);

/// What to open, and what operators call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortConfig {
    pub id: PortId,
    /// Name from the config, used in every message.
    pub name: String,
    pub place: PortPlace,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortPlace {
    Serial {
        /// Best below `/dev/serial/by-id`: it stays the same when the device
        /// is plugged in elsewhere.
        path: PathBuf,
        /// Tried in turn, see [`PortHandle::reopen`]; 1 to
        /// [`limits::BAUDS_MAX`], more are not looked at. Empty: 115,200.
        /// With several, the next is tried when bytes come in and no frame.
        bauds: Vec<Baud>,
    },
    /// A serial port by who its board is.
    Usb {
        usb: UsbMatch,
        /// As above.
        bauds: Vec<Baud>,
        /// Counts the ports of an entry that takes several boards, from 0.
        slot: usize,
    },
    Tcp {
        /// `host:port`; the gateway connects to it.
        address: String,
    },
}

impl PortPlace {
    /// The same place for each board that it takes: up to
    /// [`limits::USB_ALL_PORTS_MAX`] where it takes all.
    pub fn for_all_boards(self) -> Vec<Self> {
        match self {
            Self::Usb { usb, bauds, .. } => (0..limits::USB_ALL_PORTS_MAX)
                .map(|slot| Self::Usb {
                    usb: usb.clone(),
                    bauds: bauds.clone(),
                    slot,
                })
                .collect(),
            Self::Serial { .. } | Self::Tcp { .. } => vec![self],
        }
    }

    /// Whether it takes the boards that another of the config leaves over: nobody
    /// misses it when there is none.
    fn is_spare(&self) -> bool {
        match self {
            Self::Usb { slot, .. } => *slot > 0,
            Self::Serial { .. } | Self::Tcp { .. } => false,
        }
    }
}

impl fmt::Display for PortPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Serial { path, .. } => write!(f, "{}", path.display()),
            Self::Usb { usb, slot: 0, .. } => write!(f, "usb {usb}"),
            Self::Usb { usb, slot, .. } => write!(f, "usb {usb} #{}", slot + 1),
            Self::Tcp { address } => write!(f, "{address}"),
        }
    }
}

/// For one port: Opened, then any number of Bytes, then Closed, and so on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortEventKind {
    Opened {
        /// The rate on the wire, of a real UART only: a pty, USB CDC and TCP
        /// are not paced by one.
        baud: Option<Baud>,
    },
    Bytes {
        /// 1 to [`limits::READ_BYTES_MAX`] bytes.
        bytes: Vec<u8>,
        /// When the read returned, on the clock given to [`Ports::spawn`].
        received: Mono,
    },
    Closed {
        reason: CloseReason,
    },
}

/// Takes one line for the operator, without its newline.
pub type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// Writes to one port. Never waits.
#[derive(Debug, Clone)]
pub struct PortHandle {
    writes: mpsc::Sender<Vec<u8>>,
    shared: Arc<Shared>,
}

impl PortHandle {
    /// Queues bytes. False: the port is not open or its queue is full; the
    /// bytes are dropped and counted, and the link sends again what matters.
    pub fn write(&self, bytes: Vec<u8>) -> bool {
        let taken = self.shared.is_open() && self.writes.try_send(bytes).is_ok();
        if !taken {
            self.shared.count_dropped(1);
        }
        taken
    }

    /// Closes the port and opens it again, at the next of its rates: for a
    /// link that hears nothing, or nothing that makes sense.
    pub fn reopen(&self) {
        self.shared.ask_reopen();
    }
}

struct Port {
    id: PortId,
    handle: PortHandle,
    task: JoinHandle<()>,
}

/// All ports of the gateway, each on its own task.
pub struct Ports {
    ports: Vec<Port>,
    watching: Option<JoinHandle<()>>,
    stop: watch::Sender<bool>,
}

impl fmt::Debug for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.status()).finish()
    }
}

impl Ports {
    /// Starts one task per port on the current tokio runtime. When `events` is
    /// full, or holds [`limits::PORT_EVENTS_MAX`] of a port, that port waits, and the
    /// system's own buffers fill up behind it.
    pub fn spawn(
        configs: Vec<PortConfig>,
        events: mpsc::Sender<PortEvent>,
        clock: MonoClock,
        say: Say,
    ) -> Self {
        Self::spawn_at(Roots::default(), configs, events, clock, say)
    }

    fn spawn_at(
        roots: Roots,
        configs: Vec<PortConfig>,
        events: mpsc::Sender<PortEvent>,
        clock: MonoClock,
        say: Say,
    ) -> Self {
        let (stop, stopped) = watch::channel(false);
        let wants: Vec<(PortId, UsbMatch)> = configs
            .iter()
            .filter_map(|config| match &config.place {
                PortPlace::Usb { usb, .. } => Some((config.id, usb.clone())),
                PortPlace::Serial { .. } | PortPlace::Tcp { .. } => None,
            })
            .collect();
        let looks = !wants.is_empty();
        let usb = Arc::new(UsbPorts::new(roots, wants));
        let watching =
            looks.then(|| tokio::spawn(Arc::clone(&usb).watch(stopped.clone(), Arc::clone(&say))));
        let ports = configs
            .into_iter()
            .map(|config| {
                let id = config.id;
                let shared = Arc::new(Shared::new(&config, clock.now()));
                let (writes, queue) = mpsc::channel(limits::WRITE_QUEUE_FRAMES_MAX);
                let handle = PortHandle {
                    writes,
                    shared: Arc::clone(&shared),
                };
                let outside = carry::Outside {
                    events: EventSender::new(id, events.clone()),
                    clock,
                    say: Arc::clone(&say),
                    stopped: stopped.clone(),
                    usb: Arc::clone(&usb),
                };
                let task = tokio::spawn(worker::run(config, shared, queue, outside));
                Port { id, handle, task }
            })
            .collect();
        Self {
            ports,
            watching,
            stop,
        }
    }

    /// All ports, also those that [`Self::status`] leaves out.
    pub fn ids(&self) -> impl Iterator<Item = PortId> {
        self.ports.iter().map(|port| port.id)
    }

    pub fn handle(&self, port: PortId) -> Option<PortHandle> {
        self.ports
            .iter()
            .find(|p| p.id == port)
            .map(|p| p.handle.clone())
    }

    /// In the order of the config. Of an entry that takes all boards: its first
    /// port, and each other that ever had one.
    pub fn status(&self) -> Vec<PortStatus> {
        let statuses = self.ports.iter();
        statuses
            .filter_map(|port| port.handle.shared.shown())
            .collect()
    }

    /// Lets each port write what is queued, for at most
    /// [`limits::STOP_DRAIN`], and closes all of them.
    pub async fn stop(self) {
        // No receiver left means that every task has ended already.
        let _ = self.stop.send(true);
        for port in self.ports {
            // A task that panicked is as stopped as one that returned.
            let _ = port.task.await;
        }
        if let Some(watching) = self.watching {
            let _ = watching.await;
        }
    }
}

#[cfg(test)]
mod tests;
