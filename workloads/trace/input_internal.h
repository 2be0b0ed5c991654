/* Input files of any compression and kind, below the readers of each format.
 *
 *   byte_source.c   path -> bytes: plain, gzip or zstd by their first bytes
 *   json_stream.c   path -> calls of a handler, as the JSON passes; errors with line and column
 *   event_scan.c    path -> pieces: each element of an event list apart, all else as it is; several times as fast
 *   json_items.c    the same as small trees, one for each element of the lists that a reader asks for
 *   input_kind.c    which format a file is of, by its first bytes or top-level keys; folders -> files of the ranks */
#ifndef WORKLOADS_TRACE_INPUT_INTERNAL_H
#define WORKLOADS_TRACE_INPUT_INTERNAL_H
#include "sim/core/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- bytes ----------------------------------------------------------------------------------------------------- */

#define BYTE_SOURCE_CHUNK ((size_t)256 << 10)

struct byte_source; /* opaque */

/* Errors: SIM_BAD_FILE (missing, a folder, not readable). */
enum sim_status byte_source_open(const char *path, struct byte_source **out, struct sim_error *error);
/* Next bytes, decompressed; 0 at the end or on damage, which byte_source_damage then names. */
size_t byte_source_read(struct byte_source *source, void *bytes, size_t capacity);
/* Leave out the next `count` bytes; a plain file is not read meanwhile. False: it ends before. */
bool byte_source_skip(struct byte_source *source, uint64_t count);
const char *byte_source_damage(const struct byte_source *source); /* NULL: none */
void byte_source_close(struct byte_source *source);               /* NULL is allowed */
bool byte_source_is_packed(const char *path);                     /* gzip or zstd, by its first bytes */

/* ---- JSON as it passes ----------------------------------------------------------------------------------------- */

/* A longer string, number or word is refused: the parser reads one that is cut by the end of a chunk all anew with the next. */
#define JSON_TOKEN_MAX ((size_t)16 << 20)

/* Each returns 0 to stop (and sets json_stream.refusal), else 1. Numbers come as their text. */
struct json_handler {
    int (*null)(void *context);
    int (*boolean)(void *context, int value);
    int (*number)(void *context, const char *text, size_t length);
    int (*string)(void *context, const unsigned char *text, size_t length);
    int (*map_start)(void *context);
    int (*map_key)(void *context, const unsigned char *text, size_t length);
    int (*map_end)(void *context);
    int (*array_start)(void *context);
    int (*array_end)(void *context);
    void (*restart)(void *context); /* forget everything: the file is read again from its first byte */
};

struct json_stream {
    const char *path;          /* borrowed */
    const char *refusal;       /* set by the handler when it stops: what is wrong here; static text */
    struct sim_error *failure; /* set by the handler when it stops with an error of its own, which is then the answer */
    bool complete;             /* set by the handler: all of use was read, so damage behind here is survived */
    size_t item_count;         /* kept by the handler, for messages */
    char damage[160];          /* "": none; else where the JSON breaks behind what is of use */
    char odd_number[64];       /* "": none; else the first inf or nan, with its line: taken as null */
    size_t odd_number_count;
    uint64_t line; /* of the latest chunk's first byte, from 1: about where the handler is */
};

/* Bare inf and nan, which some profilers write, are taken as null: found by a second reading, since the first is strict.
 * Errors: SIM_BAD_FILE (cannot be read, compressed data cut short or damaged), SIM_BAD_TRACE (not JSON, or refused). */
enum sim_status json_stream_parse(struct json_stream *stream, const struct json_handler *handler, void *context,
                                  struct sim_error *error);

/* The same from bytes that the caller has: what stopped it is not said. */
struct json_feed; /* opaque */
struct json_feed *json_feed_create(const struct json_handler *handler, void *context);
bool json_feed_push(struct json_feed *feed, const char *bytes, size_t count); /* false: not JSON, or the handler stopped */
bool json_feed_end(struct json_feed *feed);                                   /* false: cut short */
void json_feed_destroy(struct json_feed *feed);                               /* NULL is allowed */

/* ---- a list's elements apart ------------------------------------------------------------------------------------ */

struct text_span {
    const char *at; /* NULL: absent */
    size_t length;
};

/* What an event of a profiler trace says of itself, as written: no escapes resolved. */
struct event_text {
    struct text_span phase, category, name, start, duration, correlation;
    bool odd; /* one of them but the name holds an escape, or the category is said twice */
};

enum event_piece {
    EVENT_PIECE_END,
    EVENT_PIECE_TEXT,  /* no element: for the parser as it is */
    EVENT_PIECE_EVENT, /* one element, a map, checked against JSON's grammar; the comma before it is left out */
    EVENT_PIECE_BROKEN /* not JSON, cut short, damaged, or an element that is no map: json_stream_parse says which */
};

struct event_scan; /* opaque */
enum sim_status event_scan_open(const char *path, struct event_scan **out, struct sim_error *error);
/* The next piece, valid until the next call. in_list: the text so far ends inside the list whose elements are wanted; texts
 * end behind each opening square bracket, so that the caller's parser knows. Memory: a window of 1 MiB, or two elements. */
enum event_piece event_scan_next(struct event_scan *scan, bool in_list, struct text_span *text, struct event_text *event);
/* Where the file goes on behind the latest piece, in bytes of JSON. */
uint64_t event_scan_offset(const struct event_scan *scan);
/* In a list, go on from an element further on (its first byte), or from behind the last. False: the file ends before. */
bool event_scan_skip_to(struct event_scan *scan, uint64_t offset);
void event_scan_close(struct event_scan *scan); /* NULL is allowed */

/* ---- JSON as small trees --------------------------------------------------------------------------------------- */

enum json_item_kind { JSON_ITEM_NULL, JSON_ITEM_BOOL, JSON_ITEM_NUMBER, JSON_ITEM_STRING, JSON_ITEM_LIST, JSON_ITEM_MAP };

struct json_item {
    enum json_item_kind kind;
    size_t key, text; /* offsets into the tree's texts; key 0: none; a list's or map's text is unset */
    uint32_t first, next, count; /* children; UINT32_MAX: none */
};

/* One captured value: item 0 is the root. Valid until the next call. */
struct json_tree {
    const struct json_item *items;
    size_t item_count;
    const char *texts;
};

/* `which`: the index of the path that fits. Return an error to stop; it becomes that of json_items_read. */
typedef enum sim_status (*json_item_visitor)(void *context, size_t which, const struct json_tree *tree,
                                             struct sim_error *error);

/* Visit every value whose path is in `paths`: "schema", "nodes[]", "a[].b.c[]". Memory: the largest such value.
 * restart: as in json_handler; may be NULL when the visitor keeps nothing. Errors: as json_stream_parse. */
enum sim_status json_items_read(struct json_stream *stream, const char *const *paths, size_t path_count,
                                json_item_visitor visit, void (*restart)(void *context), void *context,
                                struct sim_error *error);

const struct json_item *json_item_get(const struct json_tree *tree, const struct json_item *map, const char *key); /* or NULL */
const struct json_item *json_item_child(const struct json_tree *tree, const struct json_item *list, size_t index); /* or NULL */
const struct json_item *json_item_next(const struct json_tree *tree, const struct json_item *item);                /* or NULL */
const char *json_item_text(const struct json_tree *tree, const struct json_item *item); /* "" for NULL, lists and maps */
double json_item_number(const struct json_tree *tree, const struct json_item *item, double otherwise); /* finite */
bool json_item_unsigned(const struct json_tree *tree, const struct json_item *item, uint64_t *out);    /* exact */

/* ---- kinds of files -------------------------------------------------------------------------------------------- */

enum input_kind {
    INPUT_KINETO,          /* also what is not known: its reader says what is missing */
    INPUT_EXECUTION_TRACE, /* PyTorch: "schema" and "nodes" */
    INPUT_CHAKRA_JSON,     /* "workload_graph" */
    INPUT_CHAKRA,          /* protobuf */
    INPUT_ROCPROF          /* rocprofv3: "rocprofiler-sdk-tool" */
};

enum sim_status input_kind_of(const char *path, enum input_kind *out, struct sim_error *error);

/* Files named by `paths`, folders replaced by the files of ranks in them, numbers in names in numeric order. The caller
 * frees with input_files_free. Errors: SIM_BAD_FILE for a folder that cannot be read or holds no trace. */
enum sim_status input_files_list(const char *const *paths, size_t path_count, char ***out, size_t *count,
                                 struct sim_error *error);
void input_files_free(char **files, size_t count);
/* The rank a file's name tells: the number behind "rank", "worker" or "gpu", or the one before the ending. -1: none. */
int64_t input_rank_of_name(const char *path);

#endif
