//! A run's time: a deadline that moves on while a person is being asked.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Measures one run against its limit, without the time that approvals took.
#[derive(Debug)]
pub struct RunClock {
    started: Instant,
    limit: Duration,
    pauses: Mutex<Pauses>,
}

#[derive(Debug, Default)]
struct Pauses {
    /// Of all pauses that are over.
    total: Duration,
    /// Pauses under way: several calls may wait at once.
    depth: usize,
    since: Option<Instant>,
}

impl RunClock {
    /// Starts now.
    pub fn start(limit: Duration) -> Self {
        Self { started: Instant::now(), limit, pauses: Mutex::new(Pauses::default()) }
    }

    /// The run's limit.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Time since the start, pauses included.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// How long the run waited for people.
    pub fn paused(&self) -> Duration {
        let pauses = self.pauses.lock().unwrap_or_else(PoisonError::into_inner);
        pauses.total + pauses.since.map(|since| since.elapsed()).unwrap_or_default()
    }

    /// When the time is over, as things stand now.
    pub fn deadline(&self) -> Instant {
        self.started + self.limit + self.paused()
    }

    /// Resolves when the time is over.
    pub async fn expired(&self) {
        loop {
            let deadline = self.deadline();
            if deadline <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(deadline).await;
        }
    }

    /// Stops the clock until the guard is dropped.
    pub fn pause(&self) -> Pause<'_> {
        let mut pauses = self.pauses.lock().unwrap_or_else(PoisonError::into_inner);
        if pauses.depth == 0 {
            pauses.since = Some(Instant::now());
        }
        pauses.depth += 1;
        Pause { clock: self }
    }
}

/// Lets the clock go on when dropped.
#[derive(Debug)]
pub struct Pause<'a> {
    clock: &'a RunClock,
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        let mut pauses = self.clock.pauses.lock().unwrap_or_else(PoisonError::into_inner);
        pauses.depth = pauses.depth.saturating_sub(1);
        if pauses.depth == 0
            && let Some(since) = pauses.since.take()
        {
            pauses.total += since.elapsed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_move_the_deadline_and_overlap_counts_once() {
        let clock = RunClock::start(Duration::from_secs(10));
        let first = clock.pause();
        tokio::time::advance(Duration::from_secs(60)).await;
        let second = clock.pause();
        tokio::time::advance(Duration::from_secs(5)).await;
        drop(first);
        drop(second);
        assert_eq!(clock.paused(), Duration::from_secs(65));
        assert_eq!(clock.deadline(), clock.started + Duration::from_secs(75));
        clock.expired().await;
        assert_eq!(clock.elapsed(), Duration::from_secs(75));
    }
}
