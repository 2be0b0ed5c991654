#include "calib/fit.h"
#include <gsl/gsl_blas.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_linalg.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ITERATIONS_DEFAULT 60
#define ITERATIONS_PER_ROUND 8 /* steps between two re-weightings */
#define DIFFERENCE \
    0.06 /* of a value's range, away from the nearer bound: wide, since a simulator's answers scatter by tenths of a percent */
#define SCREEN 0.25 /* of the range, each way, all values of a group at once: rows that stay the same heed none of them */
#define SECANT_MIN 0.02 /* of the range: shorter steps say more of the scatter than of a slope */
#define EDGE \
    0.01 /* of the range: a start on a bound is moved this far inside, where its derivative is not zero */
#define PRIOR 0.01        /* moving a value through its whole range costs as much as one row off by this */
#define TUKEY 4.685       /* 95% efficient where residuals are normal */
#define SCATTER_MIN 0.003 /* rows closer than this are all equally good: measurements repeat no better */
#define STEP_MIN 0.003    /* of the range: smaller steps end a round */
#define SETTLED 0.01      /* of the range: values that move less between rounds have converged */
#define UNIDENTIFIED 0.5  /* of the range: a direction known no better is not known */
#define SLOPE_REACH \
    0.3 /* of the range: slopes, corrected by the steps taken since, hold this far from where they were taken */
#define FRESH 0.03 /* of the range: slopes so near are the point's own; a fit ends on no others */
#define NEAR_BOUND \
    0.15 /* of the range: a value here that is pushed outwards only creeps on and counts as on its bound */
#define LEFT_OVER_MAX \
    1.0 /* what a further step promises, over what scatter alone would promise, above which a stop is no minimum */

struct trial { /* answers of one set of values */
    double values[FIT_VALUES_MAX], residuals[FIT_ROWS_MAX];
};

/* A value v between low and high is fitted as p: v = low + (high - low) share(p). */
struct solver {
    const struct fit_problem *problem;
    size_t active[FIT_VALUES_MAX], active_count; /* the values still free; the others stay at their start */
    double weight[FIT_ROWS_MAX];
    struct trial *trials; /* every one so far: a row is asked for again only when a value changed that it heeds */
    size_t trial_count;
    /* By value, not by active value. A row heeds a value until moves of it both ways left the row the same to the bit. */
    bool heeds[FIT_ROWS_MAX][FIT_VALUES_MAX], still_up[FIT_ROWS_MAX][FIT_VALUES_MAX],
        still_down[FIT_ROWS_MAX][FIT_VALUES_MAX];
    bool screened, has_slope;
    uint32_t slopes_taken;
    double slope[FIT_ROWS_MAX][FIT_VALUES_MAX], /* d residual / d share of the active values, at slope_at */
        fresh_at[FIT_VALUES_MAX],               /* shares where they were last taken by differences */
        slope_at[FIT_VALUES_MAX], slope_rows[FIT_ROWS_MAX];
    uint32_t iterations, evaluations;
    size_t tasks;
    enum sim_status status; /* of the model: GSL's callbacks can only say "failed" */
    struct sim_error *error;
};

static double share_of(double p)
{
    return 1 / (1 + exp(-p));
}
static double logit(double share)
{
    return log(share / (1 - share));
}
static double range_of(const struct fit_value *value)
{
    return value->high - value->low;
}

static double trust_of(const struct fit_problem *problem, size_t row)
{
    return problem->trust != NULL ? problem->trust[row] : 1;
}

static double start_share(const struct fit_value *value)
{
    return fmin(fmax((value->start - value->low) / range_of(value), EDGE), 1 - EDGE);
}

/* ---- answers of the model, each row asked for once per value that it heeds */

static bool same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static bool answers_row(const struct solver *solver, const struct trial *trial, const double *values, size_t r)
{
    for (size_t i = 0; i < solver->problem->value_count; i++) {
        if (solver->heeds[r][i] && !same_bits(trial->values[i], values[i])) {
            return false;
        }
    }
    return true;
}

static const struct trial *trial_of_row(const struct solver *solver, const double *values, size_t r)
{
    for (size_t t = solver->trial_count; t-- > 0;) {
        if (answers_row(solver, &solver->trials[t], values, r)) {
            return &solver->trials[t];
        }
    }
    return NULL;
}

static void values_of(const struct solver *solver, const double *shares, double *values)
{
    const struct fit_problem *problem = solver->problem;
    for (size_t i = 0; i < problem->value_count; i++) {
        values[i] = problem->values[i].start;
    }
    for (size_t a = 0; a < solver->active_count; a++) {
        const struct fit_value *value = &problem->values[solver->active[a]];
        values[solver->active[a]] = fmin(value->low + range_of(value) * shares[a], value->high);
    }
}

static enum sim_status check_finite(struct solver *solver, const struct fit_task *tasks, size_t task_count,
                                    const double *answers)
{
    for (size_t t = 0; t < task_count; t++) {
        if (!isfinite(answers[t])) {
            return sim_fail(solver->error, SIM_UNSUPPORTED, "row %zu of the fit has no finite prediction",
                            tasks[t].row + 1);
        }
    }
    return SIM_OK;
}

/* Answers of `count` sets of values that the caller has put into `trials`, which then join those known. */
static enum sim_status answer(struct solver *solver, struct trial *trials, size_t count)
{
    const struct fit_problem *problem = solver->problem;
    struct fit_task *tasks = malloc((count * problem->row_count + 1) * sizeof *tasks);
    double *answers = malloc((count * problem->row_count + 1) * sizeof *answers), **places = NULL;
    size_t task_count = 0;
    places = malloc((count * problem->row_count + 1) * sizeof *places);
    SIM_ASSERT(tasks != NULL && answers != NULL && places != NULL, "no memory for %zu trials", count);
    for (size_t p = 0; p < count; p++) {
        for (size_t r = 0; r < problem->row_count; r++) {
            const struct trial *known = trial_of_row(solver, trials[p].values, r);
            if (known != NULL) {
                trials[p].residuals[r] = known->residuals[r];
            } else {
                places[task_count] = &trials[p].residuals[r];
                tasks[task_count++] = (struct fit_task){ r, trials[p].values };
            }
        }
    }
    solver->evaluations += (uint32_t)count;
    solver->tasks += task_count;
    solver->status = task_count > 0
                         ? problem->residuals(problem->context, tasks, task_count, answers, solver->error)
                         : SIM_OK;
    if (solver->status == SIM_OK) {
        solver->status = check_finite(solver, tasks, task_count, answers);
    }
    if (solver->status == SIM_OK) {
        for (size_t t = 0; t < task_count; t++) {
            *places[t] = answers[t];
        }
        solver->trials = realloc(solver->trials, (solver->trial_count + count) * sizeof *solver->trials);
        SIM_ASSERT(solver->trials != NULL, "no memory for %zu trials", solver->trial_count);
        memcpy(&solver->trials[solver->trial_count], trials, count * sizeof *trials);
        solver->trial_count += count;
    }
    free(tasks);
    free(answers);
    free(places);
    return solver->status;
}

/* Residuals of the rows where the active values have these shares of their ranges. */
static enum sim_status rows_at(struct solver *solver, const double *shares, double *residuals)
{
    struct trial trial;
    values_of(solver, shares, trial.values);
    if (answer(solver, &trial, 1) == SIM_OK) {
        memcpy(residuals, trial.residuals, solver->problem->row_count * sizeof residuals[0]);
    }
    return solver->status;
}

static void shares_of(const struct solver *solver, const gsl_vector *x, double *shares)
{
    for (size_t a = 0; a < solver->active_count; a++) {
        shares[a] = share_of(gsl_vector_get(x, a));
    }
}

/* ---- what GSL asks for: rows first, then one residual per value that holds it weakly to its start */

static int residuals_at(const gsl_vector *x, void *context, gsl_vector *f)
{
    struct solver *solver = context;
    double shares[FIT_VALUES_MAX], rows[FIT_ROWS_MAX];
    shares_of(solver, x, shares);
    if (rows_at(solver, shares, rows) != SIM_OK) {
        return GSL_EFAILED;
    }
    for (size_t r = 0; r < solver->problem->row_count; r++) {
        gsl_vector_set(f, r, rows[r]);
    }
    for (size_t a = 0; a < solver->active_count; a++) {
        gsl_vector_set(f, solver->problem->row_count + a,
                       PRIOR * (shares[a] - start_share(&solver->problem->values[solver->active[a]])));
    }
    return GSL_SUCCESS;
}

static double largest_move(const double *a, const double *b, size_t count)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(a[i] - b[i]));
    }
    return largest;
}

/* ---- slopes */

static uint32_t group_of(const struct fit_problem *problem, size_t value)
{
    return problem->group != NULL ? problem->group[value] : 0;
}

static void note_still(struct solver *solver, size_t value, bool up, const double *rows, const double *moved)
{
    for (size_t r = 0; r < solver->problem->row_count; r++) {
        bool *still = up ? &solver->still_up[r][value] : &solver->still_down[r][value];
        *still = *still || same_bits(rows[r], moved[r]);
        if (solver->still_up[r][value] && solver->still_down[r][value]) {
            solver->heeds[r][value] = false;
        }
    }
}

/* Move all active values of a group at once, up and down. Most rows heed few groups, and a trial of all rows is what costs. */
static enum sim_status screen(struct solver *solver, const double *shares, const double *rows)
{
    struct trial trials[2 * FIT_VALUES_MAX];
    size_t trial_of[FIT_VALUES_MAX], count = 0;
    for (size_t a = 0; a < solver->active_count; a++) {
        uint32_t group = group_of(solver->problem, solver->active[a]);
        size_t earlier = 0;
        while (group_of(solver->problem, solver->active[earlier]) != group) {
            earlier++;
        }
        trial_of[a] = earlier < a ? trial_of[earlier] : count;
        if (earlier < a) {
            continue;
        }
        for (int way = 1; way >= -1; way -= 2) {
            double moved[FIT_VALUES_MAX];
            for (size_t b = 0; b < solver->active_count; b++) {
                bool moves = group_of(solver->problem, solver->active[b]) == group;
                moved[b] = moves ? fmin(fmax(shares[b] + SCREEN * way, 0), 1) : shares[b];
            }
            values_of(solver, moved, trials[count++].values);
        }
    }
    if (answer(solver, trials, count) != SIM_OK) {
        return solver->status;
    }
    for (size_t a = 0; a < solver->active_count; a++) {
        note_still(solver, solver->active[a], true, rows, trials[trial_of[a]].residuals);
        note_still(solver, solver->active[a], false, rows, trials[trial_of[a] + 1].residuals);
    }
    solver->screened = true;
    return SIM_OK;
}

/* Correct the slopes by what the step from slope_at to `shares` did, each row by the values that it heeds (Broyden's update,
 * kept sparse as Schubert does). */
static void slopes_by_step(struct solver *solver, const double *shares, const double *rows)
{
    for (size_t r = 0; r < solver->problem->row_count; r++) {
        double length = 0, promised = 0;
        for (size_t a = 0; a < solver->active_count; a++) {
            if (solver->heeds[r][solver->active[a]]) {
                double step = shares[a] - solver->slope_at[a];
                length += step * step;
                promised += step * solver->slope[r][a];
            }
        }
        if (length < SECANT_MIN * SECANT_MIN) {
            continue;
        }
        double missed = rows[r] - solver->slope_rows[r] - promised;
        for (size_t a = 0; a < solver->active_count; a++) {
            if (solver->heeds[r][solver->active[a]]) {
                solver->slope[r][a] += missed * (shares[a] - solver->slope_at[a]) / length;
            }
        }
    }
    memcpy(solver->slope_at, shares, solver->active_count * sizeof shares[0]);
    memcpy(solver->slope_rows, rows, solver->problem->row_count * sizeof rows[0]);
}

/* Away from the nearer bound, and where both are far the other way every second time, so that what a row heeds is learnt. */
static double way_of(const struct solver *solver, double share)
{
    bool far = share > DIFFERENCE && share < 1 - DIFFERENCE;
    double way = share < 0.5 ? 1 : -1;
    return far && solver->slopes_taken % 2 == 1 ? -way : way;
}

/* Slopes by differences that stay inside the bounds, all at once. */
static enum sim_status slopes_by_differences(struct solver *solver, const double *shares, const double *rows)
{
    struct trial trials[FIT_VALUES_MAX];
    double way[FIT_VALUES_MAX];
    solver->has_slope = false;
    if (!solver->screened && screen(solver, shares, rows) != SIM_OK) {
        return solver->status;
    }
    for (size_t a = 0; a < solver->active_count; a++) {
        double moved[FIT_VALUES_MAX];
        memcpy(moved, shares, solver->active_count * sizeof moved[0]);
        way[a] = way_of(solver, shares[a]);
        moved[a] += DIFFERENCE * way[a];
        values_of(solver, moved, trials[a].values);
    }
    if (answer(solver, trials, solver->active_count) != SIM_OK) {
        return solver->status;
    }
    for (size_t a = 0; a < solver->active_count; a++) {
        for (size_t r = 0; r < solver->problem->row_count; r++) {
            solver->slope[r][a] = (trials[a].residuals[r] - rows[r]) / (DIFFERENCE * way[a]);
        }
        note_still(solver, solver->active[a], way[a] > 0, rows, trials[a].residuals);
    }
    solver->slopes_taken++;
    memcpy(solver->fresh_at, shares, solver->active_count * sizeof shares[0]);
    memcpy(solver->slope_at, shares, solver->active_count * sizeof shares[0]);
    memcpy(solver->slope_rows, rows, solver->problem->row_count * sizeof rows[0]);
    solver->has_slope = true;
    return SIM_OK;
}

/* Slopes at `shares`: those of a point up to `reach` away, corrected, or by differences here. */
static enum sim_status slopes_near(struct solver *solver, const double *shares, double reach)
{
    double rows[FIT_ROWS_MAX];
    if (rows_at(solver, shares, rows) != SIM_OK) {
        return solver->status;
    }
    if (solver->has_slope && largest_move(shares, solver->fresh_at, solver->active_count) <= reach) {
        slopes_by_step(solver, shares, rows);
        return SIM_OK;
    }
    return slopes_by_differences(solver, shares, rows);
}

static int jacobian_at(const gsl_vector *x, void *context, gsl_matrix *jacobian)
{
    struct solver *solver = context;
    double shares[FIT_VALUES_MAX];
    size_t rows = solver->problem->row_count;
    shares_of(solver, x, shares);
    if (slopes_near(solver, shares, SLOPE_REACH) != SIM_OK) {
        return GSL_EFAILED;
    }
    gsl_matrix_set_zero(jacobian);
    for (size_t a = 0; a < solver->active_count; a++) {
        double chain = shares[a] * (1 - shares[a]); /* d share / d p */
        for (size_t r = 0; r < rows; r++) {
            gsl_matrix_set(jacobian, r, a, solver->slope[r][a] * chain);
        }
        gsl_matrix_set(jacobian, rows + a, a, PRIOR * chain);
    }
    return GSL_SUCCESS;
}

/* ---- robust weights */

static int by_number(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Median of |residual| as a standard deviation, corrected for the values fitted. */
static double scatter_of(const double *residuals, size_t rows, size_t values)
{
    double sorted[FIT_ROWS_MAX];
    for (size_t r = 0; r < rows; r++) {
        sorted[r] = fabs(residuals[r]);
    }
    qsort(sorted, rows, sizeof sorted[0], by_number);
    double median = rows % 2 == 1 ? sorted[rows / 2] : (sorted[rows / 2 - 1] + sorted[rows / 2]) / 2;
    double freedom = rows > values ? sqrt((double)rows / (double)(rows - values)) : 1;
    return fmax(median / 0.6745 * freedom, SCATTER_MIN);
}

static void reweight(struct solver *solver, const double *residuals, double scatter)
{
    for (size_t r = 0; r < solver->problem->row_count; r++) {
        double u = residuals[r] / (TUKEY * scatter);
        solver->weight[r] = trust_of(solver->problem, r) * (fabs(u) < 1 ? (1 - u * u) * (1 - u * u) : 0);
    }
}

/* ---- one fit of the active values */

enum round_end { ROUND_SETTLED, ROUND_STUCK, ROUND_UNFINISHED, ROUND_FAILED };

/* Steps under fixed weights, until they are small, none helps, or the round's share of steps is used up. */
static enum round_end run_round(struct solver *solver, gsl_multifit_nlinear_workspace *work, double *shares,
                                uint32_t iterations_max)
{
    double before[FIT_VALUES_MAX];
    for (uint32_t i = 0; i < ITERATIONS_PER_ROUND; i++) {
        if (solver->iterations >= iterations_max) {
            return ROUND_UNFINISHED;
        }
        memcpy(before, shares, solver->active_count * sizeof before[0]);
        solver->iterations++;
        int status = gsl_multifit_nlinear_iterate(work);
        if (solver->status != SIM_OK) {
            return ROUND_FAILED;
        }
        shares_of(solver, gsl_multifit_nlinear_position(work), shares);
        if (status != GSL_SUCCESS) {
            return ROUND_STUCK;
        }
        if (largest_move(before, shares, solver->active_count) < STEP_MIN) {
            return ROUND_SETTLED;
        }
    }
    return ROUND_UNFINISHED;
}

static void set_weights(const struct solver *solver, gsl_vector *weights)
{
    gsl_vector_set_all(weights, 1);
    for (size_t r = 0; r < solver->problem->row_count; r++) {
        gsl_vector_set(weights, r, fmax(solver->weight[r], 1e-9)); /* GSL takes no zero */
    }
}

/* Whether a value that is on or near a bound is pushed outwards, where there is nothing to gain. */
static bool leans_on_bound(const struct solver *solver, const double *residuals, double share, size_t a)
{
    double push = 0; /* downhill */
    for (size_t r = 0; r < solver->problem->row_count; r++) {
        push -= solver->weight[r] * residuals[r] * solver->slope[r][a];
    }
    return (share < NEAR_BOUND && push < 0) || (share > 1 - NEAR_BOUND && push > 0);
}

/* Bates and Watts' relative offset: the part of the residuals that the linear model could still remove, against the part that
 * it could not, each by its degrees of freedom. 0 at a minimum; 1: a full step is as long as the values are uncertain. */
static double offset_of(const struct solver *solver, const double *shares, const double *residuals)
{
    size_t rows = solver->problem->row_count, count = solver->active_count;
    double total = 0, along = 0;
    gsl_matrix *slope = gsl_matrix_alloc(rows, count), *v = gsl_matrix_alloc(count, count);
    gsl_vector *s = gsl_vector_alloc(count), *work = gsl_vector_alloc(count);
    for (size_t a = 0; a < count; a++) {
        double free = leans_on_bound(solver, residuals, shares[a], a) ? 0 : 1;
        for (size_t r = 0; r < rows; r++) {
            gsl_matrix_set(slope, r, a, solver->slope[r][a] * sqrt(solver->weight[r]) * free);
        }
    }
    gsl_linalg_SV_decomp(slope, v, s, work);
    for (size_t r = 0; r < rows; r++) {
        total += solver->weight[r] * residuals[r] * residuals[r];
    }
    for (size_t a = 0; a < count; a++) {
        double dot = 0, singular = gsl_vector_get(s, a);
        for (size_t r = 0; r < rows; r++) {
            dot += gsl_matrix_get(slope, r, a) * residuals[r] * sqrt(solver->weight[r]);
        }
        along += dot * dot * singular * singular /
                 (singular * singular + PRIOR * PRIOR); /* the prior holds the others */
    }
    gsl_matrix_free(slope);
    gsl_matrix_free(v);
    gsl_vector_free(s);
    gsl_vector_free(work);
    double freedom = rows > count ? (double)(rows - count) : 1;
    double rest = fmax(total - along, (double)rows * SCATTER_MIN * SCATTER_MIN);
    return sqrt(along / (double)count / (rest / freedom));
}

static enum sim_status not_converged(const struct solver *solver, const char *why)
{
    return sim_fail(solver->error, SIM_UNSUPPORTED,
                    "the fit does not converge: %s after %u steps and %u evaluations", why,
                    solver->iterations, solver->evaluations);
}

/* Re-weighted rounds until the values stay where they are. `shares`: start in, solution out; `residuals` of it out. */
static enum sim_status rounds(struct solver *solver, gsl_multifit_nlinear_workspace *work, gsl_vector *x,
                              gsl_vector *weights, double *shares, double *residuals)
{
    const struct fit_problem *problem = solver->problem;
    uint32_t iterations_max = solver->iterations +
                              (problem->iterations_max > 0 ? problem->iterations_max : ITERATIONS_DEFAULT);
    gsl_multifit_nlinear_fdf system = { .f = residuals_at,
                                        .df = jacobian_at,
                                        .n = problem->row_count + solver->active_count,
                                        .p = solver->active_count,
                                        .params = solver };
    double before[FIT_VALUES_MAX];
    for (bool first = true;; first = false) {
        for (size_t a = 0; a < solver->active_count; a++) {
            gsl_vector_set(x, a, logit(fmin(fmax(shares[a], 1e-6), 1 - 1e-6)));
        }
        memcpy(before, shares, solver->active_count * sizeof before[0]);
        set_weights(solver, weights);
        gsl_multifit_nlinear_winit(x, weights, &system, work);
        enum round_end end = solver->status == SIM_OK ? run_round(solver, work, shares, iterations_max)
                                                      : ROUND_FAILED;
        if (end == ROUND_FAILED || rows_at(solver, shares, residuals) != SIM_OK) {
            return solver->status;
        }
        reweight(solver, residuals, scatter_of(residuals, problem->row_count, solver->active_count));
        if (!first && end != ROUND_UNFINISHED &&
            largest_move(before, shares, solver->active_count) < SETTLED) {
            if (largest_move(shares, solver->fresh_at, solver->active_count) <= FRESH) {
                break;
            }
            solver->has_slope = false; /* perhaps only the old slopes have nothing left to offer */
        }
        if (solver->iterations >= iterations_max) {
            return not_converged(solver, "values still move");
        }
    }
    return offset_of(solver, shares, residuals) > LEFT_OVER_MAX
               ? not_converged(solver, "no step helps, though the errors follow the free values,")
               : SIM_OK;
}

static enum sim_status fit_active(struct solver *solver, double *shares, double *residuals)
{
    size_t rows = solver->problem->row_count + solver->active_count;
    gsl_multifit_nlinear_parameters parameters = gsl_multifit_nlinear_default_parameters();
    gsl_multifit_nlinear_workspace *work = gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &parameters,
                                                                      rows, solver->active_count);
    gsl_vector *x = gsl_vector_alloc(solver->active_count), *weights = gsl_vector_alloc(rows);
    enum sim_status status = work != NULL && x != NULL && weights != NULL
                                 ? rounds(solver, work, x, weights, shares, residuals)
                                 : sim_fail(solver->error, SIM_NO_MEMORY, "no memory for a fit");
    gsl_multifit_nlinear_free(work);
    gsl_vector_free(x);
    gsl_vector_free(weights);
    return status;
}

/* ---- what the rows tell */

/* Singular directions of the weighted slopes: spread along each, and the covariance of the shares. */
struct identification {
    gsl_matrix *slope, *v;
    gsl_vector *s, *work;
    size_t worst; /* direction with the widest spread */
    double spread;
};

static void identification_finish(struct identification *known)
{
    gsl_matrix_free(known->slope);
    gsl_matrix_free(known->v);
    gsl_vector_free(known->s);
    gsl_vector_free(known->work);
}

static enum sim_status identify(struct solver *solver, const double *shares, double scatter,
                                struct identification *known)
{
    size_t rows = solver->problem->row_count, count = solver->active_count;
    *known = (struct identification){ gsl_matrix_alloc(rows, count),
                                      gsl_matrix_alloc(count, count),
                                      gsl_vector_alloc(count),
                                      gsl_vector_alloc(count),
                                      count - 1,
                                      INFINITY };
    if (slopes_near(solver, shares, FRESH) != SIM_OK) {
        return solver->status;
    }
    for (size_t r = 0; r < rows; r++) {
        for (size_t a = 0; a < count; a++) {
            gsl_matrix_set(known->slope, r, a, solver->slope[r][a] * sqrt(solver->weight[r]));
        }
    }
    gsl_linalg_SV_decomp(known->slope, known->v, known->s,
                         known->work); /* singular values fall: the last is the worst known */
    double least = gsl_vector_get(known->s, known->worst);
    known->spread = least > 1e-12 ? scatter / least : INFINITY;
    return SIM_OK;
}

/* Put the value that makes up most of the worst direction back to its start, and note the direction. */
static void fix_worst(struct solver *solver, const struct identification *known, double *shares,
                      struct fit_solution *solution)
{
    struct fit_direction *direction = &solution->direction[solution->direction_count++];
    size_t largest = 0;
    *direction = (struct fit_direction){ .spread = known->spread };
    for (size_t a = 0; a < solver->active_count; a++) {
        double part = gsl_matrix_get(known->v, a, known->worst);
        direction->part[solver->active[a]] = part;
        if (fabs(part) > fabs(gsl_matrix_get(known->v, largest, known->worst))) {
            largest = a;
        }
    }
    direction->fixed = solver->active[largest];
    solution->identified[direction->fixed] = false;
    solver->active_count--;
    for (size_t a = largest; a < solver->active_count; a++) {
        solver->active[a] = solver->active[a + 1];
        shares[a] = shares[a + 1];
        solver->slope_at[a] = solver->slope_at[a + 1];
        solver->fresh_at[a] = solver->fresh_at[a + 1];
        for (size_t r = 0; r < solver->problem->row_count; r++) {
            solver->slope[r][a] = solver->slope[r][a + 1];
        }
    }
}

static void fill_errors(const struct solver *solver, const struct identification *known, double scatter,
                        struct fit_solution *solution)
{
    size_t count = solver->active_count;
    double covariance[FIT_VALUES_MAX][FIT_VALUES_MAX];
    for (size_t a = 0; a < count; a++) {
        for (size_t b = 0; b < count; b++) {
            covariance[a][b] = 0;
            for (size_t k = 0; k < count; k++) {
                double s = gsl_vector_get(known->s, k);
                covariance[a][b] += gsl_matrix_get(known->v, a, k) * gsl_matrix_get(known->v, b, k) *
                                    scatter * scatter / (s * s);
            }
        }
    }
    for (size_t a = 0; a < count; a++) {
        size_t i = solver->active[a];
        solution->standard_error[i] = sqrt(covariance[a][a]) * range_of(&solver->problem->values[i]);
        for (size_t b = 0; b < count; b++) {
            solution->correlation[i][solver->active[b]] = covariance[a][b] /
                                                          sqrt(covariance[a][a] * covariance[b][b]);
        }
    }
}

static enum sim_status solve(struct solver *solver, struct fit_solution *solution)
{
    const struct fit_problem *problem = solver->problem;
    double shares[FIT_VALUES_MAX];
    for (size_t a = 0; a < solver->active_count; a++) {
        shares[a] = start_share(&problem->values[a]);
    }
    for (;;) {
        struct identification known = { 0 };
        enum sim_status status = fit_active(solver, shares, solution->residual);
        if (status != SIM_OK) {
            return status;
        }
        solution->scatter = scatter_of(solution->residual, problem->row_count, solver->active_count);
        status = identify(solver, shares, solution->scatter, &known);
        if (status == SIM_OK && known.spread < UNIDENTIFIED) {
            fill_errors(solver, &known, solution->scatter, solution);
            identification_finish(&known);
            break;
        }
        if (status == SIM_OK) {
            fix_worst(solver, &known, shares, solution);
        }
        identification_finish(&known);
        if (status != SIM_OK || solver->active_count == 0) {
            return status != SIM_OK
                       ? status
                       : sim_fail(solver->error, SIM_UNSUPPORTED, "the rows identify none of the %zu values",
                                  problem->value_count);
        }
    }
    for (size_t a = 0; a < solver->active_count; a++) {
        const struct fit_value *value = &problem->values[solver->active[a]];
        solution->value[solver->active[a]] = fmin(value->low + range_of(value) * shares[a], value->high);
    }
    return SIM_OK;
}

static enum sim_status check(const struct fit_problem *problem, struct sim_error *error)
{
    if (problem->value_count == 0 || problem->value_count > FIT_VALUES_MAX) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "%zu free values, must be 1..%d", problem->value_count,
                        FIT_VALUES_MAX);
    }
    if (problem->row_count < problem->value_count || problem->row_count > FIT_ROWS_MAX) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "%zu rows for %zu free values, must be %zu..%d",
                        problem->row_count, problem->value_count, problem->value_count, FIT_ROWS_MAX);
    }
    for (size_t i = 0; i < problem->value_count; i++) {
        const struct fit_value *value = &problem->values[i];
        if (!(value->low < value->high) || !(value->start >= value->low && value->start <= value->high) ||
            !isfinite(range_of(value))) {
            return sim_fail(error, SIM_BAD_ARGUMENT,
                            "free value %zu starts at %g, must lie in its range %g..%g", i + 1, value->start,
                            value->low, value->high);
        }
    }
    return SIM_OK;
}

enum sim_status fit_solve(const struct fit_problem *problem, struct fit_solution *solution,
                          struct sim_error *error)
{
    enum sim_status status = check(problem, error);
    if (status != SIM_OK) {
        return status;
    }
    struct solver *solver = calloc(1, sizeof *solver);
    if (solver == NULL) {
        return sim_fail(error, SIM_NO_MEMORY, "no memory for a fit");
    }
    solver->problem = problem;
    solver->error = error;
    gsl_set_error_handler_off(); /* the default one aborts; every code is looked at instead */
    memset(solution, 0, sizeof *solution);
    solution->value_count = problem->value_count;
    solution->row_count = problem->row_count;
    solver->active_count = problem->value_count;
    for (size_t i = 0; i < problem->value_count; i++) {
        solver->active[i] = i;
        solution->value[i] = problem->values[i].start;
        solution->identified[i] = true;
        solution->standard_error[i] = NAN;
        for (size_t k = 0; k < problem->value_count; k++) {
            solution->correlation[i][k] = NAN;
        }
    }
    for (size_t r = 0; r < problem->row_count; r++) {
        solver->weight[r] = trust_of(problem, r);
        for (size_t i = 0; i < problem->value_count; i++) {
            solver->heeds[r][i] = true;
        }
    }
    struct trial start = { { 0 }, { 0 } };
    memcpy(start.values, solution->value, sizeof start.values);
    status = answer(solver, &start, 1);
    memcpy(solution->start_residual, start.residuals, sizeof start.residuals);
    if (status == SIM_OK) {
        status = solve(solver, solution);
    }
    memcpy(solution->weight, solver->weight, sizeof solution->weight);
    solution->iterations = solver->iterations;
    solution->evaluations = solver->evaluations;
    solution->tasks = solver->tasks;
    for (size_t r = 0; r < problem->row_count; r++) {
        for (size_t i = 0; i < problem->value_count; i++) {
            solution->heeding += solver->heeds[r][i];
        }
    }
    free(solver->trials);
    free(solver);
    return status;
}
