//! Reading of the table of series in a JSON data message.
//!
//! Always holds: names, units and scales are ones that a block can have. Bound:
//! SERIES_PER_BLOCK_MAX.

use std::sync::Arc;

use forebay_wire::ids::{BootId, ChannelNo, DeviceUid};
use forebay_wire::limits::SCALE_MAX;

use super::control;
use super::json::{PayloadError, Reader, need, set};
use super::parse::at_most;
use crate::limits::{CHANNEL_NAME_BYTES_MAX, SERIES_PER_BLOCK_MAX, UNIT_NAME_BYTES_MAX};
use crate::record::{Series, UNSYNCED_US, ValueKind};

/// The series, and the uncertainty of their readings until one says another.
pub(super) fn parse_series(
    reader: &mut Reader<'_>,
) -> Result<(Vec<Series>, Vec<u32>), PayloadError> {
    let (mut series, mut first) = (Vec::new(), Vec::new());
    reader.array(|reader| {
        at_most(reader, series.len(), SERIES_PER_BLOCK_MAX)?;
        let mut parts = SeriesParts::default();
        reader.object(|reader, key| parts.member(reader, key))?;
        let (one, uncertainty_us) = parts.finish(reader)?;
        series.push(one);
        first.push(uncertainty_us);
        Ok(())
    })?;
    Ok((series, first))
}

/// Keys of a series as they come.
#[derive(Default)]
struct SeriesParts {
    device: Option<DeviceUid>,
    boot: Option<BootId>,
    number: Option<ChannelNo>,
    name: Option<Arc<str>>,
    unit: Option<Arc<str>>,
    kind: Option<ValueKind>,
    uncertainty_us: Option<u32>,
}

impl SeriesParts {
    fn member(&mut self, reader: &mut Reader<'_>, key: &str) -> Result<(), PayloadError> {
        match key {
            "device" => {
                let uid = control::hex(reader, "device").map(DeviceUid)?;
                set(reader, &mut self.device, "device", uid)
            }
            "boot" => {
                let boot = BootId(reader.narrow("boot")?);
                set(reader, &mut self.boot, "boot", boot)
            }
            "number" => {
                let number = ChannelNo(reader.narrow("number")?);
                set(reader, &mut self.number, "number", number)
            }
            "channel" => {
                let text = reader.string(CHANNEL_NAME_BYTES_MAX)?;
                set(reader, &mut self.name, "channel", Arc::from(text))
            }
            "unit" => {
                let text = reader.string(UNIT_NAME_BYTES_MAX)?;
                set(reader, &mut self.unit, "unit", Arc::from(text))
            }
            "scale" => {
                let kind = if reader.null()? {
                    ValueKind::Double
                } else {
                    let scale = reader.narrow("scale")?;
                    if scale > SCALE_MAX {
                        return Err(reader.value_error("scale"));
                    }
                    ValueKind::Scaled { scale }
                };
                set(reader, &mut self.kind, "scale", kind)
            }
            "uncertainty_us" => {
                let us = reader.narrow("uncertainty_us")?;
                if us == UNSYNCED_US {
                    return Err(reader.value_error("uncertainty_us"));
                }
                set(reader, &mut self.uncertainty_us, "uncertainty_us", us)
            }
            _ => reader.skip_value(),
        }
    }

    fn finish(self, reader: &Reader<'_>) -> Result<(Series, u32), PayloadError> {
        let series = Series {
            uid: need(reader, self.device, "device")?,
            boot: need(reader, self.boot, "boot")?,
            channel: need(reader, self.number, "number")?,
            kind: need(reader, self.kind, "scale")?,
            name: need(reader, self.name, "channel")?,
            unit: need(reader, self.unit, "unit")?,
        };
        Ok((series, self.uncertainty_us.unwrap_or_default()))
    }
}
