//! Device registers of 32 bits, in blocks of 4 KiB.
//!
//! The only place where an address becomes a pointer. Knows no meaning of bits.

const WORDS: usize = 1024;

/// The registers of one device.
pub struct Block {
    base: usize,
}

impl Block {
    /// # Safety
    /// Device registers must stand at `base`, 4 KiB of them, and neither reading
    /// nor writing one may change memory that Rust knows of (no DMA).
    pub const unsafe fn at(base: usize) -> Self {
        Self { base }
    }

    /// Reads register `word`, counted in words from the base.
    pub fn read(&self, word: usize) -> u32 {
        assert!(word < WORDS);
        // SAFETY: `at` promises a register here; the access is aligned and volatile.
        unsafe { ((self.base + word * 4) as *const u32).read_volatile() }
    }

    /// Writes register `word`, counted in words from the base.
    pub fn write(&self, word: usize, value: u32) {
        assert!(word < WORDS);
        // SAFETY: as above, and no memory of ours changes by it.
        unsafe { ((self.base + word * 4) as *mut u32).write_volatile(value) }
    }
}
