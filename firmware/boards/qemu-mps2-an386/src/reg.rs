//! One 32-bit device register, and the addresses of those that are used.
//!
//! The only place where an address becomes a pointer. Knows no meaning of bits.

/// Main clock of the AN386 image, of the UARTs and of the timers.
pub const CLOCK_HZ: u32 = 25_000_000;

/// A register at a fixed address.
#[derive(Debug)]
pub struct Reg(usize);

impl Reg {
    /// # Safety
    /// A 32-bit device register must stand at `address`, and neither reading
    /// nor writing it may change memory that Rust knows of (no DMA).
    pub const unsafe fn at(address: usize) -> Self {
        Self(address)
    }

    pub fn read(&self) -> u32 {
        // SAFETY: `at` promises a register here; the access is volatile and aligned.
        unsafe { (self.0 as *const u32).read_volatile() }
    }

    pub fn write(&self, value: u32) {
        // SAFETY: as above, and no memory of ours changes by it.
        unsafe { (self.0 as *mut u32).write_volatile(value) }
    }
}
