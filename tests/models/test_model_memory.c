/* The allocator's peak, by hand and against what was measured. */
#include "sim/core/data_path.h"
#include "sim/step/memory.h"
#include "workloads/models/model.h"
#include "workloads/models/model_internal.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define GIB 1073741824.0
#define FOR_EVER UINT32_MAX

static struct graph_allocation block(uint32_t from, uint32_t until, uint32_t owner, double bytes)
{
    return (struct graph_allocation){ .from_node = from, .until_node = until, .owner = owner, .bytes = bytes };
}

/* 100 for ever; 50 over nodes 2 to 6; 30 from 6 on: the 50 are back before the 30 are taken, so the peak is 150 at node 2. */
Test(step_memory, a_block_given_back_makes_room_for_the_next)
{
    struct graph *graph = graph_create("blocks");
    struct step_memory memory;
    graph_add_ranks(graph, 1);
    const struct graph_allocation blocks[] = { block(0, FOR_EVER, GRAPH_MEMORY_PARAMETERS, 100),
                                               block(2, 6, GRAPH_MEMORY_ACTIVATIONS, 50),
                                               block(6, FOR_EVER, GRAPH_MEMORY_GRADIENTS, 30) };
    for (size_t i = 0; i < 3; i++) {
        graph_add_allocation(graph, &blocks[i]);
    }
    step_memory_measure(graph, &memory);
    cr_expect(memory.known);
    cr_expect_eq(memory.peak_bytes, 150);
    cr_expect_eq(memory.peak_node, 2);
    cr_expect_eq(memory.owner_bytes[GRAPH_MEMORY_ACTIVATIONS], 50);
    cr_expect_eq(memory.owner_bytes[GRAPH_MEMORY_GRADIENTS], 0);
    graph_destroy(graph);
}

Test(step_memory, a_trace_tells_nothing)
{
    struct graph *graph = graph_create("trace");
    struct step_memory memory;
    graph_add_ranks(graph, 1);
    step_memory_measure(graph, &memory);
    cr_expect(!memory.known);
    graph_destroy(graph);
}

static struct step_memory peak_of(const char *name, const char *const *settings)
{
    char path[DATA_PATH_CAPACITY];
    struct model *model = NULL;
    struct graph *graph = NULL;
    struct step_memory memory;
    struct sim_error error = { 0 };
    cr_assert_eq(data_path_find("workloads/models", "model", name, path, &error), SIM_OK, "%s", error.text);
    cr_assert_eq(model_read(path, &model, &error), SIM_OK, "%s", error.text);
    for (size_t i = 0; settings[i] != NULL; i++) {
        cr_assert_eq(model_set(model, settings[i], &error), SIM_OK, "%s", error.text);
    }
    cr_assert_eq(model_graph(model, &graph, &error), SIM_OK, "%s", error.text);
    step_memory_measure(graph, &memory);
    graph_destroy(graph);
    model_destroy(model);
    return memory;
}

/* calib/data/h200/steps.csv, peak_gib. The bar is 3% in the median and 8% for any; every case here is held to 2%. */
Test(model_memory, measured_peaks_are_met)
{
    static const struct {
        const char *model, *set[4];
        double gib;
    } cases[] = {
        { "dlrm_dcnv2", { "batch=8192" }, 13.661 },
        { "dlrm_dcnv2", { "batch=1024" }, 12.829 },
        { "dlrm_dcnv2", { "batch=32768" }, 16.531 },
        { "dlrm_dcnv2", { "batch=8192", "gpus=2" }, 7.705 },
        { "dlrm_small", { "batch=512" }, 6.286 },
        { "dlrm_small", { "batch=65536" }, 7.961 },
        { "hstu", { "batch=32" }, 23.789 },
        { "hstu", { "batch=64", "sequence=512", "layers=16" }, 28.187 },
        { "gpt13b", { "batch=8" }, 36.531 },
        { "gpt13b", { "batch=48" }, 127.608 },
        { "gpt13b", { "batch=16", "checkpoint=1" }, 28.466 },
        { "gpt13b", { "batch=32", "checkpoint=0.5" }, 66.023 },
        { "gpt13b", { "batch=4", "checkpoint=1" }, 21.246 },
        { "gpt13b", { "batch=4", "gpus=2", "parallel=ddp" }, 37.936 },
        { "gpt13b", { "batch=16", "gpus=2", "parallel=zero3" }, 41.660 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct step_memory memory = peak_of(cases[i].model, cases[i].set);
        double sum = 0;
        for (int o = 0; o < GRAPH_MEMORY_OWNERS; o++) {
            sum += memory.owner_bytes[o];
        }
        cr_expect(fabs(memory.peak_bytes / GIB / cases[i].gib - 1) < 0.02, "%s %s %s: %.3f GiB, measured %.3f",
                  cases[i].model, cases[i].set[0], cases[i].set[1] != NULL ? cases[i].set[1] : "",
                  memory.peak_bytes / GIB, cases[i].gib);
        cr_expect(fabs(sum - memory.peak_bytes) < 1, "owners add up to %.0f of %.0f", sum, memory.peak_bytes);
    }
}

/* Sharding over eight GPUs leaves an eighth of parameters and state: 15.81 / 8 GiB; ZeRO-1 shares the state alone. */
Test(model_memory, sharding_divides_what_it_shards)
{
    static const char *const zero3[] = { "gpus=8", "parallel=zero3", NULL }, *const zero1[] = { "gpus=8", "parallel=zero1", NULL },
                      *const ddp[] = { "gpus=8", "parallel=ddp", NULL };
    struct step_memory all = peak_of("gpt13b", ddp), sharded = peak_of("gpt13b", zero3), state = peak_of("gpt13b", zero1);
    cr_expect(fabs(8 * sharded.owner_bytes[GRAPH_MEMORY_PARAMETERS] / all.owner_bytes[GRAPH_MEMORY_PARAMETERS] - 1) < 0.001);
    cr_expect(fabs(8 * sharded.owner_bytes[GRAPH_MEMORY_OPTIMIZER] / all.owner_bytes[GRAPH_MEMORY_OPTIMIZER] - 1) < 0.001);
    cr_expect(fabs(8 * state.owner_bytes[GRAPH_MEMORY_OPTIMIZER] / all.owner_bytes[GRAPH_MEMORY_OPTIMIZER] - 1) < 0.001);
    cr_expect_eq(state.owner_bytes[GRAPH_MEMORY_PARAMETERS], all.owner_bytes[GRAPH_MEMORY_PARAMETERS]);
}

/* 1.4146 G parameters in fp32 are 5.270 GiB; two moments of Adam twice that. */
Test(model_memory, parameters_and_their_state_are_counted_once)
{
    static const char *const none[] = { NULL };
    struct step_memory memory = peak_of("gpt13b", none);
    double d = 2048, tokens = 50304;
    double block = 3 * d * d + 3 * d + d * d + d + 8 * d * d + 5 * d + 4 * d;
    double bytes = 4 * (2 * tokens * d + 24 * block);
    cr_expect(fabs(memory.owner_bytes[GRAPH_MEMORY_PARAMETERS] / bytes - 1) < 1e-4, "%.0f of %.0f",
              memory.owner_bytes[GRAPH_MEMORY_PARAMETERS], bytes);
    cr_expect(fabs(memory.owner_bytes[GRAPH_MEMORY_OPTIMIZER] / (2 * bytes) - 1) < 1e-3);
    cr_expect_eq(memory.owner_bytes[GRAPH_MEMORY_GRADIENTS], 0, "the peak is at the loss, before any gradient");
}

/* 11 tables of width 512 on 8 GPUs: 293 M rows of 2052 bytes are 560 GiB, a row-wise eighth 70 GiB on each. */
Test(model_memory, row_wise_tables_lie_evenly)
{
    static const char *const rows[] = { "plan=row_wise", "batch=8", NULL };
    struct step_memory memory = peak_of("mlperf_dlrm_v4", rows);
    double all = 9390624.0 + 1293395 + 3367692 + 1000001 + 100e6 + 40e6 + 24e6 + 40e6 + 32e6 + 2e6 + 40e6;
    cr_expect(fabs(memory.owner_bytes[GRAPH_MEMORY_EMBEDDINGS] / (all / 8 * (2048 + 4)) - 1) < 1e-4, "%.0f bytes",
              memory.owner_bytes[GRAPH_MEMORY_EMBEDDINGS]);
}

/* 26 tables dealt whole to 16 GPUs: ranks 0 to 9 have two of them. The table of rank 3 is 4e8 rows of 128 floats and a float of
 * state, 192.2 GiB, and has no more lookups than others; it still says how much a GPU must hold. */
Test(model_memory, the_fullest_rank_is_among_those_played)
{
    struct model *model = NULL;
    struct graph *graph = NULL;
    struct step_memory memory;
    struct sim_error error = { 0 };
    char path[DATA_PATH_CAPACITY];
    cr_assert_eq(data_path_find("workloads/models", "model", "mlperf_dlrm_v2", path, &error), SIM_OK, "%s", error.text);
    cr_assert_eq(model_read(path, &model, &error), SIM_OK, "%s", error.text);
    cr_assert_eq(model_set(model, "gpus=16", &error), SIM_OK, "%s", error.text);
    cr_assert_eq(model_set(model, "plan=table_wise", &error), SIM_OK, "%s", error.text);
    model->tables[3].rows = 4e8;
    model->tables[3].pooling = 2;
    cr_assert_eq(model_graph(model, &graph, &error), SIM_OK, "%s", error.text);
    step_memory_measure(graph, &memory);
    cr_expect(memory.owner_bytes[GRAPH_MEMORY_EMBEDDINGS] > 4e8 * 129 * 4, "%g GiB", memory.owner_bytes[GRAPH_MEMORY_EMBEDDINGS] / GIB);
    graph_destroy(graph);
    model_destroy(model);
}

static uint32_t ranks_played(const char *gpus, const char *plan)
{
    struct model *model = NULL;
    struct graph *graph = NULL;
    struct sim_error error = { 0 };
    char path[DATA_PATH_CAPACITY];
    cr_assert_eq(data_path_find("workloads/models", "model", "mlperf_dlrm_v4", path, &error), SIM_OK, "%s", error.text);
    cr_assert_eq(model_read(path, &model, &error), SIM_OK, "%s", error.text);
    cr_assert_eq(model_set(model, "batch=8", &error), SIM_OK, "%s", error.text);
    cr_assert_eq(model_set(model, gpus, &error), SIM_OK, "%s", error.text);
    cr_assert_eq(model_set(model, plan, &error), SIM_OK, "%s", error.text);
    cr_assert_eq(model_graph(model, &graph, &error), SIM_OK, "%s", error.text);
    uint32_t played = graph->rank_count;
    cr_expect_eq(graph->world_size, model->gpus);
    graph_destroy(graph);
    model_destroy(model);
    return played;
}

/* 1,293,395 rows over eight leave the last GPU 161,670 of 161,675, and so on: a few lookups in 100,000 fewer, the same step. Eleven
 * whole tables on eight GPUs are one or two each, which is not. */
Test(model_memory, ranks_alike_are_played_once)
{
    cr_expect_eq(ranks_played("gpus=8", "plan=row_wise"), 1);
    cr_expect_eq(ranks_played("gpus=64", "plan=row_wise"), 1);
    cr_expect_eq(ranks_played("gpus=8", "plan=table_wise"), 8);
}

/* 8 sequences of 2,838 positions, 22,709 in all, ask a table of as many rows at random: 1 - 1/e of its rows, 14,355, to four digits
 * 14,360. On eight GPUs each holds an eighth of the rows and looks up an eighth of what the eight ask for. Twice: the rows of 512 go in
 * two halves. */
Test(model_lookups, repeated_ids_are_asked_once)
{
    static const struct {
        const char *gpus, *rows;
    } cases[] = { { "gpus=1", ";T=2;L=1;D=256;rows=22709;" }, { "gpus=8", ";T=2;L=1;D=256;rows=2839;" } };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct model *model = NULL;
        struct graph *graph = NULL;
        struct sim_error error = { 0 };
        char path[DATA_PATH_CAPACITY];
        double asked = 0;
        cr_assert_eq(data_path_find("workloads/models", "model", "mlperf_dlrm_v4", path, &error), SIM_OK, "%s", error.text);
        cr_assert_eq(model_read(path, &model, &error), SIM_OK, "%s", error.text);
        cr_assert_eq(model_set(model, "batch=8", &error), SIM_OK, "%s", error.text);
        cr_assert_eq(model_set(model, cases[c].gpus, &error), SIM_OK, "%s", error.text);
        model->tables[0].rows = 22709;
        model->tables[0].skew = 0;
        cr_assert_eq(model_graph(model, &graph, &error), SIM_OK, "%s", error.text);
        for (size_t i = 0; i < graph->node_count; i++) {
            const struct graph_node *node = &graph->nodes[i];
            if (node->rank == 0 && strcmp(node->suite, "tbe") == 0 && strcmp(node->kernel, "forward") == 0 &&
                strstr(node->params, cases[c].rows) != NULL) {
                sscanf(node->params, "B=%lf", &asked);
            }
        }
        cr_expect(fabs(asked / 14360 - 1) < 1e-3, "%s: %g", cases[c].gpus, asked);
        graph_destroy(graph);
        model_destroy(model);
    }
}
