#include "sim/cli/print_collective.h"
#include "sim/cli/cli.h"
#include "sim/cli/print_doubts.h"
#include "sim/core/json.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static void print_size(double bytes, char *text, size_t capacity)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    int unit = 0;
    while (bytes >= 1024 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, capacity, "%.4g %s", bytes, units[unit]);
}

/* A line "time  694.8 us  note", in columns; note "": none. */
static void print_time(const char *label, double us, const char *note)
{
    bool is_long = us >= 1e4;
    printf("  %-15s %10.*f %s%s%s\n", label, is_long ? 2 : 1, is_long ? us / 1e3 : us, is_long ? "ms" : "us",
           note[0] != '\0' ? "    " : "", note);
}

/* "41 spec, 3 measured, ...": what kind of numbers the node's profile holds. */
static void print_basis(const struct node_profile *node, char *text, size_t capacity)
{
    static const char *const kinds[] = { "spec", "measured", "derived", "fitted", "assumed" };
    size_t length = 0;
    text[0] = '\0';
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        unsigned count = 0;
        struct node_profile_value value;
        for (size_t i = 0; i < node_profile_number_count(); i++) {
            count += node_profile_number_at(node, i, &value) && strcmp(value.kind, kinds[k]) == 0;
        }
        if (count > 0 && length < capacity) {
            length += (size_t)snprintf(text + length, capacity - length, "%s%u %s", length > 0 ? ", " : "",
                                       count, kinds[k]);
        }
    }
}

static void print_links(const struct node_profile *node, const struct collective_request *request)
{
    struct node_link_table links;
    node_profile_links(node, request->gpus, &links);
    printf("\n  one way                raw    usable\n");
    printf("  one link        %10.1f %9.1f GB/s\n", links.link_raw_gbs, links.link_usable_gbs);
    if (request->gpus > 1) {
        printf("  GPU to its group%10.1f %9.1f GB/s  %u link%s, %s\n", links.group_raw_gbs,
               links.group_usable_gbs, links.links_used, links.links_used == 1 ? "" : "s", links.topology);
    }
    if (request->nodes > 1) {
        printf("  NIC of a GPU    %10.1f %9.1f GB/s\n", links.nic_raw_gbs, links.nic_usable_gbs);
    }
}

static void print_device_use(const struct collective_answer *answer)
{
    const struct collective_result *result = &answer->result;
    char memory[32], sent[32], received[32];
    printf("  runs as         %s/%s on %u channels of each GPU, %u threads each, %u registers a thread\n",
           result->algorithm, result->protocol, result->channels, result->threads, result->registers);
    if (answer->unit_count > 0) {
        printf("  CUs or SMs      %10.1f of %.0f taken from kernels beside it\n", answer->units_taken,
               answer->unit_count);
    }
    print_size(result->hbm_bytes, memory, sizeof memory);
    print_size(result->hbm_send_bytes, sent, sizeof sent);
    print_size(result->hbm_receive_bytes, received, sizeof received);
    printf("  memory traffic  %10s in each GPU: %s as sender, %s as receiver\n", memory, sent, received);
}

static void print_levers(const struct collective_answer *answer)
{
    if (answer->lever_count > 0) {
        printf("\n  %-16s %12s %-14s %12s %-14s %7s  CUs taken\n", "lever", "before", "", "after", "",
               "gain");
    }
    for (size_t i = 0; i < answer->lever_count; i++) {
        const struct collective_lever_answer *lever = &answer->levers[i];
        char off[40], on[40];
        snprintf(off, sizeof off, "%s/%s", lever->off.algorithm, lever->off.protocol);
        snprintf(on, sizeof on, "%s/%s", lever->on.algorithm, lever->on.protocol);
        printf("  %-16s %9.1f us %-14s %9.1f us %-14s %6.2fx  %.1f -> %.1f\n", lever->name,
               lever->off.time_us, off, lever->on.time_us, on, lever->off.time_us / lever->on.time_us,
               lever->off_units, lever->on_units);
    }
}

void collective_print_text(const struct collective_answer *answer)
{
    const struct collective_request *request = &answer->request;
    const struct collective_result *result = &answer->result;
    char size[32], basis[128], note[128] = "";
    snprintf(note, sizeof note, "%.0f%% of the time: the bytes alone at usable link rates",
             100 * result->bound_us / result->time_us);
    print_size(request->bytes, size, sizeof size);
    if (answer->node != NULL) {
        printf("%s of %s among %u GPUs on %u node%s %s: %s; %s\n\n", request->kind, size,
               request->gpus * request->nodes, request->nodes, request->nodes == 1 ? "" : "s",
               node_profile_name(answer->node), node_profile_title(answer->node),
               node_profile_library(answer->node));
    } else {
        printf("%s of %s among %u hosts of %s: wires alone\n\n", request->kind, size, request->gpus,
               answer->platform);
    }
    char interval[96] = "";
    if (answer->has_interval) {
        snprintf(interval, sizeof interval, "%.6g to %.6g us as the node's uncertain numbers range",
                 answer->low_us, answer->high_us);
    }
    print_time("time", result->time_us, interval);
    if (answer->harness != NULL) {
        snprintf(interval, sizeof interval, "a call as read by %s", answer->harness);
        print_time("as measured", answer->called_us, interval);
    }
    print_time("bound", result->bound_us, note);
    printf("  bus bandwidth   %10.1f GB/s%s\n", result->busbw_gbs,
           result->in_switch ? "  the switch adds, so it may exceed the usable link rate" : "");
    printf("  alg bandwidth   %10.1f GB/s\n", result->algbw_gbs);
    print_time("launch, steps", result->latency_us, "may overlap the transfer");
    print_time("transfer", result->wire_us, "");
    printf("  limiter         %10s\n", result->limiter);
    if (answer->node != NULL) {
        print_device_use(answer);
        print_links(answer->node, request);
        print_levers(answer);
    }
    printf("\n  solved by       %s, %s\n", result->engine, result->choice);
    if (answer->node != NULL) {
        print_basis(answer->node, basis, sizeof basis);
        printf("  node profile    %s\n", basis);
    }
    if (answer->doubts != NULL) {
        const char *name = node_profile_name(answer->node);
        print_doubts(answer->doubts, &name, "us");
    }
}

/* ---- JSON */

static void set_interval(struct json *root, const struct collective_answer *answer)
{
    if (answer->has_interval) {
        json_set_number(root, "time_us_low", answer->low_us);
        json_set_number(root, "time_us_high", answer->high_us);
    } else {
        json_set_null(root, "time_us_low");
        json_set_null(root, "time_us_high");
    }
    if (answer->doubts != NULL) {
        json_set(root, "uncertainty", doubts_json(answer->doubts, 0));
    }
}

static struct json *links_json(const struct collective_answer *answer)
{
    struct node_link_table links;
    struct json *table = json_new_object();
    node_profile_links(answer->node, answer->request.gpus, &links);
    json_set_string(table, "topology", links.topology);
    json_set_integer(table, "links_per_gpu", links.links_used);
    json_set_number(table, "link_raw_gbs", links.link_raw_gbs);
    json_set_number(table, "link_usable_gbs", links.link_usable_gbs);
    json_set_number(table, "group_raw_gbs", links.group_raw_gbs);
    json_set_number(table, "group_usable_gbs", links.group_usable_gbs);
    json_set_number(table, "nic_raw_gbs", links.nic_raw_gbs);
    json_set_number(table, "nic_usable_gbs", links.nic_usable_gbs);
    return table;
}

static struct json *lever_json(const struct collective_lever_answer *lever)
{
    struct json *object = json_new_object();
    json_set_string(object, "fix", lever->name);
    json_set_number(object, "before_us", lever->off.time_us);
    json_set_number(object, "after_us", lever->on.time_us);
    json_set_number(object, "gain", lever->off.time_us / lever->on.time_us);
    json_set_number(object, "before_units", lever->off_units);
    json_set_number(object, "after_units", lever->on_units);
    return object;
}

static void set_library(struct json *root, const struct collective_answer *answer)
{
    const struct collective_result *result = &answer->result;
    json_set_integer(root, "channels", result->channels);
    json_set_integer(root, "threads", result->threads);
    json_set_integer(root, "registers", result->registers);
    json_set_number(root, "units_taken", answer->units_taken);
    json_set_bool(root, "in_switch", result->in_switch);
    json_set_number(root, "hbm_bytes", result->hbm_bytes);
    json_set_number(root, "hbm_send_bytes", result->hbm_send_bytes);
    json_set_number(root, "hbm_receive_bytes", result->hbm_receive_bytes);
    json_set(root, "links", links_json(answer));
    struct json *levers = json_new_array();
    for (size_t i = 0; i < answer->lever_count; i++) {
        json_append(levers, lever_json(&answer->levers[i]));
    }
    json_set(root, "fixes", levers);
}

struct json *collective_json(const struct collective_answer *answer)
{
    const struct collective_request *request = &answer->request;
    const struct collective_result *result = &answer->result;
    struct json *root = json_new_object();
    json_set_string(root, "schema", "reckon.collective/1");
    json_set_string(root, "kind", request->kind);
    json_set_number(root, "bytes", request->bytes);
    json_set_integer(root, "gpus", (int64_t)request->gpus * request->nodes);
    json_set_integer(root, "nodes", request->nodes);
    json_set_string(root, "node", answer->node != NULL ? node_profile_name(answer->node) : answer->platform);
    json_set_number(root, "time_us", result->time_us);
    set_interval(root, answer);
    json_set_number(root, "algbw_gbs", result->algbw_gbs);
    json_set_number(root, "busbw_gbs", result->busbw_gbs);
    json_set_number(root, "bound_us", result->bound_us);
    json_set_number(root, "latency_us", result->latency_us);
    json_set_number(root, "transfer_us", result->wire_us);
    json_set_string(root, "limiter", result->limiter);
    json_set_string(root, "algorithm", result->algorithm);
    json_set_string(root, "protocol", result->protocol);
    json_set_string(root, "engine", result->engine);
    json_set_string(root, "flows", result->choice);
    if (answer->harness != NULL) {
        json_set_string(root, "harness", answer->harness);
        json_set_number(root, "called_us", answer->called_us);
    }
    if (answer->node != NULL) {
        set_library(root, answer);
    }
    return root;
}
