//! From when until when a certificate is valid, read from its DER bytes as far as
//! that takes (RFC 5280, 4.1): the library reads its own certificate's times nowhere.
//!
//! Always holds: bytes that are no certificate give `None`, never a panic.

use std::time::Duration;

use forebay_core::units::EventTime;
use forebay_core::utc;
use rustls::pki_types::UnixTime;

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// A certificate is valid in `[not_before, not_after]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mqtt) struct Validity {
    pub(in crate::mqtt) not_before: UnixTime,
    pub(in crate::mqtt) not_after: UnixTime,
}

impl Validity {
    /// Of a certificate in DER form.
    pub(in crate::mqtt) fn of(certificate: &[u8]) -> Option<Self> {
        let mut signed = content(content(certificate, SEQUENCE)?, SEQUENCE)?;
        if signed.first() == Some(&VERSION) {
            element(&mut signed)?;
        }
        // Serial number, algorithm, issuer.
        for _ in 0..3 {
            element(&mut signed)?;
        }
        let mut times = content(signed, SEQUENCE)?;
        let not_before = time(&mut times)?;
        let not_after = time(&mut times)?;
        Some(Self {
            not_before,
            not_after,
        })
    }
}

/// Content of the first element, which must be of this kind.
fn content(mut bytes: &[u8], kind: u8) -> Option<&[u8]> {
    let (found, content) = element(&mut bytes)?;
    (found == kind).then_some(content)
}

/// Kind and content of the first element; `bytes` goes on behind it.
fn element<'a>(bytes: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&kind, rest) = bytes.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let length = if first < 0x80 {
        usize::from(first)
    } else {
        // At most four bytes of length: a certificate is never larger.
        let count = usize::from(first & 0x7f);
        if !(1..=4).contains(&count) {
            return None;
        }
        let (digits, behind) = rest.split_at_checked(count)?;
        rest = behind;
        let digits = digits.iter().map(|digit| usize::from(*digit));
        digits.fold(0, |length, digit| length << 8 | digit)
    };
    let (content, behind) = rest.split_at_checked(length)?;
    *bytes = behind;
    Some((kind, content))
}

/// `YYMMDDHHMMSSZ`, of 1950 to 2049, or `YYYYMMDDHHMMSSZ`.
fn time(bytes: &mut &[u8]) -> Option<UnixTime> {
    let (kind, digits) = element(bytes)?;
    let text = std::str::from_utf8(digits).ok()?;
    let full = match kind {
        UTC_TIME => {
            let year: u32 = text.get(..2)?.parse().ok()?;
            let century = if year >= 50 { "19" } else { "20" };
            format!("{century}{text}")
        }
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let part = |from: usize, until: usize| full.get(from..until);
    let text = format!(
        "{}-{}-{}T{}:{}:{}Z",
        part(0, 4)?,
        part(4, 6)?,
        part(6, 8)?,
        part(8, 10)?,
        part(10, 12)?,
        part(12, 14)?
    );
    if full.len() != 15 || !full.ends_with('Z') {
        return None;
    }
    let EventTime(us) = utc::parse(&text)?;
    // What ended before 1970 ended at its beginning.
    let seconds = u64::try_from(us / 1_000_000).unwrap_or(0);
    Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
}
