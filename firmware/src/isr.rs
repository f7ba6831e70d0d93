//! From interrupt to main loop: a small queue for boards that sample in interrupts.
//! Full, it drops the newest sample and counts it; the main loop turns the missing
//! numbers into a gap, so nothing is lost in silence.
//!
//! Bound: `N - 1` samples. Lock-free with loads and stores only (thumbv6m too).

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

use forebay_wire::ids::{ChannelNo, Tick};
use forebay_wire::message::Quality;
use heapless::spsc;

/// A reading as the interrupt took it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    pub channel: ChannelNo,
    pub tick: Tick,
    pub value: Result<i32, Quality>,
}

/// See the module. Stands in a `static`; the board splits it once.
#[derive(Debug)]
pub struct SampleQueue<const N: usize> {
    queue: spsc::Queue<(u32, Sample), N>,
    /// Samples taken by the producer, queued or not. Wraps.
    taken: AtomicU32,
}

impl<const N: usize> Default for SampleQueue<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> SampleQueue<N> {
    #[must_use]
    pub const fn new() -> Self {
        SampleQueue {
            queue: spsc::Queue::new(),
            taken: AtomicU32::new(0),
        }
    }

    /// The interrupt's end and the main loop's end.
    pub fn split(&mut self) -> (SampleProducer<'_>, SampleConsumer<'_>) {
        let taken = &self.taken;
        let next = taken.load(Ordering::Relaxed);
        let (producer, consumer) = self.queue.split();
        (
            SampleProducer {
                producer,
                next,
                taken,
            },
            SampleConsumer {
                consumer,
                expected: next,
                taken,
            },
        )
    }
}

/// The interrupt's end.
pub struct SampleProducer<'a> {
    producer: spsc::Producer<'a, (u32, Sample)>,
    next: u32,
    taken: &'a AtomicU32,
}

// The queue's ends have no Debug.
impl fmt::Debug for SampleProducer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SampleProducer")
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl SampleProducer<'_> {
    /// Hands a sample over. False when it was dropped because the queue is full;
    /// it is counted then, and nothing else is to be done.
    pub fn push(&mut self, sample: Sample) -> bool {
        let queued = self.producer.enqueue((self.next, sample)).is_ok();
        self.next = self.next.wrapping_add(1);
        // The only writer: a plain store will do, and thumbv6m has nothing better.
        self.taken.store(self.next, Ordering::Release);
        queued
    }
}

/// What came out of the queue, in the order it was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    Sample(Sample),
    /// So many samples were dropped here.
    Dropped(u32),
}

/// The main loop's end; give it to [`crate::Device::drain`].
pub struct SampleConsumer<'a> {
    consumer: spsc::Consumer<'a, (u32, Sample)>,
    expected: u32,
    taken: &'a AtomicU32,
}

impl fmt::Debug for SampleConsumer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SampleConsumer")
            .field("expected", &self.expected)
            .finish_non_exhaustive()
    }
}

impl SampleConsumer<'_> {
    /// The next sample, or how many are missing before it; `None` when all is told.
    pub fn take(&mut self) -> Option<Taken> {
        // Read before the queue: what it counts is in the queue or was dropped.
        let taken = self.taken.load(Ordering::Acquire);
        let number = match self.consumer.peek() {
            Some((number, _)) => *number,
            None => taken,
        };
        let dropped = number.wrapping_sub(self.expected);
        if dropped > 0 && dropped <= u32::MAX / 2 {
            self.expected = number;
            return Some(Taken::Dropped(dropped));
        }
        let (number, sample) = self.consumer.dequeue()?;
        self.expected = number.wrapping_add(1);
        Some(Taken::Sample(sample))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn sample(n: u64) -> Sample {
        Sample {
            channel: ChannelNo(1),
            tick: Tick(n),
            value: Ok(n as i32),
        }
    }

    fn drain(consumer: &mut SampleConsumer<'_>) -> Vec<Taken> {
        core::iter::from_fn(|| consumer.take()).collect()
    }

    #[test]
    fn around_its_capacity() {
        for (name, pushed, queued) in [
            ("one under", 6, 6),
            ("full", 7, 7),
            ("one over", 8, 7),
            ("far over", 500, 7),
        ] {
            let mut queue = SampleQueue::<8>::new();
            let (mut producer, mut consumer) = queue.split();
            let accepted = (0..pushed).filter(|n| producer.push(sample(*n))).count();
            assert_eq!(accepted, queued, "{name}");
            let mut want: Vec<_> = (0..queued as u64)
                .map(|n| Taken::Sample(sample(n)))
                .collect();
            if pushed > queued as u64 {
                want.push(Taken::Dropped(pushed as u32 - queued as u32));
            }
            assert_eq!(drain(&mut consumer), want, "{name}");
            assert_eq!(consumer.take(), None, "{name}: told once");
        }
    }

    proptest! {
        /// Whatever the interrupt and the loop do, every sample is told once, in order.
        #[test]
        fn nothing_in_silence(steps in prop::collection::vec((0u64..12, 0usize..12), 0..200)) {
            let mut queue = SampleQueue::<5>::new();
            let (mut producer, mut consumer) = queue.split();
            // Just before the number wraps.
            (producer.next, consumer.expected) = (u32::MAX - 20, u32::MAX - 20);
            producer.taken.store(u32::MAX - 20, Ordering::Relaxed);
            let (mut pushed, mut told) = (0, 0);
            let mut check = |taken: Taken| match taken {
                Taken::Sample(got) => {
                    assert_eq!(got, sample(told));
                    told += 1;
                }
                Taken::Dropped(count) => told += u64::from(count),
            };
            for (pushes, takes) in steps {
                for _ in 0..pushes {
                    producer.push(sample(pushed));
                    pushed += 1;
                }
                for _ in 0..takes {
                    consumer.take().into_iter().for_each(&mut check);
                }
            }
            drain(&mut consumer).into_iter().for_each(&mut check);
            prop_assert_eq!(told, pushed);
        }
    }
}
