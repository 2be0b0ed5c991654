/* Joins the parts: a session, devices by name, and one kernel on a device. The step is in step/predict.c, the comparison
 * with measurements in step/validate.c. */
#include "sim/core/data_path.h"
#include "sim/reckon.h"
#include "sim/step/parallel.h"
#include "sim/step/params_text.h"
#include "sim/step/price_board.h"
#include "sim/step/session.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum sim_status reckon_create(const struct reckon_options *options, struct reckon **out,
                              struct sim_error *error)
{
    *out = calloc(1, sizeof **out);
    if (*out == NULL) {
        return sim_fail(error, SIM_NO_MEMORY, "no memory for a session");
    }
    (*out)->options = *options;
    if ((*out)->options.jobs == 0) {
        (*out)->options.jobs = parallel_default_jobs();
    }
    (*out)->memo = price_memo_create();
    enum sim_status status = library_set_read(&(*out)->libraries, error);
    if (status != SIM_OK) {
        reckon_destroy(*out);
        *out = NULL;
    }
    return status;
}

void reckon_destroy(struct reckon *reckon)
{
    if (reckon != NULL) {
        price_memo_destroy(reckon->memo);
        price_board_close(reckon->board);
        price_board_close(reckon->launches);
        library_set_finish(&reckon->libraries);
        free(reckon);
    }
}

enum sim_status reckon_share_prices(struct reckon *reckon, const char *path, size_t capacity, struct sim_error *error)
{
    price_board_close(reckon->board);
    reckon->board = NULL;
    return price_board_open(path, capacity, &reckon->board, error);
}

void reckon_set_jobs(struct reckon *reckon, uint32_t jobs)
{
    SIM_ASSERT(jobs > 0, "%u workers", jobs);
    reckon->options.jobs = jobs;
}

struct reckon_memo_counts reckon_memo(const struct reckon *reckon)
{
    return reckon->counts;
}

static enum sim_status device_read(const char *name, const char *node_name, struct reckon_device *device,
                                   struct sim_error *error)
{
    char path[DATA_PATH_CAPACITY];
    enum sim_status status = data_path_find("devices", "device", name, path, error);
    if (status == SIM_OK) {
        status = chip_profile_read(path, &device->chip, error);
    }
    if (status == SIM_OK) {
        status = data_path_find("devices/nodes", "node", node_name != NULL ? node_name : device->chip.node,
                                path, error);
    }
    if (status == SIM_OK) {
        status = node_profile_read(path, &device->node, error);
    }
    if (status == SIM_OK) {
        status = data_path_find("devices/hosts", "host", device->chip.host, path, error);
    }
    return status == SIM_OK ? host_profile_read(path, &device->host, error) : status;
}

enum sim_status reckon_device_open(const struct reckon *reckon, const char *name, const char *node_name,
                                   struct reckon_device **out, struct sim_error *error)
{
    (void)reckon;
    struct reckon_device *device = calloc(1, sizeof *device);
    if (device == NULL) {
        return sim_fail(error, SIM_NO_MEMORY, "no memory for device %s", name);
    }
    device->node_named = node_name != NULL;
    enum sim_status status = device_read(name, node_name, device, error);
    if (status != SIM_OK) {
        reckon_device_close(device);
        device = NULL;
    }
    *out = device;
    return status;
}

void reckon_device_close(struct reckon_device *device)
{
    if (device != NULL) {
        chip_profile_finish(&device->chip);
        node_profile_destroy(device->node);
        free(device);
    }
}

const struct chip_profile *reckon_device_chip(const struct reckon_device *device)
{
    return &device->chip;
}

struct chip_profile *reckon_device_chip_edit(struct reckon_device *device)
{
    return &device->chip;
}

/* ---- one kernel */

static enum harness_cache cache_of(enum reckon_cache cache)
{
    switch (cache) {
    case RECKON_CACHE_CLEAN: return HARNESS_CACHE_CLEAN;
    case RECKON_CACHE_OWN: return HARNESS_CACHE_OWN;
    case RECKON_CACHE_PREDECESSOR: return HARNESS_CACHE_PREDECESSOR;
    case RECKON_CACHE_FLUSHED: return HARNESS_CACHE_FLUSHED;
    default: return HARNESS_CACHE_PROGRAM;
    }
}

static void fill_times(const struct kernel_price *price, const struct reckon_device *device,
                       const struct harness_profile *harness, const struct harness_coverage *coverage,
                       struct reckon_kernel *kernel)
{
    double floor_us = harness != NULL ? harness_floor_us(harness, &device->chip) : 0;
    double interval_us = harness != NULL ? harness_interval_us(harness, coverage, price->time_is_per_call) : 0;
    double error = 1.2816 * price->result.sampling_error; /* 80% of a normal spread */
    kernel->device_us = price->device_us;
    kernel->time_us = fmax(kernel_price_measured_us(price, &device->chip, floor_us, interval_us) +
                               (coverage != NULL ? coverage->lead_us + price->host_us : 0),
                           coverage != NULL ? coverage->call_us : 0);
    kernel->time_us_low = kernel->time_us - price->device_us * fmin(error, 1);
    kernel->time_us_high = kernel->time_us + price->device_us * error;
    /* Counters inside a kernel see the device alone, whatever measures around it. */
    kernel->has_value = kernel_price_value(price, price->value_only ? price->device_us : kernel->time_us,
                                           &kernel->value);
    memcpy(kernel->unit, price->value_unit, sizeof kernel->unit);
    kernel->tflops = price->flops > 0 && kernel->time_us > 0 ? price->flops / kernel->time_us * 1e-6 : NAN;
}

static void fill_notes(const struct kernel_price *price, const struct reckon_device *device,
                       const struct kernel_price_request *request, struct reckon_kernel *kernel)
{
    for (size_t i = 0; i < price->assumption_count; i++) {
        const struct kernel_assumption *assumption = &price->assumptions[i];
        notes_add(&kernel->notes, "assumed: %s", assumption->text);
        if (assumption->key[0] != '\0' && assumption->low < assumption->high) {
            SIM_ASSERT(kernel->input_count < sizeof kernel->inputs / sizeof *kernel->inputs, "%zu unknown inputs", kernel->input_count);
            struct reckon_assumed *input = &kernel->inputs[kernel->input_count++];
            *input = (struct reckon_assumed){ .value = assumption->value, .low = assumption->low, .high = assumption->high };
            snprintf(input->key, sizeof input->key, "%s", assumption->key);
        }
    }
    if (price->result.sampled_fraction < 1) {
        notes_add(&kernel->notes, "sampled: %.3g%% of the work simulated (--exact runs all of it)",
                  price->result.sampled_fraction * 100);
    }
    if (request->cache != HARNESS_CACHE_PROGRAM) {
        notes_add(&kernel->notes, "caches at the start: %s", harness_cache_text(request->cache));
    }
    if (price->sustained_mhz < price->result.clock_mhz - 1) {
        notes_add(&kernel->notes,
                  "a lone run at %.0f MHz; repeated without pause it would run at %.0f MHz, at most %.0f W",
                  price->result.clock_mhz, price->sustained_mhz, device->chip.power_board_limit);
    }
}

static void fill_kernel(const struct kernel_price *price, const struct reckon_device *device,
                        const struct kernel_price_request *request, const struct harness_profile *harness,
                        const struct harness_coverage *coverage, struct reckon_kernel *kernel)
{
    snprintf(kernel->device, sizeof kernel->device, "%s", device->chip.name);
    snprintf(kernel->suite, sizeof kernel->suite, "%s", request->suite);
    snprintf(kernel->kernel, sizeof kernel->kernel, "%s", request->kernel);
    snprintf(kernel->harness, sizeof kernel->harness, "%s", harness != NULL ? harness->name : "");
    kernel->params = strdup(request->params != NULL ? request->params : "");
    SIM_ASSERT(kernel->params != NULL, "no memory for parameters");
    kernel->result = price->result;
    kernel->launches = price->launches;
    fill_times(price, device, harness, coverage, kernel);
    memcpy(kernel->library.name, price->library.name, sizeof kernel->library.name);
    memcpy(kernel->library.class, price->library.class, sizeof kernel->library.class);
    kernel->library.efficiency = price->library.name[0] != '\0' ? price->library.efficiency : 1;
    kernel->library.tile_m = price->library.tile_m;
    kernel->library.tile_n = price->library.tile_n;
    fill_notes(price, device, request, kernel);
    basis_add_chip(&kernel->basis, &device->chip);
    if (harness != NULL) {
        basis_add_kinds(&kernel->basis, &harness->kinds);
    }
}

enum sim_status reckon_kernel(struct reckon *reckon, const struct reckon_device *device,
                              const struct reckon_kernel_request *request, struct reckon_kernel **out,
                              struct sim_error *error)
{
    struct harness_profile harness;
    const struct harness_coverage *coverage = NULL;
    struct kernel_price_request priced = { .suite = request->suite,
                                           .kernel = request->kernel,
                                           .params = request->params,
                                           .library = request->no_library ? "none" : NULL,
                                           .cache = cache_of(request->cache),
                                           .exact = request->exact,
                                           .window_requests = request->window_requests };
    *out = NULL;
    if (request->params != NULL && strlen(request->params) > PRICE_KEY_CAPACITY / 2) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "parameters of %s/%s are longer than %d bytes",
                        request->suite, request->kernel, PRICE_KEY_CAPACITY / 2);
    }
    if (request->harness != NULL) {
        enum sim_status status = session_harness_read(request->harness, &harness, error);
        if (status != SIM_OK) {
            return status;
        }
        coverage = harness_covers(&harness, request->suite, request->kernel,
                                  harness.library_count > 0 ? harness.libraries[0] : NULL);
        if (priced.cache == HARNESS_CACHE_PROGRAM && coverage != NULL) {
            priced.cache = coverage->cache;
        }
        if (coverage != NULL) {
            priced.loop = coverage->loop;
        }
    }
    char *params = coverage != NULL ? params_with_defaults(request->params, coverage->params) : NULL;
    if (params != NULL) {
        priced.params = params;
    }
    enum sim_status status = session_price(reckon, device, &priced, 1, error);
    const struct kernel_price *price = status == SIM_OK ? session_price_of(reckon, device, &priced) : NULL;
    if (price != NULL && price->status != SIM_OK) {
        status = sim_fail(error, price->status, "%s", price->error);
    }
    if (status == SIM_OK && (*out = calloc(1, sizeof **out)) == NULL) {
        status = sim_fail(error, SIM_NO_MEMORY, "no memory for an answer");
    }
    if (status == SIM_OK) {
        fill_kernel(price, device, &priced, request->harness != NULL ? &harness : NULL, coverage, *out);
    }
    free(params);
    return status;
}

void reckon_kernel_free(struct reckon_kernel *kernel)
{
    if (kernel != NULL) {
        free(kernel->params);
        notes_free(&kernel->notes);
        free(kernel);
    }
}
