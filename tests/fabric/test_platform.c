/* SimGrid platform files: ours written and read again, small ones of others by hand, and what is refused. */
#include "sim/fabric/platform.h"
#include "tests/fabric/bare_node.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB 1048576.0
#define BYTES_PER_US 1000.0 /* of one GB/s */

static void temporary(char path[64])
{
    strcpy(path, "/tmp/reckon_platform_XXXXXX.xml");
    int descriptor = mkstemps(path, 4);
    cr_assert(descriptor >= 0);
    close(descriptor);
}

static void write_text(const char *path, const char *body)
{
    FILE *file = fopen(path, "w");
    cr_assert(file != NULL);
    fprintf(file,
            "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
            "<platform version=\"4.1\">\n%s</platform>\n",
            body);
    fclose(file);
}

static struct platform *read_text(const char *body)
{
    char path[64];
    struct platform *platform = NULL;
    struct sim_error error = { 0 };
    temporary(path);
    write_text(path, body);
    enum sim_status status = platform_read(path, &platform, &error);
    unlink(path);
    cr_assert(status == SIM_OK, "%s", error.text);
    return platform;
}

static double time_of(const struct platform *platform, const char *kind, double bytes,
                      enum fabric_engine engine)
{
    struct collective_request request = { .kind = kind, .bytes = bytes };
    struct collective_result result;
    struct sim_error error = { 0 };
    enum sim_status status = platform_collective_time(platform, &request, engine, &result, &error);
    cr_assert(status == SIM_OK, "%s", error.text);
    return result.time_us;
}

/* Written and read again, an all-to-all takes the bound of the node it came from, plus the latency of its longest route. */
Test(platform, ours_survives_the_round_trip)
{
    static const struct {
        const char *node;
        uint32_t gpus, nodes;
    } cases[] = { { "mi350x8", 8, 1 }, { "b200x8", 8, 1 }, { "mi355x8", 8, 2 }, { "b200x8", 4, 3 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct node_profile *node = read_node(cases[i].node);
        struct platform *platform = NULL;
        struct sim_error error = { 0 };
        char path[64];
        temporary(path);
        set_number(node, "nic.leaf_nodes", 1);
        set_number(node, "nic.oversubscription", 2);
        enum sim_status status = platform_write(node, cases[i].gpus, cases[i].nodes, path, &error);
        cr_assert(status == SIM_OK, "%s", error.text);
        status = platform_read(path, &platform, &error);
        cr_assert(status == SIM_OK, "%s", error.text);
        unlink(path);
        struct collective_request request = {
            .kind = "all_to_all", .bytes = 96 * MIB, .gpus = cases[i].gpus, .nodes = cases[i].nodes
        };
        struct collective_result result;
        status = collective_time(node, &request, FABRIC_ENGINE_FLUID, &result, &error);
        cr_assert(status == SIM_OK, "%s", error.text);
        double latency_us = *node_profile_number(node, cases[i].nodes > 1 ? "nic.latency" : "link.latency");
        double got = time_of(platform, "all_to_all", 96 * MIB, FABRIC_ENGINE_FLUID);
        cr_expect(fabs(got / (result.bound_us + latency_us) - 1) < 1e-9, "%s x %u: %.12g, bound %.12g",
                  cases[i].node, cases[i].nodes, got, result.bound_us);
        cr_expect(fabs(time_of(platform, "all_to_all", 96 * MIB, FABRIC_ENGINE_SIMGRID) / got - 1) < 1e-9);
        cr_expect(eq(u32, platform->host_count, cases[i].gpus * cases[i].nodes));
        platform_destroy(platform);
        node_profile_destroy(node);
    }
}

#define STAR                                                                                           \
    "<zone id=\"z\" routing=\"Full\">\n"                                                               \
    "<host id=\"h2\" speed=\"1Gf\"/><host id=\"h10\" speed=\"1Gf\"/><host id=\"h1\" speed=\"1Gf\"/>\n" \
    "<link id=\"a\" bandwidth=\"10GBps\" latency=\"1us\"/><link id=\"b\" bandwidth=\"20GBps\" "        \
    "latency=\"2us\"/>"                                                                                \
    "<link id=\"c\" bandwidth=\"40GBps\" latency=\"4us\"%s/>\n"                                        \
    "<route src=\"h1\" dst=\"h2\"><link_ctn id=\"a\"/></route>\n"                                      \
    "<route src=\"h1\" dst=\"h10\"><link_ctn id=\"a\"/><link_ctn id=\"b\"/></route>\n"                 \
    "<route src=\"h2\" dst=\"h10\"><link_ctn id=\"c\"/></route>\n</zone>\n"

/* Three hosts, in natural order h1 h2 h10. A ring step of all-gather sends h1 -> h2 over a, h2 -> h10 over c, h10 -> h1 over a
 * and b: link a carries two pieces of 1 MB at 10 GB/s, so 200 us; its longest latency is c's 4 us; two steps. */
Test(platform, ring_by_hand)
{
    char body[2048];
    snprintf(body, sizeof body, STAR, "");
    struct platform *platform = read_text(body);
    cr_expect(strcmp(platform->host[0], "h1") == 0 && strcmp(platform->host[2], "h10") == 0);
    double want = 2 * (2e6 / (10 * BYTES_PER_US) + 4);
    cr_expect(epsilon_eq(dbl, time_of(platform, "all_gather", 3e6, FABRIC_ENGINE_FLUID), want, 1e-6));
    cr_expect(epsilon_eq(dbl, time_of(platform, "all_reduce", 3e6, FABRIC_ENGINE_FLUID), 2 * want, 1e-6));
    platform_destroy(platform);
}

/* All-to-all of 3 MB: c carries 2 messages of 1 MB, 50 us when shared, 25 when each flow has all of it (FATPIPE); a carries 4:
 * 400 us either way. Between h2 and h10 alone c is all there is. */
Test(platform, fat_pipes_are_not_shared)
{
    for (int fat = 0; fat < 2; fat++) {
        char body[2048];
        snprintf(body, sizeof body, STAR, fat ? " sharing_policy=\"FATPIPE\"" : "");
        struct platform *platform = read_text(body);
        double split[9] = { 0, 0, 0, 0, 0, 1e6, 0, 1e6, 0 };
        struct collective_request request = { .kind = "all_to_all", .split_bytes = split };
        struct collective_result result;
        struct sim_error error = { 0 };
        cr_assert(platform_collective_time(platform, &request, FABRIC_ENGINE_FLUID, &result, &error) ==
                  SIM_OK);
        cr_expect(epsilon_eq(dbl, result.wire_us, fat ? 25 : 50, 1e-9));
        cr_expect(epsilon_eq(dbl, time_of(platform, "all_to_all", 3e6, FABRIC_ENGINE_FLUID), 400 + 4, 1e-6));
        platform_destroy(platform);
    }
}

/* A zone kind that we do not write: SimGrid's own cluster with a backbone of 2 GB/s. Four hosts, 12 messages of 1 MB: 6,000 us. */
Test(platform, any_zone_kind_of_simgrid)
{
    struct platform *platform = read_text(
        "<cluster id=\"c\" prefix=\"n\" suffix=\"\" radical=\"0-3\" speed=\"1Gf\" bw=\"100GBps\" lat=\"0us\" "
        "bb_bw=\"2GBps\" bb_lat=\"3us\"/>\n");
    cr_expect(eq(u32, platform->host_count, 4));
    double us = time_of(platform, "all_to_all", 4e6, FABRIC_ENGINE_FLUID);
    cr_expect(epsilon_eq(dbl, us, 12e6 / (2 * BYTES_PER_US) + 3, 1e-3));
    platform_destroy(platform);
}

Test(platform, wrong_files_are_one_line)
{
    static const struct {
        const char *body, *says;
    } cases[] = {
        { "<zone id=\"z\" routing=\"Full\"><host id=\"a\" speed=\"1Gf\"/></zone>", "2 to 512" },
        { "<zone id=\"z\" routing=\"Full\"><host id=\"a\" speed=\"1Gf\"/><host id=\"b\" "
          "speed=\"1Gf\"/></zone>",
          "no route from rank 0 (a) to rank 1 (b)" },
        { "<zone id=\"z\" routing=\"Full\"><host id=\"a\" speed=\"1Gf\"/><host id=\"b\" speed=\"1Gf\"/>"
          "<link id=\"l\" bandwidth=\"1GBps\" latency=\"0us\"/>"
          "<route src=\"a\" dst=\"b\" symmetrical=\"NO\"><link_ctn id=\"l\"/></route></zone>",
          "no route from rank 1 (b) to rank 0 (a)" },
        { "<zone id=\"z\" routing=\"Nowhere\"/>", "must be a platform file" },
        { "not XML at all", "must be a platform file" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[64];
        struct platform *platform = NULL;
        struct sim_error error = { 0 };
        temporary(path);
        write_text(path, cases[i].body);
        enum sim_status status = platform_read(path, &platform, &error);
        unlink(path);
        cr_expect(status != SIM_OK && sim_status_exit_code(status) == 1 && platform == NULL, "case %zu", i);
        cr_expect(strstr(error.text, cases[i].says) != NULL && strchr(error.text, '\n') == NULL,
                  "case %zu: %s", i, error.text);
        cr_expect(strstr(error.text, path) != NULL, "%s", error.text);
    }
    struct platform *platform = NULL;
    struct sim_error error = { 0 };
    cr_expect(eq(int, platform_read("/nowhere/p.xml", &platform, &error), SIM_BAD_FILE));
}

Test(platform, wrong_calls_are_one_line)
{
    char body[2048];
    snprintf(body, sizeof body, STAR, "");
    struct platform *platform = read_text(body);
    static const struct {
        struct collective_request request;
        const char *says;
    } cases[] = {
        { { .kind = "gossip", .bytes = 1 }, "all_reduce" },
        { { .kind = "all_reduce", .bytes = 0 }, "above 0" },
        { { .kind = "all_reduce", .bytes = 1, .gpus = 4 }, "2 to 3" },
        { { .kind = "all_reduce", .bytes = 1, .gpus = 1 }, "2 to 3" },
        { { .kind = "all_reduce", .bytes = 1, .protocol = "LL" }, "no library" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct collective_result result;
        struct sim_error error = { 0 };
        enum sim_status status = platform_collective_time(platform, &cases[i].request, FABRIC_ENGINE_FLUID,
                                                          &result, &error);
        cr_expect(status != SIM_OK && sim_status_exit_code(status) == 1, "case %zu", i);
        cr_expect(strstr(error.text, cases[i].says) != NULL && strchr(error.text, '\n') == NULL, "%s",
                  error.text);
    }
    platform_destroy(platform);
}
