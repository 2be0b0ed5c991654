/* A profiler trace as it passes through json_stream: a small state machine of which container we are in (enum place) and
 * which key of it comes next; texts that are kept are interned, the rest never leaves the parser's buffer. */
#include "workloads/trace/input_internal.h"
#include "workloads/trace/trace_internal.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DEPTH_MAX 64               /* real traces nest 6 deep; yajl itself takes any depth */
#define TEXT_MAX ((size_t)4 << 20) /* one captured argument */
#define DAY_NS ((int64_t)86400 * 1000000000)

/* Keys that carry something. The order is that of key_names. */
enum key {
    KEY_OTHER,
    KEY_PH,
    KEY_CAT,
    KEY_NAME,
    KEY_PID,
    KEY_TID,
    KEY_TS,
    KEY_DUR,
    KEY_ARGS,
    KEY_CORRELATION,
    KEY_STREAM,
    KEY_DEVICE,
    KEY_BYTES,
    KEY_DIMS,
    KEY_DIMS_OLD,
    KEY_TYPES,
    KEY_STRIDES,
    KEY_CONCRETE,
    KEY_GRID,
    KEY_BLOCK,
    KEY_COLLECTIVE,
    KEY_IN_ELEMENTS,
    KEY_OUT_ELEMENTS,
    KEY_DTYPE,
    KEY_GROUP_SIZE,
    KEY_GROUP_RANKS,
    KEY_GROUP_NAME,
    KEY_IN_SPLIT,
    KEY_OUT_SPLIT,
    KEY_WAITED_STREAM,
    KEY_EVENTS,
    KEY_DEVICES,
    KEY_DISTRIBUTED,
    KEY_RANK,
    KEY_WORLD_SIZE,
    KEY_COUNT
};

static const char *const key_names[KEY_COUNT] = {
    "",
    "ph",
    "cat",
    "name",
    "pid",
    "tid",
    "ts",
    "dur",
    "args",
    "correlation",
    "stream",
    "device",
    "bytes",
    "Input Dims",
    "Input dims",
    "Input type",
    "Input Strides",
    "Concrete Inputs",
    "grid",
    "block",
    "Collective name",
    "In msg nelems",
    "Out msg nelems",
    "dtype",
    "Group size",
    "Process Group Ranks",
    "Process Group Name",
    "In split size",
    "Out split size",
    "wait_on_stream",
    "traceEvents",
    "deviceProperties",
    "distributedInfo",
    "rank",
    "world_size",
};

enum place {
    PLACE_START,  /* before the document */
    PLACE_TOP,    /* in the top-level object */
    PLACE_EVENTS, /* in the event list */
    PLACE_EVENT,
    PLACE_ARGS,
    PLACE_DEVICES, /* in the list of device properties */
    PLACE_DEVICE,
    PLACE_DISTRIBUTED,
    PLACE_CAPTURE, /* inside an argument kept as text */
    PLACE_SKIP     /* inside something of no interest */
};

/* Values that differ from event to event are copied for the length of their event, not interned. */
#define SHORT_TEXT_BYTES 48
static const bool is_short_lived[KEY_COUNT] = {
    [KEY_PH] = true,    [KEY_TS] = true,          [KEY_DUR] = true,          [KEY_CORRELATION] = true,
    [KEY_BYTES] = true, [KEY_IN_ELEMENTS] = true, [KEY_OUT_ELEMENTS] = true, [KEY_GROUP_SIZE] = true,
};

/* places[0 .. depth] is the path from the document to here; a skipped or captured container counts its own nesting in
 * depth too. `value` holds the values of the current event (NULL: absent), cleared at its start; `seen` lists which are
 * set. `category` is TRACE_CATEGORIES once it is known to be none that is kept. */
struct reader {
    struct trace_file *file;
    struct json_stream stream;
    enum place places[DEPTH_MAX + 1];
    size_t depth;
    enum key key;
    const char *value[KEY_COUNT];
    char short_text[KEY_COUNT][SHORT_TEXT_BYTES];
    enum key seen[KEY_COUNT];
    size_t seen_count;
    bool category_known;
    enum trace_category category;
    bool events_found;
    char *capture; /* text of the argument being captured */
    size_t capture_length, capture_capacity;
    bool capture_comma;
    size_t capture_depth;
    uint32_t track_last;
};

/* ---- keys ------------------------------------------------------------------------------------------------------ */

/* Keys by length, so that most names of no interest cost one comparison. */
static const enum key keys_of_length[][8] = {
    [2] = { KEY_PH, KEY_TS },
    [3] = { KEY_CAT, KEY_PID, KEY_TID, KEY_DUR },
    [4] = { KEY_NAME, KEY_ARGS, KEY_GRID, KEY_RANK },
    [5] = { KEY_BYTES, KEY_BLOCK, KEY_DTYPE },
    [6] = { KEY_STREAM, KEY_DEVICE },
    [10] = { KEY_DIMS, KEY_DIMS_OLD, KEY_TYPES, KEY_GROUP_SIZE, KEY_WORLD_SIZE },
    [11] = { KEY_CORRELATION, KEY_EVENTS },
    [13] = { KEY_STRIDES, KEY_IN_ELEMENTS, KEY_IN_SPLIT },
    [14] = { KEY_OUT_ELEMENTS, KEY_OUT_SPLIT, KEY_WAITED_STREAM },
    [15] = { KEY_CONCRETE, KEY_COLLECTIVE, KEY_DISTRIBUTED },
    [16] = { KEY_DEVICES },
    [18] = { KEY_GROUP_NAME },
    [19] = { KEY_GROUP_RANKS },
};

static enum key key_of(const unsigned char *text, size_t length)
{
    if (length >= sizeof keys_of_length / sizeof keys_of_length[0]) {
        return KEY_OTHER;
    }
    for (size_t i = 0; keys_of_length[length][i] != KEY_OTHER; i++) {
        enum key key = keys_of_length[length][i];
        if (memcmp(text, key_names[key], length) == 0) {
            return key == KEY_DIMS_OLD ? KEY_DIMS : key;
        }
    }
    return KEY_OTHER;
}

/* ---- numbers --------------------------------------------------------------------------------------------------- */

/* Microseconds as decimal text -> nanoseconds, exact for plain decimals (a double is not, for clocks since 1970), a
 * digit below the nanosecond rounded half up. False: not a number, or outside +-9.2e9 s. */
static bool parse_ns(const char *text, int64_t *out)
{
    const char *at = text;
    bool negative = *at == '-';
    at += negative;
    if (*at < '0' || *at > '9') {
        return false;
    }
    int64_t value = 0;
    int decimals = -1;
    for (; (*at >= '0' && *at <= '9') || (*at == '.' && decimals < 0); at++) {
        if (*at == '.') {
            decimals = 0;
        } else if (decimals == 3) {
            value += *at >= '5';
            while (*at >= '0' && *at <= '9') {
                at++;
            }
            break;
        } else {
            if (value > (INT64_MAX - 9) / 10) {
                return false;
            }
            value = value * 10 + (*at - '0');
            decimals += decimals >= 0;
        }
    }
    if (*at != '\0') { /* an exponent: a double will do */
        char *end;
        double us = strtod(text, &end);
        if (*end != '\0' || !(fabs(us) < 9.2e15)) {
            return false;
        }
        *out = (int64_t)llround(us * 1000);
        return true;
    }
    for (int digits = decimals < 0 ? 0 : decimals; digits < 3; digits++) {
        if (value > INT64_MAX / 10) {
            return false;
        }
        value *= 10;
    }
    *out = negative ? -value : value;
    return true;
}

/* Finite, or `otherwise`. */
static double parse_double(const char *text, double otherwise)
{
    if (text == NULL) {
        return otherwise;
    }
    char *end;
    double value = strtod(text, &end);
    return end == text || *end != '\0' || !isfinite(value) ? otherwise : value;
}

static uint64_t parse_id(const char *text)
{
    if (text == NULL || *text == '-') {
        return 0;
    }
    errno = 0;
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    return errno != 0 || *end != '\0' ? 0 : value;
}

static int64_t parse_small(const char *text)
{
    double value = parse_double(text, -1);
    return value >= 0 && value <= 1e7 && value == floor(value) ? (int64_t)value : -1;
}

/* ---- keeping an event ------------------------------------------------------------------------------------------ */

struct category_name {
    const char *name;
    size_t length;
    enum trace_category category;
};
#define CATEGORY(name, category)         \
    {                                    \
        name, sizeof(name) - 1, category \
    }
static const struct category_name category_names[] = {
    CATEGORY("cpu_op", TRACE_OPERATOR),
    CATEGORY("kernel", TRACE_KERNEL),
    CATEGORY("cuda_runtime", TRACE_CALL),
    CATEGORY("cuda_driver", TRACE_CALL),
    CATEGORY("gpu_memcpy", TRACE_MEMCPY),
    CATEGORY("gpu_memset", TRACE_MEMSET),
    CATEGORY("user_annotation", TRACE_ANNOTATION),
    CATEGORY("cuda_sync", TRACE_SYNC_INFO),
    CATEGORY("hip_runtime", TRACE_CALL),
    CATEGORY("operator", TRACE_OPERATOR), /* this and the following: 2021 schema */
    CATEGORY("runtime", TRACE_CALL),
    CATEGORY("memcpy", TRACE_MEMCPY),
    CATEGORY("memset", TRACE_MEMSET),
};

static enum trace_category category_of(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof category_names / sizeof category_names[0]; i++) {
        if (category_names[i].length == length && strncasecmp(name, category_names[i].name, length) == 0) {
            return category_names[i].category;
        }
    }
    return TRACE_CATEGORIES;
}

static const char *text_of(const struct reader *r, enum key key)
{
    return r->value[key];
}

static uint32_t track_of(struct reader *r, const char *process, const char *thread)
{
    struct trace_file *file = r->file;
    if (r->track_last < file->track_count && file->tracks[r->track_last].process == process &&
        file->tracks[r->track_last].thread == thread) {
        return r->track_last;
    }
    return r->track_last = trace_file_track(file, process, thread);
}

static const char *or_question(struct reader *r, const char *text)
{
    return text != NULL ? text : arena_intern(r->file->arena, "?", 1);
}

static const struct trace_collective_args *collective_args(struct reader *r)
{
    if (text_of(r, KEY_COLLECTIVE) == NULL) {
        return NULL;
    }
    struct trace_collective_args *args = arena_alloc(r->file->arena, sizeof *args);
    *args = (struct trace_collective_args){
        .name = text_of(r, KEY_COLLECTIVE),
        .dtype = text_of(r, KEY_DTYPE),
        .group_ranks = text_of(r, KEY_GROUP_RANKS),
        .group_name = text_of(r, KEY_GROUP_NAME),
        .in_split = text_of(r, KEY_IN_SPLIT),
        .out_split = text_of(r, KEY_OUT_SPLIT),
        .in_elements = parse_double(text_of(r, KEY_IN_ELEMENTS), -1),
        .out_elements = parse_double(text_of(r, KEY_OUT_ELEMENTS), -1),
        .group_size = parse_double(text_of(r, KEY_GROUP_SIZE), -1),
    };
    return args;
}

static const void *operator_args(struct reader *r)
{
    if (text_of(r, KEY_DIMS) == NULL && text_of(r, KEY_CONCRETE) == NULL &&
        text_of(r, KEY_COLLECTIVE) == NULL) {
        return NULL;
    }
    struct trace_operator_args *args = arena_alloc(r->file->arena, sizeof *args);
    *args = (struct trace_operator_args){ text_of(r, KEY_DIMS), text_of(r, KEY_TYPES),
                                          text_of(r, KEY_STRIDES), text_of(r, KEY_CONCRETE),
                                          collective_args(r) };
    return args;
}

static const void *device_args(struct reader *r)
{
    struct trace_device_args *args = arena_alloc(r->file->arena, sizeof *args);
    *args = (struct trace_device_args){ text_of(r, KEY_GRID), text_of(r, KEY_BLOCK),
                                        parse_double(text_of(r, KEY_BYTES), -1), collective_args(r) };
    return args;
}

static const char *known_stream(struct reader *r, enum key key)
{
    const char *text = text_of(r, key);
    return text == NULL || text[0] == '-' ? NULL : text; /* -1: the profiler could not tell */
}

static const void *sync_args(struct reader *r)
{
    struct trace_sync_args *args = arena_alloc(r->file->arena, sizeof *args);
    *args = (struct trace_sync_args){ known_stream(r, KEY_STREAM), known_stream(r, KEY_WAITED_STREAM) };
    return args;
}

/* Of an event with a name, of a category that is kept: only complete slices ("X") are of use. Texts NULL where absent. */
static enum event_fate fate_of(const char *phase, const char *start, const char *duration, int64_t *start_ns,
                               int64_t *duration_ns)
{
    if (phase == NULL || strcmp(phase, "X") != 0 || start == NULL || duration == NULL) {
        return phase == NULL || strchr("BE", phase[0]) != NULL || phase[0] == 'X' ? EVENT_INCOMPLETE : EVENT_OF_NO_USE;
    }
    bool possible = parse_ns(start, start_ns) && parse_ns(duration, duration_ns) && *duration_ns >= 0 &&
                    *duration_ns <= DAY_NS;
    return possible ? EVENT_OF_USE : EVENT_IMPOSSIBLE;
}

/* An event is complete: keep it if it is of use. */
static void keep_event(struct reader *r)
{
    struct trace_file *file = r->file;
    file->list_event_count++;
    r->stream.item_count++;
    const char *phase = text_of(r, KEY_PH), *name = text_of(r, KEY_NAME);
    enum trace_category category = r->category;
    if (!r->category_known || category == TRACE_CATEGORIES || name == NULL) {
        return; /* metadata, markers, flows, categories of no use */
    }
    struct trace_event event = { .name = name, .category = (uint8_t)category };
    switch (fate_of(phase, text_of(r, KEY_TS), text_of(r, KEY_DUR), &event.start_ns, &event.duration_ns)) {
    case EVENT_OF_USE: break;
    case EVENT_IMPOSSIBLE:
        if (file->impossible_count++ == 0) {
            file->impossible_name = name;
        }
        return;
    case EVENT_INCOMPLETE: file->incomplete_count++; return;
    default: return;
    }
    event.correlation = parse_id(text_of(r, KEY_CORRELATION));
    bool on_device = category == TRACE_KERNEL || category == TRACE_MEMCPY || category == TRACE_MEMSET;
    if (on_device) {
        const char *device = text_of(r, KEY_DEVICE), *stream = text_of(r, KEY_STREAM);
        event.track = track_of(r, or_question(r, device != NULL ? device : text_of(r, KEY_PID)),
                               or_question(r, stream != NULL ? stream : text_of(r, KEY_TID)));
        event.args = device_args(r);
    } else {
        event.track = track_of(r, or_question(r, text_of(r, KEY_PID)), or_question(r, text_of(r, KEY_TID)));
        bool is_operator = category == TRACE_OPERATOR ||
                           (category == TRACE_ANNOTATION && strncmp(name, "nccl:", 5) == 0);
        event.args = is_operator ? operator_args(r) : category == TRACE_SYNC_INFO ? sync_args(r) : NULL;
    }
    trace_file_add(file, &event);
}

/* ---- values ---------------------------------------------------------------------------------------------------- */

static void capture_bytes(struct reader *r, const void *bytes, size_t length)
{
    if (r->capture_length + length > TEXT_MAX) {
        r->stream.refusal = "one argument exceeds 4 MiB";
        return;
    }
    if (r->capture_length + length > r->capture_capacity) {
        r->capture_capacity = (r->capture_length + length) * 2 + 1024;
        r->capture = realloc(r->capture, r->capture_capacity);
        SIM_ASSERT(r->capture != NULL, "out of memory");
    }
    memcpy(r->capture + r->capture_length, bytes, length);
    r->capture_length += length;
}

static void capture_comma(struct reader *r)
{
    if (r->capture_comma) {
        capture_bytes(r, ",", 1);
    }
    r->capture_comma = true;
}

static void capture_string(struct reader *r, const unsigned char *text, size_t length)
{
    capture_bytes(r, "\"", 1);
    size_t from = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '"' || text[i] == '\\') {
            capture_bytes(r, text + from, i - from);
            capture_bytes(r, "\\", 1);
            from = i;
        }
    }
    capture_bytes(r, text + from, length - from);
    capture_bytes(r, "\"", 1);
}

static void set_value(struct reader *r, enum key key, const char *text, size_t length)
{
    if (r->value[key] == NULL) {
        r->seen[r->seen_count++] = key;
    }
    if (is_short_lived[key]) {
        length = length < SHORT_TEXT_BYTES ? length : SHORT_TEXT_BYTES - 1; /* no number of use is longer */
        memcpy(r->short_text[key], text, length);
        r->short_text[key][length] = '\0';
        r->value[key] = r->short_text[key];
    } else {
        r->value[key] = arena_intern(r->file->arena, text, length);
    }
}

static void clear_values(struct reader *r)
{
    while (r->seen_count > 0) {
        r->value[r->seen[--r->seen_count]] = NULL;
    }
}

static bool is_wanted(const struct reader *r)
{
    return !r->category_known || r->category != TRACE_CATEGORIES;
}

static void header_scalar(struct reader *r, const char *text, size_t length, bool is_string)
{
    char copy[96];
    snprintf(copy, sizeof copy, "%.*s", (int)(length < sizeof copy ? length : sizeof copy - 1), text);
    if (r->places[r->depth] == PLACE_DEVICE && r->key == KEY_NAME && is_string &&
        r->file->device_title[0] == '\0') {
        snprintf(r->file->device_title, sizeof r->file->device_title, "%s", copy);
    } else if (r->places[r->depth] == PLACE_DISTRIBUTED && r->key == KEY_RANK) {
        r->file->rank = parse_small(copy);
    } else if (r->places[r->depth] == PLACE_DISTRIBUTED && r->key == KEY_WORLD_SIZE) {
        r->file->world_size = parse_small(copy);
        if (r->file->world_size < 1 && strcmp(copy, "-1") != 0) { /* -1: not known, as said by some */
            snprintf(r->file->odd_world_size, sizeof r->file->odd_world_size, "%.31s", copy);
        }
    }
}

static int scalar(struct reader *r, const char *text, size_t length, bool is_string)
{
    switch (r->places[r->depth]) {
    case PLACE_CAPTURE:
        capture_comma(r);
        if (is_string) {
            capture_string(r, (const unsigned char *)text, length);
        } else {
            capture_bytes(r, text, length);
        }
        break;
    case PLACE_EVENT:
        if (r->key == KEY_CAT) {
            r->category_known = true;
            r->category = category_of(text, length);
        } else if (r->key >= KEY_PH && r->key <= KEY_DUR && is_wanted(r)) {
            set_value(r, r->key, text, length);
        }
        break;
    case PLACE_ARGS:
        if (r->key >= KEY_CORRELATION && r->key <= KEY_WAITED_STREAM) {
            set_value(r, r->key, text, length);
        }
        break;
    case PLACE_DEVICE:
    case PLACE_DISTRIBUTED: header_scalar(r, text, length, is_string); break;
    default: break;
    }
    return r->stream.refusal == NULL;
}

/* ---- containers ------------------------------------------------------------------------------------------------ */

static enum place place_of_map(const struct reader *r)
{
    switch (r->places[r->depth]) {
    case PLACE_START: return PLACE_TOP;
    case PLACE_TOP: return r->key == KEY_DISTRIBUTED ? PLACE_DISTRIBUTED : PLACE_SKIP;
    case PLACE_EVENTS: return PLACE_EVENT;
    case PLACE_EVENT: return r->key == KEY_ARGS && is_wanted(r) ? PLACE_ARGS : PLACE_SKIP;
    case PLACE_DEVICES: return PLACE_DEVICE;
    case PLACE_CAPTURE: return PLACE_CAPTURE;
    default: return PLACE_SKIP;
    }
}

static enum place place_of_array(const struct reader *r)
{
    switch (r->places[r->depth]) {
    case PLACE_START: return PLACE_EVENTS; /* the bare list form of the format */
    case PLACE_TOP:
        return r->key == KEY_EVENTS ? PLACE_EVENTS : r->key == KEY_DEVICES ? PLACE_DEVICES : PLACE_SKIP;
    case PLACE_ARGS:
        return r->key >= KEY_CORRELATION && r->key <= KEY_WAITED_STREAM ? PLACE_CAPTURE : PLACE_SKIP;
    case PLACE_CAPTURE: return PLACE_CAPTURE;
    default: return PLACE_SKIP;
    }
}

static int enter(struct reader *r, enum place place, const char *bracket)
{
    if (r->depth == DEPTH_MAX) {
        r->stream.refusal = "nested deeper than 64 levels, which no trace is";
        return 0;
    }
    if (place == PLACE_CAPTURE) {
        if (r->places[r->depth] != PLACE_CAPTURE) {
            r->capture_length = 0;
            r->capture_comma = false;
            r->capture_depth = r->depth;
        }
        capture_comma(r);
        capture_bytes(r, bracket, 1);
        r->capture_comma = false;
    } else if (place == PLACE_EVENT) {
        clear_values(r);
        r->category_known = false;
        r->category = TRACE_CATEGORIES;
    } else if (place == PLACE_EVENTS) {
        r->events_found = true;
    }
    r->places[++r->depth] = place;
    return 1;
}

static int leave(struct reader *r, const char *bracket)
{
    enum place place = r->places[r->depth--];
    if (place == PLACE_CAPTURE) {
        capture_bytes(r, bracket, 1);
        r->capture_comma = true;
        if (r->depth == r->capture_depth && r->stream.refusal == NULL) {
            set_value(r, r->key, r->capture, r->capture_length);
        }
    } else if (place == PLACE_EVENT) {
        keep_event(r);
    } else if (place == PLACE_EVENTS) {
        r->stream.complete = true;
    }
    return r->stream.refusal == NULL;
}

/* ---- the parser's callbacks ------------------------------------------------------------------------------------ */

static int on_null(void *context)
{
    struct reader *r = context;
    return r->places[r->depth] == PLACE_CAPTURE ? scalar(r, "null", 4, false) : 1;
}

static int on_boolean(void *context, int value)
{
    return scalar(context, value ? "true" : "false", value ? 4 : 5, false);
}

static int on_number(void *context, const char *text, size_t length)
{
    return scalar(context, text, length, false);
}

static int on_string(void *context, const unsigned char *text, size_t length)
{
    return scalar(context, (const char *)text, length, true);
}

static int on_map_start(void *context)
{
    struct reader *r = context;
    return enter(r, place_of_map(r), "{");
}

static int on_map_key(void *context, const unsigned char *text, size_t length)
{
    struct reader *r = context;
    switch (r->places[r->depth]) {
    case PLACE_CAPTURE:
        capture_comma(r);
        capture_string(r, text, length);
        capture_bytes(r, ":", 1);
        r->capture_comma = false;
        break;
    case PLACE_SKIP: break;
    default: r->key = key_of(text, length);
    }
    return 1;
}

static int on_map_end(void *context)
{
    return leave(context, "}");
}

static int on_array_start(void *context)
{
    struct reader *r = context;
    return enter(r, place_of_array(r), "[");
}

static int on_array_end(void *context)
{
    return leave(context, "]");
}

/* Only the last reading counts. */
static void on_restart(void *context)
{
    struct reader *r = context;
    struct trace_file *file = r->file;
    clear_values(r);
    r->depth = 0;
    r->key = KEY_OTHER;
    r->events_found = false;
    file->event_count = file->list_event_count = file->impossible_count = file->incomplete_count = 0;
    file->device_title[0] = file->odd_world_size[0] = '\0';
    file->rank = file->world_size = -1;
}

static const struct json_handler handler = {
    .null = on_null,
    .boolean = on_boolean,
    .number = on_number,
    .string = on_string,
    .map_start = on_map_start,
    .map_key = on_map_key,
    .map_end = on_map_end,
    .array_start = on_array_start,
    .array_end = on_array_end,
    .restart = on_restart,
};

/* ---- the file -------------------------------------------------------------------------------------------------- */

enum sim_status trace_file_read(const char *path, struct trace_file **out, struct sim_error *error)
{
    *out = NULL;
    struct trace_file *file = trace_file_create(path);
    struct reader *reader = calloc(1, sizeof *reader);
    SIM_ASSERT(reader != NULL, "out of memory");
    reader->file = file;
    reader->stream.path = path;
    enum sim_status status = json_stream_parse(&reader->stream, &handler, reader, error);
    if (status == SIM_OK && !reader->events_found) {
        status = sim_fail(error, SIM_BAD_TRACE,
                          "%s: no traceEvents in the file: not a profiler (Kineto) trace, nor another kind that is read "
                          "(PyTorch execution trace, Chakra, rocprofv3 JSON)",
                          path);
    }
    memcpy(file->damage, reader->stream.damage, sizeof file->damage);
    if (reader->stream.odd_number_count > 0) {
        snprintf(file->odd_numbers, sizeof file->odd_numbers, "%zu bare inf or nan, which JSON does not have, taken as absent, first %s",
                 reader->stream.odd_number_count, reader->stream.odd_number);
    }
    free(reader->capture);
    free(reader);
    if (status != SIM_OK) {
        trace_file_destroy(file);
        return status;
    }
    *out = file;
    return SIM_OK;
}

/* ---- the file, of chosen events -------------------------------------------------------------------------------- */

/* A value as set_value keeps those that end with their event; NULL absent. */
static const char *short_text(const struct text_span *span, char text[SHORT_TEXT_BYTES])
{
    if (span->at == NULL) {
        return NULL;
    }
    size_t length = span->length < SHORT_TEXT_BYTES ? span->length : SHORT_TEXT_BYTES - 1;
    memcpy(text, span->at, length);
    text[length] = '\0';
    return text;
}

/* As keep_event will see it. False: a text of use has escapes, which only the parser resolves. */
static bool glance_at(const struct event_text *event, struct event_glance *glance)
{
    char phase[SHORT_TEXT_BYTES], start[SHORT_TEXT_BYTES], duration[SHORT_TEXT_BYTES], correlation[SHORT_TEXT_BYTES];
    enum trace_category category =
        event->category.at == NULL ? TRACE_CATEGORIES : category_of(event->category.at, event->category.length);
    *glance = (struct event_glance){ .fate = EVENT_OF_NO_USE, .category = category };
    if (event->odd || category == TRACE_CATEGORIES || event->name.at == NULL) {
        return !event->odd;
    }
    glance->fate = fate_of(short_text(&event->phase, phase), short_text(&event->start, start),
                           short_text(&event->duration, duration), &glance->start_ns, &glance->duration_ns);
    glance->correlation = parse_id(short_text(&event->correlation, correlation));
    glance->name = event->name.at;
    glance->name_length = event->name.length;
    bool name_is_kept = glance->fate == EVENT_IMPOSSIBLE || step_marker_is(category, glance->name, glance->name_length);
    return !name_is_kept || memchr(glance->name, '\\', glance->name_length) == NULL;
}

static bool skip_unwanted(struct event_scan *scan, const struct event_chooser *chooser)
{
    uint64_t offset = event_scan_offset(scan), next = chooser->next == NULL ? offset : chooser->next(chooser->context, offset);
    return next == offset || event_scan_skip_to(scan, next);
}

bool trace_file_read_chosen(struct trace_file *file, const struct event_chooser *chooser)
{
    struct sim_error ignored;
    struct event_scan *scan;
    if (event_scan_open(file->path, &scan, &ignored) != SIM_OK) {
        return false;
    }
    struct reader *r = calloc(1, sizeof *r);
    SIM_ASSERT(r != NULL, "out of memory");
    r->file = file;
    r->stream.path = file->path;
    struct json_feed *feed = json_feed_create(&handler, r);
    struct text_span text;
    struct event_text event;
    enum event_piece piece;
    bool sound = true, second = false;
    for (bool in_list = false; sound; in_list = r->places[r->depth] == PLACE_EVENTS) {
        /* a second list would be read as well as the first */
        sound = !in_list || (!r->stream.complete && skip_unwanted(scan, chooser));
        piece = sound ? event_scan_next(scan, in_list, &text, &event) : EVENT_PIECE_BROKEN;
        if (piece == EVENT_PIECE_END || piece == EVENT_PIECE_BROKEN) {
            sound = piece == EVENT_PIECE_END && r->events_found && json_feed_end(feed);
            break;
        }
        if (piece == EVENT_PIECE_EVENT) {
            struct event_glance glance;
            sound = glance_at(&event, &glance);
            glance.end = event_scan_offset(scan);
            glance.offset = glance.end - text.length;
            if (!sound || !chooser->keep(chooser->context, &glance)) {
                continue;
            }
            sound = !second || json_feed_push(feed, ",", 1);
            second = true;
        }
        sound = sound && json_feed_push(feed, text.at, text.length);
    }
    json_feed_destroy(feed);
    event_scan_close(scan);
    free(r->capture);
    free(r);
    return sound;
}

struct trace_file *trace_file_create(const char *path)
{
    struct trace_file *file = calloc(1, sizeof *file);
    SIM_ASSERT(file != NULL, "out of memory");
    file->arena = arena_create();
    file->path = path;
    file->rank = file->world_size = -1;
    return file;
}

void trace_file_destroy(struct trace_file *file)
{
    if (file == NULL) {
        return;
    }
    arena_destroy(file->arena);
    if (file->survey != NULL) {
        step_survey_finish(file->survey);
        free(file->survey);
    }
    free(file->events);
    free(file->tracks);
    free(file);
}

uint32_t trace_file_track(struct trace_file *file, const char *process, const char *thread)
{
    for (size_t i = file->track_count; i-- > 0;) {
        if (file->tracks[i].process == process && file->tracks[i].thread == thread) {
            return (uint32_t)i;
        }
    }
    if (file->track_count == file->track_capacity) {
        file->track_capacity = file->track_capacity == 0 ? 16 : file->track_capacity * 2;
        file->tracks = realloc(file->tracks, file->track_capacity * sizeof *file->tracks);
        SIM_ASSERT(file->tracks != NULL, "out of memory");
    }
    file->tracks[file->track_count] = (struct trace_track){ process, thread };
    return (uint32_t)file->track_count++;
}

void trace_file_add(struct trace_file *file, const struct trace_event *event)
{
    if (file->event_count == file->event_capacity) {
        file->event_capacity = file->event_capacity == 0 ? 4096 : file->event_capacity * 2;
        file->events = realloc(file->events, file->event_capacity * sizeof *file->events);
        SIM_ASSERT(file->events != NULL, "out of memory for %zu events", file->event_capacity);
    }
    file->events[file->event_count++] = *event;
}
