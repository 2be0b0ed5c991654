/* Shards, loads, and the proposal; files are read in plan_read.c. */
#include "workloads/plan.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tables up to this are on every GPU: their gradient is smaller than what an exchange of pooled rows would move. */
#define REPLICATED_BYTES_MAX 1048576.0
/* A table with more than this share of a GPU's mean load is split by columns, so that no GPU waits for it alone. */
#define LOAD_SHARE_MAX 1.0
#define COLUMNS_MIN 32.0
/* What a lookup moves beside its part of the row: the index, and its key and bag through the backward pass's sort, a dozen bytes read
 * and written in each of four or five passes. Columns do not divide it. */
#define LOOKUP_BYTES 128.0
/* By rows, every GPU sends and receives a pooled row of each example of the table, forward and back, where by columns one GPU waits
 * for its part of the lookups. Looked-up bytes that pass, with update, while a byte of a pooled row does: across nodes 0.36 TB/s
 * against 0.12 (mlperf_dlrm_v2 on 128 b200), within a node links are six times as fast. */
#define LOOKED_UP_PER_SENT_ACROSS 3.0
#define LOOKED_UP_PER_SENT_WITHIN 0.5
#define GIB 1073741824.0

const char *plan_sharding_text(enum plan_sharding sharding)
{
    static const char *const texts[PLAN_SHARDINGS] = { "table_wise",     "column_wise",   "row_wise",
                                                       "table_row_wise", "data_parallel", "host" };
    return texts[sharding];
}

static struct plan *plan_create(size_t count, uint32_t gpus, uint32_t per_node)
{
    struct plan *plan = calloc(1, sizeof *plan);
    SIM_ASSERT(plan != NULL, "no memory for a plan");
    plan->entries = calloc(count + 1, sizeof *plan->entries);
    SIM_ASSERT(plan->entries != NULL, "no memory for a plan");
    plan->table_count = count;
    plan->gpus = plan->group = gpus;
    plan->per_node = per_node < gpus ? per_node : gpus;
    return plan;
}

void plan_destroy(struct plan *plan)
{
    if (plan != NULL) {
        for (size_t t = 0; t < plan->table_count; t++) {
            free(plan->entries[t].ranks);
        }
        free(plan->entries);
        free(plan);
    }
}

static void add_rank(struct plan_entry *entry, uint32_t rank)
{
    uint32_t *ranks = realloc(entry->ranks, (entry->rank_count + 1) * sizeof *ranks);
    SIM_ASSERT(ranks != NULL, "no memory for ranks");
    entry->ranks = ranks;
    ranks[entry->rank_count++] = rank;
}

/* ---- what a rank holds ----------------------------------------------------------------------------------------- */

/* Which of the entry's ranks this is, or -1; `members` receives how many share the table. */
static long place_of(const struct plan *plan, const struct plan_entry *entry, uint32_t rank, uint32_t *members)
{
    uint32_t within = rank % plan->group;
    if (entry->ranks == NULL) {
        *members = plan->group;
        return (long)within;
    }
    *members = entry->rank_count;
    for (uint32_t i = 0; i < entry->rank_count; i++) {
        if (entry->ranks[i] == within) {
            return (long)i;
        }
    }
    return -1;
}

size_t plan_shards(const struct plan *plan, const struct plan_table *tables, uint32_t rank, struct plan_shard *shards)
{
    size_t count = 0;
    for (uint32_t t = 0; t < plan->table_count; t++) {
        const struct plan_entry *entry = &plan->entries[t];
        uint32_t members = 1;
        long place = place_of(plan, entry, rank, &members);
        if (place < 0) {
            continue;
        }
        struct plan_shard shard = { .table = t,
                                    .sharding = entry->sharding,
                                    .rows = tables[t].rows,
                                    .columns = tables[t].dim,
                                    .lookup_share = 1,
                                    .hot_share = tables[t].hot_share,
                                    .cache_share = entry->sharding == PLAN_HOST ? entry->cache_share : 1 };
        if (entry->sharding == PLAN_ROW_WISE || entry->sharding == PLAN_TABLE_ROW_WISE) {
            double block = ceil(tables[t].rows / members), first = block * (double)place;
            shard.rows = fmin(block, fmax(tables[t].rows - first, 0));
            double hot = place == 0 ? tables[t].hot_share : 0;
            shard.lookup_share = (1 - tables[t].hot_share) * shard.rows / tables[t].rows + hot;
            shard.hot_share = hot > 0 ? hot / shard.lookup_share : 0;
        } else if (entry->sharding == PLAN_COLUMN_WISE) {
            shard.columns = tables[t].dim / members;
        } else if (entry->sharding == PLAN_DATA_PARALLEL) {
            shard.lookup_share = 1.0 / plan->group; /* its own examples alone */
        }
        if (shard.rows > 0) {
            shards[count++] = shard;
        }
    }
    return count;
}

double plan_shard_bytes(const struct plan_table *table, const struct plan_shard *shard)
{
    return shard->rows * (table->row_bytes * shard->columns / table->dim + table->state_bytes) * shard->cache_share;
}

double plan_shard_host_bytes(const struct plan_table *table, const struct plan_shard *shard)
{
    return shard->sharding == PLAN_HOST ? shard->rows * (table->row_bytes + table->state_bytes) : 0;
}

double plan_load(const struct plan *plan, const struct plan_table *tables, uint32_t rank)
{
    struct plan_shard *shards = calloc(plan->table_count + 1, sizeof *shards);
    double load = 0;
    SIM_ASSERT(shards != NULL, "no memory for shards");
    size_t count = plan_shards(plan, tables, rank, shards);
    for (size_t i = 0; i < count; i++) {
        const struct plan_table *table = &tables[shards[i].table];
        load += table->pooling * shards[i].lookup_share * (table->row_bytes * shards[i].columns / table->dim + LOOKUP_BYTES) * plan->group;
    }
    free(shards);
    return load;
}

/* ---- plans of one kind ----------------------------------------------------------------------------------------- */

/* The most parts, up to one a GPU, of at least COLUMNS_MIN columns that are alike and whole groups. */
static uint32_t column_parts(const struct plan_table *table, uint32_t gpus)
{
    uint32_t parts = (uint32_t)fmax(1, fmin(gpus, floor(table->dim / COLUMNS_MIN)));
    while (parts > 1 && fmod(table->dim, parts * PLAN_COLUMNS_GRAIN) != 0) {
        parts--;
    }
    return parts;
}

enum sim_status plan_uniform(enum plan_sharding sharding, const struct plan_table *tables, size_t count, uint32_t gpus,
                             uint32_t per_node, struct plan **out, struct sim_error *error)
{
    struct plan *plan = plan_create(count, gpus, per_node);
    for (uint32_t t = 0; t < count; t++) {
        struct plan_entry *entry = &plan->entries[t];
        entry->sharding = sharding;
        entry->cache_share = 0.1;
        if (sharding == PLAN_TABLE_WISE || sharding == PLAN_HOST) {
            add_rank(entry, t % gpus);
        } else if (sharding == PLAN_COLUMN_WISE) {
            uint32_t parts = column_parts(&tables[t], gpus);
            for (uint32_t i = 0; i < parts; i++) {
                add_rank(entry, (t * parts + i) % gpus);
            }
        } else if (sharding == PLAN_TABLE_ROW_WISE) {
            uint32_t nodes = gpus / plan->per_node;
            for (uint32_t i = 0; i < plan->per_node; i++) {
                add_rank(entry, t % (nodes > 0 ? nodes : 1) * plan->per_node + i);
            }
        }
    }
    (void)error;
    snprintf(plan->how, sizeof plan->how, "every table %s", plan_sharding_text(sharding));
    *out = plan;
    return SIM_OK;
}

/* ---- proposal -------------------------------------------------------------------------------------------------- */

struct candidate {
    uint32_t table;
    double bytes, load;
};

static double load_of(const struct plan_table *table, double parts)
{
    return table->pooling * (table->row_bytes / parts + LOOKUP_BYTES);
}

static int by_load(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->load != y->load) {
        return x->load > y->load ? -1 : 1;
    }
    return x->bytes != y->bytes ? (x->bytes > y->bytes ? -1 : 1) : (x->table < y->table ? -1 : 1);
}

struct proposal {
    struct plan *plan;
    const struct plan_table *tables;
    double *held, *load; /* [gpus] */
    double capacity, mean_load;
    double load_by_rows; /* tables from this load on go by rows */
};

static void give_all(struct proposal *p, const struct candidate *c, enum plan_sharding sharding)
{
    p->plan->entries[c->table].sharding = sharding;
    double parts = sharding == PLAN_DATA_PARALLEL ? 1 : p->plan->gpus;
    for (uint32_t g = 0; g < p->plan->gpus; g++) {
        p->held[g] += c->bytes / parts;
        p->load[g] += c->load / p->plan->gpus;
    }
}

/* The GPU with the least to do among those with room that do not have the table yet; gpus when there is none. */
static uint32_t lightest(const struct proposal *p, const struct plan_entry *entry, double bytes)
{
    uint32_t best = p->plan->gpus;
    for (uint32_t g = 0; g < p->plan->gpus; g++) {
        bool taken = false;
        for (uint32_t i = 0; i < entry->rank_count; i++) {
            taken = taken || entry->ranks[i] == g;
        }
        if (!taken && p->held[g] + bytes <= p->capacity && (best == p->plan->gpus || p->load[g] < p->load[best])) {
            best = g;
        }
    }
    return best;
}

static void give_parts(struct proposal *p, const struct candidate *c, uint32_t parts)
{
    struct plan_entry *entry = &p->plan->entries[c->table];
    double load = load_of(&p->tables[c->table], parts);
    entry->sharding = parts > 1 ? PLAN_COLUMN_WISE : PLAN_TABLE_WISE;
    for (uint32_t i = 0; i < parts; i++) {
        uint32_t to = lightest(p, entry, c->bytes / parts);
        if (to == p->plan->gpus) { /* no room for a part anywhere: rows over all */
            for (uint32_t k = 0; k < entry->rank_count; k++) {
                p->held[entry->ranks[k]] -= c->bytes / parts;
                p->load[entry->ranks[k]] -= load;
            }
            free(entry->ranks);
            entry->ranks = NULL;
            entry->rank_count = 0;
            give_all(p, c, PLAN_ROW_WISE);
            return;
        }
        add_rank(entry, to);
        p->held[to] += c->bytes / parts;
        p->load[to] += load;
    }
}

static double columns_most(const struct proposal *p, const struct candidate *c)
{
    return fmin(p->plan->gpus, fmax(1, floor(p->tables[c->table].dim / COLUMNS_MIN)));
}

/* How many of the tables with most lookups go by rows, so that the pooled rows they make everyone exchange and the largest part
 * that is left to one GPU are least in sum. */
static void choose_by_rows(struct proposal *p, const struct candidate *candidates, size_t count)
{
    bool across = p->plan->gpus > p->plan->per_node;
    double factor = across ? LOOKED_UP_PER_SENT_ACROSS : LOOKED_UP_PER_SENT_WITHIN, exchanged = 0, best = INFINITY;
    p->load_by_rows = INFINITY;
    for (size_t k = 0; k < count; k++) {
        double largest = p->mean_load;
        for (size_t i = k; i < count; i++) {
            const struct plan_table *table = &p->tables[candidates[i].table];
            double part = candidates[i].bytes <= REPLICATED_BYTES_MAX ? candidates[i].load / p->plan->gpus
                                                                      : load_of(table, columns_most(p, &candidates[i]));
            largest = fmax(largest, part);
        }
        if (exchanged + largest < best) {
            best = exchanged + largest;
            p->load_by_rows = k > 0 ? candidates[k - 1].load : INFINITY;
        }
        exchanged += 2 * factor * p->tables[candidates[k].table].row_bytes;
    }
}

static void place(struct proposal *p, const struct candidate *c)
{
    const struct plan_table *table = &p->tables[c->table];
    if (c->bytes <= REPLICATED_BYTES_MAX) {
        give_all(p, c, PLAN_DATA_PARALLEL);
    } else if (c->bytes > p->capacity / 2 || c->load >= p->load_by_rows) {
        give_all(p, c, PLAN_ROW_WISE);
    } else {
        double most = columns_most(p, c), parts = 1;
        while (parts < most && load_of(table, parts) > LOAD_SHARE_MAX * p->mean_load) {
            parts++;
        }
        uint32_t even = (uint32_t)fmax(parts, 1);
        while (even > 1 && fmod(table->dim, even) != 0) {
            even--;
        }
        give_parts(p, c, even);
    }
}

enum sim_status plan_propose(const struct plan_table *tables, size_t count, uint32_t gpus, uint32_t per_node,
                             double bytes_per_gpu, struct plan **out, struct sim_error *error)
{
    struct candidate *candidates = calloc(count + 1, sizeof *candidates);
    struct proposal p = { .tables = tables, .capacity = bytes_per_gpu };
    double bytes = 0, load = 0, largest_bytes = 0;
    const char *largest = "";
    SIM_ASSERT(candidates != NULL, "no memory for a plan");
    *out = NULL;
    for (uint32_t t = 0; t < count; t++) {
        double table_bytes = tables[t].rows * (tables[t].row_bytes + tables[t].state_bytes);
        candidates[t] = (struct candidate){ t, table_bytes, load_of(&tables[t], 1) };
        largest = table_bytes > largest_bytes ? tables[t].name : largest;
        largest_bytes = fmax(largest_bytes, table_bytes);
        bytes += table_bytes;
        load += candidates[t].load;
    }
    if (bytes > bytes_per_gpu * gpus) {
        free(candidates);
        return sim_fail(error, SIM_DOES_NOT_FIT,
                        "tables take %.1f GiB (the largest, %s, %.1f), %u GPU%s ha%s %.1f GiB for them: %.1f GiB too much; %.0f GPUs would do",
                        bytes / GIB, largest, largest_bytes / GIB, gpus, gpus == 1 ? "" : "s", gpus == 1 ? "s" : "ve",
                        bytes_per_gpu * gpus / GIB, (bytes - bytes_per_gpu * gpus) / GIB, ceil(bytes / bytes_per_gpu));
    }
    p.plan = plan_create(count, gpus, per_node);
    p.held = calloc(gpus, sizeof *p.held);
    p.load = calloc(gpus, sizeof *p.load);
    SIM_ASSERT(p.held != NULL && p.load != NULL, "no memory for a plan");
    p.mean_load = load / gpus;
    qsort(candidates, count, sizeof candidates[0], by_load);
    choose_by_rows(&p, candidates, count);
    for (size_t i = 0; i < count; i++) {
        if (gpus == 1) {
            add_rank(&p.plan->entries[candidates[i].table], 0);
        } else {
            place(&p, &candidates[i]);
        }
    }
    double most = 0;
    for (uint32_t g = 0; g < gpus; g++) {
        most = fmax(most, p.load[g]);
    }
    p.plan->proposed = true;
    snprintf(p.plan->how, sizeof p.plan->how, "proposed: %.1f GiB of tables, most lookups on a GPU %.2f times the mean",
             bytes / GIB, gpus > 1 ? most / p.mean_load : 1);
    free(candidates);
    free(p.held);
    free(p.load);
    *out = p.plan;
    return SIM_OK;
}

void plan_explain(const struct plan *plan, const struct plan_table *tables, uint32_t table, char *text, size_t capacity)
{
    const struct plan_entry *entry = &plan->entries[table];
    const struct plan_table *of = &tables[table];
    double gib = of->rows * (of->row_bytes + of->state_bytes) / GIB;
    static const char *const why[PLAN_SHARDINGS] = {
        "whole, on the GPU with the least to do",
        "its lookups are more than a GPU's share",
        "too large for a GPU, or too many lookups for one even by columns",
        "by rows within a node, to keep its reduction off the network",
        "so small that every GPU holds it",
        "in host memory behind a cache",
    };
    int used = snprintf(text, capacity, "table %.40s (%.3g rows x %g, %.3g ids, %.2f GiB): %s", of->name, of->rows, of->dim,
                        of->pooling, gib, plan_sharding_text(entry->sharding));
    for (uint32_t i = 0; i < entry->rank_count && i < 8 && used > 0 && (size_t)used + 48 < capacity; i++) {
        used += snprintf(text + used, capacity - (size_t)used, "%s%u", i == 0 ? " on " : ",", entry->ranks[i]);
    }
    double members = entry->ranks != NULL ? entry->rank_count : plan->group;
    bool by_rows = entry->sharding == PLAN_ROW_WISE || entry->sharding == PLAN_TABLE_ROW_WISE;
    if (used > 0 && (size_t)used < capacity) {
        used += snprintf(text + used, capacity - (size_t)used, ": %s", plan->proposed ? why[entry->sharding] : "as asked for");
    }
    if (entry->sharding == PLAN_COLUMN_WISE && members == 1 && used > 0 && (size_t)used < capacity) {
        used += snprintf(text + used, capacity - (size_t)used, "; one shard: %g columns make no two of %g or more", of->dim, COLUMNS_MIN);
    }
    if (by_rows && of->rows < members && used > 0 && (size_t)used < capacity) { /* blocks of one row: the last GPUs have none */
        snprintf(text + used, capacity - (size_t)used, "; %g of %g GPUs hold none of its %g rows", members - of->rows, members, of->rows);
    }
}
