/* The steady step of a prediction as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open: Chrome's JSON. Names,
 * categories and the numbering of processes and streams are those of a PyTorch profile, so that both can be laid side by side. */
#ifndef REPORTS_PERFETTO_H
#define REPORTS_PERFETTO_H
#include "sim/reckon.h"

/* Processes: rank R's host calls, R's device, R's communication that nothing hides; counters of the first rank's device. Several predictions
 * (devices) follow one another in the numbering. Errors: SIM_BAD_FILE; a prediction without a timeline is left out. */
enum sim_status perfetto_write(struct reckon_prediction *const *predictions, size_t count, const char *path, struct sim_error *error);

#endif
