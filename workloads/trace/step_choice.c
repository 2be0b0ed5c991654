/* Which step of a file. Steps are the ProfilerStep#N annotations. A device event belongs to the step in which its launch
 * began, on whatever thread: device time lags behind the host, so device time would cut the work elsewhere. The default is
 * the last step with at least half the device events of the fullest one (a recording may stop in the middle). Without
 * annotations the whole file is one step. A device event whose launch is not in the file belongs to the step in which it
 * began. */
#include "workloads/trace/trace_internal.h"
#include <stdlib.h>
#include <string.h>

static const char prefix[] = "ProfilerStep#";

bool trace_is_device(uint32_t category)
{
    return category == TRACE_KERNEL || category == TRACE_MEMCPY || category == TRACE_MEMSET;
}

bool step_marker_is(uint32_t category, const char *name, size_t name_length)
{
    return (category == TRACE_ANNOTATION || category == TRACE_OPERATOR) && name_length >= sizeof prefix - 1 &&
           memcmp(name, prefix, sizeof prefix - 1) == 0;
}

void step_survey_add(struct step_survey *survey, int64_t start_ns, int64_t duration_ns, const char *name)
{
    if (survey->marker_count == survey->marker_capacity) {
        survey->marker_capacity = survey->marker_capacity == 0 ? 8 : survey->marker_capacity * 2;
        survey->markers = realloc(survey->markers, survey->marker_capacity * sizeof *survey->markers);
        SIM_ASSERT(survey->markers != NULL, "out of memory");
    }
    survey->markers[survey->marker_count++] = (struct step_marker){
        start_ns, start_ns + duration_ns, strtol(name + sizeof prefix - 1, NULL, 10), name, 0
    };
}

static int compare_markers(const void *a, const void *b)
{
    const struct step_marker *x = a, *y = b;
    if (x->start_ns != y->start_ns) {
        return x->start_ns < y->start_ns ? -1 : 1;
    }
    return x->number < y->number ? -1 : x->number > y->number;
}

void step_survey_sort(struct step_survey *survey)
{
    if (survey->marker_count > 0) {
        qsort(survey->markers, survey->marker_count, sizeof *survey->markers, compare_markers);
    }
}

/* The marker in which `at` lies, or NULL. */
static struct step_marker *marker_at(const struct step_survey *survey, int64_t at)
{
    size_t low = 0, high = survey->marker_count; /* markers[0 .. low) start at or before it */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (survey->markers[middle].start_ns <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 && at < survey->markers[low - 1].end_ns ? &survey->markers[low - 1] : NULL;
}

void step_survey_count(struct step_survey *survey, int64_t start_ns)
{
    struct step_marker *marker = marker_at(survey, start_ns);
    survey->device_total++;
    if (marker != NULL) {
        marker->device_count++;
        survey->device_inside++;
    }
}

const struct step_marker *step_survey_choose(const struct step_survey *survey, int32_t number)
{
    size_t most = 0;
    for (size_t i = 0; i < survey->marker_count; i++) {
        most = survey->markers[i].device_count > most ? survey->markers[i].device_count : most;
    }
    for (size_t i = survey->marker_count; i-- > 0;) {
        const struct step_marker *marker = &survey->markers[i];
        if (number >= 0 ? marker->number == number : marker->device_count * 2 >= most) {
            return marker;
        }
    }
    return NULL;
}

void step_survey_finish(struct step_survey *survey)
{
    free(survey->markers);
    *survey = (struct step_survey){ 0 };
}
