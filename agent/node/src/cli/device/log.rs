//! `forebay device log`: the last lines of a device's log, and with `--follow` those that
//! come. With `--elf` this command reads the firmware's file instead of the agent.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use forebay_core::devices::DeviceRequest;
use serde_json::Value;

use super::Named;
use crate::agent::device_questions::{self, DeviceQuestion};
use crate::devlog::LogRequest;
use crate::devlog::elf::Formats;
use crate::devlog::firmware::{BuildId, formats_of};
use crate::devlog::frame::{Said, decode};
use crate::exit::Exit;
use crate::shell::output::{self, Csv, Form};
use crate::shell::{gone, sheets};
use crate::terminal::{fail, print_line};

/// How often new lines are asked for.
const ASK_EVERY: Duration = Duration::from_millis(300);

/// What a device says in its log
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  forebay device log boiler --follow

The agent keeps the last 256 lines of each device, as loud as `device_log` in [agent] lets them
be, and reads them by the ELF files in `firmware` there; the file is found by its build id.
Exit code: 0; 1 when there is no such device; 3 when the agent does not answer.")]
pub(in crate::cli) struct LogArgs {
    #[command(flatten)]
    device: Named,
    /// Wait for more lines, until Ctrl-C
    #[arg(long)]
    follow: bool,
    /// ELF file of the device's firmware, instead of those that the agent has
    #[arg(long, value_name = "FILE")]
    elf: Option<PathBuf>,
    #[command(flatten)]
    csv: Csv,
}

/// Asks and shows.
pub(in crate::cli) fn run(args: &LogArgs) -> ExitCode {
    let mut reader = Reader::new(args.elf.clone());
    // Whoever keeps lines takes any uid: the core knows which devices there are.
    let device = args.device.name.clone();
    let known = DeviceQuestion::Core(DeviceRequest::Show { device });
    if let Err(failure) = args.device.target.ask(&device_questions::write(&known)) {
        return output::failed(&failure);
    }
    let form = args.csv.form(args.device.target.json);
    if form == Form::Csv
        && let Err(error) = output::put(sheets::DEVICE_LOG.csv_head().trim_end())
    {
        return output::unwritten(&error);
    }
    if args.follow {
        gone::end_when_unread();
    }
    let mut after = 0;
    loop {
        let request = LogRequest {
            device: args.device.name.clone(),
            after,
        };
        let target = &args.device.target;
        let answer = match target.ask(&device_questions::write(&DeviceQuestion::Log(request))) {
            Ok(answer) => answer,
            Err(failure) => return output::failed(&failure),
        };
        let lines = match reader.lines(answer) {
            Ok(answer) => answer,
            Err(text) => return fail(&text),
        };
        if form == Form::Json && !args.follow {
            return print_line(&lines.to_string());
        }
        let said = lines["lines"].as_array().map_or(&[][..], Vec::as_slice);
        if said.is_empty() && !args.follow && form == Form::Text {
            let device = lines["device"].as_str().unwrap_or_default();
            return print_line(&format!("no line of {device} yet"));
        }
        for line in said {
            let line = match form {
                Form::Json => line.to_string(),
                Form::Csv => sheets::DEVICE_LOG.csv_record(&lines, line),
                Form::Text => shown(line),
            };
            let line = line.trim_end_matches('\n');
            if let Err(error) = output::put(line) {
                return output::unwritten(&error);
            }
        }
        if !args.follow {
            return Exit::Ok.into();
        }
        // An agent that was started again counts anew.
        after = lines["newest"].as_u64().unwrap_or_default();
        std::thread::sleep(ASK_EVERY);
    }
}

/// Decodes what comes by a file of this command's own.
struct Reader {
    file: Option<PathBuf>,
    known: BTreeMap<BuildId, Formats>,
}

impl Reader {
    fn new(file: Option<PathBuf>) -> Self {
        let known = BTreeMap::new();
        Self { file, known }
    }

    /// The answer with its lines decoded by the file, where there is one.
    fn lines(&mut self, mut answer: Value) -> Result<Value, String> {
        let Some(file) = &self.file else {
            return Ok(answer);
        };
        for line in answer["lines"].as_array_mut().into_iter().flatten() {
            let id: Option<BuildId> = bytes(&line["build_id"]).and_then(|id| id.try_into().ok());
            let (Some(id), Some(frame)) = (id, bytes(&line["frame"])) else {
                return Err(String::from(
                    "the agent's answer has a line without a frame",
                ));
            };
            let formats = match self.known.entry(id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(formats_of(file, id)?),
            };
            match decode(formats, &frame) {
                Ok(said) => tell(line, said),
                Err(why) => line["not_decoded"] = why.into(),
            }
        }
        Ok(answer)
    }
}

fn tell(line: &mut Value, said: Said) {
    line["level"] = said.level.map(|level| level.name()).into();
    line["device_time"] = said.device_time.into();
    line["text"] = said.text.into();
    if let Some(line) = line.as_object_mut() {
        line.remove("not_decoded");
    }
}

/// Bytes from hex digits.
fn bytes(hex: &Value) -> Option<Vec<u8>> {
    let digits = hex.as_str()?.as_bytes();
    let (pairs, rest) = digits.as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| u8::try_from(digit(*high)? << 4 | digit(*low)?).ok();
    let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    bytes.filter(|_| rest.is_empty())
}

fn shown(line: &Value) -> String {
    let text = |name: &str| line[name].as_str().unwrap_or_default();
    if let Some(why) = line["not_decoded"].as_str() {
        return format!("{}  frame {} ({why})", text("time"), text("frame"));
    }
    let clock = match line["device_time"].as_str() {
        Some(time) => format!("  [{time}]"),
        None => String::new(),
    };
    let level = match line["level"].as_str() {
        Some(level) => level.to_uppercase(),
        None => String::from("-"),
    };
    format!("{}{clock}  {level:<5}  {}", text("time"), text("text"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_says_when_how_loud_and_what() {
        let time = "2026-01-01T00:00:00Z";
        for (name, line, want) in [
            (
                "all of it",
                json!({ "time": time, "level": "warn", "device_time": "1.5", "text": "hot" }),
                "2026-01-01T00:00:00Z  [1.5]  WARN   hot",
            ),
            (
                "a print without a time",
                json!({ "time": time, "level": null, "device_time": null, "text": "hello" }),
                "2026-01-01T00:00:00Z  -      hello",
            ),
            (
                "not read",
                json!({ "time": time, "frame": "0500", "not_decoded": "no ELF file" }),
                "2026-01-01T00:00:00Z  frame 0500 (no ELF file)",
            ),
        ] {
            assert_eq!(shown(&line), want, "{name}");
        }
    }

    #[test]
    fn hex_is_pairs_of_digits() {
        for (text, want) in [
            ("", Some(vec![])),
            ("00ff", Some(vec![0, 255])),
            ("0", None),
            ("0g", None),
            ("+1", None),
            ("é", None),
        ] {
            assert_eq!(bytes(&json!(text)), want, "{text}");
        }
        assert_eq!(bytes(&json!(7)), None);
    }
}
