#include "workloads/kernels/index_draw_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void *checked(void *memory)
{
    SIM_ASSERT(memory != NULL, "index draws: out of memory");
    return memory;
}

/* ---- unbounded Zipf ---- */

/* zeta(alpha) by Euler-Maclaurin after `head` terms. */
static double zeta(double alpha)
{
    double sum = 0, n = INDEX_ZIPF_HEAD;
    for (int k = 1; k < INDEX_ZIPF_HEAD; k++) {
        sum += pow(k, -alpha);
    }
    return sum + pow(n, 1 - alpha) / (alpha - 1) + pow(n, -alpha) / 2 + alpha * pow(n, -alpha - 1) / 12;
}

void zipf_table_init(struct zipf_table *table, double alpha)
{
    SIM_ASSERT(alpha > 1, "zipf alpha %g", alpha);
    table->alpha = alpha;
    table->zeta = zeta(alpha);
    double sum = 0;
    for (int i = 0; i < INDEX_ZIPF_HEAD; i++) {
        sum += pow(i + 1, -alpha) / table->zeta;
        table->cumulative[i] = sum;
    }
    int i = 0;
    for (int g = 0; g <= INDEX_ZIPF_HEAD; g++) {
        while (i < INDEX_ZIPF_HEAD - 1 && table->cumulative[i] <= (double)g / INDEX_ZIPF_HEAD) {
            i++;
        }
        table->guide[g] = (uint16_t)i;
    }
}

uint64_t zipf_table_row(const struct zipf_table *table, uint64_t rows, uint64_t seed, uint64_t position)
{
    for (uint64_t attempt = 0;; attempt++) {
        uint64_t bits = splitmix64_at(seed + (attempt << 48), position) >> 11;
        double u = (double)bits * 0x1.0p-53;
        if (u < table->cumulative[INDEX_ZIPF_HEAD - 1]) {
            uint32_t i = table->guide[bits >> 41];
            while (table->cumulative[i] <= u) {
                i++;
            }
            return (i + 1) % rows;
        }
        /* P(rank > x) = (x + 1/2)^(1 - alpha) / ((alpha - 1) zeta), the midpoint rule. */
        double x = pow((1 - u) * (table->alpha - 1) * table->zeta, -1 / (table->alpha - 1)) + 0.5;
        if (x < 9e18) {
            return (uint64_t)x % rows;
        }
    }
}

/* ---- sources ---- */

/* The `length` smallest distinct of 3 x length draws, ascending; where fewer are distinct, uniform rows follow. */
static void fbgemm_bag(const struct index_source *source, uint64_t bag, uint32_t *out, uint32_t *draws)
{
    uint64_t count = 3 * source->length, kept = 0;
    for (uint64_t i = 0; i < count; i++) {
        draws[i] = (uint32_t)zipf_table_row(source->zipf, source->rows, source->seed, bag * count + i);
    }
    /* Rows below the bound are found by a bitmap; most bags need no others. */
    enum { BOUND = 2048 };
    uint64_t seen[BOUND / 64] = { 0 };
    for (uint64_t i = 0; i < count; i++) {
        if (draws[i] < BOUND) {
            seen[draws[i] / 64] |= 1ull << draws[i] % 64;
        }
    }
    for (uint32_t word = 0; word < BOUND / 64; word++) {
        for (uint64_t bits = seen[word]; bits != 0 && kept < source->length; bits &= bits - 1) {
            out[kept++] = word * 64 + (uint32_t)__builtin_ctzll(bits);
        }
    }
    while (kept < source->length) {
        uint32_t next = UINT32_MAX, above = kept > 0 ? out[kept - 1] : 0;
        for (uint64_t i = 0; i < count; i++) {
            bool larger = kept == 0 || draws[i] > above;
            next = draws[i] >= BOUND && larger && draws[i] < next ? draws[i] : next;
        }
        if (next == UINT32_MAX) {
            break;
        }
        out[kept++] = next;
    }
    for (uint64_t i = 0; kept < source->length; i++) {
        out[kept++] = (uint32_t)(splitmix64_at(source->seed + 1, bag * source->length + i) % source->rows);
    }
}

static void fill_pool(struct index_source *source)
{
    source->pool_bags = min_u64(source->bags, INDEX_POOL_BAGS);
    source->pool = checked(calloc(source->pool_bags * source->length, sizeof *source->pool));
    uint32_t *draws = checked(calloc(3 * source->length, sizeof *draws));
    for (uint64_t bag = 0; bag < source->pool_bags; bag++) {
        fbgemm_bag(source, bag, source->pool + bag * source->length, draws);
    }
    free(draws);
}

struct index_source *index_source_create(enum index_kind kind, double alpha, uint64_t tables, uint64_t bags,
                                         uint64_t length, uint64_t rows, uint64_t seed)
{
    struct index_source *source = checked(calloc(1, sizeof *source));
    *source = (struct index_source){ .kind = kind, .tables = tables, .bags = bags, .length = length, .rows = rows,
                                     .seed = seed, .run = 1, .users = 1 };
    if (kind == INDEX_ZIPF || kind == INDEX_FBGEMM_ZIPF) {
        source->zipf = checked(calloc(1, sizeof *source->zipf));
        zipf_table_init(source->zipf, alpha);
    }
    if (kind == INDEX_FBGEMM_ZIPF) {
        fill_pool(source);
    }
    if (kind == INDEX_ZIPF_BOUNDED) {
        zipf_init(&source->bounded, alpha, rows);
    }
    return source;
}

/* A stride near the golden section of `count` and coprime to it: positions that follow each other land far apart, and
 * each is met once in `count`. */
static uint64_t scattering_stride(uint64_t count)
{
    uint64_t stride = (uint64_t)((double)count * 0.6180339887) | 1;
    for (;; stride += 2) {
        uint64_t a = stride, b = count;
        while (b != 0) {
            uint64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1) {
            return stride % count == 0 ? 1 : stride % count;
        }
    }
}

__extension__ typedef unsigned __int128 wide_product;

static uint64_t scattered(uint64_t at, uint64_t stride, uint64_t count)
{
    return (uint64_t)((wide_product)(at % count) * stride % count);
}

struct index_source *index_source_of_classes(struct index_class *classes, uint64_t count, bool scatter, uint64_t tables,
                                             uint64_t bags, uint64_t length, uint64_t rows)
{
    struct index_source *source = index_source_create(INDEX_UNIFORM, 1, tables, bags, length, rows, 1);
    source->kind = INDEX_COUNTS;
    source->classes = classes;
    source->class_count = count;
    source->class_ends = checked(calloc(count, sizeof *source->class_ends));
    uint64_t end = 0;
    for (uint64_t i = 0; i < count; i++) {
        end += classes[i].rows * classes[i].lookups;
        source->class_ends[i] = end;
    }
    SIM_ASSERT(end > 0, "classes without a lookup");
    source->class_lookups = end;
    source->class_stride = scattering_stride(end);
    source->row_stride = scatter ? scattering_stride(rows) : 1;
    return source;
}

struct index_source *index_source_of_trace(uint32_t *trace, uint64_t count, uint64_t tables, uint64_t bags,
                                           uint64_t length, uint64_t rows)
{
    struct index_source *source = index_source_create(INDEX_UNIFORM, 1, tables, bags, length, rows, 1);
    source->kind = INDEX_TRACE;
    source->trace = trace;
    source->trace_count = count;
    return source;
}

static uint64_t counted_row(const struct index_source *source, uint64_t flat)
{
    uint64_t slot = scattered(flat, source->class_stride, source->class_lookups), low = 0, high = source->class_count;
    while (low < high) { /* first class that ends beyond the slot */
        uint64_t middle = (low + high) / 2;
        if (source->class_ends[middle] > slot) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    const struct index_class *class = &source->classes[low];
    uint64_t within = slot - (source->class_ends[low] - class->rows * class->lookups);
    uint64_t row = class->first_row + within / class->lookups;
    return source->row_stride > 1 ? scattered(row, source->row_stride, source->rows) : row;
}

struct index_source *index_source_share(struct index_source *source)
{
    source->users++;
    return source;
}

void index_source_release(void *memory)
{
    struct index_source *source = memory;
    if (source != NULL && --source->users == 0) {
        free(source->zipf);
        free(source->pool);
        free(source->classes);
        free(source->class_ends);
        free(source->trace);
        free(source);
    }
}

uint64_t index_source_row(const struct index_source *source, uint64_t table, uint64_t bag, uint64_t place)
{
    uint64_t flat = (table * source->bags + bag) * source->length + place;
    if (source->hot_share > 0 &&
        (double)(splitmix64_at(source->seed - 1, flat) >> 11) * 0x1.0p-53 < source->hot_share) {
        return 0;
    }
    switch (source->kind) {
    case INDEX_ZIPF_BOUNDED: {
        struct rng rng;
        rng_init_at(&rng, source->seed, flat);
        return zipf_draw(&source->bounded, &rng) - 1;
    }
    case INDEX_COUNTS:
        return counted_row(source, flat);
    case INDEX_TRACE:
        return source->trace[flat % source->trace_count];
    case INDEX_UNIFORM:
        return splitmix64_at(source->seed, source->run > 1 ? flat / source->run : flat) % source->rows;
    case INDEX_UNIFORM_DISTINCT: {
        uint64_t all = table * source->bags + bag;
        return splitmix64_at(source->seed + all % 16, all / 16 * source->length + place) % source->rows;
    }
    case INDEX_ZIPF:
        return zipf_table_row(source->zipf, source->rows, source->seed, flat);
    default: {
        /* Another table: the same bags, met in another order. */
        uint64_t at = (bag + splitmix64_at(source->seed, table)) % source->pool_bags;
        return source->pool[at * source->length + place];
    }
    }
}

/* ---- runs ---- */

/* Radix sort, 11 bits a pass, over as many bits as `rows` has; the sorted draws are in *draws, the rest in *spare. */
static void sort_rows(uint32_t **draws, uint32_t **spare, uint64_t count, uint64_t rows)
{
    for (uint32_t shift = 0; shift < 32 && (rows - 1) >> shift > 0; shift += 11) {
        uint64_t starts[2048] = { 0 }, sum = 0;
        for (uint64_t i = 0; i < count; i++) {
            starts[((*draws)[i] >> shift) & 2047]++;
        }
        for (uint32_t digit = 0; digit < 2048; digit++) {
            uint64_t here = starts[digit];
            starts[digit] = sum;
            sum += here;
        }
        for (uint64_t i = 0; i < count; i++) {
            (*spare)[starts[((*draws)[i] >> shift) & 2047]++] = (*draws)[i];
        }
        uint32_t *sorted = *spare;
        *spare = *draws;
        *draws = sorted;
    }
}

/* Runs from counts per row; `scale` lookups for each counted one, so that they sum to `lookups`. */
static void runs_append(struct run_table *runs, uint32_t row, uint64_t counted, double scale)
{
    runs->rows[runs->count] = row;
    uint64_t lookups = scale > 1 ? (uint64_t)llround((double)counted * scale) : counted;
    runs->starts[runs->count + 1] = (uint32_t)min_u64(runs->lookups, lookups);
    runs->count++;
}

/* Runs of rows [first, first + count) from their counts, which are set back to 0; returns how many lookups are counted by now. */
static uint64_t runs_of_counts(struct run_table *runs, uint32_t *counts, uint64_t first, uint64_t count, uint64_t counted, double scale)
{
    for (uint64_t i = 0; i < count; i++) {
        if (counts[i] > 0) {
            counted += counts[i];
            runs_append(runs, (uint32_t)(first + i), counted, scale);
            counts[i] = 0;
        }
    }
    return counted;
}

#define BLOCK_BITS 14          /* rows whose counts stay in the host's nearest cache */
#define COUNTS_NEAR (1u << 22) /* rows whose counts still stay in some */

static void draw_rows(const struct index_source *source, uint32_t *draws, uint64_t drawn)
{
    uint64_t bag = 0, place = 0;
    for (uint64_t i = 0; i < drawn; i++) {
        draws[i] = (uint32_t)index_source_row(source, 0, bag, place);
        place = place + 1 < source->length ? place + 1 : 0;
        bag += place == 0;
    }
}

/* Counts of many rows, a block of rows at a time: the draws are dealt to their blocks first. */
static void runs_fill_by_blocks(struct run_table *runs, const struct index_source *source, uint64_t drawn, double scale)
{
    uint64_t blocks = ceil_div(source->rows, 1ull << BLOCK_BITS), counted = 0;
    uint32_t *draws = checked(malloc(drawn * sizeof *draws)), *dealt = checked(malloc(drawn * sizeof *dealt));
    uint64_t *ends = checked(calloc(blocks + 1, sizeof *ends));
    uint32_t *counts = checked(calloc(1ull << BLOCK_BITS, sizeof *counts));
    draw_rows(source, draws, drawn);
    for (uint64_t i = 0; i < drawn; i++) {
        ends[(draws[i] >> BLOCK_BITS) + 1]++;
    }
    for (uint64_t block = 0; block < blocks; block++) {
        ends[block + 1] += ends[block];
    }
    for (uint64_t i = 0; i < drawn; i++) { /* from here on ends[b] is where block b ends */
        dealt[ends[draws[i] >> BLOCK_BITS]++] = draws[i];
    }
    for (uint64_t block = 0, i = 0; block < blocks; block++) {
        for (; i < ends[block]; i++) {
            counts[dealt[i] & ((1u << BLOCK_BITS) - 1)]++;
        }
        counted = runs_of_counts(runs, counts, block << BLOCK_BITS, 1ull << BLOCK_BITS, counted, scale);
    }
    free(draws);
    free(dealt);
    free(ends);
    free(counts);
}

/* Cumulative counts by row: count arrays where rows are not many more than draws, a sorted list of draws where they are. */
static void runs_fill(struct run_table *runs, const struct index_source *source, uint64_t bags, double scale)
{
    uint64_t drawn = bags * source->length;
    if (source->rows <= 4 * drawn && source->rows > COUNTS_NEAR) {
        runs_fill_by_blocks(runs, source, drawn, scale);
        return;
    }
    if (source->rows <= 4 * drawn) {
        uint32_t *counts = checked(calloc(source->rows, sizeof *counts));
        for (uint64_t bag = 0; bag < bags; bag++) {
            for (uint64_t place = 0; place < source->length; place++) {
                counts[index_source_row(source, 0, bag, place)]++;
            }
        }
        runs_of_counts(runs, counts, 0, source->rows, 0, scale);
        free(counts);
        return;
    }
    uint32_t *draws = checked(calloc(drawn, sizeof *draws)), *spare = checked(calloc(drawn, sizeof *spare));
    draw_rows(source, draws, drawn);
    sort_rows(&draws, &spare, drawn, source->rows);
    for (uint64_t i = 0; i < drawn; i++) {
        if (i + 1 == drawn || draws[i + 1] != draws[i]) {
            runs_append(runs, draws[i], i + 1, scale);
        }
    }
    free(draws);
    free(spare);
}

struct run_table *run_table_create(const struct index_source *source)
{
    uint64_t lookups = source->bags * source->length;
    SIM_ASSERT(lookups < UINT32_MAX, "%llu lookups in one table", (unsigned long long)lookups);
    SIM_ASSERT(source->rows <= UINT32_MAX, "%llu rows in one table", (unsigned long long)source->rows);
    uint64_t bags = min_u64(source->bags, max_u64(1, RUN_TABLE_DRAWS / source->length));
    uint64_t most = min_u64(source->rows, bags * source->length);
    struct run_table *runs = checked(calloc(1, sizeof *runs));
    runs->users = 1;
    runs->lookups = lookups;
    runs->rows = checked(calloc(most, sizeof *runs->rows));
    runs->starts = checked(calloc(most + 1, sizeof *runs->starts));
    runs_fill(runs, source, bags, (double)source->bags / (double)bags);
    for (uint64_t run = 1; run < runs->count; run++) {
        runs->longest = run_table_length(runs, run) > run_table_length(runs, runs->longest) ? run : runs->longest;
    }
    return runs;
}

struct run_table *run_table_share(struct run_table *runs)
{
    runs->users++;
    return runs;
}

void run_table_release(void *memory)
{
    struct run_table *runs = memory;
    if (runs != NULL && --runs->users == 0) {
        free(runs->rows);
        free(runs->starts);
        free(runs);
    }
}

uint64_t run_table_bag(const struct run_table *runs, const struct index_source *source, uint64_t table, uint64_t run,
                       uint64_t j)
{
    uint64_t key = (table << 32 | runs->rows[run]) * 0x9E3779B97F4A7C15ull;
    uint64_t group = j / source->run, within = j % source->run; /* equal indices in a row stay together */
    double place = (double)(splitmix64_at(source->seed ^ key, group) >> 11) * 0x1.0p-53;
    double groups = ceil((double)run_table_length(runs, run) / (double)source->run);
    double at = ((double)group + place) / groups * ((double)runs->lookups / (double)source->run);
    uint64_t position = (uint64_t)at * source->run + within;
    return min_u64(position / source->length, source->bags - 1);
}
