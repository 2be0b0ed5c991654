/* What the files of workloads/trace share: the events that are kept of one trace file and the steps from them to a graph.
 *
 *   kineto_reader.c   file -> struct trace_file: events and header, one pass, nothing joined (input_internal.h: below it)
 *   step_file.c       the same of a big file: two passes, the events of one step kept
 *   rocprof.c         the same from rocprofv3 JSON
 *   execution_trace.c PyTorch execution trace -> its operators; joined to a trace_file, or a graph of its own
 *   chakra.c          Chakra nodes, protobuf or JSON -> graph
 *   step_choice.c     which step of a file
 *   host_calls.c      one step of it -> struct host_step: operators nested, calls classified, device events joined
 *   stream_waits.c    which event waits order which streams
 *   collectives.c     what a collective is, and the ranks of a run joined
 *   tensors.c         operator arguments as text -> tensors
 *   recognise.c       device kernel + operator -> suite/kernel, parameters, bytes (recognise_*.c: families of kernels)
 *   trace.c           trace_read: files -> ranks -> graph
 *
 * All texts are interned in the arena of their trace_file: equal texts are the same pointer. */
#ifndef WORKLOADS_TRACE_TRACE_INTERNAL_H
#define WORKLOADS_TRACE_TRACE_INTERNAL_H
#include "sim/core/status.h"
#include "workloads/arena.h"
#include "workloads/graph.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_NONE UINT32_MAX

/* ---- events of a file ------------------------------------------------------------------------------------------ */

enum trace_category {
    TRACE_OPERATOR,   /* cpu_op */
    TRACE_CALL,       /* cuda_runtime, cuda_driver */
    TRACE_ANNOTATION, /* user_annotation: steps and library regions */
    TRACE_KERNEL,
    TRACE_MEMCPY,
    TRACE_MEMSET,
    TRACE_SYNC_INFO, /* cuda_sync: which stream a wait call stops, where newer profilers say so */
    TRACE_CATEGORIES
};

struct trace_collective_args { /* as the process group recorded them; texts NULL where absent */
    const char *name, *dtype, *group_ranks, *group_name, *in_split, *out_split;
    double in_elements, out_elements; /* < 0: absent */
    double group_size;                /* < 0: absent */
};

struct trace_operator_args {
    const char *dims, *types, *strides, *concrete;  /* JSON text without spaces, NULL where absent */
    const struct trace_collective_args *collective; /* record_param_comms, else NULL */
};

struct trace_device_args {
    const char *grid, *block; /* "[x,y,z]", NULL where absent */
    double bytes;             /* copies and fills; < 0: absent */
    const struct trace_collective_args *collective;
};

struct trace_sync_args {
    const char *waiting_stream, *waited_stream; /* ids as text, NULL where absent or unknown */
};

struct trace_event {
    int64_t start_ns, duration_ns; /* the file's clock */
    uint64_t correlation;          /* 0: none */
    const char *name;
    const void *args; /* operators and nccl: annotations: trace_operator_args; device events:
                                      trace_device_args; TRACE_SYNC_INFO: trace_sync_args; NULL: none */
    uint32_t track;   /* index into trace_file.tracks: host thread, or device and stream */
    uint8_t category; /* enum trace_category */
};

struct trace_track {
    const char *process, *thread;
}; /* host: pid, tid; device: device id, stream id; as text */

/* A step's annotation. */
struct step_marker {
    int64_t start_ns, end_ns;
    long number; /* N of ProfilerStep#N */
    const char *name;
    size_t device_count; /* device events launched in it */
};

/* All steps of a file and how many device events each has. */
struct step_survey {
    size_t marker_count, marker_capacity;
    struct step_marker *markers;
    size_t device_total, device_inside; /* device events of the file, and those launched in some step */
};

struct trace_file {
    struct arena *arena;
    const char *path; /* as given; borrowed from the caller of trace_file_read */
    size_t event_count;
    struct trace_event *events; /* in file order */
    size_t track_count;
    struct trace_track *tracks;
    char device_title[96];       /* "" unknown */
    int64_t rank, world_size;    /* -1: the file does not say */
    char odd_world_size[32];     /* "": none; else what the file gives for it that no run has */
    size_t list_event_count;     /* all entries of the event list, kept or not */
    size_t impossible_count;     /* kept categories, left out: duration negative or above a day */
    const char *impossible_name; /* the first of them */
    size_t incomplete_count;     /* kept categories, left out: begin without end, or no time stamp */
    char damage[160];            /* "": none; else where the JSON breaks after its complete event list */
    char odd_numbers[160];       /* "": none; else how many bare inf and nan, and where the first */
    struct step_survey *survey;  /* set: only the events of the step that it was read for were kept; this is the file's */
    bool device_only;            /* a kind of file that records no host side, and no operators */
    bool synthetic;              /* of an execution trace: times only order, kernels are guessed from operators */
    size_t event_capacity, track_capacity;
};

/* An empty one to fill; path borrowed. */
struct trace_file *trace_file_create(const char *path);
void trace_file_add(struct trace_file *file, const struct trace_event *event);
uint32_t trace_file_track(struct trace_file *file, const char *process, const char *thread); /* both interned */

/* Read one file. Memory: 64 bytes an event kept, its distinct texts, one 256 KiB buffer.
 * Errors: SIM_BAD_FILE (missing, not readable, compressed data cut short or damaged), SIM_BAD_TRACE (not JSON with line
 * and token, nested too deep, no traceEvents). */
enum sim_status trace_file_read(const char *path, struct trace_file **out, struct sim_error *error);
/* The same for one step of the file, as step_survey_choose names it; of a big file (64 MiB of JSON; packed 4 MiB) by two passes
 * that keep the events of that step alone, and 16 bytes for each call and device event in between. */
enum sim_status trace_file_read_step(const char *path, int32_t step, struct trace_file **out, struct sim_error *error);
/* What trace_file_read_step does of a big file. False, without a file: the file is none that can be read so (no steps, a step
 * not in it, not the JSON that profilers write), and trace_file_read is to say what it is. */
bool trace_file_read_two_passes(const char *path, int32_t step, struct trace_file **out);
/* The same from rocprofv3 JSON: dispatches and copies of every GPU of the process; no host side. */
enum sim_status rocprof_file_read(const char *path, struct trace_file **out, struct sim_error *error);
void trace_file_destroy(struct trace_file *file); /* NULL is allowed */

/* An event at a glance, before anything of it is kept. */
enum event_fate { EVENT_OF_NO_USE, EVENT_INCOMPLETE, EVENT_IMPOSSIBLE, EVENT_OF_USE };
struct event_glance {
    enum event_fate fate;
    enum trace_category category;  /* this and the following: of use alone */
    int64_t start_ns, duration_ns; /* the file's clock */
    uint64_t correlation;          /* 0: none */
    const char *name;              /* not ended by a NUL, escapes as written; of an impossible event too */
    size_t name_length;
    uint64_t offset, end; /* where it begins and ends in the file, in bytes of JSON */
};
struct event_chooser {
    bool (*keep)(void *context, const struct event_glance *event);
    /* Before each event, which begins at `offset` or a blank or comma behind it: where to go on, at `offset` or where a later
     * one begins, or where the last ends. NULL: at each. */
    uint64_t (*next)(void *context, uint64_t offset);
    void *context;
};
/* Read a file, keeping the events that are chosen; the rest is never parsed. False: trace_file_read has to say what it is. */
bool trace_file_read_chosen(struct trace_file *file, const struct event_chooser *chooser);

/* ---- which step ------------------------------------------------------------------------------------------------- */

bool trace_is_device(uint32_t category);
bool step_marker_is(uint32_t category, const char *name, size_t name_length);
void step_survey_add(struct step_survey *survey, int64_t start_ns, int64_t duration_ns, const char *name);
void step_survey_sort(struct step_survey *survey); /* once all are added */
/* A device event: where its launch began, or itself where the file has no launch. */
void step_survey_count(struct step_survey *survey, int64_t start_ns);
/* ProfilerStep#N; -1: the last step with at least half the device events of the fullest. NULL: none. */
const struct step_marker *step_survey_choose(const struct step_survey *survey, int32_t number);
void step_survey_finish(struct step_survey *survey); /* zeroed memory is allowed */
bool host_call_launches(const char *name); /* by its name: launch, copy, fill */

/* ---- execution traces ------------------------------------------------------------------------------------------- */

struct execution_node {
    uint64_t id, parent;
    const char *name;
    const struct trace_operator_args *args; /* with the collective of record_param_comms */
    int64_t thread;
    bool has_schema; /* a registered operator */
    bool on_device;  /* some tensor of it is in device memory */
    bool is_view;    /* its results share memory with an argument and it does not write */
    bool waits;      /* record_param_comms of a wait or set-up: no collective */
};

struct execution_trace {
    struct arena *arena;
    const char *path; /* borrowed */
    char schema[40], odd_numbers[160];
    size_t node_count, node_capacity;
    struct execution_node *nodes; /* by id: an operator before what it calls */
    size_t orphan_count;          /* nodes whose parent is no earlier node: taken as outermost */
};

/* Errors: as trace_file_read; a node without an id. */
enum sim_status execution_trace_read(const char *path, struct execution_trace **out, struct sim_error *error);
void execution_trace_destroy(struct execution_trace *trace); /* NULL is allowed */

/* Give the operators of a profiler trace of the same run the arguments that it did not record: the n-th operator of a name
 * is the n-th node of it, where both have as many (or the profile a multiple: steps alike) and no shapes contradict. Returns how many got arguments; *considered:
 * operators that lacked them. Texts move to the file's arena. */
size_t execution_trace_join(const struct execution_trace *trace, struct trace_file *file, size_t *considered);

/* Alone: a trace_file of its operators in order, each that launches (device tensors, no view, nothing below that launches)
 * with one kernel named after it, of no duration. Times only order. */
enum sim_status execution_trace_synthesise(const struct execution_trace *trace, struct trace_file **out,
                                           struct sim_error *error);

/* ---- one step of a file ---------------------------------------------------------------------------------------- */

enum host_call_kind {
    HOST_OPERATOR, /* framework operator */
    HOST_LAUNCH,   /* a call with device events */
    HOST_SYNC_DEVICE,
    HOST_SYNC_STREAM,
    HOST_SYNC_EVENT,
    HOST_RECORD,
    HOST_WAIT,
    HOST_WORK,  /* allocation and the like: costs host time of its own */
    HOST_REGION /* nccl: annotation; marks what is inside, costs nothing */
};

struct host_item {
    const struct trace_event *event;     /* NULL: a launch that the trace lacks, see `start_ns` */
    int64_t start_ns, own_ns;            /* own: without the items and operators inside */
    uint32_t kind;                       /* enum host_call_kind */
    uint32_t parent;                     /* enclosing HOST_OPERATOR item, or TRACE_NONE */
    uint32_t region;                     /* enclosing HOST_REGION item, or TRACE_NONE */
    uint32_t depth;                      /* operators around it */
    uint32_t thread;                     /* dense, in order of first appearance */
    uint32_t device_first, device_count; /* HOST_LAUNCH: into host_step.device */
    bool blocking;                       /* HOST_LAUNCH: the host waits for the copy */
    bool record_behind; /* HOST_LAUNCH: an event record follows that the trace lacks, see stream_waits.c */
    bool skip;          /* set by stream_waits: orders nothing, folded into the operator around it */
    uint32_t waits_for; /* HOST_WAIT, HOST_SYNC_EVENT: the HOST_RECORD item, or the HOST_LAUNCH with
                                        record_behind; TRACE_NONE unknown */
    uint32_t stream;    /* HOST_LAUNCH, HOST_RECORD, HOST_WAIT, HOST_SYNC_STREAM: dense stream index */
};

struct device_item {
    const struct trace_event *event;
    uint32_t stream; /* dense, in launch order of first use */
    uint32_t launch; /* host_step.items */
};

struct host_step {
    const struct trace_file *file;
    int64_t start_ns, end_ns; /* of the step on the host */
    int64_t last_ns;          /* end of its last event, host or device */
    bool has_marker;
    char step_name[32];
    size_t item_count;
    struct host_item *items; /* in host order: by start, enclosing first */
    size_t device_count;
    struct device_item *device; /* in launch order */
    uint32_t thread_count, stream_count;
    size_t steps_found;
    /* for notes */
    size_t unlaunched_count, outside_count, silent_launch_count, unplaced_call_count, other_thread_count;
    double other_thread_us;
    size_t waits_contradicted, waits_unresolved;
};

/* Take the step `step_number` of ProfilerStep#N (-1: the last complete one; see the rule in step_choice.c).
 * Errors: SIM_BAD_TRACE (no kernels in the file or the step), SIM_UNKNOWN_NAME (step not in the file; lists them). */
enum sim_status host_step_create(const struct trace_file *file, int32_t step_number, struct host_step **out,
                                 struct sim_error *error);
void host_step_destroy(struct host_step *step); /* NULL is allowed */

/* Resolve records and waits of the step, see stream_waits.c. */
void stream_waits_resolve(struct host_step *step);

/* ---- collectives ----------------------------------------------------------------------------------------------- */

bool collective_is(const struct trace_event *event);
/* Of a name that a framework or library gave it; NULL unknown. */
const char *collective_kind_of(const char *text);
/* The collective of a device item; owned by the graph. `name` receives what the trace calls it. Sequence is not set. */
struct graph_collective *collective_of(const struct host_step *step, const struct device_item *item,
                                       int64_t world_size, struct graph *graph, const char **name);
/* Number the collectives per rank and group, join ranks (traced_us becomes the least) and note what does not agree. */
void collectives_join(struct graph *graph);

/* ---- tensors of an operator ------------------------------------------------------------------------------------ */

#define TENSOR_DIMS_MAX 8
struct trace_tensor {
    uint32_t argument; /* which argument of the operator */
    uint32_t element;  /* which tensor of a list argument */
    uint32_t dim_count;
    int64_t dims[TENSOR_DIMS_MAX], strides[TENSOR_DIMS_MAX];
    bool has_strides;       /* false: a sparse tensor, or none recorded */
    char dtype[8];          /* fp32 bf16 fp16 fp64 int64 int32 int16 int8 uint8 bool, "" unknown */
    uint32_t element_bytes; /* 0 unknown */
};

struct trace_argument {
    bool is_tensor, is_list;
    uint32_t first, count;
}; /* tensors first .. first+count-1 */

/* Arguments of one operator. Scalars and absent tensors are arguments without tensors. */
struct operator_tensors {
    size_t argument_count;
    struct trace_argument *arguments;
    size_t tensor_count;
    struct trace_tensor *tensors;
    size_t concrete_count;
    const char **concrete; /* [argument]: value as text, "" none */
};

/* Parse, in the given arena; never fails: what cannot be read is absent. */
const struct operator_tensors *operator_tensors_parse(struct arena *arena,
                                                      const struct trace_operator_args *args);
/* The same from an execution trace's lists, as JSON text: values [..], shapes [[8192,128],[]], types ["Tensor(float)",
 * "Int"], strides like the shapes (NULL: none). Texts in `arena`. */
const struct trace_operator_args *operator_args_from_lists(struct arena *arena, const char *values, const char *shapes,
                                                           const char *types, const char *strides);
double tensor_elements(const struct trace_tensor *tensor);
double tensor_bytes(
    const struct trace_tensor *tensor); /* elements that are distinct: strides of 0 count once */
/* The tensor of argument `argument`, or NULL. */
const struct trace_tensor *operator_tensor(const struct operator_tensors *tensors, size_t argument);
const char *operator_concrete(const struct operator_tensors *tensors, size_t argument); /* "" none */
bool dims_parse(const char *text, uint64_t *values, size_t count);                      /* "[a,b,c]" */

/* ---- recognition ----------------------------------------------------------------------------------------------- */

struct site_operator {
    const char *name;
    const struct trace_operator_args *args;
};

/* A kernel launched behind another one. */
struct site_kernel {
    const char *name;
    uint64_t grid[3], block[3]; /* 0: unknown */
};
#define SITE_AFTER_MAX 16

struct kernel_site {
    const char *name;
    enum trace_category category;
    uint64_t grid[3], block[3]; /* 0: unknown */
    double bytes;               /* copies and fills; < 0: absent */
    double traced_us;
    const struct site_operator *operators; /* innermost first */
    size_t operator_count;
    const char *before_name; /* kernel launched before it under the same operator call; NULL none */
    uint64_t before_grid[3];
    struct site_kernel after[SITE_AFTER_MAX]; /* those launched next under the same operator call */
    size_t after_count;
    double grid_share; /* its part of the workgroups of all kernels of this operator call with its name */
    double
        dense_parameters; /* elements of all dense parameters that got a gradient in this step; 0 unknown */
    double dense_parameter_tensors;
};

struct kernel_recognition {
    enum graph_recognition how;
    char suite[24], kernel[32], params[2048], dtype[8];
    const char *category; /* static text */
    double bytes_read, bytes_written, flops;
    const char *assumption; /* static text, NULL none */
};

/* Never fails: what is not recognised is by its tensors' bytes, or replayed. `arena` holds what is parsed. */
void kernel_recognise(const struct kernel_site *site, struct arena *arena, struct kernel_recognition *out);

#endif
