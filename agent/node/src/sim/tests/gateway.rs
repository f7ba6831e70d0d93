//! A small gateway that knows just enough of the link: greets, asks who somebody is, takes
//! what comes next, acks it at once. Waits have a deadline.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use forebay_firmware::wire::ids::{BootId, DeviceUid, Ordinal};
use forebay_firmware::wire::limits::{LINE_BYTES_MAX, WINDOW_FRAMES_MAX};
use forebay_firmware::wire::message::{Ack, HelloAck, Reading};
use forebay_firmware::wire::{Data, Deframer, DeviceMessage, GatewayMessage};
use tokio::sync::mpsc;

use crate::ports::{
    Baud, MonoClock, PortConfig, PortEvent, PortEventKind, PortHandle, PortId, PortPlace, Ports,
};

pub(super) const DEADLINE: Duration = Duration::from_secs(120);
const EVENTS_MAX: usize = 256;
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// One device as the gateway knows it.
pub(super) struct Session {
    pub(super) handle: PortHandle,
    pub(super) deframer: Deframer,
    pub(super) uid: Option<DeviceUid>,
    pub(super) boot: BootId,
    pub(super) channels: BTreeMap<u8, String>,
    pub(super) next: Ordinal,
    pub(super) readings: Vec<Reading>,
    /// Ordinals that the device said are lost.
    pub(super) gaps: u64,
}

impl Session {
    pub(super) fn new(handle: PortHandle) -> Self {
        Self {
            handle,
            deframer: Deframer::new(),
            uid: None,
            boot: BootId(0),
            channels: BTreeMap::new(),
            next: Ordinal(0),
            readings: Vec::new(),
            gaps: 0,
        }
    }

    pub(super) fn take(&mut self, bytes: &[u8]) {
        let mut deframer = std::mem::take(&mut self.deframer);
        deframer.receive_device(bytes, |message| {
            if let Ok(message) = message {
                self.on_message(message);
            }
        });
        self.deframer = deframer;
    }

    pub(super) fn on_message(&mut self, message: DeviceMessage<'_>) {
        match message {
            DeviceMessage::Hello(hello) => {
                if self.uid.is_some() && self.boot != hello.boot {
                    self.next = Ordinal(0);
                }
                self.uid = Some(hello.uid);
                self.boot = hello.boot;
                self.send(GatewayMessage::HelloAck(HelloAck {
                    boot: hello.boot,
                    next: self.next,
                    window: WINDOW_FRAMES_MAX,
                    reliable: true,
                    log_level: 0,
                }));
            }
            DeviceMessage::Channel(info) => {
                self.channels
                    .insert(info.channel.0, info.quantity.as_str().to_owned());
            }
            // A line that was closed and opened at once is none that was away: the device
            // goes on, and nobody has said who it is.
            DeviceMessage::Data(Data { boot_low, .. }) if self.uid.is_none() => {
                self.send(GatewayMessage::Ack(Ack::to_unknown(boot_low)));
            }
            DeviceMessage::Health(health) if self.uid.is_none() => {
                self.send(GatewayMessage::Ack(Ack::to_unknown(health.boot.0 as u8)));
            }
            DeviceMessage::Data(data) => {
                self.on_data(&data);
                self.ack();
            }
            DeviceMessage::Gap(gap) if gap.boot != self.boot => {
                self.send(GatewayMessage::Ack(Ack {
                    boot: gap.boot,
                    next: Ordinal(gap.first.0 + gap.count),
                    credit: WINDOW_FRAMES_MAX,
                }));
            }
            DeviceMessage::Gap(gap) => {
                self.on_gap(gap.first, gap.count);
                self.ack();
            }
            DeviceMessage::SyncReply(_)
            | DeviceMessage::Health(_)
            | DeviceMessage::CmdResult(_)
            | DeviceMessage::Log(_) => {}
        }
    }

    pub(super) fn on_data(&mut self, data: &Data<'_>) {
        if data.first > self.next {
            return;
        }
        for (ordinal, reading) in (data.first.0..).zip(data.records()) {
            if ordinal == self.next.0 {
                self.readings.push(reading.unwrap());
                self.next.0 += 1;
            }
        }
    }

    pub(super) fn on_gap(&mut self, first: Ordinal, count: u64) {
        let end = first.0 + count;
        if first <= self.next && end > self.next.0 {
            self.gaps += end - self.next.0;
            self.next.0 = end;
        }
    }

    pub(super) fn ack(&self) {
        self.send(GatewayMessage::Ack(Ack {
            boot: self.boot,
            next: self.next,
            credit: WINDOW_FRAMES_MAX,
        }));
    }

    pub(super) fn send(&self, message: GatewayMessage<'_>) {
        let mut line = [0; LINE_BYTES_MAX];
        let count = message.encode(&mut line).unwrap();
        self.handle.write(line[..count].to_vec());
    }
}

pub(super) struct Gateway {
    pub(super) ports: Ports,
    events: mpsc::Receiver<PortEvent>,
    pub(super) sessions: Vec<Session>,
}

impl Gateway {
    pub(super) fn new(places: Vec<PortPlace>) -> Self {
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let configs: Vec<PortConfig> = (0..)
            .zip(places)
            .map(|(n, place)| PortConfig {
                id: PortId(n),
                name: format!("p{n}"),
                place,
            })
            .collect();
        let ids: Vec<PortId> = configs.iter().map(|config| config.id).collect();
        let ports = Ports::spawn(configs, sender, MonoClock::start(), Arc::new(|_| {}));
        let sessions = ids
            .iter()
            .map(|id| Session::new(ports.handle(*id).unwrap()))
            .collect();
        Self {
            ports,
            events,
            sessions,
        }
    }

    /// Takes events until it holds, which may come true without an event.
    pub(super) async fn until(&mut self, what: &str, mut holds: impl FnMut(&[Session]) -> bool) {
        let work = async {
            while !holds(&self.sessions) {
                // Devices have threads of their own: who looks all the time starves them, and
                // what reads the lines as well.
                let event = tokio::time::timeout(LOOK_EVERY, self.events.recv());
                if let Ok(event) = event.await {
                    take(&mut self.sessions, event.unwrap());
                }
            }
        };
        within(what, work).await;
    }

    pub(super) async fn until_readings(&mut self, count: usize) {
        self.until("readings", |all| {
            all.iter().all(|one| one.readings.len() >= count)
        })
        .await;
    }
}

pub(super) fn take(sessions: &mut [Session], event: PortEvent) {
    let session = &mut sessions[event.port.0 as usize];
    match event.kind {
        PortEventKind::Bytes { bytes, .. } => session.take(&bytes),
        PortEventKind::Opened { .. } | PortEventKind::Closed { .. } => session.deframer.reset(),
    }
}

pub(super) async fn within<T>(what: &str, wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, wait)
        .await
        .unwrap_or_else(|_| panic!("waited for: {what}"))
}

pub(super) fn serial(path: &Path) -> PortPlace {
    PortPlace::Serial {
        path: path.to_path_buf(),
        bauds: vec![Baud(115_200)],
    }
}
