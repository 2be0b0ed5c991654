/* A training step described rather than recorded: tables, layers, batch, optimiser, parallelism -> the graph that a trace
 * of it would give, with the memory it takes.
 * Files: docs/schemas/model.schema.json; examples lie beside this header. */
#ifndef WORKLOADS_MODELS_MODEL_H
#define WORKLOADS_MODELS_MODEL_H
#include <stdbool.h>
#include <stdint.h>
#include "sim/core/status.h"
#include "workloads/graph.h"

struct model; /* opaque */

/* Read FILE.json, or a public configuration (model_import.c). Errors name file, line and key: unknown keys, values out of range, layers that do not fit together. */
enum sim_status model_read(const char *path, struct model **out, struct sim_error *error);
void model_destroy(struct model *model); /* NULL is allowed */

/* Change one value: batch, sequence, layers, precision, checkpoint, heads, width, rows, dim, tables, skew, parallel, gpus,
 * plan=FILE, cache. Errors list the valid keys, or say which range a value must lie in. */
enum sim_status model_set(struct model *model, const char *assignment, struct sim_error *error);

/* The memory of a GPU that it will be asked about, for a proposed plan: two thirds of it may hold tables, where neither the file nor
 * a change says table_gib. No less than without. 0: not known. */
void model_room(struct model *model, double gpu_gib);

uint32_t model_gpus(const struct model *model);
double model_batch(const struct model *model); /* per GPU */
const char *model_name(const struct model *model);
/* Bytes of the table with most, optimiser state included, and its name (owned by the model); 0 without tables. */
double model_largest_table(const struct model *model, const char **name);

/* The step as a graph that passes graph_check; ranks that do alike work stand for one another.
 * Errors: SIM_BAD_ARGUMENT for a plan that misses a table, SIM_UNSUPPORTED for what no operator covers. */
enum sim_status model_graph(const struct model *model, struct graph **out, struct sim_error *error);

/* Whether a file is a model description: a JSON object whose schema says so. */
bool model_is_file(const char *path);

#endif
