#include "sim/core/output_file.h"
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum sim_status fail(const struct output_file *file, const char *path, struct sim_error *error)
{
    return sim_fail(error, SIM_BAD_FILE, "%s%s: %s", file->option, path, strerror(errno));
}

/* The permissions that a plain fopen would give. */
static void set_mode(int descriptor, const struct stat *before, bool existed)
{
    mode_t mask = umask(0);
    umask(mask);
    if (fchmod(descriptor, existed ? before->st_mode & 07777 : 0666 & ~mask) != 0) {
        return; /* a file system without modes */
    }
}

enum sim_status output_file_open(struct output_file *file, const char *option, const char *path, struct sim_error *error)
{
    struct stat state = { 0 };
    *file = (struct output_file){ .option = option, .path = path };
    bool existed = stat(path, &state) == 0;
    if (existed && !S_ISREG(state.st_mode)) {
        file->stream = fopen(path, "w");
        return file->stream != NULL ? SIM_OK : fail(file, path, error);
    }
    if (existed && access(path, W_OK) != 0) {
        return fail(file, path, error); /* a rename would replace a file that may not be written */
    }
    file->target = existed ? realpath(path, NULL) : strdup(path); /* a link stays a link */
    if (file->target == NULL || asprintf(&file->beside, "%s.XXXXXX", file->target) < 0) {
        file->beside = NULL;
        enum sim_status status = fail(file, path, error);
        output_file_drop(file);
        return status;
    }
    int descriptor = mkstemp(file->beside);
    if (descriptor < 0) {
        enum sim_status status = fail(file, path, error);
        free(file->beside);
        file->beside = NULL;
        output_file_drop(file);
        return status;
    }
    set_mode(descriptor, &state, existed);
    file->stream = fdopen(descriptor, "w");
    SIM_ASSERT(file->stream != NULL, "no memory for a stream");
    return SIM_OK;
}

enum sim_status output_file_check(const char *option, const char *path, struct sim_error *error)
{
    struct output_file file = { .option = option };
    struct stat state;
    if (stat(path, &state) == 0 && !S_ISREG(state.st_mode)) { /* opening a pipe would be seen at its other end */
        errno = S_ISDIR(state.st_mode) ? EISDIR : 0;
        return errno != 0 || access(path, W_OK) != 0 ? fail(&file, path, error) : SIM_OK;
    }
    enum sim_status status = output_file_open(&file, option, path, error);
    output_file_drop(&file);
    return status;
}

enum sim_status output_file_close(struct output_file *file, struct sim_error *error)
{
    bool failed = ferror(file->stream) != 0;
    failed = fflush(file->stream) != 0 || failed;
    int code = errno;
    failed = fclose(file->stream) != 0 || failed;
    file->stream = NULL;
    if (failed) {
        errno = code != 0 ? code : errno;
    } else if (file->beside != NULL && rename(file->beside, file->target) != 0) {
        failed = true;
    } else {
        free(file->beside);
        file->beside = NULL;
    }
    enum sim_status status = failed ? fail(file, file->path, error) : SIM_OK;
    output_file_drop(file);
    return status;
}

void output_file_drop(struct output_file *file)
{
    if (file->stream != NULL) {
        fclose(file->stream);
    }
    if (file->beside != NULL) {
        unlink(file->beside);
    }
    free(file->beside);
    free(file->target);
    *file = (struct output_file){ 0 };
}
