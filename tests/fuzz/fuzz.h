/* What the fuzz targets share: the input as a file that its reader opens by path. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz_file {
    int descriptor;
    char path[40];
};

static inline struct fuzz_file fuzz_file_create(const uint8_t *data, size_t size)
{
    struct fuzz_file file = { .descriptor = memfd_create("fuzz.json", 0) };
    if (file.descriptor < 0 || write(file.descriptor, data, size) != (ssize_t)size) {
        abort();
    }
    snprintf(file.path, sizeof file.path, "/proc/self/fd/%d", file.descriptor);
    return file;
}

static inline void fuzz_file_close(const struct fuzz_file *file)
{
    close(file->descriptor);
}

#endif
