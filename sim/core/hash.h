/* 64-bit hashes for memo keys, stream names and reports. Stable: a value is the same on every run and host of the
 * same byte order, so it may be printed and stored. Not for adversarial input. */
#ifndef SIM_CORE_HASH_H
#define SIM_CORE_HASH_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HASH64_START 0x9e3779b97f4a7c15u

/* Bijective on 64 bits, every input bit reaches every output bit (the finaliser of splitmix64). */
static inline uint64_t hash64_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Fold one word into a running hash; order matters: (a, b) and (b, a) differ. */
static inline uint64_t hash64_add(uint64_t hash, uint64_t word)
{
    return hash64_mix((hash ^ word) * 0x2545f4914f6cdd1du + 0x632be59bd9b4e019u);
}

/* Fold `size_bytes` bytes and their number, so that neighbouring fields cannot trade bytes. */
static inline uint64_t hash64_add_bytes(uint64_t hash, const void *bytes, size_t size_bytes)
{
    const unsigned char *at = bytes;
    hash = hash64_add(hash, size_bytes);
    for (; size_bytes >= 8; size_bytes -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        hash = hash64_add(hash, word);
    }
    if (size_bytes > 0) {
        uint64_t word = 0;
        memcpy(&word, at, size_bytes);
        hash = hash64_add(hash, word);
    }
    return hash;
}

static inline uint64_t hash64_add_text(uint64_t hash, const char *text)
{
    return hash64_add_bytes(hash, text, strlen(text));
}

/* Equal doubles hash equal: -0 is taken as 0. */
static inline uint64_t hash64_add_double(uint64_t hash, double value)
{
    uint64_t word;
    value = value + 0.0;
    memcpy(&word, &value, 8);
    return hash64_add(hash, word);
}

#endif
