//! How a cable's faults are written: `0.001`, or
//! `flip=0.001,echo=0.01,stall=2s/60s`. Refuses with the part that is wrong.

use std::time::Duration;

use super::faults::FaultRates;
use super::spells::Spell;

/// Highest chance of a fault that spoils a byte: above it nothing comes through.
const CHANCE_MAX: f64 = 0.5;
/// An echo spoils nothing: every byte may have one.
const ECHO_MAX: f64 = 1.0;

/// Everything that a cable does wrong by itself.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CableFaults {
    pub rates: FaultRates,
    /// The line takes and gives nothing, and stays open.
    pub stall: Option<Spell>,
    /// The device is gone, and comes back as another tty.
    pub unplug: Option<Spell>,
}

impl From<FaultRates> for CableFaults {
    fn from(rates: FaultRates) -> Self {
        Self {
            rates,
            ..Self::default()
        }
    }
}

/// # Errors
/// What is wrong, and what would be right; ends a sentence that starts with the text.
pub(super) fn parse(text: &str) -> Result<CableFaults, String> {
    if let Ok(chance) = text.parse::<f64>() {
        return Ok(FaultRates::even(chance_of("", chance, CHANCE_MAX)?).into());
    }
    let mut faults = CableFaults::default();
    let mut given: Vec<&str> = Vec::new();
    for part in text.split(',') {
        let Some((name, value)) = part.split_once('=') else {
            return Err(format!(
                "{part:?} is neither a chance from 0 to {CHANCE_MAX} nor a fault such as flip=0.001"
            ));
        };
        if given.contains(&name) {
            return Err(format!("{name} is given twice"));
        }
        given.push(name);
        let rates = &mut faults.rates;
        match name {
            "flip" => rates.flip = chance(name, value, CHANCE_MAX)?,
            "drop" => rates.drop = chance(name, value, CHANCE_MAX)?,
            "insert" => rates.insert = chance(name, value, CHANCE_MAX)?,
            "double" => rates.double = chance(name, value, CHANCE_MAX)?,
            "noise" => rates.noise = chance(name, value, CHANCE_MAX)?,
            "echo" => rates.echo = chance(name, value, ECHO_MAX)?,
            "stall" => faults.stall = Some(spell(name, value)?),
            "unplug" => faults.unplug = Some(spell(name, value)?),
            other => {
                return Err(format!(
                    "{other:?} is no fault: there are flip, drop, insert, double, echo, noise, stall, unplug"
                ));
            }
        }
    }
    Ok(faults)
}

fn chance(name: &str, value: &str, most: f64) -> Result<f64, String> {
    let chance = value.parse().unwrap_or(f64::NAN);
    chance_of(&format!("{name}: "), chance, most)
}

fn chance_of(start: &str, chance: f64, most: f64) -> Result<f64, String> {
    if (0.0..=most).contains(&chance) {
        Ok(chance)
    } else {
        Err(format!("{start}must be a chance per byte from 0 to {most}"))
    }
}

fn spell(name: &str, value: &str) -> Result<Spell, String> {
    let form = || format!("{name}: must be how long in which time, such as {name}=2s/60s");
    let (lasts, each) = value.split_once('/').ok_or_else(form)?;
    let span = |text: &str| {
        let span = crate::config::duration::parse(text)
            .map_err(|why| format!("{name}: {text:?} {why}"))?;
        let micros = u64::try_from(span.0).map_err(|_| form())?;
        Ok::<_, String>(Duration::from_micros(micros))
    };
    Spell::new(span(lasts)?, span(each)?).map_err(|why| format!("{name}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_written() {
        let seconds = Duration::from_secs;
        let spell = |lasts, each| Some(Spell::new(seconds(lasts), seconds(each)).unwrap());
        let all = CableFaults {
            rates: FaultRates {
                flip: 0.001,
                drop: 0.0005,
                insert: 0.25,
                double: 0.125,
                echo: 1.0,
                noise: 0.5,
            },
            stall: spell(2, 60),
            unplug: spell(10, 120),
        };
        let flips = FaultRates {
            flip: 0.5,
            ..FaultRates::default()
        };
        for (text, want) in [
            ("0", CableFaults::default()),
            ("0.001", FaultRates::even(0.001).into()),
            ("flip=0.5", flips.into()),
            (
                "flip=0.001,drop=0.0005,insert=0.25,double=0.125,echo=1,noise=0.5,stall=2s/60s,unplug=10s/2m",
                all,
            ),
        ] {
            assert_eq!(parse(text), Ok(want), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, want) in [
            ("0.51", "must be a chance per byte from 0 to 0.5"),
            ("-1", "must be a chance per byte from 0 to 0.5"),
            ("NaN", "must be a chance per byte from 0 to 0.5"),
            ("flip=0.6", "flip: must be a chance per byte from 0 to 0.5"),
            ("echo=1.1", "echo: must be a chance per byte from 0 to 1"),
            ("drop=much", "drop: must be a chance per byte from 0 to 0.5"),
            (
                "",
                "\"\" is neither a chance from 0 to 0.5 nor a fault such as flip=0.001",
            ),
            (
                "flip=0,",
                "\"\" is neither a chance from 0 to 0.5 nor a fault such as flip=0.001",
            ),
            (
                "flop=1",
                "\"flop\" is no fault: there are flip, drop, insert, double, echo, noise, stall, unplug",
            ),
            ("flip=0,flip=0", "flip is given twice"),
            (
                "stall=2s",
                "stall: must be how long in which time, such as stall=2s/60s",
            ),
            (
                "stall=-2s/60s",
                "stall: must be how long in which time, such as stall=2s/60s",
            ),
            (
                "unplug=2s/2s",
                "unplug: must end before the next: 2s in each 2s",
            ),
            ("unplug=0s/2s", "unplug: must last at least 1ms"),
            ("stall=2s/2d", "stall: must come at least once a day"),
            (
                "stall=2/60",
                "stall: \"2\" needs a whole number and one of the units us ms s m h d w",
            ),
        ] {
            assert_eq!(parse(text), Err(want.to_owned()), "{text}");
        }
    }
}
