//! Rows in the binary format of COPY.
//!
//! Always holds: what is written is a whole copy once [`CopyRows::finish`] was called:
//! head, rows of the declared number of columns, trailer. Bound: set by who fills it.
//! Knows no table.

use forebay_core::units::EventTime;

/// What every binary copy begins with: signature, no flags, no extension.
const HEAD: &[u8; 19] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// Number of columns that ends a copy.
const END: i16 = -1;
/// Length of a NULL.
const NULL: i32 = -1;

/// Microseconds from 1970 to 2000, where PostgreSQL counts from.
const EPOCH_US: i64 = 946_684_800_000_000;
/// The first microsecond that PostgreSQL has, 4714-11-24 BC, counted from 1970.
pub(super) const TIME_MIN: EventTime = EventTime(-211_813_488_000_000_000 + EPOCH_US);
/// What PostgreSQL calls `-infinity`.
const BEFORE_ALL: i64 = i64::MIN;
const _: () = assert!(
    i64::MAX - EPOCH_US < 9_223_371_331_200_000_000,
    "every later time is one of PostgreSQL's"
);

/// A time as PostgreSQL counts; `-infinity` for what is before its first one.
pub(super) fn timestamp(time: EventTime) -> i64 {
    if time < TIME_MIN {
        return BEFORE_ALL;
    }
    time.0 - EPOCH_US
}

/// The time that a timestamp of PostgreSQL stands for; `None` for the infinities.
pub(super) fn event_time(timestamp: i64) -> Option<EventTime> {
    if timestamp == i64::MIN || timestamp == i64::MAX {
        return None;
    }
    timestamp.checked_add(EPOCH_US).map(EventTime)
}

/// The rows of one copy.
#[derive(Debug)]
pub(super) struct CopyRows {
    columns: i16,
    bytes: Vec<u8>,
    rows: u64,
}

impl CopyRows {
    pub(super) fn new(columns: i16) -> Self {
        Self {
            columns,
            bytes: HEAD.to_vec(),
            rows: 0,
        }
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Begins a row; as many columns must follow as were declared.
    pub(super) fn row(&mut self) -> &mut Self {
        self.rows += 1;
        self.bytes.extend_from_slice(&self.columns.to_be_bytes());
        self
    }

    pub(super) fn i16(&mut self, value: i16) -> &mut Self {
        self.field(&value.to_be_bytes())
    }

    pub(super) fn i32(&mut self, value: i32) -> &mut Self {
        self.field(&value.to_be_bytes())
    }

    pub(super) fn i64(&mut self, value: i64) -> &mut Self {
        self.field(&value.to_be_bytes())
    }

    pub(super) fn time(&mut self, value: EventTime) -> &mut Self {
        self.i64(timestamp(value))
    }

    /// A number without a sign; above 2^63 - 1 it stands as the negative number of the
    /// same bits.
    pub(super) fn u64(&mut self, value: u64) -> &mut Self {
        self.i64(value.cast_signed())
    }

    pub(super) fn some_i32(&mut self, value: Option<i32>) -> &mut Self {
        match value {
            Some(value) => self.i32(value),
            None => self.null(),
        }
    }

    pub(super) fn some_i64(&mut self, value: Option<i64>) -> &mut Self {
        match value {
            Some(value) => self.i64(value),
            None => self.null(),
        }
    }

    pub(super) fn some_f64(&mut self, value: Option<f64>) -> &mut Self {
        match value {
            Some(value) => self.field(&value.to_be_bytes()),
            None => self.null(),
        }
    }

    /// Text or json: UTF-8 without zero bytes, which who calls has seen to.
    pub(super) fn text(&mut self, value: &[u8]) -> &mut Self {
        self.field(value)
    }

    fn null(&mut self) -> &mut Self {
        self.bytes.extend_from_slice(&NULL.to_be_bytes());
        self
    }

    fn field(&mut self, value: &[u8]) -> &mut Self {
        let len = i32::try_from(value.len()).expect("a field is part of a message");
        self.bytes.extend_from_slice(&len.to_be_bytes());
        self.bytes.extend_from_slice(value);
        self
    }

    /// All bytes of the copy.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.extend_from_slice(&END.to_be_bytes());
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_at_the_edges_of_postgresql() {
        for (name, time, want) in [
            ("1970", 0, -EPOCH_US),
            ("2000", EPOCH_US, 0),
            ("one before its first", TIME_MIN.0 - 1, BEFORE_ALL),
            ("its first", TIME_MIN.0, -211_813_488_000_000_000),
            (
                "one after its first",
                TIME_MIN.0 + 1,
                -211_813_487_999_999_999,
            ),
            ("our first", i64::MIN, BEFORE_ALL),
            ("our last", i64::MAX, i64::MAX - EPOCH_US),
        ] {
            assert_eq!(timestamp(EventTime(time)), want, "{name}");
            let back = event_time(want);
            let kept = time >= TIME_MIN.0;
            assert_eq!(back, kept.then_some(EventTime(time)), "{name}");
        }
        assert_eq!(event_time(i64::MAX), None);
        assert_eq!(event_time(i64::MAX - 1), None, "no time of ours");
    }

    #[test]
    fn bytes_of_a_copy() {
        let mut rows = CopyRows::new(4);
        rows.row()
            .i16(-2)
            .some_i32(None)
            .text(b"ab")
            .some_f64(Some(1.0));
        assert_eq!(rows.rows(), 1);
        let want = [
            &b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0"[..],
            b"\0\x04\0\0\0\x02\xff\xfe\xff\xff\xff\xff\0\0\0\x02ab",
            b"\0\0\0\x08\x3f\xf0\0\0\0\0\0\0\xff\xff",
        ]
        .concat();
        assert_eq!(rows.finish(), want);
        assert_eq!(CopyRows::new(4).finish(), [&HEAD[..], b"\xff\xff"].concat());
    }
}
