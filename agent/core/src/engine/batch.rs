//! Readings on their way into the engine, column by column. Bound: whoever fills it.

use crate::engine::identity::ReadingId;
use crate::engine::route::SeriesId;
use crate::engine::value::column;
use crate::units::EventTime;

/// Readings in order.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    pub(super) series: Vec<SeriesId>,
    pub(super) time: Vec<i64>,
    pub(super) value: Vec<f64>,
    /// Shorter where the last readings have no identity to be judged.
    pub(super) id: Vec<Option<ReadingId>>,
}

impl Batch {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a reading. `value`: `None` where the sensor reports a fault, which moves
    /// time on and is in no figure. `id`: `None` where its identity was judged before, or
    /// it has none.
    #[inline]
    pub fn push(
        &mut self,
        series: SeriesId,
        time: EventTime,
        value: Option<f64>,
        id: Option<ReadingId>,
    ) {
        if id.is_some() {
            self.id.resize(self.series.len(), None);
            self.id.push(id);
        }
        self.series.push(series);
        self.time.push(time.0);
        self.value.push(column(value));
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.series.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// Forgets the readings and keeps the room.
    pub fn clear(&mut self) {
        self.series.clear();
        self.time.clear();
        self.value.clear();
        self.id.clear();
    }
}
