//! A [`SpillStore`] on a flash (or FRAM) behind `embedded-storage`'s `NorFlash`: pages
//! written one after the other in a ring, items one after the other in a page. The
//! bytes stand in `docs/spill.md`.
//!
//! Why not `sequential-storage` (8.0.2): an item that it has acknowledged can be gone
//! after two torn writes (its issue 136, open), for it goes on writing behind a torn
//! one; and its calls are async. Here:
//!
//! Always holds: nothing is ever written behind a torn write: after a reset, and after
//! an error, the next item starts a new page. So a write that was cut off hides only
//! itself. No byte is written twice between erases: flash with ECC will do. The newest
//! page of an earlier boot is not erased before a newer one has its accounts.
//! Bound: a push costs one erase and two writes, all else only reads.

use core::fmt;
use core::ops::Range;

use embedded_storage::nor_flash::NorFlash;
use forebay_wire::crc::crc32;

use crate::account::Accounts;
use crate::spill::limits::{ALIGN_MAX, ITEM_BYTES_MAX, PAGE_BYTES_MIN, PAGES_MIN};
use crate::spill::{Found, Pushed, SpillStore};

const MAGIC: u32 = 0x3153_4246; // "FBS1"
/// Magic, number, their CRC; then the accounts.
const HEAD_BYTES: usize = 12 + Accounts::BYTES;
/// Length, its complement, CRC of the bytes.
const ITEM_HEAD_BYTES: usize = 8;
/// The largest item with its head, and head of a page, padded.
const SLOT_BYTES_MAX: usize = (ITEM_HEAD_BYTES + ITEM_BYTES_MAX).next_multiple_of(ALIGN_MAX);
const ERASED: u8 = 0xFF;

const _: () = assert!(HEAD_BYTES <= SLOT_BYTES_MAX);
const _: () = assert!(HEAD_BYTES + ALIGN_MAX + 2 * SLOT_BYTES_MAX <= PAGE_BYTES_MIN);

/// The region cannot hold a spill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadRegion {
    /// Does not begin and end with a page, or lies beyond the flash.
    NotPages,
    /// Fewer than [`PAGES_MIN`].
    TooFew,
    /// Pages below [`PAGE_BYTES_MIN`], or units above [`ALIGN_MAX`].
    Unfit,
}

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlashError<E> {
    Flash(E),
    /// The item is longer than [`ITEM_BYTES_MAX`], or the caller's room too short.
    Length,
}

/// A page, and a byte in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    page: u32,
    at: usize,
}

/// See the module.
pub struct FlashLog<F> {
    flash: F,
    start: u32,
    pages: u32,
    /// Number of the newest page, one more with each.
    number: u32,
    /// Where the next item goes; at the end of its page until one is opened.
    write: Place,
    /// The oldest item that was not taken; there is none when it is where `write` is.
    read: Place,
    /// Length of the item that `front` gave, with head and padding.
    given: usize,
}

impl<F> fmt::Debug for FlashLog<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlashLog")
            .field("number", &self.number)
            .field("write", &self.write)
            .field("read", &self.read)
            .finish_non_exhaustive()
    }
}

type Error<F> = FlashError<<F as embedded_storage::nor_flash::ErrorType>::Error>;

impl<F: NorFlash> FlashLog<F> {
    const ALIGN: usize = if F::WRITE_SIZE > F::READ_SIZE {
        F::WRITE_SIZE
    } else {
        F::READ_SIZE
    };
    const PAGE: usize = F::ERASE_SIZE;
    const FIRST: usize = HEAD_BYTES.next_multiple_of(Self::ALIGN);

    /// A log in the bytes `region` of `flash`, which nobody else may use. Touches
    /// nothing.
    ///
    /// # Errors
    /// [`BadRegion`].
    pub fn new(flash: F, region: Range<u32>) -> Result<Self, BadRegion> {
        let page = Self::PAGE as u32;
        let fit = Self::PAGE >= PAGE_BYTES_MIN
            && Self::ALIGN <= ALIGN_MAX
            && Self::PAGE.is_multiple_of(Self::ALIGN)
            && ALIGN_MAX.is_multiple_of(Self::ALIGN);
        if !fit {
            return Err(BadRegion::Unfit);
        }
        let whole = region.start.is_multiple_of(page) && region.end.is_multiple_of(page);
        if !whole || region.end as usize > flash.capacity() {
            return Err(BadRegion::NotPages);
        }
        let pages = region.end.saturating_sub(region.start) / page;
        if pages < PAGES_MIN {
            return Err(BadRegion::TooFew);
        }
        // As if the last page were full: the first is next.
        let nowhere = Place {
            page: pages - 1,
            at: Self::PAGE,
        };
        Ok(FlashLog {
            flash,
            start: region.start,
            pages,
            number: 0,
            write: nowhere,
            read: nowhere,
            given: 0,
        })
    }

    /// Gives the flash back.
    pub fn release(self) -> F {
        self.flash
    }

    fn offset(&self, place: Place) -> u32 {
        self.start + place.page * Self::PAGE as u32 + place.at as u32
    }

    fn read_at(&mut self, place: Place, bytes: &mut [u8]) -> Result<(), Error<F>> {
        let offset = self.offset(place);
        self.flash.read(offset, bytes).map_err(FlashError::Flash)
    }

    fn write_at(&mut self, place: Place, bytes: &[u8]) -> Result<(), Error<F>> {
        let offset = self.offset(place);
        self.flash.write(offset, bytes).map_err(FlashError::Flash)
    }

    /// Number and accounts of a page; `None` when it has no whole head.
    fn head(&mut self, page: u32) -> Result<Option<(u32, Accounts)>, Error<F>> {
        let mut bytes = [0; SLOT_BYTES_MAX];
        self.read_at(Place { page, at: 0 }, &mut bytes[..Self::FIRST])?;
        let word = |at: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(word)
        };
        if word(0) != MAGIC || word(8) != crc32(&bytes[..8]) {
            return Ok(None);
        }
        let record = bytes[12..].first_chunk();
        let accounts = record.and_then(Accounts::from_bytes);
        Ok(accounts.map(|accounts| (word(4), accounts)))
    }

    /// The item at `place`: copies it to `item`, and gives its length and that with
    /// head and padding. `None` when none was wholly written there.
    fn item(&mut self, place: Place, item: &mut [u8]) -> Result<Option<(usize, usize)>, Error<F>> {
        let mut bytes = [0; SLOT_BYTES_MAX];
        let room = SLOT_BYTES_MAX.min(Self::PAGE - place.at);
        if room < ITEM_HEAD_BYTES {
            return Ok(None);
        }
        self.read_at(place, &mut bytes[..room])?;
        let [l0, l1, n0, n1, c0, c1, c2, c3, body @ ..] = &bytes;
        let (length, negated) = (
            u16::from_le_bytes([*l0, *l1]),
            u16::from_le_bytes([*n0, *n1]),
        );
        let count = usize::from(length);
        if length != !negated || count > ITEM_BYTES_MAX || ITEM_HEAD_BYTES + count > room {
            return Ok(None);
        }
        let body = &body[..count];
        if crc32(body).to_le_bytes() != [*c0, *c1, *c2, *c3] {
            return Ok(None);
        }
        let out = item.get_mut(..count).ok_or(FlashError::Length)?;
        out.copy_from_slice(body);
        let slot = (ITEM_HEAD_BYTES + count).next_multiple_of(Self::ALIGN);
        Ok(Some((count, slot)))
    }

    fn is_empty(&self) -> bool {
        self.read == self.write
    }

    fn next_page(&self, page: u32) -> u32 {
        (page + 1) % self.pages
    }

    /// Erases the next page and gives it its head; false when it still holds items.
    fn open_page(&mut self, accounts: &Accounts) -> Result<bool, Error<F>> {
        let page = self.next_page(self.write.page);
        if !self.is_empty() && page == self.read.page {
            return Ok(false);
        }
        let was_empty = self.is_empty();
        // Should this fail, the page counts as full, and the one after it is next.
        self.write = Place {
            page,
            at: Self::PAGE,
        };
        if was_empty {
            self.read = self.write;
        }
        let from = self.offset(Place { page, at: 0 });
        self.flash
            .erase(from, from + Self::PAGE as u32)
            .map_err(FlashError::Flash)?;
        self.number = self.number.saturating_add(1);
        let mut bytes = [ERASED; SLOT_BYTES_MAX];
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.number.to_le_bytes());
        let crc = crc32(&bytes[..8]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        bytes[12..HEAD_BYTES].copy_from_slice(&accounts.to_bytes());
        self.write_at(Place { page, at: 0 }, &bytes[..Self::FIRST])?;
        self.write.at = Self::FIRST;
        if was_empty {
            self.read = self.write;
        }
        Ok(true)
    }
}

impl<F: NorFlash> SpillStore for FlashLog<F> {
    type Error = Error<F>;

    fn begin(&mut self, item: &mut [u8]) -> Result<Option<Found>, Error<F>> {
        let mut newest: Option<(u32, u32, Accounts)> = None;
        for page in 0..self.pages {
            if let Some((number, accounts)) = self.head(page)?
                && newest.as_ref().is_none_or(|(_, best, _)| *best < number)
            {
                newest = Some((page, number, accounts));
            }
        }
        let Some((page, number, accounts)) = newest else {
            return Ok(None);
        };
        self.number = number;
        self.write = Place {
            page,
            at: Self::PAGE,
        };
        self.read = self.write;
        let mut at = Self::FIRST;
        let mut item_bytes = None;
        while at < Self::PAGE {
            let Some((bytes, slot)) = self.item(Place { page, at }, item)? else {
                break;
            };
            item_bytes = Some(bytes);
            at += slot;
        }
        Ok(Some(Found {
            accounts,
            item_bytes,
        }))
    }

    fn push(&mut self, item: &[u8], accounts: &Accounts) -> Result<Pushed, Error<F>> {
        let mut bytes = [ERASED; SLOT_BYTES_MAX];
        let length = u16::try_from(item.len()).map_err(|_| FlashError::Length)?;
        let end = ITEM_HEAD_BYTES + item.len();
        bytes
            .get_mut(ITEM_HEAD_BYTES..end)
            .ok_or(FlashError::Length)?
            .copy_from_slice(item);
        bytes[..2].copy_from_slice(&length.to_le_bytes());
        bytes[2..4].copy_from_slice(&(!length).to_le_bytes());
        bytes[4..8].copy_from_slice(&crc32(item).to_le_bytes());
        let slot = end.next_multiple_of(Self::ALIGN);
        if self.write.at + slot > Self::PAGE && !self.open_page(accounts)? {
            return Ok(Pushed::Full);
        }
        let place = self.write;
        let was_empty = self.is_empty();
        // Until it is written, the page counts as full: nothing goes behind a torn item.
        self.write.at = Self::PAGE;
        if let Err(error) = self.write_at(place, &bytes[..slot]) {
            if was_empty {
                self.read = self.write;
            }
            return Err(error);
        }
        self.write.at = place.at + slot;
        Ok(Pushed::Stored)
    }

    fn front(&mut self, item: &mut [u8]) -> Result<Option<usize>, Error<F>> {
        for _ in 0..=self.pages {
            if self.is_empty() {
                return Ok(None);
            }
            if let Some((bytes, slot)) = self.item(self.read, item)? {
                self.given = slot;
                return Ok(Some(bytes));
            }
            if self.read.page == self.write.page {
                // A torn item is all that is left.
                self.read = self.write;
                return Ok(None);
            }
            self.read = Place {
                page: self.next_page(self.read.page),
                at: Self::FIRST,
            };
        }
        Ok(None)
    }

    fn pop(&mut self) {
        self.read.at += core::mem::take(&mut self.given);
        if self.read.at >= Self::PAGE && self.read.page != self.write.page {
            self.read = Place {
                page: self.next_page(self.read.page),
                at: Self::FIRST,
            };
        }
    }
}
