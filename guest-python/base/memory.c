/* The guest's malloc, and what the snapshot needs of it.

   The toolchain's own malloc rounds each large block up to a power of two and never joins free blocks: half of CPython's memory
   would be waste, and a script would reach its limit with half of what it allows. This file compiles Doug Lea's malloc (from
   wasi-libc's sources) in its place; the toolchain's definitions are weak. */
#include "gloveport.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WASM_PAGE 65536

/* Set while free memory is wiped: malloc then fails where it would have to grow. */
static int growth_is_refused;

/* What malloc gets memory from, with the interface of sbrk(). */
static void *grow_memory(intptr_t increment) {
    if (increment == 0) {
        return (void *)(__builtin_wasm_memory_size(0) * WASM_PAGE);
    }
    size_t old = SIZE_MAX;
    if (increment > 0 && increment % WASM_PAGE == 0 && !growth_is_refused) {
        old = __builtin_wasm_memory_grow(0, (size_t)increment / WASM_PAGE);
    }
    if (old == SIZE_MAX) {
        errno = ENOMEM;
        return (void *)-1;
    }
    return (void *)(old * WASM_PAGE);
}

#define HAVE_MMAP 0
#define MORECORE grow_memory
#define MORECORE_CANNOT_TRIM 1
#define malloc_getpagesize WASM_PAGE
#define MALLOC_ALIGNMENT 16
#define ABORT __builtin_trap()
#define NO_MALLINFO 1
#define NO_MALLOC_STATS 1
#define LACKS_TIME_H 1
#define USE_DL_PREFIX 1
#define DLMALLOC_EXPORT static inline

static size_t dlmalloc_usable_size(void *);

#include DLMALLOC_SOURCE

void *malloc(size_t size) {
    return dlmalloc(size);
}

void free(void *block) {
    dlfree(block);
}

void *calloc(size_t count, size_t size) {
    return dlcalloc(count, size);
}

void *realloc(void *block, size_t size) {
    return dlrealloc(block, size);
}

void *reallocarray(void *block, size_t count, size_t size) {
    size_t total;
    if (__builtin_mul_overflow(count, size, &total)) {
        errno = ENOMEM;
        return NULL;
    }
    return dlrealloc(block, total);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return dlmemalign(alignment, size);
}

void *memalign(size_t alignment, size_t size) {
    return dlmemalign(alignment, size);
}

void *valloc(size_t size) {
    return dlmemalign(WASM_PAGE, size);
}

int posix_memalign(void **block, size_t alignment, size_t size) {
    return dlposix_memalign(block, alignment, size);
}

size_t malloc_usable_size(void *block) {
    return dlmalloc_usable_size(block);
}

/* The largest and the smallest free block that wiping looks for. */
#define LARGEST_BLOCK ((size_t)64 << 20)
#define SMALLEST_BLOCK ((size_t)32)

struct block {
    struct block *next;
};

/* Start-up leaves megabytes of freed objects behind; zeroed, they cost nothing in the image. Allocates all that is free without
   growing, from large to small, so that each piece is zeroed once, and frees it again. */
void gloveport_wipe_free_memory(void) {
    struct block *blocks = NULL;
    growth_is_refused = 1;
    for (size_t size = LARGEST_BLOCK; size >= SMALLEST_BLOCK; size /= 2) {
        struct block *block;
        while ((block = dlmalloc(size)) != NULL) {
            memset(block, 0, size);
            block->next = blocks;
            blocks = block;
        }
    }
    growth_is_refused = 0;
    while (blocks != NULL) {
        struct block *next = blocks->next;
        blocks->next = NULL;
        dlfree(blocks);
        blocks = next;
    }
}
