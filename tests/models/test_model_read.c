/* What a description may say, and what it is told when it says something else. */
#include "sim/core/data_path.h"
#include "workloads/models/model.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum sim_status read_text(const char *text, struct model **model, struct sim_error *error)
{
    char path[] = "/tmp/reckon_model_XXXXXX.json";
    int file = mkstemps(path, 5);
    cr_assert(file >= 0);
    cr_assert(write(file, text, strlen(text)) == (ssize_t)strlen(text));
    close(file);
    enum sim_status status = model_read(path, model, error);
    unlink(path);
    return status;
}

#define MODEL(tables, layers, more)                                                                        \
    "{\"schema\": \"reckon.model/1\", \"name\": \"m\", \"batch\": 64, \"tables\": [" tables "], \"layers\": [" layers \
    "]" more "}"
#define TABLES "{\"rows\": 1000, \"dim\": 16, \"count\": 3, \"pooling\": [1, 2, 3]}"
#define BOTTOM "{\"kind\": \"mlp\", \"input\": 4, \"widths\": [32, 16]}"
#define TOP "{\"kind\": \"mlp\", \"widths\": [8, 1]}"

static void expect_refused(const char *text, const char *says)
{
    struct model *model = NULL;
    struct sim_error error = { 0 };
    enum sim_status status = read_text(text, &model, &error);
    if (status == SIM_OK) {
        struct graph *graph = NULL;
        status = model_graph(model, &graph, &error);
        graph_destroy(graph);
    }
    cr_expect(status != SIM_OK, "accepted: %s", text);
    cr_expect(strstr(error.text, says) != NULL, "'%s' does not say '%s'", error.text, says);
    cr_expect(strchr(error.text, '\n') == NULL, "more than one line: %s", error.text);
    model_destroy(model);
}

Test(model_read, a_small_model_gives_a_graph)
{
    struct model *model = NULL;
    struct graph *graph = NULL;
    struct sim_error error = { 0 };
    cr_assert_eq(read_text(MODEL(TABLES, BOTTOM ", {\"kind\": \"dot\"}, " TOP, ""), &model, &error), SIM_OK, "%s",
                 error.text);
    cr_assert_eq(model_graph(model, &graph, &error), SIM_OK, "%s", error.text);
    size_t lookups = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        lookups += strcmp(graph->nodes[i].kernel, "bag_forward") == 0;
    }
    cr_expect_eq(lookups, 3, "%zu lookups of 3 tables", lookups);
    cr_expect_eq(graph->batch, 64);
    graph_destroy(graph);
    model_destroy(model);
}

Test(model_read, what_is_wrong_is_said_in_one_line)
{
    expect_refused("{\"schema\": \"reckon.fit/1\"}", "reckon.model/1");
    expect_refused(MODEL("{\"rows\": 1000, \"dim\": 16, \"pooling\": -3}", BOTTOM, ""), "'pooling' is -3");
    expect_refused(MODEL("{\"rows\": 1000, \"dim\": 16, \"count\": 2, \"pooling\": [1, -1]}", BOTTOM, ""), "pooling");
    expect_refused(MODEL("{\"rows\": 1000, \"dim\": 16, \"count\": 2, \"pooling\": [1]}", BOTTOM, ""), "1 values for 2");
    expect_refused(MODEL("{\"rows\": 0, \"dim\": 16}", BOTTOM, ""), "'rows' is 0");
    expect_refused(MODEL("{\"dim\": 16}", BOTTOM, ""), "'rows' is missing");
    expect_refused(MODEL(TABLES, "{\"kind\": \"mpl\"}", ""), "mlp|dot");
    expect_refused(MODEL(TABLES, BOTTOM, ", \"batchsize\": 3"), "unknown key 'batchsize'");
    expect_refused(MODEL(TABLES, "{\"kind\": \"dot\"}", ""), "nothing comes in");
    expect_refused(MODEL(TABLES, "{\"kind\": \"mlp\", \"input\": 4, \"widths\": [32, 8]}, {\"kind\": \"dot\"}", ""),
                   "must end in the tables' dim");
    expect_refused(MODEL(TABLES, BOTTOM, ", \"precision\": \"int4\""), "fp32|bf16-autocast|bf16");
    expect_refused(MODEL(TABLES, BOTTOM, ", \"deduplicated\": true"), "\"deduplicated\" is of sequences");
    expect_refused(MODEL(TABLES, BOTTOM ", {\"kind\": \"head\", \"per\": \"example\"}", ""), "a head over sequences");
    expect_refused(MODEL(TABLES, "{\"kind\": \"mlp\", \"per\": \"example\", \"input\": 4, \"widths\": [16]}", ""), "'per' is of a head");
    expect_refused(MODEL(TABLES, "{\"kind\": \"transformer\", \"fused\": true}", ""), "'fused' is of hstu layers");
    expect_refused(MODEL("{\"rows\": 1000, \"dim\": 64}", "{\"kind\": \"hstu\", \"fused\": true, \"attention\": \"silu\"}",
                         ", \"sequence\": 8, \"input\": \"sequence\""), "fused layers run in bf16");
}

/* Layers whose input is not there, and tables that nobody takes. */
Test(model_read, a_dangling_graph_is_refused)
{
    const char *sequence = ", \"sequence\": 8, \"input\": \"sequence\"";
    expect_refused(MODEL(TABLES, TOP, ""), "layer mlp: nothing comes in");
    expect_refused(MODEL(TABLES, BOTTOM ", {\"kind\": \"transformer\"}", ""), "attends to positions");
    expect_refused(MODEL(TABLES, BOTTOM ", " TOP, ""), "no layer takes what the tables give");
    char text[1024];
    snprintf(text, sizeof text, "%s%s}", "{\"schema\": \"reckon.model/1\", \"name\": \"m\", \"batch\": 64, \"tables\": [{\"rows\": 9, "
             "\"dim\": 16}], \"layers\": [{\"kind\": \"dot\"}]", sequence);
    expect_refused(text, "meets pooled tables");
    snprintf(text, sizeof text, "%s%s}", "{\"schema\": \"reckon.model/1\", \"name\": \"m\", \"batch\": 64, \"tables\": [{\"rows\": 9, "
             "\"dim\": 16}], \"layers\": [{\"kind\": \"mlp\", \"input\": 4, \"widths\": [16]}]", sequence);
    expect_refused(text, "leave the sequence unused");
}

/* Each example beside the header is read, builds and knows its memory, at one GPU count more than its own too. */
Test(model_read, every_example_builds)
{
    struct data_names names = { 0 };
    struct sim_error error = { 0 };
    cr_assert_eq(data_path_list("workloads/models", &names, &error), SIM_OK, "%s", error.text);
    cr_expect(names.count >= 9);
    for (size_t i = 0; i < names.count; i++) {
        char path[DATA_PATH_CAPACITY];
        struct model *model = NULL;
        struct graph *graph = NULL;
        cr_assert_eq(data_path_find("workloads/models", "model", names.name[i], path, &error), SIM_OK);
        cr_assert_eq(model_read(path, &model, &error), SIM_OK, "%s", error.text);
        for (uint32_t more = 0; more < 2; more++) {
            char setting[32];
            snprintf(setting, sizeof setting, "gpus=%u", model_gpus(model) * (more + 1));
            cr_assert_eq(model_set(model, setting, &error), SIM_OK, "%s", error.text);
            cr_assert_eq(model_graph(model, &graph, &error), SIM_OK, "%s: %s", names.name[i], error.text);
            cr_expect(graph->allocation_count > 0);
            cr_expect_eq(graph->world_size, model_gpus(model));
            graph_destroy(graph);
        }
        model_destroy(model);
    }
    data_names_finish(&names);
}

static struct graph *import(const char *path)
{
    struct model *model = NULL;
    struct graph *graph = NULL;
    struct sim_error error = { 0 };
    cr_assert(model_is_file(path), "%s", path);
    cr_assert_eq(model_read(path, &model, &error), SIM_OK, "%s", error.text);
    cr_assert_eq(model_graph(model, &graph, &error), SIM_OK, "%s", error.text);
    model_destroy(model);
    return graph;
}

static double tables_of(const struct graph *graph)
{
    double bytes = 0;
    for (size_t i = 0; i < graph->allocation_count; i++) {
        bytes += graph->allocations[i].owner == GRAPH_MEMORY_EMBEDDINGS ? graph->allocations[i].bytes : 0;
    }
    return bytes;
}

/* 204,184,588 rows of 64 fp32 and 4 bytes of state over 8 GPUs, all played; small tables on each of them. */
Test(model_import, rows_and_widths_of_a_dlrm)
{
    struct graph *graph = import(SOURCE_DIR "/tests/fixtures/models/torchrec_zch_dlrmv2.yaml");
    cr_expect_eq(graph->world_size, 8);
    double bytes = tables_of(graph), once = 204184588.0 * 260;
    cr_expect(bytes > once && bytes < once * 1.001, "%.0f bytes of tables, %.0f without copies", bytes, once);
    graph_destroy(graph);
}

static void expect_not_imported(const char *name, const char *text, const char *says)
{
    char path[64];
    struct model *model = NULL;
    struct sim_error error = { 0 };
    snprintf(path, sizeof path, "/tmp/reckon_import_%d_%s", (int)getpid(), name);
    FILE *file = fopen(path, "w");
    cr_assert(file != NULL);
    fputs(text, file);
    fclose(file);
    cr_expect(model_is_file(path), "%s is taken for a trace", name);
    cr_expect_eq(model_read(path, &model, &error), SIM_BAD_FILE);
    cr_expect(strstr(error.text, says) != NULL, "'%s' does not say '%s'", error.text, says);
    unlink(path);
}

/* One operator, and a file that says how a run is driven: no step, and no trace either. */
Test(model_import, what_holds_no_step_says_so)
{
    expect_not_imported("lookup.json", "{\"SplitTableBatchedEmbeddingBagsCodegen\": {\"config\": [{\"build\": [{\"args\": ["
                        "{\"name\": \"num_tables\", \"value\": 3}, {\"value\": 700, \"name\": \"rows\"}, {\"name\": \"dim\", \"value\": 64}]}],"
                        "\"input\": [{\"args\": [{\"name\": \"batch_size\", \"value\": 512}, {\"name\": \"pooling_factor\", \"value\": 9}]}]}]}}",
                        "B=512 T=3 L=9 D=64 rows=700");
    expect_not_imported("grid.json", "{\"SplitTableBatchedEmbeddingBagsCodegen\": {\"args\": [{\"name\": \"rows\", \"value\": [1, 2]}]}}",
                        "without one number each");
    expect_not_imported("run.gin", "batch_size = 16\n", "not a configuration that can be imported");
    expect_not_imported("run.yaml", "data:\n  path: x\n", "model.schema.json");
}

/* 40 tables of 200,000 x 256: 8.2 GB and their state over two GPUs, alike, so that one is played. */
Test(model_import, features_of_a_pipeline_benchmark)
{
    struct graph *graph = import(SOURCE_DIR "/tests/fixtures/models/torchrec_base_pipeline_light.yml");
    cr_expect_eq(graph->world_size, 2);
    double one = 20 * 200000.0 * (1024 + 4);
    cr_expect(tables_of(graph) >= one && tables_of(graph) < one * 1.001, "%.0f bytes, %.0f by hand", tables_of(graph), one);
    graph_destroy(graph);
}

Test(model_read, changes_are_checked)
{
    struct model *model = NULL;
    struct sim_error error = { 0 };
    cr_assert_eq(read_text(MODEL(TABLES, BOTTOM ", {\"kind\": \"dot\"}, " TOP, ""), &model, &error), SIM_OK);
    cr_expect_eq(model_set(model, "batch=128", &error), SIM_OK);
    cr_expect_eq(model_batch(model), 128);
    cr_expect_eq(model_set(model, "batch=0", &error), SIM_BAD_ARGUMENT);
    cr_expect_eq(model_set(model, "batch=12x", &error), SIM_BAD_ARGUMENT);
    cr_expect_eq(model_set(model, "layers=3", &error), SIM_BAD_ARGUMENT, "a dot interaction does not repeat");
    cr_expect_eq(model_set(model, "speed=3", &error), SIM_BAD_ARGUMENT);
    cr_expect(strstr(error.text, "batch, sequence") != NULL, "%s", error.text);
    model_destroy(model);
}

/* As published: 323.26 TFLOP a step of 1,024 sequences of 4,096 positions. Attention is half of two products forward and of five back,
 * 7 x 1024 x 4 x 4096^2 x 128 a layer; products of 512 x 2048 and 1536 x 512 a position are run three times (forward and two gradients).
 * What is computed again comes on top (the wide product), and the three branches of the input (512 x 256 twice). */
Test(model_read, fused_layers_do_the_published_arithmetic)
{
    struct model *model = NULL;
    struct graph *graph = NULL;
    struct sim_error error = { 0 };
    char path[DATA_PATH_CAPACITY];
    cr_assert_eq(data_path_find("workloads/models", "model", "mlperf_dlrm_v4", path, &error), SIM_OK, "%s", error.text);
    cr_assert_eq(model_read(path, &model, &error), SIM_OK, "%s", error.text);
    cr_assert_eq(model_set(model, "length_share=1", &error), SIM_OK, "%s", error.text);
    cr_assert_eq(model_graph(model, &graph, &error), SIM_OK, "%s", error.text);
    double tokens = 1024 * 4096.0, products = 0, attention = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        double m = 0, n = 0, k = 0;
        if (node->rank == 0 && node->kind == GRAPH_KERNEL && strcmp(node->suite, "gemm") == 0 &&
            sscanf(node->params, "M=%lf;N=%lf;K=%lf", &m, &n, &k) == 3) {
            products += m * n * k > 1e11 ? 2 * m * n * k : 0; /* not the candidates' head */
        } else if (node->rank == 0 && node->kind == GRAPH_KERNEL && strncmp(node->kernel, "hstu_", 5) == 0) {
            attention += (strcmp(node->kernel, "hstu_fwd") == 0 ? 2 : 5) * 1024.0 * 4 * 4096 * 4096 * 128;
        }
    }
    double again = 3 * 2 * tokens * 512 * 2048, branches = 3 * 3 * 2 * tokens * 2 * 512 * 256;
    cr_expect_float_eq((products - again - branches + attention) / 323.26e12, 1, 0.002, "%.2f TFLOP",
                       (products - again - branches + attention) * 1e-12);
    graph_destroy(graph);
    model_destroy(model);
}
