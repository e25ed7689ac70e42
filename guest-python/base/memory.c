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

/* The largest and the smallest free block of malloc's that settling looks for. */
#define LARGEST_BLOCK ((size_t)64 << 20)
#define SMALLEST_BLOCK ((size_t)8)

/* Free blocks from this size on stay free: what a run needs fits into one of them, and lies side by side there. */
#define ROOMY_BLOCK ((size_t)256 << 10)

/* Largest object that CPython's own allocator serves, and the step between its size classes. */
#define LARGEST_OBJECT 512
#define OBJECT_STEP 8

static PyObjectArenaAllocator arenas;
static int arena_was_refused;

static void *refuse_arena(void *Py_UNUSED(context), size_t Py_UNUSED(size)) {
    arena_was_refused = 1;
    return NULL;
}

static void free_arena(void *Py_UNUSED(context), void *arena, size_t size) {
    arenas.free(arenas.ctx, arena, size);
}

/* Takes every free place in CPython's arenas. */
static void take_free_objects(void) {
    PyObject_GetArenaAllocator(&arenas);
    PyObjectArenaAllocator refusing = {NULL, refuse_arena, free_arena};
    PyObject_SetArenaAllocator(&refusing);
    for (size_t size = LARGEST_OBJECT; size >= OBJECT_STEP; size -= OBJECT_STEP) {
        void *object;
        arena_was_refused = 0;
        while ((object = PyObject_Malloc(size)) != NULL && !arena_was_refused) {
            memset(object, 0, size);
        }
        /* The last one came from malloc. */
        PyObject_Free(object);
    }
    PyObject_SetArenaAllocator(&arenas);
}

/* Takes every free block of malloc's, and gives the large ones back. */
static void take_free_blocks(void) {
    struct block {
        struct block *next;
    } *roomy = NULL;
    growth_is_refused = 1;
    for (size_t size = LARGEST_BLOCK; size >= SMALLEST_BLOCK; size /= 2) {
        struct block *block;
        while ((block = dlmalloc(size)) != NULL) {
            memset(block, 0, size);
            if (size >= ROOMY_BLOCK) {
                block->next = roomy;
                roomy = block;
            }
        }
    }
    growth_is_refused = 0;
    while (roomy != NULL) {
        struct block *next = roomy->next;
        roomy->next = NULL;
        dlfree(roomy);
        roomy = next;
    }
}

/* Start-up leaves free places all over the heap. Filled with zeros, they cost nothing in the image; and a run's objects come to
   lie side by side on fresh pages, instead of one each on pages that would have to be copied for it. */
void gloveport_settle_heap(void) {
    /* A full collection also empties CPython's own lists of objects to use again. */
    PyGC_Collect();
    take_free_objects();
    take_free_blocks();
    /* A run finds an arena made. Of this object's page it uses the rest. */
    memset(PyObject_Malloc(OBJECT_STEP), 0, OBJECT_STEP);
}
