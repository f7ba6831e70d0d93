//! The build id that the linker computed over the whole image, from the note that
//! `link.rs` keeps in flash: by it a gateway finds the ELF whose texts the log needs.

use forebay_board_common::identity;

unsafe extern "C" {
    static __build_id_start: u8;
    static __build_id_end: u8;
}

/// Its first eight bytes; zeros when the image was linked without one.
pub fn first_bytes() -> [u8; 8] {
    let start = &raw const __build_id_start;
    let bytes = (&raw const __build_id_end as usize).saturating_sub(start as usize);
    // SAFETY: the linker script puts the note, which is never written, between the two.
    let note = unsafe { core::slice::from_raw_parts(start, bytes) };
    identity::build_id(note)
}
