/* The files of one run as ranks: what each file is, which belong together, read ahead on several threads. */
#ifndef WORKLOADS_TRACE_RANK_FILES_INTERNAL_H
#define WORKLOADS_TRACE_RANK_FILES_INTERNAL_H
#include "workloads/trace/chakra_internal.h"
#include "workloads/trace/input_internal.h"
#include "workloads/trace/trace_internal.h"

/* One rank. Exactly one of trace and chakra is set once it is read. */
struct rank_input {
    const char *path;           /* borrowed from the set */
    const char *execution_path; /* execution trace joined to a profiler trace; NULL none */
    enum input_kind kind;
    struct trace_file *trace;
    struct chakra_file *chakra;
    char schema[40];            /* of an execution trace, joined or alone */
    size_t joined, considered;  /* operators that got arguments from it, of those that lacked them */
    enum sim_status status;
    struct sim_error error;
};

struct rank_files; /* opaque */

/* List and classify; step: as in trace_options. Errors: SIM_BAD_FILE (missing, not readable, a folder without traces), SIM_BAD_ARGUMENT (none). */
enum sim_status rank_files_open(const char *const *paths, size_t path_count, int32_t step, struct rank_files **out,
                                struct sim_error *error);
void rank_files_close(struct rank_files *files); /* NULL is allowed */
size_t rank_files_count(const struct rank_files *files);
const char *rank_files_path(const struct rank_files *files, size_t index);

/* The rank of this index, read; indices must ascend. Others are read ahead meanwhile, as many as there are processors.
 * Errors: what its reader returned. Valid until rank_files_release of the index. */
enum sim_status rank_files_take(struct rank_files *files, size_t index, struct rank_input **out, struct sim_error *error);
void rank_files_release(struct rank_files *files, size_t index);

#endif
