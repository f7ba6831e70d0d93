//! The interrupts of the LM3S6965 that are used, and the table the chip reads.
//!
//! Numbers as in QEMU's hw/arm/stellaris.c and the chip's data sheet.

use cortex_m::interrupt::InterruptNumber;

/// Interrupt lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Irq {
    Uart0 = 5,
    Timer1 = 21,
}

// SAFETY: the numbers are those of the chip and below its 44 lines.
unsafe impl InterruptNumber for Irq {
    fn number(self) -> u16 {
        self as u16
    }
}

/// Lets the interrupts of this board happen. Their drivers must be set up by then.
pub fn unmask_all() {
    for irq in [Irq::Uart0, Irq::Timer1] {
        // SAFETY: called once from `main`, outside of any critical section; all
        // that the handlers share with it stands behind critical sections or atomics.
        unsafe { cortex_m::peripheral::NVIC::unmask(irq) };
    }
}

/// One entry of the table: a handler, or nothing.
type Vector = Option<extern "C" fn()>;

const LINES: usize = 44;

// SAFETY: cortex-m-rt's linker script wants this section and this name, and keeps
// the table right behind the sixteen exceptions.
#[unsafe(link_section = ".vector_table.interrupts")]
#[unsafe(no_mangle)]
static __INTERRUPTS: [Vector; LINES] = {
    let mut table: [Vector; LINES] = [Some(unexpected); LINES];
    table[Irq::Uart0 as usize] = Some(crate::uart::on_interrupt);
    table[Irq::Timer1 as usize] = Some(crate::timer::on_alarm);
    table
};

extern "C" fn unexpected() {
    panic!("an interrupt that nobody enabled");
}
