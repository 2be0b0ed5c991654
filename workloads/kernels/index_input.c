/* Which rows are looked up, as a user says it: a generator with its parameters, or a file. */
#include "workloads/kernels/index_draw_internal.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_CAPACITY 512
#define FILE_ENTRIES_MAX 1000000000ull

struct index_request index_request_read(struct kernel_build *build, enum index_kind kind,
                                        enum index_kind skewed)
{
    static const enum index_kind kinds[] = { INDEX_UNIFORM, INDEX_UNIFORM_DISTINCT, INDEX_ZIPF,
                                             INDEX_FBGEMM_ZIPF };
    struct index_request request = { .kind = kind };
    bool given = kernel_param_given(build, "generator");
    int chosen = kernel_param_choice_or(build, "generator", "uniform|uniform_distinct|zipf|fbgemm_zipf", 0,
                                        NULL);
    request.alpha = kernel_param_real_or(build, "alpha", 0, 8, 1, NULL);
    request.hot_share = kernel_param_real_or(build, "hot_share", 0, 1, 0, NULL);
    request.file = kernel_param_text_or(build, "index_file", NULL);
    request.block = kernel_param_text_or(build, "index_block", NULL);
    bool alpha_given = kernel_param_given(build, "alpha");
    if (given) {
        request.kind = kinds[chosen];
        bool uniform = request.kind == INDEX_UNIFORM || request.kind == INDEX_UNIFORM_DISTINCT;
        if (uniform && request.alpha > 1) {
            kernel_fail(build, SIM_BAD_ARGUMENT,
                        "parameters generator and alpha=%g do not agree: uniform indices go with "
                        "alpha up to 1, zipf and fbgemm_zipf with more",
                        request.alpha);
        } else if (request.kind == INDEX_FBGEMM_ZIPF && request.alpha <= 1) {
            kernel_fail(build, SIM_BAD_ARGUMENT,
                        "parameters generator and alpha=%g do not agree: fbgemm_zipf goes with "
                        "alpha above 1",
                        request.alpha);
        } else if (request.kind == INDEX_ZIPF && !alpha_given) {
            kernel_fail(build, SIM_BAD_ARGUMENT,
                        "parameter 'alpha' is missing: zipf indices need it (0 to 8)");
        } else if (request.kind == INDEX_ZIPF && request.alpha <= 1) {
            request.kind = INDEX_ZIPF_BOUNDED;
        }
    } else if (request.alpha > 1) {
        request.kind = skewed;
    } else if (alpha_given && request.alpha > 0 && request.alpha < 1) {
        request.kind = INDEX_ZIPF_BOUNDED;
    }
    if (request.file != NULL && (given || alpha_given)) {
        kernel_fail(build, SIM_BAD_ARGUMENT,
                    "parameter index_file=%s stands for the generator: leave generator and alpha out",
                    request.file);
    }
    if (request.block != NULL && request.file == NULL) {
        kernel_fail(build, SIM_BAD_ARGUMENT,
                    "parameter index_block=%s names a block of index_file, which is missing", request.block);
    }
    return request;
}

/* ---- files ---- */

struct index_file {
    struct kernel_build *build;
    const char *path;
    FILE *file;
    uint64_t line; /* of `text`, from 1 */
    char text[LINE_CAPACITY];
};

static void fail_at(struct index_file *in, const char *what)
{
    char shown[48];
    snprintf(shown, sizeof shown, "%.40s", in->text);
    kernel_fail(in->build, SIM_BAD_FILE, "%s, line %llu: '%s': %s", in->path, (unsigned long long)in->line,
                shown, what);
}

/* The next line that is neither empty nor a comment (#), without white space at its ends; false at the end or on error. */
static bool next_line(struct index_file *in)
{
    while (kernel_build_ok(in->build) && fgets(in->text, sizeof in->text, in->file) != NULL) {
        in->line++;
        size_t length = strlen(in->text);
        if (length + 1 == sizeof in->text && in->text[length - 1] != '\n') {
            fail_at(in, "longer than 510 bytes");
            return false;
        }
        while (length > 0 && isspace((unsigned char)in->text[length - 1])) {
            in->text[--length] = '\0';
        }
        size_t blank = strspn(in->text, " \t");
        memmove(in->text, in->text + blank, length - blank + 1);
        if (in->text[0] != '\0' && in->text[0] != '#') {
            return true;
        }
    }
    return false;
}

/* A whole number at *at, which is moved behind it. */
static bool read_whole(const char **at, uint64_t *value)
{
    char *end;
    errno = 0;
    if (!isdigit((unsigned char)**at)) {
        return false;
    }
    *value = strtoull(*at, &end, 10);
    *at = end;
    return errno == 0;
}

static void *grown(void *memory, uint64_t count, uint64_t *capacity, size_t size)
{
    if (count < *capacity) {
        return memory;
    }
    *capacity = *capacity == 0 ? 1024 : 2 * *capacity;
    memory = realloc(memory, *capacity * size);
    SIM_ASSERT(memory != NULL, "index file: out of memory for %llu entries", (unsigned long long)*capacity);
    return memory;
}

/* One index a line; the first line has been read. */
static struct index_source *read_trace(struct index_file *in, uint64_t tables, uint64_t bags, uint64_t length,
                                       uint64_t rows)
{
    uint32_t *trace = NULL;
    uint64_t count = 0, capacity = 0, row;
    do {
        const char *at = in->text;
        if (!read_whole(&at, &row) || *at != '\0') {
            fail_at(in, "one index a line is needed, a whole number");
        } else if (row >= rows || row > UINT32_MAX) {
            char what[80];
            snprintf(what, sizeof what, "must be below rows=%llu", (unsigned long long)rows);
            fail_at(in, what);
        } else if (count == FILE_ENTRIES_MAX) {
            fail_at(in, "more than 1e9 indices");
        } else {
            trace = grown(trace, count, &capacity, sizeof *trace);
            trace[count++] = (uint32_t)row;
        }
    } while (next_line(in));
    if (!kernel_build_ok(in->build)) {
        free(trace);
        return NULL;
    }
    return index_source_of_trace(trace, count, tables, bags, length, rows);
}

/* "row,count" names each row's lookups, "lookups,rows" how many rows have so many. The header has been read. */
static struct index_source *read_counts(struct index_file *in, bool by_row, uint64_t tables, uint64_t bags,
                                        uint64_t length, uint64_t rows)
{
    struct index_class *classes = NULL;
    uint64_t count = 0, capacity = 0, first, second, all_rows = 0, all_lookups = 0;
    while (next_line(in)) {
        const char *at = in->text;
        bool read = read_whole(&at, &first) && *at++ == ',' && read_whole(&at, &second) && *at == '\0';
        if (!read) {
            fail_at(in, by_row ? "row,count is needed, two whole numbers"
                               : "lookups,rows is needed, two whole numbers");
            break;
        }
        struct index_class class = by_row ? (struct index_class){ 1, second, first }
                                          : (struct index_class){ second, first, all_rows };
        if (by_row ? first >= rows : second > rows - all_rows) {
            char what[80];
            snprintf(what, sizeof what, "%s rows=%llu", by_row ? "the row must be below" : "more rows than",
                     (unsigned long long)rows);
            fail_at(in, what);
        } else if (class.lookups > UINT32_MAX || class.rows * class.lookups > UINT64_MAX / 4 - all_lookups) {
            fail_at(in, "too many lookups");
        } else if (class.rows * class.lookups > 0) {
            classes = grown(classes, count, &capacity, sizeof *classes);
            classes[count++] = class;
            all_rows += by_row ? 0 : class.rows;
            all_lookups += class.rows * class.lookups;
        }
    }
    if (kernel_build_ok(in->build) && all_lookups == 0) {
        kernel_fail(in->build, SIM_BAD_FILE, "%s, line %llu: no lookup in the file", in->path,
                    (unsigned long long)in->line);
    }
    if (!kernel_build_ok(in->build)) {
        free(classes);
        return NULL;
    }
    return index_source_of_classes(classes, count, !by_row, tables, bags, length, rows);
}

/* ---- published locality statistics: per data set a block of text that holds, by how often a row is looked up in a batch
 * ("(4, 8]: 0.112"), the share of distinct rows and then the share of lookups. ---- */

#define BUCKETS_MAX 40

/* Shares of one histogram, the title has been read; the first line that is no bucket ends it. */
static uint32_t read_buckets(struct index_file *in, double share[BUCKETS_MAX])
{
    uint32_t count = 0;
    while (next_line(in) && in->text[0] == '(') {
        const char *colon = strrchr(in->text, ':');
        char *end = NULL;
        double value = colon != NULL ? strtod(colon + 1, &end) : -1;
        if (colon == NULL || end == colon + 1 || *end != '\0' || !(value >= 0 && value <= 1) ||
            count == BUCKETS_MAX) {
            fail_at(in, "a bucket \"(low, high]: share\" is needed, share 0 to 1");
            return 0;
        }
        share[count++] = value;
    }
    return count;
}

/* Lookups a row of each bucket, so that both shares hold: mean times lookups' share over rows' share. */
static struct index_source *build_statistics(struct index_file *in, double mean, const double *row_share,
                                             const double *lookup_share, uint32_t buckets, uint64_t tables,
                                             uint64_t bags, uint64_t length, uint64_t rows)
{
    struct index_class *classes = calloc(buckets, sizeof *classes);
    SIM_ASSERT(classes != NULL, "locality statistics: out of memory");
    double lookups = (double)bags * (double)length;
    uint64_t count = 0, all_rows = 0;
    for (uint32_t i = 0; i < buckets; i++) {
        /* Shares are printed to 0.001: a bucket whose rows' share is lost in it takes its own lower bound. */
        double each = row_share[i] > 0 ? mean * lookup_share[i] / row_share[i]
                      : i > 0          ? (double)(1u << (i - 1))
                                       : 1;
        each = each < 1 ? 1 : each;
        uint64_t of_bucket = (uint64_t)(lookups * lookup_share[i] / each + 0.5);
        if (lookup_share[i] <= 0 || of_bucket == 0) {
            continue;
        }
        classes[count++] = (struct index_class){ of_bucket, (uint64_t)(each + 0.5), all_rows };
        all_rows += of_bucket;
    }
    if (all_rows > rows || count == 0) {
        kernel_fail(in->build, SIM_BAD_ARGUMENT,
                    "%s: %llu lookups of this locality fall on %llu rows, more than rows=%llu", in->path,
                    (unsigned long long)lookups, (unsigned long long)all_rows, (unsigned long long)rows);
        free(classes);
        return NULL;
    }
    return index_source_of_classes(classes, count, true, tables, bags, length, rows);
}

static struct index_source *read_statistics(struct index_file *in, const char *block, uint64_t tables,
                                            uint64_t bags, uint64_t length, uint64_t rows)
{
    double row_share[BUCKETS_MAX], lookup_share[BUCKETS_MAX], mean = 0;
    uint32_t row_buckets = 0;
    struct index_file first = *in; /* for the message when nothing of the file is known */
    bool wanted = block == NULL || strcmp(in->text, block) == 0;
    do {
        if (strstr(in->text, ":") == NULL && in->text[0] != '[') {
            wanted = (block == NULL && row_buckets == 0) || (block != NULL && strcmp(in->text, block) == 0);
        } else if (wanted && strncmp(in->text, "Avg col size:", 13) == 0) {
            mean = strtod(in->text + 13, NULL);
            if (!(mean >= 1)) {
                fail_at(in, "a mean of at least 1 lookup a row is needed");
            }
        } else if (wanted && strncmp(in->text, "Histogram of col sizes", 22) == 0) {
            row_buckets = read_buckets(in, row_share);
        } else if (wanted && strncmp(in->text, "Ratio of index distribution", 27) == 0) {
            uint32_t buckets = read_buckets(in, lookup_share);
            if (kernel_build_ok(in->build) && (buckets != row_buckets || mean < 1)) {
                fail_at(in, "as many buckets as in \"Histogram of col sizes\" and an \"Avg col size\" are "
                            "needed before");
            }
            return kernel_build_ok(in->build) ? build_statistics(in, mean, row_share, lookup_share, buckets,
                                                                 tables, bags, length, rows)
                                              : NULL;
        }
    } while (next_line(in));
    if (kernel_build_ok(in->build) && block != NULL) {
        kernel_fail(in->build, SIM_BAD_FILE, "%s, line %llu: the file ends without a complete block '%s'",
                    in->path, (unsigned long long)in->line, block);
    } else if (kernel_build_ok(in->build)) {
        fail_at(&first, "neither an index, nor a header row,count or lookups,rows, nor locality statistics");
    }
    return NULL;
}

static struct index_source *read_file(struct index_file *in, const char *block, uint64_t tables,
                                      uint64_t bags, uint64_t length, uint64_t rows)
{
    if (!next_line(in)) {
        kernel_fail(in->build, SIM_BAD_FILE, "%s, line %llu: no index in the file", in->path,
                    (unsigned long long)in->line);
        return NULL;
    }
    if (strcmp(in->text, "row,count") == 0 || strcmp(in->text, "lookups,rows") == 0) {
        return read_counts(in, in->text[0] == 'r', tables, bags, length, rows);
    }
    if (isdigit((unsigned char)in->text[0]) || in->text[0] == '-') {
        return read_trace(in, tables, bags, length, rows);
    }
    return read_statistics(in, block, tables, bags, length, rows);
}

struct index_source *index_request_open(struct kernel_build *build, const struct index_request *request,
                                        uint64_t tables, uint64_t bags, uint64_t length, uint64_t rows,
                                        uint64_t seed)
{
    struct index_source *source = NULL;
    if (!kernel_build_ok(build)) {
        return NULL;
    }
    if (request->file == NULL) {
        source = index_source_create(request->kind, request->alpha, tables, bags, length, rows, seed);
    } else {
        struct index_file in = { .build = build, .path = request->file, .file = fopen(request->file, "r") };
        if (in.file == NULL) {
            kernel_fail(build, SIM_BAD_FILE, "parameter index_file=%s: %s", request->file, strerror(errno));
            return NULL;
        }
        source = read_file(&in, request->block, tables, bags, length, rows);
        fclose(in.file);
    }
    if (source != NULL) {
        source->hot_share = request->hot_share;
    }
    return source;
}

/* ---- like parts */

#define PART_ROWS 1024      /* a part has at least: of fewer, a run's chance is no longer the whole's */
#define PART_BYTES 1e6      /* of rows, a part has at least: units keep their L1, which must find as little of a part as of the whole */
#define PART_LOOKUPS 32768  /* a part has at least: fewer are cheap whole */

uint32_t index_request_parts(const struct kernel_build *build, const struct index_request *request, uint64_t bags, uint64_t rows,
                             uint64_t row_bytes, uint64_t lookups)
{
    bool is_uniform = request->kind == INDEX_UNIFORM || request->kind == INDEX_UNIFORM_DISTINCT;
    bool are_alike = is_uniform && !(request->hot_share > 0) && request->file == NULL;
    uint32_t parts = are_alike ? build->machine->parts : 1;
    while (parts > 1 && (bags % parts != 0 || rows / parts < PART_ROWS || (double)rows * (double)row_bytes / parts < PART_BYTES ||
                         lookups / parts < PART_LOOKUPS)) {
        parts /= 2;
    }
    return parts > 1 ? parts : 1;
}
