//! The life of one port: open, carry bytes both ways, close, pause, again.
//! Invariant: reading goes on while writing waits, and the other way round.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::backoff::{Backoff, is_settled};
use super::carry::{Ear, Outside, Rate, about, drain, write_all};
use super::limits::{DENIED_QUIET_TRIES, SERIAL_PAUSE_MAX, STOP_DRAIN, TCP_PAUSE_MAX};
use super::notices::Notices;
use super::opener::{Line, Opener};
use super::status::{Facts, Shared};
use super::{Baud, CloseReason, OpenError, PortConfig, PortEventKind, PortPlace, serial};

struct Worker {
    name: String,
    opener: Opener,
    shared: Arc<Shared>,
    queue: mpsc::Receiver<Vec<u8>>,
    outside: Outside,
    notices: Notices,
    /// Tries in a row that were not allowed.
    denied: u32,
}

/// Runs until the process stops, or until nobody takes events any more.
pub(super) async fn run(
    config: PortConfig,
    shared: Arc<Shared>,
    queue: mpsc::Receiver<Vec<u8>>,
    outside: Outside,
) {
    let mut backoff = Backoff::new(match config.place {
        PortPlace::Serial { .. } | PortPlace::Usb { .. } => SERIAL_PAUSE_MAX,
        PortPlace::Tcp { .. } => TCP_PAUSE_MAX,
    });
    let mut stopped = outside.stopped.clone();
    let mut worker = Worker {
        name: config.name,
        opener: Opener::new(config.id, config.place, Arc::clone(&outside.usb)),
        notices: Notices::new(outside.clock.now()),
        shared,
        queue,
        outside,
        denied: 0,
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
        worker.opener.give_back();
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

impl Worker {
    fn say(&self, line: Option<String>) {
        if let Some(line) = line {
            (self.outside.say)(&about(&self.name, &line));
        }
    }

    async fn open(&mut self) -> Result<Line, OpenError> {
        if let Some(error) = self.opener.absent().await {
            // One that was here and was pulled has just said so; nobody misses a spare.
            if !self.opener.place().is_spare() && self.shared.opens() == 0 {
                self.open_failed(&error);
            }
        }
        self.opener.open().await
    }

    fn open_failed(&mut self, error: &OpenError) {
        let text = error.to_string();
        let now = self.outside.clock.now();
        self.shared.set_failed(text.clone(), now);
        self.opener.failed(error);
        self.denied = match error {
            OpenError::Denied { .. } => self.denied.saturating_add(1),
            OpenError::Missing { .. }
            | OpenError::NoBoard { .. }
            | OpenError::NoNode { .. }
            | OpenError::Busy { .. }
            | OpenError::Rate { .. }
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

    /// One opening from its first event to its last.
    async fn session(&mut self, line: Line) -> CloseReason {
        self.drop_queued();
        self.opened(&line);

        let reason = match line {
            Line::Serial(opened) => {
                let serial::Opened {
                    mut stream,
                    wire_baud,
                    any_rate,
                    ..
                } = opened;
                let rate = self.opener.rate(any_rate);
                let (reason, drained) = self.carry(&mut stream, rate, wire_baud).await;
                let drain = if drained { STOP_DRAIN } else { Duration::ZERO };
                // Dropping the join handle does not stop it: the next opening
                // finds the port busy until it is done, and tries again.
                let closed = tokio::task::spawn_blocking(move || serial::close(stream, drain));
                let _ = closed.await;
                reason
            }
            Line::Tcp(mut stream) => self.carry(&mut stream, None, None).await.0,
        };

        if matches!(reason, CloseReason::Asked | CloseReason::WrongRate { .. }) {
            self.opener.next_rate();
        }
        self.closed(&reason).await;
        reason
    }

    /// Says so, to the operator and in the status.
    fn opened(&mut self, line: &Line) {
        let now = self.outside.clock.now();
        self.denied = 0;
        let (facts, advice) = match line {
            Line::Serial(opened) => (opened.facts.clone(), opened.advice.clone()),
            Line::Tcp(_) => (Facts::default(), None),
        };
        let place = self.opener.place();
        let what = match (place, facts.baud, &facts.tty) {
            (PortPlace::Usb { .. }, Some(baud), Some(tty)) => {
                let who = facts
                    .usb
                    .as_ref()
                    .map_or_else(String::new, |usb| format!(" ({usb})"));
                format!("{place} is open as {tty} at {} baud{who}", baud.0)
            }
            (_, Some(baud), _) => format!("{place} is open at {} baud", baud.0),
            (_, None, _) => format!("{place} is connected"),
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

    /// Why it ended, and whether everything that was queued has been written.
    async fn carry<S>(
        &mut self,
        stream: &mut S,
        rate: Option<Rate>,
        wire_baud: Option<Baud>,
    ) -> (CloseReason, bool)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut stopped = self.outside.stopped.clone();
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
    use std::sync::Mutex;

    use super::*;
    use crate::ports::share::EventSender;
    use crate::ports::usb::watch::{Roots, UsbPorts};
    use crate::ports::{MonoClock, PortId};

    #[test]
    fn a_port_that_udev_has_not_given_away_yet_says_nothing() {
        let said = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&said);
        let config = PortConfig {
            id: PortId(0),
            name: String::from("p"),
            place: PortPlace::Serial {
                path: "/dev/ttyACM0".into(),
                bauds: vec![],
            },
        };
        let clock = MonoClock::start();
        let usb = Arc::new(UsbPorts::new(Roots::default(), []));
        let mut worker = Worker {
            name: config.name.clone(),
            shared: Arc::new(Shared::new(&config, clock.now())),
            opener: Opener::new(config.id, config.place, Arc::clone(&usb)),
            queue: mpsc::channel(1).1,
            outside: Outside {
                events: EventSender::new(PortId(0), mpsc::channel(1).0),
                clock,
                say: Arc::new(move |line: &str| to.lock().unwrap().push(line.to_owned())),
                stopped: watch::channel(false).1,
                usb,
            },
            notices: Notices::new(clock.now()),
            denied: 0,
        };
        let place = String::from("/dev/ttyACM0");
        let denied = OpenError::Denied {
            place: place.clone(),
        };
        for (name, tries, lines) in [
            ("limit-1", DENIED_QUIET_TRIES - 1, 0),
            ("limit", 1, 0),
            ("limit+1", 1, 1),
            ("said once", 5, 1),
        ] {
            for _ in 0..tries {
                worker.open_failed(&denied);
            }
            assert_eq!(said.lock().unwrap().len(), lines, "{name}");
        }
        // Another error is said at once, and the count starts anew.
        worker.open_failed(&OpenError::Missing { place });
        worker.open_failed(&denied);
        assert_eq!(said.lock().unwrap().len(), 2);
    }
}
