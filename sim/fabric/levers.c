/* Levers of practitioners as changes of a request: what is compared is the collective with the lever off and on. Source of
 * the settings: the study that this project models, section on collectives (four queue pairs to one; LL128 to LL64; ring to
 * direct all-gather; peers one by one to batches; a workgroup a peer to a wave a peer, with 64 to 48 channels, 256 to 512
 * lanes and 46% fewer registers). */
#include "sim/fabric/library_internal.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define STUDY_QUEUE_PAIRS 4
#define BATCH_PEERS 8 /* NCCL_MAX_DEV_WORK_P2P_PER_BATCH, src/include/device.h */
#define WAVE_PER_PEER_CHANNELS 0.75
#define WAVE_PER_PEER_THREADS 512
#define WAVE_PER_PEER_REGISTERS 0.54

struct lever {
    const char *name, *summary;
    bool all_gather_only, all_to_all_only, needs_network;
    void (*apply)(const struct node_profile *node, struct collective_request *before,
                  struct collective_request *after);
};

static void apply_ll64(const struct node_profile *node, struct collective_request *before,
                       struct collective_request *after)
{
    (void)node;
    before->protocol = "LL128";
    after->protocol = "LL64";
}

static void apply_single_qp(const struct node_profile *node, struct collective_request *before,
                            struct collective_request *after)
{
    (void)node;
    before->queue_pairs = STUDY_QUEUE_PAIRS;
    after->queue_pairs = 1;
}

static void apply_direct_allgather(const struct node_profile *node, struct collective_request *before,
                                   struct collective_request *after)
{
    (void)node;
    before->algorithm = "ring";
    after->algorithm = "direct";
}

static void apply_p2p_batch(const struct node_profile *node, struct collective_request *before,
                            struct collective_request *after)
{
    (void)node;
    before->p2p_batch = 1;
    after->p2p_batch = BATCH_PEERS;
}

static void apply_wave_per_peer(const struct node_profile *node, struct collective_request *before,
                                struct collective_request *after)
{
    before->channels = (uint32_t)node->library_channels;
    before->threads = (uint32_t)node->library_threads;
    before->registers = (uint32_t)node->library_registers;
    after->channels = (uint32_t)ceil(WAVE_PER_PEER_CHANNELS * node->library_channels);
    after->threads = WAVE_PER_PEER_THREADS;
    after->registers = (uint32_t)ceil(WAVE_PER_PEER_REGISTERS * node->library_registers);
}

static const struct lever levers[] = {
    { "ll64", "a flag per 64-byte line instead of per 128-byte line", false, false, false, apply_ll64 },
    { "single-qp", "one queue pair of a connection instead of four", false, false, true, apply_single_qp },
    { "direct-allgather", "all sends at once instead of ring hops", true, false, false,
      apply_direct_allgather },
    { "p2p-batch", "peers start in batches instead of one by one", false, true, false, apply_p2p_batch },
    { "wave-per-peer", "a wave per peer instead of a workgroup: fewer CUs", false, true, false,
      apply_wave_per_peer },
};
#define LEVERS (sizeof levers / sizeof levers[0])

static enum sim_status check_lever(const struct lever *lever, const struct node_profile *node,
                                   const struct collective_request *request, struct sim_error *error)
{
    int kind = request->kind == NULL ? -1 : collective_kind_parse(request->kind);
    const char *wanted = lever->all_gather_only ? "all_gather" : "all_to_all";
    if (kind >= 0 &&
        ((lever->all_gather_only && kind != ALL_GATHER) || (lever->all_to_all_only && kind != ALL_TO_ALL))) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "fix %s changes %s alone, not %s", lever->name, wanted,
                        request->kind);
    }
    if (lever->needs_network && request->nodes < 2) {
        return sim_fail(error, SIM_BAD_ARGUMENT,
                        "fix %s changes NICs, which %s on one node does not use: needs 2 nodes or more",
                        lever->name, request->kind);
    }
    if (lever->apply == apply_wave_per_peer && node->library_threads >= WAVE_PER_PEER_THREADS) {
        return sim_fail(error, SIM_BAD_ARGUMENT,
                        "fix %s: workgroups of node %s have %g lanes already; it is for fewer than %d",
                        lever->name, node->name, node->library_threads, WAVE_PER_PEER_THREADS);
    }
    return SIM_OK;
}

enum sim_status collective_lever(const struct node_profile *node, const char *name,
                                 const struct collective_request *request, struct collective_request *before,
                                 struct collective_request *after, struct sim_error *error)
{
    char choices[512] = "";
    for (size_t i = 0; i < LEVERS; i++) {
        if (strcmp(levers[i].name, name) == 0) {
            enum sim_status status = check_lever(&levers[i], node, request, error);
            *before = *after = *request;
            if (status == SIM_OK) {
                levers[i].apply(node, before, after);
            }
            return status;
        }
        size_t length = strlen(choices);
        snprintf(choices + length, sizeof choices - length, "%s%s (%s)", i == 0 ? "" : ", ", levers[i].name,
                 levers[i].summary);
    }
    return sim_fail(error, SIM_UNKNOWN_NAME, "unknown fix \"%s\" of a collective: must be %s", name, choices);
}
