/* A big file in two passes. The first keeps the steps' annotations and 16 bytes for each call and device event, which say
 * what launched what and when, as host_calls.c would find it with all events at hand; the second keeps the events of the
 * step that step_survey_choose names:
 *
 *   host events and annotations that begin in it
 *   device events launched in it, and those without a launch in the file that begin in it
 *   synchronisation facts of its calls
 *
 * and passes over blocks of the list in which the first found none of them. */
#include "workloads/arena.h"
#include "workloads/trace/input_internal.h"
#include "workloads/trace/trace_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BIG_BYTES ((off_t)64 << 20)
#define BIG_PACKED_BYTES ((off_t)4 << 20) /* traces pack to a tenth and less */

struct correlated {
    uint64_t correlation;
    int64_t start_ns;
};

struct correlated_list {
    struct correlated *entries;
    size_t count, capacity;
    bool unsorted; /* correlations do not ascend */
};

/* What a correlation of the step means. */
enum { OF_CALL = 1, OF_LAUNCH = 2, OF_UNLAUNCHED = 4 };
struct wanted {
    uint64_t correlation;
    unsigned flags;
};

/* A run of the event list: where it lies, when the host's events of it begin, and which correlations device events and facts
 * have. Empty ranges: low above high. */
#define BLOCK_EVENTS 512
struct block {
    uint64_t offset, end;
    int64_t start_low_ns, start_high_ns;
    uint64_t correlation_low, correlation_high;
};

struct passes {
    struct trace_file *file;
    struct step_survey *survey;
    struct correlated_list launches, others, devices; /* calls by class_of's rule, in file order, then by correlation */
    size_t list_event_count, impossible_count, incomplete_count;
    const char *impossible_name;
    int64_t start_ns, end_ns; /* of the step */
    struct wanted *wanted;    /* by correlation, once each */
    size_t wanted_count, wanted_capacity;
    struct block *blocks;
    size_t block_count, block_capacity, block_at; /* at: of the second pass */
};

/* ---- lists by correlation -------------------------------------------------------------------------------------- */

static void list_add(struct correlated_list *list, uint64_t correlation, int64_t start_ns)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity == 0 ? 4096 : list->capacity * 2;
        list->entries = realloc(list->entries, list->capacity * sizeof *list->entries);
        SIM_ASSERT(list->entries != NULL, "out of memory for %zu calls", list->capacity);
    }
    list->unsorted = list->unsorted || (list->count > 0 && list->entries[list->count - 1].correlation > correlation);
    list->entries[list->count++] = (struct correlated){ correlation, start_ns };
}

static void merge_halves(const struct correlated *from, struct correlated *to, size_t low, size_t middle, size_t high)
{
    size_t left = low, right = middle;
    for (size_t at = low; at < high; at++) {
        bool take_left = left < middle && (right == high || from[left].correlation <= from[right].correlation);
        to[at] = from[take_left ? left++ : right++];
    }
}

/* Stable: the first of equal correlations in the file stays the first. */
static void list_sort(struct correlated_list *list)
{
    if (!list->unsorted) {
        return;
    }
    struct correlated *from = list->entries, *to = malloc(list->count * sizeof *to);
    SIM_ASSERT(to != NULL, "out of memory for %zu calls", list->count);
    for (size_t width = 1; width < list->count; width *= 2) {
        for (size_t low = 0; low < list->count; low += 2 * width) {
            size_t middle = low + width < list->count ? low + width : list->count;
            merge_halves(from, to, low, middle, middle + width < list->count ? middle + width : list->count);
        }
        struct correlated *swap = from;
        from = to;
        to = swap;
    }
    free(to);
    list->entries = from;
    list->capacity = list->count;
    list->unsorted = false;
}

/* The first entry of a correlation, or NULL. `hint`: where the last search ended; neighbours are asked for in turn. */
static const struct correlated *list_find(const struct correlated_list *list, uint64_t correlation, size_t *hint)
{
    size_t low = 0, high = list->count; /* entries[0 .. low) lie below it */
    for (size_t at = *hint; at < list->count && at < *hint + 4; at++) {
        if (list->entries[at].correlation >= correlation && (at == 0 || list->entries[at - 1].correlation < correlation)) {
            low = high = at;
            break;
        }
    }
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (list->entries[middle].correlation < correlation) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *hint = low;
    return low < list->count && list->entries[low].correlation == correlation ? &list->entries[low] : NULL;
}

/* ---- first pass ------------------------------------------------------------------------------------------------ */

static const char *kept_name(struct passes *p, const struct event_glance *event)
{
    return arena_intern(p->file->arena, event->name, event->name_length);
}

static bool launches(const struct event_glance *event)
{
    char name[48];
    snprintf(name, sizeof name, "%.*s", (int)(event->name_length < sizeof name ? event->name_length : sizeof name - 1),
             event->name);
    return host_call_launches(name);
}

static struct block *block_of(struct passes *p, const struct event_glance *event)
{
    if (p->list_event_count % BLOCK_EVENTS == 0) {
        if (p->block_count == p->block_capacity) {
            p->block_capacity = p->block_capacity == 0 ? 64 : p->block_capacity * 2;
            p->blocks = realloc(p->blocks, p->block_capacity * sizeof *p->blocks);
            SIM_ASSERT(p->blocks != NULL, "out of memory for %zu blocks", p->block_capacity);
        }
        p->blocks[p->block_count++] = (struct block){ event->offset, event->end, INT64_MAX, INT64_MIN, UINT64_MAX, 0 };
    }
    return &p->blocks[p->block_count - 1];
}

static void widen(struct block *block, const struct event_glance *event)
{
    if (trace_is_device(event->category) || event->category == TRACE_SYNC_INFO) {
        block->correlation_low = event->correlation < block->correlation_low ? event->correlation : block->correlation_low;
        block->correlation_high = event->correlation > block->correlation_high ? event->correlation : block->correlation_high;
    } else {
        block->start_low_ns = event->start_ns < block->start_low_ns ? event->start_ns : block->start_low_ns;
        block->start_high_ns = event->start_ns > block->start_high_ns ? event->start_ns : block->start_high_ns;
    }
}

static bool survey_event(void *context, const struct event_glance *event)
{
    struct passes *p = context;
    struct block *block = block_of(p, event);
    block->end = event->end;
    p->list_event_count++;
    p->incomplete_count += event->fate == EVENT_INCOMPLETE;
    if (event->fate == EVENT_IMPOSSIBLE && p->impossible_count++ == 0) {
        p->impossible_name = kept_name(p, event);
    }
    if (event->fate != EVENT_OF_USE) {
        return false;
    }
    widen(block, event);
    if (event->category == TRACE_CALL && event->correlation != 0) {
        list_add(launches(event) ? &p->launches : &p->others, event->correlation, event->start_ns);
    } else if (trace_is_device(event->category)) {
        list_add(&p->devices, event->correlation, event->start_ns);
    } else if (step_marker_is(event->category, event->name, event->name_length)) {
        step_survey_add(p->survey, event->start_ns, event->duration_ns, kept_name(p, event));
    }
    return false;
}

/* Of two calls with one correlation the first that launches counts, else the first. */
static const struct correlated *launch_of(const struct passes *p, uint64_t correlation, size_t hints[2])
{
    const struct correlated *call = correlation == 0 ? NULL : list_find(&p->launches, correlation, &hints[0]);
    return call != NULL || correlation == 0 ? call : list_find(&p->others, correlation, &hints[1]);
}

static bool in_step(const struct passes *p, int64_t start_ns)
{
    return start_ns >= p->start_ns && start_ns < p->end_ns;
}

static void want(struct passes *p, uint64_t correlation, unsigned flags)
{
    if (p->wanted_count == p->wanted_capacity) {
        p->wanted_capacity = p->wanted_capacity == 0 ? 1024 : p->wanted_capacity * 2;
        p->wanted = realloc(p->wanted, p->wanted_capacity * sizeof *p->wanted);
        SIM_ASSERT(p->wanted != NULL, "out of memory");
    }
    p->wanted[p->wanted_count++] = (struct wanted){ correlation, flags };
}

static int compare_wanted(const void *a, const void *b)
{
    const struct wanted *x = a, *y = b;
    return x->correlation < y->correlation ? -1 : x->correlation > y->correlation;
}

static void want_calls(struct passes *p, const struct correlated_list *calls)
{
    for (size_t i = 0; i < calls->count; i++) {
        if (in_step(p, calls->entries[i].start_ns)) {
            want(p, calls->entries[i].correlation, OF_CALL);
        }
    }
}

/* The correlations of the step that was chosen. */
static void collect_wanted(struct passes *p)
{
    size_t hints[2] = { 0, 0 };
    want_calls(p, &p->launches);
    want_calls(p, &p->others);
    for (size_t i = 0; i < p->devices.count; i++) {
        const struct correlated *device = &p->devices.entries[i], *launch = launch_of(p, device->correlation, hints);
        if (in_step(p, launch != NULL ? launch->start_ns : device->start_ns)) {
            want(p, device->correlation, launch != NULL ? OF_LAUNCH : OF_UNLAUNCHED);
        }
    }
    if (p->wanted_count == 0) {
        return;
    }
    qsort(p->wanted, p->wanted_count, sizeof *p->wanted, compare_wanted);
    size_t count = 1;
    for (size_t i = 1; i < p->wanted_count; i++) {
        if (p->wanted[i].correlation == p->wanted[count - 1].correlation) {
            p->wanted[count - 1].flags |= p->wanted[i].flags;
        } else {
            p->wanted[count++] = p->wanted[i];
        }
    }
    p->wanted_count = count;
}

/* False: no step that has kernels. */
static bool choose(struct passes *p, int32_t step)
{
    step_survey_sort(p->survey);
    list_sort(&p->launches);
    list_sort(&p->others);
    size_t hints[2] = { 0, 0 };
    for (size_t i = 0; i < p->devices.count; i++) {
        const struct correlated *launch = launch_of(p, p->devices.entries[i].correlation, hints);
        step_survey_count(p->survey, launch != NULL ? launch->start_ns : p->devices.entries[i].start_ns);
    }
    const struct step_marker *chosen = step_survey_choose(p->survey, step);
    if (chosen == NULL || chosen->device_count == 0) {
        return false;
    }
    p->start_ns = chosen->start_ns;
    p->end_ns = chosen->end_ns;
    collect_wanted(p);
    return true;
}

static void free_lists(struct passes *p)
{
    free(p->launches.entries);
    free(p->others.entries);
    free(p->devices.entries);
    p->launches = p->others = p->devices = (struct correlated_list){ 0 };
}

/* ---- second pass ----------------------------------------------------------------------------------------------- */

static bool keep_event(void *context, const struct event_glance *event)
{
    const struct passes *p = context;
    if (event->fate != EVENT_OF_USE) {
        return false;
    }
    bool device = trace_is_device(event->category);
    if (!device && event->category != TRACE_SYNC_INFO) {
        return in_step(p, event->start_ns);
    }
    const struct wanted key = { .correlation = event->correlation };
    const struct wanted *found =
        p->wanted_count == 0 ? NULL : bsearch(&key, p->wanted, p->wanted_count, sizeof key, compare_wanted);
    unsigned flags = found != NULL ? found->flags : 0;
    return device ? (flags & OF_LAUNCH) != 0 || ((flags & OF_UNLAUNCHED) != 0 && in_step(p, event->start_ns))
                  : (flags & OF_CALL) != 0;
}

/* Is a correlation of the step in the range? */
static bool wants_some(const struct passes *p, uint64_t from, uint64_t to)
{
    size_t low = 0, high = p->wanted_count; /* wanted[0 .. low) lie below it */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (p->wanted[middle].correlation < from) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < p->wanted_count && p->wanted[low].correlation <= to;
}

/* At a block's first event: past it and those behind it that hold nothing of the step. */
static uint64_t next_event(void *context, uint64_t offset)
{
    struct passes *p = context;
    uint64_t next = offset;
    while (p->block_at < p->block_count && (p->block_at == 0 || next >= p->blocks[p->block_at - 1].end)) {
        const struct block *block = &p->blocks[p->block_at++];
        bool holds_host = block->start_low_ns < p->end_ns && block->start_high_ns >= p->start_ns;
        if (holds_host || wants_some(p, block->correlation_low, block->correlation_high)) {
            return next == offset ? offset : block->offset;
        }
        next = block->end;
    }
    return next;
}

bool trace_file_read_two_passes(const char *path, int32_t step, struct trace_file **out)
{
    struct trace_file *file = trace_file_create(path);
    file->survey = calloc(1, sizeof *file->survey);
    SIM_ASSERT(file->survey != NULL, "out of memory");
    struct passes p = { .file = file, .survey = file->survey };
    const struct event_chooser survey = { survey_event, NULL, &p }, step_alone = { keep_event, next_event, &p };
    bool done = trace_file_read_chosen(file, &survey) && choose(&p, step);
    free_lists(&p);
    done = done && trace_file_read_chosen(file, &step_alone);
    file->list_event_count = p.list_event_count;
    file->impossible_count = p.impossible_count;
    file->impossible_name = p.impossible_name;
    file->incomplete_count = p.incomplete_count;
    free(p.wanted);
    free(p.blocks);
    if (!done) {
        trace_file_destroy(file);
    }
    *out = done ? file : NULL;
    return done;
}

static bool is_big(const char *path)
{
    struct stat state;
    if (stat(path, &state) != 0 || !S_ISREG(state.st_mode) || state.st_size < BIG_PACKED_BYTES) {
        return false;
    }
    return state.st_size >= BIG_BYTES || byte_source_is_packed(path);
}

enum sim_status trace_file_read_step(const char *path, int32_t step, struct trace_file **out, struct sim_error *error)
{
    return is_big(path) && trace_file_read_two_passes(path, step, out) ? SIM_OK : trace_file_read(path, out, error);
}
