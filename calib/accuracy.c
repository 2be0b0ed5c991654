#include "calib/accuracy.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct spread {
    size_t count;
    double median, p90, bias;
}; /* p90 nearest rank, the largest of fewer than 8 */

static int by_number(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median_of(const double *sorted, size_t count)
{
    return count % 2 == 1 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

/* Of the rows of a suite that are (not) fitted. A row that cannot be predicted counts as 100%; one without a program does not. */
static struct spread spread_of(const struct accuracy *accuracy, const char *suite, bool fitted,
                               double *errors, double *signed_errors)
{
    struct spread spread = { 0, NAN, NAN, NAN };
    size_t predicted = 0;
    for (size_t i = 0; i < accuracy->validation->row_count; i++) {
        const struct reckon_validate_row *row = &accuracy->validation->rows[i];
        if (strcmp(row->suite, suite) != 0 || accuracy->fitted[i] != fitted ||
            (row->skipped != NULL && !row->cannot)) {
            continue;
        }
        errors[spread.count++] = row->error;
        if (!row->cannot) {
            signed_errors[predicted++] = row->predicted / row->measured - 1;
        }
    }
    if (spread.count > 0) {
        qsort(errors, spread.count, sizeof errors[0], by_number);
        spread.median = median_of(errors, spread.count);
        spread.p90 =
            errors[spread.count < 8 ? spread.count - 1 : (size_t)ceil(0.9 * (double)spread.count) - 1];
    }
    if (predicted > 0) {
        qsort(signed_errors, predicted, sizeof signed_errors[0], by_number);
        spread.bias = median_of(signed_errors, predicted);
    }
    return spread;
}

static void put_spread(FILE *out, const struct spread *spread)
{
    if (spread->count == 0) {
        fprintf(out, " 0 | - | - | - |");
        return;
    }
    fprintf(out, " %zu | %.1f | %.1f | ", spread->count, spread->median * 100, spread->p90 * 100);
    fprintf(out, isfinite(spread->bias) ? "%+.1f |" : "- |", spread->bias * 100);
}

static void put_suites(const struct accuracy *accuracy, FILE *out)
{
    const struct reckon_validation *validation = accuracy->validation;
    double *errors = malloc((validation->row_count + 1) * sizeof *errors),
           *signed_errors = malloc((validation->row_count + 1) * sizeof *errors);
    SIM_ASSERT(errors != NULL && signed_errors != NULL, "no memory for %zu rows", validation->row_count);
    fprintf(out, "| suite | rows | median | p90 | bias | fitted rows | median | p90 | bias | no program |\n"
                 "|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t s = 0; s < validation->suite_count; s++) {
        const struct reckon_validate_suite *suite = &validation->suites[s];
        struct spread rest = spread_of(accuracy, suite->suite, false, errors, signed_errors);
        struct spread fitted = spread_of(accuracy, suite->suite, true, errors, signed_errors);
        fprintf(out, "| %s |", suite->suite);
        put_spread(out, &rest);
        put_spread(out, &fitted);
        fprintf(out, " %zu |\n", suite->skipped);
    }
    free(errors);
    free(signed_errors);
}

static int by_error(const void *a, const void *b)
{
    const struct reckon_validate_row *x = *(const struct reckon_validate_row *const *)a,
                                     *y = *(const struct reckon_validate_row *const *)b;
    if (x->error != y->error) {
        return x->error > y->error ? -1 : 1;
    }
    return x < y ? -1 : x > y;
}

static void put_worst(const struct accuracy *accuracy, size_t worst, FILE *out)
{
    const struct reckon_validation *validation = accuracy->validation;
    const struct reckon_validate_row **order = malloc((validation->row_count + 1) *
                                                      sizeof(struct reckon_validate_row *));
    SIM_ASSERT(order != NULL, "no memory for %zu rows", validation->row_count);
    fprintf(out, "\n### Furthest off\n\n| row | measured | predicted | off |\n|---|---|---|---|\n");
    size_t count = 0;
    for (size_t i = 0; i < validation->row_count; i++) {
        if (isfinite(validation->rows[i].error)) {
            order[count++] = &validation->rows[i];
        }
    }
    qsort(order, count, sizeof order[0], by_error);
    for (size_t i = 0; i < count && i < worst; i++) {
        const struct reckon_validate_row *row = order[i];
        fprintf(out, "| %s/%s %s | %.5g %s |", row->suite, row->kernel, row->params, row->measured, row->unit);
        if (row->cannot) {
            fprintf(out, " cannot: %s | |\n", row->skipped);
        } else {
            fprintf(out, " %.5g | %+.1f%% |\n", row->predicted, (row->predicted / row->measured - 1) * 100);
        }
    }
    free(order);
}

static void put_basis(const struct chip_profile *chip, FILE *out)
{
    size_t kinds[PROFILE_KINDS] = { 0 };
    for (int i = 0; i < CHIP_NUMBERS; i++) {
        if (chip->meta[i].source != NULL) {
            kinds[chip->meta[i].kind]++;
        }
    }
    fprintf(out, "Values of the chip by kind:");
    for (int k = 0; k < PROFILE_KINDS; k++) {
        fprintf(out, "%s %zu %s", k > 0 ? "," : "", kinds[k], profile_kind_text((enum profile_kind)k));
    }
    fprintf(out, ".\n\n");
}

void accuracy_write(const struct accuracy *accuracy, const struct chip_profile *chip, size_t worst, FILE *out)
{
    fprintf(out,
            "## %s: predictions against what was measured\n\nError in %% of the measured time (or value "
            "where the time is 0). Rows that a fit "
            "was held to stand apart: claims rest on the others.\np90: nearest rank, the largest under 8 "
            "rows; bias: median of the signed "
            "error.\n\n",
            accuracy->validation->device);
    put_basis(chip, out);
    put_suites(accuracy, out);
    if (worst > 0) {
        put_worst(accuracy, worst, out);
    }
    if (accuracy->counters.row_count > 0) {
        fprintf(out, "\n");
        counters_write(&accuracy->counters, worst > 0 ? 0 : 12, out);
    }
}

static void mark_fitted(struct accuracy *accuracy, const struct fit_file *fit)
{
    accuracy->fitted = calloc(accuracy->validation->row_count + 1, sizeof *accuracy->fitted);
    SIM_ASSERT(accuracy->fitted != NULL, "no memory for %zu rows", accuracy->validation->row_count);
    for (size_t i = 0; fit != NULL && i < accuracy->validation->row_count; i++) {
        const struct reckon_validate_row *row = &accuracy->validation->rows[i];
        accuracy->fitted[i] = fit_file_entry_of(fit, row->suite, row->kernel, row->params) < fit->rows_count;
    }
}

enum sim_status accuracy_measure(struct reckon *reckon, const struct reckon_device *device, uint32_t jobs,
                                 const char *tables, const struct fit_file *fit, struct accuracy *accuracy,
                                 struct sim_error *error)
{
    struct reckon_validate_request request = { .paths = &tables, .path_count = 1 };
    char *counters = NULL;
    memset(accuracy, 0, sizeof *accuracy);
    enum sim_status status = reckon_validate(reckon, device, &request, &accuracy->validation, error);
    if (status != SIM_OK) {
        return status;
    }
    mark_fitted(accuracy, fit);
    SIM_ASSERT(asprintf(&counters, "%s/counters.csv", tables) > 0, "no memory for a path");
    if (access(counters, R_OK) == 0) {
        status = counters_compare(reckon, device, jobs, counters, &accuracy->counters, error);
    }
    free(counters);
    if (status != SIM_OK) {
        accuracy_finish(accuracy);
    }
    return status;
}

void accuracy_finish(struct accuracy *accuracy)
{
    reckon_validation_free(accuracy->validation);
    free(accuracy->fitted);
    counters_finish(&accuracy->counters);
    *accuracy = (struct accuracy){ 0 };
}
