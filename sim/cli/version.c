/* reckon --version: the code and the profiles that it answers from, so that two answers can be told to rest on the same. */
#include "reckon_version.h"
#include "sim/cli/cli.h"
#include "sim/core/data_path.h"
#include "sim/core/hash.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Names and bytes of the folder's profiles, in order of name, into *hash. */
static size_t add_folder(const char *folder, const char *kind, uint64_t *hash)
{
    struct data_names names = { 0 };
    size_t count = 0;
    if (data_path_list(folder, &names, NULL) != SIM_OK) {
        return 0;
    }
    for (size_t i = 0; i < names.count; i++) {
        char path[DATA_PATH_CAPACITY], bytes[4096];
        FILE *file = data_path_find(folder, kind, names.name[i], path, NULL) == SIM_OK ? fopen(path, "rb") : NULL;
        if (file == NULL) {
            continue;
        }
        *hash = hash64_add_text(*hash, names.name[i]);
        for (size_t got; (got = fread(bytes, 1, sizeof bytes, file)) > 0;) {
            *hash = hash64_add_bytes(*hash, bytes, got);
        }
        fclose(file);
        count++;
    }
    data_names_finish(&names);
    return count;
}

void cli_print_origin(struct reckon_device *const *devices, size_t count)
{
    printf("  reckon " RECKON_VERSION " (" RECKON_COMMIT "), device values");
    for (size_t i = 0; i < count; i++) {
        const struct chip_profile *chip = reckon_device_chip(devices[i]);
        printf("%s %s %016" PRIx64, i > 0 ? "," : "", chip->name, chip->hash);
    }
    putchar('\n');
}

void cli_print_version(void)
{
    uint64_t hash = HASH64_START;
    size_t devices = add_folder("devices", "device", &hash), nodes = add_folder("devices/nodes", "node", &hash),
           hosts = add_folder("devices/hosts", "host", &hash), harnesses = add_folder("devices/harness", "harness", &hash);
    printf("reckon " RECKON_VERSION " (" RECKON_COMMIT ")\n");
    printf("profiles %016" PRIx64 ": %zu devices, %zu nodes, %zu hosts, %zu harnesses in %s\n", hash, devices, nodes, hosts,
           harnesses, data_path_root());
}
