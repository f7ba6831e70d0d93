//! Rows that stand in a derived topic already when they are made again: they are
//! compared and left out, and what differs is told.
//!
//! Holds always: no row is written twice, and what is told to differ does: where rows
//! may be missing, or be of more readings than there are now, only the identity of a
//! line counts. Bound: whoever loads the lines. Knows no engine.

use std::collections::VecDeque;

use crate::units::Offset;

/// A row that stands in a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredLine {
    pub offset: Offset,
    pub line: Vec<u8>,
}

/// Rows after the kept place that stand in the topic already.
#[derive(Debug, Clone)]
pub(super) enum Stored {
    /// Their lines, in order.
    Lines(VecDeque<StoredLine>),
    /// Too many to be held: they are counted off. Where the log lost readings between,
    /// none is: a row twice is better than none.
    Count(u64),
}

/// A row that stands in a topic and is not made again as it stands there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub stands: StoredLine,
    /// `None`: it is not made at all.
    pub made: Option<Vec<u8>>,
}

/// What was found when rows were compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Compared {
    /// Rows that are the same, byte for byte.
    pub same: u64,
    pub different: u64,
    /// The first one, until it is told.
    pub first: Option<Difference>,
}

impl Compared {
    fn differs(&mut self, stands: StoredLine, made: Option<&[u8]>) {
        if self.different == 0 {
            self.first = Some(Difference {
                stands,
                made: made.map(<[u8]>::to_vec),
            });
        }
        self.different += 1;
    }
}

impl Stored {
    /// Whether `line` stands there below `end`; its first `identity` bytes say which one
    /// it is. Where readings were trimmed, the figures may be others, and lines before it
    /// may not come again: then nothing is compared.
    pub(super) fn take(
        &mut self,
        (line, identity): (&[u8], usize),
        end: Offset,
        compared: Option<&mut Compared>,
    ) -> bool {
        match self {
            Self::Lines(lines) => {
                let is_it = |stored: &StoredLine| stored.line.starts_with(&line[..identity]);
                let mut below = lines.iter().take_while(|stored| stored.offset < end);
                let Some(index) = below.position(is_it) else {
                    return false;
                };
                let mut passed = lines.drain(..=index);
                let Some(compared) = compared else {
                    return true;
                };
                for stands in passed.by_ref().take(index) {
                    compared.differs(stands, None);
                }
                match passed.next() {
                    Some(stands) if stands.line != line => compared.differs(stands, Some(line)),
                    Some(_) | None => compared.same += 1,
                }
                true
            }
            Self::Count(count) => {
                let some = *count > 0;
                *count = count.saturating_sub(1);
                some
            }
        }
    }

    /// The same where readings are missing that gave some of the lines: each line is
    /// left out once, in whatever order. So the next start, which finds behind them what
    /// is written now, leaves out the same ones again.
    pub(super) fn pick(&mut self, line: &[u8], identity: usize) -> bool {
        let Self::Lines(lines) = self else {
            return false;
        };
        let is_it = |stored: &StoredLine| stored.line.starts_with(&line[..identity]);
        let found = lines.iter().position(is_it);
        found.and_then(|index| lines.remove(index)).is_some()
    }

    /// No row comes any more that could stand there below `end`.
    pub(super) fn pass(&mut self, end: Offset, mut compared: Option<&mut Compared>) {
        let Self::Lines(lines) = self else {
            return;
        };
        while let Some(stands) = lines.pop_front_if(|stored| stored.offset < end) {
            if let Some(compared) = compared.as_deref_mut() {
                compared.differs(stands, None);
            }
        }
    }

    /// No row comes any more that could stand there.
    pub(super) fn close(&mut self, compared: Option<&mut Compared>) {
        let left = std::mem::replace(self, Self::Count(0));
        if let (Self::Lines(lines), Some(compared)) = (left, compared) {
            for stands in lines {
                compared.differs(stands, None);
            }
        }
    }

    /// Whether nothing stands there that was not made again.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Lines(lines) => lines.is_empty(),
            Self::Count(count) => *count == 0,
        }
    }

    /// Offset of the next row, where the topic's next is `next`.
    pub(super) fn first(&self, next: Offset) -> Offset {
        match self {
            // Lines that have not come again yet, or never will: from the first on.
            Self::Lines(lines) => lines.front().map_or(next, |line| line.offset),
            Self::Count(count) => Offset(next.0.saturating_sub(*count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: Offset = Offset(u64::MAX);

    fn stored(lines: &[&str]) -> Stored {
        let lines = lines.iter().zip(10..).map(|(line, offset)| StoredLine {
            offset: Offset(offset),
            line: line.as_bytes().to_vec(),
        });
        Stored::Lines(lines.collect())
    }

    /// What taking these lines, with an identity of one byte, and closing finds.
    fn compare(stands: &[&str], made: &[&str]) -> (Vec<bool>, Compared) {
        let (mut stored, mut compared) = (stored(stands), Compared::default());
        let took = made
            .iter()
            .map(|line| stored.take((line.as_bytes(), 1), END, Some(&mut compared)));
        let took = took.collect();
        stored.close(Some(&mut compared));
        (took, compared)
    }

    #[test]
    fn what_differs_is_counted_and_the_first_is_named() {
        type Case<'a> = (
            &'a str,
            &'a [&'a str],
            &'a [&'a str],
            u64,
            u64,
            Option<(u64, Option<&'a str>)>,
        );
        let cases: [Case<'_>; 7] = [
            ("nothing", &[], &["a1"], 0, 0, None),
            ("the same", &["a1", "b2"], &["a1", "b2", "c3"], 2, 0, None),
            (
                "other bytes",
                &["a1", "b2"],
                &["a1", "b3"],
                1,
                1,
                Some((11, Some("b3"))),
            ),
            (
                "one that does not come",
                &["a1", "b2"],
                &["b2"],
                1,
                1,
                Some((10, None)),
            ),
            (
                "the last does not come",
                &["a1", "b2"],
                &["a1"],
                1,
                1,
                Some((11, None)),
            ),
            (
                "one more between",
                &["a1", "b2"],
                &["a1", "x", "b2"],
                2,
                0,
                None,
            ),
            (
                "two others",
                &["a1", "b2"],
                &["a2", "b1"],
                0,
                2,
                Some((10, Some("a2"))),
            ),
        ];
        for (name, stands, made, same, different, first) in cases {
            let (_, compared) = compare(stands, made);
            assert_eq!(
                (compared.same, compared.different),
                (same, different),
                "{name}"
            );
            let found = compared.first.as_ref();
            let found = found.map(|d| (d.stands.offset.0, d.made.as_deref()));
            let first = first.map(|(offset, made)| (offset, made.map(str::as_bytes)));
            assert_eq!(found, first, "{name}");
        }
    }

    #[test]
    fn a_row_that_stands_there_is_taken_once_in_order() {
        let (took, _) = compare(&["a1", "b2"], &["x", "b2", "a1", "b2"]);
        assert_eq!(took, [false, true, false, false]);
        let mut some = stored(&["a1", "b2"]);
        assert_eq!(some.first(Offset(12)), Offset(10));
        assert!(some.take((b"a9", 1), END, None), "its identity is enough");
        assert_eq!(some.first(Offset(12)), Offset(11));
        some.close(None);
        assert_eq!(some.first(Offset(12)), Offset(12));
        assert_eq!(Stored::Count(3).first(Offset(12)), Offset(9));
    }

    #[test]
    fn lines_below_an_end_pass_and_others_are_found_below_one() {
        let (mut some, mut compared) = (stored(&["a1", "b2", "a3"]), Compared::default());
        assert!(!some.take((b"b2", 1), Offset(11), None), "it stands at 11");
        some.pass(Offset(11), Some(&mut compared));
        assert_eq!((compared.different, some.first(END)), (1, Offset(11)));
        some.pass(Offset(11), Some(&mut compared));
        assert_eq!(compared.different, 1, "they passed once");
        assert!(some.take((b"a3", 1), Offset(13), Some(&mut compared)));
        assert_eq!((compared.same, compared.different), (1, 2));
        assert!(some.is_empty());
    }

    #[test]
    fn lines_are_picked_once_each_in_whatever_order() {
        let mut some = stored(&["a1", "b2", "a3"]);
        let took = ["b9", "c9", "a9", "b9", "a9", "a9"].map(|line| some.pick(line.as_bytes(), 1));
        assert_eq!(took, [true, false, true, false, true, false]);
        assert!(some.is_empty());
        assert!(!Stored::Count(3).pick(b"a1", 1), "none is counted off");
    }
}
