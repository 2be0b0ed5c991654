#include "sim/cli/print_predict.h"
#include "reports/report.h"
#include "sim/cli/cli.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define LABEL_WIDTH 46
#define CELL_WIDTH 20
#define UNRECOGNISED_SHOWN 12

typedef void (*cell_printer)(const struct reckon_prediction *prediction, char *text, size_t capacity);

static void print_cells(const char *label, struct reckon_prediction *const *predictions, size_t count,
                        cell_printer cell)
{
    char text[64];
    printf("%-*s", LABEL_WIDTH, label);
    for (size_t i = 0; i < count; i++) {
        cell(predictions[i], text, sizeof text);
        printf(" %*s", CELL_WIDTH, text);
    }
    putchar('\n');
}

/* Three digits that mean something, from nanoseconds to seconds. */
static void time_text(double ms, char *text, size_t capacity)
{
    if (isnan(ms)) {
        snprintf(text, capacity, "-");
    } else if (ms >= 1000) {
        snprintf(text, capacity, "%.3f s", ms * 1e-3);
    } else if (ms >= 0.1 || ms == 0) {
        snprintf(text, capacity, "%.3f ms", ms);
    } else {
        snprintf(text, capacity, "%.2f us", ms * 1e3);
    }
}

static void cell_device(const struct reckon_prediction *p, char *text, size_t capacity)
{
    snprintf(text, capacity, "%s", p->device);
}
static void cell_step(const struct reckon_prediction *p, char *text, size_t capacity)
{
    time_text(p->step_ms, text, capacity);
}
static void cell_busy(const struct reckon_prediction *p, char *text, size_t capacity)
{
    time_text(p->gpu_busy_ms, text, capacity);
}
static void cell_moving(const struct reckon_prediction *p, char *text, size_t capacity)
{
    time_text(p->gpu_moving_ms, text, capacity);
}
static void cell_waits(const struct reckon_prediction *p, char *text, size_t capacity)
{
    time_text(p->gpu_moving_ms + p->input.traced_wait_ms, text, capacity);
}
static void cell_host(const struct reckon_prediction *p, char *text, size_t capacity)
{
    time_text(p->host_ms, text, capacity);
}
static void cell_exposed(const struct reckon_prediction *p, char *text, size_t capacity)
{
    time_text(p->exposed_comm_ms, text, capacity);
}
static void cell_recognised(const struct reckon_prediction *p, char *text, size_t capacity)
{
    snprintf(text, capacity, isfinite(p->recognised_fraction) ? "%.1f%%" : "-", p->recognised_fraction * 100);
}
static void cell_within(const struct reckon_prediction *p, char *text, size_t capacity)
{
    snprintf(text, capacity, isfinite(p->within_2x_fraction) ? "%.1f%%" : "-", p->within_2x_fraction * 100);
}
static void cell_examples(const struct reckon_prediction *p, char *text, size_t capacity)
{
    snprintf(text, capacity, "%.0f", p->examples_per_s);
}
static void cell_fits(const struct reckon_prediction *p, char *text, size_t capacity)
{
    snprintf(text, capacity, "%s in %.0f GiB",
             !p->fits_known ? "unknown"
             : p->fits      ? "fits"
                            : "does not fit",
             p->capacity_gib);
}
static void cell_peak(const struct reckon_prediction *p, char *text, size_t capacity)
{
    snprintf(text, capacity, "%.2f + %.1f GiB", p->memory_gib.peak, p->memory_gib.reserve);
}
static void cell_moment(const struct reckon_prediction *p, char *text, size_t capacity)
{
    snprintf(text, capacity, "%.*s", CELL_WIDTH,
             strncmp(p->memory_moment, "at aten::", 9) == 0 ? p->memory_moment + 9 : p->memory_moment);
}

/* Who holds the peak, the same order on every device. */
static void print_owners(const struct reckon_prediction *p)
{
    const struct reckon_memory *m = &p->memory_gib;
    const struct {
        const char *name;
        double gib;
    } owners[] = { { "parameters", m->parameters },   { "gradients", m->gradients },
                   { "optimizer", m->optimizer },     { "embeddings", m->embeddings },
                   { "activations", m->activations }, { "communication", m->communication },
                   { "workspace", m->workspace } };
    printf("  held by");
    for (size_t i = 0, shown = 0; i < sizeof owners / sizeof owners[0]; i++) {
        if (owners[i].gib > 0) {
            printf("%s %s %.2f", shown++ > 0 ? "," : "", owners[i].name, owners[i].gib);
        }
    }
    printf(" GiB\n");
}

static void cell_bound(const struct reckon_prediction *p, char *text, size_t capacity)
{
    if (isnan(p->step_ms)) {
        snprintf(text, capacity, "-");
        return;
    }
    const char *by = p->host_ms > p->gpu_busy_ms               ? "the host"
                     : p->exposed_comm_ms > p->gpu_busy_ms / 2 ? "communication"
                                                               : "the GPU";
    snprintf(text, capacity, "%s", by);
}

static void print_relative(struct reckon_prediction *const *predictions, size_t count)
{
    char label[64], text[32];
    if (count < 2 || isnan(predictions[0]->step_ms)) {
        return;
    }
    snprintf(label, sizeof label, "  against %s", predictions[0]->device);
    printf("%-*s", LABEL_WIDTH, label);
    for (size_t i = 0; i < count; i++) {
        snprintf(text, sizeof text, isnan(predictions[i]->step_ms) ? "-" : "%.2fx", predictions[i]->step_ms / predictions[0]->step_ms);
        printf(" %*s", CELL_WIDTH, text);
    }
    putchar('\n');
}

/* The verdict on the input, before any result. */
static void print_input(const struct reckon_input *input)
{
    if (!input->known) {
        return;
    }
    printf("input: %s\n", input->verdict);
    printf("  %g step%s, %u of %u rank%s, %zu GPU events on %u stream%s", input->steps, input->steps == 1 ? "" : "s",
           input->ranks, input->world_size, input->world_size == 1 ? "" : "s", input->gpu_events, input->streams,
           input->streams == 1 ? "" : "s");
    if (input->traced_kernel_ms > 0) {
        char step[32], busy[32], sum[32];
        time_text(input->traced_step_ms, step, sizeof step);
        time_text(input->traced_busy_ms, busy, sizeof busy);
        time_text(input->traced_kernel_ms, sum, sizeof sum);
        printf("; traced: step %s, GPU busy %s (union), kernel time %s (sum)", step, busy, sum);
        if (input->traced_wait_ms > 0) {
            time_text(input->traced_wait_ms, busy, sizeof busy);
            time_text(input->traced_busy_ms - input->traced_wait_ms, sum, sizeof sum);
            printf("\n  of that GPU busy time %s are collectives that wait for other ranks (%s); without them %s", busy,
                   input->wait_by_ranks ? "what each lasts beyond the shortest of the ranks"
                                        : "what each lasts beyond the fabric's time on this device",
                   sum);
        }
    }
    printf("\n  GPU time by kernel program %.1f%%, fabric %.1f%%, tensors' bytes %.1f%%, replayed %.1f%%\n",
           100 * input->program_share, 100 * input->fabric_share, 100 * input->bytes_share, 100 * input->replayed_share);
    if (isfinite(input->host_inflation)) {
        printf("  host times in the trace are %.1f times the host profile's%s\n", input->host_inflation,
               input->host_inflated ? ": inflated by the profiler, not used" : "");
    }
    putchar('\n');
}

/* GPU busy time as it can be held against the recorded one. */
static void print_waiting(struct reckon_prediction *const *predictions, size_t count)
{
    bool waits = false;
    for (size_t i = 0; i < count; i++) {
        waits = waits || predictions[i]->input.traced_wait_ms > 0;
    }
    if (waits) {
        print_cells("  without waiting for ranks", predictions, count, cell_moving);
        print_cells("  with the recorded waits", predictions, count, cell_waits);
    }
}

static void print_head(struct reckon_prediction *const *predictions, size_t count)
{
    const struct reckon_prediction *first = predictions[0];
    printf("%s, %u GPU%s, mode %s\n\n", first->source, first->gpus, first->gpus == 1 ? "" : "s", first->mode);
    print_input(&first->input);
    print_cells("", predictions, count, cell_device);
    print_cells("step, queued back to back", predictions, count, cell_step);
    print_relative(predictions, count);
    print_cells("bound by", predictions, count, cell_bound);
    print_cells("GPU busy", predictions, count, cell_busy);
    print_waiting(predictions, count);
    print_cells("host busy", predictions, count, cell_host);
    if (first->gpus > 1) {
        print_cells("communication not hidden", predictions, count, cell_exposed);
    }
    if (isfinite(first->examples_per_s)) {
        print_cells("examples/s", predictions, count, cell_examples);
    }
    print_cells("memory", predictions, count, cell_fits);
    if (first->memory_known) {
        print_cells("  peak of the allocator + reserve", predictions, count, cell_peak);
        print_cells("  when the host issues", predictions, count, cell_moment);
        print_owners(first);
    }
    print_cells("GPU time priced by a kernel program", predictions, count, cell_recognised);
    for (size_t i = 0; i < count; i++) {
        if (isfinite(predictions[i]->within_2x_fraction)) {
            print_cells("traced kernel time met within 2x", predictions, count, cell_within);
            break;
        }
    }
}

/* Whose kernels lead the tables: the first device that the step fits on. */
static const struct reckon_prediction *leader(struct reckon_prediction *const *predictions, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (predictions[i]->kernel_count > 0) {
            return predictions[i];
        }
    }
    return predictions[0];
}

static void category_cell(const struct reckon_prediction *prediction, const char *name, char *text, size_t capacity)
{
    snprintf(text, capacity, "-");
    for (size_t k = 0; k < prediction->category_count; k++) {
        if (strcmp(prediction->categories[k].name, name) == 0) {
            time_text(prediction->categories[k].ms, text, capacity);
        }
    }
}

static void print_categories(struct reckon_prediction *const *predictions, size_t count)
{
    const struct reckon_prediction *first = leader(predictions, count);
    printf("\n%-*s\n", LABEL_WIDTH, "GPU time by category");
    for (size_t c = 0; c < first->category_count; c++) {
        const struct reckon_category *category = &first->categories[c];
        char label[64], cell[32];
        snprintf(label, sizeof label, "  %-20s x%g", category->name, category->count);
        printf("%-*s", LABEL_WIDTH, label);
        for (size_t i = 0; i < count; i++) {
            category_cell(predictions[i], category->name, cell, sizeof cell);
            printf(" %*s", CELL_WIDTH, cell);
        }
        putchar('\n');
    }
}

static void row_label(const struct reckon_kernel_row *row, char *text, size_t capacity)
{
    char name[80];
    if (row->priced == RECKON_PRICED_PROGRAM || row->priced == RECKON_PRICED_FABRIC) {
        snprintf(text, capacity, "%s %s", row->program, row->params);
    } else {
        report_short_name(row->name, name, sizeof name);
        snprintf(text, capacity, "%s (%s)", name, row->program);
    }
}

static const struct reckon_kernel_row *row_like(const struct reckon_prediction *prediction,
                                                const struct reckon_kernel_row *row)
{
    for (size_t i = 0; i < prediction->kernel_count; i++) {
        const struct reckon_kernel_row *other = &prediction->kernels[i];
        if (strcmp(other->key, row->key) == 0) {
            return other;
        }
    }
    return NULL;
}

static void print_top(struct reckon_prediction *const *predictions, size_t count, size_t top)
{
    const struct reckon_prediction *first = leader(predictions, count);
    printf("\n%-*s\n", LABEL_WIDTH, "top kernels (time per step, limiter)");
    for (size_t k = 0; k < first->kernel_count && k < top; k++) {
        const struct reckon_kernel_row *row = &first->kernels[k];
        char label[300], cell[64], time[32];
        row_label(row, label, sizeof label);
        if (strlen(label) > LABEL_WIDTH - 10) {
            strcpy(label + LABEL_WIDTH - 13, "...");
        }
        printf("  %-*s x%-4g", LABEL_WIDTH - 9, label, row->count);
        for (size_t i = 0; i < count; i++) {
            const struct reckon_kernel_row *other = row_like(predictions[i], row);
            if (other != NULL) {
                time_text(other->ms, time, sizeof time);
                snprintf(cell, sizeof cell, "%s %-9.9s", time, other->limiter);
            } else {
                snprintf(cell, sizeof cell, "-");
            }
            printf(" %*s", CELL_WIDTH, cell);
        }
        putchar('\n');
    }
}

static void print_unrecognised(const struct reckon_prediction *prediction)
{
    size_t shown = 0, more = 0;
    for (size_t k = 0; k < prediction->kernel_count; k++) {
        const struct reckon_kernel_row *row = &prediction->kernels[k];
        char name[60], time[32];
        if (row->priced == RECKON_PRICED_PROGRAM || row->priced == RECKON_PRICED_FABRIC) {
            continue;
        }
        if (shown == UNRECOGNISED_SHOWN) {
            more++;
            continue;
        }
        if (shown == 0) {
            printf("\nnot recognised, priced from tensors or replayed (%s)\n", prediction->device);
        }
        report_short_name(row->name, name, sizeof name);
        time_text(row->ms, time, sizeof time);
        printf("  %-58s x%-4g %11s %s\n", name, row->count, time, row->program);
        shown++;
    }
    if (more > 0) {
        printf("  and %zu more\n", more);
    }
}

/* Notes of all devices, each text once. */
static void print_notes(struct reckon_prediction *const *predictions, size_t count)
{
    puts("\nnotes");
    for (size_t i = 0; i < count; i++) {
        for (size_t n = 0; n < predictions[i]->notes.count; n++) {
            const char *text = predictions[i]->notes.text[n];
            bool before = false, everywhere = true;
            for (size_t j = 0; j < count; j++) {
                bool there = false;
                for (size_t m = 0; m < predictions[j]->notes.count && !there; m++) {
                    there = strcmp(predictions[j]->notes.text[m], text) == 0;
                }
                before = before || (there && j < i);
                everywhere = everywhere && there;
            }
            if (!before) {
                printf("  %s%s%s\n", everywhere ? "" : predictions[i]->device, everywhere ? "" : ": ", text);
            }
        }
    }
    for (size_t i = 0; i < count; i++) {
        char basis[160];
        cli_basis_text(&predictions[i]->basis, basis, sizeof basis);
        printf("  %s rests on %s values (node %s, host %s)\n", predictions[i]->device, basis,
               predictions[i]->node, predictions[i]->host);
    }
}

/* Per kernel: what the trace had, what the model gives, their ratio. */
static void print_all_kernels(const struct reckon_prediction *prediction)
{
    printf("\n%s: every kernel, per call\n  %6s %10s %10s %7s  %s\n", prediction->device, "count",
           "traced us", "model us", "ratio", "kernel");
    for (size_t k = 0; k < prediction->kernel_count; k++) {
        const struct reckon_kernel_row *row = &prediction->kernels[k];
        char label[300], name[80];
        row_label(row, label, sizeof label);
        report_short_name(row->name, name, sizeof name);
        char traced[24] = "-", ratio[24] = "-";
        if (isfinite(row->traced_ms)) {
            snprintf(traced, sizeof traced, "%.2f", row->traced_ms * 1e3 / row->count);
            snprintf(ratio, sizeof ratio, "%.2f", row->ms / row->traced_ms);
        }
        printf("  %6g %10s %10.2f %7s  %s [%s, %s]\n", row->count, traced, row->ms * 1e3 / row->count, ratio, label, name, row->limiter);
    }
}

void print_predict(struct reckon_prediction *const *predictions, size_t count,
                   const struct print_predict_options *options)
{
    print_head(predictions, count);
    print_categories(predictions, count);
    print_top(predictions, count, options->top);
    for (size_t i = 0; i < count; i++) {
        print_unrecognised(predictions[i]);
    }
    for (size_t i = 0; i < count && options->all_kernels; i++) {
        print_all_kernels(predictions[i]);
    }
    print_notes(predictions, count);
}
