//! A bag of integers in order, with the k-th smallest at hand: blocks of few
//! numbers each, so that putting one in or taking one out moves no more than a
//! block, and no more than the pointers of the blocks.

/// A full block is cut in two.
const BLOCK: usize = 128;
/// Two neighbours that have no more than this together become one.
const JOINED: usize = 64;

/// The bag.
#[derive(Debug, Clone, Default)]
pub struct Sorted {
    /// None is empty; their numbers ascend from block to block.
    blocks: Vec<Vec<i64>>,
    len: usize,
}

impl Sorted {
    /// Of these, in any order.
    #[must_use]
    pub fn of(mut numbers: Vec<i64>) -> Self {
        numbers.sort_unstable();
        Self {
            len: numbers.len(),
            blocks: numbers.chunks(BLOCK / 2).map(<[i64]>::to_vec).collect(),
        }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first block whose last number is not below this one, else the last block.
    fn block_of(&self, number: i64) -> usize {
        let at = self
            .blocks
            .partition_point(|block| block.last().is_some_and(|last| *last < number));
        at.min(self.blocks.len().saturating_sub(1))
    }

    /// Puts a number in.
    pub fn add(&mut self, number: i64) {
        self.len += 1;
        let at = self.block_of(number);
        let Some(block) = self.blocks.get_mut(at) else {
            return self.blocks.push(vec![number]);
        };
        let place = block.partition_point(|n| *n < number);
        block.insert(place, number);
        if block.len() == BLOCK {
            let upper = block.split_off(BLOCK / 2);
            self.blocks.insert(at + 1, upper);
        }
    }

    /// Takes one out; `false` when it is not inside.
    pub fn sub(&mut self, number: i64) -> bool {
        let at = self.block_of(number);
        let Some(block) = self.blocks.get_mut(at) else {
            return false;
        };
        let place = block.partition_point(|n| *n < number);
        if block.get(place) != Some(&number) {
            return false;
        }
        block.remove(place);
        self.len -= 1;
        let left = block.len();
        let next = self.blocks.get(at + 1).map_or(BLOCK, Vec::len);
        if left == 0 {
            self.blocks.remove(at);
        } else if left + next <= JOINED {
            let upper = self.blocks.remove(at + 1);
            self.blocks[at].extend_from_slice(&upper);
        }
        true
    }

    /// The k-th smallest, from 1.
    #[must_use]
    pub fn at_rank(&self, k: usize) -> Option<i64> {
        let mut left = k.checked_sub(1)?;
        for block in &self.blocks {
            if let Some(number) = block.get(left) {
                return Some(*number);
            }
            left -= block.len();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn is_a_sorted_list(start in prop::collection::vec(-50_i64..50, 0..300), steps in prop::collection::vec((-50_i64..50, 0_u8..3), 0..600)) {
            let mut list = start.clone();
            list.sort_unstable();
            let mut bag = Sorted::of(start);
            for (number, what) in steps {
                if what == 0 {
                    let found = list.binary_search(&number);
                    if let Ok(at) = found {
                        list.remove(at);
                    }
                    prop_assert_eq!(bag.sub(number), found.is_ok());
                } else {
                    let at = list.partition_point(|n| *n < number);
                    list.insert(at, number);
                    bag.add(number);
                }
                prop_assert_eq!(bag.len(), list.len());
                prop_assert!(bag.blocks.iter().all(|b| !b.is_empty() && b.len() < BLOCK));
            }
            for k in 0..=list.len() + 1 {
                let want = k.checked_sub(1).and_then(|at| list.get(at)).copied();
                prop_assert_eq!(bag.at_rank(k), want);
            }
        }
    }
}
