//! The firmware of the QEMU board on its serial line, with the sensor that QEMU
//! gives it: what a gateway sees of it.

#![allow(clippy::unwrap_used)] // helpers of tests fail the test too

use std::path::Path;
use std::time::Instant;

use forebay_tests::line::{Line, Said, WAIT_LIMIT};
use forebay_tests::qemu::{Options, Qemu, board_elf};
use forebay_wire::GatewayMessage;
use forebay_wire::ids::{BootId, DeviceUid, Ordinal};
use forebay_wire::limits::WINDOW_FRAMES_MAX;
use forebay_wire::message::{
    Ack, ChannelInfo, Gap, GapReason, Hello, Quality, Reading, ResetCause, SyncReq,
};

const TEMPERATURE: u8 = 0;
const UPTIME: u8 = 1;

fn start(options: &Options) -> Qemu {
    let elf = board_elf().unwrap_or_else(|error| panic!("{error}"));
    Qemu::start(&elf, options).unwrap_or_else(|error| panic!("{error}"))
}

fn hello(line: &mut Line) -> Hello {
    line.listen_for(|said| match said {
        Said::Hello(hello) => Some(hello),
        Said::Channel(_) | Said::Data { .. } | Said::Gap(_) | Said::SyncReply(_) => None,
    })
    .unwrap()
}

/// A session as the gateway holds it: acks each frame, wants every ordinal once.
struct Session {
    line: Line,
    hello: Hello,
    next: Ordinal,
    channels: Vec<ChannelInfo>,
    /// What the device declares of boots before this one.
    last_gaps: Vec<Gap>,
}

impl Session {
    fn open(qemu: &Qemu) -> Self {
        let mut line = Line::open(qemu.serial_addr()).unwrap();
        let hello = hello(&mut line);
        Self::with(line, hello)
    }

    fn with(mut line: Line, hello: Hello) -> Self {
        line.accept(&hello, Ordinal(0)).unwrap();
        Self {
            line,
            hello,
            next: Ordinal(0),
            channels: Vec::new(),
            last_gaps: Vec::new(),
        }
    }

    /// Reads on until `done` takes a new reading. What begins beyond the next
    /// ordinal is dropped and asked for again, as a gateway does.
    fn until(&mut self, mut done: impl FnMut(&Reading) -> bool) -> Reading {
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < WAIT_LIMIT, "no such reading");
            match self.line.listen().unwrap() {
                Said::Data { boot_low, readings } => {
                    assert_eq!(boot_low, self.hello.boot.0.to_le_bytes()[0]);
                    let fresh = self.take(readings);
                    self.line.acknowledge(&self.hello, self.next).unwrap();
                    if let Some(reading) = fresh.into_iter().find(|reading| done(reading)) {
                        return reading;
                    }
                }
                Said::Gap(gap) if gap.boot == self.hello.boot => {
                    panic!("nothing was lost, but: {gap:?}")
                }
                Said::Gap(gap) => self.note(gap),
                Said::Channel(info) => self.channels.push(info),
                Said::Hello(hello) => {
                    assert_eq!(hello.boot, self.hello.boot, "the device started again");
                    self.line.accept(&hello, self.next).unwrap();
                }
                Said::SyncReply(_) => {}
            }
        }
    }

    /// Takes the last gap of an earlier boot, and says so.
    fn note(&mut self, gap: Gap) {
        let next = Ordinal(gap.first.0 + gap.count);
        let ack = Ack {
            boot: gap.boot,
            next,
            credit: WINDOW_FRAMES_MAX,
        };
        self.line.say(&GatewayMessage::Ack(ack)).unwrap();
        if !self.last_gaps.contains(&gap) {
            self.last_gaps.push(gap);
        }
    }

    fn take(&mut self, readings: Vec<(Ordinal, Reading)>) -> Vec<Reading> {
        let mut fresh = Vec::new();
        for (ordinal, reading) in readings {
            if ordinal == self.next {
                self.next = Ordinal(self.next.0 + 1);
                fresh.push(reading);
            }
        }
        fresh
    }

    fn temperature(&mut self, milli_c: i32) -> Reading {
        self.until(|reading| reading.channel.0 == TEMPERATURE && reading.value == milli_c)
    }
}

#[test]
fn a_missing_image_is_reported_in_the_words_of_qemu() {
    let error = Qemu::start(Path::new("/no/such/image"), &Options::default()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("/no/such/image"), "{text}");
}

#[test]
fn three_temperatures_arrive_as_they_are_set() {
    let mut qemu = start(&Options {
        temperature_milli_c: 21_500,
        ..Options::default()
    });
    let mut session = Session::open(&qemu);
    let first = session.temperature(21_500);
    qemu.set_temperature(-7_500).unwrap();
    let second = session.temperature(-7_500);
    qemu.set_temperature(85_000).unwrap();
    let third = session.temperature(85_000);
    for reading in [first, second, third] {
        assert_eq!(reading.quality, Quality::Ok);
    }
    assert!(first.tick < second.tick && second.tick < third.tick);
    let counters = session.line.counters();
    assert_eq!(counters.bad(), 0, "{counters:?}");
    assert_eq!(qemu.ended().unwrap(), None);
}

#[test]
fn both_channels_come_with_names_and_on_time() {
    let qemu = start(&Options::default());
    let mut session = Session::open(&qemu);
    let mut ticks = Vec::new();
    while ticks.len() < 20 {
        let reading = session.until(|reading| reading.channel.0 == TEMPERATURE);
        ticks.push(reading.tick.0);
    }
    // On the device's own clock: a busy computer delays everything else, but no
    // sample may be taken early or stamped with a later one's time.
    let elapsed = ticks[19] - ticks[0];
    assert!(elapsed >= 19 * 90_000, "20 samples in {elapsed} us");
    session.until(|reading| reading.channel.0 == UPTIME && reading.value >= 1);
    let mut names: Vec<_> = session
        .channels
        .iter()
        .map(|info| (info.channel.0, info.quantity.as_str(), info.unit.as_str()))
        .collect();
    names.sort_unstable();
    names.dedup();
    let want = [
        (TEMPERATURE, "temperature", "degC"),
        (UPTIME, "uptime", "s"),
    ];
    assert_eq!(names, want);
}

#[test]
fn readings_from_before_the_session_are_kept() {
    let qemu = start(&Options::default());
    let mut line = Line::open(qemu.serial_addr()).unwrap();
    // Two Hellos are a second apart: about ten readings without a session.
    let first = hello(&mut line);
    let second = hello(&mut line);
    assert_eq!(first, second);
    let mut session = Session::with(line, second);
    let reading = session.until(|_| true);
    assert!(reading.tick.0 < 1_000_000, "{reading:?}");
}

#[test]
fn an_unplugged_line_loses_nothing() {
    let qemu = start(&Options::default());
    let mut session = Session::open(&qemu);
    let before = session.until(|reading| reading.channel.0 == UPTIME && reading.value >= 1);
    // Unplugged: what is on its way is lost. Plugged in again, the device has either
    // noticed and says Hello, or sends again; both must lead on.
    session.line = Line::open(qemu.serial_addr()).unwrap();
    let after = session.until(|reading| reading.tick.0 >= before.tick.0 + 3_000_000);
    assert_eq!(after.quality, Quality::Ok);
}

#[test]
fn a_reset_is_a_new_boot_with_ordinals_from_zero() {
    let mut qemu = start(&Options::default());
    let mut session = Session::open(&qemu);
    session.until(|_| true);
    let old = session.hello.clone();
    assert_eq!(old.reset_cause, ResetCause::PowerOn);
    for resets in 1..=3 {
        qemu.system_reset().unwrap();
        let boot = BootId(old.boot.0.wrapping_add(resets));
        session.hello = session
            .line
            .listen_for(|said| match said {
                Said::Hello(hello) if hello.boot == boot => Some(hello),
                Said::Hello(_)
                | Said::Channel(_)
                | Said::Data { .. }
                | Said::Gap(_)
                | Said::SyncReply(_) => None,
            })
            .unwrap();
        assert_eq!(session.hello.reset_cause, ResetCause::Pin);
        session.next = Ordinal(0);
        session.line.accept(&session.hello, Ordinal(0)).unwrap();
        let reading = session.until(|_| true);
        assert!(
            reading.tick.0 < 60_000_000,
            "ticks start again: {reading:?}"
        );
    }
}

#[test]
fn what_a_reset_takes_from_the_ring_is_declared_by_the_next_boot() {
    let mut qemu = start(&Options::default());
    let mut session = Session::open(&qemu);
    session.until(|_| true);
    let (old, acked) = (session.hello.boot, session.next);
    // From here on nothing is acked, so all that comes is still the ring's.
    let mut seen = acked;
    while seen.0 < acked.0 + 10 {
        if let Said::Data { readings, .. } = session.line.listen().unwrap() {
            seen = Ordinal(readings.last().unwrap().0.0 + 1).max(seen);
        }
    }
    qemu.system_reset().unwrap();
    let hello = session
        .line
        .listen_for(|said| match said {
            Said::Hello(hello) if hello.boot != old => Some(hello),
            Said::Hello(_)
            | Said::Channel(_)
            | Said::Data { .. }
            | Said::Gap(_)
            | Said::SyncReply(_) => None,
        })
        .unwrap();
    (session.hello, session.next) = (hello, Ordinal(0));
    session
        .line
        .accept(&session.hello.clone(), Ordinal(0))
        .unwrap();
    session.until(|reading| reading.tick.0 > 3_000_000);
    let [gap] = session.last_gaps[..] else {
        panic!("one gap of one boot: {:?}", session.last_gaps);
    };
    assert_eq!((gap.boot, gap.reason), (old, GapReason::PowerLoss));
    assert!(
        gap.first <= acked && gap.first.0 + gap.count >= seen.0,
        "{gap:?}, {acked:?} to {seen:?}"
    );
}

#[test]
fn a_cold_start_takes_another_boot_id_and_two_devices_another_uid() {
    let mut seen = Vec::new();
    for uid in [[1, 2, 3, 4, 5, 6, 7, 8], [0xff, 0, 0, 0, 0, 0, 0, 1]] {
        for _ in 0..2 {
            let qemu = start(&Options {
                uid: Some(uid),
                ..Options::default()
            });
            let hello = hello(&mut Line::open(qemu.serial_addr()).unwrap());
            assert_eq!(
                (hello.uid, hello.reset_cause),
                (DeviceUid(uid), ResetCause::PowerOn)
            );
            seen.push(hello.boot);
            qemu.kill();
        }
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 4, "a boot id came again");
}

#[test]
fn a_missing_sensor_is_a_quality_code_and_delays_nothing() {
    let qemu = start(&Options {
        sensor: false,
        ..Options::default()
    });
    let mut session = Session::open(&qemu);
    let reading = session.until(|reading| reading.channel.0 == TEMPERATURE);
    assert_eq!(reading.quality, Quality::BusError);
    let uptime = session.until(|reading| reading.channel.0 == UPTIME && reading.value >= 1);
    assert_eq!(uptime.quality, Quality::Ok);
}

#[test]
fn clock_probes_are_answered_with_two_ordered_stamps() {
    let qemu = start(&Options::default());
    let mut session = Session::open(&qemu);
    let mut last = 0;
    for id in 1..=8 {
        session
            .line
            .say(&GatewayMessage::SyncReq(SyncReq { id }))
            .unwrap();
        let reply = session
            .line
            .listen_for(|said| match said {
                Said::SyncReply(reply) if reply.id == id => Some(reply),
                Said::SyncReply(_)
                | Said::Hello(_)
                | Said::Channel(_)
                | Said::Data { .. }
                | Said::Gap(_) => None,
            })
            .unwrap();
        assert!(
            last < reply.received.0 && reply.received <= reply.sent,
            "{reply:?} after {last}"
        );
        last = reply.sent.0;
    }
}

#[test]
fn noise_on_the_line_costs_at_most_one_frame() {
    let qemu = start(&Options::default());
    let mut line = Line::open(qemu.serial_addr()).unwrap();
    let hello = hello(&mut line);
    let noise: Vec<u8> = (0..300u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    line.say_raw(&noise).unwrap();
    line.say_raw(b"AT\r\0").unwrap();
    let mut session = Session::with(line, hello);
    session.until(|_| true);
}
