/* Linear memory and the snapshot. Start-up leaves megabytes of freed objects behind; zeroed, they cost nothing in the image. */
#include "gloveport.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WASM_PAGE 65536

/* The largest and the smallest free block that wiping looks for. */
#define LARGEST_BLOCK ((size_t)64 << 20)
#define SMALLEST_BLOCK ((size_t)128)

/* Volatile because the compiler takes it for granted that malloc does not look at it. */
static volatile int growth_is_refused;

/* Takes the place of wasi-libc's sbrk(), which malloc gets its memory from: the same, with a switch. */
void *sbrk(intptr_t increment) {
    if (increment == 0) {
        return (void *)(__builtin_wasm_memory_size(0) * WASM_PAGE);
    }
    if (increment < 0 || increment % WASM_PAGE != 0) {
        abort();
    }
    size_t old = SIZE_MAX;
    if (!growth_is_refused) {
        old = __builtin_wasm_memory_grow(0, (size_t)increment / WASM_PAGE);
    }
    if (old == SIZE_MAX) {
        errno = ENOMEM;
        return (void *)-1;
    }
    return (void *)(old * WASM_PAGE);
}

struct block {
    struct block *next;
};

/* Allocates all that is free without growing, from large to small, so that each piece is zeroed once, and frees it again. */
void gloveport_wipe_free_memory(void) {
    struct block *blocks = NULL;
    growth_is_refused = 1;
    for (size_t size = LARGEST_BLOCK; size >= SMALLEST_BLOCK; size /= 2) {
        struct block *block;
        while ((block = malloc(size)) != NULL) {
            memset(block, 0, size);
            /* The compiler may drop stores to memory that is freed next. */
            __asm__ volatile("" : : "r"(block) : "memory");
            block->next = blocks;
            blocks = block;
        }
    }
    growth_is_refused = 0;
    while (blocks != NULL) {
        struct block *next = blocks->next;
        blocks->next = NULL;
        __asm__ volatile("" : : "r"(blocks) : "memory");
        free(blocks);
        blocks = next;
    }
}
