//! The last lines that devices said, in memory.
//!
//! Bound: [`LINES_PER_DEVICE_MAX`] lines of a device and [`LINES_BYTES_MAX`] of all; the
//! oldest go. Knows no format.

use std::collections::{BTreeMap, VecDeque};

use forebay_core::units::EventTime;
use forebay_core::utc::time_value;
use forebay_wire::ids::DeviceUid;
use serde_json::{Value, json};

use super::firmware::{BuildId, hex};
use super::frame::Said;
use super::limits::{LINES_BYTES_MAX, LINES_PER_DEVICE_MAX};

/// What a line costs beside its texts, about.
const LINE_BYTES: usize = 160;

/// One line of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeptLine {
    /// When it came, by the gateway's clock.
    pub at: EventTime,
    pub build_id: BuildId,
    pub frame: Vec<u8>,
    /// `Err` says why it could not be read.
    pub said: Result<Said, String>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Kept {
    devices: BTreeMap<DeviceUid, VecDeque<(u64, KeptLine)>>,
    /// Whose line each is, oldest first.
    order: BTreeMap<u64, DeviceUid>,
    next: u64,
    bytes: usize,
}

impl Kept {
    pub(super) fn push(&mut self, uid: DeviceUid, line: KeptLine) {
        self.next += 1;
        self.bytes += bytes_of(&line);
        self.order.insert(self.next, uid);
        let lines = self.devices.entry(uid).or_default();
        lines.push_back((self.next, line));
        if lines.len() > LINES_PER_DEVICE_MAX {
            self.drop_oldest(uid);
        }
        while self.bytes > LINES_BYTES_MAX
            && let Some((_, uid)) = self.order.first_key_value()
        {
            self.drop_oldest(*uid);
        }
    }

    fn drop_oldest(&mut self, uid: DeviceUid) {
        let Some(lines) = self.devices.get_mut(&uid) else {
            return;
        };
        if let Some((number, line)) = lines.pop_front() {
            self.order.remove(&number);
            self.bytes -= bytes_of(&line);
        }
        if lines.is_empty() {
            self.devices.remove(&uid);
        }
    }

    /// Devices of which there are lines.
    pub(super) fn devices(&self) -> impl Iterator<Item = DeviceUid> {
        self.devices.keys().copied()
    }

    /// The lines of a device after number `after`.
    pub(super) fn lines(&self, uid: DeviceUid, after: u64) -> Vec<Value> {
        let lines = self.devices.get(&uid).into_iter().flatten();
        let lines = lines.filter(|(number, _)| *number > after);
        lines.map(|(number, line)| to_json(*number, line)).collect()
    }

    /// The number of the newest line of all.
    pub(super) fn newest(&self) -> u64 {
        self.next
    }
}

fn bytes_of(line: &KeptLine) -> usize {
    let text = match &line.said {
        Ok(said) => said.text.len() + said.device_time.as_ref().map_or(0, String::len),
        Err(why) => why.len(),
    };
    LINE_BYTES + line.frame.len() + text
}

fn to_json(number: u64, line: &KeptLine) -> Value {
    let mut out = json!({
        "number": number,
        "time": time_value(line.at),
        "build_id": hex(&line.build_id),
        "frame": hex(&line.frame),
    });
    match &line.said {
        Ok(said) => {
            out["level"] = json!(said.level.map(super::elf::Level::name));
            out["device_time"] = json!(said.device_time);
            out["text"] = json!(said.text);
        }
        Err(why) => out["not_decoded"] = json!(why),
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uid(n: u64) -> DeviceUid {
        DeviceUid(n.to_be_bytes())
    }

    fn line(frame_bytes: usize) -> KeptLine {
        KeptLine {
            at: EventTime(0),
            build_id: [1; 8],
            frame: vec![0; frame_bytes],
            said: Err(String::new()),
        }
    }

    fn numbers(kept: &Kept, of: u64) -> Vec<u64> {
        let lines = kept.lines(uid(of), 0);
        let number = |line: &Value| line["number"].as_u64().expect("a number");
        lines.iter().map(number).collect()
    }

    #[test]
    fn lines_of_a_device_at_their_limit() {
        let mut kept = Kept::default();
        kept.push(uid(2), line(1));
        for _ in 0..LINES_PER_DEVICE_MAX - 1 {
            kept.push(uid(1), line(1));
        }
        let most = LINES_PER_DEVICE_MAX;
        for (first, count) in [(2, most), (3, most)] {
            kept.push(uid(1), line(1));
            let numbers = numbers(&kept, 1);
            assert_eq!((numbers[0], numbers.len()), (first, count));
        }
        assert_eq!(numbers(&kept, 2), [1]);
        assert_eq!(kept.lines(uid(1), kept.newest() - 1).len(), 1);
        assert!(kept.lines(uid(1), kept.newest()).is_empty());
    }

    #[test]
    fn bytes_of_all_lines_at_their_limit() {
        let mut kept = Kept::default();
        let half = LINES_BYTES_MAX / 2 - LINE_BYTES;
        kept.push(uid(1), line(half));
        kept.push(uid(2), line(half));
        assert_eq!((numbers(&kept, 1).len(), kept.bytes), (1, LINES_BYTES_MAX));
        kept.push(uid(2), line(0));
        assert_eq!(kept.devices().collect::<Vec<_>>(), [uid(2)]);
        assert_eq!(numbers(&kept, 2), [2, 3]);
        assert_eq!(kept.order.len(), 2);
    }
}
