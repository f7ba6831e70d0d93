//! What the gateway knows of its devices beside their readings, and what operators ask
//! of them.

mod request;

pub use self::request::{DeviceRequest, SetRequest};
