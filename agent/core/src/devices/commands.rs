//! Commands on their way to devices: sent again until the device has answered, because
//! a line may lose both, and a device that hears one twice acts once.
//!
//! Bound: [`COMMANDS_MAX`], of one device [`COMMANDS_PER_DEVICE_MAX`].

use std::collections::BTreeMap;

use forebay_wire::codec::GatewayMessage;
use forebay_wire::ids::{BootId, DeviceUid};
use forebay_wire::message::{Cmd, CmdResult, CmdStatus, Operation};
use serde_json::Value;

use super::{Device, DeviceAction};
use crate::limits::{COMMAND_EACH_US, COMMAND_SENDS_MAX, COMMANDS_MAX, COMMANDS_PER_DEVICE_MAX};
use crate::link::line;
use crate::query::{Answer, QueryId};
use crate::units::Mono;

/// One command.
#[derive(Debug)]
struct Command {
    id: u32,
    uid: DeviceUid,
    /// What was asked in another boot is not done in this one.
    boot: BootId,
    operation: Operation,
    asker: QueryId,
    next_at: Mono,
    sent: u32,
}

/// Who waits for one or more commands.
#[derive(Debug)]
struct Asker {
    name: String,
    left: usize,
    /// What they hear when all is done.
    done: Value,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Commands {
    list: Vec<Command>,
    askers: BTreeMap<QueryId, Asker>,
    next_id: u32,
}

/// A command as an operator asked for it.
pub(super) struct Asked<'a> {
    pub(super) id: QueryId,
    pub(super) uid: DeviceUid,
    pub(super) boot: BootId,
    pub(super) name: &'a str,
    pub(super) done: Value,
}

impl Commands {
    /// `first`: a number that no earlier run has used of late, for a device remembers
    /// what it did by number.
    pub(super) fn new(first: u32) -> Self {
        Self {
            list: Vec::new(),
            askers: BTreeMap::new(),
            next_id: first,
        }
    }

    /// Sends operations to a device; the answer comes when all are done.
    ///
    /// # Errors
    /// When too many are on their way.
    pub(super) fn start(
        &mut self,
        asked: Asked<'_>,
        operations: &[Operation],
        now: Mono,
    ) -> Result<(), String> {
        let Asked {
            id,
            uid,
            boot,
            name,
            done,
        } = asked;
        let own = self.list.iter().filter(|command| command.uid == uid);
        if own.count() + operations.len() > COMMANDS_PER_DEVICE_MAX
            || self.list.len() + operations.len() > COMMANDS_MAX
        {
            return Err(format!(
                "{} commands are on their way: ask again in some seconds",
                self.list.len()
            ));
        }
        for operation in operations {
            self.list.push(Command {
                id: self.next_id,
                uid,
                boot,
                operation: *operation,
                asker: id,
                next_at: now,
                sent: 0,
            });
            self.next_id = self.next_id.wrapping_add(1);
        }
        let asker = Asker {
            name: name.to_owned(),
            left: operations.len(),
            done,
        };
        self.askers.insert(id, asker);
        Ok(())
    }

    /// Sends what is due, and gives up what was sent often enough. A device that is on
    /// no port now may come back in time.
    pub(super) fn on_deadline(
        &mut self,
        now: Mono,
        devices: &BTreeMap<DeviceUid, Device>,
        actions: &mut Vec<DeviceAction>,
    ) {
        let mut silent = Vec::new();
        for command in self.list.iter_mut().filter(|c| c.next_at <= now) {
            if command.sent == COMMAND_SENDS_MAX {
                silent.push(command.asker);
                continue;
            }
            command.sent += 1;
            command.next_at = Mono(now.0.saturating_add(COMMAND_EACH_US));
            let link = devices.get(&command.uid).and_then(Device::open_link);
            if let Some(link) = link.filter(|link| link.boot == command.boot) {
                let cmd = Cmd {
                    id: command.id,
                    operation: command.operation,
                };
                let line = line(&GatewayMessage::Cmd(cmd));
                actions.push(DeviceAction::Say(link.port, line));
            }
        }
        for asker in silent {
            let seconds = u64::from(COMMAND_SENDS_MAX) * COMMAND_EACH_US / 1_000_000;
            let why = format!("did not answer within {seconds} s");
            self.fail(asker, &why, actions);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Mono> {
        self.list.iter().map(|command| command.next_at).min()
    }

    /// A device has answered; one that nobody waits for is old.
    pub(super) fn on_result(
        &mut self,
        uid: DeviceUid,
        result: &CmdResult,
        actions: &mut Vec<DeviceAction>,
    ) {
        let is_it = |command: &Command| command.uid == uid && command.id == result.id;
        let Some(at) = self.list.iter().position(is_it) else {
            return;
        };
        let command = self.list.remove(at);
        match refusal(result.status) {
            None => self.done(command.asker, actions),
            Some(why) => self.fail(command.asker, why, actions),
        }
    }

    /// A device is in this boot now: what was asked in another one is over.
    pub(super) fn on_boot(
        &mut self,
        uid: DeviceUid,
        boot: BootId,
        actions: &mut Vec<DeviceAction>,
    ) {
        let old = |command: &mut Command| command.uid == uid && command.boot != boot;
        let over: Vec<_> = self.list.extract_if(.., old).collect();
        for command in over {
            // Its answer was lost, and it has done it.
            if matches!(command.operation, Operation::Reboot { .. }) {
                self.done(command.asker, actions);
            } else {
                self.fail(command.asker, "was reset before it answered", actions);
            }
        }
    }

    fn done(&mut self, id: QueryId, actions: &mut Vec<DeviceAction>) {
        let Some(asker) = self.askers.get_mut(&id) else {
            return;
        };
        asker.left -= 1;
        if asker.left == 0
            && let Some(asker) = self.askers.remove(&id)
        {
            actions.push(DeviceAction::Answer(id, Ok(asker.done.into())));
        }
    }

    fn fail(&mut self, id: QueryId, why: &str, actions: &mut Vec<DeviceAction>) {
        self.list.retain(|command| command.asker != id);
        if let Some(asker) = self.askers.remove(&id) {
            let answer: Answer = Err(format!("{} {why}", asker.name));
            actions.push(DeviceAction::Answer(id, answer));
        }
    }
}

/// Why a device did not do it, to be read after its name.
fn refusal(status: CmdStatus) -> Option<&'static str> {
    match status {
        CmdStatus::Done => None,
        CmdStatus::UnknownOperation => Some("does not know this command: its firmware is older"),
        CmdStatus::BadArgument => Some("does not take this value"),
        CmdStatus::WrongBoot => Some("was reset in the meantime: ask again"),
        CmdStatus::Refused => Some("refused"),
    }
}
