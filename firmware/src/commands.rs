//! Commands of the gateway: the last results by id, so that one that comes again is
//! answered again and not done again, and what the board has yet to do.
//!
//! Bound: [`CMD_RESULTS_KEPT`] results; the oldest goes first. All zero bits at start.

use forebay_wire::message::CmdStatus;

use crate::limits::CMD_RESULTS_KEPT;

/// What a board does for a command, from [`crate::Device::take_action`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Show where the device is, for so long; 0 ends it.
    Identify { seconds: u8 },
    /// Reset now.
    Reboot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Empty,
    /// Waits to be said.
    Waiting,
    Said,
}

#[derive(Debug, Clone, Copy)]
struct Kept {
    place: Place,
    status: CmdStatus,
    id: u32,
}

/// How far a reboot is: it must not cut off its own result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reboot {
    No,
    /// Its result waits.
    Asked,
    /// Its result is on the line.
    Said,
    Due,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Commands {
    kept: [Kept; CMD_RESULTS_KEPT],
    /// Where the next result goes.
    next: u8,
    identify: u8,
    identify_asked: bool,
    reboot: Reboot,
    reboot_id: u32,
}

impl Commands {
    pub(crate) const fn new() -> Self {
        let empty = Kept {
            place: Place::Empty,
            status: CmdStatus::Done,
            id: 0,
        };
        Commands {
            kept: [empty; CMD_RESULTS_KEPT],
            next: 0,
            identify: 0,
            identify_asked: false,
            reboot: Reboot::No,
            reboot_id: 0,
        }
    }

    /// Whether this id was done already; its result is said again then.
    pub(crate) fn is_repeat(&mut self, id: u32) -> bool {
        let same = |kept: &&mut Kept| kept.place != Place::Empty && kept.id == id;
        let Some(kept) = self.kept.iter_mut().find(same) else {
            return false;
        };
        kept.place = Place::Waiting;
        true
    }

    /// A command was carried out, or not.
    pub(crate) fn keep(&mut self, id: u32, status: CmdStatus) {
        let at = usize::from(self.next) % CMD_RESULTS_KEPT;
        self.kept[at] = Kept {
            place: Place::Waiting,
            status,
            id,
        };
        self.next = self.next.wrapping_add(1);
    }

    /// A result to say.
    pub(crate) fn waiting(&self) -> Option<(u32, CmdStatus)> {
        let waiting = |kept: &&Kept| kept.place == Place::Waiting;
        let kept = self.kept.iter().find(waiting)?;
        Some((kept.id, kept.status))
    }

    /// What [`Commands::waiting`] gave is on the line.
    pub(crate) fn said(&mut self, id: u32) {
        let same = |kept: &&mut Kept| kept.place == Place::Waiting && kept.id == id;
        if let Some(kept) = self.kept.iter_mut().find(same) {
            kept.place = Place::Said;
        }
        if self.reboot == Reboot::Asked && self.reboot_id == id {
            self.reboot = Reboot::Said;
        }
    }

    /// The line is free: what was on it has left.
    pub(crate) fn line_is_free(&mut self) {
        if self.reboot == Reboot::Said {
            self.reboot = Reboot::Due;
        }
    }

    /// Whether [`Commands::line_is_free`] is waited for.
    pub(crate) fn waits_for_line(&self) -> bool {
        self.reboot == Reboot::Said
    }

    pub(crate) fn identify(&mut self, seconds: u8) {
        (self.identify, self.identify_asked) = (seconds, true);
    }

    pub(crate) fn reboot(&mut self, id: u32) {
        // Asked twice, one of the results is enough.
        if self.reboot == Reboot::No {
            (self.reboot, self.reboot_id) = (Reboot::Asked, id);
        }
    }

    /// What the board is to do now; each is given once.
    pub(crate) fn take_action(&mut self) -> Option<Action> {
        if self.identify_asked {
            self.identify_asked = false;
            let seconds = self.identify;
            return Some(Action::Identify { seconds });
        }
        if self.reboot == Reboot::Due {
            self.reboot = Reboot::No;
            return Some(Action::Reboot);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_results_are_kept() {
        let most = CMD_RESULTS_KEPT as u32;
        for (name, after, repeat) in [
            ("one under", most - 2, true),
            ("at the limit", most - 1, true),
            ("one over", most, false),
        ] {
            let mut commands = Commands::new();
            assert!(!commands.is_repeat(0), "nothing is kept yet");
            for id in 0..=after {
                assert!(!commands.is_repeat(id));
                commands.keep(id, CmdStatus::Refused);
                assert_eq!(commands.waiting(), Some((id, CmdStatus::Refused)));
                commands.said(id);
                assert_eq!(commands.waiting(), None);
            }
            assert_eq!(commands.is_repeat(0), repeat, "{name}");
            let again = repeat.then_some((0, CmdStatus::Refused));
            assert_eq!(commands.waiting(), again, "{name}");
        }
    }

    #[test]
    fn a_reboot_waits_for_its_result_and_the_line() {
        let mut commands = Commands::new();
        commands.keep(5, CmdStatus::Done);
        commands.keep(6, CmdStatus::Done);
        commands.reboot(6);
        commands.line_is_free();
        commands.said(5);
        commands.line_is_free();
        assert_eq!(commands.take_action(), None);
        commands.said(6);
        assert!(commands.waits_for_line());
        assert_eq!(commands.take_action(), None);
        commands.line_is_free();
        assert_eq!(commands.take_action(), Some(Action::Reboot));
        assert_eq!(commands.take_action(), None, "once");
    }
}
