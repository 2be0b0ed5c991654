/* Embedding tables spread over GPUs, looked up by one kernel per GPU with the optimiser in the backward pass, as sharded
 * embedding-bag collections run: ids exchanged, own shards pooled for all examples, pooled rows exchanged while the dense
 * layers before the interaction run; the same way back. Names after torchrec/distributed/embeddingbag.py.
 *
 * Model. Shards of one shape are one launch; the library's one kernel over all shapes saves their tails. */
#include "workloads/models/build_internal.h"
#include "workloads/models/tape_internal.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KERNEL_WIDTH_MAX 256.0 /* wider rows are looked up in parts */
#define ID_BYTES 8.0
#define EXCHANGE_STREAM 1
#define INPUT_STREAM 2

struct lookup { /* shards of one shape */
    double bags, length, width, rows, skew, hot_share;
    uint32_t tables;
    enum eager_type type;
    enum model_optimizer optimizer;
};

struct sharded {
    struct build *build;
    struct plan_shard *shards;
    size_t shard_count;
    struct lookup *lookups;
    size_t lookup_count;
    double whole_width;      /* columns of own table- and column-wise shards */
    double partial_width;    /* of own row-wise shards: partial sums of whole tables */
    double local_width;      /* of replicated tables */
    double replicated_bytes; /* of their gradients */
    double miss_bytes;       /* rows fetched from the host, one way */
    uint32_t exchanged;      /* record behind an exchange */
};

/* ---- what a rank looks up -------------------------------------------------------------------------------------- */

/* Share of uniform or Zipf draws that fall on the hottest `share` of `rows` rows: ratio of partial harmonic sums. */
static double hit_rate(double rows, double share, double skew)
{
    double kept = fmax(rows * share, 1);
    if (skew <= 0) {
        return share;
    }
    double e = 1 - skew;
    return fabs(e) < 1e-6 ? (log(kept) + 0.5772) / (log(rows) + 0.5772)
                          : (pow(kept, e) - 1) / (pow(rows, e) - 1) > 1 ? 1 : (pow(kept, e) - 1) / (pow(rows, e) - 1);
}

/* Examples, or positions of them, that ask the table once or pool. */
static double bags_of(const struct sharded *s, const struct model_table *table)
{
    bool positions = s->build->model->sequence_input && !table->per_example;
    return positions ? s->build->positions : s->build->batch;
}

#define DISTINCT_STEPS 64 /* of equal ratio per e-fold of ranks */

/* Of `ids` draws over the table, uniform or Zipf, the expected number of distinct rows over them: sum over ranks of
 * 1 - (1 - p)^ids, ranks beyond the first few together where p hardly changes. */
static double distinct_share(const struct model_table *table, double ids)
{
    double hot = table->hot_share, cold = ids * (1 - hot), weight = 0, found = hot > 0 ? 1 : 0;
    for (int pass = 0; pass < 2; pass++) { /* the weights' sum, then the draws */
        for (double rank = 1, step; rank <= table->rows; rank += step) {
            step = fmin(fmax(floor(rank / DISTINCT_STEPS), 1), table->rows - rank + 1);
            double of_rank = pow(rank + (step - 1) / 2, -table->skew);
            if (pass == 0) {
                weight += step * of_rank;
            } else {
                found += step * -expm1(-cold * of_rank / weight);
            }
        }
    }
    return fmin(found / ids, 1);
}

/* Share of the ids of own examples that are asked for: each row once, where duplicates are taken out before the exchange. */
static double asked_share(const struct sharded *s, const struct model_table *table)
{
    bool repeats = s->build->model->deduplicated && s->build->model->sequence_input && !table->per_example;
    return repeats ? distinct_share(table, bags_of(s, table) * table->pooling) : 1;
}

/* A mean over examples, to four digits: shards of one size then ask for one sort. */
static double to_four_digits(double count)
{
    double unit = pow(10, fmax(floor(log10(fmax(count, 1))) - 3, 0));
    return floor(count / unit + 0.5) * unit;
}

static void add_lookup(struct sharded *s, const struct model_table *table, const struct plan_shard *shard)
{
    double group = s->build->model->plan->group;
    double parts = ceil(shard->columns / KERNEL_WIDTH_MAX);
    double asked = asked_share(s, table);
    struct lookup lookup = { .bags = (asked < 1 ? to_four_digits(bags_of(s, table) * asked) : bags_of(s, table)) * group,
                             .length = table->pooling * shard->lookup_share,
                             .width = ceil(shard->columns / parts / 8) * 8,
                             .rows = shard->rows,
                             .skew = asked < 1 ? 0 : table->skew, /* distinct on each GPU, they repeat at most once a GPU */
                             .hot_share = asked < 1 ? 0 : shard->hot_share,
                             .tables = (uint32_t)parts,
                             .type = table->type,
                             .optimizer = table->optimizer };
    if (shard->sharding == PLAN_DATA_PARALLEL) {
        lookup.bags = bags_of(s, table);
        lookup.length = table->pooling;
    }
    if (lookup.length < 1) { /* most bags get no id here: the others get one */
        lookup.bags = fmax(to_four_digits(lookup.bags * lookup.length), 1);
        lookup.length = 1;
    }
    lookup.length = floor(lookup.length + 0.5);
    for (size_t i = 0; i < s->lookup_count; i++) {
        struct lookup *known = &s->lookups[i];
        if (known->bags == lookup.bags && known->length == lookup.length && known->width == lookup.width &&
            known->rows == lookup.rows && known->type == lookup.type && known->skew == lookup.skew &&
            known->hot_share == lookup.hot_share) {
            known->tables += lookup.tables;
            return;
        }
    }
    s->lookups[s->lookup_count++] = lookup;
}

static void add_shard(struct sharded *s, const struct plan_shard *shard)
{
    const struct model_table *table = &s->build->model->tables[shard->table];
    double columns = shard->columns * bags_of(s, table) * asked_share(s, table) / s->build->batch;
    add_lookup(s, table, shard);
    bool by_rows = shard->sharding == PLAN_ROW_WISE || shard->sharding == PLAN_TABLE_ROW_WISE;
    if (shard->sharding == PLAN_DATA_PARALLEL) {
        s->local_width += columns;
        s->replicated_bytes += table->rows * table->dim * 4;
    } else if (by_rows && !s->build->model->sequence_input) {
        s->partial_width += columns;
    } else { /* of a sequence each row travels as it is: none is a partial sum */
        s->whole_width += columns * shard->lookup_share;
    }
    if (shard->cache_share < 1) {
        double ids = bags_of(s, table) * s->build->model->plan->group * table->pooling;
        s->miss_bytes += ids * (1 - hit_rate(table->rows, shard->cache_share, table->skew)) * table->dim *
                         eager_type_bytes(table->type);
    }
}

struct sharded *sharded_begin(struct build *build)
{
    struct sharded *s = calloc(1, sizeof *s);
    const struct plan *plan = build->model->plan;
    SIM_ASSERT(s != NULL, "out of memory");
    struct plan_table *tables = model_plan_tables(build->model);
    s->build = build;
    s->shards = calloc(plan->table_count + 1, sizeof *s->shards);
    s->lookups = calloc(plan->table_count + 1, sizeof *s->lookups);
    SIM_ASSERT(s->shards != NULL && s->lookups != NULL, "out of memory");
    s->shard_count = plan_shards(plan, tables, build->rank, s->shards);
    for (size_t i = 0; i < s->shard_count; i++) {
        const struct plan_table *table = &tables[s->shards[i].table];
        eager_permanent(build->eager, plan_shard_bytes(table, &s->shards[i]), GRAPH_MEMORY_EMBEDDINGS);
        build->eager->graph->host_memory_bytes += plan_shard_host_bytes(table, &s->shards[i]);
        add_shard(s, &s->shards[i]);
    }
    free(tables);
    return s;
}

void sharded_end(struct sharded *s)
{
    if (s != NULL) {
        free(s->shards);
        free(s->lookups);
        free(s);
    }
}

/* ---- calls ----------------------------------------------------------------------------------------------------- */

static void lookup_params(const struct lookup *l, char text[256])
{
    int used = snprintf(text, 256, "B=%.0f;T=%u;L=%.0f;D=%.0f;rows=%.0f;prec=%s", l->bags, l->tables, l->length, l->width,
                        fmin(l->rows, 4e9), l->type == EAGER_FP32 ? "fp32" : "fp16");
    if (l->skew > 0) {
        used += snprintf(text + used, 256 - (size_t)used, ";generator=zipf;alpha=%g", l->skew);
    }
    if (l->hot_share > 0) {
        snprintf(text + used, 256 - (size_t)used, ";hot_share=%g", l->hot_share);
    }
}

/* Communication on a stream of its own, behind what stream 0 has so far; gives the record behind it. */
static uint32_t beside(struct sharded *s, uint32_t stream, const char *kind, double bytes)
{
    struct build *build = s->build;
    struct eager *eager = build->eager;
    eager_wait(eager, stream, eager_record(eager, 0));
    eager_collective(eager, stream, kind, bytes, build->model->plan->group, build->group, build->collective_sequence++);
    return eager_record(eager, stream);
}

static bool is_spread(const struct sharded *s)
{
    return s->build->model->plan->group > 1;
}

/* Ids and lengths of own examples to the GPUs that hold their rows. A pipelined loader does it for the next batch, beside
 * this one's work; without, the step waits for it. */
static void exchange_ids(struct sharded *s)
{
    struct build *build = s->build;
    const struct model *model = build->model;
    double bytes = 0;
    if (!is_spread(s)) {
        return;
    }
    for (uint32_t t = 0; t < model->table_count; t++) {
        double copies = model->plan->entries[t].sharding == PLAN_COLUMN_WISE ? model->plan->entries[t].rank_count : 1;
        bool stays = model->plan->entries[t].sharding == PLAN_DATA_PARALLEL;
        double ids = model->tables[t].pooling * asked_share(s, &model->tables[t]);
        bytes += stays ? 0 : bags_of(s, &model->tables[t]) * (ids * copies + 1) * ID_BYTES;
    }
    if (bytes <= 0) {
        return;
    }
    eager_host(build->eager, "KJTAllToAll .c10d::alltoall_base_ ..record_param_comms .split ..narrow ...slice");
    uint32_t done = beside(s, INPUT_STREAM, "all_to_all", bytes);
    if (!model->pipelined) {
        eager_wait(build->eager, 0, done);
    }
}

/* ---- backward -------------------------------------------------------------------------------------------------- */

/* Behind the dense layers' part: waits for the exchanged gradients, then sorts, sums and updates the rows. */
static void lookup_backward(struct eager *eager, struct function *f)
{
    struct sharded *s = f->context;
    char params[256];
    if (is_spread(s) && s->exchanged != UINT32_MAX) {
        eager_wait(eager, 0, s->exchanged);
    }
    eager_host(eager, "..split_embedding_backward_codegen_rowwise_adagrad ...empty ...empty ...empty ...empty");
    double keys = 0;
    for (size_t i = 0; i < s->lookup_count; i++) {
        keys += s->lookups[i].bags * s->lookups[i].length * s->lookups[i].tables;
    }
    struct storage *sorted = eager_storage(eager, keys * 4 * 8, GRAPH_MEMORY_ACTIVATIONS);
    for (size_t i = 0; i < s->lookup_count; i++) {
        lookup_params(&s->lookups[i], params);
        eager_kernel(eager, "embedding", "fbgemm::split_embedding_backward", "tbe", "backward", "%s", params);
    }
    eager_drop(eager, sorted);
    if (s->miss_bytes > 0) {
        eager_host(eager, "fbgemm::lxu_cache_flush");
        eager_kernel(eager, "memory", "fbgemm::lxu_cache_flush", "memcpy", "d2h_pinned", "mb=%.6g", s->miss_bytes / 1048576);
    }
}

static bool is_spread_over_positions(const struct sharded *s, uint32_t table)
{
    return s->build->model->sequence_input && asked_share(s, &s->build->model->tables[table]) < 1;
}

/* The gradients of the positions of a row are added up before they leave. */
static void gather_gradients(struct sharded *s)
{
    for (uint32_t t = 0; t < s->build->model->table_count; t++) {
        const struct model_table *table = &s->build->model->tables[t];
        double ids = bags_of(s, table) * table->pooling;
        if (is_spread_over_positions(s, t)) {
            eager_host(s->build->eager, "..index_select_backward ...new_zeros ....zero_ ...index_add_");
            eager_kernel(s->build->eager, "embedding", "aten::index_add_", "scatter", "index_add", "n=%.0f;D=%.0f;rows=%.0f;dtype=fp32",
                         ids, table->dim, fmax(to_four_digits(ids * asked_share(s, table)), 1));
        }
    }
}

/* Before it: the gradients of pooled rows leave as soon as they are there. */
static void wait_backward(struct eager *eager, struct function *f)
{
    struct sharded *s = f->context;
    struct tensor *gradient = f->in[0];
    double bytes = eager_type_bytes(gradient->type), batch = s->build->batch, group = s->build->model->plan->group;
    s->exchanged = UINT32_MAX;
    gather_gradients(s);
    f->out[0] = eager_tensor(eager, batch * group, s->whole_width + s->partial_width + s->local_width / group, gradient->type);
    eager_owned_by(eager, f->out[0]->storage, GRAPH_MEMORY_COMMUNICATION);
    if (!is_spread(s)) {
        return;
    }
    eager_host(eager, "..c10d::alltoall_base_ ...record_param_comms");
    if (s->whole_width > 0 || s->partial_width == 0) {
        s->exchanged = beside(s, EXCHANGE_STREAM, "all_to_all", batch * group * fmax(s->whole_width, 1) * bytes);
    }
    if (s->partial_width > 0) {
        eager_host(eager, "..c10d::_allgather_base_ ...record_param_comms");
        s->exchanged = beside(s, EXCHANGE_STREAM, "all_gather", batch * group * s->partial_width * bytes);
    }
}

/* ---- forward --------------------------------------------------------------------------------------------------- */

struct tensor *sharded_request(struct sharded *s)
{
    struct eager *eager = s->build->eager;
    double batch = s->build->batch, group = s->build->model->plan->group;
    double width = s->whole_width + s->partial_width + s->local_width / group;
    char params[256];
    exchange_ids(s);
    if (s->miss_bytes > 0) {
        eager_host(eager, "fbgemm::lxu_cache_populate");
        eager_kernel(eager, "memory", "fbgemm::lxu_cache_populate", "memcpy", "h2d_pinned", "mb=%.6g",
                     s->miss_bytes / 1048576);
    }
    eager_host(eager, "fbgemm::split_embedding_codegen_lookup_rowwise_adagrad_function .empty .empty .empty");
    struct tensor *pooled = eager_tensor(eager, batch * group, width, s->build->model->exchange);
    double bytes = eager_type_bytes(s->build->model->exchange);
    for (size_t i = 0; i < s->lookup_count; i++) {
        lookup_params(&s->lookups[i], params);
        eager_kernel(eager, "embedding", "fbgemm::split_embedding_lookup", "tbe", "forward", "%s%s", params,
                     s->build->model->sequence_input ? ";pooling=none" : "");
    }
    struct function *f = eager_function(eager, "SplitLookupFunction", lookup_backward, 1);
    if (f != NULL) {
        f->context = s;
        eager_produce(pooled, f, 0);
    }
    s->exchanged = UINT32_MAX;
    if (is_spread(s)) {
        if (s->whole_width > 0 || s->partial_width == 0) { /* a GPU without a table takes part, with nothing of its own */
            eager_host(eager, "PooledEmbeddingsAllToAll .c10d::alltoall_base_ ..record_param_comms");
            s->exchanged = beside(s, EXCHANGE_STREAM, "all_to_all", batch * group * fmax(s->whole_width, 1) * bytes);
        }
        if (s->partial_width > 0) {
            eager_host(eager, "PooledEmbeddingsReduceScatter .c10d::_reduce_scatter_base_ ..record_param_comms");
            s->exchanged = beside(s, EXCHANGE_STREAM, "reduce_scatter", batch * group * s->partial_width * bytes);
        }
    }
    return pooled;
}

struct tensor *sharded_wait(struct sharded *s, struct tensor *pooled)
{
    struct eager *eager = s->build->eager;
    const struct model *model = s->build->model;
    bool sequence = model->sequence_input;
    double width = sequence ? model->tables[0].dim : 0, rows = sequence ? s->build->positions : s->build->batch;
    for (uint32_t t = 0; t < model->table_count && !sequence; t++) {
        width += model->tables[t].dim;
    }
    if (s->exchanged != UINT32_MAX) {
        eager_wait(eager, 0, s->exchanged);
    }
    eager_host(eager, "KeyedTensor .cat ..view");
    struct tensor *y = eager_tensor(eager, rows, width, model->exchange);
    int bytes = (int)eager_type_bytes(model->exchange);
    for (uint32_t t = 0; t < model->table_count; t++) {
        if (is_spread_over_positions(s, t)) {
            double ids = bags_of(s, &model->tables[t]) * model->tables[t].pooling;
            eager_host(eager, "index_select");
            eager_kernel(eager, "embedding", "aten::index_select", "scatter", "index_select", "n=%.0f;D=%.0f;rows=%.0f;dtype=fp32", ids,
                         model->tables[t].dim, fmax(to_four_digits(ids * asked_share(s, &model->tables[t])), 1));
        }
    }
    for (uint32_t t = 1; t < model->table_count && sequence; t++) { /* features of a position are added up */
        if (model->tables[t].per_example && !model->tables[0].per_example) {
            continue; /* stands before the sequence, as a position of its own */
        }
        eager_host(eager, "add_");
        eager_kernel(eager, "elementwise", "aten::add_", "elementwise", "map",
                     "n=%.0f;bytes_in=%d:%d;bytes_out=%d;valu=1;sfu=0;style=vectorized;cache=produced", rows * width, bytes,
                     bytes, bytes);
    }
    eager_owned_by(eager, y->storage, GRAPH_MEMORY_COMMUNICATION);
    struct function *f = eager_function(eager, "PooledWait", wait_backward, 1);
    if (f != NULL) {
        f->context = s;
        eager_edge(f, 0, pooled);
        eager_produce(y, f, 0);
    }
    return y;
}

/* Gradients of replicated tables with the dense ones, and the copies of a 2D plan brought together. */
void sharded_reduce(struct sharded *s)
{
    struct build *build = s->build;
    struct eager *eager = build->eager;
    const struct plan *plan = build->model->plan;
    double own = 0;
    if (s->replicated_bytes > 0 && build->gpus > 1) {
        eager_host(eager, "c10d::allreduce_ .record_param_comms");
        eager_collective(eager, 0, "all_reduce", s->replicated_bytes, build->gpus, "world", build->collective_sequence++);
    }
    if (plan->group < build->gpus) {
        struct plan_table *tables = model_plan_tables(build->model);
        for (size_t i = 0; i < s->shard_count; i++) {
            own += plan_shard_bytes(&tables[s->shards[i].table], &s->shards[i]);
        }
        free(tables);
        eager_host(eager, "DMPCollection::sync .c10d::allreduce_ ..record_param_comms");
        eager_collective(eager, 0, "all_reduce", own, build->gpus / plan->group, "copies", build->collective_sequence++);
    }
}
