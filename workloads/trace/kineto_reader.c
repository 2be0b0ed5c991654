/* The one door to yajl and zlib. A push parser feeds a small state machine: which container we are in (struct place) and
 * which key of it comes next; texts that are kept are interned, the rest never leaves the parser's buffer. */
#include "workloads/trace/trace_internal.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yajl/yajl_parse.h>
#include <zlib.h>

#define CHUNK_BYTES ((size_t)256 << 10)
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
    struct sim_error *error;
    yajl_handle parser;
    enum place places[DEPTH_MAX + 1];
    size_t depth;
    enum key key;
    const char *value[KEY_COUNT];
    char short_text[KEY_COUNT][SHORT_TEXT_BYTES];
    enum key seen[KEY_COUNT];
    size_t seen_count;
    bool category_known;
    enum trace_category category;
    bool events_found, events_closed, too_deep, too_long;
    char *capture; /* text of the argument being captured */
    size_t capture_length, capture_capacity;
    bool capture_comma;
    size_t capture_depth;
    size_t event_capacity, track_capacity;
    uint32_t track_last;
    /* where we are, for messages */
    uint64_t line_before, byte_before,
        column_before; /* of the chunk's first byte: lines, bytes, bytes on its line */
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
    for (size_t i = 0; i < file->track_count; i++) {
        if (file->tracks[i].process == process && file->tracks[i].thread == thread) {
            return r->track_last = (uint32_t)i;
        }
    }
    if (file->track_count == r->track_capacity) {
        r->track_capacity = r->track_capacity == 0 ? 16 : r->track_capacity * 2;
        file->tracks = realloc(file->tracks, r->track_capacity * sizeof *file->tracks);
        SIM_ASSERT(file->tracks != NULL, "out of memory");
    }
    file->tracks[file->track_count] = (struct trace_track){ process, thread };
    return r->track_last = (uint32_t)file->track_count++;
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

/* An event is complete: keep it if it is of use. Only complete slices ("X") are. */
static void keep_event(struct reader *r)
{
    struct trace_file *file = r->file;
    file->list_event_count++;
    const char *phase = text_of(r, KEY_PH), *name = text_of(r, KEY_NAME);
    enum trace_category category = r->category;
    if (!r->category_known || category == TRACE_CATEGORIES || name == NULL) {
        return; /* metadata, markers, flows, categories of no use */
    }
    struct trace_event event = { .name = name, .category = (uint8_t)category };
    const char *start = text_of(r, KEY_TS), *duration = text_of(r, KEY_DUR);
    if (phase == NULL || strcmp(phase, "X") != 0 || start == NULL || duration == NULL) {
        file->incomplete_count += phase == NULL || strchr("BE", phase[0]) != NULL || phase[0] == 'X';
        return;
    }
    if (!parse_ns(start, &event.start_ns) || !parse_ns(duration, &event.duration_ns) ||
        event.duration_ns < 0 || event.duration_ns > DAY_NS) {
        if (file->impossible_count++ == 0) {
            file->impossible_name = name;
        }
        return;
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
    if (file->event_count == r->event_capacity) {
        r->event_capacity = r->event_capacity == 0 ? 4096 : r->event_capacity * 2;
        file->events = realloc(file->events, r->event_capacity * sizeof *file->events);
        SIM_ASSERT(file->events != NULL, "out of memory for %zu events", r->event_capacity);
    }
    file->events[file->event_count++] = event;
}

/* ---- values ---------------------------------------------------------------------------------------------------- */

static void capture_bytes(struct reader *r, const void *bytes, size_t length)
{
    if (r->capture_length + length > TEXT_MAX) {
        r->too_long = true;
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
    return !r->too_long;
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
        r->too_deep = true;
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
        if (r->depth == r->capture_depth && !r->too_long) {
            set_value(r, r->key, r->capture, r->capture_length);
        }
    } else if (place == PLACE_EVENT) {
        keep_event(r);
    } else if (place == PLACE_EVENTS) {
        r->events_closed = true;
    }
    return !r->too_long;
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

static const yajl_callbacks callbacks = {
    .yajl_null = on_null,
    .yajl_boolean = on_boolean,
    .yajl_number = on_number,
    .yajl_string = on_string,
    .yajl_start_map = on_map_start,
    .yajl_map_key = on_map_key,
    .yajl_end_map = on_map_end,
    .yajl_start_array = on_array_start,
    .yajl_end_array = on_array_end,
};

/* ---- the file -------------------------------------------------------------------------------------------------- */

/* Lines, bytes and column up to `count` bytes into the chunk. */
struct position {
    uint64_t line, column, byte;
};

static struct position position_at(const struct reader *r, const char *chunk, size_t count)
{
    struct position p = { r->line_before + 1, r->column_before + 1, r->byte_before + count };
    for (size_t i = 0; i < count; i++) {
        p.column++;
        if (chunk[i] == '\n') {
            p.line++;
            p.column = 1;
        }
    }
    return p;
}

static void advance(struct reader *r, const char *chunk, size_t count)
{
    uint64_t lines = 0;
    for (size_t i = 0; i < count; i++) {
        lines += chunk[i] == '\n';
    }
    size_t tail = 0;
    while (tail < count && chunk[count - 1 - tail] != '\n') {
        tail++;
    }
    r->column_before = tail < count ? tail : r->column_before + count;
    r->line_before += lines;
    r->byte_before += count;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("_-+.", c) != NULL);
}

/* The word or character at `at`, printable. */
static void token_at(const char *chunk, size_t count, size_t at, char *out, size_t capacity)
{
    size_t length = 0;
    do {
        char c = at + length < count ? chunk[at + length] : ' ';
        out[length++] = c >= ' ' && c < 127 ? c : '?';
    } while (length + 1 < capacity && at + length < count && is_word(out[0]) && is_word(chunk[at + length]));
    out[length] = '\0';
}

/* The parser stopped inside the chunk. After a complete event list that is survivable. */
static enum sim_status stopped(struct reader *r, const char *chunk, size_t count)
{
    size_t at = yajl_get_bytes_consumed(r->parser);
    at = at > count ? count : at;
    if (r->too_deep || r->too_long) {
        struct position p = position_at(r, chunk, at);
        return sim_fail(
            r->error, SIM_BAD_TRACE, "%s:%llu: %s (byte %llu)", r->file->path, (unsigned long long)p.line,
            r->too_deep ? "nested deeper than 64 levels, which no trace is" : "one argument exceeds 4 MiB",
            (unsigned long long)p.byte);
    }
    /* yajl stops behind what it did not expect: go back to where that begins. */
    bool in_word = at > 0 && is_word(chunk[at - 1]);
    at -= at > 0 && !in_word;
    while (in_word && at > 0 && is_word(chunk[at - 1])) {
        at--;
    }
    struct position p = position_at(r, chunk, at);
    char token[32];
    token_at(chunk, count, at, token, sizeof token);
    if (r->events_closed) {
        snprintf(r->file->damage, sizeof r->file->damage,
                 "line %llu column %llu: not JSON at '%s', behind the complete event list",
                 (unsigned long long)p.line, (unsigned long long)p.column, token);
        return SIM_OK;
    }
    return sim_fail(r->error, SIM_BAD_TRACE, "%s:%llu: not JSON: unexpected '%s' at column %llu (byte %llu)",
                    r->file->path, (unsigned long long)p.line, token, (unsigned long long)p.column,
                    (unsigned long long)p.byte);
}

static enum sim_status ended_early(struct reader *r, const char *what)
{
    if (r->byte_before == 0) {
        return sim_fail(r->error, SIM_BAD_FILE, "%s: the file is empty", r->file->path);
    }
    if (r->events_closed) {
        snprintf(r->file->damage, sizeof r->file->damage, "line %llu: %s, behind the complete event list",
                 (unsigned long long)r->line_before + 1, what);
        return SIM_OK;
    }
    return sim_fail(r->error, SIM_BAD_FILE,
                    "%s: %s at line %llu (byte %llu of the JSON), %zu events read: copy the file again",
                    r->file->path, what, (unsigned long long)r->line_before + 1,
                    (unsigned long long)r->byte_before, r->file->list_event_count);
}

static enum sim_status parse_stream(struct reader *r, gzFile stream)
{
    char *chunk = malloc(CHUNK_BYTES);
    SIM_ASSERT(chunk != NULL, "out of memory");
    enum sim_status status = SIM_OK;
    bool going = true;
    while (going) {
        int count = gzread(stream, chunk, CHUNK_BYTES);
        int code = Z_OK;
        const char *message = gzerror(stream, &code);
        if (count > 0) {
            if (yajl_parse(r->parser, (const unsigned char *)chunk, (size_t)count) != yajl_status_ok) {
                status = stopped(r, chunk, (size_t)count);
                break;
            }
            advance(r, chunk, (size_t)count);
        }
        if (code == Z_BUF_ERROR) {
            status = ended_early(r, "compressed data cut short");
            break;
        }
        if (count < 0 || (code != Z_OK && code != Z_STREAM_END)) {
            char what[120];
            snprintf(what, sizeof what, "cannot be read (%.80s)",
                     code == Z_ERRNO ? strerror(errno) : message);
            status = ended_early(r, what);
            break;
        }
        going = count > 0;
    }
    if (!going && yajl_complete_parse(r->parser) != yajl_status_ok) {
        status = ended_early(r, "the JSON ends before its last bracket");
    }
    free(chunk);
    return status;
}

static enum sim_status open_stream(const char *path, gzFile *out, struct sim_error *error)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return sim_fail(error, SIM_BAD_FILE, "%s: %s", path, strerror(errno));
    }
    unsigned char magic[4] = { 0 };
    errno = 0;
    size_t count = fread(magic, 1, sizeof magic, file);
    int code = errno;
    bool failed = ferror(file) != 0;
    fclose(file);
    if (failed) {
        return sim_fail(error, SIM_BAD_FILE, "%s: %s", path, strerror(code));
    }
    if (count == 4 && memcmp(magic, "\x28\xb5\x2f\xfd", 4) == 0) {
        return sim_fail(error, SIM_BAD_FILE, "%s: zstd data; JSON and JSON.gz are read, decompress it first",
                        path);
    }
    *out = gzopen(path, "rb");
    if (*out == NULL) {
        return sim_fail(error, SIM_BAD_FILE, "%s: %s", path, strerror(errno));
    }
    gzbuffer(*out, CHUNK_BYTES);
    return SIM_OK;
}

enum sim_status trace_file_read(const char *path, struct trace_file **out, struct sim_error *error)
{
    *out = NULL;
    gzFile stream = NULL;
    enum sim_status status = open_stream(path, &stream, error);
    if (status != SIM_OK) {
        return status;
    }
    struct trace_file *file = calloc(1, sizeof *file);
    struct reader *reader = calloc(1, sizeof *reader);
    SIM_ASSERT(file != NULL && reader != NULL, "out of memory");
    file->arena = arena_create();
    file->path = path;
    file->rank = file->world_size = -1;
    reader->file = file;
    reader->error = error;
    reader->parser = yajl_alloc(&callbacks, NULL, reader);
    SIM_ASSERT(reader->parser != NULL, "out of memory");
    yajl_config(reader->parser, yajl_dont_validate_strings, 1); /* names are bytes to us */
    status = parse_stream(reader, stream);
    if (status == SIM_OK && !reader->events_found) {
        status = sim_fail(error, SIM_BAD_TRACE,
                          "%s: no traceEvents in the file: not a profiler (Kineto) trace", path);
    }
    yajl_free(reader->parser);
    gzclose(stream);
    free(reader->capture);
    free(reader);
    if (status != SIM_OK) {
        trace_file_destroy(file);
        return status;
    }
    *out = file;
    return SIM_OK;
}

void trace_file_destroy(struct trace_file *file)
{
    if (file == NULL) {
        return;
    }
    arena_destroy(file->arena);
    free(file->events);
    free(file->tracks);
    free(file);
}
