/* The solver on models whose answer is known: t = a + n / b over sizes n, measured with a scatter of 0.5%. */
#include "calib/fit.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <string.h>

#define ROWS 24

/* Models here answer whole sets of values; the adapter hands out the row that a task asks for. */
typedef enum sim_status (*point_model)(void *context, const double *values, double *residuals,
                                       struct sim_error *error);

struct adapted {
    point_model model;
    void *context;
    size_t tasks; /* rows asked for */
};

struct line_model {
    double size[ROWS], measured[ROWS];
    double seen_low[3], seen_high[3]; /* values that the solver tried */
    size_t calls, fails_after;        /* 0: never */
};

/* values: a [us], b [MB/us], and a third that does nothing. */
static enum sim_status line_residuals(void *context, const double *values, double *residuals,
                                      struct sim_error *error)
{
    struct line_model *model = context;
    for (size_t i = 0; i < 3; i++) {
        model->seen_low[i] = fmin(model->seen_low[i], values[i]);
        model->seen_high[i] = fmax(model->seen_high[i], values[i]);
    }
    if (model->fails_after > 0 && ++model->calls > model->fails_after) {
        return sim_fail(error, SIM_DOES_NOT_FIT, "the model says no");
    }
    for (size_t r = 0; r < ROWS; r++) {
        residuals[r] = (values[0] + model->size[r] / values[1]) / model->measured[r] - 1;
    }
    return SIM_OK;
}

/* Rows made with a = 4, b = 30; every `outlier_every`th is three times as long. */
static void make_rows(struct line_model *model, size_t outlier_every)
{
    memset(model, 0, sizeof *model);
    for (size_t i = 0; i < 3; i++) {
        model->seen_low[i] = INFINITY;
        model->seen_high[i] = -INFINITY;
    }
    for (size_t r = 0; r < ROWS; r++) {
        model->size[r] = pow(1.45, (double)r);
        double scatter = 0.005 * sin(7.0 * (double)r);
        model->measured[r] = (4 + model->size[r] / 30) * (1 + scatter);
        if (outlier_every > 0 && r % outlier_every == 3) {
            model->measured[r] *= 3;
        }
    }
}

static enum sim_status adapt(void *context, const struct fit_task *tasks, size_t task_count, double *residuals,
                             struct sim_error *error)
{
    struct adapted *adapted = context;
    double rows[ROWS];
    for (size_t t = 0; t < task_count; t++) {
        if (t == 0 || tasks[t].values != tasks[t - 1].values) {
            enum sim_status status = adapted->model(adapted->context, tasks[t].values, rows, error);
            if (status != SIM_OK) {
                return status;
            }
        }
        residuals[t] = rows[tasks[t].row];
        adapted->tasks++;
    }
    return SIM_OK;
}

static const struct fit_value wide[3] = { { 2, 1, 10 }, { 60, 10, 90 }, { 0.5, 0, 1 } };

static enum sim_status solve(struct line_model *model, const struct fit_value *values, size_t value_count,
                             uint32_t iterations, struct fit_solution *solution, struct sim_error *error)
{
    struct adapted adapted = { line_residuals, model, 0 };
    struct fit_problem problem = { .value_count = value_count,
                                   .row_count = ROWS,
                                   .values = values,
                                   .residuals = adapt,
                                   .context = &adapted,
                                   .iterations_max = iterations };
    return fit_solve(&problem, solution, error);
}

/* Callback of two values: the third is fixed. */
static enum sim_status two_residuals(void *context, const double *values, double *residuals,
                                     struct sim_error *error)
{
    double three[3] = { values[0], values[1], 0.5 };
    return line_residuals(context, three, residuals, error);
}

static enum sim_status solve_two(struct line_model *model, const struct fit_value *values,
                                 uint32_t iterations, struct fit_solution *solution, struct sim_error *error)
{
    struct adapted adapted = { two_residuals, model, 0 };
    struct fit_problem problem = { .value_count = 2,
                                   .row_count = ROWS,
                                   .values = values,
                                   .residuals = adapt,
                                   .context = &adapted,
                                   .iterations_max = iterations };
    return fit_solve(&problem, solution, error);
}

Test(fit, disturbed_values_return)
{
    struct line_model model;
    struct fit_solution solution;
    struct sim_error error = { 0 };
    make_rows(&model, 0);
    cr_assert(eq(int, solve_two(&model, wide, 0, &solution, &error), SIM_OK), "%s", error.text);
    cr_expect(fabs(solution.value[0] / 4 - 1) < 0.05, "a = %g, made with 4", solution.value[0]);
    cr_expect(fabs(solution.value[1] / 30 - 1) < 0.05, "b = %g, made with 30", solution.value[1]);
    cr_expect(solution.standard_error[0] > 0 && solution.standard_error[0] < 0.2, "std error %g",
              solution.standard_error[0]);
    /* A longer fixed part is made up by a higher rate, and both make the mid rows: a rise in a asks for a rise in b. */
    cr_expect(solution.correlation[0][1] > 0 && solution.correlation[0][1] < 1, "correlation %g",
              solution.correlation[0][1]);
}

/* One row in six is three times too long: plain least squares would put b far off. */
Test(fit, outliers_are_resisted)
{
    struct line_model model;
    struct fit_solution solution;
    struct sim_error error = { 0 };
    make_rows(&model, 6);
    cr_assert(eq(int, solve_two(&model, wide, 0, &solution, &error), SIM_OK), "%s", error.text);
    cr_expect(fabs(solution.value[0] / 4 - 1) < 0.05, "a = %g, made with 4", solution.value[0]);
    cr_expect(fabs(solution.value[1] / 30 - 1) < 0.05, "b = %g, made with 30", solution.value[1]);
    for (size_t r = 0; r < ROWS; r++) {
        cr_expect(eq(int, solution.weight[r] == 0, r % 6 == 3), "row %zu has weight %g", r,
                  solution.weight[r]);
    }
}

/* The rows were made with b = 30; it may not pass 25. */
Test(fit, bounds_are_never_passed)
{
    static const struct fit_value narrow[2] = { { 2, 1, 10 }, { 12, 10, 25 } };
    struct line_model model;
    struct fit_solution solution;
    struct sim_error error = { 0 };
    make_rows(&model, 0);
    cr_assert(eq(int, solve_two(&model, narrow, 0, &solution, &error), SIM_OK), "%s", error.text);
    cr_expect(model.seen_low[1] >= 10 && model.seen_high[1] <= 25, "tried %g..%g", model.seen_low[1],
              model.seen_high[1]);
    cr_expect(model.seen_low[0] >= 1 && model.seen_high[0] <= 10, "tried %g..%g", model.seen_low[0],
              model.seen_high[0]);
    cr_expect(solution.value[1] > 24 && solution.value[1] <= 25, "b = %g, should lean on its bound",
              solution.value[1]);
}

Test(fit, a_value_without_effect_is_named_and_kept)
{
    struct line_model model;
    struct fit_solution solution;
    struct sim_error error = { 0 };
    make_rows(&model, 0);
    cr_assert(eq(int, solve(&model, wide, 3, 0, &solution, &error), SIM_OK), "%s", error.text);
    cr_assert(eq(sz, solution.direction_count, 1));
    cr_expect(eq(sz, solution.direction[0].fixed, 2));
    cr_expect(isinf(solution.direction[0].spread));
    cr_expect(fabs(fabs(solution.direction[0].part[2]) - 1) < 1e-6);
    cr_expect(not(solution.identified[2]));
    cr_expect(isnan(solution.standard_error[2]));
    cr_expect(eq(dbl, solution.value[2], 0.5));
    cr_expect(fabs(solution.value[1] / 30 - 1) < 0.05, "b = %g, made with 30", solution.value[1]);
}

Test(fit, two_steps_do_not_converge)
{
    struct line_model model;
    struct fit_solution solution;
    struct sim_error error = { 0 };
    make_rows(&model, 0);
    cr_expect(eq(int, solve_two(&model, wide, 2, &solution, &error), SIM_UNSUPPORTED));
    cr_expect(strstr(error.text, "does not converge") != NULL, "%s", error.text);
}

/* Every row errs by 10% at the kink and more on either side, while differences across it say that a step up helps. The rows lie 0.1 / 0.6745
 * about nought, by the median: beside a slope of 0.2 that leaves 0.15 / (0.2 sqrt 24) = 0.15 of the range open, about the kink. */
static enum sim_status kinked(void *context, const double *values, double *residuals, struct sim_error *error)
{
    (void)context;
    (void)error;
    for (size_t r = 0; r < ROWS; r++) {
        double away = values[0] - 0.5;
        residuals[r] = 0.1 + 0.001 * sin((double)r) + (away < 0 ? -4 * away : 0.2 * away);
    }
    return SIM_OK;
}

Test(fit, a_kink_is_found_with_its_doubt_or_not_at_all)
{
    static const struct fit_value value = { 0.3, 0, 1 };
    struct fit_solution solution;
    struct sim_error error = { 0 };
    struct adapted adapted = { kinked, NULL, 0 };
    struct fit_problem problem = {
        .value_count = 1, .row_count = ROWS, .values = &value, .residuals = adapt, .context = &adapted
    };
    if (fit_solve(&problem, &solution, &error) == SIM_OK) {
        cr_expect(epsilon_eq(dbl, solution.value[0], 0.5, 0.05));
        cr_expect(gt(dbl, solution.standard_error[0], 0.1));
    } else {
        cr_expect(strstr(error.text, "does not converge") != NULL || strstr(error.text, "identify none") != NULL, "%s", error.text);
    }
}

/* A simulator's answers jump by a few tenths of a percent: here by 0.4% with the last digits of the values. */
static enum sim_status jumpy(void *context, const double *values, double *residuals, struct sim_error *error)
{
    enum sim_status status = two_residuals(context, values, residuals, error);
    for (size_t r = 0; r < ROWS; r++) {
        residuals[r] += 0.004 * sin(1e5 * (values[0] + values[1]) + 11.0 * (double)r);
    }
    return status;
}

Test(fit, answers_that_jump_are_fitted)
{
    static const struct fit_value narrow[2] = { { 3.5, 3, 5 }, { 34, 24, 36 } };
    struct line_model model;
    struct fit_solution solution;
    struct sim_error error = { 0 };
    make_rows(&model, 6);
    struct adapted adapted = { jumpy, &model, 0 };
    struct fit_problem problem = {
        .value_count = 2, .row_count = ROWS, .values = narrow, .residuals = adapt, .context = &adapted
    };
    cr_assert(eq(int, fit_solve(&problem, &solution, &error), SIM_OK), "%s", error.text);
    cr_expect(fabs(solution.value[0] / 4 - 1) < 0.05, "a = %g, made with 4", solution.value[0]);
    cr_expect(fabs(solution.value[1] / 30 - 1) < 0.05, "b = %g, made with 30", solution.value[1]);
}

Test(fit, an_error_of_the_model_ends_it)
{
    struct line_model model;
    struct fit_solution solution;
    struct sim_error error = { 0 };
    make_rows(&model, 0);
    model.fails_after = 3;
    cr_expect(eq(int, solve_two(&model, wide, 0, &solution, &error), SIM_DOES_NOT_FIT));
    cr_expect(eq(str, error.text, "the model says no"));
}

Test(fit, same_input_same_bytes)
{
    struct line_model model;
    static struct fit_solution one, two;
    struct sim_error error = { 0 };
    make_rows(&model, 6);
    cr_assert(eq(int, solve_two(&model, wide, 0, &one, &error), SIM_OK));
    cr_assert(eq(int, solve_two(&model, wide, 0, &two, &error), SIM_OK));
    cr_expect(memcmp(one.value, two.value, sizeof one.value) == 0);
}

Test(fit, senseless_problems_are_refused)
{
    struct line_model model;
    struct fit_solution solution;
    struct sim_error error = { 0 };
    struct fit_value bad[2] = { { 2, 1, 10 }, { 95, 10, 90 } };
    make_rows(&model, 0);
    cr_expect(eq(int, solve_two(&model, bad, 0, &solution, &error), SIM_BAD_ARGUMENT),
              "start above its range");
    bad[1] = (struct fit_value){ 10, 10, 10 };
    cr_expect(eq(int, solve_two(&model, bad, 0, &solution, &error), SIM_BAD_ARGUMENT), "empty range");
    struct adapted adapted = { two_residuals, &model, 0 };
    struct fit_problem few = {
        .value_count = 2, .row_count = 1, .values = wide, .residuals = adapt, .context = &adapted
    };
    cr_expect(eq(int, fit_solve(&few, &solution, &error), SIM_BAD_ARGUMENT), "fewer rows than values");
}

/* Two groups of two values. Rows below 12 heed the first group alone, by a line; the others the second. */
static enum sim_status split_residuals(void *context, const double *values, double *residuals,
                                       struct sim_error *error)
{
    const struct line_model *model = context;
    (void)error;
    for (size_t r = 0; r < ROWS; r++) {
        const double *own = r < 12 ? values : values + 2;
        residuals[r] = (own[0] + model->size[r] / own[1]) / model->measured[r] - 1;
    }
    return SIM_OK;
}

/* Trials cost rows, so rows are asked for only where a value moves them: of 24 rows and 4 values, 48 pairs of 96. Without groups the
 * screening finds the same pairs, value by value. */
Test(fit, rows_are_asked_only_for_values_that_move_them)
{
    static const struct fit_value values[4] = {
        { 3.5, 1, 10 }, { 40, 10, 90 }, { 5, 1, 10 }, { 25, 10, 90 }
    };
    static const uint32_t group[4] = { 7, 7, 9, 9 };
    struct line_model model;
    struct fit_solution grouped, single;
    struct sim_error error = { 0 };
    make_rows(&model, 0);
    struct adapted adapted = { split_residuals, &model, 0 };
    struct fit_problem problem = { .value_count = 4,
                                   .row_count = ROWS,
                                   .values = values,
                                   .group = group,
                                   .residuals = adapt,
                                   .context = &adapted };
    cr_assert(eq(int, fit_solve(&problem, &grouped, &error), SIM_OK), "%s", error.text);
    cr_expect(eq(sz, grouped.heeding, 48));
    cr_expect(eq(sz, grouped.tasks, adapted.tasks));
    problem.group = NULL;
    cr_assert(eq(int, fit_solve(&problem, &single, &error), SIM_OK), "%s", error.text);
    cr_expect(eq(sz, single.heeding, 48));
    for (size_t i = 0; i < 4; i++) {
        cr_expect(fabs(grouped.value[i] / (i % 2 == 0 ? 4 : 30) - 1) < 0.05, "value %zu is %g", i, grouped.value[i]);
        cr_expect(fabs(single.value[i] / grouped.value[i] - 1) < 0.02, "groups change which points are tried, not the answer");
    }
}

/* Rows trusted at a thousandth pull next to nothing: every sixth is three times too long, and Tukey is not needed for it. */
Test(fit, a_row_counts_as_it_is_trusted)
{
    struct line_model model;
    struct fit_solution solution;
    struct sim_error error = { 0 };
    double trust[ROWS];
    make_rows(&model, 0);
    for (size_t r = 0; r < ROWS; r++) {
        trust[r] = r % 2 == 0 ? 0.001 : 1;
        model.measured[r] *= r % 2 == 0 ? 1.03 : 1; /* near enough not to be an outlier */
    }
    struct adapted adapted = { two_residuals, &model, 0 };
    struct fit_problem problem = { .value_count = 2,
                                   .row_count = ROWS,
                                   .values = wide,
                                   .trust = trust,
                                   .residuals = adapt,
                                   .context = &adapted };
    cr_assert(eq(int, fit_solve(&problem, &solution, &error), SIM_OK), "%s", error.text);
    cr_expect(fabs(solution.value[1] / 30 - 1) < 0.005, "b = %g, made with 30; with equal trust 29.6", solution.value[1]);
}
