/* One step of a trace file (which: step_choice.c): operators nested, runtime calls classified, device events joined to the calls that launched
 * them.
 *
 * Which threads. Those with a launch in the step; the others (watchdogs that poll events, data loading) do not hold the
 * device up and are left out, counted for a note.
 *
 * Which calls. A call with device events is a launch whatever its name; synchronisations, event records and waits go by
 * name; allocations are host work of their own; any other call (queries, attribute reads) is part of the operator around
 * it. */
#include "sim/core/hash.h"
#include "workloads/trace/trace_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names of calls -------------------------------------------------------------------------------------------- */

enum call_class {
    CALL_OTHER,
    CALL_LAUNCH,
    CALL_SYNC_DEVICE,
    CALL_SYNC_STREAM,
    CALL_SYNC_EVENT,
    CALL_RECORD,
    CALL_WAIT,
    CALL_WORK
};

struct call_name {
    const char *prefix;
    enum call_class class;
};

/* Behind cuda, cu or hip. The first that fits counts. */
static const struct call_name call_names[] = {
    { "LaunchHostFunc", CALL_OTHER },
    { "LaunchKernel", CALL_LAUNCH },
    { "LaunchCooperative", CALL_LAUNCH },
    { "ExtLaunch", CALL_LAUNCH },
    { "ModuleLaunch", CALL_LAUNCH },
    { "ExtModuleLaunch", CALL_LAUNCH },
    { "GraphLaunch", CALL_LAUNCH },
    { "Memcpy", CALL_LAUNCH },
    { "Memset", CALL_LAUNCH },
    { "DeviceSynchronize", CALL_SYNC_DEVICE },
    { "CtxSynchronize", CALL_SYNC_DEVICE },
    { "StreamSynchronize", CALL_SYNC_STREAM },
    { "EventSynchronize", CALL_SYNC_EVENT },
    { "EventRecord", CALL_RECORD },
    { "StreamWaitEvent", CALL_WAIT },
    { "Malloc", CALL_WORK },
    { "MemAlloc", CALL_WORK },
    { "HostAlloc", CALL_WORK },
    { "HostMalloc", CALL_WORK },
    { "Free", CALL_WORK },
    { "MemFree", CALL_WORK },
    { "HostFree", CALL_WORK },
    { "HostRegister", CALL_WORK },
    { "MemCreate", CALL_WORK },
    { "MemMap", CALL_WORK },
    { "MemUnmap", CALL_WORK },
    { "MemRelease", CALL_WORK },
    { "MemSetAccess", CALL_WORK },
};

static const char *without_vendor(const char *name)
{
    static const char *const prefixes[] = { "cuda", "hip", "cu" };
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        size_t length = strlen(prefixes[i]);
        if (strncmp(name, prefixes[i], length) == 0) {
            return name + length;
        }
    }
    return name;
}

static enum call_class class_of(const char *name)
{
    const char *bare = without_vendor(name);
    for (size_t i = 0; i < sizeof call_names / sizeof call_names[0]; i++) {
        if (strncmp(bare, call_names[i].prefix, strlen(call_names[i].prefix)) == 0) {
            return call_names[i].class;
        }
    }
    return CALL_OTHER;
}

bool host_call_launches(const char *name)
{
    return class_of(name) == CALL_LAUNCH;
}

static bool is_device_event(const struct trace_event *event)
{
    return trace_is_device(event->category);
}

/* The host waits inside the call: a copy call that is not asynchronous, or one whose host side is pageable. */
static bool is_blocking(const struct trace_event *call, const struct trace_event *device)
{
    const char *bare = without_vendor(call->name);
    bool copy_call = strncmp(bare, "Memcpy", 6) == 0 && strstr(bare, "Async") == NULL &&
                     strstr(bare, "Peer") == NULL;
    return device->category == TRACE_MEMCPY && (copy_call || strstr(device->name, "Pageable") != NULL);
}

/* ---- joining device events to calls ---------------------------------------------------------------------------- */

/* launch_of[event]: the call that launched a device event, TRACE_NONE when the file has none. */
struct join {
    const struct trace_file *file;
    uint32_t *launch_of;
    uint32_t *device_at; /* [event_count + 1]: where a call's device events begin in device_of */
    uint32_t *device_of;
};

struct correlation_slot {
    uint64_t correlation;
    uint32_t event;
};

static void join_destroy(struct join *join)
{
    free(join->launch_of);
    free(join->device_at);
    free(join->device_of);
}

/* Of two calls with one correlation the one that launches counts. */
static bool replaces(const struct trace_file *file, uint32_t old, uint32_t new)
{
    return class_of(file->events[old].name) != CALL_LAUNCH && class_of(file->events[new].name) == CALL_LAUNCH;
}

static void join_create(struct join *join, const struct trace_file *file)
{
    size_t count = file->event_count, capacity = 64;
    while (capacity < 2 * count) {
        capacity *= 2;
    }
    struct correlation_slot *slots = calloc(capacity, sizeof *slots);
    join->file = file;
    join->launch_of = malloc((count + 1) * sizeof *join->launch_of);
    join->device_at = calloc(count + 2, sizeof *join->device_at);
    join->device_of = malloc((count + 1) * sizeof *join->device_of);
    SIM_ASSERT(slots != NULL && join->launch_of != NULL && join->device_at != NULL && join->device_of != NULL,
               "out of memory");
    for (uint32_t i = 0; i < count; i++) {
        const struct trace_event *event = &file->events[i];
        join->launch_of[i] = TRACE_NONE;
        if (event->category != TRACE_CALL || event->correlation == 0) {
            continue;
        }
        size_t at = hash64_mix(event->correlation) & (capacity - 1);
        while (slots[at].correlation != 0 && slots[at].correlation != event->correlation) {
            at = (at + 1) & (capacity - 1);
        }
        if (slots[at].correlation == 0 || replaces(file, slots[at].event, i)) {
            slots[at] = (struct correlation_slot){ event->correlation, i };
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct trace_event *event = &file->events[i];
        if (!is_device_event(event) || event->correlation == 0) {
            continue;
        }
        size_t at = hash64_mix(event->correlation) & (capacity - 1);
        while (slots[at].correlation != 0 && slots[at].correlation != event->correlation) {
            at = (at + 1) & (capacity - 1);
        }
        if (slots[at].correlation != 0) {
            join->launch_of[i] = slots[at].event;
            join->device_at[slots[at].event + 1]++;
        }
    }
    free(slots);
    for (size_t i = 0; i < count; i++) {
        join->device_at[i + 1] += join->device_at[i];
    }
    for (uint32_t i = 0; i < count; i++) {
        if (join->launch_of[i] != TRACE_NONE) {
            join->device_of[join->device_at[join->launch_of[i]]++] = i;
        }
    }
    for (size_t i = count; i > 0; i--) {
        join->device_at[i] = join->device_at[i - 1];
    }
    join->device_at[0] = 0;
}

static uint32_t device_count_of(const struct join *join, uint32_t call)
{
    return join->device_at[call + 1] - join->device_at[call];
}

/* ---- choosing the step ----------------------------------------------------------------------------------------- */

static enum sim_status unknown_step(const struct trace_file *file, const struct step_survey *survey, int32_t number,
                                    struct sim_error *error)
{
    char list[200] = "none";
    if (survey->marker_count > 0) {
        snprintf(list, sizeof list, "%s to %s", survey->markers[0].name, survey->markers[survey->marker_count - 1].name);
    }
    return sim_fail(error, SIM_UNKNOWN_NAME, "%s: no ProfilerStep#%d in the file (it has: %s)", file->path,
                    number, list);
}

static void survey_events(struct step_survey *survey, const struct join *join)
{
    const struct trace_file *file = join->file;
    for (size_t i = 0; i < file->event_count; i++) {
        const struct trace_event *event = &file->events[i];
        if (step_marker_is(event->category, event->name, strlen(event->name))) {
            step_survey_add(survey, event->start_ns, event->duration_ns, event->name);
        }
    }
    step_survey_sort(survey);
    for (uint32_t i = 0; i < file->event_count; i++) {
        if (is_device_event(&file->events[i])) {
            uint32_t launch = join->launch_of[i];
            step_survey_count(survey, file->events[launch == TRACE_NONE ? i : launch].start_ns);
        }
    }
}

static enum sim_status take_step(struct host_step *step, const struct step_survey *survey, int32_t number,
                                 struct sim_error *error)
{
    const struct trace_file *file = step->file;
    const struct step_marker *chosen = step_survey_choose(survey, number);
    step->steps_found = survey->marker_count;
    if (survey->device_total == 0) {
        char left_out[64] = "";
        if (file->impossible_count + file->incomplete_count > 0) {
            snprintf(left_out, sizeof left_out, ", %zu left out: no time or an impossible one",
                     file->impossible_count + file->incomplete_count);
        }
        return sim_fail(error, SIM_BAD_TRACE, "%s: no kernels in the trace (%zu events in its list%s): record with GPU activity on",
                        file->path, file->list_event_count, left_out);
    }
    if (number >= 0 && chosen == NULL) {
        return unknown_step(file, survey, number, error);
    }
    if (chosen == NULL || (number < 0 && chosen->device_count == 0)) {
        /* no markers, or none with a kernel: the whole file */
        step->start_ns = INT64_MAX;
        step->end_ns = INT64_MIN;
        return SIM_OK;
    }
    step->has_marker = true;
    step->start_ns = chosen->start_ns;
    step->end_ns = chosen->end_ns;
    snprintf(step->step_name, sizeof step->step_name, "%.31s", chosen->name);
    step->outside_count = survey->device_total - survey->device_inside;
    return chosen->device_count > 0 ? SIM_OK
                                    : sim_fail(error, SIM_BAD_TRACE, "%s: no kernels launched in %s", file->path,
                                               chosen->name);
}

static enum sim_status choose_step(struct host_step *step, const struct join *join, int32_t number,
                                   struct sim_error *error)
{
    struct step_survey survey = { 0 };
    if (step->file->survey != NULL) {
        return take_step(step, step->file->survey, number, error);
    }
    survey_events(&survey, join);
    enum sim_status status = take_step(step, &survey, number, error);
    step_survey_finish(&survey);
    return status;
}

/* ---- the items of the step ------------------------------------------------------------------------------------- */

/* What becomes an item, before nesting: an event, or a device event without a launch. */
struct candidate {
    int64_t start_ns, duration_ns;
    uint32_t event;
};

static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->start_ns != y->start_ns) {
        return x->start_ns < y->start_ns ? -1 : 1;
    }
    if (x->duration_ns != y->duration_ns) {
        return x->duration_ns > y->duration_ns ? -1 : 1;
    }
    return x->event < y->event ? -1 : x->event > y->event;
}

static bool is_host_event(const struct trace_event *event)
{
    return event->category == TRACE_OPERATOR || event->category == TRACE_CALL;
}

static bool is_library_region(const struct trace_event *event)
{
    return event->category == TRACE_ANNOTATION && strncmp(event->name, "nccl:", 5) == 0;
}

static bool starts_in_step(const struct host_step *step, const struct trace_event *event)
{
    return !step->has_marker || (event->start_ns >= step->start_ns && event->start_ns < step->end_ns);
}

/* launches[track]: the thread launches something in the step. */
static bool *find_launching_threads(const struct host_step *step, const struct join *join)
{
    bool *launches = calloc(step->file->track_count + 1, sizeof *launches);
    SIM_ASSERT(launches != NULL, "out of memory");
    for (uint32_t i = 0; i < step->file->event_count; i++) {
        const struct trace_event *event = &step->file->events[i];
        if (event->category == TRACE_CALL && device_count_of(join, i) > 0 && starts_in_step(step, event)) {
            launches[event->track] = true;
        }
    }
    return launches;
}

static struct candidate *find_candidates(struct host_step *step, const struct join *join, size_t *count)
{
    const struct trace_file *file = step->file;
    bool *launches = find_launching_threads(step, join);
    struct candidate *candidates = malloc((file->event_count + 1) * sizeof *candidates);
    SIM_ASSERT(candidates != NULL, "out of memory");
    *count = 0;
    for (uint32_t i = 0; i < file->event_count; i++) {
        const struct trace_event *event = &file->events[i];
        if (!starts_in_step(step, event)) {
            continue;
        }
        bool unlaunched = is_device_event(event) && join->launch_of[i] == TRACE_NONE;
        if (is_host_event(event) || is_library_region(event)) {
            if (!launches[event->track]) {
                step->other_thread_count += is_host_event(event);
                continue;
            }
        } else if (!unlaunched) {
            continue;
        }
        step->unlaunched_count += unlaunched;
        candidates[(*count)++] = (struct candidate){ event->start_ns, unlaunched ? 0 : event->duration_ns,
                                                     i };
    }
    free(launches);
    if (*count > 0) {
        qsort(candidates, *count, sizeof *candidates, compare_candidates);
    }
    return candidates;
}

/* Open items of one host thread, outermost first. */
struct open_item {
    int64_t end_ns;
    uint32_t item;
};
struct thread_stack {
    struct open_item *open;
    size_t count, capacity;
    uint32_t thread;
    bool named;
};

static void push(struct thread_stack *stack, int64_t end_ns, uint32_t item)
{
    if (stack->count == stack->capacity) {
        stack->capacity = stack->capacity == 0 ? 32 : stack->capacity * 2;
        stack->open = realloc(stack->open, stack->capacity * sizeof *stack->open);
        SIM_ASSERT(stack->open != NULL, "out of memory");
    }
    stack->open[stack->count++] = (struct open_item){ end_ns, item };
}

static struct host_item *add_item(struct host_step *step, const struct host_item *item)
{
    step->items[step->item_count] = *item;
    return &step->items[step->item_count++];
}

/* Take the call's time out of the operator around it. */
static void take_own_time(struct host_step *step, struct thread_stack *stack, const struct trace_event *event)
{
    if (stack->count == 0) {
        return;
    }
    for (size_t i = stack->count; i-- > 0;) {
        struct host_item *around = &step->items[stack->open[i].item];
        if (around->kind == HOST_OPERATOR) {
            int64_t inside = event->start_ns + event->duration_ns;
            inside = (inside < stack->open[i].end_ns ? inside : stack->open[i].end_ns) - event->start_ns;
            around->own_ns = around->own_ns > inside ? around->own_ns - inside : 0;
            return;
        }
    }
}

static void add_devices(struct host_step *step, const struct join *join, uint32_t call,
                        struct host_item *item)
{
    item->device_first = (uint32_t)step->device_count;
    item->device_count = device_count_of(join, call);
    for (uint32_t k = join->device_at[call]; k < join->device_at[call + 1]; k++) {
        const struct trace_event *event = &step->file->events[join->device_of[k]];
        uint32_t at = (uint32_t)step->device_count++;
        while (at > item->device_first && step->device[at - 1].event->start_ns > event->start_ns) {
            step->device[at] =
                step->device[at - 1]; /* by start: a captured graph's events come in any order */
            at--;
        }
        step->device[at] = (struct device_item){ event, 0, (uint32_t)step->item_count };
        item->blocking = item->blocking || is_blocking(item->event, event);
    }
}

/* What a call is; false when it is only part of the operator around it. */
static bool classify_call(struct host_step *step, const struct join *join, uint32_t index,
                          struct host_item *item)
{
    static const enum host_call_kind kinds[] = {
        [CALL_SYNC_DEVICE] = HOST_SYNC_DEVICE,
        [CALL_SYNC_STREAM] = HOST_SYNC_STREAM,
        [CALL_SYNC_EVENT] = HOST_SYNC_EVENT,
        [CALL_RECORD] = HOST_RECORD,
        [CALL_WAIT] = HOST_WAIT,
        [CALL_WORK] = HOST_WORK,
    };
    enum call_class class = class_of(item->event->name);
    if (device_count_of(join, index) > 0) {
        item->kind = HOST_LAUNCH;
        add_devices(step, join, index, item);
        return true;
    }
    if (class == CALL_LAUNCH) {
        step->silent_launch_count++;
        return false;
    }
    if (class == CALL_OTHER) {
        step->unplaced_call_count += item->parent == TRACE_NONE;
        return false;
    }
    item->kind = kinds[class];
    return true;
}

static void add_event(struct host_step *step, const struct join *join, struct thread_stack *stacks,
                      uint32_t index)
{
    const struct trace_event *event = &step->file->events[index];
    struct thread_stack *stack = &stacks[event->track];
    if (!stack->named) {
        stack->named = true;
        stack->thread = step->thread_count++;
    }
    while (stack->count > 0 && stack->open[stack->count - 1].end_ns <= event->start_ns) {
        stack->count--;
    }
    struct host_item item = { .event = event,
                              .start_ns = event->start_ns,
                              .own_ns = event->duration_ns,
                              .parent = TRACE_NONE,
                              .region = TRACE_NONE,
                              .thread = stack->thread,
                              .waits_for = TRACE_NONE };
    for (size_t i = stack->count; i-- > 0 && item.parent == TRACE_NONE;) {
        const struct host_item *around = &step->items[stack->open[i].item];
        if (around->kind == HOST_OPERATOR) {
            item.parent = stack->open[i].item;
            item.depth = around->depth + 1;
        } else if (around->kind == HOST_REGION && item.region == TRACE_NONE) {
            item.region = stack->open[i].item;
        }
    }
    if (event->category == TRACE_CALL) {
        if (classify_call(step, join, index, &item)) {
            take_own_time(step, stack, event);
            add_item(step, &item);
        }
        return;
    }
    item.kind = event->category == TRACE_OPERATOR ? HOST_OPERATOR : HOST_REGION;
    if (item.kind == HOST_OPERATOR) {
        take_own_time(step, stack, event);
    } else {
        item.own_ns = 0;
    }
    push(stack, event->start_ns + event->duration_ns, (uint32_t)step->item_count);
    add_item(step, &item);
}

/* A device event whose launch the file lacks gets one at its own start: the host cannot have been later. */
static void add_unlaunched(struct host_step *step, uint32_t index)
{
    const struct trace_event *event = &step->file->events[index];
    struct host_item item = { .start_ns = event->start_ns,
                              .kind = HOST_LAUNCH,
                              .parent = TRACE_NONE,
                              .region = TRACE_NONE,
                              .device_first = (uint32_t)step->device_count,
                              .device_count = 1,
                              .waits_for = TRACE_NONE };
    step->device[step->device_count++] = (struct device_item){ event, 0, (uint32_t)step->item_count };
    add_item(step, &item);
}

static void number_streams(struct host_step *step)
{
    uint32_t *stream_of = malloc((step->file->track_count + 1) * sizeof *stream_of);
    SIM_ASSERT(stream_of != NULL, "out of memory");
    for (size_t i = 0; i < step->file->track_count; i++) {
        stream_of[i] = TRACE_NONE;
    }
    for (size_t i = 0; i < step->device_count; i++) {
        uint32_t *stream = &stream_of[step->device[i].event->track];
        if (*stream == TRACE_NONE) {
            *stream = step->stream_count++;
        }
        step->device[i].stream = *stream;
    }
    free(stream_of);
}

static void measure_span(struct host_step *step)
{
    int64_t first_device = INT64_MAX, first_host = INT64_MAX, last = INT64_MIN;
    for (size_t i = 0; i < step->device_count; i++) {
        const struct trace_event *event = step->device[i].event;
        first_device = event->start_ns < first_device ? event->start_ns : first_device;
        last = event->start_ns + event->duration_ns > last ? event->start_ns + event->duration_ns : last;
    }
    for (size_t i = 0; i < step->item_count; i++) {
        const struct trace_event *event = step->items[i].event;
        if (event != NULL) {
            first_host = event->start_ns < first_host ? event->start_ns : first_host;
            last = event->start_ns + event->duration_ns > last ? event->start_ns + event->duration_ns : last;
        }
    }
    step->last_ns = last;
    if (!step->has_marker) {
        step->start_ns = first_host < first_device ? first_host : first_device;
        step->end_ns = last;
    }
}

static size_t device_events_of(const struct trace_file *file)
{
    size_t count = 0;
    for (size_t i = 0; i < file->event_count; i++) {
        count += is_device_event(&file->events[i]);
    }
    return count;
}

enum sim_status host_step_create(const struct trace_file *file, int32_t step_number, struct host_step **out,
                                 struct sim_error *error)
{
    *out = NULL;
    struct host_step *step = calloc(1, sizeof *step);
    SIM_ASSERT(step != NULL, "out of memory");
    step->file = file;
    struct join join;
    join_create(&join, file);
    enum sim_status status = choose_step(step, &join, step_number, error);
    if (status != SIM_OK) {
        join_destroy(&join);
        host_step_destroy(step);
        return status;
    }
    size_t count;
    struct candidate *candidates = find_candidates(step, &join, &count);
    struct thread_stack *stacks = calloc(file->track_count + 1, sizeof *stacks);
    step->items = malloc((count + 1) * sizeof *step->items);
    step->device = malloc((device_events_of(file) + 1) * sizeof *step->device);
    SIM_ASSERT(stacks != NULL && step->items != NULL && step->device != NULL, "out of memory");
    for (size_t i = 0; i < count; i++) {
        if (is_device_event(&file->events[candidates[i].event])) {
            add_unlaunched(step, candidates[i].event);
        } else {
            add_event(step, &join, stacks, candidates[i].event);
        }
    }
    step->thread_count = step->thread_count == 0 ? 1 : step->thread_count; /* device events alone */
    for (size_t i = 0; i < file->track_count; i++) {
        free(stacks[i].open);
    }
    free(stacks);
    free(candidates);
    join_destroy(&join);
    number_streams(step);
    measure_span(step);
    *out = step;
    return SIM_OK;
}

void host_step_destroy(struct host_step *step)
{
    if (step == NULL) {
        return;
    }
    free(step->items);
    free(step->device);
    free(step);
}
