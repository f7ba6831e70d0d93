//! The firmware of the QEMU board on its serial line, with the sensor that QEMU
//! gives it: what a gateway sees of it.

#![allow(clippy::unwrap_used)] // helpers of tests fail the test too

mod floods;
mod resets;
mod session;
mod small_board;

use std::path::Path;

use forebay_tests::line::{Line, Said};
use forebay_tests::qemu::{Options, Qemu};
use forebay_wire::GatewayMessage;
use forebay_wire::message::{Quality, SyncReq};
use session::{Session, TEMPERATURE, UPTIME, hello, start};

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
                | Said::Gap(_)
                | Said::Health(_)
                | Said::CmdResult(_)
                | Said::Log(_) => None,
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
