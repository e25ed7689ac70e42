//! The one engine configuration. The build script compiles the guest with it and the runtime loads the guest with it;
//! this file is compiled into both, because wasmtime refuses code that was compiled with other settings.

use wasmtime::{Collector, Config, OptLevel};

/// Native stack that guest code may use before it traps, in bytes.
///
/// CPython's own recursion limits must strike first, so that deep recursion in C code is an exception of the script and not a
/// trap: this is about twice what the deepest of them was seen to need.
pub const MAX_WASM_STACK: usize = 8 << 20;

/// The same for images with exception handling: their CPython bounds recursion by its own stack in the guest's memory, and a frame of
/// machine code is several times what it takes there.
pub const MAX_WASM_STACK_WITH_EXCEPTIONS: usize = 64 << 20;

/// What host functions need of a fiber's stack, on top of what the guest may use.
const HOST_STACK: usize = 1 << 20;

/// Largest hole-free memory image in bytes that wasmtime must accept for copy-on-write initialization, whatever share of it is
/// zero. The snapshot has to lie below it: wasmtime copies a larger image at each instantiation and does not say so.
pub const MAX_IMAGE_SIZE: u64 = 256 << 20;

/// The same for images with exception handling, which hold whole package collections.
pub const MAX_IMAGE_SIZE_WITH_EXCEPTIONS: u64 = 1 << 30;

/// Bytes of a page, in the lists of pages that an image comes with.
pub const PAGE: usize = 4096;

/// What an image needs of its engine beyond the common configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceptions {
    /// No exception handling: the slim image, whose engine stays without it.
    Off,
    /// The exception-handling proposal, for images with C++ code.
    On,
}

/// The configuration of an engine that can run an image.
///
/// The allocation strategy is left at its default; it does not change the code, so a server may set a pooling one.
#[must_use]
pub fn config(exceptions: Exceptions) -> Config {
    let (stack, image_size) = match exceptions {
        Exceptions::Off => (MAX_WASM_STACK, MAX_IMAGE_SIZE),
        Exceptions::On => (MAX_WASM_STACK_WITH_EXCEPTIONS, MAX_IMAGE_SIZE_WITH_EXCEPTIONS),
    };
    let mut config = Config::new();
    config
        .cranelift_opt_level(OptLevel::Speed)
        // A run is stopped through the epoch; see the runtime's ticker.
        .epoch_interruption(true)
        .max_wasm_stack(stack)
        .async_stack_size(stack + HOST_STACK)
        .memory_init_cow(true)
        .memory_guaranteed_dense_image_size(image_size)
        .signals_based_traps(true)
        // Nobody reads wasm frames: the code has no names, and a backtrace costs time at each trap.
        .wasm_backtrace_max_frames(None)
        .generate_address_map(false)
        .native_unwind_info(false)
        // Proposals that the guest does not use.
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .wasm_relaxed_simd(false)
        .wasm_tail_call(false)
        .wasm_custom_page_sizes(false)
        .wasm_stack_switching(false)
        .wasm_gc(false);
    match exceptions {
        Exceptions::Off => config.wasm_function_references(false).wasm_exceptions(false).gc_support(false),
        // An exception is an object of the collector's heap.
        Exceptions::On => config.gc_support(true).wasm_exceptions(true).collector(Collector::DeferredReferenceCounting),
    };
    config
}
