/* Observation points. A model holds a `struct probe` and notes what happens; when nobody listens, a note is one compare.
 * Listeners watch and never change what they watch: a run with and without them gives the same bytes. */
#ifndef SIM_CORE_PROBES_H
#define SIM_CORE_PROBES_H
#include <stddef.h>
#include <stdint.h>

/* What is told: `what` is a code that the model's header lists, `at_ps` the time, `subject` whom it concerns (a unit, a
 * slice, a line), `value` in the unit that the code's line states. */
struct probe_note {
    uint32_t what;
    uint32_t subject;
    uint64_t at_ps;
    uint64_t value;
};

struct probe { /* zeroed: nobody listens */
    void (*listen)(void *context, const struct probe_note *note);
    void *context;
};

static inline void probe_tell(const struct probe *probe, uint32_t what, uint32_t subject, uint64_t at_ps,
                              uint64_t value)
{
    if (__builtin_expect(probe->listen != NULL, 0)) {
        struct probe_note note = { .what = what, .subject = subject, .at_ps = at_ps, .value = value };
        probe->listen(probe->context, &note);
    }
}

#endif
