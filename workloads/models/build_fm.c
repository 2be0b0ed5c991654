/* Wukong-style layers: each holds a factorisation machine with its mlp and a linear compression of the features, side by
 * side, added to its input and normalised (arXiv:2403.02545). Features in: tables and the dense ones, n of width d; half of a
 * layer's n features come from the factorisation machine. */
#include "workloads/models/build_internal.h"
#include <math.h>
#include <stdio.h>

#define PARAMETERS_FIXED 6 /* y, two norms of two, compression */

static double machine_features(double n)
{
    return floor(n / 2);
}

/* Registered per layer: y [rank, n]; norm of n x rank; the mlp's weights and biases, the last to n_f x d; compression
 * [n - n_f, n]; norm of n x d. */
void fm_register(struct build *build, const struct model_layer *layer, double n, double d,
                 struct parameter *(*add)(struct build *, const char *, double, double))
{
    for (double i = 0; i < layer->count; i++) {
        double width = n * layer->rank;
        add(build, "y.weight", layer->rank, n);
        add(build, "norm.weight", 1, width);
        add(build, "norm.bias", 1, width);
        for (uint32_t k = 0; k <= layer->width_count; k++) {
            double out = k < layer->width_count ? layer->width[k] : machine_features(n) * d;
            add(build, "mlp.weight", out, width);
            add(build, "mlp.bias", 1, out);
            width = out;
        }
        add(build, "compress.weight", n - machine_features(n), n);
        add(build, "norm2.weight", 1, n * d);
        add(build, "norm2.bias", 1, n * d);
    }
}

static struct tensor *replace(struct eager *eager, struct tensor *old, struct tensor *new)
{
    eager_release(eager, old);
    return new;
}

static struct tensor *machine(struct build *build, const struct model_layer *layer, struct parameter **p, struct tensor *x,
                              struct tensor *turned, double n, double d)
{
    struct eager *eager = build->eager;
    struct tensor *y = op_linear(eager, turned, p[0], NULL, false);
    struct tensor *h = op_batched_product(eager, x, y, build->batch, n, layer->rank, d);
    eager_release(eager, y);
    h = replace(eager, h, op_layer_norm(eager, h, p[1], p[2]));
    for (uint32_t k = 0; k <= layer->width_count; k++) {
        h = replace(eager, h, op_linear(eager, h, p[3 + 2 * k], p[4 + 2 * k], false));
        if (k < layer->width_count && layer->activation != ACTIVATION_NONE) {
            h = replace(eager, h, op_activation(eager, h, layer->activation));
        }
    }
    return h;
}

struct tensor *fm_forward(struct build *build, const struct model_layer *layer, struct parameter **list, struct tensor *z,
                          double n, double d)
{
    struct eager *eager = build->eager;
    uint32_t each = PARAMETERS_FIXED + 2 * (layer->width_count + 1);
    struct tensor *x = eager_view(eager, z, z->rows, z->columns);
    for (uint32_t i = 0; i < (uint32_t)layer->count; i++) {
        struct parameter **p = list + i * each, **last = p + each - 3;
        struct tensor *turned = op_turn(eager, x, build->batch, n, d, build->batch * d);
        struct tensor *left = machine(build, layer, p, x, turned, n, d);
        struct tensor *compressed = op_linear(eager, turned, last[0], NULL, false);
        eager_release(eager, turned);
        struct tensor *right = op_turn(eager, compressed, build->batch, d, n - machine_features(n), build->batch);
        eager_release(eager, compressed);
        struct tensor *both = op_beside(eager, left, right);
        eager_release(eager, left);
        eager_release(eager, right);
        struct tensor *sum = op_add(eager, both, x);
        eager_release(eager, both);
        x = replace(eager, x, sum);
        x = replace(eager, x, op_layer_norm(eager, x, last[1], last[2]));
    }
    return x;
}
