/* Results of a study in one SQLite file (docs/studies.md has its schema). A record is one transaction: what a killed sweep had
 * written stays, and is not worked out again. One writer at a time; readers may look in meanwhile.
 *
 * A finished store has the same bytes however many processes worked and in whatever order they were done: the points lie in the
 * order of their numbers, nothing holds a time of day or a duration, and the file is written anew as a whole. */
#ifndef STUDIES_STORE_H
#define STUDIES_STORE_H
#include "studies/study.h"
#include <stdbool.h>
#include <stddef.h>

struct store;

struct store_identity { /* what a store must be of to be gone on with */
    const char *program; /* version and commit */
    const char *study;   /* its text */
    const char *options; /* engines, seed */
    const char *basis;   /* hashes of inputs and profiles */
};

/* Open or create. Errors, one line with the file: not such a store, another version of it, another program, study, options or
 * basis, another writer, a folder that is not there. */
enum sim_status store_open(const char *path, const struct study *study, const struct store_identity *identity,
                           struct store **out, struct sim_error *error);
void store_close(struct store *store); /* NULL is allowed */
/* In a process forked from the writer: give up the hold on the file, so that it ends with the writer, however that ends. */
void store_leave(struct store *store);

bool store_has(const struct store *store, size_t point);
size_t store_count(const struct store *store);
bool store_is_finished(const struct store *store);

/* Add a record; a point is written once (asserted). */
enum sim_status store_put(struct store *store, const struct study_record *record, struct sim_error *error);

/* The record of a point that is there. */
enum sim_status store_get(struct store *store, size_t point, struct study_record *record, struct sim_error *error);

/* Write who is on the fronts ([count] points of the study), and the file anew. */
enum sim_status store_finish(struct store *store, const bool *front, const bool *device_front, size_t count,
                             struct sim_error *error);

#endif
