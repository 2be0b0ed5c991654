#include "workloads/arena.h"
#include "sim/core/hash.h"
#include "sim/core/status.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)256 << 10)
#define ALIGNMENT 16u

struct block {
    struct block *older;
    size_t used, capacity;
    _Alignas(ALIGNMENT) unsigned char data[];
};

struct text_entry { /* text == NULL: free */
    uint64_t hash;
    const char *text;
    size_t length;
};

/* Blocks are a stack of which only the newest is filled. The text table is open addressing over a power of two, at
 * most half full; entries are never removed. */
struct arena {
    struct block *blocks;
    size_t bytes;
    struct text_entry *texts;
    size_t text_count, text_capacity;
};

struct arena *arena_create(void)
{
    struct arena *arena = calloc(1, sizeof *arena);
    SIM_ASSERT(arena != NULL, "out of memory");
    return arena;
}

void arena_destroy(struct arena *arena)
{
    if (arena == NULL) {
        return;
    }
    for (struct block *block = arena->blocks; block != NULL;) {
        struct block *older = block->older;
        free(block);
        block = older;
    }
    free(arena->texts);
    free(arena);
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
    size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    struct block *block = arena->blocks;
    if (block == NULL || block->capacity - block->used < rounded) {
        size_t capacity = rounded > BLOCK_BYTES ? rounded : BLOCK_BYTES;
        block = calloc(1, sizeof *block + capacity);
        SIM_ASSERT(block != NULL, "out of memory for %zu bytes", capacity);
        block->capacity = capacity;
        block->older = arena->blocks;
        arena->blocks = block;
        arena->bytes += sizeof *block + capacity;
    }
    void *memory = block->data + block->used;
    block->used += rounded;
    return memory;
}

static void texts_grow(struct arena *arena)
{
    size_t capacity = arena->text_capacity == 0 ? 1024 : arena->text_capacity * 2;
    struct text_entry *texts = calloc(capacity, sizeof *texts);
    SIM_ASSERT(texts != NULL, "out of memory for %zu texts", capacity);
    for (size_t i = 0; i < arena->text_capacity; i++) {
        if (arena->texts[i].text != NULL) {
            size_t at = arena->texts[i].hash & (capacity - 1);
            while (texts[at].text != NULL) {
                at = (at + 1) & (capacity - 1);
            }
            texts[at] = arena->texts[i];
        }
    }
    arena->bytes += (capacity - arena->text_capacity) * sizeof *texts;
    free(arena->texts);
    arena->texts = texts;
    arena->text_capacity = capacity;
}

/* Eight bytes a multiplication: texts of a few hundred bytes are hashed millions of times, and equality is checked. */
static uint64_t text_hash(const char *text, size_t length)
{
    uint64_t hash = HASH64_START ^ length, word;
    for (; length >= 8; length -= 8, text += 8) {
        memcpy(&word, text, 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    word = 0;
    memcpy(&word, text, length);
    return hash64_mix(hash ^ word);
}

const char *arena_intern(struct arena *arena, const char *text, size_t length)
{
    if (arena->text_count * 2 >= arena->text_capacity) {
        texts_grow(arena);
    }
    uint64_t hash = text_hash(text, length);
    size_t mask = arena->text_capacity - 1, at = hash & mask;
    for (; arena->texts[at].text != NULL; at = (at + 1) & mask) {
        const struct text_entry *entry = &arena->texts[at];
        if (entry->hash == hash && entry->length == length && memcmp(entry->text, text, length) == 0) {
            return entry->text;
        }
    }
    char *copy = arena_alloc(arena, length + 1);
    memcpy(copy, text, length);
    arena->texts[at] = (struct text_entry){ hash, copy, length };
    arena->text_count++;
    return copy;
}

size_t arena_bytes(const struct arena *arena)
{
    return arena->bytes;
}
