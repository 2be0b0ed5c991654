/* A 16-way tag store, one 64-byte host line per set: entry = 24-bit tag | 4 valid sectors | 4 dirty sectors, most recently
 * used first. The folded tag takes another line for its own about once in a million lookups. */
#ifndef SIM_CHIPLET_TAGS_INTERNAL_H
#define SIM_CHIPLET_TAGS_INTERNAL_H
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define TAGS_WAYS 16

struct tags_set {
    uint32_t entry[TAGS_WAYS];
} __attribute__((aligned(64)));

#define TAGS_VALID(entry) (((entry) >> 4) & 15u)
#define TAGS_DIRTY(entry) ((entry) & 15u)
#define TAGS_TAG(entry) ((entry) >> 8)

/* Way of `tag` among valid entries, or -1. */
static inline int tags_way(const struct tags_set *set, uint32_t tag)
{
#ifdef __SSE2__
    __m128i key = _mm_set1_epi32((int)tag);
    int mask = 0;
    for (int i = 0; i < 4; i++) {
        __m128i entries = _mm_srli_epi32(_mm_load_si128((const __m128i *)set->entry + i), 8);
        mask |= _mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(entries, key))) << (4 * i);
    }
    while (mask != 0) {
        int way = __builtin_ctz((unsigned)mask);
        if ((set->entry[way] & 0xff) != 0) {
            return way;
        }
        mask &= mask - 1;
    }
    return -1;
#else
    for (int way = 0; way < TAGS_WAYS; way++) {
        if (TAGS_TAG(set->entry[way]) == tag && (set->entry[way] & 0xff) != 0) {
            return way;
        }
    }
    return -1;
#endif
}

/* Entry of `tag`, moved to the front, or NULL. */
static inline uint32_t *tags_touch(struct tags_set *set, uint32_t tag)
{
    int way = tags_way(set, tag);
    if (way < 0) {
        return NULL;
    }
    if (way > 0) {
        uint32_t entry = set->entry[way];
        memmove(set->entry + 1, set->entry, sizeof(uint32_t) * (size_t)way);
        set->entry[0] = entry;
    }
    return set->entry;
}

/* Put `tag` (no sectors yet) at position `way` of the recency order; the last of `ways` entries leaves and is returned. */
static inline uint32_t tags_insert(struct tags_set *set, uint32_t tag, int position, int ways)
{
    uint32_t victim = set->entry[ways - 1];
    memmove(set->entry + position + 1, set->entry + position, sizeof(uint32_t) * (size_t)(ways - 1 - position));
    set->entry[position] = tag << 8;
    return victim;
}

#endif
