//! What the rules of time say of devices, watermarks and silence, as slow and obvious as can
//! be: for the models of windows and of joins.

use std::collections::BTreeMap;

use crate::engine::config::{IdleAfter, TimeRules};

/// A device, or all of them.
pub(super) type Scope = Option<&'static str>;

/// When a device was last heard, by the clock of the gateway.
#[derive(Clone, Copy, PartialEq)]
enum Heard {
    Never,
    BeforeTheClock,
    At(i64),
    Idle,
}

struct Device {
    newest: Option<i64>,
    floor: i64,
    heard: Heard,
}

impl Device {
    fn is_active(&self) -> bool {
        matches!(self.heard, Heard::At(_) | Heard::BeforeTheClock)
    }
}

pub(super) struct Times<'a> {
    rules: &'a TimeRules,
    devices: BTreeMap<&'static str, Device>,
    pub(super) floor: i64,
    pub(super) now: Option<i64>,
    /// Watermark over all devices.
    all: i64,
}

impl<'a> Times<'a> {
    pub(super) fn new(rules: &'a TimeRules) -> Self {
        Self {
            rules,
            devices: BTreeMap::new(),
            floor: i64::MIN,
            now: None,
            all: i64::MIN,
        }
    }

    pub(super) fn is_future(&self, time: i64) -> bool {
        let guard = self.rules.future_guard.0;
        self.now.is_some_and(|now| time > now + guard)
    }

    pub(super) fn watermark(&self, scope: Option<&str>) -> i64 {
        let Some(name) = scope else {
            return self.all;
        };
        let Some(device) = self.devices.get(name) else {
            return self.floor;
        };
        let bound = self.rules.out_of_order.0;
        let by_time = device.newest.map_or(i64::MIN, |t| t.saturating_sub(bound));
        by_time.max(device.floor).max(self.floor)
    }

    /// Of each device, and of all.
    pub(super) fn watermarks(&self) -> BTreeMap<Scope, i64> {
        let scopes = self.devices.keys().map(|name| Some(*name)).chain([None]);
        scopes.map(|scope| (scope, self.watermark(scope))).collect()
    }

    /// The least of those that are active; of none the largest; never back.
    fn move_all(&mut self) {
        let of = |name: &&str| self.watermark(Some(name));
        let least = self.devices.iter().filter(|(_, d)| d.is_active());
        let least = least.map(|(name, _)| of(name)).min();
        let heard = self.devices.iter().filter(|(_, d)| d.newest.is_some());
        let largest = heard.map(|(name, _)| of(name)).max();
        let all = least.or(largest).unwrap_or(self.floor);
        self.all = self.all.max(all).max(self.floor);
    }

    fn device(&mut self, name: &'static str) -> &mut Device {
        self.devices.entry(name).or_insert(Device {
            newest: None,
            floor: i64::MIN,
            heard: Heard::Never,
        })
    }

    /// There is a device of this name.
    pub(super) fn meet(&mut self, name: &'static str) {
        self.device(name);
    }

    /// A reading of a device has come.
    pub(super) fn hear(&mut self, name: &'static str, time: i64) {
        let heard = self.now.map_or(Heard::BeforeTheClock, Heard::At);
        let device = self.device(name);
        device.newest = device.newest.max(Some(time));
        device.heard = heard;
        self.move_all();
    }

    /// Nothing with a smaller time is still expected of this scope.
    pub(super) fn raise(&mut self, scope: Scope, time: i64) {
        match scope {
            None => self.floor = self.floor.max(time),
            Some(name) => {
                let device = self.device(name);
                device.floor = device.floor.max(time);
            }
        }
        self.move_all();
    }

    /// The gateway's clock says this: the scopes that fall silent now.
    pub(super) fn clock(&mut self, time: i64) -> Vec<Scope> {
        let now = self.now.map_or(time, |now| now.max(time));
        self.now = Some(now);
        let IdleAfter::After(patience) = self.rules.idle_after else {
            panic!("the model knows a fixed patience only");
        };
        let mut silent: Vec<Scope> = Vec::new();
        for (name, device) in &mut self.devices {
            match device.heard {
                Heard::BeforeTheClock => device.heard = Heard::At(now),
                Heard::At(heard) if now - heard >= patience.0 => {
                    device.heard = Heard::Idle;
                    silent.push(Some(name));
                }
                Heard::At(_) | Heard::Never | Heard::Idle => {}
            }
        }
        if !silent.is_empty() {
            self.move_all();
            if !self.devices.values().any(Device::is_active) {
                silent.push(None);
            }
        }
        silent
    }
}
