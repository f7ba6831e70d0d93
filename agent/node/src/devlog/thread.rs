//! The thread that decodes frames and keeps their lines.
//!
//! Always holds: whoever hands a frame over never waits. It ends when all handles are
//! gone.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Instant;

use forebay_core::query::{Answer, Names, Reply};
use forebay_core::units::EventTime;
use forebay_wire::ids::DeviceUid;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::firmware::{BuildId, Firmware, Search, hex};
use super::frame::decode;
use super::kept::{Kept, KeptLine};
use super::limits::WAITING_MAX;
use crate::ports::Say;

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRequest {
    /// Name or uid.
    pub device: String,
    /// Only lines behind this number; 0 for all that are kept.
    pub after: u64,
}

#[derive(Debug)]
enum Told {
    Frame {
        uid: DeviceUid,
        at: EventTime,
        build_id: BuildId,
        frame: Vec<u8>,
    },
    Asked(LogRequest, oneshot::Sender<Answer>),
}

/// A handle to the thread.
#[derive(Debug, Clone)]
pub struct DeviceLogs {
    told: SyncSender<Told>,
    dropped: Arc<AtomicU64>,
}

impl DeviceLogs {
    /// Starts the thread. `firmware` are ELF files, or folders of such.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(firmware: Vec<PathBuf>, names: Names, say: Say) -> std::io::Result<Self> {
        let (told, asked) = sync_channel(WAITING_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let worker = Worker {
            firmware: Firmware::new(firmware),
            names,
            say,
            kept: Kept::default(),
            dropped: dropped.clone(),
        };
        let thread = std::thread::Builder::new().name(String::from("device-log"));
        thread.spawn(move || worker.run(&asked))?;
        Ok(Self { told, dropped })
    }

    /// Takes a frame that came at `at`.
    pub fn take(&self, uid: DeviceUid, at: EventTime, build_id: BuildId, frame: Vec<u8>) {
        let told = Told::Frame {
            uid,
            at,
            build_id,
            frame,
        };
        if self.told.try_send(told).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Answers a question, now or a little later.
    pub fn ask(&self, request: LogRequest, answer: oneshot::Sender<Answer>) {
        let unasked = match self.told.try_send(Told::Asked(request, answer)) {
            Ok(()) => return,
            Err(TrySendError::Full(told) | TrySendError::Disconnected(told)) => told,
        };
        if let Told::Asked(_, answer) = unasked {
            let why = "the log of devices has too much to do: ask again";
            // Who asked may have gone away.
            let _ = answer.send(Err(String::from(why)));
        }
    }
}

struct Worker {
    firmware: Firmware,
    names: Names,
    say: Say,
    kept: Kept,
    dropped: Arc<AtomicU64>,
}

impl Worker {
    fn run(mut self, told: &Receiver<Told>) {
        while let Ok(told) = told.recv() {
            match told {
                Told::Frame {
                    uid,
                    at,
                    build_id,
                    frame,
                } => self.take(uid, at, build_id, frame),
                // Who asked may have gone away.
                Told::Asked(request, answer) => {
                    // Who asked may have gone away.
                    let _ = answer.send(self.answer(&request).map(Reply::from));
                }
            }
        }
    }

    fn take(&mut self, uid: DeviceUid, at: EventTime, build_id: BuildId, frame: Vec<u8>) {
        let said = match self.firmware.find(build_id, Instant::now()) {
            Search::Found(formats) => decode(&formats, &frame)
                .map_err(|why| format!("no frame of firmware {}: {why}", hex(&build_id))),
            Search::Missing { why, is_new } => {
                if is_new {
                    let device = self.names.name(uid);
                    (self.say)(&format!("the log of {device} cannot be read: {why}"));
                }
                Err(why)
            }
        };
        let line = KeptLine {
            at,
            build_id,
            frame,
            said,
        };
        self.kept.push(uid, line);
    }

    fn answer(&self, request: &LogRequest) -> Result<Value, String> {
        let LogRequest { device, after } = request;
        let uid = self.names.find(device).ok_or_else(|| {
            let names: Vec<_> = self
                .kept
                .devices()
                .map(|uid| self.names.name(uid))
                .collect();
            let which = if names.is_empty() {
                String::from("none has said anything")
            } else {
                format!("there are lines of {}", names.join(", "))
            };
            format!("no device is called \"{device}\": {which}")
        })?;
        Ok(json!({
            "device": self.names.name(uid),
            "uid": uid.to_string(),
            "lines": self.kept.lines(uid, *after),
            "newest": self.kept.newest(),
            "dropped": self.dropped.load(Ordering::Relaxed),
        }))
    }
}
