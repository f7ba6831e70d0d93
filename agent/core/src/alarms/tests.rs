//! The rules over facts, with time driven by hand.

use forebay_wire::ids::DeviceUid;

use super::*;
use crate::forward::Standing;
use crate::retention::WhenFull;
use crate::units::{EventTime, Span};

const S: u64 = 1_000_000;

fn at(seconds: u64) -> Now {
    Now {
        mono: Mono(seconds * S),
        utc: EventTime((1_700_000_000 + seconds as i64) * 1_000_000),
    }
}

fn facts() -> Facts {
    Facts {
        clock_trusted: true,
        devices: Vec::new(),
        devices_refused: 0,
        open_ports: Vec::new(),
        topics: Vec::new(),
        destinations: Vec::new(),
        sources: Vec::new(),
        store: StoreFacts::default(),
        engine: EngineFacts::default(),
    }
}

fn device(name: &str, taken: u64) -> DeviceFacts {
    DeviceFacts {
        name: name.to_owned(),
        taken,
        last: None,
        period: Some(Span(1_000_000)),
        alive_at: None,
        connected: true,
        health_at: None,
        gaps: 0,
        closes: true,
        moves: 0,
    }
}

fn uid(n: u8) -> DeviceUid {
    DeviceUid([n; 8])
}

fn alarms(rules: AlarmRules) -> Alarms {
    Alarms::new(rules, &[], at(0))
}

/// Codes and subjects that there are.
fn active(alarms: &Alarms) -> Vec<(&'static str, String)> {
    let all = alarms.active();
    all.map(|a| (a.code.name(), a.subject.clone())).collect()
}

/// Judges each second from `from` until before `to`.
fn run(alarms: &mut Alarms, (from, to): (u64, u64), mut facts: impl FnMut(u64) -> Facts) {
    for second in from..to {
        alarms.judge(&facts(second), at(second));
    }
}

/// How often alarms of a code began or ended.
fn flips(alarms: &mut Alarms, (from, to): (u64, u64), facts: impl Fn(u64) -> Facts) -> usize {
    let told = (from..to).map(|second| alarms.judge(&facts(second), at(second)));
    told.map(|told| told.rows.len()).sum()
}

#[test]
fn it_is_judged_once_a_second_and_never_for_the_past() {
    let mut alarms = alarms(AlarmRules::default());
    assert!(alarms.is_due(at(0).mono));
    alarms.judge(&facts(), at(0));
    for (micros, due) in [(S - 1, false), (S, true), (S + 1, true)] {
        assert_eq!(alarms.is_due(Mono(micros)), due, "{micros}");
    }
    alarms.judge(&facts(), at(100));
    assert_eq!(
        alarms.next_deadline(),
        at(101).mono,
        "what was slept through is over"
    );
}

#[test]
fn a_device_that_is_silent_is_named_and_one_alarm_stands_for_all() {
    let mut alarms = alarms(AlarmRules::default());
    let both = |a: u64, b: u64| Facts {
        devices: vec![(uid(1), device("a", a)), (uid(2), device("b", b))],
        ..facts()
    };
    run(&mut alarms, (0, 20), |s| both(s, s));
    assert_eq!(active(&alarms), []);
    run(&mut alarms, (20, 29), |s| both(s, 19));
    assert_eq!(active(&alarms), [], "nine seconds");
    run(&mut alarms, (29, 40), |s| both(s, 19));
    assert_eq!(active(&alarms), [("ingest-stalled", "b".to_owned())]);
    assert_eq!(alarms.health(), "degraded");
    run(&mut alarms, (40, 50), |_| both(39, 19));
    let all = [("ingest-stalled", "all devices".to_owned())];
    assert_eq!(active(&alarms), all);
    assert_eq!(alarms.health(), "failed");
    run(&mut alarms, (50, 60), |s| both(s, 19));
    assert_eq!(active(&alarms), [("ingest-stalled", "b".to_owned())]);
    run(&mut alarms, (60, 70), |s| both(s, s));
    assert_eq!((active(&alarms), alarms.health()), (Vec::new(), "ok"));
}

#[test]
fn one_that_sends_each_second_is_back_however_short_the_limit() {
    let rules = AlarmRules {
        stalled_periods: 2,
        stalled_min: Span(1),
        ..AlarmRules::default()
    };
    let one = |taken| Facts {
        devices: vec![(uid(1), device("a", taken))],
        ..facts()
    };
    for (silent, told) in [(2, false), (3, true), (4, true)] {
        let mut alarms = alarms(rules.clone());
        run(&mut alarms, (0, 10), one);
        run(&mut alarms, (10, 10 + silent), |_| one(9));
        assert_eq!(alarms.active().count() == 1, told, "{silent}");
        run(&mut alarms, (20, 23), one);
        assert_eq!(active(&alarms), [], "{silent}");
    }
}

#[test]
fn the_only_device_being_gone_is_a_failure() {
    let mut alarms = alarms(AlarmRules::default());
    let one = || Facts {
        devices: vec![(uid(1), device("a", 5))],
        ..facts()
    };
    run(&mut alarms, (0, 11), |_| one());
    assert_eq!(alarms.health(), "failed");
}

#[test]
fn what_an_operator_expects_of_a_device_goes_before_what_it_says() {
    for (name, expect, silent) in [
        ("as it says", None, true),
        ("each minute", Some(Expect::Every(Span(60_000_000))), false),
        ("never", Some(Expect::Never), false),
    ] {
        let mut rules = AlarmRules::default();
        rules.expects.extend(expect.map(|expect| (uid(1), expect)));
        let mut alarms = alarms(rules);
        let one = || Facts {
            devices: vec![(uid(1), device("a", 5))],
            ..facts()
        };
        run(&mut alarms, (0, 599), |_| one());
        assert_eq!(alarms.active().count() == 1, silent, "{name}");
        run(&mut alarms, (599, 601), |_| one());
        let minute = name == "each minute";
        assert_eq!(alarms.active().count() == 1, silent || minute, "{name}");
    }
}

#[test]
fn a_port_is_lost_only_after_it_was_open() {
    let mut rules = AlarmRules::default();
    rules.ports.insert(PortId(3), String::from("/dev/ttyUSB0"));
    for (name, open_until, to, lost) in [
        ("never open", 0, 100, false),
        ("nine seconds", 20, 30, false),
        ("ten seconds", 20, 31, true),
    ] {
        let mut alarms = alarms(rules.clone());
        run(&mut alarms, (0, to), |s| Facts {
            open_ports: (s < open_until).then_some(PortId(3)).into_iter().collect(),
            ..facts()
        });
        let want = lost.then(|| ("port-lost", "/dev/ttyUSB0".to_owned()));
        assert_eq!(active(&alarms), Vec::from_iter(want), "{name}");
    }
}

#[test]
fn a_port_that_comes_and_goes_is_told_once() {
    let mut rules = AlarmRules::default();
    rules.ports.insert(PortId(3), String::from("p"));
    let mut alarms = alarms(rules);
    let flips = flips(&mut alarms, (0, 300), |s| Facts {
        // Gone for a long time at first, then open each other second.
        open_ports: (s < 5 || s > 30 && s % 2 == 0)
            .then_some(PortId(3))
            .into_iter()
            .collect(),
        ..facts()
    });
    assert_eq!(flips, 1);
}

fn destination(standing: Standing, percent: u64) -> Facts {
    Facts {
        destinations: vec![DestinationFacts {
            standing: Standing {
                name: String::from("cloud"),
                ..standing
            },
            backlog: vec![
                BacklogFacts {
                    topic: String::from("late"),
                    bytes: 1,
                    room_bytes: 1000,
                },
                BacklogFacts {
                    topic: String::from("readings"),
                    bytes: percent * 10,
                    room_bytes: 1000,
                },
            ],
        }],
        ..facts()
    }
}

fn connected() -> Standing {
    Standing {
        connected: true,
        receiver_known: true,
        receiver_online: true,
        ..Standing::default()
    }
}

#[test]
fn a_backlog_is_high_at_eighty_percent_and_well_below_seventy_five() {
    let mut alarms = alarms(AlarmRules::default());
    for (second, (percent, high)) in [
        (79, false),
        (80, true),
        (81, true),
        (76, true),
        (75, true),
        (74, false),
        (79, false),
        (80, true),
    ]
    .into_iter()
    .enumerate()
    {
        alarms.judge(&destination(connected(), percent), at(second as u64));
        let want = high.then(|| ("backlog-high", "cloud".to_owned()));
        assert_eq!(active(&alarms), Vec::from_iter(want), "{percent}");
    }
}

#[test]
fn a_broker_that_refuses_is_told_soon_and_one_that_is_away_later() {
    let refused = Standing {
        denied: Some(String::from("the broker refuses the password")),
        ..Standing::default()
    };
    let away = Standing::default();
    let silent = Standing {
        receiver_online: false,
        ..connected()
    };
    for (name, standing, seconds, want) in [
        ("refused, before", refused.clone(), 5, None),
        ("refused", refused, 6, Some("broker-refused")),
        ("away, before", away.clone(), 300, None),
        ("away", away, 301, Some("broker-away")),
        ("no receiver, before", silent.clone(), 300, None),
        ("no receiver", silent, 301, Some("receiver-silent")),
    ] {
        let mut alarms = alarms(AlarmRules::default());
        run(&mut alarms, (0, seconds), |_| {
            destination(standing.clone(), 0)
        });
        let want = want.map(|code| (code, "cloud".to_owned()));
        assert_eq!(active(&alarms), Vec::from_iter(want), "{name}");
    }
}

#[test]
fn dead_letters_are_an_alarm_while_there_are_any() {
    let mut alarms = alarms(AlarmRules::default());
    for (second, (parked, there)) in [(0, false), (1, true), (7, true), (0, false)]
        .into_iter()
        .enumerate()
    {
        let standing = Standing {
            parked,
            ..connected()
        };
        alarms.judge(&destination(standing, 0), at(second as u64));
        assert_eq!(alarms.active().count() == 1, there, "{second}");
    }
}

#[test]
fn the_clock_may_take_a_minute() {
    for (seconds, told) in [(60, false), (61, true), (62, true)] {
        let mut alarms = alarms(AlarmRules::default());
        run(&mut alarms, (0, seconds), |_| Facts {
            clock_trusted: false,
            ..facts()
        });
        assert_eq!(alarms.active().count() == 1, told, "{seconds}");
    }
}

#[test]
fn what_was_counted_before_this_run_is_no_news_and_what_is_new_holds() {
    let hold = AlarmRules::default().hold.0.unsigned_abs() / S;
    let mut alarms = alarms(AlarmRules::default());
    let counted = |quarantined, gaps| Facts {
        engine: EngineFacts {
            quarantined,
            ..EngineFacts::default()
        },
        devices: vec![(
            uid(1),
            DeviceFacts {
                period: None,
                gaps,
                ..device("a", 5)
            },
        )],
        ..facts()
    };
    run(&mut alarms, (0, 10), |_| counted(7, 3));
    assert_eq!(active(&alarms), []);
    alarms.judge(&counted(8, 5), at(10));
    let want = [
        ("device-gaps", "a".to_owned()),
        ("quarantine", "readings".to_owned()),
    ];
    assert_eq!(active(&alarms), want);
    let texts: Vec<_> = alarms.active().map(|a| a.text[..2].to_owned()).collect();
    assert_eq!(texts, ["2 ", "1 "]);
    for (second, there) in [(10 + hold - 1, 2), (10 + hold, 0), (10 + hold + 1, 0)] {
        alarms.judge(&counted(8, 5), at(second));
        assert_eq!(alarms.active().count(), there, "{second}");
    }
}

#[test]
fn damaged_files_are_an_alarm_while_any_stands_in_quarantine() {
    let mut alarms = alarms(AlarmRules::default());
    for (second, (set_aside, there)) in [
        (0, false),
        (2, true),
        (1, true),
        (1, true),
        (0, false),
        (1, true),
    ]
    .into_iter()
    .enumerate()
    {
        let facts = Facts {
            store: StoreFacts {
                set_aside,
                ..StoreFacts::default()
            },
            ..facts()
        };
        alarms.judge(&facts, at(second as u64));
        let want = there.then(|| ("quarantine", "files".to_owned()));
        assert_eq!(active(&alarms), Vec::from_iter(want), "{second}");
    }
}

#[test]
fn what_stood_in_quarantine_before_the_start_is_told_at_the_first_look() {
    let mut alarms = alarms(AlarmRules::default());
    let facts = Facts {
        store: StoreFacts {
            set_aside: 3,
            ..StoreFacts::default()
        },
        ..facts()
    };
    alarms.judge(&facts, at(0));
    let text = &alarms.active().next().unwrap().text;
    assert!(text.starts_with("3 damaged files stand in"), "{text}");
}

#[test]
fn a_device_of_which_two_ways_lead_is_told_at_the_third_move() {
    for (moves, told) in [(2, false), (3, true), (4, true)] {
        let mut alarms = alarms(AlarmRules::default());
        run(&mut alarms, (0, 3), |s| Facts {
            devices: vec![(
                uid(1),
                DeviceFacts {
                    moves: if s == 0 { 0 } else { moves },
                    period: None,
                    ..device("a", 5)
                },
            )],
            ..facts()
        });
        assert_eq!(alarms.active().count() == 1, told, "{moves}");
    }
}

fn topic(when_full: WhenFull, full: bool, near_full: bool) -> Facts {
    Facts {
        topics: vec![TopicFacts {
            name: String::from("readings"),
            used_bytes: 80,
            quota_bytes: 100,
            full,
            near_full,
            when_full,
            dropped_unsent: 0,
        }],
        ..facts()
    }
}

#[test]
fn only_a_topic_that_drops_nothing_fills_up() {
    for (name, when_full, full, near, want) in [
        ("a ring", WhenFull::DropOldest, false, true, None),
        (
            "near",
            WhenFull::RejectNew,
            false,
            true,
            Some("log-near-full"),
        ),
        ("full", WhenFull::RejectNew, true, true, Some("log-full")),
        (
            "full, devices wait",
            WhenFull::Block,
            true,
            true,
            Some("log-full"),
        ),
    ] {
        let mut alarms = alarms(AlarmRules::default());
        alarms.judge(&topic(when_full, full, near), at(0));
        let want = want.map(|code| (code, "readings".to_owned()));
        assert_eq!(active(&alarms), Vec::from_iter(want), "{name}");
    }
}

#[test]
fn a_card_is_worn_when_it_lasts_too_short() {
    let hour = 3600;
    // 1000 bytes an hour for 5 years of 365 days.
    let five = 24_000 * 365 * 5;
    for (name, endurance, worn) in [
        ("long enough", five + 2000, false),
        ("just so", five + 1000, false),
        ("a day less", five + 1000 - 24_000, true),
        ("nobody says", 0, false),
    ] {
        let rules = AlarmRules {
            card_endurance_bytes: (endurance > 0).then_some(endurance),
            ..AlarmRules::default()
        };
        let mut alarms = alarms(rules);
        alarms.wear().on_written(1000);
        alarms.wear().on_time(at(hour).mono);
        alarms.judge(&facts(), at(hour));
        let want = worn.then(|| ("card-wear", "card".to_owned()));
        assert_eq!(active(&alarms), Vec::from_iter(want), "{name}");
    }
}

#[test]
fn what_is_not_looked_at_any_more_is_forgotten() {
    let mut alarms = alarms(AlarmRules::default());
    alarms.judge(&destination(Standing::default(), 90), at(0));
    assert!(!alarms.watches.is_empty());
    alarms.judge(&facts(), at(1));
    let kept: usize = alarms.watches.values().map(BTreeMap::len).sum();
    let counts = [Code::DevicesRefused, Code::Quarantine, Code::RecordsLost];
    assert!(kept <= 6 && counts.iter().all(|c| alarms.watches.contains_key(c)));
    assert_eq!(active(&alarms), []);
}

#[test]
fn a_failed_source_is_told_at_once_and_one_that_waits_later() {
    for (name, failed, seconds, told) in [
        ("failed", true, 1, true),
        ("waits, before", false, 300, false),
        ("waits", false, 301, true),
    ] {
        let mut alarms = alarms(AlarmRules::default());
        let why = || Some(String::from("no such table"));
        run(&mut alarms, (0, seconds), |_| Facts {
            sources: vec![SourceFacts {
                name: String::from("db"),
                failed: why().filter(|_| failed),
                waits: why().filter(|_| !failed),
            }],
            ..facts()
        });
        assert_eq!(alarms.active().count() == 1, told, "{name}");
    }
}
