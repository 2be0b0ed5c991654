#include "sim/step/session.h"
#include "sim/core/data_path.h"
#include "sim/core/hash.h"
#include "sim/core/printable.h"
#include "sim/step/parallel.h"
#include "sim/step/price_board.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memo: open addressing, at most half full; entries never move */

struct memo_entry {
    char *key;
    struct kernel_price *price;
    struct priced_request asked; /* texts owned; suite NULL where a caller added the price by itself */
    uint32_t counted_in;         /* the last prediction that counted it; 0: none */
};

struct price_memo {
    struct memo_entry *entries; /* [capacity], a power of two */
    size_t capacity, count;
};

struct price_memo *price_memo_create(void)
{
    struct price_memo *memo = calloc(1, sizeof *memo);
    SIM_ASSERT(memo != NULL, "no memory for the memo");
    memo->capacity = 256;
    memo->entries = calloc(memo->capacity, sizeof *memo->entries);
    SIM_ASSERT(memo->entries != NULL, "no memory for the memo");
    return memo;
}

void price_memo_destroy(struct price_memo *memo)
{
    for (size_t i = 0; memo != NULL && i < memo->capacity; i++) {
        free(memo->entries[i].key);
        free(memo->entries[i].price);
        free((char *)memo->entries[i].asked.request.suite);
        free((char *)memo->entries[i].asked.request.kernel);
        free((char *)memo->entries[i].asked.request.params);
        free((char *)memo->entries[i].asked.request.library);
    }
    if (memo != NULL) {
        free(memo->entries);
        free(memo);
    }
}

static struct memo_entry *entry_of(const struct price_memo *memo, const char *key)
{
    size_t at = (size_t)hash64_add_text(HASH64_START, key) & (memo->capacity - 1);
    while (memo->entries[at].key != NULL && strcmp(memo->entries[at].key, key) != 0) {
        at = (at + 1) & (memo->capacity - 1);
    }
    return &memo->entries[at];
}

const struct kernel_price *price_memo_find(const struct price_memo *memo, const char *key)
{
    return entry_of(memo, key)->price;
}

static void memo_grow(struct price_memo *memo)
{
    struct price_memo grown = { .capacity = memo->capacity * 2, .count = memo->count };
    grown.entries = calloc(grown.capacity, sizeof *grown.entries);
    SIM_ASSERT(grown.entries != NULL, "no memory for %zu prices", grown.capacity);
    for (size_t i = 0; i < memo->capacity; i++) {
        if (memo->entries[i].key != NULL) {
            *entry_of(&grown, memo->entries[i].key) = memo->entries[i];
        }
    }
    free(memo->entries);
    *memo = grown;
}

const struct kernel_price *price_memo_add(struct price_memo *memo, const char *key,
                                          const struct kernel_price *price)
{
    if (memo->count * 2 >= memo->capacity) {
        memo_grow(memo);
    }
    struct memo_entry *entry = entry_of(memo, key);
    SIM_ASSERT(entry->key == NULL, "price of %s twice", key);
    entry->key = strdup(key);
    entry->price = malloc(sizeof *entry->price);
    SIM_ASSERT(entry->key != NULL && entry->price != NULL, "no memory for a price");
    *entry->price = *price;
    memo->count++;
    return entry->price;
}

void price_key(const struct reckon *reckon, const struct reckon_device *device,
               const struct kernel_price_request *request, char key[PRICE_KEY_CAPACITY])
{
    const struct kernel_price_loop *loop = &request->loop;
    char timing[160] = "0|0,0,0,0,0"; /* as printed below; a step asks for thousands of keys, and zeros are slow to print */
    if (request->core_mhz != 0 || loop->calls != 0 || loop->between_us != 0 || loop->pause_us != 0 || loop->spin_mhz != 0 ||
        loop->copy_pause_us != 0) {
        snprintf(timing, sizeof timing, "%.17g|%g,%g,%g,%g,%g", request->core_mhz, loop->calls, loop->between_us, loop->pause_us,
                 loop->spin_mhz, loop->copy_pause_us);
    }
    int length = snprintf(key, PRICE_KEY_CAPACITY, "%016llx|%016llx|%d|%llu|%d,%d|%d|%llu,%llu|%s|%s|%s/%s|%s",
                          (unsigned long long)device->chip.hash, (unsigned long long)node_profile_hash(device->node),
                          (int)reckon->options.chip_reference, (unsigned long long)reckon->options.seed, (int)request->cache,
                          (int)request->in_step,
                          (int)request->exact, (unsigned long long)request->window_requests,
                          (unsigned long long)request->wide_requests, timing,
                          request->library != NULL ? request->library : "", request->suite, request->kernel,
                          request->params != NULL ? request->params : "");
    SIM_ASSERT(length > 0 && length < PRICE_KEY_CAPACITY, "key of %s/%s is %d bytes long", request->suite,
               request->kernel, length);
}

/* ---- what was asked */

static char *copy_of(const char *text)
{
    char *copy = text != NULL ? strdup(text) : NULL;
    SIM_ASSERT(text == NULL || copy != NULL, "no memory for a request");
    return copy;
}

static void note_request(struct reckon *reckon, const struct reckon_device *device, const char *key,
                         const struct kernel_price_request *request)
{
    struct memo_entry *entry = entry_of(reckon->memo, key);
    entry->asked = (struct priced_request){ .request = *request, .chip_hash = device->chip.hash, .price = entry->price };
    entry->asked.request.suite = copy_of(request->suite);
    entry->asked.request.kernel = copy_of(request->kernel);
    entry->asked.request.params = copy_of(request->params);
    entry->asked.request.library = copy_of(request->library);
}

void session_use(struct reckon *reckon, const struct reckon_device *device,
                 const struct kernel_price_request *request, double us)
{
    char key[PRICE_KEY_CAPACITY];
    price_key(reckon, device, request, key);
    entry_of(reckon->memo, key)->asked.used_us += us;
}

static int by_memo_key(const void *a, const void *b)
{
    return strcmp((*(const struct memo_entry *const *)a)->key, (*(const struct memo_entry *const *)b)->key);
}

size_t session_priced(const struct reckon *reckon, const struct reckon_device *device,
                      struct priced_request **out)
{
    const struct price_memo *memo = reckon->memo;
    const struct memo_entry **entries = malloc((memo->count + 1) * sizeof(struct memo_entry *));
    size_t count = 0;
    *out = malloc((memo->count + 1) * sizeof **out);
    SIM_ASSERT(entries != NULL && *out != NULL, "no memory for %zu prices", memo->count);
    for (size_t i = 0; i < memo->capacity; i++) {
        const struct memo_entry *entry = &memo->entries[i];
        if (entry->key != NULL && entry->asked.request.suite != NULL && entry->asked.chip_hash == device->chip.hash &&
            entry->counted_in == reckon->prediction) {
            entries[count++] = entry;
        }
    }
    qsort(entries, count, sizeof(struct memo_entry *), by_memo_key);
    for (size_t i = 0; i < count; i++) {
        (*out)[i] = entries[i]->asked;
    }
    free(entries);
    return count;
}

/* ---- pricing */

#define LAUNCHES_KEPT 8192

struct outcome { /* shared with the workers */
    struct kernel_price price;
    enum { OUTCOME_WORKED_OUT, OUTCOME_TAKEN, OUTCOME_BUSY } how;
    size_t slot; /* on the board */
};

struct pricing {
    struct kernel_price_machine machine;
    const struct keyed *wanted;
    struct outcome *outcomes;
    const struct reckon *reckon;
};

struct keyed {
    char *key;
    const struct kernel_price_request *request;
};

static void work_out(const struct pricing *pricing, size_t index)
{
    struct outcome *outcome = &pricing->outcomes[index];
    kernel_price_compute(&pricing->machine, pricing->wanted[index].request, &outcome->price);
    outcome->how = OUTCOME_WORKED_OUT;
}

static void price_one(void *context, size_t index)
{
    struct pricing *pricing = context;
    struct outcome *outcome = &pricing->outcomes[index];
    struct price_board *board = pricing->reckon->board;
    enum price_claim claim = board != NULL ? price_board_claim(board, pricing->wanted[index].key, &outcome->slot)
                                           : PRICE_CLAIM_FULL;
    if (claim == PRICE_CLAIM_THERE) {
        price_board_take(board, outcome->slot, &outcome->price);
        outcome->how = OUTCOME_TAKEN;
    } else if (claim == PRICE_CLAIM_BUSY) {
        outcome->how = OUTCOME_BUSY;
    } else {
        work_out(pricing, index);
        if (claim == PRICE_CLAIM_MINE) {
            price_board_publish(board, outcome->slot, &outcome->price);
        }
    }
}

/* What other processes were at when this one came by. */
static void await_others(const struct pricing *pricing, size_t count)
{
    struct price_board *board = pricing->reckon->board;
    for (size_t i = 0; i < count; i++) {
        struct outcome *outcome = &pricing->outcomes[i];
        if (outcome->how != OUTCOME_BUSY) {
            continue;
        }
        if (price_board_wait(board, outcome->slot)) {
            price_board_take(board, outcome->slot, &outcome->price);
            outcome->how = OUTCOME_TAKEN;
        } else {
            work_out(pricing, i);
            price_board_publish(board, outcome->slot, &outcome->price);
        }
    }
}

static void price_tick(void *context, size_t done, size_t count)
{
    const struct pricing *pricing = context;
    session_progress(pricing->reckon, "kernels priced", done, count);
}

struct kernel_price_machine session_machine(const struct reckon *reckon, const struct reckon_device *device)
{
    return (struct kernel_price_machine){
        .chip = &device->chip,
        .node = device->node,
        .libraries = &reckon->libraries,
        .seed = reckon->options.seed,
        .engine = reckon->options.chip_reference ? CHIP_ENGINE_REFERENCE : CHIP_ENGINE_FAST,
    };
}

/* Backwards, which puts the tables' kernels, of many launches, before the products and the maps: workers end together. */
static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct keyed *)b)->key, ((const struct keyed *)a)->key);
}

void session_begin_prediction(struct reckon *reckon)
{
    reckon->prediction++;
}

/* Count a price that a prediction has asked for, once in each; what earlier ones used it for is theirs. */
static void count_price(struct reckon *reckon, const char *key, bool found)
{
    struct memo_entry *entry = entry_of(reckon->memo, key);
    if (entry->key != NULL && entry->counted_in != reckon->prediction) {
        entry->counted_in = reckon->prediction;
        entry->asked.used_us = 0;
        reckon->counts.asked++;
        reckon->counts.found += found;
    }
}

/* The requests that the memo lacks, each key once, in key order. */
static size_t missing_of(struct reckon *reckon, const struct reckon_device *device,
                         const struct kernel_price_request *requests, size_t count, struct keyed *keyed)
{
    char key[PRICE_KEY_CAPACITY];
    size_t listed = 0, distinct = 0;
    for (size_t i = 0; i < count; i++) {
        price_key(reckon, device, &requests[i], key);
        if (price_memo_find(reckon->memo, key) == NULL) {
            keyed[listed] = (struct keyed){ strdup(key), &requests[i] };
            SIM_ASSERT(keyed[listed].key != NULL, "no memory for %zu keys", count);
            listed++;
        } else {
            count_price(reckon, key, true);
        }
    }
    qsort(keyed, listed, sizeof keyed[0], by_key);
    for (size_t i = 0; i < listed; i++) {
        if (distinct > 0 && strcmp(keyed[distinct - 1].key, keyed[i].key) == 0) {
            free(keyed[i].key);
        } else {
            keyed[distinct++] = keyed[i];
        }
    }
    return distinct;
}

/* Where launches are kept. Without memory for it, or once it is full, each is run where it is met. */
static struct price_board *launches_of(struct reckon *reckon)
{
    if (reckon->board == NULL && reckon->launches == NULL) {
        price_board_open(NULL, LAUNCHES_KEPT, &reckon->launches, NULL);
    }
    return reckon->board != NULL ? reckon->board : reckon->launches;
}

enum sim_status session_price(struct reckon *reckon, const struct reckon_device *device,
                              const struct kernel_price_request *requests, size_t count,
                              struct sim_error *error)
{
    enum sim_status status = SIM_OK;
    struct keyed *keyed = malloc((count + 1) * sizeof *keyed);
    SIM_ASSERT(keyed != NULL, "no memory for %zu requests", count);
    size_t distinct = missing_of(reckon, device, requests, count, keyed);
    struct pricing pricing = { .machine = session_machine(reckon, device),
                               .reckon = reckon,
                               .wanted = keyed,
                               .outcomes = parallel_share(distinct * sizeof(struct outcome)) };
    pricing.machine.board = launches_of(reckon);
    if (pricing.outcomes == NULL) {
        status = sim_fail(error, SIM_NO_MEMORY, "no memory for %zu prices", distinct);
    } else {
        status = parallel_run(reckon->options.jobs, distinct, price_one, &pricing, price_tick, &pricing, error);
    }
    if (status == SIM_OK) {
        await_others(&pricing, distinct);
    }
    for (size_t i = 0; i < distinct; i++) {
        if (status == SIM_OK) {
            price_memo_add(reckon->memo, keyed[i].key, &pricing.outcomes[i].price);
            note_request(reckon, device, keyed[i].key, keyed[i].request);
            count_price(reckon, keyed[i].key, pricing.outcomes[i].how == OUTCOME_TAKEN);
        }
        free(keyed[i].key);
    }
    parallel_unshare(pricing.outcomes, distinct * sizeof(struct outcome));
    free(keyed);
    return status;
}

const struct kernel_price *session_price_of(const struct reckon *reckon, const struct reckon_device *device,
                                            const struct kernel_price_request *request)
{
    char key[PRICE_KEY_CAPACITY];
    price_key(reckon, device, request, key);
    const struct kernel_price *price = price_memo_find(reckon->memo, key);
    SIM_ASSERT(price != NULL, "not priced: %s", key);
    return price;
}

void session_progress(const struct reckon *reckon, const char *what, size_t done, size_t total)
{
    if (reckon->options.progress != NULL) {
        reckon->options.progress(reckon->options.progress_context, what, done, total);
    }
}

/* ---- notes and basis */

void notes_add(struct reckon_notes *notes, const char *format, ...)
{
    char text[sizeof notes->text[0]];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof text) {
        strcpy(text + sizeof text - 4, "...");
    }
    text_make_printable(text);
    for (size_t i = 0; i < notes->count; i++) {
        if (strcmp(notes->text[i], text) == 0) {
            return;
        }
    }
    void *grown = realloc(notes->text, (notes->count + 1) * sizeof notes->text[0]);
    SIM_ASSERT(grown != NULL, "no memory for %zu notes", notes->count);
    notes->text = grown;
    strcpy(notes->text[notes->count++], text);
}

void notes_free(struct reckon_notes *notes)
{
    free(notes->text);
    *notes = (struct reckon_notes){ 0 };
}

void basis_add_chip(struct reckon_basis *basis, const struct chip_profile *chip)
{
    for (int i = 0; i < CHIP_NUMBERS; i++) {
        if (chip->meta[i].source != NULL) {
            basis->count[chip->meta[i].kind]++;
        }
    }
}

void basis_add_kinds(struct reckon_basis *basis, const struct value_kinds *kinds)
{
    for (int k = 0; k < PROFILE_KINDS; k++) {
        basis->count[k] += kinds->count[k];
    }
}

enum sim_status session_harness_read(const char *name, struct harness_profile *harness,
                                     struct sim_error *error)
{
    char path[DATA_PATH_CAPACITY];
    enum sim_status status = data_path_find("devices/harness", "harness", name, path, error);
    return status == SIM_OK ? harness_profile_read(path, harness, error) : status;
}
