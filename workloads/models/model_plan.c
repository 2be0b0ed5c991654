/* A model's tables as a plan sees them, and the plan it asks for. */
#include "workloads/models/build_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct plan_table *model_plan_tables(const struct model *model)
{
    struct plan_table *tables = calloc(model->table_count + 1, sizeof *tables);
    SIM_ASSERT(tables != NULL, "no memory for %u tables", model->table_count);
    for (uint32_t t = 0; t < model->table_count; t++) {
        const struct model_table *from = &model->tables[t];
        bool rowwise = from->optimizer == OPTIMIZER_ROWWISE_ADAGRAD;
        bool adam = from->optimizer == OPTIMIZER_ADAM || from->optimizer == OPTIMIZER_ADAMW;
        tables[t] = (struct plan_table){ .name = from->name,
                                         .rows = from->rows,
                                         .dim = from->dim,
                                         .row_bytes = from->dim * eager_type_bytes(from->type),
                                         .state_bytes = rowwise ? 4 : adam ? 8 * from->dim : 0,
                                         .pooling = from->pooling,
                                         .hot_share = from->hot_share };
    }
    return tables;
}

double model_largest_table(const struct model *model, const char **name)
{
    double most = 0;
    *name = "";
    struct plan_table *tables = model_plan_tables(model);
    for (uint32_t t = 0; t < model->table_count; t++) {
        double bytes = tables[t].rows * (tables[t].row_bytes + tables[t].state_bytes);
        if (bytes > most) {
            most = bytes;
            *name = model->tables[t].name;
        }
    }
    free(tables);
    return most;
}

static enum sim_status plan_of_file(const struct model *model, const struct plan_table *tables, struct plan **out,
                                    struct sim_error *error)
{
    char kinds[256] = "auto";
    enum sim_status status = plan_read(model->plan_name, tables, model->table_count, model->gpus, model->per_node, out, error);
    if (status == SIM_OK || access(model->plan_name, F_OK) == 0) {
        return status;
    }
    for (int kind = 0; kind < PLAN_SHARDINGS; kind++) {
        size_t used = strlen(kinds);
        snprintf(kinds + used, sizeof kinds - used, "|%s", plan_sharding_text((enum plan_sharding)kind));
    }
    return sim_fail(error, SIM_BAD_ARGUMENT, "plan '%s': no such file, and not one of %s", model->plan_name, kinds);
}

enum sim_status model_plan(const struct model *model, struct plan **out, struct sim_error *error)
{
    struct plan_table *tables = model_plan_tables(model);
    const char *name = model->plan_name;
    enum sim_status status = SIM_OK;
    int kind = 0;
    while (kind < PLAN_SHARDINGS && strcmp(name, plan_sharding_text((enum plan_sharding)kind)) != 0) {
        kind++;
    }
    if (name[0] == '\0' || strcmp(name, "auto") == 0) {
        status = plan_propose(tables, model->table_count, model->gpus, model->per_node, model->table_gib * 1073741824.0, out,
                              error);
    } else if (kind < PLAN_SHARDINGS) {
        status = plan_uniform((enum plan_sharding)kind, tables, model->table_count, model->gpus, model->per_node, out, error);
    } else {
        status = plan_of_file(model, tables, out, error);
    }
    free(tables);
    return status;
}
