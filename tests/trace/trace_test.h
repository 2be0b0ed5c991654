/* Helpers of the trace tests: fixtures by name, files made on the spot, what a graph holds. */
#ifndef TESTS_TRACE_TRACE_TEST_H
#define TESTS_TRACE_TRACE_TEST_H
#include "workloads/trace/kineto.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIXTURE(name) SOURCE_DIR "/tests/fixtures/traces/" name

/* Write `bytes` to a new file; the caller removes it. */
static inline const char *write_bytes(const void *bytes, size_t length)
{
    static char paths[8][64];
    static size_t next;
    char *path = paths[next++ % 8];
    strcpy(path, "/tmp/reckon_trace_XXXXXX");
    int descriptor = mkstemp(path);
    cr_assert(descriptor >= 0);
    FILE *file = fdopen(descriptor, "wb");
    cr_assert(fwrite(bytes, 1, length, file) == length);
    fclose(file);
    return path;
}

static inline const char *write_text(const char *text)
{
    return write_bytes(text, strlen(text));
}

static inline struct graph *read_step(const char *const *paths, size_t count, int step)
{
    struct trace_options options = { .step = step };
    struct graph *graph = NULL;
    struct sim_error error = { 0 };
    enum sim_status status = trace_read(paths, count, &options, &graph, &error);
    cr_assert(status == SIM_OK, "%s", error.text);
    return graph;
}

static inline struct graph *read_one(const char *path)
{
    return read_step(&path, 1, -1);
}

/* Read and remove a trace made of these events (the text between the brackets of the event list). */
static inline struct graph *read_events(const char *events)
{
    char *text = malloc(strlen(events) + 64);
    sprintf(text, "{\"traceEvents\": [%s]}", events);
    const char *path = write_text(text);
    struct graph *graph = read_one(path);
    unlink(path);
    free(text);
    return graph;
}

static inline struct sim_error read_fails(const char *path)
{
    struct trace_options options = { .step = -1 };
    struct graph *graph = NULL;
    struct sim_error error = { 0 };
    enum sim_status status = trace_read(&path, 1, &options, &graph, &error);
    cr_assert(status != SIM_OK, "%s was read", path);
    cr_assert(graph == NULL);
    cr_expect(sim_status_exit_code(status) == 1, "%s", error.text);
    cr_expect(strchr(error.text, '\n') == NULL && error.text[0] != '\0', "%s", error.text);
    return error;
}

static inline bool has_note(const struct graph *graph, const char *part)
{
    for (size_t i = 0; i < graph->note_count; i++) {
        if (strstr(graph->notes[i], part) != NULL) {
            return true;
        }
    }
    return false;
}

static inline size_t count_kind(const struct graph *graph, enum graph_node_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        count += graph->nodes[i].kind == kind;
    }
    return count;
}

/* The n-th node of a kind, from 0. */
static inline const struct graph_node *nth(const struct graph *graph, enum graph_node_kind kind, size_t n)
{
    for (size_t i = 0; i < graph->node_count; i++) {
        if (graph->nodes[i].kind == kind && n-- == 0) {
            return &graph->nodes[i];
        }
    }
    cr_assert(false, "no such node");
    return NULL;
}

static inline uint32_t index_of(const struct graph *graph, const struct graph_node *node)
{
    return (uint32_t)(node - graph->nodes);
}

#endif
