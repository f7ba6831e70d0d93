//! Waits for a condition of the real world, with a deadline. The one place in
//! which a test gives up its turn: everywhere else time is driven by hand.
//!
//! Bound: every wait has a limit, and says at the end what it saw last.

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

/// How often the condition is looked at.
const POLL: Duration = Duration::from_millis(20);

/// Looks until `check` gives a value.
///
/// # Panics
/// When it gave none within `limit`: with `what` and the last reason.
#[track_caller]
pub fn until<T, E: Display>(
    what: &str,
    limit: Duration,
    mut check: impl FnMut() -> Result<T, E>,
) -> T {
    let deadline = Instant::now() + limit;
    loop {
        match check() {
            Ok(value) => return value,
            Err(last) if Instant::now() >= deadline => {
                panic!("{what}: not within {limit:?}; last: {last}")
            }
            Err(_) => thread::park_timeout(POLL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_until_the_condition_holds() {
        let mut looks = 0;
        let got = until("the third look", Duration::from_secs(10), || {
            looks += 1;
            if looks == 3 {
                Ok(looks)
            } else {
                Err("not yet")
            }
        });
        assert_eq!(got, 3);
    }

    #[test]
    #[should_panic(expected = "the end: not within 0ns; last: still open")]
    fn it_says_what_it_saw_last() {
        until("the end", Duration::ZERO, || Err::<(), _>("still open"));
    }
}
