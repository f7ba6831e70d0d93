//! The threads on which questions are read and folded.
//!
//! Bounds: [`READERS_MAX`] at a time, [`WAITING_MAX`] wait for a turn; the next one is told
//! to come again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Semaphore;

use super::ReadError;

/// Questions that are read at the same time.
pub const READERS_MAX: usize = 2;
/// Questions that wait for their turn.
pub const WAITING_MAX: usize = 64;

/// Whether who asked has gone away.
#[derive(Debug, Clone, Default)]
pub(super) struct Stopped(Arc<AtomicBool>);

impl Stopped {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Sets it when the question is dropped.
struct StopOnDrop(Stopped);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    places: Arc<Semaphore>,
    turns: Arc<Semaphore>,
}

impl Pool {
    pub(super) fn new() -> Self {
        Self {
            places: Arc::new(Semaphore::new(READERS_MAX + WAITING_MAX)),
            turns: Arc::new(Semaphore::new(READERS_MAX)),
        }
    }

    /// Runs `work` on a thread of its own once it is its turn. It is told when who waits
    /// for it has gone away; its turn ends when it does.
    ///
    /// # Errors
    /// [`ReadError::Busy`] where too many wait, and what `work` says.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Stopped) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, ReadError> {
        let place = self.places.clone().try_acquire_owned();
        let place = place.map_err(|_| ReadError::Busy)?;
        let turn = self.turns.clone().acquire_owned().await;
        let turn = turn.map_err(|_| ReadError::Stopped)?;
        let stopped = Stopped::default();
        let guard = StopOnDrop(stopped.clone());
        let done = tokio::task::spawn_blocking(move || {
            let done = work(&stopped);
            drop((turn, place));
            done
        });
        let done = done.await;
        drop(guard);
        // A fold that broke is told as what it is, and the agent goes on.
        done.unwrap_or_else(|error| Err(ReadError::Disk(format!("the answer broke: {error}"))))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[tokio::test]
    async fn so_many_wait_and_the_next_is_told_to_come_again() {
        let pool = Pool::new();
        let mut gates = Vec::new();
        let mut tasks = Vec::new();
        for _ in 0..READERS_MAX + WAITING_MAX {
            let (gate, wait) = channel::<()>();
            gates.push(gate);
            let pool = pool.clone();
            tasks.push(tokio::spawn(async move {
                let work = move |_: &Stopped| {
                    // Ends when the gate is dropped.
                    let _ = wait.recv();
                    Ok(())
                };
                pool.run(work).await
            }));
            tokio::task::yield_now().await;
        }
        while pool.places.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(pool.run(|_| Ok(1)).await, Err(ReadError::Busy));
        gates.clear();
        for task in tasks {
            assert_eq!(task.await.unwrap(), Ok(()));
        }
        assert_eq!(pool.run(|_| Ok(1)).await, Ok(1));
    }

    #[tokio::test]
    async fn work_is_told_that_nobody_waits_for_it_any_more() {
        let pool = Pool::new();
        let (begun, begins) = tokio::sync::oneshot::channel();
        let (said, hears) = tokio::sync::oneshot::channel();
        let asked = tokio::spawn({
            let pool = pool.clone();
            async move {
                pool.run(move |stopped| {
                    let _ = begun.send(());
                    while !stopped.is_set() {
                        std::thread::yield_now();
                    }
                    let _ = said.send(());
                    Ok(())
                })
                .await
            }
        });
        begins.await.unwrap();
        asked.abort();
        hears.await.unwrap();
        while pool.turns.available_permits() < READERS_MAX {
            tokio::task::yield_now().await;
        }
    }
}
