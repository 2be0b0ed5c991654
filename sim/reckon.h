/* The public C API: what the command line, studies and reports call. Give it a recorded step or a kernel and a device;
 * it answers how long, why, and on what the answer rests.
 * No global state: everything hangs off a `struct reckon`. Not thread-safe per session; worker processes are its own. */
#ifndef SIM_RECKON_H
#define SIM_RECKON_H
#include "sim/core/chip_profile.h"
#include "sim/core/json.h"
#include "sim/core/kernel_result.h"
#include "sim/core/output_file.h"
#include "sim/core/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- session */

struct reckon; /* opaque: options and the memo of priced kernels. Profiles by name: sim/core/data_path.h */

struct reckon_options {
    uint32_t jobs; /* worker processes; 0: as many as processors */
    uint64_t seed;
    bool chip_reference; /* the slow event-per-line chip engine */
    bool fabric_simgrid; /* SimGrid instead of the fluid engine */
    void (*progress)(void *context, const char *what, size_t done, size_t total); /* NULL: silent */
    void *progress_context;
};

enum sim_status reckon_create(const struct reckon_options *options, struct reckon **out,
                              struct sim_error *error);
void reckon_destroy(struct reckon *reckon); /* NULL is allowed */

struct reckon_device; /* opaque: chip, node and host profile of one target */
enum sim_status reckon_device_open(const struct reckon *reckon, const char *name,
                                   const char *node_name /* NULL: its own */, struct reckon_device **out,
                                   struct sim_error *error);
void reckon_device_close(struct reckon_device *device); /* NULL is allowed */
const struct chip_profile *reckon_device_chip(const struct reckon_device *device);
/* The same to change (fits, uncertainty): set values within their ranges, then chip_profile_rehash, before the next answer. */
struct chip_profile *reckon_device_chip_edit(struct reckon_device *device);

/* How many values of each kind an answer rests on (chip, host and harness profiles together). */
struct reckon_basis {
    size_t count[PROFILE_KINDS];
};

/* Remarks to a reader: what was assumed, left out or odd. */
struct reckon_notes {
    size_t count;
    char (*text)[240]; /* owned by the answer */
};

/* ---- one kernel */

enum reckon_cache {                       /* the cache state a kernel starts from */
                    RECKON_CACHE_DEFAULT, /* as the harness, else the kernel's program, says */
                    RECKON_CACHE_CLEAN,
                    RECKON_CACHE_OWN,
                    RECKON_CACHE_PREDECESSOR,
                    RECKON_CACHE_FLUSHED
};

struct reckon_kernel_request {
    const char *suite, *kernel;
    const char *params;  /* "k=v;k=v"; NULL: none */
    const char *harness; /* profile of a measuring program; NULL: device time alone */
    bool no_library;     /* a product runs the selector's tile, not what the device's library makes of its shape */
    enum reckon_cache cache;
    bool exact; /* no sampling */
    uint64_t window_requests; /* line requests simulated before extrapolating; 0: the chip model's default */
};

/* A parameter that the question left out, whose value is not known but lies in [low, high]; whole numbers. */
struct reckon_assumed {
    char key[16];
    double value, low, high;
};

struct reckon_kernel {
    char device[32], suite[32], kernel[48], harness[32];
    char *params;   /* as used; owned */
    double time_us; /* with the harness when one was named; per call where the table counts per call */
    double time_us_low, time_us_high; /* from the sampling error alone; NAN: value-only kernels */
    double device_us;                 /* the device's own part of time_us */
    struct kernel_result result; /* all launches together; the gaps between them are in stack's launch */
    double launches;
    bool has_value;
    double value;
    char unit[16];
    double tflops; /* NAN where undefined */
    struct {
        char name[32], class[64]; /* devices/libraries; name "": it runs the selector's tile; class "": at its full rate */
        double efficiency;        /* of the tile's rate */
        uint32_t tile_m, tile_n;  /* of its menu; 0: the selector's tile */
    } library;
    struct reckon_basis basis;
    struct reckon_notes notes;
    size_t input_count;
    struct reckon_assumed inputs[16]; /* those that intervals draw anew at each sample */
};

/* Errors: unknown kernel or parameter, sizes that make no sense, SIM_DOES_NOT_FIT for LDS, registers or HBM. */
enum sim_status reckon_kernel(struct reckon *reckon, const struct reckon_device *device,
                              const struct reckon_kernel_request *request, struct reckon_kernel **out,
                              struct sim_error *error);
void reckon_kernel_free(struct reckon_kernel *kernel); /* NULL is allowed */
struct json *reckon_kernel_json(const struct reckon_kernel *kernel);

/* ---- one training step */

enum reckon_mode { RECKON_MODE_MODEL, RECKON_MODE_ANCHORED };

struct graph; /* workloads/graph.h */

/* Read traces of the ranks of one run. The caller frees with reckon_graph_free. Errors: as trace_read. */
enum sim_status reckon_graph_read(struct reckon *reckon, const char *const *paths, size_t path_count,
                                  bool traced_host_times, struct graph **out, struct sim_error *error);
void reckon_graph_free(struct graph *graph);

/* A step described instead of recorded (workloads/models): a file, and what is changed in it. */
struct reckon_model_request {
    const char *path;
    const char *const *settings; /* "key=value" */
    size_t setting_count;
    uint32_t gpus; /* 0: as the file says */
    double batch;  /* per GPU; 0: as the file says */
    double gpu_gib; /* memory of the smallest device asked about, for a proposed plan; 0: not known */
};
bool reckon_is_model(const char *path);
/* Errors: as model_read, model_set and model_graph. The caller frees with reckon_graph_free. */
enum sim_status reckon_graph_describe(struct reckon *reckon, const struct reckon_model_request *request,
                                      struct graph **out, struct sim_error *error);

/* Memory of a described step on a device without pricing it: whether it fits, and the allocator's peak and reserve in GiB.
 * Errors: as reckon_graph_describe. */
enum sim_status reckon_model_memory(const struct reckon_device *device, const struct reckon_model_request *request, bool *fits,
                                    double *peak_gib, double *reserve_gib, struct sim_error *error);

/* A recorded step changed: batch=B (recorded at `batch`), or sequence=RECORDED:NEW, dimV=batch|sequence|fixed for dimensions in doubt,
 * layers=RECORDED:NEW, checkpoint=SHARE of them, precision=tf32|fp32 of products, gpus=G; layers first, then sizes, then GPUs.
 * Errors: as the functions of workloads/rewrite.h, and SIM_UNSUPPORTED for what only a model description can change. */
enum sim_status reckon_graph_rewrite(struct reckon *reckon, const struct graph *graph, double batch,
                                     const char *const *settings, size_t setting_count, struct graph **out,
                                     struct sim_error *error);

struct reckon_prediction;
struct reckon_predict_request {
    const struct graph *graph;
    const struct reckon_model_request *model; /* what `graph` was described by; NULL: a trace */
    enum reckon_mode mode;
    uint32_t gpus; /* 0: the ranks of the run */
    double batch;  /* examples per GPU and step; 0: unknown */
    double step_ms; /* measured on the recorded device, 0: unknown; mode model only names it in the answer */
    bool traced_host_times; /* the trace's own host times instead of the host profile's */
    bool refuse_unrecognised; /* no step time (NAN) where the input's verdict is that not enough is understood */
    const char *fixes;  /* "NAME[@suite/kernel|@collective/KIND]+...": on every program that takes them; NULL: none. Levers of
                           collectives are used per call where they shorten it, as a tuner would */
    const char *inputs; /* of kernels that look rows up, where the graph does not say which: "alpha=1.2;hot_share=0.1" */
    uint64_t window_requests; /* line requests of a kernel simulated before extrapolating; 0: 100,000, and five times that for
                                 kernels whose sampling error weighs in the step */
    bool timeline;          /* the answer holds the steady step played out: reckon_prediction.timeline */
    /* NULL, or called with every answer to this request before it is handed over; those of reckon_predict_doubts' samples too, in
     * the processes that play them. See reckon_part_samples. */
    void (*played)(void *context, const struct reckon_prediction *prediction);
    void *played_context;
    double sample_work;     /* of reckon_predict_doubts: line requests and wave operations that its samples may simulate, a device;
                               0: 2.5e8, about a minute or two of one core. One kernel is simulated anew all the same */
};

/* ---- a predicted step as it runs: one step of the steady state, times relative to its first device work */

enum reckon_lane_kind { RECKON_LANE_HOST, RECKON_LANE_STREAM, RECKON_LANE_EXPOSED };

struct reckon_lane {
    enum reckon_lane_kind kind; /* exposed: collectives with no kernel beside them */
    uint32_t rank;              /* as numbered in the run */
    uint32_t index;             /* thread or stream of the rank, as the trace or the model numbers them */
};

struct reckon_span {
    uint32_t lane, name, category; /* indices; equal names have equal indices */
    double start_us, end_us;
};

/* Means over `bin_us` each of the first rank's device: what this step asks of it. */
struct reckon_counters {
    size_t count;
    double bin_us, start_us;
    double *hbm_share, *watts, *clock_mhz; /* [count]: of the HBM rate; board power; core clock (the highest while idle) */
};

struct reckon_timeline {
    double start_us, end_us; /* first call of the host to the last end */
    size_t name_count, category_count, lane_count, span_count;
    char **names, **categories;
    struct reckon_lane *lanes;
    struct reckon_span *spans; /* by lane, then start */
    struct reckon_counters counters;
};

enum reckon_priced {
    RECKON_PRICED_PROGRAM,
    RECKON_PRICED_FABRIC,
    RECKON_PRICED_BYTES,
    RECKON_PRICED_REPLAYED,
    RECKON_PRICED_KINDS
};

struct reckon_kernel_row { /* kernels of one name, program and parameters; figures per GPU */
    char *key;             /* what was recorded: equal on every device */
    char *name, *program,
        *params; /* program "suite/kernel", "collective/KIND", "bytes" or "replayed"; params may be "" */
    char category[24];
    enum reckon_priced priced;
    double count, ms, traced_ms; /* traced_ms NAN when not traced */
    double ms_low, ms_high;      /* where parts_have_intervals; NAN: too few samples had it, or its key is not its own */
    char limiter[24];
    bool has_stack;              /* a program ran on the chip model: what follows is its own */
    double stack[KERNEL_STAGES]; /* fractions that sum to 1 */
    double hbm_bytes, flops;     /* of all calls; flops 0: the program counts none */
};

struct reckon_category {
    char name[24];
    double ms, count;
    double ms_low, ms_high; /* as of kernels */
};

/* The verdict on a recorded input. Shares are of its GPU time (traced; predicted where nothing was timed). */
#define RECKON_UNDERSTOOD_SHARE 0.5 /* of the GPU time, not only replayed: below it a step time means little on another device */
struct reckon_input {
    bool known; /* false: a described step */
    uint32_t ranks, world_size, streams; /* streams: most of a rank */
    double steps;
    size_t gpu_events, untimed_count; /* of the step; untimed: replayed kernels that have no time */
    double traced_step_ms, traced_busy_ms, traced_kernel_ms; /* busy: union over streams; kernel: sum; means over the ranks */
    /* Of traced_busy_ms, the time in which nothing but collectives ran and those waited. Known from the ranks given: what a
     * recording lasts beyond the least of them; of one rank, on the device it was recorded on: beyond the fabric's time. NAN: not
     * known, or no collectives. */
    double traced_wait_ms;
    bool wait_by_ranks;
    double program_share, fabric_share, bytes_share, replayed_share;
    double host_inflation; /* traced host time over the host profile's; NAN unknown */
    bool host_inflated, enough; /* enough: see RECKON_UNDERSTOOD_SHARE */
    char verdict[240];
};

struct reckon_prediction {
    struct reckon_input input;
    char device[32], node[32], host[32], source[256];
    char mode[16];
    uint32_t gpus;
    double step_ms, step_ms_low, step_ms_high;    /* low and high NAN until an uncertainty run */
    double examples_per_s;                        /* NAN without a batch */
    double gpu_busy_ms, host_ms, exposed_comm_ms; /* means over the ranks */
    double gpu_moving_ms; /* gpu_busy_ms without collectives' waiting for ranks */
    double recognised_fraction; /* of predicted GPU time, by programs and the fabric model */
    bool fits_known, fits; /* when it is known not to fit there is no step: times are NAN, no kernels */
    double capacity_gib;
    bool memory_known; /* the peak of the allocator; a trace does not tell */
    struct reckon_memory {
        double parameters, gradients, optimizer, embeddings, activations, communication, workspace; /* at the peak */
        double reserve, peak; /* GiB; peak is the sum of the owners */
    } memory_gib;
    char memory_moment[96];  /* what the host issues at the peak */
    char memory_advice[240]; /* when it does not fit: by how much, and the cheapest change that fits */
    size_t category_count;
    struct reckon_category *categories; /* most time first */
    size_t kernel_count;
    struct reckon_kernel_row *kernels; /* most time first */
    bool parts_have_intervals;         /* of categories and kernels: reckon_part_samples_conclude */
    double watts, clock_mhz; /* means over the ranks: board power over the step, core clock while busy */
    struct reckon_timeline *timeline; /* NULL unless asked for */
    double within_2x_fraction; /* of traced GPU kernel time, kernels whose model time is within a factor of 2
                                                  of the trace's; NAN when the trace is of another device */
    struct reckon_basis basis;
    struct reckon_notes notes;
};

/* Errors: SIM_UNSUPPORTED for what is not modelled yet (anchored mode, another GPU count than recorded); SIM_UNKNOWN_NAME for an
 * unknown fix, SIM_BAD_ARGUMENT for one that no program of the step takes. */
enum sim_status reckon_predict(struct reckon *reckon, const struct reckon_device *device,
                               const struct reckon_predict_request *request, struct reckon_prediction **out,
                               struct sim_error *error);
void reckon_prediction_free(struct reckon_prediction *prediction); /* NULL is allowed */
struct json *reckon_prediction_json(const struct reckon_prediction *prediction);
struct json *reckon_timeline_json(const struct reckon_timeline *timeline);

/* ---- what-if: one point of a study. A point changes an input that was read once, then prices all of it again. */

struct reckon_source; /* opaque: a model description, or the traces of one run */

/* batch: examples per GPU that a trace was recorded at, 0: unknown (then its batch cannot be changed). Errors: as
 * reckon_graph_read, as reckon_graph_describe. */
enum sim_status reckon_source_open(struct reckon *reckon, const char *const *paths, size_t path_count, double batch,
                                  struct reckon_source **out, struct sim_error *error);
void reckon_source_close(struct reckon_source *input); /* NULL is allowed */
bool reckon_source_is_model(const struct reckon_source *input);
uint32_t reckon_source_gpus(const struct reckon_source *input); /* as described, or the ranks of the recorded run */
double reckon_source_batch(const struct reckon_source *input);  /* per GPU; 0: unknown */

struct reckon_point_request {
    const char *const *settings; /* "key=value" in the order in which they are made: of a model what reckon_graph_describe takes;
                                    of a trace batch, dimV, skew, hot_share. "fix=A+B" of either */
    size_t setting_count;
    uint64_t window_requests; /* as reckon_predict_request's */
};

/* Errors: as reckon_graph_describe, reckon_graph_rewrite and reckon_predict. A point that does not fit is an answer with
 * fits false. */
enum sim_status reckon_point(struct reckon *reckon, const struct reckon_device *device, const struct reckon_source *input,
                             const struct reckon_point_request *request, struct reckon_prediction **out,
                             struct sim_error *error);

/* Share what is priced with other processes: with those forked from now on (path NULL), or with all that map the same file,
 * which the caller removes. `capacity` prices at most (all say the same), beyond it each goes its own way. Call it before
 * the first prediction. An answer never depends on who priced what. SIM_NO_MEMORY, SIM_BAD_FILE. */
enum sim_status reckon_share_prices(struct reckon *reckon, const char *path, size_t capacity, struct sim_error *error);

/* A text of fixes as reckon_predict_request has it. SIM_UNKNOWN_NAME lists the names. */
enum sim_status reckon_fixes_check(const char *fixes, struct sim_error *error);

/* Worker processes of this session from now on: 1 for one that works in a forked process itself. */
void reckon_set_jobs(struct reckon *reckon, uint32_t jobs);

struct reckon_memo_counts {
    uint64_t asked; /* prices of distinct kernels that predictions asked for, each prediction counted anew */
    uint64_t found; /* of these, had already: by this session or one it shares with */
};
struct reckon_memo_counts reckon_memo(const struct reckon *reckon);

/* ---- doubt: the same answer at quasi-random sets of the values that were not measured, each within its own low..high, times
 * the error that the model itself makes on rows it was not fitted to (sim/step/doubt_values.h) */

#define RECKON_DRIVERS_MAX 6

struct reckon_driver {
    char key[80]; /* "mi350x hbm.activate_interval" where devices are compared, else the key alone */
    char kind[12];
    size_t unknown; /* which of the sampled values */
    double share;  /* of the variance of the logarithm of the answer */
    double effect; /* the answer at the value's high end over that at its low end, minus 1; by linear regression */
};

struct reckon_interval {
    double nominal; /* at the profile's own values */
    double median, low, high; /* 10% and 90% quantiles of the samples */
    double *samples;          /* [samples]; owned */
    size_t driver_count;
    struct reckon_driver drivers[RECKON_DRIVERS_MAX]; /* most first; those that stand out of the noise of so many samples */
    double explained;                                 /* share of the variance by all of them */
    double anew; /* share of GPU kernel time simulated anew at each sample, the rest follows kernels of its limiter; NAN: all */
};

/* Samples are paired: device d's i-th goes with every other device's i-th, and a value with the same key and the same source
 * on two devices is one unknown. */
struct reckon_doubts {
    uint32_t samples;
    size_t device_count, value_count; /* values: unknowns of all devices together */
    struct reckon_interval *time;     /* [device_count]: step_ms or time_us */
    struct reckon_interval *ratio;    /* [device_count]: that time over the first device's; [0] is 1 */
};

/* After reckon_predict of these devices in the same session and with the same request (asserted: their prices are there).
 * Errors: SIM_BAD_ARGUMENT for fewer than 8 samples; what a sample's prediction returned. */
enum sim_status reckon_predict_doubts(struct reckon *reckon, struct reckon_device *const *devices, size_t device_count,
                                      const struct reckon_predict_request *request, uint32_t samples,
                                      struct reckon_doubts **out, struct sim_error *error);
enum sim_status reckon_kernel_doubts(struct reckon *reckon, struct reckon_device *const *devices, size_t device_count,
                                     const struct reckon_kernel_request *request, uint32_t samples,
                                     struct reckon_doubts **out, struct sim_error *error);
/* Intervals (10% and 90% quantiles of the samples) of the categories and kernels of answers, whose own values stay those at the
 * profile's. Made before reckon_predict_doubts of the same devices and request, whose `played` it sets; concluded behind it, which
 * fills ms_low and ms_high of the answers. Kernels are known again by their key. */
struct reckon_part_samples; /* opaque */
struct reckon_part_samples *reckon_part_samples_create(struct reckon_prediction *const *answers, size_t device_count,
                                                       uint32_t sample_count, struct reckon_predict_request *request);
void reckon_part_samples_conclude(struct reckon_part_samples *samples);
void reckon_part_samples_free(struct reckon_part_samples *samples, struct reckon_predict_request *request); /* NULL is allowed */
/* Of one point on one device: its samples go with those of any other point on that device, sample by sample, so that two of them
 * can be compared. sample_work as reckon_predict_request's. Errors: as reckon_point; SIM_BAD_ARGUMENT for fewer than 8 samples;
 * SIM_DOES_NOT_FIT and SIM_UNSUPPORTED for a point that has no time. */
enum sim_status reckon_point_doubts(struct reckon *reckon, struct reckon_device *device, const struct reckon_source *input,
                                    const struct reckon_point_request *request, uint32_t samples, double sample_work,
                                    struct reckon_doubts **out, struct sim_error *error);
void reckon_doubts_free(struct reckon_doubts *doubts); /* NULL is allowed */
struct json *reckon_interval_json(const struct reckon_interval *interval);

/* ---- against measurements */

enum reckon_route { RECKON_ROUTE_ANY, RECKON_ROUTE_TRACE, RECKON_ROUTE_MODEL }; /* any: by trace where there is one */

struct reckon_validate_request {
    const char *const *paths; /* folders or CSV files */
    size_t path_count;
    enum reckon_route route; /* of steps; memory goes by model in any case: a trace does not tell */
    uint64_t window_requests; /* line requests of a kernel simulated before extrapolating; 0: the chip model's default */
};

struct reckon_validate_row {
    char suite[32], kernel[48];
    char *params, *skipped;            /* skipped: why not predicted, NULL when it was; owned */
    double measured, predicted, error; /* error = |predicted/measured - 1|; NAN when skipped */
    char unit[24];
    double seconds; /* host time spent */
    bool cannot;    /* supported, but the prediction failed: error is 1 and `skipped` says why */
};

struct reckon_validate_suite {
    char suite[32];
    size_t rows, skipped; /* rows counts the skipped too */
    double median, p90, max,
        bias; /* NAN without rows; p90 nearest rank, the maximum under 8 rows; bias: median of the
                                      signed error */
    double seconds;
};

struct reckon_validation {
    char device[32];
    size_t suite_count, row_count;
    struct reckon_validate_suite *suites; /* in order of first appearance */
    struct reckon_validate_row *rows;
    struct reckon_notes notes;
};

enum sim_status reckon_validate(struct reckon *reckon, const struct reckon_device *device,
                                const struct reckon_validate_request *request, struct reckon_validation **out,
                                struct sim_error *error);
void reckon_validation_free(struct reckon_validation *validation); /* NULL is allowed */
struct json *reckon_validation_json(const struct reckon_validation *validation);

#endif
