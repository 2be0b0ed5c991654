/* make_hard_pages FOLDER: a prediction of 5,000 kernels on two devices, with a timeline (many.html, many.json), and one whose every text
 * tries to leave its place (names.html, names.json). */
#include "reports/report.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KERNELS 5000
#define HOSTILE "</script><script>document.title='broken';undefined_name()</script><img src=x onerror=alert(1)>\"'&amp;<!--"

static struct json *kernels(size_t count, const char *hostile)
{
    struct json *list = json_new_array();
    for (size_t i = 0; i < count; i++) {
        struct json *row = json_new_object(), *stack = json_new_object();
        char name[400];
        snprintf(name, sizeof name, "void at::native::elementwise_kernel_%zu<128, 4>(int)%s", i, hostile);
        json_set_string(row, "name", name);
        json_set_string(row, "program", "pointwise/copy");
        json_set_number(row, "count", (double)(1 + i % 7));
        json_set_number(row, "ms", 1.0 / (double)(i + 3));
        json_set_null(row, "traced_ms");
        json_set_string(row, "limiter", hostile[0] != '\0' ? hostile : "hbm");
        json_set_string(row, "category", hostile[0] != '\0' ? hostile : "elementwise");
        json_set_string(row, "priced", "program");
        snprintf(name, sizeof name, "n=%zu;dtype=fp32%s", i, hostile);
        json_set_string(row, "params", name);
        json_set_number(stack, "hbm", 0.75);
        json_set_number(stack, "latency", 0.25);
        json_set(row, "stack", stack);
        json_set_number(row, "hbm_bytes", 1e6 + (double)i);
        json_set_number(row, "flops", 2e6 + 3 * (double)i);
        json_append(list, row);
    }
    return list;
}

static struct json *span(double start, double length, double name)
{
    struct json *entry = json_new_array();
    json_append_number(entry, start);
    json_append_number(entry, length);
    json_append_number(entry, name);
    json_append_number(entry, 0);
    return entry;
}

static struct json *timeline(size_t count, const char *hostile)
{
    struct json *object = json_new_object(), *names = json_new_array(), *categories = json_new_array(), *lanes = json_new_array(),
                *lane = json_new_object(), *spans = json_new_array(), *counters = json_new_object(), *values = json_new_array();
    json_set_number(object, "start_us", 0);
    json_set_number(object, "end_us", (double)count * 3);
    for (size_t i = 0; i < count; i++) {
        char name[400];
        snprintf(name, sizeof name, "elementwise_kernel_%zu%s", i, hostile);
        json_append_string(names, name);
        json_append(spans, span((double)i * 3, 2.5, (double)i));
    }
    json_append_string(categories, hostile[0] != '\0' ? hostile : "elementwise");
    json_set_string(lane, "name", hostile[0] != '\0' ? hostile : "rank 0 stream 7");
    json_set_string(lane, "kind", "stream");
    json_set_integer(lane, "rank", 0);
    json_set(lane, "spans", spans);
    json_append(lanes, lane);
    json_set(object, "names", names);
    json_set(object, "categories", categories);
    json_set(object, "lanes", lanes);
    for (size_t i = 0; i < 500; i++) {
        json_append_number(values, (double)(i % 10) / 10);
    }
    json_set_number(counters, "start_us", 0);
    json_set_number(counters, "bin_us", (double)count * 3 / 500);
    json_set(counters, "hbm_share", values);
    json_set(object, "counters", counters);
    return object;
}

static struct json *answer(const char *device, size_t count, const char *hostile)
{
    struct json *object = json_new_object(), *categories = json_new_array(), *category = json_new_object(), *notes = json_new_array(),
                *memory = json_new_object();
    json_set_string(object, "schema", "reckon.predict/1");
    json_set_string(object, "device", device);
    json_set_integer(object, "gpus", 1);
    json_set_string(object, "mode", "model");
    json_set_number(object, "step_ms", 12.25);
    json_set_string(object, "bound", "gpu");
    json_set_number(memory, "capacity", 288);
    json_set(object, "memory_gib", memory);
    json_set_string(category, "name", hostile[0] != '\0' ? hostile : "elementwise");
    json_set_number(category, "ms", 11.5);
    json_set_number(category, "count", (double)count);
    json_append(categories, category);
    json_set(object, "categories", categories);
    json_set(object, "kernels", kernels(count, hostile));
    json_set_string(object, "source", hostile[0] != '\0' ? hostile : "many.json");
    json_set(object, "timeline", timeline(count, hostile));
    json_append_string(notes, hostile[0] != '\0' ? hostile : "made by a test");
    json_set(object, "notes", notes);
    return object;
}

static int write_pair(const char *folder, const char *name, struct json *document)
{
    struct report_run run = { .command = "make_hard_pages", .version = "test", .seed = 1 };
    struct sim_error error = { 0 };
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.html", folder, name);
    if (report_write(document, &run, path, &error) != SIM_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    snprintf(path, sizeof path, "%s/%s.json", folder, name);
    FILE *out = fopen(path, "w");
    char *text = json_print(document, false);
    int failed = out == NULL || fputs(text, out) < 0 || fclose(out) != 0;
    free(text);
    json_destroy(document);
    return failed;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: make_hard_pages FOLDER\n");
        return 2;
    }
    struct json *many = json_new_array();
    json_append(many, answer("first", KERNELS, ""));
    json_append(many, answer("second", KERNELS, ""));
    int failed = write_pair(argv[1], "many", many);
    return failed | write_pair(argv[1], "names", answer("first" HOSTILE, 80, HOSTILE));
}
