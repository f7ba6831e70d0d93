//! Sizes as people write them: `16MiB`, `4MB`.

/// Units with their bytes: of a thousand and of 1024.
const UNITS: [(&str, u64); 9] = [
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// Reads a whole number with a unit. The error ends a sentence that starts with the
/// text.
pub fn parse(text: &str) -> Result<u64, &'static str> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(unit_at.unwrap_or(text.len()));
    if number.is_empty() {
        return Err("is not a size such as \"16MiB\"");
    }
    let Some((_, bytes)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err("needs a whole number and one of the units B kB MB GB TB KiB MiB GiB TiB");
    };
    let number = number.parse::<u64>().ok();
    number
        .and_then(|number| number.checked_mul(*bytes))
        .ok_or("is too large")
}

/// A size as the config takes it, in the largest unit that divides it.
pub fn show(bytes: u64) -> String {
    let divides = |unit: &&(&str, u64)| bytes >= unit.1 && bytes.is_multiple_of(unit.1);
    let unit = UNITS.iter().filter(divides).max_by_key(|unit| unit.1);
    let (name, unit) = unit.unwrap_or(&UNITS[0]);
    format!("{}{name}", bytes / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_by_name() {
        for (text, want) in [
            ("0B", Some(0)),
            ("7B", Some(7)),
            ("4MB", Some(4_000_000)),
            ("256KiB", Some(262_144)),
            ("16MiB", Some(16_777_216)),
            ("8GiB", Some(8_589_934_592)),
            ("1TB", Some(1_000_000_000_000)),
            ("16777215TiB", Some(16_777_215 << 40)),
            ("16777216TiB", None),
            ("18446744073709551616B", None),
            ("", None),
            ("MiB", None),
            ("16", None),
            ("16 MiB", None),
            ("16mib", None),
            ("1.5GiB", None),
            ("-1MiB", None),
            ("5é", None),
        ] {
            assert_eq!(parse(text).ok(), want, "{text}");
        }
    }

    #[test]
    fn what_is_shown_reads_back() {
        for (bytes, want) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1KiB"),
            (4_000_000, "4MB"),
            (8 << 30, "8GiB"),
        ] {
            assert_eq!(show(bytes), want);
            assert_eq!(parse(want), Ok(bytes));
        }
    }
}
