//! Firmware for Arm's MPS2 board with the AN386 image, as QEMU has it.
#![no_std]
#![no_main]

mod boot;
mod fault;
mod host;
mod i2c;
mod reg;
mod timer;
mod uart;
mod vectors;

use embedded_hal::i2c::I2c;

#[cortex_m_rt::entry]
fn main() -> ! {
    host::look();
    let (boot, cause) = boot::begin();
    timer::start();
    uart::start();
    let mut bus = i2c::bus();
    vectors::unmask_all();
    defmt::info!("boot {=u32:08x} {} uid {:?}", boot, cause, host::uid());
    loop {
        let mut t = [0; 2];
        let r = bus.write_read(0x48, &[0], &mut t);
        defmt::info!("{=u32} {} {=[u8]:02x}", timer::counter(), r.is_ok(), t);
        if uart::room() > 300 && uart::dropped() == 0 {
            uart::send(b"hello\n");
        }
        while let Some(b) = uart::receive() {
            uart::send(&[b.byte]);
        }
        timer::wake_in(100_000);
        uart::sleep_unless_received();
    }
}
