#include "sim/core/status.h"
#include "sim/core/printable.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *sim_status_text(enum sim_status status)
{
    switch (status) {
#define SIM_STATUS_TEXT(name, exit_code, text) \
    case SIM_##name: return text;
        SIM_STATUS_LIST(SIM_STATUS_TEXT)
#undef SIM_STATUS_TEXT
    }
    return "unknown status";
}

int sim_status_exit_code(enum sim_status status)
{
    switch (status) {
#define SIM_STATUS_EXIT(name, exit_code, text) \
    case SIM_##name: return exit_code;
        SIM_STATUS_LIST(SIM_STATUS_EXIT)
#undef SIM_STATUS_EXIT
    }
    return 3;
}

enum sim_status sim_fail(struct sim_error *error, enum sim_status status, const char *format, ...)
{
    if (error == NULL) {
        return status;
    }
    char text[SIM_ERROR_TEXT_CAPACITY]; /* apart from error->text, which may be one of the arguments */
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0) {
        snprintf(text, sizeof text, "%s", sim_status_text(status));
    } else if ((size_t)length >= sizeof text) {
        memcpy(text + sizeof text - 4, "...", 4);
    }
    text_make_printable(text);
    error->status = status;
    memcpy(error->text, text, sizeof text);
    return status;
}

_Noreturn void sim_assert_failed(const char *file, int line, const char *condition, const char *format, ...)
{
    fprintf(stderr, "reckon: internal error at %s:%d: %s does not hold: ", file, line, condition);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    fflush(stderr);
    abort();
}
