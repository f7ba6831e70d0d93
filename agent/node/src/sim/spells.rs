//! Faults that last: a line that stalls or is unplugged for a while, again and
//! again, and resets. When is a function of the seed and the time alone, so nothing
//! has to be remembered and a run can be repeated. Knows no clock.
//!
//! Invariant: exactly one spell, or one moment, in each period.

use std::time::Duration;

use super::dice::hash;
use super::drift::Elapsed;
use super::limits::{SPELL_EACH_MAX, SPELL_MIN};

/// Lasts `lasts` in each `each`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spell {
    lasts_us: u64,
    each_us: u64,
}

impl Spell {
    /// # Errors
    /// Shorter than [`SPELL_MIN`], a period over [`SPELL_EACH_MAX`], or a spell that
    /// is not shorter than its period; ends a sentence about it.
    pub fn new(lasts: Duration, each: Duration) -> Result<Self, String> {
        if lasts < SPELL_MIN {
            return Err(format!("must last at least {SPELL_MIN:?}"));
        }
        if each > SPELL_EACH_MAX {
            return Err("must come at least once a day".to_owned());
        }
        if lasts >= each {
            return Err(format!(
                "must end before the next: {lasts:?} in each {each:?}"
            ));
        }
        Ok(Self {
            lasts_us: lasts.as_micros() as u64,
            each_us: each.as_micros() as u64,
        })
    }

    /// From and until when it lasts in the period of `now`.
    fn around(&self, now: Elapsed, seed: u64) -> (u64, u64) {
        let period = now.0 / self.each_us;
        let room = self.each_us - self.lasts_us;
        let from = period * self.each_us + hash(seed, period) % room;
        (from, from + self.lasts_us)
    }
}

/// The spells of one device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spells {
    spell: Option<Spell>,
    seed: u64,
}

impl Spells {
    pub(super) fn new(spell: Option<Spell>, seed: u64) -> Self {
        Self { spell, seed }
    }

    pub(super) fn lasts_at(&self, now: Elapsed) -> bool {
        self.spell.is_some_and(|spell| {
            let (from, until) = spell.around(now, self.seed);
            (from..until).contains(&now.0)
        })
    }

    /// When the next one begins, or the one that lasts ends.
    pub(super) fn next_change(&self, now: Elapsed) -> Option<Elapsed> {
        let spell = self.spell?;
        let (from, until) = spell.around(now, self.seed);
        let next = Elapsed((now.0 / spell.each_us + 1) * spell.each_us);
        let changes = [from, until, spell.around(next, self.seed).0];
        changes.into_iter().find(|at| *at > now.0).map(Elapsed)
    }
}

/// Moments of one device: one in each period.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moments {
    each_us: Option<u64>,
    seed: u64,
}

impl Moments {
    pub(super) fn new(each: Option<Duration>, seed: u64) -> Self {
        let each_us = each.map(|each| (each.as_micros() as u64).max(1));
        Self { each_us, seed }
    }

    fn at(&self, each_us: u64, period: u64) -> u64 {
        period * each_us + hash(self.seed, period) % each_us
    }

    /// The first one after `now`.
    pub(super) fn next(&self, now: Elapsed) -> Option<Elapsed> {
        let each_us = self.each_us?;
        let period = now.0 / each_us;
        let candidates = [period, period + 1].map(|period| self.at(each_us, period));
        candidates.into_iter().find(|at| *at > now.0).map(Elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000;

    fn spell(lasts_s: u64, each_s: u64) -> Spell {
        Spell::new(Duration::from_secs(lasts_s), Duration::from_secs(each_s)).unwrap()
    }

    #[test]
    fn bounds_of_a_spell() {
        let day = SPELL_EACH_MAX;
        let step = Duration::from_millis(1);
        for (name, lasts, each, want) in [
            (
                "shortest-1",
                SPELL_MIN - Duration::from_micros(1),
                day,
                false,
            ),
            ("shortest", SPELL_MIN, day, true),
            (
                "shortest+1",
                SPELL_MIN + Duration::from_micros(1),
                day,
                true,
            ),
            ("period-1", step * 9, step * 10, true),
            ("all of the period", step * 10, step * 10, false),
            ("more than the period", step * 11, step * 10, false),
            ("longest period-1", step, day - step, true),
            ("longest period+1", step, day + step, false),
        ] {
            assert_eq!(Spell::new(lasts, each).is_ok(), want, "{name}");
        }
    }

    #[test]
    fn one_spell_in_each_period_as_long_as_asked_by_its_changes() {
        for seed in 0..20 {
            let spells = Spells::new(Some(spell(2, 7)), seed);
            let mut now = Elapsed(0);
            let mut lasted = spells.lasts_at(now);
            let (mut total_us, mut begun) = (0, u64::from(lasted));
            while let Some(next) = spells.next_change(now).filter(|next| next.0 < 700 * S) {
                assert!(next > now, "seed {seed}");
                total_us += if lasted { next.0 - now.0 } else { 0 };
                let lasts = spells.lasts_at(next);
                assert_ne!(lasts, lasted, "seed {seed} at {next:?}");
                assert_eq!(spells.lasts_at(Elapsed(next.0 - 1)), lasted, "seed {seed}");
                begun += u64::from(lasts);
                (now, lasted) = (next, lasts);
            }
            assert_eq!((begun, total_us), (100, 200 * S), "seed {seed}");
        }
    }

    #[test]
    fn devices_have_their_spells_at_different_times_and_none_without_one() {
        let at = |seed| Spells::new(Some(spell(1, 60)), seed).next_change(Elapsed(0));
        assert_eq!(at(1), at(1));
        assert_ne!(at(1), at(2));
        let none = Spells::new(None, 1);
        assert_eq!(
            (none.lasts_at(Elapsed(5)), none.next_change(Elapsed(5))),
            (false, None)
        );
    }

    #[test]
    fn one_moment_in_each_period() {
        let moments = Moments::new(Some(Duration::from_secs(30)), 9);
        let mut now = Elapsed(0);
        for period in 0..50 {
            now = moments.next(now).unwrap();
            assert_eq!(now.0 / (30 * S), period);
        }
        assert_eq!(Moments::new(None, 9).next(now), None);
    }
}
