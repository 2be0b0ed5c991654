/* The selector against the event-driven model over handed shapes: check_gemm_choice DEVICE TABLE.csv SHAPES CANDIDATES LIMIT [FIRST].
 * SHAPES products (rows of gemm,mm spread evenly over the table, from row FIRST on) each with the selector's best CANDIDATES
 * tiles simulated; what the chosen tile loses against the best of them, mean, 90th percentile and worst. Exits 1 where the mean is
 * above LIMIT (0.07: 7%). Minutes of one core: `make selection`, not a test. */
#include "tests/kernels_dense/gemm_choice.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shape {
    unsigned long long m, n, k;
    enum gemm_dtype dtype;
    enum gemm_trans trans;
};

static int among(const char *const *names, int count, const char *name)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

static bool shape_parse(const char *line, struct shape *shape)
{
    static const char *const dtypes[] = { "bf16", "fp16", "tf32", "fp32", "fp8" };
    static const char *const orders[] = { "nt", "nn", "tt", "tn" };
    char dtype[8], trans[4];
    if (sscanf(line, "gemm,mm,M=%llu;N=%llu;K=%llu;dtype=%7[a-z0-9];trans=%3[a-z]", &shape->m, &shape->n, &shape->k, dtype, trans) != 5) {
        return false;
    }
    int d = among(dtypes, 5, dtype), t = among(orders, 4, trans);
    shape->dtype = (enum gemm_dtype)d;
    shape->trans = (enum gemm_trans)t;
    return d >= 0 && t >= 0;
}

static struct shape *shapes_read(const char *path, size_t *count)
{
    struct shape *shapes = NULL, shape;
    char line[512];
    FILE *file = fopen(path, "r");
    *count = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (!shape_parse(line, &shape)) {
            continue;
        }
        struct shape *grown = realloc(shapes, (*count + 1) * sizeof *grown);
        SIM_ASSERT(grown != NULL, "no memory for %zu shapes", *count);
        shapes = grown;
        shapes[(*count)++] = shape;
    }
    if (file != NULL) {
        fclose(file);
    }
    return shapes;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    struct chip_profile chip;
    struct sim_error error = { 0 };
    struct gemm_machine machine;
    char path[512];
    size_t count = 0, done = 0;
    size_t wanted = argc > 3 ? strtoul(argv[3], NULL, 10) : 0, candidates = argc > 4 ? strtoul(argv[4], NULL, 10) : 0;
    double limit = argc > 5 ? strtod(argv[5], NULL) : 0, mean = 0;
    if (wanted == 0 || candidates < 2 || candidates > CHOICE_MOST) {
        fprintf(stderr, "check_gemm_choice DEVICE TABLE.csv SHAPES CANDIDATES(2..%d) LIMIT [FIRST]\n", CHOICE_MOST);
        return 1;
    }
    snprintf(path, sizeof path, SOURCE_DIR "/devices/%s.json", argv[1]);
    struct shape *shapes = shapes_read(argv[2], &count);
    if (count == 0 || chip_profile_read(path, &chip, &error) != SIM_OK) {
        fprintf(stderr, "%s: %s\n", argv[2], count == 0 ? "no gemm,mm rows" : error.text);
        free(shapes);
        return 1;
    }
    gemm_machine_of_chip(&chip, &machine);
    wanted = wanted < count ? wanted : count;
    double *loss = calloc(wanted, sizeof *loss);
    SIM_ASSERT(loss != NULL, "no memory for %zu shapes", wanted);
    for (size_t i = 0, first = argc > 6 ? strtoul(argv[6], NULL, 10) : 0; i < wanted; i++) {
        const struct shape *s = &shapes[(first + i * count / wanted) % count];
        struct gemm_problem problem;
        if (!gemm_problem_init(&machine, s->m, s->n, s->k, 1, s->dtype, s->trans, 0, GEMM_AUTO, GEMM_REGISTER_RATE, &problem)) {
            continue;
        }
        struct choice choice = choice_of(&chip, &machine, &problem, candidates);
        loss[done] = choice.chosen_us / choice.least_us - 1;
        if (loss[done] > limit) {
            printf("  %llux%llux%llu %s: candidate %zu takes %.4g us, the chosen %.4g (%+.0f%%)\n", s->m, s->n, s->k, argv[1],
                   choice.best + 1, choice.least_us, choice.chosen_us, loss[done] * 100);
        }
        mean += loss[done++] / (double)wanted;
    }
    qsort(loss, done, sizeof *loss, by_value);
    if (done == wanted) {
        printf("%s: %zu shapes of %s, best %zu candidates: the chosen tile loses %.1f%% in the mean, %.1f%% at the 90th percentile, %.1f%% at most\n",
               argv[1], done, argv[2], candidates, mean * 100, loss[(size_t)ceil(0.9 * (double)done) - 1] * 100, loss[done - 1] * 100);
    } else {
        fprintf(stderr, "%zu of %zu shapes have no matrix rate on %s\n", wanted - done, wanted, argv[1]);
    }
    free(loss);
    free(shapes);
    chip_profile_finish(&chip);
    return done == wanted && mean <= limit ? 0 : 1;
}
