//! Bounded tries on a bus, and what a failed one is called. A try costs a few
//! transactions; after [`BUS_TRIES_MAX`] the reading is a quality code, so that a
//! dead sensor takes the same short time each period and no other channel waits.

#![cfg_attr(not(feature = "sensors"), allow(dead_code))] // each sensor uses a part

use forebay_wire::message::Quality;

use crate::limits::BUS_TRIES_MAX;

/// Runs `attempt` until it succeeds, at most [`BUS_TRIES_MAX`] times; then the
/// quality of the last failure.
pub(crate) fn tries<T>(mut attempt: impl FnMut() -> Result<T, Quality>) -> Result<T, Quality> {
    let mut last = Quality::BusError;
    for _ in 0..BUS_TRIES_MAX {
        match attempt() {
            Ok(value) => return Ok(value),
            Err(quality) => last = quality,
        }
    }
    Err(last)
}

/// Any error of a bus, whatever its type.
pub(crate) fn bus<E>(_: E) -> Quality {
    Quality::BusError
}

/// `value` when a sensor can mean it.
pub(crate) fn within(value: i32, range: (i32, i32)) -> Result<i32, Quality> {
    if (range.0..=range.1).contains(&value) {
        Ok(value)
    } else {
        Err(Quality::Implausible)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_tries_as_the_limit_and_no_more() {
        for (name, failures, want, calls) in [
            ("at once", 0, Ok(7), 1),
            ("limit - 1", BUS_TRIES_MAX - 1, Ok(7), BUS_TRIES_MAX),
            (
                "limit",
                BUS_TRIES_MAX,
                Err(Quality::CrcError),
                BUS_TRIES_MAX,
            ),
        ] {
            let mut called = 0;
            let got = tries(|| {
                called += 1;
                if called > failures {
                    Ok(7)
                } else {
                    Err(Quality::CrcError)
                }
            });
            assert_eq!((got, called), (want, calls), "{name}");
        }
    }
}
