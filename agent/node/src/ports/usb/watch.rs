//! Looks for boards while some port waits for one: every [`SCAN_PERIOD`] a listing
//! of sysfs. inotify does not see sysfs, and in a container not always `/dev`; what a
//! look costs stands in `docs/ports.md`. With every port open nobody looks.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use super::book::Book;
use super::{UsbMatch, UsbTty, sysfs};
use crate::ports::limits::{SCAN_PERIOD, SEEN_SHOWN_MAX, TTYS_MAX, USB_ALL_PORTS_MAX};
use crate::ports::{PortId, Say};

/// Where the system's files are; a test has its own.
#[derive(Debug, Clone)]
pub(in crate::ports) struct Roots {
    pub(in crate::ports) sys: PathBuf,
    pub(in crate::ports) dev: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self {
            sys: PathBuf::from("/sys"),
            dev: PathBuf::from("/dev"),
        }
    }
}

/// The book with those who wait for it.
#[derive(Debug)]
pub(in crate::ports) struct UsbPorts {
    pub(in crate::ports) roots: Roots,
    book: Mutex<Book>,
    /// Looks so far.
    looks: watch::Sender<u64>,
    given_back: Notify,
}

impl UsbPorts {
    pub(in crate::ports) fn new(
        roots: Roots,
        wants: impl IntoIterator<Item = (PortId, UsbMatch)>,
    ) -> Self {
        Self {
            roots,
            book: Mutex::new(Book::new(wants)),
            looks: watch::channel(0).0,
            given_back: Notify::new(),
        }
    }

    /// Every change of the book is whole before anything in it can panic.
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the port's board.
    pub(in crate::ports) async fn take(&self, port: PortId) -> UsbTty {
        let mut looks = self.looks.subscribe();
        loop {
            looks.mark_unchanged();
            if let Some(tty) = self.book().take(port) {
                return tty;
            }
            // The sender lives in `self`, so this cannot fail.
            let _ = looks.changed().await;
        }
    }

    /// Waits for a first look, and says what is there when it found no board for the
    /// port.
    pub(in crate::ports) async fn seen_without(&self, port: PortId) -> Option<Vec<String>> {
        // As above.
        let _ = self.looks.subscribe().wait_for(|looks| *looks > 0).await;
        let has = self.book().has(port);
        (!has).then(|| self.seen())
    }

    /// Some of what is there, for a message.
    fn seen(&self) -> Vec<String> {
        let book = self.book();
        let ids = book.ttys().iter().map(|tty| tty.id.to_string());
        ids.take(SEEN_SHOWN_MAX).collect()
    }

    pub(in crate::ports) fn give_back(&self, port: PortId) {
        self.book().give_back(port);
        self.given_back.notify_one();
    }

    /// Looks until the process stops.
    pub(in crate::ports) async fn watch(
        self: Arc<Self>,
        mut stopped: watch::Receiver<bool>,
        say: Say,
    ) {
        let mut notices = Extra::default();
        loop {
            if self.book().is_waiting() {
                let (sys, open) = (self.roots.sys.clone(), self.book().taken());
                let found = tokio::task::spawn_blocking(move || sysfs::scan(&sys, &open)).await;
                for line in self.looked(
                    found.unwrap_or_else(|error| Err(error.into())),
                    &mut notices,
                ) {
                    say(&line);
                }
            }
            let waiting = self.book().is_waiting();
            let pause = async {
                if !waiting {
                    self.given_back.notified().await;
                }
                tokio::time::sleep(SCAN_PERIOD).await;
            };
            tokio::select! {
                () = pause => {}
                // Also when the other half is gone.
                _ = stopped.wait_for(|stop| *stop) => return,
            }
        }
    }

    fn looked(&self, found: std::io::Result<Vec<UsbTty>>, notices: &mut Extra) -> Vec<String> {
        let (ttys, failed) = match found {
            Ok(ttys) => (ttys, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let given;
        let lines = {
            let mut book = self.book();
            given = book.seen(ttys);
            notices.lines(&book, failed)
        };
        // Those who wait need not wake up for nothing.
        self.looks.send_if_modified(|looks| {
            *looks += 1;
            given || *looks == 1
        });
        lines
    }
}

/// What was said of boards that have no port. Bound: [`TTYS_MAX`] of them.
#[derive(Debug, Default)]
struct Extra {
    told: BTreeSet<UsbTty>,
    failed: Option<String>,
}

impl Extra {
    fn lines(&mut self, book: &Book, failed: Option<String>) -> Vec<String> {
        let extra: BTreeSet<UsbTty> = book.left_over().take(TTYS_MAX).cloned().collect();
        let mut lines: Vec<String> = extra
            .difference(&self.told)
            .map(|tty| {
                format!(
                    "usb {} ({}) has no port: each [[device_port]] that matches it has a board already (all = true opens up to {USB_ALL_PORTS_MAX})",
                    tty.id, tty.name
                )
            })
            .collect();
        self.told = extra;
        if failed.is_some() && failed != self.failed {
            lines.extend(
                failed
                    .iter()
                    .map(|why| format!("USB boards cannot be found: {why}")),
            );
        }
        self.failed = failed;
        lines
    }
}
