//! A device uid in a command line: `uid=` and sixteen hex digits as a word.

const KEY: &[u8] = b"uid=";
const DIGITS: usize = 16;

/// The first valid uid in `line`, whose words stand between spaces.
pub fn find(line: &[u8]) -> Option<[u8; 8]> {
    line.split(|byte| *byte == b' ')
        .find_map(|word| parse(word.strip_prefix(KEY)?))
}

fn parse(digits: &[u8]) -> Option<[u8; 8]> {
    let digits = core::str::from_utf8(digits).ok()?;
    // `from_str_radix` would take a sign as well.
    if digits.len() != DIGITS || digits.starts_with('+') {
        return None;
    }
    u64::from_str_radix(digits, 16).ok().map(u64::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_digits_and_nothing_else() {
        let uid = Some([0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]);
        for (name, line, want) in [
            ("alone", "uid=0123456789abcdef", uid),
            ("capitals", "uid=0123456789ABCDEF", uid),
            ("among others", "firmware -v uid=0123456789abcdef x", uid),
            ("after a bad one", "uid=1 uid=0123456789abcdef", uid),
            ("limit - 1", "uid=0123456789abcde", None),
            ("limit + 1", "uid=0123456789abcdef0", None),
            ("no digit", "uid=0123456789abcdeg", None),
            ("sign", "uid=+123456789abcdef", None),
            ("another key", "guid=0123456789abcdef", None),
            ("none", "firmware", None),
            ("empty", "", None),
        ] {
            assert_eq!(find(line.as_bytes()), want, "{name}");
        }
        assert_eq!(find(b"uid=\xff123456789abcdef"), None);
    }
}
