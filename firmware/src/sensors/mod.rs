//! Sensors by driver crates on embedded-hal 1.0: each adapts a driver to
//! [`crate::Sensor`] and adds what drivers leave out (bounded retries, floating
//! buses, plausibility).

mod guard;
mod lm75;

pub use guard::{GuardError, GuardedI2c};
pub use lm75::Lm75Sensor;
