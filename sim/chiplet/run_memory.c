/* What a run of the chip model remembers, taken from chunks that the thread keeps for its next run: thousands of short runs touch
 * the same pages of the host, and asking the system for them anew would cost more than many of the runs. */
#include "sim/chiplet/package_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <threads.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#endif
#endif
#ifndef ASAN_POISON_MEMORY_REGION
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

#define LARGE_PAGE ((size_t)2 << 20)
#define CHUNK_BYTES (16 * LARGE_PAGE)
#define ALIGNMENT 64 /* bytes of a host's cache line; as many lie unused behind each block, which the sanitizer watches */

struct chunk {
    struct chunk *next;
    size_t bytes; /* with this head */
    size_t used;
};

struct run_memory {
    struct chunk *first;
    struct chunk *at; /* blocks come from here; the chunks behind it are empty */
};

static _Thread_local struct run_memory *run_memory;
static tss_t at_thread_end;
static once_flag has_key = ONCE_FLAG_INIT;

static void free_chunks(void *of)
{
    struct run_memory *memory = of;
    while (memory->first != NULL) {
        struct chunk *next = memory->first->next;
        ASAN_UNPOISON_MEMORY_REGION(memory->first, memory->first->bytes);
        free(memory->first);
        memory->first = next;
    }
    free(memory);
}

static void make_key(void)
{
    int failed = tss_create(&at_thread_end, free_chunks);
    SIM_ASSERT(failed == thrd_success, "no key for a thread's memory: %d", failed);
}

static struct run_memory *memory_of_thread(void)
{
    if (run_memory == NULL) {
        call_once(&has_key, make_key);
        run_memory = calloc(1, sizeof *run_memory);
        SIM_ASSERT(run_memory != NULL && tss_set(at_thread_end, run_memory) == thrd_success, "no memory for %zu bytes",
                   sizeof *run_memory);
    }
    return run_memory;
}

static size_t up_to(size_t bytes, size_t multiple)
{
    return (bytes + multiple - 1) / multiple * multiple;
}

static struct chunk *chunk_create(size_t block)
{
    size_t bytes = up_to(block + 2 * ALIGNMENT, LARGE_PAGE);
    bytes = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
    void *p = NULL;
    int failed = posix_memalign(&p, LARGE_PAGE, bytes);
    SIM_ASSERT(failed == 0 && p != NULL, "no memory for %zu bytes", bytes);
    (void)madvise(p, bytes, MADV_HUGEPAGE); /* a wish: without it the pages are small */
    struct chunk *chunk = p;
    *chunk = (struct chunk){ .bytes = bytes, .used = ALIGNMENT };
    _Static_assert(sizeof *chunk <= ALIGNMENT, "the head lies before the first block");
    return chunk;
}

void *package_zalloc(size_t count, size_t size)
{
    struct run_memory *memory = memory_of_thread();
    size_t bytes = up_to(count * size > 0 ? count * size : 1, ALIGNMENT);
    struct chunk **next = memory->at != NULL ? &memory->at : &memory->first;
    while (*next != NULL && (*next)->bytes - (*next)->used < bytes + ALIGNMENT) {
        next = &(*next)->next;
    }
    if (*next == NULL) {
        *next = chunk_create(bytes);
    }
    struct chunk *chunk = *next;
    memory->at = chunk;
    void *block = (char *)chunk + chunk->used;
    chunk->used += bytes + ALIGNMENT;
    ASAN_UNPOISON_MEMORY_REGION(block, bytes);
    ASAN_POISON_MEMORY_REGION((char *)block + count * size, bytes + ALIGNMENT - count * size);
    memset(block, 0, count * size);
    return block;
}

void package_free_all(const void *block)
{
    struct run_memory *memory = memory_of_thread();
    bool is_behind = false;
    for (struct chunk *chunk = memory->first; chunk != NULL; chunk = chunk->next) {
        const char *start = (const char *)chunk;
        if (is_behind) {
            chunk->used = ALIGNMENT;
        } else if ((const char *)block > start && (const char *)block < start + chunk->used) {
            chunk->used = (size_t)((const char *)block - start);
            memory->at = chunk;
            is_behind = true;
        }
    }
    SIM_ASSERT(is_behind, "%p is no block of this thread", (const void *)block);
}
