//! UF2 files: what the boot loaders of the RP chips take as a file on a drive. Pure.
//!
//! A file is blocks of 512 bytes, each with 256 bytes for one page of flash. Little-endian:
//!
//! | byte | content |
//! |---|---|
//! | 0 | magic 0x0A324655, then 0x9E5D5157 |
//! | 8 | flags: 0x2000, the number at 28 names the chip |
//! | 12 | address in flash |
//! | 16 | bytes of data: 256 |
//! | 20 | number of this block, then of all |
//! | 28 | family of the chip |
//! | 32 | data, then zeros |
//! | 508 | magic 0x0AB16F30 |

use std::collections::BTreeMap;

use crate::elf::Segment;

const BLOCK_BYTES: usize = 512;
const PAGE_BYTES: u32 = 256;
const MAGIC: [u32; 2] = [0x0a32_4655, 0x9e5d_5157];
const MAGIC_END: u32 = 0x0ab1_6f30;
const FLAG_FAMILY: u32 = 0x2000;

/// The file of an image. Pages with gaps are filled with zeros.
///
/// # Errors
/// A segment at the end of the address space.
pub(crate) fn file(segments: &[Segment<'_>], family: u32) -> Result<Vec<u8>, String> {
    let mut pages: BTreeMap<u32, [u8; PAGE_BYTES as usize]> = BTreeMap::new();
    for segment in segments {
        for (at, byte) in (0_u32..).zip(segment.bytes) {
            let address = segment.address.checked_add(at);
            let address = address.ok_or("a segment goes over the end of memory")?;
            let page = pages.entry(address / PAGE_BYTES * PAGE_BYTES);
            let page = page.or_insert([0; PAGE_BYTES as usize]);
            page[(address % PAGE_BYTES) as usize] = *byte;
        }
    }
    let count = pages.len() as u32;
    let mut file = Vec::with_capacity(pages.len() * BLOCK_BYTES);
    for (number, (address, page)) in (0_u32..).zip(&pages) {
        let [first, second] = MAGIC;
        let header = [
            first,
            second,
            FLAG_FAMILY,
            *address,
            PAGE_BYTES,
            number,
            count,
            family,
        ];
        let end = file.len() + BLOCK_BYTES;
        header
            .iter()
            .for_each(|word| file.extend(word.to_le_bytes()));
        file.extend(page);
        file.resize(end - size_of_val(&MAGIC_END), 0);
        file.extend(MAGIC_END.to_le_bytes());
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAMILY: u32 = 0xe48b_ff56;

    /// The header of the first block of a file for an RP2040, byte by byte.
    #[test]
    fn a_block_is_that_of_the_table() {
        let segment = Segment {
            address: 0x1000_0000,
            bytes: &[0xaa; 300],
        };
        let file = file(&[segment], FAMILY).unwrap();
        assert_eq!(file.len(), 2 * BLOCK_BYTES);
        let header = b"UF2\x0a\x57\x51\x5d\x9e\x00\x20\x00\x00\x00\x00\x00\x10\
            \x00\x01\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x56\xff\x8b\xe4";
        assert_eq!(&file[..32], header);
        assert_eq!(file[32..32 + 256], [0xaa; 256]);
        assert!(file[288..508].iter().all(|byte| *byte == 0));
        assert_eq!(&file[508..512], b"\x30\x6f\xb1\x0a");
        let second = &file[BLOCK_BYTES..];
        assert_eq!(second[12..16], 0x1000_0100_u32.to_le_bytes());
        assert_eq!(second[20..24], 1_u32.to_le_bytes());
        assert_eq!((second[32 + 43], second[32 + 44]), (0xaa, 0));
    }

    #[test]
    fn segments_share_pages_and_come_in_order() {
        let segments = [
            Segment {
                address: 0x1000_0110,
                bytes: &[2],
            },
            Segment {
                address: 0x1000_0000,
                bytes: &[1],
            },
            Segment {
                address: 0x1000_0101,
                bytes: &[3, 4],
            },
        ];
        let file = file(&segments, FAMILY).unwrap();
        assert_eq!(file.len(), 2 * BLOCK_BYTES);
        assert_eq!(file[32], 1);
        let second = &file[BLOCK_BYTES + 32..];
        assert_eq!((second[1], second[2], second[0x10]), (3, 4, 2));
    }

    #[test]
    fn the_end_of_memory_is_an_error() {
        for (name, address, good) in [("at", u32::MAX, true), ("over", u32::MAX, false)] {
            let bytes: &[u8] = if good { &[1] } else { &[1, 2] };
            let made = file(&[Segment { address, bytes }], FAMILY);
            assert_eq!(made.is_ok(), good, "{name}");
        }
        assert_eq!(file(&[], FAMILY), Ok(Vec::new()));
    }
}
