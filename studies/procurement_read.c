#include "studies/procurement_internal.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct reader {
    struct procurement *plan;
    struct sim_error *error;
    enum sim_status status; /* of the first error; later ones are not looked for */
};

static void refuse(struct reader *reader, const struct json *where, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void refuse(struct reader *reader, const struct json *where, const char *format, ...)
{
    char text[400];
    va_list arguments;
    if (reader->status != SIM_OK) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    reader->status = sim_fail(reader->error, SIM_BAD_ARGUMENT, "%s:%u: %s", reader->plan->path, where != NULL ? json_line(where) : 1u, text);
}

static void check_keys(struct reader *reader, const struct json *object, const char *const *keys, const char *what)
{
    char list[400] = "";
    for (size_t k = 0; keys[k] != NULL; k++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", k > 0 ? ", " : "", keys[k]);
    }
    if (json_kind_of(object) != JSON_OBJECT) {
        refuse(reader, object, "%s must be an object with %s", what, list);
        return;
    }
    for (size_t i = 0; i < json_count(object); i++) {
        size_t k = 0;
        while (keys[k] != NULL && strcmp(keys[k], json_key(json_at(object, i))) != 0) {
            k++;
        }
        if (keys[k] == NULL) {
            refuse(reader, json_at(object, i), "%s: unknown key \"%s\"; known: %s", what, json_key(json_at(object, i)), list);
            return;
        }
    }
}

static void take_text(struct reader *reader, const struct json *object, const char *key, const char *what, bool needed, char *text,
                      size_t capacity)
{
    const struct json *value = json_get(object, key);
    text[0] = '\0';
    if (value == NULL) {
        if (needed) {
            refuse(reader, object, "%s: \"%s\" is missing", what, key);
        }
        return;
    }
    if (json_kind_of(value) != JSON_STRING || json_string(value)[0] == '\0' || strlen(json_string(value)) >= capacity) {
        refuse(reader, value, "%s: \"%s\" must be a text of 1 to %zu bytes", what, key, capacity - 1);
        return;
    }
    snprintf(text, capacity, "%s", json_string(value));
}

static bool take_end(struct reader *reader, const struct json *value, const char *key, double min, double max, double *out)
{
    const struct json *end = json_get(value, key);
    if (end == NULL) {
        return false;
    }
    if (json_kind_of(end) != JSON_NUMBER || json_number(end) < min || json_number(end) > max) {
        refuse(reader, end, "\"%s\" must be a number of %g to %g", key, min, max);
        return false;
    }
    *out = json_number(end);
    return true;
}

/* A number, or {value, low, high, source}. Returns its index, or -1 when it is not there. */
static int take_value(struct reader *reader, const struct json *object, const char *key, const char *what, double min, double max,
                      bool needed)
{
    static const char *const keys[] = { "value", "low", "high", "source", NULL };
    const struct json *value = object != NULL ? json_get(object, key) : NULL;
    struct procurement *plan = reader->plan;
    if (value == NULL) {
        if (needed) {
            refuse(reader, object, "%s: \"%s\" is missing: a number of %g to %g, or {value, low, high, source}", what, key, min, max);
        }
        return -1;
    }
    if (plan->value_count == PLAN_VALUES_MAX || reader->status != SIM_OK) {
        refuse(reader, value, "more than %d numbers in a demand", PLAN_VALUES_MAX);
        return -1;
    }
    struct procurement_value *out = &plan->values[plan->value_count];
    memset(out, 0, sizeof *out);
    snprintf(out->key, sizeof out->key, "%s.%s", what, key);
    out->known = true;
    if (json_kind_of(value) == JSON_NUMBER) {
        out->value = json_number(value);
        out->low = out->value * 0.9;
        out->high = out->value * 1.1;
    } else {
        check_keys(reader, value, keys, key);
        if (reader->status != SIM_OK) {
            return -1;
        }
        if (!take_end(reader, value, "value", min, max, &out->value)) {
            refuse(reader, value, "%s.%s: \"value\" is missing", what, key);
            return -1;
        }
        out->low = out->value * 0.9;
        out->high = out->value * 1.1;
        bool low = take_end(reader, value, "low", min, max, &out->low), high = take_end(reader, value, "high", min, max, &out->high);
        if (low != high || out->low > out->value || out->high < out->value) {
            refuse(reader, value, "%s.%s: low and high go together, with low <= value <= high", what, key);
        }
        out->given_range = low && high;
        take_text(reader, value, "source", key, false, out->source, sizeof out->source);
    }
    if (!(out->value >= min && out->value <= max)) {
        refuse(reader, value, "%s.%s: %g must be within %g to %g", what, key, out->value, min, max);
    }
    out->low = fmax(out->low, min);
    out->high = fmin(out->high, max);
    return (int)plan->value_count++;
}

static double take_limit(struct reader *reader, const struct json *object, const char *key)
{
    const struct json *value = object != NULL ? json_get(object, key) : NULL;
    if (value == NULL) {
        return INFINITY;
    }
    if (json_kind_of(value) != JSON_NUMBER || !(json_number(value) >= 0)) {
        refuse(reader, value, "constraints: \"%s\" must be a number of 0 or more", key);
        return INFINITY;
    }
    return json_number(value);
}

/* As given, or beside the demand. */
static void find_file(struct reader *reader, const struct json *where, const char *name, char *path, size_t capacity)
{
    const char *slash = strrchr(reader->plan->path, '/');
    snprintf(path, capacity, "%.*s%s", slash != NULL && name[0] != '/' ? (int)(slash - reader->plan->path + 1) : 0, reader->plan->path, name);
    if (access(path, R_OK) != 0) {
        snprintf(path, capacity, "%s", name);
    }
    if (access(path, R_OK) != 0) {
        refuse(reader, where, "model file \"%s\" is neither beside the demand nor below the working folder", name);
    } else if (!reckon_is_model(path)) {
        refuse(reader, where, "\"%s\" is no model description (docs/schemas/model.schema.json)", name);
    }
}

static void read_settings(struct reader *reader, const struct json *list, struct procurement_model *model)
{
    if (list != NULL && json_kind_of(list) != JSON_ARRAY) {
        refuse(reader, list, "models.%s: \"set\" must be a list of at most %d \"k=v\"", model->name, PLAN_SETTINGS_MAX);
    }
    for (size_t i = 0; list != NULL && reader->status == SIM_OK && i < json_count(list); i++) {
        const struct json *text = json_at(list, i);
        if (json_kind_of(text) != JSON_STRING || i == PLAN_SETTINGS_MAX ||
            strlen(json_string(text)) >= sizeof model->settings[0]) {
            refuse(reader, list, "models.%s: \"set\" must be a list of at most %d \"k=v\"", model->name, PLAN_SETTINGS_MAX);
            return;
        }
        for (size_t k = 0; k < i; k++) {
            if (strncmp(model->settings[k], json_string(text), strcspn(json_string(text), "=") + 1) == 0) {
                refuse(reader, text, "models.%s: \"set\" has %.60s and %.60s: give a key once", model->name, model->settings[k], json_string(text));
                return;
            }
        }
        snprintf(model->settings[i], sizeof model->settings[0], "%s", json_string(text));
        model->setting_pointers[i] = model->settings[i];
        model->setting_count = i + 1;
    }
}

static void read_counts(struct reader *reader, const struct json *object, struct procurement_model *model)
{
    const struct json *list = json_get(object, "gpus");
    if (list == NULL || json_kind_of(list) != JSON_ARRAY || json_count(list) == 0 || json_count(list) > PLAN_COUNTS_MAX) {
        refuse(reader, list != NULL ? list : object, "models.%s: \"gpus\" must list 1 to %d job sizes", model->name, PLAN_COUNTS_MAX);
        return;
    }
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *count = json_at(list, i);
        double value = json_kind_of(count) == JSON_NUMBER ? json_number(count) : 0;
        if (!(value >= 1 && value <= 65536 && value == floor(value)) || (i > 0 && value <= model->counts[i - 1])) {
            refuse(reader, count, "models.%s: \"gpus\" must be whole numbers of 1 to 65536, growing", model->name);
            return;
        }
        model->counts[model->count_count++] = (uint32_t)value;
    }
}

static void read_model(struct reader *reader, const struct json *object, size_t index)
{
    static const char *const keys[] = { "name", "model", "set", "gpus", "examples_per_day", "examples", "days", "growth_per_year", NULL };
    struct procurement_model *model = &reader->plan->models[index];
    char what[80], file[512];
    check_keys(reader, object, keys, "models");
    if (reader->status != SIM_OK) {
        return;
    }
    take_text(reader, object, "name", "models", true, model->name, sizeof model->name);
    snprintf(what, sizeof what, "models.%s", model->name);
    take_text(reader, object, "model", what, true, file, sizeof file);
    if (reader->status == SIM_OK) {
        find_file(reader, json_get(object, "model"), file, model->path, sizeof model->path);
    }
    read_settings(reader, json_get(object, "set"), model);
    read_counts(reader, object, model);
    bool rate = json_get(object, "examples_per_day") != NULL, whole = json_get(object, "examples") != NULL || json_get(object, "days") != NULL;
    if (rate == whole) {
        refuse(reader, object, "%s: give either examples_per_day, or examples and days", what);
    }
    model->one_job = whole;
    model->examples_per_day = take_value(reader, object, "examples_per_day", what, 1, 1e18, rate);
    model->examples = take_value(reader, object, "examples", what, 1, 1e18, whole);
    model->days = take_value(reader, object, "days", what, 0.01, 3650, whole);
    model->growth = take_value(reader, object, "growth_per_year", what, -0.9, 20, false);
    for (size_t i = 0; i < index; i++) {
        if (strcmp(reader->plan->models[i].name, model->name) == 0) {
            refuse(reader, object, "models: two are named %s", model->name);
        }
    }
}

static void read_offer(struct reader *reader, const struct json *object, size_t index)
{
    static const char *const keys[] = { "name",    "device",  "node", "gpus_per_node", "node_price", "gpu_hour_price",
                                        "node_kw", "nodes_max", "opex_per_node_year", NULL };
    struct procurement_offer *offer = &reader->plan->offers[index];
    char what[80];
    check_keys(reader, object, keys, "offers");
    if (reader->status != SIM_OK) {
        return;
    }
    take_text(reader, object, "name", "offers", true, offer->name, sizeof offer->name);
    snprintf(what, sizeof what, "offers.%s", offer->name);
    take_text(reader, object, "device", what, true, offer->device, sizeof offer->device);
    take_text(reader, object, "node", what, false, offer->node, sizeof offer->node);
    const struct json *gpus = json_get(object, "gpus_per_node"), *most = json_get(object, "nodes_max");
    double count = gpus != NULL && json_kind_of(gpus) == JSON_NUMBER ? json_number(gpus) : 0;
    if (!(count >= 1 && count <= 1024 && count == floor(count))) {
        refuse(reader, gpus != NULL ? gpus : object, "%s: \"gpus_per_node\" must be a whole number of 1 to 1024", what);
    }
    offer->gpus_per_node = (uint32_t)count;
    offer->nodes_max = INFINITY;
    if (most != NULL) {
        offer->nodes_max = json_kind_of(most) == JSON_NUMBER ? json_number(most) : -1;
        if (!(offer->nodes_max >= 0 && offer->nodes_max == floor(offer->nodes_max))) {
            refuse(reader, most, "%s: \"nodes_max\" must be a whole number of 0 or more", what);
        }
    }
    if ((json_get(object, "node_price") != NULL) == (json_get(object, "gpu_hour_price") != NULL)) {
        refuse(reader, object, "%s: a price is missing or given twice: one of node_price (bought) and gpu_hour_price (leased); none is built in",
               what);
    }
    offer->node_price = take_value(reader, object, "node_price", what, 0, 1e9, false);
    offer->gpu_hour_price = take_value(reader, object, "gpu_hour_price", what, 0, 1e5, false);
    offer->node_kw = take_value(reader, object, "node_kw", what, 0.01, 10000, true);
    offer->opex_per_node_year = take_value(reader, object, "opex_per_node_year", what, 0, 1e9, false);
    for (size_t i = 0; i < index; i++) {
        if (strcmp(reader->plan->offers[i].name, offer->name) == 0) {
            refuse(reader, object, "offers: two are named %s", offer->name);
        }
    }
}

static void read_site(struct reader *reader, const struct json *root)
{
    static const char *const site_keys[] = { "power_price_per_kwh", "pue", "rack_kw", "rack_slots", "rack_price", NULL };
    static const char *const keys[] = { "gpu_mtbf_hours", "node_mtbf_hours", "restart_minutes", "checkpoint_gb_per_s",
                                        "silent_mtbf_gpu_hours", "check_interval_hours", "check_share", "spare_share", NULL };
    static const char *const limit_keys[] = { "kw_max", "racks_max", "capital_max", "nodes_max", NULL };
    const struct json *site = json_get(root, "site"), *reliability = json_get(root, "reliability"), *limits = json_get(root, "constraints");
    struct procurement *plan = reader->plan;
    if (site == NULL || reliability == NULL) {
        refuse(reader, root, "\"%s\" is missing", site == NULL ? "site" : "reliability");
        return;
    }
    check_keys(reader, site, site_keys, "site");
    check_keys(reader, reliability, keys, "reliability");
    if (limits != NULL) {
        check_keys(reader, limits, limit_keys, "constraints");
    }
    if (reader->status != SIM_OK) {
        return;
    }
    plan->power_price = take_value(reader, site, "power_price_per_kwh", "site", 0, 10, true);
    plan->pue = take_value(reader, site, "pue", "site", 1, 3, true);
    plan->rack_kw = take_value(reader, site, "rack_kw", "site", 0.1, 10000, true);
    plan->rack_slots = take_value(reader, site, "rack_slots", "site", 1, 1000, true);
    plan->rack_price = take_value(reader, site, "rack_price", "site", 0, 1e8, false);
    plan->gpu_mtbf = take_value(reader, reliability, "gpu_mtbf_hours", "reliability", 1, 1e9, true);
    plan->node_mtbf = take_value(reader, reliability, "node_mtbf_hours", "reliability", 1, 1e9, true);
    plan->restart = take_value(reader, reliability, "restart_minutes", "reliability", 0, 10000, true);
    plan->checkpoint_rate = take_value(reader, reliability, "checkpoint_gb_per_s", "reliability", 0.001, 10000, true);
    plan->silent_mtbf = take_value(reader, reliability, "silent_mtbf_gpu_hours", "reliability", 1, 1e12, false);
    plan->check_interval = take_value(reader, reliability, "check_interval_hours", "reliability", 0.001, 10000, plan->silent_mtbf >= 0);
    plan->check_share = take_value(reader, reliability, "check_share", "reliability", 0, 1, plan->silent_mtbf >= 0);
    plan->spare_share = take_value(reader, reliability, "spare_share", "reliability", 0, 1, false);
    plan->limits = (struct procurement_limits){ take_limit(reader, limits, "kw_max"), take_limit(reader, limits, "racks_max"),
                                         take_limit(reader, limits, "capital_max"), take_limit(reader, limits, "nodes_max") };
}

static void read_head(struct reader *reader, const struct json *root)
{
    static const char *const keys[] = { "schema", "name", "note", "currency", "example_prices", "years", "samples", "window_requests", "models", "offers",
                                        "site", "reliability", "constraints", NULL };
    struct procurement *plan = reader->plan;
    const struct json *schema = json_kind_of(root) == JSON_OBJECT ? json_get(root, "schema") : NULL;
    if (schema == NULL || json_kind_of(schema) != JSON_STRING || strcmp(json_string(schema), "reckon.demand/1") != 0) {
        refuse(reader, root, "\"schema\" must be \"reckon.demand/1\" (docs/schemas/demand.schema.json)");
        return;
    }
    check_keys(reader, root, keys, "a demand");
    if (reader->status != SIM_OK) {
        return;
    }
    take_text(reader, root, "name", "a demand", true, plan->name, sizeof plan->name);
    take_text(reader, root, "note", "a demand", false, plan->note, sizeof plan->note);
    take_text(reader, root, "currency", "a demand", true, plan->currency, sizeof plan->currency);
    plan->years = take_value(reader, root, "years", "demand", 0.1, PLAN_YEARS_MAX, true);
    const struct json *samples = json_get(root, "samples"), *window = json_get(root, "window_requests"), *example = json_get(root, "example_prices");
    if (samples != NULL) {
        double count = json_kind_of(samples) == JSON_NUMBER ? json_number(samples) : -1;
        if (!(count == 0 || (count >= 8 && count <= 4096)) || count != floor(count)) {
            refuse(reader, samples, "\"samples\" must be 0 or a whole number of 8 to 4096");
            return;
        }
        plan->samples = (uint32_t)count;
    }
    if (window != NULL) {
        double requests = json_kind_of(window) == JSON_NUMBER ? json_number(window) : -1;
        if (!(requests >= 1000 && requests <= 1e9) || requests != floor(requests)) {
            refuse(reader, window, "\"window_requests\" must be a whole number of 1000 to 1e9: line requests of a kernel simulated before extrapolating");
            return;
        }
        plan->window_requests = (uint64_t)requests;
    }
    if (example != NULL && json_kind_of(example) != JSON_BOOL) {
        refuse(reader, example, "\"example_prices\" must be true or false");
        return;
    }
    plan->example_prices = example != NULL && json_bool(example);
}

static void read_lists(struct reader *reader, const struct json *root)
{
    const struct json *models = json_get(root, "models"), *offers = json_get(root, "offers");
    if (models == NULL || json_kind_of(models) != JSON_ARRAY || json_count(models) == 0 || json_count(models) > PLAN_MODELS_MAX) {
        refuse(reader, models != NULL ? models : root, "\"models\" must list 1 to %d models", PLAN_MODELS_MAX);
        return;
    }
    if (offers == NULL || json_kind_of(offers) != JSON_ARRAY || json_count(offers) == 0 || json_count(offers) > PLAN_OFFERS_MAX) {
        refuse(reader, offers != NULL ? offers : root, "\"offers\" must list 1 to %d offers", PLAN_OFFERS_MAX);
        return;
    }
    reader->plan->model_count = json_count(models);
    reader->plan->offer_count = json_count(offers);
    for (size_t i = 0; reader->status == SIM_OK && i < json_count(models); i++) {
        read_model(reader, json_at(models, i), i);
    }
    for (size_t i = 0; reader->status == SIM_OK && i < json_count(offers); i++) {
        read_offer(reader, json_at(offers, i), i);
    }
}

enum sim_status procurement_read(const char *path, struct procurement **out, struct sim_error *error)
{
    struct json *root = NULL;
    *out = NULL;
    enum sim_status status = json_read_file(path, &root, error);
    if (status != SIM_OK) {
        return status;
    }
    struct procurement *plan = calloc(1, sizeof *plan);
    SIM_ASSERT(plan != NULL, "no memory for a plan");
    struct reader reader = { .plan = plan, .error = error };
    snprintf(plan->path, sizeof plan->path, "%s", path);
    read_head(&reader, root);
    if (reader.status == SIM_OK) {
        read_lists(&reader, root);
    }
    if (reader.status == SIM_OK) {
        read_site(&reader, root);
    }
    json_destroy(root);
    if (reader.status != SIM_OK) {
        procurement_free(plan);
        return reader.status;
    }
    for (size_t o = 0; o < PLAN_OFFERS_MAX; o++) {
        plan->rate_factor[o] = 1;
    }
    plan->sample = -1;
    plan->anew_least = 1;
    *out = plan;
    return SIM_OK;
}

void procurement_set_samples(struct procurement *plan, uint32_t samples)
{
    plan->samples = samples;
}

double procurement_number(const struct procurement *plan, int index, double otherwise)
{
    return index >= 0 ? plan->values[index].value : otherwise;
}

void procurement_free(struct procurement *plan)
{
    if (plan == NULL) {
        return;
    }
    for (size_t o = 0; o < plan->offer_count; o++) {
        reckon_device_close(plan->offers[o].open);
    }
    for (size_t m = 0; m < plan->model_count; m++) {
        for (size_t o = 0; o < plan->offer_count; o++) {
            for (size_t c = 0; c < PLAN_COUNTS_MAX; c++) {
                free(plan->jobs[m][o][c].rate_samples);
            }
        }
    }
    free(plan);
}
