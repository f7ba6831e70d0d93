//! The backlog beside a slow obvious model that remembers every ordinal.

use std::vec;
use std::vec::Vec;

use forebay_wire::ids::ChannelNo;
use forebay_wire::message::Quality;
use proptest::prelude::*;

use super::*;

/// What became of one ordinal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// In the ring; the value says which it is.
    Waiting,
    Lost(GapReason),
    Acked,
}

#[derive(Debug, Clone)]
enum Step {
    Push(u8),
    Lost(GapReason, u32),
    /// Sends so many items.
    Send(u8),
    /// Sends up to so many readings as one frame.
    Frame(u8),
    Rewind,
    /// Acks so many parts of 255 of what was sent.
    Ack(u8),
    Forget(u8),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1u8..20).prop_map(Step::Push),
        2 => (prop::sample::select(vec![GapReason::IsrFull, GapReason::SensorOff]), 1u32..9)
            .prop_map(|(reason, count)| Step::Lost(reason, count)),
        6 => (1u8..30).prop_map(Step::Send),
        4 => (1u8..30).prop_map(Step::Frame),
        1 => Just(Step::Rewind),
        3 => any::<u8>().prop_map(Step::Ack),
        1 => (1u8..40).prop_map(Step::Forget),
    ]
}

fn reading(ordinal: u64) -> Reading {
    Reading {
        channel: ChannelNo((ordinal % 3) as u8),
        tick: Tick(ordinal * 10),
        value: ordinal as i32,
        quality: Quality::Ok,
    }
}

struct Pair<const N: usize> {
    backlog: Backlog<N>,
    fates: Vec<Fate>,
}

impl<const N: usize> Pair<N> {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Push(count) => {
                for _ in 0..*count {
                    let ordinal = self.backlog.produced();
                    assert_eq!(self.backlog.push(reading(ordinal.0)), ordinal);
                    self.fates.push(Fate::Waiting);
                    self.overwrite();
                }
            }
            Step::Lost(reason, count) => {
                let tick = Tick(self.backlog.produced().0 * 10);
                self.backlog.push_lost(*reason, *count, tick);
                self.fates
                    .extend(vec![Fate::Lost(*reason); *count as usize]);
                self.overwrite();
            }
            Step::Send(count) => (0..*count).for_each(|_| self.send()),
            Step::Frame(most) => self.frame(*most),
            Step::Rewind => self.backlog.rewind(),
            Step::Ack(part) => {
                let (base, sent) = (self.backlog.base().0, self.backlog.sent_end().0);
                let next = base + (sent - base) * u64::from(*part) / 255;
                self.backlog.release(Ordinal(next));
                for fate in &mut self.fates[base as usize..next as usize] {
                    if *fate == Fate::Waiting {
                        *fate = Fate::Acked;
                    }
                }
            }
            Step::Forget(count) => {
                let base = self.backlog.base().0;
                let next = base.saturating_sub(u64::from(*count));
                self.backlog.forget_acks(Ordinal(next));
                for fate in &mut self.fates[next as usize..base as usize] {
                    if *fate == Fate::Acked {
                        *fate = Fate::Lost(GapReason::PowerLoss);
                    }
                }
            }
        }
        self.check();
    }

    /// The model does not know how the ring packs markers: it takes from the
    /// backlog how many readings still wait, and that they are the newest.
    fn overwrite(&mut self) {
        let waiting = self
            .fates
            .iter()
            .filter(|fate| **fate == Fate::Waiting)
            .count();
        let gone = waiting - self.backlog.waiting() as usize;
        let oldest = self.fates.iter_mut().filter(|fate| **fate == Fate::Waiting);
        oldest
            .take(gone)
            .for_each(|fate| *fate = Fate::Lost(GapReason::RingFull));
        assert!(self.backlog.waiting() <= N as u64);
    }

    /// As many readings as the model has in a row, each the one it should be.
    fn frame(&mut self, most: u8) {
        let at = self.backlog.cursor().0 as usize;
        let waiting = self.fates[at..]
            .iter()
            .take_while(|fate| **fate == Fate::Waiting);
        let want = waiting.count().min(usize::from(most));
        let mut taken = 0;
        self.backlog.send_readings(|got| {
            let fits = taken < most;
            if fits {
                assert_eq!(*got, reading((at + usize::from(taken)) as u64));
                taken += 1;
            }
            fits
        });
        assert_eq!(usize::from(taken), want);
        assert_eq!(self.backlog.cursor().0 as usize, at + want);
    }

    /// The item at the cursor is what the model says of its ordinals.
    fn send(&mut self) {
        let at = self.backlog.cursor();
        let Some(item) = self.backlog.at_cursor() else {
            assert_eq!(
                at,
                self.backlog.produced(),
                "nothing to send, yet not at the end"
            );
            return;
        };
        self.backlog.advance();
        let end = self.backlog.cursor();
        assert!(at < end && end <= self.backlog.produced());
        let fates = &self.fates[at.0 as usize..end.0 as usize];
        match item {
            Item::Reading(got) => {
                assert_eq!((got, fates), (reading(at.0), &[Fate::Waiting][..]));
            }
            Item::Gap {
                count,
                first_tick,
                last_tick,
                ..
            } => {
                assert_eq!(count, end.0 - at.0);
                assert!(first_tick <= last_tick);
                assert!(
                    fates.iter().all(|fate| matches!(fate, Fate::Lost(_))),
                    "{fates:?}"
                );
            }
        }
    }

    fn check(&self) {
        let backlog = &self.backlog;
        assert_eq!(backlog.produced().0, self.fates.len() as u64);
        assert!(backlog.base() <= backlog.cursor() && backlog.cursor() <= backlog.produced());
        let lost: u64 = backlog.gaps().iter().sum();
        assert_eq!(
            backlog.produced().0,
            backlog.acked() + backlog.waiting() + lost
        );
    }
}

fn run<const N: usize>(steps: &[Step]) {
    let mut pair = Pair::<N> {
        backlog: Backlog::new(),
        fates: Vec::new(),
    };
    for step in steps {
        pair.step(step);
    }
    // Nothing is stuck: all can be sent and acked.
    pair.backlog.rewind();
    while pair.backlog.at_cursor().is_some() {
        pair.send();
    }
    pair.step(&Step::Ack(255));
    assert_eq!(
        (pair.backlog.base(), pair.backlog.waiting()),
        (pair.backlog.produced(), 0)
    );
}

proptest! {
    #[test]
    fn as_the_model(steps in prop::collection::vec(any_step(), 0..80)) {
        run::<1>(&steps);
        run::<3>(&steps);
        run::<5>(&steps);
        run::<64>(&steps);
    }
}

#[test]
fn a_marker_does_not_overflow() {
    let mut backlog = Backlog::<4>::new();
    for _ in 0..3 {
        backlog.push_lost(GapReason::IsrFull, u32::MAX, Tick(1));
    }
    assert_eq!(backlog.produced(), Ordinal(3 * u64::from(u32::MAX)));
    for _ in 0..3 {
        assert!(
            matches!(backlog.at_cursor(), Some(Item::Gap { count, .. }) if count == u64::from(u32::MAX))
        );
        backlog.advance();
    }
    assert_eq!(backlog.at_cursor(), None);
}

#[test]
fn overrun_takes_an_eighth_along_but_a_gap_or_two_nothing() {
    let mut backlog = Backlog::<64>::new();
    let push = |backlog: &mut Backlog<64>, count: u64| {
        for _ in 0..count {
            let ordinal = backlog.produced().0;
            backlog.push(reading(ordinal));
        }
    };
    for (name, pushed, waiting) in [
        ("the first gap", 70, 64),
        ("the second in a row", 1, 64),
        ("the third", 1, 56),
    ] {
        push(&mut backlog, pushed);
        backlog.shed_when_overrun();
        assert_eq!(backlog.waiting(), waiting, "{name}");
        backlog.advance();
    }
    push(&mut backlog, 8);
    assert!(
        matches!(backlog.at_cursor(), Some(Item::Reading(_))),
        "room for Data now"
    );
}

#[test]
fn gaps_sent_again_or_side_by_side_are_no_overrun() {
    let mut backlog = Backlog::<64>::new();
    let push = |backlog: &mut Backlog<64>, count: u64| {
        for ordinal in 0..count {
            backlog.push(reading(ordinal));
        }
    };
    push(&mut backlog, 64);
    for _ in 0..5 {
        backlog.advance();
    }
    // Five that were sent and five that were not: two spans.
    push(&mut backlog, 10);
    for _ in 0..3 {
        backlog.rewind();
        for _ in 0..2 {
            backlog.shed_when_overrun();
            backlog.advance();
        }
        push(&mut backlog, 1);
        backlog.shed_when_overrun();
        assert_eq!(backlog.waiting(), 64);
    }
}
