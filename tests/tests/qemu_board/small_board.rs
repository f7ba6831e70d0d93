//! The same firmware on the smallest board: a Cortex-M3 with 64 KB of RAM.

use std::time::{Duration, Instant};

use forebay_tests::qemu::{Machine, Options, board_elf};
use forebay_wire::ids::BootId;
use forebay_wire::message::{Quality, ResetCause};

use super::session::{Session, TEMPERATURE, UPTIME, start};

fn small() -> Options {
    Options {
        machine: Machine::Lm3s6965evb,
        ..Options::default()
    }
}

#[test]
fn it_greets_and_sends_temperatures_as_they_are_set() {
    let mut qemu = start(&small());
    let mut session = Session::open(&qemu);
    assert_eq!(session.hello.reset_cause, ResetCause::PowerOn);
    let first = session.temperature(21_500);
    qemu.set_temperature(-7_500).unwrap();
    let second = session.temperature(-7_500);
    assert!(first.tick < second.tick, "{first:?} {second:?}");
    assert_eq!((first.quality, second.quality), (Quality::Ok, Quality::Ok));
    let counters = session.line.counters();
    assert_eq!(counters.bad(), 0, "{counters:?}");
    assert_eq!(qemu.ended().unwrap(), None);
}

/// Its counter wraps each 1.34 s: a wrap too many or too few would show.
#[test]
fn its_time_is_that_of_the_computer_over_many_wraps() {
    let qemu = start(&small());
    let mut session = Session::open(&qemu);
    // What waited for the session has come by then.
    let first = session.until(|reading| reading.tick.0 >= 2_000_000);
    let began = Instant::now();
    let later = first.tick.0 + 6_000_000;
    let mut last = first.tick;
    let end = session.until(|reading| {
        assert!(reading.tick >= last, "{reading:?} after {last:?}");
        last = reading.tick;
        reading.tick.0 >= later
    });
    let device = Duration::from_micros(end.tick.0 - first.tick.0);
    let difference = device.abs_diff(began.elapsed());
    assert!(difference < Duration::from_secs(1), "{difference:?}");
    session.until(|reading| reading.channel.0 == UPTIME && reading.value >= 6);
}

#[test]
fn a_missing_sensor_is_a_quality_code() {
    let options = Options {
        sensor: false,
        ..small()
    };
    let qemu = start(&options);
    let mut session = Session::open(&qemu);
    let reading = session.until(|reading| reading.channel.0 == TEMPERATURE);
    assert_eq!(reading.quality, Quality::BusError);
    let uptime = session.until(|reading| reading.channel.0 == UPTIME && reading.value >= 1);
    assert_eq!(uptime.quality, Quality::Ok);
}

#[test]
fn a_reset_counts_on_and_declares_what_it_took() {
    let mut qemu = start(&small());
    let mut session = Session::open(&qemu);
    session.until(|reading| reading.tick.0 >= 1_000_000);
    session.settle();
    let (old, acked) = (session.hello.boot, session.acked.0);
    session.hear(acked + 5);
    qemu.system_reset().unwrap();
    let heard = session.follow_reset().0;
    assert_eq!(session.hello.boot, BootId(old.0.wrapping_add(1)));
    assert_eq!(session.hello.reset_cause, ResetCause::Pin);
    let gap = session.gap();
    assert_eq!((gap.boot, gap.first.0), (old, acked));
    assert!(gap.first.0 + gap.count >= heard, "{gap:?}");
}

#[test]
fn each_board_says_the_build_id_that_its_image_has() {
    let note = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0";
    for machine in [Machine::Mps2An386, Machine::Lm3s6965evb] {
        let elf = board_elf(machine).unwrap_or_else(|error| panic!("{error}"));
        let image = std::fs::read(elf).unwrap();
        let at = image.windows(note.len()).position(|bytes| bytes == note);
        let id = &image[at.unwrap() + note.len()..][..8];
        let options = Options {
            machine,
            ..Options::default()
        };
        let hello = Session::open(&start(&options)).hello;
        assert_eq!(hello.build_id, id, "{machine:?}");
        assert_ne!(hello.build_id, [0; 8], "{machine:?}");
    }
}
