//! Has the pages of an instance copied that every run writes to, in one go instead of by a page fault each.

use gloveport_guest::engine::PAGE;
use rustix::mm::{Advice, madvise};
use wasmtime::{Memory, Store};

/// The advice that does it. Elsewhere, and on kernels before 5.14, the guest's own writes copy the pages.
const COPY: Option<Advice> = {
    #[cfg(target_os = "linux")]
    {
        Some(Advice::LinuxPopulateWrite)
    }
    #[cfg(not(target_os = "linux"))]
    None
};

pub(super) fn copy<T>(memory: &Memory, store: &Store<T>, pages: &[(u32, u32)]) {
    let Some(advice) = COPY else { return };
    let size = memory.data_size(store);
    let base = memory.data_ptr(store);
    for &(first, count) in pages {
        let (start, len) = (first as usize * PAGE, count as usize * PAGE);
        if start + len > size {
            return;
        }
        #[expect(unsafe_code, reason = "an address goes to the kernel")]
        // SAFETY: the range lies in the instance's memory, which is mapped and writable; the advice changes no byte of it.
        let advised = unsafe { madvise(base.add(start).cast(), len, advice) };
        if advised.is_err() {
            return;
        }
    }
}
