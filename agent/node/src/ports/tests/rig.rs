//! Ports with a device's end of a pty: what the tests of ports drive. Every
//! wait has a deadline.

use std::cell::OnceCell;
use std::future::Future;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

use crate::ports::limits::READ_BYTES_MAX;
use crate::ports::pty::Pty;
use crate::ports::usb::watch::Roots;
use crate::ports::{
    Baud, CloseReason, MonoClock, PortConfig, PortEvent, PortEventKind, PortId, PortPlace,
    PortStatus, Ports, Say,
};

const DEADLINE: Duration = Duration::from_secs(20);
const EVENTS_MAX: usize = 64;

pub(super) async fn within<T>(what: &str, wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, wait)
        .await
        .unwrap_or_else(|_| panic!("waited for: {what}"))
}

/// The device's end of a pty. Tokio keeps a hang-up for ever, so the descriptor
/// is given to it only when the port has the other end open.
pub(super) struct Device {
    pub(super) pty: Arc<Pty>,
    pub(super) ready: OnceCell<AsyncFd<Arc<Pty>>>,
}

impl Device {
    pub(super) fn new() -> Self {
        Self {
            pty: Arc::new(Pty::open().unwrap()),
            ready: OnceCell::new(),
        }
    }

    #[allow(
        deprecated,
        reason = "a Pty owns its descriptor, which is what `new` cannot check"
    )]
    pub(super) fn ready(&self) -> &AsyncFd<Arc<Pty>> {
        self.ready
            .get_or_init(|| AsyncFd::new(Arc::clone(&self.pty)).unwrap())
    }

    pub(super) fn path(&self) -> PathBuf {
        self.pty.slave().to_path_buf()
    }

    pub(super) async fn write(&self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let mut ready = within("room in the pty", self.ready().writable())
                .await
                .unwrap();
            if let Ok(written) = ready.try_io(|pty| (&**pty.get_ref()).write(bytes)) {
                bytes = &bytes[written.unwrap()..];
            }
        }
    }

    pub(super) async fn read_exact(&self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        let mut filled = 0;
        while filled < count {
            let mut ready = within("bytes from the port", self.ready().readable())
                .await
                .unwrap();
            if let Ok(read) = ready.try_io(|pty| (&**pty.get_ref()).read(&mut bytes[filled..])) {
                filled += read.unwrap();
            }
        }
        bytes
    }
}

pub(super) struct Rig {
    pub(super) ports: Ports,
    pub(super) events: mpsc::Receiver<PortEvent>,
    pub(super) said: Arc<Mutex<Vec<String>>>,
}

impl Rig {
    pub(super) fn new(places: Vec<PortPlace>) -> Self {
        Self::at(Roots::default(), places)
    }

    pub(super) fn at(roots: Roots, places: Vec<PortPlace>) -> Self {
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let said = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&said);
        let say: Say = Arc::new(move |line: &str| to.lock().unwrap().push(line.to_owned()));
        let configs = (0..)
            .zip(places)
            .map(|(n, place)| PortConfig {
                id: PortId(n),
                name: format!("p{n}"),
                place,
            })
            .collect();
        Self {
            ports: Ports::spawn_at(roots, configs, sender, MonoClock::start(), say),
            events,
            said,
        }
    }

    pub(super) fn one(path: &Path) -> Self {
        Self::new(vec![serial(path)])
    }

    pub(super) async fn next(&mut self) -> PortEvent {
        within("an event", self.events.recv()).await.unwrap()
    }

    pub(super) async fn opened(&mut self, port: u32) {
        assert_eq!(
            self.next().await,
            PortEvent::new(PortId(port), PortEventKind::Opened { baud: None })
        );
    }

    /// The next bytes of one port, which must be the next events of all.
    pub(super) async fn bytes(&mut self, port: u32, count: usize) -> Vec<u8> {
        let mut got = Vec::new();
        while got.len() < count {
            let event = self.next().await;
            assert_eq!(event.port, PortId(port), "{event:?}");
            let PortEventKind::Bytes { bytes, .. } = event.kind else {
                panic!("{event:?}")
            };
            assert!((1..=READ_BYTES_MAX).contains(&bytes.len()));
            got.extend(bytes);
        }
        got
    }

    pub(super) async fn closed(&mut self, port: u32) -> CloseReason {
        let event = self.next().await;
        assert_eq!(event.port, PortId(port), "{event:?}");
        let PortEventKind::Closed { reason } = event.kind else {
            panic!("{event:?}")
        };
        reason
    }

    pub(super) fn write(&self, port: u32, bytes: &[u8]) -> bool {
        self.ports
            .handle(PortId(port))
            .unwrap()
            .write(bytes.to_vec())
    }

    /// Waits until a port's status says so.
    pub(super) async fn until(
        &self,
        what: &str,
        holds: impl Fn(&PortStatus) -> bool,
    ) -> PortStatus {
        within(what, async {
            loop {
                if let Some(status) = self.ports.status().into_iter().find(&holds) {
                    return status;
                }
                tokio::task::yield_now().await;
            }
        })
        .await
    }

    pub(super) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }
}

pub(super) fn serial(path: &Path) -> PortPlace {
    PortPlace::Serial {
        path: path.to_path_buf(),
        bauds: vec![Baud(115_200)],
    }
}

pub(super) fn point(link: &Path, at: &Path) {
    let fresh = link.with_extension("new");
    symlink(at, &fresh).unwrap();
    std::fs::rename(&fresh, link).unwrap();
}
