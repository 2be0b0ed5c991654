/* How numbers are written: the full one reads back equal, the short one has the digits that were asked for. */
#include "reports/page.h"
#include "reports/report.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdlib.h>

Test(page, full_numbers_read_back_equal)
{
    static const double values[] = { 0.1, 1.0 / 3, 6.02214076e23, 5e-324, 123456789.123456789, -0.0078125 };
    char text[40];
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        number_text(values[i], text, sizeof text);
        cr_expect(strtod(text, NULL) == values[i], "%s", text);
    }
    number_text(0.1, text, sizeof text);
    cr_expect(eq(str, text, "0.1"));
}

struct rounding {
    double value;
    int digits;
    char expect[24];
};

ParameterizedTestParameters(page, rounded_numbers)
{
    static struct rounding cases[] = { { 0, 3, "0" },           { 1234567, 4, "1,234,567" }, { 12.3456, 4, "12.35" }, { 0.00123456, 3, "0.00123" },
                                       { 999.96, 4, "1000.0" }, { 42, 4, "42" }, { 0.2, 4, "0.2" },             { -1234.5, 2, "-1234" }, { 1.5e-7, 3, "1.50e-07" },
                                       { 0.05 + 0.05 + 0.05, 5, "0.15" }, { 0.1500001, 5, "0.15000" } };
    return cr_make_param_array(struct rounding, cases, sizeof cases / sizeof cases[0]);
}
ParameterizedTest(struct rounding *c, page, rounded_numbers)
{
    char text[64];
    rounded_text(c->value, c->digits, text, sizeof text);
    cr_expect(eq(str, text, c->expect));
}

/* Down to the function, of namespaces with a name and without one; a name that is all brackets stays. */
Test(page, kernels_are_called_by_their_function)
{
    static const char *const cases[][2] = {
        { "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 64, 64>(float*)", "CatArrayBatchedCopy" },
        { "void (anonymous namespace)::indexing_backward_kernel<float, 4>(long*)", "indexing_backward_kernel" },
        { "void fbgemm_gpu::permute_2D_lengths_kernel<int>(int, int)", "permute_2D_lengths_kernel" },
        { "volta_sgemm_128x32_tn", "volta_sgemm_128x32_tn" },
        { "void outer<(anonymous namespace)::inner>(int)", "outer" },
        { "(replayed)", "(replayed)" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[80];
        report_short_name(cases[i][0], text, sizeof text);
        cr_expect(eq(str, text, (char *)cases[i][1]), "%s", cases[i][0]);
    }
}
