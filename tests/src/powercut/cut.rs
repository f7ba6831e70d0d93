//! What a power cut leaves of a disk. Seeded: the same disk and seed leave the same.
//!
//! Always holds: what was synced is there, whatever the kind of the cut.

use std::collections::BTreeMap;

use super::disk::{Disk, Node};
use super::files::Seq;
use crate::world::dice::Dice;

/// How much of what was not synced reaches the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    DropAll,
    /// Any part: each sector, size and name as it was at some time since its sync,
    /// out of order.
    Part,
    /// All in order up to some write, and of that one its beginning.
    Torn,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::DropAll, Self::Part, Self::Torn];
}

const MILLION: u64 = 1_000_000;

impl Disk {
    /// The disk as it is found when the power comes back.
    #[must_use]
    pub fn after_cut(&self, kind: Kind, dice: &mut Dice) -> Self {
        match kind {
            Kind::DropAll => self.settle(|_| false, |file, _| file.durable(), dice),
            Kind::Torn => self.torn(dice),
            Kind::Part => self.in_part(dice),
        }
    }

    fn torn(&self, dice: &mut Dice) -> Self {
        let mut writes: Vec<Seq> = self
            .nodes
            .values()
            .flat_map(|node| match node {
                Node::File(file) => file.unsynced_writes().collect(),
                Node::Dir(_) => Vec::new(),
            })
            .collect();
        writes.sort_unstable();
        // Mostly the last one; else the drive was behind.
        let torn = match writes.len() as u64 {
            0 => Seq(u64::MAX),
            count if dice.hit(MILLION / 2) => writes[(count - 1) as usize],
            count => writes[dice.below(count) as usize],
        };
        self.settle(|at| at < torn, |file, dice| file.torn_at(torn, dice), dice)
    }

    fn in_part(&self, dice: &mut Dice) -> Self {
        // From hardly anything to nearly all, another mix in each cut.
        let mixes = [0, MILLION / 10, MILLION / 2, MILLION * 9 / 10];
        let mix = mixes[dice.below(mixes.len() as u64) as usize];
        // Most file systems keep the order of names; the others lose any of them.
        let count = self.names.len() as u64;
        let kept: Vec<Seq> = if dice.hit(MILLION / 2) {
            let prefix = dice.below(count + 1) as usize;
            self.names[..prefix].iter().map(|(at, _)| *at).collect()
        } else {
            let names = self.names.iter().map(|(at, _)| *at);
            names.filter(|_| dice.hit(MILLION / 2)).collect()
        };
        self.settle(
            |at| kept.binary_search(&at).is_ok(),
            |file, dice| file.in_part(mix, dice),
            dice,
        )
    }

    /// Applies the names that `keeps` and asks for each file what is left of it.
    fn settle(
        &self,
        keeps: impl Fn(Seq) -> bool,
        mut left: impl FnMut(&super::files::FileNode, &mut Dice) -> super::files::FileNode,
        dice: &mut Dice,
    ) -> Self {
        let mut settled = self.clone();
        for (at, change) in &self.names {
            if keeps(*at) {
                settled.make_durable(change);
            }
        }
        let mut nodes = BTreeMap::new();
        for (ino, node) in settled.nodes {
            let node = match node {
                Node::File(file) => Node::File(left(&file, dice)),
                Node::Dir(mut dir) => {
                    dir.live.clone_from(&dir.durable);
                    Node::Dir(dir)
                }
            };
            nodes.insert(ino, node);
        }
        self.restarted(nodes)
    }
}
