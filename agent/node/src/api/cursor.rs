//! Where a next page begins: what of the range was not given yet. Opaque to clients.

use forebay_core::limits::EVENT_TIME_MAX;
use forebay_core::units::EventTime;

/// Half-open, never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) from: EventTime,
    pub(super) to: EventTime,
}

/// The form of a cursor, so that a later one is not taken for it.
const FORM: &str = "r1";
/// What a cursor looks like, for the document.
pub(super) const PATTERN: &str = "^r1\\.-?[0-9]{1,18}\\.-?[0-9]{1,18}$";

impl Cursor {
    /// `None` where nothing is left.
    pub(super) fn new(from: EventTime, to: EventTime) -> Option<Self> {
        (from < to).then_some(Self { from, to })
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        if parts.next() != Some(FORM) {
            return None;
        }
        let mut time = || {
            let text = parts.next()?;
            let time: i64 = text.parse().ok()?;
            let good =
                time.unsigned_abs() <= EVENT_TIME_MAX.unsigned_abs() && text == time.to_string();
            good.then_some(EventTime(time))
        };
        let (from, to) = (time()?, time()?);
        Self::new(from, to).filter(|_| parts.next().is_none())
    }

    pub(super) fn text(self) -> String {
        format!("{FORM}.{}.{}", self.from.0, self.to.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back_and_nothing_else() {
        let cursor = Cursor::new(EventTime(-5), EventTime(7)).unwrap();
        assert_eq!(cursor.text(), "r1.-5.7");
        assert_eq!(Cursor::parse("r1.-5.7"), Some(cursor));
        for text in [
            "",
            "r1",
            "r1.1",
            "r1.7.7",
            "r1.8.7",
            "r2.1.2",
            "r1.1.2.3",
            "r1.01.2",
            "r1.+1.2",
            "r1.1.4611686018427387905",
            "r1.1.9223372036854775808",
            "r1.-9223372036854775808.2",
        ] {
            assert_eq!(Cursor::parse(text), None, "{text}");
        }
        assert_eq!(Cursor::new(EventTime(7), EventTime(7)), None);
    }
}
