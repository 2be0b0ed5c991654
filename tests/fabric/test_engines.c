/* Contract of the flow engines: every engine passes the same cases, and the two agree on random networks to 1e-9. */
#include "sim/fabric/cluster_internal.h"
#include "sim/fabric/engine.h"
#include "tests/fabric/bare_node.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const enum fabric_engine both[] = { FABRIC_ENGINE_FLUID, FABRIC_ENGINE_SIMGRID };

static void expect_near(double got, double want, const char *what, const char *engine)
{
    cr_expect(fabs(got - want) <= 1e-9 * fabs(want) + 1e-12, "%s, engine %s: got %.15g, want %.15g", what,
              engine, got, want);
}

static void finish(const struct fabric_engine_ops *engine, const struct fabric_network *network,
                   double *finish_us)
{
    struct sim_error error;
    enum sim_status status = engine->finish(network, finish_us, &error);
    cr_assert(status == SIM_OK, "engine %s: %s", engine->name, error.text);
}

/* One flow of 1 MB over 50 GB/s: 1e6 B / 50e3 B/us = 20 us. Two of them share: 40. */
ParameterizedTestParameters(engine, flows_share_a_link)
{
    return cr_make_param_array(const enum fabric_engine, (void *)both, 2);
}
ParameterizedTest(enum fabric_engine *which, engine, flows_share_a_link)
{
    const struct fabric_engine_ops *engine = fabric_engine_ops(*which);
    struct fabric_network *network = fabric_network_create();
    uint32_t link = fabric_network_add_link(network, "link", 50);
    double finish_us[2];
    fabric_network_add_flow(network, &link, 1, 1e6, 1, 0);
    finish(engine, network, finish_us);
    expect_near(finish_us[0], 20, "alone", engine->name);
    fabric_network_add_flow(network, &link, 1, 1e6, 1, 0);
    finish(engine, network, finish_us);
    expect_near(finish_us[0], 40, "first of two", engine->name);
    expect_near(finish_us[1], 40, "second of two", engine->name);
    fabric_network_destroy(network);
}

/* a: link 1 (10 GB/s), b: links 1 and 2 (2: 4 GB/s), c: link 2, c twice. Link 2 is the narrowest: 4/3 each for b and the
 * two c; link 1 leaves a 10 - 4/3 = 26/3. With 26,000 B each: a ends at 26e3/(26/3 * 1e3) = 3 us; b and c run on at 4/3
 * until 26e3/(4/3 * 1e3) = 19.5 us. */
ParameterizedTestParameters(engine, rates_are_max_min)
{
    return cr_make_param_array(const enum fabric_engine, (void *)both, 2);
}
ParameterizedTest(enum fabric_engine *which, engine, rates_are_max_min)
{
    const struct fabric_engine_ops *engine = fabric_engine_ops(*which);
    struct fabric_network *network = fabric_network_create();
    uint32_t links[] = { fabric_network_add_link(network, "one", 10),
                         fabric_network_add_link(network, "two", 4) };
    fabric_network_add_flow(network, &links[0], 1, 26e3, 1, 0);
    fabric_network_add_flow(network, links, 2, 26e3, 1, 0);
    fabric_network_add_flow(network, &links[1], 1, 26e3, 2, 0); /* a class of two */
    double rate[3], finish_us[3];
    struct sim_error error;
    cr_assert(engine->rates(network, rate, &error) == SIM_OK, "%s", error.text);
    expect_near(rate[0], 26.0 / 3, "rate a", engine->name);
    expect_near(rate[1], 4.0 / 3, "rate b", engine->name);
    expect_near(rate[2], 4.0 / 3, "rate c", engine->name);
    finish(engine, network, finish_us);
    expect_near(finish_us[0], 3, "end a", engine->name);
    expect_near(finish_us[1], 19.5, "end b", engine->name);
    expect_near(finish_us[2], 19.5, "end c", engine->name);
    fabric_network_destroy(network);
}

/* 100 GB/s. a has 1 MB from 0, b 1 MB from 5 us, c nothing from 7 us.
 * a moves 0.5 MB alone by 5 us, then 50 GB/s each: a needs 10 us more, ends at 15. b has 0.5 MB left and the link to
 * itself: 5 us more, ends at 20. c ends as it starts. */
ParameterizedTestParameters(engine, late_and_empty_flows)
{
    return cr_make_param_array(const enum fabric_engine, (void *)both, 2);
}
ParameterizedTest(enum fabric_engine *which, engine, late_and_empty_flows)
{
    const struct fabric_engine_ops *engine = fabric_engine_ops(*which);
    struct fabric_network *network = fabric_network_create();
    uint32_t link = fabric_network_add_link(network, "link", 100);
    fabric_network_add_flow(network, &link, 1, 1e6, 1, 0);
    fabric_network_add_flow(network, &link, 1, 1e6, 1, 5);
    fabric_network_add_flow(network, &link, 1, 0, 1, 7);
    double finish_us[3];
    finish(engine, network, finish_us);
    expect_near(finish_us[0], 15, "a", engine->name);
    expect_near(finish_us[1], 20, "b", engine->name);
    expect_near(finish_us[2], 7, "c", engine->name);
    fabric_network_destroy(network);
}

/* ---- random networks */

static uint64_t state;

static double uniform(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) * 0x1p-53;
}

static struct fabric_network *random_network(uint64_t seed, size_t links, size_t flows)
{
    struct fabric_network *network = fabric_network_create();
    state = 88172645463325252u + seed * 1000003;
    for (size_t l = 0; l < links; l++) {
        fabric_network_add_link(network, "link", 1 + 99 * uniform());
    }
    for (size_t f = 0; f < flows; f++) {
        uint32_t path[4], length = 0, wanted = 1 + (uint32_t)(uniform() * 4);
        while (length < wanted) {
            uint32_t link = (uint32_t)(uniform() * (double)links), k = 0;
            while (k < length && path[k] != link) {
                k++;
            }
            if (k == length) {
                path[length++] = link;
            }
        }
        double members = uniform() < 0.3 ? 1 + floor(4 * uniform()) : 1;
        fabric_network_add_flow(network, path, length, floor(1e6 + 1e8 * uniform()), members,
                                uniform() < 0.5 ? 0 : 1e3 * uniform());
    }
    return network;
}

/* The certificate of max-min: no link carries more than it can, and each flow crosses a full link on which no other flow
 * is faster. */
Test(fluid, every_flow_has_a_bottleneck)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct fabric_network *network = random_network(seed, 30, 120);
        double rate[120], load[30] = { 0 }, fastest[30] = { 0 };
        struct sim_error error;
        cr_assert(fluid_engine_ops.rates(network, rate, &error) == SIM_OK);
        for (size_t f = 0; f < network->flow_count; f++) {
            for (uint32_t k = 0; k < network->flow[f].path_count; k++) {
                uint32_t link = network->path[network->flow[f].path_first + k];
                load[link] += rate[f] * network->flow[f].multiplicity;
                fastest[link] = fmax(fastest[link], rate[f]);
            }
        }
        for (size_t l = 0; l < 30; l++) {
            cr_expect(load[l] <= network->link[l].capacity_gbs * (1 + 1e-9), "seed %zu link %zu: %g of %g",
                      (size_t)seed, l, load[l], network->link[l].capacity_gbs);
        }
        for (size_t f = 0; f < network->flow_count; f++) {
            bool found = false;
            for (uint32_t k = 0; k < network->flow[f].path_count; k++) {
                uint32_t link = network->path[network->flow[f].path_first + k];
                found |= load[link] >= network->link[link].capacity_gbs * (1 - 1e-9) &&
                         rate[f] >= fastest[link] * (1 - 1e-9);
            }
            cr_expect(found, "seed %zu flow %zu at %g GB/s has no bottleneck", (size_t)seed, f, rate[f]);
        }
        fabric_network_destroy(network);
    }
}

/* Largest relative difference of finish times between the engines. */
static double engines_differ(const struct fabric_network *fluid, const struct fabric_network *simgrid)
{
    double *a = calloc(fluid->flow_count, sizeof *a), *b = calloc(fluid->flow_count, sizeof *b), worst = 0;
    finish(&fluid_engine_ops, fluid, a);
    finish(&simgrid_engine_ops, simgrid, b);
    for (size_t f = 0; f < fluid->flow_count; f++) {
        worst = fmax(worst, fabs(a[f] - b[f]) / b[f]);
    }
    free(a);
    free(b);
    return worst;
}

/* A case is a process: Criterion forks for each parameter, and the SimGrid engine forks again. */
ParameterizedTestParameters(engine, both_finish_random_networks_alike)
{
    static uint64_t seeds[] = { 1, 2, 3, 4, 5, 6, 7 };
    return cr_make_param_array(uint64_t, seeds, sizeof seeds / sizeof seeds[0]);
}
ParameterizedTest(uint64_t *seed, engine, both_finish_random_networks_alike, .timeout = 60)
{
    struct fabric_network *network = random_network(*seed, 40, 200);
    double worst = engines_differ(network, network);
    cr_expect(worst < 1e-9, "seed %zu: finish times differ by %g", (size_t)*seed, worst);
    fabric_network_destroy(network);
}

/* That the comparison can fail: a capacity off by 1e-6 shows as about 1e-6. */
Test(engine, a_wrong_capacity_shows, .timeout = 60)
{
    struct fabric_network *network = random_network(1, 40, 200), *wrong = random_network(1, 40, 200);
    for (size_t l = 0; l < wrong->link_count; l++) {
        wrong->link[l].capacity_gbs *= 1 + 1e-6;
    }
    double worst = engines_differ(network, wrong);
    cr_expect(worst > 1e-7 && worst < 1e-5, "1e-6 shows as %g", worst);
    fabric_network_destroy(network);
    fabric_network_destroy(wrong);
}

static void expect_same_rates(const struct fabric_network *network, const char *what)
{
    double *a = calloc(network->flow_count, sizeof *a), *b = calloc(network->flow_count, sizeof *b);
    struct sim_error error;
    cr_assert(fluid_engine_ops.rates(network, a, &error) == SIM_OK);
    cr_assert(simgrid_engine_ops.rates(network, b, &error) == SIM_OK, "%s", error.text);
    for (size_t f = 0; f < network->flow_count; f++) {
        cr_expect(fabs(a[f] - b[f]) < 1e-9 * b[f], "%s, flow %zu: %.15g and %.15g", what, f, a[f], b[f]);
    }
    free(a);
    free(b);
}

ParameterizedTestParameters(engine, both_give_random_networks_the_same_rates)
{
    static uint64_t seeds[] = { 3, 11, 29 };
    return cr_make_param_array(uint64_t, seeds, sizeof seeds / sizeof seeds[0]);
}
ParameterizedTest(uint64_t *seed, engine, both_give_random_networks_the_same_rates, .timeout = 60)
{
    struct fabric_network *network = random_network(*seed, 10, 24);
    expect_same_rates(network, "random");
    fabric_network_destroy(network);
}

/* All pairs at once: a mesh, a switch, and two nodes with oversubscribed rails. */
struct pairs_case {
    char node[16];
    uint32_t gpus, nodes;
};

ParameterizedTestParameters(engine, both_give_all_pairs_the_same_rates)
{
    static struct pairs_case cases[] = { { "mi350x8", GPUS(8), 1 }, { "b200x8", GPUS(8), 1 }, { "mi355x8", GPUS(4), 2 } };
    return cr_make_param_array(struct pairs_case, cases, sizeof cases / sizeof cases[0]);
}
ParameterizedTest(struct pairs_case *c, engine, both_give_all_pairs_the_same_rates, .timeout = 60)
{
    struct node_profile *node = read_node(c->node);
    set_if_present(node, "nic.rails", 4);
    set_if_present(node, "nic.oversubscription", 3);
    struct cluster cluster = { node, c->gpus, c->nodes };
    struct fabric_network *network = cluster_pairs_network(&cluster);
    expect_same_rates(network, c->node);
    fabric_network_destroy(network);
    node_profile_destroy(node);
}

/* A class of m members ends as m flows do. */
Test(fluid, class_equals_its_members)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct fabric_network *classes = random_network(seed, 12, 40), *members = fabric_network_create();
        size_t first[40];
        for (size_t l = 0; l < classes->link_count; l++) {
            fabric_network_add_link(members, "link", classes->link[l].capacity_gbs);
        }
        for (size_t f = 0; f < classes->flow_count; f++) {
            const struct fabric_flow *flow = &classes->flow[f];
            first[f] = members->flow_count;
            for (int m = 0; m < (int)flow->multiplicity; m++) {
                fabric_network_add_flow(members, classes->path + flow->path_first, flow->path_count,
                                        flow->bytes, 1, flow->start_us);
            }
        }
        double a[40], *b = calloc(members->flow_count, sizeof *b);
        finish(&fluid_engine_ops, classes, a);
        finish(&fluid_engine_ops, members, b);
        for (size_t f = 0; f < classes->flow_count; f++) {
            cr_expect(fabs(a[f] - b[first[f]]) < 1e-9 * a[f], "seed %zu flow %zu: %.15g and %.15g",
                      (size_t)seed, f, a[f], b[first[f]]);
        }
        free(b);
        fabric_network_destroy(classes);
        fabric_network_destroy(members);
    }
}

/* Only what changed is solved again: a part that shares no link with another ends exactly as alone, to the last bit. */
Test(fluid, a_part_does_not_feel_another)
{
    struct fabric_network *alone = random_network(5, 20, 60), *both_parts = random_network(5, 20, 60);
    double a[60], b[120];
    for (size_t l = 0; l < 20; l++) {
        fabric_network_add_link(both_parts, "other", 7);
    }
    for (size_t f = 0; f < 60; f++) {
        uint32_t link = (uint32_t)(20 + f % 20);
        fabric_network_add_flow(both_parts, &link, 1, 1e6 + (double)f * 1e3, 1, (double)f);
    }
    finish(&fluid_engine_ops, alone, a);
    finish(&fluid_engine_ops, both_parts, b);
    cr_expect(memcmp(a, b, sizeof a) == 0);
    fabric_network_destroy(alone);
    fabric_network_destroy(both_parts);
}

/* Ends taken together within 0.5%: no flow ends earlier than by that, nor later; each solution lasts that much longer. */
Test(fluid, ends_together_are_off_by_their_window_at_most)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct fabric_network *network = random_network(seed, 30, 300);
        double exact[300], together[300], last_exact = 0, last_together = 0;
        for (size_t f = 0; f < 300; f++) {
            network->flow[f].start_us = 0;
        }
        finish(&fluid_engine_ops, network, exact);
        network->together = 0.005;
        finish(&fluid_engine_ops, network, together);
        for (size_t f = 0; f < 300; f++) {
            last_exact = fmax(last_exact, exact[f]);
            last_together = fmax(last_together, together[f]);
        }
        cr_expect(last_together <= last_exact * (1 + 1e-9) && last_together >= last_exact * 0.995,
                  "seed %zu: %g exact, %g together", (size_t)seed, last_exact, last_together);
        cr_expect(memcmp(exact, together, sizeof exact) != 0);
        fabric_network_destroy(network);
    }
}

Test(fluid, two_runs_are_equal_to_the_bit)
{
    struct fabric_network *network = random_network(9, 40, 300);
    double a[300], b[300];
    finish(&fluid_engine_ops, network, a);
    finish(&fluid_engine_ops, network, b);
    cr_expect(memcmp(a, b, sizeof a) == 0);
    fabric_network_destroy(network);
}

/* More capacity on every link never ends the last flow later. */
Test(fluid, wider_links_are_never_slower)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct fabric_network *narrow = random_network(seed, 20, 80), *wide = random_network(seed, 20, 80);
        double a[80], b[80], last_a = 0, last_b = 0;
        for (size_t l = 0; l < wide->link_count; l++) {
            wide->link[l].capacity_gbs *= 1.25;
        }
        finish(&fluid_engine_ops, narrow, a);
        finish(&fluid_engine_ops, wide, b);
        for (size_t f = 0; f < 80; f++) {
            last_a = fmax(last_a, a[f]);
            last_b = fmax(last_b, b[f]);
        }
        cr_expect(last_b <= last_a, "seed %zu: %g then %g us", (size_t)seed, last_a, last_b);
        fabric_network_destroy(narrow);
        fabric_network_destroy(wide);
    }
}

Test(simgrid, says_what_it_cannot)
{
    struct fabric_network *network = fabric_network_create();
    struct sim_error error;
    double finish_us[1];
    uint32_t link = fabric_network_add_link(network, "link", 1);
    fabric_network_add_flow(network, &link, 1, 1, 1e6, 0);
    cr_expect(eq(int, simgrid_engine_ops.finish(network, finish_us, &error), SIM_UNSUPPORTED));
    cr_expect(strstr(error.text, "--engine fluid") != NULL, "%s", error.text);
    fabric_network_destroy(network);
}

Test(engine, unknown_name_lists_the_choices)
{
    struct sim_error error;
    enum fabric_engine engine;
    cr_expect(eq(int, fabric_engine_parse("ns3", &engine, &error), SIM_UNKNOWN_NAME));
    cr_expect(strstr(error.text, "fluid") != NULL && strstr(error.text, "simgrid") != NULL, "%s", error.text);
    cr_expect(eq(int, fabric_engine_parse("simgrid", &engine, &error), SIM_OK));
    cr_expect(eq(int, engine, FABRIC_ENGINE_SIMGRID));
}

Test(network, a_link_twice_on_a_path_is_a_bug, .signal = SIGABRT)
{
    struct fabric_network *network = fabric_network_create();
    uint32_t path[] = { fabric_network_add_link(network, "link", 1), 0 };
    fabric_network_add_flow(network, path, 2, 1, 1, 0);
}
