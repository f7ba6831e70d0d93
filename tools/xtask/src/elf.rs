//! Flash and RAM of a 32-bit little-endian ELF image, from its section headers.
//!
//! Bad bytes give an error with their place, never a panic.

/// Bytes that an image takes on the chip. The stack is not in it: no section
/// holds it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footprint {
    /// Code, constants and the start values of `.data`.
    pub(crate) flash_bytes: u64,
    /// `.data`, `.bss` and `.uninit`.
    pub(crate) ram_bytes: u64,
}

const HEADER_BYTES: usize = 52;
const SECTION_BYTES: usize = 40;
const TYPE_NOBITS: u32 = 8;
const FLAG_WRITE: u32 = 1;
const FLAG_ALLOC: u32 = 2;

/// Adds up the sections that are loaded or reserved on the chip.
///
/// # Errors
/// Not a 32-bit little-endian ELF, or a header beyond the end of the file.
pub(crate) fn footprint(image: &[u8]) -> Result<Footprint, String> {
    let head = image
        .get(..HEADER_BYTES)
        .ok_or("shorter than an ELF header")?;
    if head[..6] != *b"\x7fELF\x01\x01" {
        return Err("not a 32-bit little-endian ELF image".to_owned());
    }
    let table = word(head, 0x20)? as usize;
    let size = usize::from(half(head, 0x2e)?);
    let count = usize::from(half(head, 0x30)?);
    if size != SECTION_BYTES {
        return Err(format!(
            "section headers of {size} bytes, not {SECTION_BYTES}"
        ));
    }
    let mut total = Footprint::default();
    for index in 0..count {
        let start = table.saturating_add(index * SECTION_BYTES);
        let section = image
            .get(start..start.saturating_add(SECTION_BYTES))
            .ok_or(format!("section header {index} at byte {start} is cut off"))?;
        add(&mut total, section)?;
    }
    Ok(total)
}

/// The first eight bytes of the GNU build id; `None` in an image without one.
pub(crate) fn build_id(image: &[u8]) -> Option<[u8; 8]> {
    const NOTE: &[u8] = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0";
    let at = image.windows(NOTE.len()).position(|bytes| bytes == NOTE)?;
    image[at + NOTE.len()..].first_chunk().copied()
}

/// Bytes that stand in flash, with the address of the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment<'a> {
    pub(crate) address: u32,
    pub(crate) bytes: &'a [u8],
}

const SEGMENT_BYTES: usize = 32;
const TYPE_LOAD: u32 = 1;

/// What is to be written into flash, in the order of the program headers.
///
/// # Errors
/// Not such an ELF, or a header or segment beyond the end of the file.
pub(crate) fn segments(image: &[u8]) -> Result<Vec<Segment<'_>>, String> {
    footprint(image)?;
    let table = word(image, 0x1c)? as usize;
    let count = usize::from(half(image, 0x2c)?);
    let mut found = Vec::new();
    for index in 0..count {
        let start = table.saturating_add(index * SEGMENT_BYTES);
        let header = image
            .get(start..start.saturating_add(SEGMENT_BYTES))
            .ok_or(format!("program header {index} at byte {start} is cut off"))?;
        let (offset, size) = (word(header, 0x04)? as usize, word(header, 0x10)? as usize);
        if word(header, 0x00)? != TYPE_LOAD || size == 0 {
            continue;
        }
        let bytes = image
            .get(offset..offset.saturating_add(size))
            .ok_or(format!("segment {index} at byte {offset} is cut off"))?;
        // Where it is loaded from, which for start values is not where it runs.
        let address = word(header, 0x0c)?;
        found.push(Segment { address, bytes });
    }
    Ok(found)
}

fn add(total: &mut Footprint, section: &[u8]) -> Result<(), String> {
    let kind = word(section, 0x04)?;
    let flags = word(section, 0x08)?;
    let size = u64::from(word(section, 0x14)?);
    if flags & FLAG_ALLOC == 0 {
        return Ok(());
    }
    if kind != TYPE_NOBITS {
        total.flash_bytes += size;
    }
    if flags & FLAG_WRITE != 0 {
        total.ram_bytes += size;
    }
    Ok(())
}

fn word(bytes: &[u8], at: usize) -> Result<u32, String> {
    bytes
        .get(at..at + 4)
        .and_then(|four| four.try_into().ok())
        .map(u32::from_le_bytes)
        .ok_or_else(|| format!("cut off at byte {at}"))
}

fn half(bytes: &[u8], at: usize) -> Result<u16, String> {
    bytes
        .get(at..at + 2)
        .and_then(|two| two.try_into().ok())
        .map(u16::from_le_bytes)
        .ok_or_else(|| format!("cut off at byte {at}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image of section headers only: (type, flags, size) each.
    fn image(sections: &[(u32, u32, u32)]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[..6].copy_from_slice(b"\x7fELF\x01\x01");
        bytes[0x20] = HEADER_BYTES as u8;
        bytes[0x2e] = SECTION_BYTES as u8;
        bytes[0x30] = sections.len() as u8;
        for (kind, flags, size) in sections {
            let mut section = [0; SECTION_BYTES];
            section[0x04..0x08].copy_from_slice(&kind.to_le_bytes());
            section[0x08..0x0c].copy_from_slice(&flags.to_le_bytes());
            section[0x14..0x18].copy_from_slice(&size.to_le_bytes());
            bytes.extend(section);
        }
        bytes
    }

    #[test]
    fn each_kind_of_section_counts_where_it_lives() {
        for (name, sections, flash, ram) in [
            ("code", vec![(1, 6, 100)], 100, 0),
            ("data counts twice", vec![(1, 3, 10)], 10, 10),
            ("bss", vec![(8, 3, 7)], 0, 7),
            ("debug info", vec![(1, 0, 999)], 0, 0),
            (
                "together",
                vec![(1, 6, 100), (1, 3, 10), (8, 3, 7)],
                110,
                17,
            ),
        ] {
            let got = footprint(&image(&sections)).unwrap();
            assert_eq!((got.flash_bytes, got.ram_bytes), (flash, ram), "{name}");
        }
    }

    #[test]
    fn every_cut_of_an_image_is_an_error() {
        let whole = image(&[(1, 6, 100), (8, 3, 7)]);
        for length in 0..whole.len() {
            assert!(footprint(&whole[..length]).is_err(), "{length}");
        }
        assert!(footprint(&[0x7f; 200]).is_err());
    }
}
