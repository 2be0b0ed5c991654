/* See input_internal.h. A checking scanner of one list element at a time; what it does not like it calls broken, and the
 * file is then parsed whole, which says what is wrong. */
#include "workloads/trace/input_internal.h"
#include "workloads/trace/trace_internal.h"
#include <stdlib.h>
#include <string.h>

#define WINDOW_BYTES ((size_t)1 << 20)
#define ELEMENT_MAX JSON_TOKEN_MAX     /* one element of the list; the parser takes longer ones, of shorter parts */
#define NESTING_MAX 48                 /* below the reader's own limit */

/* buffer[from .. to) is not yet handed out; buffer[to] is a NUL, which no rule below accepts, so that each stops there. */
struct event_scan {
    struct byte_source *source;
    char *buffer;
    size_t capacity, from, to;
    uint64_t base; /* of buffer[0] in the file */
    bool ended;
    bool element_before; /* in a list: an element was handed out, so that a comma or the end must follow */
};

/* ---- JSON by rule ---------------------------------------------------------------------------------------------- */

/* Each takes the place where a value begins and returns the one behind it, or NULL with `stop` where it failed. */
struct rules {
    const char *stop;
};

static const char *fail_at(struct rules *rules, const char *at)
{
    rules->stop = at;
    return NULL;
}

static const char *skip_blanks(const char *at)
{
    while (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t') {
        at++;
    }
    return at;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *scan_escape(struct rules *rules, const char *at)
{
    if (*at != 'u') {
        return *at != '\0' && strchr("\"\\/bfnrt", *at) != NULL ? at + 1 : fail_at(rules, at);
    }
    for (int i = 1; i <= 4; i++) {
        if (!is_digit(at[i]) && !((at[i] | 0x20) >= 'a' && (at[i] | 0x20) <= 'f')) {
            return fail_at(rules, at + i);
        }
    }
    return at + 5;
}

/* Bytes of `word` that end a plain stretch of a string: quotes, backslashes, controls. Borrows reach upwards only, so the
 * lowest mark is exact. */
static uint64_t string_ends(uint64_t word)
{
    const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    uint64_t quote = word ^ (ones * '"'), slash = word ^ (ones * '\\');
    return (((quote - ones) & ~quote) | ((slash - ones) & ~slash) | ((word - ones * 0x20) & ~word)) & tops;
}

/* `at`: behind the opening quote; returns the closing one. The buffer has 8 bytes to spare behind its end. */
static const char *scan_string(struct rules *rules, const char *at)
{
    for (;;) {
        uint64_t word;
        memcpy(&word, at, 8);
        if (string_ends(word) == 0) {
            at += 8;
            continue;
        }
        while ((unsigned char)*at >= 0x20 && *at != '"' && *at != '\\') {
            at++;
        }
        if (*at == '"') {
            return at;
        }
        if (*at != '\\') {
            return fail_at(rules, at);
        }
        at = scan_escape(rules, at + 1);
        if (at == NULL) {
            return NULL;
        }
    }
}

static const char *scan_digits(struct rules *rules, const char *at)
{
    if (!is_digit(*at)) {
        return fail_at(rules, at);
    }
    while (is_digit(*at)) {
        at++;
    }
    return at;
}

static const char *scan_number(struct rules *rules, const char *at)
{
    at += *at == '-';
    at = *at == '0' ? at + 1 : scan_digits(rules, at);
    if (at != NULL && *at == '.') {
        at = scan_digits(rules, at + 1);
    }
    if (at != NULL && (*at == 'e' || *at == 'E')) {
        at += 1 + (at[1] == '+' || at[1] == '-');
        at = scan_digits(rules, at);
    }
    return at;
}

static const char *scan_word(struct rules *rules, const char *at, const char *word)
{
    for (; *word != '\0'; word++, at++) {
        if (*at != *word) {
            return fail_at(rules, at);
        }
    }
    return at;
}

static const char *scan_value(struct rules *rules, const char *at, int depth);

/* Behind an element: a comma or the end. Returns the place of the next element, or of the bracket; NULL. */
static const char *scan_between(struct rules *rules, const char *at, char bracket)
{
    at = skip_blanks(at);
    if (*at == bracket) {
        return at;
    }
    return *at == ',' ? skip_blanks(at + 1) : fail_at(rules, at);
}

static const char *scan_list(struct rules *rules, const char *at, int depth)
{
    at = skip_blanks(at + 1);
    if (*at == ']') {
        return at + 1;
    }
    for (;;) {
        at = scan_value(rules, at, depth);
        const char *next = at == NULL ? NULL : scan_between(rules, at, ']');
        if (next == NULL || *next == ']') {
            bool trailing_comma = next != NULL && next != skip_blanks(at);
            return next == NULL ? NULL : trailing_comma ? fail_at(rules, next) : next + 1;
        }
        at = next;
    }
}

/* `"key" :`, at the quote; returns the place of the value. */
static const char *scan_key(struct rules *rules, const char *at, struct text_span *key)
{
    if (*at != '"') {
        return fail_at(rules, at);
    }
    const char *close = scan_string(rules, at + 1);
    if (close == NULL) {
        return NULL;
    }
    *key = (struct text_span){ at + 1, (size_t)(close - at - 1) };
    at = skip_blanks(close + 1);
    return *at == ':' ? skip_blanks(at + 1) : fail_at(rules, at);
}

/* What to do with each pair of a map: scan its value and return the place behind it. */
typedef const char *(*pair_rule)(struct rules *rules, const struct text_span *key, const char *at, int depth, void *context);

static const char *scan_map(struct rules *rules, const char *at, int depth, pair_rule pair, void *context)
{
    at = skip_blanks(at + 1);
    if (*at == '}') {
        return at + 1;
    }
    for (;;) {
        struct text_span key;
        at = scan_key(rules, at, &key);
        at = at == NULL ? NULL : pair(rules, &key, at, depth, context);
        const char *next = at == NULL ? NULL : scan_between(rules, at, '}');
        if (next == NULL || *next == '}') {
            bool trailing_comma = next != NULL && next != skip_blanks(at);
            return next == NULL ? NULL : trailing_comma ? fail_at(rules, next) : next + 1;
        }
        at = next;
    }
}

static const char *pass_pair(struct rules *rules, const struct text_span *key, const char *at, int depth, void *context)
{
    (void)key;
    (void)context;
    return scan_value(rules, at, depth);
}

static const char *scan_value(struct rules *rules, const char *at, int depth)
{
    switch (*at) {
    case '{': return depth == 0 ? fail_at(rules, at) : scan_map(rules, at, depth - 1, pass_pair, NULL);
    case '[': return depth == 0 ? fail_at(rules, at) : scan_list(rules, at, depth - 1);
    case '"': at = scan_string(rules, at + 1); return at == NULL ? NULL : at + 1;
    case 't': return scan_word(rules, at, "true");
    case 'f': return scan_word(rules, at, "false");
    case 'n': return scan_word(rules, at, "null");
    default: return scan_number(rules, at);
    }
}

/* ---- one event ------------------------------------------------------------------------------------------------- */

static bool is_key(const struct text_span *key, const char *name, size_t length)
{
    return key->length == length && memcmp(key->at, name, length) == 0;
}

/* A scalar's text as the parser would hand it over; escapes stay as written, which `odd` tells. */
static const char *take_scalar(struct rules *rules, const char *at, int depth, struct text_span *out, bool *odd)
{
    const char *end = scan_value(rules, at, depth);
    if (end == NULL || *at == '{' || *at == '[' || *at == 'n') {
        return end;
    }
    *out = *at == '"' ? (struct text_span){ at + 1, (size_t)(end - at - 2) } : (struct text_span){ at, (size_t)(end - at) };
    *odd = *odd || memchr(out->at, '\\', out->length) != NULL;
    return end;
}

static const char *argument_pair(struct rules *rules, const struct text_span *key, const char *at, int depth, void *context)
{
    struct event_text *event = context;
    return is_key(key, "correlation", 11) ? take_scalar(rules, at, depth, &event->correlation, &event->odd)
                                          : scan_value(rules, at, depth);
}

static const char *event_pair(struct rules *rules, const struct text_span *key, const char *at, int depth, void *context)
{
    struct event_text *event = context;
    bool escaped = false;
    switch (key->length) {
    case 2:
        if (memcmp(key->at, "ph", 2) == 0) {
            return take_scalar(rules, at, depth, &event->phase, &event->odd);
        }
        if (memcmp(key->at, "ts", 2) == 0) {
            return take_scalar(rules, at, depth, &event->start, &event->odd);
        }
        break;
    case 3:
        if (memcmp(key->at, "cat", 3) == 0) {
            event->odd = event->odd || event->category.at != NULL; /* said twice */
            return take_scalar(rules, at, depth, &event->category, &event->odd);
        }
        if (memcmp(key->at, "dur", 3) == 0) {
            return take_scalar(rules, at, depth, &event->duration, &event->odd);
        }
        break;
    case 4:
        if (memcmp(key->at, "name", 4) == 0) {
            return take_scalar(rules, at, depth, &event->name, &escaped);
        }
        if (memcmp(key->at, "args", 4) == 0 && *at == '{') {
            return scan_map(rules, at, depth - 1, argument_pair, event);
        }
        break;
    default: break;
    }
    return scan_value(rules, at, depth);
}

/* ---- pieces of the file ---------------------------------------------------------------------------------------- */

enum sim_status event_scan_open(const char *path, struct event_scan **out, struct sim_error *error)
{
    *out = NULL;
    struct byte_source *source;
    enum sim_status status = byte_source_open(path, &source, error);
    if (status != SIM_OK) {
        return status;
    }
    struct event_scan *scan = calloc(1, sizeof *scan);
    SIM_ASSERT(scan != NULL, "out of memory");
    scan->source = source;
    scan->capacity = WINDOW_BYTES;
    scan->buffer = malloc(scan->capacity + 16);
    SIM_ASSERT(scan->buffer != NULL, "out of memory");
    memset(scan->buffer, 0, 16);
    *out = scan;
    return SIM_OK;
}

void event_scan_close(struct event_scan *scan)
{
    if (scan == NULL) {
        return;
    }
    byte_source_close(scan->source);
    free(scan->buffer);
    free(scan);
}

/* More bytes behind those at hand. False: none, or an element that no trace has. */
static bool fill(struct event_scan *scan)
{
    if (scan->ended) {
        return false;
    }
    if (scan->from > 0) {
        memmove(scan->buffer, scan->buffer + scan->from, scan->to - scan->from);
        scan->to -= scan->from;
        scan->base += scan->from;
        scan->from = 0;
    }
    if (scan->capacity - scan->to < scan->capacity / 2) {
        if (scan->capacity >= ELEMENT_MAX) {
            return false;
        }
        scan->capacity *= 2;
        scan->buffer = realloc(scan->buffer, scan->capacity + 16);
        SIM_ASSERT(scan->buffer != NULL, "out of memory");
    }
    size_t before = scan->to, count;
    while (scan->to < scan->capacity &&
           (count = byte_source_read(scan->source, scan->buffer + scan->to, scan->capacity - scan->to)) > 0) {
        scan->to += count;
    }
    scan->ended = scan->to < scan->capacity;
    memset(scan->buffer + scan->to, 0, 16);
    return scan->to > before;
}

uint64_t event_scan_offset(const struct event_scan *scan)
{
    return scan->base + scan->from;
}

bool event_scan_skip_to(struct event_scan *scan, uint64_t offset)
{
    SIM_ASSERT(offset >= event_scan_offset(scan), "back to %llu", (unsigned long long)offset);
    uint64_t at_hand = scan->base + scan->to;
    scan->element_before = false;
    if (offset > at_hand) {
        if (scan->ended || !byte_source_skip(scan->source, offset - at_hand)) {
            return false;
        }
        scan->base = offset;
        scan->from = scan->to = 0;
        memset(scan->buffer, 0, 16);
        return true;
    }
    scan->from = (size_t)(offset - scan->base);
    return true;
}

/* Bytes up to and with the next opening square bracket, or all at hand. */
static enum event_piece next_text(struct event_scan *scan, struct text_span *text)
{
    if (scan->from == scan->to && !fill(scan)) {
        return byte_source_damage(scan->source) != NULL ? EVENT_PIECE_BROKEN : EVENT_PIECE_END;
    }
    const char *at = scan->buffer + scan->from, *bracket = memchr(at, '[', scan->to - scan->from);
    *text = (struct text_span){ at, bracket != NULL ? (size_t)(bracket + 1 - at) : scan->to - scan->from };
    scan->from += text->length;
    scan->element_before = false;
    return EVENT_PIECE_TEXT;
}

/* The element at `from`, or its list's closing bracket. NULL: `rules->stop` says where. */
static const char *scan_element(struct event_scan *scan, struct rules *rules, const char **from, struct event_text *event)
{
    const char *at = skip_blanks(scan->buffer + scan->from);
    bool comma = scan->element_before && *at == ',';
    at = comma ? skip_blanks(at + 1) : at;
    *from = at;
    if (*at == ']' && !comma) {
        return at + 1;
    }
    if (*at != '{' || (scan->element_before && !comma)) {
        return fail_at(rules, at);
    }
    memset(event, 0, sizeof *event);
    return scan_map(rules, at, NESTING_MAX, event_pair, event);
}

enum event_piece event_scan_next(struct event_scan *scan, bool in_list, struct text_span *text, struct event_text *event)
{
    if (!in_list) {
        return next_text(scan, text);
    }
    for (;;) {
        struct rules rules = { NULL };
        const char *from, *behind = scan_element(scan, &rules, &from, event);
        if (behind == NULL) {
            /* stopped at the end of the bytes: cut, unless there are no more */
            if (rules.stop < scan->buffer + scan->to || !fill(scan)) {
                return EVENT_PIECE_BROKEN;
            }
            continue;
        }
        *text = (struct text_span){ from, (size_t)(behind - from) };
        scan->from = (size_t)(behind - scan->buffer);
        scan->element_before = true;
        return *from == ']' ? EVENT_PIECE_TEXT : EVENT_PIECE_EVENT;
    }
}
