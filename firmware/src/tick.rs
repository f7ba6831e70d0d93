//! 64-bit time from a short hardware counter that wraps. Pure: the board reads the
//! counter, these functions say what it means. A counter's high word kept by the
//! wrap interrupt alone is racy: the counter may have wrapped while the interrupt
//! has not run yet. Both schemes here are safe against that.

use forebay_wire::ids::Tick;

/// The half-period scheme, for boards with a compare interrupt: `half_periods`
/// counts how often the counter crossed 0 or its middle. Read `half_periods`
/// before `raw`. Right as long as the count lags by at most one crossing.
///
/// # Panics
/// When `bits` is not 2 to 32.
#[must_use]
pub fn extend(half_periods: u64, raw: u32, bits: u32) -> u64 {
    assert!((2..=32).contains(&bits), "counter of {bits} bits");
    let half = 1u64 << (bits - 1);
    let raw = u64::from(raw) & (2 * half - 1);
    // In an odd half-period the counter's top bit is set. Where it is not what the
    // count says, the interrupt is one crossing behind, and the XOR adds that half.
    half_periods * half + (raw ^ ((half_periods & 1) * half))
}

/// The polled scheme, for boards whose loop comes by at least once per wrap:
/// the first time at or after `last` at which the counter shows `raw`.
///
/// # Panics
/// When `bits` is not 1 to 32.
#[must_use]
pub fn extend_polled(last: u64, raw: u32, bits: u32) -> u64 {
    assert!((1..=32).contains(&bits), "counter of {bits} bits");
    let mask = (1u64 << bits) - 1;
    last + (u64::from(raw).wrapping_sub(last) & mask)
}

/// Microseconds of `count` cycles at `hz` per second, rounded down, without
/// overflow for 500,000 years of uptime.
///
/// # Panics
/// When `hz` is 0.
#[must_use]
pub fn to_us(count: u64, hz: u32) -> Tick {
    let hz = u64::from(hz);
    let (seconds, rest) = (count / hz, count % hz);
    Tick(seconds * 1_000_000 + rest * 1_000_000 / hz)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn raw_at(time: u64, bits: u32) -> u32 {
        (time & ((1u64 << bits) - 1)) as u32
    }

    #[test]
    fn around_every_crossing_also_with_the_interrupt_late() {
        for bits in [2, 8, 16, 24, 32] {
            let half = 1u64 << (bits - 1);
            for crossing in 1..100 {
                for offset in [-1i64, 0, 1] {
                    let time = (crossing * half).checked_add_signed(offset).unwrap();
                    let counted = time / half;
                    assert_eq!(
                        extend(counted, raw_at(time, bits), bits),
                        time,
                        "{bits} bits, on time"
                    );
                    if offset >= 0 {
                        assert_eq!(
                            extend(counted - 1, raw_at(time, bits), bits),
                            time,
                            "{bits} bits, late"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn monotone_over_a_hundred_wraps_of_a_small_counter() {
        let mut last = 0;
        for time in 0..256 * 100u64 {
            // The interrupt lags by up to 100 cycles.
            let counted = time.saturating_sub(time % 101) / 128;
            let counted = counted.max((time / 128).saturating_sub(1));
            let seen = extend(counted, raw_at(time, 8), 8);
            assert!(seen == time && seen >= last);
            last = seen;
        }
    }

    #[test]
    fn microseconds() {
        for (name, count, hz, want) in [
            ("a microsecond clock", 7, 1_000_000, 7),
            ("rounded down", 24, 25_000_000, 0),
            ("one", 25, 25_000_000, 1),
            ("a watch crystal", 32_768, 32_768, 1_000_000),
            (
                "a century at 200 MHz",
                3_155_760_000 * 200_000_000,
                200_000_000,
                3_155_760_000_000_000,
            ),
        ] {
            assert_eq!(to_us(count, hz), Tick(want), "{name}");
        }
    }

    proptest! {
        #[test]
        fn polled_never_goes_back_and_finds_the_time(last in 0u64..1 << 60, ahead in any::<u32>(), bits in 1u32..=32) {
            let ahead = u64::from(ahead) & ((1u64 << bits) - 1);
            let time = last + ahead;
            prop_assert_eq!(extend_polled(last, raw_at(time, bits), bits), time);
        }
    }
}
