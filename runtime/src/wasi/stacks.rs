//! The native stacks that guests run on, kept for later runs: mapping one, touching it and unmapping it again is a good part of a start.
//!
//! A guest can't read what the one before left there: WebAssembly has no way to name an address of the native stack. Should the compiler or the engine
//! have a fault that lets it, there is nothing to be read: what was used is zeroed.

#![expect(unsafe_code, reason = "wasmtime takes the host's stacks as addresses")]

use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap};
use wasmtime::{Error, StackCreator, StackMemory};

/// Free stacks that are kept, and their bytes at most: they count where the kernel grants no more memory than there is.
const STOCK: usize = 32;
const STOCK_BYTES: usize = 256 << 20;
/// Bytes of a free stack that stay in memory: more than most scripts use. What a deep recursion took beyond them goes back.
const KEPT: usize = 64 << 10;
/// Sizes are multiples of this, which holds whole pages everywhere; and so large is the guard below a stack.
const UNIT: usize = 64 << 10;
/// The advice that frees pages at once. Elsewhere it is no more than a hint.
const FREE: Option<Advice> = {
    #[cfg(target_os = "linux")]
    {
        Some(Advice::LinuxDontNeed)
    }
    #[cfg(not(target_os = "linux"))]
    None
};

/// Makes stacks, or hands out those of runs that ended.
#[derive(Clone, Default)]
pub(super) struct Stacks {
    free: Arc<Mutex<Vec<Mapping>>>,
}

impl Stacks {
    fn lock(&self) -> MutexGuard<'_, Vec<Mapping>> {
        // Pushing and popping leave the list whole whatever happens.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, size: usize) -> Option<Mapping> {
        self.lock().pop().filter(|mapping| mapping.size == size)
    }

    /// Keeps a stack that could be cleared, as long as there are not too many.
    fn keep(&self, mut mapping: Mapping) {
        if mapping.clear(KEPT) {
            let most = STOCK.min(STOCK_BYTES / mapping.size);
            let mut free = self.lock();
            if free.len() < most {
                free.push(mapping);
            }
        }
    }
}

// SAFETY: each stack is a mapping of its own, of whole pages, with a guard below it that can't be touched, and belongs to one guest until that is
// dropped. All are zeroed, whether that is asked for or not.
unsafe impl StackCreator for Stacks {
    fn new_stack(&self, size: usize, _zeroed: bool) -> Result<Box<dyn StackMemory>, Error> {
        let size = size.next_multiple_of(UNIT);
        let mapping = match self.take(size) {
            Some(mapping) => mapping,
            None => Mapping::new(size)?,
        };
        Ok(Box::new(Stack { mapping: ManuallyDrop::new(mapping), stacks: self.clone() }))
    }
}

/// The stack of one guest. Dropping keeps the mapping for another.
struct Stack {
    mapping: ManuallyDrop<Mapping>,
    stacks: Stacks,
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: nothing uses it after this.
        let mapping = unsafe { ManuallyDrop::take(&mut self.mapping) };
        self.stacks.keep(mapping);
    }
}

// SAFETY: the ranges are those of a mapping that lives as long as this.
unsafe impl StackMemory for Stack {
    fn top(&self) -> *mut u8 {
        self.mapping.bottom().wrapping_add(self.mapping.size)
    }

    fn range(&self) -> Range<usize> {
        // wasmtime makes pointers of them.
        let bottom = self.mapping.bottom().expose_provenance();
        bottom..bottom + self.mapping.size
    }

    fn guard_range(&self) -> Range<*mut u8> {
        self.mapping.base..self.mapping.bottom()
    }
}

/// A guard and a stack above it. Dropping unmaps them.
struct Mapping {
    base: *mut u8,
    /// Bytes of the stack, without the guard.
    size: usize,
}

// SAFETY: it is memory that nobody else knows of, and nothing here depends on the thread.
unsafe impl Send for Mapping {}
// SAFETY: the same; a shared reference only tells addresses.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(size: usize) -> Result<Self, Error> {
        // SAFETY: a new mapping at an address of the kernel's choice touches no other.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), UNIT + size, ProtFlags::empty(), MapFlags::PRIVATE)? };
        let mapping = Self { base: base.cast(), size };
        // SAFETY: the range is the upper part of the mapping that was just made.
        unsafe { mprotect(mapping.bottom().cast(), size, MprotectFlags::READ | MprotectFlags::WRITE)? };
        Ok(mapping)
    }

    fn bottom(&self) -> *mut u8 {
        self.base.wrapping_add(UNIT)
    }

    /// Frees the memory of all but the upper part, and zeroes that. Whether it was done.
    fn clear(&mut self, kept: usize) -> bool {
        let kept = kept.min(self.size);
        let rest = self.size - kept;
        // SAFETY: the range is the upper part of the mapping, which no guest uses any more.
        unsafe { self.bottom().add(rest).write_bytes(0, kept) };
        // SAFETY: the range is what lies below it.
        FREE.is_some_and(|advice| unsafe { madvise(self.bottom().cast(), rest, advice) }.is_ok())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the whole mapping, and nothing refers to it any more.
        let unmapped = unsafe { munmap(self.base.cast(), UNIT + self.size) };
        if let Err(error) = unmapped {
            tracing::warn!(%error, "the stack of a guest could not be unmapped");
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    const SIZE: usize = 1 << 20;

    fn stack(stacks: &Stacks, size: usize) -> Box<dyn StackMemory> {
        stacks.new_stack(size, false).unwrap()
    }

    fn write(stack: &dyn StackMemory, below_top: usize, value: u8) {
        // SAFETY: the address lies in the stack.
        unsafe { stack.top().sub(below_top).write(value) }
    }

    fn read(stack: &dyn StackMemory, below_top: usize) -> u8 {
        // SAFETY: the address lies in the stack.
        unsafe { stack.top().sub(below_top).read() }
    }

    #[test]
    fn a_stack_lies_between_its_guard_and_its_top() {
        let stacks = Stacks::default();
        let one = stack(&stacks, SIZE - 1);
        assert_eq!((one.range().len(), one.range().end), (SIZE, one.top().addr()));
        assert_eq!(
            (one.guard_range().end.addr(), one.guard_range().start.addr()),
            (one.range().start, one.range().start - UNIT)
        );
        write(&*one, SIZE, 1);
        write(&*one, 1, 2);
        assert_eq!((read(&*one, SIZE), read(&*one, 1)), (1, 2));
    }

    #[test]
    fn it_is_used_again_and_zeroed() {
        let stacks = Stacks::default();
        let first = stack(&stacks, SIZE);
        let at = first.range();
        let places = [1, KEPT, KEPT + 1, SIZE];
        for place in places {
            write(&*first, place, 1);
        }
        drop(first);
        let (again, other) = (stack(&stacks, SIZE), stack(&stacks, SIZE));
        assert_eq!(again.range(), at);
        assert_ne!(other.range(), at, "a stack has one user at a time");
        assert_eq!(places.map(|place| read(&*again, place)), [0; 4]);
        drop(again);
        assert_eq!(stack(&stacks, SIZE * 2).range().len(), SIZE * 2, "another size is mapped anew");
    }

    #[test]
    fn only_so_many_are_kept() {
        let stacks = Stacks::default();
        let many: Vec<_> = (0..STOCK + 3).map(|_| stack(&stacks, SIZE)).collect();
        drop(many);
        assert_eq!(stacks.lock().len(), STOCK);
        let large: Vec<_> = (0..3).map(|_| stack(&stacks, STOCK_BYTES / 2)).collect();
        stacks.lock().clear();
        drop(large);
        assert_eq!(stacks.lock().len(), 2);
    }
}
