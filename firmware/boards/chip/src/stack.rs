//! Paint on the unused stack, to see later how much of it was never used.

use forebay_board_common::stack::{PAINT, free_bytes};

unsafe extern "C" {
    /// Just above all statics: the last word that the stack may take.
    static mut _stack_end: u32;
}

/// Room below the stack pointer that is left alone: the frame of the call itself.
const MARGIN_WORDS: usize = 32;

fn end() -> *mut u32 {
    &raw mut _stack_end
}

/// Paints all below the stack pointer. To be called first of all in `main`.
#[inline(never)]
pub fn paint() {
    let top = cortex_m::register::msp::read() as usize - MARGIN_WORDS * size_of::<u32>();
    let mut place = end();
    while (place as usize) < top {
        // SAFETY: between the end of the statics and the stack pointer is nothing.
        unsafe { place.write_volatile(PAINT) };
        place = place.wrapping_add(1);
    }
}

/// Least bytes of stack that were ever free. Reads as much as it finds free.
pub fn free() -> u32 {
    let top = cortex_m::register::msp::read() as usize;
    let words = (top - end() as usize) / size_of::<u32>();
    free_bytes((0..words).map(|word| {
        // SAFETY: between the end of the statics and the stack pointer; volatile, as
        // what stands there belongs to nobody.
        unsafe { end().wrapping_add(word).read_volatile() }
    }))
}
