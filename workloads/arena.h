/* Memory that lives as long as its owner, and one copy of each distinct text. A leaf of workloads: a graph owns one for
 * its borrowed pointers, the trace reader one for the events it keeps. */
#ifndef WORKLOADS_ARENA_H
#define WORKLOADS_ARENA_H
#include <stddef.h>

struct arena; /* opaque */

struct arena *arena_create(void);        /* aborts if memory is short, as do the calls below */
void arena_destroy(struct arena *arena); /* NULL is allowed */

/* Zeroed, aligned for any type, valid until the arena is destroyed. */
void *arena_alloc(struct arena *arena, size_t bytes);

/* The one copy of `text` (length bytes, no NUL needed, NUL added). Equal texts give the same pointer, so that texts of
 * one arena may be compared by pointer. O(length). */
const char *arena_intern(struct arena *arena, const char *text, size_t length);

size_t arena_bytes(const struct arena *arena); /* taken from the system so far */

#endif
