/* reckon plan: what to buy or lease for a demand. A demand (docs/schemas/demand) names models with examples a day or a time to
 * train, offers with prices, the site and its limits; each model is priced by the simulator on each offer, and a small integer
 * search finds the mix of offers that meets the demand at least cost. No price is built in. */
#ifndef STUDIES_PROCUREMENT_H
#define STUDIES_PROCUREMENT_H
#include "sim/reckon.h"

struct procurement; /* opaque */

/* Errors: SIM_BAD_FILE, SIM_BAD_ARGUMENT with file, line and key: unknown or missing keys, values out of range, a price missing. */
enum sim_status procurement_read(const char *path, struct procurement **out, struct sim_error *error);
void procurement_free(struct procurement *plan); /* NULL is allowed */

/* Instead of the demand's "samples", before procurement_solve: 8 and more. */
void procurement_set_samples(struct procurement *plan, uint32_t samples);

/* Price every model on every offer and find the mix. Errors: as reckon_predict; SIM_UNSUPPORTED when no mix meets the demand:
 * names the model that no offer can run, or the limit and the least that would be needed. O(models x offers x GPU counts) predictions. */
enum sim_status procurement_solve(struct reckon *reckon, struct procurement *plan, struct sim_error *error);

/* After procurement_solve: "reckon.procurement/1" (docs/schemas). */
struct json *procurement_json(const struct procurement *plan);
size_t procurement_device_count(const struct procurement *plan); /* distinct devices of the offers */
const struct chip_profile *procurement_chip(const struct procurement *plan, size_t index);

#endif
