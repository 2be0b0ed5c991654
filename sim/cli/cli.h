/* What the commands share: their entry points, the options every command takes, errors and progress. */
#ifndef SIM_CLI_CLI_H
#define SIM_CLI_CLI_H
#include "reports/report.h"
#include "sim/reckon.h"
#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

/* Each takes its own argv (argv[0] is "reckon COMMAND") and returns the process exit code. */
int cmd_predict(int argc, char **argv);
int cmd_kernel(int argc, char **argv);
int cmd_atomics(int argc, char **argv);
int cmd_power(int argc, char **argv);
int cmd_validate(int argc, char **argv);
int cmd_devices(int argc, char **argv);
int cmd_collective(int argc, char **argv);
int cmd_calibrate(int argc, char **argv);
int cmd_gemm(int argc, char **argv);
int cmd_sweep(int argc, char **argv);
int cmd_advise(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_compare(int argc, char **argv);

#define CLI_DEVICES_MAX 16
#define CLI_OUTPUTS_MAX 4

struct cli_common {
    const char *command; /* "reckon predict", for messages */
    struct reckon_options options;
    bool json, quiet;
    bool has_intervals;   /* the command takes --uncertainty */
    bool has_html;        /* the command takes --html */
    bool simulates_nothing;    /* it takes no --jobs, --seed, --engine, --chip-engine */
    const char *names_devices; /* why it takes no --device, as "the answers name their devices"; NULL: it takes one */
    const char *html;     /* file of the page; NULL: none */
    char line[1024];      /* the command as typed, for pages */
    uint32_t uncertainty; /* samples; 0: none */
    size_t device_count, output_count;
    struct {
        const char *option, *path;
    } outputs[CLI_OUTPUTS_MAX]; /* files to be written, as given so far */
    char *devices[CLI_DEVICES_MAX]; /* owned: split from --device */
};

/* Parser of --device, --json, --jobs, --seed, --quiet, --engine, --chip-engine; its input is a struct cli_common. */
extern const struct argp cli_common_argp;

/* Parse argv; on an unknown option or a missing value prints one line and exits 1. `argp` names cli_common_argp as a
 * child and hands it its input at ARGP_KEY_INIT. */
void cli_parse(const struct argp *argp, int argc, char **argv, struct cli_common *common, void *input);
void cli_common_finish(struct cli_common *common);

/* One line on standard error, "reckon COMMAND: ...". Returns / exits with the exit code of the status. */
int cli_fail(const struct cli_common *common, const struct sim_error *error);
void cli_print_version(void); /* code and profile set */
/* One line below an answer: version, commit, and a hash of each device's values. */
void cli_print_origin(struct reckon_device *const *devices, size_t count);
/* One line: whether calib/data holds measured rows of the suite on the device. */
void cli_print_calibration(const char *device, const char *suite);
_Noreturn void cli_usage_error(const struct cli_common *common, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Option values, checked; on error one line and exit 1. `option` is as the user typed it. */
double cli_number(const struct cli_common *common, const char *option, const char *text, double min,
                  double max);
uint64_t cli_integer(const struct cli_common *common, const char *option, const char *text, uint64_t min,
                     uint64_t max);
size_t cli_choice(const struct cli_common *common, const char *option, const char *text,
                  const char *const *choices, size_t count);

/* The file of an option that names one to be written: an empty name, one that another option has, or the option again exits
 * with 1. cli_output also tries whether it can be written, before anything is computed for it. Both return `path`. */
const char *cli_output_name(struct cli_common *common, const char *option, const char *path);
const char *cli_output(struct cli_common *common, const char *option, const char *path);

/* A --set k=v beside those given before: exits 1 when its key is among them. */
void cli_check_setting(const struct cli_common *common, const char *const *settings, size_t count, const char *setting);

/* Append a fix to "fix=A+B" in `fixes`; exits 1 when it is there, does not fit, or a '+' or ';' is in it. */
void cli_add_fix(const struct cli_common *common, char *fixes, size_t capacity, const char *fix);

/* Progress on the terminal for what takes over two seconds, unless --quiet; the context is the caller's to free. */
void cli_progress(struct cli_common *common);

/* Open a session, and the devices asked for (at least one needed). node NULL: each device's own. Prints errors. */
int cli_open(struct cli_common *common, const char *node, struct reckon **reckon,
             struct reckon_device *devices[CLI_DEVICES_MAX]);
void cli_close(struct cli_common *common, struct reckon *reckon,
               struct reckon_device *devices[CLI_DEVICES_MAX]);

/* Print `json` (taken) on standard output. */
void cli_print_json(struct json *json);

/* Write `document` as a page when --html asks for one; the profiles of `devices` (NULL: none) go into it whole. */
enum sim_status cli_write_page(const struct cli_common *common, struct reckon_device *const *devices, const struct json *document,
                               struct sim_error *error);

enum sim_status cli_write_page_of(const struct cli_common *common, const struct chip_profile *const *chips, size_t count,
                                  const struct json *document, struct sim_error *error);

/* A device profile as `reckon devices NAME --json` prints it, without its file. */
struct json *cli_device_json(const struct chip_profile *chip);

/* "1 spec, 2 measured, ..." */
void cli_basis_text(const struct reckon_basis *basis, char *text, size_t capacity);

#endif
