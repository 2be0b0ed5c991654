/* Prices that several processes share: a table in shared memory, written once per key. Who finds a key missing claims it,
 * works it out and publishes it; who finds it claimed by another does something else first and then waits. An answer never
 * depends on who priced what, since a price depends on its key alone. */
#ifndef SIM_STEP_PRICE_BOARD_H
#define SIM_STEP_PRICE_BOARD_H
#include "sim/step/kernel_price.h"
#include <stddef.h>

struct price_board;

/* `path` NULL: shared with processes forked from now on. Else a file that any process of this program maps, created zeroed where
 * it is missing; all give the same capacity. SIM_NO_MEMORY, SIM_BAD_FILE. */
enum sim_status price_board_open(const char *path, size_t capacity, struct price_board **out, struct sim_error *error);
void price_board_close(struct price_board *board); /* NULL is allowed */

enum price_claim {
    PRICE_CLAIM_MINE,  /* work it out, then publish */
    PRICE_CLAIM_THERE, /* take it */
    PRICE_CLAIM_BUSY,  /* another process is at it: wait for it */
    PRICE_CLAIM_FULL   /* no room: work it out and keep it */
};

/* `slot` is for the calls below. Keys shorter than PRICE_KEY_CAPACITY (asserted). */
enum price_claim price_board_claim(struct price_board *board, const char *key, size_t *slot);
void price_board_publish(struct price_board *board, size_t slot, const struct kernel_price *price);
/* After THERE, or after a wait that says true. Texts of the price are the board's, or static. */
void price_board_take(const struct price_board *board, size_t slot, struct kernel_price *price);
/* Wait until it is there. False: its process has died, and the claim is now the caller's. */
bool price_board_wait(struct price_board *board, size_t slot);

#endif
