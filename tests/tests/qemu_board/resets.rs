//! Boot ids over resets, and what a boot says of those before it.

use std::time::Instant;

use forebay_tests::line::Line;
use forebay_tests::qemu::Options;
use forebay_wire::ids::{BootId, DeviceUid, Ordinal, Tick};
use forebay_wire::message::{Gap, GapReason, ResetCause};

use super::session::{Session, hello, start};

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
        session.follow_reset();
        assert_eq!(session.hello.boot, boot);
        assert_eq!(session.hello.reset_cause, ResetCause::Pin);
        let reading = session.until(|_| true);
        assert!(
            reading.tick.0 < 60_000_000,
            "ticks start again: {reading:?}"
        );
    }
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

/// Both channels together produce no more than this since `start`.
fn produced_at_most(start: Instant) -> u64 {
    let channels = 2;
    channels + start.elapsed().as_millis() as u64 * 11 / 1_000
}

/// What a device says of a boot that a reset has ended.
fn last_gap(boot: BootId, first: u64, end: u64) -> Gap {
    Gap {
        boot,
        reason: GapReason::PowerLoss,
        first: Ordinal(first),
        count: end - first,
        first_tick: Tick(0),
        last_tick: Tick(0),
    }
}

#[test]
fn what_a_reset_took_is_declared_until_it_is_acked() {
    let began = Instant::now();
    let mut qemu = start(&Options::default());
    let mut session = Session::open(&qemu);
    session.until(|reading| reading.tick.0 >= 1_000_000);
    session.settle();
    let (old, acked) = (session.hello.boot, session.acked.0);
    session.hear(acked + 10);
    qemu.system_reset().unwrap();
    let limit = produced_at_most(began);
    let heard = session.follow_reset().0;
    let declared = session.gap();
    let end = declared.first.0 + declared.count;
    assert_eq!(declared, last_gap(old, acked, end));
    assert!((heard..=limit).contains(&end), "{heard} {end} {limit}");

    for _ in 0..3 {
        assert_eq!(session.gap(), declared);
    }
    session.noted(old, end - 1);
    session.settle();
    assert_eq!(session.gap(), declared, "one is still missing");
    session.noted(old, end);
    session.settle();
    session.declares_nothing();

    // The note itself is kept: the boot after that has nothing to say of the first.
    session.settle();
    let acked = session.acked.0;
    let second = session.hello.boot;
    session.hear(acked + 3);
    qemu.system_reset().unwrap();
    session.follow_reset();
    let declared = session.gap();
    let end = declared.first.0 + declared.count;
    assert_eq!(declared, last_gap(second, acked, end));
    assert!(end >= acked + 3, "{declared:?}");
    session.noted(second, end);
    session.settle();
    session.declares_nothing();
}

#[test]
fn boots_that_nobody_heard_are_declared_in_the_end() {
    let mut qemu = start(&Options::default());
    let mut session = Session::open(&qemu);
    let first = session.hello.boot;
    session.hear(5);
    for _ in 0..2 {
        qemu.system_reset().unwrap();
        session.follow_reset();
        session.hear(5);
    }
    // In turn, so that one that cannot be noted does not hold up the others.
    let second = BootId(first.0.wrapping_add(1));
    let one = session.gap();
    let other = session.gap();
    let mut boots = [one.boot, other.boot];
    boots.sort_unstable_by_key(|boot| boot.0.wrapping_sub(first.0));
    assert_eq!(boots, [first, second]);
    for gap in [one, other] {
        let end = gap.first.0 + gap.count;
        assert_eq!(gap, last_gap(gap.boot, 0, end));
        assert!(end >= 5, "{gap:?}");
        session.noted(gap.boot, end);
    }
    session.settle();
    session.declares_nothing();
}

#[test]
fn a_cold_start_owes_nothing() {
    let qemu = start(&Options::default());
    Session::open(&qemu).hear(3);
    qemu.kill();
    let qemu = start(&Options::default());
    let mut session = Session::open(&qemu);
    session.declares_nothing();
}
