//! A flash in RAM that behaves as flash does: bits only fall until an erase, units and
//! pages are kept to, and its power goes when it is told. With units of one byte it is
//! an FRAM with erasing played on top.

#![allow(unreachable_pub)]

use std::cell::RefCell;
use std::rc::Rc;

use embedded_storage::nor_flash::{
    ErrorType, NorFlash, NorFlashError, NorFlashErrorKind, ReadNorFlash,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed;

impl NorFlashError for Failed {
    fn kind(&self) -> NorFlashErrorKind {
        NorFlashErrorKind::Other
    }
}

#[derive(Debug)]
pub struct Cells {
    pub bytes: Vec<u8>,
    pub erases: Vec<u32>,
    pub bytes_written: u64,
    /// Steps (a byte written, a sixteenth of a page erased) until the power goes.
    pub steps_left: u64,
    pub steps: u64,
    /// Operations that fail although the power is there.
    pub failures: u32,
}

/// Clones are the same flash, which a reset does not clear.
#[derive(Debug, Clone)]
pub struct Ram<const UNIT: usize, const PAGE: usize>(pub Rc<RefCell<Cells>>);

impl<const UNIT: usize, const PAGE: usize> Ram<UNIT, PAGE> {
    pub fn new(pages: usize) -> Self {
        Ram(Rc::new(RefCell::new(Cells {
            // As it may come from whoever used it before.
            bytes: (0..pages * PAGE).map(|at| (at * 7) as u8).collect(),
            erases: vec![0; pages],
            bytes_written: 0,
            steps_left: u64::MAX,
            steps: 0,
            failures: 0,
        })))
    }

    pub fn power(&self, steps: u64) {
        self.0.borrow_mut().steps_left = steps;
    }
}

impl Cells {
    fn step(&mut self) -> Result<(), Failed> {
        self.steps_left = self.steps_left.checked_sub(1).ok_or(Failed)?;
        self.steps += 1;
        Ok(())
    }

    fn fail(&mut self) -> Result<(), Failed> {
        if self.steps_left == 0 {
            return Err(Failed);
        }
        if self.failures > 0 {
            self.failures -= 1;
            return Err(Failed);
        }
        Ok(())
    }
}

impl<const UNIT: usize, const PAGE: usize> ErrorType for Ram<UNIT, PAGE> {
    type Error = Failed;
}

impl<const UNIT: usize, const PAGE: usize> ReadNorFlash for Ram<UNIT, PAGE> {
    const READ_SIZE: usize = UNIT;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Failed> {
        let mut cells = self.0.borrow_mut();
        cells.fail()?;
        let at = offset as usize;
        assert!(at.is_multiple_of(UNIT) && bytes.len().is_multiple_of(UNIT));
        bytes.copy_from_slice(&cells.bytes[at..at + bytes.len()]);
        Ok(())
    }

    fn capacity(&self) -> usize {
        self.0.borrow().bytes.len()
    }
}

impl<const UNIT: usize, const PAGE: usize> NorFlash for Ram<UNIT, PAGE> {
    const WRITE_SIZE: usize = UNIT;
    const ERASE_SIZE: usize = PAGE;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), Failed> {
        let (from, to) = (from as usize, to as usize);
        assert!(from.is_multiple_of(PAGE) && to.is_multiple_of(PAGE));
        let mut cells = self.0.borrow_mut();
        cells.fail()?;
        for page in (from..to).step_by(PAGE) {
            cells.erases[page / PAGE] += 1;
            for part in (page..page + PAGE).step_by(PAGE / 16) {
                cells.step()?;
                cells.bytes[part..part + PAGE / 16].fill(0xFF);
            }
        }
        Ok(())
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Failed> {
        let at = offset as usize;
        assert!(at.is_multiple_of(UNIT) && bytes.len().is_multiple_of(UNIT));
        let mut cells = self.0.borrow_mut();
        cells.fail()?;
        for (at, byte) in (at..).zip(bytes) {
            cells.step()?;
            assert_eq!(cells.bytes[at], 0xFF, "byte {at} written twice");
            cells.bytes[at] = *byte;
            cells.bytes_written += 1;
        }
        Ok(())
    }
}
