//! The controller against a model of the bus: what the device sees, and how the
//! bus is left after each failure.

use super::*;
use crate::bus_model::{Bus, NoDelay};
use std::vec::Vec;

const ADDRESS: u8 = 0x48;

fn controller(bus: &Bus) -> BitBang<impl InputPin + OutputPin, impl InputPin + OutputPin, NoDelay> {
    BitBang::new(bus.scl(), bus.sda(), bus.delay())
}

#[test]
fn a_write_arrives_and_ends_with_a_stop() {
    let bus = Bus::with_device(ADDRESS);
    assert_eq!(controller(&bus).write(ADDRESS, &[0x01, 0x60]), Ok(()));
    assert_eq!(bus.log(), "S 90+ 01+ 60+ P");
    assert!(bus.is_idle());
}

#[test]
fn a_register_read_uses_a_repeated_start_and_refuses_only_the_last_byte() {
    let bus = Bus::with_device(ADDRESS);
    bus.answer(&[0x15, 0x80]);
    let mut data = [0; 2];
    assert_eq!(
        controller(&bus).write_read(ADDRESS, &[0x00], &mut data),
        Ok(())
    );
    assert_eq!(data, [0x15, 0x80]);
    assert_eq!(bus.log(), "S 90+ 00+ S 91+ 15+ 80- P");
}

#[test]
fn neighbours_of_one_direction_are_one_transfer() {
    let bus = Bus::with_device(ADDRESS);
    bus.answer(&[1, 2, 3]);
    let (mut first, mut nothing, mut last) = ([0; 2], [0; 0], [0; 1]);
    let outcome = controller(&bus).transaction(
        ADDRESS,
        &mut [
            Operation::Write(&[7]),
            Operation::Write(&[8]),
            Operation::Read(&mut first),
            Operation::Read(&mut nothing),
            Operation::Read(&mut last),
        ],
    );
    assert_eq!((outcome, first, last), (Ok(()), [1, 2], [3]));
    assert_eq!(bus.log(), "S 90+ 07+ 08+ S 91+ 01+ 02+ 03- P");
}

#[test]
fn no_operation_touches_no_line() {
    let bus = Bus::with_device(ADDRESS);
    assert_eq!(controller(&bus).transaction(ADDRESS, &mut []), Ok(()));
    assert_eq!(bus.log(), "");
}

#[test]
fn refusals_name_what_was_refused_and_leave_the_bus_idle() {
    for (name, address, accepts, want, log) in [
        ("no such device", 0x49, 9, Error::NackAddress, "S 92- P"),
        ("first byte", ADDRESS, 0, Error::NackData, "S 90+ 01- P"),
        (
            "second byte",
            ADDRESS,
            1,
            Error::NackData,
            "S 90+ 01+ 02- P",
        ),
    ] {
        let bus = Bus::with_device(ADDRESS);
        bus.accept_only(accepts);
        assert_eq!(
            controller(&bus).write(address, &[1, 2]),
            Err(want),
            "{name}"
        );
        assert_eq!(bus.log(), log, "{name}");
        assert!(bus.is_idle(), "{name}");
    }
}

#[test]
fn error_kinds_are_those_that_drivers_know() {
    use embedded_hal::i2c::Error as _;
    for (error, want) in [
        (
            Error::NackAddress,
            ErrorKind::NoAcknowledge(NoAcknowledgeSource::Address),
        ),
        (
            Error::NackData,
            ErrorKind::NoAcknowledge(NoAcknowledgeSource::Data),
        ),
        (Error::ClockStuck, ErrorKind::Bus),
        (Error::DataStuck, ErrorKind::Bus),
        (Error::Pin, ErrorKind::Other),
    ] {
        assert_eq!(error.kind(), want, "{error:?}");
    }
}

#[test]
fn a_held_data_line_is_freed_by_at_most_nine_clocks_and_a_stop() {
    for (name, clocks, want) in [
        ("one bit left", 1, Ok(())),
        ("whole byte left", 8, Ok(())),
        ("limit", RECOVERY_CLOCKS, Ok(())),
        ("limit + 1", RECOVERY_CLOCKS + 1, Err(Error::DataStuck)),
        ("for ever", u32::MAX, Err(Error::DataStuck)),
    ] {
        let bus = Bus::with_device(ADDRESS);
        bus.hold_sda_for_clocks(clocks);
        assert_eq!(controller(&bus).write(ADDRESS, &[5]), want, "{name}");
        if want.is_ok() {
            assert!(
                bus.log().ends_with("P S 90+ 05+ P"),
                "{name}: {}",
                bus.log()
            );
            assert!(bus.is_idle(), "{name}");
        }
    }
}

#[test]
fn a_data_line_that_is_free_again_needs_no_recovery() {
    let bus = Bus::with_device(ADDRESS);
    bus.hold_sda_for_clocks(RECOVERY_CLOCKS + 1);
    let mut i2c = controller(&bus);
    assert_eq!(i2c.write(ADDRESS, &[5]), Err(Error::DataStuck));
    bus.hold_sda_for_clocks(0);
    assert_eq!(i2c.write(ADDRESS, &[5]), Ok(()));
}

#[test]
fn a_stretched_clock_is_waited_for_up_to_the_limit() {
    for (name, polls, want) in [
        ("not at all", 0, Ok(())),
        ("a little", 3, Ok(())),
        ("limit - 1", STRETCH_POLLS_MAX - 1, Ok(())),
        ("limit", STRETCH_POLLS_MAX, Ok(())),
        ("limit + 1", STRETCH_POLLS_MAX + 1, Err(Error::ClockStuck)),
    ] {
        let bus = Bus::with_device(ADDRESS);
        bus.stretch_once(polls);
        assert_eq!(controller(&bus).write(ADDRESS, &[5]), want, "{name}");
    }
}

#[test]
fn a_clock_that_is_held_for_ever_costs_a_bounded_wait_and_holds_no_line() {
    let bus = Bus::with_device(ADDRESS);
    bus.hold_scl();
    assert_eq!(
        controller(&bus).write(ADDRESS, &[5]),
        Err(Error::ClockStuck)
    );
    let half_periods = bus.waited_ns() / u64::from(HALF_PERIOD_NS);
    // Two waits for the clock: at the START and at the STOP.
    assert!(
        half_periods <= 2 * u64::from(STRETCH_POLLS_MAX) + 10,
        "{half_periods}"
    );
    assert!(bus.controller_released());
}

#[test]
fn no_clock_is_faster_than_standard_mode() {
    let bus = Bus::with_device(ADDRESS);
    assert_eq!(controller(&bus).write(ADDRESS, &[0xa5, 0x5a]), Ok(()));
    let shortest: Option<u64> = bus
        .edges_ns()
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .min();
    assert!(shortest >= Some(u64::from(HALF_PERIOD_NS)), "{shortest:?}");
}

#[test]
fn every_byte_value_survives_both_directions() {
    let bus = Bus::with_device(ADDRESS);
    let all: Vec<u8> = (0..=255).collect();
    bus.accept_only(usize::MAX);
    bus.answer(&all);
    let mut back = [0; 256];
    let mut i2c = controller(&bus);
    assert_eq!(i2c.write(ADDRESS, &all), Ok(()));
    assert_eq!(i2c.read(ADDRESS, &mut back), Ok(()));
    assert_eq!((bus.written(), back.to_vec()), (all.clone(), all));
}
