/* Plans: every row and column of a table is somewhere once, loads add up, and wrong plans are refused in one line. */
#include "sim/core/data_path.h"
#include "workloads/models/model_internal.h"
#include "workloads/plan.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct plan_table tables[] = {
    { "a", 1000000, 64, 256, 4, 3, 0 },
    { "b", 500000, 128, 512, 4, 10, 0 },
    { "c", 4000, 32, 128, 4, 1, 0 },
};
#define TABLES 3
#define MIB 1048576.0

static double everything(void)
{
    double bytes = 0;
    for (size_t t = 0; t < TABLES; t++) {
        bytes += tables[t].rows * tables[t].row_bytes;
    }
    return bytes;
}

/* Rows x columns of all shards: once each, or once a GPU where a table is replicated. Optimiser state aside. */
Test(plan, nothing_is_lost_or_doubled)
{
    for (int kind = 0; kind < PLAN_SHARDINGS; kind++) {
        struct plan *plan = NULL;
        struct plan_shard shards[TABLES];
        struct sim_error error = { 0 };
        double elements = 0, lookups = 0;
        cr_assert_eq(plan_uniform((enum plan_sharding)kind, tables, TABLES, 4, 4, &plan, &error), SIM_OK, "%s", error.text);
        for (uint32_t rank = 0; rank < 4; rank++) {
            size_t count = plan_shards(plan, tables, rank, shards);
            for (size_t i = 0; i < count; i++) {
                const struct plan_table *of = &tables[shards[i].table];
                elements += shards[i].rows * shards[i].columns * of->row_bytes / of->dim;
                lookups += shards[i].lookup_share * shards[i].columns / of->dim;
            }
        }
        double copies = kind == PLAN_DATA_PARALLEL ? 4 : 1;
        cr_expect(fabs(elements / (copies * everything()) - 1) < 1e-9, "%s: %g of %g bytes",
                  plan_sharding_text((enum plan_sharding)kind), elements, everything());
        cr_expect(fabs(lookups - TABLES) < 1e-6, "%s: %g lookups of 3 tables", plan_sharding_text((enum plan_sharding)kind),
                  lookups);
        plan_destroy(plan);
    }
}

/* a 248 MiB with its state, b 246 MiB: above half of 300 MiB they go by rows; at 600 MiB they stay whole on different GPUs.
 * c is 0.5 MiB: everywhere. */
/* MLPerf's DLRM v2 on eight GPUs: 214 ids an example of rows of 512 bytes, and 128 a lookup beside: 17.1 kB a GPU in the mean. The table
 * with 100 of the ids in four parts of 32 columns has 100 x (128 + 128) = 25.6 kB a GPU, by rows an eighth of 64 kB; the next, 27 ids,
 * is 17.3 kB whole and 10.4 in two parts. */
Test(plan, columns_do_not_divide_what_a_lookup_costs)
{
    static const struct plan_table three[] = { { "a", 40000000, 128, 512, 4, 100, 0 }, { "b", 40000000, 128, 512, 4, 27, 0 },
                                               { "c", 40000000, 128, 512, 4, 87, 0 } };
    struct plan_table many[89];
    struct plan *plan = NULL;
    struct sim_error error = { 0 };
    for (int t = 0; t < 89; t++) { /* the other 87 ids are tables of one */
        many[t] = three[t < 2 ? t : 2];
        many[t].pooling = t < 2 ? three[t].pooling : 1;
        many[t].rows = t < 2 ? three[t].rows : 100000;
    }
    cr_assert_eq(plan_propose(many, 89, 8, 8, 96 * 1024 * MIB, &plan, &error), SIM_OK, "%s", error.text);
    cr_expect_eq(plan->entries[0].sharding, PLAN_ROW_WISE);
    cr_expect_eq(plan->entries[1].sharding, PLAN_COLUMN_WISE);
    cr_expect_eq(plan->entries[1].rank_count, 2);
    char text[200];
    plan_explain(plan, many, 1, text, sizeof text);
    cr_expect(strstr(text, "column_wise") != NULL && strstr(text, "share") != NULL, "%s", text);
    plan_destroy(plan);
}

/* Half of a table's ids are padding, row 0: of four GPUs by rows the first has 0.5 + 0.5 / 4 of the ids, four fifths of them padding,
 * the others an eighth each and none. Whole tables have all. */
Test(plan, a_hot_row_lies_on_one_gpu)
{
    struct plan_table skewed[TABLES] = { tables[0], tables[1], tables[2] };
    struct plan_shard shards[TABLES];
    struct plan *plan = NULL;
    struct sim_error error = { 0 };
    skewed[1].hot_share = 0.5;
    cr_assert_eq(plan_uniform(PLAN_ROW_WISE, skewed, TABLES, 4, 4, &plan, &error), SIM_OK, "%s", error.text);
    for (uint32_t rank = 0; rank < 4; rank++) {
        cr_assert_eq(plan_shards(plan, skewed, rank, shards), TABLES);
        cr_expect_eq(shards[0].lookup_share, 0.25);
        cr_expect_float_eq(shards[1].lookup_share, rank == 0 ? 0.625 : 0.125, 1e-12);
        cr_expect_float_eq(shards[1].hot_share, rank == 0 ? 0.8 : 0, 1e-12);
    }
    cr_expect_gt(plan_load(plan, skewed, 0), 3 * plan_load(plan, skewed, 1));
    plan_destroy(plan);
    cr_assert_eq(plan_uniform(PLAN_TABLE_WISE, skewed, TABLES, 4, 4, &plan, &error), SIM_OK, "%s", error.text);
    cr_assert_eq(plan_shards(plan, skewed, 1, shards), 1);
    cr_expect_eq(shards[0].hot_share, 0.5);
    plan_destroy(plan);
}

/* Of 7,808 bytes an example (128 a lookup beside its row) b has 6,400: four columns would leave a GPU 10 x (128 + 128) = 2,560, rows
 * leave the mean of 1,952 and 512 of pooled rows sent. */
Test(plan, a_proposal_splits_what_is_too_large)
{
    struct plan *plan = NULL;
    struct sim_error error = { 0 };
    cr_assert_eq(plan_propose(tables, TABLES, 4, 4, 300 * MIB, &plan, &error), SIM_OK, "%s", error.text);
    cr_expect_eq(plan->entries[0].sharding, PLAN_ROW_WISE);
    cr_expect_eq(plan->entries[2].sharding, PLAN_DATA_PARALLEL);
    plan_destroy(plan);
    cr_assert_eq(plan_propose(tables, TABLES, 4, 4, 600 * MIB, &plan, &error), SIM_OK, "%s", error.text);
    cr_expect_eq(plan->entries[1].sharding, PLAN_ROW_WISE);
    cr_expect_eq(plan->entries[0].sharding, PLAN_TABLE_WISE);
    plan_destroy(plan);
}

/* One table with 90 of 100 ids on 16 GPUs of two nodes: by its two parts of 32 columns a GPU would look up 45 rows an example; by rows
 * each looks up a sixteenth, and the two pooled rows exchanged cost as much as 6 looked up. The other, 10 ids, stays in two
 * parts of 5: cheaper than 6. */
Test(plan, too_many_lookups_for_columns_go_by_rows)
{
    static const struct plan_table skewed[] = { { "hot", 1000000, 64, 256, 4, 90, 0 }, { "cool", 1000000, 64, 256, 4, 10, 0 } };
    struct plan *plan = NULL;
    struct sim_error error = { 0 };
    cr_assert_eq(plan_propose(skewed, 2, 16, 8, 4096 * MIB, &plan, &error), SIM_OK, "%s", error.text);
    cr_expect_eq(plan->entries[0].sharding, PLAN_ROW_WISE);
    cr_expect_eq(plan->entries[1].sharding, PLAN_COLUMN_WISE);
    double most = 0, sum = 0;
    for (uint32_t g = 0; g < 16; g++) {
        double load = plan_load(plan, skewed, g);
        most = load > most ? load : most;
        sum += load;
    }
    cr_expect(most < 2 * sum / 16, "%g of a mean of %g", most, sum / 16);
    plan_destroy(plan);
}

/* 494 MiB of tables on two GPUs of 200 MiB: 94 MiB too much, three would do. */
Test(plan, too_much_is_said_with_what_would_do)
{
    struct plan *plan = NULL;
    struct sim_error error = { 0 };
    cr_expect_eq(plan_propose(tables, TABLES, 2, 2, 200 * MIB, &plan, &error), SIM_DOES_NOT_FIT);
    cr_expect(strstr(error.text, "3 GPUs would do") != NULL, "%s", error.text);
    cr_expect_null(plan);
}

/* 204.2 M rows of 128 floats and one of state are 98.1 GiB, ten times that 981: 96 GiB a GPU times eight is too little, two thirds of
 * 288 GiB times eight are not. What the user says holds. */
Test(plan, a_proposal_knows_the_devices_memory)
{
    struct model *model = NULL;
    struct graph *graph = NULL;
    struct sim_error error = { 0 };
    char path[DATA_PATH_CAPACITY];
    cr_assert_eq(data_path_find("workloads/models", "model", "mlperf_dlrm_v2", path, &error), SIM_OK, "%s", error.text);
    cr_assert_eq(model_read(path, &model, &error), SIM_OK, "%s", error.text);
    cr_assert_eq(model_set(model, "gpus=8", &error), SIM_OK, "%s", error.text);
    for (uint32_t t = 0; t < model->table_count; t++) {
        model->tables[t].rows *= 10;
    }
    cr_expect_eq(model_graph(model, &graph, &error), SIM_DOES_NOT_FIT);
    cr_expect(strstr(error.text, "8 GPUs have 768.0 GiB") != NULL, "%s", error.text);
    model_room(model, 288);
    cr_expect_eq(model_graph(model, &graph, &error), SIM_OK, "%s", error.text);
    graph_destroy(graph);
    cr_assert_eq(model_set(model, "table_gib=50", &error), SIM_OK, "%s", error.text);
    cr_expect_eq(model_graph(model, &graph, &error), SIM_DOES_NOT_FIT);
    cr_expect(strstr(error.text, "8 GPUs have 400.0 GiB") != NULL, "%s", error.text);
    model_destroy(model);
}

Test(plan, a_file_is_read)
{
    struct plan *plan = NULL;
    struct plan_shard shards[TABLES];
    struct sim_error error = { 0 };
    cr_assert_eq(plan_read(SOURCE_DIR "/tests/fixtures/plans/three_tables.json", tables, TABLES, 8, 8, &plan, &error), SIM_OK,
                 "%s", error.text);
    cr_expect_eq(plan->group, 4, "two copies on eight GPUs");
    cr_expect_eq(plan_shards(plan, tables, 6, shards), 2, "rank 6 is rank 2 of the second copy: rows of a, and c");
    cr_expect_eq(shards[0].rows, 250000);
    cr_expect_eq(shards[1].sharding, PLAN_HOST);
    cr_expect_eq(plan_shard_bytes(&tables[2], &shards[1]), 0.25 * 4000 * 132);
    cr_expect_eq(plan_shard_host_bytes(&tables[2], &shards[1]), 4000 * 132);
    plan_destroy(plan);
}

static void expect_refused(const char *text, const char *says)
{
    char path[] = "/tmp/reckon_plan_XXXXXX.json";
    int file = mkstemps(path, 5);
    struct plan *plan = NULL;
    struct sim_error error = { 0 };
    cr_assert(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
    close(file);
    enum sim_status status = plan_read(path, tables, TABLES, 4, 4, &plan, &error);
    unlink(path);
    cr_expect(status != SIM_OK, "accepted: %s", text);
    cr_expect(strstr(error.text, says) != NULL, "'%s' does not say '%s'", error.text, says);
    cr_expect_null(plan);
}

#define OURS(entries) "{\"schema\": \"reckon.plan/1\", \"tables\": [" entries "]}"
#define A "{\"table\": \"a\", \"sharding\": \"row_wise\"}"
#define B "{\"table\": \"b\", \"sharding\": \"row_wise\"}"

Test(plan, wrong_plans_are_refused)
{
    expect_refused(OURS(A ", " B), "misses table c");
    expect_refused(OURS(A ", " A), "planned twice");
    expect_refused(OURS("{\"table\": \"z\", \"sharding\": \"row_wise\"}"), "no table 'z'");
    expect_refused(OURS("{\"table\": \"a\", \"sharding\": \"diagonal\"}"), "must be table_wise");
    expect_refused(OURS("{\"table\": \"a\", \"sharding\": \"table_wise\", \"ranks\": [4]}"), "must be 0 to 3");
    expect_refused(OURS("{\"table\": \"a\", \"sharding\": \"table_wise\"}"), "needs 'ranks'");
    expect_refused(OURS("{\"table\": \"c\", \"sharding\": \"column_wise\", \"ranks\": [0, 1, 2]}"), "32 columns, which 3 ranks cannot share in groups of 4");
    expect_refused("{\"what\": 1}", "nor a TorchRec plan");
}

Test(plan, a_torchrec_plan_is_read)
{
    static const char text[] =
        "{\"model.sparse\": {\"a\": {\"sharding_type\": \"table_wise\", \"compute_kernel\": \"fused\", \"ranks\": [2]},"
        " \"b\": {\"sharding_type\": \"row_wise\", \"compute_kernel\": \"fused\", \"ranks\": [0, 1, 2, 3]},"
        " \"c\": {\"sharding_type\": \"table_wise\", \"compute_kernel\": \"fused_uvm_caching\", \"ranks\": [1]}}}";
    char path[] = "/tmp/reckon_plan_XXXXXX.json";
    int file = mkstemps(path, 5);
    struct plan *plan = NULL;
    struct sim_error error = { 0 };
    cr_assert(file >= 0 && write(file, text, sizeof text - 1) == (ssize_t)(sizeof text - 1));
    close(file);
    cr_assert_eq(plan_read(path, tables, TABLES, 4, 4, &plan, &error), SIM_OK, "%s", error.text);
    unlink(path);
    cr_expect_eq(plan->entries[0].ranks[0], 2);
    cr_expect_eq(plan->entries[1].sharding, PLAN_ROW_WISE);
    cr_expect_eq(plan->entries[2].sharding, PLAN_HOST);
    plan_destroy(plan);
}
