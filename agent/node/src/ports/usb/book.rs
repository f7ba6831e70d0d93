//! Which port has which tty. A port that waits gets a tty that matches; a board that
//! comes back goes to the port that it had. Knows no file, no clock and no task.
//!
//! Invariant: no tty is with two ports. Bound: the ports of the config.

use super::{UsbId, UsbMatch, UsbTty};
use crate::ports::PortId;

#[derive(Debug)]
struct Slot {
    port: PortId,
    want: UsbMatch,
    given: Option<Given>,
    /// Who was here last.
    last: Option<UsbId>,
    /// When it was given back, counted in returns; 0: never.
    freed: u64,
}

#[derive(Debug)]
struct Given {
    tty: UsbTty,
    /// The port has it open, or is about to: it says itself when that ends.
    taken: bool,
}

/// The ports that want boards, and the boards that are there.
#[derive(Debug)]
pub(in crate::ports) struct Book {
    slots: Vec<Slot>,
    /// As last seen, sorted.
    ttys: Vec<UsbTty>,
    /// Those that were given back since.
    returned: Vec<UsbTty>,
    returns: u64,
}

impl Book {
    pub(in crate::ports) fn new(wants: impl IntoIterator<Item = (PortId, UsbMatch)>) -> Self {
        let slots = wants.into_iter().map(|(port, want)| Slot {
            port,
            want,
            given: None,
            last: None,
            freed: 0,
        });
        Self {
            slots: slots.collect(),
            ttys: Vec::new(),
            returned: Vec::new(),
            returns: 0,
        }
    }

    /// What a look at the system found. True: some port was given one.
    pub(in crate::ports) fn seen(&mut self, ttys: Vec<UsbTty>) -> bool {
        for slot in &mut self.slots {
            let gone = |given: &Given| !given.taken && !ttys.contains(&given.tty);
            if slot.given.as_ref().is_some_and(gone) {
                slot.given = None;
            }
        }
        self.ttys = ttys;
        self.returned.clear();
        self.assign()
    }

    /// The tty for a port, if there is one; the port must give it back.
    pub(in crate::ports) fn take(&mut self, port: PortId) -> Option<UsbTty> {
        let slot = self.slots.iter_mut().find(|slot| slot.port == port)?;
        let given = slot.given.as_mut()?;
        given.taken = true;
        Some(given.tty.clone())
    }

    /// Whether [`Self::take`] has one for it.
    pub(in crate::ports) fn has(&self, port: PortId) -> bool {
        let mut slots = self.slots.iter();
        slots.any(|slot| slot.port == port && slot.given.is_some())
    }

    /// The port has closed what it took, or could not open it. The tty is given
    /// again when it is seen again: it may have been pulled.
    pub(in crate::ports) fn give_back(&mut self, port: PortId) {
        let Some(slot) = self.slots.iter_mut().find(|slot| slot.port == port) else {
            return;
        };
        let Some(given) = slot.given.take() else {
            return;
        };
        self.returns += 1;
        slot.freed = self.returns;
        slot.last = Some(given.tty.id.clone());
        self.returned.push(given.tty);
    }

    /// Whether some port would take a board.
    pub(in crate::ports) fn is_waiting(&self) -> bool {
        self.slots.iter().any(|slot| slot.given.is_none())
    }

    /// Boards that a port asks for by name, and that got none: all are taken.
    pub(in crate::ports) fn left_over(&self) -> impl Iterator<Item = &UsbTty> {
        self.ttys.iter().filter(|tty| {
            !self.is_given(tty)
                && !self.returned.contains(tty)
                && self.slots.iter().any(|slot| slot.want.matches(&tty.id))
        })
    }

    /// Those that ports have open, or are about to open.
    pub(in crate::ports) fn taken(&self) -> Vec<UsbTty> {
        let given = self.slots.iter().filter_map(|slot| slot.given.as_ref());
        given
            .filter(|given| given.taken)
            .map(|given| given.tty.clone())
            .collect()
    }

    pub(in crate::ports) fn ttys(&self) -> &[UsbTty] {
        &self.ttys
    }

    fn is_given(&self, tty: &UsbTty) -> bool {
        let mut given = self.slots.iter().filter_map(|slot| slot.given.as_ref());
        given.any(|given| given.tty.name == tty.name)
    }

    fn assign(&mut self) -> bool {
        let mut some = false;
        for at in 0..self.ttys.len() {
            let tty = self.ttys[at].clone();
            if self.is_given(&tty) {
                continue;
            }
            let free = self
                .slots
                .iter_mut()
                .filter(|slot| slot.given.is_none() && slot.want.matches(&tty.id));
            // The port that names it best; of these the one that it had; else one that
            // nobody had; else the one that is free for longest.
            let best = free.min_by_key(|slot| {
                let had_it = slot.last.as_ref() == Some(&tty.id);
                (slot.want.rank(), !had_it, slot.last.is_some(), slot.freed)
            });
            if let Some(slot) = best {
                slot.given = Some(Given { tty, taken: false });
                some = true;
            }
        }
        some
    }
}
