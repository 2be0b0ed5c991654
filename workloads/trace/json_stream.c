/* The one door to yajl: a file pushed through the parser chunk by chunk, and what is said when it stops. */
#include "workloads/trace/input_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yajl/yajl_parse.h>

#define WORD_MAX 32 /* longer words are no inf or nan */

/* How long the string, number or word is by now that the latest chunk ended in. */
struct token_watch {
    bool in_string, escaped; /* escaped: the next byte is */
    uint64_t bytes;
};

/* Where the chunk's first byte is; and the state of the repair of bare inf and nan (lenient): inside a string or not, and
 * the word that the chunk's end may have cut. */
struct pass {
    struct json_stream *stream;
    struct sim_error *error;
    yajl_handle parser;
    uint64_t line_before, byte_before, column_before;
    bool lenient, in_string, escaped;
    char word[WORD_MAX];
    size_t word_length;
    char *repaired;
    size_t repaired_length;
    bool odd_number_here; /* strict pass: what stopped it */
    struct token_watch watch;
};

struct position {
    uint64_t line, column, byte;
};

static struct position position_at(const struct pass *p, const char *chunk, size_t count)
{
    struct position at = { p->line_before + 1, p->column_before + 1, p->byte_before + count };
    for (size_t i = 0; i < count; i++) {
        at.column++;
        if (chunk[i] == '\n') {
            at.line++;
            at.column = 1;
        }
    }
    return at;
}

static void advance(struct pass *p, const char *chunk, size_t count)
{
    uint64_t lines = 0;
    const char *end = chunk + count, *last = NULL;
    for (const char *at = chunk; (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++) {
        lines++;
        last = at;
    }
    p->column_before = last != NULL ? (uint64_t)(end - last - 1) : p->column_before + count;
    p->line_before += lines;
    p->byte_before += count;
    p->stream->line = p->line_before + 1;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("_-+.", c) != NULL);
}

/* ---- bare inf and nan ------------------------------------------------------------------------------------------ */

static bool is_odd_number(const char *word, size_t length)
{
    static const char *const words[] = { "inf", "infinity", "nan" };
    if (length > 1 && (word[0] == '-' || word[0] == '+')) {
        word++;
        length--;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strlen(words[i]) == length && strncasecmp(words[i], word, length) == 0) {
            return true;
        }
    }
    return false;
}

static void put(struct pass *p, const char *bytes, size_t length)
{
    memcpy(p->repaired + p->repaired_length, bytes, length);
    p->repaired_length += length;
}

static void end_word(struct pass *p, const char *chunk, size_t at)
{
    struct json_stream *stream = p->stream;
    if (!is_odd_number(p->word, p->word_length)) {
        put(p, p->word, p->word_length);
    } else {
        if (stream->odd_number_count++ == 0) {
            snprintf(stream->odd_number, sizeof stream->odd_number, "'%.*s' at line %llu", (int)p->word_length, p->word,
                     (unsigned long long)position_at(p, chunk, at).line);
        }
        put(p, "null", 4);
    }
    p->word_length = 0;
}

/* The chunk with inf and nan replaced. A word grows by one letter at most, so twice the chunk and a word are room enough. */
static void repair(struct pass *p, const char *chunk, size_t count)
{
    p->repaired_length = 0;
    for (size_t i = 0; i < count; i++) {
        char c = chunk[i];
        if (p->in_string) {
            p->in_string = p->escaped || c != '"';
            p->escaped = !p->escaped && c == '\\';
        } else if (is_word(c) && p->word_length < WORD_MAX) {
            p->word[p->word_length++] = c;
            continue;
        } else {
            end_word(p, chunk, i);
            p->in_string = c == '"';
        }
        put(p, &c, 1);
    }
}

/* ---- long tokens ------------------------------------------------------------------------------------------------ */

/* The string's closing quote, or NULL: not in these bytes. */
static const char *closing_quote(struct token_watch *watch, const char *at, const char *end)
{
    for (const char *from = at; from < end; from++) {
        const char *quote = memchr(from, '"', (size_t)(end - from)), *last = quote != NULL ? quote : end, *back = last;
        while (back > at && back[-1] == '\\') {
            back--;
        }
        bool escaped = ((size_t)(last - back) + (back == at && watch->escaped)) % 2 == 1;
        if (quote == NULL || !escaped) {
            watch->escaped = quote == NULL && escaped;
            return quote;
        }
        from = quote;
    }
    watch->escaped = false;
    return NULL;
}

/* False: the token that the chunk ends in is too long by now. */
static bool watch_tokens(struct token_watch *watch, const char *chunk, size_t count)
{
    const char *from = chunk, *end = chunk + count, *quote;
    if (!watch->in_string) {
        while (from < end && is_word(*from)) {
            from++;
        }
        watch->bytes = from == end ? watch->bytes + count : 0; /* of a number only whole chunks count */
    }
    while ((quote = watch->in_string ? closing_quote(watch, from, end) : memchr(from, '"', (size_t)(end - from))) != NULL) {
        watch->in_string = !watch->in_string;
        watch->bytes = 0;
        from = quote + 1;
    }
    watch->bytes += watch->in_string ? (size_t)(end - from) : 0;
    return watch->bytes <= JSON_TOKEN_MAX;
}

/* ---- what stopped it ------------------------------------------------------------------------------------------- */

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

static enum sim_status refused(struct pass *p, struct position at)
{
    struct json_stream *stream = p->stream;
    if (stream->failure != NULL) {
        return p->error != NULL ? p->error->status : stream->failure->status;
    }
    return sim_fail(p->error, SIM_BAD_TRACE, "%s:%llu: %s (byte %llu)", stream->path, (unsigned long long)at.line,
                    stream->refusal, (unsigned long long)at.byte);
}

/* The parser stopped inside the chunk. */
static enum sim_status stopped(struct pass *p, const char *chunk, size_t count)
{
    struct json_stream *stream = p->stream;
    size_t at = yajl_get_bytes_consumed(p->parser);
    at = at > count ? count : at;
    if (stream->refusal != NULL || stream->failure != NULL) {
        return refused(p, position_at(p, chunk, at));
    }
    /* yajl stops behind what it did not expect: go back to where that begins. */
    bool in_word = at > 0 && is_word(chunk[at - 1]);
    at -= at > 0 && !in_word;
    while (in_word && at > 0 && is_word(chunk[at - 1])) {
        at--;
    }
    struct position where = position_at(p, chunk, at);
    char token[32];
    token_at(chunk, count, at, token, sizeof token);
    p->odd_number_here = is_odd_number(token, strlen(token)) || at + strlen(token) >= count;
    if (stream->complete) {
        snprintf(stream->damage, sizeof stream->damage,
                 "line %llu column %llu: not JSON at '%s', behind the complete event list",
                 (unsigned long long)where.line, (unsigned long long)where.column, token);
        return SIM_OK;
    }
    return sim_fail(p->error, SIM_BAD_TRACE, "%s:%llu: not JSON: unexpected '%s' at column %llu (byte %llu)",
                    stream->path, (unsigned long long)where.line, token, (unsigned long long)where.column,
                    (unsigned long long)where.byte);
}

static enum sim_status too_long(struct pass *p)
{
    struct json_stream *stream = p->stream;
    unsigned long long line = p->line_before + 1, mib = JSON_TOKEN_MAX >> 20;
    if (stream->complete) {
        snprintf(stream->damage, sizeof stream->damage, "line %llu: a string or number of more than %llu MiB, behind the complete event list",
                 line, mib);
        return SIM_OK;
    }
    return sim_fail(p->error, SIM_BAD_TRACE, "%s:%llu: a string or number of more than %llu MiB (byte %llu)", stream->path, line, mib,
                    (unsigned long long)p->byte_before);
}

static enum sim_status ended_early(struct pass *p, const char *what, bool damaged)
{
    struct json_stream *stream = p->stream;
    if (p->byte_before == 0) {
        return sim_fail(p->error, SIM_BAD_FILE, "%s: %s", stream->path, damaged ? what : "the file is empty");
    }
    if (stream->complete) {
        snprintf(stream->damage, sizeof stream->damage, "line %llu: %.100s, behind the complete event list",
                 (unsigned long long)p->line_before + 1, what);
        return SIM_OK;
    }
    return sim_fail(p->error, SIM_BAD_FILE,
                    "%s: %s at line %llu (byte %llu of the JSON), %zu events read: copy the file again", stream->path,
                    what, (unsigned long long)p->line_before + 1, (unsigned long long)p->byte_before,
                    stream->item_count);
}

/* ---- the file -------------------------------------------------------------------------------------------------- */

static bool push(struct pass *p, const char *chunk, size_t count)
{
    if (!p->lenient) {
        return yajl_parse(p->parser, (const unsigned char *)chunk, count) == yajl_status_ok;
    }
    repair(p, chunk, count);
    return yajl_parse(p->parser, (const unsigned char *)p->repaired, p->repaired_length) == yajl_status_ok;
}

static enum sim_status parse_bytes(struct pass *p, struct byte_source *source, char *chunk)
{
    size_t count;
    while ((count = byte_source_read(source, chunk, BYTE_SOURCE_CHUNK)) > 0) {
        if (!watch_tokens(&p->watch, chunk, count)) {
            return too_long(p);
        }
        if (!push(p, chunk, count)) {
            return p->lenient ? stopped(p, p->repaired, p->repaired_length) : stopped(p, chunk, count);
        }
        advance(p, chunk, count);
    }
    if (byte_source_damage(source) != NULL) {
        return ended_early(p, byte_source_damage(source), true);
    }
    if (p->lenient && p->word_length > 0) {
        p->repaired_length = 0;
        end_word(p, "", 0);
        yajl_parse(p->parser, (const unsigned char *)p->repaired, p->repaired_length);
    }
    if (yajl_complete_parse(p->parser) != yajl_status_ok) {
        return p->stream->refusal != NULL || p->stream->failure != NULL
                   ? refused(p, position_at(p, "", 0))
                   : ended_early(p, "the JSON ends before its last bracket", false);
    }
    return SIM_OK;
}

static yajl_callbacks callbacks_of(const struct json_handler *handler)
{
    return (yajl_callbacks){
        .yajl_null = handler->null,
        .yajl_boolean = handler->boolean,
        .yajl_number = handler->number,
        .yajl_string = handler->string,
        .yajl_start_map = handler->map_start,
        .yajl_map_key = handler->map_key,
        .yajl_end_map = handler->map_end,
        .yajl_start_array = handler->array_start,
        .yajl_end_array = handler->array_end,
    };
}

static enum sim_status parse_once(struct pass *p, const struct json_handler *handler, void *context)
{
    const yajl_callbacks callbacks = callbacks_of(handler);
    struct byte_source *source;
    enum sim_status status = byte_source_open(p->stream->path, &source, p->error);
    if (status != SIM_OK) {
        return status;
    }
    char *chunk = malloc(BYTE_SOURCE_CHUNK);
    p->repaired = p->lenient ? malloc(2 * BYTE_SOURCE_CHUNK + WORD_MAX) : NULL;
    p->parser = yajl_alloc(&callbacks, NULL, context);
    SIM_ASSERT(chunk != NULL && p->parser != NULL && (p->repaired != NULL || !p->lenient), "out of memory");
    yajl_config(p->parser, yajl_dont_validate_strings, 1); /* names are bytes to us */
    p->stream->line = 1;
    status = parse_bytes(p, source, chunk);
    yajl_free(p->parser);
    free(p->repaired);
    free(chunk);
    byte_source_close(source);
    return status;
}

enum sim_status json_stream_parse(struct json_stream *stream, const struct json_handler *handler, void *context,
                                  struct sim_error *error)
{
    struct pass strict = { .stream = stream, .error = error };
    enum sim_status status = parse_once(&strict, handler, context);
    if (!strict.odd_number_here) {
        return status;
    }
    handler->restart(context);
    stream->refusal = NULL;
    stream->complete = false;
    stream->damage[0] = '\0';
    stream->item_count = 0;
    struct pass lenient = { .stream = stream, .error = error, .lenient = true };
    return parse_once(&lenient, handler, context);
}

/* ---- bytes from the caller --------------------------------------------------------------------------------------- */

struct json_feed {
    yajl_callbacks callbacks;
    yajl_handle parser;
};

struct json_feed *json_feed_create(const struct json_handler *handler, void *context)
{
    struct json_feed *feed = malloc(sizeof *feed);
    SIM_ASSERT(feed != NULL, "out of memory");
    feed->callbacks = callbacks_of(handler);
    feed->parser = yajl_alloc(&feed->callbacks, NULL, context);
    SIM_ASSERT(feed->parser != NULL, "out of memory");
    yajl_config(feed->parser, yajl_dont_validate_strings, 1);
    return feed;
}

bool json_feed_push(struct json_feed *feed, const char *bytes, size_t count)
{
    return yajl_parse(feed->parser, (const unsigned char *)bytes, count) == yajl_status_ok;
}

bool json_feed_end(struct json_feed *feed)
{
    return yajl_complete_parse(feed->parser) == yajl_status_ok;
}

void json_feed_destroy(struct json_feed *feed)
{
    if (feed != NULL) {
        yajl_free(feed->parser);
        free(feed);
    }
}
