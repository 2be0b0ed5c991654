/* What the recogniser's families share. A family is a table of rules; a rule's kernel name and operator are texts that the
 * real ones must contain. The first rule that fits and whose builder succeeds counts; a builder that lacks shapes returns
 * false and the kernel falls to its tensors' bytes, with the rule's category. */
#ifndef WORKLOADS_TRACE_RECOGNISE_INTERNAL_H
#define WORKLOADS_TRACE_RECOGNISE_INTERNAL_H
#include "workloads/trace/trace_internal.h"

/* One kernel being recognised. */
struct recogniser {
    const struct kernel_site *site;
    struct arena *arena;
    const struct operator_tensors *tensors; /* of the innermost operator; never NULL */
    struct kernel_recognition *out;
    size_t params_used;
};

struct recogniser_rule {
    const char *kernel;        /* part of the kernel's name */
    const char *operator_name; /* part of the innermost operator's name; NULL any */
    const char *category;
    bool (*build)(struct recogniser *r); /* NULL: category only */
};

/* Closed by a rule whose kernel is NULL. */
extern const struct recogniser_rule recogniser_table_rules[], recogniser_gemm_rules[], recogniser_attention_rules[],
    recogniser_norm_rules[], recogniser_sort_rules[], recogniser_sparse_rules[], recogniser_pointwise_rules[],
    recogniser_memory_rules[];

/* ---- writing the result ---- */
void recognised_as(struct recogniser *r, const char *suite, const char *kernel);
void param_text(struct recogniser *r, const char *key, const char *value);
void param_number(struct recogniser *r, const char *key, double value); /* whole numbers without a point */
/* key=a:b:c */
void param_list(struct recogniser *r, const char *key, const double *values, size_t count);
/* Kernels of a step start behind the one that wrote their first input. */
void param_in_step_cache(struct recogniser *r);
/* Bytes and flops, for reports and, when the builder then gives up, for the price; the dtype of the main operand. */
void result_bytes(struct recogniser *r, double read, double written, double flops);
void result_dtype(struct recogniser *r, const char *dtype);

/* ---- reading the site ---- */
const char *innermost_operator(const struct recogniser *r);        /* "" when there is none */
bool under_operator(const struct recogniser *r, const char *part); /* any operator around the launch */
/* Tensors of the nearest operator whose name contains `part`; NULL none. */
const struct operator_tensors *tensors_of_operator(const struct recogniser *r, const char *part);
const struct trace_tensor *tensor_at(const struct recogniser *r,
                                     size_t argument); /* of the innermost operator, or NULL */
double workgroups_of(const struct kernel_site *site);  /* 0 unknown */
/* Whole-number arguments of a template, e.g. ints_in("<float, 1, 1, 0>"): digits between '<' and '>' that stand alone. */
size_t template_numbers(const char *name, const char *after, double *values, size_t capacity);
/* Whole numbers of a concrete list "[0, 1]"; returns how many, SIZE_MAX when it is no list. */
size_t concrete_list(const char *text, int64_t *values, size_t capacity);
const char *dtype_of_bytes(uint32_t bytes); /* a type of that size, for kernels that only move bytes */

#endif
