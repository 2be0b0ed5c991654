#include "reports/report_internal.h"
#include "sim/reckon.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A kind of answer and its page. */
static const struct {
    const char *schema;
    void (*write)(struct page *page, const struct report_run *run);
    bool series; /* zoomable series on the page */
} kinds[] = {
    { "reckon.predict/1", report_predict, true },    { "reckon.kernel/1", report_kernel, false },
    { "reckon.atomics/1", report_atomics, true },    { "reckon.validate/1", report_validate, false },
    { "reckon.collective/1", report_collective, false }, { "reckon.procurement/1", report_plan, false },
    { "reckon.compare/1", report_compare, false },   { "reckon.advise/1", report_advise, false },
    { "reckon.sweep/1", report_sweep, false },
};

static const char *schema_of(const struct json *document)
{
    return document_count(document) > 0 && json_kind_of(document_at(document, 0)) == JSON_OBJECT
               ? string_of(document_at(document, 0), "schema")
               : "";
}

enum sim_status report_write(const struct json *document, const struct report_run *run, const char *path, struct sim_error *error)
{
    const char *schema = schema_of(document);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        if (strcmp(schema, kinds[k].schema) != 0) {
            continue;
        }
        struct output_file file;
        enum sim_status status = output_file_open(&file, "--html ", path, error);
        if (status != SIM_OK) {
            return status;
        }
        struct page page = { .out = file.stream, .document = document, .series = kinds[k].series };
        kinds[k].write(&page, run);
        return output_file_close(&file, error);
    }
    return sim_fail(error, SIM_UNSUPPORTED, "--html: no page for %s", schema[0] != '\0' ? schema : "an answer without a schema");
}
