/* Runs a fuzz target on every file of the folders given: the committed corpus, in CI, by any compiler. */
#include "tests/fuzz/fuzz.h"
#include <dirent.h>
#include <string.h>

static size_t run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return 0;
    }
    size_t capacity = 1 << 20, size = 0, got;
    uint8_t *data = malloc(capacity);
    while (data != NULL && (got = fread(data + size, 1, capacity - size, file)) > 0) {
        size += got;
        if (size == capacity) {
            data = realloc(data, capacity *= 2);
        }
    }
    fclose(file);
    if (data == NULL) {
        abort();
    }
    uint8_t *exact = malloc(size > 0 ? size : 1); /* so that a sanitizer sees the end */
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    free(data);
    return 1;
}

int main(int argc, char **argv)
{
    size_t count = 0;
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name);
            count += entry->d_name[0] != '.' ? run_file(path) : 0;
        }
        if (folder != NULL) {
            closedir(folder);
        }
    }
    printf("%zu files\n", count);
    return count == 0;
}
