//! Questions at a fixed rate, whatever the answers take: a question that has to wait for
//! the one before it waits from the moment at which it was due. Who asks stands for another
//! computer, and so goes before what is measured where the system lets us: that a thread of
//! ours is not woken in time is no delay of the agent's.

use std::time::{Duration, Instant};

use crate::sys;

/// How long answers took from the moment at which they were due.
#[derive(Debug, Clone, Default)]
pub(super) struct Times {
    us: Vec<u64>,
    /// Due, and not asked when the time was up twice over.
    unasked: usize,
}

impl Times {
    pub(super) fn push(&mut self, took: Duration) {
        self.us.push(took.as_micros() as u64);
    }

    pub(super) fn len(&self) -> usize {
        self.us.len()
    }

    /// Nearest rank of `part` of all, in ms; 1 is the largest.
    pub(super) fn quantile_ms(&self, part: f64) -> f64 {
        let mut sorted = self.us.clone();
        sorted.sort_unstable();
        let rank = (part * sorted.len() as f64).ceil() as usize;
        let us = sorted.get(rank.saturating_sub(1));
        us.map_or(f64::NAN, |us| *us as f64 / 1e3)
    }

    /// p50, p99 and the largest, as text.
    pub(super) fn text(&self) -> String {
        let unasked = match self.unasked {
            0 => String::new(),
            count => format!(", {count} more never came to be asked"),
        };
        format!(
            "p99 {:.2} ms (p50 {:.2}, max {:.2}; {} answers{unasked})",
            self.quantile_ms(0.99),
            self.quantile_ms(0.5),
            self.quantile_ms(1.0),
            self.len()
        )
    }
}

/// How late this thread gets a processor, as `nice` counts.
pub(super) fn be_nice(nice: i32) {
    // It would only take what the agent could have.
    let _ = rustix::process::setpriority_process(None, nice);
}

/// Asks on `connections` threads, `per_s` in all, for `length`. `open` makes what a thread
/// asks with; it is given the number of each question.
pub(super) fn run<A>(
    (per_s, connections): (f64, usize),
    length: Duration,
    open: impl Fn() -> Result<A, String> + Sync,
) -> Result<Times, String>
where
    A: FnMut(usize) -> Result<(), String>,
{
    let started = Instant::now();
    let open = &open;
    let one = |thread: usize| -> Result<Times, String> {
        // Without the right to it, times look longer than they are.
        sys::go_first();
        let mut ask = open()?;
        let mut times = Times::default();
        let mut number = thread;
        loop {
            let due = started + Duration::from_secs_f64(number as f64 / per_s);
            if due.duration_since(started) > length {
                return Ok(times);
            }
            if started.elapsed() > 2 * length {
                times.unasked += 1;
                number += connections;
                continue;
            }
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            ask(number)?;
            times.push(due.elapsed());
            number += connections;
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..connections)
            .map(|thread| scope.spawn(move || one(thread)))
            .collect();
        let mut all = Times::default();
        for thread in threads {
            let times = thread.join().map_err(|_| "a thread that asks broke")??;
            all.us.extend(times.us);
            all.unasked += times.unasked;
        }
        Ok(all)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_ranks() {
        let times = Times {
            us: (1..=200).rev().map(|n| n * 1000).collect(),
            unasked: 0,
        };
        for (name, part, want) in [
            ("median", 0.5, 100.0),
            ("p99", 0.99, 198.0),
            ("max", 1.0, 200.0),
        ] {
            assert!((times.quantile_ms(part) - want).abs() < 1e-9, "{name}");
        }
        assert!(Times::default().quantile_ms(0.5).is_nan());
    }

    #[test]
    fn a_slow_answer_is_told_of_those_that_wait_behind_it() {
        let slow = |number: usize| {
            if number == 0 {
                let began = Instant::now();
                while began.elapsed() < Duration::from_millis(60) {}
            }
            Ok(())
        };
        let times = run((100.0, 1), Duration::from_millis(95), || Ok(slow));
        let times = times.expect("all are answered");
        assert_eq!(times.len(), 10);
        // Five more were due while the first one was being answered.
        assert!(times.us.iter().filter(|us| **us > 5_000).count() >= 5);
    }
}
