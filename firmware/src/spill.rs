//! While no gateway answers and the ring is full: newer readings go to a store that a
//! board has (flash, FRAM), and come back in order as the ring empties.
//!
//! ```text
//! samples -> tail (RAM, a batch or two) -> store -> ring -> line
//! ```
//!
//! Without a spill, samples go to the ring and the oldest is overwritten. With one,
//! the ring keeps the oldest readings, the store the newer ones, the tail the newest;
//! when the store is full too, the oldest of all are overwritten in the ring.
//!
//! Always holds: an ordinal is given out once, in the order of sampling, wherever the
//! reading waits; what cannot be read back from the store becomes a gap in its place.
//! What a reset leaves in the store is declared lost: its ticks are those of a clock
//! that is gone, and the gateway takes Data of the running boot only.
//! Bound: [`limits::TAIL`] readings in RAM, one operation of the store per step.
//! See `docs/spill.md` for the bytes and the wear.

pub mod flash;
pub mod limits;
pub(crate) mod tail;

use crate::account::Accounts;

pub use flash::{BadRegion, FlashError, FlashLog};

/// What a store did with an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// It is there, also after a reset.
    Stored,
    /// No room; nothing has changed.
    Full,
}

/// What a store holds of an earlier boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// As last given to [`SpillStore::push`].
    pub accounts: Accounts,
    /// Length of the newest item, if one was stored since.
    pub item_bytes: Option<usize>,
}

/// A queue of items on memory that a reset does not clear, for one boot at a time.
/// Every call takes a bounded time: a few reads and writes, one erase at most.
pub trait SpillStore {
    type Error;

    /// What earlier boots have left; the newest item is copied to `item`. Their items
    /// are not given out any more, and go as room is needed.
    ///
    /// # Errors
    /// That of the memory.
    fn begin(&mut self, item: &mut [u8]) -> Result<Option<Found>, Self::Error>;

    /// Adds `item`, at most [`limits::ITEM_BYTES_MAX`] bytes. `accounts` are to be found
    /// by the next boot at the latest when this item is.
    ///
    /// # Errors
    /// That of the memory; the item is not there then.
    fn push(&mut self, item: &[u8], accounts: &Accounts) -> Result<Pushed, Self::Error>;

    /// Copies the oldest item to `item` and says its length; `None`: there is none.
    ///
    /// # Errors
    /// That of the memory.
    fn front(&mut self, item: &mut [u8]) -> Result<Option<usize>, Self::Error>;

    /// Takes the oldest item away, which [`SpillStore::front`] has just given.
    fn pop(&mut self);
}
