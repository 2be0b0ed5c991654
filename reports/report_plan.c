/* What to buy or lease for a demand. */
#include "reports/report_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OFFERS_MAX 16
#define SWINGS_SHOWN 16

static bool truth(const struct json *object, const char *key)
{
    const struct json *value = object != NULL ? json_get(object, key) : NULL;
    return value != NULL && json_kind_of(value) == JSON_BOOL && json_bool(value);
}

/* ---- verdict */

static void put_even(struct page *page, const struct json *alone)
{
    const struct json *even = object_of(alone, "break_even");
    if (strcmp(string_of(alone, "offer"), string_of(even, "against")) == 0) {
        return;
    }
    page_paragraph_begin(page, NULL);
    page_strong(page, string_of(alone, "offer"));
    if (!isfinite(number_of(even, "ratio"))) {
        page_text(page, ": no break-even price against ");
        page_text(page, string_of(even, "against"));
        page_text(page, ", since ");
        page_text(page, string_of(even, "reason"));
        page_text(page, ".");
        page_paragraph_end(page);
        return;
    }
    page_text(page, " costs the same as ");
    page_text(page, string_of(even, "against"));
    page_text(page, " for the whole demand at ");
    page_fixed(page, number_of(even, "ratio"), 2, "x");
    if (isfinite(number_of(even, "ratio_low"))) {
        page_text(page, " [");
        page_fixed(page, number_of(even, "ratio_low"), 2, "");
        page_text(page, ", ");
        page_fixed(page, number_of(even, "ratio_high"), 2, "");
        page_text(page, "]");
    }
    page_text(page, " its price; the demand has ");
    page_fixed(page, number_of(even, "given"), 2, "x");
    page_text(page, ", which is ");
    double given = number_of(even, "given"), low = number_of(even, "ratio_low"), high = number_of(even, "ratio_high");
    low = isfinite(low) ? low : number_of(even, "ratio");
    high = isfinite(high) ? high : number_of(even, "ratio");
    page_text(page, given > high ? "dearer." : given < low ? "cheaper." : "within the doubt.");
    page_paragraph_end(page);
}

/* "3 racks", "1 rack" */
static void put_count(struct page *page, double count, const char *one, const char *many)
{
    page_number(page, count, 6, 1, count == 1 ? one : many);
}

/* " (200 MI350X, 112 B200)", or of one offer " of MI350X" */
static void put_offers(struct page *page, const struct json *fleet)
{
    size_t taken = 0, last = 0;
    for (size_t i = 0; i < json_count(fleet); i++) {
        if (number_of(json_at(fleet, i), "gpus") > 0) {
            taken++;
            last = i;
        }
    }
    if (taken == 1) {
        page_text(page, " of ");
        page_strong(page, string_of(json_at(fleet, last), "offer"));
        return;
    }
    for (size_t i = 0, shown = 0; i < json_count(fleet); i++) {
        if (number_of(json_at(fleet, i), "gpus") > 0) {
            page_text(page, shown++ == 0 ? " (" : ", ");
            page_number(page, number_of(json_at(fleet, i), "gpus"), 6, 1, " ");
            page_strong(page, string_of(json_at(fleet, i), "offer"));
        }
    }
    page_text(page, taken > 0 ? ")" : "");
}

static void put_verdict(struct page *page, const struct json *root)
{
    const struct json *alone = object_of(root, "alone");
    const char *currency = string_of(root, "currency");
    page_verdict_begin(page);
    page_paragraph_begin(page, NULL);
    page_text(page, "The cheapest mix that meets the demand is ");
    put_count(page, number_of(root, "gpus"), " GPU", " GPUs");
    put_offers(page, object_of(root, "fleet"));
    page_text(page, " in ");
    put_count(page, number_of(root, "nodes"), " node", " nodes");
    page_text(page, " and ");
    put_count(page, number_of(root, "racks"), " rack", " racks");
    page_text(page, ", ");
    page_number(page, number_of(root, "kw_rated"), 4, 1, " kW");
    page_text(page, " rated: ");
    page_text(page, currency);
    page_text(page, " ");
    page_number(page, number_of(root, "capital"), 4, 1, "");
    page_text(page, " capital and ");
    page_number(page, number_of(root, "running_per_year"), 4, 1, "");
    page_text(page, " a year to run, ");
    page_number(page, number_of(root, "cost_per_billion_examples"), 4, 1, "");
    report_interval(page, number_of(root, "cost_per_billion_examples_low"), number_of(root, "cost_per_billion_examples_high"));
    page_text(page, " a billion examples over ");
    put_count(page, number_of(root, "years"), " year", " years");
    page_text(page, ".");
    page_paragraph_end(page);
    if (truth(root, "example_prices")) {
        page_paragraph_begin(page, "bad");
        page_text(page, "Prices are examples, of no vendor and no quote: put your own in before you decide.");
        page_paragraph_end(page);
    }
    for (size_t i = 0; alone != NULL && i < json_count(alone); i++) {
        put_even(page, json_at(alone, i));
    }
    report_ask_samples(page, number_of(root, "samples") > 0);
    page_verdict_end(page);
}

/* ---- the fleet */

static void put_fleet(struct page *page, const struct json *root)
{
    static const struct page_column columns[] = { { "offer", false, false },   { "device", false, false }, { "nodes", true, false }, { "GPUs", true, false },
                                                  { "racks", true, false },    { "kW rated", true, false }, { "kW mean", true, false },
                                                  { "capital", true, false }, { "lease", true, false },   { "energy", true, false }, { "upkeep", true, false },
                                                  { "cost", true, false } };
    static const char *const keys[] = { "nodes", "gpus", "racks", "kw_rated", "kw_mean", "capital", "lease", "energy", "upkeep", "cost" };
    static const char *const parts[] = { "capital", "lease", "energy", "upkeep" };
    const struct json *fleet = object_of(root, "fleet"), *alone = object_of(root, "alone");
    double values[OFFERS_MAX + 1][4];
    struct chart_bar bars[OFFERS_MAX + 1];
    char labels[OFFERS_MAX][80];
    size_t count = 0;
    page_section(page, "fleet", "The mix");
    page_table_begin(page, "fleet-table", "What the mix is made of; money over all years", columns, 12);
    for (size_t i = 0; i < json_count(fleet); i++) {
        page_row_begin(page);
        page_cell(page, string_of(json_at(fleet, i), "offer"), false);
        page_cell(page, string_of(json_at(fleet, i), "device"), false);
        for (size_t k = 0; k < 10; k++) {
            page_cell_number(page, number_of(json_at(fleet, i), keys[k]), 4, 1, "");
        }
        page_row_end(page);
    }
    page_table_end(page);
    for (size_t k = 0; k < 4; k++) {
        values[0][k] = 0;
        for (size_t i = 0; i < json_count(fleet); i++) {
            values[0][k] += number_of(json_at(fleet, i), parts[k]);
        }
    }
    bars[count++] = (struct chart_bar){ "the mix", values[0], number_of(root, "cost_total"), number_of(root, "cost_total_low"), number_of(root, "cost_total_high"), NAN, "" };
    for (size_t i = 0; i < json_count(alone) && count <= OFFERS_MAX; i++) {
        const struct json *one = json_at(alone, i);
        if (truth(one, "possible")) {
            for (size_t k = 0; k < 4; k++) {
                values[count][k] = number_of(one, parts[k]);
            }
            snprintf(labels[i], sizeof labels[i], "%.50s alone", string_of(one, "offer"));
            bars[count] = (struct chart_bar){ labels[i], values[count], number_of(one, "cost_total"), NAN, NAN, NAN, "" };
            count++;
        }
    }
    chart_bars(page, "Cost over all years", string_of(root, "currency"), parts, 4, bars, count);
}

static void put_alone(struct page *page, const struct json *root)
{
    static const struct page_column columns[] = { { "one offer alone", false, false }, { "GPUs", true, false },  { "nodes", true, false },
                                                  { "kW rated", true, false },         { "capital", true, false }, { "running", true, false },
                                                  { "cost", true, false },             { "over the mix", true, false },
                                                  { "a billion examples", true, false }, { "break-even price", true, false },
                                                  { "break-even low", true, false },   { "break-even high", true, false }, { "price given", true, false } };
    static const char *const keys[] = { "gpus", "nodes", "kw_rated", "capital", "running", "cost_total", "cost_over_mix", "cost_per_billion_examples" };
    static const char *const even_keys[] = { "ratio", "ratio_low", "ratio_high", "given" };
    const struct json *alone = object_of(root, "alone");
    page_section(page, "alone", "Each offer by itself, and the price at which it would be even");
    page_table_begin(page, "alone-table", "The whole demand on one offer; prices over that of the first", columns, 13);
    for (size_t i = 0; i < json_count(alone); i++) {
        const struct json *one = json_at(alone, i), *even = object_of(one, "break_even");
        page_row_begin(page);
        page_cell(page, string_of(one, "offer"), false);
        for (size_t k = 0; k < 8; k++) {
            page_cell_number(page, number_of(one, keys[k]), 4, 1, "");
        }
        for (size_t k = 0; k < 4; k++) {
            fputs("<td class=n>", page->out);
            page_fixed(page, number_of(even, even_keys[k]), 2, "x");
            fputs("</td>", page->out);
        }
        page_row_end(page);
    }
    page_table_end(page);
}

/* ---- models */

static void put_models(struct page *page, const struct json *root)
{
    static const struct page_column columns[] = { { "model", false, false },     { "offer", false, false },   { "jobs", true, false },
                                                  { "GPUs a job", true, false }, { "step", true, false },     { "examples/s a job", true, false },
                                                  { "examples/s low", true, false }, { "examples/s high", true, false }, { "goodput", true, false },
                                                  { "GPU power", true, false },  { "remark", false, true } };
    const struct json *models = object_of(root, "models");
    page_section(page, "models", "Models");
    page_table_begin(page, "models-table", "Every model on every offer; jobs 0: the mix does not use it there", columns, 11);
    for (size_t m = 0; m < json_count(models); m++) {
        const struct json *model = json_at(models, m), *offers = object_of(model, "offers");
        for (size_t o = 0; o < json_count(offers); o++) {
            const struct json *offer = json_at(offers, o);
            fputs(number_of(offer, "jobs") > 0 ? "<tr class=key>" : "<tr>", page->out);
            page_cell(page, string_of(model, "model"), false);
            page_cell(page, string_of(offer, "offer"), false);
            page_cell_number(page, number_of(offer, "jobs"), 6, 1, "");
            page_cell_number(page, number_of(offer, "gpus_per_job"), 6, 1, "");
            page_cell_number(page, number_of(offer, "step_ms"), 4, 1, " ms");
            page_cell_number(page, number_of(offer, "examples_per_s"), 4, 1, "");
            page_cell_number(page, number_of(offer, "examples_per_s_low"), 4, 1, "");
            page_cell_number(page, number_of(offer, "examples_per_s_high"), 4, 1, "");
            page_cell_number(page, number_of(object_of(offer, "goodput"), "goodput"), 3, 100, "%");
            page_cell_number(page, number_of(offer, "watts"), 3, 1, " W");
            page_cell(page, string_of(offer, "reason"), true);
            page_row_end(page);
        }
    }
    page_table_end(page);
}

static void put_demand(struct page *page, const struct json *root)
{
    const struct json *models = object_of(root, "models");
    struct page_column columns[24] = { { "model", false, false }, { "kind", false, false } };
    char titles[16][16];
    size_t years = json_count(models) > 0 ? json_count(object_of(json_at(models, 0), "examples_per_day_by_year")) : 0;
    years = years > 16 ? 16 : years;
    for (size_t y = 0; y < years; y++) {
        snprintf(titles[y], sizeof titles[y], "year %zu", y + 1);
        columns[2 + y] = (struct page_column){ titles[y], true, false };
    }
    columns[2 + years] = (struct page_column){ "the mix gives", true, false };
    columns[3 + years] = (struct page_column){ "to spare", true, false };
    page_section(page, "demand", "Demand and what the mix gives");
    page_table_begin(page, "demand-table", "Examples a day", columns, 4 + years);
    for (size_t m = 0; m < json_count(models); m++) {
        const struct json *model = json_at(models, m), *by_year = object_of(model, "examples_per_day_by_year");
        page_row_begin(page);
        page_cell(page, string_of(model, "model"), false);
        page_cell(page, string_of(model, "kind"), false);
        for (size_t y = 0; y < years; y++) {
            page_cell_number(page, json_number(json_at(by_year, y)), 4, 1, "");
        }
        page_cell_number(page, number_of(model, "given_per_day"), 4, 1, "");
        fputs("<td class=n>", page->out);
        page_signed_percent(page, number_of(model, "spare_share"));
        fputs("</td>", page->out);
        page_row_end(page);
    }
    page_table_end(page);
}

/* Of the jobs that the mix has. */
static void put_reliability(struct page *page, const struct json *root)
{
    static const struct page_column columns[] = { { "model", false, false },      { "offer", false, false },          { "between failures", true, false },
                                                  { "a checkpoint takes", true, false }, { "one every", true, false }, { "left after failures", true, false },
                                                  { "left after checks", true, false }, { "goodput", true, false } };
    const struct json *models = object_of(root, "models");
    page_section(page, "goodput", "Goodput: failures, checkpoints, silent corruption");
    page_table_begin(page, "goodput-table", "Of the mix's jobs; the interval between checkpoints is Daly's", columns, 8);
    for (size_t m = 0; m < json_count(models); m++) {
        const struct json *offers = object_of(json_at(models, m), "offers");
        for (size_t o = 0; o < json_count(offers); o++) {
            const struct json *offer = json_at(offers, o), *goodput = object_of(offer, "goodput");
            if (!(number_of(offer, "jobs") > 0)) {
                continue;
            }
            page_row_begin(page);
            page_cell(page, string_of(json_at(models, m), "model"), false);
            page_cell(page, string_of(offer, "offer"), false);
            page_cell_number(page, number_of(goodput, "mtbf_hours"), 3, 1, " h");
            page_cell_number(page, number_of(goodput, "checkpoint_s"), 3, 1, " s");
            page_cell_number(page, number_of(goodput, "checkpoint_interval_s"), 3, 1, " s");
            page_cell_number(page, number_of(goodput, "after_failures"), 4, 100, "%");
            page_cell_number(page, number_of(goodput, "after_checks"), 4, 100, "%");
            page_cell_number(page, number_of(goodput, "goodput"), 4, 100, "%");
            page_row_end(page);
        }
    }
    page_table_end(page);
}

static void put_memory(struct page *page, const struct json *root)
{
    static const struct page_column columns[] = { { "model", false, false },  { "offer", false, false },  { "peak", true, false },     { "reserve", true, false },
                                                  { "capacity", true, false }, { "free", true, false },   { "layers", true, false },   { "layers that fit", true, false },
                                                  { "rows", true, false },    { "rows that fit", true, false }, { "sequence", true, false }, { "sequence that fits", true, false } };
    static const char *const keys[] = { "memory_peak_gib", "memory_reserve_gib", "memory_capacity_gib", "memory_free_gib" };
    static const char *const rooms[] = { "layers_now", "layers", "rows_now", "rows", "sequence_now", "sequence" };
    const struct json *models = object_of(root, "models");
    page_section(page, "memory", "Memory headroom");
    page_table_begin(page, "memory-table", "GiB of a GPU; then the most of one size that still fits, all else as it is, to a sixteenth (rows: of every table alike; looked for up to 128 times)", columns,
                     12);
    for (size_t m = 0; m < json_count(models); m++) {
        const struct json *offers = object_of(json_at(models, m), "offers");
        for (size_t o = 0; o < json_count(offers); o++) {
            const struct json *offer = json_at(offers, o);
            if (!truth(offer, "possible")) {
                continue;
            }
            page_row_begin(page);
            page_cell(page, string_of(json_at(models, m), "model"), false);
            page_cell(page, string_of(offer, "offer"), false);
            for (size_t k = 0; k < 4; k++) {
                page_cell_number(page, number_of(offer, keys[k]), 4, 1, "");
            }
            for (size_t k = 0; k < 6; k++) {
                const struct json *room = object_of(offer, "headroom");
                char more[32];
                snprintf(more, sizeof more, "%s_more", rooms[k]);
                page_cell_number(page, number_of(room, rooms[k]), 4, 1, truth(room, more) ? " or more" : "");
            }
            page_row_end(page);
        }
    }
    page_table_end(page);
}

/* ---- sensitivity */

static void put_sensitivity(struct page *page, const struct json *root)
{
    static const struct page_column columns[] = { { "assumption", false, true }, { "low", true, false },       { "high", true, false },
                                                  { "range", false, false },     { "cost at low", true, false }, { "cost at high", true, false } };
    const struct json *list = object_of(root, "sensitivity");
    struct chart_swing swings[SWINGS_SHOWN];
    size_t count = 0;
    for (size_t i = 0; i < json_count(list) && count < SWINGS_SHOWN; i++) {
        double low = number_of(json_at(list, i), "cost_low"), high = number_of(json_at(list, i), "cost_high");
        if (isfinite(low) && isfinite(high) && low != high) {
            swings[count++] = (struct chart_swing){ string_of(json_at(list, i), "key"), low, high };
        }
    }
    page_section(page, "sensitivity", "What the cost hangs on");
    page_paragraph_begin(page, "soft");
    page_text(page, "The plan is made anew at each end of each assumption, so the mix may change with it. The first colour is the low end, the second "
                    "the high end. No cost: no mix meets the demand there.");
    page_paragraph_end(page);
    chart_swings(page, "Cost as each assumption goes from its low to its high end", string_of(root, "currency"), number_of(root, "cost_total"), swings, count);
    page_table_begin(page, "sensitivity-table", "Every assumption", columns, 6);
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *swing = json_at(list, i);
        page_row_begin(page);
        page_cell(page, string_of(swing, "key"), true);
        page_cell_number(page, number_of(swing, "low"), 4, 1, "");
        page_cell_number(page, number_of(swing, "high"), 4, 1, "");
        page_cell(page, truth(swing, "range_given") ? "given" : "a tenth either way", false);
        page_cell_number(page, number_of(swing, "cost_low"), 5, 1, "");
        page_cell_number(page, number_of(swing, "cost_high"), 5, 1, "");
        page_row_end(page);
    }
    page_table_end(page);
}

static void put_assumptions(struct page *page, const struct json *root)
{
    static const struct page_column columns[] = { { "assumption", false, true }, { "value", true, false }, { "low", true, false }, { "high", true, false }, { "source", false, true } };
    const struct json *list = object_of(root, "assumptions");
    page_section(page, "assumed", "What is assumed");
    fputs("<ul class=notes>\n", page->out);
    page_notes(page, object_of(root, "notes"), "");
    fputs("</ul>\n<details><summary>Every number of the demand</summary>\n", page->out);
    page_table_begin(page, "assumptions-table", "Numbers of the demand", columns, 5);
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *value = json_at(list, i);
        page_row_begin(page);
        page_cell(page, string_of(value, "key"), true);
        page_cell_number(page, number_of(value, "value"), 6, 1, "");
        page_cell_number(page, number_of(value, "low"), 6, 1, "");
        page_cell_number(page, number_of(value, "high"), 6, 1, "");
        page_cell(page, string_of(value, "source"), true);
        page_row_end(page);
    }
    page_table_end(page);
    fputs("</details>\n", page->out);
}

void report_plan(struct page *page, const struct report_run *run)
{
    const struct json *root = document_at(page->document, 0);
    char lead[160];
    snprintf(lead, sizeof lead, "Procurement plan over %g years, in %s%s.", number_of(root, "years"), string_of(root, "currency"),
             truth(root, "example_prices") ? ", at example prices" : "");
    page_begin(page, string_of(root, "demand"), lead);
    put_verdict(page, root);
    put_fleet(page, root);
    put_alone(page, root);
    put_models(page, root);
    put_demand(page, root);
    put_reliability(page, root);
    put_memory(page, root);
    put_sensitivity(page, root);
    put_assumptions(page, root);
    page_end(page, run);
}
