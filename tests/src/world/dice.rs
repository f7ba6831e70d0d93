//! The one source of chance in a world.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// Seeded dice: the same throws on every machine.
#[derive(Debug)]
pub struct Dice(ChaCha8Rng);

impl Dice {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A number below `end`, which is at least 1.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }

    /// True `per_million` times in a million.
    pub fn hit(&mut self, per_million: u64) -> bool {
        self.below(1_000_000) < per_million
    }
}
