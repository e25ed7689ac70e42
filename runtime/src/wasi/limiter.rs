//! Bounds the memory of one run: all memories and tables together.

use wasmtime::{Error, ResourceLimiter, Result};

/// Bytes that one table element costs the host.
const TABLE_ELEMENT_BYTES: u64 = 16;

/// Sums what a store's memories and tables take. A refusal is an error that the script can handle, never a trap.
#[derive(Debug)]
pub(super) struct MemoryLimiter {
    limit: u64,
    used: u64,
    refusals: u64,
}

impl MemoryLimiter {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, used: 0, refusals: 0 }
    }

    /// How often growing was refused.
    pub(super) fn refusals(&self) -> u64 {
        self.refusals
    }

    fn grow(&mut self, bytes: u64) -> bool {
        match self.used.checked_add(bytes) {
            Some(used) if used <= self.limit => {
                self.used = used;
                true
            }
            _ => {
                self.refusals += 1;
                false
            }
        }
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        Ok(self.grow(desired.saturating_sub(current) as u64))
    }

    fn table_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        Ok(self.grow((desired.saturating_sub(current) as u64).saturating_mul(TABLE_ELEMENT_BYTES)))
    }

    fn memory_grow_failed(&mut self, _error: Error) -> Result<()> {
        // The operating system refused: for the script the same as our own limit.
        self.refusals += 1;
        Ok(())
    }

    fn instances(&self) -> usize {
        1
    }

    fn memories(&self) -> usize {
        1
    }

    fn tables(&self) -> usize {
        4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_and_tables_are_summed_and_refusals_counted() {
        let mut limiter = MemoryLimiter::new(1_000);
        assert!(limiter.memory_growing(0, 600, None).unwrap());
        assert!(limiter.table_growing(0, 20, None).unwrap());
        assert!(!limiter.memory_growing(600, 700, None).unwrap());
        assert!(limiter.memory_growing(600, 680, None).unwrap());
        assert!(!limiter.table_growing(20, usize::MAX, None).unwrap());
        assert_eq!(limiter.refusals(), 2);
    }
}
