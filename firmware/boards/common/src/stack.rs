//! How much of the stack was never used: what still holds the paint that start-up
//! has put there. Pure; the board paints, and gives the words from the stack's end up.

/// Word of paint; no address and no small number, of which a stack is full.
pub const PAINT: u32 = 0xf0ba_5a1e;

/// Bytes below the deepest use so far, when `words` begin at the stack's end.
pub fn free_bytes(words: impl IntoIterator<Item = u32>) -> u32 {
    let painted = words.into_iter().take_while(|word| *word == PAINT);
    painted.count() as u32 * size_of::<u32>() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paint_from_the_end_on_is_free() {
        for (name, words, free) in [
            ("untouched", [PAINT; 4], 16),
            ("top used", [PAINT, PAINT, PAINT, 7], 12),
            ("a hole below", [PAINT, 7, PAINT, PAINT], 4),
            ("all used", [7, PAINT, PAINT, PAINT], 0),
        ] {
            assert_eq!(free_bytes(words), free, "{name}");
        }
        assert_eq!(free_bytes([]), 0);
    }
}
