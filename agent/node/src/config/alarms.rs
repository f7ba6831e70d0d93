//! `[alarms]`: when something is wrong for long enough to be told.
//!
//! Knows no device and no port: what is expected of these stands in their sections.

use std::collections::BTreeSet;
use std::time::Duration;

use forebay_core::alarms::AlarmRules;
use forebay_core::limits::STALLED_US_MIN;
use forebay_core::units::Span;

use super::error::ConfigError;
use super::reader::{Field, Source};
use super::schema::{Default, Key, Section};

const SECOND: Duration = Duration::from_secs(1);
const SILENT_MIN: Duration = Duration::from_secs(10);
const DAY: Duration = Duration::from_secs(86_400);
const STALLED_MIN: Duration = Duration::from_micros(STALLED_US_MIN);
/// Gateways that are no more.
const GONE_MAX: usize = 1000;
/// Most periods without a record.
const PERIODS_MAX: i64 = 1000;
/// Smallest and largest endurance of a card: more than any has.
const ENDURANCE_BYTES: (u64, u64) = (1 << 30, 1 << 60);
const YEARS_MAX: i64 = 100;

pub const ALARMS: Section = Section {
    name: "alarms",
    many: false,
    doc: "When something counts as wrong. What each alarm means and what to do: agent/node/docs/alarms.md.",
    keys: &[
        Key {
            name: "stalled_periods",
            default: Default::Is("10"),
            doc: "A device is stalled when nothing has come of it for so many of its periods, 2 to 1000: the shortest\nthat its channels say or were told, or what is learned of it. See also expect_every of [[device]].",
        },
        Key {
            name: "stalled_min",
            default: Default::Is("\"10s\""),
            doc: "And for so long at the least, 3s to 1d.",
        },
        Key {
            name: "port_lost_after",
            default: Default::Is("\"10s\""),
            doc: "A port that was open is lost when it is gone for so long, 1s to 1d.",
        },
        Key {
            name: "broker_away_after",
            default: Default::Is("\"5m\""),
            doc: "A broker, the receiver behind it, or a source of tables may be away for so long, 1s to 30d. In a\nreceiver's config: the broker, and records that are missing before others.",
        },
        Key {
            name: "gateway_silent_after",
            default: Default::Is("\"15m\""),
            doc: "In a receiver's config: nothing may come of a gateway for so long, 10s to 365d; \"never\": for ever.",
        },
        Key {
            name: "gateways_gone",
            default: Default::None("[\"gw-3\"]"),
            doc: "In a receiver's config: gateways that are no more, and are not missed; at most 1000.",
        },
        Key {
            name: "hold",
            default: Default::Is("\"1h\""),
            doc: "An alarm about something that happened (readings lost, quarantined, dropped) stays for so long after\nit last happened, 1s to 30d.",
        },
        Key {
            name: "card_endurance",
            default: Default::None("\"30TB\""),
            doc: "What may be written to the card in its life, as its maker says (TBW). With it there is an alarm when the\ncard will not last `card_years`.",
        },
        Key {
            name: "card_years",
            default: Default::Is("5"),
            doc: "How long the card is to last at the rate at which it is written, 1 to 100.",
        },
    ],
};

/// Reads the section.
pub(super) fn alarms(source: &Source<'_>) -> Result<AlarmRules, ConfigError> {
    let table = source.one(&ALARMS)?;
    let periods = table.need("stalled_periods")?.int(2, PERIODS_MAX)?;
    let years = table.need("card_years")?.int(1, YEARS_MAX)?;
    let (least, most) = ENDURANCE_BYTES;
    let endurance = table.get("card_endurance")?;
    Ok(AlarmRules {
        stalled_periods: u32::try_from(periods).expect("from 2 to 1000"),
        stalled_min: timer(&table.need("stalled_min")?, (STALLED_MIN, DAY))?,
        port_lost_after: span(&table.need("port_lost_after")?, DAY)?,
        away_after: span(&table.need("broker_away_after")?, 30 * DAY)?,
        silent_after: silent_after(&table.need("gateway_silent_after")?)?,
        gone: match table.get("gateways_gone")? {
            Some(field) => field.texts(GONE_MAX)?.into_iter().collect(),
            None => BTreeSet::new(),
        },
        hold: span(&table.need("hold")?, 30 * DAY)?,
        card_endurance_bytes: endurance.map(|field| field.size(least, most)).transpose()?,
        card_years: u32::try_from(years).expect("from 1 to 100"),
        ..AlarmRules::default()
    })
}

fn silent_after(field: &Field<'_>) -> Result<Option<Span>, ConfigError> {
    if field.text()? == "never" {
        return Ok(None);
    }
    timer(field, (SILENT_MIN, 365 * DAY)).map(Some)
}

fn span(field: &Field<'_>, most: Duration) -> Result<Span, ConfigError> {
    timer(field, (SECOND, most))
}

fn timer(field: &Field<'_>, (least, most): (Duration, Duration)) -> Result<Span, ConfigError> {
    let time = field.timer(least, most)?;
    Ok(Span(i64::try_from(time.as_micros()).unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use forebay_core::alarms::Expect;

    use super::*;
    use crate::config::Config;

    fn read(text: &str) -> Result<Config, ConfigError> {
        Config::from_text(Path::new("c.toml"), text)
    }

    #[test]
    fn the_defaults_are_those_of_core() {
        let config = read("").expect("an empty config");
        assert_eq!(config.alarms, AlarmRules::default());
    }

    #[test]
    fn what_is_given_counts() {
        let config = read(
            "[alarms]\nstalled_periods = 3\nhold = \"2m\"\ncard_endurance = \"30TB\"\n\
             [[device]]\nuid = \"0123456789abcdef\"\nname = \"meter\"\nexpect_every = \"15m\"\n\
             [[device]]\nuid = \"0123456789abcdee\"\nname = \"spare\"\nexpect_every = \"never\"\n",
        );
        let config = config.expect("a good config");
        assert_eq!(config.alarms.stalled_periods, 3);
        assert_eq!(config.alarms.hold, Span(120_000_000));
        assert_eq!(config.alarms.card_endurance_bytes, Some(30_000_000_000_000));
        let expects = config.devices.iter().map(|device| device.expect);
        let want = [Some(Expect::Every(Span(900_000_000))), Some(Expect::Never)];
        assert!(expects.eq(want));
    }

    #[test]
    fn limits_hold() {
        for (text, good) in [
            ("stalled_periods = 1", false),
            ("stalled_periods = 2", true),
            ("stalled_periods = 1000", true),
            ("stalled_periods = 1001", false),
            ("stalled_min = \"2999ms\"", false),
            ("stalled_min = \"3s\"", true),
            ("stalled_min = \"1d\"", true),
            ("stalled_min = \"25h\"", false),
            ("gateway_silent_after = \"9s\"", false),
            ("gateway_silent_after = \"10s\"", true),
            ("gateway_silent_after = \"365d\"", true),
            ("gateway_silent_after = \"366d\"", false),
            ("gateway_silent_after = \"never\"", true),
            ("card_years = 0", false),
            ("card_years = 1", true),
            ("card_years = 101", false),
            ("card_endurance = \"1023MiB\"", false),
            ("card_endurance = \"1GiB\"", true),
        ] {
            assert_eq!(read(&format!("[alarms]\n{text}")).is_ok(), good, "{text}");
        }
    }
}
