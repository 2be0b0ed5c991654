#include "sim/step/price_board.h"
#include "sim/core/hash.h"
#include "sim/step/session.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define EXECUTED_AT_CAPACITY 48
#define WAIT_NS 500000

struct entry { /* key and owner are written before the index names the entry; the rest before `ready` is 1 */
    atomic_int ready;
    _Atomic pid_t owner;
    char key[PRICE_KEY_CAPACITY];
    char executed_at[EXECUTED_AT_CAPACITY]; /* the one text of a price that is a pointer: addresses differ between programs */
    struct kernel_price price;
};

struct shared { /* all zero at first, and never smaller again */
    atomic_size_t claimed;
    char rest[];
};

/* index[2 x capacity]: 0 free, else entry + 1; open addressing. */
struct price_board {
    struct shared *shared;
    atomic_uint *index;
    struct entry *entries;
    size_t capacity, bytes;
};

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static void *map(const char *path, size_t bytes, struct sim_error *error)
{
    void *memory;
    if (path == NULL) {
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    } else {
        int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (file < 0 || ftruncate(file, (off_t)bytes) != 0) {
            sim_fail(error, SIM_BAD_FILE, "%s: cannot hold shared prices: %s", path, strerror(errno));
            if (file >= 0) {
                close(file);
            }
            return NULL;
        }
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
        close(file);
    }
    if (memory == MAP_FAILED) {
        sim_fail(error, SIM_NO_MEMORY, "no shared memory of %zu bytes for prices", bytes);
        return NULL;
    }
    return memory;
}

enum sim_status price_board_open(const char *path, size_t capacity, struct price_board **out, struct sim_error *error)
{
    size_t head = round_up(sizeof(struct shared)), index = round_up(2 * capacity * sizeof(atomic_uint));
    struct price_board *board = calloc(1, sizeof *board);
    struct sim_error reason = { .status = SIM_NO_MEMORY, .text = "no memory for shared prices" };
    *out = NULL;
    if (board != NULL) {
        board->capacity = capacity;
        board->bytes = head + index + capacity * sizeof(struct entry);
        board->shared = map(path, board->bytes, &reason);
    }
    if (board == NULL || board->shared == NULL) {
        free(board);
        return sim_fail(error, reason.status, "%s", reason.text);
    }
    board->index = (atomic_uint *)(void *)((char *)board->shared + head);
    board->entries = (struct entry *)(void *)((char *)board->shared + head + index);
    *out = board;
    return SIM_OK;
}

void price_board_close(struct price_board *board)
{
    if (board != NULL) {
        munmap(board->shared, board->bytes);
        free(board);
    }
}

/* An entry of one's own with the key in it; false when there is no room. */
static bool prepare(struct price_board *board, const char *key, size_t *slot)
{
    *slot = atomic_fetch_add(&board->shared->claimed, 1);
    if (*slot >= board->capacity) {
        atomic_fetch_sub(&board->shared->claimed, 1);
        return false;
    }
    SIM_ASSERT(strlen(key) < PRICE_KEY_CAPACITY, "key of %zu bytes", strlen(key));
    strcpy(board->entries[*slot].key, key);
    atomic_store(&board->entries[*slot].owner, getpid());
    return true;
}

enum price_claim price_board_claim(struct price_board *board, const char *key, size_t *slot)
{
    size_t at = (size_t)hash64_add_text(HASH64_START, key) % (2 * board->capacity), mine = 0;
    bool prepared = false;
    for (;;) {
        unsigned found = atomic_load(&board->index[at]);
        if (found == 0) {
            if (!prepared && !prepare(board, key, &mine)) {
                return PRICE_CLAIM_FULL;
            }
            prepared = true;
            if (atomic_compare_exchange_strong(&board->index[at], &found, (unsigned)mine + 1)) {
                *slot = mine;
                return PRICE_CLAIM_MINE;
            }
        }
        if (strcmp(board->entries[found - 1].key, key) == 0) { /* an entry prepared in vain stays empty */
            *slot = found - 1;
            return atomic_load(&board->entries[*slot].ready) ? PRICE_CLAIM_THERE : PRICE_CLAIM_BUSY;
        }
        at = (at + 1) % (2 * board->capacity);
    }
}

void price_board_publish(struct price_board *board, size_t slot, const struct kernel_price *price)
{
    struct entry *entry = &board->entries[slot];
    const char *executed_at = price->result.atomic_executed_at;
    entry->price = *price;
    strncpy(entry->executed_at, executed_at != NULL ? executed_at : "", EXECUTED_AT_CAPACITY - 1);
    atomic_store(&entry->ready, 1);
}

void price_board_take(const struct price_board *board, size_t slot, struct kernel_price *price)
{
    const struct entry *entry = &board->entries[slot];
    *price = entry->price;
    price->result.atomic_executed_at = entry->executed_at[0] != '\0' ? entry->executed_at : NULL;
}

bool price_board_wait(struct price_board *board, size_t slot)
{
    struct entry *entry = &board->entries[slot];
    while (!atomic_load(&entry->ready)) {
        pid_t owner = atomic_load(&entry->owner);
        if (kill(owner, 0) != 0 && errno == ESRCH && !atomic_load(&entry->ready) &&
            atomic_compare_exchange_strong(&entry->owner, &owner, getpid())) {
            return false;
        }
        nanosleep(&(struct timespec){ .tv_nsec = WAIT_NS }, NULL);
    }
    return true;
}
