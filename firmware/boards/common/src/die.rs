//! The chip's own temperature, which needs no sensor: what the converters' numbers
//! mean, in tenths of a degree Celsius. It is some degrees above the room's, and exact
//! to a few; it shows that a bare board works. Pure.

use forebay_firmware::ChannelSpec;

/// The channel of a chip's temperature.
#[must_use]
pub const fn spec(period_us: u32) -> ChannelSpec {
    ChannelSpec {
        quantity: "chip_temperature",
        unit: "degC",
        scale: 1,
        range: (-400, 1_250),
        period_us,
    }
}

/// RP2040 and RP2350: twelve bits of 3.3 V; 0.706 V at 27 degC, 1.721 mV less for each
/// degree more (data sheets, "Temperature sensor").
#[must_use]
pub fn rp_tenths(raw: u16) -> i32 {
    let microvolts = u32::from(raw.min(4_095)) * 825_000 / 1_024;
    270 - (microvolts as i32 - 706_000) * 10 / 1_721
}

/// nRF52: quarters of a degree.
#[must_use]
pub fn nrf_tenths(quarters: i32) -> i32 {
    quarters.saturating_mul(10) / 4
}

/// STM32F4: twelve bits beside two readings of the factory at 30 and 110 degC, both at
/// 3.3 V (data sheet, "Temperature sensor calibration values"). `None` when the factory
/// has written none.
#[must_use]
pub fn stm32f4_tenths(raw: u16, at_30: u16, at_110: u16) -> Option<i32> {
    let span = i32::from(at_110) - i32::from(at_30);
    let above = i32::from(raw) - i32::from(at_30);
    (span > 0 && at_110 <= 4_095).then(|| 300 + above * 800 / span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_the_data_sheets() {
        // 0.706 V is 876.3 of 4,096.
        for (name, got, want) in [
            ("rp at 27", rp_tenths(876), 270..=273),
            ("rp hot", rp_tenths(600), 1_560..=1_570),
            ("rp at 0 V", rp_tenths(0), 4_372..=4_372),
            ("rp at 3.3 V", rp_tenths(u16::MAX), -14_810..=-14_790),
            ("nrf", nrf_tenths(101), 252..=252),
            ("nrf below zero", nrf_tenths(-10), -25..=-25),
            (
                "nrf at the end",
                nrf_tenths(i32::MAX),
                i32::MAX / 4..=i32::MAX / 4,
            ),
        ] {
            assert!(want.contains(&got), "{name}: {got}");
        }
    }

    #[test]
    fn the_factorys_readings_are_checked() {
        for (name, raw, low, high, want) in [
            ("at the first", 941, 941, 1_199, Some(300)),
            ("at the second", 1_199, 941, 1_199, Some(1_100)),
            ("between", 1_070, 941, 1_199, Some(700)),
            ("erased", 941, u16::MAX, u16::MAX, None),
            ("erased second", 941, 941, u16::MAX, None),
            ("zero", 941, 0, 0, None),
            ("turned round", 941, 1_199, 941, None),
        ] {
            assert_eq!(stm32f4_tenths(raw, low, high), want, "{name}");
        }
    }
}
