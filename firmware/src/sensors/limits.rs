//! Every bound of the sensors; that of the tries is [`crate::limits::BUS_TRIES_MAX`].

/// Channels of one chip that fall due within this time share a measurement, us:
/// longer than a pass of the main loop, shorter than anything changes that these
/// chips measure.
pub const SHARE_US: u64 = 10_000;

/// SHT4x, high repeatability (data sheet, table 4: at most 8.3 ms), us.
#[cfg(feature = "sht4x")]
pub const SHT4X_MEASURE_US: u32 = 8_500;

/// BME280, all three quantities once (data sheet, section 9.1: at most 9.3 ms), us.
#[cfg(feature = "bme280")]
pub const BME280_MEASURE_US: u32 = 9_500;

/// TMP117, one conversion (data sheet, section 6.5: at most 17.5 ms), us.
#[cfg(feature = "tmp117")]
pub const TMP117_MEASURE_US: u32 = 18_000;
/// TMP117, average of eight conversions, us.
#[cfg(feature = "tmp117")]
pub const TMP117_AVERAGE_US: u32 = 8 * 17_500;
/// Sampled at least this slowly, a TMP117 averages, us.
#[cfg(feature = "tmp117")]
pub const TMP117_AVERAGE_PERIOD_US: u32 = 200_000;

/// ADS1115 at 860 samples per second (data sheet: 10 % off at most, and 25 us to wake
/// up), us.
#[cfg(feature = "ads1x1x")]
pub const ADS1115_CONVERT_US: u32 = 1_320;

/// Measurements of an SCD4x after its start that are `warming_up`: 15 s.
#[cfg(feature = "scd4x")]
pub const SCD4X_WARMING_UP: u8 = 3;

/// Failed recoveries of a bus in a row after which it is left alone for a while, and
/// for how many failed transactions.
pub const RECOVERIES_MAX: u8 = 3;
pub const RECOVERY_PAUSE: u8 = 9;

/// Looks at an ADS1115 that still converts: at 400 kHz this lasts longer than a
/// conversion.
#[cfg(feature = "ads1x1x")]
pub const ADS1115_POLLS_MAX: u8 = 12;

/// Looks without new data after which an SCD4x is told to start again: it may have
/// been without power. Looked at each 100 ms or more slowly, longer than its 5 s.
#[cfg(feature = "scd4x")]
pub const SCD4X_SILENT_MAX: u8 = 60;

/// Clocks that free a device which was cut off in the middle of a byte: eight bits and
/// the acknowledge.
pub const RECOVERY_CLOCKS: u8 = 9;
/// Half a clock of them: 100 kHz, ns.
pub const RECOVERY_HALF_NS: u32 = 5_000;
