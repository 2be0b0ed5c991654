/* Plans from files: ours, and TorchRec's. */
#include "sim/core/json.h"
#include "workloads/plan.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reading {
    const char *path;
    const struct plan_table *tables;
    size_t count;
    struct plan *plan;
    bool *seen; /* [count] */
    struct sim_error *error;
};

static enum sim_status table_of(struct reading *r, const struct json *at, const char *name, uint32_t *table)
{
    for (uint32_t t = 0; t < r->count; t++) {
        if (strcmp(r->tables[t].name, name) == 0) {
            if (r->seen[t]) {
                return sim_fail(r->error, SIM_BAD_FILE, "%s:%u: table %s is planned twice", r->path, json_line(at), name);
            }
            r->seen[t] = true;
            *table = t;
            return SIM_OK;
        }
    }
    return sim_fail(r->error, SIM_BAD_FILE, "%s:%u: the model has no table '%s' (its first is '%s')", r->path, json_line(at),
                    name, r->count > 0 ? r->tables[0].name : "");
}

static enum sim_status sharding_of(struct reading *r, const struct json *at, const char *text, enum plan_sharding *sharding)
{
    for (int s = 0; s < PLAN_SHARDINGS; s++) {
        if (strcmp(text, plan_sharding_text((enum plan_sharding)s)) == 0) {
            *sharding = (enum plan_sharding)s;
            return SIM_OK;
        }
    }
    if (strcmp(text, "table_column_wise") == 0) {
        *sharding = PLAN_COLUMN_WISE;
        return SIM_OK;
    }
    return sim_fail(r->error, SIM_BAD_FILE,
                    "%s:%u: sharding '%s', must be table_wise, column_wise, row_wise, table_row_wise, data_parallel or host",
                    r->path, json_line(at), text);
}

static enum sim_status ranks_of(struct reading *r, const struct json *list, struct plan_entry *entry)
{
    for (size_t i = 0; list != NULL && json_kind_of(list) == JSON_ARRAY && i < json_count(list); i++) {
        const struct json *value = json_at(list, i);
        double rank = json_kind_of(value) == JSON_NUMBER ? json_number(value) : -1;
        if (rank < 0 || rank != floor(rank) || rank >= r->plan->group) {
            return sim_fail(r->error, SIM_BAD_FILE, "%s:%u: rank %g, must be 0 to %u", r->path, json_line(value), rank,
                            r->plan->group - 1);
        }
        uint32_t *ranks = realloc(entry->ranks, (entry->rank_count + 1) * sizeof *ranks);
        SIM_ASSERT(ranks != NULL, "no memory for ranks");
        entry->ranks = ranks;
        ranks[entry->rank_count++] = (uint32_t)rank;
    }
    return SIM_OK;
}

static enum sim_status read_entry(struct reading *r, const struct json *at, const char *name, const char *sharding,
                                  const struct json *ranks, double cache)
{
    uint32_t table = 0;
    enum sim_status status = table_of(r, at, name, &table);
    struct plan_entry *entry = &r->plan->entries[table];
    if (status == SIM_OK) {
        status = sharding_of(r, at, sharding, &entry->sharding);
    }
    if (status == SIM_OK) {
        status = ranks_of(r, ranks, entry);
    }
    if (status != SIM_OK) {
        return status;
    }
    entry->cache_share = cache;
    bool needs_ranks = entry->sharding == PLAN_TABLE_WISE || entry->sharding == PLAN_COLUMN_WISE ||
                       entry->sharding == PLAN_HOST || entry->sharding == PLAN_TABLE_ROW_WISE;
    if (needs_ranks && entry->rank_count == 0) {
        return sim_fail(r->error, SIM_BAD_FILE, "%s:%u: table %s is %s and needs 'ranks'", r->path, json_line(at), name,
                        sharding);
    }
    double columns = entry->rank_count > 0 ? r->tables[table].dim / entry->rank_count : 0;
    if (entry->sharding == PLAN_COLUMN_WISE && (entry->rank_count > r->tables[table].dim || fmod(columns, PLAN_COLUMNS_GRAIN) != 0)) {
        return sim_fail(r->error, SIM_BAD_FILE, "%s:%u: table %s has %g columns, which %u ranks cannot share in groups of %d", r->path,
                        json_line(at), name, r->tables[table].dim, entry->rank_count, PLAN_COLUMNS_GRAIN);
    }
    if (entry->sharding == PLAN_TABLE_WISE && entry->rank_count > 1) {
        return sim_fail(r->error, SIM_BAD_FILE, "%s:%u: table %s is table_wise on %u ranks, must be one", r->path,
                        json_line(at), name, entry->rank_count);
    }
    return SIM_OK;
}

static const char *text_of(const struct json *object, const char *key)
{
    const struct json *value = json_get(object, key);
    return value != NULL && json_kind_of(value) == JSON_STRING ? json_string(value) : NULL;
}

static double number_of(const struct json *object, const char *key, double fallback)
{
    const struct json *value = json_get(object, key);
    return value != NULL && json_kind_of(value) == JSON_NUMBER ? json_number(value) : fallback;
}

/* {"schema": "reckon.plan/1", "group": 8, "tables": [{"table", "sharding", "ranks", "cache"}]} */
static enum sim_status read_ours(struct reading *r, const struct json *root)
{
    const struct json *list = json_get(root, "tables");
    double group = number_of(root, "group", r->plan->gpus);
    if (group < 1 || group > r->plan->gpus || fmod(r->plan->gpus, group) != 0) {
        return sim_fail(r->error, SIM_BAD_FILE, "%s:%u: group %g, must divide the %u GPUs", r->path,
                        json_line(json_get(root, "group")), group, r->plan->gpus);
    }
    r->plan->group = (uint32_t)group;
    if (list == NULL || json_kind_of(list) != JSON_ARRAY) {
        return sim_fail(r->error, SIM_BAD_FILE, "%s:%u: 'tables' must be a list", r->path, json_line(root));
    }
    enum sim_status status = SIM_OK;
    for (size_t i = 0; status == SIM_OK && i < json_count(list); i++) {
        const struct json *entry = json_at(list, i);
        const char *name = text_of(entry, "table"), *sharding = text_of(entry, "sharding");
        if (name == NULL || sharding == NULL) {
            return sim_fail(r->error, SIM_BAD_FILE, "%s:%u: an entry needs 'table' and 'sharding'", r->path,
                            json_line(entry));
        }
        double cache = number_of(entry, "cache", 0.1);
        if (cache < 0 || cache > 1) {
            return sim_fail(r->error, SIM_BAD_FILE, "%s:%u: 'cache' is %g, must be 0 to 1", r->path, json_line(entry), cache);
        }
        status = read_entry(r, entry, name, sharding, json_get(entry, "ranks"), cache);
    }
    return status;
}

/* {MODULE: {TABLE: {"sharding_type", "ranks", "compute_kernel"}}}, however deep the plan lies. */
static enum sim_status read_torchrec(struct reading *r, const struct json *object, size_t depth, size_t *found)
{
    enum sim_status status = SIM_OK;
    for (size_t i = 0; status == SIM_OK && depth < 8 && i < json_count(object); i++) {
        const struct json *child = json_at(object, i);
        if (json_kind_of(child) != JSON_OBJECT) {
            continue;
        }
        const char *type = text_of(child, "sharding_type"), *kernel = text_of(child, "compute_kernel");
        if (type == NULL) {
            status = read_torchrec(r, child, depth + 1, found);
            continue;
        }
        bool host = kernel != NULL && (strstr(kernel, "uvm") != NULL || strstr(kernel, "key_value") != NULL);
        bool rows = strcmp(type, "row_wise") == 0 || strcmp(type, "data_parallel") == 0;
        const struct json *ranks = json_get(child, "ranks");
        (*found)++;
        status = read_entry(r, child, json_key(child), host && strcmp(type, "table_wise") == 0 ? "host" : type,
                            rows && ranks != NULL && json_count(ranks) == r->plan->group ? NULL : ranks, 0.2);
    }
    return status;
}

static enum sim_status check_complete(const struct reading *r)
{
    size_t missing = 0, first = 0;
    for (size_t t = 0; t < r->count; t++) {
        if (!r->seen[t]) {
            first = missing++ == 0 ? t : first;
        }
    }
    return missing == 0 ? SIM_OK
                        : sim_fail(r->error, SIM_BAD_ARGUMENT, "%s: the plan misses table %s%s: every table must be planned",
                                   r->path, r->tables[first].name, missing > 1 ? " and others" : "");
}

enum sim_status plan_read(const char *path, const struct plan_table *tables, size_t count, uint32_t gpus, uint32_t per_node,
                          struct plan **out, struct sim_error *error)
{
    struct json *root = NULL;
    struct reading r = { .path = path, .tables = tables, .count = count, .error = error };
    size_t found = 0;
    enum sim_status status = json_read_file(path, &root, error);
    *out = NULL;
    if (status != SIM_OK) {
        return status;
    }
    status = plan_uniform(PLAN_ROW_WISE, tables, count, gpus, per_node, &r.plan, error);
    r.seen = calloc(count + 1, sizeof *r.seen);
    SIM_ASSERT(r.seen != NULL, "no memory for a plan");
    const char *schema = json_kind_of(root) == JSON_OBJECT ? text_of(root, "schema") : NULL;
    if (status == SIM_OK && schema != NULL && strcmp(schema, "reckon.plan/1") == 0) {
        status = read_ours(&r, root);
    } else if (status == SIM_OK) {
        status = read_torchrec(&r, root, 0, &found);
        if (status == SIM_OK && found == 0) {
            status = sim_fail(error, SIM_BAD_FILE,
                              "%s: neither a reckon.plan/1 nor a TorchRec plan (tables with 'sharding_type')", path);
        }
    }
    status = status == SIM_OK ? check_complete(&r) : status;
    json_destroy(root);
    free(r.seen);
    if (status != SIM_OK) {
        plan_destroy(r.plan);
        return status;
    }
    snprintf(r.plan->how, sizeof r.plan->how, "from %.140s", path);
    *out = r.plan;
    return SIM_OK;
}
