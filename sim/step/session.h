/* What the files behind reckon.h share: a session with its memo of priced kernels, an open device, and notes. */
#ifndef SIM_STEP_SESSION_H
#define SIM_STEP_SESSION_H
#include "sim/reckon.h"
#include "sim/step/host_profile.h"
#include "sim/step/kernel_price.h"
#include <stdbool.h>

struct price_memo;  /* priced kernels by key text */
struct price_board; /* price_board.h */

struct reckon {
    struct reckon_options options; /* jobs resolved, never 0 */
    struct price_memo *memo;
    struct library_set libraries;
    struct price_board *board; /* shared with other processes; NULL: none */
    struct price_board *launches; /* of this session and its workers, where there is no board; made at the first price */
    struct reckon_memo_counts counts;
    uint32_t prediction; /* number of the prediction at work: a price counts once in each */
};

struct reckon_device {
    struct chip_profile chip;
    struct node_profile *node;
    bool node_named; /* asked for, rather than the device's own */
    struct host_profile host;
};

/* ---- memo. Keys hold everything a price depends on: kernel, parameters, profile, clock, cache, engine, seed. */

#define PRICE_KEY_CAPACITY 1024

struct price_memo *price_memo_create(void);
void price_memo_destroy(struct price_memo *memo);
/* Borrowed until the memo is destroyed; NULL when not there. */
const struct kernel_price *price_memo_find(const struct price_memo *memo, const char *key);
/* Copies both; the key must not be there yet (asserted). */
const struct kernel_price *price_memo_add(struct price_memo *memo, const char *key,
                                          const struct kernel_price *price);

/* A price that a session has worked out: what was asked, the answer, and how much of an answer it carries. */
struct priced_request {
    struct kernel_price_request request; /* texts owned by the memo */
    uint64_t chip_hash;
    double used_us; /* of all nodes of the last prediction that took this price */
    const struct kernel_price *price;
};
/* Those that the last prediction asked for, of one chip, in the order of their keys; the caller frees the list. */
size_t session_priced(const struct reckon *reckon, const struct reckon_device *device,
                      struct priced_request **out);
/* Note that the prediction at work took the price of this request for `us`. */
void session_use(struct reckon *reckon, const struct reckon_device *device,
                 const struct kernel_price_request *request, double us);

void price_key(const struct reckon *reckon, const struct reckon_device *device,
               const struct kernel_price_request *request, char key[PRICE_KEY_CAPACITY]);

/* Price all of `requests` that the memo lacks, over the session's workers; outcomes are in the memo afterwards, failed ones
 * too. Parameters' texts are borrowed for the call. Equal requests are priced once. */
enum sim_status session_price(struct reckon *reckon, const struct reckon_device *device,
                              const struct kernel_price_request *requests, size_t count,
                              struct sim_error *error);
/* The one of a request that session_price has seen (asserted). */
const struct kernel_price *session_price_of(const struct reckon *reckon, const struct reckon_device *device,
                                            const struct kernel_price_request *request);

void session_begin_prediction(struct reckon *reckon);
void session_progress(const struct reckon *reckon, const char *what, size_t done, size_t total);

struct kernel_price_machine session_machine(const struct reckon *reckon, const struct reckon_device *device);

/* ---- notes and basis */

/* Text beyond the note's capacity is cut with "..."; the same text twice is kept once. */
void notes_add(struct reckon_notes *notes, const char *format, ...) __attribute__((format(printf, 2, 3)));
void notes_free(struct reckon_notes *notes);

void basis_add_chip(struct reckon_basis *basis, const struct chip_profile *chip);
void basis_add_kinds(struct reckon_basis *basis, const struct value_kinds *kinds);

/* ---- harness profiles by name or by what they cover */

enum sim_status session_harness_read(const char *name, struct harness_profile *harness,
                                     struct sim_error *error);

#endif
