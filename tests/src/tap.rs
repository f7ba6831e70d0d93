//! A tap on the line between a device and the agent: passes the bytes both ways
//! and notes what the device says that it produced.
//!
//! The device's side stays connected while agents come and go, as a board that
//! stays powered does. Bound: it keeps ordinals, which are as many as the test's
//! readings. Judges nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use forebay_wire::Deframer;
use forebay_wire::data::boot_low;
use forebay_wire::ids::{BootId, DeviceUid};
use forebay_wire::message::Hello;

use crate::line::{Said, own};

/// What one boot of a device said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Boot {
    /// Ordinals of all readings that were on the line, once or more.
    pub readings: BTreeSet<u64>,
    /// Ordinals that the device declared as lost.
    pub gaps: BTreeSet<u64>,
    /// How many ordinals it gave out, when a later boot had to say so.
    pub end: Option<u64>,
}

/// What was said, by device and boot.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    pub boots: BTreeMap<(DeviceUid, BootId), Boot>,
    /// Its Hello: Data has the low byte of the boot only.
    speaker: Option<Hello>,
}

impl Heard {
    /// Who speaks now.
    #[must_use]
    pub fn speaker(&self) -> Option<(DeviceUid, BootId)> {
        let hello = self.speaker.as_ref()?;
        Some((hello.uid, hello.boot))
    }

    fn note(&mut self, said: Said) {
        if let Said::Hello(hello) = said {
            self.boots.entry((hello.uid, hello.boot)).or_default();
            self.speaker = Some(hello);
            return;
        }
        let Some(hello) = &self.speaker else {
            return;
        };
        let (uid, now) = (hello.uid, hello.boot);
        match said {
            // The low byte of another boot: a frame from before the reset.
            Said::Data { boot_low: low, .. } if low != boot_low(now) => {}
            Said::Data { readings, .. } => {
                let boot = self.boots.entry((uid, now)).or_default();
                boot.readings.extend(readings.iter().map(|(at, _)| at.0));
            }
            Said::Gap(gap) => {
                let boot = self.boots.entry((uid, gap.boot)).or_default();
                let end = gap.first.0 + gap.count;
                boot.gaps.extend(gap.first.0..end);
                if gap.boot != now {
                    boot.end = Some(end);
                }
            }
            Said::Hello(_)
            | Said::Channel(_)
            | Said::SyncReply(_)
            | Said::Health(_)
            | Said::CmdResult(_)
            | Said::Log(_) => {}
        }
    }
}

/// The tap. Dropping it closes both sides.
#[derive(Debug)]
pub struct Tap {
    addr: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    device: TcpStream,
    agent: Mutex<Option<TcpStream>>,
    heard: Mutex<Heard>,
    closed: AtomicBool,
}

/// A poisoned lock is a test that failed already: go on to its end.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tap {
    /// Connects to the device and listens for agents on a port of its own.
    ///
    /// # Errors
    /// When nobody listens at `device`, or there is no free port.
    pub fn open(device: SocketAddr) -> io::Result<Self> {
        let device = TcpStream::connect(device)?;
        device.set_nodelay(true)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared {
            device,
            agent: Mutex::new(None),
            heard: Mutex::new(Heard::default()),
            closed: AtomicBool::new(false),
        });
        let (up, down) = (Arc::clone(&shared), Arc::clone(&shared));
        let threads = vec![
            thread::spawn(move || up.device_to_agent()),
            thread::spawn(move || down.agents_to_device(&listener)),
        ];
        Ok(Self {
            addr,
            shared,
            threads,
        })
    }

    /// Where agents connect.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What the device said so far.
    #[must_use]
    pub fn heard(&self) -> Heard {
        lock(&self.shared.heard).clone()
    }
}

impl Shared {
    fn device_to_agent(&self) {
        let mut deframer = Deframer::new();
        let mut chunk = [0; 4096];
        while let Ok(count @ 1..) = (&self.device).read(&mut chunk) {
            let bytes = &chunk[..count];
            let mut heard = lock(&self.heard);
            deframer.receive_device(bytes, |message| {
                if let Ok(message) = message {
                    heard.note(own(message));
                }
            });
            drop(heard);
            let mut agent = lock(&self.agent);
            // An agent that is gone is the agent's affair: the next one connects.
            if agent
                .as_mut()
                .is_some_and(|agent| agent.write_all(bytes).is_err())
            {
                *agent = None;
            }
        }
    }

    fn agents_to_device(&self, listener: &TcpListener) {
        while let Ok((mut agent, _)) = listener.accept() {
            if self.closed.load(Ordering::SeqCst) {
                return;
            }
            let Ok(back) = agent.try_clone() else {
                continue;
            };
            let _ = back.set_nodelay(true);
            *lock(&self.agent) = Some(back);
            let mut chunk = [0; 4096];
            while let Ok(count @ 1..) = agent.read(&mut chunk) {
                if (&self.device).write_all(&chunk[..count]).is_err() {
                    return;
                }
            }
            *lock(&self.agent) = None;
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        let _ = self.shared.device.shutdown(Shutdown::Both);
        if let Some(agent) = lock(&self.shared.agent).take() {
            let _ = agent.shutdown(Shutdown::Both);
        }
        // Wakes the thread that waits for the next agent.
        let _ = TcpStream::connect(self.addr);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forebay_wire::ids::{ChannelNo, Ordinal, Tick};
    use forebay_wire::message::{Gap, GapReason, Quality, Reading, ResetCause};
    use forebay_wire::{DeviceMessage, GatewayMessage, message::SyncReq};

    use super::*;
    use crate::wait;

    const LIMIT: Duration = Duration::from_secs(10);
    const UID: DeviceUid = DeviceUid([7; 8]);
    const BOOT: BootId = BootId(0x0102_0304);

    fn hello() -> Hello {
        Hello {
            uid: UID,
            boot: BOOT,
            protocol_minor: 0,
            schema_hash: 0,
            firmware_version: [0; 3],
            build_id: [0; 8],
            reset_cause: ResetCause::PowerOn,
            tick_hz: 1,
            ring_capacity: 1,
            channel_count: 1,
        }
    }

    fn gap() -> Gap {
        Gap {
            boot: BOOT,
            reason: GapReason::RingFull,
            first: Ordinal(2),
            count: 3,
            first_tick: Tick(0),
            last_tick: Tick(9),
        }
    }

    fn say(mut device: &TcpStream, message: &DeviceMessage<'_>) {
        let mut line = [0; 300];
        let count = message.encode(&mut line).unwrap();
        device.write_all(&line[..count]).unwrap();
    }

    #[test]
    fn it_passes_both_ways_and_notes_what_the_device_says_between_agents() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let tap = Tap::open(listener.local_addr().unwrap()).unwrap();
        let (mut device, _) = listener.accept().unwrap();
        // No agent yet: what the device says is noted and goes nowhere.
        say(&device, &DeviceMessage::Hello(hello()));
        say(&device, &DeviceMessage::Gap(gap()));
        wait::until("the gap is noted", LIMIT, || {
            let heard = tap.heard();
            let gaps = heard.boots.get(&(UID, BOOT)).map(|boot| boot.gaps.clone());
            (gaps == Some(BTreeSet::from([2, 3, 4])))
                .then_some(())
                .ok_or("not yet")
        });
        for round in 0..2 {
            let mut agent = TcpStream::connect(tap.addr()).unwrap();
            agent.set_read_timeout(Some(LIMIT)).unwrap();
            let mut sent = [0; 300];
            let request = GatewayMessage::SyncReq(SyncReq { id: round });
            let count = request.encode(&mut sent).unwrap();
            agent.write_all(&sent[..count]).unwrap();
            let mut got = vec![0; count];
            device.read_exact(&mut got).unwrap();
            assert_eq!(got, sent[..count]);
            say(&device, &DeviceMessage::Hello(hello()));
            let mut first = [0];
            agent.read_exact(&mut first).unwrap();
        }
    }

    #[test]
    fn readings_count_for_the_boot_that_speaks() {
        let reading = Reading {
            channel: ChannelNo(0),
            tick: Tick(0),
            value: 1,
            quality: Quality::Ok,
        };
        let mut heard = Heard::default();
        let data = |boot_low, first: u64| Said::Data {
            boot_low,
            readings: vec![(Ordinal(first), reading), (Ordinal(first + 1), reading)],
        };
        heard.note(data(4, 100));
        assert!(heard.boots.is_empty(), "nobody said Hello yet");
        heard.note(Said::Hello(hello()));
        heard.note(data(4, 0));
        heard.note(data(4, 1));
        heard.note(data(5, 50));
        let boot = &heard.boots[&(UID, BOOT)];
        assert_eq!(boot.readings, BTreeSet::from([0, 1, 2]));
        heard.note(Said::Gap(gap()));
        assert_eq!(heard.boots[&(UID, BOOT)].end, None, "it goes on");
        let next = BootId(BOOT.0 + 1);
        heard.note(Said::Hello(Hello {
            boot: next,
            ..hello()
        }));
        assert_eq!(heard.speaker(), Some((UID, next)));
        heard.note(Said::Gap(gap()));
        assert_eq!(heard.boots[&(UID, BOOT)].end, Some(5));
    }
}
