/* The one door to zlib and zstd: bytes of a file, whatever it is compressed by. */
#include "sim/core/data_path.h"
#include "workloads/trace/input_internal.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

/* Either `plain` (plain and gzip, which zlib tells apart) or `packed` with a decompressor is set. */
struct byte_source {
    gzFile plain;
    FILE *packed;
    ZSTD_DStream *stream;
    ZSTD_inBuffer in;
    bool in_frame;
    char damage[120];
};

static enum sim_status open_packed(struct byte_source *source, FILE *file)
{
    source->packed = file;
    source->stream = ZSTD_createDStream();
    source->in.src = malloc(BYTE_SOURCE_CHUNK);
    SIM_ASSERT(source->stream != NULL && source->in.src != NULL, "out of memory");
    /* A frame may ask for a window of up to 2 GiB of memory; level 19 takes 8 MiB, --long 128 MiB. */
    ZSTD_DCtx_setParameter(source->stream, ZSTD_d_windowLogMax, 27);
    return SIM_OK;
}

enum sim_status byte_source_open(const char *path, struct byte_source **out, struct sim_error *error)
{
    *out = NULL;
    struct stat state;
    if (data_path_is_pipe(path)) {
        return sim_fail(error, SIM_BAD_FILE, "%s: a pipe, and a trace is read more than once: write it to a file", path);
    }
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return sim_fail(error, SIM_BAD_FILE, "%s: %s", path, strerror(errno));
    }
    if (fstat(fileno(file), &state) == 0 && S_ISDIR(state.st_mode)) {
        fclose(file);
        return sim_fail(error, SIM_BAD_FILE, "%s: %s", path, strerror(EISDIR));
    }
    unsigned char magic[4] = { 0 };
    errno = 0;
    size_t count = fread(magic, 1, sizeof magic, file);
    if (ferror(file)) {
        enum sim_status status = sim_fail(error, SIM_BAD_FILE, "%s: %s", path, strerror(errno));
        fclose(file);
        return status;
    }
    struct byte_source *source = calloc(1, sizeof *source);
    SIM_ASSERT(source != NULL, "out of memory");
    if (count == 4 && memcmp(magic, "\x28\xb5\x2f\xfd", 4) == 0) {
        rewind(file);
        *out = source;
        return open_packed(source, file);
    }
    fclose(file);
    source->plain = gzopen(path, "rb");
    if (source->plain == NULL) {
        free(source);
        return sim_fail(error, SIM_BAD_FILE, "%s: %s", path, strerror(errno));
    }
    gzbuffer(source->plain, BYTE_SOURCE_CHUNK);
    *out = source;
    return SIM_OK;
}

static size_t read_plain(struct byte_source *source, void *bytes, size_t capacity)
{
    int count = gzread(source->plain, bytes, (unsigned)capacity);
    int code = Z_OK;
    const char *message = gzerror(source->plain, &code);
    if (code == Z_BUF_ERROR) {
        snprintf(source->damage, sizeof source->damage, "compressed data cut short");
    } else if (count < 0 || (code != Z_OK && code != Z_STREAM_END)) {
        snprintf(source->damage, sizeof source->damage, "cannot be read (%.80s)",
                 code == Z_ERRNO ? strerror(errno) : message);
    }
    return count > 0 ? (size_t)count : 0;
}

static size_t read_packed(struct byte_source *source, void *bytes, size_t capacity)
{
    ZSTD_outBuffer out = { bytes, capacity, 0 };
    while (out.pos == 0) {
        if (source->in.pos == source->in.size) {
            source->in.size = fread((void *)(uintptr_t)source->in.src, 1, BYTE_SOURCE_CHUNK, source->packed);
            source->in.pos = 0;
            if (ferror(source->packed)) {
                snprintf(source->damage, sizeof source->damage, "cannot be read (%.80s)", strerror(errno));
                return 0;
            }
            if (source->in.size == 0) {
                if (source->in_frame) {
                    snprintf(source->damage, sizeof source->damage, "compressed data cut short");
                }
                return 0;
            }
        }
        size_t left = ZSTD_decompressStream(source->stream, &out, &source->in);
        if (ZSTD_isError(left)) {
            snprintf(source->damage, sizeof source->damage, "cannot be read (zstd: %.80s)", ZSTD_getErrorName(left));
            return out.pos;
        }
        source->in_frame = left > 0;
    }
    return out.pos;
}

size_t byte_source_read(struct byte_source *source, void *bytes, size_t capacity)
{
    if (source->damage[0] != '\0') {
        return 0;
    }
    return source->plain != NULL ? read_plain(source, bytes, capacity) : read_packed(source, bytes, capacity);
}

bool byte_source_skip(struct byte_source *source, uint64_t count)
{
    if (source->plain != NULL) {
        return count <= INT64_MAX && gzseek(source->plain, (z_off_t)count, SEEK_CUR) >= 0;
    }
    char bytes[16384];
    for (size_t got; count > 0; count -= got) {
        got = byte_source_read(source, bytes, count < sizeof bytes ? (size_t)count : sizeof bytes);
        if (got == 0) {
            return false;
        }
    }
    return true;
}

const char *byte_source_damage(const struct byte_source *source)
{
    return source->damage[0] == '\0' ? NULL : source->damage;
}

void byte_source_close(struct byte_source *source)
{
    if (source == NULL) {
        return;
    }
    if (source->plain != NULL) {
        gzclose(source->plain);
    } else {
        fclose(source->packed);
        ZSTD_freeDStream(source->stream);
        free((void *)(uintptr_t)source->in.src);
    }
    free(source);
}

bool byte_source_is_packed(const char *path)
{
    unsigned char magic[4] = { 0 };
    FILE *file = data_path_is_pipe(path) ? NULL : fopen(path, "rb");
    size_t count = file == NULL ? 0 : fread(magic, 1, sizeof magic, file);
    if (file != NULL) {
        fclose(file);
    }
    return count == sizeof magic && (memcmp(magic, "\x28\xb5\x2f\xfd", 4) == 0 || memcmp(magic, "\x1f\x8b", 2) == 0);
}
