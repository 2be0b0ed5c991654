#include "calib/fit.h"
#include <gsl/gsl_blas.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_linalg.h>
#include <gsl/gsl_multifit.h>
#include <gsl/gsl_randist.h>
#include <gsl/gsl_rng.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A simulator's answers scatter by some tenths of a percent, which is about what the last steps of a fit gain: slopes by differences
 * then say more of the scatter than of the model. So a round moves all values at once, to and fro at random within a box
 * about the best point, and reads each row's slopes out of all its answers in the box by regression; the linear model's minimum
 * within the box is the next point, and the box shrinks when the minimum lies inside or keeps little of what it promised. */

#define ROUNDS_DEFAULT 30
#define SCREEN 0.25 /* of the range, each way, all values of a group at once: rows that hardly change heed none of them */
#define HEED (SCATTER_MIN / 2) /* change of a row's error that counts */
#define SHARE_EDGE 0.01    /* of the range: a start on a bound is moved this far inside */
#define RADIUS_START 0.3   /* of the range: half the box's side */
#define RADIUS_AGAIN 0.2   /* after a value was put back */
#define RADIUS_END 0.1     /* narrower, the scatter hides the slopes, */
#define CURVED 0.4         /* unless the linear model's misfit falls by this and more as the box shrinks: then it is the model's curvature */
#define RADIUS_LEAST 0.02
#define SHRINK 0.6
#define KEPT 0.3           /* of what the linear model promised has to come true, else the box is too wide for it */
#define REACH 1.25         /* of the radius: answers no further from the centre count in the regression */
#define POINTS_PER_SLOPE 1.3
#define POINTS_SPARE 6
#define INNER 0.6          /* of the radius: points lie at least so far from the centre, where slopes show */
#define RIDGE 0.3          /* against about one a point: what keeps slopes that few points tell apart from running off */
#define PRIOR 0.01         /* moving a value through its whole range costs as much as one row off by this */
#define HUBER 1.345        /* 95% efficient where residuals are normal, */
#define TUKEY 4.685        /* and so is this */
#define SCATTER_MIN 0.003  /* rows closer than this are all equally good: measurements repeat no better */
#define SETTLED 0.03       /* of the range: a value that would move no further, or by no more than its error, has converged */
#define UNIDENTIFIED 0.29  /* of the range, its own standard deviation: a direction known no better is not known */
#define REFUSALS_MAX 4     /* rounds in a row at the narrowest box that found nothing better though values would move */
#define REWEIGHTINGS 20
#define SWEEPS 2000        /* of coordinate descent over the linear model: cheap */

struct trial { /* answers of one set of values */
    double values[FIT_VALUES_MAX], shares[FIT_VALUES_MAX], residuals[FIT_ROWS_MAX];
    bool asked[FIT_ROWS_MAX], known[FIT_ROWS_MAX];
};

/* A value v between low and high is fitted as its share: v = low + (high - low) share. */
struct solver {
    const struct fit_problem *problem;
    size_t active[FIT_VALUES_MAX], active_count; /* the values still free; the others stay at their start */
    double centre[FIT_VALUES_MAX], centre_rows[FIT_ROWS_MAX]; /* shares of the best point, by value; its residuals */
    double radius;
    bool has_settled; /* with all rows: outliers may be left out */
    double weight[FIT_ROWS_MAX];
    double at_centre[FIT_ROWS_MAX], slope[FIT_ROWS_MAX][FIT_VALUES_MAX]; /* linear model about the centre, by active value */
    double doubt[FIT_ROWS_MAX][FIT_VALUES_MAX];                          /* variance of those slopes */
    bool heeds[FIT_ROWS_MAX][FIT_VALUES_MAX];                            /* by value */
    struct trial *trials;
    size_t trial_count;
    gsl_rng *rng;
    uint32_t rounds, evaluations;
    size_t tasks;
    struct sim_error *error;
};

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
    return fmin(fmax((value->start - value->low) / range_of(value), SHARE_EDGE), 1 - SHARE_EDGE);
}

/* ---- answers of the model, each row asked for once per set of the values that it heeds */

static void set_trial(const struct solver *solver, const double *shares, struct trial *trial)
{
    const struct fit_problem *problem = solver->problem;
    memset(trial, 0, sizeof *trial);
    for (size_t i = 0; i < problem->value_count; i++) {
        trial->values[i] = problem->values[i].start;
        trial->shares[i] = shares[i];
    }
    for (size_t a = 0; a < solver->active_count; a++) {
        size_t i = solver->active[a];
        trial->values[i] = fmin(problem->values[i].low + range_of(&problem->values[i]) * shares[i], problem->values[i].high);
    }
}

static bool answers_row(const struct solver *solver, const struct trial *trial, const struct trial *asked, size_t r)
{
    for (size_t i = 0; trial->known[r] && i < solver->problem->value_count; i++) {
        if (solver->heeds[r][i] && memcmp(&trial->values[i], &asked->values[i], sizeof(double)) != 0) {
            return false;
        }
    }
    return trial->known[r];
}

static const struct trial *trial_of_row(const struct solver *solver, const struct trial *asked, size_t r)
{
    for (size_t t = solver->trial_count; t-- > 0;) {
        if (answers_row(solver, &solver->trials[t], asked, r)) {
            return &solver->trials[t];
        }
    }
    return NULL;
}

/* The rows asked of `count` trials, which then join those known. */
static enum sim_status answer(struct solver *solver, struct trial *trials, size_t count)
{
    const struct fit_problem *problem = solver->problem;
    struct fit_task *tasks = malloc((count * problem->row_count + 1) * sizeof *tasks);
    double *answers = malloc((count * problem->row_count + 1) * sizeof *answers);
    double **places = malloc((count * problem->row_count + 1) * sizeof *places);
    size_t task_count = 0;
    SIM_ASSERT(tasks != NULL && answers != NULL && places != NULL, "no memory for %zu trials", count);
    for (size_t p = 0; p < count; p++) {
        for (size_t r = 0; r < problem->row_count; r++) {
            if (!trials[p].asked[r]) {
                continue;
            }
            const struct trial *known = trial_of_row(solver, &trials[p], r);
            trials[p].known[r] = true;
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
    enum sim_status status =
        task_count > 0 ? problem->residuals(problem->context, tasks, task_count, answers, solver->error) : SIM_OK;
    for (size_t t = 0; status == SIM_OK && t < task_count; t++) {
        *places[t] = answers[t];
        if (!isfinite(answers[t])) {
            status = sim_fail(solver->error, SIM_UNSUPPORTED, "row %zu of the fit has no finite prediction", tasks[t].row + 1);
        }
    }
    if (status == SIM_OK) {
        solver->trials = realloc(solver->trials, (solver->trial_count + count) * sizeof *solver->trials);
        SIM_ASSERT(solver->trials != NULL, "no memory for %zu trials", solver->trial_count);
        memcpy(&solver->trials[solver->trial_count], trials, count * sizeof *trials);
        solver->trial_count += count;
    }
    free(tasks);
    free(answers);
    free(places);
    return status;
}

/* All rows at `shares`. */
static enum sim_status rows_at(struct solver *solver, const double *shares, double *residuals)
{
    struct trial trial;
    set_trial(solver, shares, &trial);
    memset(trial.asked, true, sizeof trial.asked);
    enum sim_status status = answer(solver, &trial, 1);
    if (status == SIM_OK) {
        memcpy(residuals, solver->trials[solver->trial_count - 1].residuals, solver->problem->row_count * sizeof residuals[0]);
    }
    return status;
}

/* ---- which rows heed which values */

static uint32_t group_of(const struct fit_problem *problem, size_t value)
{
    return problem->group != NULL ? problem->group[value] : 0;
}

static bool same_answer(const struct solver *solver, const struct trial *trial, size_t r)
{
    return fabs(trial->residuals[r] - solver->centre_rows[r]) < HEED * (1 + solver->centre_rows[r]);
}

/* Move the values of each set, all of a set at once, up and then down: a row that hardly changes heeds none of them, and is asked
 * no more. Values of one set have the same number set_of[i] below `sets`. */
static enum sim_status screen(struct solver *solver, const size_t *set_of, size_t sets)
{
    const struct fit_problem *problem = solver->problem;
    struct trial trials[FIT_VALUES_MAX];
    bool still[FIT_ROWS_MAX][FIT_VALUES_MAX] = { { false } }; /* by set: not moved by the way up */
    enum sim_status status = SIM_OK;
    for (int way = 1; status == SIM_OK && way >= -1; way -= 2) {
        for (size_t set = 0; set < sets; set++) {
            double moved[FIT_VALUES_MAX];
            memcpy(moved, solver->centre, sizeof moved);
            for (size_t i = 0; i < problem->value_count; i++) {
                moved[i] += set_of[i] == set ? SCREEN * way : 0;
                moved[i] = fmin(fmax(moved[i], 0), 1);
            }
            set_trial(solver, moved, &trials[set]);
            for (size_t i = 0; i < problem->value_count; i++) {
                for (size_t r = 0; set_of[i] == set && r < problem->row_count; r++) {
                    trials[set].asked[r] = trials[set].asked[r] || (solver->heeds[r][i] && (way > 0 || still[r][set]));
                }
            }
        }
        size_t base = solver->trial_count;
        status = answer(solver, trials, sets);
        for (size_t i = 0; status == SIM_OK && i < problem->value_count; i++) {
            const struct trial *trial = &solver->trials[base + set_of[i]];
            for (size_t r = 0; r < problem->row_count; r++) {
                bool same = trial->asked[r] && same_answer(solver, trial, r);
                solver->heeds[r][i] = solver->heeds[r][i] && !(way < 0 && same);
                still[r][set_of[i]] = same;
            }
        }
    }
    return status;
}

/* First whole groups, which leaves most rows few values, then the values one by one. */
static enum sim_status screen_all(struct solver *solver)
{
    const struct fit_problem *problem = solver->problem;
    size_t set_of[FIT_VALUES_MAX], single[FIT_VALUES_MAX], sets = 0;
    for (size_t i = 0; i < problem->value_count; i++) {
        size_t earlier = 0;
        while (group_of(problem, earlier) != group_of(problem, i)) {
            earlier++;
        }
        set_of[i] = earlier < i ? set_of[earlier] : sets++;
        single[i] = i;
    }
    enum sim_status status = screen(solver, set_of, sets);
    return status == SIM_OK ? screen(solver, single, problem->value_count) : status;
}

/* ---- the linear model about the centre */

static bool in_box(const struct solver *solver, const struct trial *trial, size_t r)
{
    for (size_t i = 0; i < solver->problem->value_count; i++) {
        if (solver->heeds[r][i] && fabs(trial->shares[i] - solver->centre[i]) > REACH * solver->radius) {
            return false;
        }
    }
    return trial->known[r];
}

static size_t heeded(const struct solver *solver, size_t r, size_t *list)
{
    size_t count = 0;
    for (size_t a = 0; a < solver->active_count; a++) {
        if (solver->heeds[r][solver->active[a]]) {
            list[count++] = a;
        }
    }
    return count;
}

static int by_place(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Points of a box: each value in one half of its side in half of them, at random, and well away from the middle. */
static void make_points(struct solver *solver, struct trial *points, size_t count)
{
    for (size_t p = 0; p < count; p++) {
        set_trial(solver, solver->centre, &points[p]);
    }
    for (size_t a = 0; a < solver->active_count; a++) {
        size_t i = solver->active[a];
        double low = fmax(solver->centre[i] - solver->radius, 0), high = fmin(solver->centre[i] + solver->radius, 1);
        double middle = (low + high) / 2, half = (high - low) / 2;
        size_t order[FIT_VALUES_MAX * 4];
        for (size_t p = 0; p < count; p++) {
            order[p] = p;
        }
        gsl_ran_shuffle(solver->rng, order, count, sizeof order[0]);
        for (size_t p = 0; p < count; p++) {
            double away = half * (INNER + (1 - INNER) * gsl_rng_uniform(solver->rng));
            points[order[p]].shares[i] = middle + (p % 2 == 0 ? away : -away);
        }
    }
    for (size_t p = 0; p < count; p++) {
        double shares[FIT_VALUES_MAX];
        memcpy(shares, points[p].shares, sizeof shares);
        set_trial(solver, shares, &points[p]);
    }
}

/* New points where the answers in the box do not carry a row's slopes. */
static enum sim_status fill_box(struct solver *solver)
{
    struct trial points[FIT_VALUES_MAX * 4];
    size_t want[FIT_ROWS_MAX], most = 0, list[FIT_VALUES_MAX];
    for (size_t r = 0; r < solver->problem->row_count; r++) {
        size_t slopes = heeded(solver, r, list), there = 0;
        for (size_t t = 0; t < solver->trial_count; t++) {
            there += in_box(solver, &solver->trials[t], r);
        }
        size_t needed = slopes > 0 ? (size_t)(POINTS_PER_SLOPE * (double)slopes) + POINTS_SPARE : 0;
        size_t fresh = slopes > 0 ? slopes / 4 + 2 : 0; /* each round brings some, so that a box that stays becomes better known */
        want[r] = needed > there + fresh ? needed - there : fresh;
        most = want[r] > most ? want[r] : most;
    }
    make_points(solver, points, most);
    for (size_t p = 0; p < most; p++) {
        for (size_t r = 0; r < solver->problem->row_count; r++) {
            points[p].asked[r] = p < want[r];
        }
    }
    return answer(solver, points, most);
}

/* Slopes of row r out of its answers in the box. Returns the mean square that they leave. */
static double regress(struct solver *solver, size_t r)
{
    size_t list[FIT_VALUES_MAX], slopes = heeded(solver, r, list), count = 0;
    memset(solver->slope[r], 0, sizeof solver->slope[r]);
    memset(solver->doubt[r], 0, sizeof solver->doubt[r]);
    solver->at_centre[r] = solver->centre_rows[r];
    for (size_t t = 0; t < solver->trial_count; t++) {
        count += in_box(solver, &solver->trials[t], r);
    }
    if (slopes == 0 || count < slopes + 2) {
        return 0;
    }
    gsl_matrix *x = gsl_matrix_calloc(count, slopes);
    gsl_vector *y = gsl_vector_calloc(count), *g = gsl_vector_calloc(slopes), *mean = gsl_vector_calloc(slopes);
    double mean_y = 0, residual_norm, solution_norm;
    size_t n = 0;
    for (size_t t = 0; t < solver->trial_count; t++) {
        const struct trial *trial = &solver->trials[t];
        if (!in_box(solver, trial, r)) {
            continue;
        }
        for (size_t k = 0; k < slopes; k++) {
            size_t i = solver->active[list[k]];
            gsl_matrix_set(x, n, k, (trial->shares[i] - solver->centre[i]) / solver->radius);
        }
        gsl_vector_set(y, n++, trial->residuals[r]);
        mean_y += trial->residuals[r] / (double)count;
    }
    for (size_t k = 0; k < slopes; k++) {
        gsl_vector_view column = gsl_matrix_column(x, k);
        gsl_vector_set(mean, k, gsl_vector_sum(&column.vector) / (double)count);
        gsl_vector_add_constant(&column.vector, -gsl_vector_get(mean, k));
    }
    gsl_vector_add_constant(y, -mean_y);
    gsl_multifit_linear_workspace *work = gsl_multifit_linear_alloc(count, slopes);
    gsl_multifit_linear_svd(x, work);
    gsl_multifit_linear_solve(RIDGE, x, y, g, &residual_norm, &solution_norm, work);
    double left = residual_norm * residual_norm / (double)(count - slopes - 1);
    solver->at_centre[r] = mean_y;
    for (size_t k = 0; k < slopes; k++) {
        gsl_vector_view column = gsl_matrix_column(x, k);
        double length = gsl_blas_dnrm2(&column.vector);
        solver->doubt[r][list[k]] = left / (length * length + RIDGE * RIDGE) / (solver->radius * solver->radius);
        solver->slope[r][list[k]] = gsl_vector_get(g, k) / solver->radius;
        solver->at_centre[r] -= gsl_vector_get(g, k) * gsl_vector_get(mean, k);
    }
    gsl_multifit_linear_free(work);
    gsl_matrix_free(x);
    gsl_vector_free(y);
    gsl_vector_free(g);
    gsl_vector_free(mean);
    return left;
}

/* ---- robust weights */

/* Median of |residual| as a standard deviation, corrected for the values fitted. */
static double scatter_of(const double *residuals, size_t rows, size_t values)
{
    double sorted[FIT_ROWS_MAX];
    for (size_t r = 0; r < rows; r++) {
        sorted[r] = fabs(residuals[r]);
    }
    qsort(sorted, rows, sizeof sorted[0], by_place);
    double median = rows % 2 == 1 ? sorted[rows / 2] : (sorted[rows / 2 - 1] + sorted[rows / 2]) / 2;
    double freedom = rows > values ? sqrt((double)rows / (double)(rows - values)) : 1;
    return fmax(median / 0.6745 * freedom, SCATTER_MIN);
}

/* Far from the best point a row may be off for its values' sake: every row pulls, by Huber's weights. Outliers are left out, by
 * Tukey's, once the values have settled. */
static void reweight(struct solver *solver, const double *residuals, double scatter)
{
    for (size_t r = 0; r < solver->problem->row_count; r++) {
        double off = fabs(residuals[r]) / scatter, u = off / TUKEY;
        double outer = off > HUBER ? HUBER / off : 1, inner = u < 1 ? (1 - u * u) * (1 - u * u) : 0;
        solver->weight[r] = trust_of(solver->problem, r) * (solver->has_settled ? inner : outer);
    }
}

/* ---- the linear model's minimum within the box */

static void modelled_rows(const struct solver *solver, const double *shares, double *rows)
{
    for (size_t r = 0; r < solver->problem->row_count; r++) {
        rows[r] = solver->at_centre[r];
        for (size_t a = 0; a < solver->active_count; a++) {
            rows[r] += solver->slope[r][a] * (shares[solver->active[a]] - solver->centre[solver->active[a]]);
        }
    }
}

/* One value's best place while the others stay; `rows` follow. What counts is the square that a move can be expected to leave, which
 * the doubt of the slopes adds to: values that move the rows by less than the answers scatter stay. Returns how far it moved. */
static double descend(const struct solver *solver, size_t a, double *shares, double *rows)
{
    size_t i = solver->active[a];
    double curvature = PRIOR * PRIOR;
    double gradient = PRIOR * PRIOR * (shares[i] - start_share(&solver->problem->values[i]));
    for (size_t r = 0; r < solver->problem->row_count; r++) {
        curvature += solver->weight[r] * solver->slope[r][a] * solver->slope[r][a];
        gradient += solver->weight[r] * solver->slope[r][a] * rows[r];
        curvature += solver->weight[r] * solver->doubt[r][a];
        gradient += solver->weight[r] * solver->doubt[r][a] * (shares[i] - solver->centre[i]);
    }
    double low = fmax(solver->centre[i] - solver->radius, 0), high = fmin(solver->centre[i] + solver->radius, 1);
    double to = fmin(fmax(shares[i] - gradient / curvature, low), high), move = to - shares[i];
    for (size_t r = 0; r < solver->problem->row_count; r++) {
        rows[r] += solver->slope[r][a] * move;
    }
    shares[i] = to;
    return fabs(move);
}

/* Coordinate descent between re-weightings: the problem is convex, and the box splits by value. */
static void minimise(struct solver *solver, double *shares)
{
    double rows[FIT_ROWS_MAX];
    memcpy(shares, solver->centre, sizeof solver->centre);
    for (int w = 0; w < REWEIGHTINGS; w++) {
        double largest = 1;
        modelled_rows(solver, shares, rows);
        for (int sweep = 0; sweep < SWEEPS && largest > 1e-6; sweep++) {
            largest = 0;
            for (size_t a = 0; a < solver->active_count; a++) {
                largest = fmax(largest, descend(solver, a, shares, rows));
            }
        }
        reweight(solver, rows, scatter_of(rows, solver->problem->row_count, solver->active_count));
    }
}

static double objective(const struct solver *solver, const double *shares, const double *rows)
{
    double sum = 0;
    for (size_t r = 0; r < solver->problem->row_count; r++) {
        sum += solver->weight[r] * rows[r] * rows[r];
    }
    for (size_t a = 0; a < solver->active_count; a++) {
        double moved = shares[solver->active[a]] - start_share(&solver->problem->values[solver->active[a]]);
        sum += PRIOR * PRIOR * moved * moved;
    }
    return sum;
}

static enum sim_status not_converged(const struct solver *solver, const char *why)
{
    return sim_fail(solver->error, SIM_UNSUPPORTED, "the fit does not converge: %s after %u rounds and %u evaluations", why,
                    solver->rounds, solver->evaluations);
}

/* ---- what the rows tell */

/* Covariance of the active values' shares under the linear model; where rows say nothing, the prior bounds it. */
static void covariance_of(const struct solver *solver, double scatter, double prior, gsl_matrix *covariance)
{
    gsl_matrix_set_identity(covariance);
    gsl_matrix_scale(covariance, prior * prior);
    for (size_t a = 0; a < solver->active_count; a++) {
        for (size_t b = 0; b < solver->active_count; b++) {
            double sum = gsl_matrix_get(covariance, a, b);
            for (size_t r = 0; r < solver->problem->row_count; r++) {
                sum += solver->weight[r] * solver->slope[r][a] * solver->slope[r][b];
            }
            gsl_matrix_set(covariance, a, b, sum);
        }
    }
    gsl_linalg_cholesky_decomp1(covariance);
    gsl_linalg_cholesky_invert(covariance);
    gsl_matrix_scale(covariance, scatter * scatter);
}

/* Whether no value would move, by the linear model, further than it is known or than matters. */
static bool stays(const struct solver *solver, const double *to)
{
    double rows[FIT_ROWS_MAX];
    gsl_matrix *covariance = gsl_matrix_alloc(solver->active_count, solver->active_count);
    modelled_rows(solver, to, rows);
    covariance_of(solver, scatter_of(rows, solver->problem->row_count, solver->active_count), PRIOR, covariance);
    bool settled = true;
    for (size_t a = 0; a < solver->active_count; a++) {
        double move = fabs(to[solver->active[a]] - solver->centre[solver->active[a]]);
        settled = settled && move <= fmax(SETTLED, sqrt(gsl_matrix_get(covariance, a, a)));
    }
    gsl_matrix_free(covariance);
    return settled;
}

/* Rounds until the values stay where they are. */
static enum sim_status converge(struct solver *solver)
{
    uint32_t rounds_max = solver->rounds + (solver->problem->iterations_max > 0 ? solver->problem->iterations_max : ROUNDS_DEFAULT);
    double misfit_wider = INFINITY; /* of the box before this one */
    for (uint32_t refusals = 0;;) {
        double to[FIT_VALUES_MAX], rows[FIT_ROWS_MAX], farthest = 0;
        if (solver->rounds++ >= rounds_max) {
            return not_converged(solver, "values still move");
        }
        enum sim_status status = fill_box(solver);
        if (status != SIM_OK) {
            return status;
        }
        double misfit = 0;
        for (size_t r = 0; r < solver->problem->row_count; r++) {
            misfit += regress(solver, r);
        }
        minimise(solver, to);
        bool curved = misfit < CURVED * misfit_wider && solver->radius > RADIUS_LEAST;
        bool narrow = solver->radius <= RADIUS_END && !curved, settled = narrow && stays(solver, to);
        status = rows_at(solver, to, rows);
        if (status != SIM_OK) {
            return status;
        }
        for (size_t a = 0; a < solver->active_count; a++) {
            farthest = fmax(farthest, fabs(to[solver->active[a]] - solver->centre[solver->active[a]]));
        }
        double promised_rows[FIT_ROWS_MAX], before = objective(solver, solver->centre, solver->centre_rows);
        modelled_rows(solver, to, promised_rows);
        double gain = before - objective(solver, to, rows), promised = before - objective(solver, to, promised_rows);
        bool better = gain > 0;
        bool inside = farthest < 0.9 * solver->radius;
        if (better) {
            memcpy(solver->centre, to, sizeof to);
            memcpy(solver->centre_rows, rows, sizeof rows);
        }
        refusals = better ? 0 : refusals + 1;
        if (settled && solver->has_settled) {
            return SIM_OK;
        }
        if (settled || (narrow && refusals > REFUSALS_MAX && !solver->has_settled)) {
            solver->has_settled = true;
            refusals = 0;
        }
        if (narrow && refusals > REFUSALS_MAX) {
            return not_converged(solver, "no step helps, though the errors follow the free values,");
        }
        if ((inside || gain < KEPT * promised) && !narrow) {
            solver->radius *= SHRINK;
            misfit_wider = misfit;
        }
    }
}

/* Put the value that makes up most of the least known direction back to its start, and note the direction. */
static void fix_worst(struct solver *solver, const gsl_matrix *directions, size_t worst, double spread, struct fit_solution *solution)
{
    struct fit_direction *direction = &solution->direction[solution->direction_count++];
    size_t largest = 0;
    *direction = (struct fit_direction){ .spread = spread };
    for (size_t a = 0; a < solver->active_count; a++) {
        double part = gsl_matrix_get(directions, a, worst);
        direction->part[solver->active[a]] = part;
        if (fabs(part) > fabs(gsl_matrix_get(directions, largest, worst))) {
            largest = a;
        }
    }
    size_t value = solver->active[largest];
    direction->fixed = value;
    solution->identified[value] = false;
    solver->centre[value] = (solver->problem->values[value].start - solver->problem->values[value].low) /
                            range_of(&solver->problem->values[value]);
    solver->active_count--;
    for (size_t a = largest; a < solver->active_count; a++) {
        solver->active[a] = solver->active[a + 1];
        for (size_t r = 0; r < solver->problem->row_count; r++) {
            solver->slope[r][a] = solver->slope[r][a + 1];
            solver->doubt[r][a] = solver->doubt[r][a + 1];
        }
    }
}

/* Spread along the least known direction of the active values, by the singular values of the weighted slopes. */
static double least_known(const struct solver *solver, double scatter, gsl_matrix *directions, size_t *worst)
{
    size_t rows = solver->problem->row_count, count = solver->active_count;
    gsl_matrix *slope = gsl_matrix_alloc(rows, count);
    gsl_matrix_view v = gsl_matrix_submatrix(directions, 0, 0, count, count);
    gsl_vector *s = gsl_vector_alloc(count), *work = gsl_vector_alloc(count);
    for (size_t r = 0; r < rows; r++) {
        for (size_t a = 0; a < count; a++) {
            gsl_matrix_set(slope, r, a, solver->slope[r][a] * sqrt(solver->weight[r]));
        }
    }
    gsl_linalg_SV_decomp(slope, &v.matrix, s, work); /* singular values fall: the last is the least known */
    *worst = count - 1;
    double least = gsl_vector_get(s, *worst);
    gsl_matrix_free(slope);
    gsl_vector_free(s);
    gsl_vector_free(work);
    return least > 1e-12 ? scatter / least : INFINITY;
}

/* Put back what the rows do not tell, one direction after the other under the linear model. Returns whether any was. */
static bool fix_unknown(struct solver *solver, struct fit_solution *solution)
{
    double scatter = scatter_of(solver->centre_rows, solver->problem->row_count, solver->active_count);
    gsl_matrix *directions = gsl_matrix_alloc(solver->active_count, solver->active_count);
    size_t before = solver->active_count;
    while (solver->active_count > 0) {
        size_t worst;
        double spread = least_known(solver, scatter, directions, &worst);
        if (spread < UNIDENTIFIED) {
            break;
        }
        fix_worst(solver, directions, worst, spread, solution);
    }
    gsl_matrix_free(directions);
    return solver->active_count < before;
}

static void fill_errors(const struct solver *solver, struct fit_solution *solution)
{
    gsl_matrix *covariance = gsl_matrix_alloc(solver->active_count, solver->active_count);
    covariance_of(solver, solution->scatter, 0, covariance);
    for (size_t a = 0; a < solver->active_count; a++) {
        size_t i = solver->active[a];
        double own = gsl_matrix_get(covariance, a, a);
        solution->standard_error[i] = sqrt(own) * range_of(&solver->problem->values[i]);
        for (size_t b = 0; b < solver->active_count; b++) {
            solution->correlation[i][solver->active[b]] =
                gsl_matrix_get(covariance, a, b) / sqrt(own * gsl_matrix_get(covariance, b, b));
        }
    }
    gsl_matrix_free(covariance);
}

static enum sim_status solve(struct solver *solver, struct fit_solution *solution)
{
    const struct fit_problem *problem = solver->problem;
    for (size_t i = 0; i < problem->value_count; i++) {
        solver->centre[i] = start_share(&problem->values[i]);
    }
    solver->radius = RADIUS_START;
    enum sim_status status = rows_at(solver, solver->centre, solver->centre_rows);
    reweight(solver, solver->centre_rows, scatter_of(solver->centre_rows, problem->row_count, solver->active_count));
    status = status == SIM_OK ? screen_all(solver) : status;
    for (bool again = true; status == SIM_OK && again;) {
        status = converge(solver);
        again = status == SIM_OK && fix_unknown(solver, solution);
        if (status == SIM_OK && solver->active_count == 0) {
            return sim_fail(solver->error, SIM_UNSUPPORTED, "the rows identify none of the %zu values", problem->value_count);
        }
        if (again) {
            solver->radius = RADIUS_AGAIN;
            status = rows_at(solver, solver->centre, solver->centre_rows);
        }
    }
    if (status != SIM_OK) {
        return status;
    }
    memcpy(solution->residual, solver->centre_rows, sizeof solution->residual);
    solution->scatter = scatter_of(solution->residual, problem->row_count, solver->active_count);
    fill_errors(solver, solution);
    for (size_t a = 0; a < solver->active_count; a++) {
        const struct fit_value *value = &problem->values[solver->active[a]];
        solution->value[solver->active[a]] = fmin(value->low + range_of(value) * solver->centre[solver->active[a]], value->high);
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
    solver->rng = gsl_rng_alloc(gsl_rng_mt19937); /* its default seed: same problem, same points */
    SIM_ASSERT(solver->rng != NULL, "no memory for a fit of %zu values", problem->value_count);
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
    double start[FIT_VALUES_MAX];
    for (size_t i = 0; i < problem->value_count; i++) {
        start[i] = (problem->values[i].start - problem->values[i].low) / range_of(&problem->values[i]);
    }
    status = rows_at(solver, start, solution->start_residual);
    if (status == SIM_OK) {
        status = solve(solver, solution);
    }
    memcpy(solution->weight, solver->weight, sizeof solution->weight);
    solution->iterations = solver->rounds;
    solution->evaluations = solver->evaluations;
    solution->tasks = solver->tasks;
    for (size_t r = 0; r < problem->row_count; r++) {
        for (size_t i = 0; i < problem->value_count; i++) {
            solution->heeding += solver->heeds[r][i];
        }
    }
    gsl_rng_free(solver->rng);
    free(solver->trials);
    free(solver);
    return status;
}
