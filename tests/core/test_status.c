#include "sim/core/kernel_result.h"
#include "sim/core/printable.h"
#include "sim/core/status.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

Test(status, exit_codes_follow_the_contract)
{
    /* 0 done, 1 user error, 2 cannot, 3 internal */
    cr_expect(eq(int, sim_status_exit_code(SIM_OK), 0));
    cr_expect(eq(int, sim_status_exit_code(SIM_BAD_PROFILE), 1));
    cr_expect(eq(int, sim_status_exit_code(SIM_UNKNOWN_NAME), 1));
    cr_expect(eq(int, sim_status_exit_code(SIM_DOES_NOT_FIT), 2));
    cr_expect(eq(int, sim_status_exit_code(SIM_NO_MEMORY), 3));
    cr_expect(eq(str, (char *)sim_status_text(SIM_UNKNOWN_NAME), "name not known"));
}

Test(status, fail_fills_one_line)
{
    struct sim_error error;
    cr_expect(eq(int, sim_fail(&error, SIM_BAD_FILE, "%s:\n%d", "a", 7), SIM_BAD_FILE));
    cr_expect(eq(int, error.status, SIM_BAD_FILE));
    cr_expect(eq(str, error.text, "a: 7"));
}

Test(status, fail_without_an_error_to_fill_returns_the_status)
{
    cr_expect(eq(int, sim_fail(NULL, SIM_BAD_TRACE, "x"), SIM_BAD_TRACE));
}

Test(status, fail_may_quote_the_error_it_fills)
{
    struct sim_error error;
    sim_fail(&error, SIM_BAD_FILE, "inner");
    sim_fail(&error, SIM_BAD_PROFILE, "outer: %s", error.text);
    cr_expect(eq(str, error.text, "outer: inner"));
}

Test(status, overlong_text_is_cut_with_dots)
{
    char long_text[2 * SIM_ERROR_TEXT_CAPACITY];
    struct sim_error error;
    memset(long_text, 'x', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    sim_fail(&error, SIM_BAD_FILE, "%s", long_text);
    size_t length = strlen(error.text);
    cr_expect(eq(sz, length, SIM_ERROR_TEXT_CAPACITY - 1));
    cr_expect(eq(str, error.text + length - 4, "x..."));
}

Test(status, a_broken_law_aborts, .signal = SIGABRT)
{
    SIM_ASSERT(1 + 1 == 3, "sum %d", 2);
}

Test(kernel_result, stages_have_the_names_of_the_contract)
{
    const char *const names[] = { "issue", "matrix", "l1",      "l2",       "die_link", "mall",
                                  "hbm",   "atomic", "latency", "dispatch", "launch" };
    cr_assert(eq(sz, sizeof names / sizeof names[0], KERNEL_STAGES));
    for (int i = 0; i < KERNEL_STAGES; i++) {
        cr_expect(eq(str, (char *)kernel_stage_text((enum kernel_stage)i), (char *)names[i]));
    }
}

Test(kernel_result, no_stage_beyond_the_list, .signal = SIGABRT)
{
    kernel_stage_text(KERNEL_STAGES);
}

/* An escape and a bell would reach the terminal, a byte alone is no UTF-8; what is, stays. */
Test(status, text_from_outside_is_printable)
{
    static const char *const cases[][3] = {
        { "plain \xc3\xa4 \xf0\x9f\x98\x80", "plain \xc3\xa4 \xf0\x9f\x98\x80", "plain \xc3\xa4 \xf0\x9f\x98\x80" },
        { "a\x1b[31mb\x07\x7f", "a\x1b[31mb\x07\x7f", "a?[31mb??" },
        { "two\nlines\tand\r", "two\nlines\tand\r", "two lines and " },
        { "\x9a cut \xc3", "? cut ?", "? cut ?" },
        { "\xed\xa0\x80", "???", "???" },     /* half of a surrogate pair */
        { "csi \xc2\x9b", "csi \xc2\x9b", "csi ??" }, /* U+009B, an escape in one */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char utf8[64], printable[64];
        snprintf(utf8, sizeof utf8, "%s", cases[i][0]);
        snprintf(printable, sizeof printable, "%s", cases[i][0]);
        text_make_utf8(utf8);
        text_make_printable(printable);
        cr_expect(eq(str, utf8, (char *)cases[i][1]), "%zu", i);
        cr_expect(eq(str, printable, (char *)cases[i][2]), "%zu", i);
        cr_expect(eq(int, text_is_printable(cases[i][0]), i == 0), "%zu", i);
    }
    struct sim_error error;
    sim_fail(&error, SIM_BAD_FILE, "%s: no such file", "a\x1b[31m\xff");
    cr_expect(eq(str, error.text, "a?[31m?: no such file"));
}
