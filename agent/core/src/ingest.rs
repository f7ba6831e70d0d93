//! Routes devices to partitions. A device keeps its slot for ever: slot = hash of
//! its uid modulo [`SLOTS`]; which partition holds a slot is a table, so that the
//! partition count can grow without moving a device unannounced.

use forebay_wire::ids::DeviceUid;

use crate::limits::PARTITIONS_MAX;
use crate::units::PartitionId;

/// Virtual slots, for ever.
pub const SLOTS: usize = 256;
const _: () = assert!(PARTITIONS_MAX <= SLOTS);

/// Offset basis and prime of FNV-1a, 64 bits (Fowler, Noll, Vo; RFC 9923).
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// FNV-1a of `bytes`: the hash by which slots and definitions are named on disk.
#[must_use]
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(FNV_BASIS, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME)
    })
}

/// Which partition holds which slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Router {
    slots: Vec<PartitionId>,
    partitions: u16,
}

impl Router {
    /// Spreads the slots over `partitions`, 1 to [`PARTITIONS_MAX`].
    ///
    /// # Panics
    /// When `partitions` is outside that range: the config refuses it.
    #[must_use]
    pub fn new(partitions: u16) -> Self {
        assert!((1..=PARTITIONS_MAX).contains(&usize::from(partitions)));
        let slots = (0..SLOTS as u16).map(|slot| PartitionId(slot % partitions));
        Self {
            slots: slots.collect(),
            partitions,
        }
    }

    /// A table as it was stored; `None` when it does not name a partition below
    /// `partitions` for each slot.
    #[must_use]
    pub fn from_slots(slots: Vec<PartitionId>, partitions: u16) -> Option<Self> {
        let few = (1..=PARTITIONS_MAX).contains(&usize::from(partitions));
        let whole = slots.len() == SLOTS && slots.iter().all(|held| held.0 < partitions);
        (few && whole).then_some(Self { slots, partitions })
    }

    /// The partition of each slot.
    #[must_use]
    pub fn slots(&self) -> &[PartitionId] {
        &self.slots
    }

    /// The partition of a device.
    #[must_use]
    pub fn partition(&self, uid: DeviceUid) -> PartitionId {
        let slot = fnv1a(&uid.0) % SLOTS as u64;
        self.slots[slot as usize]
    }

    /// Number of partitions.
    #[must_use]
    pub fn count(&self) -> u16 {
        self.partitions
    }

    /// All partitions.
    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..self.partitions).map(PartitionId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_one() {
        // Vectors of the authors' own test suite.
        for (text, want) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            assert_eq!(fnv1a(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn devices_spread_over_all_partitions_and_stay() {
        for partitions in [1, 2, 16] {
            let router = Router::new(partitions);
            let mut held = vec![0; usize::from(partitions)];
            for uid in 0..1000_u64 {
                let partition = router.partition(DeviceUid(uid.to_be_bytes()));
                held[usize::from(partition.0)] += 1;
            }
            assert!(held.iter().all(|count| *count > 20), "{held:?}");
        }
        assert_eq!(Router::new(1).partitions().count(), 1);
    }
}
