//! `forebay device`: lists the devices of a running agent, tells them what to do, and
//! shows what they say in their logs. `sim` makes some on this computer.

mod log;
mod show;

use std::process::ExitCode;

use clap::{ArgGroup, Args, Subcommand};
use forebay_core::devices::{DeviceRequest, SetRequest};
use forebay_core::limits::{PERIOD_US_MAX, PERIOD_US_MIN};
use serde_json::Value;

use super::query::{Listed, Target};
use crate::agent::device_questions::{self, DeviceQuestion};
use crate::config::duration;
use crate::shell::{output, sheets};
use crate::sim::{self, SimArgs};
use crate::terminal::print_line;

#[derive(Debug, Subcommand)]
pub(super) enum DeviceVerb {
    Sim(SimArgs),
    /// All devices that the agent ever heard of
    #[command(after_help = "\
Example:
  forebay device ls --config gateway.toml

Exit code: 0; 3 when the agent does not answer.")]
    Ls(Listed),
    /// One device: who it is, its channels, its clock, how it does, its ledger
    #[command(after_help = "\
Example:
  forebay device show boiler

Exit code: 0; 1 when there is no such device; 3 when the agent does not answer.")]
    Show {
        /// Its name from the config, or its uid, 16 hex digits
        #[arg(value_name = "DEVICE")]
        name: String,
        #[command(flatten)]
        listed: Listed,
    },
    Set(SetArgs),
    /// Lets a device show which one it is: its light blinks
    #[command(after_help = "\
Example:
  forebay device identify boiler --seconds 30

Exit code: 0 when the device has answered; 1 when it has not, or refuses.")]
    Identify {
        #[command(flatten)]
        device: Named,
        /// For how long, 1 to 255
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..))]
        seconds: u8,
    },
    /// Starts a device anew
    #[command(after_help = "\
Example:
  forebay device reboot boiler

What it holds and has not sent is lost: its next boot says how much that was.
Exit code: 0 when the device has answered; 1 when it has not, or refuses.")]
    Reboot {
        #[command(flatten)]
        device: Named,
    },
    Log(log::LogArgs),
}

/// Which device.
#[derive(Debug, Clone, Args)]
pub(super) struct Named {
    /// Its name from the config, or its uid, 16 hex digits
    #[arg(value_name = "DEVICE")]
    name: String,
    #[command(flatten)]
    target: Target,
}

/// Changes how a channel of a device is sampled
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).multiple(true), after_help = "\
Example:
  forebay device set boiler --channel temperature --period 500ms --threshold 0.5

The gateway keeps the settings: a device that is reset, or comes back later, gets them again.
With --once it does not, and they last until the device is reset.
Exit code: 0 when they are kept, or done with --once; 1 when they are refused.")]
pub(super) struct SetArgs {
    #[command(flatten)]
    device: Named,
    /// Channel of the device, such as temperature
    #[arg(long)]
    channel: String,
    /// Time between samples, 1ms to 1h; "built" for what the firmware was built with
    #[arg(long, value_name = "DURATION", value_parser = parse_period, group = "what")]
    period: Option<u32>,
    /// Samples that differ by less from the last that was sent are left out, but for each
    /// 64th; in the channel's unit, 0 sends all
    #[arg(long, value_name = "VALUE", value_parser = parse_threshold, allow_negative_numbers = true, group = "what")]
    threshold: Option<f64>,
    /// Keep nothing of it: until the device is reset
    #[arg(long)]
    once: bool,
}

/// Microseconds; 0 for as built.
fn parse_period(text: &str) -> Result<u32, String> {
    if text == "built" {
        return Ok(0);
    }
    let span = duration::parse(text)?;
    let period = u32::try_from(span.0).ok();
    let period = period.filter(|us| (PERIOD_US_MIN..=PERIOD_US_MAX).contains(us));
    period.ok_or_else(|| String::from("must be from 1ms to 1h, or built"))
}

fn parse_threshold(text: &str) -> Result<f64, String> {
    let value: Option<f64> = text.parse().ok();
    let value = value.filter(|value| value.is_finite() && *value >= 0.0);
    value.ok_or_else(|| String::from("must be a number of 0 or more"))
}

/// Asks and shows.
pub(super) fn run(verb: &DeviceVerb) -> ExitCode {
    let (target, request, show): (_, _, fn(&Value) -> String) = match verb {
        DeviceVerb::Sim(args) => return sim::run(args),
        DeviceVerb::Log(args) => return log::run(args),
        DeviceVerb::Ls(listed) => {
            return listed.show(&asked(DeviceRequest::List), &sheets::DEVICES, |answer| {
                sheets::DEVICES.text(answer)
            });
        }
        DeviceVerb::Show { name, listed } => {
            let device = name.clone();
            let request = asked(DeviceRequest::Show { device });
            return listed.show(&request, &sheets::DEVICE_CHANNELS, show::whole);
        }
        DeviceVerb::Set(args) => {
            let request = DeviceRequest::Set(SetRequest {
                device: args.device.name.clone(),
                channel: args.channel.clone(),
                period_us: args.period,
                threshold: args.threshold,
                once: args.once,
            });
            (&args.device.target, request, show::set)
        }
        DeviceVerb::Identify { device, seconds } => {
            let request = DeviceRequest::Identify {
                device: device.name.clone(),
                seconds: *seconds,
            };
            (&device.target, request, show::done)
        }
        DeviceVerb::Reboot { device } => {
            let name = device.name.clone();
            (
                &device.target,
                DeviceRequest::Reboot { device: name },
                show::done,
            )
        }
    };
    match target.ask(&asked(request)) {
        Ok(answer) if target.json => print_line(&answer.to_string()),
        Ok(answer) => print_line(&show(&answer)),
        Err(failure) => output::failed(&failure),
    }
}

fn asked(request: DeviceRequest) -> Value {
    device_questions::write(&DeviceQuestion::Core(request))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_and_thresholds_at_their_limits() {
        for (text, want) in [
            ("999us", None),
            ("1ms", Some(1000)),
            ("1001us", Some(1001)),
            ("1h", Some(3_600_000_000)),
            ("3601s", None),
            ("-1s", None),
            ("built", Some(0)),
            ("0s", None),
            ("soon", None),
        ] {
            assert_eq!(parse_period(text).ok(), want, "{text}");
        }
        for (text, want) in [
            ("0", Some(0.0)),
            ("0.5", Some(0.5)),
            ("-0.1", None),
            ("inf", None),
            ("NaN", None),
            ("much", None),
        ] {
            assert_eq!(parse_threshold(text).ok(), want, "{text}");
        }
    }
}
