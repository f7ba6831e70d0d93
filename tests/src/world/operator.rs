//! An operator who changes settings, commands devices and looks at them, and who must
//! hear an answer to each question once, unless the gateway was killed in between.

use std::collections::BTreeMap;

use forebay_core::devices::{DeviceRequest, SetRequest};
use forebay_core::effect::QueryId;
use forebay_core::query::{Answer, Reply};

use super::dice::Dice;

/// Numbers of questions from here on are the operator's.
const FIRST: u64 = 1_000;
/// Longest time that an answer may take, us: some seconds, and the disk.
const PATIENCE: u64 = 30_000_000;

/// See the module.
#[derive(Debug, Default)]
pub struct Operator {
    asked: u64,
    /// Questions without an answer, and when they were asked.
    waiting: BTreeMap<QueryId, u64>,
    /// What came of the questions.
    pub heard: BTreeMap<&'static str, u32>,
}

impl Operator {
    /// One more question, about the device `uid`.
    pub fn ask(&mut self, now: u64, uid: u64, dice: &mut Dice) -> (QueryId, DeviceRequest) {
        self.asked += 1;
        let id = QueryId(FIRST + self.asked);
        self.waiting.insert(id, now);
        let device = format!("{uid:016x}");
        let request = match dice.below(8) {
            0 => DeviceRequest::Identify { device, seconds: 2 },
            1 => DeviceRequest::Reboot { device },
            2 => DeviceRequest::Show { device },
            kind => DeviceRequest::Set(SetRequest {
                device,
                channel: ["temperature", "pressure"][dice.below(2) as usize].to_owned(),
                period_us: (dice.below(2) == 0).then(|| 20_000 + dice.below(200_000) as u32),
                threshold: Some(dice.below(50) as f64 / 10.0),
                once: kind > 5,
            }),
        };
        (id, request)
    }

    /// Hears an answer.
    ///
    /// # Panics
    /// When nobody asked, or it was answered before.
    pub fn hear(&mut self, id: QueryId, answer: &Answer) {
        let asked = self.waiting.remove(&id);
        assert!(asked.is_some(), "nobody waits for this: {id:?} {answer:?}");
        let what = match answer.as_ref().map(Reply::object) {
            Ok(object) if object["applied"] == true => "settings applied",
            Ok(object) if object["applied"] == false => "settings kept",
            Ok(object) if object["done"] == true => "command done",
            Ok(_) => "device shown",
            Err(_) => "refused",
        };
        *self.heard.entry(what).or_default() += 1;
    }

    /// The gateway was killed: nobody answers any more.
    pub fn forget(&mut self) {
        self.waiting.clear();
    }

    /// Whether all questions are answered.
    ///
    /// # Panics
    /// When one waits for too long.
    #[must_use]
    pub fn is_content(&self, now: u64) -> bool {
        let oldest = self.waiting.values().min();
        assert!(
            oldest.is_none_or(|asked| now - asked <= PATIENCE),
            "no answer: {:?}",
            self.waiting
        );
        self.waiting.is_empty()
    }
}
