//! What was used last of something that is made of a segment: an open file, an index.
//!
//! Holds always: what was used last is there. Bound: so many of them, and so much weight of
//! all beside the last.

use std::sync::Arc;

use forebay_core::store::SegmentId;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Recent<T> {
    /// The one used last stands last.
    kept: Vec<(SegmentId, Arc<T>)>,
    count_max: usize,
    weight_max: usize,
    weight: fn(&T) -> usize,
}

impl<T> Recent<T> {
    /// Keeps `count_max`, at least one, that together weigh `weight_max`.
    pub(super) fn new(count_max: usize, weight_max: usize, weight: fn(&T) -> usize) -> Self {
        Self {
            kept: Vec::new(),
            count_max,
            weight_max,
            weight,
        }
    }

    /// What is kept of a segment.
    pub(super) fn get(&mut self, id: SegmentId) -> Option<Arc<T>> {
        let place = self.kept.iter().position(|(of, _)| *of == id)?;
        let used = self.kept.remove(place);
        let value = used.1.clone();
        self.kept.push(used);
        Some(value)
    }

    /// Keeps one more, and lets go what does not fit any more.
    pub(super) fn keep(&mut self, id: SegmentId, value: Arc<T>) {
        self.kept.retain(|(of, _)| *of != id);
        self.kept.push((id, value));
        while self.kept.len() > 1 && !self.fits() {
            self.kept.remove(0);
        }
    }

    fn fits(&self) -> bool {
        let weights = self.kept.iter().map(|(_, value)| (self.weight)(value));
        self.kept.len() <= self.count_max && weights.sum::<usize>() <= self.weight_max
    }

    /// Lets go what is of other segments.
    pub(super) fn retain(&mut self, mut is_there: impl FnMut(SegmentId) -> bool) {
        self.kept.retain(|(id, _)| is_there(*id));
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::units::{GenerationNo, TopicId};

    use super::*;

    fn id(n: usize) -> SegmentId {
        SegmentId {
            generation: GenerationNo(n as u32),
            topic: TopicId(16),
        }
    }

    /// Which of so many are there still, each of its weight.
    fn kept(count_max: usize, weight_max: usize, weights: &[usize]) -> Vec<usize> {
        let mut recent = Recent::new(count_max, weight_max, |weight: &usize| *weight);
        for (n, weight) in weights.iter().enumerate() {
            recent.keep(id(n), Arc::new(*weight));
        }
        (0..weights.len())
            .filter(|n| recent.kept.iter().any(|(of, _)| *of == id(*n)))
            .collect()
    }

    #[test]
    fn so_many_are_kept() {
        for most in [1, super::super::reads::FILES_MAX] {
            for (count, first) in [(most - 1, 0), (most, 0), (most + 1, 1)] {
                let want: Vec<_> = (first..count).collect();
                assert_eq!(kept(most, 9, &vec![0; count]), want, "{count} of {most}");
            }
        }
    }

    #[test]
    fn so_much_is_kept_and_the_last_in_any_case() {
        use super::super::reads::{INDEX_ENTRIES_MAX, ROW_INDEXES_BYTES_MAX};
        for most in [INDEX_ENTRIES_MAX, ROW_INDEXES_BYTES_MAX] {
            for (name, weights, want) in [
                ("one less", vec![most - 2, 1], vec![0, 1]),
                ("all", vec![most - 1, 1], vec![0, 1]),
                ("one more", vec![most - 1, 2], vec![1]),
                ("the first of three", vec![most - 1, 1, 1], vec![1, 2]),
                ("the last is all", vec![1, most], vec![1]),
                ("the last is too much", vec![1, 1, most + 1], vec![2]),
            ] {
                assert_eq!(kept(99, most, &weights), want, "{name} of {most}");
            }
        }
    }

    #[test]
    fn what_was_used_last_goes_last() {
        let mut recent = Recent::new(2, 9, |_: &u8| 0);
        recent.keep(id(0), Arc::new(0));
        recent.keep(id(1), Arc::new(1));
        assert_eq!(recent.get(id(0)).as_deref(), Some(&0));
        recent.keep(id(2), Arc::new(2));
        assert_eq!(recent.get(id(1)), None);
        recent.keep(id(0), Arc::new(7));
        assert_eq!(recent.kept.len(), 2, "one per segment");
        recent.retain(|of| of == id(0));
        assert_eq!(recent.get(id(0)).as_deref(), Some(&7));
        assert_eq!(recent.get(id(2)), None);
    }
}
