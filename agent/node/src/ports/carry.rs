//! Bytes of one open port, both ways. Reading waits for the link to take events,
//! writing for the peer; neither waits for the other.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio::time::{timeout, timeout_at};

use super::error::{no_frames, no_frames_at_all};
use super::limits::{READ_BYTES_MAX, WRITE_TIMEOUT};
use super::notices::Notices;
use super::rate::RateJudge;
use super::share::EventSender;
use super::status::Shared;
use super::usb::watch::UsbPorts;
use super::{Baud, CloseReason, MonoClock, PortEventKind, Say};

/// What a port needs from the rest of the process.
pub(super) struct Outside {
    pub(super) events: EventSender,
    pub(super) clock: MonoClock,
    pub(super) say: Say,
    pub(super) stopped: watch::Receiver<bool>,
    pub(super) usb: Arc<UsbPorts>,
}

/// A serial line's rate on trial.
pub(super) struct Rate {
    pub(super) baud: Baud,
    /// At every rate the same bytes come, so another changes nothing.
    pub(super) any: bool,
    /// There is another one to try.
    pub(super) can_change: bool,
    pub(super) judge: RateJudge,
}

/// A line for the operator, which names its port once.
pub(super) fn about(name: &str, line: &str) -> String {
    if line.starts_with(name) {
        format!("port {line}")
    } else {
        format!("port {name}: {line}")
    }
}

/// The reading half.
pub(super) struct Ear<'port> {
    pub(super) name: &'port str,
    pub(super) shared: &'port Shared,
    pub(super) outside: &'port Outside,
    pub(super) notices: &'port mut Notices,
    /// None: the line has none.
    pub(super) rate: Option<Rate>,
    /// The rate that paces the bytes on the wire, if one does.
    pub(super) wire_baud: Option<Baud>,
}

impl Ear<'_> {
    /// Hands on that the port is open, and then all that comes in, until that
    /// fails.
    pub(super) async fn read_all(mut self, mut reader: impl AsyncRead + Unpin) -> CloseReason {
        let (events, baud) = (&self.outside.events, self.wire_baud);
        if !events.send(PortEventKind::Opened { baud }).await {
            return CloseReason::Stopped;
        }
        let mut buffer = vec![0_u8; READ_BYTES_MAX];
        loop {
            let count = match self.read(&mut reader, &mut buffer).await {
                // tokio-serial reports a pulled plug as no bytes, for ever.
                Some(Ok(0)) => return CloseReason::Gone,
                Some(Ok(count)) => count,
                Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => continue,
                Some(Err(error)) => return CloseReason::of_read(&error),
                // The judge's time is up.
                None => 0,
            };
            let received = self.outside.clock.now();
            self.shared.count_in(count);
            let bytes = buffer[..count].to_vec();
            let garbled = self
                .rate
                .as_mut()
                .and_then(|rate| rate.judge.hear(&bytes, received));
            let event = PortEventKind::Bytes { bytes, received };
            if count > 0 && !events.send(event).await {
                return CloseReason::Stopped;
            }
            if let Some(reason) = garbled.and_then(|bytes| self.garbled(bytes)) {
                return reason;
            }
        }
    }

    /// None: nothing came in until the judge of the rate wants to know.
    async fn read(
        &self,
        reader: &mut (impl AsyncRead + Unpin),
        buffer: &mut [u8],
    ) -> Option<io::Result<usize>> {
        let deadline = self.rate.as_ref().and_then(|rate| rate.judge.deadline());
        match deadline.map(|mono| self.outside.clock.instant(mono)) {
            None => Some(reader.read(buffer).await),
            Some(at) => timeout_at(at.into(), reader.read(buffer)).await.ok(),
        }
    }

    /// Bytes without a frame: to the next rate, or say so and go on.
    fn garbled(&mut self, bytes: usize) -> Option<CloseReason> {
        let rate = self.rate.as_ref()?;
        let baud = rate.baud.0;
        if rate.can_change && !rate.any {
            return Some(CloseReason::WrongRate { baud, bytes });
        }
        let why = match rate.any {
            true => no_frames_at_all(bytes),
            false => no_frames(baud, bytes),
        };
        if let Some(line) = self.notices.failed(self.outside.clock.now(), &why) {
            (self.outside.say)(&about(self.name, &line));
        }
        self.shared.set_last_error(why);
        None
    }
}

/// Writes what is queued until that fails.
pub(super) async fn write_all(
    writer: &mut (impl AsyncWrite + Unpin),
    queue: &mut mpsc::Receiver<Vec<u8>>,
    shared: &Shared,
) -> CloseReason {
    while let Some(bytes) = queue.recv().await {
        if let Err(reason) = write_one(writer, &bytes, shared).await {
            shared.count_dropped(1);
            return reason;
        }
    }
    // Every handle is gone; the port goes on reading.
    std::future::pending().await
}

/// A partial write keeps its time: what counts is that bytes leave.
async fn write_one(
    writer: &mut (impl AsyncWrite + Unpin),
    mut bytes: &[u8],
    shared: &Shared,
) -> Result<(), CloseReason> {
    while !bytes.is_empty() {
        let written = match timeout(WRITE_TIMEOUT, writer.write(bytes)).await {
            Err(_) => return Err(CloseReason::WriteTimedOut),
            Ok(Ok(0)) => return Err(CloseReason::Gone),
            Ok(Ok(written)) => written,
            Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => 0,
            Ok(Err(error)) => return Err(CloseReason::of_write(&error)),
        };
        shared.count_out(written);
        bytes = &bytes[written..];
    }
    Ok(())
}

/// Writes what is queued now. True: all of it.
pub(super) async fn drain(
    writer: &mut (impl AsyncWrite + Unpin),
    queue: &mut mpsc::Receiver<Vec<u8>>,
    shared: &Shared,
) -> bool {
    while let Ok(bytes) = queue.try_recv() {
        if write_one(writer, &bytes, shared).await.is_err() {
            return false;
        }
    }
    true
}
