//! What the upstream counts, from the creation of its sink on, gateway by gateway. Stored with the rows,
//! so that a restart neither forgets nor doubles what was applied; a kill forgets
//! the duplicates and messages since the last row.

/// All counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages received, each time they came.
    pub messages: u64,
    /// Readings applied, each once.
    pub readings: u64,
    /// Gap records applied.
    pub gap_records: u64,
    /// Readings that these say will never come.
    pub gap_readings: u64,
    /// Result rows applied.
    pub rows: u64,
    /// Records that came again.
    pub duplicates: u64,
    /// Messages that were not ours or not readable.
    pub rejected: u64,
    /// Messages not taken because too many holes were open.
    pub beyond: u64,
    /// Times that a gateway was asked to send again.
    pub resends: u64,
    /// Offsets that a gateway said will never come.
    pub missing: u64,
    /// Records of the gateway's clock applied.
    pub clock_records: u64,
    /// Openings that showed a second disk of one log: restored from a backup, or cloned.
    pub clones: u64,
    /// Records applied that say how far the gateway knew its tables.
    pub table_records: u64,
}

const VERSION: u8 = 5;
/// How many counters older versions have: the first ones of this.
const OLDER: [(u8, usize); 4] = [(1, 9), (2, 10), (3, 11), (4, 12)];

impl Counters {
    fn fields(&mut self) -> [&mut u64; 13] {
        [
            &mut self.messages,
            &mut self.readings,
            &mut self.gap_records,
            &mut self.gap_readings,
            &mut self.rows,
            &mut self.duplicates,
            &mut self.rejected,
            &mut self.beyond,
            &mut self.resends,
            &mut self.missing,
            &mut self.clock_records,
            &mut self.clones,
            &mut self.table_records,
        ]
    }

    /// Adds what another has counted.
    pub fn add(&mut self, mut other: Self) {
        for (sum, more) in self.fields().into_iter().zip(other.fields()) {
            *sum = sum.saturating_add(*more);
        }
    }

    /// Version, then each counter as u64, big-endian.
    #[must_use]
    pub fn to_bytes(mut self) -> Vec<u8> {
        let fields = self.fields().map(|field| field.to_be_bytes());
        [&[VERSION][..], fields.as_flattened()].concat()
    }

    /// `None` when the bytes are of no version.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (version, rest) = bytes.split_first()?;
        let (values, left) = rest.as_chunks::<8>();
        let mut out = Self::default();
        let fields = out.fields();
        let older = OLDER.iter().find(|(older, _)| older == version);
        let count = match older {
            Some((_, count)) => *count,
            None if *version == VERSION => fields.len(),
            None => return None,
        };
        if !left.is_empty() || values.len() != count {
            return None;
        }
        for (field, value) in fields.into_iter().zip(values) {
            *field = u64::from_be_bytes(*value);
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_read_back_and_others_are_none() {
        let mut counters = Counters::default();
        for (n, field) in (1..).zip(counters.fields()) {
            *field = u64::MAX - n;
        }
        let bytes = counters.to_bytes();
        assert_eq!(Counters::from_bytes(&bytes), Some(counters));
        for cut in 0..bytes.len() {
            assert_eq!(Counters::from_bytes(&bytes[..cut]), None, "{cut}");
        }
        assert_eq!(Counters::from_bytes(&[&bytes[..], &[0]].concat()), None);
        assert_eq!(Counters::from_bytes(&[&[6], &bytes[1..]].concat()), None);
        for (version, count) in OLDER {
            let old = [&[version], &bytes[1..=8 * count]].concat();
            let read = Counters::from_bytes(&old).expect("an older version");
            let from = |least, value| if count < least { 0 } else { value };
            assert_eq!(
                read,
                Counters {
                    missing: from(10, counters.missing),
                    clock_records: from(11, counters.clock_records),
                    clones: from(12, counters.clones),
                    table_records: 0,
                    ..counters
                },
                "{version}"
            );
        }
    }
}
