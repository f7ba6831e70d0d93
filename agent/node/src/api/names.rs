//! Devices by the names that operators gave them, or under which they were recorded, in lines
//! of the log, which have uids.

use std::borrow::Cow;

use forebay_core::json::write_text;
use forebay_core::query::{Names, parse_uid};

/// What stands before a device in a line.
const BEFORE: &[u8] = b"\"device\":\"";
const UID_DIGITS: usize = 16;

/// The line with its device's name instead of its uid; most devices have none.
pub(super) fn named<'a>(line: &'a [u8], names: &Names) -> Cow<'a, [u8]> {
    if names.0.is_empty() {
        return Cow::Borrowed(line);
    }
    let Some(at) = memchr::memmem::find(line, BEFORE) else {
        return Cow::Borrowed(line);
    };
    let from = at + BEFORE.len();
    let rest = &line[from..];
    let uid = rest
        .get(..UID_DIGITS)
        .filter(|_| rest.get(UID_DIGITS) == Some(&b'"'));
    let uid = uid.and_then(|uid| parse_uid(std::str::from_utf8(uid).ok()?));
    let Some(name) = uid.and_then(|uid| names.0.get(&uid)) else {
        return Cow::Borrowed(line);
    };
    let mut out = Vec::with_capacity(line.len() + name.len());
    out.extend_from_slice(&line[..from - 1]);
    write_text(name, &mut out);
    out.extend_from_slice(&rest[UID_DIGITS + 1..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use forebay_wire::ids::DeviceUid;

    use super::*;

    #[test]
    fn a_uid_that_has_a_name_becomes_it() {
        let uid = DeviceUid(*b"\x01\x23\x45\x67\x89\xab\xcd\xef");
        let names = Names([(uid, String::from("boiler"))].into());
        for (name, line, want) in [
            (
                "named",
                "{\"device\":\"0123456789abcdef\",\"v\":1}",
                "{\"device\":\"boiler\",\"v\":1}",
            ),
            (
                "inside",
                "{\"a\":1,\"device\":\"0123456789abcdef\"}",
                "{\"a\":1,\"device\":\"boiler\"}",
            ),
            (
                "another",
                "{\"device\":\"0123456789abcdee\"}",
                "{\"device\":\"0123456789abcdee\"}",
            ),
            (
                "a name",
                "{\"device\":\"boiler\"}",
                "{\"device\":\"boiler\"}",
            ),
            (
                "longer",
                "{\"device\":\"0123456789abcdef0\"}",
                "{\"device\":\"0123456789abcdef0\"}",
            ),
            ("cut", "{\"device\":\"01234", "{\"device\":\"01234"),
            ("none", "{}", "{}"),
        ] {
            let got = named(line.as_bytes(), &names);
            assert_eq!(std::str::from_utf8(&got), Ok(want), "{name}");
        }
    }
}
