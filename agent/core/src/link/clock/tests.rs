//! What the clock model makes of probes: fits, outliers, wraps, resets, and how far its
//! uncertainty holds.

use proptest::prelude::*;

use super::*;

const UTC: i64 = 1_700_000_000_000_000;

fn now(mono: u64) -> Now {
    Now {
        mono: Mono(mono),
        utc: EventTime(UTC + mono as i64),
    }
}

fn probe(clock: &mut DeviceClock, asked: u64, received: u64, sent: u64, back: u64) {
    let id = clock.probe(Mono(asked));
    clock.reply(id, Tick(received), Tick(sent), Mono(back));
}

/// A device that boots at 1 s of the gateway's clock and is fast by `ppm`.
#[derive(Debug, Clone, Copy)]
struct Twin {
    ppm: i64,
    /// Time that its clock stood still.
    slept: u64,
}

impl Twin {
    fn tick(self, mono: u64) -> u64 {
        let up = i128::from(mono - 1_000_000 - self.slept);
        u64::try_from(up * (1_000_000 + i128::from(self.ppm)) / 1_000_000).unwrap()
    }

    /// A probe with these delays, us.
    fn probe(self, clock: &mut DeviceClock, at: u64, out: u64, back: u64) {
        let held = 100;
        let (received, sent) = (self.tick(at + out), self.tick(at + out + held));
        probe(clock, at, received, sent, at + out + held + back);
    }

    /// By how much the time of a tick is wrong, and its uncertainty.
    fn error(self, clock: &mut DeviceClock, taken: u64, heard: u64) -> (u64, u32) {
        let tick = Tick(self.tick(taken));
        let (time, uncertainty) = clock.map(tick, now(heard)).unwrap();
        (time.0.abs_diff(UTC + taken as i64), uncertainty)
    }
}

/// Delays like those of a pty, the same each time.
fn jitter(n: u64) -> u64 {
    20 + n * 7_919 % 31
}

/// As many probes as there are, as the link asks them, from `at` on; when the last was.
fn probes(twin: Twin, clock: &mut DeviceClock, at: u64, count: u64) -> u64 {
    let mut at = at;
    for n in 0..count {
        twin.probe(clock, at, jitter(n), jitter(n + 13));
        at += if n < 8 { 50_000 } else { PROBE_PAUSE_US };
    }
    at
}

#[test]
fn the_shortest_round_trip_decides() {
    let mut clock = DeviceClock::default();
    assert_eq!(clock.map(Tick(0), now(0)), None);
    // True offset 1,000,000; the first probe's way back took 8 ms longer.
    probe(&mut clock, 1_001_000, 1_500, 1_600, 1_010_100);
    probe(&mut clock, 2_000_000, 1_000_100, 1_000_200, 2_000_300);
    let (time, uncertainty) = clock.map(Tick(1_000_200), now(2_000_300)).unwrap();
    assert!(time.0.abs_diff(UTC + 2_000_200) < 20, "{time:?}");
    assert!((100..1_000).contains(&uncertainty), "{uncertainty}");
}

#[test]
fn a_bad_answer_changes_nothing() {
    let mut clock = DeviceClock::default();
    clock.reply(7, Tick(0), Tick(1), Mono(5));
    probe(&mut clock, 10, 5, 4, 20);
    probe(&mut clock, 10, 5, 500, 20);
    assert_eq!((clock.samples(), clock.stats()), (0, None));
}

#[test]
fn a_probe_that_was_forgotten_is_not_answered() {
    for (name, later, want) in [
        ("limit-1", PROBES_OUTSTANDING_MAX - 2, 1),
        ("limit", PROBES_OUTSTANDING_MAX - 1, 1),
        ("limit+1", PROBES_OUTSTANDING_MAX, 0),
    ] {
        let mut clock = DeviceClock::default();
        let id = clock.probe(Mono(100));
        for n in 0..later as u64 {
            clock.probe(Mono(200 + n));
        }
        clock.reply(id, Tick(5), Tick(6), Mono(1_000));
        assert_eq!(clock.samples(), want, "{name}");
    }
}

#[test]
fn memory_is_bounded() {
    let mut clock = DeviceClock::default();
    let twin = Twin { ppm: 40, slept: 0 };
    probes(twin, &mut clock, 2_000_000, 2_000);
    assert_eq!(clock.best.len(), PROBES_BEST_MAX);
    assert!(clock.recent.len() <= PROBES_RECENT_MAX);
}

#[test]
fn clocks_of_every_kind_are_followed() {
    for (name, ppm) in [
        ("exact", 0),
        ("crystal", 40),
        ("crystal that is slow", -50),
        ("RC oscillator", 40_000),
        ("RC oscillator that is slow", -40_000),
    ] {
        let mut clock = DeviceClock::default();
        let twin = Twin { ppm, slept: 0 };
        let at = probes(twin, &mut clock, 2_000_000, 8);
        let (error, uncertainty) = twin.error(&mut clock, at - 100_000, at);
        assert!(
            error <= u64::from(uncertainty),
            "{name}: {error} {uncertainty}"
        );
        assert!(error < 100, "{name}: after the first probes: {error}");
        let at = probes(twin, &mut clock, at, 40);
        let (error, uncertainty) = twin.error(&mut clock, at, at + 1_000);
        assert!(
            error <= u64::from(uncertainty),
            "{name}: {error} {uncertainty}"
        );
        assert!(
            error < 20 && uncertainty < 100,
            "{name}: {error} {uncertainty}"
        );
        let stats = clock.stats().unwrap();
        assert!(
            (stats.drift_ppm - ppm as f64).abs() < 2.0,
            "{name}: {stats:?}"
        );
        assert!(
            (40..=100).contains(&stats.round_trip_us),
            "{name}: {stats:?}"
        );
    }
}

#[test]
fn what_waited_on_the_device_is_mapped_back_by_the_rate() {
    for (name, ppm, within) in [("crystal", 20, 2_000), ("RC oscillator", 40_000, 10_000)] {
        let mut clock = DeviceClock::default();
        let twin = Twin { ppm, slept: 0 };
        let at = probes(twin, &mut clock, 62_000_000, 8);
        let (error, uncertainty) = twin.error(&mut clock, 2_000_000, at);
        assert!(
            error <= u64::from(uncertainty),
            "{name}: {error} {uncertainty}"
        );
        assert!(error < within, "{name}: {error}");
    }
}

#[test]
fn a_session_of_days_stays_right() {
    let mut clock = DeviceClock::default();
    let twin = Twin { ppm: -37, slept: 0 };
    let day = 86_400_000_000;
    for days in 1..=10 {
        let at = probes(twin, &mut clock, days * day, 100);
        let (error, uncertainty) = twin.error(&mut clock, at, at + 5_000);
        assert!(
            error <= u64::from(uncertainty) && error < 30,
            "day {days}: {error}"
        );
    }
}

#[test]
fn one_probe_that_lies_is_left_out() {
    let mut clock = DeviceClock::default();
    let twin = Twin { ppm: 40, slept: 0 };
    let at = probes(twin, &mut clock, 2_000_000, 30);
    let (good, before) = twin.error(&mut clock, at, at);
    // Stamped 50 ms early, with a short round trip.
    let tick = twin.tick(at) - 50_000;
    probe(&mut clock, at, tick, tick + 10, at + 60);
    let (error, uncertainty) = twin.error(&mut clock, at + 1_000, at + 1_000);
    assert!(error <= good + 5, "{error}");
    // But it is a reason to doubt.
    assert!(uncertainty > before + 40_000, "{before} {uncertainty}");
}

#[test]
fn a_probe_answered_late_says_little() {
    let mut clock = DeviceClock::default();
    let twin = Twin { ppm: 40, slept: 0 };
    let at = probes(twin, &mut clock, 2_000_000, 30);
    twin.probe(&mut clock, at, 30, 10_000_000);
    let (error, uncertainty) = twin.error(&mut clock, at + 10_000_000, at + 10_000_200);
    assert!(error < 50 && uncertainty < 1_000, "{error} {uncertainty}");
}

#[test]
fn a_device_whose_clock_stood_still_is_learnt_anew() {
    let mut clock = DeviceClock::default();
    let twin = Twin { ppm: 40, slept: 0 };
    let at = probes(twin, &mut clock, 2_000_000, 60) + 7_000_000;
    let twin = Twin {
        slept: 7_000_000,
        ..twin
    };
    for n in 0..JUMP_PROBES as u64 {
        twin.probe(&mut clock, at + n * 980_000, 30, 30);
        let (error, uncertainty) =
            twin.error(&mut clock, at + n * 980_000 + 1, at + n * 980_000 + 1);
        assert!(
            error <= u64::from(uncertainty),
            "probe {n}: {error} {uncertainty}"
        );
    }
    let at = at + 4_000_000;
    let (error, uncertainty) = twin.error(&mut clock, at, at + 100);
    assert!(error < 300 && uncertainty < 1_000, "{error} {uncertainty}");
}

#[test]
fn time_on_the_wire_is_no_asymmetry() {
    for (name, baud, says, within) in [
        ("none", None, None, 40),
        ("slow line, known", Some(9_600), Some(9_600), 40),
        ("slow line, not known", Some(9_600), None, 20_000),
        ("fast line, known", Some(921_600), Some(921_600), 40),
        ("a pty that says a rate", None, Some(9_600), 40),
    ] {
        let mut clock = DeviceClock::new(says.map(Baud));
        let twin = Twin { ppm: 10, slept: 0 };
        // Eleven bits of id at most; ticks of four bytes.
        let us = |bytes: u64| baud.map_or(0, |baud: u32| bytes * 10_000_000 / u64::from(baud));
        let mut at = 2_000_000;
        for _ in 0..40 {
            let bytes = len_u64(twin.tick(at + 9_000)) as u64;
            twin.probe(&mut clock, at, 30 + us(8), 30 + us(8 + 2 * bytes));
            at += PROBE_PAUSE_US;
        }
        let (error, uncertainty) = twin.error(&mut clock, at, at);
        assert!(
            error <= u64::from(uncertainty),
            "{name}: {error} {uncertainty}"
        );
        assert!(error < within, "{name}: {error}");
        assert_eq!(
            error > 1_000,
            name == "slow line, not known",
            "{name}: {error}"
        );
    }
}

#[test]
fn delays_on_one_way_only_are_known() {
    for (name, to_device, to_gateway) in [("on the way out", 1, 0), ("on the way back", 0, 1)] {
        let mut clock = DeviceClock::default();
        let twin = Twin { ppm: 40, slept: 0 };
        let mut at = 2_000_000;
        for n in 0..24_u64 {
            // A latency timer of 16 ms.
            let wait = 16_000 - n * 9_377 % 16_000;
            twin.probe(
                &mut clock,
                at,
                30 + to_device * wait,
                30 + to_gateway * wait,
            );
            at += PROBE_PAUSE_US;
        }
        let (error, uncertainty) = twin.error(&mut clock, at, at);
        assert!(
            error <= u64::from(uncertainty),
            "{name}: {error} {uncertainty}"
        );
        assert!(error < 500, "{name}: {error}");
    }
}

#[test]
fn a_better_probe_never_turns_time_back_but_a_set_clock_does() {
    let mut clock = DeviceClock::default();
    probe(&mut clock, 0, 0, 0, 1000);
    let (first, _) = clock.map(Tick(100), now(1000)).expect("a fit");
    probe(&mut clock, 2000, 1990, 1990, 2000);
    let (second, uncertainty) = clock.map(Tick(101), now(2000)).expect("a fit");
    assert_eq!(second.0, first.0 + 1);
    // It says by how much it was held.
    assert!(uncertainty > 400, "{uncertainty}");
    assert_eq!(
        clock.map(Tick(101), now(2000)).unwrap().0,
        second,
        "the same tick"
    );
    assert!(
        clock.map(Tick(99), now(2000)).unwrap().0 < second,
        "an earlier tick"
    );
    for (back, is_set) in [(CLOCK_SET_US - 2, false), (CLOCK_SET_US + 2_000, true)] {
        let mut clock = clock.clone();
        let set_back = Now {
            mono: Mono(2000),
            utc: EventTime(second.0 + 10 - back),
        };
        let (third, _) = clock.map(Tick(2_000), set_back).expect("a fit");
        assert_eq!(third < second, is_set, "{back}");
    }
}

#[test]
fn the_pauses_meet_every_part_of_a_latency_timer() {
    let mut at = 0;
    let mut met = [false; 16];
    for _ in 0..32 {
        at += PROBE_PAUSE_US;
        met[(at / 1_000 % 16) as usize] = true;
    }
    assert_eq!(met, [true; 16]);
}

proptest! {
    /// Whatever the line does: later ticks, later times, and no panic.
    #[test]
    fn times_ascend_strictly(
        delays in prop::collection::vec((0_u64..20_000, 0_u64..20_000, 1_u64..2_000_000), 1..60),
        ppm in -40_000_i64..40_000,
    ) {
        let mut clock = DeviceClock::default();
        let twin = Twin { ppm, slept: 0 };
        let (mut at, mut last) = (2_000_000, None);
        for (out, back, pause) in delays {
            twin.probe(&mut clock, at, out, back);
            for part in 0..4 {
                let taken = at + pause * part / 4;
                let tick = Tick(twin.tick(taken));
                let (time, _) = clock.map(tick, now(at + pause + 50_000)).unwrap();
                if let Some((last_tick, last_time)) = last {
                    prop_assert!(tick <= last_tick || time > last_time);
                }
                last = Some((tick, time));
            }
            at += pause + 50_000;
        }
    }

    #[test]
    fn no_stamp_makes_it_panic(stamps in prop::collection::vec(any::<(u64, u64, u64, u64)>(), 1..40)) {
        let mut clock = DeviceClock::new(Some(Baud(115_200)));
        for (asked, received, sent, back) in stamps {
            probe(&mut clock, asked, received, sent, back);
            probe(&mut clock, asked / 2, received, received.saturating_add(sent % 1_000), asked);
            clock.map(Tick(back), Now { mono: Mono(sent), utc: EventTime(asked.cast_signed()) });
            let _ = clock.stats();
        }
    }
}
