/* Which GPU holds which part of which embedding table: read from a file, or proposed and explained.
 * Files: docs/schemas/plan.schema.json, or the JSON that TorchRec writes of a sharding plan. */
#ifndef WORKLOADS_PLAN_H
#define WORKLOADS_PLAN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sim/core/status.h"

enum plan_sharding {
    PLAN_TABLE_WISE,     /* one GPU has the table */
    PLAN_COLUMN_WISE,    /* each GPU has some columns of all rows */
    PLAN_ROW_WISE,       /* each GPU has some rows; partial sums are reduced */
    PLAN_TABLE_ROW_WISE, /* row-wise over the GPUs of one node */
    PLAN_DATA_PARALLEL,  /* every GPU has all; gradients are reduced */
    PLAN_HOST,           /* table-wise, rows in host memory behind a cache on the GPU */
    PLAN_SHARDINGS
};

const char *plan_sharding_text(enum plan_sharding sharding);

struct plan_table { /* what a plan is made for; borrowed */
    const char *name;
    double rows, dim, row_bytes, state_bytes; /* state_bytes: of the optimiser, a row */
    double pooling;                           /* ids an example */
    double hot_share;                         /* of the ids that ask for row 0, a padding id say; the others lie evenly */
};

struct plan_entry { /* [table] */
    enum plan_sharding sharding;
    uint32_t rank_count;
    uint32_t *ranks;    /* NULL: all of a group (row-wise, data-parallel) */
    double cache_share; /* PLAN_HOST: of the rows that the GPU keeps */
};

struct plan {
    uint32_t gpus, group; /* group: GPUs that hold one copy of the tables; gpus / group copies (2D) */
    uint32_t per_node;
    size_t table_count;
    struct plan_entry *entries;
    bool proposed; /* by plan_propose, which has a reason for each table */
    char how[160]; /* "from FILE", "proposed: ..." */
};

/* What one GPU holds of one table. */
struct plan_shard {
    uint32_t table;
    enum plan_sharding sharding;
    double rows, columns;  /* held here */
    double lookup_share;   /* of the table's ids that come here: of a table cut by rows the first GPU has row 0 */
    double hot_share;      /* of those, the ones that ask for row 0 */
    double cache_share;    /* 1: all of it is on the GPU */
};

/* Columns that a shard may have: whole groups of four, which is what the lookups of the libraries take (16 B of fp32). */
#define PLAN_COLUMNS_GRAIN 4

/* Every table on one kind, ranks in turn. */
enum sim_status plan_uniform(enum plan_sharding sharding, const struct plan_table *tables, size_t count, uint32_t gpus,
                             uint32_t per_node, struct plan **out, struct sim_error *error);

/* Propose: tables that every GPU can hold are replicated; those beyond a GPU's share of memory are split by rows, those
 * with too many lookups by columns; the others go whole to the GPU with the least to do, heaviest first, where they fit.
 * SIM_DOES_NOT_FIT when the tables exceed all GPUs: by how much, and how many GPUs would do. */
enum sim_status plan_propose(const struct plan_table *tables, size_t count, uint32_t gpus, uint32_t per_node,
                             double bytes_per_gpu, struct plan **out, struct sim_error *error);

/* Errors name file, line and table: tables that are missing, twice or unknown, ranks that do not exist. */
enum sim_status plan_read(const char *path, const struct plan_table *tables, size_t count, uint32_t gpus, uint32_t per_node,
                          struct plan **out, struct sim_error *error);
void plan_destroy(struct plan *plan); /* NULL is allowed */

/* Shards of rank `rank`; at most one a table. Returns how many. */
size_t plan_shards(const struct plan *plan, const struct plan_table *tables, uint32_t rank, struct plan_shard *shards);
double plan_shard_bytes(const struct plan_table *table, const struct plan_shard *shard); /* on the GPU, state included */
double plan_shard_host_bytes(const struct plan_table *table, const struct plan_shard *shard);
/* Bytes that lookups of one example per GPU move on the rank, all examples of its group together, what their sort moves included. */
double plan_load(const struct plan *plan, const struct plan_table *tables, uint32_t rank);
/* One line why the table lies as it does. */
void plan_explain(const struct plan *plan, const struct plan_table *tables, uint32_t table, char *text, size_t capacity);

#endif
