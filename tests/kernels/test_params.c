/* What a user can get wrong: every rejection is one line that names the kernel, the parameter and what would be valid. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>
#include "tests/kernels/walk.h"

struct bad_case {
    const char *suite, *kernel, *params;
    enum sim_status status;
    const char *says; /* part of the message */
};

static const struct bad_case bad_cases[] = {
    { "nothing", "read", "", SIM_UNKNOWN_NAME, "suites: " },
    { "bandwidth", "raed", "mb=1", SIM_UNKNOWN_NAME, "kernels: read, write, copy" },
    { "bandwidth", "read", "", SIM_BAD_ARGUMENT, "'mb' is missing" },
    { "bandwidth", "read", "mb=0", SIM_BAD_ARGUMENT, "mb=0 is not valid" },
    { "bandwidth", "read", "mb=-5", SIM_BAD_ARGUMENT, "mb=-5 is not valid" },
    { "bandwidth", "read", "mb=1e30", SIM_BAD_ARGUMENT, "mb=1e30 is not valid" },
    { "bandwidth", "read", "mb=nan", SIM_BAD_ARGUMENT, "mb=nan is not valid" },
    { "bandwidth", "read", "mb=1x", SIM_BAD_ARGUMENT, "mb=1x is not valid" },
    { "bandwidth", "read", "mb=", SIM_BAD_ARGUMENT, "mb= is not valid" },
    { "bandwidth", "read", "mb=1;it=2.5", SIM_BAD_ARGUMENT, "a whole number from 1" },
    { "bandwidth", "read", "mb=1;unroll=4", SIM_BAD_ARGUMENT, "unknown parameter 'unroll' (valid: mb, it)" },
    { "bandwidth", "read", "mb=100000", SIM_DOES_NOT_FIT, "GiB of HBM" },
    { "launch", "dispatch", "grid=0", SIM_BAD_ARGUMENT, "grid=0" },
    { "launch", "dispatch", "grid=10;block=1025", SIM_BAD_ARGUMENT, "block=1025" },
    { "latency", "chase_l1", "kb=1e30", SIM_BAD_ARGUMENT, "kb=1e30" },
    { "latency", "per_sm", "sm=4", SIM_BAD_ARGUMENT, "0 to 3" }, /* the machine has 4 units */
    { "gather", "random_rows", "row_bytes=24;table_mb=1", SIM_BAD_ARGUMENT, "multiple of 16" },
    { "gather", "random_rows", "row_bytes=2048;table_mb=0.001;n=5", SIM_BAD_ARGUMENT, "one row" },
    { "gather", "random_rows", "row_bytes=16;table_mb=1e6;n=5", SIM_DOES_NOT_FIT, "table" },
    { "atomic", "add_u32", "mode=3;naddr=1", SIM_BAD_ARGUMENT, "mode=3" },
    { "atomic", "add_u32", "mode=0;naddr=0", SIM_BAD_ARGUMENT, "naddr=0" },
    { "atomic", "add_u64", "mode=0;naddr=1;stride=12", SIM_BAD_ARGUMENT, "multiple of 8" },
    { "atomic", "add_u32", "mode=0;naddr=1;ops=1000000", SIM_BAD_ARGUMENT, "multiple of 2048" },
    { "atomic", "add_u32", "mode=0;naddr=4000000000;stride=256", SIM_DOES_NOT_FIT, "target" },
    { "atomic", "shared_u32", "naddr=4097", SIM_BAD_ARGUMENT, "1 to 4096" },
    { "bounds_check", "tree_reduction", "rate=1.5", SIM_BAD_ARGUMENT, "rate=1.5" },
    { "bounds_check", "tree_reduction", "rate=0;indices=3;batch=1", SIM_BAD_ARGUMENT, "tables x batch x bag" },
    { "bounds_check", "tree_reduction", "rate=0;tables=100000;batch=1e9;bag=1e9;indices=1", SIM_BAD_ARGUMENT, "indices" },
    { "bounds_check", "per_thread_atomic", "rate=0;batch=1e9", SIM_DOES_NOT_FIT, "indices" },
    { "gis", "forward", "D=0;rows=1", SIM_BAD_ARGUMENT, "D=0" },
    { "gis", "backward_cached", "D=64;rows=2e9;n=1000", SIM_DOES_NOT_FIT, "table" },
    { "tbe", "forward", "B=10;T=1;L=1;D=6;rows=10", SIM_BAD_ARGUMENT, "multiple of 16 bytes" },
    { "tbe", "forward", "B=10;T=1;L=1;D=512;rows=10;code=measured", SIM_BAD_ARGUMENT, "at most 1024" },
    { "tbe", "forward", "B=10;T=1;L=1;D=64;rows=10;prec=fp8", SIM_BAD_ARGUMENT, "fp32|fp16" },
    { "tbe", "forward", "B=10;T=1;L=1;D=64;rows=10;alpha=-1", SIM_BAD_ARGUMENT, "alpha=-1" },
    { "tbe", "backward_sorted", "B=1e9;T=100;L=100;D=64;rows=10", SIM_BAD_ARGUMENT, "32 bits" },
    { "tbe", "backward_sorted", "B=10;T=50;L=1;D=256;rows=1e7", SIM_DOES_NOT_FIT, "tables" },
    { "tbe", "backward_sorted", "B=10;T=1;L=1;D=64;rows=10;unique=5", SIM_BAD_ARGUMENT, "unknown parameter 'unique'" },
    { "tbe", "backward", "B=10;T=1;L=1;D=2052;rows=10", SIM_BAD_ARGUMENT, "4 to 2048" },
    { "tbe", "backward", "B=10;T=1;L=1;D=6;rows=10", SIM_BAD_ARGUMENT, "multiple of 4" },
    { "tbe_fused", "backward", "B=10;T=1;L=1;D=264;rows=10", SIM_BAD_ARGUMENT, "8 to 256" },
    { "tbe_fused", "backward", "B=10;T=1;L=1;D=12;rows=10", SIM_BAD_ARGUMENT, "multiple of 8" },
    { "tbe_fused", "forward", "B=10;T=1;L=1;D=64;rows=10;generator=fbgemm_zipf", SIM_BAD_ARGUMENT, "do not agree" },
    { "tbe_fused", "forward", "B=10;T=1;L=1;D=64;rows=10;threshold=32", SIM_BAD_ARGUMENT, "unknown parameter" },
    { "tbe_fused", "backward_long_runs", "B=10;T=1;L=1;D=64;rows=1000;threshold=32", SIM_BAD_ARGUMENT, "no longer run" },
    { "tbe_fused", "backward_finalise", "B=10;T=1;L=1;D=64;rows=1000;threshold=0", SIM_BAD_ARGUMENT, "no longer run" },
    { "tbe_fused", "backward_short_runs", "B=10;T=1;L=1;D=64;rows=1000;threshold=1", SIM_BAD_ARGUMENT, "no shorter run" },
    { "scatter", "index_add", "n=10;D=64;rows=10;hot_share=2", SIM_BAD_ARGUMENT, "hot_share=2" },
    { "scatter", "index_add", "n=10;D=64;rows=10;kind=lock", SIM_BAD_ARGUMENT, "native|cas" },
    { "scatter", "index_select", "n=10;D=3;rows=10", SIM_UNSUPPORTED, "multiple of 16 bytes" },
    { "scatter", "histogram", "n=10;rows=100000;bins=private", SIM_DOES_NOT_FIT, "LDS" }, /* 400,000 B of 163,840 */
    { "embedding", "bag_forward", "B=10;L=1;D=64;rows=10;dtype=int8", SIM_BAD_ARGUMENT, "float32" },
    { "embedding", "bag_backward_dense", "B=1e9;L=1e6;D=64;rows=10;dtype=float32", SIM_BAD_ARGUMENT, "B and L" },
    { "embedding", "bag_forward", "B=10;L=1;D=16384;rows=4e9;dtype=float32", SIM_DOES_NOT_FIT, "the table" },
    { "memcpy", "h2d_pinned", "mb=-1", SIM_BAD_ARGUMENT, "mb=-1" },
    { "memcpy", "h2d_pageable", "mb=1e6", SIM_DOES_NOT_FIT, "device buffer" },
};

static enum sim_status try_plan(const char *suite, const char *kernel, const char *text, struct sim_error *error)
{
    struct kernel_params *params;
    struct kernel_plan *plan = NULL;
    struct kernel_machine machine = walk_machine(4, 32);
    enum sim_status status = kernel_params_parse(text, &params, error);
    if (status == SIM_OK) {
        status = kernel_plan_create(suite, kernel, params, &machine, &plan, error);
        kernel_params_destroy(params);
        kernel_plan_destroy(plan);
    }
    return status;
}

Test(params, each_bad_value_is_refused_with_one_line)
{
    for (size_t i = 0; i < sizeof bad_cases / sizeof bad_cases[0]; i++) {
        const struct bad_case *c = &bad_cases[i];
        struct sim_error error = { .text = "" };
        enum sim_status status = try_plan(c->suite, c->kernel, c->params, &error);
        cr_expect(eq(int, (int)status, (int)c->status), "%s/%s %s: %s", c->suite, c->kernel, c->params, error.text);
        cr_expect(ne(ptr, strstr(error.text, c->says), NULL), "%s/%s %s says: %s", c->suite, c->kernel, c->params,
                  error.text);
        cr_expect(eq(ptr, strchr(error.text, '\n'), NULL));
    }
}

/* Every registered kernel, whoever wrote it: an unknown parameter and a size of zero or 1e30 never pass. */
Test(params, every_kernel_refuses_a_parameter_that_it_does_not_know)
{
    for (size_t i = 0; i < kernel_registry_count(); i++) {
        struct kernel_entry entry = kernel_registry_at(i);
        struct sim_error error = { .text = "" };
        cr_expect(ne(int, (int)try_plan(entry.suite, entry.kernel, "no_such_parameter=1", &error), SIM_OK), "%s/%s",
                  entry.suite, entry.kernel);
        cr_expect(ne(int, (int)error.text[0], 0));
        cr_expect(gt(sz, strlen(entry.summary), 0));
        cr_expect(gt(sz, strlen(entry.params_help), 0));
        cr_expect(kernel_is_registered(entry.suite, entry.kernel));
    }
}

/* What the study leaves out, with the range that it allows; a parameter that is given is no assumption. */
Test(params, unknown_parameters_carry_their_range)
{
    static const struct { const char *suite, *kernel, *params, *key; double value, low, high; } cases[] = {
        { "tbe", "backward", "B=64;T=1;L=2;D=64;prec=fp16", "rows", 1e7, 1e6, 1e7 },
        { "tbe", "backward", "B=64;T=1;L=2;D=64;prec=fp16", "resident", 512, 512, 1024 },
        { "tbe", "backward", "B=64;T=1;L=2;D=64;prec=fp16;fix=wave-per-row", "resident", 2048, 1024, 2048 },
        { "tbe", "backward", "B=64;T=1;L=2;D=64;prec=fp16", "threshold", 32, 32, 64 },
        { "bounds_check", "per_thread_atomic", "rate=0", "bag", 7, 4, 14 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kernel_plan *plan = walk_plan(cases[i].suite, cases[i].kernel, cases[i].params, 64);
        size_t found = 0;
        for (size_t a = 0; a < plan->assumption_count; a++) {
            const struct kernel_assumption *assumption = &plan->assumptions[a];
            if (strcmp(assumption->key, cases[i].key) == 0) {
                found++;
                cr_expect(eq(dbl, assumption->value, cases[i].value));
                cr_expect(eq(dbl, assumption->low, cases[i].low));
                cr_expect(eq(dbl, assumption->high, cases[i].high));
            }
        }
        cr_expect(eq(sz, found, 1), "%s of %s/%s", cases[i].key, cases[i].suite, cases[i].kernel);
        kernel_plan_destroy(plan);
    }
    struct kernel_plan *plan = walk_plan("tbe", "backward", "B=64;T=1;L=2;D=64;prec=fp16;rows=1000;resident=512;threshold=32", 64);
    for (size_t a = 0; a < plan->assumption_count; a++) {
        cr_expect(eq(str, plan->assumptions[a].key, ""));
    }
    kernel_plan_destroy(plan);
}

Test(params, text_is_canonical_and_keeps_the_order)
{
    struct kernel_params *params;
    struct sim_error error;
    cr_assert(eq(int, kernel_params_parse(" b = 2 ;a=1;", &params, &error), SIM_OK));
    cr_expect(eq(str, (char *)kernel_params_text(params), "b=2;a=1"));
    cr_assert(eq(int, kernel_params_add(params, "c=x=y", &error), SIM_OK));
    cr_expect(eq(str, (char *)kernel_params_text(params), "b=2;a=1;c=x=y"));
    cr_expect(eq(int, kernel_params_add(params, "a=3", &error), SIM_BAD_ARGUMENT));
    cr_expect(ne(ptr, strstr(error.text, "'a' is given twice"), NULL));
    cr_expect(eq(int, kernel_params_add(params, "d=1;e=2", &error), SIM_BAD_ARGUMENT));
    cr_expect(eq(str, (char *)kernel_params_text(params), "b=2;a=1;c=x=y"));
    kernel_params_destroy(params);
    cr_expect(eq(int, kernel_params_parse("a", &params, &error), SIM_BAD_ARGUMENT));
    cr_expect(eq(int, kernel_params_parse("=1", &params, &error), SIM_BAD_ARGUMENT));
    cr_assert(eq(int, kernel_params_parse(NULL, &params, &error), SIM_OK));
    cr_expect(eq(str, (char *)kernel_params_text(params), ""));
    kernel_params_destroy(params);
}

/* 1e6 and 1000000 are the same number, so the same programs. */
Test(params, numbers_may_be_written_with_an_exponent)
{
    struct kernel_plan *a = walk_plan("gis", "backward_atomic", "D=64;rows=1e3;n=1024", 32);
    struct kernel_plan *b = walk_plan("gis", "backward_atomic", "D=64;rows=1000;n=1.024e3", 32);
    cr_expect(eq(u64, walk_program(a->launches[0].program, 32, WALK_ALL, NULL, NULL).hash,
                 walk_program(b->launches[0].program, 32, WALK_ALL, NULL, NULL).hash));
    kernel_plan_destroy(a);
    kernel_plan_destroy(b);
}

/* What the user leaves out is listed with its range. */
Test(params, a_default_of_the_study_is_an_assumption)
{
    struct kernel_plan *plan = walk_plan("bounds_check", "tree_reduction", "rate=0.1;batch=64", 32);
    bool tables = false, batch = false;
    for (size_t i = 0; i < plan->assumption_count; i++) {
        tables = tables || strncmp(plan->assumptions[i].text, "tables = 30 (range ", 19) == 0;
        batch = batch || strncmp(plan->assumptions[i].text, "batch", 5) == 0;
    }
    cr_expect(tables);
    cr_expect(not(batch));
    kernel_plan_destroy(plan);
}

/* value = amount / time, or time x factor / amount, as the tables have it. */
Test(params, plans_say_what_the_value_column_holds)
{
    struct kernel_plan *copy = walk_plan("memcpy", "d2h_pinned", "mb=16", 32);
    cr_assert(eq(sz, copy->launch_count, 1));
    cr_expect(eq(int, copy->launches[0].kind, KERNEL_LAUNCH_COPY_D2H));
    cr_expect(eq(dbl, copy->launches[0].copy_bytes, 16777216));
    cr_expect(epsilon_eq(dbl, copy->value_amount / 309.152, 54.269, 0.001)); /* GB/s of the table's row */
    struct kernel_plan *byte = walk_plan("memcpy", "d2h_pinned", "mb=9.53674316e-07", 32); /* 2^-20, as a trace's copy says it */
    cr_expect(epsilon_eq(dbl, byte->launches[0].copy_bytes, 1, 1e-6));
    kernel_plan_destroy(byte);
    struct kernel_plan *chain = walk_plan("atomic", "same_addr_return", "grid=1;block=1", 32);
    cr_expect(epsilon_eq(dbl, 23.552 * chain->value_factor / chain->value_amount, 368, 0.001));
    struct kernel_plan *read = walk_plan("bandwidth", "read", "mb=8;it=256", 32);
    cr_expect(epsilon_eq(dbl, read->value_amount / 263.776, 8.1413, 0.0001));
    struct kernel_plan *chase = walk_plan("latency", "chase_l1", "kb=16", 32);
    cr_expect(chase->value_only);
    kernel_plan_destroy(copy);
    kernel_plan_destroy(chain);
    kernel_plan_destroy(read);
    kernel_plan_destroy(chase);
}
