#include "calib/counters.h"
#include "calib/workers.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECTOR_BYTES 32.0  /* of the counters, a property of their definition */
#define HARNESS "micro_cu" /* the programs that were counted */
#define FEW 0.02           /* of the units' traffic: what columns of different runs disagree by */

/* How the programme that was counted (calib/data/h200/source/counters.cu) names a kernel, and how the registry does. */
struct pair_rename {
    const char *from, *to;
}; /* from: a key, or a whole pair; to: what stands in its place, "" drops it */
struct program_name {
    const char *counted_as, *only;     /* only: a pair that the parameters must hold, NULL: any */
    const char *suite, *kernel, *also; /* also: pairs to add */
    struct pair_rename renames[8];
};

static const struct program_name names[] = {
    { "read", NULL, "bandwidth", "read", "", { { 0 } } },
    { "write", NULL, "bandwidth", "write", "", { { 0 } } },
    { "copy", NULL, "bandwidth", "copy", "", { { 0 } } },
    { "gather", NULL, "gather", "random_rows", "", { { "rb", "row_bytes" }, { "mb", "table_mb" } } },
    { "add_u32", NULL, "atomic", "add_u32", "stride=4;ops=8650752", { { 0 } } },
    { "bounds",
      NULL,
      "bounds_check",
      "per_thread_atomic",
      "tables=30;indices=13762560",
      { { "bx", "block_x" }, { "B", "batch" } } },
    { "gis_f", NULL, "gis", "forward", "n=2097152", { { 0 } } },
    { "gis_b", "cache=0", "gis", "backward_atomic", "n=2097152", { { "cache", "" } } },
    { "gis_b", "cache=1", "gis", "backward_cached", "n=2097152", { { "cache", "" } } },
    { "tbe_f",
      NULL,
      "tbe",
      "forward",
      "",
      { { "B=65536", "B=65536;T=5;L=55" },
        { "B=16384", "B=16384;T=10;L=40" },
        { "R", "rows" },
        { "al", "alpha" },
        { "half=0", "prec=fp32" },
        { "half=1", "prec=fp16" } } },
    { "tbe_bat",
      NULL,
      "tbe",
      "backward_atomic",
      "",
      { { "B=65536", "B=65536;T=5;L=55" },
        { "B=16384", "B=16384;T=10;L=40" },
        { "R", "rows" },
        { "al", "alpha" },
        { "half=0", "prec=fp32" },
        { "half=1", "prec=fp16" } } },
};
#define NAME_COUNT (sizeof names / sizeof names[0])

enum column {
    COLUMN_DRAM_READ,
    COLUMN_DRAM_WRITE,
    COLUMN_LOADS,
    COLUMN_L1_HITS,
    COLUMN_WRITES,
    COLUMN_ATOMICS,
    COLUMN_UNITS,
    COLUMN_UNIT_HITS,
    COLUMN_FAR,
    COLUMN_FAR_HITS,
    COLUMNS
};
static const char *const column_names[COLUMNS] = {
    "dram__sectors_read",
    "dram__sectors_write",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit",
    "lts__t_sectors_op_write",
    "lts__t_sectors_op_red",
    "lts__t_sectors_srcunit_tex",
    "lts__t_sectors_srcunit_tex_lookup_hit",
    "lts__t_sectors_srcunit_ltcfabric",
    "lts__t_sectors_srcunit_ltcfabric_lookup_hit",
};

/* ---- names */

static bool holds(const char *params, const char *pair)
{
    size_t length = strlen(pair);
    for (const char *at = params; (at = strstr(at, pair)) != NULL; at++) {
        if ((at == params || at[-1] == ';') && (at[length] == '\0' || at[length] == ';')) {
            return true;
        }
    }
    return false;
}

static const struct program_name *name_of(const char *counted_as, const char *params)
{
    for (size_t i = 0; i < NAME_COUNT; i++) {
        if (strcmp(names[i].counted_as, counted_as) == 0 &&
            (names[i].only == NULL || holds(params, names[i].only))) {
            return &names[i];
        }
    }
    return NULL;
}

struct text {
    char *start;
    size_t used, capacity;
};

static void text_add(struct text *text, const char *more, size_t length)
{
    SIM_ASSERT(text->used + length < text->capacity, "parameters '%s' are too long", text->start);
    memcpy(text->start + text->used, more, length);
    text->used += length;
    text->start[text->used] = '\0';
}

static const struct pair_rename *rename_of(const struct program_name *name, const char *pair, size_t length)
{
    for (const struct pair_rename *rename = name->renames; rename->from != NULL; rename++) {
        size_t from = strlen(rename->from);
        if ((from == length || from == strcspn(pair, "=")) && strncmp(rename->from, pair, from) == 0) {
            return rename;
        }
    }
    return NULL;
}

static void translate(const struct program_name *name, const char *params, char *out, size_t capacity)
{
    struct text text = { out, 0, capacity };
    out[0] = '\0';
    for (const char *at = params; *at != '\0';) {
        size_t length = strcspn(at, ";"), key = strcspn(at, "=");
        const struct pair_rename *rename = rename_of(name, at, length);
        bool dropped = rename != NULL && rename->to[0] == '\0';
        if (!dropped && text.used > 0) {
            text_add(&text, ";", 1);
        }
        if (rename == NULL) {
            text_add(&text, at, length);
        } else if (!dropped) {
            text_add(&text, rename->to, strlen(rename->to));
            if (strchr(rename->from, '=') == NULL) { /* a key alone: its value stays */
                text_add(&text, at + key, length - key);
            }
        }
        at += length + (at[length] == ';');
    }
    if (name->also[0] != '\0') {
        text_add(&text, ";", text.used > 0);
        text_add(&text, name->also, strlen(name->also));
    }
}

/* ---- the table */

/* Units' loads, stores and atomics all pass the near slice; what it sends on, stores and atomics too, is counted again at the
 * far one. Half of all lines are homed far, so a third of the store sectors are such second counts. Stores always hit, so hits
 * of loads are what is left. Where atomics are more than a few, or where sectors are neither loads nor stores as counted (packed
 * atomics are in no column), hits of loads cannot be told from theirs. */
static void fill_measured(const double *count, struct counters_row *row)
{
    double units = count[COLUMN_UNITS], stores = count[COLUMN_WRITES] * 2 / 3,
           far_stores = count[COLUMN_WRITES] / 3;
    double loads = units - stores, far_loads = count[COLUMN_FAR] - far_stores;
    double unexplained = loads - (count[COLUMN_LOADS] - count[COLUMN_L1_HITS]);
    bool known = count[COLUMN_ATOMICS] < FEW * units && fabs(unexplained) < 3 * FEW * units;
    row->unit_bytes = units * SECTOR_BYTES;
    row->measured.dram_read_bytes = count[COLUMN_DRAM_READ] * SECTOR_BYTES;
    row->measured.dram_write_bytes = count[COLUMN_DRAM_WRITE] * SECTOR_BYTES;
    row->measured.near_hit = known && loads > 3 * FEW * units
                                 ? fmax((count[COLUMN_UNIT_HITS] - stores) / loads, 0)
                                 : NAN;
    row->measured.far_hit = known && far_loads > 3 * FEW * units
                                ? fmax((count[COLUMN_FAR_HITS] - far_stores) / far_loads, 0)
                                : NAN;
}

/* ---- simulating the rows */

struct row_outcome {
    enum sim_status status;
    struct counters_side simulated;
    struct sim_error error;
};

struct simulation {
    struct reckon *reckon;
    const struct reckon_device *device;
    const struct counters_table *table;
    struct row_outcome *outcomes; /* shared with the workers */
};

static void simulate(void *context, size_t index)
{
    struct simulation *simulation = context;
    const struct counters_row *row = &simulation->table->rows[index];
    struct row_outcome *outcome = &simulation->outcomes[index];
    struct reckon_kernel_request request = {
        .suite = row->suite, .kernel = row->kernel, .params = row->params, .harness = HARNESS
    };
    struct reckon_kernel *kernel = NULL;
    outcome->status = reckon_kernel(simulation->reckon, simulation->device, &request, &kernel, &outcome->error);
    if (outcome->status == SIM_OK) {
        const struct kernel_result *result = &kernel->result;
        outcome->simulated = (struct counters_side){ result->hbm_read_bytes, result->hbm_write_bytes,
                                                     result->l2_near_hit_rate, result->l2_far_hit_rate };
    }
    reckon_kernel_free(kernel);
}

static enum sim_status simulate_all(struct reckon *reckon, const struct reckon_device *device, uint32_t jobs,
                                    struct counters_table *table, struct sim_error *error)
{
    size_t bytes = table->row_count * sizeof(struct row_outcome);
    struct simulation simulation = { reckon, device, table, workers_share(bytes) };
    enum sim_status status = SIM_OK;
    workers_run(jobs, table->row_count, simulate, &simulation);
    for (size_t i = 0; status == SIM_OK && i < table->row_count; i++) {
        const struct row_outcome *outcome = &simulation.outcomes[i];
        table->rows[i].simulated = outcome->simulated;
        if (outcome->status != SIM_OK) {
            status = sim_fail(error, outcome->status, "%s/%s %s: %s", table->rows[i].suite,
                              table->rows[i].kernel, table->rows[i].params, outcome->error.text);
        }
    }
    workers_unshare(simulation.outcomes, bytes);
    return status;
}

static void consider(struct counters_row *row, double difference, const char *what)
{
    if (isfinite(difference) && fabs(difference) > fabs(row->worst)) {
        row->worst = difference;
        snprintf(row->worst_of, sizeof row->worst_of, "%s", what);
    }
}

static void find_worst(struct counters_row *row)
{
    const struct counters_side *m = &row->measured, *s = &row->simulated;
    consider(row, (s->dram_read_bytes - m->dram_read_bytes) / row->unit_bytes, "DRAM read");
    consider(row, (s->dram_write_bytes - m->dram_write_bytes) / row->unit_bytes, "DRAM written");
    consider(row, s->near_hit - m->near_hit, "near hits");
    consider(row, (s->far_hit - m->far_hit) * (1 - m->near_hit) / 2,
             "far hits"); /* half of what misses near is homed far */
}

static size_t split(char *line, char **cells, size_t capacity)
{
    size_t count = 0;
    line[strcspn(line, "\r\n")] = '\0';
    for (char *at = line; at != NULL && count < capacity;) {
        cells[count++] = at;
        at = strchr(at, ',');
        if (at != NULL) {
            *at++ = '\0';
        }
    }
    return count;
}

struct reading {
    const char *path;
    unsigned line;
    size_t column[COLUMNS], cells;
    struct sim_error *error;
};

static enum sim_status read_header(struct reading *reading, char *line)
{
    char *cells[64];
    reading->cells = split(line, cells, 64);
    for (int c = 0; c < COLUMNS; c++) {
        size_t at = 2;
        while (at < reading->cells && strcmp(cells[at], column_names[c]) != 0) {
            at++;
        }
        if (at >= reading->cells) {
            return sim_fail(reading->error, SIM_BAD_FILE, "%s:1: no column %s", reading->path,
                            column_names[c]);
        }
        reading->column[c] = at;
    }
    return SIM_OK;
}

static enum sim_status read_row(struct reading *reading, char *line, struct counters_table *table)
{
    char *cells[64];
    double count[COLUMNS];
    if (split(line, cells, 64) != reading->cells) {
        return sim_fail(reading->error, SIM_BAD_FILE, "%s:%u: not as many columns as the header's %zu",
                        reading->path, reading->line, reading->cells);
    }
    for (int c = 0; c < COLUMNS; c++) {
        char *end = NULL;
        count[c] = strtod(cells[reading->column[c]], &end);
        if (*end != '\0' || end == cells[reading->column[c]] || !isfinite(count[c]) || count[c] < 0) {
            return sim_fail(reading->error, SIM_BAD_FILE, "%s:%u: %s is '%s', must be a count", reading->path,
                            reading->line, column_names[c], cells[reading->column[c]]);
        }
    }
    const struct program_name *name = name_of(cells[0], cells[1]);
    if (name == NULL) {
        table->left_out++;
        return SIM_OK;
    }
    table->rows = realloc(table->rows, (table->row_count + 1) * sizeof *table->rows);
    SIM_ASSERT(table->rows != NULL, "no memory for %zu rows", table->row_count);
    struct counters_row *row = &table->rows[table->row_count++];
    memset(row, 0, sizeof *row);
    snprintf(row->counted_as, sizeof row->counted_as, "%s", cells[0]);
    snprintf(row->suite, sizeof row->suite, "%s", name->suite);
    snprintf(row->kernel, sizeof row->kernel, "%s", name->kernel);
    translate(name, cells[1], row->params, sizeof row->params);
    fill_measured(count, row);
    return SIM_OK;
}

static enum sim_status read_table(const char *path, struct counters_table *table, struct sim_error *error)
{
    struct reading reading = { .path = path, .error = error };
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t capacity = 0;
    enum sim_status status = SIM_OK;
    if (file == NULL) {
        return sim_fail(error, SIM_BAD_FILE, "%s: %s", path, strerror(errno));
    }
    while (status == SIM_OK && getline(&line, &capacity, file) >= 0) {
        status = ++reading.line == 1 ? read_header(&reading, line) : read_row(&reading, line, table);
    }
    if (status == SIM_OK && reading.line == 0) {
        status = sim_fail(error, SIM_BAD_FILE, "%s:1: empty, a header was expected", path);
    }
    free(line);
    fclose(file);
    return status;
}

enum sim_status counters_compare(struct reckon *reckon, const struct reckon_device *device, uint32_t jobs,
                                 const char *path, struct counters_table *table, struct sim_error *error)
{
    memset(table, 0, sizeof *table);
    enum sim_status status = read_table(path, table, error);
    if (status == SIM_OK) {
        status = simulate_all(reckon, device, jobs, table, error);
    }
    for (size_t i = 0; status == SIM_OK && i < table->row_count; i++) {
        find_worst(&table->rows[i]);
    }
    if (status != SIM_OK) {
        counters_finish(table);
    }
    return status;
}

void counters_finish(struct counters_table *table)
{
    free(table->rows);
    *table = (struct counters_table){ 0 };
}

/* ---- report */

static int by_worst(const void *a, const void *b)
{
    const struct counters_row *x = *(const struct counters_row *const *)a,
                              *y = *(const struct counters_row *const *)b;
    if (fabs(x->worst) != fabs(y->worst)) {
        return fabs(x->worst) > fabs(y->worst) ? -1 : 1;
    }
    return x < y ? -1 : x > y;
}

static void put_rates(FILE *out, double measured, double simulated)
{
    if (isfinite(measured)) {
        fprintf(out, " %.0f / %.0f |", measured * 100, simulated * 100);
    } else {
        fprintf(out, " - |");
    }
}

void counters_write(const struct counters_table *table, size_t worst, FILE *out)
{
    const struct counters_row **order = malloc((table->row_count + 1) * sizeof(struct counters_row *));
    SIM_ASSERT(order != NULL, "no memory for %zu rows", table->row_count);
    for (size_t i = 0; i < table->row_count; i++) {
        order[i] = &table->rows[i];
    }
    qsort(order, table->row_count, sizeof order[0], by_worst);
    fprintf(out,
            "## Against hardware counters\n\nMeasured / simulated; furthest off first. DRAM traffic in MB, "
            "hits of loads in %%: near, at the L2 "
            "slice that faces the unit; far, of\nthose it sent on. \"Off\" is the largest difference: of "
            "DRAM bytes as a share of the units' L2 "
            "traffic, of near hits in points, of far hits\nweighted by the loads they concern. %zu kernels "
            "compared, %zu counted ones have no program here.\n\n",
            table->row_count, table->left_out);
    fprintf(
        out,
        "| kernel | DRAM read | DRAM written | near hits | far hits | off |\n|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < table->row_count && (worst == 0 || i < worst); i++) {
        const struct counters_row *row = order[i];
        fprintf(out, "| %s/%s %s | %.4g / %.4g | %.4g / %.4g |", row->suite, row->kernel, row->params,
                row->measured.dram_read_bytes * 1e-6, row->simulated.dram_read_bytes * 1e-6,
                row->measured.dram_write_bytes * 1e-6, row->simulated.dram_write_bytes * 1e-6);
        put_rates(out, row->measured.near_hit, row->simulated.near_hit);
        put_rates(out, row->measured.far_hit, row->simulated.far_hit);
        fprintf(out, " %+.0f%% %s |\n", row->worst * 100, row->worst_of);
    }
    free(order);
}
