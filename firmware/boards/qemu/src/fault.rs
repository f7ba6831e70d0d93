//! What happens when the firmware is wrong: panics and hard faults.
//!
//! Under a debugger both end the run with exit code 1, so that no test goes on
//! after one. Without one, the device starts again and its next Hello says why.

use core::arch::naked_asm;
use core::panic::PanicInfo;

use forebay_board_chip::boot;

use crate::host;

const EXIT_PANIC: usize = 1;

/// Looks at no place or text: they would bring `core::fmt` and the names of all files,
/// 3 KiB. `-s -S` on QEMU's command line and `break rust_begin_unwind` in gdb show both.
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    cortex_m::interrupt::disable();
    host::write("the firmware panicked\n");
    stop()
}

fn stop() -> ! {
    host::exit(EXIT_PANIC);
    // Still here: there is no debugger.
    boot::request_reset()
}

extern "C" fn on_fault() -> ! {
    stop()
}

/// Without a debugger the semihosting breakpoint `bkpt 0xab` is a hard fault:
/// the call is then skipped and answers -1. Any other fault is the end.
///
/// In assembly, because it goes back with another result and place in the frame.
// SAFETY: cortex-m-rt's vector table names this symbol.
#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn HardFault() {
    // SAFETY: r0 to r3 and r12 are saved by the hardware. EXC_RETURN's bit 2
    // tells on which stack the frame is; in it r0 is word 0 and the place of the
    // fault word 6, which is even and has an instruction at it.
    naked_asm!(
        "tst lr, #4",
        "ite eq",
        "mrseq r0, msp",
        "mrsne r0, psp",
        "ldr r1, [r0, #24]",
        "ldrh r2, [r1]",
        "movw r3, #0xbeab",
        "cmp r2, r3",
        "bne 1f",
        "adds r1, #2",
        "str r1, [r0, #24]",
        "mov r1, #-1",
        "str r1, [r0]",
        "bx lr",
        "1:",
        "b {fault}",
        fault = sym on_fault,
    )
}
