/* Outcomes of fallible calls, and the assertion that stays on in every build.
 * A leaf of sim/core. User errors travel as (enum sim_status, struct sim_error); bugs abort through SIM_ASSERT. */
#ifndef SIM_CORE_STATUS_H
#define SIM_CORE_STATUS_H

/* X(name, process exit code, text). One list, so that codes and texts cannot part. */
#define SIM_STATUS_LIST(X)                                                                         \
    X(OK, 0, "done")                                                                               \
    X(BAD_ARGUMENT, 1, "argument not valid")                                                       \
    X(BAD_FILE, 1, "file cannot be read or written")                                               \
    X(BAD_PROFILE, 1, "profile value missing, unknown or out of range")                            \
    X(BAD_TRACE, 1, "trace not usable")                                                            \
    X(UNKNOWN_NAME, 1, "name not known")                                                           \
    X(DOES_NOT_FIT, 2, "does not fit the device")                                                  \
    X(UNSUPPORTED, 2, "not possible on this device or not modelled yet")                           \
    X(NO_MEMORY, 3, "host memory exhausted")

enum sim_status {
#define SIM_STATUS_ENUM(name, exit_code, text) SIM_##name,
    SIM_STATUS_LIST(SIM_STATUS_ENUM)
#undef SIM_STATUS_ENUM
};

#define SIM_ERROR_TEXT_CAPACITY 1024

/* One line for the user: what, where (file, line or byte, key), what would be valid. */
struct sim_error {
    enum sim_status status;
    char text[SIM_ERROR_TEXT_CAPACITY];
};

const char *sim_status_text(enum sim_status status);
int sim_status_exit_code(enum sim_status status);

/* Fill `error` (NULL is allowed) and return `status`, so that callers write `return sim_fail(...)`.
 * Newlines in the message are replaced by spaces; overlong text is cut with "...". */
enum sim_status sim_fail(struct sim_error *error, enum sim_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* An internal law. On failure prints file, line, condition and the given values, then aborts (exit code 3 by
 * way of the handler that main installs for SIGABRT). */
#define SIM_ASSERT(condition, ...)                                                                 \
    do {                                                                                           \
        if (__builtin_expect(!(condition), 0)) {                                                   \
            sim_assert_failed(__FILE__, __LINE__, #condition, __VA_ARGS__);                        \
        }                                                                                          \
    } while (0)
_Noreturn void sim_assert_failed(const char *file, int line, const char *condition, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
