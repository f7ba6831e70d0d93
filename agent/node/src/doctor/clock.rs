//! Whether times of readings will be right.
#![allow(
    unsafe_code,
    reason = "the state of the kernel's clock has no safe call in std"
)]

use std::time::{SystemTime, UNIX_EPOCH};

use forebay_core::clock::{ClockRules, TrustRule};
use forebay_core::units::EventTime;
use forebay_core::utc;

use super::check::Finding;
use super::codes::{CLOCK_RTC, CLOCK_SYNCED, CLOCK_YEAR};
use super::host::{processes, text};
use super::limits::CLOCK_OFF_US;

/// Programs that keep a clock right, as the kernel cuts their names.
const KEEPERS: [&str; 7] = [
    "chronyd",
    "systemd-timesyn",
    "ntpd",
    "ntpsec",
    "openntpd",
    "ptp4l",
    "phc2sys",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClockFacts {
    pub(super) now: EventTime,
    pub(super) rules: ClockRules,
    /// `None`: the kernel does not say.
    pub(super) kernel: Option<KernelClock>,
    /// Programs that run and keep a clock right.
    pub(super) keepers: Vec<String>,
    /// Seconds since 1970 of the real-time clock, if there is one.
    pub(super) rtc: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct KernelClock {
    pub(super) synchronised: bool,
    /// How far it is off at the most, as its keeper told the kernel, us.
    pub(super) error_max_us: i64,
}

pub(super) fn look(rules: ClockRules) -> ClockFacts {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let running = processes();
    let keepers = KEEPERS
        .iter()
        .filter(|keeper| running.iter().any(|name| name == *keeper));
    ClockFacts {
        now: EventTime(i64::try_from(since.as_micros()).unwrap_or(i64::MAX)),
        rules,
        kernel: kernel_clock(),
        keepers: keepers.map(|keeper| (*keeper).to_owned()).collect(),
        rtc: text("/sys/class/rtc/rtc0/since_epoch").and_then(|text| text.parse().ok()),
    }
}

#[allow(
    clippy::useless_conversion,
    reason = "the kernel's long has 32 bits on some boards"
)]
fn kernel_clock() -> Option<KernelClock> {
    // SAFETY: all of its fields are integers, for which zeroes are values.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `state` is writable; its mode is 0, so the call only reads the clock.
    let told = unsafe { libc::adjtimex(&raw mut state) };
    (told >= 0).then(|| KernelClock {
        synchronised: told != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0,
        error_max_us: i64::from(state.maxerror),
    })
}

pub(super) fn judge(facts: &ClockFacts) -> Vec<Finding> {
    vec![year(facts), synchronised(facts), rtc(facts)]
}

fn shown(time: EventTime) -> String {
    let value = utc::time_value(time);
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn year(facts: &ClockFacts) -> Finding {
    let now = shown(facts.now);
    if facts.now >= facts.rules.not_before {
        return Finding::ok(&CLOCK_YEAR, format!("the clock says {now}"));
    }
    Finding::fail(
        &CLOCK_YEAR,
        format!(
            "the clock says {now}, which is before `clock_not_before` ({}): it was never set",
            shown(facts.rules.not_before)
        ),
        "set it: `sudo timedatectl set-ntp true`, or by hand with `sudo date -s`",
    )
}

fn synchronised(facts: &ClockFacts) -> Finding {
    let keepers = if facts.keepers.is_empty() {
        "no program that keeps it right runs".to_owned()
    } else {
        format!("{} runs", facts.keepers.join(", "))
    };
    let advice = if facts.keepers.is_empty() {
        "install and start one: `sudo apt install chrony`, or `sudo timedatectl set-ntp true`; in a \
         container see to the host's"
    } else {
        "let it reach a time server: `chronyc sources`, or `timedatectl timesync-status`"
    };
    let unsynced = |text: String| match facts.rules.trust {
        TrustRule::Synchronised => Finding::fail(
            &CLOCK_SYNCED,
            format!("{text}; with clock = \"synchronised\" readings wait for it"),
            advice,
        ),
        TrustRule::Auto => Finding::warn(&CLOCK_SYNCED, text, advice),
        TrustRule::Always => Finding::warn(
            &CLOCK_SYNCED,
            format!("{text}; with clock = \"always\" its times are taken all the same"),
            advice,
        ),
    };
    match facts.kernel {
        None => Finding::skip(&CLOCK_SYNCED, "the kernel does not say how its clock is"),
        Some(kernel) if !kernel.synchronised => unsynced(format!(
            "the kernel's clock is not synchronised, and {keepers}"
        )),
        Some(kernel) if kernel.error_max_us > CLOCK_OFF_US => Finding::warn(
            &CLOCK_SYNCED,
            format!(
                "the clock is synchronised and may be off by {} ms; {keepers}",
                kernel.error_max_us / 1000
            ),
            advice,
        ),
        Some(kernel) => Finding::ok(
            &CLOCK_SYNCED,
            format!(
                "the clock is synchronised, off by {} ms at the most; {keepers}",
                kernel.error_max_us / 1000
            ),
        ),
    }
}

fn rtc(facts: &ClockFacts) -> Finding {
    match facts
        .rtc
        .map(|seconds| EventTime(seconds.saturating_mul(1_000_000)))
    {
        Some(time) if time >= facts.rules.not_before => Finding::ok(
            &CLOCK_RTC,
            format!("the real-time clock says {}", shown(time)),
        ),
        Some(time) => Finding::warn(
            &CLOCK_RTC,
            format!(
                "the real-time clock says {}: its battery is empty, or it was never set",
                shown(time)
            ),
            "change the battery, then `sudo hwclock --systohc`",
        ),
        None => Finding::warn(
            &CLOCK_RTC,
            "there is no real-time clock: after each boot the time is wrong until the network is up, \
             and readings wait for it",
            "add one with a battery, where gateways boot without a network",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Level;
    use super::*;

    const DAY_US: i64 = 86_400_000_000;

    fn usual() -> ClockFacts {
        ClockFacts {
            now: EventTime(20_500 * DAY_US),
            rules: ClockRules {
                trust: TrustRule::Auto,
                not_before: EventTime(20_000 * DAY_US),
            },
            kernel: Some(KernelClock {
                synchronised: true,
                error_max_us: 4_000,
            }),
            keepers: vec!["chronyd".into()],
            rtc: Some(20_500 * 86_400),
        }
    }

    type Change = fn(&mut ClockFacts);

    #[test]
    fn clocks_of_all_kinds() {
        let rows: [(&str, Change, [Level; 3]); 10] = [
            ("usual", |_| {}, [Level::Ok; 3]),
            (
                "1970",
                |f| f.now = EventTime(5),
                [Level::Fail, Level::Ok, Level::Ok],
            ),
            ("just set", |f| f.now = f.rules.not_before, [Level::Ok; 3]),
            (
                "before 1970",
                |f| f.now = EventTime(i64::MIN),
                [Level::Fail, Level::Ok, Level::Ok],
            ),
            (
                "not kept",
                |f| {
                    f.kernel = Some(KernelClock::default());
                    f.keepers.clear();
                },
                [Level::Ok, Level::Warn, Level::Ok],
            ),
            (
                "not kept, and asked for",
                |f| {
                    f.kernel = Some(KernelClock::default());
                    f.rules.trust = TrustRule::Synchronised;
                },
                [Level::Ok, Level::Fail, Level::Ok],
            ),
            (
                "far off",
                |f| {
                    f.kernel = Some(KernelClock {
                        synchronised: true,
                        error_max_us: CLOCK_OFF_US + 1,
                    });
                },
                [Level::Ok, Level::Warn, Level::Ok],
            ),
            (
                "as far off as it may",
                |f| {
                    f.kernel = Some(KernelClock {
                        synchronised: true,
                        error_max_us: CLOCK_OFF_US,
                    });
                },
                [Level::Ok; 3],
            ),
            (
                "a kernel that says nothing",
                |f| f.kernel = None,
                [Level::Ok, Level::Skip, Level::Ok],
            ),
            (
                "an empty battery",
                |f| f.rtc = Some(0),
                [Level::Ok, Level::Ok, Level::Warn],
            ),
        ];
        for (name, change, want) in rows {
            let mut facts = usual();
            change(&mut facts);
            let found: Vec<Level> = judge(&facts).iter().map(|finding| finding.level).collect();
            assert_eq!(found, want, "{name}");
        }
        let none = ClockFacts {
            rtc: None,
            ..usual()
        };
        assert_eq!(judge(&none)[2].level, Level::Warn);
    }

    #[test]
    fn the_kernel_is_asked() {
        let facts = look(usual().rules);
        assert!(facts.now > EventTime(0) && facts.kernel.is_some());
    }
}
