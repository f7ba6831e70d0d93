//! Questions and orders about devices as JSON lines, both ways, as
//! [`questions`](super::questions) has them for readings.

use forebay_core::devices::{DeviceRequest, SetRequest};
use serde_json::{Value, json};

use super::questions::text;
use crate::devlog::LogRequest;

/// Their names, for whoever asks for something else.
pub(super) const NAMES: &str =
    "device_ls, device_show, device_set, device_identify, device_reboot and device_log";

/// What is asked about devices.
#[derive(Debug, Clone, PartialEq)]
pub enum DeviceQuestion {
    Core(DeviceRequest),
    Log(LogRequest),
}

/// A question as the agent reads it with `read`.
#[must_use]
pub fn write(question: &DeviceQuestion) -> Value {
    match question {
        DeviceQuestion::Core(DeviceRequest::List) => json!({ "query": "device_ls" }),
        DeviceQuestion::Core(DeviceRequest::Show { device }) => {
            json!({ "query": "device_show", "device": device })
        }
        DeviceQuestion::Core(DeviceRequest::Set(set)) => json!({
            "query": "device_set",
            "device": set.device,
            "channel": set.channel,
            "period_us": set.period_us,
            "threshold": set.threshold,
            "once": set.once,
        }),
        DeviceQuestion::Core(DeviceRequest::Identify { device, seconds }) => {
            json!({ "query": "device_identify", "device": device, "seconds": seconds })
        }
        DeviceQuestion::Core(DeviceRequest::Reboot { device }) => {
            json!({ "query": "device_reboot", "device": device })
        }
        DeviceQuestion::Log(LogRequest { device, after }) => {
            json!({ "query": "device_log", "device": device, "after": after })
        }
    }
}

/// Reads a question; `None` when it is about none of devices.
///
/// # Errors
/// A sentence that names the member that is missing or wrong.
pub(super) fn read(query: &str, request: &Value) -> Option<Result<DeviceQuestion, String>> {
    let read = match query {
        "device_ls" => Ok(DeviceQuestion::Core(DeviceRequest::List)),
        "device_show" => text(request, "device")
            .map(|device| DeviceQuestion::Core(DeviceRequest::Show { device })),
        "device_set" => set(request).map(|set| DeviceQuestion::Core(DeviceRequest::Set(set))),
        "device_identify" => identify(request).map(DeviceQuestion::Core),
        "device_reboot" => text(request, "device")
            .map(|device| DeviceQuestion::Core(DeviceRequest::Reboot { device })),
        "device_log" => log(request).map(DeviceQuestion::Log),
        _ => return None,
    };
    Some(read)
}

fn set(request: &Value) -> Result<SetRequest, String> {
    let period_us = optional(request, "period_us", |value| {
        u32::try_from(value.as_u64()?).ok()
    });
    let threshold = optional(request, "threshold", |value| {
        value.as_f64().filter(|threshold| *threshold >= 0.0)
    });
    let set = SetRequest {
        device: text(request, "device")?,
        channel: text(request, "channel")?,
        period_us: period_us.ok_or("\"period_us\" must be a number of microseconds")?,
        threshold: threshold.ok_or("\"threshold\" must be a number of 0 or more")?,
        once: optional(request, "once", Value::as_bool)
            .ok_or("\"once\" must be true or false")?
            .unwrap_or(false),
    };
    if set.period_us.is_none() && set.threshold.is_none() {
        return Err(String::from(
            "\"period_us\" or \"threshold\" must say what is to be set",
        ));
    }
    Ok(set)
}

/// A member that may be missing; `None` when it is there and wrong.
fn optional<T>(
    request: &Value,
    name: &str,
    read: impl FnOnce(&Value) -> Option<T>,
) -> Option<Option<T>> {
    match request.get(name) {
        None | Some(Value::Null) => Some(None),
        Some(value) => read(value).map(Some),
    }
}

fn identify(request: &Value) -> Result<DeviceRequest, String> {
    let seconds = request.get("seconds").and_then(Value::as_u64);
    let seconds = seconds.and_then(|seconds| u8::try_from(seconds).ok());
    Ok(DeviceRequest::Identify {
        device: text(request, "device")?,
        seconds: seconds.ok_or("\"seconds\" must be a number from 0 to 255")?,
    })
}

fn log(request: &Value) -> Result<LogRequest, String> {
    let after = optional(request, "after", Value::as_u64);
    Ok(LogRequest {
        device: text(request, "device")?,
        after: after
            .ok_or("\"after\" must be the number of a line")?
            .unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_back(request: &Value) -> Result<DeviceQuestion, String> {
        let query = request["query"].as_str().expect("a name");
        read(query, request).expect("about devices")
    }

    #[test]
    fn what_is_written_reads_back() {
        let device = String::from("boiler");
        let set = |period_us, threshold, once| {
            DeviceRequest::Set(SetRequest {
                device: String::from("boiler"),
                channel: String::from("temperature"),
                period_us,
                threshold,
                once,
            })
        };
        let requests = [
            DeviceRequest::List,
            DeviceRequest::Show {
                device: device.clone(),
            },
            set(Some(u32::MAX), None, false),
            set(Some(0), Some(0.0), true),
            set(None, Some(0.5), true),
            DeviceRequest::Identify {
                device: device.clone(),
                seconds: 255,
            },
            DeviceRequest::Reboot {
                device: device.clone(),
            },
        ];
        let log = DeviceQuestion::Log(LogRequest { device, after: 7 });
        let core = requests.map(DeviceQuestion::Core);
        for question in core.into_iter().chain([log]) {
            assert!(NAMES.contains(write(&question)["query"].as_str().expect("a name")));
            assert_eq!(read_back(&write(&question)), Ok(question));
        }
    }

    #[test]
    fn bad_questions_are_told_what_is_wrong() {
        for (request, word) in [
            (json!({"query": "device_show"}), "\"device\""),
            (json!({"query": "device_set", "device": "d"}), "\"channel\""),
            (
                json!({"query": "device_set", "device": "d", "channel": "c"}),
                "what is to be set",
            ),
            (
                json!({"query": "device_set", "device": "d", "channel": "c", "period_us": -1}),
                "\"period_us\"",
            ),
            (
                json!({"query": "device_set", "device": "d", "channel": "c", "threshold": -0.1}),
                "\"threshold\"",
            ),
            (
                json!({"query": "device_set", "device": "d", "channel": "c", "once": 1}),
                "\"once\"",
            ),
            (
                json!({"query": "device_identify", "device": "d", "seconds": 256}),
                "\"seconds\"",
            ),
            (
                json!({"query": "device_log", "device": "d", "after": "x"}),
                "\"after\"",
            ),
        ] {
            let error = read_back(&request).expect_err(word);
            assert!(error.contains(word), "{error}");
        }
        assert_eq!(read("status", &json!({})), None);
    }
}
