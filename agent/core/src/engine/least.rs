//! The least of many watermarks that move one at a time: a tournament, so that one
//! move costs the logarithm of their number. Knows no devices.

/// A watermark per index, or none.
#[derive(Debug, Default)]
pub(super) struct Least {
    /// A power of two.
    leaves: usize,
    /// The root at 1, the children of n at 2n and 2n + 1.
    nodes: Vec<i64>,
    present: usize,
}

/// No watermark: larger than any that moves.
const NONE: i64 = i64::MAX;

impl Least {
    pub(super) fn set(&mut self, index: usize, watermark: i64) {
        if index >= self.leaves {
            self.grow(index);
        }
        // The end of time is no less than any other: it only has to count as present.
        self.put(index, watermark.min(NONE - 1));
    }

    pub(super) fn remove(&mut self, index: usize) {
        if index < self.leaves {
            self.put(index, NONE);
        }
    }

    fn put(&mut self, index: usize, watermark: i64) {
        let mut node = self.leaves + index;
        let before = std::mem::replace(&mut self.nodes[node], watermark);
        if before == watermark {
            return;
        }
        self.present += usize::from(before == NONE);
        self.present -= usize::from(watermark == NONE);
        while node > 1 {
            node /= 2;
            let least = self.nodes[2 * node].min(self.nodes[2 * node + 1]);
            if self.nodes[node] == least {
                return;
            }
            self.nodes[node] = least;
        }
    }

    fn grow(&mut self, index: usize) {
        let leaves = (index + 1).next_power_of_two();
        let mut nodes = vec![NONE; 2 * leaves];
        let old = self.nodes.get(self.leaves..).unwrap_or_default();
        nodes[leaves..leaves + old.len()].copy_from_slice(old);
        for node in (1..leaves).rev() {
            nodes[node] = nodes[2 * node].min(nodes[2 * node + 1]);
        }
        (self.leaves, self.nodes) = (leaves, nodes);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.present == 0
    }

    /// The smallest integer when there is none.
    pub(super) fn least(&self) -> i64 {
        match self.nodes.get(1) {
            Some(least) if self.present > 0 => *least,
            Some(_) | None => i64::MIN,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_map(steps in prop::collection::vec((0_usize..40, prop::option::of(-9_i64..9)), 0..80)) {
            let (mut least, mut map) = (Least::default(), BTreeMap::new());
            for (index, watermark) in steps {
                match watermark {
                    Some(watermark) => {
                        least.set(index, watermark);
                        map.insert(index, watermark);
                    }
                    None => {
                        least.remove(index);
                        map.remove(&index);
                    }
                }
                prop_assert_eq!(least.is_empty(), map.is_empty());
                prop_assert_eq!(least.least(), map.values().copied().min().unwrap_or(i64::MIN));
            }
        }
    }
}
