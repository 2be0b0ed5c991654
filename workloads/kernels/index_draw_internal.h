/* Which row a lookup asks for: the generators of the measuring programs, drawn lazily. A draw is a pure function of its
 * position (table, bag, place in the bag), so that waves may be replayed, sampled and run in any order, and so that forward,
 * backward and sort of one plan see the same indices. */
#ifndef WORKLOADS_KERNELS_INDEX_DRAW_INTERNAL_H
#define WORKLOADS_KERNELS_INDEX_DRAW_INTERNAL_H
#include "sim/core/rng.h"
#include "workloads/kernels/kernels_internal.h"

enum index_kind {
    INDEX_UNIFORM,          /* splitmix64 modulo rows, in the order of the flat index array: exactly the measured draws */
    INDEX_UNIFORM_DISTINCT, /* the same from 16 streams, bags dealt round robin. The measuring program draws again where
                               a bag has the row already, which would need its history: left out (a bag of 55 of 100,000
                               rows has 0.015 such pairs) */
    INDEX_ZIPF,             /* numpy's unbounded Zipf modulo rows */
    INDEX_FBGEMM_ZIPF,      /* per bag 3 L Zipf draws modulo rows, of which the L smallest distinct, ascending */
    INDEX_ZIPF_BOUNDED,     /* Zipf on the table's rows alone, any alpha >= 0 */
    INDEX_COUNTS,           /* so many lookups of so many rows, from a file: met in a scattered order, exact where the kernel
                               has as many lookups as the file */
    INDEX_TRACE             /* rows in the order of a file, again from its start when it is short */
};

/* `rows` rows with `lookups` each; file order. */
struct index_class {
    uint64_t rows, lookups;
    uint64_t first_row;     /* of the table */
};

#define INDEX_ZIPF_HEAD 4096

/* Unbounded Zipf by inversion: a table of the first ranks with a guide, the tail by its integral.
 * Error of the tail's distribution function: below 1e-8 (second order of the midpoint rule at rank 4096). */
struct zipf_table {
    double alpha, zeta;
    double cumulative[INDEX_ZIPF_HEAD];       /* P(rank <= i + 1) */
    uint16_t guide[INDEX_ZIPF_HEAD + 1];      /* first i with cumulative[i] > g / INDEX_ZIPF_HEAD */
};

void zipf_table_init(struct zipf_table *table, double alpha); /* requires alpha > 1 */
/* The rank, modulo `rows`, of draw `position` of stream `seed`; ranks beyond 9e18 are drawn again, as measured. */
uint64_t zipf_table_row(const struct zipf_table *table, uint64_t rows, uint64_t seed, uint64_t position);

/* The lookups of one operator: `tables` tables of `rows` rows, `bags` bags per table, `length` lookups a bag. */
struct index_source {
    enum index_kind kind;
    uint64_t tables, bags, length, rows, seed;
    uint64_t run;            /* INDEX_UNIFORM: equal indices in a row, of the flat array (1 after create) */
    struct zipf_table *zipf; /* NULL for uniform */
    uint32_t *pool;          /* INDEX_FBGEMM_ZIPF: the real bags of one table, [pool_bags][length]; other tables take the
                                same bags in another order */
    uint64_t pool_bags;
    double hot_share;        /* of the lookups that go to row 0 instead; 0: none */
    struct zipf bounded;     /* INDEX_ZIPF_BOUNDED */
    uint64_t class_count, class_lookups, class_stride; /* INDEX_COUNTS: stride of the scattered order */
    struct index_class *classes;
    uint64_t *class_ends;    /* [class_count]: lookups of all classes up to it */
    uint64_t row_stride;     /* that scatters the classes' rows over the table; 1: as they are */
    uint64_t trace_count;    /* INDEX_TRACE */
    uint32_t *trace;
    uint32_t users;          /* programs that hold it */
};

/* Bags of a pool: more would only repeat the distribution. */
#define INDEX_POOL_BAGS 65536

struct index_source *index_source_create(enum index_kind kind, double alpha, uint64_t tables, uint64_t bags,
                                         uint64_t length, uint64_t rows, uint64_t seed);
struct index_source *index_source_share(struct index_source *source);
void index_source_release(void *source); /* freed when the last user lets go */

/* Takes `classes` [count], which must have at least one lookup; rows are numbered from each class's first_row, or, when
 * `scatter`, dealt over the table. */
struct index_source *index_source_of_classes(struct index_class *classes, uint64_t count, bool scatter, uint64_t tables,
                                             uint64_t bags, uint64_t length, uint64_t rows);
/* Takes `trace` [count], count > 0. */
struct index_source *index_source_of_trace(uint32_t *trace, uint64_t count, uint64_t tables, uint64_t bags,
                                           uint64_t length, uint64_t rows);

/* ---- what a user may say of the indices (index_input.c) */

struct index_request {
    enum index_kind kind;
    double alpha, hot_share;
    const char *file, *block; /* file: NULL or a trace, counts or locality statistics; block: of the statistics */
};

/* Reads generator (default `kind`), alpha (default: as the kernel's table has it), hot_share, index_file, index_block.
 * Without a generator, alpha above 1 takes `skewed` and any other alpha but 1 and 0 a bounded Zipf. */
struct index_request index_request_read(struct kernel_build *build, enum index_kind kind, enum index_kind skewed);
#define INDEX_HELP ", generator (uniform|uniform_distinct|zipf|fbgemm_zipf), alpha, hot_share (of lookups on row 0), " \
                   "index_file (one index a line; row,count; lookups,rows; or locality statistics), index_block"
/* The source asked for; NULL (and an error in `build`) when a file is wrong. `seed` as the measuring program's. */
struct index_source *index_request_open(struct kernel_build *build, const struct index_request *request, uint64_t tables,
                                        uint64_t bags, uint64_t length, uint64_t rows, uint64_t seed);

/* Of how many like parts the lookups of `bags` bags in `rows` rows are: uniform ones, of many rows, are as many lookups of as many
 * rows a part, and meet like caches there as the whole (kernel_machine.parts); 1 where they are not. */
uint32_t index_request_parts(const struct kernel_build *build, const struct index_request *request, uint64_t bags, uint64_t rows,
                             uint64_t row_bytes, uint64_t lookups);

/* The row of lookup `place` of bag `bag` of table `table`. */
uint64_t index_source_row(const struct index_source *source, uint64_t table, uint64_t bag, uint64_t place);

/* One table's lookups, sorted: what a sort by row leaves. Runs are the distinct rows in ascending order. */
struct run_table {
    uint64_t lookups;      /* of the table */
    uint64_t count;        /* runs */
    uint32_t *rows;        /* [count], ascending */
    uint32_t *starts;      /* [count + 1]: first lookup of each run in sorted order */
    uint64_t longest;      /* run with the most lookups, the first of them */
    uint32_t users;
};

/* Draws at most this many lookups; a longer table's counts are scaled up from them, which the caller should note. */
#define RUN_TABLE_DRAWS 16777216ull

/* Of table 0; the others are alike. Requires bags x length < 2^32. */
struct run_table *run_table_create(const struct index_source *source);
struct run_table *run_table_share(struct run_table *runs);
void run_table_release(void *runs);

static inline uint64_t run_table_length(const struct run_table *runs, uint64_t run)
{
    return runs->starts[run + 1] - runs->starts[run];
}

/* The bag that the j-th of a run's lookups belongs to. A stable sort keeps the order of bags, so the positions are the
 * order statistics of the run's draws: one in each of `length` equal parts, at a hashed place. Runs so long that a bag
 * holds several keep them together. */
uint64_t run_table_bag(const struct run_table *runs, const struct index_source *source, uint64_t table, uint64_t run,
                       uint64_t j);

/* The sorted backward of one source (tbe.c): a wave per distinct row sums the gradients of its lookups, rows of `width`
 * elements, and updates the row once. Takes one hold of `source`. */
void kernel_plan_add_sorted_backward(struct kernel_build *build, struct index_source *source, uint32_t width,
                                     uint32_t element_bytes);

#endif
