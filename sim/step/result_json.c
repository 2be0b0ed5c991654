/* The JSON of docs/design.md section 6: fields others rely on are added, never renamed. */
#include "sim/reckon.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void set_number_or_null(struct json *object, const char *key, double value)
{
    if (isfinite(value)) {
        json_set_number(object, key, value);
    } else {
        json_set_null(object, key);
    }
}

static struct json *notes_json(const struct reckon_notes *notes)
{
    struct json *list = json_new_array();
    for (size_t i = 0; i < notes->count; i++) {
        json_append_string(list, notes->text[i]);
    }
    return list;
}

static struct json *basis_json(const struct reckon_basis *basis)
{
    struct json *object = json_new_object();
    for (int k = 0; k < PROFILE_KINDS; k++) {
        json_set_integer(object, profile_kind_text((enum profile_kind)k), (int64_t)basis->count[k]);
    }
    return object;
}

/* ---- kernel */

/* "k=v;k=v" as an object; numbers as numbers. */
static struct json *params_json(const char *params)
{
    struct json *object = json_new_object();
    char key[64], value[256];
    for (const char *at = params; *at != '\0';) {
        size_t length = strcspn(at, ";"), equals = strcspn(at, "=;");
        snprintf(key, sizeof key, "%.*s", (int)equals, at);
        snprintf(value, sizeof value, "%.*s", equals < length ? (int)(length - equals - 1) : 0,
                 at + equals + (equals < length ? 1 : 0));
        char *end = NULL;
        double number = strtod(value, &end);
        if (end != value && *end == '\0' && isfinite(number)) {
            json_set_number(object, key, number);
        } else {
            json_set_string(object, key, value);
        }
        at += length + (at[length] == ';' ? 1 : 0);
    }
    return object;
}

static struct json *stack_json(const struct kernel_result *result)
{
    struct json *object = json_new_object();
    for (int s = 0; s < KERNEL_STAGES; s++) {
        json_set_number(object, kernel_stage_text((enum kernel_stage)s), result->stack[s]);
    }
    return object;
}

static struct json *bytes_json(const struct kernel_result *result)
{
    static const char *const names[KERNEL_LEVELS] = { "l1", "l2", "die_link", "mall", "hbm" };
    struct json *object = json_new_object();
    for (int l = 0; l < KERNEL_LEVELS; l++) {
        json_set_number(object, names[l], result->bytes[l]);
    }
    return object;
}

static void set_result(struct json *object, const struct kernel_result *result)
{
    struct json *hit_rate = json_new_object(), *occupancy = json_new_object(), *atomics = json_new_object();
    json_set_string(object, "limiter", kernel_stage_text(result->limiter));
    json_set(object, "stack", stack_json(result));
    json_set(object, "bytes", bytes_json(result));
    json_set_number(hit_rate, "l1", result->l1_hit_rate);
    json_set_number(hit_rate, "l2", result->l2_hit_rate);
    json_set_number(hit_rate, "mall", result->mall_hit_rate);
    json_set(object, "hit_rate", hit_rate);
    json_set_number(occupancy, "waves_per_cu", result->waves_per_unit);
    json_set_number(occupancy, "lanes", result->lanes);
    json_set(object, "occupancy", occupancy);
    json_set_number(atomics, "count", result->atomic_count);
    json_set_string(atomics, "executed_at",
                    result->atomic_executed_at != NULL ? result->atomic_executed_at : "none");
    json_set_number(atomics, "hottest_line_ops", result->atomic_hottest_line_ops);
    json_set(object, "atomics", atomics);
    json_set_number(object, "clock_mhz", result->clock_mhz);
    set_number_or_null(object, "watts", result->watts > 0 ? result->watts : NAN);
    json_set_number(object, "sampled_fraction", result->sampled_fraction);
    json_set_number(object, "sampling_error", result->sampling_error);
}

struct json *reckon_kernel_json(const struct reckon_kernel *kernel)
{
    struct json *object = json_new_object();
    json_set_string(object, "schema", "reckon.kernel/1");
    json_set_string(object, "device", kernel->device);
    json_set_string(object, "suite", kernel->suite);
    json_set_string(object, "kernel", kernel->kernel);
    json_set(object, "params", params_json(kernel->params));
    set_number_or_null(object, "time_us", kernel->time_us);
    set_number_or_null(object, "time_us_low", kernel->time_us_low);
    set_number_or_null(object, "time_us_high", kernel->time_us_high);
    set_result(object, &kernel->result);
    set_number_or_null(object, "value", kernel->has_value ? kernel->value : NAN);
    if (kernel->has_value) {
        json_set_string(object, "unit", kernel->unit);
    } else {
        json_set_null(object, "unit");
    }
    set_number_or_null(object, "tflops", kernel->tflops);
    json_set_number(object, "device_us", kernel->device_us);
    json_set_number(object, "launches", kernel->launches);
    if (kernel->harness[0] != '\0') {
        json_set_string(object, "harness", kernel->harness);
    } else {
        json_set_null(object, "harness");
    }
    json_set(object, "basis", basis_json(&kernel->basis));
    json_set(object, "notes", notes_json(&kernel->notes));
    return object;
}

/* ---- predict */

static struct json *memory_json(const struct reckon_prediction *prediction)
{
    static const char *const names[] = { "parameters",    "gradients", "optimizer", "embeddings", "activations",
                                         "communication", "workspace", "reserve",   "peak" };
    const struct reckon_memory *m = &prediction->memory_gib;
    const double known[] = { m->parameters, m->gradients, m->optimizer, m->embeddings, m->activations,
                             m->communication, m->workspace, m->reserve, m->peak };
    struct json *object = json_new_object();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        set_number_or_null(object, names[i], prediction->memory_known ? known[i] : NAN); /* a trace holds none */
    }
    if (prediction->memory_known) {
        json_set_string(object, "moment", prediction->memory_moment);
    }
    json_set_number(object, "capacity", prediction->capacity_gib);
    return object;
}

static void set_interval(struct json *entry, const struct reckon_prediction *prediction, double low, double high)
{
    if (prediction->parts_have_intervals) {
        set_number_or_null(entry, "ms_low", low);
        set_number_or_null(entry, "ms_high", high);
    }
}

static struct json *categories_json(const struct reckon_prediction *prediction)
{
    struct json *list = json_new_array();
    for (size_t i = 0; i < prediction->category_count; i++) {
        struct json *entry = json_new_object();
        json_set_string(entry, "name", prediction->categories[i].name);
        json_set_number(entry, "ms", prediction->categories[i].ms);
        set_interval(entry, prediction, prediction->categories[i].ms_low, prediction->categories[i].ms_high);
        json_set_number(entry, "count", prediction->categories[i].count);
        json_append(list, entry);
    }
    return list;
}

#define STAGE_SHOWN 0.0005 /* of the time */

static void set_row_price(struct json *entry, const struct reckon_kernel_row *row)
{
    if (!row->has_stack) {
        json_set_null(entry, "stack");
        json_set_null(entry, "hbm_bytes");
        json_set_null(entry, "flops");
        return;
    }
    struct json *stack = json_new_object();
    for (int s = 0; s < KERNEL_STAGES; s++) {
        if (row->stack[s] >= STAGE_SHOWN) {
            json_set_number(stack, kernel_stage_text((enum kernel_stage)s), row->stack[s]);
        }
    }
    json_set(entry, "stack", stack);
    json_set_number(entry, "hbm_bytes", row->hbm_bytes);
    set_number_or_null(entry, "flops", row->flops > 0 ? row->flops : NAN);
}

static struct json *kernels_json(const struct reckon_prediction *prediction)
{
    static const char *const priced[RECKON_PRICED_KINDS] = { "program", "fabric", "bytes", "replayed" };
    struct json *list = json_new_array();
    for (size_t i = 0; i < prediction->kernel_count; i++) {
        const struct reckon_kernel_row *row = &prediction->kernels[i];
        struct json *entry = json_new_object();
        json_set_string(entry, "name", row->name);
        json_set_string(entry, "program", row->program);
        json_set_number(entry, "count", row->count);
        json_set_number(entry, "ms", row->ms);
        set_interval(entry, prediction, row->ms_low, row->ms_high);
        set_number_or_null(entry, "traced_ms", row->traced_ms);
        json_set_string(entry, "limiter", row->limiter);
        json_set_string(entry, "category", row->category);
        json_set_string(entry, "priced", priced[row->priced]);
        json_set_string(entry, "params", row->params);
        set_row_price(entry, row);
        json_append(list, entry);
    }
    return list;
}

static struct json *input_json(const struct reckon_input *input)
{
    struct json *object = json_new_object();
    json_set_string(object, "verdict", input->verdict);
    json_set_bool(object, "enough", input->enough);
    json_set_integer(object, "ranks", input->ranks);
    json_set_integer(object, "world_size", input->world_size);
    json_set_number(object, "steps", input->steps);
    json_set_integer(object, "gpu_events", (int64_t)input->gpu_events);
    json_set_integer(object, "streams", input->streams);
    json_set_number(object, "traced_step_ms", input->traced_step_ms);
    json_set_number(object, "traced_busy_ms", input->traced_busy_ms);
    json_set_number(object, "traced_kernel_ms", input->traced_kernel_ms);
    set_number_or_null(object, "traced_wait_ms", input->traced_wait_ms);
    if (isfinite(input->traced_wait_ms)) {
        json_set_string(object, "traced_wait_by", input->wait_by_ranks ? "ranks" : "fabric");
    }
    json_set_number(object, "program_share", input->program_share);
    json_set_number(object, "fabric_share", input->fabric_share);
    json_set_number(object, "bytes_share", input->bytes_share);
    json_set_number(object, "replayed_share", input->replayed_share);
    set_number_or_null(object, "host_inflation", input->host_inflation);
    return object;
}

struct json *reckon_prediction_json(const struct reckon_prediction *prediction)
{
    struct json *object = json_new_object();
    json_set_string(object, "schema", "reckon.predict/1");
    json_set_string(object, "device", prediction->device);
    json_set_integer(object, "gpus", prediction->gpus);
    json_set_string(object, "mode", prediction->mode);
    set_number_or_null(object, "step_ms", prediction->step_ms);
    set_number_or_null(object, "step_ms_low", prediction->step_ms_low);
    set_number_or_null(object, "step_ms_high", prediction->step_ms_high);
    set_number_or_null(object, "examples_per_s", prediction->examples_per_s);
    set_number_or_null(object, "gpu_busy_ms", prediction->gpu_busy_ms);
    set_number_or_null(object, "gpu_moving_ms", prediction->gpu_moving_ms);
    if (prediction->input.known) {
        set_number_or_null(object, "gpu_busy_recorded_waits_ms", prediction->gpu_moving_ms + prediction->input.traced_wait_ms);
    }
    set_number_or_null(object, "host_ms", prediction->host_ms);
    set_number_or_null(object, "exposed_comm_ms", prediction->exposed_comm_ms);
    set_number_or_null(object, "recognised_fraction", prediction->recognised_fraction);
    if (prediction->fits_known) {
        json_set_bool(object, "fits", prediction->fits);
    } else {
        json_set_null(object, "fits");
    }
    if (isfinite(prediction->step_ms)) { /* as the table says it */
        json_set_string(object, "bound",
                        prediction->host_ms > prediction->gpu_busy_ms               ? "host"
                        : prediction->exposed_comm_ms > prediction->gpu_busy_ms / 2 ? "communication"
                                                                                    : "gpu");
    } else {
        json_set_null(object, "bound");
    }
    if (prediction->input.known) {
        json_set(object, "input", input_json(&prediction->input));
    }
    json_set(object, "memory_gib", memory_json(prediction));
    json_set(object, "categories", categories_json(prediction));
    json_set(object, "kernels", kernels_json(prediction));
    set_number_or_null(object, "within_2x_fraction", prediction->within_2x_fraction);
    set_number_or_null(object, "watts", prediction->watts > 0 ? prediction->watts : NAN);
    set_number_or_null(object, "clock_mhz", prediction->clock_mhz > 0 ? prediction->clock_mhz : NAN);
    if (prediction->timeline != NULL) {
        json_set(object, "timeline", reckon_timeline_json(prediction->timeline));
    }
    json_set_string(object, "node", prediction->node);
    json_set_string(object, "host", prediction->host);
    json_set_string(object, "source", prediction->source);
    json_set(object, "basis", basis_json(&prediction->basis));
    json_set(object, "notes", notes_json(&prediction->notes));
    return object;
}

/* ---- validate */

static struct json *suites_json(const struct reckon_validation *validation)
{
    struct json *list = json_new_array();
    for (size_t i = 0; i < validation->suite_count; i++) {
        const struct reckon_validate_suite *suite = &validation->suites[i];
        struct json *entry = json_new_object();
        json_set_string(entry, "suite", suite->suite);
        json_set_integer(entry, "rows", (int64_t)suite->rows);
        json_set_integer(entry, "skipped", (int64_t)suite->skipped);
        set_number_or_null(entry, "median", suite->median);
        set_number_or_null(entry, "p90", suite->p90);
        set_number_or_null(entry, "max", suite->max);
        set_number_or_null(entry, "bias", suite->bias);
        json_set_number(entry, "seconds", suite->seconds);
        json_append(list, entry);
    }
    return list;
}

struct json *reckon_validation_json(const struct reckon_validation *validation)
{
    struct json *object = json_new_object(), *rows = json_new_array();
    json_set_string(object, "schema", "reckon.validate/1");
    json_set_string(object, "device", validation->device);
    json_set(object, "suites", suites_json(validation));
    for (size_t i = 0; i < validation->row_count; i++) {
        const struct reckon_validate_row *row = &validation->rows[i];
        struct json *entry = json_new_object();
        json_set_string(entry, "suite", row->suite);
        json_set_string(entry, "kernel", row->kernel);
        json_set_string(entry, "params", row->params);
        json_set_number(entry, "measured", row->measured);
        set_number_or_null(entry, "predicted", row->predicted);
        json_set_string(entry, "unit", row->unit);
        set_number_or_null(entry, "error", row->error);
        if (row->skipped != NULL) {
            json_set_string(entry, "skipped", row->skipped);
        } else {
            json_set_null(entry, "skipped");
        }
        json_append(rows, entry);
    }
    json_set(object, "rows", rows);
    json_set(object, "notes", notes_json(&validation->notes));
    return object;
}
