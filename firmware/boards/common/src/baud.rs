//! Whether a UART's divisor meets its rate: more than a hundredth off, and the last
//! bits of a byte are read from their neighbours. Pure, for assertions at compile time.

/// How far the rate is off, in thousandths, when `clock_hz` is divided by a whole
/// number. Give the clock in the steps of the divisor: four times the real one where a
/// divisor of 16 counts in 64ths.
///
/// # Panics
/// When `baud` is 0 or above the clock: at compile time, that is an error.
#[must_use]
pub const fn error_permille(clock_hz: u32, baud: u32) -> u32 {
    let divisor = (clock_hz + baud / 2) / baud;
    let wanted = divisor as u64 * baud as u64;
    // The rate is off by as much as the clock that would be exact.
    let off = wanted.abs_diff(clock_hz as u64);
    (off * 1_000).div_ceil(clock_hz as u64) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_clocks_and_rates() {
        for (name, clock_hz, baud, want) in [
            ("exact", 1_152_000, 115_200, 0),
            ("125 MHz in 64ths of 16", 500_000_000, 115_200, 1),
            ("42 MHz", 42_000_000, 115_200, 2),
            ("8 MHz at 921,600", 8_000_000, 921_600, 37),
            ("16 MHz at 115,200", 16_000_000, 115_200, 1),
            ("half way between two", 1_500, 1_000, 334),
        ] {
            assert_eq!(error_permille(clock_hz, baud), want, "{name}");
        }
    }
}
