//! Sensors by driver crates on embedded-hal 1.0, or by hand where no crate is fit (its
//! file says why): each adapts a chip to [`crate::Sensor`] and adds what drivers leave
//! out (bounded tries, floating buses, plausibility, finding a chip again). Each has a
//! feature of its own, named like its module.

mod chip;
mod guard;
pub mod limits;
mod recover;

#[cfg(any(
    feature = "ads1x1x",
    feature = "bme280",
    feature = "lis3dh",
    feature = "lm75",
    feature = "scd4x",
    feature = "sht4x",
    feature = "tmp117",
))]
mod tries;

#[cfg(any(feature = "scd4x", feature = "sht4x"))]
mod sensirion;

#[cfg(feature = "ads1x1x")]
mod ads1115;
#[cfg(feature = "bme280")]
mod bme280;
#[cfg(feature = "lis3dh")]
mod lis3dh;
#[cfg(feature = "lm75")]
mod lm75;
#[cfg(feature = "scd4x")]
mod scd4x;
#[cfg(feature = "sht4x")]
mod sht4x;
#[cfg(feature = "tmp117")]
mod tmp117;

#[cfg(test)]
mod script;

pub use chip::{Channel, Chip, Kind, Shared, Value};
pub use guard::{GuardError, GuardedI2c};
pub use recover::{BusRecovery, RecoveringI2c, clock_free};

#[cfg(feature = "ads1x1x")]
pub use ::ads1x1x::{FullScaleRange, TargetAddr};
#[cfg(feature = "ads1x1x")]
pub use ads1115::{Ads1115, Ads1115Channel, Input};
#[cfg(feature = "bme280")]
pub use bme280::{Bme280, Bme280Quantity};
#[cfg(feature = "lis3dh")]
pub use lis3dh::{Axis, FullScale, Lis3dh, OutputRate};
#[cfg(feature = "lm75")]
pub use lm75::Lm75Sensor;
#[cfg(feature = "scd4x")]
pub use scd4x::{Scd4x, Scd4xQuantity};
#[cfg(feature = "sht4x")]
pub use sht4x::{Sht4x, Sht4xQuantity};
#[cfg(feature = "tmp117")]
pub use tmp117::Tmp117Sensor;
