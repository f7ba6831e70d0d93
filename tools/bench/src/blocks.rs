//! Full blocks of noise, made in advance: what is measured with them is the store,
//! not who fills it.

use forebay_core::log::builder::ReadingsBuilder;
use forebay_core::log::key::StoredBlock;
use forebay_core::units::{Epoch, Offset};

use crate::data::Board;
use crate::store::{AT, key};

/// Makes consecutive blocks.
pub(crate) struct Blocks {
    board: Board,
    builder: ReadingsBuilder,
    epoch: Epoch,
    next: Offset,
}

impl Blocks {
    /// Of readings that no codec makes short: a block is full before it has as
    /// many records as it may.
    pub(crate) fn of_noise(epoch: Epoch, next: Offset) -> Self {
        Self {
            board: Board::noise(next.0),
            builder: ReadingsBuilder::new(),
            epoch,
            next,
        }
    }

    /// The next full block.
    pub(crate) fn make(&mut self) -> StoredBlock {
        loop {
            let (series, reading) = self.board.next();
            if self.builder.push_reading(series, &reading).is_err() {
                return self.seal();
            }
        }
    }

    /// What there is, as a block: at least one reading.
    pub(crate) fn seal(&mut self) -> StoredBlock {
        let key = key(self.next);
        self.next.0 += self.builder.len() as u64;
        let bytes = self.builder.seal(AT, key.base, self.epoch);
        StoredBlock { key, bytes }
    }

    /// A block of one reading.
    pub(crate) fn make_small(&mut self) -> StoredBlock {
        let (series, reading) = self.board.next();
        // An empty builder takes any reading.
        let _ = self.builder.push_reading(series, &reading);
        self.seal()
    }
}
