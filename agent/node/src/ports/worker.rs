//! The life of one port: open, carry bytes both ways, close, pause, again.
//! Invariant: reading goes on while writing waits, and the other way round.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::backoff::{Backoff, is_settled};
use super::carry::{Ear, Outside, Rate, about, drain, write_all};
use super::limits::{
    BAUDS_MAX, CONNECT_TIMEOUT, DENIED_QUIET_TRIES, HOLDER_KNOWN_TRIES, SERIAL_PAUSE_MAX,
    STOP_DRAIN, TCP_PAUSE_MAX, TCP_PEER_TIMEOUT,
};
use super::notices::Notices;
use super::rate::RateJudge;
use super::status::{Facts, Shared};
use super::usb::UsbTty;
use super::{
    Baud, CloseReason, OpenError, PortConfig, PortEventKind, PortId, PortPlace, serial, sys,
};

const BAUD_DEFAULT: Baud = Baud(115_200);

/// An open port.
enum Line {
    Serial(serial::Opened),
    Tcp(TcpStream),
}

/// What the next try opens.
enum Target {
    Path(PathBuf),
    Tty(UsbTty),
    Address(String),
}

struct Worker {
    id: PortId,
    name: String,
    place: PortPlace,
    baud_at: usize,
    shared: std::sync::Arc<Shared>,
    queue: mpsc::Receiver<Vec<u8>>,
    outside: Outside,
    notices: Notices,
    /// Tries in a row that were not allowed.
    denied: u32,
    /// Who has the port, and for how many more tries that is believed.
    holder: Option<(String, u32)>,
}

/// Runs until the process stops, or until nobody takes events any more.
pub(super) async fn run(
    config: PortConfig,
    shared: std::sync::Arc<Shared>,
    queue: mpsc::Receiver<Vec<u8>>,
    outside: Outside,
) {
    let mut backoff = Backoff::new(match config.place {
        PortPlace::Serial { .. } | PortPlace::Usb { .. } => SERIAL_PAUSE_MAX,
        PortPlace::Tcp { .. } => TCP_PAUSE_MAX,
    });
    let mut stopped = outside.stopped.clone();
    let mut worker = Worker {
        id: config.id,
        name: config.name,
        place: config.place,
        baud_at: 0,
        notices: Notices::new(outside.clock.now()),
        shared,
        queue,
        outside,
        denied: 0,
        holder: None,
    };
    loop {
        let opened = tokio::select! {
            opened = worker.open() => opened,
            () = wait_stop(&mut stopped) => break,
        };
        match opened {
            Ok(line) => {
                let (since, bytes) = (Instant::now(), worker.shared.bytes_in());
                let serial = matches!(line, Line::Serial(_));
                if worker.session(line).await == CloseReason::Stopped {
                    break;
                }
                let bytes = worker.shared.bytes_in() - bytes;
                if is_settled(since.elapsed(), serial, bytes) {
                    backoff.reset();
                }
            }
            Err(error) => worker.open_failed(&error),
        }
        worker.outside.usb.give_back(worker.id);
        tokio::select! {
            () = tokio::time::sleep(backoff.pause()) => {}
            () = wait_stop(&mut stopped) => break,
        }
    }
    worker.shared.set_stopped(worker.outside.clock.now());
}

/// Returns when the process stops, also when its other half is gone.
async fn wait_stop(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stop| *stop).await;
}

fn baud_of(place: &PortPlace, at: usize) -> Option<Baud> {
    match place {
        PortPlace::Serial { bauds, .. } | PortPlace::Usb { bauds, .. } if bauds.is_empty() => {
            Some(BAUD_DEFAULT)
        }
        PortPlace::Serial { bauds, .. } | PortPlace::Usb { bauds, .. } => {
            bauds.get(at % bauds.len().min(BAUDS_MAX)).copied()
        }
        PortPlace::Tcp { .. } => None,
    }
}

async fn connect(address: &str) -> Result<TcpStream, OpenError> {
    let failed = |why: String| OpenError::Connect {
        place: address.to_owned(),
        why,
    };
    let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(address))
        .await
        .map_err(|_| failed(format!("no answer in {} s", CONNECT_TIMEOUT.as_secs())))?
        .map_err(|error| failed(error.to_string()))?;
    // Acks are small and must not wait for more bytes to join them.
    stream
        .set_nodelay(true)
        .map_err(|error| failed(error.to_string()))?;
    sys::set_peer_timeout(&stream, TCP_PEER_TIMEOUT).map_err(|error| failed(error.to_string()))?;
    Ok(stream)
}

impl Worker {
    fn say(&self, line: Option<String>) {
        if let Some(line) = line {
            (self.outside.say)(&about(&self.name, &line));
        }
    }

    /// Waits for what to open; a board may come in years.
    async fn target(&mut self) -> Target {
        match &self.place {
            PortPlace::Serial { path, .. } => return Target::Path(path.clone()),
            PortPlace::Tcp { address } => return Target::Address(address.clone()),
            PortPlace::Usb { .. } => {}
        }
        let usb = std::sync::Arc::clone(&self.outside.usb);
        let tty = usb.take(self.id, |seen| {
            // One that was here and was pulled has just said so.
            if !self.place.is_spare() && self.shared.opens() == 0 {
                let place = self.place.to_string();
                self.open_failed(&OpenError::NoBoard { place, seen });
            }
        });
        Target::Tty(tty.await)
    }

    async fn open(&mut self) -> Result<Line, OpenError> {
        let (path, tty) = match self.target().await {
            Target::Address(address) => return connect(&address).await.map(Line::Tcp),
            Target::Path(path) => (path, None),
            Target::Tty(tty) => {
                let path = self.outside.usb.roots.dev.join(&tty.name);
                (path, Some(tty.name))
            }
        };
        let site = serial::Site {
            path,
            tty,
            baud: baud_of(&self.place, self.baud_at).unwrap_or(BAUD_DEFAULT),
            sys: self.outside.usb.roots.sys.clone(),
            holder: self.holder.as_ref().map(|(holder, _)| holder.clone()),
        };
        let opened = tokio::task::spawn_blocking(move || serial::open(&site)).await;
        match (opened, &self.place) {
            (Ok(Err(OpenError::Missing { place: node })), PortPlace::Usb { .. }) => {
                let place = self.place.to_string();
                Err(OpenError::NoNode { place, node })
            }
            (Ok(opened), _) => opened.map(Line::Serial),
            (Err(error), place) => Err(OpenError::Io {
                place: place.to_string(),
                why: error.to_string(),
            }),
        }
    }

    fn open_failed(&mut self, error: &OpenError) {
        let text = error.to_string();
        let now = self.outside.clock.now();
        self.shared.set_failed(text.clone(), now);
        self.remember_holder(error);
        self.denied = match error {
            OpenError::Denied { .. } => self.denied.saturating_add(1),
            OpenError::Missing { .. }
            | OpenError::NoBoard { .. }
            | OpenError::NoNode { .. }
            | OpenError::Busy { .. }
            | OpenError::NotSerial { .. }
            | OpenError::Connect { .. }
            | OpenError::Io { .. } => 0,
        };
        // udev takes a moment to give a new device file to its group.
        if self.denied == 0 || self.denied > DENIED_QUIET_TRIES {
            let line = self.notices.failed(now, &text);
            self.say(line);
        }
    }

    fn remember_holder(&mut self, error: &OpenError) {
        let OpenError::Busy {
            holder: Some(holder),
            ..
        } = error
        else {
            self.holder = None;
            return;
        };
        let tries = match &self.holder {
            Some((_, tries)) => tries - 1,
            None => HOLDER_KNOWN_TRIES,
        };
        self.holder = (tries > 0).then(|| (holder.clone(), tries));
    }

    /// One opening from its first event to its last.
    async fn session(&mut self, line: Line) -> CloseReason {
        self.drop_queued();
        self.opened(&line);

        let reason = match line {
            Line::Serial(opened) => {
                let serial::Opened {
                    mut stream,
                    wire_baud,
                    ..
                } = opened;
                let (reason, drained) = self.carry(&mut stream, wire_baud).await;
                let drain = if drained { STOP_DRAIN } else { Duration::ZERO };
                // Dropping the join handle does not stop it: the next opening
                // finds the port busy until it is done, and tries again.
                let closed = tokio::task::spawn_blocking(move || serial::close(stream, drain));
                let _ = closed.await;
                reason
            }
            Line::Tcp(mut stream) => self.carry(&mut stream, None).await.0,
        };

        if matches!(reason, CloseReason::Asked | CloseReason::WrongRate { .. }) {
            self.baud_at = self.baud_at.wrapping_add(1);
        }
        self.closed(&reason).await;
        reason
    }

    /// Says so, to the operator and in the status.
    fn opened(&mut self, line: &Line) {
        let now = self.outside.clock.now();
        (self.denied, self.holder) = (0, None);
        let (facts, advice) = match line {
            Line::Serial(opened) => (opened.facts.clone(), opened.advice.clone()),
            Line::Tcp(_) => (Facts::default(), None),
        };
        let what = match (&self.place, facts.baud, &facts.tty) {
            (PortPlace::Usb { .. }, Some(baud), Some(tty)) => {
                let who = facts
                    .usb
                    .as_ref()
                    .map_or_else(String::new, |usb| format!(" ({usb})"));
                format!("{} is open as {tty} at {} baud{who}", self.place, baud.0)
            }
            (_, Some(baud), _) => format!("{} is open at {} baud", self.place, baud.0),
            (_, None, _) => format!("{} is connected", self.place),
        };
        let what = match advice {
            Some(advice) => format!("{what}; {advice}"),
            None => what,
        };
        let line = self.notices.opened(now, &what);
        self.say(line);
        self.shared.set_open(facts, now);
    }

    async fn closed(&mut self, reason: &CloseReason) {
        let error = reason.to_string();
        self.shared
            .set_failed(error.clone(), self.outside.clock.now());
        self.drop_queued();
        if *reason != CloseReason::Stopped {
            let line = self.notices.failed(self.outside.clock.now(), &error);
            self.say(line);
        }
        let event = PortEventKind::Closed {
            reason: reason.clone(),
        };
        let mut stopped = self.outside.stopped.clone();
        tokio::select! {
            biased;
            // Nobody takes events any more: nobody needs this one.
            _ = self.outside.events.send(event) => {}
            () = wait_stop(&mut stopped) => {}
        }
    }

    /// What was queued for the last opening means nothing to the next one.
    fn drop_queued(&mut self) {
        while self.queue.try_recv().is_ok() {
            self.shared.count_dropped(1);
        }
    }

    /// The rate that this opening tries; none where there is none.
    fn rate(&self) -> Option<Rate> {
        let several = match &self.place {
            PortPlace::Serial { bauds, .. } | PortPlace::Usb { bauds, .. } => bauds.len() > 1,
            PortPlace::Tcp { .. } => return None,
        };
        Some(Rate {
            baud: baud_of(&self.place, self.baud_at)?,
            can_change: several,
            judge: RateJudge::new(),
        })
    }

    /// Why it ended, and whether everything that was queued has been written.
    async fn carry<S>(&mut self, stream: &mut S, wire_baud: Option<Baud>) -> (CloseReason, bool)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut stopped = self.outside.stopped.clone();
        let rate = self.rate();
        let (reader, mut writer) = tokio::io::split(stream);
        let ear = Ear {
            name: &self.name,
            shared: &self.shared,
            outside: &self.outside,
            notices: &mut self.notices,
            rate,
            wire_baud,
        };
        let reason = tokio::select! {
            reason = ear.read_all(reader) => reason,
            reason = write_all(&mut writer, &mut self.queue, &self.shared) => reason,
            () = self.shared.reopen_asked() => CloseReason::Asked,
            () = wait_stop(&mut stopped) => CloseReason::Stopped,
        };
        if reason != CloseReason::Stopped {
            return (reason, false);
        }
        let drain = drain(&mut writer, &mut self.queue, &self.shared);
        (reason, timeout(STOP_DRAIN, drain).await.unwrap_or(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_tried_in_turn_up_to_the_limit() {
        let most = BAUDS_MAX as u32;
        for (name, given, tries, want) in [
            ("none given", 0, 1, 115_200),
            ("one", 1, 5, 0),
            ("first again after the last", 2, 2, 0),
            ("limit-1", most - 1, most - 2, most - 2),
            ("limit", most, most - 1, most - 1),
            ("limit+1 is never tried", most + 1, most, 0),
        ] {
            let bauds = (0..given).map(Baud).collect();
            let place = PortPlace::Serial {
                path: "/dev/ttyUSB0".into(),
                bauds,
            };
            assert_eq!(baud_of(&place, tries as usize), Some(Baud(want)), "{name}");
        }
        let address = String::from("127.0.0.1:1");
        assert_eq!(baud_of(&PortPlace::Tcp { address }, 0), None);
    }
}
