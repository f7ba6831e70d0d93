//! What Sensirion's sensors share: words of two bytes with a CRC-8 (polynomial 0x31,
//! starts at 0xFF; SHT4x data sheet, section 4.4) and the temperature's formula. Pure.

#[cfg(feature = "sht4x")]
use forebay_wire::message::Quality;

/// Thousandths of a degree: -45 + 175 raw / 65535 (SHT4x data sheet, section 4.6;
/// SCD4x data sheet, section 3.6.2).
pub(crate) fn celsius(raw: u16) -> i32 {
    (i64::from(raw) * 175_000 / 65_535) as i32 - 45_000
}

/// The word in `word | CRC`.
///
/// # Errors
/// CRC error.
#[cfg(feature = "sht4x")]
pub(crate) fn word([high, low, crc]: [u8; 3]) -> Result<u16, Quality> {
    if crc8([high, low]) == crc {
        Ok(u16::from_be_bytes([high, low]))
    } else {
        Err(Quality::CrcError)
    }
}

#[cfg(any(feature = "sht4x", test))]
pub(crate) fn crc8(bytes: [u8; 2]) -> u8 {
    bytes.iter().fold(0xFF, |crc, byte| {
        (0..8).fold(crc ^ byte, |crc, _| {
            if crc & 0x80 == 0 {
                crc << 1
            } else {
                crc << 1 ^ 0x31
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula_for_every_word() {
        for raw in 0..=u16::MAX {
            let exact = -45_000.0 + 175_000.0 * f64::from(raw) / 65_535.0;
            assert!((f64::from(celsius(raw)) - exact).abs() <= 1.0, "{raw}");
        }
    }

    #[cfg(feature = "sht4x")]
    #[test]
    fn the_data_sheets_example_and_its_damage() {
        assert_eq!(crc8([0xBE, 0xEF]), 0x92);
        assert_eq!(word([0xBE, 0xEF, 0x92]), Ok(0xBEEF));
        for bit in 0..24 {
            let mut bytes = [0xBE, 0xEF, 0x92];
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(word(bytes), Err(Quality::CrcError), "bit {bit}");
        }
    }
}
