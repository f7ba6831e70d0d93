//! Where the changes of tables come from: a file that grows, a topic of MQTT, a
//! database. Each runs beside the agent's loop, behind a [`SourceLink`].
//!
//! Always holds: what a source confirms to where it reads from is durable. Bound: the
//! link's. Knows no row that is held; which changes are new, the core decides.

mod debezium;
mod figures;
mod file;
mod json;
pub mod limits;
mod link;
mod mqtt;
pub mod postgres;
mod reader;

use std::time::{SystemTime, UNIX_EPOCH};

use forebay_core::units::EventTime;

pub use self::debezium::Rules;
pub use self::figures::Figures;
pub use self::file::FileSource;
pub use self::link::{Source, SourceHandle, SourceLink, SourceSays, Stopped, link};
pub use self::mqtt::MqttSource;

/// A time of the system's clock.
fn utc_of(time: SystemTime) -> EventTime {
    let micros =
        |length: std::time::Duration| i64::try_from(length.as_micros()).unwrap_or(i64::MAX);
    EventTime(match time.duration_since(UNIX_EPOCH) {
        Ok(since) => micros(since),
        Err(before) => -micros(before.duration()),
    })
}
