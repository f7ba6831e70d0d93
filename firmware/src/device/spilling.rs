//! Where a reading waits: in the ring, or with a spill in its tail and store.

use forebay_wire::data::Data;
use forebay_wire::ids::{Ordinal, Tick};
use forebay_wire::message::{Gap, GapReason, Reading};
use forebay_wire::{DataBuilder, DeviceMessage, Kept, frame};

use super::{Device, LineBuffer};
use crate::account::{Account, Accounts};
use crate::ring::Slot;
use crate::spill::limits::{BATCH, BRING_BACK, FAILURES_MAX, ITEM_BYTES_MAX, QUIET_US};
use crate::spill::tail::lost;
use crate::spill::{Pushed, SpillStore};

impl<const RING: usize, const CHANNELS: usize> Device<RING, CHANNELS> {
    /// Takes a store into use, after [`Device::start`] and [`Device::remember`]. What an
    /// earlier boot has left there is declared lost.
    ///
    /// # Errors
    /// That of the store, which is then not used.
    pub fn begin_spill<S: SpillStore>(&mut self, store: &mut S) -> Result<(), S::Error> {
        let mut item = [0; ITEM_BYTES_MAX];
        if let Some(found) = store.begin(&mut item)? {
            let bytes = found.item_bytes.unwrap_or(0);
            let end = item.get_mut(..bytes).and_then(end_of);
            let left = with_end(&found.accounts, end);
            self.session.remember_more(&left);
        }
        self.tail.on = true;
        Ok(())
    }

    /// One step of the spill, in each pass of the main loop: moves a batch to the store
    /// or back, or does nothing and says false. At most one operation of the store.
    ///
    /// # Errors
    /// That of the store. It is tried again with the next step, and given up after
    /// [`FAILURES_MAX`] in a row; readings wait in the ring alone then.
    pub fn spill<S: SpillStore>(&mut self, store: &mut S) -> Result<bool, S::Error> {
        if !self.tail.on {
            return Ok(false);
        }
        let outcome = self.spill_step(store);
        match &outcome {
            Ok(_) => self.tail.failures = 0,
            Err(_) => {
                self.tail.failures += 1;
                if self.tail.failures >= FAILURES_MAX {
                    self.give_up();
                }
            }
        }
        outcome
    }

    /// The ordinal after the newest in the store; `None` with nothing there.
    #[must_use]
    pub fn spilled_end(&self) -> Option<Ordinal> {
        (self.tail.stored() > 0).then(|| self.first_of_tail())
    }

    fn first_of_tail(&self) -> Ordinal {
        Ordinal(self.backlog.produced().0 + self.tail.stored())
    }

    fn spill_step<S: SpillStore>(&mut self, store: &mut S) -> Result<bool, S::Error> {
        let (room, stored) = (self.backlog.room(), self.tail.stored());
        // Before anything comes back: the tail must not run over meanwhile.
        if self.tail.len() >= BATCH && (stored > 0 || room == 0) {
            if self.put(store)? == Pushed::Full {
                // The oldest of all make room: they are overwritten in the ring.
                self.bring_back(store)?;
            }
            return Ok(true);
        }
        if stored > 0 {
            if room < BRING_BACK {
                return Ok(false);
            }
            self.bring_back(store)?;
            return Ok(true);
        }
        let moves = room > 0 && self.tail.len() > 0;
        self.empty_tail(room);
        Ok(moves)
    }

    /// The store is lost, with what is in it.
    fn give_up(&mut self) {
        self.vanish(self.tail.stored());
        self.tail.on = false;
        self.empty_tail(usize::MAX);
    }

    fn empty_tail(&mut self, most: usize) {
        for _ in 0..most {
            let Some(slot) = self.tail.pop() else { break };
            self.hand_on(slot);
        }
    }

    fn hand_on(&mut self, slot: Slot) {
        match slot {
            Slot::Reading(reading) => {
                self.backlog.push(reading);
            }
            Slot::Lost {
                reason,
                count,
                tick,
            } => self.backlog.push_lost(reason, count, tick),
        }
    }

    /// The next `count` ordinals of the store will not come.
    fn vanish(&mut self, mut count: u64) {
        self.tail.vanished(count);
        while count > 0 {
            let slot = lost(count, self.backlog.newest_tick());
            if let Slot::Lost { count: some, .. } = slot {
                count -= u64::from(some);
            }
            self.hand_on(slot);
        }
    }

    /// The oldest of the tail, as a line of the link without its delimiter.
    fn put<S: SpillStore>(&mut self, store: &mut S) -> Result<Pushed, S::Error> {
        let mut line: LineBuffer = [0; _];
        let first = self.first_of_tail();
        let boot = self.session.boot();
        let (elements, bytes) = match self.tail.oldest() {
            None => return Ok(Pushed::Stored),
            Some(Slot::Reading(_)) => {
                let mut builder = DataBuilder::new(&mut line, boot, first);
                for reading in self.tail.readings() {
                    if !builder.push(&reading) {
                        break;
                    }
                }
                (builder.count(), builder.finish().unwrap_or(0))
            }
            Some(Slot::Lost {
                reason,
                count,
                tick,
            }) => {
                let gap = Gap {
                    boot,
                    reason,
                    first,
                    count: u64::from(count),
                    first_tick: tick,
                    last_tick: tick,
                };
                let bytes = DeviceMessage::Gap(gap).encode(&mut line);
                (1, bytes.unwrap_or(0))
            }
        };
        let item = &line[..bytes.saturating_sub(1)];
        let pushed = store.push(item, &self.accounts())?;
        if pushed == Pushed::Stored {
            self.tail.moved_to_store(elements);
        }
        Ok(pushed)
    }

    /// The oldest item of the store goes to the ring.
    fn bring_back<S: SpillStore>(&mut self, store: &mut S) -> Result<(), S::Error> {
        let mut item = [0; ITEM_BYTES_MAX];
        let Some(bytes) = store.front(&mut item)? else {
            self.vanish(self.tail.stored());
            return Ok(());
        };
        store.pop();
        let Some(block) = item.get_mut(..bytes) else {
            return Ok(());
        };
        // One that does not decode is found missing when the next comes.
        match frame::open(block).ok().and_then(Kept::decode) {
            Some(Kept::Data(data)) => self.bring_back_readings(&data),
            Some(Kept::Gap(gap)) => self.bring_back_gap(&gap),
            None => {}
        }
        Ok(())
    }

    fn bring_back_readings(&mut self, data: &Data<'_>) {
        if self.skip_to(data.first, data.count() as u64) {
            for reading in data.records().flatten() {
                self.back(Slot::Reading(reading));
            }
        }
    }

    fn bring_back_gap(&mut self, gap: &Gap) {
        if self.skip_to(gap.first, gap.count)
            && let Ok(count) = u32::try_from(gap.count)
        {
            self.back(Slot::Lost {
                reason: gap.reason,
                count,
                tick: gap.first_tick,
            });
        }
    }

    fn back(&mut self, slot: Slot) {
        self.tail.came_back(slot);
        self.hand_on(slot);
    }

    /// Declares what is missing before `first`; false when the item cannot be one of
    /// those that are stored.
    fn skip_to(&mut self, first: Ordinal, count: u64) -> bool {
        let Some(missing) = first.0.checked_sub(self.backlog.produced().0) else {
            return false;
        };
        let fits = missing
            .checked_add(count)
            .is_some_and(|end| end <= self.tail.stored());
        if fits {
            self.vanish(missing);
        }
        fits
    }

    /// Once begun, it goes on until all is back: readings come in order.
    fn diverts(&self, now: Tick) -> bool {
        let begins = || self.backlog.room() == 0 && self.session.is_quiet(now, QUIET_US);
        self.tail.on && (self.tail.ordinals() > 0 || begins())
    }

    fn divert(&mut self, slot: Slot) {
        if self.tail.is_full() && self.tail.stored() == 0 {
            // Nobody takes the steps, or the store refuses: as without one.
            self.empty_tail(usize::MAX);
            self.hand_on(slot);
        } else {
            self.tail.push(slot);
        }
    }

    pub(super) fn keep(&mut self, reading: Reading) -> Ordinal {
        let ordinal = self.totals().produced;
        if self.diverts(reading.tick) {
            self.divert(Slot::Reading(reading));
        } else {
            self.backlog.push(reading);
        }
        ordinal
    }

    pub(super) fn keep_lost(&mut self, reason: GapReason, count: u32, tick: Tick) {
        if count > 0 && self.diverts(tick) {
            self.divert(Slot::Lost {
                reason,
                count,
                tick,
            });
        } else {
            self.backlog.push_lost(reason, count, tick);
        }
    }

    pub(super) fn totals(&self) -> super::Totals {
        let mut gaps = self.backlog.gaps();
        let more = self.tail.gaps();
        gaps.iter_mut()
            .zip(more)
            .for_each(|(sum, more)| *sum += more);
        super::Totals {
            produced: Ordinal(self.backlog.produced().0 + self.tail.ordinals()),
            waiting: self.backlog.waiting() + self.tail.waiting(),
            gaps,
        }
    }
}

/// The ordinal after the last of an item.
fn end_of(item: &mut [u8]) -> Option<Ordinal> {
    match Kept::decode(frame::open(item).ok()?)? {
        Kept::Data(data) => Some(data.end()),
        Kept::Gap(gap) => gap.first.0.checked_add(gap.count).map(Ordinal),
    }
}

/// The accounts of the boot that wrote them, up to the newest item.
fn with_end(accounts: &Accounts, end: Option<Ordinal>) -> Accounts {
    let mut with_end = Accounts::new();
    for (left, account) in (0..accounts.len()).rev().zip(accounts.iter()) {
        let produced = match end {
            Some(end) if left == 0 => account.produced.max(end),
            Some(_) | None => account.produced,
        };
        with_end.push(Account {
            produced,
            ..*account
        });
    }
    with_end
}
