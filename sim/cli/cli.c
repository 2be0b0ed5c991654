#include "sim/cli/cli.h"
#include "sim/core/output_file.h"
#include "reckon_version.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PROGRESS_AFTER_S 2.0

enum { OPTION_JSON = 0x1000, OPTION_JOBS, OPTION_SEED, OPTION_QUIET, OPTION_ENGINE, OPTION_CHIP_ENGINE, OPTION_UNCERTAINTY, OPTION_HTML };

/* Not const: what a command refuses is hidden from its help before that is printed. */
static struct argp_option options[] = {
    { "device", 'd', "D[,D2...]", 0, "devices by name (reckon devices lists them) or profile file", 90 },
    { "json", OPTION_JSON, NULL, 0, "JSON on standard output; an array when several devices are named", 90 },
    { "html", OPTION_HTML, "F", 0, "write the answer as a page: one file that needs nothing else", 90 },
    { "jobs", OPTION_JOBS, "N", 0, "worker processes (default: all processors)", 91 },
    { "seed", OPTION_SEED, "N", 0, "of every random stream (default 1); same seed, same bytes", 91 },
    { "engine", OPTION_ENGINE, "fluid|simgrid", 0, "flow engine of collectives (default fluid)", 91 },
    { "chip-engine", OPTION_CHIP_ENGINE, "fast|reference", 0, "engine of the chip model (default fast)", 91 },
    { "uncertainty", OPTION_UNCERTAINTY, "N", 0,
      "answer at N samples of the values that were not measured: median, 80% interval and what drives it", 91 },
    { "quiet", OPTION_QUIET, NULL, 0, "no progress on the terminal", 91 },
    { 0 },
};

_Noreturn void cli_usage_error(const struct cli_common *common, const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "%s: ", common->command);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

int cli_fail(const struct cli_common *common, const struct sim_error *error)
{
    fprintf(stderr, "%s: %s\n", common->command, error->text);
    return sim_status_exit_code(error->status);
}

double cli_number(const struct cli_common *common, const char *option, const char *text, double min,
                  double max)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (text[0] == '\0' || *end != '\0' || !(value >= min && value <= max)) {
        cli_usage_error(common, "%s '%s': a number in %g..%g is needed", option, text, min, max);
    }
    return value;
}

uint64_t cli_integer(const struct cli_common *common, const char *option, const char *text, uint64_t min,
                     uint64_t max)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value < min || value > max) {
        cli_usage_error(common, "%s '%s': a whole number in %llu..%llu is needed", option, text,
                        (unsigned long long)min, (unsigned long long)max);
    }
    return value;
}

size_t cli_choice(const struct cli_common *common, const char *option, const char *text,
                  const char *const *choices, size_t count)
{
    char list[256] = "";
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, choices[i]) == 0) {
            return i;
        }
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", choices[i]);
    }
    cli_usage_error(common, "%s '%s': must be one of %s", option, text, list);
}

const char *cli_output_name(struct cli_common *common, const char *option, const char *path)
{
    if (path[0] == '\0') {
        cli_usage_error(common, "%s '': the name of a file is needed", option);
    }
    for (size_t i = 0; i < common->output_count; i++) {
        if (strcmp(common->outputs[i].option, option) == 0) {
            cli_usage_error(common, "%s '%s': given twice (%s before): one file is written", option, path, common->outputs[i].path);
        }
        if (strcmp(common->outputs[i].path, path) == 0) {
            cli_usage_error(common, "%s '%s': %s writes there: give another file", option, path, common->outputs[i].option);
        }
    }
    SIM_ASSERT(common->output_count < CLI_OUTPUTS_MAX, "more than %d files", CLI_OUTPUTS_MAX);
    common->outputs[common->output_count].option = option;
    common->outputs[common->output_count++].path = path;
    return path;
}

const char *cli_output(struct cli_common *common, const char *option, const char *path)
{
    struct sim_error error = { 0 };
    char named[32];
    snprintf(named, sizeof named, "%s ", option);
    cli_output_name(common, option, path);
    if (output_file_check(named, path, &error) != SIM_OK) {
        cli_usage_error(common, "%s", error.text);
    }
    return path;
}

void cli_check_setting(const struct cli_common *common, const char *const *settings, size_t count, const char *setting)
{
    size_t length = strcspn(setting, "=");
    for (size_t i = 0; setting[length] == '=' && i < count; i++) {
        if (strncmp(settings[i], setting, length + 1) == 0) {
            cli_usage_error(common, "--set %.60s: %.*s is set already (%.60s): give it once", setting, (int)length, setting, settings[i]);
        }
    }
}

/* Is `fix` one of "fix=A+B"? */
static bool has_fix(const char *fixes, const char *fix)
{
    size_t length = strlen(fix);
    for (const char *at = strchr(fixes, '='); at != NULL; at = strchr(at, '+')) {
        at++;
        if (strncmp(at, fix, length) == 0 && (at[length] == '+' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

void cli_add_fix(const struct cli_common *common, char *fixes, size_t capacity, const char *fix)
{
    size_t used = strlen(fixes);
    if (fix[0] == '\0' || strpbrk(fix, "+;=") != NULL || used + strlen(fix) + 5 > capacity) {
        cli_usage_error(common, "--fix '%.40s': the name of one fix is needed (reckon kernel --list names them)", fix);
    }
    if (has_fix(fixes, fix)) {
        cli_usage_error(common, "--fix '%.40s': given twice: name it once", fix);
    }
    snprintf(fixes + used, capacity - used, "%s%s", used == 0 ? "fix=" : "+", fix);
}

static void split_devices(struct cli_common *common, const char *list)
{
    for (const char *at = list; at != NULL;) {
        size_t length = strcspn(at, ",");
        if (length == 0) {
            cli_usage_error(common, "--device '%s': an empty name", list);
        }
        if (common->device_count == CLI_DEVICES_MAX) {
            cli_usage_error(common, "--device '%s': more than %d devices", list, CLI_DEVICES_MAX);
        }
        common->devices[common->device_count++] = strndup(at, length);
        at = at[length] == ',' ? at + length + 1 : NULL;
    }
}

/* Does the command take the option? `why` says why not. */
static bool takes(const struct cli_common *common, int key, const char **why)
{
    switch (key) {
    case 'd': *why = common->names_devices; return *why == NULL;
    case OPTION_HTML: *why = "this command's answers have no page"; return common->has_html;
    case OPTION_UNCERTAINTY: *why = "this command's answers have no intervals (predict, kernel, atomics, gemm, collective, sweep, advise, validate and plan have)"; return common->has_intervals;
    case OPTION_JOBS:
    case OPTION_SEED:
    case OPTION_ENGINE:
    case OPTION_CHIP_ENGINE: *why = "this command simulates nothing"; return !common->simulates_nothing;
    default: return true;
    }
}

static const char *name_of(int key)
{
    size_t i = 0;
    while (options[i].key != key) {
        i++;
    }
    return options[i].name;
}

static error_t parse_common(int key, char *argument, struct argp_state *state)
{
    static const char *const engines[] = { "fluid", "simgrid" }, *const chip_engines[] = { "fast",
                                                                                           "reference" };
    struct cli_common *common = state->input;
    const char *why = NULL;
    if (!takes(common, key, &why)) {
        cli_usage_error(common, argument != NULL ? "--%s '%s': %s" : "--%s%s: %s", name_of(key), argument != NULL ? argument : "", why);
    }
    switch (key) {
    case 'd': split_devices(common, argument); return 0;
    case OPTION_JSON: common->json = true; return 0;
    case OPTION_QUIET: common->quiet = true; return 0;
    case OPTION_HTML: common->html = cli_output(common, "--html", argument); return 0;
    case OPTION_JOBS:
        common->options.jobs = (uint32_t)cli_integer(common, "--jobs", argument, 1, 1024);
        return 0;
    case OPTION_SEED: common->options.seed = cli_integer(common, "--seed", argument, 0, UINT64_MAX); return 0;
    case OPTION_ENGINE:
        common->options.fabric_simgrid = cli_choice(common, "--engine", argument, engines, 2) == 1;
        return 0;
    case OPTION_CHIP_ENGINE:
        common->options.chip_reference = cli_choice(common, "--chip-engine", argument, chip_engines, 2) == 1;
        return 0;
    case OPTION_UNCERTAINTY:
        common->uncertainty = (uint32_t)cli_integer(common, "--uncertainty", argument, 8, 4096);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

const struct argp cli_common_argp = { .options = options, .parser = parse_common };

/* The command as typed, words with blanks in quotes: for pages. */
static void keep_line(struct cli_common *common, int argc, char **argv)
{
    size_t used = 0;
    for (int i = 0; i < argc && used < sizeof common->line - 1; i++) {
        bool quoted = i > 0 && (argv[i][0] == '\0' || strpbrk(argv[i], " \t\n'\"$&;|<>*?()") != NULL);
        int wrote = snprintf(common->line + used, sizeof common->line - used, "%s%s%s%s", i > 0 ? " " : "", quoted ? "'" : "", argv[i],
                             quoted ? "'" : "");
        used += wrote > 0 ? (size_t)wrote : 0;
    }
}

struct known {
    const struct argp_option *option;
    size_t count; /* of options that begin so; 1 when one is named whole */
};

/* Options of `argp` and its children by letter (length 0) or by the first letters of their name. */
static void look_up(const struct argp *argp, const char *name, size_t length, int letter, struct known *known)
{
    for (const struct argp_option *o = argp->options; o != NULL && (o->name != NULL || o->key != 0); o++) {
        bool hit = length == 0 ? o->key == letter : strncmp(o->name, name, length) == 0;
        bool whole = hit && (length == 0 || o->name[length] == '\0');
        known->option = hit && (whole || known->count == 0) ? o : known->option;
        known->count = whole ? 1 : known->count + (hit ? 1 : 0);
        if (whole) {
            return;
        }
    }
    for (const struct argp_child *child = argp->children; child != NULL && child->argp != NULL; child++) {
        look_up(child->argp, name, length, letter, known);
    }
}

/* The argument that argp stumbled on: it does not say. */
static const char *culprit(const struct argp *argp, int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        bool is_long = strncmp(argv[i], "--", 2) == 0;
        if (argv[i][0] != '-' || argv[i][1] == '\0') {
            continue;
        }
        struct known known = { 0 };
        size_t length = is_long ? strcspn(argv[i] + 2, "=") : 0;
        look_up(argp, argv[i] + 2, length, argv[i][1], &known);
        bool has_value = argv[i][2 + length] != '\0', takes_value = known.count == 1 && known.option->arg != NULL;
        if (known.count != 1 || (has_value && !takes_value) || (takes_value && !has_value && i + 1 == argc)) {
            return argv[i];
        }
        i += takes_value && !has_value ? 1 : 0;
    }
    return argv[argc - 1];
}

/* argp's own messages take two lines; one is the contract. Told to be silent, argp is silent about help too. */
void cli_parse(const struct argp *argp, int argc, char **argv, struct cli_common *common, void *input)
{
    const char *why = NULL;
    keep_line(common, argc, argv);
    for (struct argp_option *option = options; option->name != NULL; option++) {
        option->flags |= takes(common, option->key, &why) ? 0 : OPTION_HIDDEN;
    }
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-?") == 0 || strcmp(argv[i], "--usage") == 0) {
            argp_help(argp, stdout, strcmp(argv[i], "--usage") == 0 ? ARGP_HELP_USAGE : ARGP_HELP_STD_HELP,
                      argv[0]);
            exit(0);
        }
    }
    if (argp_parse(argp, argc, argv, ARGP_NO_ERRS, NULL, input) != 0) {
        cli_usage_error(common, "option '%s' is not known, lacks its value, or takes none (--help lists the options)",
                        culprit(argp, argc, argv));
    }
}

void cli_common_finish(struct cli_common *common)
{
    for (size_t i = 0; i < common->device_count; i++) {
        free(common->devices[i]);
    }
    common->device_count = 0;
}

/* ---- progress: one line on a terminal, for what takes over two seconds */

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

struct progress {
    double started, shown;
};

static void show_progress(void *context, const char *what, size_t done, size_t total)
{
    struct progress *progress = context;
    double now = seconds_now();
    if (progress->started == 0) {
        progress->started = now;
    }
    if (now - progress->started < PROGRESS_AFTER_S) {
        return;
    }
    if (done >= total) {
        fprintf(stderr, "\r\033[K");
        progress->started = 0;
    } else if (now - progress->shown > 0.1) {
        fprintf(stderr, "\r\033[K%s: %zu of %zu", what, done, total);
        progress->shown = now;
    }
    fflush(stderr);
}

void cli_progress(struct cli_common *common)
{
    if (!common->quiet && isatty(STDERR_FILENO)) {
        common->options.progress = show_progress;
        common->options.progress_context = calloc(1, sizeof(struct progress));
    }
}

int cli_open(struct cli_common *common, const char *node, struct reckon **reckon,
             struct reckon_device *devices[CLI_DEVICES_MAX])
{
    struct sim_error error = { 0 };
    *reckon = NULL;
    memset(devices, 0, CLI_DEVICES_MAX * sizeof devices[0]);
    if (common->device_count == 0) {
        cli_usage_error(common, "--device is needed (reckon devices lists the names)");
    }
    cli_progress(common);
    enum sim_status status = reckon_create(&common->options, reckon, &error);
    for (size_t i = 0; status == SIM_OK && i < common->device_count; i++) {
        status = reckon_device_open(*reckon, common->devices[i], node, &devices[i], &error);
    }
    return status == SIM_OK ? 0 : cli_fail(common, &error);
}

void cli_close(struct cli_common *common, struct reckon *reckon,
               struct reckon_device *devices[CLI_DEVICES_MAX])
{
    for (size_t i = 0; i < CLI_DEVICES_MAX; i++) {
        reckon_device_close(devices[i]);
    }
    reckon_destroy(reckon);
    free(common->options.progress_context);
    cli_common_finish(common);
}

void cli_print_json(struct json *json)
{
    char *text = json_print(json, true);
    puts(text);
    free(text);
    json_destroy(json);
}

void cli_basis_text(const struct reckon_basis *basis, char *text, size_t capacity)
{
    text[0] = '\0';
    for (int k = 0; k < PROFILE_KINDS; k++) {
        size_t used = strlen(text);
        snprintf(text + used, capacity - used, "%s%zu %s", k > 0 ? ", " : "", basis->count[k],
                 profile_kind_text((enum profile_kind)k));
    }
}

enum sim_status cli_write_page_of(const struct cli_common *common, const struct chip_profile *const *chips, size_t count,
                                  const struct json *document, struct sim_error *error)
{
    if (common->html == NULL) {
        return SIM_OK;
    }
    struct json *profiles = json_new_array();
    for (size_t i = 0; i < count; i++) {
        json_append(profiles, cli_device_json(chips[i]));
    }
    const char *stamp = getenv("RECKON_STAMP"); /* in place of version and commit: pages that are committed cannot name their commit */
    struct report_run run = { .command = common->line,
                              .version = stamp != NULL ? stamp : "reckon " RECKON_VERSION " (" RECKON_COMMIT ")",
                              .seed = common->options.seed,
                              .profiles = count > 0 ? profiles : NULL };
    enum sim_status status = report_write(document, &run, common->html, error);
    json_destroy(profiles);
    return status;
}

enum sim_status cli_write_page(const struct cli_common *common, struct reckon_device *const *devices, const struct json *document,
                               struct sim_error *error)
{
    const struct chip_profile *chips[CLI_DEVICES_MAX];
    for (size_t i = 0; devices != NULL && i < common->device_count; i++) {
        chips[i] = reckon_device_chip(devices[i]);
    }
    return cli_write_page_of(common, chips, devices != NULL ? common->device_count : 0, document, error);
}
